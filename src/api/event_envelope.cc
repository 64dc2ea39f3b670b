#include "api/event_envelope.h"

#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "api/route.h"
#include "base/json_io.h"
#include "base/text.h"

namespace noetl::api {
namespace {

// Texts of a row that are taken as they are.
constexpr std::string_view kTexts[] = {"event_type", "node_name", "node_type",
                                       "status",     "error",     "worker_id"};
constexpr std::string_view kValues[] = {"context", "result", "meta"};
constexpr std::string_view kIds[] = {"execution_id", "catalog_id", "parent_event_id",
                                     "prev_event_id", "parent_execution_id"};

bool IsNone(const Json& id) {
  return id.is_null() || (id.is_string() && Trim(id.AsString()).empty()) ||
         (id.is_int() && id.AsInt() == 0);
}

Result<std::int64_t> ReadTimeUs(const Json& envelope, std::int64_t now_us) {
  for (const std::string_view name : {"timestamp", "created_at"}) {
    const Json& time = envelope[name];
    if (time.is_string() && Trim(time.AsString()).empty()) continue;
    NOETL_ASSIGN(const std::optional<std::int64_t> us, OptionalTimeUs(envelope, name));
    if (us) return *us;
  }
  return now_us;
}

}  // namespace

Json EventEnvelope(const engine::Event& event) {
  const Json row = engine::EventToJson(event);
  JsonObjectBuilder envelope;
  for (const JsonMember& member : row.members()) {
    if (member.key() == "created_at_us" || member.key() == "ingest_us") continue;
    envelope.Add(member.key(), member.value);
  }
  envelope.Add("timestamp", TimeOrNull(event.created_at_us))
      .Add("created_at", TimeOrNull(event.ingest_us));
  return envelope.Build();
}

Result<EventRequest> ReadEnvelope(const Json& envelope, std::int64_t now_us) {
  if (!envelope.is_object()) return Fail("invalid", "an event must be a map");
  // What the store would refuse is refused here, where it spoils nothing but itself.
  NOETL_TRY(WriteStoredJson(envelope));
  JsonObjectBuilder row;
  NOETL_ASSIGN(const std::int64_t event_id, IdMember(envelope, "event_id"));
  row.Add("event_id", event_id);
  for (const std::string_view name : kIds) {
    if (IsNone(envelope[name])) continue;
    NOETL_ASSIGN(const std::int64_t id, IdMember(envelope, name));
    row.Add(name, id);
  }
  for (const std::string_view name : kTexts) row.AddSome(name, envelope[name]);
  for (const std::string_view name : kValues) row.AddSome(name, envelope[name]);
  NOETL_ASSIGN(const std::int64_t at_us, ReadTimeUs(envelope, now_us));
  row.Add("created_at_us", at_us);

  EventRequest request;
  NOETL_ASSIGN(request.posted.event, engine::EventFromJson(row.Build()));
  engine::Event& event = request.posted.event;
  if (event.status.empty()) event.status = std::string(DerivedStatus(event.type_name));
  request.execution_id = event.execution_id;
  request.worker_id = event.worker_id;
  request.posted.command_id = std::string(engine::CommandIdOf(event));
  NOETL_ASSIGN(request.posted.claim_token, ReadClaimToken(envelope));
  return request;
}

}  // namespace noetl::api
