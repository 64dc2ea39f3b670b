// What the vault and the keychain count of their work, for whoever watches the server.
//
// The words of the tables are those of the audit and of playbooks. Any thread adds and reads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/durations.h"

namespace noetl::vault {

// A word that a table does not have counts as its last.
inline constexpr std::array<std::string_view, 4> kAuditOperations = {"get_credential", "get_sealed",
                                                                     "resolve_keychain", "other"};
inline constexpr std::array<std::string_view, 6> kAuditOutcomes = {
    "ok", "credential_not_found", "no_pubkey", "provider_fetch_error", "template_error", "other"};
// Where secrets of keychain entries are fetched from.
inline constexpr std::array<std::string_view, 7> kProviders = {"env",  "file",   "vault", "k8s",
                                                               "http", "oauth2", "other"};

enum class Refreshed : std::uint8_t {
  kTriggered,  // a kept secret is about to expire
  kShared,     // somebody fetches it already
  kSucceeded,
  kFailed,
  kUnreadable,  // what is kept cannot be opened, so it is fetched anew
  kCount,
};

template <std::size_t kWords>
constexpr std::size_t IndexIn(const std::array<std::string_view, kWords>& words,
                              std::string_view word) {
  const auto* const found = std::ranges::find(words, word);
  return found == words.end() ? kWords - 1 : static_cast<std::size_t>(found - words.begin());
}

struct SecretStats {
  using Figure = std::atomic<std::int64_t>;
  using OkError = std::array<Figure, 2>;  // [0]: it worked

  std::array<std::array<OkError, kAuditOutcomes.size()>, kAuditOperations.size()> audits{};
  std::array<OkError, kProviders.size()> fetches{};
  std::array<Durations, kProviders.size()> fetch_times{};
  std::array<Figure, static_cast<std::size_t>(Refreshed::kCount)> refreshes{};

  static void Grow(Figure& figure) { figure.fetch_add(1, std::memory_order_relaxed); }

  void Audited(std::string_view operation, std::string_view outcome, bool written) {
    Grow(audits[IndexIn(kAuditOperations, operation)][IndexIn(kAuditOutcomes, outcome)]
               [written ? 0 : 1]);
  }
  void Fetched(std::string_view provider, bool ok, std::int64_t took_us) {
    const std::size_t index = IndexIn(kProviders, provider);
    Grow(fetches[index][ok ? 0 : 1]);
    fetch_times[index].Add(took_us);
  }
  void Count(Refreshed what) { Grow(refreshes[static_cast<std::size_t>(what)]); }
};

}  // namespace noetl::vault
