#include "worker/process.h"

#include <csignal>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "worker/process_testing.h"

namespace noetl::worker {
namespace {

class Processes : public ProcessRunTest {};

TEST_F(Processes, GiveOutputAndExitCode) {
  const ProcessExit exit = Run(ShellSpec("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.stdout_text, "out\n");
  EXPECT_EQ(exit.stderr_text, "err\n");
  EXPECT_FALSE(exit.timed_out || exit.stopped || exit.out_of_memory || exit.stdout_truncated);
  EXPECT_GT(exit.memory_kb_max, 0);
  ExpectNothingLeft();
}

TEST_F(Processes, ReadTheirInputWhole) {
  ProcessSpec spec = ShellSpec("wc -c");
  spec.stdin_text.assign(3'000'000, 'x');
  EXPECT_EQ(Run(std::move(spec)).stdout_text, "3000000\n");
  // One that does not read it is no problem either.
  ProcessSpec deaf = ShellSpec("exec <&-; echo no");
  deaf.stdin_text.assign(3'000'000, 'x');
  EXPECT_EQ(Run(std::move(deaf)).stdout_text, "no\n");
}

TEST_F(Processes, HaveOnlyTheGivenEnvironment) {
  setenv("NOETL_TEST_SECRET", "hidden", 1);
  ProcessSpec spec = ShellSpec("env | sed 's/=.*//' | sort | tr '\\n' ' '");
  spec.env = {{"MINE", "1"}, {"LANG", "C"}};
  // PWD is the shell's own.
  EXPECT_EQ(Run(std::move(spec)).stdout_text, "HOME LANG MINE PATH PWD TMPDIR TZ ");
  unsetenv("NOETL_TEST_SECRET");
}

TEST_F(Processes, RunInAPrivateDirectoryThatIsRemoved) {
  const ProcessExit exit = Run(
      ShellSpec("pwd; echo $HOME; echo $TMPDIR; stat -c %a .; umask; mkdir -p a/b; echo x > a/b/c; "
                "chmod 0 a/b a"));
  std::istringstream lines(exit.stdout_text);
  std::string cwd, home, temporary, mode, mask;
  lines >> cwd >> home >> temporary >> mode >> mask;
  EXPECT_TRUE(cwd.starts_with(folder_)) << cwd;
  EXPECT_EQ(home, cwd);
  EXPECT_EQ(temporary, cwd);
  EXPECT_EQ(mode, "700");
  EXPECT_EQ(mask, "0077");
  EXPECT_FALSE(std::filesystem::exists(cwd));
  ProcessSpec elsewhere = ShellSpec("pwd");
  elsewhere.cwd = "/usr";
  EXPECT_EQ(Run(std::move(elsewhere)).stdout_text, "/usr\n");
}

TEST_F(Processes, InheritNoDescriptorsAndNoSignals) {
  const int secret = open("/dev/null", O_RDONLY);  // not close-on-exec
  const auto before = signal(SIGUSR1, SIG_IGN);
  const ProcessExit exit = Run(PythonSpec(
      "import os, signal\n"
      "print(sorted(os.listdir('/proc/self/fd'))[:4], signal.getsignal(signal.SIGUSR1).name)\n"
      "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
      "print(os.getsid(0) == os.getpid() == os.getpgrp())\n"
      "print([l for l in open('/proc/self/status') if 'NoNewPrivs' in l][0].split()[1])\n"));
  // The fourth is the directory that is being listed.
  EXPECT_EQ(exit.stdout_text, "['0', '1', '2', '3'] SIG_DFL\nset()\nTrue\n1\n") << exit.stderr_text;
  signal(SIGUSR1, before);
  close(secret);
}

TEST_F(Processes, HaveLimits) {
  ProcessSpec spec = ShellSpec("ulimit -n; ulimit -c; ulimit -f; ulimit -d; ulimit -t");
  spec.limits.timeout_ms = 10'000;
  spec.limits.memory_mb = 100;
  spec.limits.open_files_max = 50;
  spec.limits.file_bytes_max = 512 * 1000;
  EXPECT_EQ(Run(std::move(spec)).stdout_text, "50\n0\n1000\n102400\n16\n");
  ProcessSpec file = ShellSpec("head -c 100000 /dev/zero > big");
  file.limits.file_bytes_max = 1000;
  EXPECT_NE(Run(std::move(file)).code, 0);
}

TEST_F(Processes, FailToStartWithAReason) {
  const auto start = [this](ProcessSpec spec) {
    auto started = supervisor_->Start(std::move(spec), [](ProcessExit) { FAIL(); });
    return started ? std::string("started") : started.error().code + ": " + started.error().message;
  };
  ProcessSpec spec = ShellSpec("true");
  spec.argv[0] = "no-such-program";
  EXPECT_TRUE(start(spec).starts_with("not_found: there is no program 'no-such-program'"));
  spec.argv[0] = "/etc/passwd";
  EXPECT_EQ(start(spec), "not_found: /etc/passwd: Permission denied");
  spec = ShellSpec("true");
  spec.cwd = "/no/such/directory";
  EXPECT_EQ(start(spec), "cwd: directory /no/such/directory: No such file or directory");
  spec = ShellSpec(std::string(200'000, 'x'));
  EXPECT_EQ(start(spec), "too_long: sh: Argument list too long");
  ExpectNothingLeft();
}

TEST_F(Processes, OutputComesAsItIsWritten) {
  std::string seen;
  ProcessSpec spec = ShellSpec("echo one; read line; echo two");
  const auto state = [&] {
    spec.output = [&](OutputStream stream, std::string_view text) {
      EXPECT_EQ(stream, OutputStream::kStdout);
      seen += text;
    };
    spec.argv[2] = "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two";
    return Begin(std::move(spec));
  }();
  WaitUntil([&] { return seen == "one\n"; });
  EXPECT_FALSE(state->exit.has_value());
  const std::string go = Files().at(0) + "/go";
  close(open(go.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(Finish(state).stdout_text, "one\ntwo\n");
  EXPECT_EQ(seen, "one\ntwo\n");
}

TEST_F(Processes, LongOutputKeepsItsEnds) {
  ProcessSpec spec = ShellSpec("echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo end");
  spec.limits.output_bytes_max = 30;
  const ProcessExit exit = Run(std::move(spec));
  EXPECT_TRUE(exit.stdout_truncated);
  EXPECT_FALSE(exit.stderr_truncated);
  EXPECT_EQ(exit.stdout_text,
            "begin\nxxxxxxxxxxxxxx\n... 999980 bytes are left out here ...\nxxxxxxend\n");
}

TEST_F(Processes, StopIsPoliteFirst) {
  ProcessSpec spec =
      ShellSpec("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  std::string seen;
  spec.output = [&](OutputStream, std::string_view text) { seen += text; };
  const auto state = Begin(std::move(spec));
  WaitUntil([&] { return seen.contains("ready"); });
  state->process->Stop();
  state->process->Stop();
  const ProcessExit exit = Finish(state);
  EXPECT_TRUE(exit.stopped);
  EXPECT_EQ(exit.code, 7);
  EXPECT_TRUE(exit.stdout_text.contains("bye"));
  ExpectNothingLeft();
}

TEST_F(Processes, AStoppedProcessCanBeStopped) {
  const auto state = Begin(ShellSpec("kill -STOP $$"));
  state->process->Stop();
  EXPECT_TRUE(Finish(state).stopped);
}

TEST_F(Processes, ATimeLimitEndsIt) {
  ProcessSpec spec = ShellSpec("echo begun; sleep 1000");
  spec.limits.timeout_ms = 100;
  const ProcessExit exit = Run(std::move(spec));
  EXPECT_TRUE(exit.timed_out);
  EXPECT_EQ(exit.code, 128 + SIGTERM);
  EXPECT_EQ(exit.signal, SIGTERM);
  EXPECT_EQ(exit.stdout_text, "begun\n");
  ExpectNothingLeft();
}

TEST_F(Processes, DestroyingAHandleEndsTheProcess) {
  for (int i = 0; i < 3; ++i) {
    auto state = Begin(ShellSpec("trap '' TERM; sleep 1000 & sleep 1000"));
    state->process.reset();
    WaitUntil([&] { return supervisor_->running() == 0; });
    EXPECT_FALSE(state->exit.has_value());
    ExpectNothingLeft();
  }
}

TEST_F(Processes, DestroyingTheSupervisorEndsAll) {
  const auto one = Begin(ShellSpec("setsid sleep 1000 & sleep 1000"));
  const auto two = Begin(ShellSpec("trap '' TERM; sleep 1000; sleep 1000"));
  supervisor_.reset();
  EXPECT_EQ(Descendants(), std::vector<int>());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_FALSE(one->exit.has_value() || two->exit.has_value());
}

TEST_F(Processes, AnEarlierWorkersRemainsAreRemoved) {
  // A folder that nobody holds, with a process that still runs in it.
  const std::string old = folder_ + "/run-oldone";
  std::filesystem::create_directories(old + "/7/deep");
  EventLoop other_loop;
  Result<Spawned> orphan = Spawn(
      {.argv = {"sleep", "1000"}, .env = {"HOME=" + old + "/7"}, .cwd = "/", .descriptors = {}});
  ASSERT_TRUE(orphan.has_value());
  // Ours is held, so a second one beside it leaves it alone.
  const auto running = Begin(ShellSpec("sleep 0.3; echo done"));
  {
    auto second = Supervisor::Create(&other_loop, folder_);
    ASSERT_TRUE(second.has_value());
    EXPECT_FALSE(std::filesystem::exists(old));
    WaitUntil([&] { return ProcessesOfFolder().size() <= 2; });
  }
  EXPECT_EQ(Finish(running).stdout_text, "done\n");
  close(orphan->pidfd);
  WaitUntil([&] { return Descendants().empty() || supervisor_->running() == 0; });
  ChildTable::OfThisProcess().Sweep();
  WaitUntil([&] { return Descendants().empty(); });
  ExpectNothingLeft();
}

TEST_F(Processes, ManyAtOnce) {
  std::vector<std::shared_ptr<State>> states;
  states.reserve(50);
  for (int i = 0; i < 50; ++i) states.push_back(Begin(ShellSpec("echo " + std::to_string(i))));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Finish(states[i]).stdout_text, std::to_string(i) + "\n");
  ExpectNothingLeft();
}

// Attacks.

TEST_F(Processes, AreInAGroupOfTheirOwn) {
  const ProcessExit exit = Run(ShellSpec("cat /proc/self/cgroup; cat /proc/self/cgroup"));
  const std::string mark = "/noetl-" + std::to_string(getpid()) + "-";
  EXPECT_EQ(exit.stdout_text.contains(mark), !GroupRoot().empty()) << supervisor_->Containment();
  ExpectNothingLeft();
}

TEST_F(Processes, GroupsOfDeadWorkersAreRemoved) {
  if (GroupRoot().empty()) return;  // nothing to leave behind
  Result<Spawned> dead = Spawn({.argv = {"true"}});
  ASSERT_TRUE(dead.has_value());
  ASSERT_EQ(waitpid(dead->pid, nullptr, 0), dead->pid);
  const std::string group = GroupRoot() + "/noetl-" + std::to_string(dead->pid) + "-1";
  ASSERT_EQ(mkdir(group.c_str(), 0700), 0);
  Result<Spawned> left = Spawn({.argv = {"sleep", "1000"}, .group = group + "/cgroup.procs"});
  ASSERT_TRUE(left.has_value());
  EventLoop other_loop;
  ASSERT_TRUE(Supervisor::Create(&other_loop, folder_).has_value());
  EXPECT_FALSE(std::filesystem::exists(group));
  close(dead->pidfd);
  close(left->pidfd);
  waitpid(left->pid, nullptr, 0);  // unless it is buried already
  ExpectNothingLeft();
}

TEST_F(Processes, TheGroupToDivideCanBeNamed) {
  const std::string named = GroupRoot() + "/named-" + std::to_string(getpid());
  const bool made = !GroupRoot().empty() && mkdir(named.c_str(), 0700) == 0;
  EXPECT_EQ(made, !GroupRoot().empty());
  const std::string usual = supervisor_->Containment();
  supervisor_ = *Supervisor::Create(&loop_, folder_, {.cgroup_root = named});
  if (made) {
    EXPECT_EQ(supervisor_->Containment(), "a cgroup for each call, under " + named);
    EXPECT_TRUE(Run(ShellSpec("cat /proc/self/cgroup")).stdout_text.contains("/named-"));
  }
  ExpectNothingLeft();
  supervisor_.reset();
  if (made) {
    EXPECT_EQ(rmdir(named.c_str()), 0);
  }
  // One that cannot be used is not.
  supervisor_ = *Supervisor::Create(&loop_, folder_, {.cgroup_root = "/no/such"});
  EXPECT_EQ(supervisor_->Containment(), usual);
}

TEST(ProcessGroups, KnowWhatTheKernelCounted) {
  const TemporaryDirectory temporary;
  const std::string folder = temporary.path() + "/group";
  std::filesystem::create_directory(folder);
  ProcessGroup group(folder);
  EXPECT_FALSE(group.KilledForMemory() || group.RefusedForks());
  std::ofstream(folder + "/memory.events") << "low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\n";
  std::ofstream(folder + "/pids.events") << "max 0\n";
  EXPECT_FALSE(group.KilledForMemory() || group.RefusedForks());
  std::ofstream(folder + "/memory.events") << "low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\n";
  EXPECT_TRUE(group.KilledForMemory());
  std::ofstream(folder + "/pids.events") << "max 3\n";
  EXPECT_TRUE(group.RefusedForks());
  for (const char* name : {"/memory.events", "/pids.events"}) {
    std::filesystem::remove(folder + name);
  }
}

TEST_F(Processes, AForkBombDies) {
  ProcessSpec spec = PythonSpec(Bomb());
  spec.limits.timeout_ms = 300;
  spec.limits.processes_max = 64;
  // Whichever limit it meets first.
  Attack(spec,
         [](const ProcessExit& exit) { EXPECT_TRUE(exit.too_many_processes || exit.timed_out); });
}

TEST_F(Processes, AForkBombWithinItsTimeDies) {
  // It never asks for more than it may have, but replaces its processes without end.
  ProcessSpec spec =
      ShellSpec("i=0; while [ $i -lt 20000 ]; do (:) & (:); i=$((i+1)); done; sleep 9");
  spec.limits.timeout_ms = 100;
  Attack(spec, [](const ProcessExit& exit) { EXPECT_TRUE(exit.timed_out); });
}

// Without a cgroup: a walk of /proc. The bombs end by themselves.
class ProcessesByWalk : public Processes {
 public:
  ProcessesByWalk() {
    supervisor_ = std::move(*Supervisor::Create(&loop_, folder_, {.cgroups = false}));
  }
};

TEST_F(ProcessesByWalk, AForkBombDies) {
  ProcessSpec spec = PythonSpec(Bomb());
  spec.limits.processes_max = 32;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Run(spec).too_many_processes);
    ExpectNothingLeft();
  }
}

TEST_F(ProcessesByWalk, ADaemonIsFound) {
  const ProcessSpec spec =
      ShellSpec("(setsid env -i sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &) ; echo gone");
  Attack(spec, [](const ProcessExit& exit) { EXPECT_EQ(exit.stdout_text, "gone\n"); });
}

TEST_F(ProcessesByWalk, ATimeLimitEndsAll) {
  ProcessSpec spec = ShellSpec("trap '' TERM; sleep 1000 & setsid sleep 1000 & sleep 1000");
  spec.limits.timeout_ms = 100;
  spec.limits.stop_grace_ms = 100;
  EXPECT_TRUE(Run(spec).timed_out);
  ExpectNothingLeft();
}

TEST_F(Processes, AMemoryHogFails) {
  ProcessSpec spec = PythonSpec("x = bytearray(4 << 30)");
  spec.limits.memory_mb = 200;
  Attack(spec, [](const ProcessExit& exit) {
    EXPECT_EQ(exit.code, 1);
    EXPECT_TRUE(exit.stderr_text.contains("MemoryError")) << exit.stderr_text;
  });
}

TEST_F(Processes, AHogOfManyProcessesIsKilled) {
  // Each one is within its limit, all together are not.
  ProcessSpec spec = PythonSpec(
      "import os, time\n"
      "for i in range(5):\n"
      "  if os.fork() == 0: break\n"
      "x = bytearray(b'x') * (30 << 20)\n"
      "time.sleep(1000)\n");
  spec.limits.memory_mb = 64;
  const ProcessExit exit = Run(std::move(spec));
  EXPECT_TRUE(exit.out_of_memory);
  EXPECT_EQ(exit.signal, SIGKILL);
  ExpectNothingLeft();
}

TEST_F(Processes, OneThatClosesItsPipesIsStillAwaited) {
  ProcessSpec spec = ShellSpec("exec <&- >&- 2>&-; sleep 1000");
  spec.limits.timeout_ms = 100;
  Attack(spec, [](const ProcessExit& exit) { EXPECT_TRUE(exit.timed_out); });
  EXPECT_EQ(Run(ShellSpec("exec <&- >&- 2>&-; sleep 0.1; exit 4")).code, 4);
}

TEST_F(Processes, OneThatIgnoresTheSignalIsKilled) {
  ProcessSpec spec = ShellSpec("trap '' TERM INT HUP; while :; do sleep 1; done");
  spec.limits.timeout_ms = 100;
  spec.limits.stop_grace_ms = 100;
  Attack(spec, [](const ProcessExit& exit) {
    EXPECT_TRUE(exit.timed_out);
    EXPECT_EQ(exit.signal, SIGKILL);
    EXPECT_FALSE(exit.out_of_memory);
  });
}

TEST_F(Processes, ADaemonIsFound) {
  // Forked twice, in its own session, with an empty environment, and holding the pipes open.
  const ProcessSpec spec =
      ShellSpec("(setsid env -i sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &) ; echo gone");
  Attack(spec, [](const ProcessExit& exit) {
    EXPECT_EQ(exit.code, 0);
    EXPECT_EQ(exit.stdout_text, "gone\n");
  });
}

TEST_F(Processes, ADaemonOfALivingProcessLivesAsLongAsThat) {
  const ProcessExit exit =
      Run(ShellSpec("(setsid sh -c 'sleep 0.3; echo daemon' &) ; sleep 0.5; echo main"));
  EXPECT_EQ(exit.stdout_text, "daemon\nmain\n");
}

TEST_F(Processes, AGigabyteOfOutputIsDrained) {
  ProcessSpec spec = ShellSpec("head -c 1000000000 /dev/zero; echo end");
  spec.limits.output_bytes_max = 300;
  const ProcessExit exit = Run(spec);
  EXPECT_EQ(exit.code, 0);
  EXPECT_TRUE(exit.stdout_truncated);
  EXPECT_TRUE(exit.stdout_text.ends_with("end\n"));
  EXPECT_TRUE(exit.stdout_text.contains("\n... 999999704 bytes are left out here ...\n"));
  // Cut off in the middle, or before its first byte on a busy machine.
  spec.limits.timeout_ms = 100;
  Attack(spec, [](const ProcessExit& cut) {
    EXPECT_EQ(cut.stdout_truncated, !cut.stdout_text.empty());
    EXPECT_FALSE(cut.stdout_text.ends_with("end\n"));
  });
}

TEST_F(Processes, ACrashIsReported) {
  Attack(ShellSpec("kill -SEGV $$"), [](const ProcessExit& exit) {
    EXPECT_EQ(exit.signal, SIGSEGV);
    EXPECT_EQ(exit.code, 128 + SIGSEGV);
  });
}

}  // namespace
}  // namespace noetl::worker
