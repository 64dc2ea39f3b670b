#include "base/time.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <limits>

#include "base/clock.h"

namespace noetl {
namespace {

TEST(Time, Formats) {
  EXPECT_EQ(FormatTime(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(FormatTime(-1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(FormatTime(1780555886037000), "2026-06-04T06:51:26.037000Z");
  EXPECT_EQ(FormatTime(std::numeric_limits<std::int64_t>::max()), "9999-12-31T23:59:59.999999Z");
  EXPECT_EQ(FormatTime(std::numeric_limits<std::int64_t>::min()), "0000-01-01T00:00:00.000000Z");
}

TEST(Time, Parses) {
  EXPECT_EQ(ParseTime("2026-06-04T06:51:26.037Z"), 1780555886037000);
  EXPECT_EQ(ParseTime("2026-06-04t08:51:26.037+02:00"), 1780555886037000);
  EXPECT_EQ(ParseTime("2026-06-04 01:21:26.037-05:30"), 1780555886037000);
  EXPECT_EQ(ParseTime("1970-01-01T00:00:00.1234567899Z"), 123456);
  EXPECT_EQ(ParseTime("1969-12-31T23:59:60z"), 0);
  EXPECT_EQ(ParseTime("2024-02-29T00:00:00Z").has_value(), true);
  for (const char* bad : {"", "2026-06-04", "2026-06-04T06:51:26", "2026-06-04T06:51:26.Z",
                          "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
                          "2026-06-04T24:00:00Z", "2026-6-4T06:51:26Z", "2026-06-04T06:51:26ZZ",
                          "2026-06-04T06:51:26+0200", "2026-06-04T06:51:26+24:00",
                          "-026-06-04T06:51:26Z", "2026-06-04T06:51:61Z", "2023-02-29T00:00:00Z"}) {
    EXPECT_EQ(ParseTime(bad), std::nullopt) << bad;
  }
}

TEST(Time, RoundTrips) {
  EXPECT_TRUE(rc::check([] {
    const std::int64_t micros =
        *rc::gen::inRange<std::int64_t>(-62'167'219'200'000'000, 253'402'300'800'000'000);
    RC_ASSERT(ParseTime(FormatTime(micros)) == micros);
  }));
}

TEST(Clock, ManualAndSystem) {
  ManualClock manual(5'000'000);
  manual.Advance(1'000);
  EXPECT_EQ(manual.NowMillis(), 5'001);
  EXPECT_EQ(manual.MonotonicMicros(), 1'000);
  manual.SetWall(7);
  manual.SleepMicros(3);
  EXPECT_EQ(manual.NowMicros(), 10);
  EXPECT_EQ(manual.MonotonicMicros(), 1'003);

  SystemClock clock;
  const std::int64_t before = clock.MonotonicMicros();
  clock.SleepMicros(1'000);
  EXPECT_GE(clock.MonotonicMicros() - before, 1'000);
  EXPECT_GT(clock.NowMicros(), 1'700'000'000'000'000);
}

}  // namespace
}  // namespace noetl
