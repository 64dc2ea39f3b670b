#include "api/execution_json.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "api/handle.h"
#include "api/route.h"
#include "base/json_io.h"
#include "base/redact.h"

namespace noetl::api {

namespace {

std::int64_t DurationOf(const store::ExecutionRow& row, std::int64_t now_us) {
  const std::int64_t end = row.ended_at_us != 0 ? row.ended_at_us : now_us;
  return std::max<std::int64_t>(end - row.started_at_us, 0);
}

double Seconds(std::int64_t micros) { return static_cast<double>(micros) / 1e6; }

void AddTimes(JsonObjectBuilder& body, const store::ExecutionRow& row, std::int64_t now_us) {
  const std::int64_t duration = DurationOf(row, now_us);
  body.Add("started_at", TimeOrNull(row.started_at_us))
      .Add("completed_at", TimeOrNull(row.ended_at_us))
      .Add("start_time", TimeOrNull(row.started_at_us))
      .Add("end_time", TimeOrNull(row.ended_at_us))
      .Add("duration_seconds", Seconds(duration))
      .Add("duration_human", HumanDuration(duration));
}

Json ParsedOrNull(const std::string& text) {
  if (text.empty()) return Json();
  return ParseJson(text).value_or(Json());
}

}  // namespace

Json ShowId(std::int64_t id, Ids ids) {
  if (id == 0) return Json();
  return ids == Ids::kNumbers ? Json(id) : Json(std::to_string(id));
}

Json IdList(std::span<const std::int64_t> ids) {
  return Json::Array(std::vector<Json>(ids.begin(), ids.end()));
}

std::string HumanDuration(std::int64_t micros) {
  const std::int64_t ms = micros / 1'000;
  const std::int64_t seconds = ms / 1'000;
  if (ms < 1'000) return fmt::format("{}ms", ms);
  if (seconds < 60) return fmt::format("{}.{}s", seconds, ms % 1'000 / 100);
  if (seconds < 3'600) return fmt::format("{}m {}s", seconds / 60, seconds % 60);
  if (seconds < 86'400) return fmt::format("{}h {}m", seconds / 3'600, seconds % 3'600 / 60);
  return fmt::format("{}d {}h", seconds / 86'400, seconds % 86'400 / 3'600);
}

Json ExecutionSummary(const store::ExecutionRow& row, std::int64_t now_us, Ids ids) {
  JsonObjectBuilder body;
  body.Add("execution_id", ShowId(row.execution_id, ids))
      .Add("catalog_id", ShowId(row.catalog_id, ids))
      .Add("path", TextOrNull(row.path))
      .Add("version", row.version)
      .Add("status", row.status);
  AddTimes(body, row, now_us);
  body.Add("event_count", row.head)
      .Add("progress", row.terminal ? 100 : 0)
      .Add("error", row.error.empty() ? Json() : Json(RedactText(row.error)))
      .Add("parent_execution_id", ShowId(row.parent_execution_id, ids))
      .Add("soft_error_count", row.soft_error_count)
      .Add("last_event_id", ShowId(row.last_event_id, ids))
      .Add("last_event_type", TextOrNull(row.last_event_type))
      .Add("last_node_name", TextOrNull(row.last_node_name))
      .Add("updated_at", TimeOrNull(row.updated_at_us));
  return body.Build();
}

Json EventBody(const engine::Event& event, const EventForm& form) {
  const auto shown = [&](const Json& value) { return form.redact ? Redact(value) : value; };
  JsonObjectBuilder body;
  body.Add("event_id", ShowId(event.event_id, form.ids))
      .Add("execution_id", ShowId(event.execution_id, form.ids))
      .Add("seq", event.seq)
      .Add("event_type", event.type_name)
      .Add("node_id", TextOrNull(event.node_name))
      .Add("node_name", TextOrNull(event.node_name))
      .Add("node_type", TextOrNull(event.node_type))
      .Add("status", event.status.empty() ? Json("UNKNOWN") : Json(event.status))
      .Add("created_at", TimeOrNull(event.created_at_us))
      .Add("timestamp", TimeOrNull(event.created_at_us));
  if (const Json& duration = event.meta["duration_ms"]; duration.is_number())
    body.Add("duration", duration);
  if (form.payload) {
    body.Add("context", shown(event.context))
        .Add("result", shown(event.result))
        .Add("meta", shown(event.meta));
  }
  const Json error = event.error.empty() ? Json()
                     : form.redact       ? Json(RedactText(event.error))
                                         : Json(event.error);
  body.Add("error", error)
      .Add("worker_id", TextOrNull(event.worker_id))
      .Add("catalog_id", ShowId(event.catalog_id, form.ids))
      .Add("parent_event_id", ShowId(event.parent_event_id, form.ids))
      .Add("parent_execution_id", ShowId(event.parent_execution_id, form.ids));
  return body.Build();
}

StepCounts CountSteps(const engine::State& state) {
  using Outcome = engine::StepState::Outcome;
  StepCounts counts;
  std::int64_t newest = -1;
  for (const auto& [name, step] : state.steps()) {
    if (step.runs == 0) continue;
    ++counts.total;
    if (step.open && !state.terminal()) {
      ++counts.running;
      if (step.open->entered_at_us > newest) {
        newest = step.open->entered_at_us;
        counts.current_step = name;
      }
      continue;
    }
    if (step.outcome == Outcome::kCompleted) {
      ++counts.completed;
      counts.completed_steps.push_back(name);
    } else if (step.outcome == Outcome::kFailed) {
      ++counts.failed;
    }
  }
  return counts;
}

std::int64_t ProgressOf(const StepCounts& counts, bool terminal) {
  if (terminal) return 100;
  if (counts.total == 0) return 0;
  return std::min<std::int64_t>(100 * (counts.completed + counts.failed) / counts.total, 99);
}

Json StatusBody(const store::ExecutionRow& row, const StepCounts& counts, Json variables,
                std::int64_t now_us) {
  std::vector<Json> completed(counts.completed_steps.begin(), counts.completed_steps.end());
  const std::string current = row.terminal ? "" : counts.current_step;
  JsonObjectBuilder body;
  body.Add("execution_id", row.execution_id)
      .Add("path", TextOrNull(row.path))
      .Add("version", row.version)
      .Add("status", row.status)
      .Add("current_step", TextOrNull(current))
      .Add("progress", Json::Object({{"total_steps", counts.total},
                                     {"completed_steps", counts.completed},
                                     {"running_steps", counts.running},
                                     {"failed_steps", counts.failed},
                                     {"percent", ProgressOf(counts, row.terminal)}}))
      .Add("is_cancelled", row.status == "CANCELLED")
      .Add("completed", row.status == "COMPLETED")
      .Add("failed", row.status == "FAILED")
      .Add("completion_inferred", false)
      .Add("completed_steps", Json::Array(std::move(completed)))
      .Add("error", row.error.empty() ? Json() : Json(RedactText(row.error)))
      .Add("variables", variables.is_object() ? std::move(variables) : Json::Object());
  AddTimes(body, row, now_us);
  body.Add("event_count", row.head).Add("soft_error_count", row.soft_error_count);
  return body.Build();
}

Json RunResultOf(const engine::Event& terminal) {
  if (const Json& reference = terminal.result["reference"]; reference.is_object()) return reference;
  return terminal.result["context"]["data"];
}

Json RuntimeBody(const store::RuntimeRow& row, std::int64_t now_us, std::int64_t offline_after_us) {
  JsonObjectBuilder body;
  body.Add("runtime_id", row.runtime_id)
      .Add("name", row.name)
      .Add("kind", row.kind)
      .Add("uri", TextOrNull(row.uri))
      .Add("status", row.status)
      .Add("labels", ParsedOrNull(row.labels))
      .Add("capabilities", ParsedOrNull(row.capabilities))
      .Add("capacity", row.capacity < 0 ? Json() : Json(row.capacity))
      .Add("runtime", ParsedOrNull(row.runtime))
      .Add("heartbeat", TimeOrNull(row.heartbeat_us))
      .Add("created_at", TimeOrNull(row.created_at_us))
      .Add("updated_at", TimeOrNull(row.updated_at_us))
      .Add("online", row.heartbeat_us >= now_us - offline_after_us);
  return body.Build();
}

Json LogBody(const store::LogChunk& chunk, bool redact) {
  return Json::Object({{"command_id", ShowId(chunk.command_id, Ids::kTexts)},
                       {"step", chunk.step},
                       {"stream", chunk.stream},
                       {"offset", chunk.offset},
                       {"text", redact ? RedactText(chunk.text) : chunk.text},
                       {"created_at", TimeOrNull(chunk.created_at_us)}});
}

}  // namespace noetl::api
