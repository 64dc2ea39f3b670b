#include "cli/run_watch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace noetl::cli {
namespace {

using std::chrono::steady_clock;

// Redrawn so often, and a signal is seen within it.
constexpr std::chrono::milliseconds kTick{100};
// A run of another process: how often to look whether that process is still there.
constexpr std::chrono::milliseconds kOwnerCheck{250};
// Tools that were asked to stop get so long before the cancel is recorded all the same.
constexpr std::chrono::seconds kStopSeconds{10};
constexpr std::int64_t kEventsPage = 1'000;
constexpr std::int64_t kLogsPage = 100;

constexpr std::string_view kStopReason = "interrupted by the user";

std::atomic<int> g_stop_signals = 0;

extern "C" void OnStopSignal(int) {
  if (g_stop_signals.fetch_add(1) >= 1) _exit(kExitLeft);
}

}  // namespace

StopSignals::StopSignals() {
  g_stop_signals = 0;
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, OnStopSignal);
}

StopSignals::~StopSignals() {
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
}

bool StopSignals::Asked() { return g_stop_signals > 0; }

void AddWatchOptions(Parser& parser, WatchOptions* options) {
  AddOutputOptions(parser, &options->output);
  parser.Flag("--strict", &options->strict,
              "exit code 1 also for errors that did not stop the run");
  parser.Flag("-v,--verbose", &options->verbose, "show what tools write");
}

RunWatch::RunWatch(Console* console, WatchOptions options)
    : console_(console),
      options_(options),
      display_(console, RunDisplay::ModeFor(*console, !options.for_people())) {}

void RunWatch::Watch(std::int64_t execution_id) {
  const std::lock_guard lock(mutex_);
  progress_.Watch(execution_id);
  behind_.insert(execution_id);
}

// ---- events

void RunWatch::OnEvents(const store::ExecutionRow& execution,
                        std::span<const store::EventRow> events) {
  const std::lock_guard lock(mutex_);
  for (const store::EventRow& row : events) {
    if (progress_.Feed(row.event) == Progress::Fed::kGap) behind_.insert(execution.execution_id);
  }
  if (execution.terminal) changed_.notify_all();
}

// Read from the store, where it is before the end of its command.
Status RunWatch::ShowOutput(const store::Store& store) {
  if (!options_.verbose) return {};
  std::vector<std::int64_t> open;
  {
    const std::lock_guard lock(mutex_);
    for (const std::int64_t id : progress_.TakeShown()) output_.try_emplace(id, 0);
    open = progress_.OpenRuns();
  }
  for (auto run = output_.begin(); run != output_.end();) {
    auto& [id, seen] = *run;
    for (bool more = true; more;) {
      NOETL_ASSIGN(const auto chunks, store.ReadLogs(id, 0, seen, kLogsPage));
      for (const store::LogChunk& chunk : chunks) SayOutput(chunk);
      seen += std::ssize(chunks);
      more = std::ssize(chunks) == kLogsPage;
    }
    run = std::ranges::find(open, id) == open.end() ? output_.erase(run) : std::next(run);
  }
  return {};
}

void RunWatch::SayOutput(const store::LogChunk& chunk) {
  for (std::string_view rest = chunk.text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    Say(fmt::format("{} | {}", chunk.step, CleanText(rest.substr(0, end))));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

Status RunWatch::CatchUpRun(const store::EventLog& log, std::int64_t execution_id) {
  while (true) {
    std::int64_t after = 0;
    {
      const std::lock_guard lock(mutex_);
      after = progress_.SeqOf(execution_id);
    }
    NOETL_ASSIGN(const auto events, log.ReadEvents(execution_id, after, kEventsPage));
    const std::lock_guard lock(mutex_);
    for (const engine::Event& event : events) progress_.Feed(event);
    if (std::ssize(events) < kEventsPage) return {};
  }
}

// Reading a run may show children that are behind as well. A run is read once: one that fell behind
// while it was read, since more was stored, stays marked for the next call.
Status RunWatch::CatchUp(const store::EventLog& log, bool all) {
  std::set<std::int64_t> read;
  while (true) {
    std::vector<std::int64_t> wanted;
    {
      const std::lock_guard lock(mutex_);
      for (const std::int64_t id : progress_.OpenRuns()) {
        const bool fresh = progress_.SeqOf(id) == 0;
        if (read.contains(id) || !(all || fresh || behind_.contains(id))) continue;
        wanted.push_back(id);
        behind_.erase(id);
      }
    }
    if (wanted.empty()) return {};
    for (const std::int64_t id : wanted) {
      read.insert(id);
      NOETL_TRY(CatchUpRun(log, id));
    }
  }
}

// ---- waiting

bool RunWatch::Ended() {
  const std::lock_guard lock(mutex_);
  return progress_.AllEnded();
}

std::vector<std::int64_t> RunWatch::OpenWatched() {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> open;
  for (const WatchedRun* run : progress_.Watched()) {
    if (!run->end) open.push_back(run->execution_id);
  }
  return open;
}

void RunWatch::Draw(std::int64_t now_us) {
  std::vector<ProgressLine> ended;
  std::vector<ProgressLine> running;
  {
    const std::lock_guard lock(mutex_);
    ended = progress_.TakeLines();
    running = progress_.RunningLines(now_us);
  }
  display_.Show(ended, running);
}

Status RunWatch::StopRuns(Backend& backend) {
  for (const std::int64_t id : OpenWatched())
    NOETL_TRY(backend.Cancel(id, std::string(kStopReason)));
  return {};
}

Status RunWatch::Wait(Backend& backend) {
  std::atomic<bool> stopped = false;
  bool stopping = false;
  bool cancelled = false;
  steady_clock::time_point cancel_at;
  auto owner_check = steady_clock::now();
  while (true) {
    NOETL_TRY(CatchUp(backend.store(), !backend.owns()));
    NOETL_TRY(ShowOutput(backend.store()));
    Draw(backend.NowMicros());
    if (Ended()) return {};
    const auto now = steady_clock::now();
    if (StopSignals::Asked() && !stopping) {
      stopping = true;
      cancel_at = now + kStopSeconds;
      Say(backend.owns() ? "stopping ... (once more to leave at once; `noetl resume` continues)"
                         : "stopping ... (once more to leave; the run then goes on)");
      if (backend.owns()) backend.StopTools([&stopped] { stopped = true; });
      else stopped = true;  // its owner stops the tools when it cancels
    }
    if (stopping && !cancelled && (stopped || now >= cancel_at)) {
      NOETL_TRY(StopRuns(backend));
      cancelled = true;
    }
    if (!backend.owns() && now >= owner_check) {
      owner_check = now + kOwnerCheck;
      NOETL_ASSIGN(const bool taken, backend.TakeOver());
      if (taken) Say("the process that ran this has gone; continuing here");
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kTick, [&] { return progress_.AllEnded(); });
  }
}

}  // namespace noetl::cli
