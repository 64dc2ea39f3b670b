// Waits for runs, shows how they go, and stops them when the user asks.
//
// A `RunWatch` is the listener of the node and outlives it. Events come on the lanes' threads and
// are folded at once (progress.h); the main thread draws. Events it was not told of, because they
// are older than this process or another process runs them, are read from the store.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/backend.h"
#include "cli/console.h"
#include "cli/parser.h"
#include "cli/progress.h"
#include "cli/run_display.h"
#include "cli/table.h"
#include "conductor/conductor.h"

namespace noetl::cli {

inline constexpr int kExitCancelled = 3;
inline constexpr int kExitLeft = 130;  // by the second Ctrl-C

struct WatchOptions {
  Output output = Output::kTable;
  bool strict = false;   // errors that did not stop the run count
  bool verbose = false;  // what tools write is shown

  bool for_people() const { return output == Output::kTable; }
};
// Declares them; `options` outlives the parser.
void AddWatchOptions(Parser& parser, WatchOptions* options);

class RunWatch final : public conductor::Listener {
 public:
  RunWatch(Console* console, WatchOptions options);

  void Watch(std::int64_t execution_id);
  // One line for people, now.
  void Say(const std::string& text) { display_.Say(text); }

  // Until all runs that are watched have ended, or the user left. An error: the runs could not be
  // followed or stopped; they are as they were.
  Status Wait(Backend& backend);

  // Reads the events that it was not told of. `all`: of every run, for nobody tells.
  Status CatchUp(const store::EventLog& log, bool all);
  // All runs that are watched.
  bool Ended();

  // Prints results and what went wrong; gives the exit code. `list`: several runs, so that a
  // document has a list even when it holds one.
  int Report(const store::Store& store, bool list);

  void OnEvents(const store::ExecutionRow& execution,
                std::span<const store::EventRow> events) override;

 private:
  void Draw(std::int64_t now_us);
  // What tools wrote since the last call.
  Status ShowOutput(const store::Store& store);
  void SayOutput(const store::LogChunk& chunk);
  Status CatchUpRun(const store::EventLog& log, std::int64_t execution_id);
  Status StopRuns(Backend& backend);
  std::vector<std::int64_t> OpenWatched();
  void ShowOutcome(const store::Store& store, const WatchedRun& run);
  void ShowDetached(const store::Store& store, const WatchedRun& run);

  Console* console_;
  WatchOptions options_;
  RunDisplay display_;
  std::map<std::int64_t, std::int64_t> output_;  // runs whose output is shown, and chunks seen

  std::mutex mutex_;
  std::condition_variable changed_;
  Progress progress_;              // under the mutex
  std::set<std::int64_t> behind_;  // runs with events that are only in the store; under the mutex
};

// What is behind the reference of a stored result.
using LoadResult = std::function<Result<Json>(const std::string& ref)>;
// The one document of -o json.
Json RunDocument(const WatchedRun& run, const LoadResult& load);
int ExitCodeOf(const WatchedRun& run, bool strict);
// How a run ended, for people; then its result.
void SayEnd(const WatchedRun& run, const Console& console, RunDisplay& display);
void ShowResult(const WatchedRun& run, Console& console, RunDisplay& display);

// Ctrl-C and SIGTERM while one of these exists: the first is counted, the second leaves the process
// at once with kExitLeft.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool Asked();
};

}  // namespace noetl::cli
