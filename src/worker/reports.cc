#include "worker/reports.h"

#include <utility>

#include <fmt/format.h>

#include "base/json_io.h"
#include "worker/bounded_text.h"
#include "worker/command_run.h"

namespace noetl::worker {

using engine::Event;
using engine::EventType;

namespace {

bool HasNul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

}  // namespace

void Inspect(const Json& value, std::size_t depth, Findings* findings) {
  if (value.is_string()) {
    findings->nul = findings->nul || HasNul(value.AsString());
    return;
  }
  if (!value.is_container()) return;
  if (depth >= kResultDepthMax) {
    findings->deep = true;
    return;
  }
  for (const Json& item : value.items()) Inspect(item, depth + 1, findings);
  for (const JsonMember& member : value.members()) {
    findings->nul = findings->nul || HasNul(member.key());
    Inspect(member.value, depth + 1, findings);
  }
}

Event MakeEvent(const RunParts& parts, const bus::Report& report, EventType type,
                std::string_view status, Json context, Json meta) {
  Event event;
  event.event_id = parts.ids->Next();
  event.execution_id = report.execution_id;
  event.type = type;
  event.type_name = engine::EventName(type);
  event.node_name = report.step;
  event.status = std::string(status);
  event.worker_id = report.worker_id;
  event.created_at_us = parts.clock->NowMicros();
  event.result = Json::Object({{"status", status}, {"context", std::move(context)}});
  event.meta = std::move(meta);
  return event;
}

Json WithId(Json::Members members, const std::string& command_id) {
  members.emplace_back("command_id", Json(command_id));
  return Json::Object(std::move(members));
}

bus::Report ReportOn(const RunParts& parts, const bus::Grant& grant) {
  return {.execution_id = grant.execution_id,
          .command_id = grant.command_id,
          .event_id = grant.event_id,
          .claim_token = grant.claim_token,
          .worker_id = parts.options->worker_id,
          .step = grant.step};
}

bus::Report HardReport(const RunParts& parts, bus::Report report, const Json& meta,
                       const ToolAnswer& answer) {
  const std::string error = CleanText(answer.outcome.error);
  Json::Members members;
  members.emplace_back("error", Json(error));
  const auto add = [&](std::string_view name, const Json& value) {
    Findings findings;
    Inspect(value, 1, &findings);
    if (value.is_object() && !findings.deep)
      members.emplace_back(name, findings.nul ? ReplaceNul(value) : value);
  };
  add("error_info", answer.outcome.error_info);
  add("result", answer.outcome.payload);
  const Json context = WithId(std::move(members), report.command_id);
  for (const EventType type : {EventType::kCallError, EventType::kCommandFailed}) {
    report.events.push_back(MakeEvent(parts, report, type, "FAILED", context, meta));
    report.events.back().error = error;
  }
  report.ends = true;
  return report;
}

bus::Report StorageFailure(const RunParts& parts, const bus::Report& refused, const Error& error) {
  bus::Report report{.execution_id = refused.execution_id,
                     .command_id = refused.command_id,
                     .event_id = refused.event_id,
                     .claim_token = refused.claim_token,
                     .worker_id = refused.worker_id,
                     .step = refused.step};
  ToolAnswer answer = Refuse("storage", "STORAGE",
                             fmt::format("the result could not be stored: {}", error.message));
  answer.outcome.error_info = answer.outcome.error_info.With("retryable", true);
  const Json meta = refused.events.empty() ? Json() : refused.events.back().meta;
  return HardReport(parts, std::move(report), meta, answer);
}

}  // namespace noetl::worker
