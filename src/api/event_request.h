// Events as workers post them over HTTP, turned into what the conductor takes.
//
// Old and new names are read alike: `name` for `event_type`, `context` for `payload`, `node_name`
// for `step`, `claim_epoch` for `claim_token`; ids are numbers or decimal texts. Pure functions but
// for `PostEvents`, any thread. Errors: "invalid" (422) names the member, "forbidden" (403) is a
// type that only the server writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "conductor/conductor.h"
#include "conductor/worker_calls.h"
#include "engine/events.h"

namespace noetl::api {

// More in one request would hold a lane for too long, unless NOETL_BATCH_MAX_EVENTS_PER_REQUEST asks
// for it.
inline constexpr std::size_t kBatchEventsMax = 256;

// What an event takes over from the request around it.
struct EventDefaults {
  std::int64_t execution_id = 0;  // 0: each event must tell
  std::string worker_id;
  bool actionable = true;
  std::int64_t now_us = 0;
};

struct EventRequest {
  std::int64_t execution_id = 0;
  std::string worker_id;
  conductor::PostedEvent posted;
};

Result<EventRequest> ReadEventRequest(const Json& body, const EventDefaults& defaults);
// A list of at most `events_max`; the errors say which one is wrong.
Result<std::vector<EventRequest>> ReadEventRequests(const Json& list, const EventDefaults& defaults,
                                                    std::size_t events_max = kBatchEventsMax);

// The status that a type implies when its sender gives none.
std::string_view DerivedStatus(std::string_view type_name);
// Whether only the server writes events of this type.
bool IsServerOwned(std::string_view type_name);
// {event_id, claim_token} as heartbeats and releases name a claim; a bare id is a claim without
// its token.
Result<conductor::Holding> ReadHolding(const Json& value);
Result<std::vector<conductor::Holding>> ReadHoldings(const Json& list);
// `claim_token`, or `claim_epoch`, of the body or its meta; 0: not told.
Result<std::int64_t> ReadClaimToken(const Json& body);

// What became of one event: `code` and `message` are empty when it is stored.
struct EventOutcome {
  std::int64_t event_id = 0;
  std::string code;
  std::string message;
  engine::EventType type = engine::EventType::kOther;
};
// {event_id, status, code?, error?}.
Json OutcomeBody(const EventOutcome& outcome);

struct PostOutcome {
  std::vector<EventOutcome> events;  // in the order of the request
  std::int64_t commands_issued = 0;
};

// Posts the events, those of one run together and runs side by side, and answers when all are
// durable or refused.
void PostEvents(conductor::Conductor& conductor, std::vector<EventRequest> requests,
                std::move_only_function<void(PostOutcome)> done);

}  // namespace noetl::api
