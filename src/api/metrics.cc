#include "api/metrics.h"

#include <algorithm>
#include <utility>

#include "api/router_parts.h"
#include "base/check.h"
#include "engine/events.h"

namespace noetl::api {

namespace {

using Words = std::vector<std::string>;

const std::vector<double> kBatchSizes = {1, 5, 10, 25, 50, 100, 250, 500, 1000};

constexpr std::string_view kOther = "other";
// Between the values of a key; no label value has it.
constexpr char kBetween = '\x1f';

Words EventTypeNames() {
  Words names;
  for (const engine::EventTypeInfo& info : engine::EventTypes()) names.emplace_back(info.name);
  return names;
}

template <std::size_t kCount>
Words WordsOf(const std::array<std::string_view, kCount>& words) {
  return {words.begin(), words.end()};
}

Words ReadSites() {
  Words sites = WordsOf(kReadSiteNames);
  sites.emplace_back("execute");
  return sites;
}

const Words kPhases = {"catalog_id",   "claim_check", "normalize",
                       "emit",         "emit_mirror", "emit_should_publish",
                       "emit_publish", "emit_insert", "trigger"};
const Words kWriteEndpoints = {"catalog_register", "catalog_delete",   "credentials_upsert",
                               "keychain_set",     "runtime_register", "runtime_heartbeat"};
const Words kOkError = {"ok", "error"};
const Words kStored = {"ok", "error", "not_found", "bad_request"};
const Words kDriveStages = {
    "dispatched",           "applied",      "skipped_in_flight", "retrigger_recorded",
    "retrigger_dispatched", "decode_error", "drive_error",       "context_offloaded",
    "context_ref_resolved"};
const Words kSealed = {"ok",        "ok_via_broker",       "no_pubkey",        "worker_not_found",
                       "not_found", "residency_violation", "credential_error", "seal_error"};
const Words kRefreshes = {"triggered", "stampede_collapsed", "succeeded", "failed",
                          "decision_failed"};
const Words kVerified = {"success",   "bad_signature",    "bad_claims", "unknown_kid",
                         "malformed", "jwks_unavailable", "no_domain"};
const Words kDeletes = {
    "deleted", "no_match", "archived", "already_archived", "archive_unavailable", "restored"};
const Words kSweeps = {"candidate", "terminated", "skipped_live", "capped", "error"};
const Words kPurgedTables = {"command",     "runtime",      "event_partition", "keychain",
                             "request_key", "result_store", "outbox"};
const Words kClaims = {"claimed",    "repeated",  "active_claim", "already_terminal",
                       "superseded", "cancelled", "not_found",    "error"};
const Words kCallbacks = {"succeeded",  "failed",           "failed_image_pull",
                          "failed_oom", "failed_node_lost", "failed_timeout"};
const Words kAffinities = {"owned_local",      "forwarded_ok",       "forwarded_terminus",
                           "forward_http_err", "forward_decode_err", "forward_unavailable"};

}  // namespace

template <typename Handle>
MetricTable<Handle>::MetricTable(std::vector<MetricLabel> labels, Make make)
    : labels_(std::move(labels)), make_(std::move(make)) {
  std::vector<std::pair<std::string, Metrics::Labels>> known = {{"", {}}};
  for (const MetricLabel& label : labels_) {
    std::vector<std::pair<std::string, Metrics::Labels>> longer;
    for (const auto& [key, start] : known) {
      for (const std::string& value : label.values) {
        longer.emplace_back(key + value + kBetween, start);
        longer.back().second.emplace(label.name, value);
      }
    }
    known = std::move(longer);
  }
  for (auto& [key, values] : known) Add(std::move(key), values);
}

template <typename Handle>
Handle MetricTable<Handle>::Add(std::string key, const Metrics::Labels& labels) {
  return series_.emplace(std::move(key), make_(labels)).first->second;
}

template <typename Handle>
Metrics::Labels MetricTable<Handle>::Known(std::initializer_list<std::string_view> values) const {
  Metrics::Labels labels;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const MetricLabel& label = labels_[i];
    const std::string_view value = values.begin()[i];
    const bool fits = label.values.empty()
                          ? series_.size() < kOpenSeriesMax
                          : std::ranges::find(label.values, value) != label.values.end();
    labels.emplace(label.name, fits ? value : kOther);
  }
  return labels;
}

template <typename Handle>
Handle MetricTable<Handle>::Get(std::initializer_list<std::string_view> values) {
  NOETL_CHECK(values.size() == labels_.size(), "a metric needs a value for each of its labels");
  std::string key;
  for (std::string_view value : values) (key += value) += kBetween;
  const std::lock_guard lock(mutex_);
  const auto found = series_.find(key);
  if (found != series_.end()) return found->second;
  const Metrics::Labels labels = Known(values);
  key.clear();
  for (const MetricLabel& label : labels_) (key += labels.at(label.name)) += kBetween;
  const auto other = series_.find(key);
  return other != series_.end() ? other->second : Add(std::move(key), labels);
}

CounterTable::CounterTable(Metrics& metrics, std::string name, std::string help,
                           std::vector<MetricLabel> labels)
    : table_(std::move(labels), [&metrics, name, help](const Metrics::Labels& values) {
        return metrics.Counter(name, help, values);
      }) {}

void CounterTable::Add(std::initializer_list<std::string_view> values, double amount) {
  table_.Get(values).Add(amount);
}

CounterMetric CounterTable::At(std::initializer_list<std::string_view> values) {
  return table_.Get(values);
}

double CounterTable::value(std::initializer_list<std::string_view> values) {
  return table_.Get(values).value();
}

HistogramTable::HistogramTable(Metrics& metrics, std::string name, std::string help,
                               std::vector<MetricLabel> labels, std::vector<double> buckets)
    : table_(std::move(labels), [&metrics, name, help, buckets](const Metrics::Labels& values) {
        return metrics.Histogram(name, help, values, buckets);
      }) {}

void HistogramTable::Observe(double value, std::initializer_list<std::string_view> values) {
  table_.Get(values).Observe(value);
}

HistogramMetric HistogramTable::At(std::initializer_list<std::string_view> values) {
  return table_.Get(values);
}

ServerMetrics::ServerMetrics(Metrics& m, const std::string& version)
    : events_ingested(m, "noetl_events_ingested_total", "Events that workers sent.",
                      {{"event_type", EventTypeNames()}, {"status", kOkError}}),
      event_ingest_seconds(m, "noetl_event_ingest_duration_seconds", "Time to take an event.",
                           {{"event_type", EventTypeNames()}}),
      event_phase_seconds(m, "noetl_event_ingest_phase_seconds",
                          "Time of each phase of taking an event.", {{"phase", kPhases}}),
      events_projected(m, "noetl_events_projected_total", "Events written for a projector."),
      events_projected_duplicates(m, "noetl_events_projected_duplicates_total",
                                  "Projected events that were there already."),
      events_materialized(m, "noetl_events_materialized_total",
                          "Events written for a materializer."),
      event_hotpath_reads(m, "noetl_event_hotpath_reads_total",
                          "Reads of the event log on hot paths.",
                          {{"site", ReadSites()}, {"outcome", WordsOf(kReadOutcomeNames)}}),
      write_requests(m, "noetl_write_requests_total", "Requests that change what is stored.",
                     {{"endpoint", kWriteEndpoints}, {"status", kOkError}}),
      write_seconds(m, "noetl_write_request_duration_seconds",
                    "Time of requests that change what is stored.",
                    {{"endpoint", kWriteEndpoints}}),
      execute_outcomes(
          m, "noetl_execute_outcomes_total", "Runs asked for.",
          {{"entry", {"single", "batch"}}, {"outcome", {"new", "duplicate", "error"}}}),
      execute_batch_size(m, "noetl_execute_batch_size", "Runs in a batch.", {}, kBatchSizes),
      claims(m, "noetl_claims_total", "Claims of commands.", {{"outcome", kClaims}}),
      command_publish(m, "noetl_command_publish_total", "Commands told to workers.",
                      {{"route", {"legacy", "sharded"}}, {"pool", {}}}),
      command_row_insert_failed(m, "noetl_command_row_insert_failed_total",
                                "Commands that could not be stored.",
                                {{"mode", {"single", "batch"}}}),
      orchestrate_drive(m, "noetl_orchestrate_drive_total", "Decisions by stage.",
                        {{"stage", kDriveStages}}),
      terminal_dedup(m, "noetl_terminal_dedup_total", "Second ends of a run that were refused.",
                     {{"outcome", {"suppressed"}}}),
      state_build(m, "noetl_state_build_total", "States built from the log.",
                  {{"mode", {"snapshot", "full"}}, {"outcome", kOkError}}),
      state_build_event_scans(m, "noetl_state_build_event_scans_total",
                              "States built from all events."),
      projection_advanced(m, "noetl_projection_advanced_total", "Snapshots advanced from outside."),
      result_put(m, "noetl_result_store_put_total", "Results stored by workers.",
                 {{"status", kStored}}),
      result_put_seconds(m, "noetl_result_store_put_duration_seconds", "Time to store a result."),
      result_resolve(m, "noetl_result_store_resolve_total", "References resolved.",
                     {{"status", kStored}}),
      result_resolve_seconds(m, "noetl_result_store_resolve_duration_seconds",
                             "Time to resolve a reference."),
      object_ops(m, "noetl_object_store_ops_total", "Reads and writes of objects.",
                 {{"backend", {"embedded", "postgres", "fs"}},
                  {"op", {"put", "get"}},
                  {"outcome", {"ok", "not_found", "error"}}}),
      credentials_sealed(m, "noetl_credentials_sealed_total", "Credentials sealed to a worker.",
                         {{"status", kSealed}}),
      secret_resolve(m, "noetl_secret_resolve_total", "Secrets fetched from providers.",
                     {{"provider", WordsOf(vault::kProviders)},
                      {"region", {std::string(kRegion)}},
                      {"status", kOkError}}),
      secret_resolve_seconds(
          m, "noetl_secret_resolve_duration_seconds", "Time to fetch a secret.",
          {{"provider", WordsOf(vault::kProviders)}, {"region", {std::string(kRegion)}}}),
      secret_refresh(m, "noetl_secret_refresh_total", "Renewals of cached secrets.",
                     {{"outcome", kRefreshes}}),
      secret_audit_writes(m, "noetl_secret_audit_writes_total", "Rows of the audit of secrets.",
                          {{"operation", WordsOf(vault::kAuditOperations)},
                           {"outcome", WordsOf(vault::kAuditOutcomes)},
                           {"status", kOkError}}),
      wallet_rotate(
          m, "noetl_wallet_rotate_total", "Data keys wrapped anew.",
          {{"table", {"credential", "keychain"}}, {"status", {"rewrapped", "skipped", "failed"}}}),
      auth_sync(m, "noetl_auth_sync_total", "Calls for sessions and access.",
                {{"operation", {"validate", "login", "check_access"}},
                 {"outcome", {"granted", "denied", "error"}}}),
      auth_jwt_verify(m, "noetl_auth_jwt_verify_total", "Signatures of tokens checked.",
                      {{"mode", {"shadow", "enforce"}}, {"outcome", kVerified}}),
      auth_jwks(m, "noetl_auth_jwks_total", "Uses of signing keys.",
                {{"event", {"cache_hit", "cache_miss", "unknown_kid_refresh"}}}),
      catalog_delete(m, "noetl_catalog_delete_total", "Removals from the catalog.",
                     {{"outcome", kDeletes}}),
      cleanup_rows_purged(m, "noetl_cleanup_rows_purged_total", "Rows removed by cleaning.",
                          {{"table", kPurgedTables}}),
      orphan_sweep(m, "noetl_orphan_sweep_total", "Leases that were over, by what became of them.",
                   {{"outcome", kSweeps}}),
      nonconvergence_sweep(m, "noetl_nonconvergence_sweep_total",
                           "Time limits of runs that were due.", {{"outcome", kSweeps}}),
      container_callback(m, "noetl_container_callback_total", "Callbacks of containers.",
                         {{"state", kCallbacks}}),
      container_callback_stale(m, "noetl_container_callback_stale_total",
                               "Callbacks that nobody waited for.", {{"state", kCallbacks}}),
      execution_affinity(m, "noetl_execution_affinity_total",
                         "Requests by the server that owns their run.", {{"outcome", kAffinities}}),
      event_ingest_published(m, "noetl_event_ingest_published_total",
                             "Events published instead of stored.",
                             {{"event_type", EventTypeNames()}}),
      event_ingest_publish_skip(m, "noetl_event_ingest_publish_skipped_total",
                                "Events not published.",
                                {{"reason", {"gate_off", "no_transport", "system_execution"}}}),
      event_stream_published(m, "noetl_event_stream_published_total",
                             "Events put on the event stream.", {{"event_type", EventTypeNames()}}),
      event_stream_skipped(m, "noetl_event_stream_skipped_total",
                           "Events that the event stream had already."),
      event_stream_cursor(m.Gauge("noetl_event_stream_cursor", "Last event on the event stream.")),
      sharding_config_parse_failed(m.Gauge("noetl_sharding_config_parse_failed",
                                           "1 when the sharding settings were refused.")),
      executions_running(m.Gauge("noetl_executions_running", "Runs that have not ended.")),
      commands_pending(
          m.Gauge("noetl_commands", "Open commands by status.", {{"status", "pending"}})),
      commands_claimed(
          m.Gauge("noetl_commands", "Open commands by status.", {{"status", "claimed"}})),
      command_queue_age_seconds(
          m.Gauge("noetl_command_queue_age_seconds", "Age of the oldest command that waits.")),
      outbox_pending(m.Gauge("noetl_outbox_pending", "Events that wait in the outbox.")),
      outbox_oldest_age_seconds(
          m.Gauge("noetl_outbox_oldest_age_seconds", "Age of the oldest event in the outbox.")),
      db_pool_in_use(m.Gauge("noetl_db_pool_in_use", "Connections to the database in use.")),
      db_pool_idle(m.Gauge("noetl_db_pool_idle", "Connections to the database that are idle.")),
      db_pool_waiting(m.Gauge("noetl_db_pool_waiting", "Requests that wait for a connection.")),
      ingest(events_ingested),
      writes(write_requests, write_seconds),
      starts(execute_outcomes, execute_batch_size, event_hotpath_reads),
      claim_outcomes(claims),
      stats(*this) {
  m.Gauge("noetl_server_build_info", "Running version, always 1.", {{"version", version}}).Set(1);
}

ServerMetrics& MetricsOf(Services& services) {
  NOETL_CHECK(services.parts != nullptr, "metrics are there when the router is");
  return services.parts->metrics;
}

void RefreshStoreGauges(Services& services) {
  const Result<store::StoreGauges> gauges = services.store->Measure();
  if (!gauges) return;
  const std::int64_t now_us = services.clock->NowMicros();
  const auto age = [&](std::int64_t since_us) {
    constexpr double kMicros = 1e6;
    return since_us == 0 ? 0.0 : std::max(0.0, static_cast<double>(now_us - since_us) / kMicros);
  };
  ServerMetrics& metrics = MetricsOf(services);
  metrics.command_queue_age_seconds.Set(age(gauges->oldest_pending_us));
  metrics.outbox_oldest_age_seconds.Set(age(gauges->oldest_outbox_us));
  metrics.db_pool_in_use.Set(static_cast<double>(gauges->connections_in_use));
  metrics.db_pool_idle.Set(static_cast<double>(gauges->connections_idle));
  metrics.db_pool_waiting.Set(static_cast<double>(gauges->writers_waiting));
}

}  // namespace noetl::api
