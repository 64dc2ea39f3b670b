#include "worker/command_run.h"

#include <gmock/gmock.h>

#include "base/text.h"
#include "engine/decide.h"
#include "engine/fold.h"
#include "worker/testing.h"

namespace noetl::worker {
namespace {

using engine::Event;
using engine::EventType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ToolAnswer Flaky() { return Failed("fake", "connection", "CONN_REFUSED", true, "refused"); }

class CommandRunTest : public WorkerTest {
 protected:
  CommandRunTest() {
    tools_["echo"].answer = [](const ToolCall& call) { return Success(call.config["give"]); };
    tools_["slow"];
  }

  // What the engine makes of the last report.
  engine::Report ReadLast() const {
    const std::vector<Event>& events = Last().events;
    engine::Command command;
    command.reported = events.at(0).type == EventType::kCallDone;
    command.report = command.reported ? events[0].result["context"]["result"] : Json();
    return engine::ReadReport(command, events.at(1));
  }
};

// ---- single tools

TEST_F(CommandRunTest, ReportsWhatTheEngineFolds) {
  Run(Single("echo", R"({"give": {"n": 1}})"));
  const bus::Report& report = Last();
  EXPECT_EQ(report.execution_id, kExecution);
  EXPECT_EQ(report.command_id, "77:s:1");
  EXPECT_EQ(report.event_id, 1);
  EXPECT_EQ(report.claim_token, 3);
  EXPECT_EQ(report.worker_id, "local");
  EXPECT_EQ(report.step, "s");
  ASSERT_EQ(report.events.size(), 2U);
  const Event& done = report.events[0];
  EXPECT_EQ(done.type, EventType::kCallDone);
  EXPECT_EQ(done.type_name, "call.done");
  EXPECT_EQ(done.status, "COMPLETED");
  EXPECT_EQ(done.node_name, "s");
  EXPECT_EQ(done.worker_id, "local");
  EXPECT_EQ(done.created_at_us, kStartUs);
  EXPECT_EQ(done.result, Parse(R"({"status": "COMPLETED", "context": {"call_index": 0,
      "result": {"status": "success", "context": {"status": "success", "data": {"n": 1}}},
      "command_id": "77:s:1"}})"));
  EXPECT_EQ(done.meta, Parse(R"({"attempts": 2, "claim_token": 3})"));
  const Event& end = report.events[1];
  EXPECT_EQ(end.type, EventType::kCommandCompleted);
  EXPECT_EQ(end.status, "success");
  EXPECT_EQ(end.result, Parse(R"({"status": "success", "context": {"status": "success",
      "command_id": "77:s:1"}})"));
  EXPECT_EQ(end.meta, done.meta);
  EXPECT_LT(done.event_id, end.event_id);
  const engine::Report read = ReadLast();
  EXPECT_TRUE(read.ok);
  EXPECT_EQ(read.data, Parse(R"({"n": 1})"));
  ExpectNothingLeft();
}

TEST_F(CommandRunTest, ToolsSeeTheirCall) {
  Run(Single("slow",
             R"({"url": "u", "kind": "slow", "name": "x", "args": {"a": 1}, "retry": {},
                 "timeout_ms": 1500, "spec": {"sandbox": true}})",
             R"({"render_context": {"workload": {"w": 1}, "ctx": {"c": 2}},
                 "iteration": {"iterator": "row", "item": 5, "index": 0, "total": 2}})"));
  const ToolCall& call = tools_["slow"].last().call;
  EXPECT_EQ(call.config, Parse(R"({"url": "u"})"));
  EXPECT_EQ(call.input, Parse(R"({"a": 1})"));
  EXPECT_EQ(call.spec, Parse(R"({"sandbox": true})"));
  EXPECT_EQ(call.timeout_ms, 1'500);
  EXPECT_EQ(call.attempt, 1);
  EXPECT_EQ(call.fence, 2);
  EXPECT_EQ(call.idempotency_key, "77:s:1:0");
  EXPECT_EQ(call.context["execution_id"].AsString(), "77");
  EXPECT_EQ(call.context["step"].AsString(), "s");
  EXPECT_EQ(call.context["workload"], Parse(R"({"w": 1})"));
  EXPECT_EQ(call.context["ctx"], Parse(R"({"c": 2})"));
  EXPECT_EQ(call.context["iter"]["row"], Json(5));
}

TEST_F(CommandRunTest, ArgvStaysAFieldAndLimitsMayBeWrittenInManyWays) {
  Run({Single("slow", R"({"args": ["-l"], "input": {"a": 1}, "timeout": "2s"})"),
       Single("slow", R"({"timeout_seconds": 3})"),
       Single("slow", R"({"spec": {"timeout": {"connect": 1, "read": 4}}})"),
       Single("slow", R"({"spec": {"sandbox": 9}})")});
  EXPECT_EQ(tools_["slow"].at(0).call.config["args"], Parse(R"(["-l"])"));
  EXPECT_EQ(tools_["slow"].at(0).call.input, Parse(R"({"a": 1})"));
  EXPECT_EQ(tools_["slow"].at(0).call.timeout_ms, 2'000);
  EXPECT_EQ(tools_["slow"].at(1).call.timeout_ms, 3'000);
  EXPECT_EQ(tools_["slow"].at(2).call.timeout_ms, 5'000);
  EXPECT_EQ(tools_["slow"].at(3).call.timeout_ms, std::nullopt);
}

TEST_F(CommandRunTest, AnErrorOfTheToolIsSoft) {
  tools_["echo"].answer = [](const ToolCall&) {
    return Failed("echo", "server_error", "HTTP_500", true, "boom", Json::Object({{"x", 1}}));
  };
  Run(Single("echo", "{}"));
  EXPECT_EQ(Last().events[0].type, EventType::kCallDone);
  EXPECT_EQ(Last().events[1].type, EventType::kCommandCompleted);
  EXPECT_EQ(Last().events[1].status, "error");
  EXPECT_EQ(ToolResult()["status"].AsString(), "error");
  EXPECT_EQ(ToolResult()["data"], Parse(R"({"x": 1})"));
  const engine::Report read = ReadLast();
  EXPECT_FALSE(read.ok);
  EXPECT_EQ(read.error, "boom");
  EXPECT_EQ(read.error_info["code"].AsString(), "HTTP_500");
}

TEST_F(CommandRunTest, AToolThatCannotRunFailsHard) {
  tools_["echo"].answer = [](const ToolCall&) {
    ToolAnswer answer = Refuse("config", "CONFIG", std::string("bad\0field", 9));
    answer.outcome.payload = Json::Object({{"tried", true}});
    return answer;
  };
  Run(Single("echo", "{}"));
  const std::vector<Event>& events = Last().events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].type, EventType::kCallError);
  EXPECT_EQ(events[1].type, EventType::kCommandFailed);
  EXPECT_EQ(events[1].status, "FAILED");
  EXPECT_EQ(events[1].error,
            "bad\xef\xbf\xbd"
            "field");
  EXPECT_EQ(events[1].result["context"]["command_id"].AsString(), "77:s:1");
  const engine::Report read = ReadLast();
  EXPECT_FALSE(read.ok);
  EXPECT_EQ(read.error,
            "bad\xef\xbf\xbd"
            "field");
  EXPECT_EQ(read.error_info["kind"].AsString(), "config");
  EXPECT_EQ(read.data, Parse(R"({"tried": true})"));
  EXPECT_TRUE(WriteStoredJson(events[1].result).has_value());
}

TEST_F(CommandRunTest, UnknownKindsAreNamedWithTheKnownOnes) {
  tools_["noop"];
  tools_["http"];
  Run(Single("ducks", "{}"));
  EXPECT_EQ(Last().events[1].type, EventType::kCommandFailed);
  EXPECT_EQ(Last().events[1].error,
            "Tool not found: ducks (this worker has: noop, http, playbook)");
}

TEST_F(CommandRunTest, RetriesAfterDelaysWithTheSlotGivenBack) {
  Run(Single("slow", R"({"retry": {"max_attempts": 3, "backoff_seconds": 2}})"));
  tools_["slow"].AnswerLast(Flaky());
  reactor_.RunPosted();
  EXPECT_EQ(server_.free_slots, 1);
  reactor_.AdvanceMs(1'999);
  EXPECT_EQ(tools_["slow"].count(), 1U);
  reactor_.AdvanceMs(1);
  EXPECT_EQ(tools_["slow"].count(), 2U);
  EXPECT_EQ(tools_["slow"].last().call.attempt, 2);
  EXPECT_EQ(server_.free_slots, 0);
  tools_["slow"].AnswerLast(Success(Json(5)));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["data"], Json(5));
  EXPECT_THAT(server_.slot_changes, ElementsAre(1, -1));
  ExpectNothingLeft();
}

TEST_F(CommandRunTest, RetriesEnd) {
  tools_["echo"].answer = [](const ToolCall&) { return Flaky(); };
  Run(Single("echo", R"({"retry": {"max_attempts": 2, "delay": 0}})"));
  EXPECT_EQ(tools_["echo"].count(), 2U);
  EXPECT_EQ(ToolResult()["error"].AsString(), "refused");
  EXPECT_TRUE(server_.slot_changes.empty());
}

TEST_F(CommandRunTest, DeferredFieldsAreRenderedOnce) {
  Run(Single("echo", R"({"give": "{{ fence }} {{ raw }}", "args": {"raw": "{{ 1 + 1 }}"}})",
             R"({"deferred": ["give"], "render_context": {"workload": {}, "ctx": {}}})"));
  EXPECT_EQ(ToolResult()["data"], Json("2 {{ 1 + 1 }}"));
}

// ---- secrets

class CommandSecretsTest : public CommandRunTest {
 protected:
  CommandSecretsTest() {
    server_.secrets["crm"] =
        Parse(R"({"name": "crm", "type": "bearer", "data": {"token": "tok-0123456789abcdef"}})");
    server_.secrets["pg"] = Parse(R"({"name": "pg", "type": "postgres",
                  "data": {"host": "db", "user": "u", "password": "hunter2secret"}})");
  }
};

TEST_F(CommandSecretsTest, TemplatesReadThemAndResultsDoNotShowThem) {
  Run(Single("echo", R"x({"give": "{{ token('crm') }}"})x",
             R"({"deferred": ["give"], "render_context": {}})"));
  EXPECT_EQ(tools_["echo"].last().call.config["give"], Json("tok-0123456789abcdef"));
  EXPECT_EQ(ToolResult()["data"], Json("***"));

  Run(Single("echo", R"({"give": "Bearer {{ keychain.crm.token }}!"})",
             R"({"deferred": ["give"], "render_context": {}})"));
  EXPECT_EQ(tools_["echo"].last().call.config["give"], Json("Bearer tok-0123456789abcdef!"));
  EXPECT_EQ(ToolResult()["data"], Json("Bearer ***!"));
}

// In a compatible playbook.
TEST_F(CommandSecretsTest, ANameThatIsNotThereReadsAsNothing) {
  Run(Single("echo", R"({"give": "{{ keychain.nowhere.token | default('none') }}"})",
             R"({"deferred": ["give"], "render_context": {}})"));
  EXPECT_EQ(ToolResult()["data"], Json("none"));
}

TEST_F(CommandSecretsTest, AWorkerMayBeStrictAboutNamesThatAreNotThere) {
  options_.keychain_strict = true;
  Run(Single("echo", R"({"give": "{{ keychain.nowhere.token | default('none') }}"})",
             R"({"deferred": ["give"], "render_context": {}})"));
  EXPECT_EQ(tools_["echo"].count(), 0U);
  EXPECT_EQ(Last().events.back().type, EventType::kCommandFailed);
  EXPECT_THAT(Last().events.back().error, HasSubstr("nowhere"));
}

TEST_F(CommandSecretsTest, AuthPutsTheFieldsOfTheCredentialIntoTheCall) {
  tools_["postgres"];
  Run(Single("postgres", R"({"auth": "pg", "host": "mine", "query": "select 1"})"));
  ASSERT_EQ(tools_["postgres"].count(), 1U);
  const Json& config = tools_["postgres"].last().call.config;
  EXPECT_EQ(config["host"], Json("mine")) << "what the step says goes first";
  EXPECT_EQ(config["password"], Json("hunter2secret"));
  EXPECT_FALSE(config.Has("auth"));

  tools_["postgres"].AnswerLast(
      Failed("postgres", "db_connection", "PG", true, "wrong password hunter2secret"));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["error"].AsString(), "wrong password ***");
}

TEST_F(CommandSecretsTest, InPipelinesTooAndOnlyWhenTheTaskRuns) {
  Run(Tasks(R"([{"name": "a", "kind": "echo", "auth": "pg", "give": 1},
               {"name": "b", "kind": "echo", "auth": "nowhere", "give": 2}])"));
  EXPECT_EQ(tools_["echo"].count(), 1U);
  EXPECT_EQ(tools_["echo"].last().call.config["password"], Json("hunter2secret"));
  EXPECT_THAT(WriteJson(Last().events.front().result), HasSubstr("nowhere"));
}

TEST_F(CommandSecretsTest, AMissingOneIsNamed) {
  Run(Single("echo", R"({"auth": "nowhere"})"));
  EXPECT_EQ(Last().events[1].type, EventType::kCommandFailed);
  EXPECT_THAT(Last().events[1].error, HasSubstr("'nowhere'"));
  EXPECT_EQ(ReadLast().error_info["kind"].AsString(), "auth");
  Run(Single("echo", R"x({"give": "{{ token('gone') }}"})x",
             R"({"deferred": ["give"], "render_context": {}})"));
  EXPECT_EQ(Last().events[1].type, EventType::kCommandFailed);
  EXPECT_THAT(Last().events[1].error, HasSubstr("'gone'"));
}

TEST_F(CommandSecretsTest, ToolsTextDoesNotShowThem) {
  Run(Single("slow", R"({"auth": "crm"})"));
  tools_["slow"].last().call.output(OutputStream::kStdout, "the token is tok-01234");
  tools_["slow"].last().call.output(OutputStream::kStdout, "56789abcdef, you see tok-0");
  tools_["slow"].AnswerLast(Success(Json(1)));
  reactor_.RunPosted();
  EXPECT_EQ(LogText("stdout"), "the token is ***, you see tok-0");
}

// ---- limits

TEST_F(CommandRunTest, ACallWithoutALimitHasTheWorkersOwn) {
  options_.call_timeout_ms = 90'000;
  tools_["slow"].stops_at_once = false;
  Run(Single("slow", "{}"));
  reactor_.AdvanceMs(89'999);
  EXPECT_EQ(tools_["slow"].last().stops, 0);
  reactor_.AdvanceMs(1);
  EXPECT_EQ(tools_["slow"].last().stops, 1);
  EXPECT_EQ(Ends(), 0U);  // until it has stopped
  ToolAnswer answer = FakeTool::Cancelled();
  answer.outcome.payload = Json::Object({{"stdout", "so far"}});
  tools_["slow"].AnswerLast(std::move(answer));
  reactor_.RunPosted();
  EXPECT_EQ(Last().events[1].type, EventType::kCommandCompleted);
  EXPECT_EQ(Last().events[1].status, "timeout");
  EXPECT_EQ(Res()["status"].AsString(), "timeout");
  EXPECT_EQ(ToolResult()["error"].AsString(), "Execution timed out after 90 seconds");
  EXPECT_EQ(ToolResult()["error_info"]["kind"].AsString(), "timeout");
  EXPECT_EQ(ToolResult()["data"]["stdout"].AsString(), "so far");
  EXPECT_FALSE(ReadLast().ok);
  ExpectNothingLeft();
}

TEST_F(CommandRunTest, ADeclaredLimitIsTheToolsToKeepFirst) {
  Run(Single("slow", R"({"timeout_ms": 5000})"));
  reactor_.AdvanceMs(5'000 + kStopGraceMs);
  EXPECT_EQ(tools_["slow"].last().stops, 0);
  reactor_.AdvanceMs(1'000);
  EXPECT_EQ(tools_["slow"].last().stops, 1);
  tools_["slow"].AnswerLast(FakeTool::Cancelled());
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["error"].AsString(), "Execution timed out after 5 seconds");
}

TEST_F(CommandRunTest, TheWorkerHasALargestLimit) {
  options_.declared_timeout_ms_max = 3'000;
  Run(Single("slow", R"({"timeout_ms": 5000})"));
  reactor_.AdvanceMs(2'999);
  EXPECT_EQ(tools_["slow"].last().stops, 0);
  reactor_.AdvanceMs(1);
  EXPECT_EQ(tools_["slow"].last().stops, 1);
  tools_["slow"].AnswerLast(FakeTool::Cancelled());
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["error"].AsString(), "Execution timed out after 3 seconds");
}

TEST_F(CommandRunTest, APipelineHasItsMostTaskRuns) {
  options_.task_runs_max = 3;
  Run(Tasks(R"([{"name": "a", "kind": "echo", "give": 1,
                 "spec": {"policy": {"rules": [{"then": {"do": "jump", "to": "a"}}]}}}])"));
  EXPECT_EQ(tools_["echo"].count(), 3U);
  EXPECT_THAT(ReadLast().error, HasSubstr("max_iterations_exceeded"));
}

TEST_F(CommandRunTest, AnAnswerThatRacesWithTheLimitCounts) {
  options_.call_timeout_ms = 1'000;
  Run(Single("slow", "{}"));
  reactor_.AdvanceMs(1'000);
  tools_["slow"].AnswerLast(Success(Json("just in time")));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["data"], Json("just in time"));
}

// ---- what can be stored

TEST_F(CommandRunTest, LargeResultsGoBesideTheEvent) {
  const std::string big(200, 'x');
  bus::Grant grant =
      Single("echo", WriteJson(Json::Object({{"give", Json::Object({{"n", 7}, {"big", big}})}})),
             R"({"output": {"select": [{"path": "n", "as": "number"}]}})");
  grant.inline_bytes = 100;
  Run(std::move(grant));
  ASSERT_EQ(Last().bodies.size(), 1U);
  const engine::StoredBody& body = Last().bodies[0];
  EXPECT_THAT(body.ref, StartsWith("noetl://execution/77/result/s/"));
  EXPECT_EQ(body.body["big"].AsString(), big);
  EXPECT_EQ(ToolResult()["data"], Json::Object({{"_ref", body.ref}}));
  EXPECT_EQ(Res()["reference"]["ref"].AsString(), body.ref);
  EXPECT_EQ(Res()["reference"]["selected"], Parse(R"({"number": 7})"));
  const engine::Report read = ReadLast();
  EXPECT_TRUE(read.ok);
  EXPECT_EQ(read.reference["ref"].AsString(), body.ref);
}

TEST_F(CommandRunTest, TheStepsOwnBudgetGoesFirst) {
  Run({Single("echo", R"({"give": "0123456789"})", R"({"output": {"inline_max_bytes": 11}})"),
       Single("echo", R"({"give": "0123456789"})", R"({"output": {"inline_max_bytes": 12}})")});
  EXPECT_EQ(server_.reports.at(0).bodies.size(), 1U);
  EXPECT_EQ(server_.reports.at(1).bodies.size(), 0U);
}

TEST_F(CommandRunTest, NulIsReplacedAndNoted) {
  Run(Single("echo", R"({"give": {"a\u0000b": ["\u0000", "c"]}})"));
  EXPECT_EQ(ToolResult()["data"], Parse(R"({"a\ufffdb": ["\ufffd", "c"]})"));
  EXPECT_EQ(Last().events[0].meta["nul_replaced"], Json(2));
  EXPECT_TRUE(WriteStoredJson(Last().events[0].result).has_value());
}

Json Nested(std::size_t levels) {
  Json value = Json("end");
  for (std::size_t i = 0; i < levels; ++i) value = Json::Array({value});
  return value;
}

TEST_F(CommandRunTest, TooDeepResultsFailHard) {
  std::size_t levels = kResultDepthMax - 1;  // the result's own map is one
  tools_["echo"].answer = [&](const ToolCall&) { return Success(Nested(levels)); };
  Run(Single("echo", "{}"));
  EXPECT_EQ(Last().events[1].type, EventType::kCommandCompleted);
  EXPECT_TRUE(WriteStoredJson(Last().events[0].result).has_value());
  levels = 5'000;
  Run(Single("echo", "{}"));
  EXPECT_EQ(Last().events[1].type, EventType::kCommandFailed);
  EXPECT_EQ(Last().events[1].error, "the result is nested deeper than 100 levels");
}

// ---- pipelines

TEST_F(CommandRunTest, APipelineRunsInOneTurn) {
  const std::size_t posts = reactor_.posts();
  Run(Tasks(R"([{"a": {"kind": "echo", "give": 1}},
                {"b": {"kind": "echo", "give": "{{ a + 1 }}", "set": {"ctx.sum": "{{ a }}"}}}])",
            R"({"render_context": {"workload": {}, "ctx": {"old": 1}}})"));
  EXPECT_EQ(reactor_.posts(), posts + 1);  // the grants
  EXPECT_EQ(ToolResult()["data"], Parse(R"({"a": 1, "b": 2})"));
  EXPECT_EQ(ToolResult()["order"], Parse(R"(["a", "b"])"));
  EXPECT_EQ(ToolResult()["ctx_updates"], Parse(R"({"ctx.sum": 1})"));
  const Json& tasks = Last().events[0].meta["metrics"]["tasks"];
  ASSERT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks.At(1)["name"].AsString(), "b");
  EXPECT_FALSE(Last().events[1].meta.Has("metrics"));
  EXPECT_EQ(tools_["echo"].at(1).call.label, "b");
  EXPECT_EQ(tools_["echo"].at(1).call.context["ctx"], Parse(R"({"old": 1})"));
  EXPECT_EQ(ReadLast().ctx_updates, Parse(R"({"ctx.sum": 1})"));
  ExpectNothingLeft();
}

TEST_F(CommandRunTest, PoliciesJumpAndRetryWithDelays) {
  Run(Tasks(R"([
    {"page": {"kind": "slow", "set": {"iter.n": "{{ (iter.n | default(0)) + 1 }}"},
      "spec": {"policy": {"rules": [
        {"when": "{{ output.status == 'error' }}",
         "then": {"do": "retry", "attempts": 2, "delay": 5}}]}}}},
    {"more": {"kind": "echo", "give": "{{ iter.n }}", "spec": {"policy": {"rules": [
        {"when": "{{ output.data < 3 }}", "then": {"do": "jump", "to": "page"}}]}}}}])"));
  tools_["slow"].AnswerLast(Flaky());
  reactor_.RunPosted();
  EXPECT_EQ(server_.free_slots, 1);
  reactor_.AdvanceMs(5'000);
  EXPECT_EQ(server_.free_slots, 0);
  EXPECT_EQ(tools_["slow"].last().call.attempt, 2);
  for (int i = 0; i < 10 && Ends() == 0; ++i) {
    clock_.Advance(3'000'000);
    tools_["slow"].AnswerLast(Success(Json(1)));
    reactor_.RunPosted();
  }
  EXPECT_EQ(ToolResult()["status"].AsString(), "success");
  EXPECT_EQ(ToolResult()["data"]["more"], Json(3));
  EXPECT_EQ(Last().events[0].meta["metrics"]["tasks"].At(1)["duration_ms"], Json(3'000));
  ExpectNothingLeft();
}

TEST_F(CommandRunTest, AHardErrorOfATaskIsForThePolicy) {
  Run(Tasks(R"([{"a": {"kind": "ducks", "spec": {"policy": {"rules": [
                  {"when": "{{ output.status == 'error' }}", "then": {"do": "continue"}}]}}}},
                {"b": {"kind": "echo", "give": "went on"}}])"));
  EXPECT_EQ(ToolResult()["data"]["b"].AsString(), "went on");
  Run(Tasks(R"([{"a": {"kind": "ducks"}}])"));
  EXPECT_EQ(Last().events[1].type, EventType::kCommandCompleted);
  EXPECT_EQ(ToolResult()["status"].AsString(), "error");
  EXPECT_THAT(ToolResult()["error"].AsString(), StartsWith("Tool not found: ducks"));
  EXPECT_EQ(ToolResult()["data"]["failed_task"].AsString(), "a");
}

TEST_F(CommandRunTest, ASingleToolWithAPolicyGivesItsBarePayload) {
  bus::Grant grant = Tasks(R"([{"s": {"kind": "echo", "give": {"x": 1}}}])");
  grant.meta = grant.meta.With("single", true);
  Run(std::move(grant));
  EXPECT_EQ(ToolResult()["data"], Parse(R"({"x": 1})"));
  EXPECT_FALSE(ToolResult().Has("order"));
}

TEST_F(CommandRunTest, TheProfileReachesThePipeline) {
  const std::string_view tasks =
      R"([{"a": {"kind": "echo", "give": 1, "set": {"ctx.x": "{{ 1 / 0 }}"}}}])";
  bus::Grant strict = Tasks(tasks);
  strict.strict = true;
  Run(Tasks(tasks));
  EXPECT_EQ(ToolResult()["status"].AsString(), "success");
  EXPECT_THAT(Last().events[0].meta["warnings"].At(0).AsString(), StartsWith("W281"));
  Run(std::move(strict));
  EXPECT_EQ(ToolResult()["status"].AsString(), "error");
}

TEST_F(CommandRunTest, ABadTaskListFailsHard) {
  Run(Tasks(R"([{"a": {"give": 1}}])"));
  EXPECT_EQ(Last().events[1].type, EventType::kCommandFailed);
  EXPECT_THAT(Last().events[1].error, StartsWith("Configuration error: "));
}

TEST_F(CommandRunTest, ALongPipelineLetsOthersIn) {
  Run(Tasks(
      R"([{"a": {"kind": "echo", "give": 1, "set": {"iter.n": "{{ (iter.n | default(0)) + 1 }}"},
        "spec": {"policy": {"rules": [
          {"when": "{{ iter.n < 2000 }}", "then": {"do": "jump", "to": "a"}}]}}}}])"));
  EXPECT_EQ(tools_["echo"].count(), 2'000U);
  EXPECT_EQ(Ends(), 1U);
  EXPECT_GT(reactor_.posts(), 2U);
}

// ---- stored bodies

TEST_F(CommandRunTest, BodiesAreLoadedWhenTemplatesNeedThem) {
  server_.bodies["noetl://execution/77/result/c/1"] =
      Parse(R"({"workload": {}, "ctx": {}, "steps": {"up": {"data": {}, "reference": {
          "ref": "noetl://execution/77/result/up/2", "extracted": {}}}}})");
  server_.bodies["noetl://execution/77/result/up/2"] = Parse(R"({"rows": [4, 5]})");
  Run(Tasks(R"([{"a": {"kind": "echo", "give": "{{ up.rows[1] }}"}}])",
            R"({"render_context": {"__context_ref__": "noetl://execution/77/result/c/1"}})"));
  EXPECT_THAT(server_.loads,
              ElementsAre("noetl://execution/77/result/c/1", "noetl://execution/77/result/up/2"));
  EXPECT_EQ(ToolResult()["data"]["a"], Json(5));
  ExpectNothingLeft();
}

TEST_F(CommandRunTest, AStoredContextIsLoadedForSingleToolsToo) {
  server_.bodies["r"] = Parse(R"({"workload": {"w": 1}, "ctx": {"c": 2}})");
  Run(Single("slow", "{}", R"({"render_context": {"__context_ref__": "r"}})"));
  EXPECT_EQ(tools_["slow"].last().call.context["ctx"], Parse(R"({"c": 2})"));
}

TEST_F(CommandRunTest, ALoadIsTriedAgainThenFails) {
  server_.bodies["r"] = Json::Object();
  server_.load_errors = {{"io", "disk"}, {"overloaded", "busy"}};
  const std::string_view context = R"({"render_context": {"__context_ref__": "r"}})";
  Run(Tasks(R"([{"a": {"kind": "echo", "give": 1}}])", context));
  reactor_.RunUntilIdle();
  EXPECT_EQ(server_.loads.size(), 3U);
  EXPECT_EQ(ToolResult()["data"]["a"], Json(1));
  server_.load_errors = {{"io", "1"}, {"io", "2"}, {"io", "3"}, {"io", "gone"}};
  Run(Tasks(R"([{"a": {"kind": "echo"}}])", context));
  reactor_.RunUntilIdle();
  EXPECT_EQ(Last().events[1].type, EventType::kCommandFailed);
  EXPECT_EQ(Last().events[1].error, "the stored body r is not available: gone");
  EXPECT_EQ(ReadLast().error_info["kind"].AsString(), "missing_reference");
  EXPECT_TRUE(ReadLast().error_info["retryable"].AsBool());
}

TEST_F(CommandRunTest, AMissingBodyIsATaskError) {
  Run(Tasks(R"([{"a": {"kind": "echo", "give": "{{ up }}"}}])",
            R"({"render_context": {"steps": {"up": {"reference": {"ref": "gone"}}}}})"));
  EXPECT_EQ(ToolResult()["status"].AsString(), "error");
  EXPECT_EQ(ToolResult()["error_info"]["kind"].AsString(), "missing_reference");
  ExpectNothingLeft();
}

TEST_F(CommandRunTest, AFieldOfAMissingBodyIsAskedForOnce) {
  Run(Tasks(R"([{"a": {"kind": "echo", "give": "{{ up.rows }}"}}])",
            R"({"render_context": {"steps": {"up": {"reference": {"ref": "gone"}}}}})"));
  EXPECT_THAT(server_.loads, ElementsAre("gone"));
  EXPECT_EQ(ReadLast().error_info["kind"].AsString(), "missing_reference");
  ExpectNothingLeft();
}

// ---- sub-playbooks

class ChildTest : public CommandRunTest {
 protected:
  static constexpr std::string_view kTasks =
      R"([{"c": {"kind": "playbook", "path": "child", "return_step": "end", "version": 4,
                 "execution_pool": "big", "input": {"x": "{{ iter.row }}"}}},
          {"after": {"kind": "echo", "give": "{{ c.n }}"}}])";

  bus::ServerEnd::ChildDone& Done() { return server_.children.back().second; }
  static engine::ChildEnd Ended(std::string status, Json data = Json()) {
    return {.child_execution_id = 99, .path = "child", .status = std::move(status), .data = data};
  }
};

TEST_F(ChildTest, GetsItsPayloadAndGivesItsData) {
  Run(Tasks(kTasks, R"({"iteration": {"iterator": "row", "item": 5, "index": 0, "total": 2}})"));
  ASSERT_EQ(server_.children.size(), 1U);
  const bus::ChildCall& call = server_.children[0].first;
  EXPECT_EQ(call.parent_execution_id, kExecution);
  EXPECT_EQ(call.parent_command_id, "77:s:1");
  EXPECT_EQ(call.parent_step, "s");
  EXPECT_EQ(call.path, "child");
  EXPECT_EQ(call.version, Json(4));
  EXPECT_EQ(call.payload, Parse(R"({"x": 5})"));  // and no names of the iteration
  EXPECT_EQ(call.return_step, "end");
  EXPECT_TRUE(call.wait);
  EXPECT_EQ(call.pool, "big");
  EXPECT_EQ(server_.free_slots, 1);
  Done()(Ended("COMPLETED", Parse(R"({"n": 8})")));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["data"], Parse(R"({"c": {"n": 8}, "after": 8})"));
  ExpectNothingLeft();
}

TEST_F(ChildTest, AStoredResultIsLoaded) {
  server_.bodies["r"] = Parse(R"({"n": 9})");
  Run(Tasks(kTasks));
  engine::ChildEnd end = Ended("COMPLETED");
  end.reference = Json::Object({{"ref", "r"}});
  Done()(std::move(end));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["data"]["after"], Json(9));
  ExpectNothingLeft();
}

TEST_F(ChildTest, FailsAsAStepDoes) {
  Run(Tasks(kTasks));
  engine::ChildEnd end = Ended("FAILED");
  end.error = "boom";
  Done()(std::move(end));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["error"].AsString(), "sub-playbook 'child' (run 99) ended FAILED: boom");
  EXPECT_EQ(ToolResult()["error_info"]["kind"].AsString(), "child_failed");
  EXPECT_EQ(ToolResult()["error_info"]["code"].AsString(), "CHILD_FAILED");
  ExpectNothingLeft();
}

TEST_F(ChildTest, CannotBeStarted) {
  Run(Tasks(kTasks));
  Done()(Fail("not_found", "no playbook has this path"));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["error"].AsString(),
            "sub-playbook 'child' could not be run: no playbook has this path");
  Run(Tasks(R"([{"c": {"kind": "playbook", "path": "{{ nothing }}", "wait": true}}])"));
  EXPECT_EQ(server_.children.size(), 1U);
  EXPECT_THAT(ToolResult()["error"].AsString(), HasSubstr("E460"));
  ExpectNothingLeft();
}

TEST_F(ChildTest, NobodyWaits) {
  Run(Tasks(R"([{"c": {"kind": "playbook", "path": "child", "payload": {"p": 1}}}])"));
  EXPECT_FALSE(server_.children[0].first.wait);
  EXPECT_EQ(server_.children[0].first.payload, Parse(R"({"p": 1})"));
  EXPECT_TRUE(server_.slot_changes.empty());
  Done()(Ended("STARTED"));
  reactor_.RunPosted();
  EXPECT_EQ(ToolResult()["data"]["c"],
            Parse(R"({"status": "started", "execution_id": "99", "path": "child",
                      "async": true})"));
  ExpectNothingLeft();
}

TEST_F(ChildTest, TakesTooLong) {
  Run(Tasks(kTasks));
  reactor_.AdvanceMs(engine::kReturnStepTimeoutMs);
  EXPECT_EQ(ToolResult()["error_info"]["kind"].AsString(), "timeout");
  Done()(Ended("COMPLETED"));  // too late
  reactor_.RunPosted();
  EXPECT_EQ(Ends(), 1U);
  ExpectNothingLeft();
}

// ---- text of tools

class LogTest : public CommandRunTest {
 protected:
  void Write(std::string_view text, OutputStream stream = OutputStream::kStdout) {
    tools_["slow"].last().call.output(stream, text);
  }
  void Answer() {
    tools_["slow"].AnswerLast(Success(Json()));
    reactor_.RunPosted();
  }
};

TEST_F(LogTest, GoesWithTheLastReport) {
  Run(Single("slow", "{}"));
  Write("a");
  Write("b", OutputStream::kStderr);
  Write("c");
  Answer();
  ASSERT_EQ(server_.reports.size(), 1U);
  EXPECT_EQ(LogText("stdout"), "ac");
  EXPECT_EQ(LogText("stderr"), "b");
  ExpectNothingLeft();
}

TEST_F(LogTest, IsFlushedByTimeAndBySize) {
  options_.log_flush_bytes = 4;
  Run(Single("slow", "{}"));
  Write("ab");
  reactor_.AdvanceMs(199);
  EXPECT_EQ(server_.reports.size(), 0U);
  reactor_.AdvanceMs(1);
  ASSERT_EQ(server_.reports.size(), 1U);
  EXPECT_FALSE(server_.reports[0].ends);
  EXPECT_TRUE(server_.reports[0].events.empty());
  EXPECT_EQ(server_.reports[0].command_id, "77:s:1");
  Write("cdef");
  EXPECT_EQ(server_.reports.size(), 2U);
  EXPECT_EQ(server_.reports[1].logs.at(0).offset, 2);
  reactor_.RunPosted();
  Write("g");
  Answer();
  EXPECT_EQ(server_.reports.size(), 3U);
  EXPECT_EQ(LogText("stdout"), "abcdefg");
  ExpectNothingLeft();
}

TEST_F(LogTest, TheLastReportWaitsForTheTextBeforeIt) {
  options_.log_flush_bytes = 1;
  server_.hold_sends = true;
  Run(Single("slow", "{}"));
  Write("ab");
  Write("cd");  // one report at a time
  Answer();
  ASSERT_EQ(server_.reports.size(), 1U);
  server_.hold_sends = false;
  server_.held_sends[0](Fail("overloaded", "later"));
  reactor_.RunPosted();
  ASSERT_EQ(server_.reports.size(), 2U);
  EXPECT_TRUE(server_.reports[1].ends);
  ASSERT_EQ(server_.reports[1].logs.size(), 2U);
  EXPECT_EQ(server_.reports[1].logs[0].text, "ab");
  EXPECT_EQ(server_.reports[1].logs[0].offset, 0);
  EXPECT_EQ(server_.reports[1].logs[1].text, "cd");
  ExpectNothingLeft();
}

TEST_F(LogTest, TextIsSentAgainWithTheSameOffsets) {
  options_.log_flush_bytes = 1;
  server_.answers = {Fail("overloaded", ""), Fail("io", ""), Fail("superseded", "")};
  Run(Single("slow", "{}"));
  Write("ab");
  reactor_.AdvanceMs(kRetryFirstMs - 1);
  EXPECT_EQ(server_.reports.size(), 1U);
  Write("c");  // does not hurry
  reactor_.AdvanceMs(1);
  ASSERT_EQ(server_.reports.size(), 2U);
  EXPECT_EQ(server_.reports[1].logs[0].offset, 0);
  reactor_.AdvanceMs(2 * kRetryFirstMs);
  EXPECT_EQ(server_.reports.size(), 3U);  // refused: dropped
  Answer();
  EXPECT_TRUE(Last().logs.empty());
}

TEST_F(LogTest, IsBoundedWithHeadAndTail) {
  options_.log_bytes_max = 30;
  Run(Single("slow", "{}"));
  for (char c = 'a'; c <= 'z'; ++c) Write(std::string(5, c));
  Answer();
  EXPECT_EQ(LogText("stdout"), "aaaaabbbbbcccccddddd|yyyyyzzzzz");
  EXPECT_EQ(Last().logs.back().offset, 120);
}

TEST_F(LogTest, CharactersStayWholeAndBadBytesBecomeVisible) {
  options_.log_flush_bytes = 1;
  Run(Single("slow", "{}"));
  Write("\xe2\x82");
  EXPECT_TRUE(server_.reports.empty());
  Write("\xac");
  reactor_.RunPosted();
  Write(std::string_view("\0\xff", 2));
  reactor_.RunPosted();
  Write("\xe2");
  Answer();
  EXPECT_EQ(LogText("stdout"), "\u20ac\uFFFD\uFFFD\uFFFD");
}

TEST_F(LogTest, PiecesHaveALimit) {
  Run(Single("slow", "{}"));
  std::string text = "x";
  while (text.size() < 3 * kLogPieceBytesMax) text += "\u20ac";
  Write(text);
  reactor_.RunPosted();
  Answer();
  EXPECT_EQ(LogText("stdout"), text);
  for (const bus::Report& report : server_.reports) {
    for (const bus::LogText& piece : report.logs) {
      EXPECT_LE(piece.text.size(), kLogPieceBytesMax);
      EXPECT_FALSE(FirstInvalidUtf8(piece.text).has_value());
    }
  }
}

TEST_F(LogTest, TextOfATaskIsFlushedWhileTheNextIsSilent) {
  Run(Tasks(R"([{"a": {"kind": "slow"}}, {"b": {"kind": "slow"}}])"));
  Write("early");
  Answer();
  EXPECT_EQ(tools_["slow"].count(), 2U);
  reactor_.AdvanceMs(200);
  EXPECT_EQ(LogText("stdout"), "early");
  EXPECT_EQ(Ends(), 0U);
}

}  // namespace
}  // namespace noetl::worker
