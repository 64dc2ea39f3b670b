// What is known of one run of a server, in the shape that `noetl show` prints.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/http_client.h"
#include "cli/show_run.h"

namespace noetl::cli {

// Reads the log and folds it here: what is shown is what the engine knew. A long run is known only by
// its oldest and newest events, and says so.
Result<RunView> ViewRemoteRun(HttpClient& client, std::int64_t execution_id, bool redact);

}  // namespace noetl::cli
