#include "base/shard.h"

#include <xxhash.h>

namespace noetl {

std::uint64_t ShardHash(std::int64_t execution_id) {
  unsigned char bytes[8];
  auto rest = static_cast<std::uint64_t>(execution_id);
  for (unsigned char& byte : bytes) {
    byte = static_cast<unsigned char>(rest & 0xff);
    rest >>= 8;
  }
  return XXH64(bytes, sizeof(bytes), 0);
}

std::uint32_t ShardFor(std::int64_t execution_id, std::uint32_t count) {
  if (count <= 1) return 0;
  return static_cast<std::uint32_t>(ShardHash(execution_id) % count);
}

}  // namespace noetl
