// Which process serves a folder, and ending it.
//
// A service holds a lock on its pid file (mode 0600) for as long as it lives; the kernel lets go of
// it however the process ends, and tells who has it. What the file says is for people: a file that
// was left behind points at nobody. The file stays when the service ends, since removing it could
// take the lock of the next one away. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/console.h"
#include "cli/parser.h"

namespace noetl::cli {

class PidFile {
 public:
  // The folder must exist. `name` stands in the second line. Errors: "locked" names the process
  // that has it, "io".
  static Result<std::unique_ptr<PidFile>> Take(const std::string& path, std::string_view name);
  ~PidFile();
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

 private:
  explicit PidFile(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

struct Service {
  int pid = 0;
  std::string name;  // as it was given to `Take`
};
// The process that holds the file; nullopt: none, whatever the file says.
Result<std::optional<Service>> FindService(const std::string& path);

struct StopOptions {
  std::string timeout = "60s";  // for its end
  bool force = false;           // then it is killed
};
// Declares them; `options` outlives the parser.
void AddStopOptions(Parser& parser, StopOptions* options);

// Asks the service to end (SIGTERM) and waits for that, with a line of progress. The file must
// still be held by the same process when the signal goes out. `what` is "server". Errors: "usage",
// "io", "gone" when it ended meanwhile, "timeout" when it is still there.
Status StopService(std::string_view what, const std::string& path, const Service& service,
                   const StopOptions& options, Console& console);

}  // namespace noetl::cli
