#include "cli/node_secrets.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "cli/node.h"
#include "playbook/model.h"

namespace noetl::cli {

namespace {

// "input/<run>/<name>" in the log, "input/<name>" of the run in the vault.
constexpr std::string_view kInput = "input/";
// Inputs go with their run; what is left of a start that failed goes after this time.
constexpr std::int64_t kInputLifetimeUs = std::int64_t{400} * 86'400 * 1'000'000;

vault::KeychainKey InputKey(std::int64_t execution_id, std::string_view name) {
  return {.name = fmt::format("{}{}", kInput, name),
          .scope_type = "local",
          .execution_id = execution_id};
}

}  // namespace

NodeSecrets::NodeSecrets(store::Store* store, vault::Vault* vault, Clock* clock,
                         const Settings& settings)
    : store_(store),
      vault_(vault),
      clock_(clock),
      keychain_(vault, &fetcher_, clock,
                vault::KeychainOptions::From(settings, ProcessEnvironment())) {}

void NodeSecrets::FindSecret(std::string alias, std::int64_t execution_id,
                             bus::ServerEnd::Loaded found) {
  if (alias.starts_with(kInput)) return found(FindInput(alias));
  const vault::Reader reader{.execution_id = execution_id};
  const Result<vault::Credential> credential = vault_->Find(alias, true, reader);
  if (credential) {
    return found(Json::Object(
        {{"name", credential->name}, {"type", credential->type}, {"data", credential->data}}));
  }
  if (credential.error().code != "not_found" || execution_id == 0)
    return found(std::unexpected(credential.error()));
  Result<vault::KeychainRequest> request = RequestOf(alias, execution_id);
  if (!request) return found(std::unexpected(request.error()));
  request->reader = reader;
  keychain_.Resolve(
      *std::move(request), [alias, found = std::move(found)](Result<Json> data) mutable {
        if (!data) return found(std::unexpected(data.error()));
        found(Json::Object({{"name", alias}, {"type", "keychain"}, {"data", *std::move(data)}}));
      });
}

Result<std::string> NodeSecrets::KeepInput(std::int64_t execution_id, std::string_view name,
                                           const Json& value) {
  NOETL_TRY(vault_->PutKeychain(InputKey(execution_id, name), Json::Object({{"value", value}}),
                                clock_->NowMicros() + kInputLifetimeUs, false, Json()));
  return fmt::format("{}{}/{}", kInput, execution_id, name);
}

Result<Json> NodeSecrets::FindInput(const std::string& alias) const {
  const std::string_view rest = std::string_view(alias).substr(kInput.size());
  const std::size_t slash = rest.find('/');
  std::int64_t owner = 0;
  std::from_chars(rest.data(), rest.data() + std::min(slash, rest.size()), owner);
  if (slash != std::string_view::npos && owner != 0) {
    NOETL_ASSIGN(const vault::KeychainEntry entry,
                 vault_->FindKeychain(InputKey(owner, rest.substr(slash + 1))));
    if (entry.state == vault::KeychainEntry::State::kFound)
      return Json::Object({{"name", alias}, {"type", "input"}, {"data", entry.data}});
  }
  return Fail(
      "not_found",
      fmt::format("the secret input '{}' is not kept any more: its run was removed", alias));
}

Result<vault::KeychainRequest> NodeSecrets::RequestOf(const std::string& alias,
                                                      std::int64_t execution_id) const {
  const auto unknown = [&] {
    return Fail("not_found", fmt::format("there is no credential '{}' and no such entry in the "
                                         "keychain of the playbook",
                                         alias));
  };
  NOETL_ASSIGN(const auto run, store_->Find(execution_id));
  if (!run) return unknown();
  NOETL_ASSIGN(const auto entry, store_->FindEntry(run->catalog_id));
  NOETL_ASSIGN(const auto first, store_->ReadEvents(execution_id, 0, 1));
  if (!entry || first.empty()) return unknown();
  const playbook::Loaded loaded = playbook::Load(entry->content);
  if (!loaded.ok() || loaded.playbook->keychain.empty()) return unknown();
  return vault::KeychainRequest{.entries = loaded.playbook->keychain,
                                .workload = first.front().context["workload"],
                                .alias = alias,
                                .catalog_id = run->catalog_id,
                                .execution_id = execution_id};
}

}  // namespace noetl::cli
