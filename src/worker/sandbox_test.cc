#include "worker/sandbox.h"

#include <csignal>
#include <fstream>
#include <sstream>

#include <sys/prctl.h>
#include <sys/stat.h>

#include "worker/process_testing.h"
#include "worker/sandbox_testing.h"

namespace noetl::worker {
namespace {

ProcessSpec Strict(ProcessSpec spec) {
  spec.confinement.level = SandboxLevel::kStrict;
  return spec;
}

ProcessSpec Denied(ProcessSpec spec) {
  spec.confinement.deny_network = true;
  return spec;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Sandboxes : public ProcessRunTest {
 public:
  ~Sandboxes() override {
    EXPECT_EQ(TextOf("/proc/self/mountinfo"), mounts_);
    // A child that became another user has not closed this process to its owner.
    EXPECT_EQ(prctl(PR_GET_DUMPABLE), 1);
  }

  // What such a process writes. Where the host refuses it, that is said and nothing runs.
  std::string Output(ProcessSpec spec) {
    const ProcessExit exit = Run(std::move(spec));
    EXPECT_EQ(exit.code, 0) << exit.stderr_text;
    return exit.stdout_text;
  }

  bool Refused(const ProcessSpec& spec) {
    const bool possible = spec.confinement.strict() ? HostAllowsStrict() : HostAllowsNetworks();
    if (possible) return false;
    const auto started = supervisor_->Start(spec, [](ProcessExit) { FAIL(); });
    EXPECT_FALSE(started.has_value());
    if (started) return true;
    EXPECT_EQ(started.error().code, "sandbox");
    EXPECT_TRUE(started.error().message.contains("is not possible on this host: cannot "))
        << started.error().message;
    return true;
  }

  const std::string mounts_ = TextOf("/proc/self/mountinfo");
};

TEST(SandboxLevels, HaveNames) {
  EXPECT_EQ(*SandboxLevelOf("off"), SandboxLevel::kOff);
  EXPECT_EQ(*SandboxLevelOf("basic"), SandboxLevel::kBasic);
  EXPECT_EQ(*SandboxLevelOf("auto"), SandboxLevel::kBasic);
  EXPECT_EQ(*SandboxLevelOf("strict"), SandboxLevel::kStrict);
  EXPECT_EQ(SandboxLevelOf("Strict").error().message,
            "`sandbox` is auto, off, basic or strict, not 'Strict'");
}

TEST(SandboxLevels, ComeFromSettings) {
  EXPECT_EQ(SandboxPolicy::Of(nullptr).level, SandboxLevel::kBasic);
  const Settings settings =
      *Settings::Load({{"NOETL_SANDBOX", "strict"}, {"NOETL_SANDBOX_UID", "12345"}});
  EXPECT_EQ(SandboxPolicy::Of(&settings).level, SandboxLevel::kStrict);
  EXPECT_EQ(SandboxPolicy::Of(&settings).user, 12'345U);
}

TEST_F(Sandboxes, StrictProcessesRunAsUsual) {
  ProcessSpec spec = Strict(ShellSpec("cat; echo err >&2; echo $MINE; pwd; exit 3"));
  if (Refused(spec)) return;
  spec.stdin_text = "in\n";
  spec.env = {{"MINE", "mine"}};
  const ProcessExit exit = Run(std::move(spec));
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_TRUE(exit.stdout_text.starts_with("in\nmine\n" + folder_)) << exit.stdout_text;
  EXPECT_EQ(exit.stderr_text, "err\n");
  const std::string imports =
      "import asyncio, ctypes, decimal, json, multiprocessing, sqlite3, ssl, subprocess, tempfile, "
      "urllib.request\nlock = multiprocessing.Lock()\n"
      "print(subprocess.check_output(['sh', '-c', 'seq 3 | sort -r | head -1'], text=True))\n";
  EXPECT_EQ(Output(Strict(PythonSpec(imports))), "3\n\n");
  EXPECT_EQ(Output(Strict(ShellSpec("echo \"a  b\" '$x' \\*"))), "a  b $x *\n");
  ExpectNothingLeft();
}

TEST_F(Sandboxes, AStrictProcessWritesItsOwnDirectoryOnly) {
  ProcessSpec spec =
      Strict(ShellSpec("echo mine > f && cat f && stat -c %a . && echo t > /tmp/t && cat /tmp/t\n"
                       "for d in / /usr /usr/lib /etc /dev /proc/sys/kernel /proc/self; do\n"
                       "  { echo x > $d/noetl-test; } 2>/dev/null && echo wrote $d; done\n"
                       "{ echo 1 > /proc/self/oom_score_adj; } 2>/dev/null && echo wrote proc\n"
                       "echo x > /dev/null; ls -A /tmp"));
  if (Refused(spec)) return;
  // Where the scratch directory is under /tmp, the way to it shows.
  const std::string text = Output(std::move(spec));
  EXPECT_TRUE(text.starts_with("mine\n700\nt\n")) << text;
  EXPECT_FALSE(text.contains("wrote")) << text;
  EXPECT_FALSE(std::filesystem::exists("/tmp/t"));
  // Large files are for the directory on the disk.
  EXPECT_EQ(Output(Strict(ShellSpec("head -c 100000000 /dev/zero > f && stat -c %s f; "
                                    "head -c 100000000 /dev/zero > /tmp/f || echo full"))),
            "100000000\nfull\n");
  ExpectNothingLeft();
}

TEST_F(Sandboxes, AStrictProcessSeesNothingOfTheHost) {
  const std::string secret = folder_ + "/data/secret";
  std::filesystem::create_directory(folder_ + "/data");
  std::ofstream(secret) << "secret";
  chmod(secret.c_str(), 0644);
  setenv("NOETL_TEST_SECRET", "hidden", 1);
  const auto other = Begin(ShellSpec("echo secret > f; chmod 644 f; touch up; sleep 1000"));
  WaitUntil([&] {
    return std::ranges::any_of(
        Files(), [](const std::string& folder) { return std::filesystem::exists(folder + "/up"); });
  });
  const std::string theirs = [&] {
    for (const std::string& folder : Files()) {
      if (std::filesystem::exists(folder + "/up")) return folder + "/f";
    }
    return std::string();
  }();
  ProcessSpec spec = Strict(PythonSpec(
      "import os, glob\n"
      "def reads(path):\n"
      "  try: return bool(open(path, 'rb').read(1))\n"
      "  except OSError: return False\n"
      "print([p for p in ('" +
      secret + "', '" + theirs +
      "', '/etc/shadow', '/etc/hostname', '/proc/kcore', '/dev/mem', '/dev/vda', "
      "'/sys/kernel/notes') if reads(p)])\n"
      "print([p for p in ('/root', '/home', '/var', '/run', '/sys', '/work', '/mnt', '/opt') "
      "if os.path.exists(p)])\n"
      "pids = sorted(int(p) for p in os.listdir('/proc') if p.isdigit())\n"
      "print(len(pids), pids[0], os.getpid() in pids, os.uname().nodename)\n"
      "def names(pid):\n"
      "  try: return {v.split(b'=')[0] for v in open(f'/proc/{pid}/environ', "
      "'rb').read().split(b'\\0')}\n"
      "  except OSError: return set()\n"
      "found = set().union(*map(names, pids))\n"
      "print(b'HOME' in found, b'NOETL_TEST_SECRET' in found)\n"
      "try: os.kill(" +
      std::to_string(getpid()) +
      ", 0)\n"
      "except ProcessLookupError: print('nobody')\n"));
  if (!Refused(spec)) {
    EXPECT_EQ(Output(std::move(spec)), "[]\n[]\n2 1 True noetl\nTrue False\nnobody\n");
  }
  unsetenv("NOETL_TEST_SECRET");
  std::filesystem::remove_all(folder_ + "/data");
  other->process->Stop();
  Finish(other);
  ExpectNothingLeft();
}

TEST_F(Sandboxes, AStrictProcessHasNoWayOut) {
  ProcessSpec spec = Strict(PythonSpec(
      "import ctypes, errno, os, platform\n"
      "libc = ctypes.CDLL(None, use_errno=True)\n"
      "def error(result): return 'worked' if result >= 0 else errno.errorcode[ctypes.get_errno()]\n"
      "print('mount', error(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)))\n"
      "print('umount', error(libc.umount2(b'/tmp', 2)))\n"
      "print('ptrace', error(libc.ptrace(16, 1, 0, 0)))\n"
      "print('memory', error(libc.process_vm_readv(1, None, 0, None, 0, 0)))\n"
      "print('unshare', error(libc.unshare(0x10000000)))\n"
      "print('setns', error(libc.setns(os.open('/proc/self/ns/net', 0), 0)))\n"
      "print('chroot', error(libc.chroot(b'/tmp')))\n"
      "print('keys', error(libc.syscall({'x86_64': 250}.get(platform.machine(), 219), 0, -3, 0)))\n"
      "print('clone3', error(libc.syscall(435, None, 0)))\n"
      "print('user', os.getuid() == 0 or libc.setuid(0) < 0)\n"
      "status = dict(l.split(':', 1) for l in open('/proc/self/status'))\n"
      "print(int(status['CapEff'], 16), int(status['CapPrm'], 16), int(status['NoNewPrivs']), "
      "int(status['Seccomp']))\n"));
  if (Refused(spec)) return;
  EXPECT_EQ(Output(std::move(spec)),
            "mount EPERM\numount EPERM\nptrace EPERM\nmemory EPERM\nunshare EPERM\nsetns EPERM\n"
            "chroot EPERM\nkeys EPERM\nclone3 ENOSYS\nuser True\n0 0 1 2\n");
}

TEST_F(Sandboxes, AStrictProcessIsAnotherUserIfThereIsOne) {
  ProcessSpec spec = Strict(ShellSpec("id -u; id -G; stat -c %u ."));
  if (Refused(spec)) return;
  const bool all_users = TextOf("/proc/self/uid_map").contains("4294967295");
  if (geteuid() != 0) {
    EXPECT_TRUE(Output(spec).starts_with(std::to_string(geteuid()) + "\n"));
  } else if (all_users) {
    EXPECT_EQ(Output(spec), "65534\n65534\n65534\n");
    spec.confinement.user = 12'345;
    EXPECT_EQ(Output(spec), "12345\n12345\n12345\n");
  } else {
    EXPECT_TRUE(Output(spec).starts_with("0\n"));
    spec.confinement.user = 12'345;
    const auto started = supervisor_->Start(spec, [](ProcessExit) { FAIL(); });
    ASSERT_FALSE(started.has_value());
    EXPECT_EQ(started.error().code, "sandbox");
  }
  spec.confinement.user = 0;
  const auto started = supervisor_->Start(spec, [](ProcessExit) { FAIL(); });
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().message,
            "`sandbox: strict` is not for root: NOETL_SANDBOX_UID must not be 0");
  ExpectNothingLeft();
}

TEST_F(Sandboxes, AStrictProcessCanBeStopped) {
  ProcessSpec spec = Strict(ShellSpec("echo begun; sleep 1000"));
  if (Refused(spec)) return;
  spec.limits.timeout_ms = 1'500;
  const ProcessExit late = Run(spec);
  EXPECT_TRUE(late.timed_out);
  EXPECT_EQ(late.signal, SIGTERM);
  EXPECT_EQ(late.stdout_text, "begun\n");
  EXPECT_EQ(late.stderr_text, "");
  ExpectNothingLeft();

  spec = Strict(ShellSpec("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"));
  std::string seen;
  spec.output = [&](OutputStream, std::string_view text) { seen += text; };
  const auto state = Begin(std::move(spec));
  WaitUntil([&] { return seen.contains("up"); });
  state->process->Stop();
  const ProcessExit exit = Finish(state);
  EXPECT_TRUE(exit.stopped);
  EXPECT_EQ(exit.code, 7);
  EXPECT_TRUE(exit.stdout_text.contains("bye"));
  ExpectNothingLeft();

  auto dropped = Begin(Strict(ShellSpec("trap '' TERM; sleep 1000 & sleep 1000")));
  dropped->process.reset();
  WaitUntil([&] { return supervisor_->running() == 0; });
  ExpectNothingLeft();
}

TEST_F(Sandboxes, WhatAStrictProcessCannotRunIsSaid) {
  const ProcessSpec spec = Strict(ShellSpec("true"));
  if (Refused(spec)) return;
  const std::string tools = folder_ + "/tools";
  const std::string tool = tools + "/tool";
  std::filesystem::create_directory(tools);
  chmod(tools.c_str(), 0755);
  std::ofstream(tool) << "#!/bin/sh\necho ran\n";
  chmod(tool.c_str(), 0755);
  const auto fails = [&](ProcessSpec wrong) {
    const auto started = supervisor_->Start(std::move(wrong), [](ProcessExit) { FAIL(); });
    return started ? std::string("started") : started.error().code + ": " + started.error().message;
  };
  ProcessSpec program = spec;
  program.argv = {tool};
  EXPECT_EQ(fails(program), "not_found: " + tool + " in the sandbox: No such file or directory");
  program.confinement.readable = {tools};
  EXPECT_EQ(Output(program), "ran\n");
  ProcessSpec directory = spec;
  directory.cwd = "/var";
  EXPECT_EQ(fails(directory), "cwd: directory /var: No such file or directory");
  std::filesystem::remove_all(tools);
  ExpectNothingLeft();
}

TEST_F(Sandboxes, WithoutANetworkThereIsOnlyTheLoopback) {
  const LocalListener host;
  const ProcessSpec visit = PythonSpec(host.Visitor() + "print(said)\n");
  EXPECT_EQ(Output(visit), "[True, True]\n");
  const ProcessSpec denied = Denied(PythonSpec(
      host.Visitor() +
      "print(said, leaves(), finds('example.com'), len(socket.if_nameindex()))\n"
      "import ctypes, os\n"
      "libc = ctypes.CDLL(None, use_errno=True)\n"
      "try: print(libc.setns(os.open('/proc/" +
      std::to_string(getpid()) +
      "/ns/net', 0), 0))\n"
      "except OSError: print(-1)\n"
      "print([int(l.split()[1], 16) for l in open('/proc/self/status') if 'CapEff' in l][0])\n"));
  if (!Refused(denied)) {
    EXPECT_EQ(Output(denied), "[False, True] False False 1\n-1\n0\n");
    EXPECT_EQ(Output(Denied(ShellSpec("echo x > f; cat f; stat -c %u f; id -u"))),
              fmt::format("x\n{0}\n{0}\n", geteuid()));
  }
  if (!Refused(Strict(visit))) {
    EXPECT_EQ(Output(Strict(visit)), "[True, True]\n");
    EXPECT_EQ(Output(Strict(denied)), "[False, True] False False 1\n-1\n0\n");
  }
  ExpectNothingLeft();
}

TEST_F(Sandboxes, ARefusingHostRunsNothing) {
  OnARefusingHost([] {
    const TemporaryDirectory folder;
    EventLoop loop;
    const auto supervisor = *Supervisor::Create(&loop, folder.path());
    const std::string ran = folder.path() + "/ran";
    for (const bool strict : {true, false}) {
      ProcessSpec spec = Denied(ShellSpec("touch " + ran));
      if (strict) spec = Strict(std::move(spec));
      const auto started = supervisor->Start(std::move(spec), [](ProcessExit) { FAIL(); });
      ASSERT_FALSE(started.has_value());
      EXPECT_EQ(started.error().code, "sandbox");
      EXPECT_EQ(started.error().message,
                fmt::format("`{}` is not possible on this host: cannot make namespaces: "
                            "Operation not permitted",
                            strict ? "sandbox: strict" : "network: deny"));
    }
    EXPECT_FALSE(std::filesystem::exists(ran));
    const auto opened =
        Supervisor::Open(&loop, folder.path(), *Settings::Load({{"NOETL_SANDBOX", "strict"}}));
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, "settings");
    EXPECT_EQ(opened.error().message,
              "NOETL_SANDBOX=strict: `sandbox: strict` is not possible on this host: cannot make "
              "namespaces: Operation not permitted");
    EXPECT_TRUE(Supervisor::Open(&loop, folder.path(), *Settings::Load({})).has_value());
  });
  ExpectNothingLeft();
}

TEST_F(Sandboxes, AWorkerChecksItsSettings) {
  const auto opened =
      Supervisor::Open(&loop_, folder_, *Settings::Load({{"NOETL_SANDBOX", "strict"}}));
  EXPECT_EQ(opened.has_value(), HostAllowsStrict());
  if (!opened) {
    EXPECT_TRUE(opened.error().message.starts_with("NOETL_SANDBOX=strict: "));
  }
}

// Attacks.

TEST_F(Sandboxes, AStrictForkBombDies) {
  ProcessSpec spec = Strict(PythonSpec(Bomb()));
  if (Refused(spec)) return;
  spec.limits.timeout_ms = 300;
  Attack(spec,
         [](const ProcessExit& exit) { EXPECT_TRUE(exit.too_many_processes || exit.timed_out); });
}

TEST_F(Sandboxes, AStrictMemoryHogFails) {
  ProcessSpec spec = Strict(PythonSpec("x = bytearray(4 << 30)"));
  if (Refused(spec)) return;
  spec.limits.memory_mb = 200;
  Attack(spec, [](const ProcessExit& exit) {
    EXPECT_EQ(exit.code, 1);
    EXPECT_TRUE(exit.stderr_text.contains("MemoryError")) << exit.stderr_text;
  });
}

TEST_F(Sandboxes, AStrictProcessThatIgnoresSignalsIsKilled) {
  // It also tries to end the first process of its namespace.
  ProcessSpec spec =
      Strict(ShellSpec("trap '' TERM INT HUP; kill -TERM 1; kill -KILL 1; kill -STOP 1; "
                       "setsid sleep 1000 & while :; do sleep 1; done"));
  if (Refused(spec)) return;
  spec.limits.timeout_ms = 300;
  spec.limits.stop_grace_ms = 100;
  Attack(spec, [](const ProcessExit& exit) {
    EXPECT_TRUE(exit.timed_out);
    EXPECT_EQ(exit.signal, SIGKILL);
    EXPECT_FALSE(exit.out_of_memory);
  });
}

TEST_F(Sandboxes, AStrictDaemonIsFound) {
  const ProcessSpec spec = Strict(
      ShellSpec("(setsid env -i sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &) ; echo gone"));
  if (Refused(spec)) return;
  Attack(spec, [](const ProcessExit& exit) { EXPECT_EQ(exit.stdout_text, "gone\n"); });
}

TEST_F(Sandboxes, AStrictCrashIsReported) {
  const ProcessSpec spec = Strict(ShellSpec("kill -SEGV $$"));
  if (Refused(spec)) return;
  Attack(spec, [](const ProcessExit& exit) {
    EXPECT_EQ(exit.signal, SIGSEGV);
    EXPECT_EQ(exit.code, 128 + SIGSEGV);
    EXPECT_EQ(exit.stderr_text, "");
  });
}

}  // namespace
}  // namespace noetl::worker
