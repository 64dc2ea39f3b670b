#include "worker/subscription/recent_keys.h"

#include <gtest/gtest.h>

namespace noetl::worker {
namespace {

TEST(SubscriptionRecentKeys, AreForgottenInTime) {
  RecentKeys keys;
  keys.Add("a", 1, 100);
  keys.Add("b", 2, 200);
  EXPECT_EQ(keys.Find("a", 99), 1);
  EXPECT_EQ(keys.Find("a", 100), 0);
  EXPECT_EQ(keys.Find("b", 100), 2);
  keys.Add("b", 3, 300);
  EXPECT_EQ(keys.Find("b", 250), 3);
  keys.Remove("b");
  keys.Remove("c");
  EXPECT_EQ(keys.Find("b", 250), 0);
  EXPECT_TRUE(keys.keys().empty());
}

}  // namespace
}  // namespace noetl::worker
