#include "base/metrics.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/check.h"

namespace noetl {

namespace {

constexpr double kMicros = 1e6;

std::vector<double> RequestSeconds() {
  std::vector<double> bounds;
  for (const std::int64_t us : kDurationBoundsUs)
    bounds.push_back(static_cast<double>(us) / kMicros);
  return bounds;
}

// The library throws for bad names and labels, which only a mistake in our code can make.
template <typename Register>
auto& Registered(std::string_view name, Register add) {
  try {
    return add();
  } catch (const std::exception& error) {
    CheckFailed("registered", __FILE__, __LINE__, fmt::format("metric {}: {}", name, error.what()));
  }
}

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

CounterMetric Metrics::Counter(std::string_view name, std::string_view help, const Labels& labels) {
  return CounterMetric(Registered(name, [&]() -> prometheus::Counter& {
    return prometheus::BuildCounter()
        .Name(std::string(name))
        .Help(std::string(help))
        .Register(state_->registry)
        .Add(labels);
  }));
}

GaugeMetric Metrics::Gauge(std::string_view name, std::string_view help, const Labels& labels) {
  return GaugeMetric(Registered(name, [&]() -> prometheus::Gauge& {
    return prometheus::BuildGauge()
        .Name(std::string(name))
        .Help(std::string(help))
        .Register(state_->registry)
        .Add(labels);
  }));
}

HistogramMetric Metrics::Histogram(std::string_view name, std::string_view help,
                                   const Labels& labels, std::vector<double> buckets) {
  if (buckets.empty()) buckets = RequestSeconds();
  NOETL_CHECK(std::is_sorted(buckets.begin(), buckets.end()), "buckets of a histogram must grow");
  return HistogramMetric(Registered(name, [&]() -> prometheus::Histogram& {
    return prometheus::BuildHistogram()
        .Name(std::string(name))
        .Help(std::string(help))
        .Register(state_->registry)
        .Add(labels, buckets);
  }));
}

std::string Metrics::Expose() const {
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

void CounterMetric::Add(double amount) {
  if (amount > 0) counter_->Increment(amount);
}
double CounterMetric::value() const { return counter_->Value(); }

void GaugeMetric::Set(double value) { gauge_->Set(value); }
void GaugeMetric::Add(double amount) { gauge_->Increment(amount); }
double GaugeMetric::value() const { return gauge_->Value(); }

void HistogramMetric::Observe(double value) { histogram_->Observe(value); }

void HistogramMetric::ObserveNew(const Durations::Counts& before, const Durations::Counts& now) {
  std::vector<double> increments;
  for (std::size_t i = 0; i < now.buckets.size(); ++i)
    increments.push_back(static_cast<double>(now.buckets[i] - before.buckets[i]));
  histogram_->ObserveMultiple(increments,
                              static_cast<double>(now.sum_us - before.sum_us) / kMicros);
}

}  // namespace noetl
