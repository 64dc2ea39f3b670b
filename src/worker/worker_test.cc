#include "worker/worker.h"

#include <thread>

#include <gmock/gmock.h>

#include "worker/command_run.h"
#include "worker/testing.h"

namespace noetl::worker {
namespace {

using engine::EventType;
using testing::ElementsAre;

class HoldingTest : public WorkerTest {
 protected:
  HoldingTest() {
    tools_["echo"].answer = [](const ToolCall& call) { return Success(call.config["give"]); };
    tools_["slow"];
  }
  FakeTool& slow() { return tools_["slow"]; }
  bus::Grant Slow(std::string_view config = "{}") { return Single("slow", config); }
};

// ---- bursts

TEST_F(HoldingTest, ABurstOfQuickCommandsIsOneTask) {
  std::vector<bus::Grant> grants;
  for (int i = 0; i < 64; ++i) grants.push_back(Single("echo", R"({"give": 1})"));
  worker().Run(std::move(grants));
  EXPECT_EQ(reactor_.posts(), 1U);
  EXPECT_EQ(server_.reports.size(), 0U);
  reactor_.RunPosted();
  EXPECT_EQ(reactor_.posts(), 1U);
  EXPECT_EQ(Ends(), 64U);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, AnswersOfOneMomentShareATask) {
  Run({Slow(), Slow(), Slow()});
  const std::size_t posts = reactor_.posts();
  for (std::size_t i = 0; i < 3; ++i) slow().Answer(i, Success(Json(1)));
  EXPECT_EQ(Ends(), 0U);
  reactor_.RunPosted();
  EXPECT_EQ(reactor_.posts(), posts + 1);
  EXPECT_EQ(Ends(), 3U);
  EXPECT_TRUE(slow().at(0).destroyed);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, ACommandIsTakenOnce) {
  const bus::Grant grant = Slow();
  Run({grant, grant});
  Run(grant);
  EXPECT_EQ(slow().count(), 1U);
  EXPECT_EQ(worker().running(), 1U);
}

TEST_F(HoldingTest, OtherThreadsMayCall) {
  worker();
  std::thread([&] {
    worker().Run({Single("echo", R"({"give": 1})"), Slow()});
    worker().Stop({"77:s:2", "unknown"});
  }).join();
  reactor_.RunPosted();
  EXPECT_EQ(Ends(), 1U);
  EXPECT_EQ(slow().last().stops, 1);
}

// ---- the limit of a kind

TEST_F(HoldingTest, CallsOfAKindWaitForTheirTurnInOrder) {
  options_.calls_max = {{"slow", 2}};
  Run({Slow(), Slow(), Slow(), Slow(), Single("echo", "{}")});
  EXPECT_EQ(slow().count(), 2U);
  EXPECT_EQ(Ends(), 1U);  // other kinds go on
  slow().Answer(1, Success(Json()));
  reactor_.RunPosted();
  ASSERT_EQ(slow().count(), 3U);
  EXPECT_EQ(slow().at(2).call.command_id, "77:s:3");
  slow().Answer(0, Success(Json()));
  reactor_.RunPosted();
  EXPECT_EQ(slow().at(3).call.command_id, "77:s:4");
  slow().Answer(2, Success(Json()));
  slow().Answer(3, Success(Json()));
  reactor_.RunPosted();
  EXPECT_EQ(Ends(), 5U);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, QuickCallsOfALimitedKindAllRun) {
  options_.calls_max = {{"echo", 1}};
  Run({Single("echo", "{}"), Single("echo", "{}"), Single("echo", "{}")});
  EXPECT_EQ(Ends(), 3U);
}

TEST_F(HoldingTest, ALimitBelowOneIsOne) {
  options_.calls_max = {{"echo", 0}};
  Run(Single("echo", "{}"));
  EXPECT_EQ(Ends(), 1U);
}

TEST_F(HoldingTest, ATurnIsFreeWhileARetryWaits) {
  options_.calls_max = {{"slow", 1}};
  Run({Slow(R"({"retry": {"max_attempts": 2, "delay": 10}})"), Slow()});
  slow().Answer(0, Failed("slow", "connection", "X", true, "x"));
  reactor_.RunPosted();
  ASSERT_EQ(slow().count(), 2U);
  reactor_.AdvanceMs(10'000);
  EXPECT_EQ(slow().count(), 2U);  // in the queue again
  slow().Answer(1, Success(Json()));
  reactor_.RunPosted();
  ASSERT_EQ(slow().count(), 3U);
  slow().Answer(2, Success(Json()));
  reactor_.RunPosted();
  EXPECT_EQ(Ends(), 2U);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, OnlySoManyGiveTheirSlotBack) {
  tools_["echo"].answer = [](const ToolCall&) {
    return Failed("echo", "connection", "X", true, "x");
  };
  std::vector<bus::Grant> grants;
  for (int i = 0; i < kWaitingMax + 5; ++i)
    grants.push_back(Single("echo", R"({"retry": {"max_attempts": 2, "delay": 1}})"));
  worker().Run(std::move(grants));
  reactor_.RunPosted();
  EXPECT_EQ(server_.free_slots, kWaitingMax);
  reactor_.RunUntilIdle();
  EXPECT_EQ(Ends(), static_cast<std::size_t>(kWaitingMax) + 5);
  ExpectNothingLeft();
}

// ---- sending

TEST_F(HoldingTest, ARefusedReportIsDropped) {
  for (const char* code : {"superseded", "cancelled", "already_terminal", "stale_claim"}) {
    server_.answers.push_back(Fail(code, "no"));
    Run(Single("echo", "{}"));
  }
  reactor_.RunUntilIdle();
  EXPECT_EQ(server_.reports.size(), 4U);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, AReportIsSentUntilItArrives) {
  for (const char* code : {"overloaded", "unavailable", "io", "disk_full", "io", "io", "io", "io"})
    server_.answers.push_back(Fail(code, "later"));
  Run(Single("echo", R"({"give": 5})"));
  EXPECT_EQ(worker().running(), 0U);
  std::vector<std::int64_t> delays;
  std::int64_t before = clock_.MonotonicMillis();
  while (reactor_.timers() > 0) {
    const std::size_t sent = server_.reports.size();
    while (server_.reports.size() == sent) reactor_.AdvanceMs(1);
    delays.push_back(clock_.MonotonicMillis() - before);
    before = clock_.MonotonicMillis();
  }
  EXPECT_THAT(delays, ElementsAre(100, 200, 400, 800, 1'600, 3'200, 5'000, 5'000));
  ASSERT_EQ(server_.reports.size(), 9U);
  for (const bus::Report& report : server_.reports) {
    EXPECT_EQ(report.events, server_.reports[0].events);  // the same ids
    EXPECT_TRUE(report.ends);
  }
}

TEST_F(HoldingTest, AResultThatCannotBeStoredFailsItsCommandOnce) {
  server_.answers = {Fail("bad_row", "too odd"), Fail("bad_row", "still")};
  Run(Single("echo", R"({"give": 5})"));
  reactor_.RunUntilIdle();
  ASSERT_EQ(server_.reports.size(), 2U);
  const bus::Report& report = server_.reports[1];
  EXPECT_EQ(report.command_id, "77:s:1");
  EXPECT_EQ(report.claim_token, 3);
  EXPECT_TRUE(report.ends);
  EXPECT_EQ(report.events.at(1).type, EventType::kCommandFailed);
  EXPECT_EQ(report.events[1].error, "the result could not be stored: too odd");
  EXPECT_EQ(report.events[1].result["context"]["error_info"]["kind"].AsString(), "storage");
  EXPECT_EQ(report.events[1].meta["claim_token"], Json(3));
}

TEST_F(HoldingTest, AnswersMayComeAfterTheWorkerIsGone) {
  server_.hold_sends = true;
  server_.hold_loads = true;
  Run({Single("echo", "{}"),
       Single("slow", "{}", R"({"render_context": {"__context_ref__": "r"}})"),
       Tasks(R"([{"c": {"kind": "playbook", "path": "p", "wait": true}}])")});
  worker_.reset();
  const std::size_t posts = reactor_.posts();
  server_.held_sends.at(0)(Fail("overloaded", ""));
  server_.held_loads.at(0)(Json());
  server_.children.at(0).second(engine::ChildEnd{});
  EXPECT_EQ(reactor_.posts(), posts);
  EXPECT_EQ(reactor_.timers(), 0U);
}

// ---- cancelling, in each phase

TEST_F(HoldingTest, ARunningToolIsStopped) {
  Run(Slow());
  Stop("77:s:1");
  EXPECT_EQ(slow().last().stops, 1);
  EXPECT_EQ(worker().running(), 1U);  // until it has stopped
  Stop("77:s:1");
  slow().AnswerLast(FakeTool::Cancelled());
  reactor_.RunPosted();
  EXPECT_TRUE(server_.reports.empty());
  EXPECT_TRUE(slow().last().destroyed);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, AToolThatStopsAtOnce) {
  slow().stops_at_once = true;
  options_.calls_max = {{"slow", 1}};
  Run({Slow(), Slow()});
  slow().last().call.output(OutputStream::kStdout, "text");
  Stop("77:s:1");
  EXPECT_EQ(slow().count(), 2U);  // the next has its turn
  Stop("77:s:2");
  EXPECT_TRUE(server_.reports.empty());
  ExpectNothingLeft();
}

TEST_F(HoldingTest, ACommandInTheQueueIsForgotten) {
  options_.calls_max = {{"slow", 1}};
  Run({Slow(), Slow(), Slow()});
  Stop("77:s:2");
  EXPECT_EQ(worker().running(), 2U);
  slow().Answer(0, Success(Json()));
  reactor_.RunPosted();
  ASSERT_EQ(slow().count(), 2U);
  EXPECT_EQ(slow().last().call.command_id, "77:s:3");
}

TEST_F(HoldingTest, ATurnThatIsNotUsedGoesToTheNext) {
  options_.calls_max = {{"slow", 1}};
  Run({Slow(), Slow(), Slow()});
  worker().Stop({"77:s:2"});          // comes before the turn is used
  slow().Answer(0, Success(Json()));  // gives the turn to the second
  reactor_.RunPosted();
  ASSERT_EQ(slow().count(), 2U);
  EXPECT_EQ(slow().last().call.command_id, "77:s:3");
}

TEST_F(HoldingTest, AnAnswerThatIsNotTakenYetIsDropped) {
  Run(Slow());
  worker().Stop({"77:s:1"});
  slow().AnswerLast(Success(Json()));
  reactor_.RunPosted();
  EXPECT_TRUE(server_.reports.empty());
  ExpectNothingLeft();
}

TEST_F(HoldingTest, ADelayIsCutShort) {
  Run(Slow(R"({"retry": {"max_attempts": 2, "delay": 10}})"));
  slow().AnswerLast(Failed("slow", "connection", "X", true, "x"));
  reactor_.RunPosted();
  Stop("77:s:1");
  EXPECT_THAT(server_.slot_changes, ElementsAre(1, -1));
  ExpectNothingLeft();
  EXPECT_TRUE(server_.reports.empty());
}

TEST_F(HoldingTest, ALoadIsNotWaitedFor) {
  server_.hold_loads = true;
  Run(Single("slow", "{}", R"({"render_context": {"__context_ref__": "r"}})"));
  Stop("77:s:1");
  server_.held_loads.at(0)(Json::Object());
  reactor_.RunPosted();
  EXPECT_EQ(slow().count(), 0U);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, AChildIsNotWaitedFor) {
  Run(Tasks(R"([{"c": {"kind": "playbook", "path": "p", "wait": true}}])"));
  Stop("77:s:1");
  server_.children.at(0).second(engine::ChildEnd{.status = "COMPLETED"});
  ExpectNothingLeft();
  EXPECT_TRUE(server_.reports.empty());
}

TEST_F(HoldingTest, AReportThatWaitsForItsTextIsDropped) {
  options_.log_flush_bytes = 1;
  server_.hold_sends = true;
  Run(Slow());
  slow().last().call.output(OutputStream::kStdout, "text");
  slow().AnswerLast(Success(Json()));
  reactor_.RunPosted();
  Stop("77:s:1");
  server_.held_sends.at(0)(Status());
  ExpectNothingLeft();
  EXPECT_EQ(Ends(), 0U);
}

TEST_F(HoldingTest, AReportThatIsToBeSentAgainIsDropped) {
  server_.answers = {Fail("overloaded", "")};
  Run(Single("echo", "{}"));
  EXPECT_EQ(reactor_.timers(), 1U);
  Stop("77:s:1");
  reactor_.RunUntilIdle();
  EXPECT_EQ(server_.reports.size(), 1U);
  ExpectNothingLeft();
}

// ---- the end

TEST_F(HoldingTest, StopAllWaitsForTheTools) {
  Run({Slow(), Slow(), Single("slow", R"({"retry": {"max_attempts": 2, "delay": 9}})")});
  slow().Answer(2, Failed("slow", "connection", "X", true, "x"));
  reactor_.RunPosted();
  int idle = 0;
  worker().StopAll([&] { ++idle; });
  EXPECT_EQ(idle, 0);
  slow().Answer(0, FakeTool::Cancelled());
  reactor_.RunPosted();
  EXPECT_EQ(idle, 0);
  slow().Answer(1, FakeTool::Cancelled());
  reactor_.RunPosted();
  EXPECT_EQ(idle, 1);
  EXPECT_TRUE(server_.reports.empty());
  Run(Single("echo", "{}"));  // nothing is taken any more
  EXPECT_TRUE(server_.reports.empty());
  worker().StopAll([&] { ++idle; });
  reactor_.RunPosted();
  EXPECT_EQ(idle, 2);
  ExpectNothingLeft();
}

TEST_F(HoldingTest, WhoIsToldMayDestroyTheWorker) {
  slow().stops_at_once = true;
  Run(Slow());
  worker().StopAll([&] { worker_.reset(); });
  reactor_.RunPosted();
  EXPECT_EQ(worker_, nullptr);
  EXPECT_TRUE(slow().last().destroyed);
}

TEST_F(HoldingTest, LeavingTheQueueLeavesNothingBehind) {
  options_.calls_max = {{"slow", 1}};
  Run({Slow(), Slow(), Slow()});
  Stop("77:s:3");
  Stop("77:s:2");
  EXPECT_EQ(worker().running(), 1U);
  slow().Answer(0, Success(Json()));
  reactor_.RunPosted();
  EXPECT_EQ(slow().count(), 1U);
  Run(Slow());  // the turn is free
  EXPECT_EQ(slow().count(), 2U);
}

TEST_F(HoldingTest, TheDestructorKills) {
  Run({Slow(), Slow(R"({"retry": {"max_attempts": 2, "delay": 9}})")});
  slow().Answer(1, Failed("slow", "connection", "X", true, "x"));
  reactor_.RunPosted();
  slow().Answer(0, Success(Json()));  // its next task never runs
  worker().Run({Single("echo", "{}")});
  worker_.reset();
  EXPECT_TRUE(slow().at(0).destroyed);
  reactor_.RunUntilIdle();
  EXPECT_TRUE(server_.reports.empty());
  EXPECT_EQ(reactor_.timers(), 0U);
}

}  // namespace
}  // namespace noetl::worker
