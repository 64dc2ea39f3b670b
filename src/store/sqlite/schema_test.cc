// Files of older versions open and work.
#include "store/sqlite/schema.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/ids.h"
#include "base/temporary_directory.h"
#include "store/sqlite/sqlite_store.h"
#include "store/testing.h"

namespace noetl::store {
namespace {

// A file as the first version left it: one open run, one that failed, a playbook and a body.
void MakeFirstFile(const std::string& directory) {
  auto connection = *Connection::Open(directory + "/noetl.db", Connection::Mode::kCreate, "");
  ASSERT_TRUE(connection->Execute("PRAGMA journal_mode = WAL").has_value());
  ASSERT_TRUE(MigrateTo(*connection, 1).has_value());
  ASSERT_EQ(*connection->Number("PRAGMA user_version"), 1);
  const Status filled = connection->Execute(R"sql(
INSERT INTO execution (execution_id, catalog_id, path, version, status, started_at, ended_at, head,
                       terminal, chain)
VALUES (5, 7, 'a', 1, 'RUNNING', 1000, NULL, 0, 0, zeroblob(32)),
       (6, 7, 'a', 1, 'FAILED', 2000, 3000, 0, 1, zeroblob(32));
INSERT INTO catalog (catalog_id, path, version, kind, content, created_at)
VALUES (7, 'a', 1, 'playbook', 'x', 10);
INSERT INTO result_store (result_id, execution_id, name, bytes, sha256, data)
VALUES (9, 5, 'r', 1, x'6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b', '1');)sql");
  ASSERT_TRUE(filled.has_value()) << filled.error().message;
}

TEST(Schema, AFileOfTheFirstVersionOpensAndWorks) {
  TemporaryDirectory directory;
  MakeFirstFile(directory.path());
  EXPECT_EQ(CodeOf(OpenSqliteStore({.directory = directory.path(), .read_only = true})), "schema");
  for (int opened = 0; opened < 2; ++opened) {
    const auto result = OpenSqliteStore({.directory = directory.path(), .outbox = true});
    ASSERT_TRUE(result.has_value()) << result.error().message;
    Store& store = **result;
    EXPECT_EQ(store.Stats()->schema, SqliteSchemaVersion());
    EXPECT_EQ(store.List({.status = "FAILED"})->size(), 1u);
    EXPECT_EQ(store.List({.path_part = "A"})->size(), 2u);
    EXPECT_EQ(store.List({.started_before_us = 1500})->size(), 1u);
    EXPECT_EQ(store.Count(0)->running, 1);
    EXPECT_EQ((*store.FindEntry("a", 0))->archived_at_us, 0);
    EXPECT_EQ(*store.Load("noetl://execution/5/result/r/9"), Json(1));
    EXPECT_TRUE(store.ListResults(5, 0, 10)->empty());
    EXPECT_EQ(*store.DeleteResults(5), 0);
  }
  const auto result = OpenSqliteStore({.directory = directory.path(), .outbox = true});
  Store& store = **result;
  EXPECT_TRUE(store.RemoveEntries("a", 0, 50)->archived);
  TestRun run(8, "a");
  run.row().labels = {"k=v"};
  ASSERT_TRUE(CommitOne(store, run.Next(2)).has_value());
  ASSERT_TRUE(CommitOne(store, run.End()).has_value());
  EXPECT_EQ(store.List({.label = "k"})->size(), 1u);
  EXPECT_EQ(store.ClaimOutbox(100, 10, 10)->size(), 3u);
  ASSERT_TRUE(store.Purge(6).has_value());
  ASSERT_TRUE(store.Purge(8).has_value());
}

// The text of the index and the numbers that queries go by.
TEST(Schema, UnusualStartsAreThoseThatIdsDoNotTell) {
  TemporaryDirectory directory;
  ASSERT_TRUE(OpenSqliteStore({.directory = directory.path()}).has_value());
  auto connection = *Connection::Open(directory.path() + "/noetl.db", Connection::Mode::kWrite, "");
  const std::int64_t id = (123'456'789LL << 22) + 77;
  const std::int64_t time_us = DecodeId(id).time_ms * 1000;
  const auto unusual = [&](std::int64_t started_at_us) {
    Query query = *connection->Get("SELECT " NOETL_UNUSUAL_START
                                   " FROM (SELECT ?1 AS execution_id, ?2 AS started_at)");
    query.Int(1, id).SomeInt(2, started_at_us);
    return query.Next() && query.GetInt(0) != 0;
  };
  EXPECT_FALSE(unusual(time_us));
  EXPECT_FALSE(unusual(time_us + kStartSlackUs));
  EXPECT_FALSE(unusual(time_us - kStartSlackUs));
  EXPECT_TRUE(unusual(time_us + kStartSlackUs + 1));
  EXPECT_TRUE(unusual(time_us - kStartSlackUs - 1));
  EXPECT_TRUE(unusual(0));
  EXPECT_TRUE(unusual(1));
}

// A file as the version before subscriptions left it.
TEST(Schema, AFileOfTheSecondVersionOpensAndWorks) {
  TemporaryDirectory directory;
  {
    auto connection =
        *Connection::Open(directory.path() + "/noetl.db", Connection::Mode::kCreate, "");
    ASSERT_TRUE(connection->Execute("PRAGMA journal_mode = WAL").has_value());
    ASSERT_TRUE(MigrateTo(*connection, 2).has_value());
    const Status filled = connection->Execute(R"sql(
INSERT INTO catalog (catalog_id, path, version, kind, content, created_at)
VALUES (7, 'subs/a', 1, 'subscription', 'x', 10);
INSERT INTO object_store (object_key, digest, bytes)
VALUES ('a/execution=5/results/s/0/0/1.json', zeroblob(32), x'31'),
       ('execution=5/results/s/0/0/1.json', zeroblob(32), x'31'), ('plain', zeroblob(32), x'31');
)sql");
    ASSERT_TRUE(filled.has_value()) << filled.error().message;
  }
  const auto result = OpenSqliteStore({.directory = directory.path()});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  Store& store = **result;
  EXPECT_EQ(store.FindObjectKeys("execution=5/results/s/0/0/1.json", 10)->size(), 2u);
  EXPECT_TRUE(store.FindListener("hook", 10)->empty());
  // Registered once more, the document is found by its listener; there is no new version.
  const auto entry = store.Register({.catalog_id = 8,
                                     .path = "subs/a",
                                     .kind = "subscription",
                                     .content = "x",
                                     .listener = "hook"});
  EXPECT_EQ(entry->catalog_id, 7);
  EXPECT_EQ(entry->listener, "hook");
  EXPECT_EQ(store.FindListener("hook", 10)->size(), 1u);
  const auto row = store.RegisterSubscription(
      {.subscription_id = 20, .path = "subs/a", .catalog_id = 7}, 21, 100);
  ASSERT_TRUE(row.has_value()) << row.error().message;
  EXPECT_TRUE(store.Check()->empty());
}

// What somebody changed behind the store's back is not given out.
TEST(Bodies, AreWhatWasStored) {
  TemporaryDirectory directory;
  TestRun run(5);
  std::string ref;
  {
    const auto store = std::move(*OpenSqliteStore({.directory = directory.path()}));
    ASSERT_TRUE(CommitOne(*store, run.Next(1)).has_value());
    ref = store->PutResult({.result_id = 1, .execution_id = 5, .name = "r"}, "[1]")->ref;
    EXPECT_EQ(CodeOf(store->Load(ref)), "ok");
  }
  auto connection = *Connection::Open(directory.path() + "/noetl.db", Connection::Mode::kWrite, "");
  ASSERT_TRUE(connection->Execute("UPDATE result_store SET data = '[2]'").has_value());
  const auto store = std::move(*OpenSqliteStore({.directory = directory.path()}));
  EXPECT_EQ(CodeOf(store->Load(ref)), "corrupt");
}

TEST(Subscriptions, DamageIsFound) {
  TemporaryDirectory directory;
  {
    const auto store = std::move(*OpenSqliteStore({.directory = directory.path()}));
    ASSERT_TRUE(store->Register({.catalog_id = 7, .path = "a", .content = "x"}).has_value());
    ASSERT_TRUE(
        store->RegisterSubscription({.subscription_id = 20, .path = "a", .catalog_id = 7}, 21, 100)
            .has_value());
    ASSERT_TRUE(store->ActOnSubscription(20, "activate", 22, 200).has_value());
    EXPECT_TRUE(store->Check()->empty());
  }
  const auto damage = [&](const std::string& sql) {
    auto connection =
        *Connection::Open(directory.path() + "/noetl.db", Connection::Mode::kWrite, "");
    EXPECT_TRUE(connection->Execute(sql).has_value());
    const auto store = std::move(*OpenSqliteStore({.directory = directory.path()}));
    return *store->Check();
  };
  EXPECT_EQ(damage("UPDATE subscription SET head = 1").size(), 1u);
  EXPECT_EQ(damage("UPDATE subscription SET head = 2").size(), 0u);
  EXPECT_EQ(damage("UPDATE subscription SET chain = zeroblob(32)").size(), 1u);
  EXPECT_FALSE(damage("DELETE FROM event").empty());
  EXPECT_TRUE(damage("DELETE FROM subscription").empty());
}

TEST(ObjectFiles, AreRemovedWhenNothingNeedsThem) {
  TemporaryDirectory directory;
  const auto store = std::move(*OpenSqliteStore({.directory = directory.path()}));
  const auto files = [&](const std::string& folder) {
    std::int64_t count = 0;
    std::error_code missing;
    for (const auto& entry :
         std::filesystem::directory_iterator(directory.path() + "/objects/" + folder, missing)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  };
  const std::string large(2u << 20, 'x');
  ASSERT_TRUE(store->PutObject({.key = "a", .bytes = large}));
  ASSERT_TRUE(store->PutObject({.key = "a", .bytes = large}));
  ASSERT_TRUE(store->PutObject({.key = "b", .bytes = large}));
  EXPECT_EQ(files("named"), 2);
  ASSERT_TRUE(store->PutObject({.key = "a", .bytes = large + "y"}));
  EXPECT_EQ(files("named"), 2);
  ASSERT_TRUE(store->PutObject({.key = "a", .bytes = "small"}));
  EXPECT_EQ(files("named"), 1);
  EXPECT_EQ((*store->FindObject("b"))->bytes, large);

  TestRun run(5);
  ASSERT_TRUE(CommitOne(*store, run.End()).has_value());
  const std::string json = "\"" + large + "\"";
  ASSERT_TRUE(store->PutResult({.result_id = 1, .execution_id = 5, .name = "r"}, json));
  ASSERT_TRUE(store->PutResult({.result_id = 2, .execution_id = 5, .name = "s"}, json));
  EXPECT_EQ(files("5"), 1);
  EXPECT_EQ(*store->DeleteResults(5), 2);
  EXPECT_EQ(files("5"), 0);
  ASSERT_TRUE(store->PutResult({.result_id = 3, .execution_id = 5, .name = "r"}, json));
  ASSERT_TRUE(store->Purge(5).has_value());
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/objects/5"));
}

}  // namespace
}  // namespace noetl::store
