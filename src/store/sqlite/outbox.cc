#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

// What may be taken: ?1 is now, ?2 the time before which a row must have been taken to be given up.
#define NOETL_OUTBOX_DUE                                         \
  "published_at IS NULL AND (CASE status WHEN 'IN_FLIGHT' THEN " \
  "locked_at < ?2 ELSE ifnull(available_at, 0) <= ?1 END)"

OutboxRow ReadOutbox(const Statement& query) {
  return {.outbox_id = query.GetInt(0),
          .execution_id = query.GetInt(1),
          .event_id = query.GetInt(2),
          .seq = query.GetInt(3),
          .event_type = query.GetString(4),
          .attempts = query.GetInt(5)};
}

}  // namespace

Result<std::vector<OutboxRow>> SqliteServer::ClaimOutbox(std::int64_t now_us, std::int64_t lease_us,
                                                         std::int64_t limit) {
  static constexpr const char* kDue = R"sql(
SELECT outbox_id, execution_id, event_id, stream_version, event_type, attempts + 1
FROM outbox INDEXED BY outbox_unpublished
WHERE )sql" NOETL_OUTBOX_DUE " ORDER BY outbox_id LIMIT ?3";
  static constexpr const char* kTake = R"sql(
UPDATE outbox SET status = 'IN_FLIGHT', locked_at = ?2, attempts = ?3 WHERE outbox_id = ?1)sql";
  std::vector<OutboxRow> rows;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement due, connection.Get(kDue));
    due.Int(1, now_us).Int(2, now_us - lease_us).Int(3, Limit(limit));
    NOETL_ASSIGN(rows, All(connection, due, ReadOutbox));
    for (const OutboxRow& row : rows) {
      NOETL_ASSIGN(Statement take, connection.Get(kTake));
      take.Int(1, row.outbox_id).Int(2, now_us).Int(3, row.attempts).Run();
      NOETL_TRY(connection.Finished(take));
    }
    return {};
  }));
  return rows;
}

Result<std::int64_t> SqliteServer::MarkPublished(std::span<const std::int64_t> ids,
                                                 std::int64_t now_us) {
  static constexpr const char* kSql = R"sql(
UPDATE outbox SET status = 'PUBLISHED', published_at = ifnull(published_at, ?2), last_error = NULL
WHERE outbox_id = ?1)sql";
  std::int64_t marked = 0;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    for (const std::int64_t id : ids) {
      NOETL_ASSIGN(Statement query, connection.Get(kSql));
      query.Int(1, id).Int(2, now_us).Run();
      NOETL_TRY(connection.Finished(query));
      marked += connection.Changes();
    }
    return {};
  }));
  return marked;
}

Result<bool> SqliteServer::MarkFailed(std::int64_t id, std::string_view error,
                                      std::int64_t available_at_us) {
  static constexpr const char* kSql = R"sql(
UPDATE outbox SET status = 'FAILED', last_error = ?2, available_at = ?3, locked_at = NULL
WHERE outbox_id = ?1 AND published_at IS NULL)sql";
  NOETL_ASSIGN(const std::int64_t changed, Change(kSql, [&](Statement& query) {
                 query.Int(1, id).SomeText(2, error).SomeInt(3, available_at_us);
               }));
  return changed > 0;
}

Result<std::int64_t> SqliteServer::CountOutbox(std::int64_t now_us, std::int64_t lease_us) const {
  static constexpr const char* kSql =
      "SELECT count(*) FROM outbox INDEXED BY outbox_unpublished WHERE " NOETL_OUTBOX_DUE;
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, now_us).Int(2, now_us - lease_us);
  const std::int64_t count = query.Next() ? query.GetInt(0) : 0;
  NOETL_TRY(connection->Finished(query));
  return count;
}

Result<std::int64_t> SqliteServer::PurgeOutbox(std::int64_t before_us, std::int64_t limit) {
  static constexpr const char* kSql = R"sql(
DELETE FROM outbox WHERE outbox_id IN
(SELECT outbox_id FROM outbox INDEXED BY outbox_published
 WHERE published_at IS NOT NULL AND published_at < ?1 ORDER BY published_at LIMIT ?2))sql";
  return Change(kSql, [&](Statement& query) { query.Int(1, before_us).Int(2, Limit(limit)); });
}

}  // namespace noetl::store
