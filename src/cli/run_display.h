// Draws the lines of runs on the error stream: live on a terminal, line by line into a file.
//
// One thread. The destructor leaves a clean terminal.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/progress.h"

namespace noetl::cli {

class RunDisplay {
 public:
  enum class Mode { kLive, kPlain, kSilent };

  RunDisplay(Console* console, Mode mode);
  ~RunDisplay() { Clear(); }
  RunDisplay(const RunDisplay&) = delete;
  RunDisplay& operator=(const RunDisplay&) = delete;

  // Live on a terminal that can move its cursor.
  static Mode ModeFor(const Console& console, bool silent);

  // Lines that stay, then those of what runs now.
  void Show(std::span<const ProgressLine> ended, std::span<const ProgressLine> running);
  // One line that stays.
  void Say(std::string_view text);
  // Takes the lines of what runs off the screen.
  void Clear();
  const Look& look() const { return look_; }

 private:
  std::string Erased();
  void MeasureWindow();

  Console* console_;
  Mode mode_;
  Look look_;
  int rows_ = 24;
  int drawn_ = 0;  // lines of what runs that are on the screen
};

// Whether the locale of this process writes UTF-8.
bool LocaleIsUtf8();

}  // namespace noetl::cli
