// Connections to the same place, shared by those who need one for a while.
//
// `Borrow` hands out a lease: an idle connection, a new one while there are fewer than `size_max`,
// or the next that comes back. Who waits is bounded in number and in time, so a full pool answers
// with a failure and never hangs. The lease gives the connection back when it ends; then the pool
// cleans up: ROLLBACK when a transaction is open, DISCARD ALL when the lease says the session was
// touched. What is busy, broken, cancelled or too old is closed instead. An idle connection that
// the server closes is dropped at once; one that was idle for long is asked for a sign of life
// before it is lent.
//
// One thread, that of the loop, which must outlive pools and leases. A pool lives as long as its
// leases, at least.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/event_loop.h"
#include "pg/connection.h"

namespace noetl::pg {

struct PoolLimits {
  std::size_t size_min = 1;  // idle ones that stay beyond `idle_ms`
  std::size_t size_max = 6;
  std::size_t waiting_max = 50;
  std::int64_t wait_ms = 30'000;
  std::int64_t lifetime_ms = 3'600'000;
  std::int64_t idle_ms = 300'000;  // 0: nothing is kept
  std::int64_t connect_ms = 10'000;
  std::int64_t check_after_ms = 30'000;  // idle longer: a sign of life first
};

struct PoolOptions {
  Parameters parameters;
  PoolLimits limits;
  // Statements for each new session, and again after DISCARD ALL.
  std::string setup;
};

class Pool;

class Lease {
 public:
  Lease() = default;
  ~Lease() { Return(); }
  Lease(Lease&& other) noexcept
      : pool_(std::move(other.pool_)), slot_(std::exchange(other.slot_, nullptr)) {}
  Lease& operator=(Lease&& other) noexcept {
    Return();
    pool_ = std::move(other.pool_);
    slot_ = std::exchange(other.slot_, nullptr);
    return *this;
  }

  explicit operator bool() const { return slot_ != nullptr; }
  Connection* operator->() const;
  // The session holds what the next one must not see.
  void Touch();
  // Gives the connection back.
  void Return();

 private:
  friend class Pool;
  Lease(std::shared_ptr<Pool> pool, void* slot) : pool_(std::move(pool)), slot_(slot) {}

  std::shared_ptr<Pool> pool_;
  void* slot_ = nullptr;
};

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  using Borrowed = std::move_only_function<void(std::expected<Lease, Failure>)>;
  using WaiterId = std::uint64_t;

  Pool(EventLoop* loop, PoolOptions options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Answers once, perhaps before it returns (then 0). `Forget` takes the wish back.
  WaiterId Borrow(Borrowed borrowed);
  void Forget(WaiterId waiter);

  void SetLimits(const PoolLimits& limits) { options_.limits = limits; }
  std::size_t size() const { return slots_.size(); }
  std::size_t idle() const { return Count(State::kIdle); }
  std::size_t waiting() const { return waiters_.size(); }

 private:
  friend class Lease;
  enum class State : std::uint8_t { kOpening, kChecking, kIdle, kLent, kCleaning };
  struct Slot {
    std::unique_ptr<Connection> connection;
    State state = State::kOpening;
    std::int64_t born_ms = 0;
    std::int64_t idle_since_ms = 0;
    EventLoop::TimerId timer = 0;
    bool touched = false;
  };
  struct Waiter {
    Borrowed borrowed;
    EventLoop::TimerId timer = 0;
  };

  std::size_t Count(State state) const;
  void Serve();
  bool LendIdle();
  void Lend(Slot* slot);
  void Open();
  void Check(Slot* slot);
  void Step(Slot* slot, std::string sql, std::move_only_function<void()> next);
  void Opened(Slot* slot, std::optional<Failure> failure);
  void Return(Slot* slot);
  void Clean(Slot* slot);
  void Rest(Slot* slot);
  void Expire(Slot* slot);
  void Drop(Slot* slot);
  void FailWaiters(const Failure& failure);
  bool TooOld(const Slot& slot) const;

  EventLoop* loop_;
  PoolOptions options_;
  std::list<std::unique_ptr<Slot>> slots_;  // used last stands first
  std::map<WaiterId, Waiter> waiters_;      // in order of asking
  WaiterId last_waiter_ = 0;
};

// Pools by where they lead: the same parameters and name share one.
class Pools {
 public:
  explicit Pools(EventLoop* loop) : loop_(loop) {}

  // `name` keeps users of the same place apart. The newest limits count.
  std::shared_ptr<Pool> Get(const std::string& name, PoolOptions options);
  // One for a single borrower; its connection is closed afterwards.
  std::shared_ptr<Pool> Single(PoolOptions options);
  std::size_t size() const { return pools_.size(); }

 private:
  EventLoop* loop_;
  std::map<std::string, std::shared_ptr<Pool>> pools_;  // by a hash: passwords are no keys
};

}  // namespace noetl::pg
