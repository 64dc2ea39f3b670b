#include "engine/state.h"

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/sha256.h"

namespace noetl::engine {

namespace {

// Reads an enum; values beyond `last` mean a damaged snapshot and become the first value.
template <typename E>
E EnumOf(const Json& json, E last) {
  const std::int64_t value = json.AsInt();
  if (value < 0 || value > static_cast<std::int64_t>(last)) return E{};
  return static_cast<E>(value);
}

Json TextList(const std::vector<std::string>& texts) {
  std::vector<Json> items(texts.begin(), texts.end());
  return Json::Array(std::move(items));
}

std::vector<std::string> TextsOf(const Json& json) {
  std::vector<std::string> texts;
  for (const Json& item : json.items()) texts.push_back(item.ToString());
  return texts;
}

// Members that have their default value are left out: snapshots stay small.
class Writer {
 public:
  Writer& Int(std::string_view key, std::int64_t value, std::int64_t fallback = 0) {
    if (value != fallback) builder_.Add(key, value);
    return *this;
  }
  Writer& Flag(std::string_view key, bool value) {
    if (value) builder_.Add(key, true);
    return *this;
  }
  Writer& Text(std::string_view key, const std::string& value) {
    if (!value.empty()) builder_.Add(key, value);
    return *this;
  }
  Writer& Value(std::string_view key, const Json& value) {
    builder_.AddSome(key, value);
    return *this;
  }
  Writer& List(std::string_view key, std::vector<Json> items) {
    if (!items.empty()) builder_.Add(key, Json::Array(std::move(items)));
    return *this;
  }
  Json Build() { return builder_.Build(); }

 private:
  JsonObjectBuilder builder_;
};

Json CommandToJson(const Command& command) {
  return Writer()
      .Text("id", command.id)
      .Int("event_id", command.event_id)
      .Text("step", command.step)
      .Int("run", command.run)
      .Int("kind", static_cast<std::int64_t>(command.kind))
      .Int("index", command.index)
      .Int("slot", command.slot)
      .Int("frame", command.frame)
      .Int("attempt", command.attempt, 1)
      .Int("lost", command.lost)
      .Int("reruns", command.reruns)
      .Text("tool_kind", command.tool_kind)
      .Int("status", static_cast<std::int64_t>(command.status))
      .Flag("parked", command.parked)
      .Int("child", command.child_execution_id)
      .Text("worker", command.worker)
      .Int("token", command.claim_token)
      .Int("started_at_us", command.started_at_us)
      .Flag("reported", command.reported)
      .Value("report", command.report)
      .Flag("callback", command.callback)
      .Build();
}

Command CommandFromJson(const Json& json) {
  Command command;
  command.id = json["id"].ToString();
  command.event_id = json["event_id"].AsInt();
  command.step = json["step"].ToString();
  command.run = json["run"].AsInt();
  command.kind = EnumOf(json["kind"], Command::Kind::kBody);
  command.index = json["index"].AsInt();
  command.slot = json["slot"].AsInt();
  command.frame = json["frame"].AsInt();
  command.attempt = json["attempt"].AsInt(1);
  command.lost = json["lost"].AsInt();
  command.reruns = json["reruns"].AsInt();
  command.tool_kind = json["tool_kind"].ToString();
  command.status = EnumOf(json["status"], Command::Status::kStarted);
  command.parked = json["parked"].AsBool();
  command.child_execution_id = json["child"].AsInt();
  command.worker = json["worker"].ToString();
  command.claim_token = json["token"].AsInt();
  command.started_at_us = json["started_at_us"].AsInt();
  command.reported = json["reported"].AsBool();
  command.report = json["report"];
  command.callback = json["callback"].AsBool();
  return command;
}

Json SlotToJson(const CursorSlot& slot) {
  return Writer()
      .Int("phase", static_cast<std::int64_t>(slot.phase))
      .Int("frame", slot.frame)
      .Value("rows", slot.rows)
      .Int("row_count", slot.row_count)
      .Int("next_row", slot.next_row)
      .Int("in_flight", slot.in_flight)
      .Build();
}

CursorSlot SlotFromJson(const Json& json) {
  CursorSlot slot;
  slot.phase = EnumOf(json["phase"], CursorSlot::Phase::kDrained);
  slot.frame = json["frame"].AsInt();
  slot.rows = json["rows"];
  slot.row_count = json["row_count"].AsInt();
  slot.next_row = json["next_row"].AsInt();
  slot.in_flight = json["in_flight"].AsInt();
  return slot;
}

Json RunToJson(const Run& run) {
  std::vector<Json> slots;
  for (const CursorSlot& slot : run.slots) slots.push_back(SlotToJson(slot));
  return Writer()
      .Int("number", run.number)
      .Int("kind", static_cast<std::int64_t>(run.kind))
      .Int("entered_at_us", run.entered_at_us)
      .Int("deadline_us", run.deadline_us)
      .Value("args", run.args)
      .Flag("final", run.final)
      .Int("in_flight", run.in_flight)
      .Value("items", run.items)
      .Flag("range", run.range)
      .Int("expected", run.expected)
      .Int("budget", run.budget, 1)
      .Int("next_index", run.next_index)
      .Int("succeeded", run.succeeded)
      .Int("failed", run.failed)
      .Int("result_bytes", run.result_bytes)
      .Value("first_result", run.first_result)
      .Flag("failing", run.failing)
      .Text("error", run.error)
      .Value("error_info", run.error_info)
      .List("slots", std::move(slots))
      .Int("next_frame", run.next_frame)
      .Build();
}

Run RunFromJson(const Json& json) {
  Run run;
  run.number = json["number"].AsInt();
  run.kind = EnumOf(json["kind"], Run::Kind::kCursor);
  run.entered_at_us = json["entered_at_us"].AsInt();
  run.deadline_us = json["deadline_us"].AsInt();
  run.args = json["args"];
  run.final = json["final"].AsBool();
  run.in_flight = json["in_flight"].AsInt();
  run.items = json["items"];
  run.range = json["range"].AsBool();
  run.expected = json["expected"].AsInt();
  run.budget = json["budget"].AsInt(1);
  run.next_index = json["next_index"].AsInt();
  run.succeeded = json["succeeded"].AsInt();
  run.failed = json["failed"].AsInt();
  run.result_bytes = json["result_bytes"].AsInt();
  run.first_result = json["first_result"];
  run.failing = json["failing"].AsBool();
  run.error = json["error"].ToString();
  run.error_info = json["error_info"];
  for (const Json& slot : json["slots"].items()) run.slots.push_back(SlotFromJson(slot));
  run.next_frame = json["next_frame"].AsInt();
  return run;
}

Json StepToJson(const StepState& step) {
  std::vector<Json> tokens;
  for (const Token& token : step.tokens) {
    tokens.push_back(Writer()
                         .Text("source", token.source)
                         .Int("run", token.source_run)
                         .Value("args", token.args)
                         .Build());
  }
  return Writer()
      .Int("runs", step.runs)
      .Value("open", step.open ? RunToJson(*step.open) : Json())
      .List("tokens", std::move(tokens))
      .Int("outcome", static_cast<std::int64_t>(step.outcome))
      .Value("result", step.result ? step.result->ToJson() : Json())
      .Flag("skip_reported", step.skip_reported)
      .Text("awaits_data_of", step.awaits_data_of)
      .Build();
}

StepState StepFromJson(std::string_view name, const Json& json) {
  StepState step;
  step.name = std::string(name);
  step.runs = json["runs"].AsInt();
  if (json["open"].is_object()) step.open = RunFromJson(json["open"]);
  for (const Json& token : json["tokens"].items()) {
    step.tokens.push_back({token["source"].ToString(), token["run"].AsInt(), token["args"]});
  }
  step.outcome = EnumOf(json["outcome"], StepState::Outcome::kCancelled);
  if (json["result"].is_object()) {
    step.result = std::make_shared<const StepResult>(StepResult::FromJson(json["result"]));
  }
  step.skip_reported = json["skip_reported"].AsBool();
  step.awaits_data_of = json["awaits_data_of"].ToString();
  return step;
}

}  // namespace

Json Semantics::ToJson() const {
  return Json::Object({{"profile", strict ? "strict" : "compat"},
                       {"step_error_fails", step_error_fails},
                       {"status_from_steps", status_from_steps},
                       {"template_retype", retype_legacy ? "legacy" : "never"},
                       {"max_step_runs", max_step_runs},
                       {"max_attempts", max_attempts},
                       {"inline_bytes", inline_bytes},
                       {"context_bytes", context_bytes},
                       {"callback_deadline_s", callback_deadline_s},
                       {"execution_timeout_s", execution_timeout_s}});
}

Semantics Semantics::FromJson(const Json& json) {
  Semantics semantics;
  semantics.strict = json["profile"].AsString() == "strict";
  semantics.step_error_fails = json["step_error_fails"].AsBool();
  semantics.status_from_steps = json["status_from_steps"].AsBool();
  semantics.retype_legacy = json["template_retype"].AsString() == "legacy";
  semantics.max_step_runs = json["max_step_runs"].AsInt(semantics.max_step_runs);
  semantics.max_attempts = json["max_attempts"].AsInt(semantics.max_attempts);
  semantics.inline_bytes = json["inline_bytes"].AsInt(semantics.inline_bytes);
  semantics.context_bytes = json["context_bytes"].AsInt(semantics.context_bytes);
  semantics.callback_deadline_s = json["callback_deadline_s"].AsInt(semantics.callback_deadline_s);
  semantics.execution_timeout_s = json["execution_timeout_s"].AsInt();
  return semantics;
}

std::string_view State::StatusText() const {
  switch (status) {
    case Status::kNew: return "PENDING";
    case Status::kRunning: return "RUNNING";
    case Status::kCompleted: return "COMPLETED";
    case Status::kFailed: return "FAILED";
    case Status::kCancelled: return "CANCELLED";
  }
  return "RUNNING";
}

StepState* State::Find(std::string_view step) {
  auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

const StepState* State::Find(std::string_view step) const {
  auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

StepState& State::Touch(std::string_view step) {
  auto found = steps_.find(step);
  if (found == steps_.end()) {
    found = steps_.emplace(std::string(step), StepState{}).first;
    found->second.name = found->first;
  }
  return found->second;
}

Command* State::FindCommand(std::string_view id) {
  auto found = commands_.find(id);
  return found == commands_.end() ? nullptr : &found->second;
}

const Command* State::FindCommand(std::string_view id) const {
  auto found = commands_.find(id);
  return found == commands_.end() ? nullptr : &found->second;
}

Json State::ToJson() const {
  JsonObjectBuilder step_map;
  for (const auto& [name, step] : steps_) step_map.Add(name, StepToJson(step));
  std::vector<Json> command_list;
  for (const auto& [id, command] : commands_) command_list.push_back(CommandToJson(command));
  std::vector<Json> errors;
  for (const SoftError& soft : soft_errors) {
    errors.push_back(Writer()
                         .Text("step", soft.step)
                         .Int("run", soft.run)
                         .Int("index", soft.index, -1)
                         .Text("error", soft.error)
                         .Build());
  }
  return Writer()
      .Int("schema", kStateSchema)
      .Int("execution_id", execution_id)
      .Int("catalog_id", catalog_id)
      .Int("parent_execution_id", parent_execution_id)
      .Text("parent_command_id", parent_command_id)
      .Text("return_step", return_step)
      .Int("depth", depth)
      .Text("path", path)
      .Int("version", version)
      .Text("pool", pool)
      .Value("trace", trace)
      .Value("env", env)
      .Value("semantics", semantics.ToJson())
      .Value("workload", workload)
      .Value("ctx", ctx)
      .Int("status", static_cast<std::int64_t>(status))
      .Int("seq", seq)
      .Int("last_event_id", last_event_id)
      .Int("highest_event_id", highest_event_id)
      .Int("last_ingest_us", last_ingest_us)
      .Int("started_at_us", started_at_us)
      .Int("ended_at_us", ended_at_us)
      .Int("context_version", context_version)
      .Int("context_stored", context_stored, -1)
      .Text("context_ref", context_ref)
      .Flag("draining", draining)
      .Flag("final_entered", final_entered)
      .Value("failed_steps", TextList(failed_steps))
      .Text("first_error", first_error)
      .List("soft_errors", std::move(errors))
      .Int("soft_error_count", soft_error_count)
      .Value("denied_steps", TextList(denied_steps))
      .Int("warning_count", warning_count)
      .Text("last_completed_step", last_completed_step)
      .Value("steps", step_map.Build())
      .List("commands", std::move(command_list))
      .Build();
}

Result<State> State::FromJson(const Json& json) {
  if (json["schema"].AsInt() != kStateSchema) {
    return Fail("bad_snapshot", fmt::format("snapshot has schema {}, this program reads {}",
                                            json["schema"].AsInt(), kStateSchema));
  }
  State state;
  state.execution_id = json["execution_id"].AsInt();
  state.catalog_id = json["catalog_id"].AsInt();
  state.parent_execution_id = json["parent_execution_id"].AsInt();
  state.parent_command_id = json["parent_command_id"].ToString();
  state.return_step = json["return_step"].ToString();
  state.depth = json["depth"].AsInt();
  state.path = json["path"].ToString();
  state.version = json["version"].AsInt();
  state.pool = json["pool"].ToString();
  state.trace = json["trace"];
  state.env = json["env"];
  state.semantics = Semantics::FromJson(json["semantics"]);
  state.workload = json["workload"];
  state.ctx = json["ctx"];
  state.status = EnumOf(json["status"], Status::kCancelled);
  state.seq = json["seq"].AsInt();
  state.last_event_id = json["last_event_id"].AsInt();
  state.highest_event_id = json["highest_event_id"].AsInt();
  state.last_ingest_us = json["last_ingest_us"].AsInt();
  state.started_at_us = json["started_at_us"].AsInt();
  state.ended_at_us = json["ended_at_us"].AsInt();
  state.context_version = json["context_version"].AsInt();
  state.context_stored = json["context_stored"].AsInt(-1);
  state.context_ref = json["context_ref"].ToString();
  state.draining = json["draining"].AsBool();
  state.final_entered = json["final_entered"].AsBool();
  state.failed_steps = TextsOf(json["failed_steps"]);
  state.first_error = json["first_error"].ToString();
  for (const Json& soft : json["soft_errors"].items()) {
    state.soft_errors.push_back({soft["step"].ToString(), soft["run"].AsInt(),
                                 soft["index"].AsInt(-1), soft["error"].ToString()});
  }
  state.soft_error_count = json["soft_error_count"].AsInt();
  state.denied_steps = TextsOf(json["denied_steps"]);
  state.warning_count = json["warning_count"].AsInt();
  state.last_completed_step = json["last_completed_step"].ToString();
  for (const JsonMember& member : json["steps"].members()) {
    StepState step = StepFromJson(member.key(), member.value);
    if (step.open) state.open_steps_.insert(step.name);
    if (!step.tokens.empty()) state.token_steps_.insert(step.name);
    state.steps_.emplace(step.name, std::move(step));
  }
  for (const Json& item : json["commands"].items()) {
    Command command = CommandFromJson(item);
    state.commands_.emplace(command.id, std::move(command));
  }
  return state;
}

std::string WriteSnapshot(const State& state) {
  const std::string body = WriteJson(state.ToJson());
  return fmt::format("{{\"checksum\":\"{}\",\"state\":{}}}", Sha256Hex(body), body);
}

Result<State> ReadSnapshot(std::string_view text) {
  NOETL_ASSIGN(Json snapshot, ParseJson(text));
  const Json& state = snapshot["state"];
  if (snapshot["checksum"].AsString() != Sha256Hex(WriteJson(state))) {
    return Fail("bad_snapshot", "snapshot does not match its checksum");
  }
  return State::FromJson(state);
}

}  // namespace noetl::engine
