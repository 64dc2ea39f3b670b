#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

#define NOETL_RUNTIME_COLUMNS                                                      \
  "runtime_id, name, kind, uri, status, labels, capabilities, capacity, runtime, " \
  "heartbeat, created_at, updated_at"

RuntimeRow ReadRuntime(const Statement& query) {
  return {.runtime_id = query.GetInt(0),
          .name = query.GetString(1),
          .kind = query.GetString(2),
          .uri = query.GetString(3),
          .status = query.GetString(4),
          .labels = query.GetString(5),
          .capabilities = query.GetString(6),
          .capacity = query.IsNull(7) ? -1 : query.GetInt(7),
          .runtime = query.GetString(8),
          .heartbeat_us = query.GetInt(9),
          .created_at_us = query.GetInt(10),
          .updated_at_us = query.GetInt(11)};
}

}  // namespace

Result<RuntimeRow> SqliteServer::PutRuntime(RuntimeRow row) {
  static constexpr const char* kSql = R"sql(
INSERT INTO runtime (runtime_id, name, kind, uri, status, labels, capabilities, capacity, runtime,
                     heartbeat, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (kind, name) DO UPDATE
SET uri = excluded.uri, status = excluded.status, labels = excluded.labels,
    capabilities = excluded.capabilities, capacity = excluded.capacity,
    runtime = excluded.runtime, heartbeat = excluded.heartbeat, updated_at = excluded.updated_at
RETURNING runtime_id, created_at)sql";
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement query, connection.Get(kSql));
    query.Int(1, row.runtime_id)
        .Text(2, row.name)
        .Text(3, row.kind)
        .SomeText(4, row.uri)
        .SomeText(5, row.status)
        .SomeText(6, row.labels)
        .SomeText(7, row.capabilities)
        .SomeText(9, row.runtime)
        .SomeInt(10, row.heartbeat_us)
        .SomeInt(11, row.created_at_us)
        .SomeInt(12, row.updated_at_us);
    row.capacity < 0 ? query.Null(8) : query.Int(8, row.capacity);
    if (query.Next()) {
      row.runtime_id = query.GetInt(0);
      row.created_at_us = query.GetInt(1);
    }
    return connection.Finished(query);
  }));
  return row;
}

Result<std::optional<RuntimeRow>> SqliteServer::FindRuntime(std::string_view kind,
                                                            std::string_view name) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_RUNTIME_COLUMNS " FROM runtime WHERE kind = ?1 AND name = ?2";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, kind).Text(2, name);
  return AtMostOne(*connection, query, ReadRuntime);
}

Result<bool> SqliteServer::DeleteRuntime(std::string_view kind, std::string_view name) {
  NOETL_ASSIGN(const std::int64_t removed,
               Change("DELETE FROM runtime WHERE kind = ?1 AND name = ?2",
                      [&](Statement& query) { query.Text(1, kind).Text(2, name); }));
  return removed > 0;
}

Result<std::vector<RuntimeRow>> SqliteServer::ListRuntimes(std::string_view kind,
                                                           std::string_view status,
                                                           std::string_view name_part) const {
  static constexpr const char* kSql = "SELECT " NOETL_RUNTIME_COLUMNS R"sql(
FROM runtime
WHERE (?1 = '' OR kind = ?1) AND (?2 = '' OR status = ?2) AND instr(name, ?3)
ORDER BY kind, name)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, kind).Text(2, status).Text(3, name_part);
  return All(*connection, query, ReadRuntime);
}

Result<std::int64_t> SqliteServer::PurgeRuntimes(std::int64_t heartbeat_before_us) {
  return Change("DELETE FROM runtime WHERE ifnull(heartbeat, 0) < ?1",
                [&](Statement& query) { query.Int(1, heartbeat_before_us); });
}

}  // namespace noetl::store
