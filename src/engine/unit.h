// What one decision gives: everything that must be stored together, and what to do afterwards.
//
// All parts of a unit are committed in one transaction or not at all. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/events.h"
#include "engine/state.h"

namespace noetl::engine {

// A body that was too large for the event or command that refers to it.
struct StoredBody {
  std::string ref;
  Json body;
};

// The result of one loop iteration, a row of "noetl://execution/<id>/loop/<step>/<run>".
struct LoopRow {
  std::string step;
  std::int64_t run = 0;
  std::int64_t index = 0;
  Json data;
};

// A durable wake-up. Firing one whose subject has ended changes nothing.
struct Timer {
  enum class Kind : std::uint8_t { kStepDeadline, kCommandDeadline, kExecutionTimeout };
  Kind kind = Kind::kStepDeadline;
  std::string step;
  std::int64_t run = 0;
  std::string command_id;
  std::int64_t due_us = 0;
};

// A run to start for a sub-playbook step. Starting is idempotent by `execution_id`.
struct ChildStart {
  std::int64_t execution_id = 0;
  std::string path;
  std::int64_t catalog_id = 0;  // 0: by path
  Json version;                 // number, or null for the latest
  Json payload;
  std::int64_t parent_execution_id = 0;
  std::string parent_command_id;  // empty: nobody waits
  std::string parent_step;
  std::string return_step;
  std::int64_t depth = 0;
  std::string pool;
  Json trace;
  std::int64_t start_at_us = 0;  // not before
};

// How a child ended, told to the command that waits for it. Idempotent by `command_id`.
struct ChildEnd {
  std::string command_id;
  std::int64_t parent_execution_id = 0;
  std::int64_t child_execution_id = 0;
  std::string path;
  std::string status;  // COMPLETED, FAILED, CANCELLED
  Json data;
  Json reference;  // instead of data
  std::string error;
  bool step_missing = false;  // the step that was asked for did not run; `data` is the run's result
};

struct Unit {
  std::vector<Event> events;
  std::vector<StoredBody> bodies;
  std::vector<LoopRow> loop_rows;
  std::vector<Timer> timers;
  std::vector<ChildStart> children;
  std::vector<std::int64_t> cancel_children;
  std::optional<ChildEnd> parent;  // with the terminal event
  // Commands that ended without an event of their own, because the run did.
  std::vector<std::string> dropped_commands;

  // The unit was closed early because it is large: decide again, without new facts.
  bool more = false;

  bool empty() const { return events.empty(); }
};

}  // namespace noetl::engine
