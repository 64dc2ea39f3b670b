#include "worker/remote/metrics.h"

namespace noetl::worker {
namespace {

constexpr std::string_view kOther = "other";
constexpr std::string_view kPipeline = "task_sequence";
constexpr double kMicrosPerSecond = 1e6;

// Commands take from a millisecond to an hour.
const std::vector<double> kDurations = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1,
                                        5,     10,    30,   60,   300, 900, 3600};

CounterMetric Pulls(Metrics& metrics, const std::string& outcome) {
  return metrics.Counter("noetl_worker_pulls_total", "Requests for work by how they ended.",
                         {{"outcome", outcome}});
}

}  // namespace

WorkerMetrics::WorkerMetrics(const std::string& version, const std::vector<std::string>& kinds)
    : ready_(metrics_.Gauge("noetl_worker_ready",
                            "1: registered at the server and not about to leave.")),
      slots_(metrics_.Gauge("noetl_worker_slots", "Commands that may run at once.")),
      running_(metrics_.Gauge("noetl_worker_concurrent_dispatches", "Commands that run.")),
      waiting_(metrics_.Gauge("noetl_worker_waiting_commands",
                              "Commands that wait for a delay or a child and need no slot.")),
      undelivered_(metrics_.Gauge("noetl_worker_undelivered_reports",
                                  "Reports that the server has not confirmed.")),
      spool_records_(metrics_.Gauge("noetl_worker_spool_records",
                                    "Reports on the disk that wait for the server.")),
      spool_bytes_(metrics_.Gauge("noetl_worker_spool_bytes", "Size of the spool file.")),
      sandbox_level_(metrics_.Gauge("noetl_worker_sandbox_level",
                                    "How processes of tools are confined at least: 0 off, 1 "
                                    "basic, 2 strict.")),
      events_sent_(
          metrics_.Counter("noetl_worker_events_sent_total", "Events that the server has stored.")),
      retries_(metrics_.Counter("noetl_worker_event_emit_retries_total",
                                "Repeated requests with events, results or output.")),
      pulls_claimed_(Pulls(metrics_, "claimed")),
      pulls_none_(Pulls(metrics_, "none")),
      pulls_failed_(Pulls(metrics_, "error")),
      accepted_(
          metrics_.Counter("noetl_worker_claim_succeeded_total", "Commands that were taken.")),
      leases_lost_(metrics_.Counter("noetl_worker_leases_lost_total",
                                    "Commands that were stopped because they were somebody "
                                    "else's, or might be.")) {
  metrics_.Gauge("noetl_worker_build_info", "Version of the program.", {{"version", version}})
      .Set(1);
  const auto add = [this](std::string_view kind) {
    const Metrics::Labels labels = {{"tool_kind", std::string(kind)}};
    kinds_.try_emplace(
        std::string(kind),
        OfKind{metrics_.Histogram("noetl_worker_dispatch_duration_seconds",
                                  "From taking a command to its last report.", labels, kDurations),
               metrics_.Counter("noetl_worker_dispatch_errors_total", "Commands that failed.",
                                labels)});
  };
  for (const std::string& kind : kinds) add(kind);
  add(kPipeline);
  add(kOther);
}

void WorkerMetrics::Ended(std::string_view kind, std::int64_t duration_us, bool failed) {
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) found = kinds_.find(kOther);
  found->second.durations.Observe(static_cast<double>(duration_us) / kMicrosPerSecond);
  if (failed) found->second.errors.Add();
}

std::string WorkerMetrics::Expose(const WorkerFigures& figures) {
  ready_.Set(figures.ready ? 1 : 0);
  slots_.Set(figures.slots);
  running_.Set(static_cast<double>(figures.running));
  waiting_.Set(figures.waiting);
  undelivered_.Set(static_cast<double>(figures.undelivered));
  spool_records_.Set(static_cast<double>(figures.spool_records));
  spool_bytes_.Set(static_cast<double>(figures.spool_bytes));
  return metrics_.Expose();
}

}  // namespace noetl::worker
