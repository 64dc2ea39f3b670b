#include "conductor/unit_rows.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json_io.h"
#include "conductor/messages.h"
#include "store/chain.h"

namespace noetl::conductor {

using engine::Event;
using engine::EventType;
using store::CommandStatus;

namespace {

// Follows the commands of a unit: a command that is issued and claimed in one unit is one row.
class CommandWriter {
 public:
  CommandWriter(store::UnitRows* rows, std::string_view pool) : rows_(rows), pool_(pool) {}

  void Apply(const store::EventRow& stored) {
    const Event& event = stored.event;
    const std::int64_t number = stored.command_id;
    if (number == 0) return;
    switch (event.type) {
      case EventType::kCommandIssued: return Issue(event);
      case EventType::kCommandClaimed: return Claim(event, number);
      case EventType::kCommandStarted:
        return Change(event, number, CommandStatus::kRunning,
                      [&](auto& row) { row.started_at_us = event.created_at_us; });
      case EventType::kCommandCompleted: return Complete(event, number);
      case EventType::kCommandFailed:
        return Change(event, number, CommandStatus::kFailed, [&](auto& row) {
          row.completed_at_us = event.created_at_us;
          row.error = event.error;
        });
      case EventType::kCommandReleased:
        return Change(event, number, CommandStatus::kPending, [](auto&) {});
      case EventType::kCommandCancelled:
        return Change(event, number, CommandStatus::kCancelled, [&](auto& row) {
          row.completed_at_us = event.created_at_us;
          row.error = event.meta["reason"].ToString();
        });
      default: return;
    }
  }

  void Drop(std::string_view command_id, std::int64_t now_us) {
    const std::int64_t number = engine::CommandNumber(command_id);
    if (number == 0) return;
    const auto set = [&](auto& row) {
      row.status = CommandStatus::kCancelled;
      row.parked = false;
      row.lease_until_us = 0;
      row.completed_at_us = now_us;
    };
    if (const auto row = made_.find(number); row != made_.end())
      return set(rows_->commands[row->second]);
    set(ChangeOf(number));
  }

 private:
  void Issue(const Event& event) {
    store::CommandRow row;
    row.command_id = event.event_id;
    row.execution_id = event.execution_id;
    row.catalog_id = event.catalog_id;
    row.id = event.meta["command_id"].ToString();
    row.step = event.node_name;
    row.run = event.meta["run"].AsInt();
    row.tool_kind = event.node_type;
    row.pool = pool_;
    row.server_run = event.meta["server_run"].AsBool();
    row.status = row.server_run ? CommandStatus::kRunning : CommandStatus::kPending;
    row.parked = row.server_run;
    row.attempt = event.meta["attempt"].AsInt(1);
    row.iter_index = event.meta["iteration_index"].AsInt(-1);
    row.child_execution_id = event.meta["child_execution_id"].AsInt();
    row.created_at_us = event.ingest_us;
    row.latest_event_id = event.event_id;
    made_[row.command_id] = rows_->commands.size();
    rows_->commands.push_back(std::move(row));
  }

  void Claim(const Event& event, std::int64_t number) {
    Change(event, number, CommandStatus::kClaimed, [&](auto& row) {
      row.worker_id = event.worker_id;
      row.claim_token = event.meta["claim_token"].AsInt(1);
      row.lease_until_us = event.meta["lease_until_us"].AsInt();
      row.claimed_at_us = event.created_at_us;
    });
  }

  void Complete(const Event& event, std::int64_t number) {
    const bool parks = event.meta["parked"].AsBool();
    Change(event, number, parks ? CommandStatus::kRunning : CommandStatus::kCompleted,
           [&](auto& row) {
             row.parked = parks;
             if (!parks) row.completed_at_us = event.created_at_us;
           });
  }

  template <typename Set>
  void Change(const Event& event, std::int64_t number, CommandStatus status, const Set& set) {
    const auto apply = [&](auto& row) {
      // A late report does not bring an ended command back.
      if (!store::IsOpen(row.status)) return;
      row.status = status;
      row.latest_event_id = event.event_id;
      row.lease_until_us = 0;
      row.parked = false;
      set(row);
    };
    if (const auto row = made_.find(number); row != made_.end())
      return apply(rows_->commands[row->second]);
    apply(ChangeOf(number));
  }

  store::CommandChange& ChangeOf(std::int64_t number) {
    const auto found = changed_.find(number);
    if (found != changed_.end()) return rows_->command_changes[found->second];
    changed_[number] = rows_->command_changes.size();
    rows_->command_changes.push_back({.command_id = number});
    return rows_->command_changes.back();
  }

  store::UnitRows* rows_;
  std::string_view pool_;
  std::map<std::int64_t, std::size_t> made_;
  std::map<std::int64_t, std::size_t> changed_;
};

Result<std::string> Stored(const Json& value, std::string_view what) {
  Result<std::string> text = WriteStoredJson(value);
  if (text) return text;
  return Fail("invalid", fmt::format("{} cannot be stored: {}", what, text.error().message));
}

Status AddEvents(engine::Unit& unit, const Sha256Digest& head, store::UnitRows& rows) {
  Sha256Digest chain = head;
  rows.events.reserve(unit.events.size());
  for (Event& event : unit.events) {
    Result<store::EventRow> row = store::MakeEventRow(std::move(event), chain);
    if (!row) {
      return Fail("invalid", fmt::format("event {} cannot be stored: {}", rows.events.size() + 1,
                                         row.error().message));
    }
    chain = row->chain;
    rows.events.push_back(*std::move(row));
  }
  return {};
}

void DescribeExecution(const store::ExecutionRow& before, const engine::State& state,
                       store::UnitRows& rows) {
  store::ExecutionRow& row = rows.execution = before;
  const store::EventRow& last = rows.events.back();
  row.execution_id = state.execution_id;
  row.catalog_id = state.catalog_id;
  row.path = state.path;
  row.version = state.version;
  row.parent_execution_id = state.parent_execution_id;
  row.parent_command_id = state.parent_command_id;
  row.status = std::string(state.StatusText());
  row.started_at_us = state.started_at_us;
  row.ended_at_us = state.ended_at_us;
  row.soft_error_count = state.soft_error_count;
  row.last_event_id = last.event.event_id;
  row.last_event_type = last.event.type_name;
  row.last_node_name = last.event.node_name;
  row.updated_at_us = last.event.ingest_us;
  row.head = last.event.seq;
  row.terminal = state.terminal();
  row.chain = last.chain;
  for (const store::EventRow& event : rows.events) {
    if (engine::IsTerminal(event.event.type)) row.error = event.event.error;
  }
}

}  // namespace

Result<std::unique_ptr<store::UnitRows>> MakeUnitRows(engine::Unit unit,
                                                      const store::ExecutionRow& before,
                                                      const engine::State& state,
                                                      std::string_view pool, IdSource& ids) {
  auto rows = std::make_unique<store::UnitRows>();
  rows->execution_id = state.execution_id;
  rows->expected_head = before.head;
  const Sha256Digest head = before.head == 0 ? store::ChainStart(state.execution_id) : before.chain;
  NOETL_TRY(AddEvents(unit, head, *rows));
  if (!rows->events.empty()) DescribeExecution(before, state, *rows);

  CommandWriter commands(rows.get(), pool);
  for (const store::EventRow& row : rows->events) commands.Apply(row);
  for (const std::string& id : unit.dropped_commands) commands.Drop(id, state.last_ingest_us);

  for (const engine::StoredBody& body : unit.bodies) {
    NOETL_ASSIGN(std::string data, Stored(body.body, body.ref));
    rows->bodies.push_back({body.ref, std::move(data)});
  }
  for (const engine::LoopRow& row : unit.loop_rows) {
    NOETL_ASSIGN(std::string data,
                 Stored(row.data, fmt::format("item {} of loop '{}'", row.index, row.step)));
    rows->loop_rows.push_back({row.step, row.run, row.index, std::move(data)});
  }
  rows->timers = std::move(unit.timers);
  rows->drops_timers = state.terminal();
  for (const engine::ChildStart& child : unit.children)
    rows->messages.push_back(MakeMessage(ids.Next(), child));
  for (const std::int64_t child : unit.cancel_children) {
    rows->messages.push_back(
        MakeCancelMessage(ids.Next(), child, "the run that waits for it ended"));
  }
  if (unit.parent) rows->messages.push_back(MakeMessage(ids.Next(), *unit.parent));
  return rows;
}

std::string PoolOf(const engine::State& state, const playbook::Playbook& playbook) {
  if (!state.pool.empty()) return state.pool;
  if (!playbook.executor.pool.empty()) return playbook.executor.pool;
  for (const std::string_view own : {"system", "subscription"}) {
    if (state.path.starts_with(fmt::format("{}/", own))) return std::string(own);
  }
  return "shared";
}

}  // namespace noetl::conductor
