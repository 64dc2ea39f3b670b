// Runs of a server, in the shapes that the commands for the data directory use.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/http_client.h"
#include "engine/events.h"
#include "store/store.h"

namespace noetl::cli {

// An id that is a number or a text; 0: it is none.
std::int64_t AnyId(const Json& id);
// The answer with the named member as a text.
Json WithTextId(const Json& answer, std::string_view name);

store::ExecutionRow RunOf(const Json& summary);
engine::Event EventOf(const Json& event);

// At most `filter.limit` runs, newest first, as a store gives them.
Result<std::vector<store::ExecutionRow>> ListRuns(HttpClient& client,
                                                  const store::ExecutionFilter& filter);
// The id of the run with this id, with an id that ends so, or the newest for "last". Errors:
// "not_found", "ambiguous". A whole id is not looked up.
Result<std::int64_t> FindRunId(HttpClient& client, std::string_view id);
// The answer, or its error; for a run that the server does not have, with where it may be.
Result<Json> AboutRun(Result<Json> answer);
// The run itself, as the server tells it; the body of its detail without events.
Result<Json> GetRun(HttpClient& client, std::int64_t execution_id);

// False: no more are wanted.
using UseEvent = std::function<bool(const engine::Event&)>;
struct EventFeed {
  std::int64_t execution_id = 0;
  std::int64_t after_event_id = 0;  // 0: from the first
  bool redact = true;
};
// All events after that one that there are now.
Status ReadEvents(HttpClient& client, EventFeed feed, const UseEvent& use);
// The same, and those that come, until the run has ended. `go_on` is asked about once a second. A
// connection that breaks is made anew; "server_unreachable" when that does not work for a minute.
Status FollowEvents(HttpClient& client, EventFeed feed, const UseEvent& use,
                    const std::function<bool()>& go_on);

// Chunks after the first `seen`, in order; at most one page.
Result<std::vector<store::LogChunk>> ReadLogs(HttpClient& client, std::int64_t execution_id,
                                              std::int64_t command_id, std::int64_t seen,
                                              std::int64_t limit, bool redact);

// A lost connection is tried again so often and so long.
inline constexpr std::int64_t kRetryPauseUs = 1'000'000;
inline constexpr int kRetriesMax = 60;

}  // namespace noetl::cli
