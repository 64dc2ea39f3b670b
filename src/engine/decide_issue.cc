// Making commands: what a worker gets to do, and what the server does itself.

#include <fmt/format.h>

#include "base/json_io.h"

#include <algorithm>
#include "base/time.h"
#include "engine/command.h"
#include "engine/decide_internal.h"
#include "engine/render.h"

namespace noetl::engine {

namespace {

constexpr std::string_view kKindNames[] = {"single", "iter", "claim", "body"};

std::string_view NameOf(Command::Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

bool IsServerRun(const playbook::Step& step, Command::Kind kind) {
  return kind != Command::Kind::kClaim && !step.pipeline && step.tool_kind == "playbook";
}

bool WaitsForChild(const Json& config) {
  return config["wait"].AsBool() || config["return_result"].AsBool() ||
         config["return_step"].is_string() || config["result_step"].is_string();
}

}  // namespace

// Makes at most one command for an open run that may have more. `issued` says that something was
// written.
Status Decider::IssueFor(const Step& step, bool* issued) {
  const Run& run = OpenRun(step.name);
  if (state_->draining && !run.final) return {};
  if (run.kind == Run::Kind::kCursor) return IssueForCursor(step, issued);
  if (run.kind == Run::Kind::kPlain) {
    if (run.in_flight > 0) return {};
    *issued = true;
    return IssueCommand({.step = &step, .run = run.number, .args = run.args});
  }
  if (run.failing || run.in_flight >= run.budget || run.next_index >= run.expected) return {};
  if (unit_.events.size() >= kUnitEventsMax) {
    unit_.more = true;
    return {};
  }
  *issued = true;
  return IssueIteration(step, run, run.next_index);
}

Status Decider::IssueIteration(const Step& step, const Run& run, std::int64_t index) {
  NOETL_ASSIGN(Json item, ItemOf(run, index));
  Json names = Json::Object({{"iterator", step.loop->iterator},
                             {"item", std::move(item)},
                             {"index", index},
                             {"total", run.expected}});
  return IssueCommand({.step = &step,
                       .run = run.number,
                       .kind = Command::Kind::kIteration,
                       .index = index,
                       .total = run.expected,
                       .names = std::move(names),
                       .args = run.args});
}

Result<Json> Decider::ItemOf(const Run& run, std::int64_t index) const {
  if (run.range) return Json(index);
  if (const Json& ref = run.items["_ref"]; ref.is_string()) {
    NOETL_ASSIGN(const Json* body, bodies_->Find(ref.AsString()));
    if (!body) return Fail("needs_reference", ref.ToString());
    return body->At(static_cast<std::size_t>(index));
  }
  return run.items.At(static_cast<std::size_t>(index));
}

Status Decider::IssueForCursor(const Step& step, bool* issued) {
  const Run& run = OpenRun(step.name);
  if (run.failing) return {};
  const playbook::Loop::Frame& frame = step.loop->frame;
  for (std::int64_t i = 0; i < std::ssize(run.slots); ++i) {
    const CursorSlot& slot = run.slots[static_cast<std::size_t>(i)];
    const std::int64_t rows =
        frame.whole_frame ? std::min<std::int64_t>(slot.row_count, 1) : slot.row_count;
    const bool has_rows = slot.phase == CursorSlot::Phase::kRows;
    if (has_rows && slot.next_row < rows) {
      if (slot.in_flight >= frame.row_concurrency) continue;
      *issued = true;
      return IssueCursorRow(step, run, i);
    }
    const bool frame_done = has_rows && slot.in_flight == 0;
    if (slot.phase != CursorSlot::Phase::kIdle && !frame_done) continue;
    *issued = true;
    return IssueCommand({.step = &step,
                         .run = run.number,
                         .kind = Command::Kind::kClaim,
                         .slot = i,
                         .frame = run.next_frame,
                         .args = run.args});
  }
  return {};
}

Status Decider::IssueCursorRow(const Step& step, const Run& run, std::int64_t slot_index) {
  const CursorSlot& slot = run.slots[static_cast<std::size_t>(slot_index)];
  Json rows = slot.rows;
  if (const Json& ref = slot.rows["_ref"]; ref.is_string()) {
    NOETL_ASSIGN(const Json* body, bodies_->Find(ref.AsString()));
    if (!body) return Fail("needs_reference", ref.ToString());
    rows = (*body)["rows"];
  }
  const bool whole = step.loop->frame.whole_frame;
  JsonObjectBuilder names;
  names.Add("iterator", step.loop->iterator)
      .Add("item", whole ? rows : rows.At(static_cast<std::size_t>(slot.next_row)))
      .Add("index", slot.next_row)
      .Add("total", whole ? std::int64_t{1} : slot.row_count);
  if (whole) names.Add("frame", true);
  return IssueCommand({.step = &step,
                       .run = run.number,
                       .kind = Command::Kind::kBody,
                       .index = slot.next_row,
                       .total = slot.row_count,
                       .slot = slot_index,
                       .frame = slot.frame,
                       .names = names.Build(),
                       .args = run.args});
}

Status Decider::IssueCommand(CommandSpec spec) {
  Result<Json> context = BuildContext(spec);
  if (context) {
    EmitCommand(spec, *std::move(context));
    return {};
  }
  if (NeedsReference(context.error())) return std::unexpected(context.error());
  const Error error{context.error().code,
                    fmt::format("step '{}': {}", spec.step->name, context.error().message)};
  if (spec.kind == Command::Kind::kSingle) return FailUnissued(*spec.step, spec.run, {}, error);
  // An iteration that cannot be rendered is a failed iteration; a claim fails the loop.
  Event event = NewEvent(EventType::kCommandFailed, spec.step->name, "FAILED");
  event.error = error.message;
  event.result =
      Json::Object({{"status", "FAILED"}, {"context", Json::Object({{"error", error.message}})}});
  const bool soft =
      spec.kind != Command::Kind::kClaim &&
      (spec.step->loop->continue_on_error || spec.step->on_error == playbook::OnError::kContinue);
  const Json payload = Json::Object({{"error", error.message}});
  event.meta = event.meta.With("run", spec.run)
                   .With("reason", "evaluate_error")
                   .With("outcome", soft ? "soft" : "failed")
                   .With("result_bytes", JsonSize(payload));
  if (spec.kind == Command::Kind::kIteration) {
    event.meta = event.meta.With("iteration_index", spec.index);
    unit_.loop_rows.push_back({spec.step->name, spec.run, spec.index, payload});
  } else {
    event.meta = event.meta.With(
        "cursor",
        Json::Object({{"slot", spec.slot}, {"row", spec.index}, {"phase", NameOf(spec.kind)}}));
  }
  Emit(std::move(event));
  return {};
}

// ---- the context of a command

Result<Json> Decider::BuildContext(const CommandSpec& spec) const {
  const Step& step = *spec.step;
  Scope scope = MakeScope(state_->ctx, *steps_);
  if (OpenRun(step.name).final) scope.Bind("summary", Summary());
  scope.Bind("step", Json(step.name));
  scope.Bind("_task", Json(step.tasks[0].name));
  scope.Bind("_attempt", Json(std::int64_t{1}));
  const std::string key = IdempotencyKeyOf(spec);
  scope.Bind("fence", Json(spec.attempt));
  scope.Bind("idempotency_key", Json(key));
  scope.SetNow(FormatTime(world_.now_us));
  if (spec.kind == Command::Kind::kClaim) {
    scope.BindAll(spec.args);
    NOETL_ASSIGN(Json config, ClaimConfig(spec, scope));
    return Json::Object({{"tool_config", std::move(config)}, {"args", Json::Object()}});
  }
  // Step input sees loop variables and arc args; afterwards those names stand above it again.
  const Json names = NamesOfIteration(spec.names);
  const std::size_t mark = scope.Mark();
  scope.BindAll(spec.args);
  scope.BindAll(names);
  Result<Json> input =
      step.input.Render(scope, expr::Output::kStructured,
                        [this](const expr::Template& leaf) { return Defers(leaf); });
  if (!input) {
    if (NeedsReference(input.error())) return input;
    return Fail(input.error().code, fmt::format("input.{}", input.error().message));
  }
  scope.Rewind(mark);
  const Json args = (input->is_object() ? *input : Json::Object()).Merge(spec.args);
  scope.BindAll(args);
  scope.BindAll(names);

  Json config = step.pipeline_config;
  if (!step.pipeline) {
    Json bound = Json::Object();
    if (step.loop) {
      for (std::string_view name : {std::string_view(step.loop->iterator),
                                    std::string_view("_index"), std::string_view("_total")}) {
        bound = bound.With(name, names[name]);
      }
    }
    NOETL_ASSIGN(config, SingleToolConfig(spec, scope, bound.Merge(args)));
  }
  JsonObjectBuilder context;
  context.Add("tool_config", std::move(config)).Add("args", args);
  context.AddSome("iteration", spec.names).AddSome("output", step.output);
  context.Add("idempotency_key", key);
  // A run may have been handed a secret under a name that its playbook does not mark.
  const bool handed = !step.pipeline && !step.defers && HasSecretInputs();
  Json deferred;
  if (!IsServerRun(step, spec.kind) && !step.pipeline && (step.defers || handed))
    deferred = DeferredFields(step.tasks[0]);
  const bool all_roots = step.all_roots || (handed && !deferred.is_null());
  context.AddSome("deferred", std::move(deferred));
  if (step.pipeline && state_->semantics.retype_legacy) context.Add("retype", true);
  if (step.pipeline || all_roots || !step.worker_roots.empty())
    context.Add("render_context", RenderContext(step, all_roots));
  return context.Build();
}

// All fields rendered once; strings that need a secret stay verbatim for the worker.
Result<Json> Decider::SingleToolConfig(const CommandSpec& spec, Scope& scope,
                                       const Json& bound) const {
  const playbook::Task& task = spec.step->tasks[0];
  // A child that we start ourselves is handed the name of a secret, not its value.
  const bool here = IsServerRun(*spec.step, spec.kind);
  const auto defer = [this, here](const expr::Template& leaf) { return !here && Defers(leaf); };
  scope.Bind("input", bound);
  scope.Bind("args", bound);
  Result<Json> own = task.input.Render(scope, expr::Output::kStructured, defer);
  if (!own) {
    if (NeedsReference(own.error())) return own;
    return Fail(own.error().code, fmt::format("tool.input.{}", own.error().message));
  }
  const Json input = bound.Merge(*own);
  scope.BindAll(*own);
  scope.Bind("input", input);
  scope.Bind("args", input);
  JsonObjectBuilder config;
  for (const playbook::Task::Field& field : task.fields) {
    Result<Json> value =
        RenderField(field.name, field.value, scope, profile(), field.output, defer);
    if (!value) {
      if (NeedsReference(value.error())) return value;
      return Fail(value.error().code,
                  fmt::format("tool.{}: {}", field.name, value.error().message));
    }
    config.Add(field.name, *std::move(value));
  }
  // A container's own `args` are its argv.
  config.Add(task.Find("args") ? "input" : "args", input)
      .AddSome("retry", task.retry)
      .AddSome("spec", task.spec);
  if (task.timeout_ms) config.Add("timeout_ms", *task.timeout_ms);
  return config.Build();
}

// Where in the tool's config templates were left to the worker: a list of paths, null for none.
Json Decider::DeferredFields(const playbook::Task& task) const {
  std::vector<Json> paths;
  const auto collect = [&](std::string_view field, const expr::Tree& tree) {
    if (tree.is_literal()) return;
    for (const expr::Tree::Leaf& leaf : tree.Leaves()) {
      if (!Defers(leaf.compiled)) continue;
      const bool indexed = leaf.path.empty() || leaf.path.starts_with('[');
      paths.emplace_back(fmt::format("{}{}{}", field, indexed ? "" : ".", leaf.path));
    }
  };
  for (const playbook::Task::Field& field : task.fields) collect(field.name, field.value);
  collect(task.Find("args") ? "input" : "args", task.input);
  return paths.empty() ? Json() : Json::Array(std::move(paths));
}

// The same for all attempts of a logical command, different for everything else.
std::string Decider::IdempotencyKeyOf(const CommandSpec& spec) const {
  const std::string frame = spec.kind == Command::Kind::kBody ? fmt::format("{}.", spec.frame) : "";
  return fmt::format("{}:{}:{}:{}{}", state_->execution_id, spec.step->name, spec.run, frame,
                     spec.index);
}

Result<Json> Decider::ClaimConfig(const CommandSpec& spec, Scope& scope) const {
  const playbook::Loop& loop = *spec.step->loop;
  scope.Bind("__frame_max_rows", Json(loop.frame.max_rows));
  JsonObjectBuilder config;
  for (const auto& [name, tree] :
       {std::pair{"command", &loop.cursor.claim}, {"auth", &loop.cursor.auth}}) {
    Result<Json> value = RenderField(name, *tree, scope, profile(), expr::Output::kText);
    if (!value) {
      if (NeedsReference(value.error())) return value;
      return Fail(value.error().code,
                  fmt::format("loop.cursor.{}: {}", name[0] == 'c' ? "claim" : name,
                              value.error().message));
    }
    config.AddSome(name, *std::move(value));
  }
  config.AddSome("options", loop.cursor.options).AddSome("frame", loop.frame.raw);
  return config.Build();
}

// A template with a secret in it is rendered where the secret is: by the worker. So is one with the
// fence, which differs from attempt to attempt.
bool Decider::Defers(const expr::Template& leaf) const {
  const expr::Analysis& analysis = leaf.analysis();
  if (analysis.uses_token || analysis.UsesRoot("keychain") || analysis.UsesRoot("fence"))
    return true;
  for (const expr::RootPath& root : analysis.roots) {
    const bool through = (root.root == "workload" || root.root == "ctx") && !root.path.empty();
    const std::string_view name =
        through ? std::string_view(root.path[0]) : std::string_view(root.root);
    if (state_->workload[name].Has("_secret")) return true;
  }
  return false;
}

bool Decider::HasSecretInputs() const {
  return std::ranges::any_of(state_->workload.members(),
                             [](const JsonMember& member) { return member.value.Has("_secret"); });
}

// What the worker's templates can read: only the roots they name when those are known.
Json Decider::RenderContext(const Step& step, bool all_roots) const {
  const bool repeats = step.loop && state_->context_stored == state_->context_version;
  if (repeats && !state_->context_ref.empty()) {
    return Json::Object({{"__context_ref__", state_->context_ref}});
  }
  JsonObjectBuilder workload, ctx, steps;
  bool whole_workload = all_roots;
  for (const std::string& root : step.worker_roots) {
    if (all_roots) break;
    if (root == "workload") whole_workload = true;
    if (const Json* value = state_->ctx.Find(root)) ctx.Add(root, *value);
    if (auto result = steps_->Find(root)) steps.Add(root, result->ToJson());
    if (const Json* value = state_->workload.Find(root)) workload.Add(root, *value);
  }
  if (all_roots) {
    for (const std::string& name : steps_->Names()) steps.Add(name, steps_->Find(name)->ToJson());
  }
  return Json::Object({{"workload", whole_workload ? state_->workload : workload.Build()},
                       {"ctx", all_roots ? state_->ctx : ctx.Build()},
                       {"steps", steps.Build()},
                       {"identity", Identity()}});
}

// ---- the command itself

void Decider::EmitCommand(const CommandSpec& spec, Json context) {
  const Step& step = *spec.step;
  const std::int64_t id = NextId();
  std::string command_id = fmt::format("{}:{}:{}", state_->execution_id, step.name, id);
  if (spec.kind == Command::Kind::kIteration || spec.kind == Command::Kind::kBody) {
    command_id += fmt::format(":i{}", spec.index);
  }
  const std::string_view kind = spec.kind == Command::Kind::kClaim
                                    ? std::string_view(step.loop->cursor.kind)
                                    : std::string_view(step.tool_kind);
  Event event = NewEvent(EventType::kCommandIssued, step.name, "PENDING");
  event.event_id = id;
  event.node_type = std::string(kind);
  event.meta = CommandMeta(spec, command_id, kind);

  // A context over the budget is stored once for each version of the run's context.
  const Json& base = context["render_context"];
  if (base.is_object() && !base.Has("__context_ref__")) {
    const std::size_t bytes = JsonSize(base);
    if (static_cast<std::int64_t>(bytes) > state_->semantics.context_bytes) {
      std::string ref = StoreBody("__command_context__", base);
      context = context.With(
          "render_context", Json::Object({{"__context_ref__", ref}, {"__context_bytes__", bytes}}));
      if (step.all_roots || step.loop)
        event.meta = event.meta.With("context_version", state_->context_version);
    }
  }
  const bool server_run = IsServerRun(step, spec.kind);
  const std::int64_t child = server_run ? NextId() : 0;
  const Json config = context["tool_config"];
  const bool waits = server_run && WaitsForChild(config);
  if (server_run)
    event.meta = event.meta.With("child_execution_id", child).With("server_run", true);
  event.context = std::move(context);
  Emit(std::move(event));
  if (server_run) StartChild(spec, config, command_id, id, child);
  if (!waits) return;
  const bool by_step = config["return_step"].is_string();
  const std::int64_t wait_ms =
      config["timeout_ms"].AsInt(by_step ? kReturnStepTimeoutMs : kReturnResultTimeoutMs);
  unit_.timers.push_back({.kind = Timer::Kind::kCommandDeadline,
                          .step = step.name,
                          .run = spec.run,
                          .command_id = command_id,
                          .due_us = world_.now_us + wait_ms * 1'000});
}

Json Decider::CommandMeta(const CommandSpec& spec, const std::string& command_id,
                          std::string_view kind) const {
  const Step& step = *spec.step;
  JsonObjectBuilder meta;
  meta.Add("emitted_by", "orchestrator")
      .Add("command_id", command_id)
      .Add("step", step.name)
      .Add("tool_kind", kind)
      .Add("run", spec.run)
      .Add("attempt", spec.attempt)
      .Add("max_attempts", state_->semantics.max_attempts)
      .Add("execution_id", std::to_string(state_->execution_id))
      .Add("catalog_id", std::to_string(state_->catalog_id))
      .Add("actionable", true)
      .Add("command_key", fmt::format("{}|{}|{}|{}|{}|{}", step.name, spec.run, NameOf(spec.kind),
                                      spec.index, spec.frame, spec.attempt));
  if (!step.pipeline) meta.Add("rendered", true);
  if (step.pipeline && step.single) meta.Add("single", true);
  if (spec.lost > 0) meta.Add("lost", spec.lost);
  if (spec.reruns > 0) meta.Add("reruns", spec.reruns);
  if (!spec.retry_of.empty()) meta.Add("retry_of", spec.retry_of);
  if (spec.kind == Command::Kind::kIteration || spec.kind == Command::Kind::kBody) {
    meta.Add("iteration_index", spec.index)
        .Add("iteration_total", spec.total)
        .Add("iterator_step", step.name)
        .Add("item_var", step.loop->iterator)
        .Add("loop_id", fmt::format("{}#{}", step.name, spec.run))
        .Add("total", spec.total);
  }
  if (spec.kind == Command::Kind::kClaim || spec.kind == Command::Kind::kBody) {
    JsonObjectBuilder cursor;
    cursor.Add("phase", NameOf(spec.kind))
        .Add("step", step.name)
        .Add("slot", spec.slot)
        .Add("frame", spec.frame);
    if (spec.kind == Command::Kind::kBody) cursor.Add("row", spec.index);
    meta.Add("cursor", cursor.Build());
  }
  meta.AddSome("trace", state_->trace);
  return meta.Build();
}

// The same logical command once more, after `ended` closed its last attempt.
Status Decider::IssueAgain(const Command& command, std::int64_t lost, std::int64_t reruns,
                           Event ended, std::int64_t start_at_us) {
  const std::string ref = CommandRef(state_->execution_id, command.event_id);
  NOETL_ASSIGN(const Json* context, bodies_->Find(ref));
  if (!context) return Fail("needs_reference", ref);
  const Json again = *context;
  const Run& run = OpenRun(command.step);
  CommandSpec spec{.step = &StepOf(command.step),
                   .run = command.run,
                   .kind = command.kind,
                   .index = command.index,
                   .total = run.expected,
                   .slot = command.slot,
                   .frame = command.frame,
                   .attempt = command.attempt + 1,
                   .lost = lost,
                   .reruns = reruns,
                   .retry_of = command.id,
                   .start_at_us = start_at_us};
  Emit(std::move(ended));
  EmitCommand(spec, again);
  return {};
}

// ---- sub-playbooks

void Decider::StartChild(const CommandSpec& spec, const Json& config, const std::string& command_id,
                         std::int64_t event_id, std::int64_t child_id) {
  const Step& step = *spec.step;
  const bool waits = WaitsForChild(config);
  const Json& input = config["args"];
  Json payload = input;
  if (step.loop) {  // iteration variables are for templates, not for the child
    for (std::string_view name : {std::string_view(step.loop->iterator), std::string_view("_index"),
                                  std::string_view("_total")}) {
      if (!step.tasks[0].input.source().Has(name)) payload = payload.Without(name);
    }
  }
  if (payload.empty()) payload = config["payload"].is_object() ? config["payload"] : Json::Object();
  const Json& result_step =
      config["result_step"].is_string() ? config["result_step"] : config["return_step"];
  const std::string path = config["path"].ToString();
  std::string problem;
  if (path.empty() && config["catalog_id"].is_null())
    problem = "sub-playbook: path rendered to nothing (E460)";
  if (state_->depth + 1 > kChildDepthMax) {
    problem = fmt::format("sub-playbook '{}': more than {} levels of sub-playbooks (E461)", path,
                          kChildDepthMax);
  }
  if (problem.empty()) {
    unit_.children.push_back({.execution_id = child_id,
                              .path = path,
                              .catalog_id = config["catalog_id"].AsInt(),
                              .version = config["version"],
                              .payload = std::move(payload),
                              .parent_execution_id = state_->execution_id,
                              .parent_command_id = waits ? command_id : std::string(),
                              .parent_step = step.name,
                              .return_step = result_step.ToString(),
                              .depth = state_->depth + 1,
                              .pool = config["execution_pool"].is_string()
                                          ? config["execution_pool"].ToString()
                                          : state_->pool,
                              .trace = state_->trace,
                              .start_at_us = spec.start_at_us});
    if (waits) return;
  }
  // Nobody waits, or it cannot start: the command ends at once.
  Event end = NewEvent(problem.empty() ? EventType::kCommandCompleted : EventType::kCommandFailed,
                       step.name, problem.empty() ? "success" : "FAILED");
  end.parent_event_id = event_id;
  end.node_type = "playbook";
  end.meta = end.meta.With("command_id", command_id)
                 .With("child_status", problem.empty() ? "STARTED" : "FAILED");
  end.error = problem;
  JsonObjectBuilder context;
  context.Add("command_id", command_id);
  if (problem.empty()) {
    Event done = end;
    done.type = EventType::kCallDone;
    done.type_name = EventName(done.type);
    done.status = "COMPLETED";
    const Json data = Json::Object({{"status", "started"},
                                    {"execution_id", std::to_string(child_id)},
                                    {"path", path},
                                    {"async", true}});
    const Json tool = Json::Object({{"status", "success"}, {"data", data}});
    const Json res = Json::Object({{"status", "success"}, {"context", tool}});
    done.result = Json::Object(
        {{"status", "COMPLETED"},
         {"context",
          Json::Object({{"command_id", command_id}, {"call_index", 0}, {"result", res}})}});
    inputs_.emplace_back(std::move(done));
  } else {
    context.Add("error", problem);
  }
  end.result = Json::Object({{"status", end.status}, {"context", context.Build()}});
  inputs_.emplace_back(std::move(end));
}

}  // namespace noetl::engine
