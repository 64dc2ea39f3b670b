// The server itself: health, metrics, how it is doing, its database, its document.
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/dashboard.h"
#include "api/handle.h"
#include "api/process_stats.h"
#include "api/route.h"
#include "api/router_parts.h"
#include "api/sql_request.h"
#include "base/shard.h"

namespace noetl::api {

namespace {

constexpr std::int64_t kSqlRowsMax = 1000;
constexpr std::int64_t kSqlTimeoutMs = 10'000;
constexpr std::int64_t kShardCountMax = 1024;

// ---- health

void Alive(CallPtr call) { call->Answer(Json::Object({{"status", "ok"}})); }

void Ready(CallPtr call) {
  Services& services = call->services();
  const bool reads = services.store->Find(1).has_value();
  const std::int64_t up_us = services.clock->NowMicros() - services.started_at_us;
  call->Answer(Json::Object({{"status", reads ? "ok" : "unhealthy"},
                             {"database", reads ? "connected" : "disconnected"},
                             {"nats", "disabled"},
                             {"uptime_seconds", up_us / 1'000'000},
                             {"version", services.version}}),
               reads ? 200 : 503);
}

// The embedded store has no pool of connections; what requests can wait for is the thread that reads
// a lot.
void PoolStatus(CallPtr call) {
  const Background::Load load = call->services().parts->background.load();
  const std::int64_t in_use = load.running ? 1 : 0;
  call->Answer(Json::Object({{"pool_min", 1},
                             {"pool_max", 1},
                             {"pool_size", 1},
                             {"pool_available", 1 - in_use},
                             {"requests_waiting", load.waiting},
                             {"utilization", static_cast<double>(in_use)},
                             {"slots_available", 1 - in_use},
                             {"status", "ok"}}));
}

void ShowMetrics(CallPtr call) {
  InBackground(std::move(call), [](CallPtr later) {
    Services& services = later->services();
    RefreshGauges(services);
    Response response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = services.metrics->Expose();
    later->Answer(std::move(response));
  });
}

// ---- how it is doing

void ShowStatus(CallPtr call) {
  Services& services = call->services();
  call->Answer(services.parts->process.Read(
      services.clock->NowMicros(), services.clock->MonotonicMicros(), services.started_at_us));
}

void ShowThreads(CallPtr call) { call->Answer(ThreadList()); }

void ShowVersion(CallPtr call) {
  Services& services = call->services();
  call->Answer(Json::Object({{"name", services.settings->Text("NOETL_SERVER_NAME")},
                             {"version", services.version},
                             {"started_at", TimeOrNull(services.started_at_us)}}));
}

void ShowOpenApi(CallPtr call) {
  Response response;
  response.body = call->services().parts->openapi_text;
  call->Answer(std::move(response));
}

template <Result<Json> (*kMake)(Services&)>
void Later(CallPtr call) {
  InBackground(std::move(call), [](CallPtr later) {
    Result<Json> made = kMake(later->services());
    if (!made) return later->Refuse(made.error());
    later->Answer(std::move(*made));
  });
}

// The profiler of earlier servers: known, and never there.
void ProfilerStatus(CallPtr call) {
  call->Answer(Json::Object({{"is_profiling", false},
                             {"profiler_type", nullptr},
                             {"message", "there is no profiler in the server; use perf"}}));
}
void ProfilerSwitch(CallPtr call) {
  call->Answer(Json::Object(
      {{"status", "info"}, {"message", "there is no profiler in the server; use perf"}}));
}

// ---- the database

void RunSql(CallPtr call) {
  Result<SqlRequest> request = ReadSqlRequest(call->body());
  if (!request) return call->Refuse(request.error());
  const auto answer =
      call->services().store->Query(request->sql, request->parameters, kSqlRowsMax, kSqlTimeoutMs);
  if (!answer && answer.error().code == "sql") {
    return call->Refuse(422, "sql", answer.error().message);
  }
  if (!answer) return call->Refuse(answer.error());
  call->Answer(
      Json::Object({{"status", "ok"},
                    {"result", Json::Array(answer->rows)},
                    {"columns", Json::Array({answer->columns.begin(), answer->columns.end()})},
                    {"truncated", answer->truncated}}));
}

void PostgresExecute(CallPtr call) {
  if (!call->services().parts->options.sql) {
    return call->Refuse(403, "disabled",
                        "SQL is off on this server: set NOETL_SQL_API_ENABLED=true to allow it");
  }
  InBackground(std::move(call), RunSql);
}

// The tables that hold what clients of earlier servers read with SQL.
constexpr std::string_view kTables[] = {
    "catalog",      "command", "credential",          "event",    "execution", "keychain", "outbox",
    "result_store", "runtime", "projection_snapshot", "transient"};

Result<Json> ValidateDatabase(Services& services) {
  NOETL_ASSIGN(const store::StoreStats stats, services.store->Stats());
  std::vector<Json> tables;
  std::vector<Json> missing;
  for (std::string_view table : kTables) {
    const std::string sql = fmt::format("SELECT 1 FROM {} LIMIT 1", table);
    const auto answer = services.store->Query(sql, {}, 1, kSqlTimeoutMs);
    if (!answer && answer.error().code != "sql") return std::unexpected(answer.error());
    (answer ? tables : missing).emplace_back(table);
  }
  const bool valid = missing.empty();
  return Json::Object({{"status", "ok"},
                       {"message", valid ? "all tables are there" : "tables are missing"},
                       {"valid", valid},
                       {"tables", Json::Array(std::move(tables))},
                       {"missing", Json::Array(std::move(missing))},
                       {"schema_version", stats.schema}});
}

// The store makes and migrates its tables when it is opened: by now there is nothing left to do.
Result<Json> InitDatabase(Services& services) {
  NOETL_ASSIGN(const store::StoreStats stats, services.store->Stats());
  return Json::Object({{"status", "ok"},
                       {"message", "the schema is up to date"},
                       {"valid", true},
                       {"applied", Json::Array()},
                       {"schema_version", stats.schema}});
}

// ---- shards and cells

Result<std::int64_t> WholeNumber(const Call& call, std::string_view name) {
  const std::string_view text = call.Query(name).value_or("");
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (!text.empty() && rest == end && problem == std::errc()) return number;
  return Fail("bad_request", text.empty()
                                 ? fmt::format("`{}` is missing", name)
                                 : fmt::format("`{}` must be an integer, not '{}'", name, text));
}

Result<Json> ShardInfo(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, WholeNumber(call, "execution_id"));
  NOETL_ASSIGN(const std::int64_t count, WholeNumber(call, "shard_count"));
  if (count < 1 || count > kShardCountMax) {
    return Fail("bad_request",
                fmt::format("`shard_count` must be 1 to {}, not {}", kShardCountMax, count));
  }
  const Settings& settings = *call.services().settings;
  return Json::Object(
      {{"execution_id", execution_id},
       {"shard_count", count},
       {"shard_index", ShardFor(execution_id, static_cast<std::uint32_t>(count))},
       {"source", "noetl-server"},
       {"hash_function", "twox_hash::XxHash64"},
       {"seed", 0},
       {"server_config", Json::Object({{"shard_index", settings.Int("NOETL_SHARD_INDEX")},
                                       {"shard_count", settings.Int("NOETL_SHARD_COUNT")}})}});
}

void ShowCells(CallPtr call) {
  const Settings& settings = *call->services().settings;
  const std::string& cell = settings.Text("NOETL_RESULT_CELL");
  const Json entry = Json::Object({{"cell", cell},
                                   {"env", settings.Text("NOETL_RESULT_CELL_ENV")},
                                   {"region", settings.Text("NOETL_RESULT_CELL_REGION")},
                                   {"provider", "server"},
                                   {"bucket", ""},
                                   {"endpoint", ""}});
  call->Answer(Json::Object({{"shard_count", settings.Int("NOETL_RESULT_SHARD_COUNT")},
                             {"default_cell", cell},
                             {"cells", Json::Array({entry})}}));
}

// ---- the table

constexpr Parameter kShardQuery[] = {
    {"execution_id", "integer", "the run"},
    {"shard_count", "integer", "how many shards there are, 1 to 1024"},
};

constexpr std::string_view kHealthExample =
    R"({"status":"ok","database":"connected","nats":"disabled","uptime_seconds":812,
        "version":"1.0.0"})";
constexpr std::string_view kOpenApiExample =
    R"({"openapi":"3.1.0","info":{"title":"noetl","version":"1.0.0"},"paths":{}})";
constexpr std::string_view kProfilerExample =
    R"({"status":"info","message":"there is no profiler in the server; use perf"})";

constexpr Route kRoutes[] = {
    {.method = "GET",
     .path = "/health",
     .family = "system",
     .summary = "Whether the process answers",
     .scope = Scope::kOpen,
     .handle = Alive,
     .response = R"({"status":"ok"})"},
    {.method = "GET",
     .path = "/api/health",
     .family = "system",
     .summary = "Whether the server can work; 503 when its store cannot be read",
     .scope = Scope::kOpen,
     .handle = Ready,
     .response = kHealthExample},
    {.method = "GET",
     .path = "/api/health/live",
     .family = "system",
     .summary = "Whether the process answers",
     .scope = Scope::kOpen,
     .handle = Alive,
     .response = R"({"status":"ok"})"},
    {.method = "GET",
     .path = "/api/health/ready",
     .family = "system",
     .summary = "Whether the server can work; 503 when its store cannot be read",
     .scope = Scope::kOpen,
     .handle = Ready,
     .response = kHealthExample},
    {.method = "GET",
     .path = "/metrics",
     .family = "system",
     .summary = "Metrics in the text form of Prometheus",
     .scope = Scope::kOpen,
     .handle = ShowMetrics},
    {.method = "GET",
     .path = "/openapi.json",
     .family = "system",
     .summary = "This document",
     .scope = Scope::kViewer,
     .handle = ShowOpenApi,
     .response = kOpenApiExample},
    {.method = "GET",
     .path = "/api/openapi.json",
     .family = "system",
     .summary = "This document",
     .scope = Scope::kViewer,
     .handle = ShowOpenApi,
     .response = kOpenApiExample},
    {.method = "GET",
     .path = "/api/version",
     .family = "system",
     .summary = "Which server this is",
     .scope = Scope::kViewer,
     .handle = ShowVersion,
     .response = R"({"name":"noetl-control-plane","version":"1.0.0",
                     "started_at":"2026-06-18T12:00:00.000000Z"})"},
    {.method = "GET",
     .path = "/api/pool/status",
     .family = "system",
     .summary = "Whether requests wait for the store",
     .scope = Scope::kViewer,
     .handle = PoolStatus,
     .response = R"({"pool_min":1,"pool_max":1,"pool_size":1,"pool_available":1,
                     "requests_waiting":0,"utilization":0.0,"slots_available":1,"status":"ok"})"},
    {.method = "GET",
     .path = "/api/status",
     .family = "system",
     .summary = "Processor and memory of the machine and the process",
     .scope = Scope::kViewer,
     .handle = ShowStatus,
     .response =
         R"({"system":{"cpu_percent":12.5,"memory_percent":40.1,"total_memory_mb":16384.0,
                       "used_memory_mb":6570.0,"available_memory_mb":9814.0},
             "process":{"pid":7,"cpu_percent":1.2,"memory_rss_mb":96.4,"memory_vms_mb":410.0,
                        "num_threads":9,"start_time":1781784000,"uptime_seconds":812}})"},
    {.method = "GET",
     .path = "/api/threads",
     .family = "system",
     .summary = "The threads of the process",
     .scope = Scope::kViewer,
     .handle = ShowThreads,
     .response = R"([{"thread_id":7,"name":"lane-0","is_alive":true}])"},
    {.method = "GET",
     .path = "/api/profiler/status",
     .family = "system",
     .summary = "Always off: there is no profiler",
     .scope = Scope::kViewer,
     .handle = ProfilerStatus,
     .response = R"({"is_profiling":false,"profiler_type":null,
                     "message":"there is no profiler in the server; use perf"})"},
    {.method = "POST",
     .path = "/api/profiler/memory/start",
     .family = "system",
     .summary = "Does nothing: there is no profiler",
     .scope = Scope::kAdmin,
     .handle = ProfilerSwitch,
     .response = kProfilerExample},
    {.method = "POST",
     .path = "/api/profiler/memory/stop",
     .family = "system",
     .summary = "Does nothing: there is no profiler",
     .scope = Scope::kAdmin,
     .handle = ProfilerSwitch,
     .response = kProfilerExample},
    {.method = "GET",
     .path = "/api/dashboard/stats",
     .family = "dashboard",
     .summary = "Counts of runs, playbooks and workers",
     .scope = Scope::kViewer,
     .handle = Later<DashboardStats>,
     .response =
         R"({"status":"ok","stats":{"total_executions":12,"successful_executions":10,
                "failed_executions":1,"cancelled_executions":0,"running_executions":1,
                "total_playbooks":4,"total_workers":2},
             "total_playbooks":4,"total_executions":12,"active_executions":1,
             "success_rate":0.9,"recent_executions":[{"execution_id":325481002387804160,
                "path":"demo/hello","status":"COMPLETED"}]})"},
    {.method = "GET",
     .path = "/api/dashboard/widgets",
     .family = "dashboard",
     .summary = "Runs of the last days and the newest ones",
     .scope = Scope::kViewer,
     .handle = Later<DashboardWidgets>,
     .response =
         R"({"widgets":[{"id":"execution-trend","type":"chart","title":"Runs of the last 7 days",
                "config":{"chart_type":"line","time_range":"7d"},
                "data":[{"date":"2026-06-18","count":12}]}]})"},
    {.method = "POST",
     .path = "/api/postgres/execute",
     .family = "database",
     .summary = "Reads the store with SQL; off unless NOETL_SQL_API_ENABLED",
     .scope = Scope::kAdmin,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = PostgresExecute,
     .request = R"({"query":"SELECT count(*) AS n FROM noetl.event WHERE execution_id = ?",
                    "parameters":[325481002387804160],"schema":"noetl"})",
     .response = R"({"status":"ok","result":[{"n":9}],"columns":["n"],"truncated":false})"},
    {.method = "POST",
     .path = "/api/db/init",
     .family = "database",
     .summary = "Brings the tables up to date; the embedded store is so from its start",
     .scope = Scope::kAdmin,
     .handle = Later<InitDatabase>,
     .response = R"({"status":"ok","message":"the schema is up to date","valid":true,
                     "applied":[],"schema_version":2})"},
    {.method = "GET",
     .path = "/api/db/validate",
     .family = "database",
     .summary = "Whether all tables are there",
     .scope = Scope::kViewer,
     .handle = Later<ValidateDatabase>,
     .response = R"({"status":"ok","message":"all tables are there","valid":true,
                     "tables":["catalog","event"],"missing":[],"schema_version":2})"},
    {.method = "GET",
     .path = "/api/runtime/shard-info",
     .family = "system",
     .summary = "Which shard a run belongs to",
     .scope = Scope::kViewer,
     .handle = Now<ShardInfo>,
     .query = kShardQuery,
     .response = R"({"execution_id":42,"shard_count":16,"shard_index":3,"source":"noetl-server",
                     "hash_function":"twox_hash::XxHash64","seed":0,
                     "server_config":{"shard_index":0,"shard_count":1}})"},
    {.method = "GET",
     .path = "/api/internal/cells",
     .family = "internal",
     .summary = "Where results are kept: one cell, this server",
     .scope = Scope::kInternal,
     .handle = ShowCells,
     .response = R"({"shard_count":256,"default_cell":"local-0","cells":[{"cell":"local-0",
                     "env":"dev","region":"local","provider":"server","bucket":"",
                     "endpoint":""}]})"},
};

}  // namespace

std::span<const Route> SystemRoutes() { return kRoutes; }

}  // namespace noetl::api
