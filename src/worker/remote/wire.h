// The words between a remote worker and its server, as JSON and as values.
//
// Pure functions, any thread. Reading is lenient where servers differ (ids as numbers or decimal
// texts, unknown members) and strict where a mistake would run the wrong thing. Errors have the code
// "bad_answer".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bus/link.h"
#include "engine/events.h"

namespace noetl::worker {

// What a server that names no lease or budget means.
inline constexpr std::int64_t kLeaseMsDefault = 30'000;
inline constexpr std::int64_t kInlineBytesDefault = 102'400;

// A command that is this worker's for a while.
struct Granted {
  bus::Grant grant;
  std::int64_t lease_ms = kLeaseMsDefault;
};

// A command as the server names it: by the id of its command.issued, by its text id, or both.
struct CommandName {
  std::int64_t event_id = 0;
  std::string command_id;

  bool operator==(const CommandName&) const = default;
};

// What became of one event that was sent.
struct EventAnswer {
  std::string code;  // empty: it is stored
  std::string message;
};

struct LeaseAnswer {
  std::vector<EventAnswer> events;  // in the order they were sent
  std::vector<Granted> commands;
  std::vector<CommandName> cancel;
  std::vector<CommandName> lost;
  std::vector<std::string> problems;  // commands that could not be read
};

struct BeatAnswer {
  bool recreated = false;  // the server did not know this worker
  std::vector<CommandName> lost;
  std::vector<CommandName> cancel;
};

// One message of the control stream.
struct ControlNews {
  enum class Kind : std::uint8_t { kCancel, kLost, kDrain };
  Kind kind = Kind::kCancel;
  CommandName command;
};

// An id given as a number or as decimal text; nullopt: neither.
std::optional<std::int64_t> IdOf(const Json& value);

// How long commands are leased, in a grant and in answers to a registration or a heartbeat; nullopt: it
// does not say.
std::optional<std::int64_t> LeaseMsOf(const Json& body);
// The body of a claim as a grant.
Result<Granted> GrantFromJson(const Json& body);
// An event of a report as a request to the server.
Json EventRequest(const engine::Event& event, const bus::Report& report);
Result<LeaseAnswer> LeaseAnswerFromJson(const Json& body);
BeatAnswer BeatAnswerFromJson(const Json& body);
// nullopt: nothing that concerns a worker.
std::optional<ControlNews> ControlNewsFrom(std::string_view event, const Json& data);
// How a child ended; nullopt: it has not.
std::optional<engine::ChildEnd> ChildEndFromJson(const Json& body);
// The result of a run into its end: a reference when it is one, else data.
void SetChildResult(const Json& result, engine::ChildEnd* end);

// A whole report, for the spool.
Json ReportToJson(const bus::Report& report);
Result<bus::Report> ReportFromJson(const Json& json);

// The value with every string that is `from` replaced.
Json ReplaceText(const Json& value, std::string_view from, std::string_view to);

}  // namespace noetl::worker
