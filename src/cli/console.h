// Where the program's words go.
//
// Text for people and programs goes to the output, complaints and progress to the error stream.
// Colours only on a terminal and without NO_COLOR. When the reader goes away (`noetl schema | head
// -1`) the rest is dropped silently and the command keeps its exit code. One thread.
#pragma once

#include <string>
#include <string_view>

namespace noetl::cli {

// Exit codes.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitInvalid = 2;  // an invalid playbook, or usage
inline constexpr int kExitTimeout = 4;  // waited too long; the run goes on
inline constexpr int kExitUnreachable = 5;
inline constexpr int kExitSession = 77;  // the server wants a login

enum class Style { kPlain, kBold, kRed, kGreen, kYellow, kDim };

class Console {
 public:
  // Looks at the two streams and at NO_COLOR and TERM.
  Console();

  void Out(std::string_view text) { Write(1, text, &out_closed_); }
  void Err(std::string_view text) { Write(2, text, &err_closed_); }
  // The text with colour codes around it when the output (error stream) has colours.
  std::string Paint(Style style, std::string_view text) const {
    return Painted(style, text, out_colours_);
  }
  std::string PaintErr(Style style, std::string_view text) const {
    return Painted(style, text, err_colours_);
  }

  // Plain text from now on.
  void DropColours() { out_colours_ = err_colours_ = false; }

  bool out_is_terminal() const { return out_terminal_; }
  bool err_is_terminal() const { return err_terminal_; }
  // A line on the error stream that the next one replaces; only on a terminal.
  void Progress(std::string_view text);
  void EndProgress();

 private:
  static void Write(int descriptor, std::string_view text, bool* closed);
  static std::string Painted(Style style, std::string_view text, bool colours);

  bool out_terminal_ = false;
  bool err_terminal_ = false;
  bool out_colours_ = false;
  bool err_colours_ = false;
  bool out_closed_ = false;
  bool err_closed_ = false;
  bool progress_ = false;
};

}  // namespace noetl::cli
