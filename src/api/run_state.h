// Reading one run for an answer: its row, its folded state, its pages of events.
//
// Nothing is kept between calls: an answer is as new as the store. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/events.h"
#include "engine/state.h"
#include "store/store.h"

namespace noetl::api {

// Events that are folded for one answer at most: some tenths of a second. Snapshots are nearer than
// that in every run that goes on.
inline constexpr std::int64_t kFoldedEventsMax = 20'000;
// Of a run that has ended and whose snapshot may be gone: some milliseconds.
inline constexpr std::int64_t kFoldedEndedMax = 1'000;

// The row of the run; "not_found" when there is none.
Result<store::ExecutionRow> FindRun(const store::Store& store, std::int64_t execution_id);

// The state from the stored snapshot and the events after it; nullopt when that would take more
// than the limits above.
Result<std::optional<engine::State>> FoldRun(const store::Store& store,
                                             const store::ExecutionRow& row);

// The seq of an event of the run; nullopt: it has no such event.
Result<std::optional<std::int64_t>> FindSeq(const store::Store& store, std::int64_t execution_id,
                                            std::int64_t event_id);

struct EventPage {
  std::vector<engine::Event> events;
  bool more = false;
  std::int64_t cursor = 0;  // id of the last event that was looked at, when there are more
};
// Events after a seq in order; of one type unless it is empty.
Result<EventPage> ReadForward(const store::Store& store, std::int64_t execution_id,
                              std::int64_t after_seq, std::string_view type_name,
                              std::int64_t limit);
// Events before a seq, newest first.
Result<EventPage> ReadBackward(const store::Store& store, std::int64_t execution_id,
                               std::int64_t before_seq, std::string_view type_name,
                               std::int64_t limit);

}  // namespace noetl::api
