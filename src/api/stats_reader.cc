#include "api/stats_reader.h"

#include "api/metrics.h"

namespace noetl::api {

namespace {

using conductor::Tally;

// In the order of the enumeration.
constexpr std::string_view kRefreshNames[] = {"triggered", "stampede_collapsed", "succeeded",
                                              "failed", "decision_failed"};
constexpr std::string_view kStatuses[] = {"ok", "error"};

}  // namespace

void StatsReader::ShownTimes::Show(const Durations& times) {
  const Durations::Counts now = times.Read();
  seconds.ObserveNew(std::exchange(seen, now), now);
}

StatsReader::StatsReader(ServerMetrics& m) : metrics_(m) {
  tallies_ = {
      {Tally::kDecided, {m.orchestrate_drive.At({"dispatched"})}},
      {Tally::kApplied, {m.orchestrate_drive.At({"applied"})}},
      {Tally::kWaitedForUnit, {m.orchestrate_drive.At({"skipped_in_flight"})}},
      {Tally::kCutShort, {m.orchestrate_drive.At({"retrigger_recorded"})}},
      {Tally::kContinued, {m.orchestrate_drive.At({"retrigger_dispatched"})}},
      {Tally::kDecisionsFailed, {m.orchestrate_drive.At({"drive_error"})}},
      {Tally::kBodiesStored, {m.orchestrate_drive.At({"context_offloaded"})}},
      {Tally::kBodiesLoaded, {m.orchestrate_drive.At({"context_ref_resolved"})}},
      {Tally::kEndsRefused, {m.terminal_dedup.At({"suppressed"})}},
      {Tally::kBuiltFromSnapshot, {m.state_build.At({"snapshot", "ok"})}},
      {Tally::kBuiltFromLog, {m.state_build.At({"full", "ok"})}},
      {Tally::kBuiltFromLog, {m.state_build_event_scans.At({})}},
      {Tally::kSnapshotBuildsFailed, {m.state_build.At({"snapshot", "error"})}},
      {Tally::kLogBuildsFailed, {m.state_build.At({"full", "error"})}},
      {Tally::kClaimedInProcess, {m.claims.At({"claimed"})}},
      {Tally::kLeasesEnded, {m.orphan_sweep.At({"candidate"})}},
      {Tally::kLeasesTaken, {m.orphan_sweep.At({"terminated"})}},
      {Tally::kLeasesKept, {m.orphan_sweep.At({"skipped_live"})}},
      {Tally::kLeaseLooksFull, {m.orphan_sweep.At({"capped"})}},
      {Tally::kTimeLimitsDue, {m.nonconvergence_sweep.At({"candidate"})}},
      {Tally::kTimeLimitsHit, {m.nonconvergence_sweep.At({"terminated"})}},
      {Tally::kTimeLimitsMoot, {m.nonconvergence_sweep.At({"skipped_live"})}},
      {Tally::kTimerLooksFull, {m.nonconvergence_sweep.At({"capped"})}},
      {Tally::kTimerLooksFailed, {m.nonconvergence_sweep.At({"error"})}},
  };
  for (const std::string_view site : kReadSiteNames) {
    for (const std::string_view outcome : kReadOutcomeNames)
      reads_.push_back({m.event_hotpath_reads.At({site, outcome})});
  }
  for (const std::string_view operation : vault::kAuditOperations) {
    for (const std::string_view outcome : vault::kAuditOutcomes) {
      for (const std::string_view status : kStatuses)
        audits_.push_back({m.secret_audit_writes.At({operation, outcome, status})});
    }
  }
  for (const std::string_view provider : vault::kProviders) {
    for (const std::string_view status : kStatuses)
      fetches_.push_back({m.secret_resolve.At({provider, kRegion, status})});
    fetch_times_.push_back({m.secret_resolve_seconds.At({provider, kRegion}), {}});
  }
  for (const std::string_view outcome : kRefreshNames)
    refreshes_.push_back({m.secret_refresh.At({outcome})});
  for (std::size_t i = 0; i < IngestMetrics::kTypes; ++i) {
    const std::string_view name = engine::EventName(static_cast<engine::EventType>(i));
    ingest_times_.push_back({m.event_ingest_seconds.At({name.empty() ? "other" : name}), {}});
  }
  for (const std::string_view phase : {"normalize", "emit"})
    phases_.push_back({m.event_phase_seconds.At({phase}), {}});
}

void StatsReader::ReadConductor(const conductor::Conductor& conductor) {
  const conductor::ConductorStats stats = conductor.Stats();
  for (auto& [tally, shown] : tallies_) shown.Show(stats[tally]);
  auto shown = reads_.begin();
  for (const auto& site : stats.reads) {
    for (const std::int64_t count : site) (shown++)->Show(count);
  }
  for (const auto& [pool, count] : conductor.ToldByPool()) {
    std::int64_t& seen = told_[pool];
    metrics_.command_publish.Add({"legacy", pool}, static_cast<double>(count - seen));
    seen = count;
  }
}

void StatsReader::ReadSecrets(const vault::SecretStats& stats) {
  auto audit = audits_.begin();
  for (const auto& operation : stats.audits) {
    for (const auto& outcome : operation) {
      for (const auto& count : outcome) (audit++)->Show(count);
    }
  }
  auto fetch = fetches_.begin();
  for (const auto& provider : stats.fetches) {
    for (const auto& count : provider) (fetch++)->Show(count);
  }
  for (std::size_t i = 0; i < fetch_times_.size(); ++i) fetch_times_[i].Show(stats.fetch_times[i]);
  for (std::size_t i = 0; i < refreshes_.size(); ++i) refreshes_[i].Show(stats.refreshes[i]);
}

void StatsReader::ReadIngest() {
  const IngestMetrics& ingest = metrics_.ingest;
  for (std::size_t i = 0; i < ingest_times_.size(); ++i) ingest_times_[i].Show(ingest.times[i]);
  phases_[0].Show(ingest.normalize);
  phases_[1].Show(ingest.emit);
}

void StatsReader::Read(const Services& services) {
  if (services.conductor != nullptr) ReadConductor(*services.conductor);
  if (services.vault != nullptr) ReadSecrets(services.vault->stats());
  ReadIngest();
}

}  // namespace noetl::api
