#include "sim/text_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/text_file.h"
#include "sim/text_script.h"

namespace noetl::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Lines 2 to 9.
constexpr std::string_view kPlaybook = R"(--- playbook
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: t, path: demo/t }
workflow:
  - step: start
    tool: { kind: python, code: "x" }
    next: { arcs: [ { step: last } ] }
  - step: last
)";

TextTestResult RunWith(std::string_view rest) {
  return RunTextTest("# A test.\n" + std::string(kPlaybook) + std::string(rest), "t.test");
}

TEST(TextRun, PassesAndTellsItsTitle) {
  const TextTestResult result = RunWith("--- script\nstart: ok 1\n--- expect\nstatus: COMPLETED\n");
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.title, "A test.");
  EXPECT_FALSE(result.malformed);
}

TEST(TextRun, MalformedFilesNameTheLine) {
  const struct {
    std::string_view rest;
    std::string_view message;
  } cases[] = {
      {"", "there is no section '--- expect'"},
      {"--- exepct\nstatus: COMPLETED\n",
       "t.test:11: unknown section 'exepct'; did you mean 'expect'?"},
      {"--- expect\n--- expect\n", "t.test:12: a second section"},
      {"--- expect\n", "t.test:11: nothing is expected"},
      {"--- expect\nstatsu: COMPLETED\n",
       "t.test:12: unknown expectation 'statsu'; did you mean 'status'?"},
      {"--- expect\nresult: {a\n", "t.test:12: the value is not JSON"},
      {"--- expect\npayload: 1\n", "t.test:12: 'payload' needs a name"},
      {"--- expect\nstatus x: COMPLETED\n", "t.test:12: 'status' takes no name"},
      {"--- expect\nruns start: many\n", "t.test:12: 'many' is not a number"},
      {"--- expect\nevents: \n", "t.test:12: indented lines"},
      {"--- expect\n  status: COMPLETED\n", "t.test:12: an indented line"},
      {"--- script\nstrat: ok\n--- expect\nstatus: X\n",
       "t.test:12: no step is named 'strat'; did you mean 'start'?"},
      {"--- script\nstart: okay\n--- expect\nstatus: X\n", "t.test:12: 'okay' is not an answer"},
      {"--- script\nstart: ok {\n--- expect\nstatus: X\n", "t.test:12: '{' is not JSON"},
      {"--- script\nstart: ok in long\n--- expect\nstatus: X\n",
       "t.test:12: 'long' is not a duration"},
      {"--- script\nstart: ok\nstart: ok\n--- expect\nstatus: X\n",
       "t.test:13: line 12 is for 'start' already"},
      {"--- script\nstart[x]: ok\n--- expect\nstatus: X\n", "t.test:12: 'start[x]' is not a place"},
      {"--- script\nother:start: ok\n--- expect\nstatus: X\n",
       "t.test:12: no playbook of this file has the path 'other'"},
      {"--- settings\nmax_step_run: 1\n--- expect\nstatus: X\n",
       "t.test:12: unknown setting 'max_step_run'; did you mean"},
      {"--- settings\nmax_step_runs: x\n--- expect\nstatus: X\n",
       "t.test:12: max_step_runs is a number"},
      {"--- input\n{\n--- expect\nstatus: X\n", "t.test:12: input is not JSON"},
      {"--- drive\nrum start\n--- expect\nstatus: X\n",
       "t.test:12: unknown action 'rum'; did you mean 'run'?"},
      {"--- drive\nrun\n--- expect\nstatus: X\n", "t.test:12: 'run' takes 1 to 1 words"},
      {"--- drive\ndeliver start don\n--- expect\nstatus: X\n",
       "t.test:12: 'don' is not a message"},
  };
  for (const auto& [rest, message] : cases) {
    const TextTestResult result = RunWith(rest);
    EXPECT_TRUE(result.malformed) << rest;
    ASSERT_EQ(result.problems.size(), 1u) << rest;
    EXPECT_THAT(result.problems[0], HasSubstr(std::string(message))) << rest;
  }
}

TEST(TextRun, DifferencesShowBothSides) {
  const struct {
    std::string_view expect;
    std::string_view message;
  } cases[] = {
      {"status: FAILED", "t.test:14: status:\n  expected: FAILED\n  got:      COMPLETED"},
      {"sequence: start end", "differs at 2: expected end, got last"},
      {"payload start: {\"a\": 2}", "payload start:\n  expected: {\"a\":2}\n  got:      {\"a\":1}"},
      {"ctx: {\"x\": 1}", "ctx:\n  expected: {\"x\":1}\n  got:      {}"},
      {"result: 5", "result:\n  expected: 5\n  got:      {\"status\":\"ok\""},
      {"error: boom", "expected: a text with boom\n  got:      no error"},
      {"runs start: 2", "runs start:\n  expected: 2\n  got:      1"},
      {"commands last: 0", "commands last:\n  expected: 0\n  got:      1"},
      {"max_open start: 3", "max_open start:\n  expected: 3\n  got:      1"},
      {"soft_errors: 1", "soft_errors:\n  expected: 1\n  got:      0"},
      {"failed_steps: start", "failed_steps:\n  expected: start"},
      {"warnings: W281", "warnings:\n  expected: W281"},
      {"reason: cancelled", "reason:\n  expected: cancelled"},
      {"time: 5s", "time:\n  expected: 5s\n  got:      2 ms"},
      {"child demo/c: status COMPLETED", "no run of 'demo/c' was started"},
      {"invalid: E272", "expected: the document is refused"},
      {"diagnostics: W999", "expected: W999"},
      {"message: nonsense", "a message with nonsense"},
      {"events:\n  playbook.started -",
       "event 1\n  expected: playbook.started - (line 15)\n  got:      "},
      {"contains:\n  command.completed start\n  step.enter start",
       "line 16: 'step.enter start' is only before"},
      {"contains:\n  step.enter nowhere", "line 15: 'step.enter nowhere' is not in the log"},
      {"absent:\n  step.enter start", "line 15: 'step.enter start' is in the log"},
  };
  for (const auto& [expect, message] : cases) {
    const TextTestResult result =
        RunWith("--- script\nstart: ok {\"a\": 1}\n--- expect\n" + std::string(expect) + "\n");
    EXPECT_FALSE(result.malformed) << expect;
    ASSERT_EQ(result.problems.size(), 1u) << expect;
    EXPECT_THAT(result.problems[0], HasSubstr(std::string(message))) << expect;
  }
}

TEST(TextRun, ACallThatNothingAnswersIsNamed) {
  const TextTestResult result = RunWith("--- expect\nstatus: COMPLETED\n");
  ASSERT_FALSE(result.passed());
  EXPECT_THAT(result.problems[0],
              HasSubstr("the script has no answer for demo/t:start (kind python)"));
}

TEST(TextRun, AnInvalidPlaybookIsShownWithLinesOfTheTest) {
  const TextTestResult result = RunTextTest(
      "--- playbook\napiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: t, path: t "
      "}\nworkflow:\n"
      "  - step: a\n    next: { arcs: [ { step: b } ] }\n--- expect\nstatus: COMPLETED\n",
      "t.test");
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_THAT(result.problems[0], HasSubstr("t.test:7:"));
  EXPECT_THAT(result.problems[0], HasSubstr("E272"));
}

TEST(TextRun, ChecksOfTheDrive) {
  const struct {
    std::string_view drive;
    std::string_view message;
  } cases[] = {
      {"run last", "t.test:14: no command of 'last' waits"},
      {"work start", "t.test:14: no command of 'start' is held"},
      {"deliver start", "has a message that waits"},
      {"lose start", "is held by a worker"},
      {"sleep", "there is no timer"},
      {"? status COMPLETED", "expected: COMPLETED\n  got:      RUNNING"},
      {"? open last", "expected: last\n  got:      start"},
      {"? queued last", "expected: last\n  got:      start"},
      {"? refused start", "expected: refused\n  got:      granted"},
      {"? claimable last", "no command of 'last' was issued"},
  };
  for (const auto& [drive, message] : cases) {
    const TextTestResult result = RunWith("--- script\nstart: ok\n--- drive\n" +
                                          std::string(drive) + "\n--- expect\nstatus: RUNNING\n");
    ASSERT_EQ(result.problems.size(), 1u) << drive;
    EXPECT_THAT(result.problems[0], HasSubstr(std::string(message))) << drive;
  }
}

TEST(TextRun, ADriveCanDoEverything) {
  const TextTestResult result = RunWith(R"(--- script
start: lose in 2s; park
--- drive
? status RUNNING
? open start
? queued start
? claimable start
claim start
? refused start
work start
? queued start
run start
snapshot
callback start ok {"v": 1}
claim last
work last
deliver last started x2
batch last
--- expect
status: COMPLETED
sequence: start start last
commands start: 2
time: 2s
payload start: {"v": 1}
)");
  EXPECT_THAT(result.problems, IsEmpty());
}

TEST(TextScript, Places) {
  const auto full = ParsePlace("demo/child:fetch@2[3.4].save");
  ASSERT_TRUE(full);
  EXPECT_EQ(*full, (Place{"demo/child", "fetch", 2, 3, 4, "save"}));
  EXPECT_EQ(full->exactness(), 5);
  EXPECT_EQ(*ParsePlace("a/b-c"), (Place{.step = "a/b-c"}));
  for (const char* bad : {"", "a[", "a[x]", "a[1]x", "a@", "a@0", "a.", "[1]", "p:"}) {
    EXPECT_FALSE(ParsePlace(bad)) << bad;
  }
}

TEST(TextScript, Answers) {
  EXPECT_EQ(ParseAnswer("ok {\"a\": \"x in 5s\"}")->outcome.payload["a"].AsString(), "x in 5s");
  EXPECT_TRUE(ParseAnswer("ok")->outcome.payload.is_null());
  EXPECT_EQ(ParseAnswer("ok [1, 2] in 5s")->duration_us, 5'000'000);
  EXPECT_EQ(ParseAnswer("rows [1]")->outcome.payload,
            Json::Object({{"rows", Json::Array({1})}, {"row_count", 1}}));
  const auto error =
      ParseAnswer(R"(error "no; really in 1s" {"kind": "timeout", "payload": {"p": 1}})");
  ASSERT_TRUE(error);
  EXPECT_FALSE(error->outcome.ok);
  EXPECT_FALSE(error->hard);
  EXPECT_EQ(error->outcome.error, "no; really in 1s");
  EXPECT_EQ(error->outcome.error_info["kind"].AsString(), "timeout");
  EXPECT_EQ(error->outcome.payload["p"].AsInt(), 1);
  EXPECT_TRUE(ParseAnswer("fail \"x\"")->hard);
  EXPECT_TRUE(ParseAnswer("park")->parked);
  EXPECT_TRUE(ParseAnswer("lose in 1m")->lost);
  for (const char* bad :
       {"", "no", "rows 1", "error x", "error \"a\" 1", "park 1", "lose 1", "ok 1 2"}) {
    EXPECT_FALSE(ParseAnswer(bad)) << bad;
  }
}

TEST(TextScript, TheMostExactPlaceWinsAndTheLastAnswerRepeats) {
  const auto section = ReadLines("f: ok 1; ok 2\nf[1]: ok 3\nf[1].t: ok 4\nf.claim: ok 5\n", "s");
  ScriptedTools tools(*ParseScript(*section, "s"));
  const auto answer = [&](std::int64_t index, std::string label, std::string phase = "") {
    return tools
        .Find({.step = "f", .index = index, .phase = std::move(phase), .label = std::move(label)})
        ->outcome.payload.AsInt();
  };
  EXPECT_EQ(answer(0, ""), 1);
  EXPECT_EQ(answer(0, ""), 2);
  EXPECT_EQ(answer(0, ""), 2);
  EXPECT_EQ(answer(1, ""), 3);
  EXPECT_EQ(answer(1, "t"), 4);
  EXPECT_EQ(answer(-1, "", "claim"), 5);
  EXPECT_FALSE(tools.Find({.step = "g"}));
  EXPECT_THAT(tools.Unused(), IsEmpty());
}

TEST(TextFile, SplitsOutsideOfQuotesAndBrackets) {
  EXPECT_THAT(SplitOutside(R"(a "x;y"; {"k": ";"}; b)", ';'),
              ElementsAre(R"(a "x;y")", R"({"k": ";"})", "b"));
  std::string key;
  std::string value;
  ASSERT_TRUE(SplitKey("demo/c:a[1]: {\"b\": 1}", &key, &value));
  EXPECT_EQ(key, "demo/c:a[1]");
  EXPECT_EQ(value, "{\"b\": 1}");
  EXPECT_FALSE(SplitKey("nothing here", &key, &value));
}

TEST(TextRun, FindsFiles) {
  EXPECT_FALSE(FindTextTests("/nonexistent/folder"));
  EXPECT_GE(FindTextTests(NOETL_SOURCE_DIR "/tests/text/examples")->size(), 12u);
  EXPECT_TRUE(RunTextTestFile("/nonexistent/a.test").malformed);
}

}  // namespace
}  // namespace noetl::sim
