#include "api/run_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/fold.h"

namespace noetl::api {

namespace {

constexpr std::int64_t kPageEvents = 1'000;
// Events that are looked at for one page of a rare type; then the caller comes again.
constexpr std::int64_t kScannedMax = 50'000;

}  // namespace

Result<store::ExecutionRow> FindRun(const store::Store& store, std::int64_t execution_id) {
  NOETL_ASSIGN(std::optional<store::ExecutionRow> row, store.Find(execution_id));
  if (!row) return Fail("not_found", fmt::format("execution not found: {}", execution_id));
  return *std::move(row);
}

Result<std::optional<engine::State>> FoldRun(const store::Store& store,
                                             const store::ExecutionRow& row) {
  engine::State state;
  NOETL_ASSIGN(const std::optional<store::SnapshotRow> snapshot,
               store.LoadSnapshot(row.execution_id));
  if (snapshot && snapshot->seq <= row.head) {
    // One that cannot be read is as good as none.
    if (Result<engine::State> read = engine::ReadSnapshot(snapshot->text)) state = *std::move(read);
  }
  const std::int64_t limit = row.terminal ? kFoldedEndedMax : kFoldedEventsMax;
  if (row.head - state.seq > limit) return std::nullopt;
  while (state.seq < row.head) {
    NOETL_ASSIGN(
        const std::vector<engine::Event> events,
        store.ReadEvents(row.execution_id, state.seq, std::min(kPageEvents, row.head - state.seq)));
    if (events.empty()) return std::nullopt;  // purged meanwhile
    for (const engine::Event& event : events) engine::Fold(state, event);
  }
  return state;
}

Result<std::optional<std::int64_t>> FindSeq(const store::Store& store, std::int64_t execution_id,
                                            std::int64_t event_id) {
  NOETL_ASSIGN(const std::optional<engine::Event> event, store.FindEvent(execution_id, event_id));
  if (!event) return std::nullopt;
  return event->seq;
}

Result<EventPage> ReadForward(const store::Store& store, std::int64_t execution_id,
                              std::int64_t after_seq, std::string_view type_name,
                              std::int64_t limit) {
  EventPage page;
  const std::int64_t last = after_seq + kScannedMax;
  while (after_seq < last) {
    const std::int64_t want = type_name.empty() ? limit + 1 - std::ssize(page.events) : kPageEvents;
    NOETL_ASSIGN(const std::vector<engine::Event> events,
                 store.ReadEvents(execution_id, after_seq, want));
    if (events.empty()) return page;
    after_seq = events.back().seq;
    for (const engine::Event& event : events) {
      if (!type_name.empty() && event.type_name != type_name) continue;
      if (std::ssize(page.events) == limit) {
        page.more = true;
        page.cursor = page.events.back().event_id;
        return page;
      }
      page.events.push_back(event);
    }
    page.cursor = events.back().event_id;
    if (std::ssize(events) < want) return page;
  }
  page.more = true;
  return page;
}

Result<EventPage> ReadBackward(const store::Store& store, std::int64_t execution_id,
                               std::int64_t before_seq, std::string_view type_name,
                               std::int64_t limit) {
  EventPage page;
  NOETL_ASSIGN(page.events, store.ReadNewest(execution_id, before_seq, type_name, limit + 1));
  page.more = std::ssize(page.events) > limit;
  if (page.more) page.events.pop_back();
  if (!page.events.empty()) page.cursor = page.events.back().event_id;
  return page;
}

}  // namespace noetl::api
