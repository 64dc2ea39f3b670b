#include "api/event_request.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "api/route.h"
#include "engine/events.h"

namespace noetl::api {

namespace {

// Types that are nobody's but the server's, besides those of the engine's table.
constexpr std::array<std::string_view, 6> kSubscriptionStates = {
    "subscription.registered", "subscription.activated", "subscription.paused",
    "subscription.resumed",    "subscription.draining",  "subscription.deactivated"};

// A database refuses U+0000 in any text.
bool HasNul(const Json& value) {
  switch (value.type()) {
    case Json::Type::kString: return value.AsString().find('\0') != std::string_view::npos;
    case Json::Type::kArray: return std::ranges::any_of(value.items(), HasNul);
    case Json::Type::kObject:
      return std::ranges::any_of(value.members(), [](const JsonMember& member) {
        return HasNul(member.key_json()) || HasNul(member.value);
      });
    default: return false;
  }
}

// The first of the names that the body has with a value.
const Json& FirstOf(const Json& body, std::initializer_list<std::string_view> names) {
  static const Json none;
  for (const std::string_view name : names) {
    if (const Json* found = body.Find(name); found && !found->is_null()) return *found;
  }
  return none;
}

Result<std::string> RequiredText(const Json& body, std::initializer_list<std::string_view> names) {
  const Json& value = FirstOf(body, names);
  if (value.is_string() && !value.AsString().empty()) return value.ToString();
  return Fail("invalid", fmt::format("'{}' must be a text that is not empty", *names.begin()));
}

std::string TextOfId(const Json& value) {
  return value.is_int() ? std::to_string(value.AsInt()) : value.ToString();
}

std::string_view TierOf(std::string_view uri) {
  if (uri.starts_with("gs://")) return "gcs";
  if (uri.starts_with("s3://")) return "s3";
  return "artifact";
}

// {status, reference?, context?}.
Result<Json> ResultEnvelope(const Json& body, const Json& payload, std::string_view status) {
  JsonObjectBuilder result;
  result.Add("status", status);
  NOETL_ASSIGN(const std::string kind, OptionalText(body, "result_kind", "data"));
  if (kind == "ref") {
    NOETL_ASSIGN(const std::string uri, TextMember(body, "result_uri"));
    result.Add("reference", Json::Object({{"store_tier", TierOf(uri)}, {"logical_uri", uri}}));
  } else if (kind == "refs") {
    const Json& ids = body["event_ids"];
    if (!ids.is_array()) return Fail("invalid", "'event_ids' must be a list of ids");
    result.Add("reference", Json::Object({{"event_ids", ids}, {"total_parts", ids.size()}}));
  } else if (kind != "data") {
    return Fail("invalid", "'result_kind' must be data, ref or refs");
  }
  if (payload.is_object()) result.Add("context", payload);
  else if (!payload.is_null()) result.Add("context", Json::Object({{"value", payload}}));
  return result.Build();
}

Result<Json> EventMeta(const Json& body, const EventRequest& request, bool actionable_default) {
  NOETL_ASSIGN(Json meta, OptionalObject(body, "meta"));
  if (meta.is_null()) meta = Json::Object();
  NOETL_ASSIGN(const bool actionable, OptionalBool(body, "actionable", actionable_default));
  NOETL_ASSIGN(const bool informative, OptionalBool(body, "informative", true));
  meta = meta.With("actionable", actionable).With("informative", informative);
  if (!request.worker_id.empty()) meta = meta.With("worker_id", request.worker_id);
  if (!request.posted.command_id.empty()) meta = meta.With("command_id", request.posted.command_id);
  if (request.posted.claim_token != 0) meta = meta.With("claim_token", request.posted.claim_token);
  return meta;
}

Status ReadContent(const Json& body, const EventDefaults& defaults, EventRequest& request) {
  engine::Event& event = request.posted.event;
  const Json& payload = FirstOf(body, {"payload", "context"});
  NOETL_ASSIGN(event.status, OptionalText(body, "status"));
  if (event.status.empty()) event.status = DerivedStatus(event.type_name);
  NOETL_ASSIGN(event.result, ResultEnvelope(body, payload, event.status));
  request.posted.command_id = TextOfId(FirstOf(payload, {"command_id"}));
  if (request.posted.command_id.empty())
    request.posted.command_id = TextOfId(FirstOf(body["meta"], {"command_id"}));
  if (request.posted.command_id.empty())
    request.posted.command_id = TextOfId(FirstOf(body, {"command_id"}));
  NOETL_ASSIGN(request.posted.claim_token, ReadClaimToken(body));
  NOETL_ASSIGN(event.meta, EventMeta(body, request, defaults.actionable));
  if (const Json& error = FirstOf(payload, {"error"}); error.is_string())
    event.error = error.ToString();
  else if (const Json& text = FirstOf(body, {"error"}); text.is_string())
    event.error = text.ToString();
  return {};
}

}  // namespace

std::string_view DerivedStatus(std::string_view type_name) {
  const auto contains = [&](std::string_view word) {
    return type_name.find(word) != std::string_view::npos;
  };
  if (contains("done") || contains("exit") || contains("completed")) return "COMPLETED";
  if (contains("error") || contains("failed")) return "FAILED";
  return "RUNNING";
}

bool IsServerOwned(std::string_view type_name) {
  if (type_name.starts_with("playbook") || type_name.starts_with("execution.")) return true;
  if (std::ranges::find(kSubscriptionStates, type_name) != kSubscriptionStates.end()) return true;
  const engine::EventType type = engine::EventTypeOf(type_name);
  return std::ranges::any_of(engine::EventTypes(), [&](const engine::EventTypeInfo& info) {
    return info.type == type && info.server_only;
  });
}

Result<std::int64_t> ReadClaimToken(const Json& body) {
  for (const Json* place : {&body, &body["meta"]}) {
    for (const std::string_view name : {"claim_token", "claim_epoch"}) {
      NOETL_ASSIGN(const std::optional<std::int64_t> token, OptionalId(*place, name));
      if (token) return *token;
    }
  }
  return 0;
}

Result<EventRequest> ReadEventRequest(const Json& body, const EventDefaults& defaults) {
  if (!body.is_object()) return Fail("invalid", "an event must be a map");
  if (HasNul(body)) return Fail("invalid", "texts of an event must not hold U+0000");
  EventRequest request;
  engine::Event& event = request.posted.event;
  NOETL_ASSIGN(const std::optional<std::int64_t> execution_id, OptionalId(body, "execution_id"));
  request.execution_id = execution_id.value_or(defaults.execution_id);
  if (request.execution_id == 0) return Fail("invalid", "'execution_id' is missing");
  if (defaults.execution_id != 0 && request.execution_id != defaults.execution_id)
    return Fail("invalid", "'execution_id' of an event differs from that of its batch");

  NOETL_ASSIGN(event.type_name, RequiredText(body, {"event_type", "name"}));
  NOETL_ASSIGN(event.node_name, RequiredText(body, {"step", "node_name"}));
  if (IsServerOwned(event.type_name)) {
    return Fail("forbidden",
                fmt::format("events of type '{}' are written by the server only", event.type_name));
  }
  event.type = engine::EventTypeOf(event.type_name);
  event.execution_id = request.execution_id;
  NOETL_ASSIGN(const std::optional<std::int64_t> event_id, OptionalId(body, "event_id"));
  event.event_id = event_id.value_or(0);
  NOETL_ASSIGN(request.worker_id, OptionalText(body, "worker_id", defaults.worker_id));
  event.worker_id = request.worker_id;
  NOETL_ASSIGN(event.node_type, OptionalText(body, "node_type"));
  NOETL_ASSIGN(const std::optional<std::int64_t> at_us, OptionalTimeUs(body, "created_at"));
  event.created_at_us = at_us.value_or(defaults.now_us);
  NOETL_TRY(ReadContent(body, defaults, request));
  return request;
}

Result<std::vector<EventRequest>> ReadEventRequests(const Json& list, const EventDefaults& defaults,
                                                    std::size_t events_max) {
  if (list.is_null()) return std::vector<EventRequest>();
  if (!list.is_array()) return Fail("invalid", "'events' must be a list");
  if (list.size() > events_max) {
    return Fail("too_large", fmt::format("{} events in one request; at most {} are taken",
                                         list.size(), events_max));
  }
  std::vector<EventRequest> requests;
  for (const Json& item : list.items()) {
    Result<EventRequest> request = ReadEventRequest(item, defaults);
    if (!request) {
      return Fail(request.error().code,
                  fmt::format("events[{}]: {}", requests.size(), request.error().message));
    }
    requests.push_back(*std::move(request));
  }
  return requests;
}

Result<conductor::Holding> ReadHolding(const Json& value) {
  if (!value.is_object()) {
    NOETL_ASSIGN(const std::int64_t id, IdMember(Json::Object({{"event_id", value}}), "event_id"));
    return conductor::Holding{.event_id = id};
  }
  NOETL_ASSIGN(const std::int64_t event_id, IdMember(value, "event_id"));
  NOETL_ASSIGN(const std::int64_t token, ReadClaimToken(value));
  return conductor::Holding{.event_id = event_id, .claim_token = token};
}

Result<std::vector<conductor::Holding>> ReadHoldings(const Json& list) {
  std::vector<conductor::Holding> holdings;
  if (list.is_null()) return holdings;
  if (!list.is_array()) return Fail("invalid", "'commands' must be a list");
  for (const Json& item : list.items()) {
    NOETL_ASSIGN(const conductor::Holding holding, ReadHolding(item));
    holdings.push_back(holding);
  }
  return holdings;
}

// ---- posting

Json OutcomeBody(const EventOutcome& event) {
  JsonObjectBuilder body;
  body.Add("event_id", event.event_id).Add("status", event.code.empty() ? "ok" : "refused");
  if (!event.code.empty()) body.Add("code", event.code).Add("error", event.message);
  return body.Build();
}

namespace {

// Gathers the answers of the runs; the last one answers the request.
struct Gathering {
  std::vector<EventOutcome> events;
  std::atomic<std::int64_t> commands_issued = 0;
  std::atomic<std::size_t> open = 1;  // the one who asks counts, so that nobody answers too early
  std::move_only_function<void(PostOutcome)> done;

  void Leave() {
    if (open.fetch_sub(1) != 1) return;
    done(PostOutcome{.events = std::move(events), .commands_issued = commands_issued.load()});
  }
};

struct Group {
  conductor::PostCall call;
  std::vector<std::size_t> places;  // of its events in the request
};

}  // namespace

void PostEvents(conductor::Conductor& conductor, std::vector<EventRequest> requests,
                std::move_only_function<void(PostOutcome)> done) {
  auto gathering = std::make_shared<Gathering>();
  gathering->events.resize(requests.size());
  gathering->done = std::move(done);

  std::vector<Group> groups;
  std::map<std::pair<std::int64_t, std::string>, std::size_t> known;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EventRequest& request = requests[i];
    const auto [at, is_new] =
        known.try_emplace({request.execution_id, request.worker_id}, groups.size());
    if (is_new) {
      groups.push_back({.call = {.execution_id = request.execution_id,
                                 .worker_id = request.worker_id,
                                 .events = {}},
                        .places = {}});
    }
    gathering->events[i].type = request.posted.event.type;
    Group& group = groups[at->second];
    group.call.events.push_back(std::move(request.posted));
    group.places.push_back(i);
  }

  gathering->open += groups.size();
  for (Group& group : groups) {
    conductor.Post(std::move(group.call), [gathering, places = std::move(group.places)](
                                              Result<conductor::PostAnswer> answer) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        EventOutcome& outcome = gathering->events[places[i]];
        if (!answer) {
          outcome.code = answer.error().code;
          outcome.message = answer.error().message;
        } else if (i >= answer->events.size()) {
          outcome.code = "not_found";
          outcome.message = "the run is not known";
        } else {
          conductor::Posted& posted = answer->events[i];
          outcome.event_id = posted.event_id;
          outcome.code = std::move(posted.code);
          outcome.message = std::move(posted.message);
        }
      }
      if (answer) gathering->commands_issued += answer->commands_issued;
      gathering->Leave();
    });
  }
  gathering->Leave();
}

}  // namespace noetl::api
