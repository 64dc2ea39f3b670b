// Commands for remote workers: claim one, lease many, keep, give back, and the text their tools
// write.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/claim_body.h"
#include "api/event_request.h"
#include "api/execution_json.h"
#include "api/handle.h"
#include "api/ingest.h"
#include "api/route.h"
#include "engine/events.h"

namespace noetl::api {
namespace {

// One piece of a log; a worker cuts longer texts.
constexpr std::size_t kChunkBytesMax = 64u << 10;
constexpr std::size_t kChunksMax = 256;

LoadBody Loader(const Services& services) {
  return [store = services.store](std::string_view ref) { return store->Load(ref); };
}

Result<store::CommandRow> FindCommand(const store::Store& store, std::int64_t event_id) {
  NOETL_ASSIGN(std::optional<store::CommandRow> row, store.FindCommand(event_id));
  if (!row) return Fail("not_found", fmt::format("command not found: {}", event_id));
  return *std::move(row);
}

Result<Json> GetCommand(Call& call) {
  NOETL_ASSIGN(const std::int64_t event_id, call.PathId("event_id"));
  const store::Store& store = *call.services().store;
  NOETL_ASSIGN(const store::CommandRow row, FindCommand(store, event_id));
  NOETL_ASSIGN(const std::optional<engine::Event> issued,
               store.FindEvent(row.execution_id, event_id));
  if (!issued) return Fail("not_found", fmt::format("command not found: {}", event_id));
  NOETL_ASSIGN(const std::optional<store::ExecutionRow> run, store.Find(row.execution_id));
  bus::Grant grant;
  grant.execution_id = row.execution_id;
  grant.command_id = row.id;
  grant.event_id = event_id;
  grant.path = run ? run->path : "";
  grant.step = row.step;
  grant.tool_kind = row.tool_kind;
  grant.context = issued->context;
  grant.meta = issued->meta;
  return CommandBody(grant, Loader(call.services()));
}

// ---- claim

// The holder, for a caller who came too late.
Json HolderOf(const Services& services, std::int64_t event_id) {
  const auto row = services.store->FindCommand(event_id);
  if (!row || !*row || (*row)->worker_id.empty()) return Json();
  return Json::Object({{"worker_id", (*row)->worker_id}});
}

// When a worker whose command is another's may ask again. Whole seconds: the header has no others.
std::int64_t ClaimAgainSeconds(const Services& services) {
  return (services.settings->DurationMs("NOETL_COMMAND_CLAIM_RETRY_AFTER_SECONDS") + 999) / 1'000;
}

Status ClaimCommand(const CallPtr& call) {
  conductor::ClaimCall claim;
  NOETL_ASSIGN(claim.event_id, call->PathId("event_id"));
  NOETL_ASSIGN(claim.worker_id, TextMember(call->body(), "worker_id"));
  NOETL_ASSIGN(claim.request_id, OptionalText(call->body(), "request_id"));
  const std::int64_t event_id = claim.event_id;
  call->services().conductor->Claim(
      std::move(claim), [call, event_id](Result<conductor::Claimed> claimed) {
        ClaimMetrics& metrics = MetricsOf(call->services()).claim_outcomes;
        if (claimed) metrics.Count(*claimed);
        else metrics.Count(claimed.error());
        if (claimed) return call->Answer(ClaimBody(*claimed, Loader(call->services())));
        const Error& error = claimed.error();
        if (error.code != "active_claim") return call->Refuse(error);
        call->AddHeader("Retry-After", std::to_string(ClaimAgainSeconds(call->services())));
        call->Refuse(error, HolderOf(call->services(), event_id));
      });
  return {};
}

Result<Json> HeartbeatCommand(Call& call) {
  NOETL_ASSIGN(const std::int64_t event_id, call.PathId("event_id"));
  NOETL_ASSIGN(const std::string worker_id, TextMember(call.body(), "worker_id"));
  NOETL_ASSIGN(const std::int64_t token, ReadClaimToken(call.body()));
  conductor::Conductor& conductor = *call.services().conductor;
  NOETL_ASSIGN(const store::CommandRow row, FindCommand(*call.services().store, event_id));
  const conductor::Holding holding = {.event_id = event_id, .claim_token = token};
  const conductor::RenewAnswer answer = conductor.Renew(worker_id, {&holding, 1});
  if (!answer.cancel.empty()) {
    return Json::Object({{"status", "ok"}, {"lease_until", Json()}, {"cancelled", true}});
  }
  if (!answer.lost.empty())
    return Fail("stale_claim", fmt::format("command {} is not held by {}", row.id, worker_id));
  // Leases count in monotonic time.
  const std::optional<conductor::Lease> lease = conductor.leases().Find(event_id);
  Clock& clock = *call.services().clock;
  const std::int64_t until_us =
      lease ? clock.NowMicros() + lease->until_us - clock.MonotonicMicros() : 0;
  return Json::Object(
      {{"status", "ok"}, {"lease_until", TimeOrNull(until_us)}, {"cancelled", false}});
}

Status ReleaseCommand(const CallPtr& call) {
  conductor::Holding holding;
  NOETL_ASSIGN(holding.event_id, call->PathId("event_id"));
  NOETL_ASSIGN(const std::string worker_id, TextMember(call->body(), "worker_id"));
  NOETL_ASSIGN(holding.claim_token, ReadClaimToken(call->body()));
  call->services().conductor->Release(worker_id, holding, [call](Status released) {
    if (!released) return call->Refuse(released.error());
    call->Answer(Json::Object({{"status", "ok"}}));
  });
  return {};
}

// ---- lease

Result<std::vector<std::string>> TextList(const Json& body, std::string_view name) {
  std::vector<std::string> texts;
  const Json& list = body[name];
  if (list.is_null()) return texts;
  const bool all_texts = std::ranges::all_of(list.items(), &Json::is_string);
  if (!list.is_array() || !all_texts)
    return Fail("invalid", fmt::format("`{}` must be a list of texts", name));
  for (const Json& item : list.items()) texts.push_back(item.ToString());
  return texts;
}

Result<conductor::LeaseCall> ReadLease(const Json& body) {
  NOETL_TRY(NeedMap(body));
  conductor::LeaseCall lease;
  NOETL_ASSIGN(lease.worker_id, TextMember(body, "worker_id"));
  NOETL_ASSIGN(lease.pools, TextList(body, "pools"));
  NOETL_ASSIGN(lease.kinds, TextList(body, "kinds"));
  // 0: the events are all it came for.
  NOETL_ASSIGN(const std::int64_t max, OptionalInt(body, "max", 1, 0, conductor::kLeaseMax));
  lease.max = static_cast<int>(max);
  NOETL_ASSIGN(lease.wait_ms, OptionalInt(body, "wait_ms", 0, 0, conductor::kLeaseWaitMsMax));
  NOETL_ASSIGN(lease.request_id, OptionalText(body, "request_id"));
  return lease;
}

struct LeaseAnswer {
  std::vector<Json> events;
  conductor::RenewAnswer renewed;
};

void AnswerLease(const CallPtr& call, LeaseAnswer answer, std::vector<conductor::Claimed> claimed) {
  Services& services = call->services();
  ClaimMetrics& metrics = MetricsOf(services).claim_outcomes;
  std::vector<Json> commands;
  for (const conductor::Claimed& command : claimed) {
    metrics.Count(command);
    commands.push_back(ClaimBody(command, Loader(services)));
  }
  call->Answer(Json::Object({{"events", Json::Array(std::move(answer.events))},
                             {"commands", Json::Array(std::move(commands))},
                             {"cancel", IdList(answer.renewed.cancel)},
                             {"lost", IdList(answer.renewed.lost)}}));
}

struct LeaseRequest {
  conductor::LeaseCall lease;
  std::vector<EventRequest> events;
  std::vector<conductor::Holding> holdings;
};

Result<LeaseRequest> ReadLeaseRequest(const Call& call) {
  LeaseRequest request;
  NOETL_ASSIGN(request.lease, ReadLease(call.body()));
  const EventDefaults defaults = {.worker_id = request.lease.worker_id,
                                  .now_us = call.services().clock->NowMicros()};
  NOETL_ASSIGN(request.events, ReadEventRequests(call.body()["events"], defaults));
  NOETL_ASSIGN(request.holdings, ReadHoldings(call.body()["commands"]));
  return request;
}

Status LeaseCommands(const CallPtr& call) {
  Ingest ingest(call->services());
  Result<LeaseRequest> request = ReadLeaseRequest(*call);
  if (!request) return ingest.Refuse(call->body()["events"].items(), request.error());
  auto& [lease, events, holdings] = *request;
  ingest.Read(events.size());
  if (!events.empty()) lease.wait_ms = std::min(lease.wait_ms, conductor::kLeaseWaitMsWithEvents);
  auto answer = std::make_shared<LeaseAnswer>();
  if (!holdings.empty())
    answer->renewed = call->services().conductor->Renew(lease.worker_id, holdings);

  PostEvents(*call->services().conductor, std::move(events),
             [call, ingest, answer, lease = std::move(lease)](PostOutcome outcome) mutable {
               ingest.End(outcome);
               for (const EventOutcome& event : outcome.events)
                 answer->events.push_back(OutcomeBody(event));
               if (lease.max == 0) return AnswerLease(call, std::move(*answer), {});
               lease.gone = [call] { return call->gone(); };
               call->services().conductor->Lease(
                   std::move(lease), [call, answer](std::vector<conductor::Claimed> claimed) {
                     AnswerLease(call, std::move(*answer), std::move(claimed));
                   });
             });
  return {};
}

// ---- logs

Result<std::vector<bus::LogText>> ReadChunks(const Json& list) {
  if (!list.is_array() || list.size() > kChunksMax)
    return Fail("invalid", fmt::format("`chunks` must be a list of at most {}", kChunksMax));
  std::vector<bus::LogText> chunks;
  for (const Json& item : list.items()) {
    bus::LogText chunk;
    NOETL_ASSIGN(chunk.stream, OptionalText(item, "stream", "stdout"));
    if (chunk.stream != "stdout" && chunk.stream != "stderr")
      return Fail("invalid", "`stream` must be stdout or stderr");
    NOETL_ASSIGN(chunk.offset, OptionalInt(item, "offset", 0, 0, INT64_MAX));
    NOETL_ASSIGN(chunk.text, OptionalText(item, "text"));
    if (chunk.text.size() > kChunkBytesMax)
      return Fail("too_large", fmt::format("a chunk has at most {} bytes", kChunkBytesMax));
    if (chunk.text.find('\0') != std::string::npos)
      return Fail("invalid", "`text` must not hold U+0000");
    if (!chunk.text.empty()) chunks.push_back(std::move(chunk));
  }
  return chunks;
}

// The number of the command, from its text id or as it is.
Result<std::int64_t> ReadCommandNumber(const Json& body) {
  const Json& id = body["command_id"];
  const std::int64_t number = id.is_string() ? engine::CommandNumber(id.AsString()) : 0;
  if (number != 0) return number;
  return IdMember(body, "command_id");
}

Status PostLogs(const CallPtr& call) {
  const Json& body = call->body();
  NOETL_TRY(NeedMap(body));
  NOETL_ASSIGN(const std::int64_t execution_id, call->PathId("execution_id"));
  NOETL_ASSIGN(const std::int64_t number, ReadCommandNumber(body));
  NOETL_ASSIGN(const store::CommandRow row, FindCommand(*call->services().store, number));
  if (row.execution_id != execution_id)
    return Fail("not_found", fmt::format("run {} has no command {}", execution_id, row.id));
  bus::Report report;
  NOETL_ASSIGN(report.logs, ReadChunks(body["chunks"]));
  NOETL_ASSIGN(report.claim_token, ReadClaimToken(body));
  NOETL_ASSIGN(report.worker_id, OptionalText(body, "worker_id", row.worker_id));
  if (report.claim_token == 0) report.claim_token = row.claim_token;
  report.execution_id = execution_id;
  report.command_id = row.id;
  report.event_id = number;
  report.step = row.step;
  const std::int64_t count = std::ssize(report.logs);
  const auto answer = [call, count](const Status& sent) {
    if (!sent) return call->Refuse(sent.error());
    call->Answer(Json::Object({{"status", "ok"}, {"chunks", count}}));
  };
  if (count == 0) answer({});
  else call->services().conductor->Send(std::move(report), answer);
  return {};
}

constexpr std::string_view kClaimExample =
    R"({"status":"ok","event_id":325481002400000000,"execution_id":325481002387804160,)"
    R"("node_id":"start","node_name":"start","action":"python","context":{"tool_config":{)"
    R"("kind":"python","code":"..."},"args":{},"render_context":{"workload":{"who":"ann"},)"
    R"("who":"ann"}},"meta":{"command_id":"325481002387804160:start:325481002400000000",)"
    R"("step":"start","tool_kind":"python","attempt":1,"attempts":3},"path":"demo/hello",)"
    R"("claim_token":1,"lease_seconds":120,"strict":false,"inline_bytes":102400})";

constexpr Route kRoutes[] = {
    {.method = "GET",
     .path = "/api/commands/{event_id}",
     .family = "commands",
     .summary = "A command by the id of its command.issued event",
     .scope = Scope::kWorker,
     .handle = Now<GetCommand>,
     .response = R"({"execution_id":325481002387804160,"node_id":"start","node_name":"start",)"
                 R"("action":"python","context":{"tool_config":{"kind":"python"},"args":{}},)"
                 R"("meta":{"command_id":"325481002387804160:start:325481002400000000",)"
                 R"("attempt":1,"attempts":3},"path":"demo/hello"})"},
    {.method = "POST",
     .path = "/api/commands/{event_id}/claim",
     .family = "commands",
     .summary = "Claim a command; 409 with a code when it is not to be had",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Handled<ClaimCommand>,
     .request = R"({"worker_id":"worker-7","request_id":"3f1c"})",
     .response = kClaimExample},
    {.method = "POST",
     .path = "/api/commands/{event_id}/heartbeat",
     .family = "commands",
     .summary = "Keep a claimed command; tells when it is not wanted any more",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<HeartbeatCommand>,
     .request = R"({"worker_id":"worker-7","claim_token":1,"progress":{"rows":100}})",
     .response =
         R"({"status":"ok","lease_until":"2026-06-18T12:02:00.000000Z","cancelled":false})"},
    {.method = "POST",
     .path = "/api/commands/{event_id}/release",
     .family = "commands",
     .summary = "Give a claimed command back; it is offered to others at once",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Handled<ReleaseCommand>,
     .request = R"({"worker_id":"worker-7","claim_token":1})",
     .response = R"({"status":"ok"})"},
    {.method = "POST",
     .path = "/api/commands/lease",
     .family = "commands",
     .summary = "Post events of finished commands and take new ones, waiting for work",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = Handled<LeaseCommands>,
     .request = R"({"worker_id":"worker-7","pools":["shared"],"kinds":["python","http"],"max":4,)"
                R"("wait_ms":30000,"request_id":"3f1d","events":[]})",
     .response = R"({"events":[],"commands":[{"status":"ok","event_id":325481002400000000,)"
                 R"("execution_id":325481002387804160,"node_name":"start","action":"python",)"
                 R"("claim_token":1,"lease_seconds":30}],"cancel":[],"lost":[]})",
     .waits = true},
    {.method = "POST",
     .path = "/api/executions/{execution_id}/logs",
     .family = "commands",
     .summary = "Add what a tool wrote; a repeated offset is ignored",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = Handled<PostLogs>,
     .request = R"({"command_id":"325481002387804160:start:325481002400000000",)"
                R"("worker_id":"worker-7","claim_token":1,)"
                R"("chunks":[{"stream":"stdout","offset":0,"text":"hello\n"}]})",
     .response = R"({"status":"ok","chunks":1})"},
};

}  // namespace

std::span<const Route> CommandRoutes() { return kRoutes; }

}  // namespace noetl::api
