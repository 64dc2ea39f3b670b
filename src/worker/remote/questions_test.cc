#include "worker/remote/questions.h"

#include <gtest/gtest.h>

namespace noetl::worker {
namespace {

TEST(SecretCacheTest, ForgetsAfterAWhile) {
  SecretCache cache(2, 100);
  cache.Add({"a", 1}, "text", 0);
  ASSERT_NE(cache.Find({"a", 1}, 99), nullptr);
  EXPECT_EQ(*cache.Find({"a", 1}, 99), "text");
  EXPECT_EQ(cache.Find({"a", 2}, 99), nullptr);
  EXPECT_EQ(cache.Find({"a", 1}, 100), nullptr);
  EXPECT_EQ(cache.size(), 0U);
}

TEST(SecretCacheTest, IsBounded) {
  SecretCache cache(2, 100);
  cache.Add({"a", 1}, "1", 0);
  cache.Add({"b", 1}, "2", 1);
  cache.Add({"c", 1}, "3", 2);
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_EQ(cache.Find({"a", 1}, 3), nullptr);
  cache.Add({"c", 1}, "4", 3);
  EXPECT_EQ(*cache.Find({"c", 1}, 3), "4");
  EXPECT_EQ(cache.size(), 2U);
}

}  // namespace
}  // namespace noetl::worker
