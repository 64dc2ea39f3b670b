// What a worker process counts about itself, for Prometheus.
//
// Counters grow as things happen; gauges are set by `Expose`'s caller right before it. The number of
// series is bounded: a kind of tool that this worker did not announce counts as "other". The metrics
// live as long as this object. Safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"

namespace noetl::worker {

// How things are at the moment.
struct WorkerFigures {
  bool ready = false;  // registered, and not about to leave
  int slots = 0;
  std::size_t running = 0;
  int waiting = 0;                // commands that wait for something that needs no slot
  std::size_t undelivered = 0;    // reports on their way
  std::size_t spool_records = 0;  // of them on the disk
  std::int64_t spool_bytes = 0;
};

class WorkerMetrics {
 public:
  // `kinds` are those of the tools that this worker has.
  WorkerMetrics(const std::string& version, const std::vector<std::string>& kinds);

  // How processes of tools are confined at least: 0 off, 1 basic, 2 strict.
  void Confines(int sandbox_level) { sandbox_level_.Set(sandbox_level); }

  void EventsSent(std::size_t count) { events_sent_.Add(static_cast<double>(count)); }
  void SendingRetried() { retries_.Add(); }
  // How a request for work ended.
  void Pulled(std::size_t commands) { (commands > 0 ? pulls_claimed_ : pulls_none_).Add(); }
  void PullFailed() { pulls_failed_.Add(); }
  void Accepted() { accepted_.Add(); }
  // The command is not this worker's any more although it had not ended here.
  void LeaseLost() { leases_lost_.Add(); }
  void Ended(std::string_view kind, std::int64_t duration_us, bool failed);

  std::string Expose(const WorkerFigures& figures);

 private:
  struct OfKind {
    HistogramMetric durations;
    CounterMetric errors;
  };

  Metrics metrics_;
  GaugeMetric ready_;
  GaugeMetric slots_;
  GaugeMetric running_;
  GaugeMetric waiting_;
  GaugeMetric undelivered_;
  GaugeMetric spool_records_;
  GaugeMetric spool_bytes_;
  GaugeMetric sandbox_level_;
  CounterMetric events_sent_;
  CounterMetric retries_;
  CounterMetric pulls_claimed_;
  CounterMetric pulls_none_;
  CounterMetric pulls_failed_;
  CounterMetric accepted_;
  CounterMetric leases_lost_;
  std::map<std::string, OfKind, std::less<>> kinds_;
};

}  // namespace noetl::worker
