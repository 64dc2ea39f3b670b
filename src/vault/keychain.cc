#include "vault/keychain.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/log.h"
#include "vault/keychain_entry.h"
#include "vault/keychain_sources.h"
#include "vault/stats.h"

namespace noetl::vault {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;

// What the audit calls an error.
struct Outcome {
  std::string_view code;
  std::string_view outcome;
};
constexpr Outcome kOutcomes[] = {{"not_found", "credential_not_found"},
                                 {"template", "template_error"}};

std::string_view OutcomeOf(const Error& error) {
  const auto* const found = std::ranges::find(kOutcomes, error.code, &Outcome::code);
  return found == std::end(kOutcomes) ? "provider_fetch_error" : found->outcome;
}

std::optional<std::size_t> IndexOf(const Json& entries, std::string_view alias) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries.At(i)["name"].AsString() == alias) return i;
  }
  return std::nullopt;
}

// One request on its way: what it asked and what was found for it so far. Its parts run one after
// the other, whatever threads they run on.
struct Run {
  KeychainRequest request;
  Json values = Json::Object();  // of entries, by name
};

}  // namespace

KeychainOptions KeychainOptions::From(const Settings& settings,
                                      const Settings::Variables& environment) {
  KeychainOptions out;
  out.margin_us = settings.DurationMs("KEYCHAIN_CACHE_DYNAMIC_SAFETY_MARGIN_SECS") * 1000;
  out.refresh_us = settings.DurationMs("KEYCHAIN_CACHE_REFRESH_WINDOW_SECS") * 1000;
  for (const std::string& name : settings.List("NOETL_KEYCHAIN_ENV_VARS")) {
    // Our own secrets stay ours, whatever the list says.
    const Setting* own = FindSetting(name);
    if (own != nullptr && own->type == SettingType::kSecret) continue;
    if (const auto found = environment.find(name); found != environment.end()) {
      out.environment.insert(*found);
    }
  }
  const auto variable = [&environment](std::string_view name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  out.vault_address = variable("VAULT_ADDR");
  out.vault_token = variable("VAULT_TOKEN");
  const std::string host = variable("KUBERNETES_SERVICE_HOST");
  if (!host.empty()) {
    const std::string port = variable("KUBERNETES_SERVICE_PORT");
    const bool bare_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
    out.kubernetes_url = fmt::format("https://{}:{}", bare_v6 ? "[" + host + "]" : host,
                                     port.empty() ? "443" : port);
  }
  return out;
}

class Keychain::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Vault* vault, Fetcher* fetcher, Clock* clock, KeychainOptions options)
      : sources_(
            std::make_shared<const Sources>(Sources{vault, fetcher, clock, std::move(options)})) {}

  void Resolve(KeychainRequest request, Done done) {
    auto run = std::make_shared<Run>(Run{.request = std::move(request)});
    Done audited = [self = shared_from_this(), run, done = std::move(done)](
                       Result<Json> value) mutable { self->HandOut(*run, std::move(value), done); };
    const Json& entries = run->request.entries;
    if (entries.size() > kEntriesMax) {
      return audited(
          Fail("invalid", fmt::format("the keychain has more than {} entries", kEntriesMax)));
    }
    const std::optional<std::size_t> index = IndexOf(entries, run->request.alias);
    if (!index) {
      return audited(EntryError("not_found", run->request.alias.substr(0, kNameBytesMax),
                                "the playbook does not declare it"));
    }
    ResolveEntry(std::move(run), *index, std::move(audited));
  }

 private:
  using RunPointer = std::shared_ptr<Run>;

  // One fetch that several wait for. A background one renews what is still good: only those for
  // whom it has run out meanwhile wait for it.
  struct Flight {
    bool background = false;
    std::vector<Done> waiters;
  };

  void Count(Refreshed what) const { sources_->vault->stats().Count(what); }

  void HandOut(const Run& run, Result<Json> value, Done& done) {
    Reader reader = run.request.reader;
    reader.operation = "resolve_keychain";
    const Status status =
        value ? sources_->vault->Audit(reader, run.request.alias, "ok")
              : sources_->vault->Audit(reader, run.request.alias, OutcomeOf(value.error()),
                                       value.error().code);
    if (value && !status) return done(std::unexpected(status.error()));
    done(std::move(value));
  }

  void ResolveEntry(RunPointer run, std::size_t index, Done done) {
    Result<Entry> entry = ReadEntry(run->request.entries.At(index));
    if (!entry) return done(std::unexpected(std::move(entry).error()));
    if (const Json* known = run->values.Find(entry->name)) return done(*known);
    if (entry->is_remote() && IsKept(KeyOf(*run, *entry))) {
      return Share(std::move(run), index, *entry, std::move(done));
    }
    Produce(std::move(run), index, *entry,
            [done = std::move(done)](Result<MadeValue> made) mutable {
              if (!made) return done(std::unexpected(std::move(made).error()));
              done(std::move(made->value));
            });
  }

  KeychainKey KeyOf(const Run& run, const Entry& entry) const {
    const KeychainRequest& request = run.request;
    KeychainKey key{
        .name = entry.name, .catalog_id = request.catalog_id, .scope_type = entry.scope};
    if (entry.scope == "local") key.execution_id = request.execution_id;
    if (entry.scope == "shared") {
      key.execution_id =
          request.root_execution_id != 0 ? request.root_execution_id : request.execution_id;
    }
    return key;
  }

  // Without a playbook or a run in it a key would be the same for strangers.
  static bool IsKept(const KeychainKey& key) {
    return key.catalog_id != 0 && (key.scope_type == "global" || key.execution_id != 0);
  }

  void Share(RunPointer run, std::size_t index, const Entry& entry, Done done) {
    const KeychainKey key = KeyOf(*run, entry);
    const std::string cache_key = key.CacheKey();
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        const auto [flight, is_first] = flights_.try_emplace(cache_key);
        if (is_first || !flight->second.background) {
          flight->second.waiters.push_back(std::move(done));
          if (is_first) break;
          return Count(Refreshed::kShared);
        }
      }
      if (std::optional<KeychainEntry> kept = Kept(key)) return done(std::move(kept->data));
      const std::lock_guard lock(mutex_);
      const auto flight = flights_.find(cache_key);
      if (flight == flights_.end()) continue;  // it has landed since
      flight->second.waiters.push_back(std::move(done));
      return Count(Refreshed::kShared);
    }
    Lead(std::move(run), index, entry, key);
  }

  // Looks only now, with the flight announced: nobody else starts a second fetch meanwhile.
  void Lead(RunPointer run, std::size_t index, const Entry& entry, const KeychainKey& key) {
    if (std::optional<KeychainEntry> kept = Kept(key)) {
      Land(key.CacheKey(), std::move(kept->data));
      const std::int64_t left_us = kept->expires_at_us - sources_->clock->NowMicros();
      if (left_us < sources_->options.refresh_us) Refresh(*run, index, entry, key);
      return;
    }
    FetchAndKeep(std::move(run), index, entry, key);
  }

  void Refresh(const Run& run, std::size_t index, const Entry& entry, const KeychainKey& key) {
    {
      const std::lock_guard lock(mutex_);
      if (!flights_.try_emplace(key.CacheKey(), Flight{.background = true}).second)
        return Count(Refreshed::kShared);
    }
    Count(Refreshed::kTriggered);
    FetchAndKeep(std::make_shared<Run>(Run{.request = run.request}), index, entry, key);
  }

  void FetchAndKeep(RunPointer run, std::size_t index, const Entry& entry, const KeychainKey& key) {
    Produce(std::move(run), index, entry,
            [self = shared_from_this(), entry, key](Result<MadeValue> made) {
              if (!made) {
                return self->Land(key.CacheKey(), std::unexpected(std::move(made).error()));
              }
              self->Keep(entry, key, *made);
              self->Land(key.CacheKey(), std::move(made->value));
            });
  }

  // Null: nothing, or nothing that can be used.
  std::optional<KeychainEntry> Kept(const KeychainKey& key) const {
    Result<KeychainEntry> found = sources_->vault->PeekKeychain(key);
    if (!found) {
      Count(Refreshed::kUnreadable);
      LogWarn("a kept keychain entry cannot be read",
              {{"entry", key.name}, {"error", found.error().message}});
      return std::nullopt;
    }
    if (found->state != KeychainEntry::State::kFound) return std::nullopt;
    return *std::move(found);
  }

  // Until when a value is kept; 0: as long as its scope says; nullopt: not at all.
  std::optional<std::int64_t> KeepUntil(const Entry& entry, const MadeValue& made) const {
    const std::int64_t now = sources_->clock->NowMicros();
    std::int64_t until = 0;
    const auto at_most = [&until](std::int64_t limit) {
      until = until == 0 ? limit : std::min(until, limit);
    };
    if (entry.is_provider()) at_most(now + kProviderLifetimeUs);
    if (entry.ttl_seconds != 0) at_most(now + entry.ttl_seconds * kSecondUs);
    if (made.expires_at_us != 0) {
      const std::int64_t safe = made.expires_at_us - sources_->options.margin_us;
      if (safe <= now) return std::nullopt;
      at_most(safe);
    }
    return until == 0 ? 0 : std::max(until, now + kLifetimeMinUs);
  }

  void Keep(const Entry& entry, const KeychainKey& key, const MadeValue& made) const {
    const std::optional<std::int64_t> until = KeepUntil(entry, made);
    if (!until) return;
    const Result<std::int64_t> kept =
        sources_->vault->PutKeychain(key, made.value, *until, entry.auto_renew, Json());
    // The value is good all the same; the next caller fetches again.
    if (!kept) {
      LogWarn("a keychain entry cannot be kept",
              {{"entry", entry.name}, {"error", kept.error().message}});
    }
  }

  void Land(const std::string& cache_key, const Result<Json>& value) {
    Flight landed;
    {
      const std::lock_guard lock(mutex_);
      landed = std::move(flights_.extract(cache_key).mapped());
    }
    std::vector<Done>& waiters = landed.waiters;
    if (landed.background) Count(value ? Refreshed::kSucceeded : Refreshed::kFailed);
    // Callers see an error themselves; of a refresh nobody would hear.
    if (!value && waiters.empty()) {
      LogWarn("a keychain entry cannot be refreshed", {{"error", value.error().message}});
    }
    for (Done& done : waiters) done(value);
  }

  // The entries it needs first, then its own value.
  void Produce(RunPointer run, std::size_t index, const Entry& entry, MadeDone done) {
    auto needed = EarlierEntries(run->request.entries, index, run->request.workload);
    ResolveNeeded(
        run, std::move(needed), 0,
        [self = shared_from_this(), run, entry, done = std::move(done)](Status status) mutable {
          if (!status) return done(std::unexpected(std::move(status).error()));
          const KeychainRequest& request = run->request;
          auto renderer = std::make_shared<const EntryRenderer>(
              entry, request.workload, run->values, request.execution_id, request.catalog_id);
          MakeValue(self->sources_, std::move(renderer), request.reader, std::move(done));
        });
  }

  void ResolveNeeded(RunPointer run, std::vector<std::size_t> needed, std::size_t position,
                     std::move_only_function<void(Status)> done) {
    if (position == needed.size()) return done({});
    const std::size_t index = needed[position];
    ResolveEntry(run, index,
                 [self = shared_from_this(), run, needed = std::move(needed), position, index,
                  done = std::move(done)](Result<Json> value) mutable {
                   if (!value) return done(std::unexpected(std::move(value).error()));
                   const Json& name = run->request.entries.At(index)["name"];
                   run->values = run->values.With(name.AsString(), *std::move(value));
                   self->ResolveNeeded(std::move(run), std::move(needed), position + 1,
                                       std::move(done));
                 });
  }

  const std::shared_ptr<const Sources> sources_;
  std::mutex mutex_;
  std::map<std::string, Flight> flights_;  // by cache key
};

Keychain::Keychain(Vault* vault, Fetcher* fetcher, Clock* clock, KeychainOptions options)
    : impl_(std::make_shared<Impl>(vault, fetcher, clock, std::move(options))) {}

Keychain::~Keychain() = default;

void Keychain::Resolve(KeychainRequest request, Done done) {
  impl_->Resolve(std::move(request), std::move(done));
}

}  // namespace noetl::vault
