#include "pg/pool.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/sha256.h"

namespace noetl::pg {
namespace {

// Signs of life and cleaning take a moment; a server that needs longer gets a new connection.
constexpr std::int64_t kStepMsMax = 5'000;

std::int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

Connection* Lease::operator->() const { return static_cast<Pool::Slot*>(slot_)->connection.get(); }

void Lease::Touch() { static_cast<Pool::Slot*>(slot_)->touched = true; }

void Lease::Return() {
  if (slot_ == nullptr) return;
  const std::shared_ptr<Pool> pool = std::move(pool_);
  pool->Return(static_cast<Pool::Slot*>(std::exchange(slot_, nullptr)));
}

Pool::Pool(EventLoop* loop, PoolOptions options) : loop_(loop), options_(std::move(options)) {}

Pool::~Pool() {
  for (auto& [id, waiter] : waiters_) loop_->CancelTimer(waiter.timer);
  for (const auto& slot : slots_) loop_->CancelTimer(slot->timer);
}

std::size_t Pool::Count(State state) const {
  return static_cast<std::size_t>(std::ranges::count(
      slots_, state, [](const std::unique_ptr<Slot>& slot) { return slot->state; }));
}

bool Pool::TooOld(const Slot& slot) const {
  return NowMs() - slot.born_ms >= options_.limits.lifetime_ms;
}

Pool::WaiterId Pool::Borrow(Borrowed borrowed) {
  const std::shared_ptr<Pool> self = shared_from_this();
  const WaiterId id = ++last_waiter_;
  waiters_.emplace(id, Waiter{.borrowed = std::move(borrowed)});
  Serve();
  const auto waiter = waiters_.find(id);
  if (waiter == waiters_.end()) return 0;
  // Those for whom a connection is being opened do not wait for others.
  if (waiters_.size() > options_.limits.waiting_max + Count(State::kOpening)) {
    Borrowed refused = std::move(waiter->second.borrowed);
    waiters_.erase(waiter);
    refused(std::unexpected(
        Failure{.kind = Failure::Kind::kBusy,
                .message = fmt::format("all {} connections are in use and {} commands wait already",
                                       slots_.size(), options_.limits.waiting_max)}));
    return 0;
  }
  waiter->second.timer = loop_->After(options_.limits.wait_ms * 1'000, [this, id] {
    const auto found = waiters_.find(id);
    Borrowed late = std::move(found->second.borrowed);
    waiters_.erase(found);
    late(std::unexpected(
        Failure{.kind = Failure::Kind::kTimeout,
                .message = fmt::format("no connection came free within {} ms; {} are in use",
                                       options_.limits.wait_ms, slots_.size())}));
  });
  return id;
}

void Pool::Forget(WaiterId waiter) {
  const auto found = waiters_.find(waiter);
  if (found == waiters_.end()) return;
  loop_->CancelTimer(found->second.timer);
  waiters_.erase(found);
}

void Pool::Serve() {
  while (Count(State::kChecking) < waiters_.size() && LendIdle()) {
  }
  const auto coming =
      static_cast<std::size_t>(std::ranges::count_if(slots_, [](const std::unique_ptr<Slot>& slot) {
        return slot->state != State::kLent && slot->state != State::kIdle;
      }));
  for (std::size_t wanted = coming;
       wanted < waiters_.size() && slots_.size() < options_.limits.size_max; ++wanted) {
    Open();
  }
}

// False when none is idle. One that must be asked for a sign of life counts as lent.
bool Pool::LendIdle() {
  const auto found = std::ranges::find(
      slots_, State::kIdle, [](const std::unique_ptr<Slot>& slot) { return slot->state; });
  if (found == slots_.end()) return false;
  Slot* const slot = found->get();
  if (TooOld(*slot) || !slot->connection->Alive()) {
    Drop(slot);
  } else if (NowMs() - slot->idle_since_ms > options_.limits.check_after_ms) {
    Check(slot);
  } else {
    Lend(slot);
  }
  return true;
}

void Pool::Lend(Slot* slot) {
  loop_->CancelTimer(std::exchange(slot->timer, 0));
  slot->connection->OnLost(nullptr);
  slot->state = State::kLent;
  slot->touched = false;
  const auto place =
      std::ranges::find(slots_, slot, [](const std::unique_ptr<Slot>& each) { return each.get(); });
  slots_.splice(slots_.begin(), slots_, place);
  auto waiter = waiters_.extract(waiters_.begin());
  loop_->CancelTimer(waiter.mapped().timer);
  waiter.mapped().borrowed(Lease(shared_from_this(), slot));
}

void Pool::Open() {
  Slot* const slot = slots_.emplace_back(std::make_unique<Slot>()).get();
  slot->born_ms = NowMs();
  slot->connection = std::make_unique<Connection>(loop_);
  slot->connection->Connect(
      options_.parameters, options_.limits.connect_ms,
      [this, slot](std::optional<Failure> failure) { Opened(slot, std::move(failure)); });
}

void Pool::Opened(Slot* slot, std::optional<Failure> failure) {
  const std::shared_ptr<Pool> self = shared_from_this();
  if (!failure) return Step(slot, options_.setup, [this, slot] { Rest(slot); });
  Drop(slot);
  // Others may still give back what they have; alone there is nothing to wait for.
  if (slots_.empty()) FailWaiters(*failure);
}

void Pool::FailWaiters(const Failure& failure) {
  auto waiters = std::exchange(waiters_, {});
  for (auto& [id, waiter] : waiters) loop_->CancelTimer(waiter.timer);
  for (auto& [id, waiter] : waiters) waiter.borrowed(std::unexpected(failure));
}

void Pool::Check(Slot* slot) {
  loop_->CancelTimer(std::exchange(slot->timer, 0));
  slot->connection->OnLost(nullptr);
  slot->state = State::kChecking;
  Step(slot, "SELECT 1", [this, slot] { Rest(slot); });
}

// Runs statements of the pool itself; a connection that fails them, or is slow, is dropped.
void Pool::Step(Slot* slot, std::string sql, std::move_only_function<void()> next) {
  if (sql.empty()) return next();
  slot->timer = loop_->After(kStepMsMax * 1'000, [this, slot] {
    const std::shared_ptr<Pool> self = shared_from_this();
    slot->timer = 0;
    Drop(slot);
    Serve();
  });
  Query query{.sql = std::move(sql)};
  query.on_done = [this, slot, next = std::move(next)](std::optional<Failure> failure) mutable {
    const std::shared_ptr<Pool> self = shared_from_this();
    loop_->CancelTimer(std::exchange(slot->timer, 0));
    if (!failure && !slot->connection->broken()) return next();
    const bool opening = slot->state == State::kOpening;
    Drop(slot);
    // A new session that cannot even be set up: others would fare no better.
    if (opening && slots_.empty() && failure) FailWaiters(*failure);
    Serve();
  };
  slot->connection->Send(std::move(query));
}

void Pool::Return(Slot* slot) {
  const std::shared_ptr<Pool> self = shared_from_this();
  Connection& connection = *slot->connection;
  if (connection.busy()) connection.Cancel();
  if (connection.busy() || connection.broken() || connection.cancelled() || TooOld(*slot) ||
      options_.limits.idle_ms == 0) {
    Drop(slot);
    return Serve();
  }
  slot->state = State::kCleaning;
  Clean(slot);
}

void Pool::Clean(Slot* slot) {
  if (slot->connection->in_transaction()) {
    return Step(slot, "ROLLBACK", [this, slot] { Clean(slot); });
  }
  if (!std::exchange(slot->touched, false)) return Rest(slot);
  slot->connection->note.clear();
  Step(slot, "DISCARD ALL",
       [this, slot] { Step(slot, options_.setup, [this, slot] { Rest(slot); }); });
}

// Ready for the next.
void Pool::Rest(Slot* slot) {
  const std::shared_ptr<Pool> self = shared_from_this();
  slot->state = State::kIdle;
  slot->idle_since_ms = NowMs();
  if (!waiters_.empty()) {
    if (slot->connection->Alive()) Lend(slot);
    else Drop(slot);
    return Serve();
  }
  slot->connection->OnLost([this, slot] { Drop(slot); });
  const PoolLimits& limits = options_.limits;
  const std::int64_t left_ms = slot->born_ms + limits.lifetime_ms - slot->idle_since_ms;
  slot->timer = loop_->After(std::min(limits.idle_ms, left_ms) * 1'000, [this, slot] {
    slot->timer = 0;
    Expire(slot);
  });
}

void Pool::Expire(Slot* slot) {
  if (TooOld(*slot) || slots_.size() > options_.limits.size_min) return Drop(slot);
  const std::int64_t left_ms = slot->born_ms + options_.limits.lifetime_ms - NowMs();
  slot->timer = loop_->After(left_ms * 1'000, [this, slot] {
    slot->timer = 0;
    Drop(slot);
  });
}

void Pool::Drop(Slot* slot) {
  loop_->CancelTimer(slot->timer);
  const auto place =
      std::ranges::find(slots_, slot, [](const std::unique_ptr<Slot>& each) { return each.get(); });
  const std::unique_ptr<Slot> dropped = std::move(*place);  // closed when the list is in order
  slots_.erase(place);
}

std::shared_ptr<Pool> Pools::Get(const std::string& name, PoolOptions options) {
  std::string key = fmt::format("{}:{}", name.size(), name);
  for (const auto& [keyword, value] : options.parameters) {
    key += fmt::format("{}:{}{}:{}", keyword.size(), keyword, value.size(), value);
  }
  key = Sha256Hex(key);
  if (const auto found = pools_.find(key); found != pools_.end()) {
    found->second->SetLimits(options.limits);
    return found->second;
  }
  // Those that have run empty are of no use but to hold a password.
  std::erase_if(pools_, [](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->size() == 0 &&
           entry.second->waiting() == 0;
  });
  auto pool = std::make_shared<Pool>(loop_, std::move(options));
  pools_.emplace(std::move(key), pool);
  return pool;
}

std::shared_ptr<Pool> Pools::Single(PoolOptions options) {
  options.limits.size_max = 1;
  options.limits.size_min = 0;
  options.limits.idle_ms = 0;
  return std::make_shared<Pool>(loop_, std::move(options));
}

}  // namespace noetl::pg
