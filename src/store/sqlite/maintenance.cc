#include "store/sqlite/maintenance.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "store/sqlite/sqlite_store.h"

namespace noetl::store {

namespace {

constexpr std::int64_t kSnapshotKeptUs = 3'600'000'000;  // after the end of a run: one hour
// Rows that one transaction removes: commits wait for no more than this.
constexpr std::int64_t kPurgeChunkRows = 2000;
// Pages that one step of a copy reads; between steps a copy holds no lock.
constexpr int kBackupStepPages = 1024;
// Findings of a check: the first ones tell what is wrong.
constexpr std::size_t kFindingsMax = 100;

// The newest position never comes back, even when its event is purged: readers that follow the log
// go by it.
constexpr const char* kKeepPosition = R"sql(
INSERT INTO store_number (name, value)
SELECT 'position', ifnull(max(position), 0) FROM event WHERE true
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value))sql";

// What belongs to a run; the execution itself goes last, so that a purge that was cut short is seen
// and taken up again.
constexpr std::array<const char*, 14> kParts = {{
    "DELETE FROM event WHERE position IN "
    "(SELECT position FROM event WHERE execution_id = ?1 ORDER BY stream_version DESC LIMIT ?2)",
    "DELETE FROM command WHERE command_id IN "
    "(SELECT command_id FROM command WHERE execution_id = ?1 LIMIT ?2)",
    "DELETE FROM result_store WHERE result_id IN "
    "(SELECT result_id FROM result_store "
    "WHERE execution_id = ?1 AND scope IS NOT 'permanent' LIMIT ?2)",
    "DELETE FROM loop_result WHERE (execution_id, step, run, iter_index) IN "
    "(SELECT execution_id, step, run, iter_index FROM loop_result WHERE execution_id = ?1 LIMIT "
    "?2)",
    "DELETE FROM step_log WHERE log_id IN "
    "(SELECT log_id FROM step_log WHERE execution_id = ?1 LIMIT ?2)",
    "DELETE FROM timer WHERE execution_id = ?1 AND ?2",
    "DELETE FROM message WHERE target_execution_id = ?1 AND ?2",
    "DELETE FROM projection_snapshot WHERE execution_id = ?1 AND ?2",
    "DELETE FROM transient WHERE execution_id = ?1 AND ?2",
    "DELETE FROM keychain WHERE execution_id = ?1 AND scope_type = 'local' AND ?2",
    "DELETE FROM request_key WHERE execution_id = ?1 AND ?2",
    "DELETE FROM outbox WHERE outbox_id IN "
    "(SELECT outbox_id FROM outbox WHERE execution_id = ?1 LIMIT ?2)",
    "DELETE FROM execution_label WHERE execution_id = ?1 AND ?2 AND label IN "
    "(SELECT j.value FROM execution e, json_each(e.labels) j WHERE e.execution_id = ?1)",
    "DELETE FROM execution WHERE execution_id = ?1 AND ?2",
}};

Result<std::int64_t> DeleteChunk(Connection& connection, const char* sql,
                                 std::int64_t execution_id) {
  NOETL_ASSIGN(Query query, connection.Get(sql));
  query.Int(1, execution_id).Int(2, kPurgeChunkRows);
  query.Run();
  NOETL_TRY(connection.Finished(query));
  return connection.Changes();
}

struct NamedFile {
  std::string key;
  std::string file;
};

// Objects under the name of a run. Their files go when their rows are gone for good, unless somebody
// has put the same again meanwhile.
Status PurgeObjects(Writer& writer, const ObjectFiles& objects, std::int64_t execution_id) {
  static constexpr const char* kDelete = R"sql(
DELETE FROM object_store WHERE object_key IN
(SELECT object_key FROM object_store INDEXED BY object_by_tail
 WHERE tail >= ?1 AND tail < ?2 LIMIT ?3)
RETURNING object_key, file)sql";
  static constexpr const char* kSame =
      "SELECT 1 FROM object_store WHERE object_key = ?1 AND file = ?2";
  const std::string first = fmt::format("execution={}/", execution_id);
  const std::string end = fmt::format("execution={}0", execution_id);  // '0' comes after '/'
  std::int64_t removed = kPurgeChunkRows;
  while (removed >= kPurgeChunkRows) {
    std::vector<NamedFile> left;
    NOETL_TRY(writer.Transaction([&](Connection& connection) -> Status {
      NOETL_ASSIGN(Query query, connection.Get(kDelete));
      query.Text(1, first).Text(2, end).Int(3, kPurgeChunkRows);
      while (query.Next()) left.push_back({query.GetString(0), query.GetString(1)});
      return connection.Finished(query);
    }));
    removed = std::ssize(left);
    std::erase_if(left, [](const NamedFile& each) { return each.file.empty(); });
    if (left.empty()) continue;
    NOETL_TRY(writer.Transaction([&](Connection& connection) -> Status {
      for (const NamedFile& each : left) {
        NOETL_ASSIGN(Query query, connection.Get(kSame));
        query.Text(1, each.key).Text(2, each.file);
        const bool same = query.Next();
        NOETL_TRY(connection.Finished(query));
        if (!same) objects.Remove(each.file);
      }
      return {};
    }));
  }
  return {};
}

// Files of results that outlive their run.
Result<std::set<std::string>> KeptFiles(Connection& connection, std::int64_t execution_id) {
  static constexpr const char* kSql = R"sql(
SELECT object_key FROM result_store INDEXED BY result_by_execution
WHERE execution_id = ?1 AND object_key IS NOT NULL)sql";
  std::set<std::string> files;
  NOETL_ASSIGN(Query query, connection.Get(kSql));
  query.Int(1, execution_id);
  while (query.Next()) files.insert(query.GetString(0));
  NOETL_TRY(connection.Finished(query));
  return files;
}

Status CheckPurgeable(Connection& connection, std::int64_t execution_id) {
  NOETL_ASSIGN(Query query,
               connection.Get("SELECT terminal FROM execution WHERE execution_id = ?1"));
  query.Int(1, execution_id);
  const bool found = query.Next();
  const bool ended = found && query.GetInt(0) != 0;
  NOETL_TRY(connection.Finished(query));
  if (!found) return Fail("not_found", fmt::format("no execution {}", execution_id));
  if (!ended) return Fail("open", fmt::format("execution {} has not ended", execution_id));
  return {};
}

Status Collect(Connection& connection, const char* sql, std::vector<std::string>& findings) {
  NOETL_ASSIGN(Query query, connection.Get(sql));
  while (findings.size() < kFindingsMax && query.Next()) {
    std::string finding = query.GetString(0);
    if (finding != "ok") findings.push_back(std::move(finding));
  }
  return connection.Finished(query);
}

Status CopyDatabase(Connection& source, const std::string& target) {
  // The copy is as private as the original, from its first byte.
  const int descriptor = open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return Fail("io", fmt::format("{}: {}", target, std::strerror(errno)));
  close(descriptor);
  NOETL_ASSIGN(std::unique_ptr<Connection> copy,
               Connection::Open(target, Connection::Mode::kWrite, ""));
  sqlite3_backup* backup = sqlite3_backup_init(copy->handle(), "main", source.handle(), "main");
  if (!backup) return copy->Failed(sqlite3_errcode(copy->handle()));
  int code = SQLITE_OK;
  while (code == SQLITE_OK) code = sqlite3_backup_step(backup, kBackupStepPages);
  sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE) return copy->Failed(code);
  // One plain file; a store that opens it turns the write-ahead log on again.
  return copy->Execute("PRAGMA journal_mode = DELETE");
}

}  // namespace

Status PurgeRun(Writer& writer, const ObjectFiles& objects, std::int64_t execution_id) {
  NOETL_TRY(writer.Transaction([&](Connection& connection) -> Status {
    NOETL_TRY(CheckPurgeable(connection, execution_id));
    NOETL_ASSIGN(Query query, connection.Get(kKeepPosition));
    query.Run();
    return connection.Finished(query);
  }));
  NOETL_TRY(PurgeObjects(writer, objects, execution_id));
  std::set<std::string> kept;
  for (const char* part : kParts) {
    std::int64_t removed = kPurgeChunkRows;
    while (removed >= kPurgeChunkRows) {
      NOETL_TRY(writer.Transaction([&](Connection& connection) -> Status {
        NOETL_ASSIGN(removed, DeleteChunk(connection, part, execution_id));
        return {};
      }));
    }
  }
  // Nothing can be put for a run that is gone: the files that are needed now are all there will be.
  NOETL_TRY(writer.Transaction([&](Connection& connection) -> Status {
    NOETL_ASSIGN(kept, KeptFiles(connection, execution_id));
    return {};
  }));
  objects.RemoveAll(execution_id, kept);
  return {};
}

Result<std::int64_t> PurgeEndedRuns(Writer& writer, ReadPool& pool, const ObjectFiles& objects,
                                    std::int64_t before_us, std::int64_t now_us,
                                    std::int64_t limit) {
  static constexpr const char* kEnded = R"sql(
SELECT execution_id FROM execution
WHERE terminal = 1 AND ended_at < ?1 ORDER BY ended_at LIMIT ?2)sql";
  static constexpr const char* kOldSnapshots = R"sql(
SELECT s.execution_id FROM projection_snapshot s JOIN execution e USING (execution_id)
WHERE e.terminal = 1 AND e.ended_at < ?1 LIMIT ?2)sql";
  static constexpr const char* kDrop = "DELETE FROM projection_snapshot WHERE execution_id = ?1";
  const auto ids = [&](const char* sql, std::int64_t time_us,
                       std::int64_t most) -> Result<std::vector<std::int64_t>> {
    std::vector<std::int64_t> found;
    NOETL_ASSIGN(ReadPool::Lease connection, pool.Take());
    NOETL_ASSIGN(Query query, connection->Get(sql));
    query.Int(1, time_us).Int(2, std::max<std::int64_t>(most, 0));
    while (query.Next()) found.push_back(query.GetInt(0));
    NOETL_TRY(connection->Finished(query));
    return found;
  };
  NOETL_ASSIGN(const std::vector<std::int64_t> ended, ids(kEnded, before_us, limit));
  for (const std::int64_t execution_id : ended) NOETL_TRY(PurgeRun(writer, objects, execution_id));
  NOETL_ASSIGN(const std::vector<std::int64_t> old,
               ids(kOldSnapshots, now_us - kSnapshotKeptUs, kPurgeChunkRows));
  if (old.empty()) return std::ssize(ended);
  NOETL_TRY(writer.Transaction([&](Connection& connection) -> Status {
    for (const std::int64_t execution_id : old) {
      NOETL_ASSIGN(Query query, connection.Get(kDrop));
      query.Int(1, execution_id).Run();
      NOETL_TRY(connection.Finished(query));
    }
    return {};
  }));
  return std::ssize(ended);
}

Status BackupStore(ReadPool& pool, const ObjectFiles& objects, const std::string& target) {
  const std::string target_objects = target + ".objects";
  for (const std::string& name : {target, target_objects}) {
    if (std::filesystem::exists(std::filesystem::symlink_status(name))) {
      return Fail("io", fmt::format("{}: exists already; name a file that does not", name));
    }
  }
  {
    NOETL_ASSIGN(ReadPool::Lease connection, pool.Take());
    if (const Status copied = CopyDatabase(*connection, target); !copied) {
      unlink(target.c_str());
      return copied;
    }
  }
  // After the database: every object that the copy refers to existed before it.
  std::error_code error;
  if (std::filesystem::exists(objects.root(), error)) {
    std::filesystem::copy(objects.root(), target_objects, std::filesystem::copy_options::recursive,
                          error);
    if (error) return Fail("io", fmt::format("{}: {}", target_objects, error.message()));
  }
  return {};
}

Result<std::vector<std::string>> CheckStore(ReadPool& pool) {
  static constexpr const char* kIntegrity = "PRAGMA quick_check(100)";
  static constexpr const char* kHeads = R"sql(
SELECT 'execution ' || x.execution_id || ': its head is ' || x.head ||
       ', its log ends with ' || ifnull(max(e.stream_version), 0)
FROM execution x LEFT JOIN event e USING (execution_id)
GROUP BY x.execution_id HAVING ifnull(max(e.stream_version), 0) <> x.head)sql";
  static constexpr const char* kGaps = R"sql(
SELECT 'execution ' || execution_id || ': ' || count(*) || ' events numbered ' ||
       min(stream_version) || ' to ' || max(stream_version)
FROM event GROUP BY execution_id
HAVING min(stream_version) <> 1 OR max(stream_version) <> count(*))sql";
  static constexpr const char* kChains = R"sql(
SELECT 'execution ' || x.execution_id || ': its chain is not that of its last event'
FROM execution x JOIN event e ON e.execution_id = x.execution_id AND e.stream_version = x.head
WHERE e.envelope_checksum <> x.chain)sql";
  static constexpr const char* kOrphans = R"sql(
SELECT DISTINCT 'execution ' || execution_id || ': has events but no row'
FROM event WHERE execution_id NOT IN (SELECT execution_id FROM execution)
             AND execution_id NOT IN (SELECT subscription_id FROM subscription))sql";
  static constexpr const char* kSubscriptions = R"sql(
SELECT 'subscription ' || s.subscription_id || ': its row is not that of its newest event'
FROM subscription s
LEFT JOIN event e ON e.execution_id = s.subscription_id AND e.stream_version = s.head
WHERE e.envelope_checksum IS NOT s.chain
   OR s.head <> (SELECT max(stream_version) FROM event
                 WHERE event.execution_id = s.subscription_id))sql";
  std::vector<std::string> findings;
  NOETL_ASSIGN(ReadPool::Lease connection, pool.Take());
  for (const char* sql : {kIntegrity, kHeads, kGaps, kChains, kOrphans, kSubscriptions}) {
    const Status status = Collect(*connection, sql, findings);
    // Damage can make the other questions fail; what was found says more.
    if (!status && findings.empty()) return std::unexpected(status.error());
  }
  return findings;
}

Result<StoreStats> StatsOf(ReadPool& pool) {
  StoreStats stats;
  NOETL_ASSIGN(ReadPool::Lease connection, pool.Take());
  NOETL_ASSIGN(stats.executions, connection->Number("SELECT count(*) FROM execution"));
  NOETL_ASSIGN(stats.open_executions,
               connection->Number("SELECT count(*) FROM execution WHERE terminal = 0"));
  // The heads are the number of events; counting the events would read all of them.
  NOETL_ASSIGN(stats.events, connection->Number("SELECT ifnull(sum(head), 0) FROM execution"));
  NOETL_ASSIGN(const std::int64_t pages, connection->Number("PRAGMA page_count"));
  NOETL_ASSIGN(const std::int64_t page_bytes, connection->Number("PRAGMA page_size"));
  stats.bytes = pages * page_bytes;
  NOETL_ASSIGN(stats.schema, connection->Number("PRAGMA user_version"));
  return stats;
}

}  // namespace noetl::store
