// Purging, copying and checking a store. Any thread.
#pragma once

#include <string>
#include <vector>

#include "store/sqlite/objects.h"
#include "store/sqlite/read_pool.h"
#include "store/sqlite/writer.h"
#include "store/store.h"

namespace noetl::store {

Status PurgeRun(Writer& writer, const ObjectFiles& objects, std::int64_t execution_id);
Result<std::int64_t> PurgeEndedRuns(Writer& writer, ReadPool& pool, const ObjectFiles& objects,
                                    std::int64_t before_us, std::int64_t now_us,
                                    std::int64_t limit);
Status BackupStore(ReadPool& pool, const ObjectFiles& objects, const std::string& target);
Result<std::vector<std::string>> CheckStore(ReadPool& pool);
Result<StoreStats> StatsOf(ReadPool& pool);

}  // namespace noetl::store
