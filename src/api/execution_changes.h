// Handlers that end runs: cancel, finalize, and the clean-up of runs that nobody works on.
#pragma once

#include "api/route.h"
#include "base/result.h"

namespace noetl::api {

Status CancelExecution(const CallPtr& call);
Status FinalizeExecution(const CallPtr& call);
Status CleanupExecutions(const CallPtr& call);

}  // namespace noetl::api
