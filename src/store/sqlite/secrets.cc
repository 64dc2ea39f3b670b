#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

#define NOETL_CREDENTIAL_COLUMNS "id, name, type, meta, tags, description, created_at, updated_at, "
#define NOETL_KEYCHAIN_COLUMNS                                                        \
  "cache_key, keychain_name, catalog_id, execution_id, scope_type, credential_type, " \
  "cache_type, auto_renew, renew_config, expires_at, access_count, accessed_at, created_at, "

CredentialRow ReadCredential(const Statement& query) {
  CredentialRow row{.id = query.GetInt(0),
                    .name = query.GetString(1),
                    .type = query.GetString(2),
                    .data_encrypted = query.GetString(8),
                    .meta = query.GetString(3),
                    .tags = {},
                    .has_tags = !query.IsNull(4),
                    .description = query.GetString(5),
                    .created_at_us = query.GetInt(6),
                    .updated_at_us = query.GetInt(7)};
  if (const Result<Json> tags = ParseJson(query.GetText(4)); row.has_tags && tags) {
    for (const Json& tag : tags->items()) row.tags.push_back(tag.ToString());
  }
  return row;
}

KeychainRow ReadKeychain(const Statement& query) {
  return {.cache_key = query.GetString(0),
          .name = query.GetString(1),
          .catalog_id = query.GetInt(2),
          .execution_id = query.GetInt(3),
          .scope_type = query.GetString(4),
          .credential_type = query.GetString(5),
          .cache_type = query.GetString(6),
          .data_encrypted = query.GetString(13),
          .auto_renew = query.GetInt(7) != 0,
          .renew_config = query.GetString(8),
          .expires_at_us = query.GetInt(9),
          .access_count = query.GetInt(10),
          .accessed_at_us = query.GetInt(11),
          .created_at_us = query.GetInt(12)};
}

AuditRow ReadAudit(const Statement& query) {
  return {.audit_id = query.GetInt(0),
          .occurred_at_us = query.GetInt(1),
          .credential = query.GetString(2),
          .operation = query.GetString(3),
          .outcome = query.GetString(4),
          .worker_id = query.GetString(5),
          .execution_id = query.GetInt(6),
          .parent_execution_id = query.GetInt(7),
          .kek_version = query.GetString(8),
          .notes = query.GetString(9)};
}

}  // namespace

Result<CredentialRow> SqliteServer::PutCredential(CredentialRow row) {
  static constexpr const char* kSql = R"sql(
INSERT INTO credential (id, name, type, data_encrypted, meta, tags, description, created_at,
                        updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (name) DO UPDATE
SET type = excluded.type, data_encrypted = excluded.data_encrypted, meta = excluded.meta,
    tags = excluded.tags, description = excluded.description, updated_at = excluded.updated_at
RETURNING id, created_at)sql";
  std::string tags;
  if (row.has_tags) {
    const Result<std::string> written =
        WriteStoredJson(Json::Array(std::vector<Json>(row.tags.begin(), row.tags.end())));
    if (!written) return Fail("bad_row", fmt::format("tags: {}", written.error().message));
    tags = *written;
  }
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement query, connection.Get(kSql));
    query.Int(1, row.id)
        .Text(2, row.name)
        .SomeText(3, row.type)
        .SomeText(4, row.data_encrypted)
        .SomeText(5, row.meta)
        .SomeText(6, tags)
        .SomeText(7, row.description)
        .SomeInt(8, row.created_at_us)
        .SomeInt(9, row.updated_at_us);
    if (query.Next()) {
      row.id = query.GetInt(0);
      row.created_at_us = query.GetInt(1);
    }
    return connection.Finished(query);
  }));
  return row;
}

Result<std::optional<CredentialRow>> SqliteServer::FindCredential(std::int64_t id) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_CREDENTIAL_COLUMNS "data_encrypted FROM credential WHERE id = ?1";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, id);
  return AtMostOne(*connection, query, ReadCredential);
}

Result<std::optional<CredentialRow>> SqliteServer::FindCredential(std::string_view name) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_CREDENTIAL_COLUMNS "data_encrypted FROM credential WHERE name = ?1";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, name);
  return AtMostOne(*connection, query, ReadCredential);
}

Result<std::vector<CredentialRow>> SqliteServer::ListCredentials(std::string_view type,
                                                                 std::string_view text,
                                                                 std::int64_t before_id,
                                                                 std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_CREDENTIAL_COLUMNS R"sql(NULL
FROM credential
WHERE (?1 = '' OR type = ?1) AND (?3 = 0 OR id < ?3)
  AND (instr(lower(name), ?2) OR instr(lower(ifnull(description, '')), ?2))
ORDER BY id DESC LIMIT ?4)sql";
  const std::string lower = ToLower(text);
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, type).Text(2, lower).Int(3, before_id).Int(4, Limit(limit));
  return All(*connection, query, ReadCredential);
}

Result<bool> SqliteServer::DeleteCredential(std::int64_t id) {
  NOETL_ASSIGN(const std::int64_t removed, Change("DELETE FROM credential WHERE id = ?1",
                                                  [&](Statement& query) { query.Int(1, id); }));
  return removed > 0;
}

Result<std::vector<CredentialRow>> SqliteServer::ScanCredentials(std::int64_t after_id,
                                                                 std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_CREDENTIAL_COLUMNS R"sql(data_encrypted
FROM credential WHERE id > ?1 ORDER BY id LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, after_id).Int(2, Limit(limit));
  return All(*connection, query, ReadCredential);
}

Result<bool> SqliteServer::RewrapCredential(std::int64_t id, std::string_view before,
                                            std::string_view after) {
  static constexpr const char* kSql =
      "UPDATE credential SET data_encrypted = ?3 WHERE id = ?1 AND ifnull(data_encrypted, '') = ?2";
  NOETL_ASSIGN(const std::int64_t changed, Change(kSql, [&](Statement& query) {
                 query.Int(1, id).Text(2, before).SomeText(3, after);
               }));
  return changed > 0;
}

Status SqliteServer::PutKeychain(KeychainRow row) {
  static constexpr const char* kSql = R"sql(
INSERT OR REPLACE INTO keychain (cache_key, keychain_name, catalog_id, execution_id, scope_type,
                                 credential_type, cache_type, data_encrypted, auto_renew,
                                 renew_config, expires_at, access_count, accessed_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14))sql";
  NOETL_TRY(Change(kSql, [&](Statement& query) {
    query.Text(1, row.cache_key)
        .SomeText(2, row.name)
        .SomeInt(3, row.catalog_id)
        .SomeInt(4, row.execution_id)
        .SomeText(5, row.scope_type)
        .SomeText(6, row.credential_type)
        .SomeText(7, row.cache_type)
        .SomeText(8, row.data_encrypted)
        .Int(9, row.auto_renew ? 1 : 0)
        .SomeText(10, row.renew_config)
        .SomeInt(11, row.expires_at_us)
        .Int(12, row.access_count)
        .SomeInt(13, row.accessed_at_us)
        .SomeInt(14, row.created_at_us);
  }));
  return {};
}

Result<std::optional<KeychainRow>> SqliteServer::FindKeychain(std::string_view cache_key) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_KEYCHAIN_COLUMNS "data_encrypted FROM keychain WHERE cache_key = ?1";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, cache_key);
  return AtMostOne(*connection, query, ReadKeychain);
}

Result<std::int64_t> SqliteServer::TouchKeychain(std::string_view cache_key, std::int64_t now_us) {
  static constexpr const char* kSql = R"sql(
UPDATE keychain SET access_count = access_count + 1, accessed_at = ?2 WHERE cache_key = ?1
RETURNING access_count)sql";
  std::optional<std::int64_t> count;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement query, connection.Get(kSql));
    query.Text(1, cache_key).SomeInt(2, now_us);
    NOETL_ASSIGN(count,
                 AtMostOne(connection, query, [](const Statement& row) { return row.GetInt(0); }));
    return {};
  }));
  if (!count) return Fail("not_found", fmt::format("the keychain has no '{}'", cache_key));
  return *count;
}

Result<bool> SqliteServer::DeleteKeychain(std::string_view cache_key) {
  NOETL_ASSIGN(const std::int64_t removed,
               Change("DELETE FROM keychain WHERE cache_key = ?1",
                      [&](Statement& query) { query.Text(1, cache_key); }));
  return removed > 0;
}

Result<std::vector<KeychainRow>> SqliteServer::ListKeychain(std::int64_t catalog_id,
                                                            std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_KEYCHAIN_COLUMNS R"sql(NULL
FROM keychain WHERE catalog_id IS ?1 ORDER BY created_at DESC, cache_key DESC LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.SomeInt(1, catalog_id).Int(2, Limit(limit));
  return All(*connection, query, ReadKeychain);
}

Result<std::vector<KeychainRow>> SqliteServer::ScanKeychain(std::string_view after_key,
                                                            std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_KEYCHAIN_COLUMNS R"sql(data_encrypted
FROM keychain WHERE cache_key > ?1 ORDER BY cache_key LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Text(1, after_key).Int(2, Limit(limit));
  return All(*connection, query, ReadKeychain);
}

Result<bool> SqliteServer::RewrapKeychain(std::string_view cache_key, std::string_view before,
                                          std::string_view after) {
  static constexpr const char* kSql = R"sql(
UPDATE keychain SET data_encrypted = ?3
WHERE cache_key = ?1 AND ifnull(data_encrypted, '') = ?2)sql";
  NOETL_ASSIGN(const std::int64_t changed, Change(kSql, [&](Statement& query) {
                 query.Text(1, cache_key).Text(2, before).SomeText(3, after);
               }));
  return changed > 0;
}

Result<std::int64_t> SqliteServer::PurgeKeychain(std::int64_t before_us) {
  return Change("DELETE FROM keychain WHERE expires_at IS NOT NULL AND expires_at < ?1",
                [&](Statement& query) { query.Int(1, before_us); });
}

Status SqliteServer::AddAudit(std::span<const AuditRow> rows) {
  static constexpr const char* kSql = R"sql(
INSERT INTO secret_audit (audit_id, occurred_at, credential, operation, outcome, worker_id,
                          execution_id, parent_execution_id, kek_version, notes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10))sql";
  return Write([&](Connection& connection) -> Status {
    for (const AuditRow& row : rows) {
      NOETL_ASSIGN(Statement query, connection.Get(kSql));
      query.Int(1, row.audit_id)
          .SomeInt(2, row.occurred_at_us)
          .SomeText(3, row.credential)
          .SomeText(4, row.operation)
          .SomeText(5, row.outcome)
          .SomeText(6, row.worker_id)
          .SomeInt(7, row.execution_id)
          .SomeInt(8, row.parent_execution_id)
          .SomeText(9, row.kek_version)
          .SomeText(10, row.notes)
          .Run();
      NOETL_TRY(connection.Finished(query));
    }
    return {};
  });
}

Result<std::vector<AuditRow>> SqliteServer::ListAudit(const AuditFilter& filter) const {
  std::string sql = R"sql(
SELECT audit_id, occurred_at, credential, operation, outcome, worker_id, execution_id,
       parent_execution_id, kek_version, notes
FROM secret_audit WHERE 1)sql";
  const auto add = [&](bool wanted, std::string_view condition) {
    if (wanted) sql.append(" AND ").append(condition);
  };
  // Only the conditions that are asked for: the planner then finds the index for them.
  add(!filter.credential.empty(), "credential = ?1");
  add(filter.execution_id != 0, "execution_id = ?2");
  add(filter.from_us != 0, "occurred_at >= ?3");
  add(filter.to_us != 0, "occurred_at < ?4");
  sql += " ORDER BY occurred_at DESC, audit_id DESC LIMIT ?5";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->GetText(sql));
  query.Text(1, filter.credential)
      .Int(2, filter.execution_id)
      .Int(3, filter.from_us)
      .Int(4, filter.to_us)
      .Int(5, Limit(filter.limit));
  return All(*connection, query, ReadAudit);
}

}  // namespace noetl::store
