#include "store/sqlite/read_pool.h"

#include <fmt/format.h>

namespace noetl::store {

namespace {

// More readers at once make connections of their own and close them: each keeps a cache.
constexpr std::size_t kIdleMax = 4;
// Index pages of one long log; pages of events are read once and not again.
constexpr int kCacheKib = 2048;

}  // namespace

Result<ReadPool::Lease> ReadPool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      ++in_use_;
      return Lease(this, std::move(connection));
    }
  }
  NOETL_ASSIGN(std::unique_ptr<Connection> connection, Connection::Open(path_, mode_, vfs_));
  NOETL_TRY(connection->Execute(
      fmt::format("PRAGMA query_only = ON; PRAGMA cache_size = -{}", kCacheKib)));
  const std::lock_guard lock(mutex_);
  ++in_use_;
  return Lease(this, std::move(connection));
}

void ReadPool::GiveBack(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  --in_use_;
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(connection));
}

ReadPool::Load ReadPool::load() const {
  const std::lock_guard lock(mutex_);
  return {.in_use = in_use_, .idle = std::ssize(idle_)};
}

}  // namespace noetl::store
