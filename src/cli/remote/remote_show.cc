#include "cli/remote/remote_show.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/remote/remote_runs.h"
#include "engine/fold.h"

namespace noetl::cli {

namespace {

constexpr std::int64_t kPage = 1'000;
constexpr std::int64_t kPageChunks = 64;
// Pages of output that are read for its last lines: some megabytes.
constexpr int kLogPagesMax = 128;

using Events = std::vector<engine::Event>;

Result<Events> ReadOldest(HttpClient& client, EventFeed feed, std::int64_t limit) {
  Events events;
  NOETL_TRY(ReadEvents(client, feed, [&](const engine::Event& event) {
    events.push_back(event);
    return std::ssize(events) < limit;
  }));
  return events;
}

Result<Events> ReadNewest(HttpClient& client, const EventFeed& feed, std::int64_t limit) {
  Events events;
  std::string after;
  while (std::ssize(events) < limit) {
    NOETL_ASSIGN(const Json page,
                 client.Get(fmt::format(
                     "/executions/{}/events?order=desc&limit={}&include_payload=true{}{}",
                     feed.execution_id, kPage, after, feed.redact ? "" : "&redact=false")));
    for (const Json& item : page["events"].items()) events.push_back(EventOf(item));
    if (page["next_cursor"].is_null()) break;
    after = fmt::format("&after={}", page["next_cursor"].AsString());
  }
  std::ranges::reverse(events);
  return events;
}

// In order; with a gap when the run is long.
Result<Events> ReadLog(HttpClient& client, const EventFeed& feed, RunView& view) {
  if (view.row.head <= kFoldedEventsMax) return ReadOldest(client, feed, kFoldedEventsMax);
  view.partial = true;
  NOETL_ASSIGN(Events events, ReadOldest(client, feed, kOldestEvents));
  NOETL_ASSIGN(const Events newest, ReadNewest(client, feed, kNewestEvents));
  events.insert(events.end(), newest.begin(), newest.end());
  return events;
}

Result<std::string> StderrTail(HttpClient& client, const EventFeed& feed, std::int64_t command_id) {
  std::string text;
  std::int64_t seen = 0;
  for (int page = 0; page < kLogPagesMax; ++page) {
    NOETL_ASSIGN(const std::vector<store::LogChunk> chunks,
                 ReadLogs(client, feed.execution_id, command_id, seen, kPageChunks, feed.redact));
    for (const store::LogChunk& chunk : chunks) AddToTail(chunk, &text);
    seen += std::ssize(chunks);
    if (std::ssize(chunks) < kPageChunks) break;
  }
  return LinesOfTail(std::move(text));
}

Status AddFailure(HttpClient& client, const EventFeed& feed, const Events& events, RunView& view) {
  RunFailure failure = FailureOf(view);
  const auto failed = std::ranges::find_if(events, [&](const engine::Event& event) {
    return event.node_name == failure.step && IsFailure(event) &&
           engine::CommandNumber(engine::CommandIdOf(event)) != 0;
  });
  if (!failure.step.empty() && failed != events.end()) {
    const std::int64_t command = engine::CommandNumber(engine::CommandIdOf(*failed));
    AddFailedEvent(*failed, command, failure);
    const auto issued = std::ranges::find(events, command, &engine::Event::event_id);
    if (issued != events.end()) AddIssued(*issued, failure);
    NOETL_ASSIGN(failure.stderr_tail, StderrTail(client, feed, command));
  }
  view.failure = std::move(failure);
  return {};
}

}  // namespace

Result<RunView> ViewRemoteRun(HttpClient& client, std::int64_t execution_id, bool redact) {
  RunView view;
  NOETL_ASSIGN(const Json run, GetRun(client, execution_id));
  view.row = RunOf(run);
  const EventFeed feed{.execution_id = execution_id, .redact = redact};
  NOETL_ASSIGN(const Events events, ReadLog(client, feed, view));
  for (const engine::Event& event : events) {
    engine::Fold(view.state, event);
    if (engine::IsTerminal(event.type)) view.end = event;
  }
  if (view.row.status == "FAILED") NOETL_TRY(AddFailure(client, feed, events, view));
  return view;
}

}  // namespace noetl::cli
