// Facts from outside: a start, worker events, callbacks, children, timers, cancels.

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "base/time.h"
#include "engine/decide_internal.h"

namespace noetl::engine {

namespace {

bool PendingCallback(const Event& event) {
  return event.result["context"]["pending_callback"].AsBool() ||
         event.meta["pending_callback"].AsBool() || event.context["pending_callback"].AsBool();
}

}  // namespace

Status Decider::ProcessInput() {
  replaced_ = false;
  Status status = std::visit([this](const auto& input) { return Process(input); }, inputs_.front());
  if (status && !replaced_) inputs_.pop_front();
  return status;
}

// Defaults are rendered once, in document order; what the caller sent is never rendered.
Result<Json> Decider::InitialWorkload(const StartRequest& request) const {
  Json workload = Json::Object();
  Scope::Sources sources{
      .identity =
          Identity()
              .With("parent_execution_id", request.parent_execution_id == 0
                                               ? Json()
                                               : Json(std::to_string(request.parent_execution_id)))
              .With("env", request.env.is_object() ? request.env : Json::Object())};
  for (const playbook::WorkloadEntry& entry : playbook_.workload) {
    if (const Json* given = request.payload.Find(entry.name)) {
      workload = workload.With(entry.name, *given);
      continue;
    }
    sources.workload = workload;
    Scope scope(sources);
    scope.SetNow(FormatTime(world_.now_us));
    Result<Json> value = entry.value.Render(scope, expr::Output::kStructured);
    if (!value)
      return Fail("E412", fmt::format("workload.{}: {}", entry.name, value.error().message));
    workload = workload.With(entry.name, *std::move(value));
  }
  return workload.Merge(request.payload);
}

Status Decider::Process(const StartRequest& request) {
  NOETL_CHECK(state_->status == State::Status::kNew, "a run starts once");
  state_->execution_id = request.execution_id;
  state_->catalog_id = request.catalog_id;
  Semantics semantics = request.semantics;
  semantics.strict = profile() == playbook::Profile::kStrict;
  if (playbook_.executor.max_payload_bytes)
    semantics.inline_bytes = *playbook_.executor.max_payload_bytes;
  if (playbook_.executor.timeout_ms)
    semantics.execution_timeout_s = (*playbook_.executor.timeout_ms + 999) / 1'000;

  NOETL_ASSIGN(const Json workload, InitialWorkload(request));

  const std::string path = request.path.empty() ? playbook_.path : request.path;
  Event event = NewEvent(EventType::kPlaybookStarted, path, "STARTED");
  event.execution_id = request.execution_id;
  event.catalog_id = request.catalog_id;
  event.parent_execution_id = request.parent_execution_id;
  event.node_type = "execution";
  JsonObjectBuilder context;
  context.Add("catalog_id", std::to_string(request.catalog_id))
      .Add("execution_id", std::to_string(request.execution_id))
      .Add("path", path)
      .Add("workload", workload);
  if (!request.env.empty()) context.Add("env", request.env);
  event.context = context.Build();
  const std::string& entry = StepAt(playbook_.entry).name;
  JsonObjectBuilder meta;
  meta.Add("emitted_at", FormatTime(world_.now_us))
      .Add("emitter", "control_plane")
      .Add("version", request.version)
      .Add("semantics", semantics.ToJson())
      .Add("route", Json::Object({{"arcs", Json::Array({Json::Object({{"step", entry}})})}}))
      .AddSome("trace", request.trace);
  if (!request.pool.empty()) meta.Add("execution_pool", request.pool);
  if (request.depth > 0) meta.Add("depth", request.depth);
  if (!request.parent_command_id.empty()) meta.Add("parent_command_id", request.parent_command_id);
  if (!request.parent_step.empty()) meta.Add("parent_step", request.parent_step);
  if (!request.return_step.empty()) meta.Add("return_step", request.return_step);
  event.meta = meta.Build();
  Emit(std::move(event));
  cause_ = state_->last_event_id;
  if (semantics.execution_timeout_s > 0) {
    unit_.timers.push_back({.kind = Timer::Kind::kExecutionTimeout,
                            .due_us = world_.now_us + semantics.execution_timeout_s * 1'000'000});
  }
  return {};
}

Status Decider::Process(const Event& event) {
  Event stored = event;
  const std::string_view id = CommandIdOf(event);
  const Command* command = state_->terminal() ? nullptr : state_->FindCommand(id);
  if (!id.empty() && !event.meta.Has("command_id")) stored.meta = event.meta.With("command_id", id);
  if (command &&
      (command->kind == Command::Kind::kIteration || command->kind == Command::Kind::kBody)) {
    const Run& run = OpenRun(command->step);
    stored.meta = stored.meta.With("loop_id", fmt::format("{}#{}", command->step, command->run))
                      .With("total", run.expected);
  }
  if (command && stored.node_name.empty()) stored.node_name = command->step;
  const bool ends =
      event.type == EventType::kCommandCompleted || event.type == EventType::kCommandFailed;
  if (!command || state_->status == State::Status::kNew) {
    Emit(std::move(stored));
    return {};
  }
  if (event.type == EventType::kCommandCompleted && PendingCallback(event))
    return Park(*command, std::move(stored));
  if (ends) return EndCommand(*command, std::move(stored));
  // A parked command is ended by its callback's call.done.
  const bool callback =
      event.type == EventType::kCallDone && command->parked && command->child_execution_id == 0;
  CallbackReport report{.command_id = command->id,
                        .ok = ToLower(event.status) != "failed",
                        .error = event.result["context"]["reason"].ToString()};
  Emit(std::move(stored));
  if (callback) Replace({std::move(report)});
  return {};
}

// Puts simpler facts in the place of the one that is being processed (which dies with this call).
void Decider::Replace(std::vector<Input> facts) {
  inputs_.pop_front();
  inputs_.insert(inputs_.begin(), std::make_move_iterator(facts.begin()),
                 std::make_move_iterator(facts.end()));
  replaced_ = true;
}

// The data is attached by a call.done of its own; then the server ends the command.
Status Decider::Process(const CallbackReport& report) {
  const Command* command = state_->FindCommand(report.command_id);
  if (!command) return {};
  if (!command->reported) {
    Event done = NewEvent(EventType::kCallDone, command->step, report.ok ? "COMPLETED" : "FAILED");
    done.node_type = command->tool_kind;
    done.meta = Json::Object({{"command_id", command->id}, {"callback", true}});
    const Json data = report.data.is_object() ? report.data : Json::Object({{"data", report.data}});
    done.result = Json::Object({{"status", done.status}, {"context", data}});
    done.error = report.error;
    Emit(std::move(done));
    command = state_->FindCommand(report.command_id);
  }
  if (!command->parked) return {};  // it came before the command parked; the command will find it
  Event end = NewEvent(report.ok ? EventType::kCommandCompleted : EventType::kCommandFailed,
                       command->step, report.ok ? "success" : "FAILED");
  end.node_type = command->tool_kind;
  const std::string error = report.error.empty() ? "the callback reported a failure" : report.error;
  JsonObjectBuilder context;
  context.Add("command_id", command->id);
  if (!report.ok) {
    context.Add("error", error);
    end.error = error;
  }
  end.result = Json::Object({{"status", end.status}, {"context", context.Build()}});
  end.meta = end.meta.With("command_id", command->id);
  return EndCommand(*command, std::move(end));
}

// command.completed with pending_callback: the command stays open without a worker.
Status Decider::Park(const Command& command, Event event) {
  if (command.reported && command.callback) {  // the callback was faster
    if (command.report["status"].AsString() != "success") {
      event.type = EventType::kCommandFailed;
      event.type_name = EventName(event.type);
      event.error = "the callback reported a failure";
    }
    return EndCommand(command, std::move(event));
  }
  event.meta = event.meta.With("parked", true);
  unit_.timers.push_back(
      {.kind = Timer::Kind::kCommandDeadline,
       .step = command.step,
       .run = command.run,
       .command_id = command.id,
       .due_us = world_.now_us + state_->semantics.callback_deadline_s * 1'000'000});
  Emit(std::move(event));
  return {};
}

// command.failed as the server writes it for a command that cannot go on; worth another try.
Event Decider::FailedCommand(const Command& command, std::string_view kind, std::string_view code,
                             const std::string& error) const {
  Event event = NewEvent(EventType::kCommandFailed, command.step, "FAILED");
  event.node_type = command.tool_kind;
  event.error = error;
  event.meta = event.meta.With("command_id", command.id);
  const Json info =
      Json::Object({{"kind", kind}, {"retryable", true}, {"code", code}, {"message", error}});
  event.result = Json::Object(
      {{"status", "FAILED"},
       {"context",
        Json::Object({{"command_id", command.id}, {"error", error}, {"error_info", info}})}});
  return event;
}

Status Decider::Process(const Timer& timer) {
  if (state_->terminal()) return {};
  if (timer.kind == Timer::Kind::kExecutionTimeout) {
    FailRun("execution_timeout",
            fmt::format("the run did not end within {} s", state_->semantics.execution_timeout_s));
    return {};
  }
  if (timer.kind == Timer::Kind::kStepDeadline) return MissDeadline(timer);
  const Command* command = state_->FindCommand(timer.command_id);
  if (!command) return {};
  const bool child = command->child_execution_id != 0;
  if (child) {
    const playbook::Task::Field* cancel = StepOf(command->step).tasks[0].Find("cancel_on_timeout");
    if (cancel && cancel->value.source().AsBool())
      unit_.cancel_children.push_back(command->child_execution_id);
  }
  const std::string error =
      child ? fmt::format("sub-playbook run {} did not end in time", command->child_execution_id)
            : std::string("callback not received in time");
  return EndCommand(*command, FailedCommand(*command, "timeout", "TIMEOUT", error));
}

// lifecycle.deadline_s: the run of the step fails, whatever is still open in it.
Status Decider::MissDeadline(const Timer& timer) {
  const StepState* step = state_->Find(timer.step);
  if (!step || !step->open || step->open->number != timer.run) return {};
  const std::string error = fmt::format("step '{}' missed its deadline", timer.step);
  std::vector<std::string> open;
  for (const auto& [id, command] : state_->commands()) {
    if (command.step == timer.step && command.run == timer.run) open.push_back(id);
  }
  if (step->open->kind == Run::Kind::kPlain && open.size() == 1) {
    const Command& command = *state_->FindCommand(open[0]);
    Event end = FailedCommand(command, "timeout", "DEADLINE", error);
    end.meta = end.meta.With("deadline", true);
    return EndCommand(command, std::move(end));
  }
  for (const std::string& id : open) {
    Event cancelled = NewEvent(EventType::kCommandCancelled, timer.step, "CANCELLED");
    cancelled.error = error;
    cancelled.meta = cancelled.meta.With("command_id", id).With("reason", "deadline");
    Emit(std::move(cancelled));
  }
  return {};
}

Status Decider::Process(const CancelFact& fact) {
  if (state_->terminal()) return {};
  JsonObjectBuilder meta;
  meta.Add("emitted_by", "cancel_api").Add("status", "CANCELLED");
  if (!fact.reason.empty()) meta.Add("reason", fact.reason);
  if (!fact.requested_by.empty()) meta.Add("requested_by", fact.requested_by);
  EndRun(EventType::kPlaybookCancelled, StatusResult("CANCELLED"), meta.Build(), fact.reason);
  return {};
}

Status Decider::Process(const FinalizeFact& fact) {
  if (state_->terminal()) return {};
  const std::string_view status = fact.completed ? "COMPLETED" : "FAILED";
  JsonObjectBuilder meta;
  meta.Add("emitted_by", "finalize_api").Add("status", status);
  if (!fact.error.empty()) meta.Add("error", fact.error);
  if (!fact.completed) meta.Add("reason", "finalized");
  EndRun(fact.completed ? EventType::kPlaybookCompleted : EventType::kPlaybookFailed,
         StatusResult(status), meta.Build(), fact.error);
  return {};
}

Status Decider::Process(const ChildEnd& child) {
  const Command* command = state_->FindCommand(child.command_id);
  if (!command || command->child_execution_id != child.child_execution_id) return {};
  if (child.step_missing) {
    Warn("W463", command->step,
         fmt::format("sub-playbook '{}': step '{}' did not run; its result is used instead",
                     child.path, StepOf(command->step).tasks[0].name));
  }
  const Step& step = StepOf(command->step);
  const playbook::Task::Field* on_failure = step.tasks[0].Find("on_child_failure");
  const bool tolerated = on_failure && on_failure->value.source().AsString() == "continue";
  const bool ok = child.status == "COMPLETED";
  const std::string error =
      ok ? std::string()
         : fmt::format("sub-playbook '{}' (run {}) ended {}{}", child.path,
                       child.child_execution_id, child.status,
                       child.error.empty() ? std::string() : ": " + child.error);
  const Json info = ok ? Json()
                       : Json::Object({{"kind", "child_failed"},
                                       {"retryable", false},
                                       {"code", "CHILD_FAILED"},
                                       {"message", error}});
  const std::string_view word = ok ? "success" : "error";
  JsonObjectBuilder tool;
  tool.Add("status", word);
  if (ok) tool.Add("data", child.data);
  else tool.Add("error", error).Add("error_info", info);
  JsonObjectBuilder res;
  res.Add("status", word).Add("context", tool.Build()).AddSome("reference", child.reference);
  Event done = NewEvent(EventType::kCallDone, command->step, "COMPLETED");
  done.node_type = command->tool_kind;
  done.meta = done.meta.With("command_id", command->id).With("child_status", child.status);
  done.result = Json::Object(
      {{"status", "COMPLETED"},
       {"context",
        Json::Object({{"command_id", command->id}, {"call_index", 0}, {"result", res.Build()}})}});
  const bool completes = ok || tolerated;
  Event end = NewEvent(completes ? EventType::kCommandCompleted : EventType::kCommandFailed,
                       command->step, completes ? word : "FAILED");
  end.node_type = command->tool_kind;
  end.meta = done.meta;
  end.error = error;
  JsonObjectBuilder context;
  context.Add("command_id", command->id);
  if (!ok) context.Add("error", error).Add("error_info", info);
  end.result = Json::Object({{"status", end.status}, {"context", context.Build()}});
  std::vector<Input> facts;
  if (completes) facts.emplace_back(std::move(done));
  facts.emplace_back(std::move(end));
  Replace(std::move(facts));
  return {};
}

Status Decider::Process(const ReissueFact& fact) {
  const Command* command = state_->FindCommand(fact.command_id);
  if (!command || command->parked || state_->terminal()) return {};
  const std::int64_t lost = command->lost + (fact.counts ? 1 : 0);
  Event event = NewEvent(EventType::kCommandCancelled, command->step, "CANCELLED");
  event.node_type = command->tool_kind;
  const bool withdraw = state_->draining && !OpenRun(command->step).final;
  event.meta = event.meta.With("command_id", command->id)
                   .With("reason", withdraw      ? "withdrawn"
                                   : fact.counts ? "superseded"
                                                 : "released");
  if (withdraw) {
    Emit(std::move(event));
    return {};
  }
  if (!fact.counts || lost < state_->semantics.max_attempts) {
    return IssueAgain(*command, lost, command->reruns, std::move(event), 0);
  }
  Event end = FailedCommand(*command, "worker_lost", "WORKER_LOST",
                            fmt::format("worker lost {} times", lost));
  end.meta = end.meta.With("emitted_by", "lease_reaper");
  return EndCommand(*command, std::move(end));
}

Status Decider::Process(const ReleaseFact& fact) {
  const Command* command = state_->FindCommand(fact.command_id);
  if (!command || state_->terminal()) return {};
  if (command->status == Command::Status::kStarted || state_->draining)
    return Process(ReissueFact{fact.command_id, false});
  if (command->status != Command::Status::kClaimed) return {};
  Event event = NewEvent(EventType::kCommandReleased, command->step, "PENDING");
  event.node_type = command->tool_kind;
  event.meta = event.meta.With("command_id", command->id)
                   .With("worker_id", command->worker)
                   .With("claim_token", command->claim_token);
  Emit(std::move(event));
  return {};
}

}  // namespace noetl::engine
