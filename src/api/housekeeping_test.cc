#include "api/housekeeping.h"

#include <gtest/gtest.h>

#include "api/metrics.h"
#include "api/testing.h"
#include "store/testing.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;

TEST(Housekeeping, RemovesWhatHasExpired) {
  TestApi api;
  store::MemoryStoreOptions options;
  options.outbox = true;
  const auto store = store::MakeMemoryStore(std::move(options));
  api.services.store = store.get();
  const std::int64_t now_us = api.clock.NowMicros();

  store::TestRun run(5);
  ASSERT_TRUE(store::CommitOne(*store, run.Next(2)).has_value());
  const auto put = [&](std::int64_t id, std::string name, std::int64_t expires_at_us) {
    return store
        ->PutResult({.result_id = id,
                     .execution_id = 5,
                     .name = std::move(name),
                     .created_at_us = now_us,
                     .expires_at_us = expires_at_us},
                    "1")
        .has_value();
  };
  ASSERT_TRUE(put(1, "gone", now_us + 10 * kSecondUs));
  ASSERT_TRUE(put(2, "kept", now_us + 9'000 * kSecondUs));
  ASSERT_TRUE(store->PutKeychain({.cache_key = "k", .expires_at_us = now_us + kSecondUs}));
  ASSERT_TRUE(store->ClaimKey({.key = "r", .execution_id = 5, .expires_at_us = now_us + 1}));
  const std::vector<store::OutboxRow> copies = *store->ClaimOutbox(now_us, kSecondUs, 10);
  ASSERT_EQ(copies.size(), 2u);
  ASSERT_TRUE(store->MarkPublished(std::vector{copies[0].outbox_id}, now_us).has_value());

  const Result<Swept> early = SweepStore(api.services);
  ASSERT_TRUE(early.has_value());
  EXPECT_EQ(early->results + early->outbox + early->keychain + early->request_keys, 0);
  api.clock.Advance(3601 * kSecondUs);  // an hour is how long published copies stay
  const Result<Swept> swept = SweepStore(api.services);
  ASSERT_TRUE(swept.has_value());
  EXPECT_EQ(swept->results, 1);
  EXPECT_EQ(swept->outbox, 1);
  EXPECT_EQ(swept->keychain, 1);
  EXPECT_EQ(swept->request_keys, 1);
  EXPECT_EQ(MetricsOf(api.services).cleanup_rows_purged.value({"outbox"}), 1);
  EXPECT_EQ(MetricsOf(api.services).cleanup_rows_purged.value({"result_store"}), 1);
  EXPECT_EQ(store->ListResults(5, 0, 10)->size(), 1u);
}

TEST(StoreGauges, AreAgesInSeconds) {
  TestApi api;
  store::TestRun run(5);
  store::UnitRows unit = run.Next(1);
  unit.commands = {run.Command(50)};
  unit.commands[0].created_at_us = api.clock.NowMicros();
  ASSERT_TRUE(store::CommitOne(*api.store, unit).has_value());
  api.clock.Advance(90 * kSecondUs);
  const Asked page = api.Get("/metrics");
  ASSERT_EQ(page.status(), 200);
  EXPECT_NE(page.response.body.find("noetl_command_queue_age_seconds 90"), std::string::npos);
  EXPECT_NE(page.response.body.find("noetl_outbox_oldest_age_seconds 0"), std::string::npos);
  EXPECT_NE(page.response.body.find("noetl_db_pool_waiting 0"), std::string::npos);
}

}  // namespace
}  // namespace noetl::api
