#include "engine/fold.h"

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/testing.h"

namespace noetl::engine {
namespace {

// A log that is written event by event.
class Log {
 public:
  Log& Add(EventType type, std::string_view node, std::string_view meta = "{}",
           std::string_view result = "null", std::string_view status = "COMPLETED",
           std::string_view context = "null") {
    Event event;
    event.event_id = 100 + state.seq + 1;
    event.execution_id = 7;
    event.seq = state.seq + 1;
    event.type = type;
    event.type_name = EventName(type);
    event.node_name = std::string(node);
    event.status = std::string(status);
    event.meta = Parse(meta);
    event.result = Parse(result);
    event.context = Parse(context);
    event.created_at_us = 1'000'000 * event.seq;
    event.worker_id = type == EventType::kCommandClaimed ? "w1" : "";
    last = event;
    Fold(state, event);
    return *this;
  }
  Log& Started(std::string_view entry = "a") {
    return Add(EventType::kPlaybookStarted, "p",
               R"({"route":{"arcs":[{"step":")" + std::string(entry) + R"("}]}})", "null",
               "STARTED", R"({"path":"p","workload":{"n":1}})");
  }
  Log& Entered(std::string_view step = "a", std::string_view context = R"({"run":1})") {
    return Add(EventType::kStepEnter, step, "{}",
               R"({"status":"ENTERED","context":)" + std::string(context) + "}");
  }
  Log& Issued(std::string_view step = "a", std::string_view id = "c1", std::string_view more = "") {
    return Add(EventType::kCommandIssued, step,
               R"({"run":1,"attempt":1,"tool_kind":"noop","command_id":")" + std::string(id) +
                   "\"" + std::string(more) + "}");
  }
  Log& Done(std::string_view step = "a", std::string_view id = "c1",
            std::string_view data = R"({"x":1})") {
    return Add(
        EventType::kCallDone, step, R"({"command_id":")" + std::string(id) + R"("})",
        R"({"status":"COMPLETED","context":{"result":{"status":"success","context":{"status":"success","data":)" +
            std::string(data) + "}}}}");
  }
  Log& Completed(
      std::string_view route = R"({"run":1,"outcome":"completed","arcs":[{"i":0,"step":"b"}]})",
      std::string_view step = "a", std::string_view id = "c1") {
    return Add(EventType::kCommandCompleted, step,
               R"({"outcome":"completed","command_id":")" + std::string(id) + R"(","route":)" +
                   std::string(route) + "}",
               R"({"status":"success"})", "success");
  }

  State state;
  Event last;
};

std::string Canonical(const State& state) { return CanonicalJson(state.ToJson()); }

TEST(Fold, StartGivesATokenToTheEntry) {
  Log log;
  log.Started();
  EXPECT_EQ(log.state.status, State::Status::kRunning);
  EXPECT_EQ(log.state.workload, Parse(R"({"n":1})"));
  ASSERT_EQ(log.state.Find("a")->tokens.size(), 1u);
  EXPECT_FALSE(log.state.quiescent());
}

TEST(Fold, APlainStepRunsAndRoutes) {
  Log log;
  log.Started().Entered().Issued().Add(EventType::kCommandClaimed, "a", R"({"command_id":"c1"})");
  EXPECT_EQ(log.state.FindCommand("c1")->status, Command::Status::kClaimed);
  EXPECT_EQ(log.state.FindCommand("c1")->worker, "w1");
  log.Done().Completed();
  EXPECT_TRUE(log.state.commands().empty());
  EXPECT_FALSE(log.state.Find("a")->open);
  EXPECT_EQ(log.state.Find("a")->outcome, StepState::Outcome::kCompleted);
  EXPECT_EQ(log.state.Find("a")->result->data, Parse(R"({"x":1})"));
  ASSERT_EQ(log.state.Find("b")->tokens.size(), 1u);
  EXPECT_EQ(log.state.Find("b")->tokens[0].source, "a");
  EXPECT_EQ(log.state.last_completed_step, "a");
}

TEST(Fold, NothingCountsBeforeTheStart) {
  Log log;
  log.Entered();
  EXPECT_EQ(log.state.status, State::Status::kNew);
  EXPECT_TRUE(log.state.steps().empty());
}

TEST(Fold, TheSameNumberTwiceChangesNothing) {
  Log log;
  log.Started().Entered().Issued().Done().Completed();
  const std::string before = Canonical(log.state);
  Fold(log.state, log.last);
  EXPECT_EQ(Canonical(log.state), before);
}

// A change that only raises seq and the last ids.
void ExpectNoMeaning(Log& log, EventType type, std::string_view meta, std::string_view node = "a") {
  State before = log.state;
  log.Add(
      type, node, meta,
      R"({"status":"success","context":{"result":{"status":"success","context":{"data":{"x":9}}}}})",
      "success");
  before.seq = log.state.seq;
  before.last_event_id = log.state.last_event_id;
  before.highest_event_id = log.state.highest_event_id;
  EXPECT_EQ(Canonical(log.state), Canonical(before)) << EventName(type) << " " << meta;
}

TEST(Fold, LateAndRepeatedEventsChangeNothing) {
  Log log;
  log.Started().Entered().Issued().Done().Completed();
  for (const EventType type :
       {EventType::kCommandClaimed, EventType::kCommandStarted, EventType::kCallDone,
        EventType::kCallError, EventType::kCommandCompleted, EventType::kCommandFailed,
        EventType::kCommandReleased, EventType::kCommandCancelled}) {
    ExpectNoMeaning(log, type, R"({"command_id":"c1"})");
    ExpectNoMeaning(
        log, type,
        R"({"command_id":"c1","outcome":"completed","route":{"run":1,"outcome":"completed","arcs":[{"step":"z"}]}})");
    ExpectNoMeaning(log, type, R"({"command_id":"unknown"})");
  }
  ExpectNoMeaning(log, EventType::kStepExit, "{}");
  ExpectNoMeaning(log, EventType::kOther, "{}");
}

TEST(Fold, AReleasedCommandMayBeClaimedAgain) {
  Log log;
  log.Started().Entered().Issued();
  log.Add(EventType::kCommandClaimed, "a", R"({"command_id":"c1","claim_token":1})");
  EXPECT_EQ(log.state.FindCommand("c1")->claim_token, 1);
  log.Add(EventType::kCommandReleased, "a", R"({"command_id":"c1"})");
  EXPECT_EQ(log.state.FindCommand("c1")->status, Command::Status::kIssued);
  EXPECT_EQ(log.state.FindCommand("c1")->worker, "");
  log.Add(EventType::kCommandClaimed, "a", R"({"command_id":"c1","claim_token":2})");
  log.Add(EventType::kCommandStarted, "a", R"({"command_id":"c1"})");
  log.Add(EventType::kCommandReleased, "a", R"({"command_id":"c1"})");
  EXPECT_EQ(log.state.FindCommand("c1")->status, Command::Status::kStarted) << "it has begun";
  EXPECT_EQ(log.state.FindCommand("c1")->claim_token, 2);
}

TEST(Fold, ASecondIssueOfACommandChangesNothing) {
  Log log;
  log.Started().Entered().Issued();
  const std::int64_t in_flight = log.state.Find("a")->open->in_flight;
  log.Issued();
  EXPECT_EQ(log.state.Find("a")->open->in_flight, in_flight);
}

TEST(Fold, ACommandOfAnotherRunIsNotIssued) {
  Log log;
  log.Started().Entered();
  log.Add(EventType::kCommandIssued, "a", R"({"run":2,"command_id":"c9"})");
  log.Add(EventType::kCommandIssued, "nobody", R"({"run":1,"command_id":"c9"})");
  EXPECT_TRUE(log.state.commands().empty());
}

TEST(Fold, EqualTokensCoalesce) {
  Log log;
  log.Started().Entered().Issued().Done().Completed(
      R"({"run":1,"outcome":"completed","arcs":[{"i":0,"step":"b"},{"i":1,"step":"b"},{"i":2}]})");
  EXPECT_EQ(log.state.Find("b")->tokens.size(), 1u);
}

TEST(Fold, NothingIsFoldedAfterTheEnd) {
  Log log;
  log.Started().Entered().Issued().Add(EventType::kPlaybookCancelled, "playbook");
  EXPECT_EQ(log.state.status, State::Status::kCancelled);
  EXPECT_TRUE(log.state.commands().empty());
  EXPECT_TRUE(log.state.quiescent());
  EXPECT_EQ(log.state.Find("a")->outcome, StepState::Outcome::kCancelled);
  ExpectNoMeaning(log, EventType::kPlaybookCompleted, "{}");
  ExpectNoMeaning(log, EventType::kCommandCompleted,
                  R"({"command_id":"c1","outcome":"completed"})");
  ExpectNoMeaning(log, EventType::kStepEnter, "{}");
}

TEST(Fold, DataAfterTheEndOfItsCommandBecomesTheResultOnce) {
  Log log;
  log.Started().Entered().Issued().Completed();
  EXPECT_EQ(log.state.Find("a")->awaits_data_of, "c1");
  log.Done("a", "other", R"({"x":5})");
  EXPECT_EQ(log.state.Find("a")->awaits_data_of, "c1");
  log.Done();
  EXPECT_EQ(log.state.Find("a")->result->data, Parse(R"({"x":1})"));
  EXPECT_TRUE(log.state.Find("a")->awaits_data_of.empty());
  EXPECT_EQ(log.state.Find("b")->tokens.size(), 1u) << "late data routes nothing";
  log.Done("a", "c1", R"({"x":2})");
  EXPECT_EQ(log.state.Find("a")->result->data, Parse(R"({"x":1})"));
}

TEST(Fold, TheFirstReportCounts) {
  Log log;
  log.Started().Entered().Issued().Done().Done("a", "c1", R"({"x":2})").Completed();
  EXPECT_EQ(log.state.Find("a")->result->data, Parse(R"({"x":1})"));
}

TEST(Fold, AParkedCommandStaysOpen) {
  Log log;
  log.Started().Entered().Issued();
  log.Add(EventType::kCommandCompleted, "a", R"({"command_id":"c1","parked":true})",
          R"({"status":"success"})");
  ASSERT_NE(log.state.FindCommand("c1"), nullptr);
  EXPECT_TRUE(log.state.FindCommand("c1")->parked);
  EXPECT_TRUE(log.state.Find("a")->open);
}

TEST(Fold, AnEarlyCallbackIsKeptForTheCommand) {
  Log log;
  log.Started().Entered().Issued();
  log.Add(EventType::kCallDone, "a", R"({"command_id":"c1","callback":true})",
          R"({"status":"COMPLETED","context":{"ok":true}})", "COMPLETED");
  const Command& command = *log.state.FindCommand("c1");
  EXPECT_TRUE(command.reported);
  EXPECT_TRUE(command.callback);
  EXPECT_EQ(command.report["context"]["data"], Parse(R"({"ok":true})"));
}

TEST(Fold, AWithdrawnPlainRunCloses) {
  Log log;
  log.Started().Entered().Issued();
  log.Add(EventType::kCommandCancelled, "a", R"({"command_id":"c1","reason":"withdrawn"})");
  EXPECT_FALSE(log.state.Find("a")->open);
  EXPECT_EQ(log.state.Find("a")->outcome, StepState::Outcome::kCancelled);
}

TEST(Fold, ASupersededCommandLeavesTheRunOpen) {
  Log log;
  log.Started().Entered().Issued();
  log.Add(EventType::kCommandCancelled, "a", R"({"command_id":"c1","reason":"superseded"})");
  ASSERT_TRUE(log.state.Find("a")->open);
  EXPECT_EQ(log.state.Find("a")->open->in_flight, 0);
  log.Issued("a", "c2", R"(,"lost":1,"retry_of":"c1")");
  EXPECT_EQ(log.state.FindCommand("c2")->lost, 1);
}

TEST(Fold, AStepThatNeverGotItsCommandIsWithdrawn) {
  Log log;
  log.Started().Entered();
  log.Add(EventType::kCommandCancelled, "a", R"({"run":2,"reason":"withdrawn"})");
  EXPECT_TRUE(log.state.Find("a")->open);
  log.Add(EventType::kCommandCancelled, "a", R"({"run":1,"reason":"withdrawn"})");
  EXPECT_FALSE(log.state.Find("a")->open);
}

TEST(Fold, DrainingDropsTokensAndMakesNone) {
  Log log;
  log.Started().Entered().Issued().Done().Completed();
  log.Entered("c").Issued("c", "c2");
  log.Add(
      EventType::kCommandFailed, "c",
      R"({"command_id":"c2","outcome":"failed","route":{"run":1,"outcome":"failed","arcs":[],"error":"no","drain":true}})",
      R"({"status":"FAILED","context":{"error":"no"}})", "FAILED");
  EXPECT_TRUE(log.state.draining);
  EXPECT_TRUE(log.state.token_steps().empty());
  EXPECT_EQ(log.state.failed_steps, std::vector<std::string>{"c"});
  EXPECT_EQ(log.state.first_error, "no");
}

TEST(Fold, AReentryKeepsTheOldResultUntilTheNewOne) {
  Log log;
  log.Started().Entered().Issued().Done().Completed();
  log.Entered("a", R"({"run":2})");
  EXPECT_EQ(log.state.Find("a")->runs, 2);
  EXPECT_EQ(log.state.Find("a")->result->data, Parse(R"({"x":1})"));
}

TEST(Fold, LoopsCountAndKeepTheFirstResult) {
  Log log;
  log.Started().Entered("a",
                        R"({"run":1,"iterations_expected":2,"max_in_flight":2,"items":[5,6]})");
  log.Issued("a", "i0", R"(,"iteration_index":0)").Issued("a", "i1", R"(,"iteration_index":1)");
  EXPECT_EQ(log.state.Find("a")->open->in_flight, 2);
  EXPECT_EQ(log.state.Find("a")->open->next_index, 2);
  log.Done("a", "i1", "2");
  log.Add(EventType::kCommandCompleted, "a",
          R"({"command_id":"i1","outcome":"completed","result_bytes":1})", "null", "success");
  log.Done("a", "i0", "1");
  log.Add(EventType::kCommandCompleted, "a",
          R"({"command_id":"i0","outcome":"completed","result_bytes":1})", "null", "success");
  const engine::Run& run = *log.state.Find("a")->open;
  EXPECT_EQ(run.succeeded, 2);
  EXPECT_EQ(run.in_flight, 0);
  EXPECT_EQ(run.result_bytes, 2);
  EXPECT_EQ(run.first_result, Json(1));
}

TEST(Fold, CursorSlotsClaimAndDrain) {
  Log log;
  log.Started().Entered("a", R"({"run":1,"__cursor_loop":true,"max_in_flight":2})");
  const auto slots = [&]() -> const std::vector<CursorSlot>& {
    return log.state.Find("a")->open->slots;
  };
  ASSERT_EQ(slots().size(), 2u);
  log.Issued("a", "q0", R"(,"cursor":{"phase":"claim","slot":0,"frame":0})");
  EXPECT_EQ(slots()[0].phase, CursorSlot::Phase::kClaiming);
  log.Done("a", "q0", R"({"rows":[1]})");
  log.Add(EventType::kCommandCompleted, "a",
          R"({"command_id":"q0","outcome":"completed","rows":1})", "null", "success");
  EXPECT_EQ(slots()[0].phase, CursorSlot::Phase::kRows);
  log.Issued("a", "q1", R"(,"cursor":{"phase":"claim","slot":1,"frame":1})")
      .Done("a", "q1", R"({"rows":[]})");
  log.Add(EventType::kCommandCompleted, "a",
          R"({"command_id":"q1","outcome":"completed","rows":0})", "null", "success");
  EXPECT_EQ(slots()[1].phase, CursorSlot::Phase::kDrained);
  EXPECT_EQ(slots()[0].phase, CursorSlot::Phase::kRows) << "one empty claim drains one slot";
  log.Issued("a", "q9", R"(,"cursor":{"phase":"claim","slot":7,"frame":2})");
  EXPECT_EQ(log.state.FindCommand("q9"), nullptr) << "there is no such slot";
}

// A damaged or foreign log may hold any number; nothing overflows (the sanitizers watch).
TEST(Fold, NumbersOfAForeignLogAreBounded) {
  constexpr std::string_view kHuge = "9223372036854775807";
  Log log;
  log.Started().Entered("a",
                        R"({"run":1,"iterations_expected":9223372036854775807,"max_in_flight":2})");
  for (const std::string id : {"c1", "c2"}) {
    log.Issued("a", id, R"(,"iteration_index":)" + std::string(kHuge));
    log.Add(EventType::kCommandCompleted, "a",
            R"({"command_id":")" + id + R"(","outcome":"completed","result_bytes":)" +
                std::string(kHuge) + "}");
  }
  const engine::Run& run = *log.state.Find("a")->open;
  EXPECT_GT(run.next_index, 0);
  EXPECT_GT(run.result_bytes, 0);
  EXPECT_EQ(run.succeeded, 2);
}

TEST(Fold, ReportsOfToolsAreReadInOneWay) {
  Command command;
  command.reported = true;
  command.report = Parse(
      R"({"status":"error","context":{"status":"error","data":{"a":1},"error":"bad","error_info":{"kind":"x"}}})");
  Event end;
  end.type = EventType::kCommandCompleted;
  end.status = "error";
  const Report soft = ReadReport(command, end);
  EXPECT_FALSE(soft.ok);
  EXPECT_EQ(soft.error, "bad");
  EXPECT_EQ(soft.error_info["kind"].AsString(), "x");
  const StepResult result = MakeStepResult(command, soft, end);
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.data, Parse(R"({"a":1})"));

  Event failed;
  failed.type = EventType::kCommandFailed;
  failed.result = Parse(R"({"status":"FAILED","context":{"error":{"message":"gone"}}})");
  const Report hard = ReadReport(Command{}, failed);
  EXPECT_FALSE(hard.ok);
  EXPECT_EQ(hard.error, "gone");
  EXPECT_EQ(MakeStepResult(Command{}, hard, failed).data, Parse(R"({"error":"gone"})"));

  Event silent;
  silent.type = EventType::kCommandFailed;
  EXPECT_FALSE(ReadReport(Command{}, silent).error.empty());
}

TEST(Fold, ContextUpdatesReplaceWholeKeys) {
  Log log;
  log.Started();
  log.Add(EventType::kCtxUpdated, "", "{}",
          R"({"status":"CONTEXT","context":{"values":{"a":{"x":1},"b":1}}})");
  log.Add(EventType::kCtxUpdated, "", "{}",
          R"({"status":"CONTEXT","context":{"values":{"a":{"y":2}}}})");
  EXPECT_EQ(log.state.ctx, Parse(R"({"a":{"y":2},"b":1})"));
}

}  // namespace
}  // namespace noetl::engine
