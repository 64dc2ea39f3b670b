#include "api/dashboard.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/execution_json.h"
#include "api/route.h"
#include "api/router_parts.h"
#include "base/time.h"

namespace noetl::api {

namespace {

constexpr std::int64_t kKeptUs = 2'000'000;
constexpr std::int64_t kRecentRuns = 10;
constexpr std::int64_t kTrendDays = 7;
constexpr std::int64_t kDayUs = 24LL * 3600 * 1'000'000;
constexpr std::int64_t kPageEntries = 1000;
// Beyond this many entries the count of playbooks stops; nobody reads it.
constexpr int kPagesMax = 1000;

std::int64_t TotalOf(const store::ExecutionCounts& counts) {
  return counts.running + counts.completed + counts.failed + counts.cancelled;
}

Result<std::int64_t> CountPlaybooks(const store::Catalog& catalog) {
  std::int64_t count = 0;
  std::string after;
  for (int page = 0; page < kPagesMax; ++page) {
    NOETL_ASSIGN(const auto entries, catalog.ListEntries(after, kPageEntries));
    count += std::ranges::count(entries, "playbook", &store::CatalogEntry::kind);
    if (static_cast<std::int64_t>(entries.size()) < kPageEntries) break;
    after = entries.back().path;
  }
  return count;
}

// Workers that have been heard of lately, and the one in this process.
Result<std::int64_t> CountWorkers(Services& services) {
  const std::int64_t since_us =
      services.clock->NowMicros() -
      services.settings->DurationMs("NOETL_RUNTIME_OFFLINE_SECONDS") * 1000;
  auto listed = services.conductor != nullptr
                    ? services.conductor->fleet().List("worker_pool", "", "")
                    : services.store->ListRuntimes("worker_pool", "", "");
  NOETL_ASSIGN(const auto rows, std::move(listed));
  const auto live = std::ranges::count_if(
      rows, [&](const store::RuntimeRow& row) { return row.heartbeat_us >= since_us; });
  return live + (services.embedded_worker ? 1 : 0);
}

Result<Json> RecentRuns(Services& services) {
  NOETL_ASSIGN(const auto rows, services.store->List({.limit = kRecentRuns}));
  std::vector<Json> runs;
  for (const store::ExecutionRow& row : rows) {
    runs.push_back(ExecutionSummary(row, services.clock->NowMicros(), Ids::kNumbers));
  }
  return Json::Array(std::move(runs));
}

Result<Json> MakeStats(Services& services) {
  NOETL_ASSIGN(const store::ExecutionCounts counts, services.store->Count(0));
  NOETL_ASSIGN(const std::int64_t playbooks, CountPlaybooks(*services.store));
  NOETL_ASSIGN(const std::int64_t workers, CountWorkers(services));
  NOETL_ASSIGN(const Json recent, RecentRuns(services));
  const std::int64_t ended = counts.completed + counts.failed + counts.cancelled;
  const double rate =
      ended == 0 ? 0 : static_cast<double>(counts.completed) / static_cast<double>(ended);
  return Json::Object({{"status", "ok"},
                       {"stats", Json::Object({{"total_executions", TotalOf(counts)},
                                               {"successful_executions", counts.completed},
                                               {"failed_executions", counts.failed},
                                               {"cancelled_executions", counts.cancelled},
                                               {"running_executions", counts.running},
                                               {"total_playbooks", playbooks},
                                               {"total_workers", workers}})},
                       {"total_playbooks", playbooks},
                       {"total_executions", TotalOf(counts)},
                       {"active_executions", counts.running},
                       {"success_rate", rate},
                       {"recent_executions", recent}});
}

// [{date, count}] of the last days in UTC, oldest first.
Result<Json> Trend(Services& services) {
  const std::int64_t today_us = services.clock->NowMicros() / kDayUs * kDayUs;
  std::vector<Json> days;
  std::int64_t later = 0;  // runs of the days after
  for (std::int64_t back = 0; back < kTrendDays; ++back) {
    const std::int64_t start_us = today_us - back * kDayUs;
    NOETL_ASSIGN(const store::ExecutionCounts counts, services.store->Count(start_us));
    days.push_back(Json::Object(
        {{"date", FormatTime(start_us).substr(0, 10)}, {"count", TotalOf(counts) - later}}));
    later = TotalOf(counts);
  }
  std::ranges::reverse(days);
  return Json::Array(std::move(days));
}

Result<Json> MakeWidgets(Services& services) {
  NOETL_ASSIGN(Json trend, Trend(services));
  NOETL_ASSIGN(Json recent, RecentRuns(services));
  const Json chart =
      Json::Object({{"id", "execution-trend"},
                    {"type", "chart"},
                    {"title", "Runs of the last 7 days"},
                    {"config", Json::Object({{"chart_type", "line"}, {"time_range", "7d"}})},
                    {"data", std::move(trend)}});
  const Json columns = Json::Array({"execution_id", "path", "status", "started_at"});
  const Json table = Json::Object({{"id", "recent-executions"},
                                   {"type", "table"},
                                   {"title", "Newest runs"},
                                   {"config", Json::Object({{"columns", columns}})},
                                   {"data", std::move(recent)}});
  return Json::Object({{"widgets", Json::Array({chart, table})}});
}

Result<Json> KeptOr(Services& services, RouterParts::Kept& kept, Result<Json> (*make)(Services&)) {
  const std::int64_t now_us = services.clock->MonotonicMicros();
  {
    const std::lock_guard lock(services.parts->kept_mutex);
    if (now_us < kept.until_us) return kept.value;
  }
  NOETL_ASSIGN(Json value, make(services));
  const std::lock_guard lock(services.parts->kept_mutex);
  kept = {now_us + kKeptUs, value};
  return value;
}

}  // namespace

Result<Json> DashboardStats(Services& services) {
  return KeptOr(services, services.parts->dashboard, MakeStats);
}

Result<Json> DashboardWidgets(Services& services) {
  return KeptOr(services, services.parts->widgets, MakeWidgets);
}

void RefreshGauges(Services& services) {
  ServerMetrics& metrics = MetricsOf(services);
  // What cannot be read now keeps its last value: metrics are for times of trouble too.
  if (const auto stats = DashboardStats(services)) {
    metrics.executions_running.Set(static_cast<double>((*stats)["active_executions"].AsInt()));
  }
  const std::int64_t lease_us = services.settings->DurationMs("NOETL_OUTBOX_LEASE_SECONDS") * 1000;
  if (const auto count = services.store->CountOutbox(services.clock->NowMicros(), lease_us)) {
    metrics.outbox_pending.Set(static_cast<double>(*count));
  }
  RefreshStoreGauges(services);
  metrics.stats.Read(services);
  if (services.conductor == nullptr) return;
  double waiting = 0;
  for (const auto& [pool, count] : services.conductor->WaitingByPool()) {
    waiting += static_cast<double>(count);
  }
  metrics.commands_pending.Set(waiting);
  metrics.commands_claimed.Set(static_cast<double>(services.conductor->leases().size()));
}

}  // namespace noetl::api
