// Numbers for people who look at a server: counts of runs, playbooks and workers. They read a lot, so
// they are made on the background thread and kept for a few seconds. Any thread.
#pragma once

#include <cstdint>

#include "api/services.h"
#include "base/json.h"
#include "base/result.h"

namespace noetl::api {

Result<Json> DashboardStats(Services& services);
Result<Json> DashboardWidgets(Services& services);

// Sets the gauges that are read from the store and the conductor, before metrics are shown.
void RefreshGauges(Services& services);

}  // namespace noetl::api
