// Every promise of server.h, against every implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/sha256.h"
#include "base/testing.h"
#include "store/contract.h"

namespace noetl::store {
namespace {

constexpr int kThreads = 4;

CredentialRow Credential(std::int64_t id, std::string name) {
  return {.id = id,
          .name = std::move(name),
          .type = "postgres",
          .data_encrypted = "envelope",
          .meta = R"({"a":1})",
          .tags = {"one", "t\"wo"},
          .has_tags = true,
          .description = "Main Database",
          .created_at_us = 10,
          .updated_at_us = 20};
}

KeychainRow Keychain(std::string key) {
  return {.cache_key = std::move(key),
          .name = "token",
          .catalog_id = 7,
          .execution_id = 0,
          .scope_type = "global",
          .credential_type = "oauth",
          .cache_type = "token",
          .data_encrypted = "envelope",
          .auto_renew = true,
          .renew_config = R"({"url":"x"})",
          .expires_at_us = 1000,
          .access_count = 0,
          .accessed_at_us = 0,
          .created_at_us = 5};
}

template <typename Row>
Row WithoutData(Row row) {
  row.data_encrypted.clear();
  return row;
}

std::vector<std::int64_t> IdsOf(const Result<std::vector<CredentialRow>>& rows) {
  std::vector<std::int64_t> ids;
  for (const CredentialRow& row : *rows) ids.push_back(row.id);
  return ids;
}
using Ids = std::vector<std::int64_t>;

TEST_P(StoreContract, CredentialsAreKnownByIdAndName) {
  const CredentialRow first = Credential(1, "pg");
  EXPECT_EQ(*store_->PutCredential(first), first);
  CredentialRow bare{.id = 2, .name = "bare"};
  EXPECT_EQ(*store_->PutCredential(bare), bare);
  CredentialRow no_tags = Credential(3, "no tags");
  no_tags.tags.clear();
  EXPECT_EQ(*store_->PutCredential(no_tags), no_tags);
  Reopen();
  EXPECT_EQ(*store_->FindCredential(1), std::optional(first));
  EXPECT_EQ(*store_->FindCredential("pg"), std::optional(first));
  EXPECT_EQ(*store_->FindCredential("bare"), std::optional(bare));
  EXPECT_EQ(*store_->FindCredential(3), std::optional(no_tags));
  EXPECT_EQ(*store_->FindCredential(9), std::nullopt);
  EXPECT_EQ(*store_->FindCredential("PG"), std::nullopt);

  CredentialRow newer = Credential(8, "pg");
  newer.type = "snowflake";
  newer.data_encrypted = "other";
  newer.has_tags = false;
  newer.tags.clear();
  newer.created_at_us = 99;
  newer.updated_at_us = 100;
  CredentialRow expected = newer;
  expected.id = 1;
  expected.created_at_us = 10;
  EXPECT_EQ(*store_->PutCredential(newer), expected);
  EXPECT_EQ(*store_->FindCredential(1), std::optional(expected));
  EXPECT_EQ(*store_->FindCredential(8), std::nullopt);
  EXPECT_EQ(CodeOf(store_->PutCredential(Credential(1, "another name"))), "bad_row");

  EXPECT_EQ(*store_->DeleteCredential(1), true);
  EXPECT_EQ(*store_->DeleteCredential(1), false);
  EXPECT_EQ(*store_->FindCredential("pg"), std::nullopt);
}

TEST_P(StoreContract, CredentialsAreListedWithoutTheirData) {
  CredentialRow second = Credential(2, "Orders API");
  second.type = "http";
  second.description = "";
  for (const CredentialRow& row : {Credential(1, "pg_main"), second, Credential(3, "pg_test")})
    ASSERT_TRUE(store_->PutCredential(row).has_value());
  EXPECT_EQ(store_->ListCredentials("", "", 0, 10)->at(1), WithoutData(second));
  EXPECT_EQ(IdsOf(store_->ListCredentials("", "", 0, 10)), (Ids{3, 2, 1}));
  EXPECT_EQ(IdsOf(store_->ListCredentials("", "", 0, 2)), (Ids{3, 2}));
  EXPECT_EQ(IdsOf(store_->ListCredentials("", "", 3, 10)), (Ids{2, 1}));
  EXPECT_EQ(IdsOf(store_->ListCredentials("postgres", "", 0, 10)), (Ids{3, 1}));
  EXPECT_EQ(IdsOf(store_->ListCredentials("post", "", 0, 10)), Ids{});
  EXPECT_EQ(IdsOf(store_->ListCredentials("", "ders a", 0, 10)), Ids{2});
  EXPECT_EQ(IdsOf(store_->ListCredentials("", "DATABASE", 0, 10)), (Ids{3, 1}));
  EXPECT_EQ(IdsOf(store_->ListCredentials("", "%", 0, 10)), Ids{});
  EXPECT_EQ(IdsOf(store_->ListCredentials("postgres", "pg_T", 0, 10)), Ids{3});
}

TEST_P(StoreContract, CredentialsAreRewrappedOnlyWhenTheyAreAsTheyWere) {
  for (std::int64_t id = 1; id <= 3; ++id)
    ASSERT_TRUE(store_->PutCredential(Credential(id, fmt::format("c{}", id))).has_value());
  EXPECT_EQ(*store_->ScanCredentials(0, 10),
            (std::vector{Credential(1, "c1"), Credential(2, "c2"), Credential(3, "c3")}));
  EXPECT_EQ(IdsOf(store_->ScanCredentials(1, 1)), Ids{2});
  EXPECT_EQ(*store_->RewrapCredential(2, "envelope", "new"), true);
  EXPECT_EQ(*store_->RewrapCredential(2, "envelope", "newer"), false);
  EXPECT_EQ(*store_->RewrapCredential(9, "envelope", "new"), false);
  EXPECT_EQ((*store_->FindCredential(2))->data_encrypted, "new");
  EXPECT_EQ((*store_->FindCredential(2))->updated_at_us, 20);
}

TEST_P(StoreContract, KeychainRowsAreFoundCountedAndReplaced) {
  KeychainRow row = Keychain("a");
  ASSERT_TRUE(store_->PutKeychain(row).has_value());
  Reopen();
  EXPECT_EQ(*store_->FindKeychain("a"), std::optional(row));
  EXPECT_EQ(*store_->FindKeychain("b"), std::nullopt);
  EXPECT_EQ(*store_->TouchKeychain("a", 50), 1);
  EXPECT_EQ(*store_->TouchKeychain("a", 60), 2);
  EXPECT_EQ(CodeOf(store_->TouchKeychain("b", 60)), "not_found");
  row.access_count = 2;
  row.accessed_at_us = 60;
  EXPECT_EQ(*store_->FindKeychain("a"), std::optional(row));
  EXPECT_EQ(*store_->RewrapKeychain("a", "old", "new"), false);
  EXPECT_EQ(*store_->RewrapKeychain("a", "envelope", "new"), true);
  EXPECT_EQ(*store_->RewrapKeychain("b", "envelope", "new"), false);
  EXPECT_EQ((*store_->FindKeychain("a"))->data_encrypted, "new");
  const KeychainRow bare{.cache_key = "a"};
  ASSERT_TRUE(store_->PutKeychain(bare).has_value());
  EXPECT_EQ(*store_->FindKeychain("a"), std::optional(bare));
  EXPECT_EQ(*store_->DeleteKeychain("a"), true);
  EXPECT_EQ(*store_->DeleteKeychain("a"), false);
}

TEST_P(StoreContract, KeychainRowsAreListedScannedAndExpire) {
  KeychainRow old = Keychain("b");
  KeychainRow newer = Keychain("a");
  newer.created_at_us = 6;
  newer.expires_at_us = 2000;
  KeychainRow other = Keychain("c");
  other.catalog_id = 8;
  other.expires_at_us = 0;
  for (const KeychainRow& row : {old, newer, other})
    ASSERT_TRUE(store_->PutKeychain(row).has_value());
  EXPECT_EQ(*store_->ListKeychain(7, 10), (std::vector{WithoutData(newer), WithoutData(old)}));
  EXPECT_EQ(*store_->ListKeychain(7, 1), std::vector{WithoutData(newer)});
  EXPECT_TRUE(store_->ListKeychain(9, 10)->empty());
  EXPECT_EQ(*store_->ScanKeychain("", 10), (std::vector{newer, old, other}));
  EXPECT_EQ(*store_->ScanKeychain("a", 1), std::vector{old});
  EXPECT_EQ(*store_->PurgeKeychain(1000), 0);
  EXPECT_EQ(*store_->PurgeKeychain(1001), 1);
  EXPECT_EQ(*store_->FindKeychain("b"), std::nullopt);
  EXPECT_EQ(*store_->PurgeKeychain(5000), 1);
  EXPECT_EQ(*store_->ScanKeychain("", 10), std::vector{other});  // it never expires
}

TEST_P(StoreContract, ReadsOfSecretsAreOnRecord) {
  const AuditRow first{.audit_id = 3,
                       .occurred_at_us = 100,
                       .credential = "pg",
                       .operation = "get_credential",
                       .outcome = "ok",
                       .worker_id = "w1",
                       .execution_id = 5,
                       .parent_execution_id = 4,
                       .kek_version = "v1",
                       .notes = "n"};
  AuditRow second = first;
  second.audit_id = 1;
  second.occurred_at_us = 200;
  second.credential = "http";
  const AuditRow third{.audit_id = 4, .occurred_at_us = 100, .credential = "pg"};
  ASSERT_TRUE(store_->AddAudit(std::vector{first, second, third}).has_value());
  EXPECT_EQ(CodeOf(store_->AddAudit(std::vector{AuditRow{.audit_id = 9}, first})), "bad_row");
  Reopen();
  using Rows = std::vector<AuditRow>;
  EXPECT_EQ(*store_->ListAudit({}), (Rows{second, third, first}));
  EXPECT_EQ(*store_->ListAudit({.limit = 1}), Rows{second});
  EXPECT_EQ(*store_->ListAudit({.credential = "pg"}), (Rows{third, first}));
  EXPECT_EQ(*store_->ListAudit({.execution_id = 5}), (Rows{second, first}));
  EXPECT_EQ(*store_->ListAudit({.credential = "pg", .execution_id = 5}), Rows{first});
  EXPECT_EQ(*store_->ListAudit({.from_us = 101}), Rows{second});
  EXPECT_EQ(*store_->ListAudit({.from_us = 100, .to_us = 200}), (Rows{third, first}));
}

TEST_P(StoreContract, RuntimesAreKnownByKindAndName) {
  const RuntimeRow worker{.runtime_id = 1,
                          .name = "w-one",
                          .kind = "worker_pool",
                          .uri = "http://a",
                          .status = "ready",
                          .labels = R"({"k":"v"})",
                          .capabilities = R"(["python"])",
                          .capacity = 0,
                          .runtime = R"({"pid":1})",
                          .heartbeat_us = 100,
                          .created_at_us = 10,
                          .updated_at_us = 20};
  RuntimeRow server{.runtime_id = 2, .name = "w-one", .kind = "server_api", .heartbeat_us = 300};
  RuntimeRow other{.runtime_id = 3, .name = "B", .status = "offline", .heartbeat_us = 200};
  for (const RuntimeRow& row : {worker, server, other}) EXPECT_EQ(*store_->PutRuntime(row), row);
  Reopen();
  EXPECT_EQ(*store_->FindRuntime("worker_pool", "w-one"), std::optional(worker));
  EXPECT_EQ(*store_->FindRuntime("server_api", "w-one"), std::optional(server));
  EXPECT_EQ(*store_->FindRuntime("broker", "w-one"), std::nullopt);
  RuntimeRow again = worker;
  again.runtime_id = 9;
  again.created_at_us = 77;
  again.status = "busy";
  again.capacity = -1;
  RuntimeRow expected = again;
  expected.runtime_id = 1;
  expected.created_at_us = 10;
  EXPECT_EQ(*store_->PutRuntime(again), expected);
  EXPECT_EQ(*store_->FindRuntime("worker_pool", "w-one"), std::optional(expected));
  EXPECT_EQ(CodeOf(store_->PutRuntime({.runtime_id = 1, .name = "new"})), "bad_row");

  using Rows = std::vector<RuntimeRow>;
  EXPECT_EQ(*store_->ListRuntimes("", "", ""), (Rows{server, other, expected}));
  EXPECT_EQ(*store_->ListRuntimes("worker_pool", "", ""), (Rows{other, expected}));
  EXPECT_EQ(*store_->ListRuntimes("", "busy", ""), Rows{expected});
  EXPECT_EQ(*store_->ListRuntimes("", "", "one"), (Rows{server, expected}));
  EXPECT_EQ(*store_->PurgeRuntimes(100), 0);
  EXPECT_EQ(*store_->PurgeRuntimes(201), 2);
  EXPECT_EQ(*store_->DeleteRuntime("worker_pool", "w-one"), false);
  EXPECT_EQ(*store_->DeleteRuntime("server_api", "w-one"), true);
  EXPECT_TRUE(store_->ListRuntimes("", "", "")->empty());
}

TEST_P(StoreContract, VariablesAreSharedWithinARun) {
  VariableRow first{.execution_id = 5,
                    .name = "b",
                    .type = "user_defined",
                    .value = R"({"n":1})",
                    .source_step = "load",
                    .created_at_us = 10};
  VariableRow second{.execution_id = 5, .name = "a", .value = "1", .created_at_us = 11};
  VariableRow last = second;
  last.value = "2";
  const VariableRow foreign{.execution_id = 6, .name = "a", .value = "9", .created_at_us = 12};
  ASSERT_TRUE(store_->PutVariables(std::vector{first, second, last, foreign}).has_value());
  Reopen();
  EXPECT_EQ(*store_->ListVariables(5), (std::vector{last, first}));
  EXPECT_TRUE(store_->ListVariables(7)->empty());
  EXPECT_EQ(*store_->TakeVariable(5, "c", 50), std::nullopt);
  first.access_count = 1;
  first.accessed_at_us = 50;
  EXPECT_EQ(*store_->TakeVariable(5, "b", 50), std::optional(first));
  VariableRow changed = first;
  changed.value = "[]";
  changed.type = "computed";
  changed.created_at_us = 99;
  changed.access_count = 0;
  changed.accessed_at_us = 0;
  ASSERT_TRUE(store_->PutVariables(std::vector{changed}).has_value());
  changed.created_at_us = 10;
  changed.access_count = 2;
  changed.accessed_at_us = 60;
  EXPECT_EQ(*store_->TakeVariable(5, "b", 60), std::optional(changed));
  EXPECT_EQ(*store_->DeleteVariable(5, "b"), true);
  EXPECT_EQ(*store_->DeleteVariable(5, "b"), false);
  EXPECT_EQ(*store_->DeleteVariables(5), 1);
  EXPECT_EQ(*store_->DeleteVariables(5), 0);
  EXPECT_EQ(*store_->ListVariables(6), std::vector{foreign});
}

TEST_P(StoreContract, ResultsAreStoredOnceForEachContent) {
  TestRun run(5);
  UnitRows unit = run.Next(1);
  unit.bodies = {{"noetl://execution/5/result/own/40", "1"}};
  Must(unit);
  const ResultRow wanted{.result_id = 41,
                         .execution_id = 5,
                         .name = "rows/x",
                         .scope = "workflow",
                         .source_step = "load",
                         .created_at_us = 9};
  ResultRow stored = wanted;
  stored.ref = "noetl://execution/5/result/rows/x/41";
  stored.bytes = 7;
  stored.sha256 = Sha256Hex(R"({"a":1})");
  EXPECT_EQ(*store_->PutResult(wanted, R"({"a":1})"), stored);
  ResultRow again = wanted;
  again.result_id = 42;
  again.scope = "execution";
  EXPECT_EQ(*store_->PutResult(again, R"({"a":1})"), stored);
  Reopen();
  EXPECT_EQ(*store_->Load(stored.ref), Parse(R"({"a":1})"));
  const ResultRow other = *store_->PutResult(again, "2");
  EXPECT_EQ(other.result_id, 42);
  ResultRow named = again;
  named.result_id = 43;
  named.name = "y";
  const ResultRow third = *store_->PutResult(named, R"({"a":1})");
  EXPECT_EQ(third.result_id, 43);
  EXPECT_EQ(*store_->ListResults(5, 0, 10), (std::vector{stored, other, third}));
  EXPECT_EQ(*store_->ListResults(5, 41, 1), std::vector{other});
  EXPECT_TRUE(store_->ListResults(6, 0, 10)->empty());

  ResultRow lost = wanted;
  lost.execution_id = 6;
  EXPECT_EQ(CodeOf(store_->PutResult(lost, "1")), "not_found");
  EXPECT_EQ(CodeOf(store_->PutResult(wanted, "3")), "bad_row");  // its id is taken
  lost = wanted;
  lost.name = "";
  EXPECT_EQ(CodeOf(store_->PutResult(lost, "1")), "bad_row");

  EXPECT_EQ(*store_->DeleteResults(5), 3);
  EXPECT_EQ(*store_->DeleteResults(5), 0);
  EXPECT_EQ(CodeOf(store_->Load(stored.ref)), "not_found");
  EXPECT_EQ(*store_->Load("noetl://execution/5/result/own/40"), Parse("1"));
}

TEST_P(StoreContract, LargeResultsOutliveTheirTwins) {
  TestRun run(5);
  const std::string large = "\"" + std::string(2u << 20, 'x') + "\"";
  UnitRows unit = run.Next(1);
  unit.bodies = {{"noetl://execution/5/result/own/40", large}};
  Must(unit);
  const ResultRow put =
      *store_->PutResult({.result_id = 41, .execution_id = 5, .name = "a"}, large);
  EXPECT_EQ(put.bytes, std::ssize(large));
  EXPECT_EQ(*store_->Load(put.ref), Parse(large));
  EXPECT_EQ(*store_->DeleteResults(5), 1);
  EXPECT_EQ(CodeOf(store_->Load(put.ref)), "not_found");
  EXPECT_EQ(*store_->Load("noetl://execution/5/result/own/40"), Parse(large));
  ASSERT_TRUE(store_->PutResult({.result_id = 42, .execution_id = 5, .name = "a"}, large));
  EXPECT_EQ(*store_->Load("noetl://execution/5/result/a/42"), Parse(large));
}

TEST_P(StoreContract, ObjectsAreBytesUnderNames) {
  const std::string bytes("a\0b\xff", 4);
  const std::string large(2u << 20, '\xfe');
  const auto put = [&](std::string key, std::string content) {
    const ObjectRow row = *store_->PutObject({.key = key,
                                              .media_type = "application/x",
                                              .digest = {},
                                              .bytes = content,
                                              .created_at_us = 9});
    EXPECT_EQ(row.bytes, "");
    EXPECT_EQ(row.digest, Sha256Hex(content));
    const ObjectRow found = **store_->FindObject(key);
    EXPECT_EQ(found.bytes, content);
    EXPECT_EQ(found.digest, row.digest);
    EXPECT_EQ(found.media_type, "application/x");
    EXPECT_EQ(found.created_at_us, 9);
    EXPECT_EQ(found.key, key);
  };
  put("../a b/ü", bytes);
  put("empty", "");
  put("large", large);
  put("same", large);
  Reopen();
  EXPECT_EQ((*store_->FindObject("large"))->bytes, large);
  EXPECT_EQ(*store_->FindObject("none"), std::nullopt);
  put("large", "small now");
  EXPECT_EQ((*store_->FindObject("same"))->bytes, large);
  put("large", large);
  put("large", large);
  const ObjectRow bare = *store_->PutObject({.key = "bare", .bytes = "x"});
  EXPECT_EQ((*store_->FindObject("bare"))->media_type, "");
}

TEST_P(StoreContract, RequestKeysBelongToTheFirst) {
  const RequestKeyRow first{.scope = 0,
                            .key = "k",
                            .execution_id = 5,
                            .digest = "d",
                            .created_at_us = 100,
                            .expires_at_us = 200};
  EXPECT_EQ(*store_->ClaimKey(first), first);
  RequestKeyRow second = first;
  second.execution_id = 6;
  second.created_at_us = 199;
  second.expires_at_us = 400;
  EXPECT_EQ(*store_->ClaimKey(second), first);
  Reopen();
  second.scope = 3;
  EXPECT_EQ(*store_->ClaimKey(second), second);  // another scope
  second.scope = 0;
  second.created_at_us = 200;
  EXPECT_EQ(*store_->ClaimKey(second), second);            // the first has expired
  ASSERT_TRUE(store_->ReleaseKey(0, "k", 5).has_value());  // not the holder
  EXPECT_EQ(*store_->ClaimKey(first), second);
  ASSERT_TRUE(store_->ReleaseKey(0, "k", 6).has_value());
  EXPECT_EQ(*store_->ClaimKey(first), first);
  const RequestKeyRow forever{.key = "f", .execution_id = 7, .created_at_us = 1};
  EXPECT_EQ(*store_->ClaimKey(forever), forever);
  RequestKeyRow late = forever;
  late.execution_id = 8;
  late.created_at_us = 1'000'000;
  EXPECT_EQ(*store_->ClaimKey(late), forever);
  EXPECT_EQ(*store_->PurgeKeys(200), 0);
  EXPECT_EQ(*store_->PurgeKeys(201), 1);
  EXPECT_EQ(*store_->PurgeKeys(1'000'000), 1);
}

TEST_P(StoreContract, OneOfManyGetsAKey) {
  constexpr int kKeys = 40;
  std::vector<std::vector<std::int64_t>> holders(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int key = 0; key < kKeys; ++key) {
        const auto row = store_->ClaimKey({.key = fmt::format("k{}", key),
                                           .execution_id = 1000 * (thread + 1) + key,
                                           .created_at_us = 1,
                                           .expires_at_us = 100});
        holders[static_cast<std::size_t>(thread)].push_back(row ? row->execution_id : -1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& seen : holders) EXPECT_EQ(seen, holders[0]);
  for (int key = 0; key < kKeys; ++key)
    EXPECT_EQ(holders[0][static_cast<std::size_t>(key)] % 1000, key);
}

TEST_P(StoreContract, WithoutAnOutboxThereIsNothingToPublish) {
  TestRun run(5);
  Must(run.Next(3));
  EXPECT_TRUE(store_->ClaimOutbox(1000, 10, 10)->empty());
  EXPECT_EQ(*store_->CountOutbox(1000, 10), 0);
}

TEST_P(StoreContract, TheOutboxHoldsEveryEventUntilItIsPublished) {
  Reopen(/*outbox=*/true);
  TestRun run(5);
  const UnitRows unit = run.Next(3);
  Must(unit);
  EXPECT_EQ(*store_->CountOutbox(100, 50), 3);
  const std::vector<OutboxRow> first = *store_->ClaimOutbox(100, 50, 2);
  ASSERT_EQ(first.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first[i].execution_id, 5);
    EXPECT_EQ(first[i].event_id, unit.events[i].event.event_id);
    EXPECT_EQ(first[i].seq, unit.events[i].event.seq);
    EXPECT_EQ(first[i].event_type, unit.events[i].event.type_name);
    EXPECT_EQ(first[i].attempts, 1);
  }
  const std::vector<OutboxRow> second = *store_->ClaimOutbox(110, 50, 10);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].seq, 3);
  EXPECT_TRUE(store_->ClaimOutbox(110, 50, 10)->empty());

  EXPECT_EQ(*store_->MarkPublished(Ids{first[0].outbox_id, 999}, 120), 1);
  EXPECT_EQ(*store_->MarkPublished(Ids{first[0].outbox_id}, 130), 1);
  EXPECT_EQ(*store_->MarkFailed(first[0].outbox_id, "late", 0), false);
  EXPECT_EQ(*store_->MarkFailed(999, "none", 0), false);
  EXPECT_EQ(*store_->MarkFailed(second[0].outbox_id, "broker is away", 300), true);
  EXPECT_EQ(*store_->CountOutbox(150, 50), 0);
  EXPECT_EQ(*store_->CountOutbox(151, 50), 1);  // taken at 100 and never marked
  EXPECT_EQ(store_->ClaimOutbox(151, 50, 10)->at(0).attempts, 2);
  EXPECT_TRUE(store_->ClaimOutbox(200, 50, 10)->empty());
  EXPECT_EQ(*store_->CountOutbox(300, 200), 1);
  const std::vector<OutboxRow> again = *store_->ClaimOutbox(300, 200, 10);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].outbox_id, second[0].outbox_id);
  EXPECT_EQ(again[0].attempts, 2);
  EXPECT_EQ(*store_->MarkPublished(Ids{again[0].outbox_id, first[1].outbox_id}, 310), 2);
  EXPECT_EQ(*store_->CountOutbox(1'000'000, 0), 0);
}

TEST_P(StoreContract, AUnitThatIsRefusedIsNotPublished) {
  Reopen(/*outbox=*/true);
  TestRun run(5);
  Must(run.Next(1));
  EXPECT_EQ(CodeOf(CommitOne(*store_, TestRun(5).Next(2))), "conflict");
  std::vector<UnitRows> units = {TestRun(6).Next(1), TestRun(5).Next(1), TestRun(7).Next(1)};
  CommitAll(*store_, units);
  EXPECT_EQ(*store_->CountOutbox(100, 50), 3);
}

TEST_P(StoreContract, NobodyTakesARowOfTheOutboxTwice) {
  constexpr std::size_t kEvents = 60;
  Reopen(/*outbox=*/true);
  TestRun run(5);
  Must(run.Next(kEvents));
  std::vector<std::vector<std::int64_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      while (true) {
        const auto rows = store_->ClaimOutbox(100, 50, 4);
        if (!rows || rows->empty()) return;
        for (const OutboxRow& row : *rows) taken[thread].push_back(row.seq);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::multiset<std::int64_t> all;
  for (const auto& rows : taken) all.insert(rows.begin(), rows.end());
  EXPECT_EQ(all.size(), kEvents);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), kEvents);
}

TEST_P(StoreContract, PurgingARunTakesWhatBelongsToItAlong) {
  Reopen(/*outbox=*/true);
  for (const std::int64_t id : {5, 6}) {
    TestRun run(id);
    run.row().labels = {"team=a", fmt::format("own={}", id)};
    Must(run.Next(1));
    Must(run.End());
    ASSERT_TRUE(store_->PutVariables(std::vector{VariableRow{.execution_id = id, .name = "v"}}));
    KeychainRow local = Keychain(fmt::format("local{}", id));
    local.scope_type = "local";
    local.execution_id = id;
    KeychainRow global = Keychain(fmt::format("global{}", id));
    global.execution_id = id;
    ASSERT_TRUE(store_->PutKeychain(local) && store_->PutKeychain(global));
    ASSERT_TRUE(store_->ClaimKey({.key = fmt::format("k{}", id), .execution_id = id}));
    ASSERT_TRUE(store_->PutResult({.result_id = id, .execution_id = id, .name = "r"}, "1"));
  }
  EXPECT_EQ(*store_->CountOutbox(100, 50), 4);
  ASSERT_TRUE(store_->Purge(5).has_value());
  for (const std::int64_t id : {5, 6}) {
    const std::size_t count = id == 5 ? 0 : 1;
    EXPECT_EQ(store_->ListVariables(id)->size(), count);
    EXPECT_EQ(store_->FindKeychain(fmt::format("local{}", id))->has_value(), id == 6);
    EXPECT_TRUE(store_->FindKeychain(fmt::format("global{}", id))->has_value());
    EXPECT_EQ(store_->ListResults(id, 0, 10)->size(), count);
    EXPECT_EQ(store_->List({.label = fmt::format("own={}", id)})->size(), count);
    EXPECT_EQ(store_->ClaimKey({.key = fmt::format("k{}", id), .execution_id = 9})->execution_id,
              id == 5 ? 9 : 6);
  }
  EXPECT_EQ(store_->List({.label = "team"})->size(), 1u);
  EXPECT_EQ(*store_->CountOutbox(100, 50), 2);
  TestRun again(5);  // it comes back without its former labels
  Must(again.Next(1));
  EXPECT_EQ(store_->List({.label = "team=a"})->size(), 1u);
}

}  // namespace
}  // namespace noetl::store
