#include "engine/pipeline.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/pipeline_plan.h"
#include "engine/pipeline_retry.h"
#include "engine/render.h"
#include "engine/result_parts.h"

namespace noetl::engine {
namespace {

using expr::Value;
using playbook::Assignment;

// Enough to see what went on; a pipeline that pages for hours must not grow its report.
constexpr std::size_t kTaskMetricsMax = 100;
constexpr std::size_t kWarningsMax = 100;

bool NeedsBody(const Error& error) { return error.code == kNeedsReference; }

// Everything a pipeline remembers between tasks. Copies are cheap, so a phase works on a copy and
// commits it at its end: a phase that must wait for a stored body leaves no trace.
struct Memory {
  Json results = Json::Object();   // label to latest payload
  std::vector<std::string> order;  // labels, latest execution last
  std::string previous;            // label behind `_prev`
  Json iter = Json::Object();
  Json step = Json::Object();
  Json locals = Json::Object();
  Json ctx;
  std::set<std::string, std::less<>> ctx_written;  // top-level keys
  std::vector<std::string> warnings;

  void Warn(std::string text) {
    if (warnings.size() < kWarningsMax) warnings.push_back(std::move(text));
  }
};

// The run of one task, from rendering to its policy.
struct TaskRun {
  Json input = Json::Object();
  Json retry;
  int attempt = 1;    // as policies count
  int tool_runs = 0;  // as the tool's own retry counts
};

// `results`: label to payload view.
class ResultsView : public expr::View {
 public:
  ResultsView(Json results, std::shared_ptr<const PipelinePlan> plan)
      : results_(std::move(results)), plan_(std::move(plan)) {}

  Result<Value> Get(std::string_view key) const override {
    const Json* payload = results_.Find(key);
    const auto task = plan_->Find(key);
    return payload && task ? PayloadView(*payload, plan_->tasks[*task].kind) : Value();
  }
  Result<Json> Whole() const override { return results_; }
  bool Truthy() const override { return !results_.empty(); }

 private:
  Json results_;
  std::shared_ptr<const PipelinePlan> plan_;
};

Json ErrorOf(std::string_view kind, std::string_view text) {
  return ErrorObject(text, Json::Object({{"kind", kind}, {"retryable", false}}));
}

// A template that failed is a task error like any other.
ToolOutcome TemplateFailure(const Error& error) {
  const bool gone = error.code == "REFERENCE_NOT_AVAILABLE";
  const std::string text = gone ? error.message : "Template error: " + error.message;
  return {.ok = false,
          .error = text,
          .error_info =
              ErrorObject(text, Json::Object({{"kind", gone ? "missing_reference" : "template"},
                                              {"code", error.code}}))};
}

// What templates see of a payload: an error that carries none is shown as {"error": text}.
Json VisiblePayload(const ToolOutcome& outcome) {
  if (outcome.ok || outcome.payload.is_object()) return outcome.payload;
  return Json::Object({{"error", outcome.error}});
}

}  // namespace

struct Pipeline::Impl {
  enum class State { kReady, kRunning, kEnded, kDone };

  // Shared with views that stay bound when a command is given up half way.
  std::shared_ptr<const PipelinePlan> plan;
  Options options;
  Scope* scope = nullptr;
  std::size_t mark = 0;
  Json base_input = Json::Object();

  State state = State::kReady;
  std::size_t pc = 0;
  std::int64_t task_runs = 0;
  std::int64_t sleep_ms = 0;
  Memory memory;
  TaskRun run;
  RunTool action;
  bool again = false;  // the tool's own retry: the action as it was
  ToolOutcome outcome;
  Json last_payload;
  std::vector<Json> metrics;
  Finished finished;

  const PlannedTask& task() const { return plan->tasks[pc]; }

  void TakeNamesFromScope();
  void BindTask(const Memory& now);
  void BindOutput(const ToolOutcome& ended);
  Status Start();
  Result<RunTool> Render();
  Status End();
  Result<bool> Assign(const std::vector<Assignment>& set, Memory* next, std::string* failure);
  Result<Json> Root(const Assignment& assignment, const Memory& next) const;
  Result<const PolicyRule*> Match(Memory* next, bool* all_failed);
  Result<Json> Settings(const PolicyRule& rule, Memory* next);
  Status Decide(Memory next, const Json& error);
  void Apply(const PolicyRule& rule, const Json& settings, const Json& error);
  void GoTo(std::size_t target);
  void Retry(const Json& settings, const Json& error);
  void Succeed();
  void FailWith(const Json& error);
  void Finish(bool ok);
  void Record();
};

// The iteration's scratch and the step's bound variables are what the scope has when we begin.
void Pipeline::Impl::TakeNamesFromScope() {
  mark = scope->Mark();
  memory.ctx = scope->ctx();
  const auto read = [&](std::string_view name) {
    const Result<Value> value = scope->Lookup(name);
    return value && value->is_json() && value->json().is_object() ? value->json() : Json::Object();
  };
  memory.iter = read("iter");
  // The names of an iteration are always among a tool's variables; the counters under `_` only.
  Json::Members names;
  for (const JsonMember& member : memory.iter.members()) {
    const std::string_view name = member.key();
    const bool counter = name == "index" || name == "total" || name == "_first" || name == "_last";
    if (!counter) names.emplace_back(member.key_json(), member.value);
  }
  base_input = Json::Object(std::move(names)).Merge(read("input"));
}

void Pipeline::Impl::BindTask(const Memory& now) {
  scope->Rewind(mark);
  scope->SetCtx(now.ctx);
  for (const std::string& label : now.order) {
    scope->Bind(label, PayloadView(now.results[label], plan->tasks[*plan->Find(label)].kind));
  }
  scope->Bind(
      "results",
      Value(std::shared_ptr<const expr::View>(std::make_shared<ResultsView>(now.results, plan))));
  scope->Bind("_prev", now.previous.empty()
                           ? Value(Json())
                           : PayloadView(now.results[now.previous],
                                         plan->tasks[*plan->Find(now.previous)].kind));
  scope->Bind("_task", Value(Json(task().label)));
  scope->Bind("_attempt", Value(Json(run.attempt)));
  scope->Bind("iter", Value(now.iter));
  scope->Bind("step", NamedStep(options.step, now.step));
  scope->BindAll(now.locals);
  scope->BindAll(run.input);
  const Json input = base_input.Merge(run.input);
  scope->Bind("input", Value(input));
  scope->Bind("args", Value(input));
}

void Pipeline::Impl::BindOutput(const ToolOutcome& ended) {
  const Json error = ended.ok ? Json() : ErrorObject(ended.error, ended.error_info);
  const Value output = TaskOutputView({.ok = ended.ok,
                                       .payload = VisiblePayload(ended),
                                       .tool_kind = task().kind,
                                       .error = error,
                                       .meta = Json::Object({{"attempt", run.attempt},
                                                             {"duration_ms", ended.duration_ms},
                                                             {"ts", ended.finished_at}}),
                                       .extra = ended.extra});
  scope->Bind("output", output);
  scope->Bind("outcome", output);
  scope->Bind("error", ended.ok ? Value() : Value(error));
}

// Renders the current task and asks for its tool; a task that does not render has ended already.
Status Pipeline::Impl::Start() {
  if (pc >= plan->tasks.size()) {
    Succeed();
    return {};
  }
  if (task_runs >= options.task_runs_max) {
    FailWith(ErrorOf("max_iterations_exceeded",
                     fmt::format("max_iterations_exceeded: more than {} task runs in step '{}'",
                                 options.task_runs_max, options.step)));
    return {};
  }
  if (!again) {
    Result<RunTool> rendered = Render();
    if (!rendered && NeedsBody(rendered.error())) return std::unexpected(rendered.error());
    if (!rendered) {
      ++task_runs;
      outcome = TemplateFailure(rendered.error());
      state = State::kEnded;
      return {};
    }
    action = *std::move(rendered);
  }
  again = false;
  ++task_runs;
  ++run.tool_runs;
  state = State::kRunning;
  return {};
}

Result<Pipeline::RunTool> Pipeline::Impl::Render() {
  const PlannedTask& planned = task();
  run.input = Json::Object();
  run.retry = Json();
  BindTask(memory);
  NOETL_ASSIGN(const Json input, RenderField("input", planned.input, *scope, options.profile,
                                             expr::Output::kStructured));
  if (input.is_object()) run.input = input;
  BindTask(memory);
  JsonObjectBuilder config;
  for (const playbook::Task::Field& field : planned.fields) {
    NOETL_ASSIGN(Json value,
                 RenderField(field.name, field.value, *scope, options.profile, field.output));
    config.Add(field.name, std::move(value));
  }
  NOETL_ASSIGN(const Json retry, planned.retry.Render(*scope, expr::Output::kText));
  NOETL_ASSIGN(const Json timeout, planned.timeout.Render(*scope, expr::Output::kText));
  run.retry = retry;
  std::optional<std::int64_t> timeout_ms = TimeoutMs(timeout);
  return RunTool{.label = planned.label,
                 .kind = planned.kind,
                 .config = config.Build(),
                 .input = base_input.Merge(run.input),
                 .attempt = run.attempt,
                 .timeout_ms = timeout_ms ? timeout_ms : options.timeout_ms,
                 .output = planned.output,
                 .spec = planned.spec};
}

// What follows the end of a task's tool: results, the task's `set`, its policy. Nothing changes
// before the last template has been evaluated.
Status Pipeline::Impl::End() {
  Memory next = memory;
  const Json error = outcome.ok ? Json() : ErrorObject(outcome.error, outcome.error_info);
  if (outcome.ok) {
    next.results = next.results.With(task().label, outcome.payload);
    std::erase(next.order, task().label);
    next.order.push_back(task().label);
    next.previous = task().label;
  }
  BindTask(next);
  scope->Bind("output", PayloadView(VisiblePayload(outcome), task().kind));
  std::string failure;
  NOETL_ASSIGN(const bool assigned, Assign(task().set, &next, &failure));
  if (!assigned) {
    Record();
    memory = std::move(next);
    FailWith(ErrorOf("template", failure));
    return {};
  }
  return Decide(std::move(next), error);
}

Status Pipeline::Impl::Decide(Memory next, const Json& error) {
  BindTask(next);
  BindOutput(outcome);
  bool all_failed = false;
  NOETL_ASSIGN(const PolicyRule* rule, Match(&next, &all_failed));
  Json settings;
  std::string failure;
  bool assigned = true;
  if (rule != nullptr) {
    NOETL_ASSIGN(settings, Settings(*rule, &next));
    NOETL_ASSIGN(assigned, Assign(rule->set, &next, &failure));
  }

  Record();
  memory = std::move(next);
  last_payload = VisiblePayload(outcome);
  if (!assigned) {
    FailWith(ErrorOf("template", failure));
  } else if (rule != nullptr) {
    Apply(*rule, settings, error);
  } else if (all_failed) {
    FailWith(error.is_null()
                 ? ErrorOf("template", fmt::format("no policy rule of task '{}' could be evaluated",
                                                   task().label))
                 : error);
  } else if (outcome.ok || task().continue_unmatched) {
    GoTo(pc + 1);
  } else {
    FailWith(error);
  }
  return {};
}

// The map that an assignment writes into, with a stored context value in place of its reference.
Result<Json> Pipeline::Impl::Root(const Assignment& assignment, const Memory& next) const {
  switch (assignment.scope) {
    case Assignment::Scope::kIter: return next.iter;
    case Assignment::Scope::kStep: return next.step;
    case Assignment::Scope::kLocal: return next.locals;
    case Assignment::Scope::kCtx: break;
  }
  const std::string& key = assignment.path[0];
  const std::string_view ref =
      assignment.path.size() > 1 ? ReferenceOf(next.ctx[key]) : std::string_view();
  if (ref.empty()) return next.ctx;
  NOETL_ASSIGN(const Json* body, LoadBody(scope->sources().bodies, ref));
  return next.ctx.With(key, *body);
}

// All values first, then the writes in document order. False: the pipeline fails with `failure`.
Result<bool> Pipeline::Impl::Assign(const std::vector<Assignment>& set, Memory* next,
                                    std::string* failure) {
  std::vector<std::optional<Json>> values;
  for (const Assignment& assignment : set) {
    Result<Json> value = assignment.value.Render(*scope, expr::Output::kStructured);
    if (!value && NeedsBody(value.error())) return std::unexpected(value.error());
    if (!value) {
      *failure = fmt::format("task '{}': set '{}': {}", task().label, assignment.target,
                             value.error().message);
      if (options.profile == playbook::Profile::kStrict) return false;
      next->Warn(fmt::format("W281 {}; the value stays as it was", *failure));
      values.emplace_back(std::nullopt);
      continue;
    }
    values.emplace_back(*std::move(value));
  }
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!values[i]) continue;
    NOETL_ASSIGN(const Json root, Root(set[i], *next));
    Json written = SetPath(root, set[i].path, *std::move(values[i]));
    switch (set[i].scope) {
      case Assignment::Scope::kIter: next->iter = std::move(written); break;
      case Assignment::Scope::kStep: next->step = std::move(written); break;
      case Assignment::Scope::kLocal: next->locals = std::move(written); break;
      case Assignment::Scope::kCtx:
        next->ctx = std::move(written);
        next->ctx_written.insert(set[i].path[0]);
        break;
    }
  }
  return true;
}

// The first rule that holds, or nullptr. A rule that cannot be evaluated does not hold.
Result<const PolicyRule*> Pipeline::Impl::Match(Memory* next, bool* all_failed) {
  const std::vector<PolicyRule>& rules = task().rules;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Result<bool> holds = rules[i].when.Evaluate(*scope);
    if (holds && *holds) return &rules[i];
    if (holds) continue;
    if (NeedsBody(holds.error())) return std::unexpected(holds.error());
    ++failed;
    next->Warn(fmt::format("task '{}': policy rule {} does not match, its 'when' failed: {}",
                           task().label, i, holds.error().message));
  }
  *all_failed = failed > 0 && failed == rules.size();
  return nullptr;
}

// The rendered numbers and texts of a rule. One that cannot be rendered counts as not given.
Result<Json> Pipeline::Impl::Settings(const PolicyRule& rule, Memory* next) {
  Result<Json> settings = rule.settings.Render(*scope, expr::Output::kText);
  if (settings) return settings;
  if (NeedsBody(settings.error())) return settings;
  next->Warn(fmt::format("task '{}': policy settings ignored: {}", task().label,
                         settings.error().message));
  return Json::Object();
}

void Pipeline::Impl::Apply(const PolicyRule& rule, const Json& settings, const Json& error) {
  switch (rule.action) {
    case PolicyRule::Do::kContinue: return GoTo(pc + 1);
    case PolicyRule::Do::kBreak: return Succeed();
    case PolicyRule::Do::kRetry: return Retry(settings, error);
    case PolicyRule::Do::kJump: return GoTo(IsPrevious(rule.to) ? pc - 1 : *plan->Find(rule.to));
    case PolicyRule::Do::kFail: break;
  }
  if (!error.is_null()) return FailWith(error);
  const Json& message = settings["message"];
  FailWith(ErrorOf("policy_failed", message.is_null() || message.AsString().empty()
                                        ? fmt::format("policy rule failed task '{}'", task().label)
                                        : expr::TextForm(message)));
}

void Pipeline::Impl::GoTo(std::size_t target) {
  pc = target;
  run = TaskRun();
  state = State::kReady;
}

void Pipeline::Impl::Retry(const Json& settings, const Json& error) {
  const std::int64_t runs_max = WholeNumber(settings["attempts"]).value_or(kRetryRunsDefault);
  if (run.attempt >= runs_max) {
    FailWith(error.is_null() ? ErrorOf("retry_exhausted",
                                       fmt::format("task '{}' exceeded its retry attempts ({})",
                                                   task().label, runs_max))
                             : error);
    return;
  }
  sleep_ms = PolicyDelayMs(settings, run.attempt, error);
  run = TaskRun{.attempt = run.attempt + 1};
  state = State::kReady;
}

void Pipeline::Impl::Succeed() {
  if (options.single) {
    finished.data = last_payload;
  } else {
    finished.data = memory.results;
    std::vector<Json> order(memory.order.begin(), memory.order.end());
    finished.order = Json::Array(std::move(order));
  }
  Finish(true);
}

void Pipeline::Impl::FailWith(const Json& error) {
  const std::string& label = plan->tasks[std::min(pc, plan->tasks.size() - 1)].label;
  finished.data = memory.results.With("failed_task", label);
  finished.error = error["message"].ToString();
  finished.error_info = error;
  Finish(false);
}

void Pipeline::Impl::Finish(bool ok) {
  finished.ok = ok;
  JsonObjectBuilder updates;
  for (const std::string& key : memory.ctx_written) updates.Add("ctx." + key, memory.ctx[key]);
  finished.ctx_updates = updates.Build();
  finished.tasks = Json::Array(std::move(metrics));
  finished.warnings = std::move(memory.warnings);
  scope->Rewind(mark);
  scope->SetCtx(memory.ctx);
  state = State::kDone;
}

void Pipeline::Impl::Record() {
  if (metrics.size() >= kTaskMetricsMax) return;
  metrics.push_back(Json::Object({{"name", task().label},
                                  {"attempt", run.attempt},
                                  {"status", outcome.ok ? "ok" : "error"},
                                  {"duration_ms", outcome.duration_ms}}));
}

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;
Pipeline::~Pipeline() = default;

Result<Pipeline> Pipeline::Create(const Json& config, Options options, Scope* scope) {
  auto impl = std::make_unique<Impl>();
  NOETL_ASSIGN(PipelinePlan plan, PlanPipeline(config, options.profile));
  impl->plan = std::make_shared<const PipelinePlan>(std::move(plan));
  if (options.single && impl->plan->tasks.size() != 1) {
    return Fail("E231", "a single tool is a pipeline of exactly one task");
  }
  impl->options = std::move(options);
  impl->scope = scope;
  impl->memory.warnings = impl->plan->warnings;
  impl->TakeNamesFromScope();
  return Pipeline(std::move(impl));
}

Result<Pipeline::Action> Pipeline::Next() {
  Impl& impl = *impl_;
  NOETL_CHECK(impl.state != Impl::State::kRunning, "Report was not called after RunTool");
  while (true) {
    switch (impl.state) {
      case Impl::State::kReady:
        if (impl.sleep_ms > 0) return Action(Sleep{std::exchange(impl.sleep_ms, 0)});
        NOETL_TRY(impl.Start());
        break;
      case Impl::State::kRunning: return Action(impl.action);
      case Impl::State::kEnded: NOETL_TRY(impl.End()); break;
      case Impl::State::kDone: return Action(impl.finished);
    }
  }
}

Status Pipeline::Report(const ToolOutcome& outcome) {
  Impl& impl = *impl_;
  NOETL_CHECK(impl.state == Impl::State::kRunning, "Report without a RunTool");
  impl.outcome = outcome;
  if (!outcome.ok) {
    const RetryDecision retry =
        DecideToolRetry(impl.run.retry, impl.run.tool_runs, outcome.error_info);
    if (retry.again) {
      impl.Record();
      impl.again = true;
      impl.sleep_ms = retry.delay_ms;
      impl.state = Impl::State::kReady;
      return {};
    }
  }
  return impl.End();
}

}  // namespace noetl::engine
