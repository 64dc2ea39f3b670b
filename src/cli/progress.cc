#include "cli/progress.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace noetl::cli {

using engine::Event;
using engine::EventType;

namespace {

// Notes about the way of a loop for readers of files.
constexpr std::int64_t kLoopNotes = 10;

Mark MarkOf(std::string_view outcome) {
  static constexpr std::array<std::pair<std::string_view, Mark>, 6> kMarks = {{
      {"completed", Mark::kDone},
      {"failed", Mark::kFailed},
      {"soft", Mark::kSoft},
      {"skipped", Mark::kSkipped},
      {"denied", Mark::kSkipped},
      {"cancelled", Mark::kCancelled},
  }};
  for (const auto& [name, mark] : kMarks) {
    if (name == outcome) return mark;
  }
  return Mark::kDone;
}

bool EndsCommand(EventType type) {
  return type == EventType::kCommandCompleted || type == EventType::kCommandFailed;
}

}  // namespace

// ---- events in

void Progress::Watch(std::int64_t execution_id) {
  if (runs_.contains(execution_id)) return;
  watched_.push_back(execution_id);
  shown_.push_back(execution_id);
  runs_[execution_id].watched.execution_id = execution_id;
}

Progress::Fed Progress::Feed(const Event& event) {
  auto found = runs_.find(event.execution_id);
  if (found == runs_.end() && event.type == EventType::kPlaybookStarted) {
    // A child that a task of a pipeline waits for is known only by its parent.
    const auto parent = runs_.find(event.parent_execution_id);
    if (parent != runs_.end() && !parent->second.ended)
      ShowChild(parent->second, event.meta["parent_step"].ToString(), event.execution_id);
    found = runs_.find(event.execution_id);
  }
  if (found == runs_.end()) return Fed::kOther;
  ShownRun& run = found->second;
  if (event.seq <= run.seq) return Fed::kTaken;
  if (event.seq != run.seq + 1) return Fed::kGap;
  run.seq = event.seq;
  Take(run, event);
  return Fed::kTaken;
}

void Progress::Take(ShownRun& run, const Event& event) {
  switch (event.type) {
    case EventType::kPlaybookStarted: return Begin(run, event);
    case EventType::kPlaybookCompleted:
    case EventType::kPlaybookFailed:
    case EventType::kPlaybookCancelled: return End(run, event);
    case EventType::kStepEnter: return Enter(run, event);
    case EventType::kCommandIssued:
      return ShowChild(run, event.node_name, event.meta["child_execution_id"].AsInt());
    case EventType::kCommandCancelled:
      // Other reasons are followed by a new command or by the end of the step.
      if (const auto open = run.open.find(event.node_name);
          open != run.open.end() && !open->second.loop &&
          event.meta["reason"].AsString() == "withdrawn") {
        CloseStep(run, event, "cancelled", open->second.run);
      }
      return;
    default: break;
  }
  const Json& route = event.meta["route"];
  if (route.is_object()) {
    return CloseStep(run, event, route["outcome"].AsString(), route["run"].AsInt());
  }
  if (event.type == EventType::kStepSkipped) return CloseStep(run, event, "skipped", 0);
  if (EndsCommand(event.type)) CountIteration(run, event);
}

// Children of loops are counted by the loop; their steps would flood the screen.
void Progress::ShowChild(ShownRun& parent, const std::string& step, std::int64_t child) {
  if (child == 0 || runs_.contains(child)) return;
  const auto open = parent.open.find(step);
  if (open != parent.open.end() && open->second.loop) return;
  shown_.push_back(child);
  ShownRun& run = runs_[child];
  run.parent = parent.watched.execution_id;
  run.parent_step = step;
  run.depth = parent.depth + 1;
  run.watched.execution_id = child;
}

void Progress::Begin(ShownRun& run, const Event& event) {
  run.watched.path = event.context["path"].ToString();
  run.watched.started_us = event.created_at_us;
  if (run.parent == 0 && watched_.size() == 1) return;
  const std::string caller =
      run.parent_step.empty() ? "" : fmt::format("{}: calls ", run.parent_step);
  lines_.push_back(
      {.mark = Mark::kChild,
       .depth = std::max(run.depth - 1, 0),
       .label = fmt::format("{}{}, run {}", caller, run.watched.path, event.execution_id)});
}

void Progress::Enter(ShownRun& run, const Event& event) {
  const Json& context = event.result["context"];
  OpenStep open{
      .order = next_order_++, .run = context["run"].AsInt(), .entered_us = event.created_at_us};
  const Json& expected = context["iterations_expected"];
  open.loop = expected.is_int() || context["__cursor_loop"].AsBool();
  open.total = expected.AsInt();
  if (open.loop) lines_.push_back(LoopLine(run, event.node_name, open, Mark::kLoopStarted));
  run.open.insert_or_assign(event.node_name, open);
}

ProgressLine Progress::LoopLine(const ShownRun& run, const std::string& step, const OpenStep& open,
                                Mark mark) {
  return {.mark = mark,
          .depth = run.depth,
          .label = step,
          .loop = open.loop,
          .done = open.done,
          .total = open.total,
          .failed = open.failed};
}

void Progress::CountIteration(ShownRun& run, const Event& event) {
  const std::string_view outcome = event.meta["outcome"].AsString();
  // Claims of cursor loops carry the number of their rows.
  if (outcome.empty() || outcome == "retry" || event.meta["rows"].is_int()) return;
  const auto found = run.open.find(event.node_name);
  if (found == run.open.end() || !found->second.loop) return;
  OpenStep& open = found->second;
  ++open.done;
  if (outcome != "completed") ++open.failed;
  const auto tenths = [&](std::int64_t done) { return done * kLoopNotes / open.total; };
  if (open.total > 0 && open.done < open.total && tenths(open.done) != tenths(open.done - 1))
    lines_.push_back(LoopLine(run, found->first, open, Mark::kLoopAdvanced));
}

void Progress::CloseStep(ShownRun& run, const Event& event, std::string_view outcome,
                         std::int64_t number) {
  const auto found = run.open.find(event.node_name);
  const bool was_open = found != run.open.end();
  const OpenStep open = was_open ? found->second : OpenStep{.entered_us = event.created_at_us};
  if (was_open) run.open.erase(found);
  ProgressLine line = LoopLine(run, event.node_name, open, MarkOf(outcome));
  const bool wrong = line.mark == Mark::kFailed || line.mark == Mark::kSoft;
  std::string error;
  if (wrong) {
    error = event.meta["route"]["error"].ToString();
    if (error.empty()) error = event.error;
    if (error.empty()) error = event.result["context"]["error"].ToString();
    line.detail = error;
  }
  const std::int64_t duration = std::max<std::int64_t>(event.created_at_us - open.entered_us, 0);
  if (was_open) line.elapsed_us = duration;
  if (outcome == "denied") line.detail = "not admitted by its policy";
  lines_.push_back(line);
  if (run.parent != 0) return;
  if (run.watched.steps.size() >= kListedStepsMax) {
    ++run.watched.unlisted_steps;
    return;
  }
  run.watched.steps.push_back(
      {event.node_name, number, std::string(outcome), duration, std::move(error)});
}

void Progress::End(ShownRun& run, const Event& event) {
  std::vector<std::string> open;
  for (const auto& [step, unused] : run.open) open.push_back(step);
  for (const std::string& step : open) {
    Event cancelled = event;
    cancelled.node_name = step;
    CloseStep(run, cancelled, "cancelled", run.open[step].run);
  }
  run.ended = true;
  run.watched.ended_us = event.created_at_us;
  if (run.parent == 0) run.watched.end = event;
  else runs_.erase(event.execution_id);  // `run` is gone
}

// ---- lines out

std::vector<std::int64_t> Progress::OpenRuns() const {
  std::vector<std::int64_t> open;
  for (const auto& [id, run] : runs_) {
    if (!run.ended) open.push_back(id);
  }
  return open;
}

std::vector<std::int64_t> Progress::OpenChildren(std::int64_t parent, std::string_view step) const {
  std::vector<std::int64_t> open;
  for (const auto& [id, run] : runs_) {
    const bool of_step = step.empty() || run.parent_step == step;
    if (!run.ended && run.parent != 0 && run.parent == parent && of_step) open.push_back(id);
  }
  return open;
}

std::int64_t Progress::SeqOf(std::int64_t execution_id) const {
  const auto found = runs_.find(execution_id);
  return found == runs_.end() ? 0 : found->second.seq;
}

std::vector<const WatchedRun*> Progress::Watched() const {
  std::vector<const WatchedRun*> watched;
  for (const std::int64_t id : watched_) watched.push_back(&runs_.at(id).watched);
  return watched;
}

bool Progress::AllEnded() const {
  return std::ranges::all_of(watched_, [&](std::int64_t id) { return runs_.at(id).ended; });
}

std::vector<std::int64_t> Progress::TakeShown() { return std::exchange(shown_, {}); }

std::vector<ProgressLine> Progress::TakeLines() { return std::exchange(lines_, {}); }

std::vector<ProgressLine> Progress::RunningLines(std::int64_t now_us) const {
  std::vector<std::pair<std::int64_t, ProgressLine>> ordered;
  for (const auto& [id, run] : runs_) {
    for (const auto& [step, open] : run.open) {
      ProgressLine line = LoopLine(run, step, open, Mark::kRunning);
      line.elapsed_us = std::max<std::int64_t>(now_us - open.entered_us, 0);
      ordered.emplace_back(open.order, std::move(line));
    }
  }
  std::ranges::sort(ordered, {}, [](const auto& entry) { return entry.first; });
  std::vector<ProgressLine> lines;
  for (auto& [order, line] : ordered) lines.push_back(std::move(line));
  return lines;
}

}  // namespace noetl::cli
