// Where the commands of a node get their secrets: the vault, then the keychain of their playbook.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/settings.h"
#include "conductor/conductor.h"
#include "store/store.h"
#include "vault/curl_fetcher.h"
#include "vault/keychain.h"
#include "vault/vault.h"

namespace noetl::cli {

class NodeSecrets final : public conductor::SecretSource {
 public:
  NodeSecrets(store::Store* store, vault::Vault* vault, Clock* clock, const Settings& settings);

  // {name, type, data}; a keychain entry has the type "keychain". Any thread.
  void FindSecret(std::string alias, std::int64_t execution_id,
                  bus::ServerEnd::Loaded found) override;
  Result<std::string> KeepInput(std::int64_t execution_id, std::string_view name,
                                const Json& value) override;

 private:
  Result<Json> FindInput(const std::string& alias) const;
  Result<vault::KeychainRequest> RequestOf(const std::string& alias,
                                           std::int64_t execution_id) const;

  store::Store* store_;
  vault::Vault* vault_;
  Clock* clock_;
  vault::CurlFetcher fetcher_;
  vault::Keychain keychain_;
};

}  // namespace noetl::cli
