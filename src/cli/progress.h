// What is shown of runs while they go: a small fold of their events into lines.
//
// Pure: events go in, lines come out; who draws them where is elsewhere (run_watch.h). Memory grows
// with the steps that are open and with the list of ended steps, which is bounded, but not with the
// iterations of loops. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/events.h"

namespace noetl::cli {

// Ended steps that are listed for a run; later ones are only counted.
inline constexpr std::size_t kListedStepsMax = 10'000;

enum class Mark : std::uint8_t {
  kDone,
  kFailed,
  kSoft,  // ended with an error that did not stop the run
  kSkipped,
  kCancelled,
  kRunning,
  kChild,         // a run whose steps follow
  kLoopStarted,   // these two only say how far a loop is
  kLoopAdvanced,  // another tenth
};

struct ProgressLine {
  Mark mark = Mark::kRunning;
  int depth = 0;
  std::string label;
  std::string detail;
  std::int64_t elapsed_us = -1;  // -1: not known
  bool loop = false;
  std::int64_t done = 0;
  std::int64_t total = 0;  // 0: not known
  std::int64_t failed = 0;
};

struct EndedStep {
  std::string step;
  std::int64_t run = 0;
  std::string status;  // completed, failed, soft, skipped, denied, cancelled
  std::int64_t duration_us = 0;
  std::string error;
};

// A run that was asked for.
struct WatchedRun {
  std::int64_t execution_id = 0;
  std::string path;
  std::int64_t started_us = 0;
  std::int64_t ended_us = 0;
  std::vector<EndedStep> steps;
  std::int64_t unlisted_steps = 0;
  std::optional<engine::Event> end;  // its terminal event
};

class Progress {
 public:
  // Shows this run, and what it starts and waits for.
  void Watch(std::int64_t execution_id);

  enum class Fed : std::uint8_t {
    kTaken,  // or known already
    kGap,    // events before this one are missing: nothing was taken
    kOther,  // of a run that is not shown
  };
  Fed Feed(const engine::Event& event);

  bool Shows(std::int64_t execution_id) const { return runs_.contains(execution_id); }
  // Runs that are shown since the last call.
  std::vector<std::int64_t> TakeShown();
  // Runs that are shown and have not ended.
  std::vector<std::int64_t> OpenRuns() const;
  // Runs that are shown, were started by this step of this one (empty: any step), and have not ended.
  std::vector<std::int64_t> OpenChildren(std::int64_t parent, std::string_view step) const;
  // Events up to this seq have been taken.
  std::int64_t SeqOf(std::int64_t execution_id) const;
  // The runs given to `Watch`, in that order.
  std::vector<const WatchedRun*> Watched() const;
  bool AllEnded() const;

  // Lines of what ended or began since the last call: they stay on the screen.
  std::vector<ProgressLine> TakeLines();
  // Lines of what runs now, oldest first.
  std::vector<ProgressLine> RunningLines(std::int64_t now_us) const;

 private:
  struct OpenStep {
    std::int64_t order = 0;
    std::int64_t run = 0;
    std::int64_t entered_us = 0;
    bool loop = false;
    std::int64_t total = 0;
    std::int64_t done = 0;
    std::int64_t failed = 0;
  };
  struct ShownRun {
    std::int64_t seq = 0;
    std::int64_t parent = 0;  // 0: given to Watch
    std::string parent_step;
    int depth = 0;
    bool ended = false;
    std::map<std::string, OpenStep, std::less<>> open;
    WatchedRun watched;
  };

  void Take(ShownRun& run, const engine::Event& event);
  void ShowChild(ShownRun& parent, const std::string& step, std::int64_t child);
  void Begin(ShownRun& run, const engine::Event& event);
  void Enter(ShownRun& run, const engine::Event& event);
  void CountIteration(ShownRun& run, const engine::Event& event);
  void CloseStep(ShownRun& run, const engine::Event& event, std::string_view outcome,
                 std::int64_t number);
  void End(ShownRun& run, const engine::Event& event);
  static ProgressLine LoopLine(const ShownRun& run, const std::string& step, const OpenStep& open,
                               Mark mark);

  std::map<std::int64_t, ShownRun> runs_;
  std::vector<std::int64_t> watched_;
  std::vector<std::int64_t> shown_;
  std::vector<ProgressLine> lines_;
  std::int64_t next_order_ = 0;
};

// ---- as text

struct Look {
  bool utf8 = true;
  bool colours = false;
  int width = 80;
};

// "12 ms", "1.2 s", "2 m 05 s", "1 h 02 m".
std::string DurationText(std::int64_t micros);
// On one line and without anything that a terminal would act on.
std::string CleanText(std::string_view text);
// At most `columns` wide on a terminal.
std::string CutToColumns(std::string_view text, int columns, bool utf8);
// One line for a terminal, not wider than it.
std::string TerminalLine(const ProgressLine& line, const Look& look);
// One line for a file: "step start: completed in 12 ms".
std::string PlainLine(const ProgressLine& line);

}  // namespace noetl::cli
