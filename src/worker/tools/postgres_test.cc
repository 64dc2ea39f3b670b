#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/testing.h"
#include "pg/server_testing.h"
#include "worker/tools/postgres_error.h"
#include "worker/tools/registry.h"

namespace noetl::worker {
namespace {

using pg::TestServer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// "kind code retryable", with "hard" in front when the command fails.
std::string ErrorLine(const ToolAnswer& answer) {
  const Json& info = answer.outcome.error_info;
  if (answer.outcome.ok) return "ok";
  return fmt::format("{}{} {} {}{}", answer.hard ? "hard " : "", info["kind"].AsString(),
                     info["code"].AsString(), info["retryable"].AsBool() ? "retryable" : "final",
                     answer.cancelled ? " cancelled" : "");
}

class PostgresTool : public ::testing::Test {
 protected:
  // The address of the test's server, as fields.
  static Json Where() {
    return Json::Object({{"host", "127.0.0.1"},
                         {"port", TestServer::Shared().port()},
                         {"user", "postgres"},
                         {"password", TestServer::kPassword},
                         {"database", "postgres"}});
  }
  static ToolCall Call(const Json& config) {
    ToolCall call;
    call.kind = "postgres";
    call.execution_id = 42;
    call.step = "load";
    call.config = config;
    return call;
  }
  static ToolCall Here(std::string_view fields) { return Call(Where().Merge(Parse(fields))); }
  static ToolCall Sql(std::string_view sql) { return Call(Where().With("command", sql)); }

  // Starts a call; its answer is in `answers_` when it comes.
  std::unique_ptr<Running> Start(ToolCall call) {
    const std::size_t index = started_++;
    return tool_->Start(std::move(call), [this, index](ToolAnswer answer) {
      answers_[index] = std::move(answer);
      if (waiting_ && answers_.size() == started_) loop_.Stop();
    });
  }
  // Waits for all that was started.
  void Wait() {
    waiting_ = true;
    if (answers_.size() < started_) loop_.Run();
    waiting_ = false;
  }
  ToolAnswer Run(ToolCall call) {
    const auto running = Start(std::move(call));
    Wait();
    return answers_[started_ - 1];
  }
  ToolAnswer Run(std::string_view fields) { return Run(Here(fields)); }
  ToolAnswer RunSql(std::string_view sql) { return Run(Sql(sql)); }
  // The payload as text.
  std::string Paid(const ToolAnswer& answer) {
    EXPECT_TRUE(answer.outcome.ok) << answer.outcome.error;
    return WriteJson(answer.outcome.payload);
  }
  // The one cell of the one row.
  std::string Cell(std::string_view sql) {
    const ToolAnswer answer = RunSql(sql);
    EXPECT_TRUE(answer.outcome.ok) << answer.outcome.error;
    const Json& row = answer.outcome.payload["rows"].At(0);
    return row.members().empty() ? "" : WriteJson(row.members()[0].value);
  }

  EventLoop loop_;
  Settings settings_ = *Settings::Load({});
  std::unique_ptr<Tool> tool_ = MakePostgres({.loop = &loop_, .settings = &settings_});
  std::map<std::size_t, ToolAnswer> answers_;
  std::size_t started_ = 0;
  bool waiting_ = false;
};

TEST_F(PostgresTool, ShapesOfResults) {
  EXPECT_EQ(Paid(RunSql("SELECT 1 AS a, 'x' AS b")),
            R"({"columns":["a","b"],"rows":[{"a":1,"b":"x"}],"row_count":1,"statement_count":1})");
  EXPECT_EQ(Paid(RunSql("-- none\nSELECT 1 AS a WHERE false;")),
            R"({"columns":["a"],"rows":[],"row_count":0,"statement_count":1})");
  EXPECT_EQ(Paid(Run(R"({"query": "SELECT 1, 2", "as_objects": "false"})")),
            R"({"columns":["?column?","?column?"],"rows":[[1,2]],"row_count":1,)"
            R"("statement_count":1})");
  EXPECT_EQ(Paid(RunSql("CREATE TABLE shapes (a int)")),
            R"({"row_count":0,"affected_rows":0,"command":"CREATE TABLE","statement_count":1})");
  EXPECT_EQ(Paid(RunSql("INSERT INTO shapes VALUES (1), (2)")),
            R"({"row_count":2,"affected_rows":2,"command":"INSERT","statement_count":1})");
  EXPECT_EQ(Paid(RunSql("UPDATE shapes SET a = a + 1 RETURNING a")),
            R"({"columns":["a"],"rows":[{"a":2},{"a":3}],"row_count":2,"affected_rows":2,)"
            R"("command":"UPDATE","statement_count":1})");
  EXPECT_EQ(Paid(RunSql("WITH gone AS (DELETE FROM shapes WHERE a = 2 RETURNING a) "
                        "SELECT * FROM gone")),
            R"({"columns":["a"],"rows":[{"a":2}],"row_count":1,"statement_count":1})");
  // Every statement is kept; rows come from the last that gave some.
  EXPECT_EQ(Paid(Run(R"({"commands": ["SELECT 1 AS a", "SELECT 2 AS b", "DELETE FROM shapes"]})")),
            R"({"row_count":1,"affected_rows":1,"command":"DELETE","columns":["b"],)"
            R"("rows":[{"b":2}],"statement_count":3,)"
            R"("command_0":{"columns":["a"],"rows":[{"a":1}],"row_count":1},)"
            R"("command_1":{"columns":["b"],"rows":[{"b":2}],"row_count":1},)"
            R"("command_2":{"row_count":1,"affected_rows":1,"command":"DELETE"}})");
  EXPECT_EQ(Paid(Run(R"({"command_b64": "U0VMRUNU\nIDcgQVMgYQ=="})")),
            R"({"columns":["a"],"rows":[{"a":7}],"row_count":1,"statement_count":1})");
  EXPECT_EQ(Paid(Run(R"({"script": {"source": {"type": "inline", "code": "SELECT 8 AS a"}}})")),
            R"({"columns":["a"],"rows":[{"a":8}],"row_count":1,"statement_count":1})");
  RunSql("DROP TABLE shapes");
}

TEST_F(PostgresTool, EveryType) {
  RunSql(
      "CREATE TYPE mood AS ENUM ('sad', 'not ok');"
      "CREATE TYPE pair AS (a int, b text);"
      "CREATE DOMAIN positive AS int CHECK (VALUE > 0)");
  const std::pair<const char*, const char*> cases[] = {
      {"32767::int2", "32767"},
      {"(-2147483648)::int4", "-2147483648"},
      {"9223372036854775807::int8", "9223372036854775807"},
      {"0.1::float4", "0.1"},
      {"0.1::float8 + 0.2::float8", "0.30000000000000004"},
      {"'NaN'::float8", R"("NaN")"},
      {"'-Infinity'::float4", R"("-Infinity")"},
      {"12345678901234567890.123456789::numeric", R"("12345678901234567890.123456789")"},
      {"1.50::numeric(10,2)", R"("1.50")"},
      {"true", "true"},
      {"'a''b\"c'::text", R"("a'b\"c")"},
      {"'x'::varchar(5)", R"("x")"},
      {"'x'::char(3)", R"("x  ")"},
      {"'x'::name", R"("x")"},
      {"'x'::\"char\"", R"("x")"},
      {"'not ok'::mood", R"("not ok")"},
      {"'{\"a\": [1, null]}'::json", R"({"a":[1,null]})"},
      {"'[1.5, \"x\"]'::jsonb", R"([1.5,"x"])"},
      {"'null'::jsonb", "null"},
      {"'<a/>'::xml", R"("<a/>")"},
      {"'2024-01-02 03:04:05.6'::timestamp", R"("2024-01-02T03:04:05.600000")"},
      {"'2024-01-02 03:04:05+02'::timestamptz", R"("2024-01-02T01:04:05+00:00")"},
      {"'infinity'::timestamptz", R"("infinity")"},
      {"'2024-01-02'::date", R"("2024-01-02")"},
      {"'03:04:05'::time", R"("03:04:05")"},
      {"'03:04:05+02'::timetz", R"("03:04:05+02")"},
      {"'1 day 2 hours'::interval", R"("1 day 02:00:00")"},
      {"'10.0.0.1'::inet", R"("10.0.0.1")"},
      {"'10.0.0.0/8'::cidr", R"("10.0.0.0/8")"},
      {"'08:00:2b:01:02:03'::macaddr", R"("08:00:2b:01:02:03")"},
      {"'6ecd8c99-4036-403d-bf84-cf8400f67836'::uuid", R"("6ecd8c99-4036-403d-bf84-cf8400f67836")"},
      {"'\\x00ff'::bytea", R"("AP8=")"},
      {"B'101'", R"("101")"},
      {"int4range(1, 5)", R"x("[1,5)")x"},
      {"'{[1,3)}'::int4multirange", R"x("{[1,3)}")x"},
      {"to_tsvector('simple', 'a b')", R"("'a':1 'b':2")"},
      {"point(1, 2)", R"x("(1,2)")x"},
      {"12.5::money", R"("$12.50")"},
      {"ROW(1, 'x y')::pair", R"x("(1,\"x y\")")x"},
      {"5::positive", "5"},
      {"4000000000::oid", "4000000000"},
      {"NULL::int", "null"},
      {"ARRAY[1, NULL, 3]", "[1,null,3]"},
      {"ARRAY[[1, 2], [3, 4]]::int8[]", "[[1,2],[3,4]]"},
      {"'{}'::text[]", "[]"},
      {R"(ARRAY['a,b', 'c"d', 'e\f', 'NULL', NULL, ''])",
       R"(["a,b","c\"d","e\\f","NULL",null,""])"},
      {"ARRAY['sad', 'not ok']::mood[]", R"(["sad","not ok"])"},
      {"ARRAY[ROW(1, 'x')::pair]", R"x(["(1,x)"])x"},
      {"ARRAY[1, 2]::positive[]", "[1,2]"},
      {"ARRAY['{\"a\": 1}'::jsonb]", R"([{"a":1}])"},
      {"ARRAY[1.50, 'NaN'::numeric]", R"(["1.50","NaN"])"},
      {"ARRAY['\\x00'::bytea]", R"(["AA=="])"},
      {"ARRAY['2024-01-02 03:04:05+00'::timestamptz]", R"(["2024-01-02T03:04:05+00:00"])"},
      {"ARRAY['{[1,3)}'::int4multirange]", R"x(["{[1,3)}"])x"},
      {"'[0:1]={5,6}'::int[]", "[5,6]"},
  };
  for (const auto& [sql, json] : cases) {
    EXPECT_EQ(Cell(fmt::format("SELECT {}", sql)), json) << sql;
  }
  EXPECT_EQ(Paid(Run(R"({"query": "SELECT 1.50::numeric AS a, ARRAY[2::numeric] AS b",
                         "numeric_as": "number", "as_objects": false})")),
            R"({"columns":["a","b"],"rows":[[1.5,[2]]],"row_count":1,"statement_count":1})");
  // Whatever the session's zone and style, the value is the same.
  EXPECT_EQ(Cell("SET TimeZone TO 'Asia/Kolkata'; SET bytea_output TO 'escape';"
                 "SELECT ARRAY['2024-01-02 03:04:05+00'::timestamptz]"),
            R"(["2024-01-02T03:04:05+00:00"])");
  EXPECT_EQ(Cell("SET bytea_output TO 'escape'; SELECT '\\x00ff5c61'::bytea"), R"("AP9cYQ==")");
  RunSql("DROP TYPE mood; DROP TYPE pair; DROP DOMAIN positive");
}

TEST_F(PostgresTool, Params) {
  ASSERT_TRUE(RunSql("CREATE TABLE params (i int, b bigint, t text, j jsonb, f float8, x bool)")
                  .outcome.ok);
  EXPECT_EQ(
      Paid(Run(R"({"command": "INSERT INTO params VALUES ($1, $2, $3, $4, $5, $6) RETURNING *",
                         "params": [7, 9223372036854775807, "it's; $1", {"k": [1]}, 1.5, true],
                         "as_objects": false})")),
      R"({"columns":["i","b","t","j","f","x"],)"
      R"("rows":[[7,9223372036854775807,"it's; $1",{"k":[1]},1.5,true]],"row_count":1,)"
      R"("affected_rows":1,"command":"INSERT","statement_count":1})");
  EXPECT_EQ(
      Paid(Run(R"({"command": "SELECT i FROM params WHERE i = :i AND t = %(t)s AND i = :i::int",
                         "params": {"i": "7", "t": "it's; $1", "unused": 1}})")),
      R"({"columns":["i"],"rows":[{"i":7}],"row_count":1,"statement_count":1})");
  EXPECT_EQ(
      Paid(Run(R"({"command": "INSERT INTO params (j) VALUES ($1) RETURNING j, j IS NULL AS n",
                         "params": ["[1, \"a\"]"], "as_objects": false})")),
      R"({"columns":["j","n"],"rows":[[[1,"a"],false]],"row_count":1,"affected_rows":1,)"
      R"("command":"INSERT","statement_count":1})");
  EXPECT_EQ(Paid(Run(R"({"query": "SELECT $1::text IS NULL AS n", "params": [null]})")),
            R"({"columns":["n"],"rows":[{"n":true}],"row_count":1,"statement_count":1})");
  // A script, each statement with the values it names.
  const ToolAnswer script = Run(R"x({"commands": ["INSERT INTO params (i) VALUES (:a)",
      "SELECT i FROM params WHERE i IN (:b, :a) ORDER BY i;"], "params": {"a": 100, "b": 7}})x");
  EXPECT_EQ(WriteJson(script.outcome.payload["rows"]), R"([{"i":7},{"i":100}])");
  RunSql("DROP TABLE params");
}

TEST_F(PostgresTool, RefusesWhatItCannotMean) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "there is no SQL"},
      {R"({"command": " -- nothing\n;"})", "holds no statement"},
      {R"({"command": "SELECT $2", "params": [1]})", "no value for $2"},
      {R"({"command": "SELECT $1", "params": [1, 2]})", "params has 2 values and the SQL uses 1"},
      {R"({"command": "SELECT :a", "params": {"b": 1}})", "no value for a"},
      {R"({"command": "SELECT 1", "params": "x"})", "params must be a list or a map"},
      {R"({"command": "SELECT 1", "transaction": "maybe"})", "auto, single or none"},
      {R"({"command": "BEGIN", "transaction": "single"})", "single does not go with BEGIN"},
      {R"({"command": "SELECT 1", "numeric_as": "x"})", "numeric_as must be"},
      {R"({"command": "SELECT 1", "max_rows": 0})", "max_rows must be"},
      {R"({"command_b64": "%"})", "command_b64 is not base64"},
      {R"({"command": "SELECT 1", "connection_string": "postgresql://u:hunter77%zz@h"})",
       "connection_string"},
  };
  for (const auto& [fields, message] : cases) {
    const ToolAnswer answer = Run(fields);
    EXPECT_EQ(ErrorLine(answer), "hard config CONFIG final") << fields;
    EXPECT_THAT(answer.outcome.error, AllOf(HasSubstr(message), HasSubstr("Configuration error: "),
                                            Not(HasSubstr("hunter77"))));
  }
  EXPECT_EQ(ErrorLine(Run(R"({"command": "SELECT 1", "auth": "nowhere"})")),
            "hard auth AUTH final");
  EXPECT_EQ(ErrorLine(RunSql("COPY (SELECT 1) TO STDOUT")), "hard config CONFIG final");
}

TEST_F(PostgresTool, AScriptIsOneTransaction) {
  ASSERT_TRUE(RunSql("CREATE TABLE atomic (a int PRIMARY KEY)").outcome.ok);
  const ToolAnswer failed = RunSql(
      "INSERT INTO atomic VALUES (1); INSERT INTO atomic VALUES (1); INSERT INTO atomic VALUES "
      "(2)");
  EXPECT_EQ(ErrorLine(failed), "db_constraint PG_23505 final");
  EXPECT_EQ(failed.outcome.error_info["details"]["statement_index"].AsInt(), 1);
  EXPECT_EQ(failed.outcome.error_info["sqlstate"].AsString(), "23505");
  EXPECT_EQ(failed.outcome.error_info["pg_code"].AsString(), "23505");
  EXPECT_EQ(failed.outcome.error_info["source"].AsString(), "postgres");
  EXPECT_EQ(failed.outcome.error_info["message"].AsString(),
            "duplicate key value violates unique constraint \"atomic_pkey\"");
  EXPECT_EQ(failed.outcome.error,
            "Database error: Batch execute failed: ERROR: duplicate key value violates unique "
            "constraint \"atomic_pkey\" (SQLSTATE 23505) | DETAIL: Key (a)=(1) already exists.");
  EXPECT_EQ(Cell("SELECT count(*) FROM atomic"), "0");
  // Each by itself.
  Run(R"({"command": "INSERT INTO atomic VALUES (1); SELECT 1/0", "transaction": "none"})");
  EXPECT_EQ(Cell("SELECT count(*) FROM atomic"), "1");
  // Those that refuse a transaction get none; those that make their own keep it.
  EXPECT_TRUE(RunSql("VACUUM atomic; INSERT INTO atomic VALUES (2)").outcome.ok);
  EXPECT_TRUE(RunSql("CREATE INDEX CONCURRENTLY atomic_a ON atomic (a)").outcome.ok);
  EXPECT_TRUE(RunSql("BEGIN; INSERT INTO atomic VALUES (3); COMMIT; SELECT 1").outcome.ok);
  EXPECT_EQ(ErrorLine(RunSql("BEGIN; INSERT INTO atomic VALUES (4)")),
            "tool_error PG_OPEN_TRANSACTION final");
  EXPECT_TRUE(RunSql("INSERT INTO atomic VALUES (5); SAVEPOINT s; INSERT INTO atomic VALUES (6);"
                     "ROLLBACK TO s")
                  .outcome.ok);
  EXPECT_EQ(Cell("SELECT array_agg(a ORDER BY a) FROM atomic"), "[1,2,3,5]");
  EXPECT_TRUE(Run(R"({"command": "SELECT 1", "transaction": "single"})").outcome.ok);
  RunSql("DROP TABLE atomic");
}

TEST_F(PostgresTool, NothingLeaksIntoTheNextCall) {
  const auto here = [](std::string_view sql, std::string_view fields = "{}") {
    return Call(Where()
                    .With("command", sql)
                    .With("pool", Parse(R"({"max_size": 1})"))
                    .Merge(Parse(fields)));
  };
  const auto cell = [&](std::string_view sql, std::string_view fields = "{}") {
    const ToolAnswer answer = Run(here(sql, fields));
    EXPECT_TRUE(answer.outcome.ok) << answer.outcome.error;
    const Json& rows = answer.outcome.payload["rows"];
    return rows.empty() ? "" : WriteJson(rows.At(0).members()[0].value);
  };
  const std::string backend = cell("SELECT pg_backend_pid()");
  cell("CREATE SCHEMA \"od\"\"d\"; CREATE TABLE \"od\"\"d\".t AS SELECT 5 AS a");
  const std::string_view schema = R"({"schema": "od\"d"})";
  EXPECT_EQ(cell("SELECT a FROM t", schema), "5");
  EXPECT_EQ(cell("SHOW search_path"), R"("\"$user\", public")");
  EXPECT_EQ(cell("SELECT a FROM t", R"({"schema": "od\"d", "transaction": "none"})"), "5");
  EXPECT_EQ(cell("SHOW search_path"), R"("\"$user\", public")");
  cell("SET search_path TO nowhere");
  EXPECT_EQ(cell("SHOW search_path"), R"("\"$user\", public")");
  cell("CREATE TEMP TABLE passing (a int)");
  EXPECT_EQ(Run(here("SELECT * FROM passing")).outcome.error_info["sqlstate"].AsString(), "42P01");
  cell("DO $$ BEGIN CREATE TEMP TABLE passing (a int); END $$");
  EXPECT_EQ(Run(here("SELECT * FROM passing")).outcome.error_info["sqlstate"].AsString(), "42P01");
  cell("PREPARE p AS SELECT 1");
  cell("PREPARE p AS SELECT 1");
  EXPECT_EQ(cell("SHOW application_name"), R"("noetl:42:load")");
  EXPECT_EQ(cell("SHOW statement_timeout", R"({"timeout": 5})"), R"("6s")");
  EXPECT_EQ(cell("SHOW statement_timeout", R"({"timeout": 8})"), R"("9s")");
  EXPECT_EQ(cell("SHOW DateStyle"), R"("ISO, MDY")");
  // All of this was one session.
  EXPECT_EQ(cell("SELECT pg_backend_pid()"), backend);
  EXPECT_NE(cell("SELECT pg_backend_pid()", R"({"pool": false})"), backend);
  EXPECT_NE(cell("SELECT pg_backend_pid()", R"({"pool": {"name": "mine"}})"), backend);
  cell("DROP SCHEMA \"od\"\"d\" CASCADE");
}

TEST_F(PostgresTool, ADeadlockCanBeTriedAgain) {
  ASSERT_TRUE(
      RunSql("CREATE TABLE locks AS SELECT i AS a FROM generate_series(1, 2) i").outcome.ok);
  // Each takes its row, waits until the other has its own, and wants that one, too.
  const auto taker = [](int mine, int other) {
    return Sql(fmt::format(
        "UPDATE locks SET a = a WHERE a = {0}; SELECT pg_advisory_xact_lock_shared({0});"
        "DO $$ BEGIN WHILE (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') < 2 LOOP "
        "PERFORM pg_sleep(0.005); END LOOP; END $$; UPDATE locks SET a = a WHERE a = {1}",
        mine, other));
  };
  const auto first = Start(taker(1, 2));
  const auto second = Start(taker(2, 1));
  Wait();
  ToolAnswer& one = answers_[started_ - 2];
  ToolAnswer& two = answers_[started_ - 1];
  EXPECT_NE(one.outcome.ok, two.outcome.ok);
  const ToolAnswer& victim = one.outcome.ok ? two : one;
  EXPECT_EQ(ErrorLine(victim), "db_deadlock PG_40P01 retryable");
  EXPECT_EQ(victim.outcome.error_info["details"]["statement_index"].AsInt(), 3);
  RunSql("DROP TABLE locks");
}

TEST_F(PostgresTool, TimeLimits) {
  EXPECT_EQ(Cell("SELECT 1"), "1");  // connecting is not part of what is measured below
  const ToolAnswer slow = Run(R"x({"command": "SELECT pg_sleep(600)", "timeout": 0.05})x");
  EXPECT_EQ(ErrorLine(slow), "db_timeout PG_57014 retryable");
  EXPECT_EQ(slow.outcome.error, "Execution timed out after 0.05 seconds");
  EXPECT_EQ(slow.outcome.error_info["details"]["statement_index"].AsInt(-1), 0);
  const ToolAnswer server = RunSql("SET LOCAL statement_timeout TO 20; SELECT pg_sleep(600)");
  EXPECT_EQ(ErrorLine(server), "db_timeout PG_57014 retryable");
  EXPECT_THAT(server.outcome.error, HasSubstr("statement timeout"));
  EXPECT_EQ(server.outcome.error_info["details"]["statement_index"].AsInt(), 1);
  ToolCall call = Sql("SELECT pg_sleep(600)");
  call.timeout_ms = 30;
  EXPECT_EQ(ErrorLine(Run(std::move(call))), "db_timeout PG_57014 retryable");
  EXPECT_EQ(Cell("SELECT 1"), "1");
}

TEST_F(PostgresTool, StopsWhenTold) {
  const std::string running =
      "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE "
      "'SELECT pg_sleep(601)%'";
  {
    const auto call = Start(Sql("SELECT pg_sleep(601)"));
    loop_.After(50'000, [&] {
      call->Stop();
      call->Stop();
    });
    Wait();
    EXPECT_EQ(ErrorLine(answers_[started_ - 1]), "cancelled CANCELLED final cancelled");
  }
  TestServer::Shared().WaitFor(running, "0");
  {  // Before there is a connection.
    const auto call = Start(Sql("SELECT pg_sleep(601)"));
    call->Stop();
    Wait();
    EXPECT_EQ(ErrorLine(answers_[started_ - 1]), "cancelled CANCELLED final cancelled");
  }
  // A call that is dropped answers nothing and leaves nothing behind.
  auto dropped = Start(Sql("SELECT pg_sleep(601)"));
  loop_.After(100'000, [&] {
    dropped.reset();
    loop_.Stop();
  });
  loop_.Run();
  EXPECT_EQ(answers_.size(), started_ - 1);
  --started_;
  TestServer::Shared().WaitFor(running, "0");
  EXPECT_EQ(Cell("SELECT 1"), "1");
}

TEST_F(PostgresTool, AFullPoolAnswers) {
  const auto call = [](std::string_view sql, double wait_s) {
    const Json pool =
        Json::Object({{"name", "small"}, {"max_size", 1}, {"max_waiting", 1}, {"timeout", wait_s}});
    return Call(Where().With("command", sql).With("pool", pool));
  };
  Run(call("SELECT 1", 30.0));  // from here on there is a connection to hold
  const auto holder = Start(call("SELECT pg_sleep(602)", 30.0));
  const auto waits = Start(call("SELECT 1", 0.05));
  const auto refused = Start(call("SELECT 2", 0.05));
  EXPECT_EQ(ErrorLine(answers_[3]), "connection POOL_EXHAUSTED retryable");
  loop_.After(150'000, [&] { holder->Stop(); });
  Wait();
  EXPECT_EQ(ErrorLine(answers_[1]), "cancelled CANCELLED final cancelled");
  EXPECT_EQ(ErrorLine(answers_[2]), "timeout CONN_TIMEOUT retryable");
  EXPECT_THAT(answers_[2].outcome.error, HasSubstr("Failed to get connection"));
}

TEST_F(PostgresTool, SurvivesARestartOfTheServer) {
  EXPECT_EQ(Cell("SELECT 1"), "1");
  TestServer::Shared().Restart();
  EXPECT_EQ(Cell("SELECT 2"), "2");
  const auto call = Start(Sql("SELECT pg_sleep(603)"));
  loop_.After(50'000, [&] { TestServer::Shared().Restart(); });
  Wait();
  EXPECT_THAT(
      ErrorLine(answers_[started_ - 1]),
      ::testing::AnyOf("db_connection PG_57P01 retryable", "connection CONN_ERROR retryable"));
  EXPECT_EQ(Cell("SELECT 3"), "3");
}

TEST_F(PostgresTool, ConnectionsThatFail) {
  ToolAnswer answer = Run(R"({"command": "SELECT 1", "password": "wrong-hunter77"})");
  EXPECT_EQ(ErrorLine(answer), "auth PG_28P01 final");
  EXPECT_EQ(answer.outcome.error,
            "Database error: Failed to get connection: FATAL: password authentication failed for "
            "user \"postgres\" (SQLSTATE 28P01)");
  // A password that got into the wrong field does not show either.
  answer =
      Run(R"({"command": "SELECT 1", "user": "wrong-hunter77", "password": "wrong-hunter77"})");
  EXPECT_THAT(answer.outcome.error, Not(HasSubstr("hunter77")));
  EXPECT_THAT(WriteJson(answer.outcome.error_info), Not(HasSubstr("hunter77")));
  EXPECT_EQ(ErrorLine(Run(R"({"command": "SELECT 1", "port": "1"})")),
            "connection CONN_REFUSED retryable");
  EXPECT_EQ(ErrorLine(Run(R"({"command": "SELECT 1", "host": "no.such.host.invalid"})")),
            "connection DNS_ERROR retryable");
  EXPECT_EQ(ErrorLine(Run(R"({"command": "SELECT 1", "database": "nowhere"})")),
            "tool_error PG_3D000 final");
  EXPECT_EQ(ErrorLine(Run(R"({"command": "SELECT 1", "password": null})")), "auth AUTH final");
}

TEST_F(PostgresTool, WaysToSayWhere) {
  const int port = TestServer::Shared().port();
  const Json sql = Parse(R"({"command": "SELECT 1 AS a"})");
  const Json older = Json::Object({{"db_host", "127.0.0.1"},
                                   {"db_port", std::to_string(port)},
                                   {"db_user", "postgres"},
                                   {"db_password", TestServer::kPassword},
                                   {"db_name", "postgres"}});
  EXPECT_EQ(ErrorLine(Run(Call(sql.Merge(older)))), "ok");
  EXPECT_EQ(ErrorLine(Run(Call(sql.With("auth", older)))), "ok");
  const std::string uri =
      fmt::format("postgresql://postgres:p%40ss%3Aw%2Fo%20rd%25%23%3F@127.0.0.1:{}/postgres", port);
  EXPECT_EQ(ErrorLine(Run(Call(sql.With("connection_string", uri)))), "ok");
  // The string wins over parts; parts fill what it lacks.
  EXPECT_EQ(ErrorLine(Run(Call(sql.With("connection_string", uri).With("port", 1)))), "ok");
  const std::string bare = fmt::format("host=127.0.0.1 port={}", port);
  EXPECT_EQ(ErrorLine(Run(
                Call(sql.With("db_conn_string", bare).With("password", TestServer::kPassword)))),
            "ok");
  EXPECT_EQ(ErrorLine(Run(Call(Where().Merge(sql).With("host", "localhost")))), "ok");
  EXPECT_EQ(ErrorLine(Run(Call(Where().Merge(sql).With("host", TestServer::Shared().folder())))),
            "ok");
  EXPECT_THAT(ErrorLine(Run(Call(Where().Merge(sql).With("sslmode", "require")))),
              "connection CONN_ERROR retryable");
}

TEST_F(PostgresTool, LargeResults) {
  ToolAnswer answer = RunSql("SELECT generate_series(1, 100000) AS a");
  EXPECT_EQ(answer.outcome.payload["row_count"].AsInt(), 100'000);
  EXPECT_EQ(answer.outcome.payload["rows"].At(99'999)["a"].AsInt(), 100'000);
  answer = RunSql("SELECT generate_series(1, 100001) AS a");
  EXPECT_EQ(ErrorLine(answer), "tool_error PG_RESULT_TOO_LARGE final");
  EXPECT_THAT(answer.outcome.error, HasSubstr("more than 100000 rows"));
  EXPECT_EQ(ErrorLine(Run(R"x({"command": "SELECT generate_series(1, 4)", "max_rows": "3"})x")),
            "tool_error PG_RESULT_TOO_LARGE final");
  // What is cut off does not count as done.
  RunSql("CREATE TABLE large (a int)");
  Run(R"({"command": "INSERT INTO large SELECT generate_series(1, 4) RETURNING a; SELECT 1",
          "max_rows": 3})");
  EXPECT_EQ(Cell("SELECT count(*) FROM large"), "0");
  RunSql("DROP TABLE large");
  answer = RunSql("SELECT repeat('x', 1048576) FROM generate_series(1, 65)");
  EXPECT_EQ(ErrorLine(answer), "tool_error PG_RESULT_TOO_LARGE final");
  EXPECT_THAT(answer.outcome.error, HasSubstr("larger than 64 MiB"));
  // A result that goes to the store may have any number of rows.
  ToolCall stored = Sql("SELECT generate_series(1, 100001) AS a");
  stored.spec = Parse(R"({"result": {"store": {"kind": "auto"}}})");
  EXPECT_EQ(Run(std::move(stored)).outcome.payload["row_count"].AsInt(), 100'001);
}

TEST_F(PostgresTool, ManyAtOnceShareAFewConnections) {
  ASSERT_TRUE(RunSql("CREATE TABLE many (a int)").outcome.ok);
  std::vector<std::unique_ptr<Running>> calls;
  calls.reserve(40);
  for (int i = 0; i < 40; ++i) {
    calls.push_back(Start(Call(Where()
                                   .With("command", "INSERT INTO many VALUES ($1)")
                                   .With("params", Json::Array({Json(i)}))
                                   .With("pool", Parse(R"({"max_size": 4})")))));
  }
  Wait();
  EXPECT_EQ(Cell("SELECT count(DISTINCT a) FROM many"), "40");
  RunSql("DROP TABLE many");
}

TEST(PostgresErrors, ByState) {
  const auto line = [](std::string state) {
    return ErrorLine(PostgresError({.failure = {.severity = "ERROR", .sqlstate = state}}));
  };
  const std::pair<const char*, const char*> cases[] = {
      {"40001", "db_deadlock PG_40001 retryable"},   {"40P01", "db_deadlock PG_40P01 retryable"},
      {"55P03", "db_timeout PG_55P03 retryable"},    {"57014", "db_timeout PG_57014 retryable"},
      {"57P01", "db_connection PG_57P01 retryable"}, {"57P03", "db_connection PG_57P03 retryable"},
      {"08006", "db_connection PG_08006 retryable"}, {"53300", "db_connection PG_53300 retryable"},
      {"23503", "db_constraint PG_23503 final"},     {"28000", "auth PG_28000 final"},
      {"42601", "tool_error PG_42601 final"},        {"40002", "tool_error PG_40002 final"},
  };
  for (const auto& [state, expected] : cases) EXPECT_EQ(line(state), expected);
  const ToolAnswer answer = PostgresError({.failure = {.severity = "ERROR",
                                                       .sqlstate = "42601",
                                                       .message = "near hunter77",
                                                       .detail = "hunter77",
                                                       .hint = "look"},
                                           .context = "Query failed",
                                           .statement = 2,
                                           .password = "hunter77"});
  EXPECT_EQ(answer.outcome.error,
            "Database error: Query failed: ERROR: near *** (SQLSTATE 42601) | DETAIL: *** | HINT: "
            "look");
  EXPECT_EQ(answer.outcome.error_info["message"].AsString(), "near ***");
}

}  // namespace
}  // namespace noetl::worker
