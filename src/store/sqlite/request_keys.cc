#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

RequestKeyRow ReadKey(const Statement& query) {
  return {.scope = query.GetInt(0),
          .key = query.GetString(1),
          .execution_id = query.GetInt(2),
          .digest = query.GetString(3),
          .created_at_us = query.GetInt(4),
          .expires_at_us = query.GetInt(5)};
}

}  // namespace

// The answer is what the table holds after the insert: of two callers one finds the other's row.
Result<RequestKeyRow> SqliteServer::ClaimKey(const RequestKeyRow& row) {
  static constexpr const char* kClaim = R"sql(
INSERT INTO request_key (scope, key, execution_id, digest, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (scope, key) DO UPDATE
SET execution_id = excluded.execution_id, digest = excluded.digest,
    created_at = excluded.created_at, expires_at = excluded.expires_at
WHERE expires_at <= ifnull(excluded.created_at, 0))sql";
  static constexpr const char* kFind = R"sql(
SELECT scope, key, execution_id, digest, created_at, expires_at
FROM request_key WHERE scope = ?1 AND key = ?2)sql";
  RequestKeyRow holder = row;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement claim, connection.Get(kClaim));
    claim.Int(1, row.scope)
        .Text(2, row.key)
        .Int(3, row.execution_id)
        .SomeText(4, row.digest)
        .SomeInt(5, row.created_at_us)
        .SomeInt(6, row.expires_at_us)
        .Run();
    NOETL_TRY(connection.Finished(claim));
    NOETL_ASSIGN(Statement find, connection.Get(kFind));
    find.Int(1, row.scope).Text(2, row.key);
    NOETL_ASSIGN(std::optional<RequestKeyRow> found, AtMostOne(connection, find, ReadKey));
    if (found) holder = std::move(*found);
    return {};
  }));
  return holder;
}

Status SqliteServer::ReleaseKey(std::int64_t scope, std::string_view key,
                                std::int64_t execution_id) {
  NOETL_TRY(
      Change("DELETE FROM request_key WHERE scope = ?1 AND key = ?2 AND execution_id = ?3",
             [&](Statement& query) { query.Int(1, scope).Text(2, key).Int(3, execution_id); }));
  return {};
}

Result<std::int64_t> SqliteServer::PurgeKeys(std::int64_t before_us) {
  return Change("DELETE FROM request_key WHERE expires_at IS NOT NULL AND expires_at < ?1",
                [&](Statement& query) { query.Int(1, before_us); });
}

}  // namespace noetl::store
