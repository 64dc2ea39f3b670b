#include "store/memory/memory_server.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/text.h"
#include "store/reference.h"

namespace noetl::store {

namespace {

using Lock = std::lock_guard<std::mutex>;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <typename T>
void Shorten(std::vector<T>& rows, std::int64_t limit) {
  if (std::ssize(rows) > limit)
    rows.resize(static_cast<std::size_t>(std::max<std::int64_t>(limit, 0)));
}

template <typename Map, typename Key>
auto FindIn(const Map& map, const Key& key) -> std::optional<typename Map::mapped_type> {
  const auto found = map.find(key);
  return found == map.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

// ---- credentials

Result<CredentialRow> MemoryServer::PutCredential(CredentialRow row) {
  Lock lock(mutex_);
  for (auto& [id, stored] : credentials_) {
    if (stored.name != row.name) continue;
    row.id = id;
    row.created_at_us = stored.created_at_us;
    return stored = std::move(row);
  }
  if (credentials_.contains(row.id))
    return Fail("bad_row", fmt::format("credential id {} is taken", row.id));
  return credentials_[row.id] = std::move(row);
}

Result<std::optional<CredentialRow>> MemoryServer::FindCredential(std::int64_t id) const {
  Lock lock(mutex_);
  return FindIn(credentials_, id);
}

Result<std::optional<CredentialRow>> MemoryServer::FindCredential(std::string_view name) const {
  Lock lock(mutex_);
  for (const auto& [id, row] : credentials_) {
    if (row.name == name) return row;
  }
  return std::nullopt;
}

Result<std::vector<CredentialRow>> MemoryServer::ListCredentials(std::string_view type,
                                                                 std::string_view text,
                                                                 std::int64_t before_id,
                                                                 std::int64_t limit) const {
  Lock lock(mutex_);
  const std::string wanted = ToLower(text);
  std::vector<CredentialRow> rows;
  for (auto at = credentials_.rbegin(); at != credentials_.rend(); ++at) {
    const CredentialRow& row = at->second;
    if (std::ssize(rows) >= limit) break;
    if (!type.empty() && row.type != type) continue;
    if (before_id != 0 && row.id >= before_id) continue;
    if (!Contains(ToLower(row.name), wanted) && !Contains(ToLower(row.description), wanted))
      continue;
    rows.push_back(row);
    rows.back().data_encrypted.clear();
  }
  return rows;
}

Result<bool> MemoryServer::DeleteCredential(std::int64_t id) {
  Lock lock(mutex_);
  return credentials_.erase(id) > 0;
}

Result<std::vector<CredentialRow>> MemoryServer::ScanCredentials(std::int64_t after_id,
                                                                 std::int64_t limit) const {
  Lock lock(mutex_);
  std::vector<CredentialRow> rows;
  for (auto at = credentials_.upper_bound(after_id); at != credentials_.end(); ++at) {
    if (std::ssize(rows) >= limit) break;
    rows.push_back(at->second);
  }
  return rows;
}

Result<bool> MemoryServer::RewrapCredential(std::int64_t id, std::string_view before,
                                            std::string_view after) {
  Lock lock(mutex_);
  const auto found = credentials_.find(id);
  if (found == credentials_.end() || found->second.data_encrypted != before) return false;
  found->second.data_encrypted = after;
  return true;
}

// ---- keychain

Status MemoryServer::PutKeychain(KeychainRow row) {
  Lock lock(mutex_);
  std::string key = row.cache_key;
  keychain_.insert_or_assign(std::move(key), std::move(row));
  return {};
}

Result<std::optional<KeychainRow>> MemoryServer::FindKeychain(std::string_view cache_key) const {
  Lock lock(mutex_);
  return FindIn(keychain_, cache_key);
}

Result<std::int64_t> MemoryServer::TouchKeychain(std::string_view cache_key, std::int64_t now_us) {
  Lock lock(mutex_);
  const auto found = keychain_.find(cache_key);
  if (found == keychain_.end())
    return Fail("not_found", fmt::format("the keychain has no '{}'", cache_key));
  found->second.accessed_at_us = now_us;
  return ++found->second.access_count;
}

Result<bool> MemoryServer::DeleteKeychain(std::string_view cache_key) {
  Lock lock(mutex_);
  return keychain_.erase(std::string(cache_key)) > 0;
}

Result<std::vector<KeychainRow>> MemoryServer::ListKeychain(std::int64_t catalog_id,
                                                            std::int64_t limit) const {
  Lock lock(mutex_);
  std::vector<KeychainRow> rows;
  for (const auto& [key, row] : keychain_) {
    if (row.catalog_id == catalog_id) rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end(), [](const KeychainRow& a, const KeychainRow& b) {
    return std::tie(a.created_at_us, a.cache_key) > std::tie(b.created_at_us, b.cache_key);
  });
  Shorten(rows, limit);
  for (KeychainRow& row : rows) row.data_encrypted.clear();
  return rows;
}

Result<std::vector<KeychainRow>> MemoryServer::ScanKeychain(std::string_view after_key,
                                                            std::int64_t limit) const {
  Lock lock(mutex_);
  std::vector<KeychainRow> rows;
  for (auto at = keychain_.upper_bound(after_key); at != keychain_.end(); ++at) {
    if (std::ssize(rows) >= limit) break;
    rows.push_back(at->second);
  }
  return rows;
}

Result<bool> MemoryServer::RewrapKeychain(std::string_view cache_key, std::string_view before,
                                          std::string_view after) {
  Lock lock(mutex_);
  const auto found = keychain_.find(cache_key);
  if (found == keychain_.end() || found->second.data_encrypted != before) return false;
  found->second.data_encrypted = after;
  return true;
}

Result<std::int64_t> MemoryServer::PurgeKeychain(std::int64_t before_us) {
  Lock lock(mutex_);
  return static_cast<std::int64_t>(std::erase_if(keychain_, [&](const auto& entry) {
    return entry.second.expires_at_us != 0 && entry.second.expires_at_us < before_us;
  }));
}

// ---- audit

Status MemoryServer::AddAudit(std::span<const AuditRow> rows) {
  Lock lock(mutex_);
  std::map<std::int64_t, AuditRow> added;
  for (const AuditRow& row : rows) {
    if (audit_.contains(row.audit_id) || !added.emplace(row.audit_id, row).second)
      return Fail("bad_row", fmt::format("audit id {} is taken", row.audit_id));
  }
  audit_.merge(added);
  return {};
}

Result<std::vector<AuditRow>> MemoryServer::ListAudit(const AuditFilter& filter) const {
  Lock lock(mutex_);
  std::vector<AuditRow> rows;
  for (const auto& [id, row] : audit_) {
    if ((filter.credential.empty() || row.credential == filter.credential) &&
        (filter.execution_id == 0 || row.execution_id == filter.execution_id) &&
        row.occurred_at_us >= filter.from_us &&
        (filter.to_us == 0 || row.occurred_at_us < filter.to_us)) {
      rows.push_back(row);
    }
  }
  std::sort(rows.begin(), rows.end(), [](const AuditRow& a, const AuditRow& b) {
    return std::tie(a.occurred_at_us, a.audit_id) > std::tie(b.occurred_at_us, b.audit_id);
  });
  Shorten(rows, filter.limit);
  return rows;
}

// ---- runtimes

Result<RuntimeRow> MemoryServer::PutRuntime(RuntimeRow row) {
  Lock lock(mutex_);
  const auto found = runtimes_.find({row.kind, row.name});
  if (found != runtimes_.end()) {
    row.runtime_id = found->second.runtime_id;
    row.created_at_us = found->second.created_at_us;
  } else if (std::any_of(runtimes_.begin(), runtimes_.end(), [&](const auto& entry) {
               return entry.second.runtime_id == row.runtime_id;
             })) {
    return Fail("bad_row", fmt::format("runtime id {} is taken", row.runtime_id));
  }
  return runtimes_[{row.kind, row.name}] = std::move(row);
}

Result<std::optional<RuntimeRow>> MemoryServer::FindRuntime(std::string_view kind,
                                                            std::string_view name) const {
  Lock lock(mutex_);
  return FindIn(runtimes_, Name(kind, name));
}

Result<bool> MemoryServer::DeleteRuntime(std::string_view kind, std::string_view name) {
  Lock lock(mutex_);
  return runtimes_.erase(Name(kind, name)) > 0;
}

Result<std::vector<RuntimeRow>> MemoryServer::ListRuntimes(std::string_view kind,
                                                           std::string_view status,
                                                           std::string_view name_part) const {
  Lock lock(mutex_);
  std::vector<RuntimeRow> rows;
  for (const auto& [key, row] : runtimes_) {
    if ((kind.empty() || row.kind == kind) && (status.empty() || row.status == status) &&
        Contains(row.name, name_part)) {
      rows.push_back(row);
    }
  }
  return rows;
}

Result<std::int64_t> MemoryServer::PurgeRuntimes(std::int64_t heartbeat_before_us) {
  Lock lock(mutex_);
  return static_cast<std::int64_t>(std::erase_if(runtimes_, [&](const auto& entry) {
    return entry.second.heartbeat_us < heartbeat_before_us;
  }));
}

// ---- variables

Status MemoryServer::PutVariables(std::span<const VariableRow> rows) {
  Lock lock(mutex_);
  for (const VariableRow& row : rows) {
    const auto [at, added] = variables_.try_emplace({row.execution_id, row.name}, row);
    if (added) continue;
    at->second.type = row.type;
    at->second.value = row.value;
    at->second.source_step = row.source_step;
  }
  return {};
}

Result<std::vector<VariableRow>> MemoryServer::ListVariables(std::int64_t execution_id) const {
  Lock lock(mutex_);
  std::vector<VariableRow> rows;
  for (auto at = variables_.lower_bound({execution_id, ""});
       at != variables_.end() && at->first.first == execution_id; ++at) {
    rows.push_back(at->second);
  }
  return rows;
}

Result<std::optional<VariableRow>> MemoryServer::TakeVariable(std::int64_t execution_id,
                                                              std::string_view name,
                                                              std::int64_t now_us) {
  Lock lock(mutex_);
  const auto found = variables_.find({execution_id, std::string(name)});
  if (found == variables_.end()) return std::nullopt;
  ++found->second.access_count;
  found->second.accessed_at_us = now_us;
  return found->second;
}

Result<bool> MemoryServer::DeleteVariable(std::int64_t execution_id, std::string_view name) {
  Lock lock(mutex_);
  return variables_.erase({execution_id, std::string(name)}) > 0;
}

Result<std::int64_t> MemoryServer::DeleteVariables(std::int64_t execution_id) {
  Lock lock(mutex_);
  return static_cast<std::int64_t>(std::erase_if(
      variables_, [&](const auto& entry) { return entry.first.first == execution_id; }));
}

// ---- objects

Result<ObjectRow> MemoryServer::PutObject(ObjectRow row) {
  Lock lock(mutex_);
  row.digest = Sha256Hex(row.bytes);
  objects_.insert_or_assign(row.key, row);
  row.bytes.clear();
  return row;
}

Result<std::optional<ObjectRow>> MemoryServer::FindObject(std::string_view key) const {
  Lock lock(mutex_);
  return FindIn(objects_, key);
}

Result<std::vector<std::string>> MemoryServer::FindObjectKeys(std::string_view tail,
                                                              std::int64_t limit) const {
  Lock lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, object] : objects_) {
    if (!tail.empty() && ObjectTail(key) == tail) keys.push_back(key);
  }
  Shorten(keys, limit);
  return keys;
}

// ---- request keys

Result<RequestKeyRow> MemoryServer::ClaimKey(const RequestKeyRow& row) {
  Lock lock(mutex_);
  const auto [at, added] = request_keys_.try_emplace({row.scope, row.key}, row);
  const std::int64_t expires_at_us = at->second.expires_at_us;
  if (!added && expires_at_us != 0 && expires_at_us <= row.created_at_us) at->second = row;
  return at->second;
}

Status MemoryServer::ReleaseKey(std::int64_t scope, std::string_view key,
                                std::int64_t execution_id) {
  Lock lock(mutex_);
  const auto found = request_keys_.find({scope, std::string(key)});
  if (found != request_keys_.end() && found->second.execution_id == execution_id)
    request_keys_.erase(found);
  return {};
}

Result<std::int64_t> MemoryServer::PurgeKeys(std::int64_t before_us) {
  Lock lock(mutex_);
  return static_cast<std::int64_t>(std::erase_if(request_keys_, [&](const auto& entry) {
    return entry.second.expires_at_us != 0 && entry.second.expires_at_us < before_us;
  }));
}

// ---- outbox

bool MemoryServer::OutboxEntry::IsDue(std::int64_t now_us, std::int64_t lease_us) const {
  switch (status) {
    case OutboxStatus::kPending:
    case OutboxStatus::kFailed: return available_at_us <= now_us;
    case OutboxStatus::kInFlight: return locked_at_us < now_us - lease_us;
    case OutboxStatus::kPublished: return false;
  }
  return false;
}

void MemoryServer::FillOutbox(const EventRow& row) {
  Lock lock(mutex_);
  const engine::Event& event = row.event;
  const auto [at, added] =
      outbox_of_event_.try_emplace({event.execution_id, event.event_id}, last_outbox_id_ + 1);
  if (!added) return;
  const std::int64_t id = ++last_outbox_id_;
  outbox_[id].created_at_us = event.ingest_us;
  outbox_[id].row = {.outbox_id = id,
                     .execution_id = event.execution_id,
                     .event_id = event.event_id,
                     .seq = event.seq,
                     .event_type = std::string(event.type_name)};
}

std::int64_t MemoryServer::OldestOutboxUs() const {
  Lock lock(mutex_);
  for (const auto& [id, entry] : outbox_) {
    if (entry.status != OutboxStatus::kPublished) return entry.created_at_us;
  }
  return 0;
}

Result<std::int64_t> MemoryServer::PurgeOutbox(std::int64_t before_us, std::int64_t limit) {
  Lock lock(mutex_);
  std::int64_t removed = 0;
  for (auto at = outbox_.begin(); at != outbox_.end() && removed < limit;) {
    const OutboxEntry& entry = at->second;
    if (entry.status != OutboxStatus::kPublished || entry.published_at_us >= before_us) {
      ++at;
      continue;
    }
    outbox_of_event_.erase({entry.row.execution_id, entry.row.event_id});
    at = outbox_.erase(at);
    ++removed;
  }
  return removed;
}

Result<std::vector<OutboxRow>> MemoryServer::ClaimOutbox(std::int64_t now_us, std::int64_t lease_us,
                                                         std::int64_t limit) {
  Lock lock(mutex_);
  std::vector<OutboxRow> rows;
  for (auto& [id, entry] : outbox_) {
    if (std::ssize(rows) >= limit) break;
    if (!entry.IsDue(now_us, lease_us)) continue;
    entry.status = OutboxStatus::kInFlight;
    entry.locked_at_us = now_us;
    ++entry.row.attempts;
    rows.push_back(entry.row);
  }
  return rows;
}

Result<std::int64_t> MemoryServer::MarkPublished(std::span<const std::int64_t> ids,
                                                 std::int64_t now_us) {
  Lock lock(mutex_);
  std::int64_t marked = 0;
  for (const std::int64_t id : ids) {
    const auto found = outbox_.find(id);
    if (found == outbox_.end()) continue;
    if (found->second.status != OutboxStatus::kPublished) found->second.published_at_us = now_us;
    found->second.status = OutboxStatus::kPublished;
    ++marked;
  }
  return marked;
}

Result<bool> MemoryServer::MarkFailed(std::int64_t id, std::string_view,
                                      std::int64_t available_at_us) {
  Lock lock(mutex_);
  const auto found = outbox_.find(id);
  if (found == outbox_.end() || found->second.status == OutboxStatus::kPublished) return false;
  found->second.status = OutboxStatus::kFailed;
  found->second.available_at_us = available_at_us;
  return true;
}

Result<std::int64_t> MemoryServer::CountOutbox(std::int64_t now_us, std::int64_t lease_us) const {
  Lock lock(mutex_);
  return static_cast<std::int64_t>(
      std::count_if(outbox_.begin(), outbox_.end(),
                    [&](const auto& entry) { return entry.second.IsDue(now_us, lease_us); }));
}

Result<SqlConsole::Answer> MemoryServer::Query(std::string_view, std::span<const Json>,
                                               std::int64_t, std::int64_t) const {
  return Fail("sql", "SQL is not available: this store keeps everything in memory");
}

void MemoryServer::ForgetRun(std::int64_t execution_id) {
  Lock lock(mutex_);
  std::erase_if(variables_, [&](const auto& entry) { return entry.first.first == execution_id; });
  std::erase_if(keychain_, [&](const auto& entry) {
    return entry.second.execution_id == execution_id && entry.second.scope_type == "local";
  });
  std::erase_if(request_keys_,
                [&](const auto& entry) { return entry.second.execution_id == execution_id; });
  const std::string tail = fmt::format("execution={}/", execution_id);
  std::erase_if(objects_,
                [&](const auto& entry) { return ObjectTail(entry.first).starts_with(tail); });
  std::erase_if(outbox_,
                [&](const auto& entry) { return entry.second.row.execution_id == execution_id; });
  std::erase_if(outbox_of_event_,
                [&](const auto& entry) { return entry.first.first == execution_id; });
}

}  // namespace noetl::store
