// Shows in the metrics what conductor, vault and routes have counted by themselves.
//
// They keep plain figures; each time the metrics are asked for, what is new since the last time is
// added to the counters. On the thread that shows the metrics only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/services.h"
#include "base/durations.h"
#include "base/metrics.h"
#include "conductor/tally.h"
#include "vault/stats.h"

namespace noetl::api {

struct ServerMetrics;

class StatsReader {
 public:
  explicit StatsReader(ServerMetrics& metrics);
  void Read(const Services& services);

 private:
  // A figure that somebody else keeps, and as much of it as is in the counter.
  struct Shown {
    CounterMetric counter;
    std::int64_t seen = 0;

    void Show(std::int64_t now) {
      counter.Add(static_cast<double>(now - std::exchange(seen, now)));
    }
  };
  struct ShownTimes {
    HistogramMetric seconds;
    Durations::Counts seen;

    void Show(const Durations& times);
  };

  void ReadConductor(const conductor::Conductor& conductor);
  void ReadSecrets(const vault::SecretStats& stats);
  void ReadIngest();

  ServerMetrics& metrics_;
  std::vector<std::pair<conductor::Tally, Shown>> tallies_;
  std::vector<Shown> reads_;  // by site, then by outcome
  std::map<std::string, std::int64_t> told_;
  std::vector<Shown> audits_;   // by operation, outcome, status
  std::vector<Shown> fetches_;  // by provider, status
  std::vector<ShownTimes> fetch_times_;
  std::vector<Shown> refreshes_;
  std::vector<ShownTimes> ingest_times_;  // by type
  std::vector<ShownTimes> phases_;
};

// The words of the metrics for where the log is read on hot paths.
inline constexpr std::array<std::string_view, conductor::kReadSites> kReadSiteNames = {
    "state_build", "claim", "repeated_event", "event_id", "report"};
inline constexpr std::array<std::string_view, conductor::kReadOutcomes> kReadOutcomeNames = {
    "hit", "miss", "error"};
// Secrets are resolved where the server runs; there is one region.
inline constexpr std::string_view kRegion = "local";

}  // namespace noetl::api
