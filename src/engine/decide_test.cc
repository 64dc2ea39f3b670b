// The decider on its own: what it asks for, what it bounds, what a clock does to it. Whole
// histories are checked in sim/.
#include "engine/decide.h"

#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/json_io.h"

namespace noetl::engine {
namespace {

constexpr std::int64_t kNow = 1'767'225'600'000'000;

std::shared_ptr<const playbook::Playbook> Load(std::string_view workflow,
                                               std::string_view head = "") {
  const std::string text =
      "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n" +
      std::string(head) + "workflow:\n" + std::string(workflow);
  playbook::Loaded loaded = playbook::Load(text);
  for (const playbook::Diagnostic& problem : loaded.diagnostics) {
    if (!loaded.ok())
      ADD_FAILURE() << problem.code << " " << problem.path << " " << problem.message;
  }
  return loaded.playbook;
}

// One run with a store in memory. `lazy` bodies are missing when they are asked for the first time.
class Lane : public Bodies {
 public:
  explicit Lane(std::shared_ptr<const playbook::Playbook> playbook, bool lazy = false)
      : playbook_(std::move(playbook)), lazy_(lazy) {}

  Unit Decide(const std::function<void(Decider&)>& feed) {
    Decider decider(&state, *playbook_, {&ids_, this, now_us});
    feed(decider);
    Status status = decider.Decide();
    for (int tries = 0; !status && tries < 1'000; ++tries) {
      EXPECT_EQ(status.error().code, "needs_reference") << status.error().message;
      loaded_.insert(status.error().message);
      ++asked;
      status = decider.Decide();
    }
    EXPECT_TRUE(status.has_value());
    if (lazy_) loaded_.clear();
    Unit unit = decider.TakeUnit();
    for (const StoredBody& stored : unit.bodies) bodies_[stored.ref] = stored.body;
    for (const LoopRow& row : unit.loop_rows) {
      Json& list = bodies_["noetl://execution/" + std::to_string(state.execution_id) + "/loop/" +
                           row.step + "/" + std::to_string(row.run)];
      std::vector<Json> rows(list.items().begin(), list.items().end());
      if (row.index >= std::ssize(rows)) rows.resize(static_cast<std::size_t>(row.index) + 1);
      rows[static_cast<std::size_t>(row.index)] = row.data;
      list = Json::Array(std::move(rows));
    }
    for (const Event& event : unit.events) {
      if (event.type == EventType::kCommandIssued) {
        bodies_["noetl://execution/" + std::to_string(state.execution_id) + "/command/" +
                std::to_string(event.event_id)] = event.context;
      }
      log.push_back(event);
    }
    return unit;
  }
  Unit Start(StartRequest request = {}) {
    request.execution_id = 7;
    request.catalog_id = 1;
    return Decide([&](Decider& decider) { decider.Start(request); });
  }
  Event WorkerEvent(const std::string& id, EventType type, std::string_view status, Json context) {
    Event event;
    event.event_id = ids_.Next();
    event.type = type;
    event.type_name = EventName(type);
    event.node_name = state.FindCommand(id) ? state.FindCommand(id)->step : "";
    event.status = std::string(status);
    event.created_at_us = now_us;
    event.result = Json::Object({{"status", status}, {"context", context.With("command_id", id)}});
    event.meta = Json::Object();
    return event;
  }
  Unit Complete(const std::string& id, Json data, Json reference = Json()) {
    Json res = Json::Object(
        {{"status", "success"},
         {"context", Json::Object({{"status", "success"}, {"data", std::move(data)}})}});
    if (!reference.is_null()) res = res.With("reference", std::move(reference));
    return Decide([&](Decider& decider) {
      decider.Ingest(
          WorkerEvent(id, EventType::kCallDone, "COMPLETED", Json::Object({{"result", res}})));
      decider.Ingest(WorkerEvent(id, EventType::kCommandCompleted, "success", Json::Object()));
    });
  }
  std::string OnlyCommand() const {
    EXPECT_EQ(state.commands().size(), 1u);
    return state.commands().empty() ? "" : state.commands().begin()->first;
  }
  void Put(std::string ref, Json body) { bodies_[std::move(ref)] = std::move(body); }

  Result<const Json*> Find(std::string_view ref) const override {
    if (lazy_ && !loaded_.contains(ref)) return nullptr;
    const auto found = bodies_.find(ref);
    static const Json kNoRows = Json::Array();
    if (found == bodies_.end() && ref.find("/loop/") != std::string_view::npos) return &kNoRows;
    if (found == bodies_.end()) return Fail("REFERENCE_NOT_AVAILABLE", std::string(ref));
    return &found->second;
  }

  State state;
  std::vector<Event> log;
  std::int64_t now_us = kNow;
  int asked = 0;

 private:
  std::shared_ptr<const playbook::Playbook> playbook_;
  bool lazy_;
  SequentialIds ids_{100};
  std::map<std::string, Json, std::less<>> bodies_;
  std::set<std::string, std::less<>> loaded_;
};

std::vector<std::string> Types(const Unit& unit) {
  std::vector<std::string> types;
  for (const Event& event : unit.events)
    types.push_back(event.type_name + (event.node_name.empty() ? "" : " " + event.node_name));
  return types;
}

// ---- bodies

constexpr std::string_view kReferencing = R"(
  - step: start
    tool: {kind: noop}
    set: {ctx.first: "{{ output.data.rows[1].v }}"}
    next:
      spec: {mode: inclusive}
      arcs:
        - step: l
          when: "{{ output.data.rows | length == 3 }}"
          set: {ctx.last: "{{ output.data.rows[2].v }}"}
  - step: l
    loop: {in: "{{ start.rows }}", iterator: it, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: noop, result: "{{ it.v + ctx.first }}"}
    next:
      arcs:
        - step: z
          when: "{{ l.results | length == 3 and l.results[0] == 5 }}"
  - step: z
    tool: {kind: noop, result: "{{ l.results }}"}
)";

Json RunReferencing(Lane& lane) {
  const std::string ref = "noetl://execution/7/result/start/1";
  lane.Put(ref,
           Json::Object({{"rows", Json::Array({Json::Object({{"v", 1}}), Json::Object({{"v", 2}}),
                                               Json::Object({{"v", 3}})})}}));
  lane.Start();
  lane.Complete(
      lane.OnlyCommand(), Json::Object({{"_ref", ref}}),
      Json::Object({{"ref", ref}, {"extracted", Json::Object({{"rows", Json::Array()}})}}));
  while (!lane.state.terminal() && !lane.state.commands().empty()) {
    lane.Complete(lane.state.commands().begin()->first, Json(5));
  }
  std::vector<Json> rows;
  for (const Event& event : lane.log) rows.push_back(EventToJson(event));
  return Json::Array(std::move(rows));
}

TEST(Decide, GoesOnExactlyWhereABodyWasMissing) {
  Lane eager(Load(kReferencing));
  Lane lazy(Load(kReferencing), true);
  const Json expected = RunReferencing(eager);
  EXPECT_EQ(eager.state.StatusText(), "COMPLETED");
  EXPECT_EQ(eager.state.Find("z")->runs, 1);
  EXPECT_EQ(eager.state.ctx["first"], Json(2));
  EXPECT_EQ(RunReferencing(lazy), expected);
  EXPECT_GT(lazy.asked, 1);
  EXPECT_EQ(eager.asked, 0);
}

// ---- time

constexpr std::string_view kDeadline = R"(
  - step: start
    tool: {kind: noop}
    spec: {policy: {lifecycle: {deadline_s: 60}}}
    next:
      arcs:
        - {step: late, when: "{{ event.name == 'call.error' and error.code == 'DEADLINE' }}"}
        - {step: good}
  - {step: late, tool: {kind: noop}}
  - {step: good, tool: {kind: noop}}
)";

TEST(Decide, AMissedDeadlineFailsTheRunOfTheStep) {
  Lane lane(Load(kDeadline));
  const Unit unit = lane.Start();
  ASSERT_EQ(unit.timers.size(), 1u);
  EXPECT_EQ(unit.timers[0].due_us, kNow + 60'000'000);
  lane.Decide([&](Decider& decider) { decider.TimerDue(unit.timers[0]); });
  EXPECT_EQ(lane.state.Find("start")->outcome, StepState::Outcome::kFailed);
  EXPECT_TRUE(lane.state.Find("late")->open) << "a failure arc may catch it";
  EXPECT_FALSE(lane.state.Find("good")->open);
}

TEST(Decide, ADeadlineOfARunThatEndedMeansNothing) {
  Lane lane(Load(kDeadline));
  const Unit unit = lane.Start();
  lane.Complete(lane.OnlyCommand(), Json(1));
  const std::size_t before = lane.log.size();
  lane.Decide([&](Decider& decider) { decider.TimerDue(unit.timers[0]); });
  EXPECT_EQ(lane.log.size(), before);
}

TEST(Decide, ALoopThatMissesItsDeadlineFails) {
  Lane lane(Load(R"(
  - step: start
    loop: {in: [1, 2, 3], iterator: it, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: noop}
    spec: {policy: {lifecycle: {deadline_s: 60}}}
)"));
  const Unit unit = lane.Start();
  const Unit missed = lane.Decide([&](Decider& decider) { decider.TimerDue(unit.timers[0]); });
  EXPECT_EQ(Types(missed),
            (std::vector<std::string>{"command.cancelled start", "command.cancelled start",
                                      "loop.done start", "playbook.failed playbook"}));
}

TEST(Decide, TheWholeRunMayHaveALimit) {
  Lane lane(Load("  - {step: start, tool: {kind: noop}}\n", "executor: {spec: {timeout: 30}}\n"));
  const Unit unit = lane.Start();
  ASSERT_EQ(unit.timers.size(), 1u);
  EXPECT_EQ(unit.timers[0].kind, Timer::Kind::kExecutionTimeout);
  EXPECT_EQ(unit.timers[0].due_us, kNow + 30'000'000);
  const Unit end = lane.Decide([&](Decider& decider) { decider.TimerDue(unit.timers[0]); });
  EXPECT_EQ(Types(end), std::vector<std::string>{"playbook.failed playbook"});
  EXPECT_EQ(end.events[0].meta["reason"].AsString(), "execution_timeout");
  EXPECT_EQ(end.dropped_commands.size(), 1u);
}

// ---- sub-playbooks

constexpr std::string_view kCallsChild = R"(
  - step: start
    tool: {kind: playbook, path: child, wait: true}
)";

TEST(Decide, ChildrenMayNotNestWithoutEnd) {
  Lane shallow(Load(kCallsChild));
  const Unit started = shallow.Start({.depth = kChildDepthMax - 1});
  ASSERT_EQ(started.children.size(), 1u);
  EXPECT_EQ(started.children[0].depth, kChildDepthMax);
  EXPECT_EQ(started.children[0].path, "child");
  Lane deep(Load(kCallsChild));
  const Unit refused = deep.Start({.depth = kChildDepthMax});
  EXPECT_TRUE(refused.children.empty());
  EXPECT_EQ(deep.state.StatusText(), "FAILED");
  EXPECT_NE(deep.state.first_error.find("E461"), std::string::npos) << deep.state.first_error;
}

TEST(Decide, AChildEndsItsCommandOnce) {
  Lane lane(Load(kCallsChild));
  const Unit started = lane.Start();
  const ChildEnd end{.command_id = lane.OnlyCommand(),
                     .child_execution_id = started.children[0].execution_id,
                     .path = "child",
                     .status = "COMPLETED",
                     .data = Json::Object({{"x", 1}})};
  ChildEnd foreign = end;
  foreign.child_execution_id = 99;
  lane.Decide([&](Decider& decider) { decider.ChildEnded(foreign); });
  EXPECT_FALSE(lane.state.terminal());
  lane.Decide([&](Decider& decider) {
    decider.ChildEnded(end);
    decider.ChildEnded(end);
  });
  EXPECT_EQ(lane.state.StatusText(), "COMPLETED");
  EXPECT_EQ(lane.log.back().result["context"]["data"], Json::Object({{"x", 1}}));
}

TEST(Decide, ALateChildTimesOut) {
  Lane lane(Load(kCallsChild));
  const Unit started = lane.Start();
  ASSERT_EQ(started.timers.size(), 1u);
  EXPECT_EQ(started.timers[0].due_us, kNow + kReturnResultTimeoutMs * 1'000);
  lane.Decide([&](Decider& decider) { decider.TimerDue(started.timers[0]); });
  EXPECT_EQ(lane.state.StatusText(), "FAILED");
}

// ---- lost workers

TEST(Decide, ALostCommandIsIssuedAgainSoOften) {
  Lane lane(Load("  - {step: start, tool: {kind: noop}}\n"));
  StartRequest request;
  request.semantics.max_attempts = 3;
  lane.Start(request);
  for (int attempt = 2; attempt <= 3; ++attempt) {
    const std::string old = lane.OnlyCommand();
    const Unit unit = lane.Decide([&](Decider& decider) { decider.Reissue(old, true); });
    EXPECT_EQ(Types(unit),
              (std::vector<std::string>{"command.cancelled start", "command.issued start"}));
    EXPECT_EQ(unit.events[1].meta["attempt"], Json(attempt));
    EXPECT_EQ(unit.events[1].meta["retry_of"].AsString(), old);
    EXPECT_EQ(unit.events[1].context, lane.log[2].context) << "the same command, not a new one";
  }
  // Given back is not lost.
  lane.Decide([&](Decider& decider) { decider.Reissue(lane.OnlyCommand(), false); });
  EXPECT_FALSE(lane.state.terminal());
  lane.Decide([&](Decider& decider) { decider.Reissue(lane.OnlyCommand(), true); });
  EXPECT_EQ(lane.state.StatusText(), "FAILED");
  EXPECT_EQ(lane.state.first_error, "worker lost 3 times");
}

TEST(Decide, OnErrorRetryRunsAStepTwiceAtMost) {
  Lane lane(Load("  - {step: start, tool: {kind: noop}, spec: {on_error: retry}}\n"));
  lane.Start();
  int runs = 0;
  for (; !lane.state.terminal() && runs < 9; ++runs) {
    const std::string id = lane.OnlyCommand();
    lane.Decide([&](Decider& decider) {
      decider.Ingest(lane.WorkerEvent(id, EventType::kCommandFailed, "FAILED",
                                      Json::Object({{"error", "no"}})));
    });
  }
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(lane.state.StatusText(), "FAILED");
}

// ---- draining

TEST(Decide, ALoopWhoseIterationsWereWithdrawnIsCancelledNotCompleted) {
  Lane lane(Load(R"(
  - step: start
    tool: {kind: noop}
    next: [l, f]
  - step: l
    loop: {in: [1, 2], iterator: it, spec: {mode: parallel}}
    tool: {kind: noop}
  - step: f
    tool: {kind: noop}
)"));
  lane.Start();
  lane.Complete(lane.OnlyCommand(), Json(1));
  std::string first, failing;
  for (const auto& [id, command] : lane.state.commands()) {
    if (command.step == "l" && command.index == 0) first = id;
    if (command.step == "f") failing = id;
  }
  lane.Decide([&](Decider& decider) {
    decider.Ingest(lane.WorkerEvent(first, EventType::kCommandStarted, "STARTED", Json::Object()));
    decider.Ingest(lane.WorkerEvent(failing, EventType::kCommandFailed, "FAILED",
                                    Json::Object({{"error", "no"}})));
  });
  lane.Complete(first, Json(1));
  EXPECT_EQ(lane.state.StatusText(), "FAILED");
  EXPECT_EQ(lane.state.Find("l")->outcome, StepState::Outcome::kCancelled);
}

// ---- bounds

TEST(Decide, LargeUnitsAreClosedEarly) {
  Lane lane(Load(R"(
  - step: start
    loop: {in: "{{ 9000 }}", iterator: it, spec: {mode: parallel, max_in_flight: 9000}}
    tool: {kind: noop}
)"));
  Unit unit = lane.Start();
  int units = 1;
  for (; unit.more && units < 10; ++units) {
    EXPECT_LE(unit.events.size(), kUnitEventsMax + 1);
    unit = lane.Decide([](Decider&) {});
  }
  EXPECT_EQ(units, 3);
  EXPECT_EQ(lane.state.commands().size(), 9'000u);
}

TEST(Decide, ALoopMayNotAskForMoreThanTheBound) {
  Lane lane(Load(R"(
  - step: start
    loop: {in: "{{ 3 }}", iterator: it, spec: {mode: parallel, max_in_flight: "{{ 10001 }}"}}
    tool: {kind: noop}
)"));
  lane.Start();
  EXPECT_EQ(lane.state.StatusText(), "FAILED");
}

TEST(Decide, AnEndlessCycleIsStopped) {
  Lane lane(Load(R"(
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: start, when: "{{ output.data == 1 }}"}]}
)"));
  StartRequest request;
  request.semantics.max_step_runs = 3;
  lane.Start(request);
  for (int i = 0; i < 3; ++i) lane.Complete(lane.OnlyCommand(), Json(1));
  EXPECT_EQ(lane.state.StatusText(), "FAILED");
  EXPECT_EQ(lane.log.back().meta["reason"].AsString(), "max_step_runs");
}

// What the state holds of a loop does not grow with the loop.
// An id one above a worker's may be the next that this worker gives, in another run.
TEST(Decide, IdsAreAboveThoseOfTheRunAndOfTheServersOwn) {
  const auto playbook = Load(R"(
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: noop}
)");
  constexpr std::int64_t kServer = 4, kWorker = 9;
  ManualClock clock(kNow);
  const auto ids = *SnowflakeIds::Create(clock, kServer);
  const auto worker_ids = *SnowflakeIds::Create(clock, kWorker);
  State state;
  const auto decide = [&](const std::function<void(Decider&)>& feed) {
    Decider decider(&state, *playbook, {ids.get(), nullptr, kNow});
    feed(decider);
    EXPECT_TRUE(decider.Decide().has_value());
    return decider.TakeUnit();
  };
  decide([](Decider& decider) { decider.Start({.execution_id = 7}); });
  Event end;
  end.event_id = worker_ids->Next();
  end.type = EventType::kCommandCompleted;
  end.type_name = EventName(end.type);
  end.node_name = "start";
  end.status = "success";
  end.meta = Json::Object({{"command_id", state.commands().begin()->first}});
  end.result = Json::Object({{"status", "success"}});
  const Unit unit = decide([&](Decider& decider) { decider.Ingest(end); });
  ASSERT_GT(unit.events.size(), 2u);
  for (const Event& event : std::span(unit.events).subspan(1)) {
    EXPECT_EQ(DecodeId(event.event_id).machine, kServer) << event.type_name;
    EXPECT_GT(event.event_id, end.event_id) << event.type_name;
  }
}

TEST(Decide, TheStateOfALongLoopStaysSmall) {
  constexpr int kItems = 20'000;
  const auto playbook = Load(R"(
  - step: start
    loop: {in: "{{ 20000 }}", iterator: it, spec: {mode: parallel, max_in_flight: 10}}
    tool: {kind: noop, result: "{{ it }}"}
)");
  State state;
  SequentialIds ids(1'000'000);
  const auto decide = [&](const std::function<void(Decider&)>& feed) {
    Decider decider(&state, *playbook, {&ids, nullptr, kNow});
    feed(decider);
    ASSERT_TRUE(decider.Decide().has_value());
  };
  decide([](Decider& decider) { decider.Start({.execution_id = 7}); });
  std::size_t early = 0;
  for (int done = 0; done < kItems - 10; ++done) {
    const std::string id = state.commands().begin()->first;
    Event end;
    end.event_id = ids.Next();
    end.type = EventType::kCommandCompleted;
    end.type_name = EventName(end.type);
    end.node_name = "start";
    end.status = "success";
    end.meta = Json::Object({{"command_id", id}});
    end.result = Json::Object({{"status", "success"}});
    decide([&](Decider& decider) { decider.Ingest(end); });
    if (done == 1'000) early = WriteSnapshot(state).size();
  }
  EXPECT_LT(static_cast<double>(WriteSnapshot(state).size()), 1.1 * static_cast<double>(early));
  EXPECT_EQ(state.Find("start")->open->succeeded, kItems - 10);
}

}  // namespace
}  // namespace noetl::engine
