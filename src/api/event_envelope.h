// Events as rows in JSON: how copies of them travel, and how they come back. Pure, any thread.
#pragma once

#include <cstdint>

#include "api/event_request.h"
#include "base/json.h"
#include "base/result.h"
#include "engine/events.h"

namespace noetl::api {

// The columns of the row; ids are numbers, `timestamp` is RFC 3339.
Json EventEnvelope(const engine::Event& event);

// Reads what EventEnvelope writes, and rows of other makers: ids may be texts, times may lack their
// zone (UTC then), `created_at` stands in for `timestamp`, an empty id is none. Without a time:
// `now_us`. "invalid" and "bad_event" say what is wrong.
Result<EventRequest> ReadEnvelope(const Json& envelope, std::int64_t now_us);

}  // namespace noetl::api
