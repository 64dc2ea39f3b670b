// The metric families of the server, by name.
//
// All families are registered when the struct is made, with every known label value at zero, so that
// a scraper can tell "never" from "not there". Values that a family does not know count as "other";
// a label without known values takes what comes, up to kOpenSeriesMax series. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/metric_handles.h"
#include "api/services.h"
#include "api/stats_reader.h"
#include "base/metrics.h"

namespace noetl::api {

struct MetricLabel {
  std::string name;
  std::vector<std::string> values;  // empty: open
};

// Series of a family with an open label: its values come from users.
inline constexpr std::size_t kOpenSeriesMax = 64;

// What counters and histograms share: from label values to a series, made when it is first needed.
template <typename Handle>
class MetricTable {
 public:
  using Make = std::function<Handle(const Metrics::Labels&)>;

  MetricTable(std::vector<MetricLabel> labels, Make make);
  // Values in the order of the labels.
  Handle Get(std::initializer_list<std::string_view> values);

 private:
  Handle Add(std::string key, const Metrics::Labels& labels);
  // The labels with what the family does not know replaced.
  Metrics::Labels Known(std::initializer_list<std::string_view> values) const;

  const std::vector<MetricLabel> labels_;
  const Make make_;
  std::mutex mutex_;
  std::map<std::string, Handle, std::less<>> series_;  // by the values
};

// `metrics.events_ingested.Add({"call.done", "ok"})`.
class CounterTable {
 public:
  CounterTable(Metrics& metrics, std::string name, std::string help,
               std::vector<MetricLabel> labels = {});
  void Add(std::initializer_list<std::string_view> values = {}, double amount = 1);
  // The series itself, for those who count often.
  CounterMetric At(std::initializer_list<std::string_view> values);
  double value(std::initializer_list<std::string_view> values = {});

 private:
  MetricTable<CounterMetric> table_;
};

class HistogramTable {
 public:
  HistogramTable(Metrics& metrics, std::string name, std::string help,
                 std::vector<MetricLabel> labels = {}, std::vector<double> buckets = {});
  void Observe(double value, std::initializer_list<std::string_view> values = {});
  HistogramMetric At(std::initializer_list<std::string_view> values);

 private:
  MetricTable<HistogramMetric> table_;
};

struct ServerMetrics {
  ServerMetrics(Metrics& metrics, const std::string& version);

  CounterTable events_ingested;         // event_type, status (ok, error)
  HistogramTable event_ingest_seconds;  // event_type
  HistogramTable event_phase_seconds;   // phase
  CounterTable events_projected;
  CounterTable events_projected_duplicates;
  CounterTable events_materialized;
  CounterTable event_hotpath_reads;  // site, outcome

  CounterTable write_requests;   // endpoint, status
  HistogramTable write_seconds;  // endpoint

  CounterTable execute_outcomes;  // entry (single, batch), outcome (new, duplicate, error)
  HistogramTable execute_batch_size;
  CounterTable claims;                     // outcome
  CounterTable command_publish;            // route, pool
  CounterTable command_row_insert_failed;  // mode
  CounterTable orchestrate_drive;          // stage
  CounterTable terminal_dedup;             // outcome
  CounterTable state_build;                // mode, outcome
  CounterTable state_build_event_scans;
  CounterTable projection_advanced;

  CounterTable result_put;  // status
  HistogramTable result_put_seconds;
  CounterTable result_resolve;  // status
  HistogramTable result_resolve_seconds;
  CounterTable object_ops;  // backend, op, outcome

  CounterTable credentials_sealed;         // status
  CounterTable secret_resolve;             // provider, region, status
  HistogramTable secret_resolve_seconds;   // provider, region
  CounterTable secret_refresh;             // outcome
  CounterTable secret_audit_writes;        // operation, outcome, status
  CounterTable wallet_rotate;              // table, status
  CounterTable auth_sync;                  // operation, outcome
  CounterTable auth_jwt_verify;            // mode, outcome
  CounterTable auth_jwks;                  // event
  CounterTable catalog_delete;             // outcome
  CounterTable cleanup_rows_purged;        // table
  CounterTable orphan_sweep;               // outcome
  CounterTable nonconvergence_sweep;       // outcome
  CounterTable container_callback;         // state
  CounterTable container_callback_stale;   // state
  CounterTable execution_affinity;         // outcome
  CounterTable event_ingest_published;     // event_type
  CounterTable event_ingest_publish_skip;  // reason
  CounterTable event_stream_published;     // event_type
  CounterTable event_stream_skipped;

  GaugeMetric event_stream_cursor;
  GaugeMetric sharding_config_parse_failed;
  GaugeMetric executions_running;
  GaugeMetric commands_pending;
  GaugeMetric commands_claimed;
  GaugeMetric command_queue_age_seconds;
  GaugeMetric outbox_pending;
  GaugeMetric outbox_oldest_age_seconds;
  GaugeMetric db_pool_in_use;
  GaugeMetric db_pool_idle;
  GaugeMetric db_pool_waiting;

  // Handles into the families above, for routes that count often.
  IngestMetrics ingest;
  WriteMetrics writes;
  StartMetrics starts;
  ClaimMetrics claim_outcomes;
  // Brings in what others have counted.
  StatsReader stats;
};

// The metrics of a server that has a router.
ServerMetrics& MetricsOf(Services& services);

// Asks the store how old what waits is and how busy its connections are. What cannot be read keeps
// its last value.
void RefreshStoreGauges(Services& services);

}  // namespace noetl::api
