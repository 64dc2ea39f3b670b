// What every store refuses before it looks at what it holds. Pure, any thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "store/rows.h"

namespace noetl::store {

// "bad_row": events of another run, a gap in their order, a head that does not fit them, a body
// without a reference of ours, rows of another run.
Status CheckUnit(const UnitRows& unit);

// Whether the unit ends the run.
bool HasTerminal(const UnitRows& unit);

// The two refusals that depend on the stored run.
std::unexpected<Error> HeadConflict(const UnitRows& unit, std::int64_t stored_head);
std::unexpected<Error> EndedAlready(const UnitRows& unit);

// Why a document cannot be registered: `holder` has its listener.
std::unexpected<Error> ListenerIsTaken(const CatalogEntry& entry, const CatalogEntry& holder);

}  // namespace noetl::store
