#include "conductor/conductor.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/temporary_directory.h"
#include "conductor/lane.h"
#include "conductor/testing.h"
#include "store/chain.h"
#include "store/testing.h"

namespace noetl::conductor {
namespace {

constexpr std::string_view kOneStep = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: one, path: one}
workflow:
  - step: start
    tool: {kind: noop}
)";

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
workload: {count: 10}
workflow:
  - step: start
    loop: {in: "{{ range(workload.count) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: noop}
)";

constexpr std::string_view kParent = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: parent, path: parent}
workflow:
  - step: start
    tool: {kind: playbook, path: two, return_result: true}
)";

TEST(Conductor, RunsOneStepInTwoCommits) {
  Machine machine;
  machine.Register("one", kOneStep);
  const std::int64_t id = machine.Start("one").value();
  EXPECT_EQ(machine.committer->commits, 1) << "start, issue, claim and start of the tool are one";
  ASSERT_EQ(machine.worker->held.size(), 1u);
  EXPECT_EQ(machine.Row(id).status, "RUNNING");
  ASSERT_TRUE(machine.Complete("start", Json::Object({{"x", 1}})).has_value());
  EXPECT_EQ(machine.committer->commits, 2);
  const store::ExecutionRow row = machine.Row(id);
  EXPECT_EQ(row.status, "COMPLETED");
  EXPECT_TRUE(row.terminal);
  EXPECT_EQ(machine.Types(id),
            "playbook_started step.enter command.issued command.claimed command.started call.done "
            "command.completed playbook.completed");
  EXPECT_EQ(machine.conductor->cached(), 0u) << "an ended run leaves the memory";
}

TEST(Conductor, ASequentialStepCostsOneCommit) {
  Machine machine;
  machine.Register("two", kTwoSteps);
  const std::int64_t id = machine.Start("two").value();
  ASSERT_TRUE(machine.Complete("start").has_value());
  EXPECT_EQ(machine.committer->commits, 2) << "the end of one and the start of the next are one";
  ASSERT_TRUE(machine.Complete("second").has_value());
  EXPECT_EQ(machine.committer->commits, 3);
  EXPECT_EQ(machine.Row(id).status, "COMPLETED");
}

TEST(Conductor, TheChainOfEveryRowVerifies) {
  Machine machine;
  machine.Register("loop", kLoop);
  const std::int64_t id = machine.Start("loop").value();
  while (!machine.worker->held.empty()) ASSERT_TRUE(machine.Complete("start").has_value());
  Sha256Digest chain = store::ChainStart(id);
  const auto rows = machine.store->ReadRows(id, 0, 10'000).value();
  for (const store::EventRow& row : rows) {
    chain = store::ChainNext(chain, row);
    ASSERT_EQ(chain, row.chain) << "seq " << row.event.seq;
  }
  EXPECT_EQ(chain, machine.Row(id).chain);
}

TEST(Conductor, UnknownPlaybooksAndBadInputAreRefusedAndLeaveNothing) {
  Machine machine;
  EXPECT_EQ(machine.Start("nowhere").error().code, "not_found");
  machine.Register("bad", "apiVersion: noetl.io/v10\nkind: Playbook\nworkflow: 3\n");
  EXPECT_EQ(machine.Start("bad").error().code, "invalid");
  machine.Register("one", kOneStep);
  EXPECT_EQ(machine.Start("one", Json::Object({{"x", std::string("a\0b", 3)}})).error().code,
            "invalid");
  EXPECT_TRUE(machine.store->List({}).value().empty());
  EXPECT_EQ(machine.conductor->cached(), 0u);
}

TEST(Conductor, ARestartTakesBackWhatTheDeadProcessHeld) {
  Machine machine;
  machine.Register("two", kTwoSteps);
  const std::int64_t id = machine.Start("two").value();
  const bus::Grant lost = machine.worker->held.front();
  const std::string dead = machine.worker_id;
  machine.Restart();
  ASSERT_EQ(machine.worker->held.size(), 1u);
  const bus::Grant again = machine.worker->held.front();
  EXPECT_NE(again.command_id, lost.command_id);
  EXPECT_EQ(again.meta["attempt"].AsInt(), 2);

  // The old worker wakes up and reports: nothing changes.
  bus::Report zombie = machine.Success(lost, Json::Object({{"zombie", true}}));
  zombie.worker_id = dead;
  const std::string before = machine.Types(id);
  EXPECT_EQ(machine.Send(std::move(zombie)).error().code, "superseded");
  EXPECT_EQ(machine.Types(id), before);

  ASSERT_TRUE(machine.Complete("start").has_value());
  ASSERT_TRUE(machine.Complete("second").has_value());
  EXPECT_EQ(machine.Row(id).status, "COMPLETED");
}

TEST(Conductor, OnlyTheHolderOfACommandMayReport) {
  Machine machine;
  machine.Register("two", kTwoSteps);
  const std::int64_t id = machine.Start("two").value();
  const std::string before = machine.Types(id);
  bus::Report stranger = machine.Success(machine.worker->held.front(), Json::Object());
  stranger.worker_id = "inproc-stranger";
  EXPECT_EQ(machine.Send(std::move(stranger)).error().code, "stale_claim");
  bus::Report stale = machine.Success(machine.worker->held.front(), Json::Object());
  ++stale.claim_token;
  EXPECT_EQ(machine.Send(std::move(stale)).error().code, "stale_claim");
  EXPECT_EQ(machine.Types(id), before);
  EXPECT_TRUE(machine.Complete("start").has_value());
}

TEST(Conductor, ARepeatedReportIsAnsweredAsTheFirst) {
  Machine machine;
  machine.Register("two", kTwoSteps);
  const std::int64_t id = machine.Start("two").value();
  const bus::Report report = machine.Success(machine.worker->held.front(), Json::Object());
  machine.worker->held.clear();
  ASSERT_TRUE(machine.Send(report).has_value());
  const std::string before = machine.Types(id);
  EXPECT_TRUE(machine.Send(report).has_value());
  EXPECT_EQ(machine.Types(id), before);
  ASSERT_TRUE(machine.Complete("second").has_value());
  EXPECT_TRUE(machine.Send(report).has_value()) << "also when the run has ended";
}

TEST(Conductor, CommandsStandInLineForSlots) {
  Machine machine({.slots = 1});
  machine.Register("one", kOneStep);
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(machine.Start("one").value());
  EXPECT_EQ(machine.worker->held.size(), 1u);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(machine.worker->held.size(), 1u);
    EXPECT_EQ(machine.worker->held.front().execution_id, ids[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(machine.Complete("start").has_value());
  }
  for (const std::int64_t id : ids) EXPECT_EQ(machine.Row(id).status, "COMPLETED");
}

TEST(Conductor, AQueueOfStartsThatStandsIsRefusedAndABurstIsNot) {
  Machine machine({.refuse_early = true});
  machine.Register("one", kOneStep);
  int started = 0;
  int refused = 0;
  const auto start = [&](int count, bool patient) {
    for (int i = 0; i < count; ++i) {
      machine.conductor->Start({.path = "one", .patient = patient},
                               [&](Result<std::int64_t> answer) {
                                 if (answer) ++started;
                                 else if (answer.error().code == "overloaded") ++refused;
                               });
    }
  };
  const int burst = 3 * static_cast<int>(kStartsOnTheirWay);
  start(burst, false);
  EXPECT_EQ(refused, 0) << "a burst passes";
  EXPECT_FALSE(machine.conductor->RefusesStarts());
  machine.clock.Advance(kStandingQueueUs);
  start(10, false);
  EXPECT_EQ(refused, 10);
  ASSERT_TRUE(machine.conductor->RefusesStarts());
  EXPECT_EQ(machine.conductor->RefusesStarts()->code, "overloaded");
  start(10, true);
  EXPECT_EQ(refused, 10);
  machine.Run();
  EXPECT_FALSE(machine.conductor->RefusesStarts()) << "the queue is gone";
  EXPECT_EQ(started, burst + 10);
  start(10, false);
  machine.Run();
  EXPECT_EQ(started, burst + 20);
  EXPECT_EQ(refused, 10);
}

TEST(Conductor, ALoopKeepsItsBudgetAndItsResults) {
  Machine machine;
  machine.Register("loop", kLoop);
  const std::int64_t id = machine.Start("loop", Json::Object({{"count", 1'000}})).value();
  int items = 0;
  while (!machine.worker->held.empty()) {
    ASSERT_LE(machine.worker->held.size(), 4u);
    const std::int64_t index = machine.worker->held.front().meta["iteration_index"].AsInt();
    ASSERT_TRUE(machine.Complete("start", Json(index)).has_value());
    ++items;
  }
  EXPECT_EQ(items, 1'000);
  EXPECT_EQ(machine.Row(id).status, "COMPLETED");
  const auto rows = machine.store->LoopRows(id, "start", 1, 0, 2'000).value();
  ASSERT_EQ(rows.size(), 1'000u);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].data, std::to_string(i));
}

TEST(Conductor, ChildrenStartOnceAndTellTheirParent) {
  Machine machine({.lanes = 2});
  machine.Register("two", kTwoSteps);
  machine.Register("parent", kParent);
  const std::int64_t id = machine.Start("parent").value();
  ASSERT_EQ(machine.worker->held.size(), 1u);
  const std::int64_t child = machine.worker->held.front().execution_id;
  EXPECT_NE(child, id);
  EXPECT_EQ(machine.Row(child).parent_execution_id, id);
  machine.Restart();
  ASSERT_EQ(machine.worker->held.size(), 1u) << "the child's command, taken back";
  ASSERT_TRUE(machine.Complete("start").has_value());
  ASSERT_TRUE(machine.Complete("second", Json::Object({{"answer", 42}})).has_value());
  EXPECT_EQ(machine.Row(child).status, "COMPLETED");
  EXPECT_EQ(machine.Row(id).status, "COMPLETED");
  EXPECT_TRUE(machine.store->Messages(0, 10).value().empty());
  EXPECT_EQ(machine.store->List({}).value().size(), 2u);
}

TEST(Conductor, AChildThatCannotStartFailsItsParent) {
  Machine machine;
  machine.Register("parent", kParent);
  const std::int64_t id = machine.Start("parent").value();
  EXPECT_EQ(machine.Row(id).status, "FAILED");
  std::string errors;
  for (const engine::Event& event : machine.Events(id)) errors += event.error + "\n";
  EXPECT_NE(errors.find("no playbook 'two'"), std::string::npos) << errors;
}

TEST(Conductor, CancelReachesChildrenAndTheWorker) {
  Machine machine;
  machine.Register("two", kTwoSteps);
  machine.Register("parent", kParent);
  const std::int64_t id = machine.Start("parent").value();
  const std::int64_t child = machine.worker->held.front().execution_id;
  std::optional<Result<Conductor::CancelAnswer>> answer;
  const auto cancel = [&] {
    machine.conductor->Cancel(id, "enough", "test", true, [&](auto given) { answer = given; });
    machine.Run();
  };
  cancel();
  ASSERT_TRUE(answer && *answer);
  EXPECT_TRUE((*answer)->cancelled);
  EXPECT_EQ(machine.Row(id).status, "CANCELLED");
  EXPECT_EQ(machine.Row(child).status, "CANCELLED");
  EXPECT_EQ(machine.worker->stopped.size(), 1u);
  cancel();
  EXPECT_FALSE((*answer)->cancelled) << "it had ended";
  EXPECT_EQ((*answer)->status, "CANCELLED");
  machine.conductor->Cancel(4711, "x", "test", true, [&](auto given) { answer = given; });
  machine.Run();
  EXPECT_EQ(answer->error().code, "not_found");
}

TEST(Conductor, ADeadlineFiresAfterARestartToo) {
  Machine machine;
  machine.Register("slow", R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: slow, path: slow}
workflow:
  - step: start
    spec: {policy: {lifecycle: {deadline_s: 60}}}
    tool: {kind: noop}
)");
  const std::int64_t id = machine.Start("slow").value();
  machine.reactor->Advance(30'000'000);
  machine.Restart();
  EXPECT_EQ(machine.Row(id).status, "RUNNING");
  machine.reactor->Advance(31'000'000);
  EXPECT_EQ(machine.Row(id).status, "FAILED");
  EXPECT_TRUE(machine.store->DueTimers(INT64_MAX, 10).value().empty());
}

TEST(Conductor, ATimerThatHasFiredIsGoneThoughItsRunGoesOn) {
  Machine machine;
  machine.Register("slow", R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: slow, path: slow}
workflow:
  - step: start
    spec: {policy: {lifecycle: {deadline_s: 60}}}
    tool: {kind: noop}
    next: {arcs: [{step: instead, when: "{{ event.name == 'call.error' }}"}]}
  - step: instead
    tool: {kind: noop}
)");
  const std::int64_t id = machine.Start("slow").value();
  machine.reactor->Advance(61'000'000);
  ASSERT_EQ(machine.worker->held.back().step, "instead");
  EXPECT_TRUE(machine.store->DueTimers(INT64_MAX, 10).value().empty());
  EXPECT_TRUE(machine.Complete("instead").has_value());
  EXPECT_TRUE(machine.Row(id).terminal);
}

// ---- many at once

TEST(Conductor, AThousandConcurrentStepsShareTheirSyncs) {
  const TemporaryDirectory directory;
  std::atomic<std::int64_t> syncs = 0;
  Machine machine({.slots = 1'000, .sqlite = directory.path(), .syncs = &syncs});
  machine.Register("one", kOneStep);
  syncs = 0;
  int started = 0;
  for (int i = 0; i < 1'000; ++i) {
    machine.conductor->Start({.path = "one"}, [&](const auto& id) { started += id ? 1 : 0; });
  }
  machine.Run();
  EXPECT_EQ(started, 1'000);
  ASSERT_EQ(machine.worker->held.size(), 1'000u);
  int sent = 0;
  for (const bus::Grant& grant : machine.worker->held) {
    machine.conductor->Send(machine.Success(grant, Json::Object()),
                            [&](const Status& status) { sent += status ? 1 : 0; });
  }
  machine.Run();
  EXPECT_EQ(sent, 1'000);
  EXPECT_EQ(machine.store->List({.status = "COMPLETED", .limit = 2'000}).value().size(), 1'000u);
  EXPECT_LE(syncs.load(), 10) << "syncs for 1,000 steps";
}

TEST(Conductor, ABadUnitFailsAlone) {
  Machine machine;
  machine.Register("one", kOneStep);
  std::vector<Result<std::int64_t>> answers;
  for (int i = 0; i < 10; ++i) {
    const Json payload =
        i == 5 ? Json::Object({{"x", std::string("\0", 1)}}) : Json::Object({{"x", i}});
    machine.conductor->Start({.path = "one", .payload = payload},
                             [&](Result<std::int64_t> id) { answers.push_back(std::move(id)); });
  }
  machine.Run();
  ASSERT_EQ(answers.size(), 10u);
  EXPECT_EQ(std::ranges::count_if(answers, [](const auto& answer) { return answer.has_value(); }),
            9);
  EXPECT_EQ(machine.store->List({}).value().size(), 9u);
}

TEST(Conductor, AResultThatCannotBeStoredFailsItsStep) {
  Machine machine;
  machine.Register("one", kOneStep);
  const std::int64_t id = machine.Start("one").value();
  ASSERT_TRUE(machine.Complete("start", Json(std::string("a\0b", 3))).has_value());
  EXPECT_EQ(machine.Row(id).status, "FAILED");
}

TEST(Conductor, TooManyWaitingStartsAreRefused) {
  Machine machine;
  machine.Register("one", kOneStep);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < kStartsWaitingMax + 10; ++i) {
    machine.conductor->Start({.path = "one"}, [&](const auto& id) {
      if (!id && id.error().code == "overloaded") ++refused;
    });
  }
  EXPECT_EQ(refused, 10u);
}

// ---- trouble with the disk

TEST(Conductor, AFullDiskRefusesStartsAndLosesNoReport) {
  store::CommitFault fault = store::CommitFault::kNone;
  Machine machine({.store = {.fault = [&](std::int64_t) { return fault; }}});
  machine.Register("two", kTwoSteps);
  const std::int64_t id = machine.Start("two").value();
  fault = store::CommitFault::kFull;
  std::optional<Status> sent;
  machine.conductor->Send(machine.Success(machine.worker->held.front(), Json::Object()),
                          [&](Status status) { sent = std::move(status); });
  machine.worker->held.clear();
  machine.Run();
  EXPECT_FALSE(sent.has_value()) << "not stored and not refused: it waits";
  EXPECT_EQ(machine.Start("two").error().code, "unavailable");
  machine.reactor->Advance(20'000'000);
  EXPECT_FALSE(sent.has_value());
  fault = store::CommitFault::kNone;
  machine.reactor->Advance(20'000'000);
  ASSERT_TRUE(sent.has_value());
  EXPECT_TRUE(sent->has_value());
  ASSERT_TRUE(machine.Complete("second").has_value());
  EXPECT_EQ(machine.Row(id).status, "COMPLETED");
  EXPECT_TRUE(machine.Start("two").has_value());
}

TEST(Conductor, AnUnknownOutcomeIsLookedUp) {
  // Every commit in turn is stored and reported as failed.
  for (std::int64_t bad = 1; bad <= 4; ++bad) {
    Machine machine({.store = {.fault = [&](std::int64_t commit) {
                       return commit == bad ? store::CommitFault::kUnknown
                                            : store::CommitFault::kNone;
                     }}});
    machine.Register("two", kTwoSteps);
    machine.Register("parent", kParent);
    const auto id = machine.Start("parent");
    ASSERT_TRUE(id.has_value()) << bad << ": " << id.error().message;
    for (int i = 0; i < 10 && !machine.Row(*id).terminal; ++i) {
      machine.reactor->Advance(1'000'000);
      if (machine.worker->held.empty()) continue;
      const bus::Grant grant = machine.worker->held.front();
      machine.worker->held.erase(machine.worker->held.begin());
      std::optional<Status> sent;
      machine.conductor->Send(machine.Success(grant, Json::Object()),
                              [&](Status status) { sent = std::move(status); });
      machine.reactor->Advance(1'000'000);
      ASSERT_TRUE(sent && *sent) << bad;
    }
    EXPECT_EQ(machine.Row(*id).status, "COMPLETED") << bad;
    EXPECT_EQ(machine.store->List({}).value().size(), 2u) << bad;
    for (const auto& [command, times] : machine.worker->granted) EXPECT_EQ(times, 1) << command;
  }
}

// ---- memory

TEST(Conductor, ASmallCacheForgetsAndReadsAgain) {
  Machine machine({.cache_bytes = 1});
  machine.Register("two", kTwoSteps);
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(machine.Start("two").value());
  EXPECT_EQ(machine.conductor->cached(), 0u);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(machine.Complete("start").has_value());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(machine.Complete("second").has_value());
  for (const std::int64_t id : ids) EXPECT_EQ(machine.Row(id).status, "COMPLETED");
}

TEST(Conductor, SnapshotsAreWrittenOnTheWayAndUsed) {
  Machine machine;
  machine.Register("loop", kLoop);
  const std::int64_t id = machine.Start("loop", Json::Object({{"count", 500}})).value();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(machine.Complete("start", Json(i)).has_value());
  const auto snapshot = machine.store->LoadSnapshot(id).value();
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_LE(machine.Row(id).head - snapshot->seq, kSnapshotEvents + 10);
  machine.Restart();
  while (!machine.worker->held.empty()) ASSERT_TRUE(machine.Complete("start").has_value());
  EXPECT_EQ(machine.Row(id).status, "COMPLETED");
}

TEST(Conductor, ADamagedSnapshotIsIgnored) {
  Machine machine;
  machine.Register("loop", kLoop);
  const std::int64_t id = machine.Start("loop", Json::Object({{"count", 300}})).value();
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(machine.Complete("start", Json(i)).has_value());
  for (std::string text : {"", "{}", "{\"schema\":1}", "future"}) {
    const std::int64_t head = machine.Row(id).head;
    if (text == "future") {  // further than the log
      engine::State state;
      for (const engine::Event& event : machine.Events(id)) engine::Fold(state, event);
      ++state.seq;
      text = engine::WriteSnapshot(state);
    }
    store::UnitRows unit;
    unit.execution_id = id;
    unit.snapshot = {id, head, machine.Row(id).last_event_id, text};
    const store::UnitRows* units[] = {&unit};
    ASSERT_TRUE(machine.store->Commit(units)[0].has_value());
    machine.Restart();
    EXPECT_EQ(machine.worker->held.size(), 4u) << text;
  }
  while (!machine.worker->held.empty()) ASSERT_TRUE(machine.Complete("start").has_value());
  EXPECT_EQ(machine.Row(id).status, "COMPLETED");
  EXPECT_EQ(machine.store->LoopRows(id, "start", 1, 0, 1'000).value().size(), 300u);
}

}  // namespace
}  // namespace noetl::conductor
