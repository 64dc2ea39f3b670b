#include "worker/remote/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/temporary_directory.h"
#include "worker/remote/sealed_testing.h"
#include "worker/remote/status_page.h"
#include "worker/remote/testing.h"
#include "worker/testing.h"
#include "worker/worker.h"

namespace noetl::worker {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Can jump: a process that was stopped finds itself later.
class JumpingClock final : public Clock {
 public:
  std::int64_t NowMicros() override { return clock_.NowMicros() + jumped_us; }
  std::int64_t MonotonicMicros() override { return clock_.MonotonicMicros() + jumped_us; }
  void SleepMicros(std::int64_t duration) override { clock_.SleepMicros(duration); }

  std::int64_t jumped_us = 0;

 private:
  SystemClock clock_;
};

class RemoteLinkTest : public testing::Test {
 protected:
  RemoteLinkTest() {
    options_.worker_id = "w1";
    options_.slots = 2;
    options_.spool_file = directory_.path() + "/events.wal";
    options_.pace = {.first_ms = 5, .largest_ms = 40};
    options_.poll_wait_ms = 200;
    options_.heartbeat_ms = 20;
    options_.pulse_ms = 20;
    options_.drain_ms = 50;
    options_.goodbye_ms = 2'000;
    options_.stopping_ms = 20;
    tools_["quick"].answer = [](const ToolCall&) { return Success(Parse(R"({"n": 1})")); };
    tools_["slow"].stops_at_once = true;
  }
  ~RemoteLinkTest() override { Close(); }

  void Open() {
    options_.server.url = plane_.url();
    auto link = RemoteLink::Open(options_, &loop_, &clock_, &ids_);
    ASSERT_TRUE(link) << link.error().message;
    link_ = *std::move(link);
    worker_ = std::make_unique<Worker>(WorkerOptions{.worker_id = options_.worker_id}, &loop_,
                                       &clock_, &ids_, &tools_, link_.get());
    link_->Attach(worker_.get());
    link_->Start([this](Status status) { started_ = std::move(status); });
  }
  void Close() {
    worker_.reset();
    link_.reset();
  }
  template <typename Condition>
  void Until(Condition condition) {
    RunUntil(loop_, condition);
  }
  void UntilStored(std::size_t commands) {
    Until([&] {
      return plane_.StoredCount("command.completed") + plane_.StoredCount("command.failed") >=
             commands;
    });
  }
  void UntilCalls(const std::string& kind, std::size_t calls) {
    Until([&] { return tools_[kind].count() >= calls; });
  }
  void UntilIdle() {
    Until([&] { return link_->undelivered() == 0 && link_->running() == 0; });
  }
  void DrainNow() {
    bool gone = false;
    link_->Drain([&] { gone = true; });
    Until([&] { return gone; });
  }
  std::int64_t SpoolBytes() const {
    std::error_code error;
    return static_cast<std::int64_t>(std::filesystem::file_size(options_.spool_file, error));
  }

  TemporaryDirectory directory_;
  FakeControlPlane plane_;
  EventLoop loop_;
  JumpingClock clock_;
  SequentialIds ids_{1'000};
  FakeTools tools_;
  RemoteOptions options_;
  std::optional<Status> started_;
  std::unique_ptr<RemoteLink> link_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(RemoteLinkTest, RunsWhatIsOfferedAndTellsHowItEnded) {
  for (int i = 0; i < 20; ++i) plane_.Offer("quick");
  Open();
  UntilStored(20);
  UntilIdle();
  ASSERT_TRUE(started_ && started_->has_value());
  EXPECT_EQ(plane_.StoredCount("call.done"), 20U);
  EXPECT_EQ(plane_.repeated(), 0U);
  EXPECT_LE(plane_.largest_max(), options_.slots);
  EXPECT_EQ(tools_["quick"].count(), 20U);
  const Json event = plane_.Stored().front();
  EXPECT_EQ(event["context"]["result"]["context"]["data"]["n"], Json(1));
  EXPECT_EQ(event["meta"]["claim_token"], Json(1));
  EXPECT_EQ(event["worker_id"], Json("w1"));
  const Json registration = plane_.Bodies("POST /api/worker/pool/register").at(0);
  EXPECT_EQ(registration["name"], Json("w1"));
  EXPECT_EQ(registration["capacity"], Json(2));
}

TEST_F(RemoteLinkTest, ALostAnswerRunsNothingTwiceAndLosesNothing) {
  plane_.LoseAnswers("/api/commands/lease", 6);
  for (int i = 0; i < 5; ++i) plane_.Offer("quick");
  Open();
  UntilStored(5);
  UntilIdle();
  EXPECT_EQ(plane_.StoredCount("command.completed"), 5U);
  EXPECT_EQ(tools_["quick"].count(), 5U);
  std::map<std::string, std::set<std::string>> bodies;
  for (const Json& body : plane_.Bodies("POST /api/commands/lease"))
    bodies[body["request_id"].ToString()].insert(WriteJson(body));
  for (const auto& [request, texts] : bodies) EXPECT_EQ(texts.size(), 1U) << request;
}

TEST_F(RemoteLinkTest, GoesOnAfterAServerThatWasBusy) {
  plane_.Refuse("/api/commands/lease", 503, 8);
  plane_.Refuse("/api/worker/pool/register", 503, 3);
  plane_.Refuse("/api/worker/pool/heartbeat", 503, 3);
  for (int i = 0; i < 5; ++i) plane_.Offer("quick");
  Open();
  UntilStored(5);
  UntilIdle();
  EXPECT_EQ(plane_.StoredCount("call.done"), 5U);
  EXPECT_EQ(tools_["quick"].count(), 5U);
}

TEST_F(RemoteLinkTest, WhatCannotBeToldIsSpooledAndDeliveredOnce) {
  plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  plane_.Down();
  tools_["slow"].AnswerLast(Success(Parse("2")));
  Until([&] { return SpoolBytes() > 0; });
  plane_.Up();
  UntilStored(1);
  UntilIdle();
  EXPECT_EQ(plane_.StoredCount("call.done"), 1U);
  EXPECT_EQ(SpoolBytes(), 0);
}

TEST_F(RemoteLinkTest, TheNextProcessDeliversWhatTheLastCouldNot) {
  plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  plane_.Down();
  tools_["slow"].AnswerLast(Success(Parse("2")));
  Until([&] { return SpoolBytes() > 0; });
  Close();
  plane_.Up();
  const std::size_t before = plane_.Requests().size();
  Open();
  UntilStored(1);
  Until(
      [&] { return started_.has_value() && plane_.Count("POST /api/worker/pool/register") == 2; });
  EXPECT_EQ(plane_.StoredCount("call.done"), 1U);
  EXPECT_EQ(SpoolBytes(), 0);
  // Registering ends the claims of the former process: the reports must have come before.
  EXPECT_EQ(plane_.Requests().at(before), "POST /api/commands/lease");
}

TEST_F(RemoteLinkTest, ARefusedReportIsDropped) {
  plane_.RefuseEvents("call.done", "stale_claim");
  plane_.Offer("quick");
  Open();
  UntilCalls("quick", 1);
  UntilIdle();
  EXPECT_EQ(plane_.StoredCount("call.done"), 0U);
  // The slot is free again.
  plane_.RefuseEvents("call.done", "");
  plane_.Offer("quick");
  plane_.Offer("quick");
  UntilCalls("quick", 3);
  UntilIdle();
  EXPECT_EQ(SpoolBytes(), 0);
}

TEST_F(RemoteLinkTest, AReportThatIsNotWantedBecomesAFailure) {
  plane_.RefuseEvents("call.done", "invalid");
  plane_.Offer("quick");
  Open();
  UntilStored(2);  // the completed of the first try is stored by this server, then the failure
  UntilIdle();
  EXPECT_EQ(plane_.StoredCount("command.failed"), 1U);
}

TEST_F(RemoteLinkTest, ACommandThatNothingCanBeSaidOfIsLetGo) {
  plane_.RefuseEvents("call.done", "invalid");
  plane_.RefuseEvents("call.error", "invalid");
  plane_.Offer("quick");
  Open();
  UntilCalls("quick", 1);
  Until([&] {
    const auto beats = plane_.Bodies("POST /api/worker/pool/heartbeat");
    return !beats.empty() && beats.back()["commands"].empty() &&
           plane_.StoredCount("command.failed") > 0;
  });
}

TEST_F(RemoteLinkTest, ALostLeaseStopsTheTool) {
  const std::int64_t id = plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  plane_.Lose(id);
  Until([&] { return tools_["slow"].at(0).stops > 0; });
  UntilIdle();
  EXPECT_TRUE(plane_.Stored().empty());
}

TEST_F(RemoteLinkTest, ALeaseThatCannotBeRenewedStopsTheTool) {
  plane_.Offer("slow");
  plane_.Refuse("/api/worker/pool/heartbeat", 503, 1'000'000);
  Open();
  UntilCalls("slow", 1);
  clock_.jumped_us += 60'000'000;
  Until([&] { return tools_["slow"].at(0).stops > 0; });
  UntilIdle();
  EXPECT_TRUE(plane_.Stored().empty());
}

TEST_F(RemoteLinkTest, ALeaseIsRenewedForAsLongAsTheToolRuns) {
  plane_.Offer("slow", "{}", 30);
  Open();
  UntilCalls("slow", 1);
  for (int i = 0; i < 5; ++i) {
    const std::size_t beats = plane_.Count("POST /api/worker/pool/heartbeat");
    Until([&] { return plane_.Count("POST /api/worker/pool/heartbeat") > beats + 2; });
    clock_.jumped_us += 15'000'000;
  }
  EXPECT_EQ(tools_["slow"].at(0).stops, 0);
  tools_["slow"].AnswerLast(Success(Parse("2")));
  UntilStored(1);
}

// A request for work waits longer than a lease lasts: what it brings is fresh all the same.
TEST_F(RemoteLinkTest, ALeaseMayBeShorterThanTheWaitForWork) {
  plane_.Give("/api/worker/pool/register", Parse(R"({"lease_seconds": 1})"));
  options_.pulse_ms = options_.heartbeat_ms = options_.poll_wait_ms = 60'000;
  Open();
  Until([&] { return plane_.Count("POST /api/commands/lease") == 1; });
  const std::int64_t late_us = clock_.MonotonicMicros() + 1'100'000;
  Until([&] { return clock_.MonotonicMicros() > late_us; });
  plane_.Offer("quick", "{}", 1);
  UntilStored(1);
  EXPECT_EQ(plane_.StoredCount("command.completed"), 1U);
}

// The answer comes while nobody serves the loop, as in a process that is stopped.
TEST_F(RemoteLinkTest, AnAnswerThatLayForLongerThanTheLeaseIsNotTaken) {
  plane_.Give("/api/worker/pool/register", Parse(R"({"lease_seconds": 1})"));
  options_.pulse_ms = options_.heartbeat_ms = options_.poll_wait_ms = 60'000;
  Open();
  Until([&] { return plane_.Count("POST /api/commands/lease") == 1; });
  plane_.Offer("quick", "{}", 1);
  clock_.SleepMicros(1'100'000);
  Until([&] { return plane_.Count("POST /api/commands/lease") == 2; });
  EXPECT_EQ(tools_["quick"].count(), 0U);
}

TEST_F(RemoteLinkTest, AProcessThatWasStoppedDoesNotReportWhatIsNotItsOwn) {
  plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  clock_.jumped_us += 3'600'000'000;
  tools_["slow"].AnswerLast(Success(Parse("2")));
  UntilIdle();
  EXPECT_TRUE(plane_.Stored().empty());
}

TEST_F(RemoteLinkTest, NewsOfACancelStopsTheTool) {
  const std::int64_t id = plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  plane_.Tell("event: other\ndata: {}\n\n");
  plane_.Tell(fmt::format("id: 1\nevent: cancel\ndata: {{\"event_id\": \"{}\"}}\n\n", id));
  Until([&] { return tools_["slow"].at(0).stops > 0; });
  UntilIdle();
  EXPECT_TRUE(plane_.Stored().empty());
}

TEST_F(RemoteLinkTest, AServerCanAskAWorkerToEnd) {
  bool asked = false;
  Open();
  link_->OnDrainAsked([&] { asked = true; });
  Until([&] { return plane_.Count("GET /api/worker/control") > 0; });
  plane_.Tell("event: drain\ndata: {}\n\n");
  Until([&] { return asked; });
}

TEST_F(RemoteLinkTest, DrainingWaitsForWhatRuns) {
  options_.drain_ms = 60'000;
  plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  bool gone = false;
  link_->Drain([&] { gone = true; });
  plane_.Offer("quick");
  Until([&] { return plane_.Count("POST /api/worker/pool/heartbeat") > 0; });
  tools_["slow"].AnswerLast(Success(Parse("2")));
  Until([&] { return gone; });
  EXPECT_EQ(plane_.StoredCount("command.completed"), 1U);
  EXPECT_EQ(tools_["quick"].count(), 0U);
  EXPECT_EQ(plane_.Count("POST /api/commands/1/release"), 0U);
  EXPECT_EQ(plane_.Count("POST /api/worker/pool/deregister"), 1U);
}

TEST_F(RemoteLinkTest, DrainingGivesBackWhatDoesNotEnd) {
  plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  DrainNow();
  EXPECT_EQ(tools_["slow"].at(0).stops, 1);
  const std::vector<Json> released = plane_.Bodies("POST /api/commands/1/release");
  ASSERT_EQ(released.size(), 1U);
  EXPECT_EQ(released[0]["claim_token"], Json(1));
  EXPECT_EQ(released[0]["worker_id"], Json("w1"));
  EXPECT_EQ(plane_.Requests().back(), "POST /api/worker/pool/deregister");
  EXPECT_TRUE(plane_.Stored().empty());
}

TEST_F(RemoteLinkTest, NothingIsSaidAfterTheGoodbye) {
  Open();
  Until([&] { return started_.has_value(); });
  DrainNow();
  EXPECT_EQ(plane_.Requests().back(), "POST /api/worker/pool/deregister");
  EXPECT_EQ(plane_.Bodies("POST /api/worker/pool/heartbeat").back()["status"], Json("draining"));
}

TEST_F(RemoteLinkTest, AWorkerThatCannotTellKeepsItForTheNextStart) {
  options_.goodbye_ms = 50;
  plane_.Offer("slow");
  Open();
  UntilCalls("slow", 1);
  plane_.Refuse("/api/commands/lease", 503, 1'000'000);
  tools_["slow"].AnswerLast(Success(Parse("2")));
  DrainNow();
  EXPECT_GT(SpoolBytes(), 0);
  EXPECT_EQ(plane_.Count("POST /api/worker/pool/deregister"), 0U);
}

TEST_F(RemoteLinkTest, AStartWithoutAServerFailsAfterAWhile) {
  options_.register_ms = 30;
  plane_.Down();
  Open();
  Until([&] { return started_.has_value(); });
  EXPECT_EQ(started_->error().code, "unavailable");
}

TEST_F(RemoteLinkTest, LargeResultsAreStoredFirst) {
  tools_["large"].answer = [](const ToolCall&) {
    return Success(Json::Object({{"text", std::string(5'000, 'x')}}));
  };
  plane_.Refuse("/api/result/", 503, 2);
  plane_.Offer("large", "{}", 30, 100);
  Open();
  UntilStored(1);
  const Json put = plane_.Bodies("PUT /api/result/77").back();
  EXPECT_EQ(put["data"]["text"].AsString().size(), 5'000U);
  const Json result = plane_.Stored().front()["context"]["result"];
  EXPECT_EQ(result["reference"]["ref"], Json("noetl://execution/77/result/s/900"));
  EXPECT_EQ(result["context"]["data"]["_ref"], Json("noetl://execution/77/result/s/900"));
}

TEST_F(RemoteLinkTest, OutputComesBeforeTheEnd) {
  tools_["loud"].answer = [](const ToolCall& call) {
    call.output(OutputStream::kStdout, "hello\n");
    return Success(Parse("1"));
  };
  plane_.Offer("loud");
  Open();
  UntilStored(1);
  const Json logs = plane_.Bodies("POST /api/executions/77/logs").at(0);
  EXPECT_EQ(logs["command_id"], Json("77:s:1"));
  EXPECT_EQ(logs["chunks"].At(0)["text"], Json("hello\n"));
  EXPECT_EQ(logs["chunks"].At(0)["offset"], Json(0));
}

TEST_F(RemoteLinkTest, LoadsBodiesAndSecretsAndRemembersOnlySecrets) {
  plane_.Give("/api/credentials/pg", Parse(R"({"name":"pg","type":"postgres","data":{"p":1}})"));
  plane_.Refuse("/api/credentials/", 503, 1);
  Open();
  int answers = 0;
  for (int i = 0; i < 2; ++i) {
    link_->FindSecret("pg", 77, [&](Result<Json> found) {
      ASSERT_TRUE(found);
      EXPECT_EQ((*found)["data"]["p"], Json(1));
      ++answers;
    });
    Until([&] { return answers > i; });
  }
  EXPECT_EQ(plane_.Count("GET /api/credentials/pg"), 2U);  // one failed
  bool loaded = false;
  link_->Load("noetl://execution/77/result/s/1", [&](Result<Json> body) {
    ASSERT_TRUE(body);
    loaded = true;
  });
  Until([&] { return loaded; });
  EXPECT_EQ(plane_.Count("GET /api/result/resolve"), 1U);
}

TEST_F(RemoteLinkTest, CredentialsComeSealed) {
  options_.sealed_credentials = true;
  Open();
  Until([&] { return link_->ready(); });
  const Json registered = plane_.Bodies("POST /api/worker/pool/register").at(0);
  const std::string key = registered["runtime"]["worker_public_key"].ToString();
  const Json sealed = SealTo(key, R"({"name":"pg","type":"postgres","data":{"p":1}})");
  plane_.Give("/api/credentials/pg/sealed", sealed);
  plane_.Give("/api/credentials/torn/sealed", sealed.With("v", 7));
  std::vector<std::string> told;
  const auto ask = [&](std::string alias) {
    const std::size_t before = told.size();
    link_->FindSecret(std::move(alias), 77, [&](Result<Json> found) {
      told.push_back(found ? WriteJson((*found)["data"])
                           : found.error().code + ": " + found.error().message);
    });
    Until([&] { return told.size() > before; });
    return told.back();
  };
  EXPECT_EQ(ask("pg"), R"({"p":1})");
  EXPECT_EQ(ask("pg"), R"({"p":1})");  // from memory
  EXPECT_THAT(plane_.Targets("GET /api/credentials/"),
              testing::ElementsAre("GET /api/credentials/pg/sealed?worker_id=w1&execution_id=77"));
  EXPECT_THAT(ask("torn"),
              HasSubstr("sealed: the sealed credential cannot be opened: its version"));
  // No other form is asked for when there is no sealed one.
  plane_.Refuse("/api/credentials/kept/sealed", 404, 1);
  EXPECT_THAT(ask("kept"), HasSubstr("not_found: the server answered 404"));
  EXPECT_EQ(plane_.Count("GET /api/credentials/kept"), 0U);
}

TEST_F(RemoteLinkTest, TellsOfItself) {
  options_.tools = {"quick", "slow"};
  plane_.Refuse("/api/worker/pool/register", 503, 1);
  plane_.LoseAnswers("/api/commands/lease", 1);
  Open();
  EXPECT_EQ(AnswerOfWorker(*link_, "/health").status, 200);
  EXPECT_EQ(AnswerOfWorker(*link_, "/ready").status, 503);
  EXPECT_THAT(AnswerOfWorker(*link_, "/readyz").body, HasSubstr("starting"));
  EXPECT_EQ(AnswerOfWorker(*link_, "/").status, 404);
  plane_.Offer("quick");
  UntilStored(1);
  UntilIdle();
  EXPECT_EQ(AnswerOfWorker(*link_, "/ready").status, 200);
  const std::int64_t slow = plane_.Offer("slow");
  UntilCalls("slow", 1);
  StatusAnswer metrics = AnswerOfWorker(*link_, "/metrics");
  EXPECT_THAT(metrics.content_type, HasSubstr("version=0.0.4"));
  for (const char* line :
       {"noetl_worker_ready 1\n", "noetl_worker_slots 2\n",
        "noetl_worker_concurrent_dispatches 1\n", "noetl_worker_spool_records 0\n",
        "noetl_worker_claim_succeeded_total 2\n",
        "noetl_worker_dispatch_duration_seconds_count{tool_kind=\"quick\"} 1\n",
        "noetl_worker_dispatch_duration_seconds_count{tool_kind=\"slow\"} 0\n"}) {
    EXPECT_THAT(metrics.body, HasSubstr(line));
  }
  EXPECT_THAT(metrics.body, Not(HasSubstr("noetl_worker_events_sent_total 0\n")));
  plane_.Lose(slow);
  Until([&] { return link_->running() == 0; });
  EXPECT_THAT(AnswerOfWorker(*link_, "/metrics").body,
              HasSubstr("noetl_worker_leases_lost_total 1\n"));
  bool gone = false;
  link_->Drain([&] { gone = true; });
  EXPECT_EQ(AnswerOfWorker(*link_, "/ready").status, 503);
  EXPECT_EQ(AnswerOfWorker(*link_, "/health").status, 200);
  EXPECT_THAT(AnswerOfWorker(*link_, "/metrics").body, HasSubstr("noetl_worker_ready 0\n"));
  Until([&] { return gone; });
}

TEST_F(RemoteLinkTest, ThePageIsOptionalUnlessItWasAskedFor) {
  Open();
  const auto page = [&](const Settings::Variables& variables) {
    const auto settings = Settings::Load(variables);
    EXPECT_TRUE(settings);
    return OpenStatusPage(&loop_, link_.get(), *settings);
  };
  const auto off = page({{"WORKER_METRICS_BIND", "Off"}});
  ASSERT_TRUE(off);
  EXPECT_EQ(*off, nullptr);
  const auto asked = page({{"WORKER_METRICS_BIND", "127.0.0.1:0"}});
  ASSERT_TRUE(asked) << asked.error().message;
  ASSERT_NE(*asked, nullptr);
  const auto taken = page({{"WORKER_METRICS_BIND", (*asked)->address()}});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, "settings");
  EXPECT_THAT(taken.error().message, HasSubstr("WORKER_METRICS_BIND: cannot listen on"));
  const auto bad = page({{"WORKER_METRICS_BIND", "nowhere"}});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, "settings");
  // Whoever has the default port, this worker or another program: the second goes without.
  const auto first = page({});
  ASSERT_TRUE(first);
  const auto second = page({});
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, nullptr);
}

TEST_F(RemoteLinkTest, AChildTellsTheResultOfOneStep) {
  plane_.Give("/api/execute", Parse(R"({"execution_id":"88","status":"started"})"));
  plane_.Give("/api/executions/88/wait",
              Parse(R"({"execution_id":88,"status":"COMPLETED","data":{"n":4}})"));
  Open();
  std::optional<engine::ChildEnd> end;
  link_->RunChild({.parent_execution_id = 77,
                   .parent_command_id = "77:s:1",
                   .key = "task:1",
                   .path = "child",
                   .return_step = "a step"},
                  [&](Result<engine::ChildEnd> got) {
                    ASSERT_TRUE(got) << got.error().message;
                    end = *std::move(got);
                  });
  Until([&] { return end.has_value(); });
  EXPECT_EQ(end->data, Parse(R"({"n":4})"));
  EXPECT_THAT(plane_.Targets("GET /api/executions/88"),
              testing::ElementsAre(HasSubstr("&return_step=a%20step&redact=false")));
}

TEST_F(RemoteLinkTest, AChildIsStartedOnceAndWaitedFor) {
  plane_.Give("/api/execute", Parse(R"({"execution_id":"88","status":"started"})"));
  plane_.Give("/api/executions/88/wait", Parse(R"({"execution_id":88,"status":"COMPLETED"})"));
  plane_.Give("/api/executions/88", Parse(R"({"execution_id":88,"result":{"total":3}})"));
  plane_.LoseAnswers("/api/execute", 1);
  Open();
  std::optional<engine::ChildEnd> end;
  link_->RunChild(
      {.parent_execution_id = 77, .parent_command_id = "77:s:1", .key = "task:1", .path = "child"},
      [&](Result<engine::ChildEnd> got) {
        ASSERT_TRUE(got) << got.error().message;
        end = *std::move(got);
      });
  Until([&] { return end.has_value(); });
  EXPECT_EQ(end->status, "COMPLETED");
  EXPECT_EQ(end->child_execution_id, 88);
  EXPECT_EQ(end->data["total"], Json(3));
  for (const Json& body : plane_.Bodies("POST /api/execute"))
    EXPECT_EQ(body["dedup"]["key"], Json("77:s:1:task:1"));
}

}  // namespace
}  // namespace noetl::worker
