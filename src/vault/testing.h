// Secrets in memory, for tests of the vault.
//
// Small maps under one lock, with the contract of the store. Any thread.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "store/server.h"

namespace noetl::vault {

class FakeSecrets final : public store::Secrets {
 public:
  Result<store::CredentialRow> PutCredential(store::CredentialRow row) override {
    const std::lock_guard lock(mutex_);
    for (auto& [id, other] : credentials_) {
      if (other.name != row.name) continue;
      row.id = id;
      row.created_at_us = other.created_at_us;
    }
    credentials_[row.id] = row;
    return row;
  }
  Result<std::optional<store::CredentialRow>> FindCredential(std::int64_t id) const override {
    const std::lock_guard lock(mutex_);
    const auto found = credentials_.find(id);
    if (found == credentials_.end()) return std::nullopt;
    return found->second;
  }
  Result<std::optional<store::CredentialRow>> FindCredential(std::string_view name) const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, row] : credentials_) {
      if (row.name == name) return row;
    }
    return std::nullopt;
  }
  Result<std::vector<store::CredentialRow>> ListCredentials(std::string_view type,
                                                            std::string_view text,
                                                            std::int64_t before_id,
                                                            std::int64_t limit) const override {
    const std::lock_guard lock(mutex_);
    std::vector<store::CredentialRow> out;
    for (auto it = credentials_.rbegin(); it != credentials_.rend(); ++it) {
      store::CredentialRow row = it->second;
      if (!type.empty() && row.type != type) continue;
      if (ToLower(row.name + " " + row.description).find(ToLower(text)) == std::string::npos) {
        continue;
      }
      if (before_id != 0 && row.id >= before_id) continue;
      if (static_cast<std::int64_t>(out.size()) == limit) break;
      row.data_encrypted.clear();
      out.push_back(std::move(row));
    }
    return out;
  }
  Result<bool> DeleteCredential(std::int64_t id) override {
    const std::lock_guard lock(mutex_);
    return credentials_.erase(id) == 1;
  }
  Result<std::vector<store::CredentialRow>> ScanCredentials(std::int64_t after_id,
                                                            std::int64_t limit) const override {
    const std::lock_guard lock(mutex_);
    return Scan(credentials_, after_id, limit);
  }
  Result<bool> RewrapCredential(std::int64_t id, std::string_view before,
                                std::string_view after) override {
    const std::lock_guard lock(mutex_);
    return Rewrap(credentials_, id, before, after);
  }

  Status PutKeychain(store::KeychainRow row) override {
    const std::lock_guard lock(mutex_);
    keychain_.insert_or_assign(row.cache_key, row);
    return {};
  }
  Result<std::optional<store::KeychainRow>> FindKeychain(std::string_view key) const override {
    const std::lock_guard lock(mutex_);
    const auto found = keychain_.find(std::string(key));
    if (found == keychain_.end()) return std::nullopt;
    return found->second;
  }
  Result<std::int64_t> TouchKeychain(std::string_view key, std::int64_t now_us) override {
    const std::lock_guard lock(mutex_);
    const auto found = keychain_.find(std::string(key));
    if (found == keychain_.end()) return Fail("not_found", "no such entry");
    found->second.accessed_at_us = now_us;
    return ++found->second.access_count;
  }
  Result<bool> DeleteKeychain(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    return keychain_.erase(std::string(key)) == 1;
  }
  Result<std::vector<store::KeychainRow>> ListKeychain(std::int64_t catalog_id,
                                                       std::int64_t limit) const override {
    const std::lock_guard lock(mutex_);
    std::vector<store::KeychainRow> out;
    for (const auto& [key, row] : keychain_) {
      if (row.catalog_id == catalog_id && static_cast<std::int64_t>(out.size()) < limit) {
        out.push_back(row);
      }
    }
    return out;
  }
  Result<std::vector<store::KeychainRow>> ScanKeychain(std::string_view after_key,
                                                       std::int64_t limit) const override {
    const std::lock_guard lock(mutex_);
    return Scan(keychain_, std::string(after_key), limit);
  }
  Result<bool> RewrapKeychain(std::string_view key, std::string_view before,
                              std::string_view after) override {
    const std::lock_guard lock(mutex_);
    return Rewrap(keychain_, std::string(key), before, after);
  }
  Result<std::int64_t> PurgeKeychain(std::int64_t before_us) override {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(std::erase_if(
        keychain_, [&](const auto& entry) { return entry.second.expires_at_us < before_us; }));
  }

  Status AddAudit(std::span<const store::AuditRow> rows) override {
    const std::lock_guard lock(mutex_);
    if (!audit_error_.empty()) return Fail("io", audit_error_);
    audit_.insert(audit_.end(), rows.begin(), rows.end());
    return {};
  }
  Result<std::vector<store::AuditRow>> ListAudit(const AuditFilter& /*filter*/) const override {
    return audit();
  }

  // For tests.
  std::vector<store::AuditRow> audit() const {
    const std::lock_guard lock(mutex_);
    return audit_;
  }
  void FailAudit(std::string error) {
    const std::lock_guard lock(mutex_);
    audit_error_ = std::move(error);
  }
  void SetEnvelope(std::int64_t id, std::string envelope) {
    const std::lock_guard lock(mutex_);
    credentials_[id].data_encrypted = std::move(envelope);
  }

 private:
  template <typename Key, typename Row>
  static std::vector<Row> Scan(const std::map<Key, Row>& rows, const Key& after,
                               std::int64_t limit) {
    std::vector<Row> out;
    for (auto it = rows.upper_bound(after);
         it != rows.end() && static_cast<std::int64_t>(out.size()) < limit; ++it) {
      out.push_back(it->second);
    }
    return out;
  }
  template <typename Key, typename Row>
  static bool Rewrap(std::map<Key, Row>& rows, const Key& key, std::string_view before,
                     std::string_view after) {
    const auto found = rows.find(key);
    if (found == rows.end() || found->second.data_encrypted != before) return false;
    found->second.data_encrypted = after;
    return true;
  }

  mutable std::mutex mutex_;
  std::map<std::int64_t, store::CredentialRow> credentials_;
  std::map<std::string, store::KeychainRow> keychain_;
  std::vector<store::AuditRow> audit_;
  std::string audit_error_;
};

}  // namespace noetl::vault
