// Files are written and removed by whoever holds the writer, so that a file is never removed for
// one row while another row that needs it is being stored.
#include <fmt/format.h>

#include "store/reference.h"
#include "store/result_lifetime.h"
#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

// A reader that finds a file gone looks at its row again: it was replaced meanwhile.
constexpr int kReadAttemptsMax = 4;

std::string_view BytesOf(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

#define NOETL_RESULT_COLUMNS                                                       \
  "result_id, execution_id, name, scope, source_step, bytes, sha256, created_at, " \
  "expires_at"

ResultRow ReadResult(const Statement& query) {
  ResultRow row{.result_id = query.GetInt(0),
                .execution_id = query.GetInt(1),
                .name = query.GetString(2),
                .scope = query.GetString(3),
                .source_step = query.GetString(4),
                .ref = {},
                .bytes = query.GetInt(5),
                .sha256 = HexText(query.GetBytes(6)),
                .created_at_us = query.GetInt(7),
                .expires_at_us = query.GetInt(8)};
  row.ref = ResultReference(row.execution_id, row.name, row.result_id);
  return row;
}

constexpr const char* kFindResult = "SELECT " NOETL_RESULT_COLUMNS R"sql(
FROM result_store INDEXED BY result_put
WHERE execution_id = ?1 AND name = ?2 AND sha256 = ?3 AND put = 1)sql";

Result<std::optional<ResultRow>> FindPut(Connection& connection, const ResultRow& row,
                                         const Sha256Digest& digest) {
  NOETL_ASSIGN(Statement query, connection.Get(kFindResult));
  query.Int(1, row.execution_id).Text(2, row.name).Blob(3, digest);
  return AtMostOne(connection, query, ReadResult);
}

Status InsertPut(Connection& connection, const ResultRow& row, const Sha256Digest& digest,
                 std::string_view data, std::string_view file) {
  static constexpr const char* kSql = R"sql(
INSERT INTO result_store (result_id, execution_id, name, bytes, sha256, object_key, data, put,
                          scope, source_step, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, ?10, ?11))sql";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Int(1, row.result_id)
      .Int(2, row.execution_id)
      .Text(3, row.name)
      .Int(4, std::ssize(data))
      .Blob(5, digest)
      .SomeText(6, file)
      .SomeText(7, file.empty() ? data : std::string_view())
      .SomeText(8, row.scope)
      .SomeText(9, row.source_step)
      .SomeInt(10, row.created_at_us)
      .SomeInt(11, row.expires_at_us)
      .Run();
  return connection.Finished(query);
}

Status UpdateLifetime(Connection& connection, const ResultRow& row) {
  static constexpr const char* kSql =
      "UPDATE result_store SET scope = ?2, expires_at = ?3 WHERE result_id = ?1";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Int(1, row.result_id).SomeText(2, row.scope).SomeInt(3, row.expires_at_us).Run();
  return connection.Finished(query);
}

// A file that a removed row referred to.
struct LeftFile {
  std::int64_t execution_id = 0;
  std::string file;  // empty: the row had none
};

LeftFile ReadLeftFile(const Statement& query) {
  return {.execution_id = query.GetInt(0), .file = query.GetString(1)};
}

Result<bool> Exists(Connection& connection, const char* sql, std::int64_t id,
                    std::string_view text) {
  NOETL_ASSIGN(Statement query, connection.Get(sql));
  query.Int(1, id).Text(2, text);
  const bool found = query.Next();
  NOETL_TRY(connection.Finished(query));
  return found;
}

struct StoredObject {
  ObjectRow row;
  std::string file;
};

StoredObject ReadObject(const Statement& query) {
  return {.row = {.key = query.GetString(0),
                  .media_type = query.GetString(2),
                  .digest = HexText(query.GetBytes(1)),
                  .bytes = query.GetBytes(4),
                  .created_at_us = query.GetInt(5)},
          .file = query.GetString(3)};
}

constexpr const char* kFindObject = R"sql(
SELECT object_key, digest, media_type, file, bytes, created_at
FROM object_store WHERE object_key = ?1)sql";

Result<std::optional<StoredObject>> FindStored(Connection& connection, std::string_view key) {
  NOETL_ASSIGN(Statement query, connection.Get(kFindObject));
  query.Text(1, key);
  return AtMostOne(connection, query, ReadObject);
}

}  // namespace

Result<ResultRow> SqliteServer::PutResult(ResultRow row, std::string_view data) {
  if (row.name.empty() || row.result_id <= 0) return Fail("bad_row", "a result without name or id");
  const Sha256Digest digest = Sha256(data);
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(const bool has_run,
                 Exists(connection, "SELECT 1 FROM execution WHERE execution_id = ?1",
                        row.execution_id, ""));
    if (!has_run) return Fail("not_found", fmt::format("no execution {}", row.execution_id));
    NOETL_ASSIGN(std::optional<ResultRow> stored, FindPut(connection, row, digest));
    if (!stored) {
      std::string file;
      if (data.size() > kObjectBytesMin) {
        NOETL_ASSIGN(file, objects_.Put(row.execution_id, HexText(BytesOf(digest)), data));
      }
      NOETL_TRY(InsertPut(connection, row, digest, data, file));
      NOETL_ASSIGN(stored, FindPut(connection, row, digest));
    } else if (ExtendLifetime(*stored, row)) {
      NOETL_TRY(UpdateLifetime(connection, *stored));
    }
    if (stored) row = std::move(*stored);
    return {};
  }));
  return row;
}

Result<std::vector<ResultRow>> SqliteServer::ListResults(std::int64_t execution_id,
                                                         std::int64_t after_id,
                                                         std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_RESULT_COLUMNS R"sql(
FROM result_store INDEXED BY result_put
WHERE execution_id = ?1 AND put = 1 AND result_id > ?2 ORDER BY result_id LIMIT ?3)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, execution_id).Int(2, after_id).Int(3, Limit(limit));
  return All(*connection, query, ReadResult);
}

Result<std::optional<ResultRow>> SqliteServer::FindResult(std::int64_t execution_id,
                                                          std::int64_t result_id) const {
  static constexpr const char* kSql = "SELECT " NOETL_RESULT_COLUMNS R"sql(
FROM result_store WHERE result_id = ?1 AND execution_id = ?2 AND put = 1)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, result_id).Int(2, execution_id);
  return AtMostOne(*connection, query, ReadResult);
}

// `sql` removes rows and gives the run and the file of each.
Result<std::int64_t> SqliteServer::RemoveResults(const char* sql, const Bind& bind) {
  // Events of the same run may refer to the same file.
  static constexpr const char* kUsed = R"sql(
SELECT 1 FROM result_store INDEXED BY result_by_execution
WHERE execution_id = ?1 AND object_key = ?2)sql";
  std::vector<LeftFile> left;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement query, connection.Get(sql));
    bind(query);
    NOETL_ASSIGN(left, All(connection, query, ReadLeftFile));
    return {};
  }));
  const std::int64_t removed = std::ssize(left);
  std::erase_if(left, [](const LeftFile& each) { return each.file.empty(); });
  if (left.empty()) return removed;
  // Only when the rows are gone for good.
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    for (const LeftFile& each : left) {
      NOETL_ASSIGN(const bool used, Exists(connection, kUsed, each.execution_id, each.file));
      if (!used) objects_.Remove(each.file);
    }
    return {};
  }));
  return removed;
}

Result<std::int64_t> SqliteServer::DeleteResults(std::int64_t execution_id) {
  static constexpr const char* kSql = R"sql(
DELETE FROM result_store WHERE execution_id = ?1 AND put = 1
RETURNING execution_id, object_key)sql";
  return RemoveResults(kSql, [&](Statement& query) { query.Int(1, execution_id); });
}

Result<std::int64_t> SqliteServer::PurgeResults(std::int64_t now_us, std::int64_t limit) {
  static constexpr const char* kExpired = R"sql(
DELETE FROM result_store WHERE result_id IN
(SELECT result_id FROM result_store INDEXED BY result_expiry
 WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
RETURNING execution_id, object_key)sql";
  static constexpr const char* kOfSteps = R"sql(
DELETE FROM result_store WHERE result_id IN
(SELECT r.result_id FROM result_store r INDEXED BY result_of_step
 JOIN execution e ON e.execution_id = r.execution_id
 WHERE r.scope = 'step' AND e.terminal = 1 LIMIT ?1)
RETURNING execution_id, object_key)sql";
  NOETL_ASSIGN(const std::int64_t expired, RemoveResults(kExpired, [&](Statement& query) {
                 query.Int(1, now_us).Int(2, Limit(limit));
               }));
  if (expired >= limit) return expired;
  NOETL_ASSIGN(const std::int64_t of_steps, RemoveResults(kOfSteps, [&](Statement& query) {
                 query.Int(1, Limit(limit - expired));
               }));
  return expired + of_steps;
}

Result<ObjectRow> SqliteServer::PutObject(ObjectRow row) {
  static constexpr const char* kSql = R"sql(
INSERT OR REPLACE INTO object_store (object_key, digest, media_type, file, bytes, created_at, tail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7))sql";
  const Sha256Digest digest = Sha256(row.bytes);
  row.digest = HexText(BytesOf(digest));
  std::string former;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(std::optional<StoredObject> stored, FindStored(connection, row.key));
    if (stored) former = stored->file;
    std::string file;
    if (row.bytes.size() > kObjectBytesMin) {
      NOETL_ASSIGN(file, objects_.PutNamed(row.key, row.digest, row.bytes));
    }
    NOETL_ASSIGN(Statement query, connection.Get(kSql));
    query.Text(1, row.key)
        .Blob(2, digest)
        .SomeText(3, row.media_type)
        .SomeText(4, file)
        .SomeInt(6, row.created_at_us)
        .SomeText(7, ObjectTail(row.key));
    file.empty() ? query.Bytes(5, row.bytes) : query.Null(5);
    query.Run();
    return connection.Finished(query);
  }));
  row.bytes.clear();
  if (former.empty()) return row;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(std::optional<StoredObject> stored, FindStored(connection, row.key));
    if (!stored || stored->file != former) objects_.Remove(former);
    return {};
  }));
  return row;
}

Result<std::vector<std::string>> SqliteServer::FindObjectKeys(std::string_view tail,
                                                              std::int64_t limit) const {
  static constexpr const char* kSql = R"sql(
SELECT object_key FROM object_store INDEXED BY object_by_tail
WHERE tail = ?1 ORDER BY object_key LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, tail).Int(2, Limit(limit));
  return All(*connection, query, [](const Statement& row) { return row.GetString(0); });
}

Result<std::optional<ObjectRow>> SqliteServer::FindObject(std::string_view key) const {
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  Error last;
  for (int attempt = 0; attempt < kReadAttemptsMax; ++attempt) {
    NOETL_ASSIGN(std::optional<StoredObject> stored, FindStored(*connection, key));
    if (!stored) return std::nullopt;
    const bool in_file = !stored->file.empty();
    Result<std::string> bytes =
        in_file ? objects_.Read(stored->file) : Result<std::string>(std::move(stored->row.bytes));
    if (bytes && Sha256Hex(*bytes) != stored->row.digest) {
      const std::string place =
          in_file ? fmt::format("{}/{}", objects_.root(), stored->file) : path_;
      return Fail("corrupt",
                  fmt::format("{}: its content is not what was stored as '{}'", place, key));
    }
    if (bytes) {
      stored->row.bytes = std::move(*bytes);
      return std::move(stored->row);
    }
    last = bytes.error();
    if (last.code != "not_found") break;
  }
  return std::unexpected(last);
}

}  // namespace noetl::store
