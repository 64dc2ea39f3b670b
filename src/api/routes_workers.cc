// Workers that make themselves known, and the line on which they hear of cancelled commands.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/event_request.h"
#include "api/execution_json.h"
#include "api/handle.h"
#include "api/route.h"
#include "api/streams.h"
#include "base/json_io.h"

namespace noetl::api {
namespace {

constexpr std::string_view kWorkerPool = "worker_pool";
constexpr std::array<std::string_view, 3> kKinds = {kWorkerPool, "server_api", "broker"};
constexpr std::int64_t kCapacityMax = 1'000'000;

// `kind`, or `component_type`.
Result<std::string> ReadKind(const Json& body) {
  NOETL_ASSIGN(std::string kind, OptionalText(body, "kind"));
  if (kind.empty()) {
    NOETL_ASSIGN(kind, OptionalText(body, "component_type", kWorkerPool));
  }
  if (std::ranges::find(kKinds, kind) != kKinds.end()) return kind;
  return Fail("invalid", "`kind` must be worker_pool, server_api or broker");
}

// JSON as a column holds it.
Result<std::string> StoredMember(const Json& body, std::string_view name) {
  const Json& value = body[name];
  if (value.is_null()) return std::string();
  Result<std::string> text = WriteStoredJson(value);
  if (text) return text;
  return Fail("invalid", fmt::format("`{}`: {}", name, text.error().message));
}

Result<store::RuntimeRow> ReadRegistration(const Json& body) {
  NOETL_TRY(NeedMap(body));
  store::RuntimeRow row;
  NOETL_ASSIGN(row.name, TextMember(body, "name"));
  NOETL_ASSIGN(row.kind, ReadKind(body));
  NOETL_ASSIGN(row.uri, OptionalText(body, "uri"));
  NOETL_ASSIGN(row.status, OptionalText(body, "status", "active"));
  NOETL_ASSIGN(row.labels, StoredMember(body, "labels"));
  NOETL_ASSIGN(row.capabilities, StoredMember(body, "capabilities"));
  NOETL_ASSIGN(row.runtime, StoredMember(body, "runtime"));
  NOETL_ASSIGN(row.capacity, OptionalInt(body, "capacity", -1, -1, kCapacityMax));
  return row;
}

std::int64_t OfflineAfterUs(const Services& services) {
  return services.settings->DurationMs("NOETL_RUNTIME_OFFLINE_SECONDS") * 1'000;
}

// How long a command that is leased stays with its worker, so that a worker can tell from the first one
// on whether it was stopped for longer. Whole seconds: rather too short than too long.
std::int64_t LeaseSeconds(const Services& services) {
  return services.settings->DurationMs("NOETL_LEASE_SECONDS") / 1'000;
}

Result<Json> Register(Call& call) {
  Services& services = call.services();
  NOETL_ASSIGN(store::RuntimeRow row, ReadRegistration(call.body()));
  // A worker that begins anew holds nothing: what it had is lost.
  if (row.kind == kWorkerPool) services.conductor->ReleaseAll(row.name, true);
  NOETL_ASSIGN(const store::RuntimeRow stored,
               services.conductor->fleet().Register(std::move(row)));
  return RuntimeBody(stored, services.clock->NowMicros(), OfflineAfterUs(services))
      .With("lease_seconds", LeaseSeconds(services));
}

// False: it was not known and is now.
Result<bool> Beat(conductor::Fleet& fleet, const Json& body, std::string_view kind,
                  std::string_view name) {
  NOETL_ASSIGN(std::string status, OptionalText(body, "status"));
  NOETL_ASSIGN(const bool draining, OptionalBool(body, "draining", false));
  if (draining && status.empty()) status = "draining";
  NOETL_ASSIGN(const std::int64_t capacity, OptionalInt(body, "capacity", -1, -1, kCapacityMax));
  NOETL_ASSIGN(const std::int64_t in_flight, OptionalInt(body, "inflight", -1, -1, kCapacityMax));
  NOETL_ASSIGN(const Json registration, OptionalObject(body, "registration"));
  if (!registration.is_null()) {
    NOETL_ASSIGN(const auto known, fleet.Find(kind, name));
    if (!known) {
      NOETL_ASSIGN(store::RuntimeRow row,
                   ReadRegistration(registration.With("name", name).With("kind", kind)));
      NOETL_TRY(fleet.Register(std::move(row)));
      return false;
    }
  }
  return fleet.Heartbeat(kind, name, status, capacity, in_flight);
}

Result<Json> Heartbeat(Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  NOETL_ASSIGN(const std::string name, TextMember(body, "name"));
  NOETL_ASSIGN(const std::string kind, ReadKind(body));
  NOETL_ASSIGN(const std::vector<conductor::Holding> holdings, ReadHoldings(body["commands"]));
  conductor::Conductor& conductor = *call.services().conductor;
  NOETL_ASSIGN(const bool known, Beat(conductor.fleet(), body, kind, name));
  conductor::RenewAnswer answer;
  if (body["commands"].is_array()) answer = conductor.Renew(name, holdings);
  else if (kind == kWorkerPool) conductor.RenewClaims(name);
  return Json::Object({{"status", known ? "ok" : "recreated"},
                       {"message", known ? "recorded" : "registered anew"},
                       {"lease_seconds", LeaseSeconds(call.services())},
                       {"lost", IdList(answer.lost)},
                       {"cancel", IdList(answer.cancel)}});
}

Result<Json> Deregister(Call& call) {
  NOETL_TRY(NeedMap(call.body()));
  NOETL_ASSIGN(const std::string name, TextMember(call.body(), "name"));
  NOETL_ASSIGN(const std::string kind, ReadKind(call.body()));
  conductor::Conductor& conductor = *call.services().conductor;
  NOETL_ASSIGN(const bool known, conductor.fleet().Deregister(kind, name));
  if (kind == kWorkerPool) conductor.ReleaseAll(name, false);
  return Json::Object({{"status", "ok"}, {"message", known ? "gone" : "was not registered"}});
}

Result<Json> ListPools(Call& call) {
  Services& services = call.services();
  NOETL_ASSIGN(const std::vector<store::RuntimeRow> rows,
               services.conductor->fleet().List(call.Query("kind").value_or(kWorkerPool),
                                                call.Query("status").value_or(""),
                                                call.Query("name").value_or("")));
  std::vector<Json> list;
  for (const store::RuntimeRow& row : rows)
    list.push_back(RuntimeBody(row, services.clock->NowMicros(), OfflineAfterUs(services)));
  return Json::Array(std::move(list));
}

// ---- the control line

std::string ControlMessage(const conductor::ControlEvent& event) {
  using Kind = conductor::ControlEvent::Kind;
  JsonObjectBuilder data;
  data.AddSome("event_id", ShowId(event.event_id, Ids::kTexts))
      .AddSome("command_id", TextOrNull(event.command_id));
  const std::string_view type = event.kind == Kind::kCancel ? "cancel"
                                : event.kind == Kind::kLost ? "lost"
                                                            : "drain";
  return SseMessage(type, "", data.Build());
}

// What is known once the stream is open; both sides may come first.
struct ControlLine {
  std::mutex mutex;
  std::uint64_t listener = 0;
  bool closed = false;
};

Status Control(const CallPtr& call) {
  const std::string worker_id(call->Query("worker_id").value_or(""));
  if (worker_id.empty()) return Fail("bad_request", "`worker_id` is missing");
  Streams& streams = *call->services().streams;
  conductor::Fleet& fleet = call->services().conductor->fleet();
  NOETL_ASSIGN(const Streams::Id id, streams.Reserve());
  auto line = std::make_shared<ControlLine>();
  Response head;
  head.content_type = "text/event-stream";
  head.headers.Set("Cache-Control", "no-store");
  const std::shared_ptr<BodyStream> stream =
      call->Stream(std::move(head), [&streams, &fleet, id, line] {
        streams.Remove(id);
        const std::lock_guard lock(line->mutex);
        line->closed = true;
        if (line->listener != 0) fleet.Unlisten(line->listener);
      });
  if (!stream) {
    streams.Remove(id);
    return {};
  }
  stream->Write(": listening\n\n");
  streams.KeepAlive(id, stream);
  const std::uint64_t listener =
      fleet.Listen(worker_id, [stream](const conductor::ControlEvent& event) {
        // A worker that does not read asks again, and hears the rest from its heartbeat.
        if (!stream->Write(ControlMessage(event))) stream->Close();
      });
  const std::lock_guard lock(line->mutex);
  if (line->closed) fleet.Unlisten(listener);
  else line->listener = listener;
  return {};
}

constexpr Parameter kPoolQuery[] = {
    {"kind", "string", "worker_pool (default), server_api or broker"},
    {"status", "string", "exact"},
    {"name", "string", "a part of the name"},
};
constexpr Parameter kControlQuery[] = {{"worker_id", "string", "the worker that listens"}};

constexpr std::string_view kRuntimeExample =
    R"({"runtime_id":325480000000000001,"name":"worker-7","kind":"worker_pool","uri":null,)"
    R"("status":"ready","labels":{"pool_name":"shared"},"capabilities":null,"capacity":4,)"
    R"("runtime":{"kind":"cpp"},"heartbeat":"2026-06-18T12:00:00.000000Z",)"
    R"("created_at":"2026-06-18T12:00:00.000000Z","updated_at":"2026-06-18T12:00:00.000000Z",)"
    R"("online":true})";

constexpr std::string_view kNameExample = R"({"name":"worker-7","component_type":"worker_pool"})";

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/worker/pool/register",
     .family = "workers",
     .summary = "Make a worker known; commands that it held before are offered again",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<Written<WriteEndpoint::kRuntimeRegister, Register>>,
     .request = R"({"name":"worker-7","component_type":"worker_pool","runtime":{"kind":"cpp"},)"
                R"("status":"ready","capacity":4,"labels":{"pool_name":"shared"}})",
     .response = R"({"runtime_id":325480000000000001,"name":"worker-7","kind":"worker_pool",)"
                 R"("status":"ready","online":true,"lease_seconds":30})"},
    {.method = "POST",
     .path = "/api/worker/pool/heartbeat",
     .family = "workers",
     .summary = "A sign of life; renews claims and tells which are lost or not wanted",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<Written<WriteEndpoint::kRuntimeHeartbeat, Heartbeat>>,
     .request = R"({"name":"worker-7","inflight":1,)"
                R"("commands":[{"event_id":325481002400000000,"claim_token":1}]})",
     .response =
         R"({"status":"ok","message":"recorded","lease_seconds":30,"lost":[],"cancel":[]})"},
    {.method = "POST",
     .path = "/api/worker/pool/deregister",
     .family = "workers",
     .summary = "A worker says good-bye; what it held is offered again",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<Deregister>,
     .request = kNameExample,
     .response = R"({"status":"ok","message":"gone"})"},
    {.method = "DELETE",
     .path = "/api/worker/pool/deregister",
     .family = "workers",
     .summary = "The same as with POST",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<Deregister>,
     .request = kNameExample,
     .response = R"({"status":"ok","message":"gone"})"},
    {.method = "GET",
     .path = "/api/worker/pools",
     .family = "workers",
     .summary = "Workers that are known, and whether they are online",
     .scope = Scope::kViewer,
     .handle = Now<ListPools>,
     .query = kPoolQuery,
     .response = R"([{"runtime_id":325480000000000001,"name":"worker-7","online":true}])"},
    {.method = "GET",
     .path = "/api/worker/control",
     .family = "workers",
     .summary = "Server-sent events for one worker: cancel, lost, drain",
     .scope = Scope::kWorker,
     .handle = Handled<Control>,
     .query = kControlQuery,
     .response = R"({"event_id":"325481002400000000",)"
                 R"("command_id":"325481002387804160:start:325481002400000000"})"},
};

}  // namespace

std::span<const Route> WorkerRoutes() { return kRoutes; }

}  // namespace noetl::api
