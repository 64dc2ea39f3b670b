// Lists and counts of runs, single events and the catalog, against every implementation.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <thread>

#include "base/ids.h"
#include "base/random.h"
#include "base/testing.h"
#include "store/contract.h"

namespace noetl::store {
namespace {

using Ids = std::vector<std::int64_t>;

Ids IdsOf(const Result<std::vector<ExecutionRow>>& rows) {
  Ids ids;
  if (!rows) ADD_FAILURE() << rows.error().message;
  if (rows) {
    for (const ExecutionRow& row : *rows) ids.push_back(row.execution_id);
  }
  return ids;
}

UnitRows EndAs(TestRun& run, std::string status) {
  UnitRows unit = run.End();
  unit.execution.status = std::move(status);
  return unit;
}

TEST_P(StoreContract, ListsByLabelPathPartCatalogAndOffset) {
  for (std::int64_t id = 1; id <= 8; ++id) {
    TestRun run(id, id % 2 == 0 ? "Team/Even" : "team/odd");
    run.row().catalog_id = id <= 3 ? 70 : 71;
    run.row().labels = {"team=a"};
    if (id == 5) run.row().labels = {"team=b", "teams=c", "tier=", "x=1=2"};
    if (id == 6) run.row().labels = {"team=b", "team=c"};
    if (id == 7) run.row().labels.clear();
    Must(run.Next(1));
    run.row().labels = {"late=1"};  // only the first event brings labels
    Must(run.Next(1));
  }
  Reopen();
  const auto ids = [&](const ExecutionFilter& filter) { return IdsOf(store_->List(filter)); };
  EXPECT_EQ(ids({.label = "team=a"}), (Ids{8, 4, 3, 2, 1}));
  EXPECT_EQ(ids({.label = "team=b"}), (Ids{6, 5}));
  EXPECT_EQ(ids({.label = "team"}), (Ids{8, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(ids({.label = "team", .before_id = 6, .limit = 2}), (Ids{5, 4}));
  EXPECT_EQ(ids({.label = "tea"}), Ids{});
  EXPECT_EQ(ids({.label = "tier"}), Ids{5});
  EXPECT_EQ(ids({.label = "tier="}), Ids{5});
  EXPECT_EQ(ids({.label = "x=1=2"}), Ids{5});
  EXPECT_EQ(ids({.label = "x=1"}), Ids{});
  EXPECT_EQ(ids({.label = "late"}), Ids{});
  EXPECT_EQ(ids({.path = "team/odd", .label = "team=a"}), (Ids{3, 1}));
  EXPECT_EQ(ids({.path_part = "EVEN"}), (Ids{8, 6, 4, 2}));
  EXPECT_EQ(ids({.path_part = "m/"}), (Ids{8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(ids({.path_part = "m/", .before_id = 7, .offset = 1, .limit = 2}), (Ids{5, 4}));
  EXPECT_EQ(ids({.path_part = "%"}), Ids{});
  EXPECT_EQ(ids({.path = "team/*", .path_part = "odd"}), (Ids{7, 5, 3, 1}));
  EXPECT_EQ(ids({.path = "team/odd", .path_part = "even"}), Ids{});
  EXPECT_EQ(ids({.catalog_id = 70}), (Ids{3, 2, 1}));
  EXPECT_EQ(ids({.path_part = "odd", .catalog_id = 71}), (Ids{7, 5}));
  EXPECT_EQ(ids({.offset = 3, .limit = 2}), (Ids{5, 4}));
  EXPECT_EQ(ids({.offset = 7}), Ids{1});
  EXPECT_EQ(ids({.offset = 8}), Ids{});
  EXPECT_EQ(ids({.limit = 0}), Ids{});
  EXPECT_EQ(ids({.limit = std::numeric_limits<std::int64_t>::max()}).size(), 8u);
  EXPECT_EQ(store_->List({.label = "team=b", .limit = 1})->at(0), **store_->Find(6));
  EXPECT_TRUE((*store_->Find(6))->labels.empty());
}

TEST_P(StoreContract, ALabelWithAZeroByteIsRefused) {
  TestRun run(5);
  run.row().labels = {std::string("a=\0", 3)};
  EXPECT_EQ(CodeOf(CommitOne(*store_, run.Next(1))), "bad_row");
}

TEST_P(StoreContract, CountsByStatusAndTime) {
  EXPECT_EQ(store_->Count(0)->completed, 0);
  for (std::int64_t id = 1; id <= 10; ++id) {
    TestRun run(id);
    run.row().started_at_us = 1000 * id;
    Must(run.Next(1));
    if (id > 3) Must(EndAs(run, id > 8 ? "CANCELLED" : id == 8 ? "FAILED" : "COMPLETED"));
  }
  const auto counts = [&](std::int64_t time_us) {
    const ExecutionCounts found = *store_->Count(time_us);
    return Ids{found.running, found.completed, found.failed, found.cancelled};
  };
  EXPECT_EQ(counts(0), (Ids{3, 4, 1, 2}));
  EXPECT_EQ(counts(1000), (Ids{3, 4, 1, 2}));
  EXPECT_EQ(counts(3000), (Ids{1, 4, 1, 2}));
  EXPECT_EQ(counts(3001), (Ids{0, 4, 1, 2}));
  EXPECT_EQ(counts(9000), (Ids{0, 0, 0, 2}));
  EXPECT_EQ(counts(20'000), (Ids{0, 0, 0, 0}));
}

// The same runs and the same questions for two implementations that share no code: the answers must
// be the same whatever index a question goes by. Ids tell the start of most runs, not of all.
TEST(StoreLists, ImplementationsAgreeOnEveryFilter) {
  constexpr std::int64_t kNowMs = kIdEpochMs + 1'000'000'000;
  constexpr int kRuns = 300;
  constexpr int kQuestions = 3000;
  TemporaryDirectory directory;
  const std::unique_ptr<Store> first = kMemoryStore.open("", false);
  const std::unique_ptr<Store> second = kSqliteStore.open(directory.path(), false);
  SeededRandom random(7);
  const auto pick = [&](const auto& from) { return from[random.Below(std::size(from))]; };
  const std::vector<std::string> paths = {"a", "a/b", "a/c", "A/C/d", "b", ""};
  const std::vector<std::string> statuses = {"COMPLETED", "COMPLETED", "FAILED", "CANCELLED"};
  const std::vector<std::string> labels = {"k=1", "k=2", "k=", "kk=1", "j=1"};
  std::vector<UnitRows> all;
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> starts;
  for (int i = 0; i < kRuns; ++i) {
    const std::int64_t start_us =
        kNowMs * 1000 + static_cast<std::int64_t>(random.Below(60'000'000));
    const std::int64_t made_ms =
        start_us / 1000 + static_cast<std::int64_t>(random.Below(5000)) - 2500;
    const bool given = random.Below(5) == 0;
    const std::int64_t id =
        given ? i + 1
              : ((made_ms - kIdEpochMs) << 22) + static_cast<std::int64_t>(random.Below(4096));
    TestRun run(id, pick(paths));
    run.row().started_at_us = random.Below(30) == 0 ? 0 : start_us;
    run.row().version = static_cast<std::int64_t>(random.Below(4));
    run.row().catalog_id = 70 + static_cast<std::int64_t>(random.Below(3));
    if (!ids.empty() && random.Below(4) == 0) run.row().parent_execution_id = pick(ids);
    for (std::uint64_t n = random.Below(3); n > 0; --n) run.row().labels.push_back(pick(labels));
    std::vector<UnitRows> units = {run.Start()};
    engine::Event event = run.MakeEvent(engine::EventType::kStepEnter);
    event.event_id = 2 * i + 1;
    run.Add(units[0], event);
    if (random.Below(3) != 0) {
      units.push_back(run.Start());
      event = run.MakeEvent(engine::EventType::kPlaybookCompleted);
      event.event_id = 2 * i + 2;
      run.Add(units[1], event);
      units[1].execution.status = pick(statuses);
    }
    std::move(units.begin(), units.end(), std::back_inserter(all));
    ids.push_back(id);
    starts.push_back(start_us);
  }
  for (Store* store : {first.get(), second.get()}) {
    for (const Status& status : CommitAll(*store, all)) ASSERT_TRUE(status.has_value());
  }
  const auto some = [&] { return random.Below(3) == 0; };
  for (int i = 0; i < kQuestions; ++i) {
    ExecutionFilter filter;
    if (some()) filter.status = random.Below(3) == 0 ? "RUNNING" : pick(statuses);
    if (some())
      filter.path = std::vector<std::string>{"a", "a/*", "*", "a*", "b", "x"}[random.Below(6)];
    if (some()) filter.path_part = std::vector<std::string>{"a", "C", "/", "zz"}[random.Below(4)];
    if (some())
      filter.label = std::vector<std::string>{"k", "k=1", "k=", "kk", "j=1", "z"}[random.Below(6)];
    if (some()) filter.catalog_id = 70 + static_cast<std::int64_t>(random.Below(4));
    if (some()) filter.version = static_cast<std::int64_t>(random.Below(4));
    if (random.Below(8) == 0) filter.parent_execution_id = pick(ids);
    if (some()) filter.started_after_us = pick(starts);
    if (some()) filter.started_before_us = pick(starts);
    if (some()) filter.before_id = pick(ids);
    if (some()) filter.offset = static_cast<std::int64_t>(random.Below(5));
    filter.limit = static_cast<std::int64_t>(random.Below(20));
    const auto expected = first->List(filter);
    const auto found = second->List(filter);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    ASSERT_EQ(IdsOf(found), IdsOf(expected)) << "question " << i;
    ASSERT_EQ(*found, *expected);
    const std::int64_t time_us = pick(starts) + static_cast<std::int64_t>(random.Below(3)) - 1;
    const ExecutionCounts a = *first->Count(time_us);
    const ExecutionCounts b = *second->Count(time_us);
    ASSERT_EQ((Ids{a.running, a.completed, a.failed, a.cancelled}),
              (Ids{b.running, b.completed, b.failed, b.cancelled}));
  }
}

TEST_P(StoreContract, FindsAnEventWithoutItsRun) {
  TestRun run(5);
  TestRun other(6);
  Must(run.Next(2));
  UnitRows unit = other.Start();
  engine::Event twin = other.MakeEvent(engine::EventType::kStepEnter);
  twin.event_id = 500002;
  other.Add(unit, twin);
  Must(unit);
  EXPECT_EQ((*store_->FindEvent(500001))->seq, 1);
  EXPECT_EQ((*store_->FindEvent(500002))->execution_id, 5);  // the first
  EXPECT_EQ((*store_->FindEvent(6, 500002))->execution_id, 6);
  EXPECT_EQ(*store_->FindEvent(1), std::nullopt);
  Must(run.End());
  ASSERT_TRUE(store_->Purge(5).has_value());
  EXPECT_EQ((*store_->FindEvent(500002))->execution_id, 6);
  EXPECT_EQ(*store_->FindEvent(500001), std::nullopt);
}

TEST_P(StoreContract, ReadsTheNewestEventsOfAType) {
  TestRun run(5);
  Must(run.Next(4));
  Must(run.Next(2, engine::EventType::kCallDone));
  Must(run.Next(1));
  const auto seqs = [&](std::int64_t before, std::string_view type, std::int64_t limit) {
    Ids found;
    const auto events = store_->ReadNewest(5, before, type, limit);
    for (const engine::Event& event : *events) found.push_back(event.seq);
    return found;
  };
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(seqs(kEnd, "", 3), (Ids{7, 6, 5}));
  EXPECT_EQ(seqs(5, "", 10), (Ids{4, 3, 2, 1}));
  EXPECT_EQ(seqs(kEnd, "call.done", 10), (Ids{6, 5}));
  EXPECT_EQ(seqs(6, "call.done", 10), Ids{5});
  EXPECT_EQ(seqs(kEnd, "step.enter", 2), (Ids{7, 4}));
  EXPECT_EQ(seqs(kEnd, "other", 2), Ids{});
  EXPECT_EQ(seqs(1, "", 2), Ids{});
  EXPECT_EQ(seqs(kEnd, "", 0), Ids{});
  EXPECT_TRUE(store_->ReadNewest(6, kEnd, "", 10)->empty());
  EXPECT_EQ(store_->ReadNewest(5, 2, "", 1)->at(0), store_->ReadEvents(5, 0, 1)->at(0));
}

// ---- the catalog

class CatalogContract : public StoreContract {
 protected:
  CatalogEntry Put(std::int64_t id, std::string path, std::string content,
                   std::string kind = "playbook") {
    return *store_->Register({.catalog_id = id,
                              .path = std::move(path),
                              .kind = std::move(kind),
                              .content = std::move(content),
                              .created_at_us = 5});
  }
  Ids Listed(const CatalogFilter& filter) {
    Ids ids;
    const auto entries = store_->ListCatalog(filter);
    for (const CatalogEntry& entry : *entries) ids.push_back(entry.catalog_id);
    return ids;
  }
  // A run of the entry, so that it cannot be removed.
  void Run(std::int64_t execution_id, const CatalogEntry& entry) {
    TestRun run(execution_id, entry.path);
    run.row().catalog_id = entry.catalog_id;
    run.row().version = entry.version;
    Must(run.Next(1));
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, CatalogContract, testing::Values(kMemoryStore, kSqliteStore),
                         [](const auto& info) { return info.param.name; });

TEST_P(CatalogContract, ListsNewestFirstByFilter) {
  Put(1, "team/a", "1");
  Put(2, "team/b", "1");
  Put(3, "team/a", "2");
  Put(4, "other", "1", "credential");
  Put(5, "team/a", "3");
  EXPECT_EQ(Listed({}), (Ids{5, 4, 3, 2, 1}));
  EXPECT_EQ(Listed({.limit = 2}), (Ids{5, 4}));
  EXPECT_EQ(Listed({.before_id = 4, .limit = 2}), (Ids{3, 2}));
  EXPECT_EQ(Listed({.kind = "credential"}), Ids{4});
  EXPECT_EQ(Listed({.path_prefix = "team/"}), (Ids{5, 3, 2, 1}));
  EXPECT_EQ(Listed({.path_prefix = "Team/"}), Ids{});
  EXPECT_EQ(Listed({.path = "team/a"}), (Ids{5, 3, 1}));
  EXPECT_EQ(Listed({.path = "team"}), Ids{});
  EXPECT_EQ(Listed({.latest_only = true}), (Ids{5, 4, 2}));
  EXPECT_EQ(Listed({.path = "team/a", .latest_only = true}), Ids{5});
  EXPECT_EQ(store_->ListCatalog({.limit = 1})->at(0), **store_->FindEntry(5));
  CatalogEntry bare = **store_->FindEntry(5);
  bare.content.clear();
  EXPECT_EQ(store_->ListCatalog({.include_content = false, .limit = 1})->at(0), bare);
}

TEST_P(CatalogContract, EntriesWithoutRunsAreRemoved) {
  Put(1, "a", "1");
  const CatalogEntry second = Put(2, "a", "2");
  Put(3, "b", "1");
  CatalogRemoval removal = *store_->RemoveEntries("a", 1, 50);
  EXPECT_FALSE(removal.archived);
  ASSERT_EQ(removal.entries.size(), 1u);
  EXPECT_EQ(removal.entries[0].catalog_id, 1);
  EXPECT_EQ(removal.entries[0].content, "");
  EXPECT_EQ(*store_->FindEntry(1), std::nullopt);
  EXPECT_EQ(*store_->FindEntry("a", 0), std::optional(second));
  EXPECT_TRUE(store_->RemoveEntries("a", 1, 50)->entries.empty());
  EXPECT_TRUE(store_->RemoveEntries("c", 0, 50)->entries.empty());
  removal = *store_->RemoveEntries("a", 0, 50);
  EXPECT_EQ(removal.entries.size(), 1u);
  EXPECT_TRUE(store_->RestoreEntries("a", 0)->empty());
  EXPECT_EQ(Listed({.include_archived = true}), Ids{3});
}

TEST_P(CatalogContract, EntriesWithRunsAreHiddenAndComeBack) {
  const CatalogEntry first = Put(1, "a", "1");
  const CatalogEntry second = Put(2, "a", "2");
  Put(3, "b", "1");
  Run(100, first);
  const CatalogRemoval removal = *store_->RemoveEntries("a", 0, 50);
  EXPECT_TRUE(removal.archived);
  ASSERT_EQ(removal.entries.size(), 2u);
  EXPECT_EQ(removal.entries[1].catalog_id, 2);
  EXPECT_EQ(removal.entries[1].archived_at_us, 50);
  EXPECT_EQ(removal.entries[1].content, "");
  Reopen();
  EXPECT_EQ(*store_->FindEntry("a", 0), std::nullopt);
  EXPECT_EQ(*store_->FindEntry("a", 1), std::nullopt);
  EXPECT_EQ(store_->ListEntries("", 10)->size(), 1u);
  EXPECT_EQ(Listed({}), Ids{3});
  EXPECT_EQ(Listed({.include_archived = true}), (Ids{3, 2, 1}));
  EXPECT_EQ(Listed({.latest_only = true, .include_archived = true}), (Ids{3, 2}));
  CatalogEntry archived = first;
  archived.archived_at_us = 50;
  EXPECT_EQ(*store_->FindEntry(1), std::optional(archived));
  EXPECT_TRUE(store_->RemoveEntries("a", 0, 60)->entries.empty());

  // The numbers go on, also for content that is archived.
  const CatalogEntry third = Put(4, "a", "2");
  EXPECT_EQ(third.version, 3);
  EXPECT_EQ(third.catalog_id, 4);
  EXPECT_EQ(Put(5, "a", "2"), third);
  EXPECT_EQ(*store_->RestoreEntries("a", 2), std::vector{second});
  EXPECT_EQ(*store_->FindEntry("a", 2), std::optional(second));
  EXPECT_EQ(*store_->FindEntry("a", 0), std::optional(third));
  EXPECT_TRUE(store_->RestoreEntries("a", 2)->empty());
  EXPECT_EQ(*store_->RestoreEntries("a", 0), std::vector{first});
  EXPECT_EQ(Listed({}), (Ids{4, 3, 2, 1}));
}

TEST_P(CatalogContract, RunsAreListedByTheirEntry) {
  const CatalogEntry first = Put(1, "a", "1");
  const CatalogEntry second = Put(2, "a", "2");
  Run(100, first);
  Run(101, second);
  Run(102, first);
  EXPECT_EQ(IdsOf(store_->List({.catalog_id = 1})), (Ids{102, 100}));
  EXPECT_EQ(IdsOf(store_->List({.catalog_id = 2})), Ids{101});
  EXPECT_EQ(IdsOf(store_->List({.catalog_id = 3})), Ids{});
  EXPECT_EQ(IdsOf(store_->List({.path = "a", .version = 2})), Ids{101});
}

TEST_P(CatalogContract, TheNewestThatIsVisibleCounts) {
  const CatalogEntry first = Put(1, "a", "1");
  const CatalogEntry second = Put(2, "a", "2");
  Run(100, second);
  EXPECT_TRUE(store_->RemoveEntries("a", 2, 50)->archived);
  EXPECT_EQ(*store_->FindEntry("a", 0), std::optional(first));
  EXPECT_EQ(store_->ListEntries("", 10)->at(0).version, 1);
  EXPECT_EQ(Put(3, "a", "1"), first);
  EXPECT_EQ(Put(4, "a", "2").version, 3);
}

TEST_P(CatalogContract, RegisteringAtOnceGivesEveryVersionOnce) {
  constexpr int kThreads = 4;
  constexpr int kEntries = 15;
  std::vector<std::thread> threads;
  std::vector<Ids> versions(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEntries; ++i) {
        const std::int64_t id = thread * 1000 + i + 1;
        const auto entry = store_->Register(
            {.catalog_id = id, .path = "a", .content = fmt::format("content {}", id)});
        versions[static_cast<std::size_t>(thread)].push_back(entry ? entry->version : -1);
        // The same for all: one of them makes it.
        if (!store_->Register({.catalog_id = id + 500, .path = "same", .content = "x"}))
          versions[static_cast<std::size_t>(thread)].push_back(-1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> all;
  for (const Ids& each : versions) {
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
    all.insert(each.begin(), each.end());
  }
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kThreads * kEntries));
  EXPECT_EQ(*all.begin(), 1);
  EXPECT_EQ(*all.rbegin(), kThreads * kEntries);
  EXPECT_EQ(store_->ListCatalog({.path = "same"})->size(), 1u);
}

}  // namespace
}  // namespace noetl::store
