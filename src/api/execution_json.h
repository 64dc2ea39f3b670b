// How runs and their events look in answers. Pure functions, any thread.
//
// Old and new names of the same thing are all there (started_at and start_time, completed_at and
// end_time): clients of both kinds read these answers. Ids are numbers on routes that old clients
// know and texts on those that are new.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/events.h"
#include "engine/state.h"
#include "store/rows.h"
#include "store/server_rows.h"

namespace noetl::api {

enum class Ids : std::uint8_t { kNumbers, kTexts };
Json ShowId(std::int64_t id, Ids ids);  // null for 0
Json IdList(std::span<const std::int64_t> ids);

// "250ms", "12.3s", "3m 12s", "2h 5m", "3d 4h".
std::string HumanDuration(std::int64_t micros);

// One row of a list.
Json ExecutionSummary(const store::ExecutionRow& row, std::int64_t now_us, Ids ids);

struct EventForm {
  Ids ids = Ids::kNumbers;
  bool redact = true;
  bool payload = true;  // context, result and meta
};
Json EventBody(const engine::Event& event, const EventForm& form);

// What the steps of a run are at.
struct StepCounts {
  std::int64_t total = 0;
  std::int64_t completed = 0;
  std::int64_t running = 0;
  std::int64_t failed = 0;
  std::vector<std::string> completed_steps;
  std::string current_step;  // of the last opened run; empty when the run has ended
};
StepCounts CountSteps(const engine::State& state);
// 0 to 100; only an ended run is at 100.
std::int64_t ProgressOf(const StepCounts& counts, bool terminal);

// The status of a run; `variables` is a map or null.
Json StatusBody(const store::ExecutionRow& row, const StepCounts& counts, Json variables,
                std::int64_t now_us);

// The result that the terminal event tells of: the data, or the reference object; null: none.
Json RunResultOf(const engine::Event& terminal);

struct AnalyzeOptions {
  std::int64_t sample = 50;  // events that are shown
  std::string playbook;      // its text, when it is wanted
};
// What stands out in a run, by plain rules. `events` are in order.
Json AnalyzeRun(const store::ExecutionRow& row, std::span<const engine::Event> events,
                const AnalyzeOptions& options, std::int64_t now_us);

// A worker or another process that is known to the server.
Json RuntimeBody(const store::RuntimeRow& row, std::int64_t now_us, std::int64_t offline_after_us);

// A piece of a step's log.
Json LogBody(const store::LogChunk& chunk, bool redact);

}  // namespace noetl::api
