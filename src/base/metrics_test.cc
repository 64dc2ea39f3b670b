#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace noetl {
namespace {

using testing::HasSubstr;

TEST(Metrics, ExistAtZero) {
  Metrics metrics;
  metrics.Counter("noetl_events_total", "events stored", {{"type", "a"}});
  metrics.Gauge("noetl_workers", "workers alive");
  metrics.Histogram("noetl_request_seconds", "request times");
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("# HELP noetl_events_total events stored"));
  EXPECT_THAT(text, HasSubstr("# TYPE noetl_events_total counter"));
  EXPECT_THAT(text, HasSubstr("noetl_events_total{type=\"a\"} 0"));
  EXPECT_THAT(text, HasSubstr("noetl_workers 0"));
  EXPECT_THAT(text, HasSubstr("noetl_request_seconds_count 0"));
  EXPECT_THAT(text, HasSubstr("le=\"0.025\""));
}

TEST(Metrics, Count) {
  Metrics metrics;
  auto counter = metrics.Counter("a_total", "a");
  counter.Add();
  counter.Add(2.5);
  counter.Add(-1);
  EXPECT_EQ(counter.value(), 3.5);
  metrics.Counter("a_total", "a").Add();
  EXPECT_EQ(counter.value(), 4.5);
  auto gauge = metrics.Gauge("g", "g", {{"pool", "x"}});
  gauge.Set(5);
  gauge.Add(-2);
  EXPECT_EQ(gauge.value(), 3);
  auto histogram = metrics.Histogram("h", "h", {}, {1, 10});
  histogram.Observe(3);
  EXPECT_THAT(metrics.Expose(), HasSubstr("h_bucket{le=\"10\"} 1"));
}

TEST(MetricsDeathTest, BadNamesAreBugs) {
  Metrics metrics;
  EXPECT_DEATH(metrics.Counter("not a name", "x"), "metric not a name");
  metrics.Counter("twice", "x");
  EXPECT_DEATH(metrics.Gauge("twice", "x"), "metric twice");
}

}  // namespace
}  // namespace noetl
