#include "sim/world.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/json_io.h"
#include "base/time.h"
#include "engine/summary.h"

namespace noetl::sim {

using engine::Event;
using engine::EventType;

// A worker that holds a command. It starts, calls tools one after the other, and reports.
struct World::Task {
  enum class Phase { kClaimed, kRunning, kSleeping, kReported, kLost };
  Event issued;
  Phase phase = Phase::kClaimed;
  std::string worker;
  std::unique_ptr<engine::CommandScope> scope;
  Json config;  // of a single tool
  std::optional<engine::Pipeline> pipeline;
  std::optional<ToolAnswer> pending;  // of a call that goes on while the worker sleeps
  std::optional<engine::ToolOutcome> unreported;
  int runs = 0;
  std::int64_t wake_us = 0;

  const Json& meta() const { return issued.meta; }
  std::string id() const { return meta()["command_id"].ToString(); }
};

struct World::Message {
  std::int64_t execution_id = 0;
  std::optional<Event> event;
  std::optional<engine::ChildEnd> child;
};

namespace {

Json ToolResult(const engine::ToolOutcome& outcome) {
  JsonObjectBuilder result;
  result.Add("status", outcome.ok ? "success" : "error").Add("data", outcome.payload);
  if (!outcome.ok) result.Add("error", outcome.error).AddSome("error_info", outcome.error_info);
  return result.Build();
}

}  // namespace

ToolAnswer AnswerNoop(const ToolCall& call) {
  ToolAnswer answer;
  const Json* result = call.config.Find("result");
  answer.outcome.payload = result ? *result : Json::Object({{"status", "ok"}, {"message", "noop"}});
  return answer;
}

World::World(Options options, Tools* tools)
    : options_(std::move(options)), tools_(tools), now_us_(options_.start_us) {}

World::~World() = default;

void World::AddPlaybook(std::shared_ptr<const playbook::Playbook> playbook) {
  catalog_[playbook->path] = std::move(playbook);
}

Result<std::int64_t> World::Start(std::string_view path, Json payload) {
  const auto found = catalog_.find(path);
  if (found == catalog_.end())
    return Fail("not_found", fmt::format("no playbook has the path '{}'", path));
  const std::int64_t id = ids_.Next();
  NOETL_TRY(Begin({.execution_id = id,
                   .catalog_id = 1,
                   .version = 1,
                   .payload = std::move(payload),
                   .env = options_.env,
                   .semantics = options_.semantics},
                  found->second));
  return id;
}

Status World::Begin(engine::StartRequest request,
                    std::shared_ptr<const playbook::Playbook> playbook) {
  const std::int64_t id = request.execution_id;
  auto made = std::make_unique<Execution>();
  made->id = id;
  made->playbook = std::move(playbook);
  Execution& execution = *(executions_[id] = std::move(made));
  Status status = TryDecide(execution, [&](engine::Decider& decider) { decider.Start(request); });
  if (!status) executions_.erase(id);
  return status;
}

// ---- the engine's side

Status World::TryDecide(Execution& execution, const Feed& feed) {
  for (bool first = true, more = true; more; first = false) {
    engine::Decider decider(&execution.state, *execution.playbook, {&ids_, this, now_us_});
    if (first) feed(decider);
    for (;;) {
      Status status = decider.Decide();
      if (status) break;
      if (status.error().code != "needs_reference") return status;
      loaded_.insert(status.error().message);
    }
    engine::Unit unit = decider.TakeUnit();
    more = unit.more;
    Commit(execution, std::move(unit));
  }
  return {};
}

void World::Decide(Execution& execution, const Feed& feed) {
  Status status = TryDecide(execution, feed);
  NOETL_CHECK(status.has_value(), status ? "" : status.error().message);
}

void World::Commit(Execution& execution, engine::Unit unit) {
  for (const engine::StoredBody& stored : unit.bodies) bodies_[stored.ref] = stored.body;
  for (const engine::LoopRow& row : unit.loop_rows) {
    const std::string ref =
        fmt::format("noetl://execution/{}/loop/{}/{}", execution.id, row.step, row.run);
    loop_rows_[ref][row.index] = row.data;
    loop_lists_.erase(ref);
    loaded_.erase(ref);
  }
  for (const Event& event : unit.events) {
    Trace(execution, event);
    const std::string id(engine::CommandIdOf(event));
    if (event.type == EventType::kCommandIssued) {
      bodies_[fmt::format("noetl://execution/{}/command/{}", execution.id, event.event_id)] =
          event.context;
      issued_[id] = event;
      if (!event.meta["server_run"].AsBool()) queued_.push_back(id);
    } else if (event.type == EventType::kCommandCancelled) {
      std::erase(queued_, id);
    }
    execution.log.push_back(event);
  }
  for (const std::string& id : unit.dropped_commands) std::erase(queued_, id);
  for (const engine::Timer& timer : unit.timers)
    timers_.emplace(timer.due_us, std::pair{execution.id, timer});
  if (options_.on_commit) options_.on_commit(execution, unit);
  if (unit.parent) {
    messages_.push_back(
        std::make_unique<Message>(Message{unit.parent->parent_execution_id, {}, unit.parent}));
  }
  for (const engine::ChildStart& child : unit.children) {
    if (child.start_at_us > now_us_) delayed_children_.emplace(child.start_at_us, child);
    else StartChild(child);
  }
  for (std::int64_t child : unit.cancel_children) {
    if (executions_.contains(child)) Cancel(child, "the run that waits for it ended");
  }
}

void World::StartChild(const engine::ChildStart& child) {
  if (executions_.contains(child.execution_id)) return;
  Execution& parent = Get(child.parent_execution_id);
  parent.child_places[child.execution_id] = parent.sequence.size();
  parent.sequence.push_back("()");
  const auto found = catalog_.find(child.path);
  Status started = Fail("not_found", "no playbook has this path");
  if (found != catalog_.end()) {
    started = Begin({.execution_id = child.execution_id,
                     .catalog_id = 1,
                     .version = 1,
                     .payload = child.payload,
                     .parent_execution_id = child.parent_execution_id,
                     .parent_command_id = child.parent_command_id,
                     .parent_step = child.parent_step,
                     .return_step = child.return_step,
                     .depth = child.depth,
                     .pool = child.pool,
                     .trace = child.trace,
                     .env = options_.env,
                     .semantics = options_.semantics},
                    found->second);
  }
  if (started || child.parent_command_id.empty()) return;
  messages_.push_back(
      std::make_unique<Message>(Message{parent.id,
                                        {},
                                        engine::ChildEnd{.command_id = child.parent_command_id,
                                                         .parent_execution_id = parent.id,
                                                         .child_execution_id = child.execution_id,
                                                         .path = child.path,
                                                         .status = "FAILED",
                                                         .error = started.error().message}}));
}

// Keeps the sequence of a run: what did not reach a worker is seen in the events.
void World::Trace(Execution& execution, const Event& event) {
  const std::string& step = event.node_name;
  const Json& context = event.result["context"];
  if (event.type == EventType::kStepSkipped) {
    const std::string_view reason = event.meta["reason"].AsString();
    if (reason == "guard") execution.sequence.push_back(step + ":skipped");
    if (reason == "admission_denied") execution.sequence.push_back(step + ":denied");
  } else if (event.type == EventType::kStepEnter) {
    if (context["__cursor_loop"].AsBool()) execution.sequence.push_back(step + ":enter");
    if (context["iterations_expected"].is_int() && context["iterations_expected"].AsInt() == 0) {
      execution.sequence.push_back(step + ":empty");
    }
  } else if (event.type == EventType::kCommandIssued && event.meta["server_run"].AsBool()) {
    const Json& index = event.meta["iteration_index"];
    execution.sequence.push_back(index.is_int() ? fmt::format("{}[{}]", step, index.AsInt())
                                                : step);
  } else if (event.type == EventType::kCommandCompleted && event.meta["rows"].is_int()) {
    const engine::Event& claim = issued_.at(std::string(engine::CommandIdOf(event)));
    execution.sequence.push_back(fmt::format("{}.claim[{}]={}", step,
                                             claim.meta["cursor"]["frame"].AsInt(),
                                             event.meta["rows"].AsInt()));
  }
  const Json& route = event.meta["route"];
  if (route["outcome"].AsString() == "failed" && route["arcs"].empty()) {
    execution.sequence.push_back(step + ":failed");
  }
}

Result<const Json*> World::Find(std::string_view ref) const {
  if (!loaded_.contains(ref)) return nullptr;
  if (const auto body = bodies_.find(ref); body != bodies_.end()) return &body->second;
  if (ref.find("/loop/") != std::string_view::npos) {
    if (const auto list = loop_lists_.find(ref); list != loop_lists_.end()) return &list->second;
    std::vector<Json> list;
    if (const auto rows = loop_rows_.find(ref); rows != loop_rows_.end()) {
      for (const auto& [index, data] : rows->second) {
        list.resize(static_cast<std::size_t>(index) + 1);
        list.back() = data;
      }
    }
    return &(loop_lists_[std::string(ref)] = Json::Array(std::move(list)));
  }
  return Fail("REFERENCE_NOT_AVAILABLE", fmt::format("the stored body {} is not available", ref));
}

Result<Json> World::PayloadOf(const Execution& execution, std::string_view step) const {
  const engine::StepState* found = execution.state.Find(step);
  if (!found || !found->result) return Json();
  for (;;) {
    Result<Json> payload = engine::StepView(found->result, this).Plain();
    if (payload || payload.error().code != "needs_reference") return payload;
    loaded_.insert(payload.error().message);
  }
}

Result<Json> World::ResultOf(const Execution& execution) const {
  for (const Event& event : execution.log) {
    if (!engine::IsTerminal(event.type)) continue;
    const std::string_view ref = event.result["reference"]["ref"].AsString();
    if (ref.empty()) return event.result["context"]["data"];
    loaded_.insert(std::string(ref));
    NOETL_ASSIGN(const Json* body, Find(ref));
    return *body;
  }
  return Json();
}

// ---- the workers' side

std::vector<std::string> World::held() const {
  std::vector<std::string> ids;
  for (const auto& [id, task] : tasks_) ids.push_back(id);
  return ids;
}

// Takes a command off the queue; null when it was withdrawn and the claim is refused.
std::unique_ptr<World::Task> World::TakeTask(const std::string& id, Event* claimed) {
  auto task = std::make_unique<Task>();
  task->issued = issued_.at(id);
  task->worker = "sim-worker";
  std::erase(queued_, id);
  if (!Get(task->issued.execution_id).state.FindCommand(id)) return nullptr;
  claimed->type = EventType::kCommandClaimed;
  claimed->type_name = engine::EventName(claimed->type);
  claimed->node_name = task->issued.node_name;
  claimed->status = "RUNNING";
  claimed->worker_id = task->worker;
  claimed->created_at_us = now_us_;
  claimed->meta =
      Json::Object({{"command_id", id}, {"worker_id", task->worker}, {"claim_token", 1}});
  claimed->result =
      Json::Object({{"status", "RUNNING"},
                    {"context", Json::Object({{"command_id", id}, {"worker_id", task->worker}})}});
  return task;
}

bool World::sleeping(std::string_view command_id) const {
  const auto found = tasks_.find(command_id);
  return found != tasks_.end() && found->second->phase == Task::Phase::kSleeping;
}

void World::Claim(std::string_view command_id) {
  const std::string id(command_id);
  Event claimed;
  std::unique_ptr<Task> task = TakeTask(id, &claimed);
  if (!task) return;
  Execution& execution = Get(task->issued.execution_id);
  tasks_[id] = std::move(task);
  Decide(execution, [&](engine::Decider& decider) { decider.Ingest(claimed); });
}

void World::ClaimUnseen(std::string_view command_id) {
  const std::string id(command_id);
  Event claimed;
  std::unique_ptr<Task> task = TakeTask(id, &claimed);
  if (!task) return;
  claimed.event_id = ids_.Next();
  messages_.push_back(
      std::make_unique<Message>(Message{task->issued.execution_id, std::move(claimed), {}}));
  tasks_[id] = std::move(task);
}

void World::Post(Task& task, EventType type, std::string_view status, Json context,
                 std::string error) {
  Event event;
  event.event_id = ids_.Next();
  event.type = type;
  event.type_name = engine::EventName(type);
  event.node_name = task.issued.node_name;
  event.node_type = task.issued.node_type;
  event.status = std::string(status);
  event.worker_id = task.worker;
  event.created_at_us = now_us_;
  event.error = std::move(error);
  event.result =
      Json::Object({{"status", status}, {"context", context.With("command_id", task.id())}});
  event.meta = Json::Object({{"attempts", task.meta()["attempt"]}});
  messages_.push_back(
      std::make_unique<Message>(Message{task.issued.execution_id, std::move(event), {}}));
}

void World::Work(std::string_view command_id) {
  const auto found = tasks_.find(command_id);
  NOETL_CHECK(found != tasks_.end(), "only a held command can go on");
  Task& task = *found->second;
  if (task.phase == Task::Phase::kClaimed) return StartWork(task);
  if (task.phase == Task::Phase::kSleeping) {
    now_us_ = std::max(now_us_, task.wake_us);
    task.phase = Task::Phase::kRunning;
  }
  if (task.pipeline) RunPipeline(task);
  else RunSingle(task);
  if (task.phase == Task::Phase::kLost) LoseWorker(command_id);
  else if (task.phase == Task::Phase::kReported) tasks_.erase(found);
}

void World::StartWork(Task& task) {
  Post(task, EventType::kCommandStarted, "STARTED", Json::Object(), "");
  task.phase = Task::Phase::kRunning;
  const bool pipeline = task.meta()["tool_kind"].AsString() == "task_sequence";
  task.config = task.issued.context["tool_config"];
  if (!pipeline && task.issued.context["deferred"].is_null()) return;
  for (;;) {
    auto scope = engine::CommandScope::Create(task.issued.context, task.meta(), this);
    if (scope) {
      task.scope = *std::move(scope);
      break;
    }
    NOETL_CHECK(scope.error().code == "needs_reference", scope.error().message);
    loaded_.insert(scope.error().message);
  }
  engine::Scope& names = task.scope->scope();
  names.SetNow(FormatTime(now_us_));
  names.Bind("keychain", Json::Object());
  names.SetTokens(
      [](std::string_view alias) { return expr::Value(Json(fmt::format("token-of-{}", alias))); });
  if (!pipeline) {
    names.BindAll(task.config["args"]);
    Result<Json> rendered = engine::RenderDeferred(task.issued.context, names);
    if (rendered) task.config = *std::move(rendered);
    return;
  }
  auto made = engine::Pipeline::Create(task.issued.context["tool_config"],
                                       {.profile = Get(task.issued.execution_id).playbook->profile,
                                        .single = task.meta()["single"].AsBool(),
                                        .step = task.issued.node_name},
                                       &names);
  NOETL_CHECK(made.has_value(), made ? "" : made.error().message);
  task.pipeline = std::move(*made);
}

// nullopt: the call takes its time, and its answer is in `task.pending` when the worker wakes.
std::optional<ToolAnswer> World::CallTool(Task& task, ToolCall call) {
  const Event& issued = task.issued;
  Execution& execution = Get(issued.execution_id);
  const Json& cursor = issued.meta["cursor"];
  call.execution_id = execution.id;
  call.path = execution.playbook->path;
  call.step = issued.node_name;
  call.run = issued.meta["run"].AsInt();
  call.index = issued.meta["iteration_index"].AsInt(-1);
  call.frame = cursor["frame"].AsInt(-1);
  if (cursor["phase"].AsString() == "claim") call.phase = "claim";
  call.fence = issued.meta["attempt"].AsInt(1);

  std::string place = call.step;
  if (call.frame >= 0) place += fmt::format("[{}.{}]", call.frame, call.index);
  else if (call.index >= 0) place += fmt::format("[{}]", call.index);
  if (!call.label.empty()) place += "." + call.label;
  if (call.attempt > 1) place += fmt::format("#{}", call.attempt);
  if (call.phase.empty()) execution.sequence.push_back(std::move(place));

  ToolAnswer answer = tools_->Call(call);
  const std::int64_t end_us = now_us_ + answer.duration_us;
  answer.outcome.duration_ms = answer.duration_us / 1'000;
  answer.outcome.finished_at = FormatTime(end_us);
  if (answer.duration_us > kQuickCallUs) {
    task.pending = std::move(answer);
    task.phase = Task::Phase::kSleeping;
    task.wake_us = end_us;
    return std::nullopt;
  }
  now_us_ = end_us;
  return answer;
}

// A plain tool with its own retries.
void World::RunSingle(Task& task) {
  const Json& config = task.config;
  std::optional<ToolAnswer> called = std::exchange(task.pending, std::nullopt);
  if (!called) {
    called = CallTool(task, {.kind = task.meta()["tool_kind"].ToString(),
                             .config = config,
                             .input = config["args"],
                             .attempt = ++task.runs});
  }
  if (!called) return;
  const ToolAnswer& answer = *called;
  if (answer.lost) {
    task.phase = Task::Phase::kLost;
    return;
  }
  if (!answer.outcome.ok && config["retry"].is_object()) {
    const engine::RetryDecision retry = engine::DecideToolRetry(
        config["retry"], task.runs,
        engine::ErrorObject(answer.outcome.error, answer.outcome.error_info));
    if (retry.again) {
      task.phase = Task::Phase::kSleeping;
      task.wake_us = now_us_ + retry.delay_ms * 1'000;
      return;
    }
  }
  Report(task, answer, ToolResult(answer.outcome));
}

// A tool call of a pipeline has ended.
void World::EndTask(Task& task, ToolAnswer answer) {
  if (answer.lost) task.phase = Task::Phase::kLost;
  else task.unreported = std::move(answer.outcome);
}

void World::RunPipeline(Task& task) {
  if (task.pending) {
    EndTask(task, *std::exchange(task.pending, std::nullopt));
    if (task.phase == Task::Phase::kLost) return;
  }
  const auto load = [&](const Error& error) {
    NOETL_CHECK(error.code == "needs_reference", error.message);
    loaded_.insert(error.message);
  };
  while (task.unreported) {
    Status reported = task.pipeline->Report(*task.unreported);
    if (reported) task.unreported.reset();
    else load(reported.error());
  }
  Result<engine::Pipeline::Action> action = task.pipeline->Next();
  while (!action) {
    load(action.error());
    action = task.pipeline->Next();
  }
  if (auto* sleep = std::get_if<engine::Pipeline::Sleep>(&*action)) {
    task.phase = Task::Phase::kSleeping;
    task.wake_us = now_us_ + sleep->ms * 1'000;
    return;
  }
  if (auto* run = std::get_if<engine::Pipeline::RunTool>(&*action)) {
    auto answer = CallTool(task, {.label = run->label,
                                  .kind = run->kind,
                                  .config = run->config,
                                  .input = run->input,
                                  .attempt = run->attempt});
    if (answer) EndTask(task, *std::move(answer));
    return;
  }
  auto& finished = std::get<engine::Pipeline::Finished>(*action);
  JsonObjectBuilder result;
  result.Add("status", finished.ok ? "success" : "error")
      .Add("data", finished.data)
      .AddSome("order", finished.order);
  if (!finished.ctx_updates.empty()) result.Add("ctx_updates", finished.ctx_updates);
  if (!finished.ok) result.Add("error", finished.error).AddSome("error_info", finished.error_info);
  ToolAnswer answer;
  answer.outcome.ok = finished.ok;
  answer.outcome.error = finished.error;
  answer.outcome.error_info = finished.error_info;
  Report(task, answer, result.Build());
}

// call.done and command.completed, or call.error and command.failed.
void World::Report(Task& task, const ToolAnswer& answer, Json tool_result) {
  task.phase = Task::Phase::kReported;
  const engine::ToolOutcome& outcome = answer.outcome;
  if (answer.parked) {
    return Post(task, EventType::kCommandCompleted, "success",
                Json::Object({{"pending_callback", true}}), "");
  }
  if (answer.hard) {
    Json context = Json::Object({{"error", outcome.error}});
    if (!outcome.error_info.is_null()) context = context.With("error_info", outcome.error_info);
    Post(task, EventType::kCallError, "FAILED", context, outcome.error);
    return Post(task, EventType::kCommandFailed, "FAILED", context, outcome.error);
  }
  const std::string_view status = outcome.ok ? "success" : "error";
  Json res = Json::Object({{"status", status}, {"context", tool_result}});
  const Json& output = task.issued.context["output"];
  const std::int64_t budget =
      output["inline_max_bytes"].AsInt(Get(task.issued.execution_id).state.semantics.inline_bytes);
  const Json data = tool_result["data"];
  if (outcome.ok && static_cast<std::int64_t>(JsonSize(data)) > budget) {
    const std::string ref =
        fmt::format("noetl://execution/{}/result/{}/{}", task.issued.execution_id,
                    task.issued.node_name, ids_.Next());
    bodies_[ref] = data;
    res = Json::Object({{"status", status},
                        {"context", tool_result.With("data", Json::Object({{"_ref", ref}}))},
                        {"reference", engine::MakeReference(ref, data, output["select"])}});
  }
  Post(task, EventType::kCallDone, "COMPLETED", Json::Object({{"call_index", 0}, {"result", res}}),
       "");
  Post(task, EventType::kCommandCompleted, status, Json::Object({{"status", status}}), "");
}

void World::Deliver(std::size_t place, int copies) {
  const std::unique_ptr<Message> message = std::move(messages_[place]);
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(place));
  Execution& execution = Get(message->execution_id);
  for (int i = 0; i < copies; ++i) {
    if (message->event) {
      const bool fresh = execution.keys.insert(engine::IdempotencyKey(*message->event)).second;
      if (!fresh && options_.deduplicate) continue;
      Event event = *message->event;
      if (!fresh) event.event_id = ids_.Next();
      Decide(execution, [&](engine::Decider& decider) { decider.Ingest(event); });
    } else {
      Decide(execution, [&](engine::Decider& decider) { decider.ChildEnded(*message->child); });
    }
  }
}

void World::DeliverTogether(std::span<const std::size_t> places) {
  std::map<std::int64_t, std::vector<std::unique_ptr<Message>>> by_execution;
  for (const std::size_t place : places) {
    by_execution[messages_[place]->execution_id].push_back(std::move(messages_[place]));
  }
  std::erase(messages_, nullptr);
  for (auto& [id, group] : by_execution) {
    Execution& execution = Get(id);
    Decide(execution, [&](engine::Decider& decider) {
      for (const auto& message : group) {
        if (message->child) decider.ChildEnded(*message->child);
        else if (execution.keys.insert(engine::IdempotencyKey(*message->event)).second) {
          decider.Ingest(*message->event);
        }
      }
    });
  }
}

std::vector<World::Waiting> World::waiting() const {
  std::vector<Waiting> list;
  for (const auto& message : messages_) {
    if (message->child)
      list.push_back({message->execution_id, message->child->command_id, EventType::kOther});
    else
      list.push_back({message->execution_id, std::string(engine::CommandIdOf(*message->event)),
                      message->event->type});
  }
  return list;
}

const Event* World::MessageEvent(std::size_t place) const {
  const std::optional<Event>& event = messages_[place]->event;
  return event ? &*event : nullptr;
}

void World::DeliverTogether(const std::vector<std::size_t>& places) {
  Execution& execution = Get(messages_[places.front()]->execution_id);
  std::vector<std::unique_ptr<Message>> batch;
  for (const std::size_t place : places) {
    if (messages_[place]->execution_id != execution.id) continue;
    batch.push_back(std::move(messages_[place]));
  }
  std::erase(messages_, nullptr);
  Decide(execution, [&](engine::Decider& decider) {
    for (const auto& message : batch) {
      if (!message->event) decider.ChildEnded(*message->child);
      else if (execution.keys.insert(engine::IdempotencyKey(*message->event)).second)
        decider.Ingest(*message->event);
    }
  });
}

bool World::Sleep() {
  std::int64_t next = INT64_MAX;
  for (const auto& [id, task] : tasks_) {
    if (task->phase == Task::Phase::kSleeping) next = std::min(next, task->wake_us);
  }
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
  if (!delayed_children_.empty()) next = std::min(next, delayed_children_.begin()->first);
  if (next == INT64_MAX) return false;
  now_us_ = std::max(now_us_, next);
  if (!delayed_children_.empty() && delayed_children_.begin()->first <= now_us_) {
    const engine::ChildStart child = delayed_children_.begin()->second;
    delayed_children_.erase(delayed_children_.begin());
    StartChild(child);
  } else if (!timers_.empty() && timers_.begin()->first <= now_us_) {
    const auto [execution_id, timer] = timers_.begin()->second;
    timers_.erase(timers_.begin());
    Decide(Get(execution_id), [&](engine::Decider& decider) { decider.TimerDue(timer); });
  } else {
    for (const auto& [id, task] : tasks_) {
      if (task->phase == Task::Phase::kSleeping && task->wake_us <= now_us_) {
        Work(std::string(id));
        break;
      }
    }
  }
  return true;
}

void World::LoseWorker(std::string_view command_id) {
  const std::string id(command_id);
  const auto found = tasks_.find(id);
  NOETL_CHECK(found != tasks_.end(), "only a held command can be lost");
  Execution& execution = Get(found->second->issued.execution_id);
  tasks_.erase(found);
  Decide(execution, [&](engine::Decider& decider) { decider.Reissue(id, true); });
}

void World::Cancel(std::int64_t execution_id, std::string reason) {
  Decide(Get(execution_id), [&](engine::Decider& decider) { decider.Cancel(reason, "sim"); });
}

void World::Finalize(std::int64_t execution_id, bool completed, std::string error) {
  Decide(Get(execution_id), [&](engine::Decider& decider) { decider.Finalize(completed, error); });
}

void World::Callback(std::int64_t execution_id, engine::CallbackReport report) {
  Decide(Get(execution_id), [&](engine::Decider& decider) { decider.Callback(report); });
}

bool World::StepInOrder() {
  if (!messages_.empty()) {
    Deliver(0);
    return true;
  }
  for (const auto& [id, task] : tasks_) {
    if (task->phase == Task::Phase::kSleeping) continue;
    Work(std::string(id));
    return true;
  }
  if (!queued_.empty()) {
    Claim(std::string(queued_.front()));
    return true;
  }
  // Timers of runs that have ended are of no interest.
  while (!timers_.empty() && Get(timers_.begin()->second.first).state.terminal())
    timers_.erase(timers_.begin());
  return Sleep();
}

bool World::RunInOrder(std::int64_t actions) {
  for (std::int64_t i = 0; i < actions; ++i) {
    if (!StepInOrder()) return true;
  }
  return false;
}

std::string World::SequenceText(const Execution& execution) const {
  std::vector<std::string> parts = execution.sequence;
  for (const auto& [child, place] : execution.child_places) {
    const auto found = executions_.find(child);
    if (found != executions_.end())
      parts[place] = fmt::format("({})", SequenceText(*found->second));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace noetl::sim
