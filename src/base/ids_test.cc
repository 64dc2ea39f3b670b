#include "base/ids.h"

#include <limits>
#include <set>
#include <thread>

#include <gtest/gtest.h>

namespace noetl {
namespace {

constexpr std::int64_t kNow = (kIdEpochMs + 5'000) * 1000;

std::unique_ptr<SnowflakeIds> Make(Clock& clock, std::int64_t machine = 1) {
  auto ids = SnowflakeIds::Create(clock, machine);
  EXPECT_TRUE(ids);
  return std::move(*ids);
}

TEST(MachineIdFrom, FrozenVectors) {
  const std::pair<const char*, int> vectors[] = {{"", 805},
                                                 {"a", 140},
                                                 {"noetl-server", 595},
                                                 {"pod-0", 601},
                                                 {"pod-1", 166},
                                                 {"noetl-server-local", 465},
                                                 {"noetl-server-0", 862},
                                                 {"noetl-server-1", 273},
                                                 {"noetl-server-2", 1016},
                                                 {"noetl-server-pod-0", 984}};
  for (const auto& [seed, machine] : vectors) EXPECT_EQ(MachineIdFrom(seed), machine) << seed;
}

TEST(DecodeId, KnownId) { EXPECT_EQ(DecodeId(320816801799737344), (IdParts{1780555886037, 1, 0})); }

TEST(SnowflakeIds, CarriesTimeMachineAndSequence) {
  ManualClock clock(kNow);
  auto ids = Make(clock, 1023);
  EXPECT_EQ(DecodeId(ids->Next()), (IdParts{kIdEpochMs + 5'000, 1023, 0}));
  EXPECT_EQ(DecodeId(ids->Next()), (IdParts{kIdEpochMs + 5'000, 1023, 1}));
  clock.Advance(1'000);
  EXPECT_EQ(DecodeId(ids->Next()), (IdParts{kIdEpochMs + 5'001, 1023, 0}));
  EXPECT_EQ(ids->last_ms(), kIdEpochMs + 5'001);
}

TEST(SnowflakeIds, Refusals) {
  ManualClock clock(kNow);
  EXPECT_EQ(SnowflakeIds::Create(clock, 1024).error().code, "machine_id_out_of_range");
  EXPECT_EQ(SnowflakeIds::Create(clock, -1).error().code, "machine_id_out_of_range");
  clock.SetWall(kIdEpochMs * 1000 - 1'000);
  EXPECT_EQ(SnowflakeIds::Create(clock, 1).error().code, "clock_before_epoch");
  clock.SetWall(std::numeric_limits<std::int64_t>::max() / 2);
  EXPECT_EQ(SnowflakeIds::Create(clock, 1).error().code, "clock_after_range");
}

TEST(SnowflakeIds, BorrowsASecondThenWaits) {
  ManualClock clock(kNow);
  auto ids = Make(clock);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < 1001 * 4096; ++i) {
    const std::int64_t id = ids->Next();
    ASSERT_GT(id, last);
    last = id;
  }
  EXPECT_EQ(DecodeId(last).time_ms, kIdEpochMs + 6'000);
  EXPECT_EQ(ids->waits(), 0u);
  EXPECT_EQ(DecodeId(ids->Next()).time_ms, kIdEpochMs + 6'001);
  EXPECT_EQ(ids->waits(), 1u);
}

TEST(SnowflakeIds, ClockStepsBack) {
  ManualClock clock(kNow);
  auto ids = Make(clock);
  const std::int64_t before = ids->Next();
  clock.SetWall(kNow - 3'600'000'000);
  const std::int64_t after = ids->Next();
  EXPECT_GT(after, before);
  // Ids go on with monotonic time instead of waiting an hour.
  clock.Advance(2'000);
  EXPECT_EQ(DecodeId(ids->Next()).time_ms, kIdEpochMs + 5'002);
  for (int i = 0; i < 10'000; ++i) ids->Next();
  EXPECT_EQ(ids->waits(), 0u);
}

TEST(SnowflakeIds, ReservesBlocks) {
  ManualClock clock(kNow);
  auto ids = Make(clock);
  const IdRange range = ids->Reserve(5'000);
  EXPECT_EQ(range.size(), 5'000);
  for (std::int64_t i = 1; i < range.size(); ++i) ASSERT_GT(range[i], range[i - 1]);
  EXPECT_EQ(DecodeId(range[4'999]), (IdParts{kIdEpochMs + 5'001, 1, 903}));
  EXPECT_GT(ids->Next(), range[4'999]);
}

TEST(SnowflakeIds, StartsAboveAFormerLife) {
  ManualClock clock(kNow);
  auto ids = SnowflakeIds::Create(clock, 1, kIdEpochMs + 5'700);
  ASSERT_TRUE(ids);
  EXPECT_EQ(DecodeId((*ids)->Next()).time_ms, kIdEpochMs + 5'700);
}

TEST(SnowflakeIds, GoesAboveTheIdsOfOthers) {
  ManualClock clock(kNow);
  auto ids = Make(clock);
  for (const std::int64_t machine : {0, 1, 2, 1023}) {
    const std::int64_t floor =
        (DecodeId(ids->Next()).time_ms + 3 - kIdEpochMs) << 22 | machine << 12 | 17;
    const std::int64_t id = ids->NextAbove(floor);
    EXPECT_GT(id, floor);
    EXPECT_EQ(DecodeId(id).machine, 1) << "an id of another machine may be given by that machine";
    EXPECT_GT(ids->Next(), id);
  }
  EXPECT_EQ(ids->waits(), 0u);
}

TEST(SnowflakeIds, AFloorFarInTheFutureDoesNotCount) {
  ManualClock clock(kNow);
  auto ids = Make(clock);
  const std::int64_t floor = (DecodeId(ids->Next()).time_ms - kIdEpochMs + 2'000) << 22;
  EXPECT_EQ(DecodeId(ids->NextAbove(floor)).time_ms, kIdEpochMs + 5'000);
  EXPECT_EQ(DecodeId(ids->NextAbove(INT64_MAX)).time_ms, kIdEpochMs + 5'000);
  EXPECT_EQ(DecodeId(ids->NextAbove(-1)).time_ms, kIdEpochMs + 5'000);
}

TEST(SnowflakeIds, UniqueAcrossThreads) {
  SystemClock clock;
  auto ids = Make(clock);
  std::vector<std::vector<std::int64_t>> made(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : made) {
      threads.emplace_back([&ids, &mine] {
        for (int i = 0; i < 20'000; ++i) mine.push_back(ids->Next());
      });
    }
  }
  std::set<std::int64_t> all;
  for (const auto& mine : made) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), 80'000u);
}

TEST(SequentialIds, Counts) {
  SequentialIds ids(7);
  EXPECT_EQ(ids.Next(), 7);
  EXPECT_EQ(ids.Next(), 8);
  EXPECT_EQ(ids.NextAbove(20), 21);
  EXPECT_EQ(ids.NextAbove(3), 22);
  EXPECT_EQ(ids.NextAbove(INT64_MAX), 23);
}

}  // namespace
}  // namespace noetl
