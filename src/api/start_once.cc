#include "api/start_once.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "api/handle.h"
#include "base/json_io.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/events.h"

namespace noetl::api {

namespace {

constexpr std::int64_t kIdempotencySeconds = 86'400;
constexpr std::int64_t kDedupSecondsDefault = 300;
constexpr std::int64_t kDedupSecondsMax = 30 * 86'400;
constexpr std::size_t kKeyBytesMax = 1'024;

// The overrides of the workload under any of their names.
Result<Json> ReadPayload(const Json& body) {
  Json payload;
  std::string_view seen;
  for (const std::string_view name : {"payload", "workload", "args"}) {
    NOETL_ASSIGN(Json value, OptionalObject(body, name));
    if (value.is_null()) continue;
    if (!seen.empty())
      return Fail("invalid", fmt::format("`{}` and `{}` are the same thing: send one", seen, name));
    seen = name;
    payload = std::move(value);
  }
  return payload.is_null() ? Json::Object() : payload;
}

// A number, its text, or "latest"; 0: the newest.
Result<std::int64_t> ReadVersion(const Json& body) {
  const Json& version = body["version"];
  if (version.is_null() || version.AsString() == "latest") return 0;
  NOETL_ASSIGN(const std::optional<std::int64_t> number, OptionalId(body, "version"));
  return number.value_or(0);
}

Status ReadKey(const Json& body, std::string_view idempotency_key, ExecuteRequest& request) {
  NOETL_ASSIGN(const Json dedup, OptionalObject(body, "dedup"));
  if (!dedup.is_null() && !idempotency_key.empty())
    return Fail("invalid", "send either `dedup` or the header Idempotency-Key");
  if (!dedup.is_null()) {
    NOETL_ASSIGN(const std::string key, TextMember(dedup, "key"));
    NOETL_ASSIGN(request.key_seconds,
                 OptionalInt(dedup, "window_secs", kDedupSecondsDefault, 1, kDedupSecondsMax));
    request.key = "dedup:" + key;
    request.key_scope = request.start.parent_execution_id;
  } else if (!idempotency_key.empty()) {
    request.key = fmt::format("idempotency:{}", idempotency_key);
    request.key_seconds = kIdempotencySeconds;
    request.digest = Sha256Hex(CanonicalJson(body));
  }
  if (request.key.size() > kKeyBytesMax)
    return Fail("invalid", fmt::format("a key has at most {} bytes", kKeyBytesMax));
  return {};
}

// The kind that the caller expects is that of the entry.
Status CheckKind(const store::Store& store, const ExecuteRequest& request) {
  if (request.resource_kind.empty()) return {};
  const conductor::StartCall& start = request.start;
  NOETL_ASSIGN(const std::optional<store::CatalogEntry> entry,
               start.catalog_id != 0 ? store.FindEntry(start.catalog_id)
                                     : store.FindEntry(start.path, start.version));
  if (!entry || ToLower(entry->kind) == ToLower(request.resource_kind)) return {};
  return Fail("invalid",
              fmt::format("{} is a {}, not a {}", entry->path, entry->kind, request.resource_kind));
}

// Commands that the start issued: those before any command did something.
std::int64_t FirstCommands(Services& services, std::int64_t execution_id) {
  StartMetrics& metrics = MetricsOf(services).starts;
  std::int64_t count = 0;
  std::int64_t after = 1;
  for (std::int64_t limit = 8;; limit = 512) {
    const auto events = services.store->ReadEvents(execution_id, after, limit);
    using Found = conductor::ReadOutcome;
    metrics.CountRead(!events ? Found::kError : events->empty() ? Found::kMiss : Found::kHit);
    if (!events) return std::max<std::int64_t>(count, 1);
    for (const engine::Event& event : *events) {
      using enum engine::EventType;
      const bool begins = event.type == kStepEnter || event.type == kCommandClaimed ||
                          event.type == kStepSkipped || event.type == kCtxUpdated ||
                          event.type == kRunWarning;
      if (event.type == kCommandIssued) ++count;
      else if (!begins) return count;
      after = event.seq;
    }
    if (std::ssize(*events) < limit) return count;
  }
}

using Done = std::move_only_function<void(Result<StartAnswer>)>;

// A start that will never work gives its key back; one that may work later keeps it, so that the
// next request goes on with the same run.
void ReleaseKeyOf(Services& services, const ExecuteRequest& request, const Error& error) {
  if (request.key.empty() || (error.code != "not_found" && error.code != "invalid")) return;
  const Status released =
      services.store->ReleaseKey(request.key_scope, request.key, request.start.execution_id);
  if (!released)
    LogWarn("a request key could not be released", {{"error", released.error().message}});
}

void Start(Services& services, ExecuteRequest request, bool duplicate, Done done) {
  conductor::StartCall start = request.start;
  services.conductor->Start(
      std::move(start), [&services, request = std::move(request), duplicate,
                         done = std::move(done)](Result<std::int64_t> started) mutable {
        if (!started) {
          ReleaseKeyOf(services, request, started.error());
          return done(std::unexpected(started.error()));
        }
        const std::int64_t commands = duplicate ? 0 : FirstCommands(services, *started);
        done(StartAnswer{.execution_id = *started, .duplicate = duplicate, .commands = commands});
      });
}

}  // namespace

Result<ExecuteRequest> ReadExecuteRequest(const Json& body, Scope scope,
                                          std::string_view idempotency_key, Json trace) {
  NOETL_TRY(NeedMap(body));
  ExecuteRequest request;
  conductor::StartCall& start = request.start;
  NOETL_ASSIGN(const std::optional<std::int64_t> catalog_id, OptionalId(body, "catalog_id"));
  start.catalog_id = catalog_id.value_or(0);
  NOETL_ASSIGN(start.path, OptionalText(body, "path"));
  if (start.catalog_id == 0 && start.path.empty())
    return Fail("invalid", "`path` or `catalog_id` is needed");
  NOETL_ASSIGN(start.version, ReadVersion(body));
  NOETL_ASSIGN(start.payload, ReadPayload(body));
  NOETL_ASSIGN(const std::optional<std::int64_t> parent, OptionalId(body, "parent_execution_id"));
  start.parent_execution_id = parent.value_or(0);
  NOETL_ASSIGN(start.pool, OptionalText(body, "execution_pool"));
  NOETL_ASSIGN(start.trace, OptionalObject(body, "trace"));
  if (start.trace.is_null()) start.trace = std::move(trace);
  NOETL_ASSIGN(const std::optional<std::int64_t> given, OptionalId(body, "execution_id"));
  if (given && scope < Scope::kWorker)
    return Fail("forbidden", "`execution_id` may be given by workers and administrators only");
  start.execution_id = given.value_or(0);
  NOETL_ASSIGN(request.resource_kind, OptionalText(body, "resource_kind"));
  if (request.resource_kind.empty()) {
    NOETL_ASSIGN(request.resource_kind, OptionalText(body, "resource_type"));
  }
  NOETL_TRY(ReadKey(body, idempotency_key, request));
  return request;
}

void StartOnce(Services& services, ExecuteRequest request, Done done) {
  if (const Status kind = CheckKind(*services.store, request); !kind)
    return done(std::unexpected(kind.error()));
  if (request.key.empty()) {
    bool duplicate = false;
    if (request.start.execution_id != 0) {
      const auto row = services.store->Find(request.start.execution_id);
      if (!row) return done(std::unexpected(row.error()));
      duplicate = row->has_value();
    }
    return Start(services, std::move(request), duplicate, std::move(done));
  }
  if (request.start.execution_id == 0) request.start.execution_id = services.ids->Next();
  const std::int64_t now_us = services.clock->NowMicros();
  const Result<store::RequestKeyRow> owner =
      services.store->ClaimKey({.scope = request.key_scope,
                                .key = request.key,
                                .execution_id = request.start.execution_id,
                                .digest = request.digest,
                                .created_at_us = now_us,
                                .expires_at_us = now_us + request.key_seconds * 1'000'000});
  if (!owner) return done(std::unexpected(owner.error()));
  if (owner->execution_id == request.start.execution_id)
    return Start(services, std::move(request), false, std::move(done));
  if (owner->digest != request.digest) {
    return done(
        Fail("conflict", "this Idempotency-Key was used with another body in the last 24 hours"));
  }
  const auto row = services.store->Find(owner->execution_id);
  if (!row) return done(std::unexpected(row.error()));
  if (row->has_value())
    return done(StartAnswer{.execution_id = owner->execution_id, .duplicate = true});
  request.start.execution_id = owner->execution_id;
  Start(services, std::move(request), true, std::move(done));
}

Json StartBody(const StartAnswer& answer) {
  return Json::Object({{"execution_id", std::to_string(answer.execution_id)},
                       {"status", answer.duplicate ? "duplicate" : "started"},
                       {"commands_generated", answer.commands}});
}

}  // namespace noetl::api
