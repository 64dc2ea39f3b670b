// What a worker says of a command, and what must be true of a value before it can be said.
//
// Pure functions but for the ids and times they take from the worker; on its reactor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "bus/link.h"
#include "engine/events.h"
#include "worker/tool.h"

namespace noetl::worker {

struct RunParts;

// An event wraps a result in four levels; loops, parents and summaries add theirs. What is deeper
// than this could not be written with all of them around it.
inline constexpr std::size_t kResultDepthMax = 100;

// What must be known of a value before it can be stored.
struct Findings {
  bool nul = false;
  bool deep = false;
};
void Inspect(const Json& value, std::size_t depth, Findings* findings);

// A new event of the report's command.
engine::Event MakeEvent(const RunParts& parts, const bus::Report& report, engine::EventType type,
                        std::string_view status, Json context, Json meta);
// The members and the id of the command.
Json WithId(Json::Members members, const std::string& command_id);

// The identity of a report on this command.
bus::Report ReportOn(const RunParts& parts, const bus::Grant& grant);
// Ends a command hard: call.error and command.failed, as a report on the same command.
bus::Report HardReport(const RunParts& parts, bus::Report identity, const Json& meta,
                       const ToolAnswer& answer);
// Replaces what was to be reported by a failure to store it.
bus::Report StorageFailure(const RunParts& parts, const bus::Report& refused, const Error& error);

}  // namespace noetl::worker
