// Events from workers.
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/event_request.h"
#include "api/execution_json.h"
#include "api/handle.h"
#include "api/ingest.h"
#include "api/route.h"

namespace noetl::api {
namespace {

Status PostEvent(const CallPtr& call) {
  Ingest ingest(call->services());
  const EventDefaults defaults = {.now_us = call->services().clock->NowMicros()};
  Result<EventRequest> request = ReadEventRequest(call->body(), defaults);
  if (!request) return ingest.Refuse({&call->body(), 1}, request.error());
  ingest.Read(1);
  std::vector<EventRequest> requests;
  requests.push_back(*std::move(request));
  PostEvents(*call->services().conductor, std::move(requests), [call, ingest](PostOutcome outcome) {
    ingest.End(outcome);
    const EventOutcome& event = outcome.events.front();
    if (!event.code.empty()) return call->Refuse(Error{event.code, event.message});
    call->Answer(Json::Object({{"status", "ok"},
                               {"event_id", event.event_id},
                               {"commands_generated", outcome.commands_issued}}));
  });
  return {};
}

void AnswerBatch(const CallPtr& call, const PostOutcome& outcome) {
  std::vector<Json> ids;
  std::vector<Json> details;
  const EventOutcome* refused = nullptr;
  for (const EventOutcome& event : outcome.events) {
    ids.emplace_back(event.event_id);
    details.push_back(OutcomeBody(event));
    if (!event.code.empty() && !refused) refused = &event;
  }
  if (refused)
    return call->Refuse(Error{refused->code, refused->message}, Json::Array(std::move(details)));
  call->Answer(Json::Object({{"status", "ok"},
                             {"event_ids", Json::Array(std::move(ids))},
                             {"commands_generated", outcome.commands_issued}}));
}

Result<std::vector<EventRequest>> ReadBatch(const Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  EventDefaults defaults = {.actionable = false, .now_us = call.services().clock->NowMicros()};
  NOETL_ASSIGN(defaults.execution_id, IdMember(body, "execution_id"));
  NOETL_ASSIGN(defaults.worker_id, OptionalText(body, "worker_id"));
  if (!body["events"].is_array()) return Fail("invalid", "`events` must be a list");
  const std::int64_t events_max =
      call.services().settings->Int("NOETL_BATCH_MAX_EVENTS_PER_REQUEST");
  return ReadEventRequests(body["events"], defaults, static_cast<std::size_t>(events_max));
}

Status PostBatch(const CallPtr& call) {
  Ingest ingest(call->services());
  Result<std::vector<EventRequest>> requests = ReadBatch(*call);
  if (!requests) return ingest.Refuse(call->body()["events"].items(), requests.error());
  ingest.Read(requests->size());
  PostEvents(*call->services().conductor, *std::move(requests),
             [call, ingest](const PostOutcome& outcome) {
               ingest.End(outcome);
               AnswerBatch(call, outcome);
             });
  return {};
}

Result<Json> GetEvent(Call& call) {
  NOETL_ASSIGN(const std::int64_t event_id, call.PathId("event_id"));
  NOETL_ASSIGN(const std::int64_t execution_id, call.QueryId("execution_id"));
  NOETL_ASSIGN(const bool redact, WantsRedaction(call));
  const store::Store& store = *call.services().store;
  NOETL_ASSIGN(
      const std::optional<engine::Event> event,
      execution_id != 0 ? store.FindEvent(execution_id, event_id) : store.FindEvent(event_id));
  if (!event) return Fail("not_found", fmt::format("event not found: {}", event_id));
  return EventBody(*event, {.ids = Ids::kTexts, .redact = redact, .payload = true});
}

constexpr Parameter kEventQuery[] = {
    {"execution_id", "integer", "the run of the event, when it is known"},
    {"redact", "boolean", "false shows credentials; workers and administrators only"},
};

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/events",
     .family = "events",
     .summary = "Record one event of a worker and advance its run; a repetition changes nothing",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = Handled<PostEvent>,
     .request = R"({"execution_id":325481002387804160,"event_type":"call.done","step":"start",)"
                R"("status":"COMPLETED","created_at":"2026-06-18T12:00:01.5Z","context":{)"
                R"("command_id":"325481002387804160:start:325481002400000000","call_index":0,)"
                R"("result":{"status":"success","context":{"data":{"msg":"hi"}}}},)"
                R"("event_id":325481006000000001,"worker_id":"worker-7",)"
                R"("meta":{"attempts":1,"claim_token":1}})",
     .response = R"({"status":"ok","event_id":325481006000000001,"commands_generated":0})"},
    {.method = "POST",
     .path = "/api/events/batch",
     .family = "events",
     .summary = "Record up to 256 events of one run; one decision follows them",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = Handled<PostBatch>,
     .request = R"({"execution_id":"325481002387804160","worker_id":"worker-7","events":[)"
                R"({"step":"start","event_type":"command.started","payload":{"command_id":"c1"}},)"
                R"({"step":"start","event_type":"command.completed",)"
                R"("payload":{"command_id":"c1"}}]})",
     .response = R"({"status":"ok","event_ids":[325481006000000001,325481006000000002],)"
                 R"("commands_generated":1})"},
    {.method = "GET",
     .path = "/api/event/{event_id}",
     .family = "events",
     .summary = "One event of the log",
     .scope = Scope::kViewer,
     .handle = Now<GetEvent>,
     .query = kEventQuery,
     .response = R"({"event_id":"325481006000000001","execution_id":"325481002387804160",)"
                 R"("seq":5,"event_type":"call.done","node_name":"start","status":"COMPLETED",)"
                 R"("created_at":"2026-06-18T12:00:01.500000Z","result":{"status":"COMPLETED"},)"
                 R"("error":null})"},
};

}  // namespace

std::span<const Route> EventRoutes() { return kRoutes; }

}  // namespace noetl::api
