#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"
#include "store/unit_check.h"

namespace noetl::store {

namespace {

// Of those with one listener; there is hardly ever more than one.
constexpr std::int64_t kHoldersMax = 10;

#define NOETL_ENTRY_COLUMNS "catalog_id, path, version, kind, created_at, archived_at, listener"

CatalogEntry ReadEntry(const Statement& query) {
  return {.catalog_id = query.GetInt(0),
          .path = query.GetString(1),
          .version = query.GetInt(2),
          .kind = query.GetString(3),
          .content = query.GetString(7),
          .created_at_us = query.GetInt(4),
          .archived_at_us = query.GetInt(5),
          .listener = query.GetString(6)};
}

constexpr const char* kNewest = "SELECT " NOETL_ENTRY_COLUMNS R"sql(, content
FROM catalog WHERE path = ?1 AND archived_at IS NULL ORDER BY version DESC LIMIT 1)sql";

// Entries of a path; the content is left out when it would be thrown away.
constexpr const char* kVisible = "SELECT " NOETL_ENTRY_COLUMNS R"sql(, NULL
FROM catalog
WHERE path = ?1 AND (?2 = 0 OR version = ?2) AND archived_at IS NULL ORDER BY version)sql";
constexpr const char* kArchived = "SELECT " NOETL_ENTRY_COLUMNS R"sql(, content
FROM catalog
WHERE path = ?1 AND (?2 = 0 OR version = ?2) AND archived_at IS NOT NULL ORDER BY version)sql";

Result<std::vector<CatalogEntry>> EntriesOf(Connection& connection, const char* sql,
                                            std::string_view path, std::int64_t version) {
  NOETL_ASSIGN(Statement query, connection.Get(sql));
  query.Text(1, path).Int(2, version);
  return All(connection, query, ReadEntry);
}

// Whether a run or a subscription refers to the entry. A run has the path and the version of its
// entry, which have an index.
Result<bool> IsUsed(Connection& connection, const CatalogEntry& entry) {
  static constexpr const char* kSql = R"sql(
SELECT 1 FROM execution INDEXED BY execution_by_path
WHERE path = ?1 AND version = ?2 AND catalog_id = ?3 LIMIT 1)sql";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Text(1, entry.path).Int(2, entry.version).Int(3, entry.catalog_id);
  const bool found = query.Next();
  NOETL_TRY(connection.Finished(query));
  if (found || entry.kind != "subscription") return found;
  NOETL_ASSIGN(Statement subscription,
               connection.Get("SELECT 1 FROM subscription WHERE catalog_id = ?1 LIMIT 1"));
  subscription.Int(1, entry.catalog_id);
  const bool subscribed = subscription.Next();
  NOETL_TRY(connection.Finished(subscription));
  return subscribed;
}

Status Archive(Connection& connection, const CatalogEntry& entry, std::int64_t time_us) {
  NOETL_ASSIGN(Statement query,
               connection.Get("UPDATE catalog SET archived_at = ?2 WHERE catalog_id = ?1"));
  query.Int(1, entry.catalog_id).SomeInt(2, time_us).Run();
  return connection.Finished(query);
}

Status Remove(Connection& connection, const CatalogEntry& entry) {
  NOETL_ASSIGN(Statement query, connection.Get("DELETE FROM catalog WHERE catalog_id = ?1"));
  query.Int(1, entry.catalog_id).Run();
  return connection.Finished(query);
}

Status Insert(Connection& connection, const CatalogEntry& entry) {
  static constexpr const char* kSql = R"sql(
INSERT INTO catalog (catalog_id, path, version, kind, content, created_at, listener)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7))sql";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Int(1, entry.catalog_id)
      .Text(2, entry.path)
      .Int(3, entry.version)
      .Text(4, entry.kind)
      .Text(5, entry.content)
      .SomeInt(6, entry.created_at_us)
      .SomeText(7, entry.listener)
      .Run();
  return connection.Finished(query);
}

Result<std::vector<CatalogEntry>> EntriesWith(Connection& connection, std::string_view listener,
                                              std::int64_t limit) {
  static constexpr const char* kSql = "SELECT " NOETL_ENTRY_COLUMNS R"sql(, content
FROM catalog c INDEXED BY catalog_by_listener
WHERE listener = ?1 AND archived_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM catalog n WHERE n.path = c.path AND n.version > c.version
                                            AND n.archived_at IS NULL)
ORDER BY path LIMIT ?2)sql";
  NOETL_ASSIGN(Statement query, connection.Get(kSql));
  query.Text(1, listener).Int(2, Limit(limit));
  return All(connection, query, ReadEntry);
}

// Two subscriptions under one name would share their messages by chance.
Status CheckListener(Connection& connection, const CatalogEntry& entry) {
  if (entry.listener.empty()) return {};
  NOETL_ASSIGN(const auto holders, EntriesWith(connection, entry.listener, kHoldersMax));
  for (const CatalogEntry& holder : holders) {
    if (holder.path != entry.path) return ListenerIsTaken(entry, holder);
  }
  return {};
}

// Files of older versions have entries without their listener.
Status SetListener(Connection& connection, const CatalogEntry& entry) {
  NOETL_ASSIGN(Statement query,
               connection.Get("UPDATE catalog SET listener = ?2 WHERE catalog_id = ?1"));
  query.Int(1, entry.catalog_id).SomeText(2, entry.listener).Run();
  return connection.Finished(query);
}

}  // namespace

Result<CatalogEntry> SqliteServer::Register(CatalogEntry entry) {
  static constexpr const char* kLast =
      "SELECT ifnull(max(version), 0) FROM catalog WHERE path = ?1";
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_TRY(CheckListener(connection, entry));
    NOETL_ASSIGN(Statement newest, connection.Get(kNewest));
    newest.Text(1, entry.path);
    NOETL_ASSIGN(std::optional<CatalogEntry> stored, AtMostOne(connection, newest, ReadEntry));
    if (stored && stored->content == entry.content && stored->kind == entry.kind) {
      std::swap(entry, *stored);
      if (entry.listener == stored->listener) return {};
      entry.listener = std::move(stored->listener);
      return SetListener(connection, entry);
    }
    NOETL_ASSIGN(Statement last, connection.Get(kLast));
    last.Text(1, entry.path);
    entry.version = (last.Next() ? last.GetInt(0) : 0) + 1;
    entry.archived_at_us = 0;
    NOETL_TRY(connection.Finished(last));
    return Insert(connection, entry);
  }));
  return entry;
}

Result<std::optional<CatalogEntry>> SqliteServer::FindEntry(std::int64_t catalog_id) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_ENTRY_COLUMNS ", content FROM catalog WHERE catalog_id = ?1";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, catalog_id);
  return AtMostOne(*connection, query, ReadEntry);
}

Result<std::optional<CatalogEntry>> SqliteServer::FindEntry(std::string_view path,
                                                            std::int64_t version) const {
  static constexpr const char* kSql = "SELECT " NOETL_ENTRY_COLUMNS R"sql(, content
FROM catalog WHERE path = ?1 AND version = ?2 AND archived_at IS NULL)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(version == 0 ? kNewest : kSql));
  query.Text(1, path).Int(2, version);
  return AtMostOne(*connection, query, ReadEntry);
}

Result<std::vector<CatalogEntry>> SqliteServer::ListEntries(std::string_view after_path,
                                                            std::int64_t limit) const {
  static constexpr const char* kSql = R"sql(
SELECT catalog_id, path, max(version), kind, created_at, archived_at, listener, NULL
FROM catalog WHERE path > ?1 AND archived_at IS NULL GROUP BY path ORDER BY path LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, after_path).Int(2, Limit(limit));
  return All(*connection, query, ReadEntry);
}

Result<std::vector<CatalogEntry>> SqliteServer::ListCatalog(const CatalogFilter& filter) const {
  static constexpr const char* kSql = "SELECT " NOETL_ENTRY_COLUMNS R"sql(,
       CASE WHEN ?6 THEN content END
FROM catalog c
WHERE (?1 = '' OR kind = ?1) AND substr(path, 1, length(?2)) = ?2 AND (?3 = '' OR path = ?3)
  AND (?5 OR archived_at IS NULL) AND (?7 = 0 OR catalog_id < ?7)
  AND (NOT ?4 OR NOT EXISTS (SELECT 1 FROM catalog n
                             WHERE n.path = c.path AND n.version > c.version
                               AND (?5 OR n.archived_at IS NULL)))
ORDER BY catalog_id DESC LIMIT ?8)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, filter.kind)
      .Text(2, filter.path_prefix)
      .Text(3, filter.path)
      .Int(4, filter.latest_only ? 1 : 0)
      .Int(5, filter.include_archived ? 1 : 0)
      .Int(6, filter.include_content ? 1 : 0)
      .Int(7, filter.before_id)
      .Int(8, Limit(filter.limit));
  return All(*connection, query, ReadEntry);
}

Result<std::vector<CatalogEntry>> SqliteServer::FindListener(std::string_view listener,
                                                             std::int64_t limit) const {
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  return EntriesWith(*connection, listener, limit);
}

Result<CatalogRemoval> SqliteServer::RemoveEntries(std::string_view path, std::int64_t version,
                                                   std::int64_t now_us) {
  CatalogRemoval removal;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(removal.entries, EntriesOf(connection, kVisible, path, version));
    for (const CatalogEntry& entry : removal.entries) {
      NOETL_ASSIGN(const bool used, IsUsed(connection, entry));
      removal.archived = removal.archived || used;
    }
    for (CatalogEntry& entry : removal.entries) {
      if (removal.archived) entry.archived_at_us = now_us;
      NOETL_TRY(removal.archived ? Archive(connection, entry, now_us) : Remove(connection, entry));
    }
    return {};
  }));
  return removal;
}

Result<std::vector<CatalogEntry>> SqliteServer::RestoreEntries(std::string_view path,
                                                               std::int64_t version) {
  std::vector<CatalogEntry> entries;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(entries, EntriesOf(connection, kArchived, path, version));
    for (CatalogEntry& entry : entries) {
      entry.archived_at_us = 0;
      NOETL_TRY(Archive(connection, entry, 0));
    }
    return {};
  }));
  return entries;
}

}  // namespace noetl::store
