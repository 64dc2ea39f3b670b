#include "worker/remote/questions.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/url.h"
#include "worker/command_run.h"
#include "worker/remote/wire.h"
#include "worker/tools/http_url.h"

namespace noetl::worker {
namespace {

constexpr std::size_t kSecretsMax = 256;
constexpr std::int64_t kSecretKeepUs = 60'000'000;
constexpr int kSecretRetriesMax = 3;
constexpr std::int64_t kSecretRetryGrowth = 4;
constexpr std::int64_t kMicrosPerMilli = 1'000;
// A start that is repeated within a day is the same start.
constexpr std::int64_t kSameChildSeconds = 86'400;
// Beyond what the server itself waits.
constexpr std::int64_t kWaitMarginMs = 10'000;
// A server that does not wait is not asked without a pause.
constexpr std::int64_t kWaitAgainMs = 20;
// Starting a child is tried so often again while the server is away.
constexpr int kChildStartsMax = 20;

}  // namespace

// ---- secrets in memory

SecretCache::~SecretCache() {
  while (!entries_.empty()) Remove(entries_.begin());
}

void SecretCache::Remove(std::map<Key, Entry>::iterator entry) {
  crypto::Wipe(entry->second.text);
  entries_.erase(entry);
}

const std::string* SecretCache::Find(const Key& key, std::int64_t now_us) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  if (found->second.until_us > now_us) return &found->second.text;
  Remove(found);
  return nullptr;
}

void SecretCache::Add(const Key& key, std::string text, std::int64_t now_us) {
  if (const auto old = entries_.find(key); old != entries_.end()) Remove(old);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->second.until_us <= now_us) Remove(entry);
    entry = next;
  }
  if (entries_.size() >= entries_max_) {
    Remove(std::ranges::min_element(entries_, {},
                                    [](const auto& entry) { return entry.second.until_us; }));
  }
  entries_.emplace(key, Entry{std::move(text), now_us + keep_us_});
}

// ---- questions

struct Questions::Secret {
  explicit Secret(Reactor* reactor) : timer(reactor) {}
  SecretCache::Key key;
  bus::ServerEnd::Loaded found;
  int retries = 0;
  std::int64_t delay_ms = 0;
  OwnedTimer timer;
};

struct Questions::Child {
  explicit Child(Reactor* reactor) : timer(reactor) {}
  bus::ChildCall call;
  bus::ServerEnd::ChildDone done;
  std::int64_t execution_id = 0;
  engine::ChildEnd end;
  ServerClient::CallId asked = 0;
  int starts = 0;
  OwnedTimer timer;
};

Questions::Questions(Parts parts) : parts_(std::move(parts)), cache_(kSecretsMax, kSecretKeepUs) {}

Questions::~Questions() = default;

void Questions::Load(const std::string& ref, bus::ServerEnd::Loaded loaded) {
  parts_.client->Start({.path = "/api/result/resolve?ref=" + PercentEncode(ref),
                        .timeout_ms = parts_.request_timeout_ms},
                       std::move(loaded));
}

void Questions::FindSecret(std::string alias, std::int64_t execution_id,
                           bus::ServerEnd::Loaded found) {
  SecretCache::Key key(std::move(alias), execution_id);
  if (const std::string* text = cache_.Find(key, parts_.clock->MonotonicMicros()))
    return found(ParseJson(*text));
  Secret* secret = secrets_.emplace_back(std::make_unique<Secret>(parts_.loop)).get();
  secret->key = std::move(key);
  secret->found = std::move(found);
  secret->delay_ms = parts_.secret_retry_ms;
  AskSecret(secret);
}

void Questions::AskSecret(Secret* secret) {
  const auto& [alias, execution_id] = secret->key;
  std::string path =
      parts_.seal == nullptr
          ? fmt::format("/api/credentials/{}?include_data=true&execution_id={}",
                        PercentEncode(alias), execution_id)
          : fmt::format("/api/credentials/{}/sealed?worker_id={}&execution_id={}",
                        PercentEncode(alias), PercentEncode(parts_.worker_id), execution_id);
  parts_.client->Start(
      {.path = std::move(path), .timeout_ms = parts_.request_timeout_ms, .secret = true},
      [this, secret](Result<Json> answer) {
        if (answer && parts_.seal != nullptr) answer = parts_.seal->Open(*answer);
        SecretAnswered(secret, std::move(answer));
      });
}

void Questions::SecretAnswered(Secret* secret, Result<Json> answer) {
  if (answer) {
    const Json told = Json::Object(
        {{"name", (*answer)["name"]}, {"type", (*answer)["type"]}, {"data", (*answer)["data"]}});
    cache_.Add(secret->key, WriteJson(told), parts_.clock->MonotonicMicros());
    return EndSecret(secret, told);
  }
  if (!IsTransient(answer.error())) return EndSecret(secret, std::move(answer));
  if (secret->retries == kSecretRetriesMax)
    return EndSecret(secret, Fail("unavailable", std::move(answer.error().message)));
  ++secret->retries;
  const std::int64_t delay_ms = secret->delay_ms;
  secret->delay_ms *= kSecretRetryGrowth;
  secret->timer.Set(delay_ms * kMicrosPerMilli, [this, secret] { AskSecret(secret); });
}

void Questions::EndSecret(Secret* secret, Result<Json> answer) {
  const auto at = std::ranges::find(secrets_, secret, &std::unique_ptr<Secret>::get);
  const std::unique_ptr<Secret> owned = std::move(*at);
  secrets_.erase(at);
  owned->found(std::move(answer));
}

// ---- children

void Questions::RunChild(bus::ChildCall call, bus::ServerEnd::ChildDone done) {
  Child* child = children_.emplace_back(std::make_unique<Child>(parts_.loop)).get();
  child->call = std::move(call);
  child->done = std::move(done);
  StartChild(child);
}

void Questions::StartChild(Child* child) {
  const bus::ChildCall& call = child->call;
  JsonObjectBuilder body;
  body.Add("path", call.path)
      .AddSome("version", call.version)
      .Add("payload", call.payload.is_object() ? call.payload : Json::Object())
      .Add("parent_execution_id", std::to_string(call.parent_execution_id))
      .Add("parent_step", call.parent_step)
      .Add("dedup", Json::Object({{"key", fmt::format("{}:{}", call.parent_command_id, call.key)},
                                  {"window_secs", kSameChildSeconds}}));
  if (!call.return_step.empty()) body.Add("return_step", call.return_step);
  if (!call.pool.empty()) body.Add("execution_pool", call.pool);
  child->asked = parts_.client->Start(
      {.method = "POST",
       .path = "/api/execute",
       .body = WriteJson(body.Build()),
       .timeout_ms = parts_.request_timeout_ms},
      [this, child](Result<Json> answer) {
        if (!answer && IsTransient(answer.error()) && ++child->starts < kChildStartsMax)
          return ChildLater(child, parts_.child_retry_ms, &Questions::StartChild);
        if (!answer) return EndChild(child, std::unexpected(std::move(answer).error()));
        child->execution_id = IdOf((*answer)["execution_id"]).value_or(0);
        if (child->execution_id == 0)
          return EndChild(child, Fail("bad_answer", "the server names no run"));
        if (child->call.wait) return AwaitChild(child);
        EndChild(child, engine::ChildEnd{.child_execution_id = child->execution_id,
                                         .path = child->call.path,
                                         .status = "STARTED"});
      });
}

void Questions::AwaitChild(Child* child) {
  // An empty step stands for the whole run.
  std::string path = fmt::format(
      "/api/executions/{}/wait?timeout_ms={}&return_step={}&redact=false", child->execution_id,
      parts_.child_wait_ms, PercentEncode(child->call.return_step));
  child->asked = parts_.client->Start(
      {.path = std::move(path), .timeout_ms = parts_.child_wait_ms + kWaitMarginMs},
      [this, child](Result<Json> answer) { ChildAnswered(child, std::move(answer)); });
}

// The command's own limit ends a wait for a server that stays away.
void Questions::ChildAnswered(Child* child, Result<Json> answer) {
  if (!answer && IsTransient(answer.error()))
    return ChildLater(child, parts_.child_retry_ms, &Questions::AwaitChild);
  if (!answer) return EndChild(child, std::unexpected(std::move(answer).error()));
  std::optional<engine::ChildEnd> end = ChildEndFromJson(*answer);
  if (!end) return ChildLater(child, kWaitAgainMs, &Questions::AwaitChild);
  end->child_execution_id = child->execution_id;
  end->path = child->call.path;
  const bool told = answer->Has("data") || answer->Has("reference");
  if (end->status != "COMPLETED" || told) return EndChild(child, *std::move(end));
  if (!child->call.return_step.empty()) {
    return EndChild(child, Fail("unsupported", "the server does not tell the result of one step"));
  }
  child->end = *std::move(end);
  AskChildResult(child);
}

// A server whose answer has only the status is asked for the run.
void Questions::AskChildResult(Child* child) {
  child->asked = parts_.client->Start(
      {.path =
           fmt::format("/api/executions/{}?include_events=false&redact=false", child->execution_id),
       .timeout_ms = parts_.request_timeout_ms},
      [this, child](Result<Json> answer) { ChildResult(child, std::move(answer)); });
}

void Questions::ChildResult(Child* child, Result<Json> answer) {
  if (!answer && IsTransient(answer.error()))
    return ChildLater(child, parts_.child_retry_ms, &Questions::AskChildResult);
  if (!answer) return EndChild(child, std::unexpected(std::move(answer).error()));
  SetChildResult((*answer)["result"], &child->end);
  EndChild(child, std::move(child->end));
}

void Questions::ChildLater(Child* child, std::int64_t delay_ms, void (Questions::*next)(Child*)) {
  child->asked = 0;
  child->timer.Set(delay_ms * kMicrosPerMilli, [this, child, next] { (this->*next)(child); });
}

void Questions::EndChild(Child* child, Result<engine::ChildEnd> end) {
  const auto found = std::ranges::find(children_, child, &std::unique_ptr<Child>::get);
  const std::unique_ptr<Child> owned = std::move(*found);
  children_.erase(found);
  owned->done(std::move(end));
}

void Questions::Forget(const std::string& command_id) {
  std::erase_if(children_, [&](const std::unique_ptr<Child>& child) {
    if (child->call.parent_command_id != command_id) return false;
    parts_.client->Drop(child->asked);
    return true;
  });
}

}  // namespace noetl::worker
