#include "base/durations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/metrics.h"

namespace noetl {
namespace {

using testing::HasSubstr;

TEST(Durations, FallIntoBuckets) {
  Durations times;
  for (const std::int64_t us : {-5, 0, 999, 1'000}) times.Add(us);
  times.Add(1'001);
  times.Add(10'000'000);
  times.Add(10'000'001);
  const Durations::Counts counts = times.Read();
  EXPECT_EQ(counts.buckets.front(), 4) << "bounds are inclusive";
  EXPECT_EQ(counts.buckets[1], 1);
  EXPECT_EQ(counts.buckets[11], 1);
  EXPECT_EQ(counts.buckets.back(), 1);
  EXPECT_EQ(counts.count(), 7);
  EXPECT_EQ(counts.sum_us, 999 + 1'000 + 1'001 + 10'000'000 + 10'000'001);
}

TEST(Durations, ManyThreadsLoseNothing) {
  Durations times;
  constexpr int kThreads = 4;
  constexpr int kEach = 10'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) times.Add(2'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(times.Read().count(), kThreads * kEach);
  EXPECT_EQ(times.Read().sum_us, std::int64_t{kThreads} * kEach * 2'000);
}

TEST(Durations, AHistogramTakesWhatIsNew) {
  Metrics metrics;
  HistogramMetric histogram = metrics.Histogram("h", "h");
  Durations times;
  times.Add(500'000);
  Durations::Counts seen;
  for (int i = 0; i < 2; ++i) {
    const Durations::Counts now = times.Read();
    histogram.ObserveNew(seen, now);
    seen = now;
    EXPECT_THAT(metrics.Expose(), HasSubstr("h_count 1\n"));
  }
  times.Add(20'000'000);
  histogram.ObserveNew(seen, times.Read());
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("h_bucket{le=\"0.25\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("h_bucket{le=\"0.5\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("h_bucket{le=\"10\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("h_bucket{le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("h_sum 20.5\n"));
}

}  // namespace
}  // namespace noetl
