#include "base/shard.h"

#include <limits>

#include <gtest/gtest.h>

namespace noetl {
namespace {

constexpr std::uint32_t kCounts[] = {2, 3, 4, 8, 16, 64, 1024};

struct Vector {
  std::int64_t id;
  std::uint64_t hash;
  std::uint32_t shards[7];
};

constexpr Vector kVectors[] = {
    {0, 0x34c96acdcadb1bbb, {1, 2, 3, 3, 11, 59, 955}},
    {1, 0x9f29cb17a2a49995, {1, 1, 1, 5, 5, 21, 405}},
    {42, 0xb556806fb6d14353, {1, 0, 3, 3, 3, 19, 851}},
    {325, 0x6cdd563c5d1a6764, {0, 2, 0, 4, 4, 36, 868}},
    {320816801799737344, 0x7c38cb2fcd528abe, {0, 1, 2, 6, 14, 62, 702}},
    {std::numeric_limits<std::int64_t>::max(), 0xff70cc60366e770c, {0, 2, 0, 4, 12, 12, 780}},
    {-1, 0x85d136adb773c6c9, {1, 0, 1, 1, 9, 9, 713}},
};

TEST(ShardFor, FrozenVectors) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(ShardHash(vector.id), vector.hash);
    for (std::size_t i = 0; i < std::size(kCounts); ++i) {
      EXPECT_EQ(ShardFor(vector.id, kCounts[i]), vector.shards[i])
          << vector.id << " " << kCounts[i];
    }
    EXPECT_EQ(ShardFor(vector.id, 0), 0u);
    EXPECT_EQ(ShardFor(vector.id, 1), 0u);
  }
}

TEST(ShardFor, SpreadsConsecutiveIdsEvenly) {
  std::vector<int> held(16);
  for (std::int64_t id = 0; id < 10'000; ++id) ++held[ShardFor(320816801799737344 + id, 16)];
  for (const int count : held) {
    EXPECT_GE(count, 500);
    EXPECT_LE(count, 750);
  }
}

}  // namespace
}  // namespace noetl
