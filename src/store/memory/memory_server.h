// What a server keeps besides runs (server.h), in memory.
//
// A layer below the store in memory; results that workers put belong to runs and are kept there.
// Safe to use from many threads: one lock of its own, under which no other is taken.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "store/store.h"

namespace noetl::store {

class MemoryServer : public Store {
 public:
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

  Result<RuntimeRow> PutRuntime(RuntimeRow row) override;
  Result<std::optional<RuntimeRow>> FindRuntime(std::string_view kind,
                                                std::string_view name) const override;
  Result<bool> DeleteRuntime(std::string_view kind, std::string_view name) override;
  Result<std::vector<RuntimeRow>> ListRuntimes(std::string_view kind, std::string_view status,
                                               std::string_view name_part) const override;
  Result<std::int64_t> PurgeRuntimes(std::int64_t heartbeat_before_us) override;

  Status PutVariables(std::span<const VariableRow> rows) override;
  Result<std::vector<VariableRow>> ListVariables(std::int64_t execution_id) const override;
  Result<std::optional<VariableRow>> TakeVariable(std::int64_t execution_id, std::string_view name,
                                                  std::int64_t now_us) override;
  Result<bool> DeleteVariable(std::int64_t execution_id, std::string_view name) override;
  Result<std::int64_t> DeleteVariables(std::int64_t execution_id) override;

  Result<ObjectRow> PutObject(ObjectRow row) override;
  Result<std::optional<ObjectRow>> FindObject(std::string_view key) const override;
  Result<std::vector<std::string>> FindObjectKeys(std::string_view tail,
                                                  std::int64_t limit) const override;

  Result<RequestKeyRow> ClaimKey(const RequestKeyRow& row) override;
  Status ReleaseKey(std::int64_t scope, std::string_view key, std::int64_t execution_id) override;
  Result<std::int64_t> PurgeKeys(std::int64_t before_us) override;

  Result<std::vector<OutboxRow>> ClaimOutbox(std::int64_t now_us, std::int64_t lease_us,
                                             std::int64_t limit) override;
  Result<std::int64_t> MarkPublished(std::span<const std::int64_t> ids,
                                     std::int64_t now_us) override;
  Result<bool> MarkFailed(std::int64_t id, std::string_view error,
                          std::int64_t available_at_us) override;
  Result<std::int64_t> CountOutbox(std::int64_t now_us, std::int64_t lease_us) const override;
  Result<std::int64_t> PurgeOutbox(std::int64_t before_us, std::int64_t limit) override;

  Result<Answer> Query(std::string_view sql, std::span<const Json> parameters,
                       std::int64_t rows_max, std::int64_t timeout_ms) const override;

 protected:
  // Copies of events that were committed.
  void FillOutbox(const EventRow& row);
  // When the first copy that is not published was made; 0: there is none.
  std::int64_t OldestOutboxUs() const;
  // All that goes with a run.
  void ForgetRun(std::int64_t execution_id);

 private:
  enum class OutboxStatus { kPending, kInFlight, kPublished, kFailed };
  struct OutboxEntry {
    OutboxRow row;
    OutboxStatus status = OutboxStatus::kPending;
    std::int64_t available_at_us = 0;
    std::int64_t locked_at_us = 0;
    std::int64_t published_at_us = 0;
    std::int64_t created_at_us = 0;

    bool IsDue(std::int64_t now_us, std::int64_t lease_us) const;
  };
  using Name = std::pair<std::string, std::string>;
  using RunName = std::pair<std::int64_t, std::string>;

  mutable std::mutex mutex_;  // guards all that follows
  std::map<std::int64_t, CredentialRow> credentials_;
  std::map<std::string, KeychainRow, std::less<>> keychain_;
  std::map<std::int64_t, AuditRow> audit_;
  std::map<Name, RuntimeRow> runtimes_;  // by kind and name
  std::map<RunName, VariableRow> variables_;
  std::map<std::string, ObjectRow, std::less<>> objects_;
  std::map<RunName, RequestKeyRow> request_keys_;  // by scope and key
  std::map<std::int64_t, OutboxEntry> outbox_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> outbox_of_event_;
  std::int64_t last_outbox_id_ = 0;
};

}  // namespace noetl::store
