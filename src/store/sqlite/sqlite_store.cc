#include "store/sqlite/sqlite_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "store/sqlite/maintenance.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

class SqliteStore final : public SqliteServer {
 public:
  SqliteStore(const std::string& path, const SqliteOptions& options, Connection::Mode read_mode)
      : SqliteServer(path, options, read_mode), reader_(&pool_, &objects_) {}

  Status OpenWriter(const SqliteOptions& options) {
    NOETL_ASSIGN(writer_,
                 Writer::Open(path_, options.vfs, &objects_, options.syncs, options.outbox));
    return {};
  }
  Status CheckReadable() {
    NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
    return CheckSchema(*connection);
  }

  std::vector<Status> Commit(std::span<const UnitRows* const> units) override {
    if (!writer_) return std::vector<Status>(units.size(), ReadOnly());
    return writer_->Commit(units);
  }
  Result<std::vector<engine::Event>> ReadEvents(std::int64_t execution_id, std::int64_t after_seq,
                                                std::int64_t limit) const override {
    return reader_.ReadEvents(execution_id, after_seq, limit);
  }
  Result<std::vector<EventRow>> ReadRows(std::int64_t execution_id, std::int64_t after_seq,
                                         std::int64_t limit) const override {
    return reader_.ReadRows(execution_id, after_seq, limit);
  }
  Result<std::optional<engine::Event>> FindEvent(std::int64_t execution_id,
                                                 std::int64_t event_id) const override {
    return reader_.FindEvent(execution_id, event_id);
  }
  Result<std::optional<engine::Event>> FindEvent(std::int64_t event_id) const override {
    return reader_.FindEvent(event_id);
  }
  Result<std::optional<engine::Event>> FindWorkerEvent(std::int64_t command_id,
                                                       std::string_view type_name) const override {
    return reader_.FindWorkerEvent(command_id, type_name);
  }
  Result<std::vector<engine::Event>> ReadNewest(std::int64_t execution_id, std::int64_t before_seq,
                                                std::string_view type_name,
                                                std::int64_t limit) const override {
    return reader_.ReadNewest(execution_id, before_seq, type_name, limit);
  }

  Result<std::optional<ExecutionRow>> Find(std::int64_t execution_id) const override {
    return reader_.Find(execution_id);
  }
  Result<std::vector<ExecutionRow>> List(const ExecutionFilter& filter) const override {
    return reader_.List(filter);
  }
  Result<std::vector<ExecutionRow>> Open(std::int64_t after_id, std::int64_t limit) const override {
    return reader_.Open(after_id, limit);
  }
  Result<ExecutionCounts> Count(std::int64_t started_after_us) const override {
    return reader_.Count(started_after_us);
  }

  Result<std::vector<CommandRow>> OpenCommands(std::int64_t after_id,
                                               std::int64_t limit) const override {
    return reader_.OpenCommands(after_id, limit);
  }
  Result<std::optional<CommandRow>> FindCommand(std::int64_t command_id) const override {
    return reader_.FindCommand(command_id);
  }
  Result<std::vector<CommandRow>> CommandsOf(std::int64_t execution_id, std::int64_t after_id,
                                             std::int64_t limit) const override {
    return reader_.CommandsOf(execution_id, after_id, limit);
  }
  Result<std::vector<TimerRow>> DueTimers(std::int64_t until_us,
                                          std::int64_t limit) const override {
    return reader_.DueTimers(until_us, limit);
  }
  Result<std::optional<std::int64_t>> NextDueUs(std::int64_t after_us) const override {
    return reader_.NextDueUs(after_us);
  }
  Result<std::vector<MessageRow>> Messages(std::int64_t after_id,
                                           std::int64_t limit) const override {
    return reader_.Messages(after_id, limit);
  }

  Result<Json> Load(std::string_view ref) const override { return reader_.Load(ref); }
  Result<std::vector<LoopRow>> LoopRows(std::int64_t execution_id, std::string_view step,
                                        std::int64_t run, std::int64_t from,
                                        std::int64_t limit) const override {
    return reader_.LoopRows(execution_id, step, run, from, limit);
  }
  Result<std::optional<SnapshotRow>> LoadSnapshot(std::int64_t execution_id) const override {
    return reader_.LoadSnapshot(execution_id);
  }

  Result<std::vector<LogChunk>> ReadLogs(std::int64_t execution_id, std::int64_t command_id,
                                         std::int64_t after, std::int64_t limit) const override {
    return reader_.ReadLogs(execution_id, command_id, after, limit);
  }

  Status Purge(std::int64_t execution_id) override {
    if (!writer_) return ReadOnly();
    return PurgeRun(*writer_, objects_, execution_id);
  }
  Result<std::int64_t> PurgeEnded(std::int64_t before_us, std::int64_t now_us,
                                  std::int64_t limit) override {
    if (!writer_) return ReadOnly();
    return PurgeEndedRuns(*writer_, pool_, objects_, before_us, now_us, limit);
  }
  Status Backup(const std::string& target) override { return BackupStore(pool_, objects_, target); }
  Result<std::vector<std::string>> Check() const override { return CheckStore(pool_); }
  Result<StoreStats> Stats() const override { return StatsOf(pool_); }

 private:
  const Reader reader_;
};

std::unexpected<Error> IoError(const std::string& path) {
  return Fail(errno == EROFS || errno == EACCES ? "read_only" : "io",
              fmt::format("{}: {}", path, std::strerror(errno)));
}

// The file exists with its mode before SQLite opens it: its log and its index take the mode over.
Status PrepareFile(const std::string& directory, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) {
    const std::filesystem::path parent = std::filesystem::path(directory).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, error);
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return IoError(directory);
  }
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return IoError(path);
  const bool done = fchmod(descriptor, 0600) == 0;
  close(descriptor);
  if (!done) return IoError(path);
  return {};
}

Result<std::unique_ptr<Store>> OpenForReading(const SqliteOptions& options,
                                              const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return IoError(path);
  auto store = std::make_unique<SqliteStore>(path, options, Connection::Mode::kRead);
  Status readable = store->CheckReadable();
  if (!readable && (readable.error().code == "io" || readable.error().code == "read_only")) {
    // A directory that cannot be written, and nobody writes: there is no log to look at.
    store = std::make_unique<SqliteStore>(path, options, Connection::Mode::kImmutable);
    readable = store->CheckReadable();
  }
  NOETL_TRY(readable);
  return store;
}

}  // namespace

Result<std::unique_ptr<Store>> OpenSqliteStore(SqliteOptions options) {
  const std::string path = options.directory + "/noetl.db";
  if (options.read_only) return OpenForReading(options, path);
  NOETL_TRY(PrepareFile(options.directory, path));
  auto store = std::make_unique<SqliteStore>(path, options, Connection::Mode::kRead);
  NOETL_TRY(store->OpenWriter(options));
  return store;
}

}  // namespace noetl::store
