#include "api/router.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "api/access.h"
#include "api/housekeeping.h"
#include "api/openapi.h"
#include "api/route_table.h"
#include "api/router_parts.h"
#include "base/json_io.h"
#include "base/log.h"
#include "base/text.h"

namespace noetl::api {

namespace {

// A request that takes longer is worth a line in the log.
constexpr std::int64_t kSlowUs = 1'000'000;

constexpr std::string_view kMethods[] = {"GET",    "HEAD",  "POST",   "PUT",
                                         "DELETE", "PATCH", "OPTIONS"};
constexpr std::string_view kCorsHeaders =
    "Authorization, Content-Type, Content-Encoding, Idempotency-Key, Last-Event-ID, "
    "X-Session-Token, X-Noetl-Ids, X-Request-Id, traceparent, tracestate";
constexpr std::string_view kCorsExposed = "X-Next-Cursor, X-Request-Id, Retry-After";

bool IsJsonType(std::string_view header) {
  const std::string type = ToLower(Trim(header.substr(0, header.find(';'))));
  return type == "application/json" || type.ends_with("+json");
}

bool HasBody(const Request& request) {
  const std::string_view length = request.headers.Find("Content-Length");
  return !request.body.empty() || (!length.empty() && length != "0") ||
         request.headers.Has("Transfer-Encoding");
}

std::string AllowOf(const std::vector<std::string_view>& methods) {
  std::string allow;
  for (std::string_view method : kMethods) {
    const bool has = std::ranges::find(methods, method == "HEAD" ? "GET" : method) != methods.end();
    if (!has && method != "OPTIONS") continue;
    if (!allow.empty()) allow += ", ";
    allow += method;
  }
  return allow;
}

// Counts and logs answers. Outlives the router for calls that are answered after its end.
class Recorder {
 public:
  Recorder(Metrics* metrics, Clock* clock) : metrics_(metrics), clock_(clock) {}

  std::int64_t NowUs() { return clock_->MonotonicMicros(); }

  // `route` null: no route has this path.
  void Record(const Request& request, const Route* route, int status, std::size_t bytes) {
    const std::int64_t took_us =
        request.received_us > 0 ? std::max<std::int64_t>(NowUs() - request.received_us, 0) : 0;
    const std::string_view name = route != nullptr ? route->path : "other";
    Count(request.method, name, status, took_us);
    const bool slow = took_us >= kSlowUs && (route == nullptr || !route->waits);
    const LogLevel level = status >= 500 || slow ? LogLevel::kInfo : LogLevel::kDebug;
    if (!LogEnabled(level)) return;
    Log(level, "request",
        {{"method", request.method},
         {"route", name},
         {"status", status},
         {"ms", static_cast<double>(took_us) / 1000},
         {"bytes", bytes},
         {"request_id", request.id},
         {"peer", request.peer}});
  }

 private:
  void Count(std::string_view method, std::string_view route, int status, std::int64_t took_us) {
    const bool known = std::ranges::find(kMethods, method) != std::end(kMethods);
    const std::string_view word = known ? method : std::string_view("other");
    const std::lock_guard lock(mutex_);
    std::string key = fmt::format("{} {} {}", word, route, status);
    auto counter = counters_.find(key);
    if (counter == counters_.end()) {
      const Metrics::Labels labels = {{"method", std::string(word)},
                                      {"route", std::string(route)},
                                      {"code", std::to_string(status)}};
      counter = counters_
                    .emplace(std::move(key), metrics_->Counter("noetl_http_requests_total",
                                                               "Requests answered.", labels))
                    .first;
    }
    counter->second.Add();
    auto seconds = seconds_.find(route);
    if (seconds == seconds_.end()) {
      seconds = seconds_
                    .emplace(route, metrics_->Histogram("noetl_http_request_duration_seconds",
                                                        "Time from request to answer.",
                                                        {{"route", std::string(route)}}))
                    .first;
    }
    seconds->second.Observe(static_cast<double>(took_us) / 1e6);
  }

  Metrics* metrics_;
  Clock* clock_;
  std::mutex mutex_;
  std::map<std::string, CounterMetric, std::less<>> counters_;
  std::map<std::string_view, HistogramMetric> seconds_;  // by paths of the table
};

// The body of HEAD: none.
class NoBody final : public BodyStream {
 public:
  explicit NoBody(std::move_only_function<void()> closed) : closed_(std::move(closed)) {}
  bool Write(std::string) override { return false; }
  std::size_t waiting() const override { return 0; }
  void Close() override {
    if (auto closed = std::exchange(closed_, nullptr)) closed();
  }

 private:
  std::move_only_function<void()> closed_;
};

// What routes answer through: adds the headers of every answer and records it.
class RecordedExchange final : public Exchange {
 public:
  RecordedExchange(std::shared_ptr<Exchange> inner, std::shared_ptr<Recorder> recorder,
                   const Route* route, std::string_view origin)
      : inner_(std::move(inner)), recorder_(std::move(recorder)), route_(route), origin_(origin) {}

  const Request& request() const override { return inner_->request(); }
  bool gone() const override { return inner_->gone(); }

  void Send(Response response) override {
    Dress(response);
    recorder_->Record(request(), route_, response.status, response.body.size());
    inner_->Send(std::move(response));
  }

  std::shared_ptr<BodyStream> Stream(Response head,
                                     std::move_only_function<void()> closed) override {
    if (request().method == "HEAD") {
      Send(std::move(head));
      return std::make_shared<NoBody>(std::move(closed));
    }
    Dress(head);
    recorder_->Record(request(), route_, head.status, 0);
    return inner_->Stream(std::move(head), std::move(closed));
  }

 private:
  void Dress(Response& response) const {
    response.headers.Set("X-Content-Type-Options", "nosniff");
    if (!response.headers.Has("Cache-Control")) response.headers.Set("Cache-Control", "no-store");
    if (origin_.empty()) return;
    response.headers.Set("Access-Control-Allow-Origin", origin_);
    response.headers.Set("Access-Control-Expose-Headers", std::string(kCorsExposed));
    response.headers.Add("Vary", "Origin");
  }

  std::shared_ptr<Exchange> inner_;
  std::shared_ptr<Recorder> recorder_;
  const Route* route_;
  std::string origin_;
};

Response Refusal(const Error& error, const Request& request) {
  Response response = ErrorResponse(StatusOf(error.code), error.code, error.message, request.id);
  if (error.code == "unauthorized") response.headers.Set("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace

struct Router::Impl {
  // What is to become of a request, as far as its head tells.
  struct Decision {
    const Route* route = nullptr;  // null: no route has this path
    std::map<std::string, std::string, std::less<>> path;
    Scope scope = Scope::kOpen;
    std::optional<Response> refusal;
  };

  Impl(RouterOptions options, Services* its_services)
      : parts(std::move(options), *its_services),
        services(its_services),
        recorder(std::make_shared<Recorder>(its_services->metrics, its_services->clock)) {}

  Decision Decide(const Request& request) const;
  Response Unknown(const Request& request, const std::vector<std::string_view>& methods) const;
  Response Preflight(const Request& request, const std::vector<std::string_view>& methods) const;

  // What has expired is removed some time after requests, so that nothing happens without any.
  void SweepLater() {
    if (sweep_waits.load(std::memory_order_relaxed) || sweep_waits.exchange(true)) return;
    parts.background.Later(kSweepPeriod, [this] {
      sweep_waits.store(false, std::memory_order_relaxed);
      SweepQuietly(*services);
    });
  }

  RouterParts parts;
  Services* services;
  std::shared_ptr<Recorder> recorder;
  RouteTable table;
  std::atomic<bool> sweep_waits = false;
};

Response Router::Impl::Unknown(const Request& request,
                               const std::vector<std::string_view>& methods) const {
  if (!methods.empty()) {
    const std::string allow = AllowOf(methods);
    Response response = ErrorResponse(
        405, "method_not_allowed",
        fmt::format("{} is not possible for {}, only {}", request.method, request.path, allow),
        request.id);
    response.headers.Set("Allow", allow);
    return response;
  }
  std::string message = fmt::format("there is nothing at {}", request.path.substr(0, 200));
  if (const auto nearest = table.Nearest(request.path)) {
    message += fmt::format("; did you mean {}?", *nearest);
  }
  return ErrorResponse(404, "not_found", message, request.id);
}

Response Router::Impl::Preflight(const Request& request,
                                 const std::vector<std::string_view>& methods) const {
  const std::string allow = AllowOf(methods);
  Response response;
  response.status = 204;
  response.headers.Set("Allow", allow);
  const std::string_view origin = AllowedOrigin(parts.options, request);
  if (origin.empty()) return response;
  response.headers.Set("Access-Control-Allow-Origin", std::string(origin));
  response.headers.Set("Access-Control-Allow-Methods", allow);
  response.headers.Set("Access-Control-Allow-Headers", std::string(kCorsHeaders));
  response.headers.Set("Access-Control-Max-Age", "600");
  response.headers.Set("Vary", "Origin");
  return response;
}

Router::Impl::Decision Router::Impl::Decide(const Request& request) const {
  Decision decision;
  if (const auto wrong = CheckPlace(parts.options, request)) {
    decision.refusal = Refusal(*wrong, request);
    return decision;
  }
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  RouteTable::Found found = table.Find(method, request.path);
  if (found.broken) {
    decision.refusal = ErrorResponse(
        400, "bad_request", "the path has a broken percent-encoding or is not UTF-8", request.id);
    return decision;
  }
  if (!found.match) {
    const bool preflight = request.method == "OPTIONS" && !found.methods.empty();
    decision.refusal =
        preflight ? Preflight(request, found.methods) : Unknown(request, found.methods);
    return decision;
  }
  decision.route = found.match->route;
  decision.path = std::move(found.match->path);
  const Route& route = *decision.route;
  const Result<Scope> scope = ScopeOf(parts.options, parts.sessions, route, request);
  if (!scope) {
    decision.refusal = Refusal(scope.error(), request);
    return decision;
  }
  decision.scope = *scope;
  if (route.starts) {
    if (const std::optional<Error> busy = services->conductor->RefusesStarts()) {
      MetricsOf(*services).starts.Count(StartEntry::kSingle, StartOutcome::kError);
      decision.refusal = Refusal(*busy, request);
      return decision;
    }
  }
  const bool json = route.body == BodyKind::kJson || route.body == BodyKind::kOptional;
  if (json && HasBody(request) && !IsJsonType(request.headers.Find("Content-Type"))) {
    decision.refusal =
        ErrorResponse(415, "media_type",
                      "the body must be JSON: send 'Content-Type: application/json'", request.id);
  }
  return decision;
}

Router::Router(RouterOptions options, Services* services,
               std::span<const std::span<const Route>> families)
    : impl_(std::make_unique<Impl>(std::move(options), services)) {
  for (std::span<const Route> family : families) {
    for (const Route& route : family) {
      if (route.path == "/metrics" && !impl_->parts.options.metrics) continue;
      impl_->table.Add(&route);
    }
  }
  impl_->parts.openapi = MakeOpenApi(impl_->table.routes(), services->version);
  impl_->parts.openapi_text = WriteJson(impl_->parts.openapi);
  services->parts = &impl_->parts;
}

Router::~Router() {
  impl_->parts.background.Stop();
  if (impl_->services->parts == &impl_->parts) impl_->services->parts = nullptr;
}

HttpHandler::Admission Router::Admit(const Request& head) {
  Impl::Decision decision = impl_->Decide(head);
  if (!decision.refusal) return {.body_max = decision.route->body_max};
  Response& refusal = *decision.refusal;
  const std::string_view origin = AllowedOrigin(impl_->parts.options, head);
  if (!origin.empty()) {
    refusal.headers.Set("Access-Control-Allow-Origin", std::string(origin));
    refusal.headers.Set("Vary", "Origin");
  }
  impl_->recorder->Record(head, decision.route, refusal.status, refusal.body.size());
  return {.refusal = std::move(refusal)};
}

void Router::Handle(std::shared_ptr<Exchange> exchange) {
  const Request& request = exchange->request();
  impl_->SweepLater();
  Impl::Decision decision = impl_->Decide(request);
  const Route* route = decision.route;
  auto recorded = std::make_shared<RecordedExchange>(exchange, impl_->recorder, route,
                                                     AllowedOrigin(impl_->parts.options, request));
  if (decision.refusal) return recorded->Send(std::move(*decision.refusal));

  const auto call = std::make_shared<Call>(std::move(recorded), route, impl_->services,
                                           std::move(decision.path), decision.scope);
  if (route->body == BodyKind::kJson && request.body.empty()) {
    return call->Refuse(400, "bad_request", "a JSON body is needed");
  }
  const bool json = route->body == BodyKind::kJson || route->body == BodyKind::kOptional;
  if (json && !request.body.empty()) {
    Result<Json> body = ParseJson(request.body);
    if (!body) {
      return call->Refuse(400, body.error().code,
                          fmt::format("the body is not valid JSON: {}", body.error().message));
    }
    call->SetBody(std::move(*body));
  }
  try {
    route->handle(call);
  } catch (const std::exception& error) {
    // Ours do not throw; the standard library does, when memory is short.
    call->Refuse(Error{"exception", error.what()});
  }
}

Response Router::Malformed(int status, std::string_view what, std::string_view request_id) {
  struct Name {
    int status;
    std::string_view code;
  };
  constexpr Name kNames[] = {{400, "bad_request"}, {408, "timeout"},   {413, "too_large"},
                             {415, "media_type"},  {431, "too_large"}, {503, "overloaded"},
                             {505, "bad_request"}};
  const auto* name = std::ranges::find(kNames, status, &Name::status);
  const std::string_view code = name != std::end(kNames) ? name->code
                                : status >= 500          ? std::string_view("internal")
                                                         : std::string_view("bad_request");
  Request request;
  request.method = "other";
  request.id = request_id;
  Response response = ErrorResponse(status, code, what, request_id);
  impl_->recorder->Record(request, nullptr, status, response.body.size());
  return response;
}

std::span<const Route* const> Router::routes() const { return impl_->table.routes(); }
const Json& Router::OpenApi() const { return impl_->parts.openapi; }

void InBackground(CallPtr call, void (*rest)(CallPtr)) {
  Background& background = call->services().parts->background;
  Background::Task task = [call, rest] { rest(call); };
  if (!background.Post(task)) {
    call->Refuse(429, "overloaded", "too many slow requests wait already; try again later");
  }
}

}  // namespace noetl::api
