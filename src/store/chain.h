// The hash chain over a run's log, and the rows that go into the log.
//
// h(0) = SHA-256("noetl.log.chain.v2\n" canonical {"execution_id"}), h(i) = SHA-256(h(i-1) followed
// by the canonical JSON of row i): all columns of the event but the chain itself, members sorted,
// absent ones left out. A changed, missing or moved row breaks every head after it. Pure, any
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "store/rows.h"

namespace noetl::store {

Sha256Digest ChainStart(std::int64_t execution_id);
// The row as it is hashed.
std::string CanonicalRow(const EventRow& row);
Sha256Digest ChainNext(const Sha256Digest& before, const EventRow& row);

// Makes the row of an event that follows `before` in the chain: texts, key columns, head. Fails
// with "json_nul" or "json_depth" when a value cannot be stored.
Result<EventRow> MakeEventRow(engine::Event event, const Sha256Digest& before);

}  // namespace noetl::store
