// The event vocabulary and the event row.
//
// Every state change of a run is one event. The table below is the whole vocabulary: the name that
// is written, the other spellings that are read, who may write it, and whether the fold looks at
// it. Events are plain values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace noetl::engine {

enum class EventType : std::uint8_t {
  kPlaybookStarted,
  kPlaybookCompleted,
  kPlaybookFailed,
  kPlaybookCancelled,
  kStepEnter,
  kStepSkipped,
  kStepExit,
  kLoopDone,
  kCtxUpdated,
  kCommandIssued,
  kCommandClaimed,
  kCommandStarted,
  kCallDone,
  kCallError,
  kCommandCompleted,
  kCommandFailed,
  kCommandReleased,  // its worker gave it back before it began
  kCommandCancelled,
  kRunWarning,
  kOther,  // stored and counted, never folded
};

struct EventTypeInfo {
  EventType type;
  std::string_view name;
  std::string_view aliases;  // read as the same type, separated by spaces
  bool server_only;          // a worker that posts it is refused
  bool folded;
};

// All types but kOther.
std::span<const EventTypeInfo> EventTypes();
EventType EventTypeOf(std::string_view name);
std::string_view EventName(EventType type);
bool IsTerminal(EventType type);

// One row of the log. Times are microseconds since 1970 in UTC; 0 means absent, as do empty texts.
struct Event {
  std::int64_t event_id = 0;
  std::int64_t execution_id = 0;
  std::int64_t seq = 0;  // order within the execution, 1..n without gaps
  std::int64_t catalog_id = 0;
  std::int64_t parent_event_id = 0;  // the event that caused this one
  std::int64_t prev_event_id = 0;    // the event with the seq before
  std::int64_t parent_execution_id = 0;
  EventType type = EventType::kOther;
  std::string type_name;  // as written; EventName(type) unless kOther or an alias
  std::string node_name;
  std::string node_type;
  std::string status;
  Json context;
  Json result;  // null or {status, reference?, context?}
  Json meta;
  std::string error;
  std::string worker_id;
  std::int64_t created_at_us = 0;  // the producer's clock
  std::int64_t ingest_us = 0;      // the server's clock, never decreasing within a run

  bool operator==(const Event&) const = default;
};

// The text id of the command an event speaks of: meta.command_id, else result.context.command_id,
// else result.data.command_id.
std::string_view CommandIdOf(const Event& event);

// The event id of its command.issued inside a command's text id, "<execution>:<step>:<event
// id>[:i<index>]" (a step may hold ':'); 0 when there is none.
std::int64_t CommandNumber(std::string_view command_id);

// The key under which a repeated event is recognised. `claim_token` counts for claims.
std::string IdempotencyKey(const Event& event);

// The row as JSON with the column names of the event table, and back. Reading checks types and the
// shape of `result`; errors have code "bad_event".
Json EventToJson(const Event& event);
Result<Event> EventFromJson(const Json& row);

}  // namespace noetl::engine
