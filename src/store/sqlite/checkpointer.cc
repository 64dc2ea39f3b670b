#include "store/sqlite/checkpointer.h"

namespace noetl::store {

namespace {

// When to move: a log of 16 MiB is read back in some 30 ms after a crash.
constexpr std::int64_t kLogFramesBeforeMove = 4096;
// What the committing thread may be left with: about 4 MiB, some milliseconds.
constexpr std::int64_t kSmallRestFrames = 1024;
// Under full load each pass leaves less than the one before; more passes gain nothing.
constexpr int kPassesMax = 6;

// A log that grows faster than it is moved makes commits wait: 64 MiB.
constexpr std::int64_t kLogFramesMax = 4 * kLogFramesBeforeMove;

struct Moved {
  int code = SQLITE_OK;
  int log_frames = 0;
  int moved_frames = 0;
};

Moved Checkpoint(Connection& connection) {
  Moved moved;
  moved.code = sqlite3_wal_checkpoint_v2(connection.handle(), "main", SQLITE_CHECKPOINT_PASSIVE,
                                         &moved.log_frames, &moved.moved_frames);
  return moved;
}

}  // namespace

Checkpointer::~Checkpointer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Checkpointer::AfterCommit(Connection& connection, std::int64_t log_frames) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kAsked && log_frames >= kLogFramesMax) {
    moved_.wait(lock, [this] { return state_ == State::kMoved; });
  }
  if (state_ == State::kMoved) {
    state_ = State::kIdle;
    lock.unlock();
    // Moves the rest. When a reader needs the old log, the next round gets further.
    Checkpoint(connection);
  } else if (state_ == State::kIdle && log_frames >= kLogFramesBeforeMove) {
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
    state_ = State::kAsked;
    wake_.notify_one();
  }
}

void Checkpointer::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || state_ == State::kAsked; });
    if (stop_) break;
    lock.unlock();
    MoveBulk();
    lock.lock();
    state_ = State::kMoved;
    moved_.notify_one();
  }
  connection_.reset();
}

void Checkpointer::MoveBulk() {
  if (!connection_) {
    Result<std::unique_ptr<Connection>> opened =
        Connection::Open(path_, Connection::Mode::kWrite, vfs_);
    // Without a connection the committing thread moves everything itself.
    if (!opened || !(*opened)->Execute("PRAGMA wal_autocheckpoint = 0")) return;
    connection_ = std::move(*opened);
  }
  int before = 0;
  for (int pass = 0; pass < kPassesMax; ++pass) {
    const Moved moved = Checkpoint(*connection_);
    if (moved.code != SQLITE_OK) break;
    if (moved.moved_frames - before < kSmallRestFrames) break;
    before = moved.moved_frames;
  }
}

}  // namespace noetl::store
