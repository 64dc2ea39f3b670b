// The checksums of the flat dialect. Pure, any thread.
#pragma once

#include "base/json.h"
#include "base/result.h"

namespace noetl::engine::replay {

// The state with `checksum_algorithm`, `checksum` and `projection_checksums`. A projection is
// hashed as a list of rows of fixed shape. "bad_row" when a counter of it is no number.
Result<Json> SealFlat(const Json& state);

}  // namespace noetl::engine::replay
