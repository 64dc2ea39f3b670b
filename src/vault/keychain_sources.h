// Where the values of keychain entries come from, one function a kind.
//
// Errors are those of keychain.h. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "vault/fetcher.h"
#include "vault/keychain.h"
#include "vault/keychain_entry.h"
#include "vault/vault.h"

namespace noetl::vault {

struct MadeValue {
  Json value;
  std::int64_t expires_at_us = 0;  // as the issuer says; 0: it does not
};
using MadeDone = std::move_only_function<void(Result<MadeValue>)>;

struct Sources {
  Vault* vault;
  Fetcher* fetcher;
  Clock* clock;
  KeychainOptions options;
};

// `done` is called once, maybe before this returns. `sources` outlives that.
void MakeValue(std::shared_ptr<const Sources> sources, std::shared_ptr<const EntryRenderer> entry,
               const Reader& reader, MadeDone done);

}  // namespace noetl::vault
