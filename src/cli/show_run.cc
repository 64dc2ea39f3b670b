#include "cli/show_run.h"

#include <algorithm>

#include "cli/data.h"
#include "engine/fold.h"

namespace noetl::cli {

namespace {

constexpr std::int64_t kPageChunks = 64;
// Of what a tool wrote to its error stream.
constexpr std::size_t kTailBytes = 4'000;
constexpr std::size_t kTailLines = 20;

}  // namespace

// ---- pieces of a failure

// Either ending of a command can be a failure: the tool said so, or it did not come back.
bool IsFailure(const engine::Event& event) {
  return event.meta["outcome"].AsString() == "failed" ||
         event.meta["route"]["outcome"].AsString() == "failed";
}

RunFailure FailureOf(const RunView& view) {
  RunFailure failure;
  if (!view.state.failed_steps.empty()) failure.step = view.state.failed_steps.front();
  else if (view.end) failure.step = view.end->meta["failed_steps"].At(0).ToString();
  failure.error = view.state.first_error.empty() ? view.row.error : view.state.first_error;
  if (const engine::StepState* step = view.state.Find(failure.step); step && step->result) {
    failure.error_info = step->result->error_info;
    failure.attempt = step->result->meta["attempt"].AsInt();
  }
  return failure;
}

void AddFailedEvent(const engine::Event& event, std::int64_t command_id, RunFailure& failure) {
  if (failure.error.empty()) failure.error = event.error;
  failure.command_id = command_id;
  if (const Json& info = event.result["context"]["error_info"]; info.is_object())
    failure.error_info = info;
}

void AddIssued(const engine::Event& issued, RunFailure& failure) {
  failure.attempt = issued.meta["attempt"].AsInt(1);
  failure.iteration = issued.meta["iteration_index"].AsInt(-1);
  JsonObjectBuilder input;
  for (const char* name : {"tool_config", "args", "iteration"}) {
    if (const Json& part = issued.context[name]; !part.is_container() || !part.empty())
      input.AddSome(name, part);
  }
  failure.input = input.Build();
}

void AddToTail(const store::LogChunk& chunk, std::string* tail) {
  if (chunk.stream != "stderr") return;
  *tail += chunk.text;
  if (tail->size() > kTailBytes) tail->erase(0, tail->size() - kTailBytes);
}

std::string LinesOfTail(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::size_t start = text.size();
  for (std::size_t lines = 0; lines < kTailLines && start != 0 && start != std::string::npos;
       ++lines)
    start = text.rfind('\n', start - 1);
  if (start != 0 && start != std::string::npos) text.erase(0, start + 1);
  // A character that was cut in half.
  while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80) text.erase(0, 1);
  return text;
}

namespace {

Status FoldRange(const store::Store& store, RunView& view, std::int64_t after, std::int64_t until) {
  while (after < until) {
    NOETL_ASSIGN(
        const std::vector<engine::Event> events,
        store.ReadEvents(view.row.execution_id, after, std::min(kPageEvents, until - after)));
    if (events.empty()) return {};  // purged meanwhile
    for (const engine::Event& event : events) engine::Fold(view.state, event);
    after = events.back().seq;
  }
  return {};
}

Status FoldRun(const store::Store& store, RunView& view) {
  NOETL_ASSIGN(const std::optional<store::SnapshotRow> snapshot,
               store.LoadSnapshot(view.row.execution_id));
  std::int64_t folded = 0;
  if (snapshot && snapshot->seq <= view.row.head) {
    // One that cannot be read is as good as none.
    if (Result<engine::State> state = engine::ReadSnapshot(snapshot->text)) {
      view.state = *std::move(state);
      folded = snapshot->seq;
    }
  }
  if (view.row.head - folded <= kFoldedEventsMax)
    return FoldRange(store, view, folded, view.row.head);
  view.partial = true;
  if (folded == 0) NOETL_TRY(FoldRange(store, view, 0, kOldestEvents));
  return FoldRange(store, view, view.row.head - kNewestEvents, view.row.head);
}

Result<std::string> StderrTail(const store::Store& store, std::int64_t execution_id,
                               std::int64_t command_id) {
  std::string text;
  std::int64_t seen = 0;
  while (true) {
    NOETL_ASSIGN(const std::vector<store::LogChunk> chunks,
                 store.ReadLogs(execution_id, command_id, seen, kPageChunks));
    for (const store::LogChunk& chunk : chunks) AddToTail(chunk, &text);
    seen += std::ssize(chunks);
    if (std::ssize(chunks) < kPageChunks) break;
  }
  return LinesOfTail(std::move(text));
}

// The first failure of the step among the newest events.
Result<std::optional<store::EventRow>> FindFailure(const store::Store& store, const RunView& view,
                                                   std::string_view step) {
  std::int64_t after = std::max<std::int64_t>(view.row.head - kNewestEvents, 0);
  std::optional<store::EventRow> found;
  while (after < view.row.head) {
    NOETL_ASSIGN(const std::vector<store::EventRow> rows,
                 store.ReadRows(view.row.execution_id, after, kPageEvents));
    if (rows.empty()) break;
    for (const store::EventRow& row : rows) {
      const engine::Event& event = row.event;
      after = event.seq;
      if (event.node_name != step || !IsFailure(event)) continue;
      if (!found || found->command_id == 0) found = row;
    }
    if (found && found->command_id != 0) break;
  }
  return found;
}

Status AddCommand(const store::Store& store, const RunView& view, RunFailure& failure) {
  NOETL_ASSIGN(const std::optional<store::EventRow> event, FindFailure(store, view, failure.step));
  if (!event) return {};
  AddFailedEvent(event->event, event->command_id, failure);
  if (failure.command_id == 0) return {};
  NOETL_ASSIGN(const std::optional<engine::Event> issued,
               store.FindEvent(view.row.execution_id, failure.command_id));
  if (issued) AddIssued(*issued, failure);
  NOETL_ASSIGN(failure.stderr_tail, StderrTail(store, view.row.execution_id, failure.command_id));
  return {};
}

Status AddFailure(const store::Store& store, RunView& view) {
  RunFailure failure = FailureOf(view);
  if (!failure.step.empty()) NOETL_TRY(AddCommand(store, view, failure));
  view.failure = std::move(failure);
  return {};
}

}  // namespace

Result<RunView> ViewRun(const store::Store& store, const store::ExecutionRow& row) {
  RunView view;
  view.row = row;
  NOETL_TRY(FoldRun(store, view));
  if (!row.terminal) return view;
  NOETL_ASSIGN(view.end, store.FindEvent(row.execution_id, row.last_event_id));
  if (row.status == "FAILED") NOETL_TRY(AddFailure(store, view));
  return view;
}

Json RunResult(const RunView& view) {
  if (!view.end) return Json();
  const Json& result = view.end->result;
  if (const Json& reference = result["reference"]; reference.is_object()) return reference;
  const Json* data = result["context"].Find("data");
  return data ? Json::Object({{"data", *data}}) : Json();
}

}  // namespace noetl::cli
