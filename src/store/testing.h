// Shared by tests of the store: runs that grow unit by unit.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json_io.h"
#include "store/chain.h"
#include "store/store.h"

namespace noetl::store {

// A run and the units that make it grow, numbered and chained as a lane does it.
class TestRun {
 public:
  explicit TestRun(std::int64_t execution_id, std::string path = "tests/run") {
    row_.execution_id = execution_id;
    row_.catalog_id = 77;
    row_.path = std::move(path);
    row_.version = 1;
    row_.status = "RUNNING";
    row_.started_at_us = 1000 + execution_id;
    row_.chain = ChainStart(execution_id);
  }

  ExecutionRow& row() { return row_; }
  std::int64_t id() const { return row_.execution_id; }

  // An event with content that depends on its place.
  engine::Event MakeEvent(engine::EventType type) {
    engine::Event event;
    event.execution_id = id();
    // Ids of runs may be large: what goes over is cut off.
    const std::uint64_t number = static_cast<std::uint64_t>(id()) * 100'000;
    event.event_id = static_cast<std::int64_t>(number & (INT64_MAX >> 1)) + row_.head + 1;
    event.type = type;
    event.type_name = engine::EventName(type);
    event.catalog_id = row_.catalog_id;
    event.parent_event_id = row_.last_event_id;
    event.prev_event_id = row_.last_event_id;
    event.node_name = "step_a";
    event.node_type = "step";
    event.status = "COMPLETED";
    event.context = Json::Object({{"seq", row_.head + 1}, {"text", "größe \"x\"\n"}});
    event.meta = Json::Object({{"note", 1.5}});
    event.created_at_us = 5000 + row_.head;
    event.ingest_us = 6000 + row_.head;
    return event;
  }

  // Adds an event to a unit of this run; the unit must be the newest.
  void Add(UnitRows& unit, engine::Event event) {
    event.seq = row_.head + 1;
    EventRow made = *MakeEventRow(std::move(event), row_.chain);
    row_.head = made.event.seq;
    row_.chain = made.chain;
    row_.last_event_id = made.event.event_id;
    row_.last_event_type = made.event.type_name;
    row_.last_node_name = made.event.node_name;
    row_.updated_at_us = made.event.ingest_us;
    if (engine::IsTerminal(made.event.type)) {
      row_.terminal = true;
      row_.status = "COMPLETED";
      row_.ended_at_us = made.event.ingest_us;
    }
    unit.events.push_back(std::move(made));
    unit.execution = row_;
  }

  UnitRows Start() {
    UnitRows unit;
    unit.execution_id = id();
    unit.expected_head = row_.head;
    return unit;
  }

  UnitRows Next(std::size_t count = 1, engine::EventType type = engine::EventType::kStepEnter) {
    UnitRows unit = Start();
    for (std::size_t i = 0; i < count; ++i) Add(unit, MakeEvent(type));
    return unit;
  }
  UnitRows End() { return Next(1, engine::EventType::kPlaybookCompleted); }

  CommandRow Command(std::int64_t command_id) const {
    CommandRow command;
    command.command_id = command_id;
    command.execution_id = id();
    command.catalog_id = row_.catalog_id;
    command.id = fmt::format("{}:step_a:{}", id(), command_id);
    command.step = "step_a";
    command.run = 1;
    command.tool_kind = "noop";
    command.pool = "default";
    command.created_at_us = 7000;
    return command;
  }

 private:
  ExecutionRow row_;
};

inline std::vector<Status> CommitAll(Store& store, const std::vector<UnitRows>& units) {
  std::vector<const UnitRows*> pointers;
  for (const UnitRows& unit : units) pointers.push_back(&unit);
  return store.Commit(pointers);
}

inline Status CommitOne(Store& store, const UnitRows& unit) {
  const UnitRows* pointer = &unit;
  return store.Commit({&pointer, 1})[0];
}

// "ok" or the code of the error.
template <typename T>
std::string CodeOf(const Result<T>& result) {
  return result ? "ok" : result.error().code;
}

}  // namespace noetl::store
