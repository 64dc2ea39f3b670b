// Asking a downstream whether it is there.
#pragma once

#include "worker/subscription/spec.h"

namespace noetl::worker {

// An HTTP downstream answers with a status below 500; to the others a connection can be made. Waits
// at most 3 seconds. Any thread.
bool IsDownstreamThere(const DownstreamSpec& downstream);

}  // namespace noetl::worker
