// The tables of the store and how older files become newer ones.
//
// Migrations go forward only: each is applied once, in order, in one transaction with its number.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "store/sqlite/connection.h"

// True for a run whose id does not tell when it started: ids have a time in their upper bits
// (ids.h), but some are given by callers, and some are made long before their run starts. Index and
// queries must use the very same text.
#define NOETL_UNUSUAL_START \
  "(started_at IS NULL OR " \
  "abs(started_at - ((execution_id >> 22) + 1704067200000) * 1000) > 2000000)"

namespace noetl::store {

// A usual run started so close to the time in its id. More than ids may run ahead of the clock
// (SnowflakeIds::kBorrowMsMax); a list by time looks at the runs of twice this time in vain.
inline constexpr std::int64_t kStartSlackUs = 2'000'000;

// Brings the file to the newest schema. "schema" when a newer program has written it, "corrupt" when
// it is the database of something else.
Status Migrate(Connection& connection);

// Stops at an older schema, to make files as older programs left them.
Status MigrateTo(Connection& connection, std::int64_t newest);

// The same check without writing: anything but the newest schema is refused.
Status CheckSchema(Connection& connection);

}  // namespace noetl::store
