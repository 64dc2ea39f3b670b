// A service that goes on when the command that started it has ended.
//
// The process is forked: nothing may have started a thread before. What the service writes goes to
// a log file; the command waits until the service is ready, and when it cannot begin it shows what
// it wrote. One thread.
#pragma once

#include <functional>
#include <string>

#include "cli/console.h"

namespace noetl::cli {

// The log of an earlier service is moved to FILE.1 when it has grown to this.
inline constexpr long long kBackgroundLogBytesMax = 16 << 20;

struct BackgroundOptions {
  std::string what;  // "server", for what is said
  std::string log;   // its folder is made when there is none
};
// Told once, when the service is ready; the text is for the user.
using Greet = std::function<void(const std::string& text)>;

// Runs `serve` in a process of its own. In that process this gives what `serve` gave, and its
// caller has to return; in the one that was called it gives the exit code of the command.
int StartInBackground(const BackgroundOptions& options,
                      const std::function<int(Console&, const Greet&)>& serve, Console& console);

}  // namespace noetl::cli
