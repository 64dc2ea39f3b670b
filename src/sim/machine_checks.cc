#include "sim/machine_checks.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/fold.h"
#include "sim/generator.h"
#include "sim/invariants.h"
#include "store/chain.h"

namespace noetl::sim {

using engine::Event;
using engine::EventType;

namespace {

// Of a hundred units, after which the whole log is read again and folded.
constexpr std::uint64_t kReplayPercent = 3;
constexpr std::int64_t kAll = 1'000'000;

bool IsReported(EventType type) {
  return type == EventType::kCommandClaimed || type == EventType::kCommandStarted ||
         type == EventType::kCallDone || type == EventType::kCallError ||
         type == EventType::kCommandCompleted || type == EventType::kCommandFailed;
}

}  // namespace

void MachineChecks::Fail(std::string_view promise, std::string detail) {
  if (failure_.empty()) failure_ = fmt::format("{}: {}", promise, detail);
}

void MachineChecks::Stored(const store::UnitRows& unit, const store::Store& store) {
  if (!failure_.empty()) return;
  if (!unit.events.empty()) {
    Run& run = runs_[unit.execution_id];
    if (run.log.empty()) run.chain = store::ChainStart(unit.execution_id);
    if (run.terminal) Fail("I29", fmt::format("run {} goes on after its end", unit.execution_id));
    for (const store::EventRow& row : unit.events) CheckEvent(run, row);
    CheckRow(run, unit.execution);
  }
  const auto found = runs_.find(unit.execution_id);
  if (found == runs_.end()) return;
  if (unit.snapshot) CheckSnapshot(found->second, *unit.snapshot);
  samples_ = Mix(samples_, 3);
  if (samples_ % 100 < kReplayPercent) CheckReplay(unit.execution_id, found->second, store);
}

void MachineChecks::CheckEvent(Run& run, const store::EventRow& row) {
  const Event& event = row.event;
  const auto fail = [&](std::string_view promise, std::string_view detail) {
    Fail(promise, fmt::format("{} (run {}, seq {}, {} {})", detail, event.execution_id, event.seq,
                              event.type_name, event.node_name));
  };
  if (event.seq != std::ssize(run.log) + 1)
    fail("I1", fmt::format("seq follows {}", run.log.size()));
  if (event.prev_event_id != (run.log.empty() ? 0 : run.log.back().event_id))
    fail("I1", "prev_event_id names the event before");
  run.chain = store::ChainNext(run.chain, row);
  if (run.chain != row.chain) fail("I1", "the hash chain does not verify");
  if (run.terminal && engine::IsTerminal(event.type)) fail("I28", "a run ends once");
  // What a worker said in the same moment may still be written down.
  const bool silent = !event.meta.Has("route") && !event.meta.Has("outcome");
  if (run.terminal && !(IsReported(event.type) && silent)) fail("I29", "an event after the end");
  run.terminal = run.terminal || engine::IsTerminal(event.type);
  switch (event.type) {
    case EventType::kCommandIssued: CheckIssued(run, event); break;
    case EventType::kCommandStarted:
      if (!run.started.emplace(engine::CommandIdOf(event)).second)
        fail("I11", "a command is started twice");
      break;
    default: break;
  }
  engine::Fold(run.state, event);
  run.log.push_back(event);
}

void MachineChecks::CheckIssued(Run& run, const Event& event) {
  const std::string key = event.meta["command_key"].ToString();
  if (!run.keys.insert(key).second) Fail("I8", "a command is issued twice: " + key);
  const std::int64_t attempt = event.meta["attempt"].AsInt();
  std::int64_t& last = run.attempts[key.substr(0, key.rfind('|'))];
  if (attempt != last + 1)
    Fail("I12", fmt::format("attempt {} follows {} of {}", attempt, last, key));
  last = attempt;
}

void MachineChecks::CheckRow(const Run& run, const store::ExecutionRow& row) {
  const bool same = row.head == run.state.seq && row.terminal == run.terminal &&
                    row.status == run.state.StatusText() && row.chain == run.chain;
  if (!same) {
    Fail("I43", fmt::format("the row of run {} says {} at {}, its log {} at {}", row.execution_id,
                            row.status, row.head, run.state.StatusText(), run.state.seq));
  }
}

// What the conductor has in memory is the fold of the log.
void MachineChecks::CheckSnapshot(const Run& run, const store::SnapshotRow& snapshot) {
  const Result<engine::State> read = engine::ReadSnapshot(snapshot.text);
  if (!read) return Fail("I3", read.error().message);
  if (snapshot.seq != run.state.seq || !SameState(*read, run.state)) {
    Fail("I2", fmt::format("the state of run {} at {} is not the fold of its log",
                           run.state.execution_id, snapshot.seq));
  }
}

void MachineChecks::CheckReplay(std::int64_t id, const Run& run, const store::Store& store) {
  const auto events = store.ReadEvents(id, 0, kAll);
  if (!events) return Fail("I2", events.error().message);
  engine::State state;
  for (const Event& event : *events) engine::Fold(state, event);
  if (!SameState(state, run.state)) Fail("I2", fmt::format("run {}: replay differs", id));
}

void MachineChecks::Granted(const bus::Grant& grant, std::int64_t lives) {
  const auto run = runs_.find(grant.execution_id);
  if (run == runs_.end() || !run->second.started.contains(grant.command_id))
    Fail("I37", fmt::format("{} is handed out before its start is stored", grant.command_id));
  if (!granted_.insert(grant.command_id).second)
    Fail("I11", fmt::format("{} is handed out twice", grant.command_id));
  if (grant.meta["lost"].AsInt() >= lives)
    Fail("I12", fmt::format("{} counts more losses than there were crashes", grant.command_id));
}

void MachineChecks::Finished(const store::Store& store) {
  for (const auto& [id, run] : runs_) {
    if (!run.terminal) {
      return Fail("I30",
                  fmt::format("run {} of '{}' never ended: nothing can happen, last {} {}", id,
                              run.state.path, run.log.back().type_name, run.log.back().node_name));
    }
    CheckReplay(id, run, store);
    CheckLoopRows(run, store);
  }
  const auto commands = store.OpenCommands(0, kAll);
  if (!commands || !commands->empty())
    Fail("I31", fmt::format("an open command is left: {}",
                            commands ? commands->front().id : commands.error().message));
  const auto messages = store.Messages(0, kAll);
  if (!messages || !messages->empty()) Fail("I21", "a message is left");
  const auto timers = store.DueTimers(INT64_MAX, kAll);
  if (!timers || !timers->empty()) Fail("I31", "a timer is left");
  const auto open = store.Open(0, kAll);
  if (!open || !open->empty()) Fail("I31", "a run is still open");
  const auto findings = store.Check();
  if (!findings) Fail("I1", findings.error().message);
  else if (!findings->empty()) Fail("I1", findings->front());
}

// A loop that completed has the result of every iteration.
void MachineChecks::CheckLoopRows(const Run& run, const store::Store& store) {
  for (const Event& event : run.log) {
    if (event.type != EventType::kLoopDone || event.status != "COMPLETED") continue;
    const Json& data = event.result["context"]["data"];
    const std::int64_t total = data["stats"]["total"].AsInt(-1);
    if (total < 0 || !data["results"].Has("_ref")) continue;
    const Result<Json> rows = store.Load(data["results"]["_ref"].AsString());
    if (!rows || std::ssize(rows->items()) != total)
      Fail("I22", fmt::format("loop '{}' of run {} has not {} results", event.node_name,
                              event.execution_id, total));
  }
}

}  // namespace noetl::sim
