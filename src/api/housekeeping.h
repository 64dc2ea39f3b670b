// Removing what has expired. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "api/services.h"
#include "base/result.h"

namespace noetl::api {

// After a request. Often enough that nothing piles up; costs a few looks at the ends of indexes.
inline constexpr std::chrono::seconds kSweepPeriod{60};

struct Swept {
  std::int64_t keychain = 0;
  std::int64_t request_keys = 0;
  std::int64_t results = 0;
  std::int64_t outbox = 0;
};

// Removes expired secrets, request keys and results, and copies of events that were published longer
// ago than NOETL_OUTBOX_RETENTION_SECONDS: in pieces, and not all at once when there is very much.
Result<Swept> SweepStore(Services& services);

// The same for nobody in particular: what goes wrong is logged.
void SweepQuietly(Services& services);

}  // namespace noetl::api
