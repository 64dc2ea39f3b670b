// Entering a step: guard, admission, and the collection of a loop.

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "engine/decide_internal.h"

namespace noetl::engine {

namespace {

// Items of a text collection: a JSON list, else its parts between commas and line breaks.
std::vector<Json> SplitItems(std::string_view text) {
  std::vector<Json> items;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(",\n", at), text.size());
    const std::string_view part = Trim(text.substr(at, end - at));
    if (!part.empty()) items.emplace_back(part);
    at = end + 1;
  }
  return items;
}

// Playbook-language 2.6: list, map, number or text to a list. An integer stays one: it stands for
// 0..n-1. nullopt: not iterable.
std::optional<Json> ToItems(const Json& value) {
  if (value.is_array()) return value;
  if (value.is_int() && value.AsInt() >= 0) return value;
  if (value.is_object()) {
    std::vector<Json> pairs;
    for (const JsonMember& member : value.members()) {
      pairs.push_back(Json::Object({{"key", member.key_json()}, {"value", member.value}}));
    }
    return Json::Array(std::move(pairs));
  }
  if (!value.is_string()) return std::nullopt;
  const std::string_view text = Trim(value.AsString());
  if (text.starts_with('[')) {
    if (Result<Json> parsed = ParseJson(text); parsed && parsed->is_array()) return *parsed;
  }
  return Json::Array(SplitItems(text));
}

}  // namespace

Status Decider::EnterStep(const Step& step, bool final) {
  const StepState* known = state_->Find(step.name);
  const std::int64_t run = (known ? known->runs : 0) + 1;
  if (run > state_->semantics.max_step_runs) {
    FailRun("max_step_runs",
            fmt::format("step '{}' re-entered {} times; add an exit condition to the cycle {}",
                        step.name, state_->semantics.max_step_runs, CycleOf(step)));
    return {};
  }
  Json args;
  if (known) {
    for (const Token& token : known->tokens) {
      if (token.args.is_object()) args = args.Merge(token.args);
    }
  }
  Scope scope = MakeScope(state_->ctx, *steps_);
  scope.BindAll(args);
  if (final) scope.Bind("summary", Summary());

  Ending ending{.step = &step, .run = run, .final = final};
  Result<bool> guard = step.when.Evaluate(scope);
  Result<bool> admitted = guard && *guard ? Admitted(step, scope) : Result<bool>(true);
  for (const auto& [condition, where] :
       {std::pair{&guard, "when"}, {&admitted, "spec.policy.admit"}}) {
    if (*condition) continue;
    if (NeedsReference(condition->error())) return std::unexpected(condition->error());
    FailRun("evaluate_error",
            fmt::format("step '{}': {}: {}", step.name, where, condition->error().message));
    return {};
  }
  if (!*guard || !*admitted) {
    ending.outcome = *guard ? "denied" : "skipped";
    ending.event = NewEvent(EventType::kStepSkipped, step.name, "SKIPPED");
    ending.event.meta = ending.event.meta.With("reason", *guard ? "admission_denied" : "guard");
    if (final) ending.event.meta = ending.event.meta.With("final", true);
    return FinishRun(std::move(ending));
  }

  Event enter = NewEvent(EventType::kStepEnter, step.name, "ENTERED");
  enter.node_type = step.tool_kind;
  JsonObjectBuilder context;
  context.Add("run", run).AddSome("args", args);
  enter.result = Json::Object({{"status", "ENTERED"}, {"context", context.Build()}});
  if (final) enter.meta = enter.meta.With("final", true);
  if (step.deadline_ms) {
    enter.meta = enter.meta.With("deadline_us", world_.now_us + *step.deadline_ms * 1'000);
  }
  if (step.loop) {
    NOETL_TRY(EnterLoop(step, scope, std::move(enter), run));
  } else {
    Emit(std::move(enter));
  }
  const StepState* entered = state_->Find(step.name);
  if (step.deadline_ms && entered->open) {
    unit_.timers.push_back({.kind = Timer::Kind::kStepDeadline,
                            .step = step.name,
                            .run = run,
                            .due_us = entered->open->deadline_us});
  }
  return {};
}

Result<bool> Decider::Admitted(const Step& step, const Scope& scope) const {
  if (!step.has_admit || step.admit.empty()) return true;
  for (const playbook::AdmitRule& rule : step.admit) {
    NOETL_ASSIGN(const bool matches, rule.when.Evaluate(scope));
    if (matches) return rule.allow;
  }
  return false;
}

// The collection is evaluated once and pinned in step.enter; a large one as a stored body.
Status Decider::EnterLoop(const Step& step, const Scope& scope, Event enter, std::int64_t run) {
  const bool cursor = step.loop->mode == playbook::Loop::Mode::kCursor;
  Result<std::int64_t> budget = Budget(step, scope);
  Result<Json> items = cursor ? Result<Json>(Json::Array()) : Collection(step, scope);
  for (const Error* error :
       {budget ? nullptr : &budget.error(), items ? nullptr : &items.error()}) {
    if (!error) continue;
    if (NeedsReference(*error)) return std::unexpected(*error);
    return FailUnissued(step, run, {std::move(enter)}, *error);
  }
  Json context = enter.result["context"].With("max_in_flight", *budget);
  if (cursor) {
    context = context.With("__cursor_loop", true);
  } else {
    const bool range = items->is_int();
    context = context.With("iterations_expected", range ? *items : Json(items->size()))
                  .With("iterator_var", step.loop->iterator);
    if (range) context = context.With("items_range", true);
    else if (JsonSize(*items) <= kInlineItemsBytes) context = context.With("items", *items);
    else
      context =
          context.With("items_ref", StoreBody(fmt::format("loop.{}.{}", step.name, run), *items));
  }
  enter.meta = enter.meta.With("loop_id", fmt::format("{}#{}", step.name, run));
  enter.result = enter.result.With("context", std::move(context));
  Emit(std::move(enter));
  return {};
}

Result<Json> Decider::Collection(const Step& step, const Scope& scope) const {
  Result<Json> value = step.loop->in.Render(scope, expr::Output::kStructured);
  if (!value) {
    if (NeedsReference(value.error())) return value;
    return Fail(value.error().code,
                fmt::format("loop step '{}': loop.in {}", step.name, value.error().message));
  }
  if (std::optional<Json> items = ToItems(*value)) return *std::move(items);
  return Fail("E412",
              fmt::format("loop step '{}': loop.in '{}' did not evaluate to an iterable (got {})",
                          step.name, step.loop->in_source, value->TypeName()));
}

Result<std::int64_t> Decider::Budget(const Step& step, const Scope& scope) const {
  const playbook::Loop& loop = *step.loop;
  NOETL_ASSIGN(Json value, loop.max_in_flight.Render(scope, expr::Output::kText));
  if (loop.mode == playbook::Loop::Mode::kSequential) return 1;
  if (value.is_null())
    return loop.mode == playbook::Loop::Mode::kParallel ? playbook::kParallelInFlightDefault : 1;
  if (value.is_string()) {
    if (Result<Json> parsed = ParseJson(value.AsString()); parsed && parsed->is_int())
      value = *parsed;
  }
  if (!value.is_int() || value.AsInt() < 1 || value.AsInt() > kInFlightMax) {
    return Fail(
        "E265",
        fmt::format(
            "loop step '{}': loop.spec.max_in_flight must be a whole number from 1 to {}, got {}",
            step.name, kInFlightMax, WriteJson(value)));
  }
  return value.AsInt();
}

// `summary` for final_step.
Json Decider::Summary() const {
  static constexpr std::string_view kStates[] = {"pending", "completed", "failed",
                                                 "skipped", "denied",    "cancelled"};
  JsonObjectBuilder steps;
  for (const Step& step : playbook_.steps) {
    const StepState* known = state_->Find(step.name);
    const auto outcome = known ? known->outcome : StepState::Outcome::kNone;
    steps.Add(step.name, kStates[static_cast<std::size_t>(outcome)]);
  }
  return Json::Object(
      {{"status", state_->failed_steps.empty() ? "COMPLETED" : "FAILED"},
       {"failed_steps", Json::Array({state_->failed_steps.begin(), state_->failed_steps.end()})},
       {"steps", steps.Build()}});
}

// The shortest way from the step back to itself, for messages: "a -> b -> a".
std::string Decider::CycleOf(const Step& step) const {
  std::vector<int> from(playbook_.steps.size(), -1);
  std::deque<int> queue = {step.index};
  while (!queue.empty()) {
    const int at = queue.front();
    queue.pop_front();
    for (const playbook::Arc& arc : StepAt(at).arcs) {
      if (arc.target_index == step.index) {
        std::string path = step.name;
        for (int back = at; back != step.index; back = from[static_cast<std::size_t>(back)]) {
          path = fmt::format("{} -> {}", StepAt(back).name, path);
        }
        return fmt::format("{} -> {}", step.name, path);
      }
      if (arc.target_index < 0 || from[static_cast<std::size_t>(arc.target_index)] >= 0) continue;
      from[static_cast<std::size_t>(arc.target_index)] = at;
      queue.push_back(arc.target_index);
    }
  }
  return step.name;
}

}  // namespace noetl::engine
