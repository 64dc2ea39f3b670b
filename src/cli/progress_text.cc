// The lines of a run as text.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/progress.h"

namespace noetl::cli {
namespace {

constexpr int kBarColumns = 20;
constexpr int kLabelColumns = 24;

struct MarkText {
  std::string_view utf8;
  std::string_view ascii;
  std::string_view colour;  // of the terminal
  std::string_view word;
};

const MarkText& TextOf(Mark mark) {
  static constexpr std::array<MarkText, 9> kTexts = {{
      {"✓", "+", "32", "completed"},
      {"✗", "x", "31", "failed"},
      {"!", "!", "33", "completed with an error"},
      {"↷", "-", "2", "skipped"},
      {"■", "#", "33", "cancelled"},
      {"•", "*", "36", "running"},
      {"▸", ">", "2", ""},
      {"•", "*", "36", "started"},
      {"•", "*", "36", "running"},
  }};
  return kTexts[static_cast<std::size_t>(mark)];
}

struct Decoded {
  char32_t code = 0;
  std::size_t bytes = 1;
};

// Invalid bytes come back as U+FFFD, one at a time.
Decoded Decode(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  const std::size_t bytes = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (bytes == 1) return {first, 1};
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {0xfffd, 1};
  char32_t code = first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return {0xfffd, 1};
    code = code << 6 | (at(i) & 0x3fu);
  }
  static constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || surrogate || code > 0x10ffff) return {0xfffd, 1};
  return {code, bytes};
}

// East Asian letters and most pictures take two columns, combining marks none.
int ColumnsOf(char32_t code) {
  if ((code >= 0x300 && code < 0x370) || (code >= 0x200b && code <= 0x200f) ||
      (code >= 0xfe00 && code <= 0xfe0f))
    return 0;
  const bool wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
                    (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
                    (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
                    (code >= 0x1f300 && code <= 0x1faff) || (code >= 0x20000 && code <= 0x3fffd);
  return wide ? 2 : 1;
}

int WidthOf(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const Decoded next = Decode(text);
    columns += ColumnsOf(next.code);
    text.remove_prefix(next.bytes);
  }
  return columns;
}

std::string Bar(const ProgressLine& line, bool utf8) {
  const std::int64_t done = std::clamp<std::int64_t>(line.done, 0, line.total);
  const int full = static_cast<int>(done * kBarColumns / line.total);
  std::string bar;
  for (int i = 0; i < kBarColumns; ++i) {
    if (utf8) bar += i < full ? "█" : "░";
    else bar += i < full ? '#' : '.';
  }
  return bar;
}

std::string CountText(const ProgressLine& line) {
  std::string text =
      line.total > 0 ? fmt::format("{}/{}", line.done, line.total) : std::to_string(line.done);
  if (line.failed > 0) text += fmt::format(", {} failed", line.failed);
  return text;
}

}  // namespace

std::string DurationText(std::int64_t micros) {
  const std::int64_t ms = std::max<std::int64_t>(micros, 0) / 1'000;
  if (ms < 1'000) return fmt::format("{} ms", ms);
  if (ms < 60'000) return fmt::format("{}.{} s", ms / 1'000, ms % 1'000 / 100);
  const std::int64_t seconds = ms / 1'000;
  if (seconds < 3'600) return fmt::format("{} m {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} m", seconds / 3'600, seconds % 3'600 / 60);
}

std::string CleanText(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const Decoded next = Decode(text);
    // Control characters of both halves: a terminal would act on them.
    const bool control = next.code < 0x20 || (next.code >= 0x7f && next.code < 0xa0);
    if (control) {
      if (clean.empty() || clean.back() != ' ') clean += ' ';
    } else if (next.code == 0xfffd && next.bytes == 1) {
      clean += '?';
    } else {
      clean += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return clean;
}

std::string CutToColumns(std::string_view text, int columns, bool utf8) {
  if (WidthOf(text) <= columns) return std::string(text);
  const std::string_view sign = utf8 ? "…" : "~";
  std::string cut;
  int used = 1;
  while (!text.empty()) {
    const Decoded next = Decode(text);
    used += ColumnsOf(next.code);
    if (used > columns) break;
    cut += text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
  }
  return columns > 0 ? cut + std::string(sign) : "";
}

std::string TerminalLine(const ProgressLine& line, const Look& look) {
  const MarkText& text = TextOf(line.mark);
  std::string rest = CleanText(line.label);
  if (line.mark != Mark::kChild) {
    rest.append(
        static_cast<std::size_t>(std::max(kLabelColumns - 2 * line.depth - WidthOf(rest), 0)), ' ');
  }
  if (line.loop && line.mark == Mark::kRunning && line.total > 0)
    rest += " " + Bar(line, look.utf8);
  if (line.loop) rest += " " + CountText(line);
  if (line.elapsed_us >= 0) rest += " " + DurationText(line.elapsed_us);
  const bool says = line.mark == Mark::kSkipped || line.mark == Mark::kCancelled;
  if (says) rest += fmt::format(" {}", text.word);
  if (!line.detail.empty()) rest += "  " + CleanText(line.detail);
  while (rest.ends_with(' ')) rest.pop_back();
  const std::string indent(static_cast<std::size_t>(2 * line.depth), ' ');
  const std::string_view mark = look.utf8 ? text.utf8 : text.ascii;
  const std::string painted =
      look.colours ? fmt::format("\x1b[{}m{}\x1b[0m", text.colour, mark) : std::string(mark);
  // The last column stays free: some terminals break the line when it is used.
  return indent + painted + " " +
         CutToColumns(rest, look.width - static_cast<int>(indent.size()) - 3, look.utf8);
}

std::string PlainLine(const ProgressLine& line) {
  const std::string indent(static_cast<std::size_t>(2 * line.depth), ' ');
  if (line.mark == Mark::kChild) return indent + CleanText(line.label);
  std::string text =
      fmt::format("{}step {}: {}", indent, CleanText(line.label), TextOf(line.mark).word);
  const bool on_its_way = line.mark == Mark::kLoopStarted || line.mark == Mark::kLoopAdvanced;
  if (line.elapsed_us >= 0) text += " in " + DurationText(line.elapsed_us);
  if (line.loop)
    text += on_its_way ? ", " + CountText(line) : fmt::format(" ({})", CountText(line));
  if (!line.detail.empty()) text += ": " + CleanText(line.detail);
  return text;
}

}  // namespace noetl::cli
