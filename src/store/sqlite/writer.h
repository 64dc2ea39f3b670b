// The one connection that writes.
//
// Holds a lock for each call, so that catalog and maintenance may come from other threads than
// commits. After an error of the disk it rolls back and goes on with the next call.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/rows.h"
#include "store/sqlite/checkpointer.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/objects.h"

namespace noetl::store {

// A larger body is a file of its own: the database stays small enough to copy and check.
inline constexpr std::size_t kObjectBytesMin = 1u << 20;

class Writer {
 public:
  // Opens or creates the file and brings it to the newest schema.
  static Result<std::unique_ptr<Writer>> Open(std::string path, std::string vfs,
                                              const ObjectFiles* objects,
                                              std::atomic<std::int64_t>* syncs, bool outbox);
  // Moves the whole log into the database, so that one file is left.
  ~Writer();

  std::vector<Status> Commit(std::span<const UnitRows* const> units);
  // One transaction around `work`, which answers for its success.
  Status Transaction(const std::function<Status(Connection&)>& work);
  // Adds an event of something that is no run. Inside of `work` only.
  Status Append(const EventRow& row);
  // Calls that wait for the lock.
  std::int64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  Writer(std::string path, std::string vfs, const ObjectFiles* objects,
         std::atomic<std::int64_t>* syncs, bool outbox);

  std::unique_lock<std::mutex> Lock();
  Status Connect();
  Status Ready();
  Status Begin();
  Status End();
  void Abandon(const Error& error);

  // All or nothing: stops at the first unit that is refused and gives its number, when it is known.
  struct Attempt {
    Status status;
    std::optional<std::size_t> refused;
  };
  Attempt CommitAll(std::span<const UnitRows* const> units, const std::vector<Status>& answers);
  Status CommitEach(std::span<const UnitRows* const> units, std::vector<Status>& answers);

  // Everything but the events, which are put aside: they are written many at a time.
  Status Apply(const UnitRows& unit);
  Status WriteEvents();
  Status Fence(const UnitRows& unit);
  Status Refused(const UnitRows& unit);
  Status InsertExecution(const UnitRows& unit);
  Status InsertLabels(const UnitRows& unit);
  Status UpdateExecution(const UnitRows& unit);
  Status InsertEvents(std::span<const EventRow* const> rows);
  Status InsertOutbox(std::span<const EventRow* const> rows);
  Status InsertCommands(const UnitRows& unit);
  Status ChangeCommands(const UnitRows& unit);
  Status InsertBodies(const UnitRows& unit);
  Status InsertLoopRows(const UnitRows& unit);
  Status ChangeTimers(const UnitRows& unit);
  Status ChangeMessages(const UnitRows& unit);
  Status PutSnapshot(const UnitRows& unit);
  Status InsertLogs(const UnitRows& unit);
  Status ShortenLog(const LogChunk& newest, std::int64_t until);
  Status Run(Query& query);

  const std::string path_;
  const std::string vfs_;
  const ObjectFiles* const objects_;
  std::atomic<std::int64_t>* const syncs_;
  const bool outbox_;

  std::mutex mutex_;
  std::atomic<std::int64_t> waiting_ = 0;
  std::unique_ptr<Connection> connection_;  // null when it could not roll back
  std::unique_ptr<Checkpointer> checkpointer_;
  std::vector<const EventRow*> events_;  // of the units applied, not yet written
  std::int64_t position_ = 0;            // of the newest event
  int log_frames_ = 0;                   // after the last commit
};

}  // namespace noetl::store
