#include "engine/fold.h"

#include <algorithm>

#include "base/text.h"
#include "base/time.h"

namespace noetl::engine {

namespace {

// A loop run keeps the result of its first item up to this size, for summaries of long loops.
constexpr std::int64_t kFirstResultBytesMax = 4'096;

// Counts, indices and times of a foreign log are cut to these, so that what is added to them stays
// inside 64 bits.
constexpr std::int64_t kCountMax = std::int64_t{1} << 53;
constexpr std::int64_t kTimeMaxUs = std::int64_t{1} << 60;

std::int64_t CountOf(const Json& json) {
  return std::clamp<std::int64_t>(json.AsInt(), 0, kCountMax);
}

std::int64_t ElapsedMs(std::int64_t from_us, std::int64_t to_us) {
  return (std::clamp(to_us, -kTimeMaxUs, kTimeMaxUs) -
          std::clamp(from_us, -kTimeMaxUs, kTimeMaxUs)) /
         1'000;
}

StepState::Outcome OutcomeOf(std::string_view text) {
  if (text == "completed" || text == "soft") return StepState::Outcome::kCompleted;
  if (text == "failed") return StepState::Outcome::kFailed;
  if (text == "skipped") return StepState::Outcome::kSkipped;
  if (text == "denied") return StepState::Outcome::kDenied;
  return StepState::Outcome::kCancelled;
}

bool IsSuccess(std::string_view status) {
  const std::string lower = ToLower(status);
  return lower == "success" || lower == "completed" || lower == "ok";
}

// Applies events to one state. Exists for the duration of one Fold.
class Folder {
 public:
  Folder(State& state, const Event& event) : state_(state), event_(event), meta_(event.meta) {}

  void Apply() {
    switch (event_.type) {
      case EventType::kPlaybookStarted: return Start();
      case EventType::kPlaybookCompleted: return End(State::Status::kCompleted);
      case EventType::kPlaybookFailed: return End(State::Status::kFailed);
      case EventType::kPlaybookCancelled: return End(State::Status::kCancelled);
      case EventType::kStepEnter: return Enter();
      case EventType::kStepSkipped: return Skip();
      case EventType::kLoopDone: return FinishLoop();
      case EventType::kCtxUpdated: return UpdateContext();
      case EventType::kCommandIssued: return Issue();
      case EventType::kCommandClaimed: return Claim();
      case EventType::kCommandStarted: return StartCommand();
      case EventType::kCallDone: return AttachResult();
      case EventType::kCallError: return AttachError();
      case EventType::kCommandCompleted: return CompleteCommand();
      case EventType::kCommandFailed: return FailCommand();
      case EventType::kCommandReleased: return ReleaseCommand();
      case EventType::kCommandCancelled: return CancelCommand();
      case EventType::kRunWarning: ++state_.warning_count; return;
      case EventType::kStepExit:
      case EventType::kOther: return;
    }
  }

 private:
  // ---- the run as a whole

  void Start() {
    if (state_.status != State::Status::kNew) return;
    const Json& context = event_.context;
    state_.status = State::Status::kRunning;
    state_.execution_id = event_.execution_id;
    state_.catalog_id = event_.catalog_id;
    state_.parent_execution_id = event_.parent_execution_id;
    state_.started_at_us = event_.created_at_us;
    state_.path = context["path"].ToString();
    state_.version = meta_["version"].AsInt();
    if (context["workload"].is_object()) state_.workload = context["workload"];
    state_.env = context["env"];
    state_.semantics = Semantics::FromJson(meta_["semantics"]);
    state_.pool = meta_["execution_pool"].ToString();
    state_.trace = meta_["trace"];
    state_.depth = meta_["depth"].AsInt();
    state_.parent_command_id = meta_["parent_command_id"].ToString();
    state_.return_step = meta_["return_step"].ToString();
    ++state_.context_version;
    MakeTokens("", 0, meta_["route"]["arcs"]);
  }

  void End(State::Status status) {
    state_.status = status;
    state_.ended_at_us = event_.created_at_us;
    state_.commands().clear();
    for (const std::string& name : state_.open_steps()) {
      StepState& step = state_.Touch(name);
      step.open.reset();
      step.outcome = StepState::Outcome::kCancelled;
    }
    state_.open_steps().clear();
    DropTokens();
  }

  void UpdateContext() {
    const Json& values = event_.result["context"]["values"];
    if (values.empty()) return;
    state_.ctx = state_.ctx.Merge(values);
    ++state_.context_version;
  }

  // ---- steps

  void Enter() {
    StepState& step = state_.Touch(event_.node_name);
    if (step.open) return;
    ConsumeTokens(step);
    const Json& context = event_.result["context"];
    Run run;
    run.number = ++step.runs;
    run.entered_at_us = event_.created_at_us;
    run.deadline_us = meta_["deadline_us"].AsInt();
    run.args = context["args"];
    run.final = meta_["final"].AsBool();
    if (run.final) state_.final_entered = true;
    if (context["__cursor_loop"].AsBool()) {
      run.kind = Run::Kind::kCursor;
      run.budget = std::clamp<std::int64_t>(context["max_in_flight"].AsInt(1), 1, kInFlightMax);
      run.slots.resize(static_cast<std::size_t>(run.budget));
    } else if (const Json& expected = context["iterations_expected"]; expected.is_int()) {
      run.kind = Run::Kind::kLoop;
      run.expected = std::max<std::int64_t>(expected.AsInt(), 0);
      run.budget = std::max<std::int64_t>(context["max_in_flight"].AsInt(1), 1);
      run.range = context["items_range"].AsBool();
      run.items = context["items_ref"].is_string() ? Json::Object({{"_ref", context["items_ref"]}})
                                                   : context["items"];
    }
    step.open = std::move(run);
    step.skip_reported = false;
    state_.open_steps().insert(step.name);
  }

  void Skip() {
    StepState& step = state_.Touch(event_.node_name);
    const Json& route = meta_["route"];
    if (!route.is_object()) {  // a dead branch: only said, nothing changes
      step.skip_reported = true;
      return;
    }
    if (step.open) return;
    ConsumeTokens(step);
    if (meta_["final"].AsBool()) state_.final_entered = true;
    const std::int64_t run = ++step.runs;
    step.outcome = OutcomeOf(route["outcome"].AsString());
    step.skip_reported = false;
    if (step.outcome == StepState::Outcome::kDenied &&
        std::ssize(state_.denied_steps) < kListedErrorsMax) {
      state_.denied_steps.push_back(step.name);
    }
    FollowRoute(step.name, run, route);
  }

  // Closes the open run of a step with a result (null keeps the previous one) and follows the
  // route.
  void Close(StepState& step, std::shared_ptr<const StepResult> result) {
    const std::int64_t run = step.open->number;
    const Json& route = meta_["route"];
    step.outcome = OutcomeOf(route["outcome"].AsString());
    step.open.reset();
    state_.open_steps().erase(step.name);
    if (result) {
      step.result = std::move(result);
      ++state_.context_version;
    }
    if (step.outcome == StepState::Outcome::kCompleted) state_.last_completed_step = step.name;
    FollowRoute(step.name, run, route);
  }

  void FollowRoute(const std::string& step, std::int64_t run, const Json& route) {
    const Json& arcs = route["arcs"];
    if (route["outcome"].AsString() == "failed" && arcs.empty()) {
      auto& failed = state_.failed_steps;
      if (std::find(failed.begin(), failed.end(), step) == failed.end()) failed.push_back(step);
      if (state_.first_error.empty()) state_.first_error = route["error"].ToString();
    }
    if (route["drain"].AsBool()) {
      state_.draining = true;
      DropTokens();
    }
    if (!state_.draining) MakeTokens(step, run, arcs);
  }

  void MakeTokens(const std::string& source, std::int64_t run, const Json& arcs) {
    for (const Json& arc : arcs.items()) {
      const std::string_view target = arc["step"].AsString();
      if (target.empty()) continue;  // a sink
      StepState& step = state_.Touch(target);
      const bool known = std::any_of(
          step.tokens.begin(), step.tokens.end(),
          [&](const Token& token) { return token.source == source && token.source_run == run; });
      if (known) continue;
      step.tokens.push_back({source, run, arc["args"]});
      state_.token_steps().insert(step.name);
    }
  }

  void ConsumeTokens(StepState& step) {
    step.tokens.clear();
    state_.token_steps().erase(step.name);
  }

  void DropTokens() {
    for (const std::string& name : state_.token_steps()) state_.Touch(name).tokens.clear();
    state_.token_steps().clear();
  }

  void FinishLoop() {
    StepState* step = state_.Find(event_.node_name);
    if (!step || !step->open || step->open->number != meta_["route"]["run"].AsInt()) return;
    auto result = std::make_shared<StepResult>();
    result->shape = step->open->kind == Run::Kind::kCursor ? StepResult::Shape::kCursor
                                                           : StepResult::Shape::kLoop;
    result->tool_kind = event_.node_type;
    result->data = event_.result["context"]["data"];
    result->reference = event_.result["reference"];
    result->failed = meta_["route"]["outcome"].AsString() == "failed";
    if (result->failed) {
      result->error = event_.error;
      result->error_info = step->open->error_info;
    }
    result->meta = RunMeta(step->open->number, step->open->entered_at_us, 1, result->failed);
    Close(*step, std::move(result));
  }

  // ---- commands

  void Issue() {
    const std::string_view id = meta_["command_id"].AsString();
    StepState* step = state_.Find(event_.node_name);
    if (id.empty() || state_.FindCommand(id) || !step || !step->open) return;
    Run& run = *step->open;
    if (run.number != meta_["run"].AsInt()) return;

    Command command;
    command.id = std::string(id);
    command.event_id = event_.event_id;
    command.step = step->name;
    command.run = run.number;
    command.attempt = meta_["attempt"].AsInt(1);
    command.lost = meta_["lost"].AsInt();
    command.reruns = meta_["reruns"].AsInt();
    command.tool_kind = meta_["tool_kind"].ToString();
    command.child_execution_id = meta_["child_execution_id"].AsInt();
    command.parked = command.child_execution_id != 0;
    if (const Json& cursor = meta_["cursor"]; cursor.is_object()) {
      if (!IssueCursor(run, cursor, &command)) return;
    } else if (const Json& index = meta_["iteration_index"]; index.is_int()) {
      command.kind = Command::Kind::kIteration;
      command.index = CountOf(index);
      run.next_index = std::max(run.next_index, command.index + 1);
    }
    ++run.in_flight;
    if (const Json& stored = meta_["context_version"]; stored.is_int()) {
      state_.context_stored = stored.AsInt();
      state_.context_ref = event_.context["render_context"]["__context_ref__"].ToString();
    }
    state_.commands().emplace(command.id, std::move(command));
  }

  static bool IssueCursor(Run& run, const Json& cursor, Command* command) {
    command->slot = cursor["slot"].AsInt();
    command->frame = CountOf(cursor["frame"]);
    command->index = CountOf(cursor["row"]);
    if (command->slot < 0 || command->slot >= std::ssize(run.slots)) return false;
    CursorSlot& slot = run.slots[static_cast<std::size_t>(command->slot)];
    if (cursor["phase"].AsString() == "claim") {
      command->kind = Command::Kind::kClaim;
      slot.phase = CursorSlot::Phase::kClaiming;
      slot.frame = command->frame;
      run.next_frame = std::max(run.next_frame, command->frame + 1);
    } else {
      command->kind = Command::Kind::kBody;
      slot.next_row = std::max(slot.next_row, command->index + 1);
      ++slot.in_flight;
    }
    return true;
  }

  Command* Known() { return state_.FindCommand(CommandIdOf(event_)); }

  void Claim() {
    Command* command = Known();
    if (!command) return;
    command->worker = event_.worker_id;
    command->claim_token = CountOf(meta_["claim_token"]);
    if (command->status == Command::Status::kIssued) command->status = Command::Status::kClaimed;
  }

  void ReleaseCommand() {
    Command* command = Known();
    if (!command || command->status != Command::Status::kClaimed) return;
    command->worker.clear();
    command->status = Command::Status::kIssued;
  }

  void StartCommand() {
    Command* command = Known();
    if (!command || command->status == Command::Status::kStarted) return;
    command->status = Command::Status::kStarted;
    command->started_at_us = event_.created_at_us;
    if (command->worker.empty()) command->worker = event_.worker_id;
  }

  // The RES of a call.done: {status, context: TOOLRESULT, reference?}. A callback has no RES; its
  // payload is the event's context.
  static Json ResOf(const Event& event) {
    const Json& context = event.result["context"];
    if (const Json* res = context.Find("result"); res && res->is_object()) return *res;
    const Json* data = context.Find("data");
    return Json::Object(
        {{"status", IsSuccess(event.status) ? "success" : "error"},
         {"context", Json::Object({{"data", data ? *data : context.Without("command_id")}})}});
  }

  void AttachResult() {
    Command* command = Known();
    if (!command) return AttachLateResult();
    if (command->reported) return;
    command->reported = true;
    command->report = ResOf(event_);
    command->callback = meta_["callback"].AsBool();
  }

  // Data that arrives after the end of its command still becomes the step's result; nothing is
  // routed again.
  void AttachLateResult() {
    StepState* step = state_.Find(event_.node_name);
    if (!step || step->awaits_data_of.empty() || step->awaits_data_of != CommandIdOf(event_))
      return;
    Command command;
    command.reported = true;
    command.report = ResOf(event_);
    const Report report = ReadReport(command, event_);
    auto result = std::make_shared<StepResult>(*step->result);
    result->data = report.data;
    result->order = report.order;
    result->reference = report.reference;
    step->result = std::move(result);
    step->awaits_data_of.clear();
    ++state_.context_version;
  }

  void AttachError() {
    Command* command = Known();
    if (!command || command->reported || !command->report.is_null()) return;
    const Json& context = event_.result["context"];
    command->report =
        Json::Object({{"error", context["error"]}, {"error_info", context["error_info"]}});
  }

  void CompleteCommand() {
    Command* command = Known();
    if (!command) return;
    if (meta_["parked"].AsBool()) {
      command->parked = true;
      return;
    }
    EndCommand(*command);
  }

  void FailCommand() {
    if (Command* command = Known()) return EndCommand(*command);
    if (!CommandIdOf(event_).empty()) return;  // late
    // An evaluation error before there was a command.
    StepState* step = state_.Find(event_.node_name);
    if (!step || !step->open || step->open->number != meta_["run"].AsInt()) return;
    if (meta_["route"].is_object()) {
      Command none;
      return Close(*step, std::make_shared<StepResult>(
                              MakeStepResult(none, ReadReport(none, event_), event_)));
    }
    FailUnissued(*step, *step->open);
  }

  void FailUnissued(StepState& step, Run& run) {
    const Report report{.ok = false, .error = event_.error};
    const Json& cursor = meta_["cursor"];
    if (cursor["phase"].AsString() == "claim") return StopLoop(run, report);
    if (cursor.is_object()) {
      const std::int64_t slot = cursor["slot"].AsInt();
      if (slot < 0 || slot >= std::ssize(run.slots)) return;
      std::int64_t& next_row = run.slots[static_cast<std::size_t>(slot)].next_row;
      next_row = std::max(next_row, CountOf(cursor["row"]) + 1);
    } else {
      run.next_index = std::max(run.next_index, CountOf(meta_["iteration_index"]) + 1);
    }
    CountIteration(step, run, report, meta_["iteration_index"].AsInt(-1));
  }

  // `meta.outcome` says what the end of the command means: completed, soft, failed or retry.
  void EndCommand(Command& ended) {
    const std::string_view outcome = meta_["outcome"].AsString();
    if (outcome.empty()) return;
    const Command command = std::move(ended);
    state_.commands().erase(state_.commands().find(CommandIdOf(event_)));
    StepState* step = state_.Find(command.step);
    if (!step || !step->open || step->open->number != command.run) return;
    Run& run = *step->open;
    --run.in_flight;
    CursorSlot* slot = SlotOf(run, command);
    if (slot && command.kind == Command::Kind::kBody) --slot->in_flight;
    if (outcome == "retry") {
      if (slot && command.kind == Command::Kind::kClaim) slot->phase = CursorSlot::Phase::kIdle;
      return;
    }
    const Report report = ReadReport(command, event_);
    switch (command.kind) {
      case Command::Kind::kSingle: return EndSingle(*step, command, report, outcome);
      case Command::Kind::kClaim: return EndClaim(run, *slot, report, outcome);
      case Command::Kind::kIteration:
      case Command::Kind::kBody: return CountIteration(*step, run, report, command.index);
    }
  }

  static CursorSlot* SlotOf(Run& run, const Command& command) {
    if (command.kind != Command::Kind::kClaim && command.kind != Command::Kind::kBody)
      return nullptr;
    return &run.slots[static_cast<std::size_t>(command.slot)];
  }

  void EndSingle(StepState& step, const Command& command, const Report& report,
                 std::string_view outcome) {
    if (outcome == "soft") ListSoftError(step.name, command.run, -1, report.error);
    const bool late_data = report.ok && !report.has_data;
    Close(step, std::make_shared<StepResult>(MakeStepResult(command, report, event_)));
    step.awaits_data_of = late_data ? command.id : std::string();
  }

  void EndClaim(Run& run, CursorSlot& slot, const Report& report, std::string_view outcome) {
    if (outcome == "failed") {
      slot.phase = CursorSlot::Phase::kDrained;
      return StopLoop(run, report);
    }
    slot.row_count = std::max<std::int64_t>(meta_["rows"].AsInt(), 0);
    slot.rows = report.reference.is_object() ? Json::Object({{"_ref", report.reference["ref"]}})
                                             : report.data["rows"];
    slot.next_row = 0;
    slot.phase = slot.row_count == 0 ? CursorSlot::Phase::kDrained : CursorSlot::Phase::kRows;
    if (slot.row_count == 0) slot.rows = Json();
  }

  void CountIteration(StepState& step, Run& run, const Report& report, std::int64_t index) {
    const std::string_view outcome = meta_["outcome"].AsString();
    if (outcome == "completed") ++run.succeeded;
    else ++run.failed;
    run.result_bytes = std::min(run.result_bytes + CountOf(meta_["result_bytes"]), kCountMax);
    if (index == 0 && run.first_result.is_null() && run.kind == Run::Kind::kLoop) {
      const std::int64_t bytes = meta_["result_bytes"].AsInt();
      run.first_result =
          bytes <= kFirstResultBytesMax ? SlotPayload(report) : Json::Object({{"_len", bytes}});
    }
    if (outcome == "soft") ListSoftError(step.name, run.number, index, report.error);
    if (outcome == "failed") StopLoop(run, report);
  }

  static Json SlotPayload(const Report& report) {
    if (report.ok || report.data.is_object()) return report.data;
    return Json::Object({{"error", report.error}});
  }

  void StopLoop(Run& run, const Report& report) {
    if (!run.failing) {
      run.error = report.error.empty() ? event_.error : report.error;
      run.error_info = report.error_info;
    }
    run.failing = true;
  }

  void CancelCommand() {
    Command* known = Known();
    if (!known) return WithdrawUnissued();
    const Command command = std::move(*known);
    state_.commands().erase(state_.commands().find(CommandIdOf(event_)));
    StepState* step = state_.Find(command.step);
    if (!step || !step->open || step->open->number != command.run) return;
    Run& run = *step->open;
    --run.in_flight;
    if (CursorSlot* slot = SlotOf(run, command)) {
      if (command.kind == Command::Kind::kBody) --slot->in_flight;
      else slot->phase = CursorSlot::Phase::kIdle;
    }
    const std::string_view reason = meta_["reason"].AsString();
    if (reason == "deadline") StopLoop(run, Report{.ok = false, .error = event_.error});
    if (reason == "withdrawn" && run.kind == Run::Kind::kPlain) Abandon(*step);
  }

  // A step that was entered but never got its command.
  void WithdrawUnissued() {
    StepState* step = state_.Find(event_.node_name);
    if (!step || !step->open || !meta_["run"].is_int() ||
        step->open->number != meta_["run"].AsInt())
      return;
    if (step->open->in_flight == 0) Abandon(*step);
  }

  void Abandon(StepState& step) {
    step.open.reset();
    step.outcome = StepState::Outcome::kCancelled;
    state_.open_steps().erase(step.name);
  }

  void ListSoftError(const std::string& step, std::int64_t run, std::int64_t index,
                     std::string error) {
    if (state_.soft_error_count++ < kListedErrorsMax) {
      state_.soft_errors.push_back({step, run, index, std::move(error)});
    }
  }

  Json RunMeta(std::int64_t run, std::int64_t started_us, std::int64_t attempt, bool failed) const {
    return Json::Object({{"status", failed ? "error" : "ok"},
                         {"attempt", attempt},
                         {"run", run},
                         {"started_at", FormatTime(started_us)},
                         {"ended_at", FormatTime(event_.created_at_us)},
                         {"duration_ms", ElapsedMs(started_us, event_.created_at_us)}});
  }

  State& state_;
  const Event& event_;
  const Json& meta_;
};

// The report of a tool that ended in error always has a text.
void CompleteError(Report* report, const Event& end) {
  if (report->error.empty()) report->error = end.error;
  if (report->error.empty()) report->error = report->error_info["message"].ToString();
  if (report->error.empty()) report->error = "the tool reported an error without a message";
}

std::string ErrorText(const Json& error) {
  if (error.is_string()) return error.ToString();
  return error["message"].ToString();
}

}  // namespace

Report ReadReport(const Command& command, const Event& end) {
  Report report;
  const Json& context = end.result["context"];
  if (command.reported) {
    const Json& tool = command.report["context"];
    report.ok = IsSuccess(tool["status"].is_string() ? tool["status"].AsString()
                                                     : command.report["status"].AsString());
    report.reference = command.report["reference"];
    report.data = report.reference.is_object() ? report.reference["extracted"] : tool["data"];
    report.has_data = tool.Has("data") || report.reference.is_object();
    report.order = tool["order"];
    report.error = ErrorText(tool["error"]);
    report.error_info = tool["error_info"].is_object() ? tool["error_info"]
                        : tool["error"].is_object()    ? tool["error"]
                                                       : Json();
    report.ctx_updates = tool["ctx_updates"];
    if (const Json* updates = report.data.Find("_context_updates")) {
      report.ctx_updates = *updates;
      report.data = report.data.Without("_context_updates");
    }
  }
  if (end.type == EventType::kCommandFailed) {
    report.ok = false;
    const Json& info =
        context["error_info"].is_object() ? context["error_info"] : command.report["error_info"];
    if (report.error.empty()) report.error = ErrorText(context["error"]);
    if (report.error.empty()) report.error = ErrorText(command.report["error"]);
    if (report.error_info.is_null()) report.error_info = info;
    if (!report.has_data && context["result"].is_object()) {
      report.data = context["result"];
      report.has_data = true;
    }
  } else if (end.type == EventType::kCommandCompleted && !end.status.empty() && !command.callback) {
    report.ok = report.ok && IsSuccess(end.status);
  }
  if (!report.ok) CompleteError(&report, end);
  return report;
}

StepResult MakeStepResult(const Command& command, const Report& report, const Event& end) {
  StepResult result;
  result.tool_kind = command.tool_kind;
  result.shape = command.child_execution_id ? StepResult::Shape::kChild : StepResult::Shape::kPlain;
  result.data = report.data;
  result.order = report.order;
  result.reference = report.reference;
  result.failed = !report.ok;
  if (!report.ok) {
    if (!report.data.is_object()) result.data = Json::Object({{"error", report.error}});
    result.error = report.error;
    result.error_info = report.error_info;
  }
  if (command.child_execution_id) {
    result.accessors = Json::Object({{"execution_id", std::to_string(command.child_execution_id)},
                                     {"child_status", end.meta["child_status"]},
                                     {"status", end.meta["child_status"]}});
  }
  JsonObjectBuilder meta;
  meta.Add("status", report.ok ? "ok" : "error")
      .Add("attempt", command.attempt)
      .Add("run", command.run)
      .AddSome("worker_id", command.worker.empty() ? Json() : Json(command.worker))
      .Add("ended_at", FormatTime(end.created_at_us));
  if (command.started_at_us > 0) {
    meta.Add("started_at", FormatTime(command.started_at_us))
        .Add("duration_ms", ElapsedMs(command.started_at_us, end.created_at_us));
  }
  result.meta = meta.Build();
  return result;
}

void Fold(State& state, const Event& event) {
  if (event.seq <= state.seq) return;  // already folded
  state.seq = event.seq;
  state.last_event_id = event.event_id;
  state.highest_event_id = std::max(state.highest_event_id, event.event_id);
  state.last_ingest_us = std::max(state.last_ingest_us, event.ingest_us);
  if (state.terminal()) return;
  if (state.status == State::Status::kNew && event.type != EventType::kPlaybookStarted) return;
  Folder(state, event).Apply();
}

}  // namespace noetl::engine
