#include "engine/replay.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace noetl::engine::replay {

namespace {

// What the row says of a status, else what its type means.
std::string StatusOr(const Row& row, std::string_view meaning) {
  return row.status.empty() ? std::string(meaning) : row.status;
}

template <typename T>
void Count(T& counter) {
  if (counter < std::numeric_limits<T>::max()) ++counter;
}

template <typename T>
void SetSome(T& field, std::optional<typename T::value_type> value) {
  if (value) field = std::move(value);
}

void SetCounter(std::int64_t& field, std::optional<std::int64_t> reported) {
  if (reported) field = *reported;
}

// The entity of this id, and whether it was made just now.
template <typename T>
std::pair<T&, bool> Entity(ById<T>& map, std::string id, std::string T::* id_member) {
  const auto [place, made] = map.try_emplace(std::move(id));
  if (made) place->second.*id_member = place->first;
  return {place->second, made};
}

// ---- execution

enum class ExecutionEffect : std::uint8_t { kStatus, kEnter, kNode };

struct ExecutionRule {
  std::string_view type;
  ExecutionEffect effect;
  std::string_view status = "";
};

constexpr ExecutionRule kExecutionRules[] = {
    {"playbook.completed", ExecutionEffect::kStatus, "COMPLETED"},
    {"playbook_completed", ExecutionEffect::kStatus, "COMPLETED"},
    {"playbook.failed", ExecutionEffect::kStatus, "FAILED"},
    {"playbook_failed", ExecutionEffect::kStatus, "FAILED"},
    {"playbook.cancelled", ExecutionEffect::kStatus, "CANCELLED"},
    {"playbook_cancelled", ExecutionEffect::kStatus, "CANCELLED"},
    {"step.enter", ExecutionEffect::kEnter},
    {"step_enter", ExecutionEffect::kEnter},
    {"step_started", ExecutionEffect::kEnter},
    {"step.exit", ExecutionEffect::kNode},
    {"step_completed", ExecutionEffect::kNode},
    {"command.completed", ExecutionEffect::kNode},
};

void ApplyExecution(Execution& execution, const RowView& view) {
  const Row& row = view.row();
  const auto* rule = std::ranges::find(kExecutionRules, row.event_type, &ExecutionRule::type);
  if (rule != std::end(kExecutionRules)) {
    if (rule->effect == ExecutionEffect::kStatus) {
      execution.status = rule->status;
    } else {
      if (rule->effect == ExecutionEffect::kEnter && execution.status == "UNKNOWN")
        execution.status = "RUNNING";
      SetSome(execution.last_node_name, row.node_name);
    }
  }
  if (const Json& reference = view.Reference(); !reference.is_null())
    execution.payload_refs.push_back({row.event_id, reference, SummaryOf(reference)});
}

// ---- stages

void ApplyStage(ById<Stage>& stages, std::string id, const RowView& view) {
  const Row& row = view.row();
  const auto [stage, made] = Entity(stages, std::move(id), &Stage::stage_id);
  if (made) {
    stage.kind = view.MetaText("kind");
    stage.step_name = row.node_name ? row.node_name : view.MetaText("step_name");
  }
  stage.last_event_id = row.event_id;
  SetSome(stage.parent_stage_id, view.MetaText("parent_stage_id"));
  SetSome(stage.loop_event_id, view.Loop());
  if (row.event_type == "stage.opened") {
    stage.status = "OPEN";
    stage.opened_event_id = row.event_id;
  } else if (row.event_type == "stage.closed") {
    stage.status = StatusOr(row, "CLOSED");
    stage.closed_event_id = row.event_id;
    SetCounter(stage.frame_count, view.MetaInt("frame_count"));
    SetCounter(stage.row_count, view.MetaInt("row_count"));
    SetCounter(stage.events_emitted, view.MetaInt("events_emitted"));
    SetCounter(stage.failed_count, view.MetaInt("failed_count"));
  } else if (!row.status.empty()) {
    stage.status = row.status;
  }
}

// ---- frames

void EndFrame(Frame& frame, const RowView& view, std::string_view meaning) {
  const Json& reference = view.Reference();
  frame.status = StatusOr(view.row(), meaning);
  SetCounter(frame.events_emitted, view.MetaInt("events_emitted"));
  frame.terminal_event_id = view.row().event_id;
  frame.output_ref = reference;
  frame.output_ref_summary = SummaryOf(reference);
}

void ApplyFrame(ById<Frame>& frames, std::string id, const RowView& view) {
  const Row& row = view.row();
  Frame& frame = Entity(frames, std::move(id), &Frame::frame_id).first;
  frame.last_event_id = row.event_id;
  SetSome(frame.stage_id, view.Stage());
  SetSome(frame.parent_frame_id, view.MetaText("parent_frame_id"));
  SetSome(frame.command_id, view.Command());
  if (row.event_type == "frame.dispatched") {
    frame.status = "CLAIMED";
    frame.claimed_event_id = row.event_id;
    frame.attempts = std::max(frame.attempts, view.MetaInt("attempt").value_or(1));
  } else if (row.event_type == "frame.started") {
    frame.status = "RUNNING";
  } else if (row.event_type == "frame.abandoned") {
    frame.status = StatusOr(row, "ABANDONED");
  } else if (row.event_type == "frame.committed") {
    SetCounter(frame.row_count, view.MetaInt("row_count"));
    EndFrame(frame, view, "COMPLETED");
  } else if (row.event_type == "frame.failed") {
    EndFrame(frame, view, "FAILED");
  } else if (!row.status.empty()) {
    frame.status = row.status;
  }
}

// ---- commands

struct CommandRule {
  std::string_view type;
  std::string_view status;
  std::optional<std::int64_t> Command::* event_id;
};

constexpr CommandRule kCommandRules[] = {
    {"command.issued", "PENDING", &Command::issued_event_id},
    {"command.claimed", "CLAIMED", &Command::claimed_event_id},
    {"command.started", "RUNNING", &Command::started_event_id},
    {"command.completed", "COMPLETED", &Command::terminal_event_id},
    {"command.failed", "FAILED", &Command::terminal_event_id},
    {"command.cancelled", "CANCELLED", &Command::terminal_event_id},
};

void ApplyCommand(ById<Command>& commands, std::string id, const RowView& view) {
  const Row& row = view.row();
  Command& command = Entity(commands, std::move(id), &Command::command_id).first;
  command.last_event_id = row.event_id;
  SetSome(command.stage_id, view.Stage());
  SetSome(command.frame_id, view.Frame());
  SetSome(command.parent_command_id, view.MetaText("parent_command_id"));
  SetSome(command.worker_id, row.worker_id ? row.worker_id : view.MetaText("worker_id"));
  SetSome(command.worker_locator, view.MetaText("worker_locator"));
  const auto* rule = std::ranges::find(kCommandRules, row.event_type, &CommandRule::type);
  if (rule != std::end(kCommandRules)) {
    command.status = StatusOr(row, rule->status);
    command.*rule->event_id = row.event_id;
  } else if (row.event_type.starts_with("command.") && !row.status.empty()) {
    command.status = row.status;
  }
}

// ---- loops

void ApplyLoop(ById<Loop>& loops, std::string id, const RowView& view) {
  const Row& row = view.row();
  const std::string& type = row.event_type;
  const auto [loop, made] = Entity(loops, std::move(id), &Loop::loop_id);
  if (made) {
    loop.step_name = row.node_name;
    loop.total = view.MetaInt("collection_size");
    if (!loop.total) loop.total = view.MetaInt("total");
  }
  loop.last_event_id = row.event_id;
  if (type == "command.completed" || type == "loop.shard.done") Count(loop.done);
  if (type == "command.failed" || type == "loop.shard.failed") Count(loop.failed);
  if (type == "loop.done" || type == "loop.fanin.completed") loop.completed = true;
}

// ---- business objects

// What the ending of a type means for a row without a status.
std::string_view ObjectStatus(std::string_view event_type) {
  static constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {".deleted", "DELETED"}, {".removed", "DELETED"}, {".created", "ACTIVE"},
      {".updated", "ACTIVE"},  {".upserted", "ACTIVE"},
  };
  const std::string lower = ToLower(event_type);
  for (const auto& [ending, status] : kEndings) {
    if (lower.ends_with(ending)) return status;
  }
  return "";
}

std::int64_t ObjectVersion(const BusinessObject& object, const RowView& view) {
  if (const Json& version = view.Business()["version"]; version.is_int()) return version.AsInt();
  return view.MetaInt("business_object_version").value_or(object.event_count);
}

void ApplyObject(ById<BusinessObject>& objects, const ObjectIdentity& identity,
                 const RowView& view) {
  const Row& row = view.row();
  const Json& business = view.Business();
  const auto [object, made] = Entity(objects, identity.Key(), &BusinessObject::object_key);
  if (made) {
    object.object_type = identity.type;
    object.object_id = identity.id;
    object.first_event_id = row.event_id;
  }
  object.last_event_id = row.event_id;
  object.last_event_type = row.event_type;
  Count(object.event_count);
  object.version = ObjectVersion(object, view);
  if (const std::string status = StatusOr(row, ObjectStatus(row.event_type)); !status.empty()) {
    object.status = status;
    if (status == "DELETED") object.deleted_event_id = row.event_id;
  }
  if (business["state"].is_object()) object.attributes = business["state"];
  const Json* patch = view.Member(business, "patch");
  if (patch == nullptr) patch = &business["attributes"];
  if (patch->is_object()) object.attributes = object.attributes.Merge(*patch);
  if (const Json& reference = view.Reference(); !reference.is_null()) {
    object.last_payload_ref = {row.event_id, reference, SummaryOf(reference)};
    object.payload_refs.push_back(*object.last_payload_ref);
  }
}

}  // namespace

Fold::Fold(Context context, FoldOptions options) : strict_(options.strict) {
  if (options.base_state) state_ = *std::move(options.base_state);
  state_.tenant_id = std::move(context.tenant_id);
  state_.organization_id = std::move(context.organization_id);
  state_.execution_id = context.execution_id;
  state_.projection = std::move(context.projection);
  SetSome(state_.upcaster_registry_digest, std::move(options.upcaster_registry_digest));
  if (options.snapshot_seed) state_.replay_snapshot = std::move(options.snapshot_seed);
}

void Fold::Apply(const Row& row) {
  Count(state_.event_count);
  state_.last_event_id = row.event_id;
  state_.last_event_type = row.event_type;
  const RowView view(row, strict_);
  ApplyExecution(state_.execution, view);
  if (auto id = view.Stage()) ApplyStage(state_.stages, *std::move(id), view);
  if (auto id = view.Frame()) ApplyFrame(state_.frames, *std::move(id), view);
  if (auto id = view.Command()) ApplyCommand(state_.commands, *std::move(id), view);
  if (auto id = view.Loop()) ApplyLoop(state_.loops, *std::move(id), view);
  if (const auto identity = view.Object()) ApplyObject(state_.business_objects, *identity, view);
}

State FoldRows(std::vector<Row> rows, Context context, FoldOptions options) {
  std::ranges::stable_sort(rows, {}, &Row::event_id);
  Fold fold(std::move(context), std::move(options));
  for (const Row& row : rows) fold.Apply(row);
  return std::move(fold).Take();
}

}  // namespace noetl::engine::replay
