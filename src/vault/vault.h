// The vault: credentials and resolved secrets, encrypted at rest and audited when they are read.
//
// Every record has a data key of its own; the data key is wrapped with a master key (keys.h). The
// store holds envelopes only. Plain secrets leave the vault in one answer and are wiped after use.
// Each read of a secret leaves a row in the audit. Any thread.
//
// Errors: "not_found"; "invalid" (a field that cannot be used, with its name); "decrypt" (the
// record was not made with the keys of this server, or it was changed); those of the store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "base/settings.h"
#include "store/server.h"
#include "vault/keys.h"

namespace noetl::vault {

struct SecretStats;  // stats.h

struct Credential {
  std::int64_t id = 0;
  std::string name;
  std::string type;
  Json meta;  // or null
  std::optional<std::vector<std::string>> tags;
  std::string description;
  Json data;  // null unless it was asked for
  std::int64_t created_at_us = 0;
  std::int64_t updated_at_us = 0;

  // As the HTTP API shows it: id as text, absent members left out, data when it is there.
  Json ToJson() const;
};

// Who reads a secret, for the audit.
struct Reader {
  std::string worker_id;
  std::int64_t execution_id = 0;
  std::int64_t parent_execution_id = 0;
  std::string operation = "get_credential";
};

// A cache key that nobody gave an expiry: what belongs to one run lives short.
inline constexpr std::int64_t kLocalLifetimeUs = std::int64_t{600} * 1'000'000;
inline constexpr std::int64_t kGlobalLifetimeUs = std::int64_t{24} * 3600 * 1'000'000;
// The plain JSON of one secret. The largest seen are service accounts and certificate chains.
inline constexpr std::size_t kSecretBytesMax = 1u << 20;
// Names of credentials and of keychain entries.
inline constexpr std::size_t kNameBytesMax = 255;

struct KeychainKey {
  std::string name;
  std::int64_t catalog_id = 0;
  std::string scope_type = "global";  // local, global, shared
  std::int64_t execution_id = 0;

  // local: name:catalog:execution (or :local); shared: name:catalog:shared:execution (or :shared);
  // else name:catalog:global.
  std::string CacheKey() const;
};

struct KeychainEntry {
  enum class State : std::uint8_t { kFound, kExpired, kNotFound };
  State state = State::kNotFound;
  Json data;
  std::int64_t expires_at_us = 0;
  bool auto_renew = false;
  std::int64_t access_count = 0;
};

struct Rotation {
  std::int64_t processed = 0;
  std::int64_t rewrapped = 0;
  std::int64_t skipped = 0;
  std::int64_t failed = 0;
  std::int64_t last_id = 0;
};

struct VaultOptions {
  // New records open in their own row only (NOETL_ENVELOPE_AAD). Both kinds are read.
  bool bind_rows = false;

  static VaultOptions From(const Settings& settings);
};

class Vault {
 public:
  Vault(store::Secrets* store, std::shared_ptr<const Keys> keys, Clock* clock, IdSource* ids,
        VaultOptions options = {});
  ~Vault();

  // Makes or replaces the credential of this name.
  Result<Credential> Put(const Credential& credential);
  // `identifier` is an id (tried first) or a name. With data: audited.
  Result<Credential> Find(std::string_view identifier, bool with_data, const Reader& reader) const;
  Result<std::vector<Credential>> List(std::string_view type, std::string_view text,
                                       std::int64_t before_id, std::int64_t limit) const;
  Result<std::int64_t> Delete(std::string_view identifier);

  // The credential sealed to a worker's X25519 key (base64 of 32 bytes): {alg, v, eph_pub,
  // ciphertext}. "no_pubkey" when the key cannot be used.
  Result<Json> Seal(std::string_view identifier, std::string_view public_key,
                    const Reader& reader) const;
  // The same for a secret that is no stored credential; `name` is for the audit.
  Result<Json> SealGiven(std::string_view name, const Json& secret, std::string_view public_key,
                         const Reader& reader) const;

  // What is found is audited, as read for the run of the key, and its access counted.
  Result<KeychainEntry> FindKeychain(const KeychainKey& key);
  // The same for a caller that audits what it hands out.
  Result<KeychainEntry> PeekKeychain(const KeychainKey& key);
  // Expiry in the future; 0: the default of the scope. Gives the expiry. "invalid": an unknown
  // scope, or a local or shared entry without a run.
  Result<std::int64_t> PutKeychain(const KeychainKey& key, const Json& data,
                                   std::int64_t expires_at_us, bool auto_renew,
                                   const Json& renew_config);
  Result<bool> DeleteKeychain(const KeychainKey& key);

  // Wraps data keys anew that are not under the current master key.
  struct Rotated {
    Rotation credential;
    Rotation keychain;
  };
  Result<Rotated> Rotate(std::int64_t batch_size, std::int64_t batches_max);
  // How many records are under each version of the master key; "invalid" for broken ones.
  Result<Json> KeyStatus() const;
  // Whether the newest credential can be opened with the keys of this server: what a start checks
  // unless NOETL_KEY_CHECK is off. "decrypt".
  Status CheckKeys() const;

  // A row for a read that did not go through the calls above.
  Status Audit(const Reader& reader, std::string_view credential, std::string_view outcome,
               std::string_view notes = "") const;

  // What was counted so far, by the vault and by the keychain over it.
  SecretStats& stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace noetl::vault
