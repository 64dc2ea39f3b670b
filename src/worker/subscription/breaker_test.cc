#include "worker/subscription/breaker.h"

#include <gtest/gtest.h>

namespace noetl::worker {
namespace {

using Way = Breaker::Way;
using Change = Breaker::Change;

TEST(SubscriptionBreaker, OpensAfterFailuresInARow) {
  Breaker breaker(3, 100);
  EXPECT_EQ(breaker.Failed(0), Change::kNone);
  EXPECT_EQ(breaker.Failed(0), Change::kNone);
  EXPECT_EQ(breaker.Succeeded(), Change::kNone);
  EXPECT_EQ(breaker.Failed(0), Change::kNone);
  EXPECT_EQ(breaker.Failed(0), Change::kNone);
  EXPECT_EQ(breaker.Ask(0), Way::kGo);
  EXPECT_EQ(breaker.Failed(7), Change::kOpened);
  EXPECT_EQ(breaker.Ask(8), Way::kHold);
  EXPECT_EQ(breaker.opened_at_ms(), 7);
}

TEST(SubscriptionBreaker, OneProbeDecides) {
  Breaker breaker(1, 100);
  EXPECT_EQ(breaker.Failed(0), Change::kOpened);
  EXPECT_EQ(breaker.Ask(99), Way::kHold);
  EXPECT_TRUE(breaker.Lets(100));
  EXPECT_EQ(breaker.Ask(100), Way::kProbe);
  EXPECT_EQ(breaker.Ask(100), Way::kHold) << "the others wait for it";
  EXPECT_EQ(breaker.Failed(110), Change::kNone) << "it was open";
  EXPECT_EQ(breaker.Ask(209), Way::kHold);
  EXPECT_EQ(breaker.Ask(210), Way::kProbe);
  EXPECT_EQ(breaker.opened_at_ms(), 0) << "open all the time";
  EXPECT_EQ(breaker.Succeeded(), Change::kClosed);
  EXPECT_EQ(breaker.Ask(210), Way::kGo);
}

TEST(SubscriptionBreaker, AProbeThatIsNotSentIsGivenBack) {
  Breaker breaker(1, 100);
  breaker.Failed(0);
  EXPECT_EQ(breaker.Ask(100), Way::kProbe);
  breaker.Withdraw();
  EXPECT_EQ(breaker.Ask(100), Way::kProbe);
}

TEST(SubscriptionBreaker, AClockThatWasSetBackDoesNotKeepItOpen) {
  Breaker breaker(1, 100);
  breaker.Failed(1'000'000);
  EXPECT_EQ(breaker.Ask(5), Way::kProbe);
}

TEST(SubscriptionBreaker, OutlivesTheProcess) {
  Breaker breaker(1, 100);
  breaker.Failed(50);
  breaker.Ask(150);  // the probe is forgotten
  Breaker next(1, 100);
  next.Restore(breaker.ToJson());
  EXPECT_FALSE(next.closed());
  EXPECT_EQ(next.Ask(149), Way::kHold);
  EXPECT_EQ(next.Ask(150), Way::kProbe);
}

TEST(SubscriptionBreakers, ArePerDownstream) {
  CircuitSpec spec{.trip_after = 1, .downstream = {{.name = "gpu"}, {.name = "default"}}};
  Breakers breakers(spec);
  EXPECT_EQ(breakers.NameFor("gpu"), "gpu");
  EXPECT_EQ(breakers.NameFor("other"), "default");
  EXPECT_EQ(breakers.NameFor(""), "default");
  breakers.At("gpu").Failed(1);
  EXPECT_FALSE(breakers.At("gpu").closed());
  EXPECT_TRUE(breakers.At("default").closed());
  Breakers next(spec);
  next.Restore(breakers.ToJson());
  EXPECT_FALSE(next.At("gpu").closed());
  EXPECT_TRUE(next.At("default").closed());
  EXPECT_EQ(Breakers({.downstream = {{.name = "x"}, {.name = "y"}}}).NameFor("z"), "x");
}

}  // namespace
}  // namespace noetl::worker
