// What is known of one run, gathered without reading its whole log.
//
// The state comes from the stored snapshot and the events after it. A long run without a snapshot
// is known only by its oldest and newest events, and says so. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/state.h"
#include "store/store.h"

namespace noetl::cli {

// Events that are folded at most: some tenths of a second.
inline constexpr std::int64_t kFoldedEventsMax = 20'000;
// Of a longer log without a snapshot.
inline constexpr std::int64_t kOldestEvents = 1'000;
inline constexpr std::int64_t kNewestEvents = 2'000;

// Why a run failed: the first step that did, as far as it can be found near the end of the log.
struct RunFailure {
  std::string step;
  std::string error;
  Json error_info;
  std::int64_t attempt = 0;     // 0: not known
  std::int64_t iteration = -1;  // -1: not of a loop
  std::int64_t command_id = 0;
  Json input;               // what the tool was given: tool_config, args, iteration
  std::string stderr_tail;  // the last lines
};

struct RunView {
  store::ExecutionRow row;
  engine::State state;
  bool partial = false;  // some events between the oldest and the newest were not looked at
  std::optional<engine::Event> end;  // the terminal event
  std::optional<RunFailure> failure;
};

Result<RunView> ViewRun(const store::Store& store, const store::ExecutionRow& row);

// Pieces of the above, for runs that are read elsewhere.
bool IsFailure(const engine::Event& event);
// What the state and the end tell.
RunFailure FailureOf(const RunView& view);
void AddFailedEvent(const engine::Event& event, std::int64_t command_id, RunFailure& failure);
void AddIssued(const engine::Event& issued, RunFailure& failure);
// The end of what was written to the error stream: gathered from chunks, then cut to lines.
void AddToTail(const store::LogChunk& chunk, std::string* tail);
std::string LinesOfTail(std::string text);

// The result of a completed run: {data} or the reference object; null when there is none.
Json RunResult(const RunView& view);

}  // namespace noetl::cli
