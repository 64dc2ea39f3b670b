// The end of a command, of an iteration, of a step's run; and which arcs follow.

#include <fmt/format.h>

#include "base/json_io.h"

#include <algorithm>
#include "base/time.h"
#include "engine/decide_internal.h"
#include "engine/pipeline.h"

namespace noetl::engine {

namespace {

using playbook::OnError;

// `event` as arcs see it: its name compares equal to any of its spellings.
class EventView : public expr::View {
 public:
  EventView(std::vector<std::string> names, Json fields)
      : names_(std::move(names)), fields_(std::move(fields)) {}

  Result<expr::Value> Get(std::string_view key) const override {
    if (key == "name") return expr::Value::Alias(names_);
    const Json* found = fields_.Find(key);
    return found ? expr::Value(*found) : expr::Value();
  }
  Result<Json> Whole() const override { return fields_.With("name", names_[0]); }

 private:
  std::vector<std::string> names_;
  Json fields_;
};

std::vector<std::string> EventNames(std::string_view outcome, bool loop, bool soft) {
  if (outcome == "skipped") return {"step.skipped"};
  if (outcome == "failed" || soft) return {"call.error", "step.failed", "command.failed"};
  if (loop) return {"loop.done", "step.done", "step.exit"};
  return {"call.done", "step.done", "step.exit", "command.completed"};
}

// Writes of a pipeline: {"ctx.k": complete value}.
Json ApplyUpdates(Json ctx, const Json& updates) {
  for (const JsonMember& member : updates.members()) {
    std::string_view key = member.key();
    if (key.starts_with("ctx.")) key.remove_prefix(4);
    ctx = ctx.With(key, member.value);
  }
  return ctx;
}

}  // namespace

std::string Decider::OutcomeOf(const Command& command, const Step& step, const Report& report,
                               bool hard) const {
  if (report.ok) return "completed";
  const bool strict = state_->semantics.strict || state_->semantics.step_error_fails;
  if (!hard && !strict && command.kind != Command::Kind::kClaim) return "soft";
  if (command.kind == Command::Kind::kClaim) return "failed";
  if (step.on_error == OnError::kContinue) return "soft";
  const bool iteration =
      command.kind == Command::Kind::kIteration || command.kind == Command::Kind::kBody;
  if (iteration && step.loop->continue_on_error) return "soft";
  return "failed";
}

Status Decider::EndCommand(const Command& ended, Event event) {
  // A copy, because the fold removes the original.
  const Command command = ended;  // NOLINT(performance-unnecessary-copy-initialization)
  const Step& step = StepOf(command.step);
  cause_ = event.event_id;
  const Report report = ReadReport(command, event);
  if (command.kind == Command::Kind::kClaim) return EndClaim(command, std::move(event), report);

  const bool hard = event.type == EventType::kCommandFailed;
  const std::string outcome = OutcomeOf(command, step, report, hard);
  const bool may_retry =
      outcome == "failed" && !event.meta["deadline"].AsBool() && !state_->draining;
  if (may_retry && step.on_error == OnError::kRetry && command.reruns == 0) {
    event.meta = event.meta.With("outcome", "retry");
    return IssueAgain(command, command.lost, command.reruns + 1, std::move(event), 0);
  }
  // A child's own retry: the server is its worker.
  if (may_retry && command.child_execution_id != 0) {
    const RetryDecision retry =
        DecideToolRetry(step.tasks[0].retry, static_cast<int>(command.reruns) + 1,
                        ErrorObject(report.error, report.error_info));
    if (retry.again) {
      event.meta = event.meta.With("outcome", "retry");
      return IssueAgain(command, command.lost, command.reruns + 1, std::move(event),
                        world_.now_us + retry.delay_ms * 1'000);
    }
  }
  event.meta = event.meta.With("outcome", outcome);
  if (command.kind != Command::Kind::kSingle) {
    return EndIteration(command, step, std::move(event), report);
  }
  Ending ending{
      .step = &step,
      .run = command.run,
      .outcome = outcome,
      .result = std::make_shared<const StepResult>(MakeStepResult(command, report, event)),
      .ctx_updates = report.ctx_updates,
      .final = OpenRun(step.name).final,
      .error = report.error};
  ending.event = std::move(event);
  return FinishRun(std::move(ending));
}

Status Decider::EndIteration(const Command& command, const Step& step, Event event,
                             const Report& report) {
  const StepResult result = MakeStepResult(command, report, event);
  Json payload;
  if (!result.reference.is_null()) {
    payload = Json::Object({{"_ref", result.reference["ref"]}, {"reference", result.reference}});
  } else {
    NOETL_ASSIGN(payload, PayloadOf(result, bodies_.get()));
  }
  const Run& run = OpenRun(step.name);
  const bool keeps_rows = run.kind == Run::Kind::kLoop || step.loop->retain_results;
  // Rows of a cursor are kept in the order in which they ended.
  const std::int64_t row =
      run.kind == Run::Kind::kLoop ? command.index : run.succeeded + run.failed;
  event.meta = event.meta.With("result_bytes", keeps_rows ? Json(JsonSize(payload)) : Json(0));
  const std::int64_t number = run.number;
  Emit(std::move(event));
  if (keeps_rows) unit_.loop_rows.push_back({step.name, number, row, std::move(payload)});
  UpdateContext(step, number, state_->last_event_id, ApplyUpdates(state_->ctx, report.ctx_updates));
  return {};
}

// A claim must answer with a list of rows; anything else fails the step instead of ending it early.
Status Decider::EndClaim(const Command& command, Event event, const Report& report) {
  std::int64_t rows = -1;
  if (report.ok && report.reference.is_object()) {
    const std::string ref = report.reference["ref"].ToString();
    NOETL_ASSIGN(const Json* body, bodies_->Find(ref));
    if (!body) return Fail("needs_reference", ref);
    if ((*body)["rows"].is_array()) rows = std::ssize((*body)["rows"].items());
  } else if (report.ok && report.data["rows"].is_array()) {
    rows = std::ssize(report.data["rows"].items());
  }
  if (rows >= 0) {
    event.meta = event.meta.With("outcome", "completed").With("rows", rows);
  } else {
    event.meta = event.meta.With("outcome", "failed");
    const std::string cause = report.ok
                                  ? "cursor claim returned no rows; it must return a list of rows"
                                  : fmt::format("cursor claim failed: {}", report.error);
    event.error = fmt::format("loop step '{}': {}", command.step, cause);
  }
  Emit(std::move(event));
  return {};
}

// A step or iteration that cannot be issued: a hard failure that failure arcs may catch.
Status Decider::FailUnissued(const Step& step, std::int64_t run, std::vector<Event> before,
                             const Error& error) {
  Event event = NewEvent(EventType::kCommandFailed, step.name, "FAILED");
  event.error = error.message;
  event.meta =
      event.meta.With("run", run).With("reason", "evaluate_error").With("outcome", "failed");
  const Json info = Json::Object({{"kind", "template"},
                                  {"retryable", false},
                                  {"code", error.code},
                                  {"message", error.message}});
  event.result =
      Json::Object({{"status", "FAILED"},
                    {"context", Json::Object({{"error", error.message}, {"error_info", info}})}});
  Command none;
  none.run = run;
  none.tool_kind = step.tool_kind;
  const Report report = ReadReport(none, event);
  Ending ending{.step = &step,
                .run = run,
                .outcome = step.on_error == OnError::kContinue ? "soft" : "failed",
                .before = std::move(before),
                .result = std::make_shared<const StepResult>(MakeStepResult(none, report, event)),
                .error = error.message};
  if (const StepState* known = state_->Find(step.name); known && known->open)
    ending.final = known->open->final;
  ending.event = std::move(event);
  return FinishRun(std::move(ending));
}

// Writes the end of a run: the ending event with its route, then the context it changed.
Status Decider::FinishRun(Ending ending) {
  if (cause_ == 0) cause_ = ending.event.event_id;
  Result<Routing> routing = Route(ending);
  if (!routing && NeedsReference(routing.error())) return std::unexpected(routing.error());

  const std::string outcome = routing ? routing->outcome : ending.outcome;
  const std::string error = routing ? routing->error : ending.error;
  JsonObjectBuilder route;
  route.Add("run", ending.run)
      .Add("outcome", outcome)
      .Add("arcs", routing ? routing->arcs : Json::Array());
  if (outcome == "failed") {
    if (!error.empty()) route.Add("error", error);
    const bool unhandled = !routing || routing->arcs.empty();
    if (unhandled && !ending.step->best_effort) route.Add("drain", true);
  }
  for (Event& event : ending.before) Emit(std::move(event));
  ending.event.meta = ending.event.meta.With("route", route.Build());
  if (outcome == "failed" && ending.event.error.empty()) ending.event.error = error;
  Emit(std::move(ending.event));
  const std::int64_t gen = state_->last_event_id;
  routed_ = true;
  if (!routing) {
    FailRun("evaluate_error", routing.error().message);
    return {};
  }
  UpdateContext(*ending.step, ending.run, gen, routing->ctx);
  for (const auto& [code, message] : routing->warnings) Warn(code, ending.step->name, message);
  return {};
}

// Evaluates `set` and the arcs of a run that ends; changes nothing.
Result<Decider::Routing> Decider::Route(const Ending& ending) const {
  Routing routing{.ctx = ApplyUpdates(state_->ctx, ending.ctx_updates),
                  .outcome = ending.outcome,
                  .error = ending.error};
  if (ending.outcome == "denied" || ending.outcome == "cancelled") return routing;
  StateSteps steps(*state_);
  if (ending.result) steps.Overlay(ending.step->name, ending.result);
  Scope scope = MakeScope(routing.ctx, steps);
  BindEnding(ending, scope);
  if (ending.outcome == "completed" || ending.outcome == "soft") {
    // A single tool's own `set` is a block before the step's.
    const std::span<const playbook::Assignment> set = ending.step->set;
    const std::size_t own = ending.step->pipeline ? 0 : ending.step->tasks[0].set.size();
    NOETL_TRY(ApplySet(*ending.step, set.first(own), "tool.set", scope, &routing));
    NOETL_TRY(ApplySet(*ending.step, set.subspan(own), "set", scope, &routing));
  }
  if (!ending.final && !state_->draining) NOETL_TRY(FollowArcs(ending, scope, &routing));
  return routing;
}

void Decider::BindEnding(const Ending& ending, Scope& scope) const {
  const bool soft = ending.outcome == "soft";
  const bool failed = ending.outcome == "failed";
  const bool loop = ending.step->loop.has_value();
  JsonObjectBuilder fields;
  fields.Add("step", ending.step->name)
      .Add("status", failed || soft ? "error" : "ok")
      .Add("attempt", ending.result ? ending.result->meta["attempt"] : Json(1))
      .Add("timestamp", FormatTime(ending.event.created_at_us));
  if (failed || soft) fields.Add("error", ending.error);
  scope.Bind("event", expr::Value(std::shared_ptr<const expr::View>(std::make_shared<EventView>(
                          EventNames(ending.outcome, loop, soft), fields.Build()))));
  scope.Bind("step", Json(ending.step->name));
  if (!ending.result) {
    for (std::string_view name : {"output", "result", "error"}) scope.Bind(name, expr::Value());
    return;
  }
  scope.Bind("output", StepOutputView(ending.result, bodies_.get()));
  scope.Bind("result", StepView(ending.result, bodies_.get()));
  scope.Bind("error", failed || soft
                          ? expr::Value(ErrorObject(ending.error, ending.result->error_info))
                          : expr::Value());
  if (const Json* code = ending.result->data.Find("exit_code"))
    scope.Bind("exit_code", expr::Value(*code));
}

// All right-hand sides see the state before the block; then the writes happen in document order.
Status Decider::ApplySet(const Step& step, std::span<const playbook::Assignment> set,
                         std::string_view where, Scope& scope, Routing* routing) const {
  std::vector<std::pair<const playbook::Assignment*, Json>> values;
  for (const playbook::Assignment& assignment : set) {
    Result<Json> value = assignment.value.Render(scope, expr::Output::kStructured);
    if (value) {
      values.emplace_back(&assignment, *std::move(value));
      continue;
    }
    if (NeedsReference(value.error())) return std::unexpected(value.error());
    std::string message = fmt::format("step '{}': {}.{}: {}", step.name, where, assignment.target,
                                      value.error().message);
    if (profile() == playbook::Profile::kStrict)
      return Fail(value.error().code, std::move(message));
    routing->warnings.emplace_back("W281", std::move(message) + "; the value is left unchanged");
  }
  for (auto& [assignment, value] : values) {
    switch (assignment->scope) {
      case playbook::Assignment::Scope::kCtx:
      case playbook::Assignment::Scope::kLocal:
        routing->ctx = SetPath(routing->ctx, assignment->path, std::move(value));
        break;
      case playbook::Assignment::Scope::kStep:
        routing->scratch = SetPath(routing->scratch, assignment->path, std::move(value));
        break;
      case playbook::Assignment::Scope::kIter: break;  // no iteration is left here
    }
  }
  scope.SetCtx(routing->ctx);
  if (!routing->scratch.empty()) scope.Bind("step", NamedStep(step.name, routing->scratch));
  return {};
}

Status Decider::FollowArcs(const Ending& ending, Scope& scope, Routing* routing) const {
  const Step& step = *ending.step;
  const bool failed = ending.outcome == "failed";
  // All conditions see the state before any arc's own `set`.
  std::vector<std::size_t> holding;
  for (std::size_t i = 0; i < step.arcs.size(); ++i) {
    const playbook::Arc& arc = step.arcs[i];
    if (failed && arc.when.is_absent()) continue;  // only a guarded arc can catch a failure
    Result<bool> holds = arc.when.Evaluate(scope);
    if (!holds) {
      if (NeedsReference(holds.error())) return std::unexpected(holds.error());
      return Fail(holds.error().code,
                  fmt::format("step '{}': next.arcs[{}].when '{}': {}", step.name, i,
                              arc.when.source().is_string() ? arc.when.source().ToString()
                                                            : WriteJson(arc.when.source()),
                              holds.error().message));
    }
    if (!*holds) continue;
    holding.push_back(i);
    if (step.mode == playbook::RouteMode::kExclusive) break;
  }
  std::vector<Json> fired;
  for (const std::size_t i : holding) {
    const playbook::Arc& arc = step.arcs[i];
    NOETL_TRY(ApplySet(step, arc.set, fmt::format("next.arcs[{}].set", i), scope, routing));
    Result<Json> args = arc.args.Render(scope, expr::Output::kStructured);
    if (!args) {
      if (NeedsReference(args.error())) return std::unexpected(args.error());
      return Fail(args.error().code, fmt::format("step '{}': next.arcs[{}].args: {}", step.name, i,
                                                 args.error().message));
    }
    JsonObjectBuilder entry;
    entry.Add("i", i);
    if (arc.target_index >= 0) entry.Add("step", arc.target);
    if (!args->empty()) entry.Add("args", *std::move(args));
    fired.push_back(entry.Build());
  }
  const bool must_match =
      step.on_no_match == playbook::OnNoMatch::kFail || playbook_.executor.no_next_is_error;
  if (fired.empty() && !step.arcs.empty() && !failed && must_match) {
    routing->outcome = "failed";
    routing->error = fmt::format("step '{}': no arc of next matched", step.name);
  }
  routing->arcs = Json::Array(std::move(fired));
  return {};
}

// One ctx.updated with the complete new value of every key that changed.
void Decider::UpdateContext(const Step& step, std::int64_t run, std::int64_t gen,
                            const Json& after) {
  if (after.Same(state_->ctx) || state_->terminal()) return;
  JsonObjectBuilder values;
  bool changed = false;
  for (const JsonMember& member : after.members()) {
    const Json* before = state_->ctx.Find(member.key());
    if (before && before->Same(member.value)) continue;
    changed = true;
    if (member.value.is_container() || member.value.is_string()) {
      if (JsonSize(member.value) > kInlineContextValueBytes) {
        values.Add(
            member.key(),
            Json::Object({{"_ref", StoreBody(fmt::format("ctx.{}", member.key()), member.value)}}));
        continue;
      }
    }
    values.Add(member.key(), member.value);
  }
  if (!changed) return;
  Event event = NewEvent(EventType::kCtxUpdated, "", "CONTEXT");
  event.result = Json::Object(
      {{"status", "CONTEXT"},
       {"context",
        Json::Object(
            {{"step", step.name}, {"run", run}, {"gen", gen}, {"values", values.Build()}})}});
  Emit(std::move(event));
}

// ---- loops

Status Decider::FinishLoopIfDone(const Step& step) {
  const Run& run = OpenRun(step.name);
  if (run.kind == Run::Kind::kPlain || run.in_flight > 0) return {};
  std::string outcome;
  // Counted by what ended: withdrawn iterations were issued but have no result.
  bool complete = run.succeeded + run.failed >= run.expected;
  if (run.kind == Run::Kind::kCursor) {
    complete = std::all_of(run.slots.begin(), run.slots.end(), [](const CursorSlot& slot) {
      return slot.phase == CursorSlot::Phase::kDrained;
    });
  }
  if (run.failing) outcome = "failed";
  else if (complete) outcome = "completed";
  else if (state_->draining && !run.final) outcome = "cancelled";
  else return {};

  NOETL_ASSIGN(Json data, LoopData(step, run));
  const std::string_view status = outcome == "completed" ? "COMPLETED"
                                  : outcome == "failed"  ? "FAILED"
                                                         : "CANCELLED";
  Ending ending{
      .step = &step, .run = run.number, .outcome = outcome, .final = run.final, .error = run.error};
  if (outcome == "completed" && (run.kind == Run::Kind::kCursor || run.expected == 0)) {
    Event exit = NewEvent(EventType::kStepExit, step.name, "COMPLETED");
    Json context = run.kind == Run::Kind::kCursor
                       ? Json::Object({{"__cursor_drained", true}, {"data", data}})
                       : Json::Object({{"data", data}});
    exit.result = Json::Object({{"status", "COMPLETED"}, {"context", std::move(context)}});
    ending.before.push_back(std::move(exit));
  }
  ending.event = NewEvent(EventType::kLoopDone, step.name, status);
  ending.event.node_type = step.tool_kind;
  ending.event.error = run.error;
  ending.event.meta = ending.event.meta.With("loop_id", fmt::format("{}#{}", step.name, run.number))
                          .With("total", run.expected);
  ending.event.result =
      Json::Object({{"status", status}, {"context", Json::Object({{"data", data}})}});
  auto result = std::make_shared<StepResult>();
  result->shape =
      run.kind == Run::Kind::kCursor ? StepResult::Shape::kCursor : StepResult::Shape::kLoop;
  result->tool_kind = step.tool_kind;
  result->data = std::move(data);
  result->failed = outcome == "failed";
  result->error = run.error;
  result->error_info = run.error_info;
  result->meta = Json::Object({{"attempt", 1}, {"run", run.number}});
  ending.result = std::move(result);
  return FinishRun(std::move(ending));
}

// {results, stats, count}; the list is inline when all of it fits the budget, else a reference to
// rows.
Result<Json> Decider::LoopData(const Step& step, const Run& run) const {
  const bool cursor = run.kind == Run::Kind::kCursor;
  const std::int64_t total = cursor ? run.succeeded + run.failed : run.expected;
  const Json stats =
      Json::Object({{"total", total}, {"success", run.succeeded}, {"failed", run.failed}});
  Json results;
  if (!cursor || step.loop->retain_results) {
    const std::string ref = LoopRef(state_->execution_id, step.name, run.number);
    if (total == 0) {
      results = Json::Array();
    } else if (run.result_bytes + total > state_->semantics.inline_bytes) {
      results = Json::Object({{"_ref", ref}, {"_count", total}, {"_first", run.first_result}});
    } else {
      NOETL_ASSIGN(const Json* rows, bodies_->Find(ref));
      if (!rows) return Fail("needs_reference", ref);
      std::vector<Json> list(rows->items().begin(), rows->items().end());
      list.resize(static_cast<std::size_t>(total));
      results = Json::Array(std::move(list));
    }
  }
  JsonObjectBuilder data;
  if (cursor)
    data.Add("cursor", "drained")
        .Add("frames", std::max<std::int64_t>(run.next_frame - std::ssize(run.slots), 0));
  data.AddSome("results", std::move(results)).Add("stats", stats).Add("count", total);
  return data.Build();
}

}  // namespace noetl::engine
