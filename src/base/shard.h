// Which shard an execution belongs to. The hash and its seed are frozen: stored data depends on
// them.
#pragma once

#include <cstdint>

namespace noetl {

// XXH64, seed 0, of the 8 little-endian bytes of the id.
std::uint64_t ShardHash(std::int64_t execution_id);

// The shard of 0..count-1; 0 when there is at most one.
std::uint32_t ShardFor(std::int64_t execution_id, std::uint32_t count);

}  // namespace noetl
