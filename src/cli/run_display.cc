#include "cli/run_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/text.h"

namespace noetl::cli {
namespace {

// More running steps are only counted.
constexpr int kRunningLinesMax = 12;
constexpr int kColumnsMin = 20;

}  // namespace

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string lower = ToLower(value);
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

RunDisplay::Mode RunDisplay::ModeFor(const Console& console, bool silent) {
  if (silent) return Mode::kSilent;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return console.err_is_terminal() && !dumb ? Mode::kLive : Mode::kPlain;
}

RunDisplay::RunDisplay(Console* console, Mode mode) : console_(console), mode_(mode) {
  look_.utf8 = LocaleIsUtf8();
  look_.colours = !console->PaintErr(Style::kBold, "").empty();
}

void RunDisplay::MeasureWindow() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
  look_.width = std::max<int>(size.ws_col, kColumnsMin);
  rows_ = std::max<int>(size.ws_row, 4);
}

std::string RunDisplay::Erased() {
  const int lines = std::exchange(drawn_, 0);
  return lines == 0 ? "" : fmt::format("\x1b[{}A\r\x1b[J", lines);
}

void RunDisplay::Show(std::span<const ProgressLine> ended, std::span<const ProgressLine> running) {
  if (mode_ == Mode::kSilent) return;
  std::string text;
  if (mode_ == Mode::kPlain) {
    for (const ProgressLine& line : ended) text += PlainLine(line) + "\n";
    if (!text.empty()) console_->Err(text);
    return;
  }
  MeasureWindow();
  text = Erased();
  for (const ProgressLine& line : ended) {
    if (line.mark != Mark::kLoopStarted && line.mark != Mark::kLoopAdvanced)
      text += TerminalLine(line, look_) + "\n";
  }
  const std::size_t room = static_cast<std::size_t>(std::min(kRunningLinesMax, rows_ - 2));
  const std::size_t shown = running.size() <= room ? running.size() : room - 1;
  for (const ProgressLine& line : running.first(shown)) text += TerminalLine(line, look_) + "\n";
  if (shown < running.size()) text += fmt::format("  and {} more\n", running.size() - shown);
  drawn_ = static_cast<int>(shown + (shown < running.size() ? 1 : 0));
  if (!text.empty()) console_->Err(text);
}

void RunDisplay::Say(std::string_view text) {
  if (mode_ != Mode::kSilent) console_->Err(fmt::format("{}{}\n", Erased(), text));
}

void RunDisplay::Clear() {
  if (const std::string text = Erased(); !text.empty()) console_->Err(text);
}

}  // namespace noetl::cli
