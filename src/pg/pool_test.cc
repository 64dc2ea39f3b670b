#include "pg/pool.h"

#include <gtest/gtest.h>

#include "pg/server_testing.h"

namespace noetl::pg {
namespace {

class PgPool : public ::testing::Test {
 protected:
  PoolOptions Options() const {
    return {.parameters = TestServer::Shared().parameters(),
            .limits = {.wait_ms = 60'000, .connect_ms = 60'000},  // for slow machines
            .setup = "SET DateStyle TO ISO"};
  }
  std::shared_ptr<Pool> Make(PoolLimits limits) {
    PoolOptions options = Options();
    limits.connect_ms = options.limits.connect_ms;
    options.limits = limits;
    return std::make_shared<Pool>(&loop_, std::move(options));
  }
  // Waits for the answer.
  std::expected<Lease, Failure> Borrow(Pool& pool) {
    std::expected<Lease, Failure> got = std::unexpected(Failure());
    pool.Borrow([&](std::expected<Lease, Failure> lease) {
      got = std::move(lease);
      loop_.Stop();
    });
    loop_.Run();
    return got;
  }
  std::string Ask(Lease& lease, std::string sql) {
    std::string out;
    Query query{.sql = std::move(sql)};
    query.on_result = [&](const ResultView& result) {
      if (result.kind() == ResultView::Kind::kRows && result.rows() > 0) out = result.Text(0, 0);
    };
    query.on_done = [&](std::optional<Failure> failure) {
      if (failure) out = failure->sqlstate;
      loop_.Stop();
    };
    lease->Send(std::move(query));
    loop_.Run();
    return out;
  }

  EventLoop loop_;
};

TEST_F(PgPool, SharesCleansAndReplaces) {
  const auto pool = Make({.size_max = 1});
  std::string backend;
  {
    Lease lease = *Borrow(*pool);
    backend = Ask(lease, "SELECT pg_backend_pid()");
    EXPECT_EQ(Ask(lease, "BEGIN; CREATE TABLE pool_never (a int)"), "");
    Ask(lease, "SET search_path TO nowhere; CREATE TEMP TABLE mine (a int)");
    lease->note = "x";
    lease.Touch();
  }
  {
    Lease lease = *Borrow(*pool);
    EXPECT_EQ(Ask(lease, "SELECT pg_backend_pid()"), backend);
    EXPECT_EQ(Ask(lease, "SHOW search_path"), "\"$user\", public");
    EXPECT_EQ(Ask(lease, "SELECT * FROM pool_never"), "42P01");
    EXPECT_EQ(Ask(lease, "SELECT * FROM mine"), "42P01");
    EXPECT_EQ(lease->note, "");
  }
  TestServer::Shared().Restart();
  {
    Lease lease = *Borrow(*pool);
    EXPECT_NE(Ask(lease, "SELECT pg_backend_pid()"), backend);
  }
  EXPECT_EQ(pool->size(), 1U);
}

TEST_F(PgPool, AnswersWhenFull) {
  const auto pool = Make({.size_max = 1});
  Lease first = *Borrow(*pool);
  pool->SetLimits({.size_max = 1, .waiting_max = 1, .wait_ms = 30});
  std::vector<Failure::Kind> kinds;
  const auto note = [&](std::expected<Lease, Failure> lease) {
    ASSERT_FALSE(lease.has_value());
    kinds.push_back(lease.error().kind);
    if (kinds.size() == 2) loop_.Stop();
  };
  EXPECT_NE(pool->Borrow(note), 0U);
  EXPECT_EQ(pool->Borrow(note), 0U);  // one too many
  EXPECT_EQ(kinds.size(), 1U);
  loop_.Run();
  EXPECT_EQ(kinds, (std::vector{Failure::Kind::kBusy, Failure::Kind::kTimeout}));
  const Pool::WaiterId waiter = pool->Borrow([](auto) { FAIL(); });
  pool->Forget(waiter);
  EXPECT_EQ(pool->waiting(), 0U);
  first.Return();
  pool->SetLimits({.size_max = 1});
  EXPECT_TRUE(Borrow(*pool).has_value());
}

TEST_F(PgPool, ServesWaitersInOrder) {
  const auto pool = Make({.size_max = 2});
  std::vector<int> order;
  std::vector<Lease> leases;
  for (int i = 0; i < 5; ++i) {
    pool->Borrow([&, i](std::expected<Lease, Failure> lease) {
      order.push_back(i);
      leases.push_back(*std::move(lease));
      if (leases.size() == 2) {
        loop_.Post([&] { const auto returned = std::exchange(leases, {}); });
      }
      if (order.size() == 5) loop_.Stop();
    });
  }
  loop_.Run();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool->size(), 2U);
}

TEST_F(PgPool, ClosesWhatIsBusyIdleOrOld) {
  TestServer& server = TestServer::Shared();
  const auto pool = Make({.size_min = 0, .idle_ms = 20});
  {
    Lease lease = *Borrow(*pool);
    lease->Send({.sql = "SELECT pg_sleep(600) /* pool_busy */", .on_done = [](auto) { FAIL(); }});
  }
  EXPECT_EQ(pool->size(), 0U);
  server.WaitFor(
      "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pool_busy%' AND pid <> "
      "pg_backend_pid()",
      "0");
  {
    const Lease lease = *Borrow(*pool);
  }
  EXPECT_EQ(pool->idle(), 1U);
  loop_.After(60'000, [&] { loop_.Stop(); });
  loop_.Run();
  EXPECT_EQ(pool->size(), 0U);

  const auto old = Make({.lifetime_ms = 0});
  {
    const Lease lease = *Borrow(*old);
  }
  EXPECT_EQ(old->size(), 0U);
}

TEST_F(PgPool, AsksIdleOnesForASignOfLife) {
  const auto pool = Make({.size_max = 1, .check_after_ms = -1});
  {
    const Lease lease = *Borrow(*pool);
  }
  EXPECT_EQ(pool->idle(), 1U);
  Lease lease = *Borrow(*pool);
  EXPECT_EQ(Ask(lease, "SELECT 7"), "7");
}

TEST_F(PgPool, TellsEverybodyWhenNobodyCanConnect) {
  PoolOptions options = Options();
  options.parameters.back().second = "wrong";
  const auto pool = std::make_shared<Pool>(&loop_, std::move(options));
  int failures = 0;
  for (int i = 0; i < 10; ++i) {
    pool->Borrow([&](std::expected<Lease, Failure> lease) {
      EXPECT_EQ(lease.error().sqlstate, "28P01");
      if (++failures == 10) loop_.Stop();
    });
  }
  loop_.Run();
  EXPECT_EQ(pool->waiting(), 0U);
}

TEST_F(PgPool, PoolsByPlaceAndName) {
  Pools pools(&loop_);
  const auto a = pools.Get("", Options());
  EXPECT_EQ(pools.Get("", Options()), a);
  EXPECT_NE(pools.Get("other", Options()), a);
  PoolOptions password = Options();
  password.parameters.back().second = "wrong";
  EXPECT_NE(pools.Get("", password), a);
  EXPECT_EQ(pools.size(), 2U);  // "other" was empty and nobody held it
  const auto single = pools.Single(Options());
  {
    const Lease lease = *Borrow(*single);
  }
  EXPECT_EQ(single->size(), 0U);
}

}  // namespace
}  // namespace noetl::pg
