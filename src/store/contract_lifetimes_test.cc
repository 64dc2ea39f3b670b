// What is kept and for how long, and what waits, against every implementation.
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/testing.h"
#include "store/contract.h"

namespace noetl::store {
namespace {

class LifetimeContract : public StoreContract {
 protected:
  ResultRow Put(std::int64_t id, std::string name, std::string scope, std::int64_t expires_at_us,
                std::string_view data = "1", std::int64_t execution_id = 5) {
    const auto row = store_->PutResult({.result_id = id,
                                        .execution_id = execution_id,
                                        .name = std::move(name),
                                        .scope = std::move(scope),
                                        .created_at_us = 100,
                                        .expires_at_us = expires_at_us},
                                       data);
    EXPECT_TRUE(row.has_value()) << row.error().message;
    return row.value_or(ResultRow());
  }
};

TEST_P(LifetimeContract, ResultsExpire) {
  TestRun run(5);
  Must(run.Next(1));
  const ResultRow soon = Put(41, "soon", "execution", 200);
  const ResultRow late = Put(42, "late", "execution", 300);
  const ResultRow never = Put(43, "never", "execution", 0);
  EXPECT_EQ(soon.expires_at_us, 200);
  Reopen();
  EXPECT_EQ(*store_->FindResult(5, 41), std::optional(soon));
  EXPECT_EQ(*store_->FindResult(6, 41), std::nullopt);
  EXPECT_EQ(*store_->FindResult(5, 99), std::nullopt);
  EXPECT_EQ(*store_->PurgeResults(199, 10), 0);
  EXPECT_EQ(*store_->PurgeResults(200, 10), 1);
  EXPECT_EQ(CodeOf(store_->Load(soon.ref)), "not_found");
  EXPECT_EQ(*store_->FindResult(5, 41), std::nullopt);
  EXPECT_EQ(*store_->ListResults(5, 0, 10), (std::vector{late, never}));

  // The same again keeps it longer.
  ResultRow longer = Put(44, "late", "execution", 500);
  EXPECT_EQ(longer.result_id, 42);
  EXPECT_EQ(longer.expires_at_us, 500);
  EXPECT_EQ(*store_->PurgeResults(400, 10), 0);
  EXPECT_EQ(Put(45, "late", "execution", 0).expires_at_us, 0);
  EXPECT_EQ(*store_->PurgeResults(INT64_MAX, 10), 0);
}

TEST_P(LifetimeContract, PurgingStopsAtItsLimit) {
  TestRun run(5);
  Must(run.Next(1));
  for (std::int64_t id = 1; id <= 5; ++id) Put(id, fmt::format("r{}", id), "execution", id);
  EXPECT_EQ(*store_->PurgeResults(10, 2), 2);
  EXPECT_EQ(store_->ListResults(5, 0, 10)->size(), 3u);
  EXPECT_EQ(*store_->PurgeResults(10, 10), 3);
  EXPECT_EQ(*store_->PurgeResults(10, 10), 0);
}

TEST_P(LifetimeContract, ResultsOfStepsGoWhenTheirRunHasEnded) {
  TestRun run(5);
  TestRun open(6);
  Must(run.Next(1));
  Must(open.Next(1));
  const ResultRow step = Put(41, "a", "step", 0);
  const ResultRow whole = Put(42, "b", "execution", 0);
  const ResultRow other = Put(43, "a", "step", 0, "1", 6);
  EXPECT_EQ(*store_->PurgeResults(1000, 10), 0);
  Must(run.End());
  EXPECT_EQ(*store_->PurgeResults(1000, 10), 1);
  EXPECT_EQ(*store_->ListResults(5, 0, 10), std::vector{whole});
  EXPECT_EQ(*store_->ListResults(6, 0, 10), std::vector{other});
  EXPECT_EQ(CodeOf(store_->Load(step.ref)), "not_found");
}

TEST_P(LifetimeContract, PermanentResultsOutliveTheirRun) {
  const std::string large = "\"" + std::string(2u << 20, 'x') + "\"";
  const std::string other = "\"" + std::string(2u << 20, 'y') + "\"";
  TestRun run(5);
  UnitRows unit = run.Next(1);
  unit.bodies = {{"noetl://execution/5/result/own/40", large}};
  Must(unit);
  const ResultRow kept = Put(41, "kept", "permanent", 0, large);
  const ResultRow small = Put(42, "small", "permanent", 0);
  const ResultRow gone = Put(43, "gone", "execution", 0, other);
  Must(run.End());
  ASSERT_TRUE(store_->Purge(5).has_value());
  Reopen();
  EXPECT_EQ(*store_->Load(kept.ref), Parse(large));
  EXPECT_EQ(*store_->Load(small.ref), Parse("1"));
  EXPECT_EQ(CodeOf(store_->Load(gone.ref)), "not_found");
  EXPECT_EQ(CodeOf(store_->Load("noetl://execution/5/result/own/40")), "not_found");
  EXPECT_EQ(*store_->FindResult(5, 41), std::optional(kept));
  EXPECT_EQ(*store_->Find(5), std::nullopt);
  EXPECT_EQ(CodeOf(store_->PutResult({.result_id = 44, .execution_id = 5, .name = "n"}, "1")),
            "not_found");
  EXPECT_EQ(*store_->DeleteResults(5), 2);
  EXPECT_EQ(CodeOf(store_->Load(kept.ref)), "not_found");
  ExpectHealthy();
}

TEST_P(LifetimeContract, ObjectsOfARunAreFoundByTheirEndAndGoWithIt) {
  for (const std::int64_t id : {5, 50}) {
    TestRun run(id);
    Must(run.End());
  }
  const std::string large(2u << 20, 'x');
  const std::string tail = "execution=5/results/s/0/0/1.json";
  for (const std::string& key :
       {"noetl/env=dev/" + tail, "a/" + tail, tail, std::string("a/x" + tail),
        std::string("a/execution=50/results/s/0/0/1.json"), std::string("plain")}) {
    ASSERT_TRUE(store_->PutObject({.key = key, .bytes = key == tail ? large : "1"}).has_value());
  }
  using Keys = std::vector<std::string>;
  EXPECT_EQ(*store_->FindObjectKeys(tail, 10), (Keys{"a/" + tail, tail, "noetl/env=dev/" + tail}));
  EXPECT_EQ(*store_->FindObjectKeys(tail, 1), Keys{"a/" + tail});
  EXPECT_EQ(*store_->FindObjectKeys("execution=7/x", 10), Keys{});
  EXPECT_EQ(*store_->FindObjectKeys("", 10), Keys{});
  ASSERT_TRUE(store_->Purge(5).has_value());
  EXPECT_EQ(*store_->FindObjectKeys(tail, 10), Keys{});
  EXPECT_EQ(*store_->FindObject(tail), std::nullopt);
  EXPECT_TRUE(store_->FindObject("a/execution=50/results/s/0/0/1.json")->has_value());
  EXPECT_TRUE(store_->FindObject("a/x" + tail)->has_value());
  EXPECT_TRUE(store_->FindObject("plain")->has_value());
}

TEST_P(LifetimeContract, PublishedCopiesGo) {
  Reopen(/*outbox=*/true);
  TestRun run(5);
  Must(run.Next(4));
  std::vector<std::int64_t> ids;
  const std::vector<OutboxRow> claimed = *store_->ClaimOutbox(100, 50, 10);
  for (const OutboxRow& row : claimed) ids.push_back(row.outbox_id);
  ASSERT_EQ(ids.size(), 4u);
  ASSERT_TRUE(store_->MarkPublished(std::vector{ids[0], ids[1]}, 200).has_value());
  ASSERT_TRUE(store_->MarkPublished(std::vector{ids[2]}, 300).has_value());
  EXPECT_EQ(*store_->PurgeOutbox(200, 10), 0);
  EXPECT_EQ(*store_->PurgeOutbox(201, 1), 1);
  EXPECT_EQ(*store_->PurgeOutbox(201, 10), 1);
  EXPECT_EQ(*store_->PurgeOutbox(INT64_MAX, 10), 1);
  EXPECT_EQ(*store_->PurgeOutbox(INT64_MAX, 10), 0);
  // The one that is not published stays.
  EXPECT_EQ(store_->ClaimOutbox(1000, 50, 10)->at(0).outbox_id, ids[3]);
}

TEST_P(LifetimeContract, GaugesTellWhatWaits) {
  EXPECT_EQ(store_->Measure()->oldest_pending_us, 0);
  EXPECT_EQ(store_->Measure()->oldest_outbox_us, 0);
  Reopen(/*outbox=*/true);
  TestRun run(5);
  UnitRows unit = run.Next(2);
  CommandRow server = run.Command(50);
  server.server_run = true;
  server.created_at_us = 10;
  CommandRow claimed = run.Command(51);
  claimed.status = CommandStatus::kClaimed;
  claimed.created_at_us = 20;
  CommandRow waits = run.Command(52);
  waits.created_at_us = 30;
  CommandRow later = run.Command(53);
  later.created_at_us = 40;
  unit.commands = {server, claimed, waits, later};
  Must(unit);
  EXPECT_EQ(store_->Measure()->oldest_pending_us, 30);
  EXPECT_EQ(store_->Measure()->oldest_outbox_us, unit.events[0].event.ingest_us);
  EXPECT_EQ(store_->Measure()->writers_waiting, 0);
  EXPECT_EQ(store_->Measure()->connections_in_use, 0);
  UnitRows change;
  change.execution_id = 5;
  change.command_changes = {{.command_id = 52, .status = CommandStatus::kRunning}};
  Must(change);
  EXPECT_EQ(store_->Measure()->oldest_pending_us, 40);
  const std::vector<OutboxRow> copies = *store_->ClaimOutbox(1000, 50, 10);
  for (const OutboxRow& row : copies)
    ASSERT_TRUE(store_->MarkPublished(std::vector{row.outbox_id}, 1000).has_value());
  EXPECT_EQ(store_->Measure()->oldest_outbox_us, 0);
}

TEST_P(LifetimeContract, OfALongLogBeginningAndEndAreKept) {
  constexpr std::int64_t kPiece = 64 << 10;
  constexpr std::int64_t kPieces = 3 * 2 * kLogEndBytes / kPiece;  // three times what is kept
  TestRun run(5);
  Must(run.Next(1));
  const auto piece = [](std::int64_t at) {
    return LogChunk{.execution_id = 5,
                    .command_id = 7,
                    .step = "s",
                    .stream = "stdout",
                    .offset = at * kPiece,
                    .text = std::string(kPiece, static_cast<char>('a' + at % 26))};
  };
  for (std::int64_t from = 0; from < kPieces; from += 16) {
    UnitRows unit;
    unit.execution_id = 5;
    for (std::int64_t at = from; at < from + 16; ++at) unit.logs.push_back(piece(at));
    unit.logs.push_back(unit.logs.front());  // repeated
    if (from == 0) {
      LogChunk other = piece(100);  // another stream is another log
      other.stream = "stderr";
      unit.logs.push_back(other);
    }
    Must(unit);
  }
  UnitRows odd;
  odd.execution_id = 5;
  odd.logs = {piece(0)};
  odd.logs[0].command_id = 8;
  odd.logs[0].offset = INT64_MAX;  // workers may say anything
  Must(odd);
  Reopen();
  const std::vector<LogChunk> chunks = *store_->ReadLogs(5, 7, 0, 10'000);
  ASSERT_EQ(std::ssize(chunks), kPieces + 1);  // readers count them
  std::int64_t bytes = 0;
  std::int64_t gaps = 0;
  for (const LogChunk& chunk : chunks) {
    if (chunk.stream == "stderr") {
      EXPECT_EQ(chunk.text.size(), static_cast<std::size_t>(kPiece));
      continue;
    }
    const bool head = chunk.offset < kLogEndBytes;
    const bool tail = chunk.offset >= kPieces * kPiece - kLogEndBytes;
    if (head || tail) {
      EXPECT_EQ(chunk.text, piece(chunk.offset / kPiece).text);
    } else {
      EXPECT_EQ(chunk.text, chunk.offset == kLogEndBytes ? kLogGap : "");
    }
    bytes += std::ssize(chunk.text);
    gaps += chunk.text == kLogGap ? 1 : 0;
  }
  EXPECT_EQ(gaps, 1);
  EXPECT_EQ(bytes, 2 * kLogEndBytes + std::ssize(kLogGap));
}

INSTANTIATE_TEST_SUITE_P(Stores, LifetimeContract, testing::Values(kMemoryStore, kSqliteStore),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace noetl::store
