#include <fmt/format.h>

#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"
#include "store/subscription.h"

namespace noetl::store {

namespace {

#define NOETL_SUBSCRIPTION_COLUMNS                                             \
  "subscription_id, path, catalog_id, state, last_event_id, last_event_type, " \
  "created_at, updated_at, head, chain"

SubscriptionRow ReadSubscription(const Statement& query) {
  return {.subscription_id = query.GetInt(0),
          .path = query.GetString(1),
          .catalog_id = query.GetInt(2),
          .state = query.GetString(3),
          .last_event_id = query.GetInt(4),
          .last_event_type = query.GetString(5),
          .created_at_us = query.GetInt(6),
          .updated_at_us = query.GetInt(7),
          .head = query.GetInt(8),
          .chain = query.GetDigest(9)};
}

Result<std::optional<SubscriptionRow>> FindById(Connection& connection, std::int64_t id) {
  static constexpr const char* kSql =
      "SELECT " NOETL_SUBSCRIPTION_COLUMNS " FROM subscription WHERE subscription_id = ?1";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Int(1, id);
  return AtMostOne(connection, query, ReadSubscription);
}

// The one of the path that is not deactivated.
Result<std::optional<SubscriptionRow>> FindLive(Connection& connection, std::string_view path) {
  static constexpr const char* kSql = "SELECT " NOETL_SUBSCRIPTION_COLUMNS R"sql(
FROM subscription INDEXED BY subscription_live WHERE path = ?1 AND state <> 'DEACTIVATED')sql";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Text(1, path);
  return AtMostOne(connection, query, ReadSubscription);
}

Result<bool> IsShown(Connection& connection, std::int64_t catalog_id) {
  static constexpr const char* kSql =
      "SELECT 1 FROM catalog WHERE catalog_id = ?1 AND archived_at IS NULL";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Int(1, catalog_id);
  const bool found = query.Next();
  NOETL_TRY(connection.Finished(query));
  return found;
}

Status Put(Connection& connection, const SubscriptionRow& row) {
  static constexpr const char* kSql = R"sql(
INSERT INTO subscription (subscription_id, path, catalog_id, state, last_event_id, last_event_type,
                          created_at, updated_at, head, chain)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (subscription_id) DO UPDATE
SET state = excluded.state, last_event_id = excluded.last_event_id,
    last_event_type = excluded.last_event_type, updated_at = excluded.updated_at,
    head = excluded.head, chain = excluded.chain)sql";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Int(1, row.subscription_id)
      .Text(2, row.path)
      .SomeInt(3, row.catalog_id)
      .Text(4, row.state)
      .SomeInt(5, row.last_event_id)
      .SomeText(6, row.last_event_type)
      .SomeInt(7, row.created_at_us)
      .SomeInt(8, row.updated_at_us)
      .Int(9, row.head)
      .Blob(10, row.chain)
      .Run();
  return connection.Finished(query);
}

}  // namespace

Result<SubscriptionRow> SqliteServer::RegisterSubscription(const SubscriptionRow& fresh,
                                                           std::int64_t event_id,
                                                           std::int64_t now_us) {
  SubscriptionRow row;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(const bool shown, IsShown(connection, fresh.catalog_id));
    if (!shown)
      return Fail("not_found", fmt::format("the catalog has no entry {}", fresh.catalog_id));
    NOETL_ASSIGN(std::optional<SubscriptionRow> live, FindLive(connection, fresh.path));
    if (live) {
      row = std::move(*live);
      return {};
    }
    NOETL_ASSIGN(const std::optional<SubscriptionRow> taken,
                 FindById(connection, fresh.subscription_id));
    if (taken)
      return Fail("bad_row", fmt::format("subscription id {} is taken", fresh.subscription_id));
    NOETL_ASSIGN(SubscriptionStep step, FirstStep(fresh, event_id, now_us));
    NOETL_TRY(writer_->Append(step.event));
    row = std::move(step.row);
    return Put(connection, row);
  }));
  return row;
}

Result<SubscriptionRow> SqliteServer::ActOnSubscription(std::int64_t id, std::string_view action,
                                                        std::int64_t event_id,
                                                        std::int64_t now_us) {
  SubscriptionRow row;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(std::optional<SubscriptionRow> stored, FindById(connection, id));
    if (!stored) return Fail("not_found", fmt::format("there is no subscription {}", id));
    NOETL_ASSIGN(SubscriptionStep step, NextStep(*std::move(stored), action, event_id, now_us));
    NOETL_ASSIGN(const std::optional<SubscriptionRow> live, FindLive(connection, step.row.path));
    if (live && live->subscription_id != id && step.row.state != kDeactivated)
      return PathIsTaken(step.row, live->subscription_id);
    NOETL_TRY(writer_->Append(step.event));
    row = std::move(step.row);
    return Put(connection, row);
  }));
  return row;
}

Result<std::optional<SubscriptionRow>> SqliteServer::FindSubscription(std::int64_t id) const {
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  return FindById(*connection, id);
}

Result<std::vector<SubscriptionRow>> SqliteServer::ListSubscriptions(std::int64_t before_id,
                                                                     std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_SUBSCRIPTION_COLUMNS R"sql(
FROM subscription WHERE ?1 = 0 OR subscription_id < ?1 ORDER BY subscription_id DESC LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, before_id).Int(2, Limit(limit));
  return All(*connection, query, ReadSubscription);
}

}  // namespace noetl::store
