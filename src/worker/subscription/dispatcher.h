// Whoever starts runs for messages, and says whether there should be more of them. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::worker {

struct DispatchRequest {
  std::string playbook;
  std::string pool;  // empty: that of the playbook
  Json payload;
  Json trace;             // or null
  std::string dedup_key;  // a second request with it within the window starts nothing
  std::int64_t dedup_window_secs = 0;
  Json audit;  // what headers decided, or null
};

struct DispatchOutcome {
  enum class Kind {
    kStarted,
    kDuplicate,    // a run was there already
    kRefused,      // it will not work as it is: no such playbook, a bad payload
    kFailed,       // it was tried, and something broke
    kUnavailable,  // nobody was there to try
  };
  Kind kind = Kind::kUnavailable;
  std::string execution_id;  // of a run
  std::string error;

  bool done() const { return kind == Kind::kStarted || kind == Kind::kDuplicate; }
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // One outcome for each, in order.
  virtual std::vector<DispatchOutcome> Dispatch(std::span<const DispatchRequest> requests) = 0;
  // ACTIVE, PAUSED, DRAINING or DEACTIVATED.
  virtual Result<std::string> State() = 0;
  // Runs that were started and have not ended; counting may stop at `enough`.
  virtual Result<std::int64_t> InFlight(std::int64_t enough) = 0;
};

// What happened: "subscription.message.dispatched" and what there is to say about it.
using EventSink = std::function<void(std::string_view type, const Json& fields)>;

}  // namespace noetl::worker
