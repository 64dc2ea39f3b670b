#include <csignal>

#include "base/json_io.h"
#include "base/testing.h"
#include "worker/process_testing.h"
#include "worker/tools/registry.h"

namespace noetl::worker {
namespace {

ToolCall Call(Json config, Json input = Json::Object()) {
  ToolCall call;
  call.execution_id = 42;
  call.step = "list";
  call.kind = "shell";
  call.config = std::move(config);
  call.input = std::move(input);
  call.idempotency_key = "42:list:1:0";
  call.fence = 2;
  call.timeout_ms = 20'000;
  return call;
}

ToolCall Command(std::string_view command) { return Call(Json::Object({{"command", command}})); }

class Shell : public ProcessTest {
 public:
  Shell() : tool_(MakeShell({.loop = &loop_, .supervisor = supervisor_.get()})) {}

  ToolAnswer Finish(const std::shared_ptr<TestCall>& call) {
    WaitUntil([&] { return call->answer.has_value(); });
    return call->answer.value_or(ToolAnswer());
  }
  ToolAnswer Run(ToolCall call) { return Finish(StartCall(*tool_, std::move(call))); }
  std::string Output(ToolCall call) {
    const ToolAnswer answer = Run(std::move(call));
    EXPECT_TRUE(answer.outcome.ok) << answer.outcome.error;
    return answer.outcome.payload["stdout"].ToString();
  }

  template <typename Check>
  void Attack(const ToolCall& attack, Check check) {
    for (int i = 0; i < kAttacks; ++i) {
      const auto attacking = StartCall(*tool_, attack);
      EXPECT_EQ(Output(Command("echo during")), "during\n");
      check(Finish(attacking));
      EXPECT_EQ(Output(Command("echo after")), "after\n");
      ExpectNothingLeft();
    }
  }

  std::unique_ptr<Tool> tool_;
};

TEST_F(Shell, GivesCodeAndOutput) {
  const ToolAnswer answer = Run(Command("echo out; echo err >&2"));
  EXPECT_TRUE(answer.outcome.ok);
  const Json& payload = answer.outcome.payload;
  EXPECT_EQ(payload["exit_code"], Json(0));
  EXPECT_EQ(payload["returncode"], Json(0));
  EXPECT_EQ(payload["stdout"], Json("out\n"));
  EXPECT_EQ(payload["stderr"], Json("err\n"));
  EXPECT_EQ(payload["text"], Json("out"));
  EXPECT_TRUE(payload["duration_ms"].is_int());
  ASSERT_EQ(payload["commands"].size(), 1U);
  const Json& command = payload["commands"].At(0);
  EXPECT_EQ(command["cmd_preview"], Json("echo out; echo err >&2"));
  EXPECT_EQ(command["returncode"], Json(0));
  EXPECT_EQ(command["stdout"], Json("out\n"));
  EXPECT_EQ(command["stderr"], Json("err\n"));
  EXPECT_TRUE(command["duration_ms"].is_int());
  ExpectNothingLeft();
}

TEST_F(Shell, SeveralCommandsShareADirectoryAndStopAtAFailure) {
  EXPECT_EQ(Output(Call(Parse(R"({"cmds": ["echo 1 > f", "cat f", "echo 2"]})"))), "1\n2\n");
  const ToolAnswer answer = Run(Call(Parse(R"({"cmds": ["echo 1", "exit 3", "echo 2"]})")));
  EXPECT_FALSE(answer.outcome.ok || answer.hard);
  EXPECT_EQ(answer.outcome.error, "Command exited with code 3");
  EXPECT_EQ(answer.outcome.error_info["code"], Json("SH_EXIT_3"));
  EXPECT_EQ(answer.outcome.error_info["kind"], Json("tool_error"));
  EXPECT_EQ(answer.outcome.error_info["source"], Json("shell"));
  EXPECT_EQ(answer.outcome.error_info["retryable"], Json(false));
  EXPECT_EQ(answer.outcome.payload["stdout"], Json("1\n"));
  EXPECT_EQ(answer.outcome.payload["exit_code"], Json(3));
  EXPECT_EQ(answer.outcome.payload["commands"].size(), 2U);
  ExpectNothingLeft();
}

TEST_F(Shell, TakesItsFieldsInEveryForm) {
  EXPECT_EQ(Output(Call(Parse(R"({"cmds": "echo a\necho b"})"))), "a\nb\n");
  EXPECT_EQ(Output(Call(Parse(R"({"cmd": "echo c"})"))), "c\n");
  EXPECT_EQ(Output(Call(Parse(R"({"command": "echo ${0##*/}", "shell": "bash"})"))), "bash\n");
  EXPECT_EQ(Output(Call(Parse(R"({"command": "echo $0", "shell": "/bin/dash"})"))), "/bin/dash\n");
  EXPECT_EQ(Output(Call(Parse(R"({"command": "cat", "stdin": "typed"})"))), "typed");
  EXPECT_EQ(Output(Call(Parse(R"({"command": "pwd", "cwd": "/usr"})"))), "/usr\n");
  EXPECT_EQ(
      Run(Call(Parse(R"({"command": "echo '[1]'", "parse": "json"})"))).outcome.payload["json"],
      Parse("[1]"));
  const Json quiet =
      Run(Call(Parse(R"({"command": "echo x", "capture": "false"})"))).outcome.payload;
  EXPECT_FALSE(quiet.Has("stdout") || quiet["commands"].At(0).Has("stdout"));
  const Json cut = Run(Call(Parse(R"({"command": "echo 123456789012", "max_output_bytes": "6"})")))
                       .outcome.payload;
  EXPECT_EQ(cut["stdout"].ToString().substr(0, 5), "1234\n");
}

TEST_F(Shell, InputsAndIdentityAreInTheEnvironment) {
  const Json input =
      Parse(R"({"user-id": 7, "text": "a; rm $HOME", "list": [1, "b"], "none": null})");
  ToolCall call = Call(Parse(R"({"command": "env | grep -E 'NOETL|MINE' | sort",
                                 "env": {"MINE": true}})"),
                       input);
  EXPECT_EQ(Output(std::move(call)),
            "MINE=true\nNOETL_ARG_LIST=[1,\"b\"]\nNOETL_ARG_NONE=\nNOETL_ARG_TEXT=a; rm $HOME\n"
            "NOETL_ARG_USER_ID=7\nNOETL_EXECUTION_ID=42\nNOETL_FENCE=2\n"
            "NOETL_IDEMPOTENCY_KEY=42:list:1:0\nNOETL_STEP=list\n");
}

TEST_F(Shell, WhatCannotRunIsRefused) {
  const auto refused = [&](Json config, Json input = Json::Object()) {
    const ToolAnswer answer = Run(Call(std::move(config), std::move(input)));
    EXPECT_TRUE(answer.hard);
    EXPECT_EQ(answer.outcome.error_info["kind"], Json("config"));
    return answer.outcome.error;
  };
  const std::string_view start = "Configuration error: ";
  EXPECT_EQ(refused(Json::Object()), fmt::format("{}shell needs `cmds` or `command`", start));
  EXPECT_EQ(refused(Parse(R"({"cmds": []})")),
            fmt::format("{}shell needs `cmds` or `command`", start));
  EXPECT_EQ(refused(Parse(R"({"command": "a", "shell": "fish"})")),
            fmt::format("{}`shell` must be one of sh, bash, dash, zsh or an absolute path, "
                        "not 'fish'",
                        start));
  EXPECT_EQ(refused(Parse(R"({"command": "a", "shell": "/no/sh"})")),
            fmt::format("{}/no/sh: No such file or directory", start));
  EXPECT_EQ(refused(Parse(R"({"command": "a", "cwd": "/no/such"})")),
            fmt::format("{}directory /no/such: No such file or directory", start));
  EXPECT_EQ(refused(Parse(R"({"command": "a", "env": 1})")),
            fmt::format("{}`env` must be a map", start));
  EXPECT_EQ(refused(Parse(R"({"command": "a", "env": {"A=B": 1}})")),
            fmt::format("{}`env`: 'A=B' is no name of a variable", start));
  EXPECT_EQ(
      refused(Parse(R"({"command": "a"})"), Json::Object({{"big", std::string(200'000, 'x')}})),
      fmt::format("{}NOETL_ARG_BIG is longer than the 128 KiB that a variable may have", start));
  ExpectNothingLeft();
}

TEST_F(Shell, ATimeLimitCoversAllCommands) {
  ToolCall call = Call(Parse(R"({"cmds": ["echo one", "sleep 1000"], "timeout": 1000})"));
  call.timeout_ms = 200;
  const ToolAnswer answer = Run(std::move(call));
  EXPECT_FALSE(answer.outcome.ok || answer.hard);
  EXPECT_EQ(answer.outcome.error, "Execution timed out after 0.2 seconds");
  EXPECT_EQ(answer.outcome.error_info["kind"], Json("timeout"));
  EXPECT_EQ(answer.outcome.error_info["code"], Json("SH_TIMEOUT"));
  EXPECT_EQ(answer.outcome.error_info["retryable"], Json(true));
  EXPECT_EQ(answer.outcome.payload["stdout"], Json("one\n"));
  // Declared in the fields only.
  call = Call(Parse(R"({"command": "sleep 1000", "timeout": "0.1"})"));
  call.timeout_ms.reset();
  EXPECT_EQ(Run(std::move(call)).outcome.error, "Execution timed out after 0.1 seconds");
}

TEST_F(Shell, StopEndsACall) {
  const auto call = StartCall(*tool_, Call(Parse(R"({"cmds": ["sleep 1000", "echo never"]})")));
  call->running->Stop();
  call->running->Stop();
  const ToolAnswer answer = Finish(call);
  EXPECT_TRUE(answer.cancelled);
  EXPECT_FALSE(answer.outcome.ok || answer.hard);
  EXPECT_EQ(answer.outcome.error_info["kind"], Json("cancelled"));
  ExpectNothingLeft();
}

TEST_F(Shell, DestroyingACallEndsIt) {
  const auto call = StartCall(*tool_, Command("sleep 1000"));
  call->running.reset();
  WaitUntil([&] { return supervisor_->running() == 0; });
  EXPECT_FALSE(call->answer.has_value());
  ExpectNothingLeft();
}

TEST_F(Shell, AForkBombDies) {
  ToolCall call = Command("exec python3 -I -c '" + Bomb() + "'");
  call.timeout_ms = 300;
  // Whichever limit it meets first.
  Attack(call, [](const ToolAnswer& answer) {
    const std::string code = answer.outcome.error_info["code"].ToString();
    EXPECT_TRUE(code == "SH_TOO_MANY_PROCESSES" || code == "SH_TIMEOUT") << code;
  });
}

TEST_F(Shell, AGigabyteOfOutputIsDrained) {
  ToolCall call = Call(Parse(R"({"command": "head -c 1000000000 /dev/zero; echo end",
                                 "max_output_bytes": 300})"));
  EXPECT_TRUE(Run(call).outcome.payload["text"].AsString().ends_with("end"));
  // Cut off in the middle.
  call.timeout_ms = 100;
  Attack(call, [](const ToolAnswer& answer) {
    EXPECT_TRUE(answer.outcome.payload["stdout"].AsString().contains("bytes are left out here"));
  });
}

TEST_F(Shell, AMemoryHogFails) {
  ToolCall call = Command("python3 -c 'x = bytearray(4 << 30)'");
  Attack(call, [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.error, "Command exited with code 1");
    EXPECT_TRUE(answer.outcome.payload["stderr"].AsString().contains("MemoryError"));
  });
}

TEST_F(Shell, OneThatClosesItsPipesIsStillAwaited) {
  ToolCall call = Command("exec <&- >&- 2>&-; sleep 1000");
  call.timeout_ms = 100;
  Attack(call, [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.error_info["code"], Json("SH_TIMEOUT"));
  });
}

TEST_F(Shell, OneThatIgnoresTheSignalIsKilled) {
  ToolCall call = Command("trap '' TERM; while :; do sleep 1; done");
  call.timeout_ms = 100;
  // All at once, since each waits out the grace of a stop.
  std::vector<std::shared_ptr<TestCall>> calls;
  calls.reserve(kAttacks);
  for (int i = 0; i < kAttacks; ++i) calls.push_back(StartCall(*tool_, call));
  EXPECT_EQ(Output(Command("echo during")), "during\n");
  for (const auto& one : calls) {
    const ToolAnswer answer = Finish(one);
    EXPECT_EQ(answer.outcome.error_info["code"], Json("SH_TIMEOUT"));
    EXPECT_EQ(answer.outcome.payload["exit_code"], Json(128 + SIGKILL));
  }
  ExpectNothingLeft();
}

TEST_F(Shell, ADaemonIsFound) {
  Attack(Command("(setsid sleep 1000 &); echo gone"), [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.payload["stdout"], Json("gone\n"));
  });
}

TEST_F(Shell, ACrashIsReported) {
  Attack(Command("kill -SEGV $$"), [](const ToolAnswer& answer) {
    EXPECT_EQ(answer.outcome.error, "Command exited with code 139");
    EXPECT_EQ(answer.outcome.error_info["code"], Json("SH_EXIT_139"));
  });
}

}  // namespace
}  // namespace noetl::worker
