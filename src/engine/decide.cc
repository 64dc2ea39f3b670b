#include "engine/decide.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/decide_internal.h"

namespace noetl::engine {

std::string LoopRef(std::int64_t execution_id, std::string_view step, std::int64_t run) {
  return fmt::format("noetl://execution/{}/loop/{}/{}", execution_id, step, run);
}

std::string CommandRef(std::int64_t execution_id, std::int64_t event_id) {
  return fmt::format("noetl://execution/{}/command/{}", execution_id, event_id);
}

// ---- bodies

Result<const Json*> Decider::OwnBodies::Find(std::string_view ref) const {
  for (const StoredBody& stored : unit_.bodies) {
    if (stored.ref == ref) return &stored.body;
  }
  // Only references of the kind in question are compared: a unit may hold thousands of commands.
  if (ref.find("/command/") != std::string_view::npos) {
    for (const Event& event : unit_.events) {
      if (event.type != EventType::kCommandIssued) continue;
      if (ref == CommandRef(state_.execution_id, event.event_id)) return &event.context;
    }
  } else if (ref.find("/loop/") != std::string_view::npos) {
    for (const LoopRow& row : unit_.loop_rows) {
      if (LoopRef(state_.execution_id, row.step, row.run) != ref) continue;
      return FindLoop(ref, row.step, row.run);
    }
  }
  if (world_ == nullptr) return nullptr;
  return world_->Find(ref);
}

Result<const Json*> Decider::OwnBodies::FindLoop(std::string_view ref, std::string_view step,
                                                 std::int64_t run) const {
  if (merged_rows_ != unit_.loop_rows.size()) merged_.clear();
  merged_rows_ = unit_.loop_rows.size();
  if (auto known = merged_.find(ref); known != merged_.end()) return &known->second;
  if (world_ == nullptr) return nullptr;
  NOETL_ASSIGN(const Json* stored, world_->Find(ref));
  if (stored == nullptr) return nullptr;
  std::vector<Json> rows(stored->items().begin(), stored->items().end());
  for (const LoopRow& row : unit_.loop_rows) {
    if (row.step != step || row.run != run) continue;
    if (row.index >= std::ssize(rows)) rows.resize(static_cast<std::size_t>(row.index) + 1);
    rows[static_cast<std::size_t>(row.index)] = row.data;
  }
  return &(merged_[std::string(ref)] = Json::Array(std::move(rows)));
}

// ---- shared parts

Decider::Decider(State* state, const playbook::Playbook& playbook, World world)
    : state_(state),
      playbook_(playbook),
      world_(world),
      bodies_(std::make_unique<OwnBodies>(unit_, *state, world.bodies)),
      steps_(std::make_unique<StateSteps>(*state)),
      was_draining_(state->draining) {}

Decider::~Decider() = default;

void Decider::Start(StartRequest request) { inputs_.emplace_back(std::move(request)); }
void Decider::Ingest(Event event) { inputs_.emplace_back(std::move(event)); }
void Decider::Callback(CallbackReport report) { inputs_.emplace_back(std::move(report)); }
void Decider::ChildEnded(ChildEnd end) { inputs_.emplace_back(std::move(end)); }
void Decider::TimerDue(Timer timer) { inputs_.emplace_back(std::move(timer)); }
void Decider::Reissue(std::string command_id, bool counts) {
  inputs_.emplace_back(ReissueFact{std::move(command_id), counts});
}
void Decider::Release(std::string command_id) {
  inputs_.emplace_back(ReleaseFact{std::move(command_id)});
}
void Decider::Cancel(std::string reason, std::string requested_by) {
  inputs_.emplace_back(CancelFact{std::move(reason), std::move(requested_by)});
}
void Decider::Finalize(bool completed, std::string error) {
  inputs_.emplace_back(FinalizeFact{completed, std::move(error)});
}

const playbook::Step& Decider::StepOf(std::string_view name) const {
  const Step* step = playbook_.Find(name);
  NOETL_CHECK(step != nullptr,
              fmt::format("run {} names step '{}', which its playbook does not have",
                          state_->execution_id, name));
  return *step;
}

const Run& Decider::OpenRun(std::string_view step) const {
  const StepState* found = state_->Find(step);
  NOETL_CHECK(found != nullptr && found->open, fmt::format("step '{}' has no open run", step));
  return *found->open;
}

Json Decider::Identity() const {
  const std::string id = std::to_string(state_->execution_id);
  JsonObjectBuilder identity;
  identity.Add("execution_id", id)
      .Add("catalog_id", std::to_string(state_->catalog_id))
      .Add("parent_execution_id", state_->parent_execution_id == 0
                                      ? Json()
                                      : Json(std::to_string(state_->parent_execution_id)))
      .Add("job", Json::Object({{"uuid", id}, {"execution_id", id}, {"id", id}}))
      .Add("playbook", Json::Object({{"path", state_->path},
                                     {"version", state_->version},
                                     {"name", playbook_.name},
                                     {"catalog_id", std::to_string(state_->catalog_id)}}))
      .Add("env", state_->env.is_object() ? state_->env : Json::Object());
  identity.AddSome("spec", playbook_.root_spec);
  return identity.Build();
}

Scope Decider::MakeScope(Json ctx, const StepSource& steps) const {
  if (identity_.is_null()) identity_ = Identity();
  Scope scope({.workload = state_->workload,
               .ctx = std::move(ctx),
               .identity = identity_,
               .steps = &steps,
               .bodies = bodies_.get()});
  scope.SetRetypesText(state_->semantics.retype_legacy);
  return scope;
}

// Ids minted here are above every id of the run, as long as that takes little lead over the clock.
std::int64_t Decider::NextId() { return world_.ids->NextAbove(state_->highest_event_id); }

Event Decider::NewEvent(EventType type, std::string_view node, std::string_view status) const {
  Event event;
  event.type = type;
  event.type_name = EventName(type);
  event.node_name = std::string(node);
  event.status = std::string(status);
  event.parent_event_id = cause_;
  event.created_at_us = world_.now_us;
  event.result = StatusResult(status);
  event.meta = Json::Object({{"emitted_by", "orchestrator"}});
  return event;
}

void Decider::Emit(Event event) {
  if (event.event_id == 0) event.event_id = NextId();
  event.execution_id = state_->execution_id != 0 ? state_->execution_id : event.execution_id;
  event.catalog_id = state_->catalog_id != 0 ? state_->catalog_id : event.catalog_id;
  event.seq = state_->seq + 1;
  event.prev_event_id = state_->last_event_id;
  if (event.created_at_us == 0) event.created_at_us = world_.now_us;
  event.ingest_us = std::max(world_.now_us, state_->last_ingest_us);
  Fold(*state_, event);
  unit_.events.push_back(std::move(event));
}

void Decider::Warn(std::string_view code, std::string_view step, std::string message) {
  if (state_->warning_count >= kListedErrorsMax) return;
  Event event = NewEvent(EventType::kRunWarning, step, "WARNING");
  event.result = Json::Object(
      {{"status", "WARNING"},
       {"context", Json::Object({{"code", code}, {"step", step}, {"message", message}})}});
  Emit(std::move(event));
}

std::string Decider::StoreBody(std::string_view name, Json body) {
  std::string ref =
      fmt::format("noetl://execution/{}/result/{}/{}", state_->execution_id, name, NextId());
  unit_.bodies.push_back({ref, std::move(body)});
  return ref;
}

// ---- the loop

Status Decider::Decide() {
  if (inputs_.empty()) routed_ = true;  // goes on with a unit that was closed early
  for (bool done = false; !done;) NOETL_TRY(NextAction(&done));
  return {};
}

// Does one thing. Each thing first evaluates all it needs and then writes, so that it can be
// started again when a body has to be loaded.
Status Decider::NextAction(bool* done) {
  if (!inputs_.empty()) return ProcessInput();
  if (state_->terminal() || state_->status == State::Status::kNew) {
    *done = true;
    return {};
  }
  if (state_->draining && !was_draining_) {
    WithdrawUnclaimed();
    return {};
  }
  const std::size_t before = unit_.events.size();
  for (const Step* step : OpenSteps()) {
    NOETL_TRY(FinishLoopIfDone(*step));
    if (unit_.events.size() != before) return {};
  }
  if (const int index = NextAdmissible(); index >= 0) {
    if (before < kUnitEventsMax) return EnterStep(StepAt(index), false);
    unit_.more = true;
  }
  if (routed_ && !unit_.more) ReportDeadBranches();
  for (const Step* step : OpenSteps()) {
    bool issued = false;
    NOETL_TRY(IssueFor(*step, &issued));
    if (issued) return {};
  }
  if (unit_.more) {
    *done = true;
    return {};
  }
  return EndWhenQuiescent(done);
}

std::vector<const Decider::Step*> Decider::OpenSteps() const {
  std::vector<const Step*> open;
  for (const std::string& name : state_->open_steps()) open.push_back(&StepOf(name));
  std::sort(open.begin(), open.end(), [&](const Step* a, const Step* b) {
    return playbook_.graph.Topo(a->index) < playbook_.graph.Topo(b->index);
  });
  return open;
}

// The lowest step in topological order that holds a token and waits for nobody; -1 when there is
// none.
int Decider::NextAdmissible() const {
  if (state_->draining) return -1;
  int best = -1;
  for (const std::string& name : state_->token_steps()) {
    const StepState& step = *state_->Find(name);
    const int index = StepOf(name).index;
    if (step.open || !JoinIsReady(step, index)) continue;
    if (best < 0 || playbook_.graph.Topo(index) < playbook_.graph.Topo(best)) best = index;
  }
  return best;
}

// A join waits for every predecessor that has not arrived and can still be reached by something
// alive.
bool Decider::JoinIsReady(const StepState& step, int index) const {
  const playbook::Graph& graph = playbook_.graph;
  for (const int predecessor : graph.In(index)) {
    const std::string& name = StepAt(predecessor).name;
    const bool arrived = std::any_of(step.tokens.begin(), step.tokens.end(),
                                     [&](const Token& token) { return token.source == name; });
    if (arrived) continue;
    const auto can_reach = [&](const std::string& live) {
      const int from = StepOf(live).index;
      if (from == index) return false;
      return from == predecessor || graph.ForwardReach(from).Has(predecessor);
    };
    if (std::any_of(state_->open_steps().begin(), state_->open_steps().end(), can_reach))
      return false;
    if (std::any_of(state_->token_steps().begin(), state_->token_steps().end(), can_reach))
      return false;
  }
  return true;
}

// ---- draining, dead branches, the end

// After an unhandled failure nothing new starts: commands that no worker has are taken back.
void Decider::WithdrawUnclaimed() {
  was_draining_ = true;
  std::vector<std::string> unclaimed;
  for (const auto& [id, command] : state_->commands()) {
    if (command.status == Command::Status::kIssued && !command.parked) unclaimed.push_back(id);
  }
  for (const std::string& id : unclaimed) {
    Event event =
        NewEvent(EventType::kCommandCancelled, state_->FindCommand(id)->step, "CANCELLED");
    event.meta = event.meta.With("command_id", id).With("reason", "withdrawn");
    Emit(std::move(event));
  }
  // Steps that were entered in this decision and have no command yet.
  for (const Step* step : OpenSteps()) {
    const std::string& name = step->name;
    const Run& run = OpenRun(name);
    if (run.kind != Run::Kind::kPlain || run.in_flight > 0 || run.final) continue;
    Event event = NewEvent(EventType::kCommandCancelled, name, "CANCELLED");
    event.meta = event.meta.With("run", run.number).With("reason", "withdrawn");
    Emit(std::move(event));
  }
}

// step.skipped for targets of arcs that did not fire, once nothing alive can reach them any more.
void Decider::ReportDeadBranches() {
  routed_ = false;
  if (state_->draining) return;
  const playbook::Graph& graph = playbook_.graph;
  playbook::StepSet alive(playbook_.steps.size());
  for (const auto* live : {&state_->open_steps(), &state_->token_steps()}) {
    for (const std::string& name : *live) alive.AddAll(graph.Reach(StepOf(name).index));
  }
  std::vector<int> dead;
  for (const Step& source : playbook_.steps) {
    const StepState* ended = state_->Find(source.name);
    if (!ended || ended->outcome == StepState::Outcome::kNone ||
        ended->outcome == StepState::Outcome::kDenied)
      continue;
    for (const playbook::Arc& arc : source.arcs) {
      if (arc.target_index < 0 || alive.Has(arc.target_index)) continue;
      const StepState* target = state_->Find(arc.target);
      if (target &&
          (target->runs > 0 || target->open || !target->tokens.empty() || target->skip_reported))
        continue;
      dead.push_back(arc.target_index);
    }
  }
  std::sort(dead.begin(), dead.end(), [&](int a, int b) { return graph.Topo(a) < graph.Topo(b); });
  dead.erase(std::unique(dead.begin(), dead.end()), dead.end());
  for (int index : dead) {
    Event event = NewEvent(EventType::kStepSkipped, StepAt(index).name, "SKIPPED");
    event.meta = event.meta.With("reason", "route");
    Emit(std::move(event));
  }
}

Status Decider::EndWhenQuiescent(bool* done) {
  if (!state_->quiescent()) {
    *done = true;
    return {};
  }
  if (playbook_.implicit_end && state_->failed_steps.empty()) {
    const Step& end = StepAt(playbook_.end);
    const StepState* known = state_->Find(end.name);
    if (!known || known->runs == 0) return EnterStep(end, false);
  }
  if (playbook_.final >= 0 && !state_->final_entered) {
    return EnterStep(StepAt(playbook_.final), true);
  }
  NOETL_TRY(Complete());
  *done = true;
  return {};
}

Status Decider::Complete() {
  JsonObjectBuilder meta;
  meta.Add("emitted_by", "orchestrator");
  const bool soft_fails = state_->semantics.status_from_steps && state_->soft_error_count > 0;
  const bool failed = !state_->failed_steps.empty() || soft_fails;
  meta.Add("status", failed ? "FAILED" : "COMPLETED");
  std::string error;
  if (!state_->failed_steps.empty()) {
    error = fmt::format("Failed steps: {}", fmt::join(state_->failed_steps, ", "));
    meta.Add("error", error)
        .Add("failed_steps",
             Json::Array({state_->failed_steps.begin(), state_->failed_steps.end()}));
    if (!state_->first_error.empty()) meta.Add("first_error", state_->first_error);
  } else if (soft_fails) {
    error = fmt::format("{} tool error(s) were reported; the first in step '{}': {}",
                        state_->soft_error_count, state_->soft_errors[0].step,
                        state_->soft_errors[0].error);
    meta.Add("error", error).Add("reason", "status_from_steps");
  }
  if (failed) {
    EndRun(EventType::kPlaybookFailed, StatusResult("FAILED"), meta.Build(), error);
    return {};
  }
  // The payload of final_step, else of `end` if it ran, else of the step that completed last.
  std::string source = state_->last_completed_step;
  const StepState* end = state_->Find("end");
  if (end && end->outcome == StepState::Outcome::kCompleted) source = "end";
  if (playbook_.final >= 0) source = StepAt(playbook_.final).name;
  if (playbook_.final >= 0) meta.Add("final_step", source);
  Json result = StatusResult("COMPLETED");
  const StepState* step = state_->Find(source);
  if (step && step->result) {
    if (!step->result->reference.is_null()) {
      result = result.With("reference", step->result->reference);
    } else {
      NOETL_ASSIGN(Json data, RecordedPayloadOf(*step->result, bodies_.get()));
      result = result.With("context", Json::Object({{"data", std::move(data)}}));
    }
  }
  EndRun(EventType::kPlaybookCompleted, std::move(result), meta.Build(), "");
  return {};
}

void Decider::EndRun(EventType type, Json result, Json meta, std::string error) {
  if (state_->soft_error_count > 0) {
    std::vector<Json> listed;
    for (const SoftError& soft : state_->soft_errors) {
      JsonObjectBuilder entry;
      entry.Add("step", soft.step).Add("run", soft.run);
      if (soft.index >= 0) entry.Add("index", soft.index);
      entry.Add("error", soft.error);
      listed.push_back(entry.Build());
    }
    meta = meta.With("soft_errors", Json::Array(std::move(listed)))
               .With("soft_error_count", state_->soft_error_count);
  }
  if (!state_->denied_steps.empty()) {
    meta = meta.With("denied_steps",
                     Json::Array({state_->denied_steps.begin(), state_->denied_steps.end()}));
  }
  if (state_->warning_count > kListedErrorsMax)
    meta = meta.With("warning_count", state_->warning_count);
  for (const auto& [id, command] : state_->commands()) {
    unit_.dropped_commands.push_back(id);
    if (command.child_execution_id != 0)
      unit_.cancel_children.push_back(command.child_execution_id);
  }
  const std::string_view status = type == EventType::kPlaybookCompleted ? "COMPLETED"
                                  : type == EventType::kPlaybookFailed  ? "FAILED"
                                                                        : "CANCELLED";
  if (!state_->parent_command_id.empty()) unit_.parent = NoticeToParent(status, error);
  Event event = NewEvent(type, "playbook", status);
  event.result = std::move(result);
  event.meta = std::move(meta);
  event.error = std::move(error);
  if (unit_.parent && unit_.parent->data.is_null() && unit_.parent->reference.is_null()) {
    unit_.parent->data = event.result["context"]["data"];
    unit_.parent->reference = event.result["reference"];
  }
  Emit(std::move(event));
}

// What the waiting parent gets: the step it asked for, else (filled in by EndRun) the run's result.
ChildEnd Decider::NoticeToParent(std::string_view status, const std::string& error) const {
  ChildEnd notice{.command_id = state_->parent_command_id,
                  .parent_execution_id = state_->parent_execution_id,
                  .child_execution_id = state_->execution_id,
                  .path = state_->path,
                  .status = std::string(status),
                  .error = error};
  // A list of names alone would tell the parent nothing.
  if (!state_->failed_steps.empty() && !state_->first_error.empty())
    notice.error += fmt::format(": {}", state_->first_error);
  if (state_->return_step.empty()) return notice;
  const StepState* step = state_->Find(state_->return_step);
  if (!step || !step->result) {
    notice.step_missing = true;
    return notice;
  }
  if (!step->result->reference.is_null()) {
    notice.reference = step->result->reference;
  } else if (Result<Json> data = RecordedPayloadOf(*step->result, bodies_.get())) {
    notice.data = *std::move(data);
  }
  return notice;
}

// An error that no arc can catch: the run ends at once, open commands are dropped with it.
void Decider::FailRun(std::string_view reason, const std::string& message) {
  Json meta = Json::Object({{"emitted_by", "orchestrator"},
                            {"status", "FAILED"},
                            {"reason", reason},
                            {"error", message}});
  Json result =
      Json::Object({{"status", "FAILED"}, {"context", Json::Object({{"error", message}})}});
  EndRun(EventType::kPlaybookFailed, std::move(result), std::move(meta), message);
}

}  // namespace noetl::engine
