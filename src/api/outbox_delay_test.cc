#include "api/outbox_delay.h"

#include <gtest/gtest.h>

namespace noetl::api {
namespace {

TEST(OutboxDelay, DoublesUpToItsLimits) {
  const std::pair<std::int64_t, std::int64_t> of_300[] = {{0, 1},   {1, 1},   {2, 2},   {3, 4},
                                                          {4, 8},   {5, 16},  {6, 32},  {7, 64},
                                                          {8, 128}, {9, 256}, {20, 256}};
  for (const auto& [attempts, delay] : of_300) EXPECT_EQ(OutboxDelaySeconds(attempts, 300), delay);
  const std::pair<std::int64_t, std::int64_t> of_10[] = {{0, 1}, {4, 8}, {5, 10}, {9, 10}};
  for (const auto& [attempts, delay] : of_10) EXPECT_EQ(OutboxDelaySeconds(attempts, 10), delay);
  EXPECT_EQ(OutboxDelaySeconds(INT64_MIN, 300), 1);
  EXPECT_EQ(OutboxDelaySeconds(INT64_MAX, 300), 256);
}

}  // namespace
}  // namespace noetl::api
