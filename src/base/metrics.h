// Counters, gauges and histograms for Prometheus.
//
// A `Metrics` owns its metrics; the handles it gives are small, may be copied and stay valid as
// long as it lives. Registering the same name and labels again gives the same metric. A metric is
// shown from its registration on, at zero. All functions are safe from any thread. A bad name, or
// one name for two kinds of metric, is a bug and aborts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/durations.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace noetl {

class CounterMetric {
 public:
  explicit CounterMetric(prometheus::Counter& counter) : counter_(&counter) {}
  // Negative amounts are ignored.
  void Add(double amount = 1);
  double value() const;

 private:
  prometheus::Counter* counter_;
};

class GaugeMetric {
 public:
  explicit GaugeMetric(prometheus::Gauge& gauge) : gauge_(&gauge) {}
  void Set(double value);
  void Add(double amount);
  double value() const;

 private:
  prometheus::Gauge* gauge_;
};

class HistogramMetric {
 public:
  explicit HistogramMetric(prometheus::Histogram& histogram) : histogram_(&histogram) {}
  void Observe(double value);
  // What was counted elsewhere between two readings. The metric has the buckets for request times.
  void ObserveNew(const Durations::Counts& before, const Durations::Counts& now);

 private:
  prometheus::Histogram* histogram_;
};

class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  CounterMetric Counter(std::string_view name, std::string_view help, const Labels& labels = {});
  GaugeMetric Gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  // Without buckets: those for request times in seconds, 1 ms to 10 s.
  HistogramMetric Histogram(std::string_view name, std::string_view help, const Labels& labels = {},
                            std::vector<double> buckets = {});

  // The text form that Prometheus reads.
  std::string Expose() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace noetl
