// Workers of other processes: claims, leases, posts.

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conductor/conductor.h"
#include "conductor/testing.h"

namespace noetl::conductor {
namespace {

using engine::EventType;

constexpr std::string_view kTwoSteps = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: two, path: two}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: noop}
)";

constexpr std::string_view kLoop = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: loop, path: loop}
workflow:
  - step: start
    loop: {in: "{{ range(100) }}", iterator: n, spec: {mode: parallel, max_in_flight: 100}}
    tool: {kind: noop}
)";

// A server without a worker of its own, and what remote workers would send to it.
class Remote : public ::testing::Test {
 protected:
  Remote() : machine_({.lanes = 2, .worker = false}) {
    machine_.Register("two", kTwoSteps);
    machine_.Register("loop", kLoop);
    machine_.Register("system/two", kTwoSteps);
  }

  std::int64_t Start(std::string_view path = "two") { return machine_.Start(path).value(); }

  Result<Claimed> Claim(std::int64_t event_id, std::string worker, std::string request = "") {
    std::optional<Result<Claimed>> answer;
    machine_.conductor->Claim({event_id, std::move(worker), std::move(request)},
                              [&](Result<Claimed> claimed) { answer = std::move(claimed); });
    machine_.Run();
    EXPECT_TRUE(answer.has_value());
    return *answer;
  }

  struct Poll {
    bool answered = false;
    std::vector<Claimed> commands;
  };
  std::shared_ptr<Poll> Ask(LeaseCall call) {
    auto poll = std::make_shared<Poll>();
    machine_.conductor->Lease(std::move(call), [poll](std::vector<Claimed> commands) {
      EXPECT_FALSE(poll->answered);
      poll->answered = true;
      poll->commands = std::move(commands);
    });
    machine_.Run();
    return poll;
  }

  PostedEvent Make(const bus::Grant& grant, EventType type, std::string_view status, Json context,
                   std::int64_t token) {
    PostedEvent posted{.command_id = grant.command_id, .claim_token = token};
    engine::Event& event = posted.event;
    event.event_id = machine_.ids.Next();
    event.type = type;
    event.type_name = engine::EventName(type);
    event.node_name = grant.step;
    event.status = std::string(status);
    event.created_at_us = machine_.clock.NowMicros();
    event.result = Json::Object({{"status", status}, {"context", std::move(context)}});
    event.meta = Json::Object({{"command_id", grant.command_id}});
    return posted;
  }
  std::vector<PostedEvent> Success(const bus::Grant& grant, bool token = true) {
    const Json id = grant.command_id;
    const Json tool = Json::Object({{"status", "success"}, {"data", Json::Object({{"x", 1}})}});
    const Json res = Json::Object({{"status", "success"}, {"context", tool}});
    const std::int64_t number = token ? grant.claim_token : 0;
    return {Make(grant, EventType::kCommandStarted, "STARTED", Json::Object({{"command_id", id}}),
                 number),
            Make(grant, EventType::kCallDone, "COMPLETED",
                 Json::Object({{"command_id", id}, {"call_index", 0}, {"result", res}}), number),
            Make(grant, EventType::kCommandCompleted, "success", Json::Object({{"command_id", id}}),
                 number)};
  }
  Result<PostAnswer> Post(std::int64_t id, std::string worker, std::vector<PostedEvent> events) {
    std::optional<Result<PostAnswer>> answer;
    for (PostedEvent& posted : events) posted.event.worker_id = worker;
    machine_.conductor->Post({id, std::move(worker), std::move(events)},
                             [&](Result<PostAnswer> posted) { answer = std::move(posted); });
    machine_.Run();
    EXPECT_TRUE(answer.has_value());
    return *answer;
  }
  Status Release(std::string_view worker, const bus::Grant& grant) {
    std::optional<Status> answer;
    machine_.conductor->Release(worker, {grant.event_id, grant.claim_token},
                                [&](Status released) { answer = std::move(released); });
    machine_.Run();
    EXPECT_TRUE(answer.has_value());
    return *answer;
  }

  std::vector<store::CommandRow> Commands(std::int64_t id) {
    return machine_.store->CommandsOf(id, 0, 1'000).value();
  }
  std::int64_t Pending(std::int64_t id) {
    for (const store::CommandRow& command : Commands(id)) {
      if (command.status == store::CommandStatus::kPending) return command.command_id;
    }
    ADD_FAILURE() << "no pending command";
    return 0;
  }
  int Count(std::int64_t id, std::string_view type) {
    const auto events = machine_.Events(id);
    return static_cast<int>(std::ranges::count(events, type, &engine::Event::type_name));
  }
  void Pass(std::int64_t seconds) {
    machine_.reactor->Advance(seconds * 1'000'000);
    machine_.Run();
  }

  Machine machine_;
};

TEST_F(Remote, ClaimByIdReportAndFinish) {
  const std::int64_t id = Start();
  const std::int64_t first = Pending(id);
  const auto claimed = Claim(first, "w1");
  ASSERT_TRUE(claimed.has_value());
  EXPECT_EQ(claimed->grant.step, "start");
  EXPECT_EQ(claimed->grant.claim_token, 1);
  EXPECT_EQ(claimed->lease_ms, 120'000);
  EXPECT_EQ(Claim(first, "w1")->grant.claim_token, 1) << "the answer was lost: the same again";
  EXPECT_EQ(Claim(first, "w2").error().code, "active_claim");
  EXPECT_EQ(Count(id, "command.claimed"), 1);
  EXPECT_EQ(Claim(999'999, "w1").error().code, "not_found");

  const auto answer = Post(id, "w1", Success(claimed->grant));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->commands_issued, 1);
  for (const Posted& posted : answer->events) EXPECT_EQ(posted.code, "");
  EXPECT_EQ(Claim(first, "w2").error().code, "already_terminal");

  const auto second = Claim(Pending(id), "w2");
  ASSERT_TRUE(second.has_value());
  ASSERT_TRUE(Post(id, "w2", Success(second->grant, false)).has_value());
  EXPECT_EQ(machine_.Row(id).status, "COMPLETED");
  EXPECT_EQ(machine_.conductor->leases().size(), 0u);
}

TEST_F(Remote, WhatLanesDoIsCounted) {
  const std::int64_t id = Start();
  const auto stats = [&](Tally tally) { return machine_.conductor->Stats()[tally]; };
  EXPECT_EQ(stats(Tally::kDecided), 1);
  EXPECT_EQ(stats(Tally::kApplied), 1);
  for (const bool again : {false, true}) {
    const auto poll = Ask({.worker_id = "w1", .request_id = "q"});
    ASSERT_EQ(poll->commands.size(), 1u);
    EXPECT_EQ(poll->commands[0].repeated, again);
  }
  EXPECT_EQ(Claim(Commands(id)[0].command_id, "w1")->repeated, true);
  EXPECT_EQ(stats(Tally::kDecided), 3);
  EXPECT_EQ(stats(Tally::kApplied), 2) << "a claim that is repeated stores nothing";
  const auto told = machine_.conductor->ToldByPool();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].second, 1);

  Pass(31);
  EXPECT_EQ(stats(Tally::kLeasesEnded), 1);
  EXPECT_EQ(stats(Tally::kLeasesTaken), 1);
  EXPECT_EQ(stats(Tally::kLeasesKept), 0);
  for (int i = 0; i < 2; ++i) {
    machine_.conductor->Cancel(id, "", "", false, [](const auto&) {});
    machine_.Run();
    EXPECT_EQ(stats(Tally::kEndsRefused), i);
  }
  EXPECT_EQ(stats(Tally::kClaimedInProcess), 0);
  EXPECT_EQ(stats(Tally::kDecisionsFailed), 0);
}

TEST_F(Remote, RepeatedPostsAreAnsweredAsTheFirst) {
  const std::int64_t id = Start();
  const auto claimed = Claim(Pending(id), "w1");
  std::vector<PostedEvent> events = Success(claimed->grant);
  const auto first = Post(id, "w1", events);
  for (int i = 0; i < 3; ++i) {
    const auto again = Post(id, "w1", events);
    ASSERT_TRUE(again.has_value());
    for (std::size_t n = 0; n < events.size(); ++n) {
      EXPECT_EQ(again->events[n].event_id, first->events[n].event_id);
      EXPECT_EQ(again->events[n].code, "");
    }
  }
  EXPECT_EQ(Count(id, "command.completed"), 1);
  EXPECT_EQ(Count(id, "command.issued"), 2);
  // One by one under other ids: what counts is what they say.
  for (PostedEvent& posted : events) posted.event.event_id = machine_.ids.Next();
  for (const PostedEvent& posted : events) {
    EXPECT_EQ(Post(id, "w1", {posted})->events[0].code, "");
  }
  EXPECT_EQ(Count(id, "call.done"), 1);
}

TEST_F(Remote, WhatIsRepeatedWhileTheCommandRunsIsNotStoredAgain) {
  const std::int64_t id = Start();
  const auto claimed = Claim(Pending(id), "w1");
  const std::vector<PostedEvent> events = Success(claimed->grant);
  // All but the end, one by one, each answer lost twice.
  for (std::size_t n = 0; n + 1 < events.size(); ++n) {
    const auto first = Post(id, "w1", {events[n]});
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(Post(id, "w1", {events[n]})->events[0].event_id, first->events[0].event_id);
    EXPECT_EQ(Count(id, events[n].event.type_name), 1) << events[n].event.type_name;
  }
  EXPECT_EQ(Post(id, "w1", {events.back()})->commands_issued, 1);
}

TEST_F(Remote, ForeignAndStaleReportsChangeNothing) {
  const std::int64_t id = Start();
  const auto claimed = Claim(Pending(id), "w1");
  const std::string before = machine_.Types(id);
  EXPECT_EQ(Post(id, "w2", Success(claimed->grant))->events[0].code, "stale_claim");
  bus::Grant stale = claimed->grant;
  stale.claim_token = 7;
  EXPECT_EQ(Post(id, "w1", Success(stale))->events[0].code, "stale_claim");
  EXPECT_EQ(machine_.Types(id), before);
  EXPECT_EQ(Post(77, "w1", Success(claimed->grant)).error().code, "not_found");
}

TEST_F(Remote, ALeaseThatEndsMakesANewAttempt) {
  const std::int64_t id = Start();
  const auto poll = Ask({.worker_id = "w1", .max = 4, .wait_ms = 1'000});
  ASSERT_TRUE(poll->answered);
  ASSERT_EQ(poll->commands.size(), 1u);
  const bus::Grant lost = poll->commands[0].grant;
  EXPECT_EQ(poll->commands[0].lease_ms, 30'000);
  Pass(20);
  EXPECT_TRUE(
      machine_.conductor->Renew("w1", std::vector<Holding>{{lost.event_id, 1}}).lost.empty());
  Pass(20);
  EXPECT_EQ(Commands(id).size(), 1u) << "renewed";
  EXPECT_EQ(machine_.conductor->Renew("w2", std::vector<Holding>{{lost.event_id, 1}}).lost.size(),
            1u)
      << "by its holder only";

  std::vector<ControlEvent> told;
  machine_.conductor->fleet().Listen("w1", [&](const ControlEvent& e) { told.push_back(e); });
  Pass(11);
  ASSERT_EQ(Commands(id).size(), 2u);
  EXPECT_EQ(Commands(id)[0].status, store::CommandStatus::kCancelled);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, ControlEvent::Kind::kLost);
  EXPECT_EQ(machine_.conductor->Renew("w1", std::vector<Holding>{{lost.event_id, 1}}).lost,
            std::vector<std::int64_t>{lost.event_id});

  // The zombie wakes up.
  EXPECT_EQ(Post(id, "w1", Success(lost))->events[0].code, "superseded");
  // An old worker without a token: kept, and decides nothing.
  EXPECT_EQ(Post(id, "w1", Success(lost, false))->events[0].code, "");
  EXPECT_EQ(machine_.Row(id).status, "RUNNING");

  const auto again = Ask({.worker_id = "w2", .max = 1});
  ASSERT_EQ(again->commands.size(), 1u);
  EXPECT_EQ(again->commands[0].grant.meta["attempt"].AsInt(), 2);
  EXPECT_NE(again->commands[0].grant.command_id, lost.command_id);
  ASSERT_TRUE(Post(id, "w2", Success(again->commands[0].grant)).has_value());
}

TEST_F(Remote, APollWaitsForWorkAndIsAnsweredOnce) {
  const auto early = Ask({.worker_id = "w1", .max = 8, .wait_ms = 10'000});
  EXPECT_FALSE(early->answered);
  const std::int64_t id = Start();
  ASSERT_TRUE(early->answered);
  ASSERT_EQ(early->commands.size(), 1u);
  EXPECT_EQ(early->commands[0].grant.execution_id, id);
  EXPECT_EQ(machine_.Types(id), "playbook_started step.enter command.issued command.claimed")
      << "issue and claim are one unit";

  const auto late = Ask({.worker_id = "w2", .max = 8, .wait_ms = 2'000});
  Pass(1);
  EXPECT_FALSE(late->answered);
  Pass(2);
  EXPECT_TRUE(late->answered);
  EXPECT_TRUE(late->commands.empty());
}

TEST_F(Remote, APollTakesNoMoreThanItAskedForAndAllThatThereIs) {
  const std::int64_t id = Start("loop");
  const auto some = Ask({.worker_id = "w1", .max = 40});
  EXPECT_EQ(some->commands.size(), 40u);
  const auto rest = Ask({.worker_id = "w2", .max = 64});
  EXPECT_EQ(rest->commands.size(), 60u);
  std::set<std::string> ids;
  for (const auto* poll : {some.get(), rest.get()}) {
    for (const Claimed& claimed : poll->commands) ids.insert(claimed.grant.command_id);
  }
  EXPECT_EQ(ids.size(), 100u);
  for (const auto& poll : {some, rest}) {
    const std::string worker = poll == some ? "w1" : "w2";
    for (const Claimed& claimed : poll->commands)
      ASSERT_TRUE(Post(id, worker, Success(claimed.grant)).has_value());
  }
  EXPECT_EQ(machine_.Row(id).status, "COMPLETED");
}

TEST_F(Remote, PollsNameTheirPoolsAndKinds) {
  const std::int64_t system = Start("system/two");
  EXPECT_TRUE(Ask({.worker_id = "w1", .pools = {"shared"}, .max = 4})->commands.empty());
  EXPECT_TRUE(Ask({.worker_id = "w1", .kinds = {"python"}, .max = 4})->commands.empty());
  const auto poll = Ask({.worker_id = "w1", .pools = {"system"}, .kinds = {"noop"}, .max = 4});
  ASSERT_EQ(poll->commands.size(), 1u);
  EXPECT_EQ(poll->commands[0].grant.execution_id, system);
}

TEST_F(Remote, ARepeatedQuestionGetsTheSameCommands) {
  Start();
  const auto first = Ask({.worker_id = "w1", .max = 4, .request_id = "r1"});
  ASSERT_EQ(first->commands.size(), 1u);
  const auto again = Ask({.worker_id = "w1", .max = 4, .request_id = "r1"});
  ASSERT_EQ(again->commands.size(), 1u);
  EXPECT_EQ(again->commands[0].grant.command_id, first->commands[0].grant.command_id);
  EXPECT_TRUE(Ask({.worker_id = "w1", .max = 4, .request_id = "r2"})->commands.empty());

  // Asked again while it waits: the one who asks last gets the answer.
  const auto open = Ask({.worker_id = "w1", .max = 4, .wait_ms = 9'000, .request_id = "r3"});
  const auto redirected = Ask({.worker_id = "w1", .max = 4, .wait_ms = 9'000, .request_id = "r3"});
  EXPECT_TRUE(open->answered);
  EXPECT_TRUE(open->commands.empty());
  Start();
  ASSERT_TRUE(redirected->answered);
  EXPECT_EQ(redirected->commands.size(), 1u);
}

TEST_F(Remote, AReleasedCommandIsOfferedAgainAsItIs) {
  const std::int64_t id = Start();
  const auto claimed = Claim(Pending(id), "w1");
  EXPECT_EQ(Release("w2", claimed->grant).error().code, "stale_claim");
  ASSERT_TRUE(Release("w1", claimed->grant).has_value());
  EXPECT_EQ(Pending(id), claimed->grant.event_id);
  EXPECT_EQ(Count(id, "command.released"), 1);
  const auto again = Claim(claimed->grant.event_id, "w2");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->grant.claim_token, 2);
  EXPECT_EQ(Post(id, "w1", Success(claimed->grant))->events[0].code, "stale_claim");

  // Started: another attempt, which does not count.
  std::vector<PostedEvent> events = Success(again->grant);
  ASSERT_TRUE(Post(id, "w2", {events[0]}).has_value());
  ASSERT_TRUE(Release("w2", again->grant).has_value());
  const auto third = Ask({.worker_id = "w3", .max = 1});
  ASSERT_EQ(third->commands.size(), 1u);
  EXPECT_NE(third->commands[0].grant.command_id, again->grant.command_id);
  EXPECT_EQ(third->commands[0].grant.meta["lost"].AsInt(), 0);
}

TEST_F(Remote, AWorkerThatLeavesGivesEverythingBack) {
  Start("loop");
  const auto poll = Ask({.worker_id = "w1", .max = 64});
  ASSERT_EQ(poll->commands.size(), 64u);
  machine_.conductor->ReleaseAll("w1", false);
  machine_.Run();
  EXPECT_EQ(machine_.conductor->leases().size(), 0u);
  std::size_t taken = 0;
  for (int i = 0; i < 2; ++i) taken += Ask({.worker_id = "w2", .max = 64})->commands.size();
  EXPECT_EQ(taken, 100u);
}

TEST_F(Remote, CancellingTellsTheWorkerAndRefusesItsReport) {
  const std::int64_t id = Start();
  const auto poll = Ask({.worker_id = "w1", .max = 1});
  std::vector<ControlEvent> told;
  machine_.conductor->fleet().Listen("w1", [&](const ControlEvent& e) { told.push_back(e); });
  const bus::Grant& grant = poll->commands[0].grant;
  const auto cancelled = [&] {
    return machine_.conductor->Renew("w1", std::vector<Holding>{{grant.event_id, 1}}).cancel;
  };
  EXPECT_TRUE(cancelled().empty());
  bool answered = false;
  machine_.conductor->Cancel(id, "test", "test", true, [&](const auto&) {
    answered = true;
    EXPECT_EQ(cancelled(), std::vector<std::int64_t>{grant.event_id}) << "as soon as it is said";
  });
  machine_.Run();
  EXPECT_TRUE(answered);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, ControlEvent::Kind::kCancel);
  EXPECT_EQ(cancelled(), std::vector<std::int64_t>{grant.event_id});
  EXPECT_EQ(Post(id, "w1", Success(grant))->events[0].code, "cancelled");
  EXPECT_EQ(Claim(grant.event_id, "w2").error().code, "cancelled");
  const std::int64_t head = machine_.Row(id).head;
  const auto late = Post(id, "w1", Success(grant, false));
  EXPECT_EQ(late->events[0].code, "");
  EXPECT_EQ(machine_.Row(id).head, head + 3) << "kept";
  EXPECT_EQ(machine_.Row(id).status, "CANCELLED");
}

TEST_F(Remote, ClaimsSurviveARestartOfTheServer) {
  const std::int64_t id = Start();
  const auto poll = Ask({.worker_id = "w1", .max = 1});
  const bus::Grant grant = poll->commands[0].grant;
  machine_.Restart();
  EXPECT_EQ(machine_.conductor->leases().size(), 1u);
  EXPECT_TRUE(Ask({.worker_id = "w2", .max = 4})->commands.empty());
  ASSERT_TRUE(Post(id, "w1", Success(grant)).has_value());
  EXPECT_EQ(Ask({.worker_id = "w2", .max = 4})->commands.size(), 1u);
  // And nobody comes back for the second one, which had begun.
  const auto open = machine_.store->OpenCommands(0, 10).value();
  ASSERT_EQ(open.size(), 1u);
  bus::Grant second;
  second.command_id = open[0].id;
  ASSERT_EQ(Post(id, "w2",
                 {Make(second, EventType::kCommandStarted, "STARTED",
                       Json::Object({{"command_id", open[0].id}}), 1)})
                ->events[0]
                .code,
            "");
  machine_.Restart();
  Pass(31);
  EXPECT_EQ(Ask({.worker_id = "w3", .max = 4})->commands.size(), 1u);
}

TEST_F(Remote, AHeartbeatRenewsClaimsUpToTheHardLimit) {
  const std::int64_t id = Start();
  const auto claimed = Claim(Pending(id), "w1");
  for (int i = 0; i < 17; ++i) {
    Pass(100);
    machine_.conductor->RenewClaims("w1");
  }
  EXPECT_EQ(Commands(id).size(), 1u);
  Pass(100);
  machine_.conductor->RenewClaims("w1");
  Pass(1);
  EXPECT_EQ(Commands(id).size(), 2u) << "1,800 s are over";
}

TEST_F(Remote, RegistrationsAndHeartbeats) {
  Fleet& fleet = machine_.conductor->fleet();
  const auto row = fleet.Register({.name = "w1", .status = "ready", .labels = R"({"pool":"a"})"});
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(fleet.Register({.name = "w1", .status = "ready"})->runtime_id, row->runtime_id);
  machine_.clock.Advance(60'000'000);
  EXPECT_TRUE(fleet.Heartbeat("worker_pool", "w1", "", -1, 0).value());
  EXPECT_EQ(fleet.List("worker_pool", "", "").value()[0].heartbeat_us, machine_.clock.NowMicros());
  EXPECT_FALSE(fleet.Heartbeat("worker_pool", "w2", "", 4, 0).value()) << "it is made known";
  EXPECT_EQ(fleet.List("worker_pool", "", "").value().size(), 2u);
  EXPECT_TRUE(fleet.Deregister("worker_pool", "w2").value());
  EXPECT_FALSE(fleet.Deregister("worker_pool", "w2").value());
}

}  // namespace
}  // namespace noetl::conductor
