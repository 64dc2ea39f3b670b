#include "api/execution_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_io.h"

namespace noetl::api {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr std::int64_t kStartUs = 1'767'225'600'000'000;

Json Parse(std::string_view text) { return ParseJson(text).value(); }

store::ExecutionRow Row(std::string status) {
  store::ExecutionRow row;
  row.execution_id = 7;
  row.catalog_id = 8;
  row.path = "demo/hello";
  row.version = 2;
  row.status = std::move(status);
  row.terminal = row.status != "RUNNING";
  row.started_at_us = kStartUs;
  row.ended_at_us = row.terminal ? kStartUs + 2'300'000 : 0;
  row.head = 9;
  return row;
}

TEST(ExecutionJsonTest, DurationsReadWell) {
  EXPECT_EQ(HumanDuration(0), "0ms");
  EXPECT_EQ(HumanDuration(999'999), "999ms");
  EXPECT_EQ(HumanDuration(12'340'000), "12.3s");
  EXPECT_EQ(HumanDuration(192'000'000), "3m 12s");
  EXPECT_EQ(HumanDuration(7'500'000'000), "2h 5m");
  EXPECT_EQ(HumanDuration(273'600'000'000), "3d 4h");
}

TEST(ExecutionJsonTest, ARowHasTheNamesOfAllClients) {
  const Json body = ExecutionSummary(Row("COMPLETED"), kStartUs + 60'000'000, Ids::kNumbers);
  EXPECT_EQ(body["execution_id"], Json(7));
  EXPECT_EQ(body["started_at"], Json("2026-01-01T00:00:00.000000Z"));
  EXPECT_EQ(body["start_time"], body["started_at"]);
  EXPECT_EQ(body["completed_at"], Json("2026-01-01T00:00:02.300000Z"));
  EXPECT_EQ(body["end_time"], body["completed_at"]);
  EXPECT_EQ(body["duration_seconds"], Json(2.3));
  EXPECT_EQ(body["duration_human"], Json("2.3s"));
  EXPECT_EQ(body["event_count"], Json(9));
  EXPECT_EQ(body["progress"], Json(100));
  EXPECT_TRUE(body.Has("parent_execution_id"));
  EXPECT_TRUE(body["parent_execution_id"].is_null());

  const Json running = ExecutionSummary(Row("RUNNING"), kStartUs + 1'000'000, Ids::kTexts);
  EXPECT_EQ(running["execution_id"], Json("7"));
  EXPECT_TRUE(running["completed_at"].is_null());
  EXPECT_EQ(running["duration_seconds"], Json(1.0));
}

TEST(ExecutionJsonTest, EventsHideCredentialsUnlessTheyAreAskedFor) {
  engine::Event event;
  event.event_id = 3;
  event.type_name = "call.done";
  event.result = Parse(R"({"status":"x","context":{"password":"p","author":"ann"}})");
  event.error = "Authorization: Bearer abcdefghijklmnop";
  const Json shown = EventBody(event, {});
  EXPECT_EQ(shown["result"]["context"], Parse(R"({"password":"***","author":"ann"})"));
  EXPECT_EQ(shown["error"].ToString().find("abcdefghijklmnop"), std::string::npos);
  EXPECT_EQ(shown["status"], Json("UNKNOWN"));
  const Json whole = EventBody(event, {.redact = false});
  EXPECT_EQ(whole["result"], event.result);
  EXPECT_FALSE(EventBody(event, {.payload = false}).Has("result"));
}

engine::State SomeState() {
  engine::State state;
  state.status = engine::State::Status::kRunning;
  engine::StepState& done = state.Touch("a");
  done.runs = 1;
  done.outcome = engine::StepState::Outcome::kCompleted;
  engine::StepState& failed = state.Touch("b");
  failed.runs = 2;
  failed.outcome = engine::StepState::Outcome::kFailed;
  for (const auto& [name, at] : {std::pair("c", 10), std::pair("d", 5)}) {
    engine::StepState& open = state.Touch(name);
    open.runs = 1;
    open.outcome = engine::StepState::Outcome::kFailed;  // of the run before
    open.open = engine::Run{.number = 1, .entered_at_us = at};
  }
  state.Touch("never");
  return state;
}

TEST(ExecutionJsonTest, StepsCountByTheirPresentRun) {
  const StepCounts counts = CountSteps(SomeState());
  EXPECT_EQ(counts.total, 4);
  EXPECT_EQ(counts.completed, 1);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_EQ(counts.running, 2);
  EXPECT_THAT(counts.completed_steps, ElementsAre("a"));
  EXPECT_EQ(counts.current_step, "c");
  EXPECT_EQ(ProgressOf(counts, false), 50);
  EXPECT_EQ(ProgressOf(counts, true), 100);
}

TEST(ExecutionJsonTest, AStatusAnswersOldAndNewClients) {
  const Json running =
      StatusBody(Row("RUNNING"), CountSteps(SomeState()), Parse(R"({"n":1})"), kStartUs);
  EXPECT_EQ(running["status"], Json("RUNNING"));
  EXPECT_EQ(running["current_step"], Json("c"));
  EXPECT_EQ(running["progress"]["running_steps"], Json(2));
  EXPECT_EQ(running["completed"], Json(false));
  EXPECT_EQ(running["variables"], Parse(R"({"n":1})"));
  const Json ended = StatusBody(Row("COMPLETED"), {}, Json(), kStartUs);
  EXPECT_EQ(ended["completed"], Json(true));
  EXPECT_EQ(ended["failed"], Json(false));
  EXPECT_TRUE(ended["current_step"].is_null());
  EXPECT_EQ(ended["variables"], Json::Object());
  EXPECT_EQ(StatusBody(Row("CANCELLED"), {}, Json(), kStartUs)["is_cancelled"], Json(true));
}

engine::Event Event(engine::EventType type, std::string node, std::int64_t at_s,
                    std::string command = "") {
  engine::Event event;
  event.type = type;
  event.type_name = engine::EventName(type);
  event.node_name = std::move(node);
  event.created_at_us = kStartUs + at_s * 1'000'000;
  event.status = type == engine::EventType::kCommandFailed ? "FAILED" : "COMPLETED";
  if (!command.empty()) event.meta = Json::Object({{"command_id", command}});
  return event;
}

TEST(ExecutionJsonTest, AnAnalysisFindsWhatStandsOut) {
  using enum engine::EventType;
  std::vector<engine::Event> events = {
      Event(kPlaybookStarted, "demo/hello", 0), Event(kCommandIssued, "slow", 0, "1"),
      Event(kCommandCompleted, "slow", 50, "1"), Event(kCommandIssued, "quick", 50, "2"),
      Event(kCommandFailed, "quick", 51, "2")};
  events[3].meta = events[3].meta.With("attempt", 2);
  store::ExecutionRow row = Row("RUNNING");
  const Json body = AnalyzeRun(row, events, {.sample = 2}, kStartUs + 70'000'000);
  EXPECT_EQ(body["summary"]["slowest_nodes"].At(0)["node_name"], Json("slow"));
  EXPECT_EQ(body["summary"]["slowest_nodes"].At(0)["total_duration_ms"], Json(50'000));
  EXPECT_EQ(body["summary"]["retry_attempts"], Json(1));
  EXPECT_EQ(body["summary"]["failed_event_count"], Json(1));
  EXPECT_TRUE(body["summary"]["terminal_event_type"].is_null());
  std::vector<std::string> titles;
  for (const Json& finding : body["findings"].items())
    titles.push_back(finding["title"].ToString());
  EXPECT_THAT(titles, ElementsAre("Failed events", "Long run", "One node takes most of the time",
                                  "Retries", "No terminal event"));
  EXPECT_EQ(body["findings"].size(), body["recommendations"].size());
  EXPECT_EQ(body["event_sample"].size(), 2u);
}

TEST(ExecutionJsonTest, AnAnalysisOfAQuietRunFindsNothing) {
  using enum engine::EventType;
  const std::vector<engine::Event> events = {Event(kPlaybookStarted, "demo/hello", 0),
                                             Event(kPlaybookCompleted, "playbook", 1)};
  EXPECT_TRUE(AnalyzeRun(Row("COMPLETED"), events, {}, kStartUs)["findings"].empty());
}

TEST(ExecutionJsonTest, AWorkerIsOnlineWhileItBeats) {
  store::RuntimeRow row;
  row.name = "w";
  row.labels = R"({"pool_name":"shared"})";
  row.heartbeat_us = kStartUs;
  const Json body = RuntimeBody(row, kStartUs + 50'000'000, 60'000'000);
  EXPECT_EQ(body["online"], Json(true));
  EXPECT_EQ(body["labels"]["pool_name"], Json("shared"));
  EXPECT_TRUE(body["capacity"].is_null());
  EXPECT_EQ(RuntimeBody(row, kStartUs + 61'000'000, 60'000'000)["online"], Json(false));
}

}  // namespace
}  // namespace noetl::api
