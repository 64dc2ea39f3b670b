// What a server keeps besides runs, behind small interfaces.
//
// Every store implements them all (store.h); the contract tests cover each. Calls may come from any
// thread; each write is one transaction and durable when it returns. Errors are those of store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "store/server_rows.h"

namespace noetl::store {

// Credentials and resolved secrets, encrypted by the caller.
class Secrets {
 public:
  virtual ~Secrets() = default;

  // Makes or replaces the credential of this name; id and created_at of an existing one stay.
  virtual Result<CredentialRow> PutCredential(CredentialRow row) = 0;
  virtual Result<std::optional<CredentialRow>> FindCredential(std::int64_t id) const = 0;
  virtual Result<std::optional<CredentialRow>> FindCredential(std::string_view name) const = 0;
  // Newest first, without data_encrypted. `type` is exact; `text` is a part of the name or the
  // description in any case; empty: any. Only ids below `before_id` unless it is 0.
  virtual Result<std::vector<CredentialRow>> ListCredentials(std::string_view type,
                                                             std::string_view text,
                                                             std::int64_t before_id,
                                                             std::int64_t limit) const = 0;
  // False: there was none.
  virtual Result<bool> DeleteCredential(std::int64_t id) = 0;
  // By id, with data_encrypted: to wrap keys anew.
  virtual Result<std::vector<CredentialRow>> ScanCredentials(std::int64_t after_id,
                                                             std::int64_t limit) const = 0;
  // Replaces the envelope when it is still `before`; false otherwise.
  virtual Result<bool> RewrapCredential(std::int64_t id, std::string_view before,
                                        std::string_view after) = 0;

  virtual Status PutKeychain(KeychainRow row) = 0;
  virtual Result<std::optional<KeychainRow>> FindKeychain(std::string_view cache_key) const = 0;
  // Counts a read: access_count grows by one. Gives the new count.
  virtual Result<std::int64_t> TouchKeychain(std::string_view cache_key, std::int64_t now_us) = 0;
  virtual Result<bool> DeleteKeychain(std::string_view cache_key) = 0;
  // Newest first, without data_encrypted.
  virtual Result<std::vector<KeychainRow>> ListKeychain(std::int64_t catalog_id,
                                                        std::int64_t limit) const = 0;
  virtual Result<std::vector<KeychainRow>> ScanKeychain(std::string_view after_key,
                                                        std::int64_t limit) const = 0;
  virtual Result<bool> RewrapKeychain(std::string_view cache_key, std::string_view before,
                                      std::string_view after) = 0;
  // Removes what expired before this time; gives the number.
  virtual Result<std::int64_t> PurgeKeychain(std::int64_t before_us) = 0;

  virtual Status AddAudit(std::span<const AuditRow> rows) = 0;
  struct AuditFilter {
    std::string credential;  // empty: any
    std::int64_t execution_id = 0;
    std::int64_t from_us = 0;
    std::int64_t to_us = 0;  // exclusive; 0: none
    std::int64_t limit = 100;
  };
  // Newest first.
  virtual Result<std::vector<AuditRow>> ListAudit(const AuditFilter& filter) const = 0;
};

// Workers that have registered.
class Runtimes {
 public:
  virtual ~Runtimes() = default;
  // Makes or replaces by (kind, name); runtime_id and created_at of an existing one stay.
  virtual Result<RuntimeRow> PutRuntime(RuntimeRow row) = 0;
  virtual Result<std::optional<RuntimeRow>> FindRuntime(std::string_view kind,
                                                        std::string_view name) const = 0;
  virtual Result<bool> DeleteRuntime(std::string_view kind, std::string_view name) = 0;
  // By kind and name. Empty: any kind; any status; `name_part` anywhere in the name.
  virtual Result<std::vector<RuntimeRow>> ListRuntimes(std::string_view kind,
                                                       std::string_view status,
                                                       std::string_view name_part) const = 0;
  virtual Result<std::int64_t> PurgeRuntimes(std::int64_t heartbeat_before_us) = 0;
};

// Values that steps of a run share; they go with the run.
class Variables {
 public:
  virtual ~Variables() = default;
  // All or none; of two with one name the last counts. created_at and access_count of existing
  // ones stay.
  virtual Status PutVariables(std::span<const VariableRow> rows) = 0;
  // By name; counts no access.
  virtual Result<std::vector<VariableRow>> ListVariables(std::int64_t execution_id) const = 0;
  // Counts the access; the row that comes back has it counted.
  virtual Result<std::optional<VariableRow>> TakeVariable(std::int64_t execution_id,
                                                          std::string_view name,
                                                          std::int64_t now_us) = 0;
  virtual Result<bool> DeleteVariable(std::int64_t execution_id, std::string_view name) = 0;
  virtual Result<std::int64_t> DeleteVariables(std::int64_t execution_id) = 0;
};

// Results that workers put, and bytes under names.
class Bodies {
 public:
  virtual ~Bodies() = default;
  // Stores `data` (JSON text in the stored form) as a result of the run. The same name and digest
  // again give the row that is there. `row` brings result_id, execution_id, name, scope,
  // source_step, created_at and expires_at; the rest is filled in. What is there already is kept as
  // long as the longest of those who put it want (result_lifetime.h). "not_found": no such run.
  virtual Result<ResultRow> PutResult(ResultRow row, std::string_view data) = 0;
  // By id; expired ones too, until they are purged.
  virtual Result<std::vector<ResultRow>> ListResults(std::int64_t execution_id,
                                                     std::int64_t after_id,
                                                     std::int64_t limit) const = 0;
  // nullopt: there is none, or it was not put by a worker.
  virtual Result<std::optional<ResultRow>> FindResult(std::int64_t execution_id,
                                                      std::int64_t result_id) const = 0;
  // Removes what workers put (not what the log refers to by itself); gives the number.
  virtual Result<std::int64_t> DeleteResults(std::int64_t execution_id) = 0;
  // Removes what has expired by now_us, and results of steps whose run has ended; at most `limit`.
  // Gives the number.
  virtual Result<std::int64_t> PurgeResults(std::int64_t now_us, std::int64_t limit) = 0;

  // Digest is filled in; the row comes back without its bytes.
  virtual Result<ObjectRow> PutObject(ObjectRow row) = 0;
  virtual Result<std::optional<ObjectRow>> FindObject(std::string_view key) const = 0;
  // Keys whose part from "execution=<id>/" on is `tail`, in order, at most `limit`. Such objects go
  // with the run.
  virtual Result<std::vector<std::string>> FindObjectKeys(std::string_view tail,
                                                          std::int64_t limit) const = 0;
};

// Keys of requests that must have one effect.
class RequestKeys {
 public:
  virtual ~RequestKeys() = default;
  // The row that has the key now: `row` itself when the key was free or has expired by
  // row.created_at, else the older one.
  virtual Result<RequestKeyRow> ClaimKey(const RequestKeyRow& row) = 0;
  // Gives the key back when this run still has it.
  virtual Status ReleaseKey(std::int64_t scope, std::string_view key,
                            std::int64_t execution_id) = 0;
  virtual Result<std::int64_t> PurgeKeys(std::int64_t before_us) = 0;
};

// Copies of events for somebody else to publish. Rows are made with each commit when the store was
// opened with `outbox`.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // Takes up to `limit` rows that are due, in order: pending, failed with their delay over, or taken
  // before now_us - lease_us and never marked. Counts an attempt.
  virtual Result<std::vector<OutboxRow>> ClaimOutbox(std::int64_t now_us, std::int64_t lease_us,
                                                     std::int64_t limit) = 0;
  // Gives how many of the ids there are.
  virtual Result<std::int64_t> MarkPublished(std::span<const std::int64_t> ids,
                                             std::int64_t now_us) = 0;
  // False: no such row, or it was published.
  virtual Result<bool> MarkFailed(std::int64_t id, std::string_view error,
                                  std::int64_t available_at_us) = 0;
  virtual Result<std::int64_t> CountOutbox(std::int64_t now_us, std::int64_t lease_us) const = 0;
  // Removes rows that were published before this time, at most `limit`; gives the number.
  virtual Result<std::int64_t> PurgeOutbox(std::int64_t before_us, std::int64_t limit) = 0;
};

// Subscriptions and what becomes of them. Each change is an event of the subscription's log and the
// new row, in one transaction; a path has at most one that is not deactivated.
class Subscriptions {
 public:
  virtual ~Subscriptions() = default;
  // The one of this path that is not deactivated, as it is; else a new one. `fresh` brings id, path
  // and catalog id, `event_id` is that of "subscription.registered". "not_found": the catalog does
  // not show this entry (any more).
  virtual Result<SubscriptionRow> RegisterSubscription(const SubscriptionRow& fresh,
                                                       std::int64_t event_id,
                                                       std::int64_t now_us) = 0;
  virtual Result<std::optional<SubscriptionRow>> FindSubscription(std::int64_t id) const = 0;
  // Newest first; only ids below `before_id` unless it is 0.
  virtual Result<std::vector<SubscriptionRow>> ListSubscriptions(std::int64_t before_id,
                                                                 std::int64_t limit) const = 0;
  // Does what the action says (subscription.h) and gives the new row. "not_found"; "invalid": no
  // such action, not in this state, or the path has another one that is not deactivated.
  virtual Result<SubscriptionRow> ActOnSubscription(std::int64_t id, std::string_view action,
                                                    std::int64_t event_id, std::int64_t now_us) = 0;
};

// Numbers that are cheap to find at any time.
class Gauges {
 public:
  virtual ~Gauges() = default;
  virtual Result<StoreGauges> Measure() const = 0;
};

// Reading with SQL, for people.
class SqlConsole {
 public:
  virtual ~SqlConsole() = default;
  struct Answer {
    std::vector<std::string> columns;
    std::vector<Json> rows;  // maps by column name
    bool truncated = false;
  };
  // One statement that only reads. `schema.table` works for the schema name "noetl". Errors:
  // "sql" with the message of the database, "timeout".
  virtual Result<Answer> Query(std::string_view sql, std::span<const Json> parameters,
                               std::int64_t rows_max, std::int64_t timeout_ms) const = 0;
};

}  // namespace noetl::store
