// Routes: one table says which path means what, who may call it, how large a body may be, and what
// it looks like in the OpenAPI document. The table dispatches, documents and is tested; there is no
// second list.
//
// A handler gets a `Call`, answers it once, now or later, from any thread. Whoever still has to
// answer holds the call by its shared pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/http.h"
#include "api/services.h"
#include "base/json.h"
#include "base/result.h"

namespace noetl::api {

class Call;
using CallPtr = std::shared_ptr<Call>;

// Who may call. The order is that of power.
enum class Scope : std::uint8_t {
  kOpen,      // anybody: health, metrics
  kViewer,    // reads
  kOperator,  // starts, stops, registers
  kWorker,    // workers, and operators
  kAdmin,     // reads secrets, removes, queries with SQL
  kInternal,  // the internal token only
};

inline constexpr std::size_t kBodyDefault = 2u << 20;
inline constexpr std::size_t kBodyDocument = 8u << 20;  // a playbook in base64
inline constexpr std::size_t kBodyEvents = 16u << 20;   // runs, events, leases
inline constexpr std::size_t kBodyResult = 64u << 20;
inline constexpr std::size_t kBodyNone = 64u << 10;  // routes that ignore what is sent

// What the body must be.
enum class BodyKind : std::uint8_t {
  kNone,      // ignored
  kJson,      // JSON with its content type
  kOptional,  // JSON, or nothing at all
  kRaw,       // bytes
};

struct Parameter {
  std::string_view name;
  std::string_view type;  // integer, string, boolean, timestamp
  std::string_view meaning;
};

struct Route {
  std::string_view method;
  // "/api/executions/{execution_id}/status". A last "{name...}" takes all that is left, with its
  // slashes; it may have a literal tail: "/api/catalog/{path...}/ui_schema".
  std::string_view path;
  std::string_view family;   // tag of the document and of metrics: catalog, executions ...
  std::string_view summary;  // one line
  Scope scope = Scope::kOperator;
  BodyKind body = BodyKind::kNone;
  std::size_t body_max = kBodyNone;
  void (*handle)(CallPtr call) = nullptr;
  // For the document: query members, an example of the body, an example of the answer (JSON texts).
  std::span<const Parameter> query = {};
  std::string_view request = "";
  std::string_view response = "";
  int success = 200;
  // Answers come late on purpose (long polls, streams): never logged as slow.
  bool waits = false;
  // Starts runs: refused before its body is read while the conductor refuses starts.
  bool starts = false;
};

// A request on its way through one route.
class Call {
 public:
  Call(std::shared_ptr<Exchange> exchange, const Route* route, Services* services,
       std::map<std::string, std::string, std::less<>> path, Scope scope);
  ~Call();  // unanswered: 500
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Request& request() const { return exchange_->request(); }
  Services& services() const { return *services_; }
  const Route& route() const { return *route_; }
  // What the caller may do; at least what the route asks for.
  Scope scope() const { return scope_; }

  // The parsed body; null when there is none.
  const Json& body() const { return body_; }
  void SetBody(Json body) { body_ = std::move(body); }

  // Path parameters, decoded. Ids are positive 64-bit decimals: "bad_request" otherwise.
  std::string_view Path(std::string_view name) const;
  Result<std::int64_t> PathId(std::string_view name) const;

  // Query members, decoded; unknown ones are ignored. Errors are "bad_request" and name the member.
  std::optional<std::string_view> Query(std::string_view name) const;
  Result<std::int64_t> QueryInt(std::string_view name, std::int64_t fallback, std::int64_t min,
                                std::int64_t max) const;  // cut to the limits
  Result<bool> QueryBool(std::string_view name, bool fallback) const;
  Result<std::int64_t> QueryId(std::string_view name) const;      // 0: absent
  Result<std::int64_t> QueryTimeUs(std::string_view name) const;  // 0: absent

  // {traceparent, tracestate?} when the caller sent a valid W3C trace context; null otherwise.
  Json Trace() const;
  // The caller wants every id as text. `Answer` sees to it; streams have to (ids.h).
  bool ids_as_text() const { return ids_as_text_; }

  // Answers. The first counts.
  void Answer(Json body, int status = 200);
  void Answer(Response response);
  // The error envelope {error, status, detail, code, details?, request_id}; `status` from the code
  // of the error (StatusOf), Retry-After where the client should come again.
  void Refuse(const Error& error, Json details = Json());
  void Refuse(int status, std::string_view code, std::string message, Json details = Json());
  std::shared_ptr<BodyStream> Stream(Response head, std::move_only_function<void()> closed);
  // Goes with the answer, in the place of one that the answer has of itself.
  void AddHeader(std::string name, std::string value) {
    headers_.Add(std::move(name), std::move(value));
  }
  bool gone() const { return exchange_->gone(); }

 private:
  // Whether this answer is the first.
  bool First() { return !answered_.exchange(true); }

  std::shared_ptr<Exchange> exchange_;
  const Route* route_;
  Services* services_;
  std::map<std::string, std::string, std::less<>> path_;
  std::vector<std::pair<std::string, std::string>> query_;
  Scope scope_;
  Json body_;
  Headers headers_;
  bool ids_as_text_ = false;
  std::atomic<bool> answered_ = false;
};

// The HTTP status of an error code: "bad_request" 400, "unauthorized" 401, "forbidden" 403,
// "not_found" 404, "conflict" and the claim codes 409, "too_large" 413, "invalid" 422, "overloaded"
// 429, "unavailable" and the codes of a disk in trouble 503, "timeout" 504, everything else 500.
int StatusOf(std::string_view code);

// The error envelope as an answer, for what has no call.
Response ErrorResponse(int status, std::string_view code, std::string_view message,
                       std::string_view request_id, const Json& details = Json());

// ---- members of a JSON body, with errors that name them ("invalid" -> 422)

// An id given as a number or a decimal text.
Result<std::int64_t> IdMember(const Json& body, std::string_view name);  // required
Result<std::optional<std::int64_t>> OptionalId(const Json& body, std::string_view name);
Result<std::string> TextMember(const Json& body, std::string_view name);  // not blank
Result<std::string> OptionalText(const Json& body, std::string_view name,
                                 std::string_view fallback = "");
Result<std::int64_t> OptionalInt(const Json& body, std::string_view name, std::int64_t fallback,
                                 std::int64_t min, std::int64_t max);  // outside: an error
Result<bool> OptionalBool(const Json& body, std::string_view name, bool fallback);
Result<Json> OptionalObject(const Json& body, std::string_view name);  // null when absent
Result<std::optional<std::int64_t>> OptionalTimeUs(const Json& body, std::string_view name);

// RFC 3339; without a zone it is UTC, a blank may stand for the T, and the time of day may be missing.
std::optional<std::int64_t> ParseTimeKindly(std::string_view text);
// A time as answers show it, "2026-06-18T12:00:00.100000Z"; 0: null.
Json TimeOrNull(std::int64_t us);
// An id as answers show it: a number, or null for 0; and the text form.
Json IdOrNull(std::int64_t id);
Json IdText(std::int64_t id);

// ---- the families, each in its own file

std::span<const Route> SystemRoutes();   // routes_system.cc: health, metrics, status, dashboard, db
std::span<const Route> CatalogRoutes();  // routes_catalog.cc
std::span<const Route> CredentialRoutes();  // routes_credentials.cc: credentials, keychain, wallet
std::span<const Route> AuthRoutes();        // routes_auth.cc
std::span<const Route> ExecuteRoutes();     // routes_execute.cc: execute, batch, rerun
std::span<const Route> EventRoutes();       // routes_events.cc: worker events, project, materialize
std::span<const Route> CommandRoutes();     // routes_commands.cc: claim, lease, heartbeat, release
std::span<const Route> WorkerRoutes();      // routes_workers.cc: pools, control stream
std::span<const Route> ExecutionRoutes();   // routes_executions.cc: list, detail, cancel ...
std::span<const Route> StreamRoutes();      // routes_streams.cc: server-sent events, logs
std::span<const Route> VariableRoutes();    // routes_variables.cc
std::span<const Route> ResultRoutes();      // routes_results.cc: results, objects
std::span<const Route> ReplayRoutes();      // routes_replay.cc: states as of a point of the log
std::span<const Route> SubscriptionRoutes();  // routes_subscriptions.cc: their life, ingress
std::span<const Route>
InternalRoutes();  // routes_internal.cc: outbox, projection, cleanup, callback

}  // namespace noetl::api
