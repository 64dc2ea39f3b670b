#include "engine/events.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace noetl::engine {

namespace {

using enum EventType;

constexpr std::array<EventTypeInfo, 19> kEventTypes = {{
    {kPlaybookStarted, "playbook_started", "playbook.started playbook.initialized", true, true},
    {kPlaybookCompleted, "playbook.completed", "playbook_completed", true, true},
    {kPlaybookFailed, "playbook.failed", "playbook_failed", true, true},
    {kPlaybookCancelled, "playbook.cancelled", "playbook_cancelled execution.cancelled", true,
     true},
    {kStepEnter, "step.enter", "step_enter step_started", true, true},
    {kStepSkipped, "step.skipped", "step_skipped", true, true},
    {kStepExit, "step.exit", "step_completed", false, false},
    {kLoopDone, "loop.done", "", true, true},
    {kCtxUpdated, "ctx.updated", "", true, true},
    {kCommandIssued, "command.issued", "", true, true},
    {kCommandClaimed, "command.claimed", "", false, true},
    {kCommandStarted, "command.started", "action_started", false, true},
    {kCallDone, "call.done", "action_done", false, true},
    {kCallError, "call.error", "", false, true},
    {kCommandCompleted, "command.completed", "action_completed", false, true},
    {kCommandFailed, "command.failed", "action_failed step_failed", false, true},
    {kCommandReleased, "command.released", "", true, true},
    {kCommandCancelled, "command.cancelled", "", true, true},
    {kRunWarning, "run.warning", "", true, true},
}};

bool ListsWord(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

Json OptionalId(std::int64_t id) { return id == 0 ? Json() : Json(id); }
Json OptionalText(const std::string& text) { return text.empty() ? Json() : Json(text); }

// Reads an integer member that may be absent, null, or a decimal string.
Result<std::int64_t> ReadInt(const Json& row, std::string_view key) {
  const Json& value = row[key];
  if (value.is_null()) return 0;
  if (value.is_int()) return value.AsInt();
  if (value.is_string()) {
    std::int64_t parsed = 0;
    const std::string_view text = value.AsString();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (error == std::errc() && end == text.data() + text.size()) return parsed;
  }
  return Fail("bad_event",
              fmt::format("event field '{}' must be an integer, got {}", key, value.TypeName()));
}

Result<std::string> ReadText(const Json& row, std::string_view key) {
  const Json& value = row[key];
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.ToString();
  return Fail("bad_event",
              fmt::format("event field '{}' must be text, got {}", key, value.TypeName()));
}

// NULL, or an object whose only keys are status (text, mandatory), reference and context (objects).
Status CheckResultShape(const Json& result) {
  if (result.is_null()) return {};
  if (!result.is_object() || !result["status"].is_string()) {
    return Fail("bad_event", "event field 'result' must be an object with a text 'status'");
  }
  for (const JsonMember& member : result.members()) {
    if (member.key() == "status") continue;
    const bool known = member.key() == "reference" || member.key() == "context";
    if (!known || !member.value.is_object()) {
      return Fail("bad_event",
                  fmt::format("event field 'result' may hold only status, reference and "
                              "context objects, found '{}'",
                              member.key()));
    }
  }
  return {};
}

}  // namespace

std::span<const EventTypeInfo> EventTypes() { return kEventTypes; }

EventType EventTypeOf(std::string_view name) {
  for (const EventTypeInfo& info : kEventTypes) {
    if (info.name == name || ListsWord(info.aliases, name)) return info.type;
  }
  return kOther;
}

std::string_view EventName(EventType type) {
  for (const EventTypeInfo& info : kEventTypes) {
    if (info.type == type) return info.name;
  }
  return "";
}

bool IsTerminal(EventType type) {
  return type == kPlaybookCompleted || type == kPlaybookFailed || type == kPlaybookCancelled;
}

std::string_view CommandIdOf(const Event& event) {
  if (const Json* id = event.meta.Find("command_id"); id && id->is_string()) return id->AsString();
  for (std::string_view place : {"context", "data"}) {
    if (const Json& id = event.result[place]["command_id"]; id.is_string()) return id.AsString();
  }
  return {};
}

std::int64_t CommandNumber(std::string_view command_id) {
  std::size_t colon = command_id.rfind(':');
  if (colon != std::string_view::npos && command_id.substr(colon + 1).starts_with('i')) {
    command_id = command_id.substr(0, colon);
    colon = command_id.rfind(':');
  }
  if (colon == std::string_view::npos) return 0;
  const std::string_view digits = command_id.substr(colon + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

std::string IdempotencyKey(const Event& event) {
  const std::string_view command = CommandIdOf(event);
  if (!command.empty()) {
    switch (event.type) {
      case kCommandStarted:
      case kCallDone:
      case kCallError:
      case kCommandCompleted:
      case kCommandFailed: return fmt::format("cmd:{}:{}", command, EventName(event.type));
      case kCommandClaimed:
        return fmt::format("cmd:{}:command.claimed:{}", command, event.meta["claim_token"].AsInt());
      default: break;
    }
  }
  return fmt::format("event:{}", event.event_id);
}

Json EventToJson(const Event& event) {
  JsonObjectBuilder row;
  row.Add("event_id", event.event_id)
      .Add("execution_id", event.execution_id)
      .Add("stream_version", event.seq)
      .AddSome("catalog_id", OptionalId(event.catalog_id))
      .AddSome("parent_event_id", OptionalId(event.parent_event_id))
      .AddSome("prev_event_id", OptionalId(event.prev_event_id))
      .AddSome("parent_execution_id", OptionalId(event.parent_execution_id))
      .Add("event_type", event.type_name)
      .AddSome("node_name", OptionalText(event.node_name))
      .AddSome("node_type", OptionalText(event.node_type))
      .Add("status", event.status)
      .AddSome("context", event.context)
      .AddSome("result", event.result)
      .AddSome("meta", event.meta)
      .AddSome("error", OptionalText(event.error))
      .AddSome("worker_id", OptionalText(event.worker_id))
      .Add("created_at_us", event.created_at_us)
      .Add("ingest_us", event.ingest_us);
  return row.Build();
}

Result<Event> EventFromJson(const Json& row) {
  if (!row.is_object()) return Fail("bad_event", "an event must be an object");
  Event event;
  struct IntField {
    std::string_view key;
    std::int64_t Event::* field;
  };
  for (const auto& [key, field] :
       std::initializer_list<IntField>{{"event_id", &Event::event_id},
                                       {"execution_id", &Event::execution_id},
                                       {"stream_version", &Event::seq},
                                       {"catalog_id", &Event::catalog_id},
                                       {"parent_event_id", &Event::parent_event_id},
                                       {"prev_event_id", &Event::prev_event_id},
                                       {"parent_execution_id", &Event::parent_execution_id},
                                       {"created_at_us", &Event::created_at_us},
                                       {"ingest_us", &Event::ingest_us}}) {
    NOETL_ASSIGN(event.*field, ReadInt(row, key));
  }
  struct TextField {
    std::string_view key;
    std::string Event::* field;
  };
  for (const auto& [key, field] :
       std::initializer_list<TextField>{{"event_type", &Event::type_name},
                                        {"node_name", &Event::node_name},
                                        {"node_type", &Event::node_type},
                                        {"status", &Event::status},
                                        {"error", &Event::error},
                                        {"worker_id", &Event::worker_id}}) {
    NOETL_ASSIGN(event.*field, ReadText(row, key));
  }
  if (event.type_name.empty()) return Fail("bad_event", "event field 'event_type' is missing");
  event.type = EventTypeOf(event.type_name);
  event.context = row["context"];
  event.result = row["result"];
  event.meta = row["meta"];
  if (!event.meta.is_null() && !event.meta.is_object()) {
    return Fail("bad_event", "event field 'meta' must be an object");
  }
  NOETL_TRY(CheckResultShape(event.result));
  return event;
}

}  // namespace noetl::engine
