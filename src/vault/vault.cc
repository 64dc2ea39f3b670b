#include "vault/vault.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/crypto.h"
#include "base/json_io.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "vault/stats.h"

namespace noetl::vault {
namespace {

constexpr std::string_view kCredentialTable = "credential";
constexpr std::string_view kKeychainTable = "keychain";
constexpr std::array<std::string_view, 3> kScopes = {"local", "global", "shared"};
// A credential replaced by two writers at once is sealed again for the row that won.
constexpr int kPutAttemptsMax = 8;

constexpr std::string_view kSealAlgorithm = "x25519-hkdf-sha256-chacha20-poly1305";
constexpr std::string_view kSealAad = "x25519-hkdf-sha256-chacha20-poly1305|v=1";
constexpr std::string_view kSealInfo = "noetl-sealed-v1";

// Outcomes of the audit.
constexpr std::string_view kOk = "ok";
constexpr std::string_view kCredentialNotFound = "credential_not_found";
constexpr std::string_view kNoPublicKey = "no_pubkey";
constexpr std::string_view kFetchError = "provider_fetch_error";

std::optional<std::int64_t> IdFrom(std::string_view text) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id <= 0) return std::nullopt;
  return id;
}

std::unexpected<Error> NotFound(std::string_view identifier) {
  return Fail("not_found",
              fmt::format("credential '{}' not found", identifier.substr(0, kNameBytesMax)));
}

// Names end up in logs, audits and addresses.
Status CheckName(std::string_view field, std::string_view text) {
  if (Trim(text).empty()) return Fail("invalid", fmt::format("{} is blank", field));
  if (text.size() > kNameBytesMax) {
    return Fail("invalid", fmt::format("{} has more than {} bytes", field, kNameBytesMax));
  }
  if (FirstInvalidUtf8(text) || text.find('\0') != std::string_view::npos) {
    return Fail("invalid", fmt::format("{} is not a text", field));
  }
  return {};
}

// Without its data.
Credential FromRow(const store::CredentialRow& row) {
  Credential out{.id = row.id, .name = row.name, .type = row.type};
  if (!row.meta.empty()) out.meta = ParseJson(row.meta).value_or(Json());
  if (row.has_tags) out.tags = row.tags;
  out.description = row.description;
  out.created_at_us = row.created_at_us;
  out.updated_at_us = row.updated_at_us;
  return out;
}

void Wipe(Result<std::string>& text) {
  if (text) crypto::Wipe(*text);
}

}  // namespace

VaultOptions VaultOptions::From(const Settings& settings) {
  return {.bind_rows = settings.Bool("NOETL_ENVELOPE_AAD")};
}

Json Credential::ToJson() const {
  JsonObjectBuilder out;
  out.Add("id", std::to_string(id)).Add("name", name).Add("type", type).AddSome("meta", meta);
  if (tags) out.Add("tags", Json::Array(std::vector<Json>(tags->begin(), tags->end())));
  if (!description.empty()) out.Add("description", description);
  out.AddSome("data", data);
  out.Add("created_at", FormatTime(created_at_us)).Add("updated_at", FormatTime(updated_at_us));
  return out.Build();
}

std::string KeychainKey::CacheKey() const {
  if (scope_type == "local") {
    return execution_id == 0 ? fmt::format("{}:{}:local", name, catalog_id)
                             : fmt::format("{}:{}:{}", name, catalog_id, execution_id);
  }
  if (scope_type == "shared") {
    return execution_id == 0 ? fmt::format("{}:{}:shared", name, catalog_id)
                             : fmt::format("{}:{}:shared:{}", name, catalog_id, execution_id);
  }
  return fmt::format("{}:{}:global", name, catalog_id);
}

struct Vault::Impl {
  store::Secrets* store;
  std::shared_ptr<const Keys> keys;
  Clock* clock;
  IdSource* ids;
  VaultOptions options;
  std::unique_ptr<SecretStats> stats = std::make_unique<SecretStats>();

  static std::string CredentialAad(std::int64_t id) {
    return EnvelopeAad(kCredentialTable, std::to_string(id));
  }
  static std::string KeychainAad(std::string_view cache_key) {
    return EnvelopeAad(kKeychainTable, cache_key);
  }

  Result<std::string> Encrypt(const Json& data, const std::string& aad) const {
    std::string plain = WriteJson(data);
    const crypto::WipeAtEnd wipe(plain);
    if (plain.size() > kSecretBytesMax) {
      return Fail("invalid", fmt::format("data has more than {} bytes", kSecretBytesMax));
    }
    return SealEnvelope(*keys, plain, options.bind_rows ? aad : "");
  }

  Result<Json> Decrypt(std::string_view envelope, const std::string& aad) const {
    Result<std::string> plain = OpenEnvelope(*keys, envelope, aad);
    if (!plain) return std::unexpected(std::move(plain).error());
    Result<Json> data = ParseJson(*plain);
    Wipe(plain);
    // The message of the parser could quote the secret.
    if (!data) return Fail("decrypt", "the record holds no JSON");
    return data;
  }

  Result<std::optional<store::CredentialRow>> Row(std::string_view identifier) const {
    if (identifier.empty()) return std::nullopt;
    if (const std::optional<std::int64_t> id = IdFrom(identifier)) {
      NOETL_ASSIGN(std::optional<store::CredentialRow> row, store->FindCredential(*id));
      if (row) return row;
    }
    return store->FindCredential(identifier);
  }

  Status Audit(const Reader& reader, std::string_view credential, std::string_view outcome,
               std::string_view key_version, std::string_view notes) const {
    const store::AuditRow row{.audit_id = ids->Next(),
                              .occurred_at_us = clock->NowMicros(),
                              .credential = std::string(credential.substr(0, kNameBytesMax)),
                              .operation = reader.operation,
                              .outcome = std::string(outcome),
                              .worker_id = reader.worker_id,
                              .execution_id = reader.execution_id,
                              .parent_execution_id = reader.parent_execution_id,
                              .kek_version = std::string(key_version),
                              .notes = std::string(notes)};
    Status written = store->AddAudit({&row, 1});
    stats->Audited(reader.operation, outcome, written.has_value());
    return written;
  }

  // A read that failed keeps its own error; that it could not be audited is only logged.
  void AuditFailure(const Reader& reader, std::string_view credential, std::string_view outcome,
                    std::string_view key_version, std::string_view notes) const {
    if (const Status status = Audit(reader, credential, outcome, key_version, notes); !status) {
      LogError("the audit of a secret cannot be written", {{"error", status.error().message}});
    }
  }

  // The credential with its data, audited. A secret that cannot be audited is not given out.
  Result<Credential> Read(std::string_view identifier, const Reader& reader) const {
    NOETL_ASSIGN(const std::optional<store::CredentialRow> row, Row(identifier));
    if (!row) {
      AuditFailure(reader, identifier, kCredentialNotFound, "", "");
      return NotFound(identifier);
    }
    const std::string version = EnvelopeKeyVersion(row->data_encrypted).value_or("");
    Result<Json> data = Decrypt(row->data_encrypted, CredentialAad(row->id));
    if (!data) {
      AuditFailure(reader, row->name, kFetchError, version, "decrypt");
      return Fail(data.error().code,
                  fmt::format("credential '{}': {}", row->name, data.error().message));
    }
    NOETL_TRY(Audit(reader, row->name, kOk, version, ""));
    Credential out = FromRow(*row);
    out.data = *std::move(data);
    return out;
  }

  // What `read` gives, sealed with a key that only the worker can derive. Without a usable key
  // nothing is read.
  Result<Json> SealTo(std::string_view public_key, Reader reader, std::string_view name,
                      const std::function<Result<Json>(const Reader&)>& read) const {
    reader.operation = "get_sealed";
    const std::optional<std::string> bytes = crypto::Base64Decode(public_key);
    const std::optional<crypto::Key> worker_key =
        bytes ? crypto::KeyFrom(*bytes) : std::optional<crypto::Key>();
    crypto::X25519Pair ephemeral = crypto::MakeX25519Pair();
    const crypto::WipeAtEnd wipe_private(ephemeral.private_key);
    std::optional<crypto::Key> shared;
    if (worker_key) shared = crypto::X25519Derive(ephemeral.private_key, *worker_key);
    if (!shared) {
      AuditFailure(reader, name, kNoPublicKey, "", "");
      return Fail("no_pubkey", fmt::format("worker '{}' has no usable public key (base64 of 32 "
                                           "bytes X25519)",
                                           reader.worker_id));
    }
    const crypto::WipeAtEnd wipe_shared(*shared);
    NOETL_ASSIGN(const Json secret, read(reader));
    std::string plain = WriteJson(secret);
    const crypto::WipeAtEnd wipe_plain(plain);
    std::string derived = crypto::HkdfSha256(crypto::AsText(*shared), "", kSealInfo,
                                             crypto::kKeyBytes + crypto::kNonceBytes);
    const crypto::WipeAtEnd wipe_derived(derived);
    crypto::Key key = *crypto::KeyFrom(std::string_view(derived).substr(0, crypto::kKeyBytes));
    const crypto::WipeAtEnd wipe_key(key);
    crypto::Nonce nonce;
    std::ranges::copy(std::string_view(derived).substr(crypto::kKeyBytes), nonce.begin());
    const std::string sealed =
        crypto::Seal(crypto::Cipher::kChaCha20Poly1305, key, nonce, plain, kSealAad);
    return Json::Object({{"alg", kSealAlgorithm},
                         {"v", 1},
                         {"eph_pub", crypto::Base64Encode(crypto::AsText(ephemeral.public_key))},
                         {"ciphertext", crypto::Base64Encode(sealed)}});
  }

  Status RewrapOne(std::string_view envelope, const std::string& aad,
                   const std::function<Result<bool>(std::string_view)>& replace,
                   Rotation* rotation) const {
    ++rotation->processed;
    const Result<std::string> version = EnvelopeKeyVersion(envelope);
    if (version && *version == keys->current()) {
      ++rotation->skipped;
      return {};
    }
    const Result<std::string> after = RewrapEnvelope(*keys, envelope, aad);
    if (!after) {
      ++rotation->failed;
      return {};
    }
    NOETL_ASSIGN(const bool replaced, replace(*after));
    // Somebody has written the row meanwhile, which wraps it with the current key.
    ++(replaced ? rotation->rewrapped : rotation->skipped);
    return {};
  }

  Result<Rotation> RotateCredentials(std::int64_t batch_size, std::int64_t batches_max) const {
    Rotation out;
    for (std::int64_t batch = 0; batch < batches_max; ++batch) {
      NOETL_ASSIGN(const std::vector<store::CredentialRow> rows,
                   store->ScanCredentials(out.last_id, batch_size));
      for (const store::CredentialRow& row : rows) {
        const auto replace = [&](std::string_view after) {
          return store->RewrapCredential(row.id, row.data_encrypted, after);
        };
        NOETL_TRY(RewrapOne(row.data_encrypted, CredentialAad(row.id), replace, &out));
        out.last_id = row.id;
      }
      if (static_cast<std::int64_t>(rows.size()) < batch_size) break;
    }
    return out;
  }

  Result<Rotation> RotateKeychain(std::int64_t batch_size, std::int64_t batches_max) const {
    Rotation out;
    std::string last_key;
    for (std::int64_t batch = 0; batch < batches_max; ++batch) {
      NOETL_ASSIGN(const std::vector<store::KeychainRow> rows,
                   store->ScanKeychain(last_key, batch_size));
      for (const store::KeychainRow& row : rows) {
        const auto replace = [&](std::string_view after) {
          return store->RewrapKeychain(row.cache_key, row.data_encrypted, after);
        };
        NOETL_TRY(RewrapOne(row.data_encrypted, KeychainAad(row.cache_key), replace, &out));
        last_key = row.cache_key;
      }
      if (static_cast<std::int64_t>(rows.size()) < batch_size) break;
    }
    return out;
  }
};

Vault::Vault(store::Secrets* store, std::shared_ptr<const Keys> keys, Clock* clock, IdSource* ids,
             VaultOptions options)
    : impl_(std::make_unique<Impl>(Impl{store, std::move(keys), clock, ids, options})) {
  NOETL_CHECK(impl_->keys != nullptr, "a vault needs keys");
}

Vault::~Vault() = default;

SecretStats& Vault::stats() const { return *impl_->stats; }

Result<Credential> Vault::Put(const Credential& credential) {
  NOETL_TRY(CheckName("name", credential.name));
  NOETL_TRY(CheckName("type", credential.type));
  if (credential.data.is_null()) return Fail("invalid", "data is missing");
  const std::int64_t now = impl_->clock->NowMicros();
  store::CredentialRow row{.id = impl_->ids->Next(),
                           .name = credential.name,
                           .type = credential.type,
                           .description = credential.description,
                           .created_at_us = now,
                           .updated_at_us = now};
  if (!credential.meta.is_null()) {
    NOETL_ASSIGN(row.meta, WriteStoredJson(credential.meta));
  }
  if (credential.tags) {
    row.tags = *credential.tags;
    row.has_tags = true;
  }
  // A record that is bound to its row needs the id of the row before it is written.
  NOETL_ASSIGN(const std::optional<store::CredentialRow> existing,
               impl_->store->FindCredential(std::string_view(row.name)));
  if (existing) row.id = existing->id;
  for (int attempt = 0; attempt < kPutAttemptsMax; ++attempt) {
    NOETL_ASSIGN(row.data_encrypted, impl_->Encrypt(credential.data, Impl::CredentialAad(row.id)));
    NOETL_ASSIGN(store::CredentialRow stored, impl_->store->PutCredential(row));
    if (stored.id == row.id || !impl_->options.bind_rows) return FromRow(stored);
    row.id = stored.id;
  }
  return Fail("conflict",
              fmt::format("credential '{}' is being replaced by somebody else", row.name));
}

Result<Credential> Vault::Find(std::string_view identifier, bool with_data,
                               const Reader& reader) const {
  if (with_data) return impl_->Read(identifier, reader);
  NOETL_ASSIGN(const std::optional<store::CredentialRow> row, impl_->Row(identifier));
  if (!row) return NotFound(identifier);
  return FromRow(*row);
}

Result<std::vector<Credential>> Vault::List(std::string_view type, std::string_view text,
                                            std::int64_t before_id, std::int64_t limit) const {
  NOETL_ASSIGN(const std::vector<store::CredentialRow> rows,
               impl_->store->ListCredentials(type, text, before_id, limit));
  std::vector<Credential> out;
  out.reserve(rows.size());
  std::ranges::transform(rows, std::back_inserter(out), FromRow);
  return out;
}

Result<std::int64_t> Vault::Delete(std::string_view identifier) {
  NOETL_ASSIGN(const std::optional<store::CredentialRow> row, impl_->Row(identifier));
  if (!row) return NotFound(identifier);
  NOETL_ASSIGN(const bool deleted, impl_->store->DeleteCredential(row->id));
  if (!deleted) return NotFound(identifier);
  return row->id;
}

Result<Json> Vault::Seal(std::string_view identifier, std::string_view public_key,
                         const Reader& reader) const {
  return impl_->SealTo(public_key, reader, identifier, [&](const Reader& audited) -> Result<Json> {
    NOETL_ASSIGN(const Credential credential, impl_->Read(identifier, audited));
    return credential.ToJson();
  });
}

Result<Json> Vault::SealGiven(std::string_view name, const Json& secret,
                              std::string_view public_key, const Reader& reader) const {
  return impl_->SealTo(public_key, reader, name, [&](const Reader& audited) -> Result<Json> {
    NOETL_TRY(impl_->Audit(audited, name, kOk, "", ""));
    return secret;
  });
}

Result<KeychainEntry> Vault::PeekKeychain(const KeychainKey& key) {
  const std::string cache_key = key.CacheKey();
  NOETL_ASSIGN(const std::optional<store::KeychainRow> row, impl_->store->FindKeychain(cache_key));
  KeychainEntry out;
  if (!row) return out;
  out.expires_at_us = row->expires_at_us;
  out.auto_renew = row->auto_renew;
  out.access_count = row->access_count;
  const std::int64_t now = impl_->clock->NowMicros();
  if (row->expires_at_us <= now) {
    out.state = KeychainEntry::State::kExpired;
    return out;
  }
  NOETL_ASSIGN(out.data, impl_->Decrypt(row->data_encrypted, Impl::KeychainAad(cache_key)));
  out.state = KeychainEntry::State::kFound;
  Result<std::int64_t> count = impl_->store->TouchKeychain(cache_key, now);
  // Deleted since it was read: it was found all the same.
  if (!count && count.error().code == "not_found") return out;
  NOETL_ASSIGN(out.access_count, std::move(count));
  return out;
}

Result<KeychainEntry> Vault::FindKeychain(const KeychainKey& key) {
  const Reader reader{.execution_id = key.execution_id, .operation = "resolve_keychain"};
  Result<KeychainEntry> entry = PeekKeychain(key);
  if (!entry) {
    impl_->AuditFailure(reader, key.name, kFetchError, "", entry.error().code);
  } else if (entry->state == KeychainEntry::State::kFound) {
    NOETL_TRY(Audit(reader, key.name, kOk));
  }
  return entry;
}

Result<std::int64_t> Vault::PutKeychain(const KeychainKey& key, const Json& data,
                                        std::int64_t expires_at_us, bool auto_renew,
                                        const Json& renew_config) {
  NOETL_TRY(CheckName("name", key.name));
  if (std::ranges::find(kScopes, key.scope_type) == kScopes.end()) {
    return Fail("invalid", "scope_type is not one of local, global and shared");
  }
  if (key.scope_type != "global" && key.execution_id == 0) {
    return Fail("invalid", fmt::format("execution_id is missing: the scope is {}", key.scope_type));
  }
  const std::int64_t now = impl_->clock->NowMicros();
  if (expires_at_us == 0) {
    expires_at_us = now + (key.scope_type == "local" ? kLocalLifetimeUs : kGlobalLifetimeUs);
  }
  if (expires_at_us <= now) return Fail("invalid", "expires_at is in the past");
  store::KeychainRow row{.cache_key = key.CacheKey(),
                         .name = key.name,
                         .catalog_id = key.catalog_id,
                         .execution_id = key.scope_type == "global" ? 0 : key.execution_id,
                         .scope_type = key.scope_type,
                         .credential_type = "keychain",
                         .auto_renew = auto_renew,
                         .expires_at_us = expires_at_us,
                         .created_at_us = now};
  if (!renew_config.is_null()) {
    NOETL_ASSIGN(row.renew_config, WriteStoredJson(renew_config));
  }
  NOETL_ASSIGN(row.data_encrypted, impl_->Encrypt(data, Impl::KeychainAad(row.cache_key)));
  NOETL_TRY(impl_->store->PutKeychain(std::move(row)));
  return expires_at_us;
}

Result<bool> Vault::DeleteKeychain(const KeychainKey& key) {
  return impl_->store->DeleteKeychain(key.CacheKey());
}

Result<Vault::Rotated> Vault::Rotate(std::int64_t batch_size, std::int64_t batches_max) {
  if (batch_size < 1) return Fail("invalid", "batch_size must be 1 or more");
  if (batches_max < 1) return Fail("invalid", "max_batches must be 1 or more");
  Rotated out;
  NOETL_ASSIGN(out.credential, impl_->RotateCredentials(batch_size, batches_max));
  NOETL_ASSIGN(out.keychain, impl_->RotateKeychain(batch_size, batches_max));
  return out;
}

Result<Json> Vault::KeyStatus() const {
  constexpr std::int64_t kBatch = 500;
  using Counts = std::map<std::string, std::int64_t, std::less<>>;
  const auto count = [](std::string_view envelope, Counts* counts) {
    ++(*counts)[EnvelopeKeyVersion(envelope).value_or("invalid")];
  };
  const auto object = [](const Counts& counts) {
    JsonObjectBuilder out;
    for (const auto& [version, number] : counts) out.Add(version, number);
    return out.Build();
  };
  Counts credentials;
  for (std::int64_t last_id = 0;;) {
    NOETL_ASSIGN(const std::vector<store::CredentialRow> rows,
                 impl_->store->ScanCredentials(last_id, kBatch));
    for (const store::CredentialRow& row : rows) count(row.data_encrypted, &credentials);
    if (rows.empty()) break;
    last_id = rows.back().id;
  }
  Counts keychain;
  for (std::string last_key;;) {
    NOETL_ASSIGN(const std::vector<store::KeychainRow> rows,
                 impl_->store->ScanKeychain(last_key, kBatch));
    for (const store::KeychainRow& row : rows) count(row.data_encrypted, &keychain);
    if (rows.empty()) break;
    last_key = rows.back().cache_key;
  }
  return Json::Object({{"credential", object(credentials)}, {"keychain", object(keychain)}});
}

Status Vault::CheckKeys() const {
  NOETL_ASSIGN(const std::vector<store::CredentialRow> newest,
               impl_->store->ListCredentials("", "", 0, 1));
  if (newest.empty()) return {};
  NOETL_ASSIGN(const std::optional<store::CredentialRow> row,
               impl_->store->FindCredential(newest[0].id));
  if (!row) return {};
  Result<std::string> plain =
      OpenEnvelope(*impl_->keys, row->data_encrypted, Impl::CredentialAad(row->id));
  if (!plain) {
    return Fail("decrypt", fmt::format("the stored credential '{}' cannot be opened: {}; set the "
                                       "NOETL_ENCRYPTION_KEY that it was stored with",
                                       row->name, plain.error().message));
  }
  Wipe(plain);
  return {};
}

Status Vault::Audit(const Reader& reader, std::string_view credential, std::string_view outcome,
                    std::string_view notes) const {
  return impl_->Audit(reader, credential, outcome, "", notes);
}

}  // namespace noetl::vault
