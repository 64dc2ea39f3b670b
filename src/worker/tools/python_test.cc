#include "worker/tools/python.h"

#include <csignal>
#include <fstream>
#include <set>

#include "base/json_io.h"
#include "base/testing.h"
#include "worker/process_testing.h"

namespace noetl::worker {
namespace {

ToolCall Call(std::string_view code, Json input = Json::Object()) {
  ToolCall call;
  call.execution_id = 42;
  call.step = "compute";
  call.kind = "python";
  call.config = Json::Object({{"code", code}});
  call.input = std::move(input);
  call.context = Parse(R"({"workload": {"city": "Oslo"}, "ctx": {"n": 1}, "execution_id": "42"})");
  call.idempotency_key = "42:compute:1:0";
  call.fence = 3;
  call.timeout_ms = 20'000;
  return call;
}

ToolCall With(ToolCall call, std::string_view field, Json value) {
  call.config = call.config.With(field, std::move(value));
  return call;
}

class Python : public ProcessTest {
 public:
  Python() { Use({}); }
  ~Python() override { tool_.reset(); }

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

  // The payload of code that must succeed.
  Json Value(ToolCall call) {
    const ToolAnswer answer = Run(std::move(call));
    EXPECT_TRUE(answer.outcome.ok) << answer.outcome.error << WriteJson(answer.outcome.error_info);
    return answer.outcome.payload;
  }
  Json Value(std::string_view code) { return Value(Call(code)); }
  std::string Text(std::string_view code) { return WriteJson(Value(code)); }

  // Besides the parent process and its spare children.
  void ExpectOnlyThePoolLeft() {
    WaitUntil([&] {
      return tool_->pool().idle() && Descendants().size() == tool_->pool().spares() + 1 &&
             Files().size() == 1 &&
             Groups().size() == (GroupRoot().empty() ? 0 : tool_->pool().spares());
    });
    EXPECT_EQ(Children(), std::vector<int>{tool_->pool().zygote_pid()});
  }

  template <typename Check>
  void Attack(const ToolCall& attack, Check check) {
    for (int i = 0; i < kAttacks; ++i) {
      const auto beside = StartCall(
          *tool_, Call("import time, os\nopen('up', 'w')\nfor i in range(200000):\n"
                       "  if os.path.exists('go'): break\n  time.sleep(0.001)\nresult = 'lived'"));
      const auto attacking = StartCall(*tool_, attack);
      EXPECT_EQ(Text("result = 'during'"), "\"during\"");
      check(Finish(attacking));
      for (const std::string& folder : Files()) std::ofstream(folder + "/go").put('x');
      EXPECT_EQ(Finish(beside).outcome.payload, Json("lived"));
      EXPECT_EQ(Text("result = 'after'"), "\"after\"");
      ExpectOnlyThePoolLeft();
    }
  }

  std::unique_ptr<Settings> settings_;
  std::unique_ptr<PythonTool> tool_;
};

TEST_F(Python, TheResultVariableIsThePayload) {
  EXPECT_EQ(Text("result = {'sum': 1 + 2, 'list': [1, 2.5, None, True, 'é']}"),
            R"({"sum":3,"list":[1,2.5,null,true,"é"]})");
  EXPECT_EQ(Text("result = {'status': 'error'}"), R"({"status":"error"})");
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, InputsAreGlobalsAndDicts) {
  const Json input = Parse(R"({"a": 2, "b": [1, 2]})");
  EXPECT_EQ(Value(Call("result = [a, b, args == input_data == {'a': 2, 'b': [1, 2]}]", input)),
            Parse("[2, [1, 2], true]"));
  EXPECT_EQ(Text("result = [workload['city'], ctx['n'], context['ctx'] is ctx, variables is "
                 "context, execution_id, step]"),
            R"(["Oslo",1,true,true,"42","compute"])");
}

TEST_F(Python, MainIsCalledWithWhatItNames) {
  const Json input = Parse(R"({"a": 2, "extra": 5, "data": {"inner": 7}})");
  const auto value = [&](std::string_view code) { return WriteJson(Value(Call(code, input))); };
  EXPECT_EQ(value("def main(a, b=9):\n  return [a, b]"), "[2,9]");
  EXPECT_EQ(value("async def main(a):\n  return a * 10"), "20");
  EXPECT_EQ(value("def main(inner, context, **rest):\n"
                  "  return [inner, context['ctx'], sorted(rest)]"),
            R"([7,{"n":1},["a","data","extra"]])");
  EXPECT_EQ(value("def main(workload, /, *, a):\n  return [workload['city'], a]"), R"(["Oslo",2])");
  EXPECT_EQ(value("def main(input_data):\n  return sorted(input_data)"), R"(["a","data","extra"])");
  EXPECT_EQ(value("def main(a):\n  return a\nresult = 'mine'"), "\"mine\"");
  EXPECT_EQ(Run(Call("def main(unknown):\n  pass")).outcome.error,
            "TypeError: main() needs 'unknown', which is not among the inputs");
}

TEST_F(Python, TopLevelReturnAndAwait) {
  EXPECT_EQ(Text("if True:\n  return {'x': 1}\nresult = 2"), R"({"x":1})");
  const Json input = Parse(R"({"n": 4})");
  EXPECT_EQ(
      Value(Call("import math\nn = n + 1\ndef f():\n  return n\nreturn [f(), math.pi > 3]", input)),
      Parse("[5, true]"));
  EXPECT_EQ(Text("import asyncio\nresult = await asyncio.sleep(0, 'slept')"), "\"slept\"");
  EXPECT_EQ(Text("import asyncio\nreturn await asyncio.sleep(0, 'both')"), "\"both\"");
}

TEST_F(Python, ValuesOfOtherTypesBecomeJson) {
  EXPECT_EQ(Text("from decimal import Decimal\nimport datetime\n"
                 "result = [Decimal('1.10'), datetime.datetime(2026, 1, 2, 3), "
                 "datetime.date(2026, 1, 2), {3, 1, 2}, b'hi', (1, 2), 1j]"),
            R"(["1.10","2026-01-02T03:00:00","2026-01-02",[1,2,3],"aGk=",[1,2],"1j"])");
  EXPECT_EQ(Text("result = {'nan': float('nan'), 'inf': [float('-inf')], 5: {(1, 2): {1.5}}, "
                 "None: 1, True: 2}"),
            R"j({"nan":null,"inf":[null],"5":{"(1, 2)":[1.5]},"null":1,"true":2})j");
  EXPECT_EQ(Text("result = 'a\\x00b\\ud800'"),
            "\"a\xEF\xBF\xBD"
            "b?\"");
}

TEST_F(Python, WithoutAValueItIsWhatWasPrinted) {
  EXPECT_EQ(Text("import sys\nprint('out')\nprint('err', file=sys.stderr)"),
            R"({"stdout":"out\n","stderr":"err\n"})");
  EXPECT_EQ(Text("print('{\"a\": 1}')"), R"({"a":1})");
  EXPECT_EQ(Text("print('{\"a\": 1}')\nresult = None"), R"({"stdout":"{\"a\": 1}\n","stderr":""})");
  EXPECT_EQ(Text("import os\nos.write(1, b'a\\x00\\xff')"),
            "{\"stdout\":\"a\xEF\xBF\xBD\xEF\xBF\xBD\",\"stderr\":\"\"}");
  // What is printed cannot pass for a result.
  EXPECT_EQ(Text("print('{\"ok\":true}')\nresult = 1"), "1");
}

TEST_F(Python, OutputIsReportedAsItComes) {
  std::string seen;
  ToolCall call = Call(
      "import os, time\nprint('one')\n"
      "while not os.path.exists('go'): time.sleep(0.001)\nprint('two')");
  call.output = [&](OutputStream, std::string_view text) { seen += text; };
  const auto running = StartCall(*tool_, std::move(call));
  WaitUntil([&] { return seen == "one\n"; });
  EXPECT_FALSE(running->answer.has_value());
  for (const std::string& folder : Files()) std::ofstream(folder + "/go").put('x');
  EXPECT_EQ(Finish(running).outcome.payload["stdout"], Json("one\ntwo\n"));
}

TEST_F(Python, AnExceptionIsASoftErrorWithItsTraceback) {
  const ToolAnswer answer = Run(Call("print('before')\ndef f(x):\n  return 1 / x\nf(0)"));
  EXPECT_FALSE(answer.outcome.ok || answer.hard || answer.cancelled);
  EXPECT_EQ(answer.outcome.error, "ZeroDivisionError: division by zero");
  const Json& info = answer.outcome.error_info;
  EXPECT_EQ(info["kind"], Json("tool_error"));
  EXPECT_EQ(info["code"], Json("PY_ZeroDivisionError"));
  EXPECT_EQ(info["exception_type"], Json("ZeroDivisionError"));
  EXPECT_EQ(info["retryable"], Json(false));
  EXPECT_EQ(info["source"], Json("python"));
  const std::string traceback = info["traceback"].ToString();
  EXPECT_TRUE(traceback.contains("File \"<step:compute>\", line 3, in f\n    return 1 / x"))
      << traceback;
  EXPECT_FALSE(traceback.contains("run_job")) << traceback;
  EXPECT_EQ(answer.outcome.extra["py"]["exception"], Json("ZeroDivisionError"));
  EXPECT_EQ(answer.outcome.extra["py"]["traceback"], info["traceback"]);
  EXPECT_EQ(answer.outcome.payload["stdout"], Json("before\n"));
}

TEST_F(Python, ExceptionsHaveKinds) {
  const auto kind = [&](std::string_view code) {
    const Json info = Run(Call(code)).outcome.error_info;
    return info["kind"].ToString() + " " + info["code"].ToString();
  };
  EXPECT_EQ(kind("int('x')"), "schema PY_ValueError");
  EXPECT_EQ(kind("{}['x']"), "schema PY_KeyError");
  EXPECT_EQ(kind("import json\njson.loads('{')"), "parse PY_JSONDecodeError");
  EXPECT_EQ(kind("def ("), "parse PY_SyntaxError");
  EXPECT_EQ(kind("import sys\nsys.exit(3)"), "tool_error PY_SystemExit");
  EXPECT_EQ(kind("raise KeyboardInterrupt"), "tool_error PY_KeyboardInterrupt");
  EXPECT_EQ(kind("import no_such_module"), "tool_error PY_ModuleNotFoundError");
  EXPECT_EQ(kind("a = []\na.append(a)\nresult = a"), "tool_error PY_RecursionError");
  EXPECT_EQ(Run(Call("import sys\nsys.exit(3)")).outcome.payload["exit_code"], Json(3));
  EXPECT_EQ(Text("result = 5\nimport sys\nsys.exit(0)"), "5");
}

TEST_F(Python, LibrariesAreLoaded) {
  EXPECT_EQ(Value(With(Call("result = [os.path.sep, json.dumps(1)]"), "libs",
                       Parse(R"(["os.path", "json"])"))),
            Parse(R"(["/", "1"])"));
  EXPECT_EQ(Value(With(Call("result = [m.pi > 3, when.__name__, dumps(1), loads('2')]"), "libs",
                       Parse(R"({"m": "math", "when": {"from": "datetime", "import": "datetime"},
                                 "x": {"from": "json", "import": ["dumps", "loads"]}})"))),
            Parse(R"([true, "datetime", "1", 2])"));
  const ToolAnswer answer =
      Run(With(Call("result = 1"), "libs", Parse(R"(["no_one", "json", "no_two"])")));
  EXPECT_EQ(answer.outcome.error, "ImportError: missing Python modules: no_one, no_two");
  EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_ImportError"));
}

TEST_F(Python, PromisesAreChecked) {
  const Json both = Parse(R"({"expects": ["a"], "returns": ["x"]})");
  const Json input = Parse(R"({"a": 1})");
  EXPECT_TRUE(Run(With(Call("result = {'x': a}", input), "assert", both)).outcome.ok);
  ToolAnswer answer = Run(With(Call("result = {'x': 1}"), "assert", both));
  EXPECT_EQ(answer.outcome.error, "AssertionError: expected inputs are missing: a");
  EXPECT_EQ(answer.outcome.error_info["kind"], Json("schema"));
  answer = Run(With(Call("result = {'y': 1}", input), "assert", both));
  EXPECT_EQ(answer.outcome.error, "AssertionError: the result lacks x");
  answer = Run(With(Call("result = 5", input), "assert", both));
  EXPECT_EQ(answer.outcome.error, "AssertionError: the result must be a map with x");
  answer = Run(With(Call("result = 5"), "assert", Parse(R"(["result > 3", "result > 7"])")));
  EXPECT_EQ(answer.outcome.error, "AssertionError: result > 7 does not hold");
}

TEST_F(Python, TheEnvironmentIsScrubbed) {
  setenv("NOETL_TEST_SECRET", "hidden", 1);
  const Json env =
      Value(With(Call("import os\nresult = dict(os.environ)"), "env", Parse(R"({"MINE": 5})")));
  unsetenv("NOETL_TEST_SECRET");
  EXPECT_FALSE(env.Has("NOETL_TEST_SECRET"));
  EXPECT_EQ(env["MINE"], Json("5"));
  EXPECT_EQ(env["NOETL_EXECUTION_ID"], Json("42"));
  EXPECT_EQ(env["NOETL_STEP"], Json("compute"));
  EXPECT_EQ(env["NOETL_IDEMPOTENCY_KEY"], Json("42:compute:1:0"));
  EXPECT_EQ(env["NOETL_FENCE"], Json("3"));
  EXPECT_TRUE(env["HOME"].AsString().starts_with(folder_));
  EXPECT_EQ(Text("import subprocess\nresult = subprocess.check_output('echo $NOETL_STEP', "
                 "shell=True, text=True)"),
            "\"compute\\n\"");
}

TEST_F(Python, EachCallHasItsOwnProcessAndDirectory) {
  EXPECT_EQ(Text("import builtins, os\nbuiltins.leak = 1\nopen('f', 'w')\n"
                 "result = [os.getcwd() == os.environ['TMPDIR'], os.getsid(0) == os.getpid(), "
                 "oct(os.stat('.').st_mode & 0o777), os.umask(0)]"),
            R"([true,true,"0o700",63])");
  EXPECT_EQ(Text("import builtins, os\nresult = [hasattr(builtins, 'leak'), os.listdir('.'), "
                 "[int(f) for f in os.listdir('/proc/self/fd') if int(f) > 3]]"),
            "[false,[],[100]]");
  EXPECT_EQ(Value(With(Call("import os\nresult = os.getcwd()"), "cwd", "/usr")), Json("/usr"));
  const ToolAnswer answer = Run(With(Call("result = 1"), "cwd", "/no/such"));
  EXPECT_TRUE(answer.hard);
  EXPECT_EQ(answer.outcome.error,
            "Configuration error: directory /no/such: No such file or directory");
}

TEST_F(Python, CodeComesFromSeveralPlaces) {
  ToolCall call = Call("");
  call.config = Parse(R"({"code_b64": "cmVzdWx0ID0gMTc="})");  // result = 17
  EXPECT_EQ(Value(call), Json(17));
  call.config = Parse(R"({"script": {"source": {"type": "inline", "code": "result = 18"}}})");
  EXPECT_EQ(Value(call), Json(18));
  std::filesystem::create_directory(folder_ + "/scripts");
  std::ofstream(folder_ + "/scripts/a.py") << "result = 19";
  std::ofstream(folder_ + "/secret.py") << "result = 20";
  Use({{"NOETL_SCRIPTS_DIR", folder_ + "/scripts"}});
  call.config = Parse(R"({"script": {"uri": "a.py", "source": {"type": "file"}}})");
  EXPECT_EQ(Value(call), Json(19));
  for (const std::string& path : {std::string("../secret.py"), folder_ + "/secret.py"}) {
    call.config = Json::Object({{"script", Json::Object({{"uri", path}})}});
    const ToolAnswer answer = Run(call);
    EXPECT_TRUE(answer.hard) << path;
    EXPECT_EQ(answer.outcome.error_info["code"], Json("CONFIG"));
  }
  std::filesystem::remove_all(folder_ + "/scripts");
  std::filesystem::remove(folder_ + "/secret.py");
}

TEST_F(Python, WhatCannotRunIsRefused) {
  const auto refused = [&](Json config) {
    ToolCall call = Call("");
    call.config = std::move(config);
    const ToolAnswer answer = Run(std::move(call));
    EXPECT_TRUE(answer.hard);
    return answer.outcome.error;
  };
  EXPECT_EQ(refused(Json::Object()), "Configuration error: python needs `code` or `script`");
  EXPECT_EQ(refused(Parse(R"({"code_b64": "?"})")),
            "Configuration error: `code_b64` is not base64 of a text");
  EXPECT_EQ(refused(Parse(R"({"code": "1", "env": [1]})")),
            "Configuration error: `env` must be a map");
  EXPECT_EQ(refused(Parse(R"({"code": "1", "python": "/bin/sh"})")),
            "Configuration error: '/bin/sh' is not among NOETL_PYTHON_INTERPRETERS");
  Use({{"NOETL_PYTHON_INTERPRETERS", "/bin/false,/no/such/python"}});
  EXPECT_EQ(refused(Parse(R"({"code": "1", "python": "/bin/false"})")),
            "Configuration error: /bin/false ended: ");
  EXPECT_EQ(refused(Parse(R"({"code": "1", "python": "/no/such/python"})")),
            "Configuration error: /no/such/python: No such file or directory");
  EXPECT_EQ(Text("result = 1"), "1");
}

TEST_F(Python, ATimeLimitIsASoftError) {
  ToolCall call = Call("print('begun')\nimport time\ntime.sleep(1000)");
  call.timeout_ms = 200;
  const ToolAnswer answer = Run(std::move(call));
  EXPECT_FALSE(answer.outcome.ok || answer.hard);
  EXPECT_EQ(answer.outcome.error, "Execution timed out after 0.2 seconds");
  EXPECT_EQ(answer.outcome.error_info["kind"], Json("timeout"));
  EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_TIMEOUT"));
  EXPECT_EQ(answer.outcome.payload["stdout"], Json("begun\n"));
  // Where it was.
  EXPECT_TRUE(answer.outcome.payload["stderr"].AsString().contains("line 3 in <module>"));
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, StopEndsACall) {
  const auto running = StartCall(*tool_, Call("import time\nopen('up', 'w')\ntime.sleep(1000)"));
  WaitUntil([&] {
    return std::ranges::any_of(
        Files(), [](const std::string& folder) { return std::filesystem::exists(folder + "/up"); });
  });
  running->running->Stop();
  running->running->Stop();
  EXPECT_TRUE(Finish(running).cancelled);
  // One that has not begun.
  Use({});
  const auto waiting = StartCall(*tool_, Call("import time\ntime.sleep(1000)"));
  waiting->running->Stop();
  EXPECT_TRUE(Finish(waiting).cancelled);
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, DestroyingACallEndsIt) {
  for (int i = 0; i < 3; ++i) {
    Text("result = 1");
    auto running = StartCall(*tool_, Call("import time\ntime.sleep(1000)"));
    running->running.reset();
    ExpectOnlyThePoolLeft();
    EXPECT_FALSE(running->answer.has_value());
  }
}

TEST_F(Python, LargeJobsAndResults) {
  const std::string big(3'000'000, 'x');
  EXPECT_EQ(Value(Call("result = text * 2", Json::Object({{"text", big}}))), Json(big + big));
  const ToolAnswer answer = Run(Call("result = 'x' * (70 << 20)"));
  EXPECT_EQ(answer.outcome.error, "the result is larger than 64 MB");
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, ManyAtOnce) {
  std::vector<std::shared_ptr<TestCall>> calls;
  calls.reserve(40);
  for (int i = 0; i < 40; ++i)
    calls.push_back(StartCall(*tool_, Call("result = n * n", Json::Object({{"n", i}}))));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(Finish(calls[i]).outcome.payload, Json(i * i));
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, AChildCanBeKeptForOneStep) {
  ToolCall call = Call(
      "import os, builtins\nbuiltins.n = getattr(builtins, 'n', 0) + 1\n"
      "result = [n, os.getpid(), 'x' in globals(), os.listdir('.')]\nx = 1\n"
      "open('f', 'w')");
  call.spec = Parse(R"({"python": {"reuse": true}})");
  const Json first = Value(call);
  const Json second = Value(call);
  EXPECT_EQ(second.At(0), Json(2));
  EXPECT_EQ(second.At(1), first.At(1));
  EXPECT_EQ(second.At(2), Json(false));
  EXPECT_EQ(second.At(3), Json::Array());
  // Neither another step nor another execution nor an ordinary call gets it.
  ToolCall other = call;
  other.step = "other";
  EXPECT_EQ(Value(other).At(0), Json(1));
  other = call;
  other.execution_id = 43;
  EXPECT_EQ(Value(other).At(0), Json(1));
  other = call;
  other.spec = Json();
  EXPECT_EQ(Value(other).At(0), Json(1));
  // One that leaves something behind is not kept.
  ToolCall dirty = call;
  dirty.config =
      Parse(R"({"code": "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nresult = 1"})");
  EXPECT_EQ(Value(dirty), Json(1));
  EXPECT_EQ(Value(call).At(0), Json(1));
}

TEST_F(Python, AKeptChildHasLimits) {
  ToolCall call = Call("import os\nresult = os.getpid()");
  call.spec = Parse(R"({"python": {"reuse": true}})");
  const Json first = Value(call);
  int jobs = 1;
  while (Value(call) == first) ASSERT_LT(++jobs, 1'000);
  EXPECT_EQ(jobs, 200);
  // One that grows is not kept either.
  call = Call(
      "import os, builtins\nkeep = getattr(builtins, 'keep', None) or []\n"
      "builtins.keep = keep\nkeep.append(b'x' * (len(keep) * 80 << 20))\n"
      "result = os.getpid()");
  call.step = "grows";
  call.spec = Parse(R"({"python": {"reuse": true}})");
  const Json small = Value(call);
  EXPECT_EQ(Value(call), small);
  EXPECT_NE(Value(call), small);
}

TEST_F(Python, AZygoteIsReplacedAfterManyForks) {
  tool_.reset();
  PythonPool pool(&loop_, supervisor_.get(), "python3", {}, 20);
  std::set<int> zygotes;
  int jobs = 0;
  while (zygotes.size() < 3) {
    ASSERT_LT(++jobs, 10'000);
    PythonJob job;
    job.body = R"({"code": "", "filename": "f", "args": {}, "context": {}, "limits": [], "env": {},
                   "cwd": "/", "keep": false})";
    job.limits.timeout_ms = 20'000;
    std::optional<PythonEnd> end;
    const auto running = pool.Start(std::move(job), [&](PythonEnd ended) { end = ended; });
    WaitUntil([&] { return end.has_value(); });
    EXPECT_EQ(end->ending, PythonEnding::kReplied);
    zygotes.insert(pool.zygote_pid());
  }
  // The earlier ones go when nothing of theirs is left.
  WaitUntil([&] { return Children().size() <= 2; });
}

TEST_F(Python, APoolStartsWithItsFirstCall) {
  EXPECT_EQ(tool_->pool().zygote_pid(), 0);
  EXPECT_EQ(Descendants(), std::vector<int>());
  EXPECT_EQ(Text("result = 1"), "1");
  EXPECT_NE(tool_->pool().zygote_pid(), 0);
}

TEST_F(Python, ALostZygoteIsReplaced) {
  const auto running = StartCall(*tool_, Call("import time\nopen('up', 'w')\ntime.sleep(1000)"));
  WaitUntil([&] {
    return std::ranges::any_of(
        Files(), [](const std::string& folder) { return std::filesystem::exists(folder + "/up"); });
  });
  const int parent = tool_->pool().zygote_pid();
  kill(parent, SIGKILL);
  const ToolAnswer answer = Finish(running);
  EXPECT_FALSE(answer.hard);
  EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_LOST"));
  EXPECT_EQ(answer.outcome.error_info["retryable"], Json(true));
  EXPECT_EQ(Text("result = 'again'"), "\"again\"");
  EXPECT_NE(tool_->pool().zygote_pid(), parent);
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, NothingIsLeftOfThePool) {
  tool_->Warm();
  WaitUntil([&] { return tool_->pool().spares() > 0; });
  const auto running = StartCall(*tool_, Call("import time\ntime.sleep(1000)"));
  tool_.reset();
  running->running.reset();
  ExpectNothingLeft();
  EXPECT_FALSE(running->answer.has_value());
}

// Attacks.

TEST_F(Python, AForkBombDies) {
  // Whichever limit it meets first.
  ToolCall call = Call(Bomb());
  call.timeout_ms = 300;
  Attack(call, [](const ToolAnswer& answer) {
    const std::string code = answer.outcome.error_info["code"].ToString();
    EXPECT_TRUE(code == "PY_TOO_MANY_PROCESSES" || code == "PY_TIMEOUT") << code;
  });
}

TEST_F(Python, EachCallIsInAGroupOfItsOwn) {
  const std::string text = Text("result = open('/proc/self/cgroup').read()");
  const std::string mark = "/noetl-" + std::to_string(getpid()) + "-";
  EXPECT_EQ(text.contains(mark), !GroupRoot().empty()) << text;
}

TEST_F(Python, AMemoryHogFails) {
  Attack(Call("x = bytearray(4 << 30)"), [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.error, "MemoryError");
    EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_MemoryError"));
  });
}

TEST_F(Python, OneThatClosesItsPipesIsStillAwaited) {
  ToolCall call = Call("import os, time\nos.closerange(0, 200)\ntime.sleep(1000)");
  call.timeout_ms = 150;
  Attack(call, [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_TIMEOUT"));
  });
  const ToolAnswer answer = Run(Call("import os\nos.closerange(0, 200)"));
  EXPECT_EQ(answer.outcome.error, "Python exited with code 1 without a result");
}

TEST_F(Python, OneThatIgnoresTheSignalIsKilled) {
  // All at once, since each waits out the grace of a stop.
  ToolCall call = Call(
      "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
      "while True: time.sleep(1)");
  call.timeout_ms = 300;
  std::vector<std::shared_ptr<TestCall>> calls;
  calls.reserve(kAttacks);
  for (int i = 0; i < kAttacks; ++i) calls.push_back(StartCall(*tool_, call));
  EXPECT_EQ(Text("result = 'during'"), "\"during\"");
  for (const auto& one : calls) {
    EXPECT_EQ(Finish(one).outcome.error_info["code"], Json("PY_TIMEOUT"));
  }
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, ADaemonIsFound) {
  ToolCall call = Call(
      "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n"
      "    time.sleep(1000)\n  os._exit(0)\nos.wait()\nresult = 'gone'");
  Attack(call, [](const ToolAnswer& answer) { EXPECT_EQ(answer.outcome.payload, Json("gone")); });
}

TEST_F(Python, ALyingChildIsKilled) {
  // Replies by itself, says that it leaves nothing, and goes on.
  ToolCall call = Call(
      "import os, struct, time\nbody = b'c{\"ok\":true,\"value\":1}'\n"
      "os.fork()\nos.write(100, struct.pack('>Q', len(body)) + body)\n"
      "time.sleep(1000)");
  Attack(call, [](const ToolAnswer& answer) { EXPECT_EQ(answer.outcome.payload, Json(1)); });
  call = Call("import os, time\nos.write(100, b'\\xff' * 100)\ntime.sleep(1000)");
  EXPECT_EQ(Run(call).outcome.error, "the result is larger than 64 MB");
  call = Call("import os, struct\nos.write(100, struct.pack('>Q', 3) + b'c{{')\nos._exit(0)");
  EXPECT_EQ(Run(call).outcome.error_info["code"], Json("PY_RESULT"));
  ExpectOnlyThePoolLeft();
}

TEST_F(Python, AGigabyteOfOutputIsDrained) {
  ToolCall call = With(Call("import os\nblock = bytes(1000000)\n"
                            "for i in range(1000):\n  rest = block\n"
                            "  while rest: rest = rest[os.write(1, rest):]\nprint('end')"),
                       "max_output_bytes", 300);
  const std::string whole = Run(call).outcome.payload["stdout"].ToString();
  EXPECT_TRUE(whole.ends_with("end\n"));
  EXPECT_TRUE(whole.contains("\n... 999999704 bytes are left out here ...\n"));
  // Cut off in the middle.
  call.timeout_ms = 100;
  Attack(call, [](const ToolAnswer& answer) {
    EXPECT_TRUE(answer.outcome.payload["stdout"].AsString().contains("bytes are left out here"));
  });
}

TEST_F(Python, ACrashIsReported) {
  Attack(Call("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"),
         [](const ToolAnswer& answer) {
           EXPECT_EQ(answer.outcome.error, "Python crashed: SIGSEGV (Segmentation fault)");
           EXPECT_EQ(answer.outcome.error_info["code"], Json("PY_CRASH"));
           EXPECT_FALSE(answer.hard);
         });
}

}  // namespace
}  // namespace noetl::worker
