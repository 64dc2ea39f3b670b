// The python and shell tools where they leave the usual way: a process for each call, other
// interpreters, no network, and the strict sandbox.
#include <csignal>
#include <fstream>

#include "base/json_io.h"
#include "base/testing.h"
#include "worker/process_spawn.h"
#include "worker/process_testing.h"
#include "worker/sandbox_testing.h"
#include "worker/tools/python.h"
#include "worker/tools/python_pools.h"

namespace noetl::worker {
namespace {

ToolCall Call(std::string_view code, std::string_view spec = "null") {
  ToolCall call;
  call.execution_id = 42;
  call.step = "compute";
  call.kind = "python";
  call.config = Json::Object({{"code", code}});
  call.input = Json::Object();
  call.context = Json::Object();
  call.spec = Parse(spec);
  call.timeout_ms = 20'000;
  return call;
}

ToolCall With(ToolCall call, std::string_view field, Json value) {
  call.config = call.config.With(field, std::move(value));
  return call;
}

ToolCall Denied(ToolCall call) { return With(std::move(call), "network", "deny"); }

constexpr std::string_view kStrict = R"({"sandbox": "strict"})";

class PythonIsolation : public ProcessTest {
 public:
  PythonIsolation() { Use({}); }
  ~PythonIsolation() override { tool_.reset(); }

  void Use(const Settings::Variables& variables) {
    tool_.reset();
    settings_ = std::make_unique<Settings>(*Settings::Load(variables));
    tool_ = std::make_unique<PythonTool>(
        ToolSetup{.loop = &loop_, .supervisor = supervisor_.get(), .settings = settings_.get()});
  }

  ToolAnswer Finish(const std::shared_ptr<TestCall>& call) {
    WaitUntil([&] { return call->answer.has_value(); });
    return call->answer.value_or(ToolAnswer());
  }
  ToolAnswer Run(ToolCall call) { return Finish(StartCall(*tool_, std::move(call))); }
  std::string Text(ToolCall call) {
    const ToolAnswer answer = Run(std::move(call));
    EXPECT_TRUE(answer.outcome.ok) << answer.outcome.error << WriteJson(answer.outcome.error_info);
    return WriteJson(answer.outcome.payload);
  }
  std::string Refusal(ToolCall call) {
    const ToolAnswer answer = Run(std::move(call));
    EXPECT_TRUE(answer.hard);
    return answer.outcome.error_info["code"].ToString() + " " + answer.outcome.error;
  }

  // Without a zygote.
  void ExpectNoProcess() {
    WaitUntil([&] { return tool_->pool().idle(); });
    EXPECT_EQ(tool_->pool().zygote_pid(), 0);
    WaitUntil([&] { return Descendants().empty() && Groups().empty(); });
    ExpectNothingLeft();
  }

  // True, and checked, where the host refuses the strict sandbox.
  bool StrictIsRefused() {
    if (HostAllowsStrict()) return false;
    const std::string refusal = Refusal(Call("result = 1", kStrict));
    EXPECT_TRUE(refusal.starts_with("SANDBOX Configuration error: `sandbox: strict` is not "))
        << refusal;
    return true;
  }

  template <typename Check>
  void Attack(const ToolCall& attack, std::string_view spec, Check check) {
    for (int i = 0; i < kAttacks; ++i) {
      const auto attacking = StartCall(*tool_, attack);
      EXPECT_EQ(Text(Call("result = 'during'", spec)), "\"during\"");
      check(Finish(attacking));
      EXPECT_EQ(Text(Call("result = 'after'", spec)), "\"after\"");
      ExpectNoProcess();
    }
  }

  // A virtual environment with one module of its own; its interpreter.
  std::string MakeVenv(const std::string& name) {
    const std::string venv = folder_ + "/" + name;
    const std::string python = *FindProgram("python3");
    EXPECT_EQ(system((python + " -I -m venv --without-pip " + venv).c_str()), 0);
    for (const auto& entry : std::filesystem::directory_iterator(venv + "/lib")) {
      std::ofstream(entry.path() / "site-packages/only_here.py") << "name = '" << name << "'\n";
    }
    return venv + "/bin/python";
  }

  std::unique_ptr<Settings> settings_;
  std::unique_ptr<PythonTool> tool_;
};

ToolCall InVenv(ToolCall call, const std::string& interpreter) {
  const std::string venv = std::filesystem::path(interpreter).parent_path().parent_path();
  return With(std::move(call), "deps", Json::Object({{"venv_path", venv}}));
}

// A process for each call.

TEST_F(PythonIsolation, SpawnedProcessesAnswerAsForkedOnes) {
  Use({{"NOETL_PYTHON_MODE", "spawn"}});
  tool_->Warm();
  EXPECT_EQ(Text(Call("import os\nopen('f', 'w')\nresult = [os.getcwd() == os.environ['TMPDIR'], "
                      "[int(f) for f in os.listdir('/proc/self/fd') if int(f) > 3], "
                      "os.environ['NOETL_STEP']]")),
            R"([true,[100],"compute"])");
  EXPECT_EQ(Text(Call("import sys\nprint('out')\nprint('err', file=sys.stderr)")),
            R"({"stdout":"out\n","stderr":"err\n"})");
  ToolAnswer answer = Run(Call("1 / 0"));
  EXPECT_EQ(answer.outcome.error, "ZeroDivisionError: division by zero");
  answer = Run(Call("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"));
  EXPECT_EQ(answer.outcome.error, "Python crashed: SIGSEGV (Segmentation fault)");
  const std::string big(3'000'000, 'x');
  ToolCall large = Call("result = text");
  large.input = Json::Object({{"text", big}});
  EXPECT_EQ(Run(large).outcome.payload, Json(big));
  ExpectNoProcess();
}

TEST_F(PythonIsolation, SpawnedProcessesEnd) {
  Use({{"NOETL_PYTHON_MODE", "spawn"}});
  ToolCall call = Call("print('begun')\nimport time\ntime.sleep(1000)");
  call.timeout_ms = 3'000;
  ToolAnswer answer = Run(call);
  EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_TIMEOUT"));
  EXPECT_TRUE(answer.outcome.payload["stderr"].AsString().contains("line 3 in <module>"));
  ExpectNoProcess();
  const auto running = StartCall(*tool_, Call("import time\nopen('up', 'w')\ntime.sleep(1000)"));
  WaitUntil([&] {
    return std::ranges::any_of(
        Files(), [](const std::string& folder) { return std::filesystem::exists(folder + "/up"); });
  });
  running->running->Stop();
  EXPECT_TRUE(Finish(running).cancelled);
  auto dropped = StartCall(*tool_, Call("import time\ntime.sleep(1000)"));
  dropped->running.reset();
  ExpectNoProcess();
  const auto left = StartCall(*tool_, Call("import time\ntime.sleep(1000)"));
  tool_.reset();
  left->running.reset();
  ExpectNothingLeft();
  EXPECT_FALSE(left->answer.has_value() || dropped->answer.has_value());
}

TEST_F(PythonIsolation, ASpawnedProcessCanBeKeptForOneStep) {
  Use({{"NOETL_PYTHON_MODE", "spawn"}});
  const ToolCall call =
      Call("import builtins\nbuiltins.n = getattr(builtins, 'n', 0) + 1\nresult = n",
           R"({"python": {"reuse": true}})");
  EXPECT_EQ(Text(call), "1");
  EXPECT_EQ(Text(call), "2");
}

TEST_F(PythonIsolation, HostileSpawnedProcessesHarmThemselves) {
  Use({{"NOETL_PYTHON_MODE", "spawn"}});
  ToolCall bomb = Call(Bomb());
  bomb.timeout_ms = 600;
  Attack(bomb, "null", [](const ToolAnswer& answer) {
    const std::string code = answer.outcome.error_info["code"].ToString();
    EXPECT_TRUE(code == "PY_TOO_MANY_PROCESSES" || code == "PY_TIMEOUT") << code;
  });
  Attack(Call("x = bytearray(4 << 30)"), "null", [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_MemoryError"));
  });
}

// Other interpreters.

TEST_F(PythonIsolation, AVirtualEnvironmentHasItsOwnInterpreter) {
  const std::string one = MakeVenv("one");
  const std::string two = MakeVenv("two");
  const ToolCall call = Call("import only_here\nresult = only_here.name");
  EXPECT_EQ(Refusal(InVenv(call, one)),
            "CONFIG Configuration error: '" + one + "' is not among NOETL_PYTHON_INTERPRETERS");
  Use({{"NOETL_PYTHON_INTERPRETERS", one + "," + two + "," + folder_ + "/none/bin/python"}});
  EXPECT_EQ(Text(InVenv(call, one)), "\"one\"");
  EXPECT_EQ(Text(InVenv(call, two)), "\"two\"");
  EXPECT_EQ(Text(InVenv(call, one)), "\"one\"");
  EXPECT_EQ(Run(call).outcome.error_info["code"], Json("PY_ModuleNotFoundError"));
  EXPECT_EQ(
      Refusal(InVenv(call, folder_ + "/none/bin/python")),
      "PY_START Configuration error: " + folder_ + "/none/bin/python: No such file or directory");
  EXPECT_EQ(Refusal(With(InVenv(call, one), "python", one)),
            "CONFIG Configuration error: give `python` or `deps.venv_path`, not both");
  EXPECT_EQ(Refusal(With(call, "deps", Parse(R"({"venv_path": "here"})"))),
            "CONFIG Configuration error: `deps.venv_path` 'here' is not an absolute path");
  if (!StrictIsRefused()) {
    ToolCall strict = InVenv(call, two);
    strict.spec = Parse(kStrict);
    EXPECT_EQ(Text(strict), "\"two\"");
  }
  Use({{"NOETL_PYTHON_MODE", "spawn"}, {"NOETL_PYTHON_INTERPRETERS", two}});
  EXPECT_EQ(Text(InVenv(call, two)), "\"two\"");
  std::filesystem::remove_all(folder_ + "/one");
  std::filesystem::remove_all(folder_ + "/two");
}

TEST_F(PythonIsolation, WarmInterpretersAreFew) {
  tool_.reset();
  const std::string python = *FindProgram("python3");
  // The same program under other names.
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) {
    names.push_back(folder_ + "/python" + std::to_string(i));
    std::filesystem::create_symlink(python, names.back());
  }
  constexpr std::int64_t kIdleUs = 100'000;
  PythonPools pools(&loop_, supervisor_.get(), "python3", {}, 2, kIdleUs);
  const auto start = [&](PythonPool* pool, std::string_view code, std::optional<PythonEnd>* end) {
    PythonJob job;
    job.body = WriteJson(Parse(R"({"filename": "f", "args": {}, "context": {}, "limits": [],
                                   "env": {}, "cwd": "/", "keep": false})")
                             .With("code", code));
    job.limits.timeout_ms = 20'000;
    return pool->Start(std::move(job), [end](PythonEnd ended) { *end = std::move(ended); });
  };
  EXPECT_EQ(pools.Find("python3"), &pools.usual());
  // Both places are in use: nobody else gets one.
  std::optional<PythonEnd> ends[3];
  const std::string wait = "import time\nwhile True: time.sleep(1)";
  auto first = start(pools.Find(names[0]), wait, &ends[0]);
  auto second = start(pools.Find(names[1]), "result = 1", &ends[1]);
  EXPECT_EQ(pools.Find(names[2]), nullptr);
  WaitUntil([&] { return ends[1].has_value() && pools.Find(names[1])->idle(); });
  // One is free now.
  PythonPool* const third = pools.Find(names[2]);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(pools.others(), 2U);
  const auto running = start(third, "result = 2", &ends[2]);
  WaitUntil([&] { return ends[2].has_value(); });
  EXPECT_EQ(ends[2]->ending, PythonEnding::kReplied);
  // Those without jobs end, the other stays.
  WaitUntil([&] { return pools.others() == 1; });
  EXPECT_FALSE(ends[0].has_value());
  first.reset();
  WaitUntil([&] { return pools.others() == 0 && Descendants().empty(); });
  for (const std::string& name : names) std::filesystem::remove(name);
}

// No network.

TEST_F(PythonIsolation, WithoutANetworkThereIsOnlyTheLoopback) {
  const LocalListener host;
  const std::string visit = host.Visitor() + "result = [said]\n";
  const std::string look =
      host.Visitor() +
      "import os\n"
      "result = [said, leaves(), finds('example.com'), os.getuid(), "
      "[int(l.split()[1], 16) for l in open('/proc/self/status') if 'CapEff' in l]]\n"
      "open('f', 'w').write('x')\n";
  const std::string expected = fmt::format("[[false,true],false,false,{},[0]]", geteuid());
  for (const char* mode : {"fork", "spawn"}) {
    Use({{"NOETL_PYTHON_MODE", mode}});
    EXPECT_EQ(Text(Call(visit)), "[[true,true]]") << mode;
    if (HostAllowsNetworks()) {
      EXPECT_EQ(Text(Denied(Call(look))), expected) << mode;
      // The next call has its network again, and a kept process does not mix them up.
      EXPECT_EQ(Text(Call(visit)), "[[true,true]]") << mode;
      constexpr std::string_view kReuse = R"({"python": {"reuse": true}})";
      EXPECT_EQ(Text(Denied(Call(look, kReuse))), expected) << mode;
      EXPECT_EQ(Text(Denied(Call(look, kReuse))), expected) << mode;
      EXPECT_EQ(Text(Call(visit, kReuse)), "[[true,true]]") << mode;
    } else {
      EXPECT_TRUE(Refusal(Denied(Call(look)))
                      .starts_with("SANDBOX Configuration error: `network: deny` is not possible"));
    }
  }
  EXPECT_EQ(Refusal(With(Call("result = 1"), "network", "none")),
            "CONFIG Configuration error: `network` is allow or deny, not 'none'");
}

TEST_F(PythonIsolation, ARefusingHostRunsNothing) {
  tool_.reset();
  OnARefusingHost([] {
    const TemporaryDirectory folder;
    EventLoop loop;
    const auto supervisor = *Supervisor::Create(&loop, folder.path());
    const std::string refused =
        "is not possible on this host: cannot make namespaces: "
        "Operation not permitted";
    for (const char* mode : {"fork", "spawn"}) {
      const Settings settings = *Settings::Load({{"NOETL_PYTHON_MODE", mode}});
      const ToolSetup setup = {&loop, supervisor.get(), &settings};
      const std::unique_ptr<Tool> python = MakePython(setup);
      const std::unique_ptr<Tool> shell = MakeShell(setup);
      const auto refusal = [&](Tool& tool, ToolCall call) {
        const auto running = StartCall(tool, std::move(call));
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!running->answer && std::chrono::steady_clock::now() < limit) {
          const auto timer = loop.After(1'000, [&] { loop.Stop(); });
          loop.Run();
          loop.CancelTimer(timer);
        }
        EXPECT_TRUE(running->answer && running->answer->hard);
        return running->answer->outcome.error_info["code"].ToString() + " " +
               running->answer->outcome.error;
      };
      // Twice, since a process may be kept.
      for (const char* spec : {"null", R"({"python": {"reuse": true}})"}) {
        for (int i = 0; i < 2; ++i) {
          EXPECT_EQ(refusal(*python, Denied(Call("result = 1", spec))),
                    "SANDBOX Configuration error: `network: deny` " + refused);
        }
      }
      EXPECT_EQ(refusal(*python, Call("result = 1", kStrict)),
                "SANDBOX Configuration error: `sandbox: strict` " + refused);
      const ToolCall command = With(Call("", kStrict), "command", "echo ran");
      EXPECT_EQ(refusal(*shell, command),
                "SANDBOX Configuration error: `sandbox: strict` " + refused);
    }
  });
  ExpectNothingLeft();
}

// The strict sandbox.

TEST_F(PythonIsolation, AStrictCallComputesAsUsual) {
  if (StrictIsRefused()) return;
  const std::string secret = folder_ + "/secret";
  std::ofstream(secret) << "secret";
  const std::string code =
      "import asyncio, csv, json, os, sqlite3, ssl, subprocess, urllib.request, zoneinfo\n"
      "def seen(path):\n"
      "  try: return bool(os.listdir(path) if os.path.isdir(path) else open(path).read())\n"
      "  except OSError: return False\n"
      "open('f', 'w').write('mine')\n"
      "print('printed')\n"
      "result = [open('f').read(), os.getcwd() == os.environ['TMPDIR'], seen('" +
      secret + "'), seen('" + folder_ +
      "/..'), sorted(p for p in os.listdir('/proc') if p.isdigit())[0], "
      "len([p for p in os.listdir('/proc') if p.isdigit()]), "
      "subprocess.check_output(['sh', '-c', 'echo $NOETL_STEP'], text=True), "
      "sorted(os.listdir('/'))]";
  const Json value = Run(Call(code, kStrict)).outcome.payload;
  EXPECT_EQ(WriteJson(value.At(0)), "\"mine\"") << WriteJson(value);
  EXPECT_EQ(value.At(1), Json(true));
  EXPECT_EQ(value.At(2), Json(false));
  EXPECT_EQ(value.At(4), Json("1"));
  EXPECT_EQ(value.At(5), Json(2));
  EXPECT_EQ(value.At(6), Json("compute\n"));
  EXPECT_FALSE(WriteJson(value.At(7)).contains("sys")) << WriteJson(value);
  ToolAnswer answer = Run(Call("1 / 0", kStrict));
  EXPECT_EQ(answer.outcome.error, "ZeroDivisionError: division by zero");
  answer = Run(Call("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", kStrict));
  EXPECT_EQ(answer.outcome.error, "Python crashed: SIGSEGV (Segmentation fault)");
  // Each call has a process of its own, asked for or not.
  const ToolCall kept =
      Call("import builtins\nbuiltins.n = getattr(builtins, 'n', 0) + 1\nresult = n",
           R"({"sandbox": "strict", "python": {"reuse": true}})");
  EXPECT_EQ(Text(kept), "1");
  EXPECT_EQ(Text(kept), "1");
  std::filesystem::remove(secret);
  ExpectNoProcess();
}

TEST_F(PythonIsolation, AStrictCallEndsInTime) {
  if (StrictIsRefused()) return;
  ToolCall call = Call("print('begun')\nimport time\ntime.sleep(1000)", kStrict);
  call.timeout_ms = 3'000;
  const ToolAnswer answer = Run(call);
  EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_TIMEOUT"));
  EXPECT_EQ(answer.outcome.payload["stdout"], Json("begun\n"));
  EXPECT_TRUE(answer.outcome.payload["stderr"].AsString().contains("line 3 in <module>"));
  ExpectNoProcess();
}

TEST_F(PythonIsolation, HostileStrictCallsHarmThemselves) {
  if (StrictIsRefused()) return;
  ToolCall bomb = Call(Bomb(), kStrict);
  bomb.timeout_ms = 800;
  Attack(bomb, kStrict, [](const ToolAnswer& answer) {
    const std::string code = answer.outcome.error_info["code"].ToString();
    EXPECT_TRUE(code == "PY_TOO_MANY_PROCESSES" || code == "PY_TIMEOUT") << code;
  });
  Attack(Call("x = bytearray(4 << 30)", kStrict), kStrict, [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_MemoryError"));
  });
  ToolCall deaf = Call(
      "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
      "while True: time.sleep(1)",
      kStrict);
  deaf.timeout_ms = 800;
  std::vector<std::shared_ptr<TestCall>> calls;
  calls.reserve(kAttacks);
  for (int i = 0; i < kAttacks; ++i) calls.push_back(StartCall(*tool_, deaf));
  for (const auto& one : calls) {
    EXPECT_EQ(Finish(one).outcome.error_info["code"], Json("PY_TIMEOUT"));
  }
  ExpectNoProcess();
}

TEST_F(PythonIsolation, AStepIsConfinedMoreThanTheWorkerAsksForButNeverLess) {
  const std::string filter =
      "result = [l.split()[1] for l in open('/proc/self/status') if l.startswith('Seccomp:')][0]";
  for (const char* spec : {"null", R"({"sandbox": "auto"})", R"({"sandbox": "off"})"}) {
    EXPECT_EQ(Text(Call(filter, spec)), "\"0\"");
  }
  EXPECT_EQ(Refusal(Call("result = 1", R"({"sandbox": true})")),
            "CONFIG Configuration error: `sandbox` is auto, off, basic or strict, not 'true'");
  if (StrictIsRefused()) return;
  EXPECT_EQ(Text(Call(filter, kStrict)), "\"2\"");
  Use({{"NOETL_SANDBOX", "strict"}});
  for (const char* spec : {"null", R"({"sandbox": "basic"})", R"({"sandbox": "off"})"}) {
    EXPECT_EQ(Text(Call(filter, spec)), "\"2\"");
  }
}

TEST_F(PythonIsolation, WithoutASandboxOnlyDeclaredLimitsHold) {
  const std::string limits =
      "import resource as r\nresult = [r.getrlimit(r.RLIMIT_DATA)[0] >> 20 > 1 << 20, "
      "r.getrlimit(r.RLIMIT_FSIZE)[0] > 1 << 40]";
  EXPECT_EQ(Text(Call(limits)), "[false,false]");
  Use({{"NOETL_SANDBOX", "off"}});
  EXPECT_EQ(Text(Call(limits)), "[true,true]");
  EXPECT_EQ(Text(With(Call(limits), "memory_mb", 200)), "[false,true]");
  // A step of such a worker may ask for its limits.
  EXPECT_EQ(Text(Call(limits, R"({"sandbox": "basic"})")), "[false,false]");
  const std::string forks =
      "import os, time\nfor i in range(100):\n  if os.fork() == 0:\n    time.sleep(1000)\n"
      "result = 'all'";
  EXPECT_EQ(Text(Call(forks)), "\"all\"");
}

TEST_F(PythonIsolation, TheShellIsConfinedInTheSameWays) {
  const LocalListener host;
  const Settings settings = *Settings::Load({});
  const std::unique_ptr<Tool> shell = MakeShell({&loop_, supervisor_.get(), &settings});
  const std::string visit = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + std::to_string(host.port()) +
                            "' 2>/dev/null && echo reached || echo not";
  const auto output = [&](ToolCall call) {
    const ToolAnswer answer = Finish(StartCall(*shell, std::move(call)));
    return answer.outcome.ok ? answer.outcome.payload["stdout"].ToString()
                             : answer.outcome.error_info["code"].ToString();
  };
  EXPECT_EQ(output(With(Call(""), "command", visit)), "reached\n");
  EXPECT_EQ(output(Denied(With(Call(""), "command", visit))),
            HostAllowsNetworks() ? "not\n" : "SANDBOX");
  const ToolCall strict =
      With(Call("", kStrict), "cmds", Parse(R"(["echo 1 > f", "cat f; ls /"])"));
  const std::string text = output(strict);
  if (HostAllowsStrict()) {
    EXPECT_TRUE(text.starts_with("1\nbin\n")) << text;
    EXPECT_FALSE(text.contains("sys\n") || text.contains("root\n")) << text;
  } else {
    EXPECT_EQ(text, "SANDBOX");
  }
  EXPECT_EQ(output(With(Call(""), "network", "off")), "CONFIG");
  ExpectNothingLeft();
}

}  // namespace
}  // namespace noetl::worker
