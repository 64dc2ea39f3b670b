#include "store/sqlite/writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/sqlite/schema.h"
#include "store/unit_check.h"

namespace noetl::store {

namespace {

// Larger pages make fewer levels and fewer frames; below the size of one commit it matters little.
constexpr int kPageBytes = 4096;
// Holds the growing ends of all tables and indexes and one commit.
constexpr int kCacheKib = 16 * 1024;

constexpr const char* kBegin = "BEGIN IMMEDIATE";
constexpr const char* kCommit = "COMMIT";
constexpr const char* kRollback = "ROLLBACK";
constexpr const char* kSavepoint = "SAVEPOINT unit";
constexpr const char* kRelease = "RELEASE unit";
constexpr const char* kRollbackTo = "ROLLBACK TO unit";

// The unit is at fault, the others are not concerned.
bool IsOwnFault(const Error& error) {
  return error.code == "conflict" || error.code == "terminal" || error.code == "bad_row";
}

}  // namespace

Writer::Writer(std::string path, std::string vfs, const ObjectFiles* objects,
               std::atomic<std::int64_t>* syncs, bool outbox)
    : path_(std::move(path)),
      vfs_(std::move(vfs)),
      objects_(objects),
      syncs_(syncs),
      outbox_(outbox),
      checkpointer_(std::make_unique<Checkpointer>(path_, vfs_)) {}

Result<std::unique_ptr<Writer>> Writer::Open(std::string path, std::string vfs,
                                             const ObjectFiles* objects,
                                             std::atomic<std::int64_t>* syncs, bool outbox) {
  std::unique_ptr<Writer> writer(
      new Writer(std::move(path), std::move(vfs), objects, syncs, outbox));
  NOETL_TRY(writer->Connect());
  return writer;
}

Writer::~Writer() {
  checkpointer_.reset();
  if (!connection_) return;
  sqlite3_wal_checkpoint_v2(connection_->handle(), "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                            nullptr);
}

Status Writer::Connect() {
  NOETL_ASSIGN(std::unique_ptr<Connection> connection,
               Connection::Open(path_, Connection::Mode::kCreate, vfs_));
  NOETL_TRY(connection->Execute(fmt::format("PRAGMA page_size = {}", kPageBytes)));
  NOETL_ASSIGN(const std::string mode, connection->Word("PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return Fail("io", fmt::format("{}: the file system cannot hold a write-ahead log", path_));
  }
  NOETL_TRY(
      connection->Execute(fmt::format("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; "
                                      "PRAGMA foreign_keys = OFF; PRAGMA cache_size = -{}",
                                      kCacheKib)));
  NOETL_TRY(Migrate(*connection));
  NOETL_ASSIGN(position_,
               connection->Number("SELECT max(ifnull((SELECT max(position) FROM event), 0), ifnull("
                                  "(SELECT value FROM store_number WHERE name = 'position'), 0))"));
  sqlite3_wal_hook(
      connection->handle(),
      [](void* writer, sqlite3*, const char*, int frames) {
        static_cast<Writer*>(writer)->log_frames_ = frames;
        return SQLITE_OK;
      },
      this);
  connection_ = std::move(connection);
  return {};
}

std::unique_lock<std::mutex> Writer::Lock() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  lock.lock();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

Status Writer::Ready() {
  if (connection_) return {};
  return Connect();
}

Status Writer::Run(Query& query) {
  if (query.Run() == SQLITE_DONE) [[likely]]
    return {};
  return connection_->Failed(query.code());
}

Status Writer::Begin() {
  NOETL_ASSIGN(Query query, connection_->Get(kBegin));
  return Run(query);
}

Status Writer::End() {
  {
    NOETL_ASSIGN(Query query, connection_->Get(kCommit));
    log_frames_ = 0;
    NOETL_TRY(Run(query));
  }
  // With full synchronisation a commit that wrote something is one sync of the log.
  if (syncs_ && log_frames_ > 0) syncs_->fetch_add(1, std::memory_order_relaxed);
  checkpointer_->AfterCommit(*connection_, log_frames_);
  return {};
}

// The connection stays as it is when it can roll back: opening the file anew could bring a commit
// back whose sync failed, and the caller was told that nothing was stored.
void Writer::Abandon(const Error& error) {
  if (!connection_) return;
  if (connection_->InTransaction() && !connection_->Execute(kRollback)) connection_.reset();
  if (error.code == "corrupt") connection_.reset();
}

Status Writer::Transaction(const std::function<Status(Connection&)>& work) {
  const std::unique_lock lock = Lock();
  NOETL_TRY(Ready());
  const std::int64_t position = position_;
  Status status = Begin();
  if (status) status = work(*connection_);
  if (status) status = End();
  if (!status) {
    Abandon(status.error());
    position_ = position;
  }
  return status;
}

Status Writer::Append(const EventRow& row) {
  const EventRow* const rows[] = {&row};
  NOETL_TRY(InsertEvents(rows));
  return outbox_ ? InsertOutbox(rows) : Status();
}

std::vector<Status> Writer::Commit(std::span<const UnitRows* const> units) {
  const std::unique_lock lock = Lock();
  std::vector<Status> answers(units.size());
  for (std::size_t i = 0; i < units.size(); ++i) answers[i] = CheckUnit(*units[i]);
  const auto good = [](const Status& answer) { return answer.has_value(); };
  if (std::none_of(answers.begin(), answers.end(), good)) return answers;

  Status status = Ready();
  const std::int64_t position = position_;
  if (status) {
    const Attempt attempt = CommitAll(units, answers);
    status = attempt.status;
    if (!status) {
      const Error error = status.error();
      Abandon(error);
      position_ = position;
      // Once more with a savepoint a unit, which is slower: the bad unit fails alone.
      if (IsOwnFault(error)) {
        if (attempt.refused) answers[*attempt.refused] = status;
        status = std::any_of(answers.begin(), answers.end(), good) ? CommitEach(units, answers)
                                                                   : Status();
        if (!status) {
          Abandon(status.error());
          position_ = position;
        }
      }
    }
  }
  if (!status) {
    for (Status& answer : answers) {
      if (answer) answer = status;
    }
  }
  return answers;
}

Writer::Attempt Writer::CommitAll(std::span<const UnitRows* const> units,
                                  const std::vector<Status>& answers) {
  events_.clear();
  if (Status begun = Begin(); !begun) return {begun};
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!answers[i]) continue;
    if (Status applied = Apply(*units[i]); !applied) return {applied, i};
  }
  // Only the fence refuses events; whatever else is wrong with one shows when units go one by one.
  if (Status written = WriteEvents(); !written) return {written};
  return {End()};
}

Status Writer::CommitEach(std::span<const UnitRows* const> units, std::vector<Status>& answers) {
  NOETL_TRY(Begin());
  const auto control = [this](const char* sql) -> Status {
    NOETL_ASSIGN(Query query, connection_->Get(sql));
    return Run(query);
  };
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!answers[i]) continue;
    NOETL_TRY(control(kSavepoint));
    events_.clear();
    Status applied = Apply(*units[i]);
    if (applied) applied = WriteEvents();
    if (!applied) {
      if (!IsOwnFault(applied.error())) return applied;
      answers[i] = applied;
      NOETL_TRY(control(kRollbackTo));
    }
    NOETL_TRY(control(kRelease));
  }
  return End();
}

}  // namespace noetl::store
