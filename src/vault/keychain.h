// Keychain entries of playbooks: from what a playbook declares to the secret it means.
//
// An entry is resolved when somebody asks for it, together with those declared before it that its
// templates name. What comes from elsewhere (HashiCorp Vault, Kubernetes, a token endpoint) is kept
// in the vault by scope until shortly before it expires, and fetched anew in the background when
// that is near; callers that ask at the same time share one fetch. Every value that is handed out
// leaves a row in the audit, and one that cannot be audited is not handed out. Any thread;
// callbacks come from the thread of the caller or of the fetcher. Vault, fetcher and clock live
// until every callback has been called.
//
// Kinds: credential (a stored credential), bearer, static, secrets (with provider env, file, vault,
// k8s), oauth2 and http. Paths of secrets are `mount/path#field` for vault, `[namespace/]name#key`
// for k8s, a variable for env and a file for file.
//
// Errors, never with a secret in them: "not_found" (no such entry or credential), "invalid" (the
// entry is wrong), "unsupported" (its kind or provider), "template", "refused" (what it reads is
// not offered), "unavailable" (the other side does not answer; trying again may help), "fetch" (it
// said no); those of the vault.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "base/settings.h"
#include "vault/fetcher.h"
#include "vault/vault.h"

namespace noetl::vault {

struct KeychainRequest {
  Json entries;   // the `keychain:` list of the playbook, templates verbatim
  Json workload;  // of the run
  std::string alias;
  std::int64_t catalog_id = 0;
  std::int64_t execution_id = 0;
  std::int64_t root_execution_id = 0;  // top of the tree of runs; 0: this run
  Reader reader;
};

struct KeychainOptions {
  // What the issuer lets expire is not used to the last moment.
  std::int64_t margin_us = std::int64_t{60} * 1'000'000;
  // With less left than this, a kept value is fetched anew in the background.
  std::int64_t refresh_us = std::int64_t{60} * 1'000'000;
  // Variables that entries may read: a playbook must not read the keys of the server.
  Settings::Variables environment;
  // The folder that entries may read files from; empty: none.
  std::string files_root;
  std::string vault_address;
  std::string vault_token;
  std::string kubernetes_url = "https://kubernetes.default.svc";
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";

  // KEYCHAIN_CACHE_*, NOETL_KEYCHAIN_ENV_VARS; VAULT_ADDR, VAULT_TOKEN and KUBERNETES_SERVICE_*
  // of the environment.
  static KeychainOptions From(const Settings& settings, const Settings::Variables& environment);
};

class Keychain {
 public:
  // From a provider of secrets a value is kept this long at most, and any value this long at least.
  static constexpr std::int64_t kProviderLifetimeUs = std::int64_t{600} * 1'000'000;
  static constexpr std::int64_t kLifetimeMinUs = std::int64_t{5} * 1'000'000;
  // Entries may depend on each other in a chain; more than this nobody writes by hand.
  static constexpr std::size_t kEntriesMax = 256;

  using Done = std::move_only_function<void(Result<Json>)>;

  Keychain(Vault* vault, Fetcher* fetcher, Clock* clock, KeychainOptions options);
  ~Keychain();

  // `done` is called once, maybe before this returns.
  void Resolve(KeychainRequest request, Done done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace noetl::vault
