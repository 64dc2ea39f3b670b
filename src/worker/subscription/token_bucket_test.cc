#include "worker/subscription/token_bucket.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

namespace noetl::worker {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

TEST(TokenBucket, WithoutARateThereIsNoLimit) {
  TokenBucket bucket(0);
  bucket.Take(1'000'000, 0);
  EXPECT_GT(bucket.Available(0), 1'000'000);
  EXPECT_EQ(bucket.WaitMicros(0), 0);
}

TEST(TokenBucket, IsFullAtFirstAndFills) {
  TokenBucket bucket(10);
  EXPECT_EQ(bucket.Available(0), 10);
  bucket.Take(10, 0);
  EXPECT_EQ(bucket.Available(0), 0);
  EXPECT_EQ(bucket.WaitMicros(0), kSecond / 10);
  EXPECT_EQ(bucket.Available(kSecond / 10), 1);
  EXPECT_EQ(bucket.Available(kSecond / 2), 5);
  EXPECT_EQ(bucket.Available(100 * kSecond), 10);
}

TEST(TokenBucket, SlowRatesGiveOneNowAndThen) {
  TokenBucket bucket(0.5);
  EXPECT_EQ(bucket.Available(0), 1);
  bucket.Take(1, 0);
  EXPECT_EQ(bucket.Available(kSecond), 0);
  EXPECT_EQ(bucket.Available(2 * kSecond), 1);
}

TEST(TokenBucket, WhatWasTakenTooMuchIsPaidLater) {
  TokenBucket bucket(1);
  bucket.Take(3, 0);
  EXPECT_EQ(bucket.Available(2 * kSecond), 0);
  EXPECT_EQ(bucket.Available(3 * kSecond), 1);
}

TEST(TokenBucket, NeverGivesMoreThanTheRate) {
  EXPECT_TRUE(rc::check([](std::vector<std::uint16_t> pauses) {
    TokenBucket bucket(50);
    std::int64_t now_us = 0;
    std::int64_t taken = 0;
    for (const std::uint16_t pause : pauses) {
      now_us += pause;
      const std::int64_t count = bucket.Available(now_us);
      bucket.Take(count, now_us);
      taken += count;
    }
    RC_ASSERT(static_cast<double>(taken) <= 50 + static_cast<double>(now_us) * 50e-6 + 1e-6);
  }));
}

}  // namespace
}  // namespace noetl::worker
