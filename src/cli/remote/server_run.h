// Runs on a server: starting them, waiting for them, showing how they go.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/http_client.h"
#include "cli/parser.h"
#include "cli/table.h"

namespace noetl::cli {

struct FollowOptions {
  bool wait = false;
  bool watch = false;
  std::string timeout;  // "90s"; empty: as long as it takes
  Output output = Output::kTable;
  bool strict = false;

  bool for_people() const { return output == Output::kTable; }
  bool follow() const { return wait || watch || !timeout.empty(); }
};
// Declares --wait, --watch and --timeout.
void AddFollowOptions(Parser& parser, FollowOptions* options);

// Starts a run, then prints the answer, or follows the run until it has ended and reports it. Gives the
// exit code. While it follows, the first Ctrl-C cancels the run and the second leaves.
int StartAndFollow(HttpClient& client, const std::function<Result<Json>()>& start,
                   const FollowOptions& options, std::string_view command, Console& console);

struct ServerRun {
  struct Document {
    std::string file;
    std::string content;
  };
  std::string path;
  std::int64_t version = 0;         // 0: the newest
  std::vector<Document> documents;  // put into the catalog first; the last one is what runs
  Json payload;
};
// The answer of the server to the start.
Result<Json> StartOnServer(HttpClient& client, const ServerRun& run, Console& console);

}  // namespace noetl::cli
