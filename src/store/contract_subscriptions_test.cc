// Subscriptions and listeners, against every implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "store/contract.h"
#include "store/subscription.h"

namespace noetl::store {
namespace {

constexpr int kThreads = 4;

class SubscriptionContract : public StoreContract {
 protected:
  // A document in the catalog; gives its id.
  std::int64_t Document(std::string path, std::string content = "x", std::string listener = "") {
    const auto entry = store_->Register({.catalog_id = ++last_id_,
                                         .path = std::move(path),
                                         .kind = "subscription",
                                         .content = std::move(content),
                                         .created_at_us = 1,
                                         .listener = std::move(listener)});
    EXPECT_TRUE(entry.has_value()) << entry.error().message;
    return entry ? entry->catalog_id : 0;
  }
  Result<SubscriptionRow> Register(const std::string& path, std::int64_t catalog_id,
                                   std::int64_t now_us = 1000) {
    last_id_ += 2;
    return store_->RegisterSubscription(
        {.subscription_id = last_id_ - 1, .path = path, .catalog_id = catalog_id}, last_id_,
        now_us);
  }
  Result<SubscriptionRow> Act(std::int64_t id, std::string_view action,
                              std::int64_t now_us = 2000) {
    return store_->ActOnSubscription(id, action, ++last_id_, now_us);
  }
  // The log is without gaps, chained, and ends with what the row says.
  void ExpectLogOf(const SubscriptionRow& row) {
    const auto rows = store_->ReadRows(row.subscription_id, 0, 1000);
    ASSERT_TRUE(rows.has_value());
    ASSERT_EQ(std::ssize(*rows), row.head);
    Sha256Digest chain = ChainStart(row.subscription_id);
    std::int64_t before = 0;
    for (const EventRow& each : *rows) {
      chain = ChainNext(chain, each);
      EXPECT_EQ(chain, each.chain);
      EXPECT_EQ(each.event.prev_event_id, before);
      EXPECT_EQ(each.event.catalog_id, row.catalog_id);
      EXPECT_EQ(each.event.node_name, row.path);
      before = each.event.event_id;
    }
    EXPECT_EQ(rows->back().event.type_name, row.last_event_type);
    EXPECT_EQ(rows->back().event.status, row.state);
    EXPECT_EQ(rows->back().event.event_id, row.last_event_id);
    EXPECT_EQ(chain, row.chain);
  }

  std::int64_t last_id_ = 100;
};

TEST_P(SubscriptionContract, APathHasOneThatIsNotDeactivated) {
  const std::int64_t document = Document("subs/a");
  const SubscriptionRow first = *Register("subs/a", document);
  EXPECT_EQ(first.state, "REGISTERED");
  EXPECT_EQ(first.last_event_type, "subscription.registered");
  EXPECT_EQ(first.catalog_id, document);
  EXPECT_EQ(first.created_at_us, 1000);
  EXPECT_EQ(first.updated_at_us, 1000);
  EXPECT_EQ(first.head, 1);
  EXPECT_EQ(*Register("subs/a", document, 1500), first);
  const SubscriptionRow active = *Act(first.subscription_id, "activate");
  EXPECT_EQ(active.state, "ACTIVE");
  EXPECT_EQ(active.updated_at_us, 2000);
  EXPECT_EQ(active.created_at_us, 1000);
  Reopen();
  EXPECT_EQ(*Register("subs/a", document), active);
  EXPECT_EQ(*store_->FindSubscription(first.subscription_id), std::optional(active));
  EXPECT_EQ(*store_->FindSubscription(1), std::nullopt);
  ExpectLogOf(active);

  const SubscriptionRow other = *Register("subs/b", Document("subs/b"));
  EXPECT_NE(other.subscription_id, first.subscription_id);
  const SubscriptionRow gone = *Act(first.subscription_id, "deactivate");
  const SubscriptionRow second = *Register("subs/a", document);
  EXPECT_NE(second.subscription_id, first.subscription_id);
  EXPECT_EQ(second.state, "REGISTERED");
  // The first cannot come back while the second is there; it may be deactivated again.
  const auto refused = Act(first.subscription_id, "activate");
  EXPECT_EQ(CodeOf(refused), "invalid");
  EXPECT_NE(refused.error().message.find(std::to_string(second.subscription_id)),
            std::string::npos);
  EXPECT_EQ(*store_->FindSubscription(first.subscription_id), std::optional(gone));
  EXPECT_EQ(Act(first.subscription_id, "deactivate")->head, 4);
  ASSERT_TRUE(Act(second.subscription_id, "deactivate").has_value());
  EXPECT_EQ(Act(first.subscription_id, "activate")->state, "ACTIVE");
  EXPECT_EQ(Register("subs/a", document)->subscription_id, first.subscription_id);
  ExpectHealthy();
}

TEST_P(SubscriptionContract, ActionsFollowTheirTable) {
  // How each state is reached from REGISTERED.
  const std::vector<std::pair<std::string, std::vector<std::string>>> ways = {
      {"REGISTERED", {}},
      {"ACTIVE", {"activate"}},
      {"PAUSED", {"activate", "pause"}},
      {"DRAINING", {"activate", "drain"}},
      {"DEACTIVATED", {"deactivate"}}};
  // The states from which each action goes, and where to.
  const std::map<std::string, std::pair<std::set<std::string>, std::string>> wanted = {
      {"activate", {{"REGISTERED", "PAUSED", "DEACTIVATED", "ACTIVE"}, "ACTIVE"}},
      {"pause", {{"ACTIVE", "PAUSED"}, "PAUSED"}},
      {"resume", {{"PAUSED", "ACTIVE"}, "ACTIVE"}},
      {"drain", {{"ACTIVE", "PAUSED", "DRAINING"}, "DRAINING"}},
      {"deactivate",
       {{"REGISTERED", "ACTIVE", "PAUSED", "DRAINING", "DEACTIVATED"}, "DEACTIVATED"}}};
  ASSERT_EQ(SubscriptionActions().size(), wanted.size());
  for (const auto& [state, way] : ways) {
    for (const SubscriptionAction& action : SubscriptionActions()) {
      const std::string path = fmt::format("subs/{}/{}", state, action.name);
      SubscriptionRow row = *Register(path, Document(path));
      for (const std::string& step : way) row = *Act(row.subscription_id, step);
      ASSERT_EQ(row.state, state);
      const auto answer = Act(row.subscription_id, action.name);
      const auto& [from, to] = wanted.at(std::string(action.name));
      if (!from.contains(state)) {
        ASSERT_EQ(CodeOf(answer), "invalid") << path;
        EXPECT_NE(answer.error().message.find(state), std::string::npos) << answer.error().message;
        EXPECT_EQ(*store_->FindSubscription(row.subscription_id), std::optional(row));
        continue;
      }
      ASSERT_TRUE(answer.has_value()) << path << answer.error().message;
      EXPECT_EQ(answer->state, to);
      EXPECT_EQ(answer->last_event_type, action.event_type);
      EXPECT_EQ(answer->head, row.head + 1);  // also when the state stays
      ExpectLogOf(*answer);
    }
  }
  const std::int64_t id = store_->ListSubscriptions(0, 1)->at(0).subscription_id;
  EXPECT_EQ(CodeOf(Act(id, "dance")), "invalid");
  EXPECT_EQ(CodeOf(Act(id, "register")), "invalid");
  EXPECT_EQ(CodeOf(Act(1, "pause")), "not_found");
  ExpectHealthy();
}

TEST_P(SubscriptionContract, TheClockOfALogNeverGoesBack) {
  const SubscriptionRow row = *Register("subs/a", Document("subs/a"), 5000);
  EXPECT_EQ(Act(row.subscription_id, "activate", 4000)->updated_at_us, 5000);
}

TEST_P(SubscriptionContract, ManyWhoRegisterGetTheSame) {
  const std::int64_t document = Document("subs/a");
  std::vector<std::vector<std::int64_t>> got(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t i = 0; i < 5; ++i) {
        const std::int64_t id = 1000 + static_cast<std::int64_t>(thread) * 100 + i * 2;
        const auto row = store_->RegisterSubscription(
            {.subscription_id = id, .path = "subs/a", .catalog_id = document}, id + 1, 1000);
        if (row) got[thread].push_back(row->subscription_id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> all;
  for (const auto& ids : got) {
    EXPECT_EQ(ids.size(), 5u);
    all.insert(ids.begin(), ids.end());
  }
  EXPECT_EQ(all.size(), 1u);
  EXPECT_EQ(store_->ListSubscriptions(0, 100)->size(), 1u);
  EXPECT_EQ(store_->ReadEvents(*all.begin(), 0, 100)->size(), 1u);
}

TEST_P(SubscriptionContract, PagesAreNewestFirst) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 5; ++i) {
    const std::string path = fmt::format("subs/{}", i);
    ids.insert(ids.begin(), Register(path, Document(path))->subscription_id);
  }
  const auto page = [&](std::int64_t before, std::int64_t limit) {
    std::vector<std::int64_t> found;
    const std::vector<SubscriptionRow> rows = *store_->ListSubscriptions(before, limit);
    for (const SubscriptionRow& row : rows) found.push_back(row.subscription_id);
    return found;
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(page(0, 10), ids);
  EXPECT_EQ(page(0, 2), (Ids{ids[0], ids[1]}));
  EXPECT_EQ(page(ids[1], 2), (Ids{ids[2], ids[3]}));
  EXPECT_EQ(page(ids[4], 2), Ids{});
  EXPECT_EQ(page(0, 0), Ids{});
}

TEST_P(SubscriptionContract, RunsDoNotSeeSubscriptions) {
  TestRun run(5);
  Must(run.Next(2));
  Must(run.End());
  const SubscriptionRow row = *Register("subs/a", Document("subs/a"));
  ASSERT_TRUE(Act(row.subscription_id, "activate").has_value());
  EXPECT_EQ(*store_->Find(row.subscription_id), std::nullopt);
  EXPECT_EQ(store_->List({})->size(), 1u);
  EXPECT_TRUE(store_->Open(0, 10)->empty());
  EXPECT_EQ(store_->Count(0)->running, 0);
  EXPECT_EQ(store_->Count(0)->completed, 1);
  EXPECT_EQ(store_->Stats()->executions, 1);
  EXPECT_EQ(store_->Stats()->open_executions, 0);
  EXPECT_EQ(store_->Stats()->events, 3);
  EXPECT_EQ(CodeOf(store_->Purge(row.subscription_id)), "not_found");
  EXPECT_EQ(*store_->PurgeEnded(INT64_MAX, INT64_MAX / 2, 10), 1);
  EXPECT_EQ(store_->ReadEvents(row.subscription_id, 0, 10)->size(), 2u);
  EXPECT_EQ((*store_->FindEvent(row.last_event_id))->type_name, "subscription.registered");
  // Commits of runs go on after events that came between.
  TestRun next(6);
  Must(next.Next(40));
  Reopen();
  ASSERT_TRUE(Act(row.subscription_id, "pause").has_value());
  Must(next.End());
  ExpectLogOf(**store_->FindSubscription(row.subscription_id));
  ExpectHealthy();
}

TEST_P(SubscriptionContract, EventsAreCopiedToTheOutbox) {
  Reopen(/*outbox=*/true);
  const SubscriptionRow row = *Register("subs/a", Document("subs/a"));
  const auto rows = store_->ClaimOutbox(5000, 10, 10);
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->at(0).execution_id, row.subscription_id);
  EXPECT_EQ(rows->at(0).event_type, "subscription.registered");
  EXPECT_TRUE(store_->FindEvent(rows->at(0).execution_id, rows->at(0).event_id)->has_value());
}

TEST_P(SubscriptionContract, OnlyWhatTheCatalogShowsIsRegistered) {
  EXPECT_EQ(CodeOf(Register("subs/none", 12345)), "not_found");
  const std::int64_t used = Document("subs/a");
  ASSERT_TRUE(Register("subs/a", used).has_value());
  const std::int64_t unused = Document("subs/b");
  EXPECT_TRUE(store_->RemoveEntries("subs/a", 0, 50)->archived);  // a subscription refers to it
  EXPECT_FALSE(store_->RemoveEntries("subs/b", 0, 50)->archived);
  EXPECT_EQ(CodeOf(Register("subs/a", used)), "not_found");
  EXPECT_EQ(CodeOf(Register("subs/b", unused)), "not_found");
  EXPECT_EQ(store_->RestoreEntries("subs/a", 0)->size(), 1u);
  EXPECT_TRUE(Register("subs/a", used).has_value());
  EXPECT_EQ(CodeOf(store_->RegisterSubscription(
                {.subscription_id = 0, .path = "subs/c", .catalog_id = Document("subs/c")}, 1, 1)),
            "bad_row");
}

std::vector<std::string> PathsOf(const Result<std::vector<CatalogEntry>>& entries) {
  std::vector<std::string> paths;
  for (const CatalogEntry& entry : *entries) paths.push_back(entry.path);
  return paths;
}
using Paths = std::vector<std::string>;

TEST_P(SubscriptionContract, AListenerBelongsToOnePath) {
  Document("subs/a", "one", "stripe");
  Reopen();
  const auto found = store_->FindListener("stripe", 10);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->at(0).path, "subs/a");
  EXPECT_EQ(found->at(0).listener, "stripe");
  EXPECT_EQ(found->at(0).content, "one");
  EXPECT_EQ((*store_->FindEntry("subs/a", 0))->listener, "stripe");
  EXPECT_TRUE(store_->FindListener("other", 10)->empty());
  const auto refused = store_->Register({.catalog_id = 900,
                                         .path = "subs/b",
                                         .kind = "subscription",
                                         .content = "two",
                                         .listener = "stripe"});
  ASSERT_EQ(CodeOf(refused), "conflict");
  EXPECT_NE(refused.error().message.find("subs/a"), std::string::npos);
  EXPECT_EQ(*store_->FindEntry("subs/b", 0), std::nullopt);

  Document("subs/a", "newer", "stripe");  // its own is no obstacle
  EXPECT_EQ(store_->FindListener("stripe", 10)->at(0).version, 2);
  Document("subs/a", "newest", "paypal");  // an older version does not hold it
  EXPECT_TRUE(store_->FindListener("stripe", 10)->empty());
  Document("subs/b", "two", "stripe");
  EXPECT_EQ(PathsOf(store_->FindListener("stripe", 10)), Paths{"subs/b"});
  // Without its newest version the path has its former listener again.
  ASSERT_TRUE(store_->RemoveEntries("subs/a", 3, 50).has_value());
  EXPECT_EQ(PathsOf(store_->FindListener("stripe", 10)), (Paths{"subs/a", "subs/b"}));
  EXPECT_EQ(PathsOf(store_->FindListener("stripe", 1)), Paths{"subs/a"});
  ASSERT_TRUE(store_->RemoveEntries("subs/b", 0, 50).has_value());
  EXPECT_EQ(PathsOf(store_->FindListener("stripe", 10)), Paths{"subs/a"});
}

INSTANTIATE_TEST_SUITE_P(Stores, SubscriptionContract, testing::Values(kMemoryStore, kSqliteStore),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace noetl::store
