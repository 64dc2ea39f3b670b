// What is said of runs that have ended.

#include <algorithm>

#include <fmt/format.h>

#include "base/json_io.h"
#include "cli/files.h"
#include "cli/run_watch.h"

namespace noetl::cli {
namespace {

// People get a summary of a result that is stored apart; --json has the whole of it up to this size.
constexpr std::int64_t kLoadedResultBytesMax = 64 << 20;
constexpr std::size_t kShownErrorsMax = 10;

std::string StatusOf(const WatchedRun& run) { return run.end ? run.end->status : "RUNNING"; }

// The result of a run: what it gave, or the reference to where that is kept.
Json ResultOf(const engine::Event& end) {
  const Json& reference = end.result["reference"];
  return reference.is_object() ? reference : end.result["context"]["data"];
}

bool IsReference(const Json& result) { return result["kind"].AsString() == "result_ref"; }

// completed, failed, skipped or cancelled.
std::string StepStatus(const EndedStep& step) {
  if (step.status == "soft") return "COMPLETED";
  if (step.status == "denied") return "SKIPPED";
  std::string status = step.status;
  std::ranges::transform(status, status.begin(), [](unsigned char c) { return std::toupper(c); });
  return status;
}

std::string ErrorOf(const engine::Event& end) {
  std::string error = end.error;
  const std::string first = end.meta["first_error"].ToString();
  if (!first.empty()) error = error.empty() ? first : fmt::format("{}: {}", error, first);
  return error;
}

Json StepsOf(const WatchedRun& run) {
  std::vector<Json> steps;
  for (const EndedStep& step : run.steps) {
    JsonObjectBuilder entry;
    entry.Add("step", step.step)
        .Add("run", step.run)
        .Add("status", StepStatus(step))
        .Add("duration_ms", step.duration_us / 1'000);
    if (!step.error.empty()) entry.Add("error", step.error);
    steps.push_back(entry.Build());
  }
  return Json::Array(std::move(steps));
}

}  // namespace

int ExitCodeOf(const WatchedRun& run, bool strict) {
  const std::string status = StatusOf(run);
  if (status == "CANCELLED") return kExitCancelled;
  if (status != "COMPLETED") return kExitFailed;
  return strict && run.end->meta["soft_error_count"].AsInt() > 0 ? kExitFailed : kExitOk;
}

Json RunDocument(const WatchedRun& run, const LoadResult& load) {
  Json result;
  Json error;
  Json soft = Json::Array();
  if (run.end) {
    result = ResultOf(*run.end);
    if (IsReference(result) && result["meta"]["bytes"].AsInt() <= kLoadedResultBytesMax) {
      if (auto loaded = load(result["ref"].ToString())) result = *std::move(loaded);
    }
    if (const std::string text = ErrorOf(*run.end); !text.empty()) error = text;
    if (run.end->meta["soft_errors"].is_array()) soft = run.end->meta["soft_errors"];
  }
  JsonObjectBuilder document;
  document.Add("execution_id", std::to_string(run.execution_id))
      .Add("path", run.path)
      .Add("status", StatusOf(run))
      .Add("result", std::move(result))
      .Add("error", std::move(error))
      .Add("soft_errors", std::move(soft))
      .Add("steps", StepsOf(run));
  if (run.unlisted_steps > 0) document.Add("unlisted_steps", run.unlisted_steps);
  document.Add("duration_ms", (run.ended_us - run.started_us) / 1'000);
  return document.Build();
}

namespace {

void SaySoftErrors(const WatchedRun& run, const Console& console, RunDisplay& display) {
  const std::int64_t count = run.end->meta["soft_error_count"].AsInt();
  if (count == 0) return;
  display.Say(console.PaintErr(
      Style::kYellow,
      fmt::format("{} did not stop the run:", Count(static_cast<std::size_t>(count), "error"))));
  const auto errors = run.end->meta["soft_errors"].items();
  for (std::size_t i = 0; i < std::min(errors.size(), kShownErrorsMax); ++i) {
    const Json& soft = errors[i];
    const std::string index =
        soft["index"].is_int() ? fmt::format("[{}]", soft["index"].AsInt()) : "";
    display.Say(fmt::format("  step {}{}: {}", CleanText(soft["step"].AsString()), index,
                            CleanText(soft["error"].AsString())));
  }
  if (errors.size() > kShownErrorsMax) {
    display.Say(
        fmt::format("  ... and {} more", count - static_cast<std::int64_t>(kShownErrorsMax)));
  }
}

}  // namespace

void SayEnd(const WatchedRun& run, const Console& console, RunDisplay& display) {
  const std::string status = StatusOf(run);
  const Style style = status == "COMPLETED" ? Style::kGreen
                      : status == "FAILED"  ? Style::kRed
                                            : Style::kYellow;
  const std::string error = ErrorOf(*run.end);
  display.Say(fmt::format("{} in {}: {}, run {}", console.PaintErr(style, status),
                          DurationText(run.ended_us - run.started_us), CleanText(run.path),
                          run.execution_id));
  if (!error.empty()) display.Say("  " + CleanText(error));
  SaySoftErrors(run, console, display);
}

void ShowResult(const WatchedRun& run, Console& console, RunDisplay& display) {
  const Json result = ResultOf(*run.end);
  if (IsReference(result)) {
    display.Say(fmt::format("The result has {} bytes; this is a summary of it, stored as {}",
                            result["meta"]["bytes"].AsInt(), result["ref"].AsString()));
    console.Out(WriteJsonPretty(result["extracted"]) + "\n");
  } else if (!result.is_null()) {
    console.Out(WriteJsonPretty(result) + "\n");
  }
  display.Say(console.PaintErr(Style::kDim, fmt::format("noetl show {}", run.execution_id)));
}

// Runs that it started without waiting for them end with this process, and are not lost.
void RunWatch::ShowDetached(const store::Store& store, const WatchedRun& run) {
  const auto open = OpenRunsOf(store);
  if (!open) return;
  const auto count = std::ranges::count(*open, run.execution_id, &OpenRun::parent_execution_id);
  if (count == 0) return;
  Say(fmt::format("It started {} that did not end yet; `noetl resume` continues with that.",
                  Count(static_cast<std::size_t>(count), "run")));
}

void RunWatch::ShowOutcome(const store::Store& store, const WatchedRun& run) {
  SayEnd(run, *console_, display_);
  ShowDetached(store, run);
  ShowResult(run, *console_, display_);
}

int RunWatch::Report(const store::Store& store, bool list) {
  display_.Clear();
  const std::lock_guard lock(mutex_);
  const LoadResult load = [&](const std::string& ref) { return store.Load(ref); };
  std::vector<Json> documents;
  int code = kExitOk;
  for (const WatchedRun* run : progress_.Watched()) {
    const int own = ExitCodeOf(*run, options_.strict);
    if (own == kExitFailed || code == kExitOk) code = own;
    if (options_.for_people()) ShowOutcome(store, *run);
    else documents.push_back(RunDocument(*run, load));
  }
  if (!options_.for_people()) {
    const Json document =
        list ? Json::Object({{"runs", Json::Array(std::move(documents))}}) : documents.at(0);
    PrintDocument(document, options_.output, *console_);
  }
  return code;
}

}  // namespace noetl::cli
