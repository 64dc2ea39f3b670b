#include "worker/remote/held.h"

#include <gtest/gtest.h>

#include "base/testing.h"

namespace noetl::worker {
namespace {

Granted Grant(std::int64_t id, std::int64_t token, std::int64_t lease_ms) {
  Granted granted;
  granted.grant.execution_id = 77;
  granted.grant.event_id = id;
  granted.grant.command_id = "77:s:" + std::to_string(id);
  granted.grant.claim_token = token;
  granted.lease_ms = lease_ms;
  return granted;
}

TEST(HeldTest, ALeaseEndsUnlessItIsRenewed) {
  Held held;
  EXPECT_TRUE(held.Add(Grant(1, 1, 10), 1'000));
  EXPECT_FALSE(held.Add(Grant(1, 1, 10), 5'000));
  EXPECT_TRUE(held.Add(Grant(2, 1, 20), 1'000));
  EXPECT_EQ(held.ShortestLeaseUs(), 10'000);
  EXPECT_EQ(held.NextEndUs(), 11'000);
  EXPECT_FALSE(held.Expired("77:s:1", 10'999));
  EXPECT_TRUE(held.Expired("77:s:1", 11'000));
  held.Renewed(held.Renewal(), 4'000);
  EXPECT_TRUE(held.Expired(13'999).empty());
  EXPECT_EQ(held.Expired(14'000), std::vector<std::string>{"77:s:1"});
  EXPECT_EQ(held.Expired(1'000'000).size(), 2U);
}

TEST(HeldTest, ARenewalCountsOnlyForTheClaimItSpokeOf) {
  Held held;
  held.Add(Grant(1, 1, 10), 0);
  const Json renewal = held.Renewal();
  held.Remove("77:s:1");
  held.Add(Grant(1, 2, 10), 0);
  held.Renewed(renewal, 9'000);
  EXPECT_TRUE(held.Expired("77:s:1", 10'000));
}

TEST(HeldTest, AnOldRenewalShortensNothing) {
  Held held;
  held.Add(Grant(1, 1, 10), 5'000);
  held.Renewed(held.Renewal(), 1'000);
  EXPECT_FALSE(held.Expired("77:s:1", 14'999));
}

TEST(HeldTest, WhatHasEndedIsRenewedButNotStopped) {
  Held held;
  held.Add(Grant(1, 1, 10), 0);
  held.Ended("77:s:1");
  EXPECT_EQ(held.running(), 0U);
  EXPECT_TRUE(held.Expired(1'000'000).empty());
  EXPECT_FALSE(held.NextEndUs());
  EXPECT_EQ(held.Renewal(), Parse(R"([{"event_id": 1, "claim_token": 1}])"));
}

TEST(HeldTest, CommandsHaveTwoNames) {
  Held held;
  held.Add(Grant(1, 1, 10), 0);
  EXPECT_EQ(held.IdOf({1, ""}), "77:s:1");
  EXPECT_EQ(held.IdOf({0, "77:s:1"}), "77:s:1");
  EXPECT_EQ(held.IdOf({2, ""}), "");
  EXPECT_EQ(held.IdOf({0, ""}), "");
}

}  // namespace
}  // namespace noetl::worker
