#include "cli/console.h"

#include <array>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace noetl::cli {

Console::Console() : out_terminal_(isatty(1) == 1), err_terminal_(isatty(2) == 1) {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool wanted =
      !(no_color && *no_color != '\0') && !(term && std::string_view(term) == "dumb");
  out_colours_ = out_terminal_ && wanted;
  err_colours_ = err_terminal_ && wanted;
}

void Console::Write(int descriptor, std::string_view text, bool* closed) {
  while (!text.empty() && !*closed) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written >= 0) text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR) *closed = true;
  }
}

std::string Console::Painted(Style style, std::string_view text, bool colours) {
  constexpr std::array<std::string_view, 6> kCodes = {"", "1", "31", "32", "33", "2"};
  const std::string_view code = kCodes[static_cast<std::size_t>(style)];
  if (!colours || code.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void Console::Progress(std::string_view text) {
  if (!err_terminal_) return;
  progress_ = true;
  Err(fmt::format("\r{}\x1b[K", text));
}

void Console::EndProgress() {
  if (progress_) Err("\r\x1b[K");
  progress_ = false;
}

}  // namespace noetl::cli
