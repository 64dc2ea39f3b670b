// Units as a small playbook makes them, for the benchmarks of the store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json_io.h"
#include "store/rows.h"
#include "store/testing.h"

namespace noetl::store {

inline constexpr std::size_t kUnitEvents = 8;
inline constexpr std::size_t kBatchUnits = 250;  // 2,000 events a commit

// About 350 bytes of JSON an event, as a step of a small playbook has.
inline engine::Event SampleEvent(std::int64_t execution_id, std::int64_t event_id) {
  static const Json kContext = *ParseJson(
      R"({"tool_config":{"kind":"http","url":"https://api.example.com/v1/items","method":"GET"},)"
      R"("args":{"item":"b7","page":3},"idempotency_key":"7f9c2ba4e88f827d"})");
  static const Json kMeta = *ParseJson(
      R"({"command_id":"612345678901234567:fetch_items:612345678901234999","attempt":1,)"
      R"("step":"fetch_items","run":1,"tool_kind":"http","pool":"default","rendered":true})");
  engine::Event event;
  event.execution_id = execution_id;
  event.event_id = event_id;
  event.catalog_id = 612'345'678'901'000'000;
  event.parent_event_id = event_id - 3;
  event.prev_event_id = event_id - 1;
  event.type = event_id % 2 == 0 ? engine::EventType::kCommandIssued : engine::EventType::kCallDone;
  event.type_name = engine::EventName(event.type);
  event.node_name = "fetch_items";
  event.node_type = "http";
  event.status = "COMPLETED";
  event.context = kContext;
  event.meta = kMeta;
  event.created_at_us = 1'767'225'600'000'000 + event_id;
  event.ingest_us = event.created_at_us + 40;
  if (event.type == engine::EventType::kCallDone) event.worker_id = "worker-1";
  return event;
}

// One unit of a run. The chain and the texts are those of the first unit: making them is work of the
// lanes, and is measured on its own.
inline UnitRows SampleUnit(std::int64_t execution_id) {
  TestRun run(execution_id);
  UnitRows unit = run.Start();
  for (std::size_t i = 0; i < kUnitEvents; ++i) {
    run.Add(unit, SampleEvent(execution_id, 612'345'678'901'000'000 + static_cast<int>(i)));
  }
  return unit;
}

class Batch {
 public:
  explicit Batch(bool one_run) : one_run_(one_run) {
    for (std::size_t i = 0; i < kBatchUnits; ++i) {
      units_.push_back(SampleUnit(kFirstId + static_cast<std::int64_t>(i)));
      pointers_.push_back(&units_.back());
    }
    for (std::size_t i = 0; i < kBatchUnits; ++i) pointers_[i] = &units_[i];
  }

  // Moves every unit on: new runs, or the same run further along.
  void Advance() {
    for (UnitRows& unit : units_) {
      if (!one_run_) ++execution_;
      unit.execution_id = unit.execution.execution_id = one_run_ ? kFirstId : execution_;
      unit.expected_head = one_run_ ? head_ : 0;
      std::int64_t seq = unit.expected_head;
      for (EventRow& row : unit.events) {
        row.event.execution_id = unit.execution_id;
        row.event.event_id = ++event_;
        row.event.seq = ++seq;
        row.command_id = event_ / 4 * 4;
      }
      head_ = unit.execution.head = seq;
    }
  }
  std::span<const UnitRows* const> units() const { return pointers_; }

 private:
  static constexpr std::int64_t kFirstId = 612'345'678'901'000'000;
  bool one_run_;
  std::vector<UnitRows> units_;
  std::vector<const UnitRows*> pointers_;
  std::int64_t execution_ = kFirstId;
  std::int64_t event_ = kFirstId;
  std::int64_t head_ = 0;
};

}  // namespace noetl::store
