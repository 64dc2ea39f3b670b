// Questions in SQL: what they may read, and nothing else.
#include <gtest/gtest.h>

#include "base/temporary_directory.h"
#include "base/testing.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"
#include "store/testing.h"

namespace noetl::store {
namespace {

constexpr std::int64_t kTimeoutMs = 60'000;

class Console : public testing::Test {
 protected:
  void SetUp() override {
    store_ = std::move(*OpenSqliteStore({.directory = directory_.path()}));
    TestRun run(5);
    ASSERT_TRUE(CommitOne(*store_, run.Next(3)).has_value());
    ASSERT_TRUE(store_->PutCredential({.id = 1, .name = "pg", .data_encrypted = "SECRET"}));
    ASSERT_TRUE(store_->PutKeychain({.cache_key = "k", .data_encrypted = "SECRET"}));
  }

  Result<SqlConsole::Answer> Ask(std::string_view sql, std::vector<Json> parameters = {},
                                 std::int64_t rows_max = 100) {
    return store_->Query(sql, parameters, rows_max, kTimeoutMs);
  }
  std::string Rows(std::string_view sql, std::vector<Json> parameters = {}) {
    const auto answer = Ask(sql, std::move(parameters));
    return answer ? WriteJson(Json::Array(answer->rows)) : answer.error().message;
  }
  void ExpectRefused(std::string_view sql) {
    const auto answer = Ask(sql);
    EXPECT_EQ(CodeOf(answer), "sql") << sql;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(Console, ReadsTablesWithAndWithoutTheSchemaName) {
  for (const char* table :
       {"event", "noetl.event", "noetl.event_envelope", "\"noetl\".\"event\""}) {
    EXPECT_EQ(Rows(fmt::format("SELECT count(*) AS n FROM {}", table)), R"([{"n":3}])") << table;
  }
  EXPECT_EQ(Rows("WITH x AS (SELECT 1 AS a) SELECT a FROM x;  -- the end\n ;"), R"([{"a":1}])");
  EXPECT_EQ(Rows("SELECT e.stream_version v FROM noetl.event e JOIN execution USING (execution_id) "
                 "ORDER BY v DESC LIMIT 1"),
            R"([{"v":3}])");
  EXPECT_EQ(Rows("SELECT name FROM pragma_table_info('event') WHERE pk"),
            R"([{"name":"position"}])");
  EXPECT_EQ(Rows("SELECT sum(value) AS s FROM json_each('[1,2]')"), R"([{"s":3}])");
  EXPECT_NE(Rows("PRAGMA table_info(event)").find("stream_version"), std::string::npos);
  EXPECT_NE(Rows("SELECT name FROM sqlite_master").find("execution"), std::string::npos);
  EXPECT_TRUE(Ask("EXPLAIN QUERY PLAN SELECT * FROM event").has_value());
}

TEST_F(Console, SeesWhatWasCommittedAMomentAgo) {
  TestRun run(6);
  ASSERT_TRUE(CommitOne(*store_, run.Next(1)).has_value());
  EXPECT_EQ(Rows("SELECT count(*) AS n FROM noetl.execution"), R"([{"n":2}])");
}

TEST_F(Console, ValuesKeepTheirTypes) {
  const auto answer =
      Ask("SELECT 9007199254740993 AS i, 1.5 AS d, 'größe' AS t, NULL AS n, "
          "x'00ff10' AS b, x'' AS e, x'01' AS one");
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->columns, (std::vector<std::string>{"i", "d", "t", "n", "b", "e", "one"}));
  EXPECT_EQ(
      WriteJson(answer->rows.at(0)),
      R"({"i":9007199254740993,"d":1.5,"t":"größe","n":null,"b":"AP8Q","e":"","one":"AQ=="})");
  EXPECT_FALSE(answer->truncated);
}

TEST_F(Console, ParametersAreBoundByPlace) {
  const std::vector<Json> values = {Json(7),    Json("x"),    Json(),
                                    Json(true), Parse("[1]"), Json(2.5)};
  EXPECT_EQ(Rows("SELECT ? AS a, ? AS b, ? AS c, ? AS d, ? AS e, ? AS f", values),
            R"([{"a":7,"b":"x","c":null,"d":1,"e":"[1]","f":2.5}])");
  EXPECT_EQ(Rows("SELECT ?2 AS a, ?1 AS b", values), R"([{"a":"x","b":7}])");
  EXPECT_EQ(Rows("SELECT $2 AS a, $1 AS b, $2 AS c", values), R"([{"a":"x","b":7,"c":"x"}])");
  EXPECT_EQ(CodeOf(Ask("SELECT ?, ?", {Json(1)})), "sql");
  EXPECT_EQ(CodeOf(Ask("SELECT :name", {Json(1)})), "sql");
}

TEST_F(Console, LongAnswersAreCutShort) {
  const char* kSql = "SELECT stream_version AS v FROM event ORDER BY v";
  const auto cut = Ask(kSql, {}, 2);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->rows.size(), 2u);
  EXPECT_TRUE(cut->truncated);
  EXPECT_FALSE(Ask(kSql, {}, 3)->truncated);
}

TEST_F(Console, OnlyOneStatementThatReads) {
  for (const char* sql : {"INSERT INTO store_number VALUES ('a', 1)",
                          "UPDATE execution SET head = 0",
                          "DELETE FROM event",
                          "DROP TABLE event",
                          "CREATE TABLE x (a)",
                          "CREATE TEMP TABLE x (a)",
                          "CREATE TEMP VIEW v AS SELECT 1",
                          "ATTACH 'other.db' AS other",
                          "DETACH noetl",
                          "VACUUM",
                          "VACUUM INTO 'copy.db'",
                          "PRAGMA user_version = 3",
                          "PRAGMA query_only = OFF",
                          "PRAGMA writable_schema = ON",
                          "PRAGMA journal_mode = DELETE",
                          "BEGIN",
                          "COMMIT",
                          "SAVEPOINT a",
                          "REINDEX",
                          "ANALYZE",
                          "EXPLAIN DELETE FROM event",
                          "SELECT load_extension('x')",
                          "SELECT 1; SELECT 2",
                          "SELECT 1; DELETE FROM event",
                          "SELECT 1; nonsense",
                          "",
                          "  -- nothing\n",
                          ";",
                          "nonsense",
                          "SELECT * FROM missing",
                          "WITH x AS (SELECT 1) DELETE FROM event",
                          "SELECT * FROM sqlite_dbpage",
                          "INSERT INTO event (position) VALUES (1) RETURNING *"}) {
    ExpectRefused(sql);
  }
  EXPECT_EQ(store_->ReadEvents(5, 0, 10)->size(), 3u);
  EXPECT_NE(Ask("SELECT nothing FROM event").error().message.find("nothing"), std::string::npos);
}

TEST_F(Console, SecretsAreNotShown) {
  EXPECT_EQ(Rows("SELECT name FROM credential"), R"([{"name":"pg"}])");
  EXPECT_EQ(Rows("SELECT cache_key, access_count FROM noetl.keychain"),
            R"([{"cache_key":"k","access_count":0}])");
  for (const char* sql :
       {"SELECT data_encrypted FROM credential", "SELECT * FROM noetl.credential",
        "SELECT length(DATA_ENCRYPTED) FROM Credential", "SELECT * FROM keychain",
        "SELECT name FROM credential WHERE data_encrypted LIKE 'S%'",
        "SELECT name FROM credential ORDER BY data_encrypted",
        "WITH c AS (SELECT data_encrypted AS d FROM keychain) SELECT count(*) FROM c WHERE d = 'x'",
        "SELECT (SELECT data_encrypted FROM credential)"}) {
    const auto answer = Ask(sql);
    ASSERT_EQ(CodeOf(answer), "sql") << sql;
    EXPECT_NE(answer.error().message.find("is a secret"), std::string::npos) << sql;
  }
}

TEST_F(Console, EndlessQuestionsEnd) {
  const std::vector<Json> none;
  const auto answer = store_->Query(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n", none,
      10, 20);
  EXPECT_EQ(CodeOf(answer), "timeout");
  EXPECT_EQ(CodeOf(Ask("SELECT length(zeroblob(500000000))")), "sql");
  EXPECT_EQ(Rows("SELECT 1 AS a"), R"([{"a":1}])");
}

TEST_F(Console, WorksOnAStoreThatIsOnlyRead) {
  const auto reader =
      std::move(*OpenSqliteStore({.directory = directory_.path(), .read_only = true}));
  const std::vector<Json> none;
  EXPECT_EQ(reader->Query("SELECT 1 FROM noetl.event", none, 10, kTimeoutMs)->rows.size(), 3u);
}

TEST(MemoryConsole, SaysThatThereIsNone) {
  const auto store = MakeMemoryStore();
  const auto answer = store->Query("SELECT 1", {}, 1, 1);
  EXPECT_EQ(CodeOf(answer), "sql");
  EXPECT_NE(answer.error().message.find("not available"), std::string::npos);
}

}  // namespace
}  // namespace noetl::store
