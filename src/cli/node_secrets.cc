#include "cli/node_secrets.h"

#include <utility>

#include <fmt/format.h>

#include "cli/node.h"
#include "playbook/model.h"

namespace noetl::cli {

NodeSecrets::NodeSecrets(store::Store* store, vault::Vault* vault, Clock* clock,
                         const Settings& settings)
    : store_(store),
      vault_(vault),
      keychain_(vault, &fetcher_, clock,
                vault::KeychainOptions::From(settings, ProcessEnvironment())) {}

void NodeSecrets::FindSecret(std::string alias, std::int64_t execution_id,
                             bus::ServerEnd::Loaded found) {
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
