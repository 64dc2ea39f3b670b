// What a server keeps besides runs (server.h), and the catalog, in the SQLite file.
//
// A layer below the whole store: it holds the writer and the readers, and each interface has a
// source file of its own with its SQL. Safe to use from many threads; every write is one
// transaction of the writer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/sqlite/objects.h"
#include "store/sqlite/read_pool.h"
#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/writer.h"
#include "store/store.h"

namespace noetl::store {

class SqliteServer : public Store {
 public:
  // catalog.cc
  Result<CatalogEntry> Register(CatalogEntry entry) override;
  Result<std::optional<CatalogEntry>> FindEntry(std::int64_t catalog_id) const override;
  Result<std::optional<CatalogEntry>> FindEntry(std::string_view path,
                                                std::int64_t version) const override;
  Result<std::vector<CatalogEntry>> ListEntries(std::string_view after_path,
                                                std::int64_t limit) const override;
  Result<std::vector<CatalogEntry>> ListCatalog(const CatalogFilter& filter) const override;
  Result<std::vector<CatalogEntry>> FindListener(std::string_view listener,
                                                 std::int64_t limit) const override;
  Result<CatalogRemoval> RemoveEntries(std::string_view path, std::int64_t version,
                                       std::int64_t now_us) override;
  Result<std::vector<CatalogEntry>> RestoreEntries(std::string_view path,
                                                   std::int64_t version) override;

  // secrets.cc
  Result<CredentialRow> PutCredential(CredentialRow row) override;
  Result<std::optional<CredentialRow>> FindCredential(std::int64_t id) const override;
  Result<std::optional<CredentialRow>> FindCredential(std::string_view name) const override;
  Result<std::vector<CredentialRow>> ListCredentials(std::string_view type, std::string_view text,
                                                     std::int64_t before_id,
                                                     std::int64_t limit) const override;
  Result<bool> DeleteCredential(std::int64_t id) override;
  Result<std::vector<CredentialRow>> ScanCredentials(std::int64_t after_id,
                                                     std::int64_t limit) const override;
  Result<bool> RewrapCredential(std::int64_t id, std::string_view before,
                                std::string_view after) override;
  Status PutKeychain(KeychainRow row) override;
  Result<std::optional<KeychainRow>> FindKeychain(std::string_view cache_key) const override;
  Result<std::int64_t> TouchKeychain(std::string_view cache_key, std::int64_t now_us) override;
  Result<bool> DeleteKeychain(std::string_view cache_key) override;
  Result<std::vector<KeychainRow>> ListKeychain(std::int64_t catalog_id,
                                                std::int64_t limit) const override;
  Result<std::vector<KeychainRow>> ScanKeychain(std::string_view after_key,
                                                std::int64_t limit) const override;
  Result<bool> RewrapKeychain(std::string_view cache_key, std::string_view before,
                              std::string_view after) override;
  Result<std::int64_t> PurgeKeychain(std::int64_t before_us) override;
  Status AddAudit(std::span<const AuditRow> rows) override;
  Result<std::vector<AuditRow>> ListAudit(const AuditFilter& filter) const override;

  // runtimes.cc
  Result<RuntimeRow> PutRuntime(RuntimeRow row) override;
  Result<std::optional<RuntimeRow>> FindRuntime(std::string_view kind,
                                                std::string_view name) const override;
  Result<bool> DeleteRuntime(std::string_view kind, std::string_view name) override;
  Result<std::vector<RuntimeRow>> ListRuntimes(std::string_view kind, std::string_view status,
                                               std::string_view name_part) const override;
  Result<std::int64_t> PurgeRuntimes(std::int64_t heartbeat_before_us) override;

  // variables.cc
  Status PutVariables(std::span<const VariableRow> rows) override;
  Result<std::vector<VariableRow>> ListVariables(std::int64_t execution_id) const override;
  Result<std::optional<VariableRow>> TakeVariable(std::int64_t execution_id, std::string_view name,
                                                  std::int64_t now_us) override;
  Result<bool> DeleteVariable(std::int64_t execution_id, std::string_view name) override;
  Result<std::int64_t> DeleteVariables(std::int64_t execution_id) override;

  // bodies.cc
  Result<ResultRow> PutResult(ResultRow row, std::string_view data) override;
  Result<std::vector<ResultRow>> ListResults(std::int64_t execution_id, std::int64_t after_id,
                                             std::int64_t limit) const override;
  Result<std::optional<ResultRow>> FindResult(std::int64_t execution_id,
                                              std::int64_t result_id) const override;
  Result<std::int64_t> DeleteResults(std::int64_t execution_id) override;
  Result<std::int64_t> PurgeResults(std::int64_t now_us, std::int64_t limit) override;
  Result<ObjectRow> PutObject(ObjectRow row) override;
  Result<std::optional<ObjectRow>> FindObject(std::string_view key) const override;
  Result<std::vector<std::string>> FindObjectKeys(std::string_view tail,
                                                  std::int64_t limit) const override;

  // request_keys.cc
  Result<RequestKeyRow> ClaimKey(const RequestKeyRow& row) override;
  Status ReleaseKey(std::int64_t scope, std::string_view key, std::int64_t execution_id) override;
  Result<std::int64_t> PurgeKeys(std::int64_t before_us) override;

  // outbox.cc
  Result<std::vector<OutboxRow>> ClaimOutbox(std::int64_t now_us, std::int64_t lease_us,
                                             std::int64_t limit) override;
  Result<std::int64_t> MarkPublished(std::span<const std::int64_t> ids,
                                     std::int64_t now_us) override;
  Result<bool> MarkFailed(std::int64_t id, std::string_view error,
                          std::int64_t available_at_us) override;
  Result<std::int64_t> CountOutbox(std::int64_t now_us, std::int64_t lease_us) const override;
  Result<std::int64_t> PurgeOutbox(std::int64_t before_us, std::int64_t limit) override;

  // subscriptions.cc
  Result<SubscriptionRow> RegisterSubscription(const SubscriptionRow& fresh, std::int64_t event_id,
                                               std::int64_t now_us) override;
  Result<std::optional<SubscriptionRow>> FindSubscription(std::int64_t id) const override;
  Result<std::vector<SubscriptionRow>> ListSubscriptions(std::int64_t before_id,
                                                         std::int64_t limit) const override;
  Result<SubscriptionRow> ActOnSubscription(std::int64_t id, std::string_view action,
                                            std::int64_t event_id, std::int64_t now_us) override;

  // gauges.cc
  Result<StoreGauges> Measure() const override;

  // console.cc
  Result<Answer> Query(std::string_view sql, std::span<const Json> parameters,
                       std::int64_t rows_max, std::int64_t timeout_ms) const override;

 protected:
  SqliteServer(const std::string& path, const SqliteOptions& options, Connection::Mode read_mode)
      : path_(path),
        vfs_(options.vfs),
        read_mode_(read_mode),
        objects_(options.directory + "/objects"),
        pool_(path, options.vfs, read_mode) {}

  std::unexpected<Error> ReadOnly() const;
  // One transaction; "read_only" when the store has no writer.
  Status Write(const std::function<Status(Connection&)>& work);
  // One statement that changes rows; gives their number. `bind` sets its parameters.
  using Bind = std::function<void(Statement&)>;
  Result<std::int64_t> Change(const char* sql, const Bind& bind);
  Result<std::int64_t> RemoveResults(const char* sql, const Bind& bind);

  const std::string path_;
  const std::string vfs_;
  const Connection::Mode read_mode_;
  const ObjectFiles objects_;
  std::unique_ptr<Writer> writer_;  // null when reading only
  // Closed before the writer, which then leaves one file behind.
  mutable ReadPool pool_;
};

}  // namespace noetl::store
