#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "api/metrics.h"
#include "api/process_stats.h"
#include "api/testing.h"
#include "base/crypto.h"
#include "base/temporary_directory.h"
#include "base/testing.h"
#include "store/sqlite/sqlite_store.h"
#include "store/testing.h"

namespace noetl::api {
namespace {

struct SystemApi : TestApi {
  explicit SystemApi(RouterOptions options = {}, Settings::Variables settings = {})
      : TestApi({.router = std::move(options),
                 .settings = std::move(settings),
                 .families = {SystemRoutes()}}) {}
};

TEST(SystemRoutes, Health) {
  SystemApi api;
  EXPECT_EQ(api.Get("/health").body, Parse(R"({"status":"ok"})"));
  EXPECT_EQ(api.Get("/api/health/live").body, Parse(R"({"status":"ok"})"));
  const Json ready = Parse(R"({"status":"ok","database":"connected","nats":"disabled",
                               "uptime_seconds":12,"version":"1.2.3"})");
  EXPECT_EQ(api.Get("/api/health").body, ready);
  EXPECT_EQ(api.Get("/api/health/ready").body, ready);
}

TEST(SystemRoutes, VersionAndPool) {
  SystemApi api({}, {{"NOETL_SERVER_NAME", "mine"}});
  EXPECT_EQ(
      api.Get("/api/version").body,
      Parse(R"({"name":"mine","version":"1.2.3","started_at":"2026-01-01T00:00:00.000000Z"})"));
  EXPECT_EQ(api.Get("/api/pool/status").body,
            Parse(R"({"pool_min":1,"pool_max":1,"pool_size":1,"pool_available":1,
                      "requests_waiting":0,"utilization":0.0,"slots_available":1,"status":"ok"})"));
}

TEST(SystemRoutes, Metrics) {
  SystemApi api;
  MetricsOf(api.services).events_ingested.Add({"call.done", "ok"}, 2);
  MetricsOf(api.services).events_ingested.Add({"made up by a client", "ok"});
  const Asked asked = api.Get("/metrics");
  EXPECT_EQ(asked.status(), 200);
  EXPECT_EQ(asked.response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  for (std::string_view line :
       {R"(noetl_events_ingested_total{event_type="call.done",status="ok"} 2)",
        R"(noetl_events_ingested_total{event_type="other",status="ok"} 1)",
        R"(noetl_events_ingested_total{event_type="step.enter",status="error"} 0)",
        R"(noetl_server_build_info{version="1.2.3"} 1)",
        R"(noetl_claims_total{outcome="active_claim"} 0)", "noetl_executions_running 0",
        R"(noetl_commands{status="pending"} 0)",
        R"(noetl_event_ingest_duration_seconds_count{event_type="call.done"} 0)",
        R"(noetl_execute_batch_size_bucket{le="250"} 0)"}) {
    EXPECT_NE(asked.response.body.find(line), std::string::npos) << line;
  }
}

TEST(ServerMetrics, OpenLabelsAreBounded) {
  SystemApi api;
  CounterTable& publish = MetricsOf(api.services).command_publish;
  for (std::size_t i = 0; i < 3 * kOpenSeriesMax; ++i) {
    publish.Add({"legacy", "pool-" + std::to_string(i)});
  }
  EXPECT_EQ(publish.value({"legacy", "pool-0"}), 1);
  EXPECT_EQ(publish.value({"legacy", "other"}), 2.0 * kOpenSeriesMax);
}

TEST(SystemRoutes, Status) {
  SystemApi api;
  const Json status = api.Get("/api/status").body;
  EXPECT_GT(status["system"]["total_memory_mb"].AsDouble(), 0);
  EXPECT_GT(status["process"]["memory_rss_mb"].AsDouble(), 0);
  EXPECT_GE(status["process"]["num_threads"].AsInt(), 1);
  EXPECT_EQ(status["process"]["uptime_seconds"], Json(12));
  EXPECT_EQ(status["process"]["start_time"], Json(1767225600));
  const Json threads = api.Get("/api/threads").body;
  ASSERT_GE(threads.size(), 1u);
  EXPECT_EQ(threads.At(0)["is_alive"], Json(true));
}

TEST(ProcessStats, ReadsProc) {
  const CpuTimes times = ParseCpuLine("cpu  10 1 5 80 4 0 0 0 7 0\ncpu0 1 2 3\n");
  EXPECT_EQ(times.busy, 16);
  EXPECT_EQ(times.total, 100);
  EXPECT_EQ(ParseCpuLine("").total, 0);
  EXPECT_EQ(ParseKib("MemTotal:  100 kB\nMemFree: 7 kB\n", "MemFree"), 7);
  EXPECT_EQ(ParseKib("MemTotal:  100 kB", "MemFree"), 0);
}

TEST(SystemRoutes, ProfilerIsNotThere) {
  SystemApi api;
  EXPECT_EQ(api.Get("/api/profiler/status").body["is_profiling"], Json(false));
  EXPECT_EQ(api.Post("/api/profiler/memory/start", "").body["status"], Json("info"));
  EXPECT_EQ(api.Post("/api/profiler/memory/stop", "").body["status"], Json("info"));
}

TEST(SystemRoutes, Dashboard) {
  SystemApi api;
  store::TestRun open(5, "demo/open");
  store::TestRun ended(6, "demo/ended");
  open.row().started_at_us = api.clock.NowMicros();
  ended.row().started_at_us = api.clock.NowMicros() - 2LL * 24 * 3600 * 1'000'000;
  ASSERT_TRUE(store::CommitOne(*api.store, open.Next()));
  ASSERT_TRUE(store::CommitOne(*api.store, ended.End()));
  ASSERT_TRUE(api.store->Register({.catalog_id = 1, .path = "demo/open", .content = "x"}));
  ASSERT_TRUE(api.store->PutRuntime(
      {.runtime_id = 2, .name = "w", .status = "ready", .heartbeat_us = api.clock.NowMicros()}));
  ASSERT_TRUE(api.store->PutRuntime({.runtime_id = 3, .name = "gone", .heartbeat_us = 1}));
  const Json stats = api.Get("/api/dashboard/stats").body;
  EXPECT_EQ(stats["stats"],
            Parse(R"({"total_executions":2,"successful_executions":1,"failed_executions":0,
                      "cancelled_executions":0,"running_executions":1,"total_playbooks":1,
                      "total_workers":1})"));
  EXPECT_EQ(stats["active_executions"], Json(1));
  EXPECT_EQ(stats["success_rate"], Json(1.0));
  EXPECT_EQ(stats["recent_executions"].size(), 2u);

  const Json widgets = api.Get("/api/dashboard/widgets").body["widgets"];
  ASSERT_EQ(widgets.size(), 2u);
  EXPECT_EQ(widgets.At(0)["data"].size(), 7u);
  EXPECT_EQ(widgets.At(0)["data"].At(6), Parse(R"({"date":"2026-01-01","count":1})"));
  EXPECT_EQ(widgets.At(0)["data"].At(4), Parse(R"({"date":"2025-12-30","count":1})"));
  EXPECT_EQ(api.Get("/api/dashboard/stats?ids=string")
                .body["recent_executions"]
                .At(0)["execution_id"]
                .TypeName(),
            "string");
}

TEST(SystemRoutes, DashboardIsKeptForAWhile) {
  SystemApi api;
  EXPECT_EQ(api.Get("/api/dashboard/stats").body["total_executions"], Json(0));
  store::TestRun run(5);
  ASSERT_TRUE(store::CommitOne(*api.store, run.Next()));
  EXPECT_EQ(api.Get("/api/dashboard/stats").body["total_executions"], Json(0));
  api.clock.Advance(3'000'000);
  EXPECT_EQ(api.Get("/api/dashboard/stats").body["total_executions"], Json(1));
}

// ---- the database

struct SqlApi : SystemApi {
  SqlApi() : SystemApi({.sql = true}) {
    store = store::OpenSqliteStore({.directory = directory.path()}).value();
    services.store = store.get();
  }
  Asked Sql(std::string_view body) { return Post("/api/postgres/execute", body); }

  TemporaryDirectory directory;
};

TEST(SystemRoutes, HealthOfAStoreThatCannotBeRead) {
  SqlApi api;
  {
    std::ofstream file(api.directory.path() + "/noetl.db", std::ios::binary | std::ios::trunc);
    file << std::string(8192, 'x');
  }
  std::filesystem::remove(api.directory.path() + "/noetl.db-wal");
  const Asked asked = api.Get("/api/health");
  EXPECT_EQ(asked.status(), 503);
  EXPECT_EQ(asked.body["status"], Json("unhealthy"));
  EXPECT_EQ(asked.body["database"], Json("disconnected"));
  EXPECT_EQ(api.Get("/health").status(), 200);
  EXPECT_EQ(api.Get("/api/health/live").status(), 200);
  EXPECT_EQ(api.Get("/metrics").status(), 200);
  EXPECT_EQ(api.Get("/api/dashboard/stats").status(), 500);
}

TEST(SystemRoutes, SqlIsOffByDefault) {
  SystemApi api;
  const Asked asked = api.Post("/api/postgres/execute", R"({"query":"SELECT 1"})");
  EXPECT_EQ(asked.status(), 403);
  EXPECT_EQ(asked.code(), "disabled");
  EXPECT_NE(asked.body["error"].AsString().find("NOETL_SQL_API_ENABLED"), std::string_view::npos);
}

TEST(SystemRoutes, Sql) {
  SqlApi api;
  EXPECT_EQ(api.Sql(R"({"query":"SELECT 1 AS one, 'x' AS two"})").body,
            Parse(R"({"status":"ok","result":[{"one":1,"two":"x"}],"columns":["one","two"],
                      "truncated":false})"));
  EXPECT_EQ(api.Sql(R"({"query":"SELECT ? + ? AS n","parameters":[3,4],"schema":"noetl"})")
                .body["result"],
            Parse(R"([{"n":7}])"));
  EXPECT_EQ(api.Sql(R"({"query":"SELECT count(*) AS n FROM noetl.event"})").body["result"],
            Parse(R"([{"n":0}])"));
  const std::string encoded = crypto::Base64Encode("SELECT 5 AS n");
  EXPECT_EQ(api.Sql(R"({"query":"nonsense","query_base64":")" + encoded + R"("})").body["result"],
            Parse(R"([{"n":5}])"));
  const Asked many = api.Sql(
      R"({"query":"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT 5000)
          SELECT n FROM c"})");
  EXPECT_EQ(many.status(), 400) << "a raw line break is no JSON";
  const Asked long_answer = api.Sql(
      R"({"query":"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT 5000) SELECT n FROM c"})");
  EXPECT_EQ(long_answer.body["result"].size(), 1000u);
  EXPECT_EQ(long_answer.body["truncated"], Json(true));
}

TEST(SystemRoutes, SqlThatIsRefused) {
  SqlApi api;
  for (const char* body :
       {"{}", "[]", "5", R"({"query":""})", R"({"query":5})", R"({"query_base64":"***"})",
        R"({"query_base64":"/w=="})", R"({"query":"SELECT 1","parameters":{}})",
        R"({"query":"SELECT 1","credential":"pg"})", R"({"query":"SELECT 1","schema":"other"})",
        R"({"procedure":"p"})", R"({"query":"SELECT"})", R"({"query":"DELETE FROM event"})",
        R"({"query":"SELECT data_encrypted FROM credential"})"}) {
    const Asked asked = api.Sql(body);
    EXPECT_EQ(asked.status(), 422) << body << " " << asked.response.body;
  }
}

TEST(SystemRoutes, Database) {
  SqlApi api;
  const Json checked = api.Get("/api/db/validate").body;
  EXPECT_EQ(checked["valid"], Json(true)) << WriteJson(checked);
  EXPECT_TRUE(checked["missing"].empty());
  EXPECT_EQ(checked["tables"].size(), 11u);
  EXPECT_EQ(checked["schema_version"], Json(store::SqliteSchemaVersion()));
  const Json made = api.Post("/api/db/init", "").body;
  EXPECT_EQ(made["valid"], Json(true));
  EXPECT_EQ(made["applied"], Json::Array());
}

// ---- shards and cells

TEST(SystemRoutes, ShardInfo) {
  SystemApi api({}, {{"NOETL_SHARD_INDEX", "1"}, {"NOETL_SHARD_COUNT", "4"}});
  const auto index = [&](std::string id, std::string count) {
    return api.Get("/api/runtime/shard-info?execution_id=" + id + "&shard_count=" + count)
        .body["shard_index"]
        .AsInt(-1);
  };
  EXPECT_EQ(index("42", "16"), 3);
  EXPECT_EQ(index("1", "1024"), 405);
  EXPECT_EQ(index("320816801799737344", "16"), 14);
  EXPECT_EQ(index("9223372036854775807", "1024"), 780);
  EXPECT_EQ(index("-1", "2"), 1);
  EXPECT_EQ(index("7", "1"), 0);
  EXPECT_EQ(api.Get("/api/runtime/shard-info?execution_id=42&shard_count=16").body,
            Parse(R"({"execution_id":42,"shard_count":16,"shard_index":3,"source":"noetl-server",
                      "hash_function":"twox_hash::XxHash64","seed":0,
                      "server_config":{"shard_index":1,"shard_count":4}})"));
  for (const char* query :
       {"", "?execution_id=1", "?shard_count=1", "?execution_id=x&shard_count=1",
        "?execution_id=1&shard_count=0", "?execution_id=1&shard_count=1025",
        "?execution_id=9223372036854775808&shard_count=1"}) {
    const Asked asked = api.Get(std::string("/api/runtime/shard-info") + query);
    EXPECT_EQ(asked.status(), 400) << query;
    EXPECT_EQ(asked.body["status"], Json(400));
  }
}

TEST(SystemRoutes, Cells) {
  SystemApi api({.internal_token = "inner"}, {{"NOETL_RESULT_CELL", "here-1"}});
  EXPECT_EQ(api.Get("/api/internal/cells").status(), 403);
  const Json cells = api.Get("/api/internal/cells", {{"Authorization", "Bearer inner"}}).body;
  EXPECT_EQ(cells["default_cell"], Json("here-1"));
  EXPECT_EQ(cells["shard_count"], Json(256));
  EXPECT_EQ(cells["cells"].At(0)["cell"], Json("here-1"));
}

}  // namespace
}  // namespace noetl::api
