#include "sim/invariants.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_io.h"

namespace noetl::sim {

using engine::EventType;

namespace {

constexpr std::string_view kSingle = "single", kIteration = "iter", kClaim = "claim",
                           kBody = "body";

bool IsWorkerEvent(const engine::Event& event) {
  switch (event.type) {
    case EventType::kCommandClaimed:
    case EventType::kCommandStarted:
    case EventType::kCallDone:
    case EventType::kCallError:
    case EventType::kCommandCompleted:
    case EventType::kCommandFailed: return true;
    default: return false;
  }
}

bool SameStep(const engine::StepState& a, const engine::StepState& b) {
  const bool results = a.result == b.result || (a.result && b.result && *a.result == *b.result);
  return results && a.name == b.name && a.runs == b.runs && a.open == b.open &&
         a.tokens == b.tokens && a.outcome == b.outcome && a.skip_reported == b.skip_reported &&
         a.awaits_data_of == b.awaits_data_of;
}

}  // namespace

// ---- the graph

PlainGraph::Matrix PlainGraph::Closure(Matrix direct) {
  const std::size_t size = direct.size();
  for (std::size_t via = 0; via < size; ++via) {
    for (std::size_t from = 0; from < size; ++from) {
      if (!direct[from][via]) continue;
      for (std::size_t to = 0; to < size; ++to) {
        if (direct[via][to]) direct[from][to] = true;
      }
    }
  }
  return direct;
}

PlainGraph::PlainGraph(const playbook::Playbook& playbook) {
  const std::size_t size = playbook.steps.size();
  const Matrix none(size, std::vector<bool>(size));
  Matrix arcs = none;
  for (const playbook::Step& step : playbook.steps) {
    for (const playbook::Arc& arc : step.arcs) {
      if (arc.target_index >= 0) arcs[Index(step.index)][Index(arc.target_index)] = true;
    }
  }
  reach_ = Closure(arcs);
  const std::size_t entry = Index(playbook.entry);
  const auto reached = [&](const Matrix& closed, std::size_t step) {
    return step == entry || closed[entry][step];
  };
  Matrix forward = arcs;
  for (std::size_t target = 0; target < size; ++target) {
    // What the entry still reaches when the target is taken away is not dominated by it.
    Matrix without = arcs;
    for (std::size_t i = 0; i < size; ++i) without[i][target] = without[target][i] = false;
    const Matrix closed = Closure(without);
    for (std::size_t source = 0; source < size; ++source) {
      if (!arcs[source][target] || !reached(reach_, source)) continue;
      const bool dominates = source == target || target == entry || !reached(closed, source);
      if (dominates) forward[source][target] = false;
    }
  }
  forward_ = Closure(forward);
  bool cycles = false;
  for (std::size_t i = 0; i < size; ++i) cycles = cycles || forward_[i][i];
  // An irreducible graph: which of its arcs lead back is a choice, and the engine's counts.
  if (cycles) {
    forward = none;
    for (const playbook::Step& step : playbook.steps) {
      for (std::size_t arc = 0; arc < step.arcs.size(); ++arc) {
        const int target = step.arcs[arc].target_index;
        if (target >= 0 && !playbook.graph.IsBackArc(step.index, static_cast<int>(arc))) {
          forward[Index(step.index)][Index(target)] = true;
        }
      }
    }
    forward_ = Closure(forward);
  }
  in_.resize(size);
  for (std::size_t source = 0; source < size; ++source) {
    for (std::size_t target = 0; target < size; ++target) {
      if (forward[source][target]) in_[target].insert(static_cast<int>(source));
    }
  }
}

bool SameState(const engine::State& a, const engine::State& b) {
  const auto scalars = [](const engine::State& s) {
    return std::tie(s.execution_id, s.catalog_id, s.parent_execution_id, s.parent_command_id,
                    s.return_step, s.depth, s.path, s.version, s.pool, s.semantics, s.status, s.seq,
                    s.last_event_id, s.highest_event_id, s.last_ingest_us, s.started_at_us,
                    s.ended_at_us, s.context_version, s.context_stored, s.context_ref, s.draining,
                    s.final_entered, s.failed_steps, s.first_error, s.soft_errors,
                    s.soft_error_count, s.denied_steps, s.warning_count, s.last_completed_step);
  };
  if (scalars(a) != scalars(b)) return false;
  if (!(a.trace == b.trace && a.env == b.env && a.workload == b.workload && a.ctx == b.ctx))
    return false;
  if (a.open_steps() != b.open_steps() || a.token_steps() != b.token_steps()) return false;
  if (a.commands() != b.commands() || a.steps().size() != b.steps().size()) return false;
  return std::equal(a.steps().begin(), a.steps().end(), b.steps().begin(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && SameStep(x.second, y.second);
                    });
}

// ---- following the log

Invariants::Invariants(const Plan& plan, std::shared_ptr<const playbook::Playbook> playbook,
                       const PlainGraph& graph, Options options)
    : plan_(plan),
      playbook_(std::move(playbook)),
      graph_(graph),
      options_(options),
      samples_(options.seed) {
  steps_.resize(playbook_->steps.size());
}

void Invariants::Fail(std::string_view promise, const Event& event, std::string detail) {
  if (!failure_.empty()) return;
  failure_ = fmt::format("{}: {} (run {}, seq {}, {} {})", promise, detail, event.execution_id,
                         event.seq, event.type_name, event.node_name);
}

bool Invariants::Sampled(int percent) {
  samples_ = Mix(samples_, 1);
  return static_cast<int>(samples_ % 100) < percent;
}

const PlanStep* Invariants::PlanOf(int step) const {
  const std::string& name = playbook_->steps[static_cast<std::size_t>(step)].name;
  for (const PlanStep& candidate : plan_.steps) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

bool Invariants::Live(int step) const {
  const StepModel& model = steps_[static_cast<std::size_t>(step)];
  return model.open || !model.tokens.empty();
}

bool Invariants::Quiescent() const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (Live(static_cast<int>(i))) return false;
  }
  return true;
}

// A predecessor that has not arrived may still come.
bool Invariants::MustWait(int step) const {
  const StepModel& model = steps_[static_cast<std::size_t>(step)];
  for (const int predecessor : graph_.In(step)) {
    const bool arrived = std::any_of(model.tokens.begin(), model.tokens.end(),
                                     [&](const auto& token) { return token.first == predecessor; });
    if (arrived) continue;
    for (int live = 0; live < static_cast<int>(steps_.size()); ++live) {
      if (live == step || !Live(live)) continue;
      if (live == predecessor || graph_.ForwardReach(live, predecessor)) return true;
    }
  }
  return false;
}

void Invariants::Committed(const Execution& execution, const engine::Unit& unit) {
  if (!failure_.empty()) return;
  for (const Event& event : unit.events) {
    CheckChain(event);
    CheckResultShape(event);
    CheckAfterTerminal(event);
    Follow(event);
    engine::Fold(replay_, event);
    if (Sampled(options_.thorough_percent)) CheckDuplicate(event);
    if (!failure_.empty()) return;
  }
  CheckReplay(execution, Sampled(options_.thorough_percent));
  if (!unit.more && !unit.events.empty()) CheckRest(execution);
  if (Sampled(options_.thorough_percent / 2)) CheckSnapshots(execution);
}

void Invariants::Follow(const Event& event) {
  const int step = event.node_name.empty() ? -1 : IndexOf(event.node_name);
  switch (event.type) {
    case EventType::kPlaybookStarted: return Start(event);
    case EventType::kPlaybookCompleted:
    case EventType::kPlaybookFailed:
    case EventType::kPlaybookCancelled: return Terminal(event);
    case EventType::kCtxUpdated: ctx_ = ctx_.Merge(event.result["context"]["values"]); return;
    default: break;
  }
  if (terminal_ || step < 0) return;
  switch (event.type) {
    case EventType::kStepEnter: return Enter(event, step);
    case EventType::kStepSkipped: return Skip(event, step);
    case EventType::kCommandIssued: return Issue(event, step);
    case EventType::kCommandCompleted:
    case EventType::kCommandFailed: return EndCommand(event, step);
    case EventType::kCommandCancelled: return CancelCommand(event, step);
    case EventType::kCommandClaimed:
    case EventType::kCommandStarted:
      if (const auto found = open_.find(engine::CommandIdOf(event)); found != open_.end())
        found->second.taken = true;
      return;
    case EventType::kLoopDone: CheckLoopEnd(event, step); return EndRun(event, step);
    default: return;
  }
}

void Invariants::Start(const Event& event) {
  if (event.seq != 1) Fail("I1", event, "the first event of a run is its start");
  At(playbook_->entry).tokens.emplace(-1, 0);
}

void Invariants::Enter(const Event& event, int step) {
  StepModel& model = At(step);
  CheckAdmission(event, step);
  const Json& context = event.result["context"];
  OpenRun run;
  run.number = ++model.runs;
  if (context["run"].AsInt() != run.number) Fail("I19", event, "run numbers count 1, 2, 3");
  run.final = event.meta["final"].AsBool();
  run.cursor = context["__cursor_loop"].AsBool();
  run.loop = context["iterations_expected"].is_int();
  run.expected = context["iterations_expected"].AsInt();
  run.budget = context["max_in_flight"].AsInt(1);
  run.items = context["items"];
  run.range = context["items_range"].AsBool();
  run.entered_seq = event.seq;
  model.open = std::move(run);
  model.tokens.clear();
  model.skip_reported = false;
}

void Invariants::Skip(const Event& event, int step) {
  if (!event.meta["route"].is_object()) return CheckDeadBranch(event, step);
  const bool guard = event.meta["reason"].AsString() == "guard";
  if (event.meta["route"]["outcome"].AsString() == (guard ? "denied" : "skipped")) {
    Fail("I16", event, "a guard skips, admission denies");
  }
  StepModel& model = At(step);
  CheckAdmission(event, step);
  OpenRun run;
  run.number = ++model.runs;
  run.final = event.meta["final"].AsBool();
  model.open = run;
  model.tokens.clear();
  model.skip_reported = false;
  EndRun(event, step);
}

void Invariants::Issue(const Event& event, int step) {
  StepModel& model = At(step);
  const Json& meta = event.meta;
  if (!model.open || model.open->number != meta["run"].AsInt()) {
    return Fail("I9", event, "a command belongs to a run that was entered and is open");
  }
  OpenCommand command{.step = step, .run = model.open->number, .kind = kSingle};
  if (const Json& cursor = meta["cursor"]; cursor.is_object()) {
    command.kind = cursor["phase"].AsString() == "claim" ? kClaim : kBody;
    command.slot = cursor["slot"].AsInt();
    command.frame = cursor["frame"].AsInt();
    command.index = cursor["row"].AsInt();
  } else if (meta["iteration_index"].is_int()) {
    command.kind = kIteration;
    command.index = meta["iteration_index"].AsInt();
  }
  CheckIssue(event, command, *model.open);
  open_.emplace(meta["command_id"].ToString(), command);
}

void Invariants::EndCommand(const Event& event, int step) {
  const std::string_view id = engine::CommandIdOf(event);
  const std::string_view outcome = event.meta["outcome"].AsString();
  const auto found = open_.find(id);
  const bool unissued = id.empty() && event.meta["run"].is_int();
  if (found == open_.end() && !unissued) {
    if (event.meta.Has("route") || event.meta.Has("outcome"))
      Fail("I4", event, "a late event decides nothing");
    return;
  }
  if (event.meta["parked"].AsBool()) return;
  if (outcome.empty()) return Fail("I15", event, "the end of a command says what it means");
  StepModel& model = At(step);
  if (!model.open) return Fail("I15", event, "the end of a command of a run that is not open");
  OpenRun& run = *model.open;
  if (unissued) {
    if (event.meta["cursor"]["phase"].AsString() == "claim") run.failing = true;
    else if (run.loop || run.cursor) run.failing = run.failing || outcome == "failed";
    if (event.meta["iteration_index"].is_int()) {
      run.done.insert(event.meta["iteration_index"].AsInt());
      run.next_index = std::max(run.next_index, event.meta["iteration_index"].AsInt() + 1);
    }
    if (event.meta["route"].is_object()) EndRun(event, step);
    return;
  }
  const OpenCommand command = found->second;
  open_.erase(found);
  --run.in_flight;
  if (command.kind == kBody) --run.slot_bodies[command.slot];
  if (outcome == "retry") return;
  if (outcome == "failed" && command.kind != kSingle) run.failing = true;
  if (command.kind == kSingle) return EndRun(event, step);
  run.succeeded += outcome == "completed" && command.kind != kClaim ? 1 : 0;
  if (command.kind == kIteration && !run.done.insert(command.index).second) {
    Fail("I26", event, "an iteration ends once");
  }
  if (command.kind == kClaim && outcome == "completed") {
    run.frame_rows[command.frame] = run.slot_rows[command.slot] = event.meta["rows"].AsInt(-1);
  }
}

void Invariants::CancelCommand(const Event& event, int step) {
  StepModel& model = At(step);
  const auto found = open_.find(engine::CommandIdOf(event));
  const bool withdrawn = event.meta["reason"].AsString() == "withdrawn";
  if (withdrawn && !draining_)
    Fail("I13", event, "commands are withdrawn only after an unhandled failure");
  if (found == open_.end()) {
    if (!model.open) return Fail("I15", event, "a run that is not open is withdrawn");
    return CloseRun(step, "cancelled");
  }
  const OpenCommand command = found->second;
  open_.erase(found);
  // Losing a worker while draining also withdraws: then the command had been taken, and lost.
  if (withdrawn && command.taken && !options_.lose_workers)
    Fail("I33", event, "a command that a worker has is withdrawn");
  OpenRun& run = *model.open;
  --run.in_flight;
  if (command.kind == kBody) --run.slot_bodies[command.slot];
  if (event.meta["reason"].AsString() == "deadline") run.failing = true;
  if (withdrawn && command.kind == kSingle) CloseRun(step, "cancelled");
}

void Invariants::CloseRun(int step, std::string outcome) {
  StepModel& model = At(step);
  model.open.reset();
  model.outcomes.push_back(std::move(outcome));
}

// The run of a step ends and its route is followed.
void Invariants::EndRun(const Event& event, int step) {
  StepModel& model = At(step);
  const Json& route = event.meta["route"];
  if (!model.open || route["run"].AsInt() != model.open->number) {
    return Fail("I15", event, "each run is routed once, when it ends");
  }
  const std::int64_t run = model.open->number;
  CheckRoute(event, step, run);
  const std::string outcome = route["outcome"].ToString();
  CloseRun(step, outcome);
  const bool completed = outcome == "completed" || outcome == "soft";
  // No arc matched where one had to: the run itself had completed and its `set` counts.
  const bool ran = event.type == EventType::kLoopDone
                       ? event.status == "COMPLETED"
                       : event.meta["outcome"].AsString() == "completed" ||
                             event.meta["outcome"].AsString() == "soft";
  if (completed || (outcome == "failed" && ran)) ++model.sets;
  if (outcome == "failed" && route["arcs"].empty()) ++unhandled_;
  if (route["drain"].AsBool()) {
    draining_ = true;
    for (StepModel& other : steps_) other.tokens.clear();
  }
  if (draining_) return;
  for (const Json& arc : route["arcs"].items()) {
    if (!arc.Has("step")) continue;
    At(IndexOf(arc["step"].AsString())).tokens.emplace(step, run);
  }
}

void Invariants::Terminal(const Event& event) {
  if (terminal_) return Fail("I28", event, "a run ends once");
  terminal_ = true;
  status_ = event.status;
  if (event.meta["reason"].AsString() == "evaluate_error") evaluate_error_ = true;
  const bool finalized = event.meta["emitted_by"].AsString() == "finalize_api";
  if (event.type == EventType::kPlaybookCompleted && !finalized) {
    if (!Quiescent() || !open_.empty()) Fail("I31", event, "COMPLETED although something is open");
    if (unhandled_ > 0) Fail("I32", event, "COMPLETED although a failure was not handled");
  }
  if (event.type != EventType::kPlaybookCancelled && !finalized && !event.meta.Has("reason"))
    CheckLastSteps(event);
  if (event.type == EventType::kPlaybookFailed) {
    const bool named = !event.meta["failed_steps"].empty() || event.meta.Has("reason");
    if (!named) Fail("I31", event, "FAILED without failed steps and without a reason");
  }
}

// final_step runs whatever happened, an implicit end when nothing failed.
void Invariants::CheckLastSteps(const Event& event) {
  if (playbook_->final >= 0 && At(playbook_->final).runs != 1)
    Fail("I30", event, "final_step was not entered");
  if (playbook_->implicit_end && unhandled_ == 0 && At(playbook_->end).runs != 1) {
    Fail("I30", event, "the end that no arc leads to was not entered");
  }
}

// ---- promises about single events

void Invariants::CheckChain(const Event& event) {
  if (event.seq != last_seq_ + 1) Fail("I1", event, fmt::format("seq follows {}", last_seq_));
  if (event.prev_event_id != last_event_id_)
    Fail("I1", event, "prev_event_id names the event before");
  last_seq_ = event.seq;
  last_event_id_ = event.event_id;
}

void Invariants::CheckResultShape(const Event& event) {
  if (event.result.is_null()) return;
  bool good = event.result.is_object() && event.result["status"].is_string();
  for (const JsonMember& member : event.result.members()) {
    if (member.key() == "status") continue;
    good = good && (member.key() == "context" || member.key() == "reference") &&
           member.value.is_object();
  }
  if (!good) Fail("I7", event, "result has only status, reference and context");
}

void Invariants::CheckAfterTerminal(const Event& event) {
  if (!terminal_) return;
  if (!IsWorkerEvent(event)) Fail("I13", event, "nothing is decided after the end");
  if (event.meta.Has("route") || event.meta.Has("outcome"))
    Fail("I29", event, "an event after the end has a meaning");
}

void Invariants::CheckAdmission(const Event& event, int step) {
  const StepModel& model = At(step);
  const bool final = event.meta["final"].AsBool();
  if (model.open) Fail("I19", event, "a step has one open run at most");
  if (draining_ && !final) Fail("I13", event, "nothing is entered while draining");
  if (model.tokens.empty()) {
    const bool implicit_end = playbook_->implicit_end && step == playbook_->end;
    if (!final && !implicit_end) Fail("I21", event, "a step is entered by a token");
    if (!Quiescent()) Fail("I21", event, "the last steps are entered when all else has ended");
  } else if (MustWait(step)) {
    Fail("I17", event, "a join does not wait for a predecessor that may still come");
  }
}

void Invariants::CheckDeadBranch(const Event& event, int step) {
  StepModel& model = At(step);
  if (model.skip_reported) Fail("I20", event, "a dead branch is reported once");
  if (Live(step)) Fail("I20", event, "a live step is reported as skipped");
  for (int live = 0; live < static_cast<int>(steps_.size()); ++live) {
    if (Live(live) && graph_.Reach(live, step))
      Fail("I20", event, "a step that can be reached is reported as skipped");
  }
  model.skip_reported = true;
}

void Invariants::CheckRoute(const Event& event, int step, std::int64_t run) {
  const playbook::Step& known = playbook_->steps[static_cast<std::size_t>(step)];
  const Json& route = event.meta["route"];
  const bool failed = route["outcome"].AsString() == "failed";
  std::int64_t last = -1;
  for (const Json& arc : route["arcs"].items()) {
    const std::int64_t i = arc["i"].AsInt(-1);
    if (i <= last || i >= std::ssize(known.arcs))
      return Fail("I16", event, "arcs are chosen once, in order");
    last = i;
    const playbook::Arc& chosen = known.arcs[static_cast<std::size_t>(i)];
    if (arc["step"].AsString() !=
        (chosen.target_index < 0 ? std::string_view() : std::string_view(chosen.target))) {
      Fail("I16", event, "the arc leads to another step");
    }
    if (failed && chosen.when.is_absent())
      Fail("I32", event, "an arc without a condition caught a failure");
  }
  if (known.mode == playbook::RouteMode::kExclusive && route["arcs"].size() > 1) {
    Fail("I16", event, "an exclusive router chooses one arc");
  }
  if (draining_ && !route["arcs"].empty()) Fail("I13", event, "arcs fire while draining");
  const bool drains = failed && route["arcs"].empty() && !known.best_effort;
  if (drains != route["drain"].AsBool())
    Fail("I32", event, "an unhandled failure drains the run, nothing else does");
  CheckSelection(event, step, run);
}

// For plain steps the plan knows which arcs hold.
void Invariants::CheckSelection(const Event& event, int step, std::int64_t run) {
  const PlanStep* plan = PlanOf(step);
  const Json& route = event.meta["route"];
  const std::string_view outcome = route["outcome"].AsString();
  if (!plan || draining_ || options_.late_data || At(step).open->final) return;
  if (plan->loop != PlanStep::Loop::kNone || plan->tool != PlanStep::Tool::kSingle) return;
  const bool skipped = outcome == "skipped";
  if (!skipped &&
      (event.type != EventType::kCommandCompleted || (outcome != "completed" && outcome != "soft")))
    return;
  // A skipped step has no answer: only arcs that need none hold.
  const std::int64_t x = skipped ? -1 : AnswerOf(plan_, plan->name, run, -1, -1);
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < plan->arcs.size(); ++i) {
    bool holds = true;
    switch (plan->arcs[i].when) {
      case PlanArc::When::kAbsent:
      case PlanArc::When::kTrue: break;
      case PlanArc::When::kFalse: holds = false; break;
      case PlanArc::When::kData: holds = x > plan->arcs[i].threshold; break;
      case PlanArc::When::kMore: holds = !skipped && run < plan->repeats; break;
      case PlanArc::When::kCounter:
        holds = outcome == "completed" && At(step).sets + 1 < plan->repeats;
        break;
      case PlanArc::When::kError: holds = outcome == "soft"; break;
      case PlanArc::When::kDone: holds = outcome == "completed"; break;
    }
    if (!holds) continue;
    expected.push_back(static_cast<std::int64_t>(i));
    if (!plan->inclusive) break;
  }
  std::vector<std::int64_t> chosen;
  for (const Json& arc : route["arcs"].items()) chosen.push_back(arc["i"].AsInt());
  if (chosen != expected) {
    Fail("I16", event,
         fmt::format("arcs [{}] hold, [{}] were chosen", fmt::join(expected, " "),
                     fmt::join(chosen, " ")));
  }
}

// ---- promises about commands

void Invariants::CheckIssue(const Event& event, const OpenCommand& command, OpenRun& run) {
  if (!command_ids_.insert(event.meta["command_id"].ToString()).second)
    Fail("I8", event, "a command id is used twice");
  if (!command_keys_.insert(event.meta["command_key"].ToString()).second)
    Fail("I8", event, "a command is issued twice");
  if (draining_ && !run.final) Fail("I13", event, "a command is issued while draining");
  CheckAttempts(event);
  ++run.in_flight;
  const bool first = event.meta["attempt"].AsInt() == 1;
  if (command.kind == kSingle && run.in_flight > 1)
    Fail("I14", event, "a plain run has one command");
  if (command.kind == kIteration) {
    if (run.in_flight > run.budget)
      Fail("I14", event, fmt::format("{} of {} in flight", run.in_flight, run.budget));
    if (first && command.index != run.next_index++)
      Fail("I24", event, "iterations are issued in order");
    if (run.done.contains(command.index))
      Fail("I26", event, "an iteration that ended is issued again");
    CheckItem(event, command, run);
  }
  if (command.kind == kClaim || command.kind == kBody) {
    if (command.slot >= run.budget) Fail("I14", event, "more slots than max_in_flight");
  }
  const playbook::Step& step = playbook_->steps[static_cast<std::size_t>(command.step)];
  if (command.kind == kBody) {
    if (++run.slot_bodies[command.slot] > step.loop->frame.row_concurrency)
      Fail("I14", event, "too many rows at once");
    if (first && !run.bodies[command.frame].insert(command.index).second)
      Fail("I27", event, "a row is handled twice");
    const auto rows = run.frame_rows.find(command.frame);
    if (rows == run.frame_rows.end() || command.index >= rows->second)
      Fail("I27", event, "a row that was not claimed");
    const Json& item = event.context["iteration"]["item"];
    const bool right =
        step.loop->frame.whole_frame
            ? item.is_array() && item.At(0)["frame"].AsInt(-1) == command.frame
            : item["frame"].AsInt(-1) == command.frame && item["row"].AsInt(-1) == command.index;
    if (!right) Fail("I27", event, "the body got another row");
  }
  if (command.kind == kClaim && run.slot_bodies[command.slot] > 0)
    Fail("I27", event, "a claim before its frame is done");
}

void Invariants::CheckAttempts(const Event& event) {
  const std::string key = event.meta["command_key"].ToString();
  const std::int64_t attempt = event.meta["attempt"].AsInt();
  std::int64_t& last = attempts_[key.substr(0, key.rfind('|'))];
  if (attempt != last + 1) Fail("I12", event, fmt::format("attempt {} follows {}", attempt, last));
  last = attempt;
  const std::int64_t lost = event.meta["lost"].AsInt();
  if (lost >= event.meta["max_attempts"].AsInt())
    Fail("I12", event, "more attempts than max_attempts");
}

void Invariants::CheckItem(const Event& event, const OpenCommand& command, const OpenRun& run) {
  const Json& item = event.context["iteration"]["item"];
  if (run.range && item != Json(command.index))
    Fail("I23", event, "an item of a range is its index");
  if (run.items.is_array() && item != run.items.At(static_cast<std::size_t>(command.index))) {
    Fail("I23", event, "the item is not the one that was pinned at entry");
  }
  if (event.meta["iteration_total"].AsInt() != run.expected)
    Fail("I26", event, "iteration_total is of another run");
}

// ---- promises about loops

void Invariants::CheckLoopEnd(const Event& event, int step) {
  if (!At(step).open) return Fail("I15", event, "a loop that is not open ends");
  const OpenRun& run = *At(step).open;
  const Json& data = event.result["context"]["data"];
  const std::string_view outcome = event.status;
  if (run.in_flight > 0) Fail("I22", event, "a loop ends while commands are open");
  if (outcome == "COMPLETED" && run.failing)
    Fail("I32", event, "a loop with a failed iteration completed");
  if (run.cursor) return CheckCursorEnd(event, run);
  if (data["stats"]["total"].AsInt(-1) != run.expected)
    Fail("I25", event, "stats.total is the number of items");
  if (run.expected == 0 && event.seq - run.entered_seq > 2)
    Fail("I25", event, "an empty loop ends where it is entered");
  if (outcome != "COMPLETED") return;
  if (std::ssize(run.done) != run.expected) {
    return Fail("I22", event,
                fmt::format("{} of {} iterations ended", run.done.size(), run.expected));
  }
  const Json& stats = data["stats"];
  if (stats["success"].AsInt() != run.succeeded)
    Fail("I26", event, "success counts what succeeded");
  if (stats["success"].AsInt() + stats["failed"].AsInt() != run.expected)
    Fail("I26", event, "success and failed add up");
  const Json& results = data["results"];
  if (results.Has("_ref")) return;
  if (!results.is_array() || std::ssize(results.items()) != run.expected)
    return Fail("I22", event, "one result per item");
  const PlanStep* plan = PlanOf(step);
  if (options_.late_data || !plan || plan->tool != PlanStep::Tool::kSingle) return;
  for (std::int64_t i = 0; i < run.expected; ++i) {
    const Json& result = results.At(static_cast<std::size_t>(i));
    if (result.Has("error") && !result.Has("i")) continue;  // a hard failure has no payload
    if (result["i"].AsInt(-1) != i || result["run"].AsInt() != run.number) {
      Fail("I22", event, fmt::format("result {} is {}", i, WriteJson(result)));
    }
  }
}

void Invariants::CheckCursorEnd(const Event& event, const OpenRun& run) {
  if (event.status != "COMPLETED") return;
  for (std::int64_t slot = 0; slot < run.budget; ++slot) {
    const auto rows = run.slot_rows.find(slot);
    if (rows == run.slot_rows.end() || rows->second != 0)
      Fail("I27", event, "a slot ends with an empty claim");
  }
  const playbook::Step& step = playbook_->steps[static_cast<std::size_t>(IndexOf(event.node_name))];
  std::int64_t frames = 0;
  for (const auto& [frame, rows] : run.frame_rows) {
    const std::int64_t bodies =
        step.loop->frame.whole_frame ? std::min<std::int64_t>(rows, 1) : rows;
    const auto found = run.bodies.find(frame);
    const std::int64_t issued = found == run.bodies.end() ? 0 : std::ssize(found->second);
    if (issued != bodies)
      Fail("I27", event, fmt::format("frame {}: {} of {} rows", frame, issued, bodies));
    frames += rows > 0 ? 1 : 0;
  }
  const PlanStep* plan = PlanOf(step.index);
  const Json& data = event.result["context"]["data"];
  if (data["frames"].AsInt(-1) != frames)
    Fail("I27", event, "frames counts the claims that had rows");
  if (plan && frames != plan->frames)
    Fail("I27", event, fmt::format("{} of {} frames were claimed", frames, plan->frames));
}

// ---- promises about the state

// The same worker event once more, under a new number, changes nothing.
void Invariants::CheckDuplicate(const Event& event) {
  if (!IsWorkerEvent(event) || engine::CommandIdOf(event).empty()) return;
  engine::State again = replay_;
  Event repeated = event;
  repeated.seq = again.seq + 1;
  engine::Fold(again, repeated);
  again.seq = replay_.seq;
  again.last_event_id = replay_.last_event_id;
  if (!SameState(again, replay_)) Fail("I4", event, "a repeated event changed the state");
  engine::State same = replay_;
  engine::Fold(same, event);
  if (!SameState(same, replay_))
    Fail("I4", event, "folding the same event twice changed the state");
}

void Invariants::CheckReplay(const Execution& execution, bool thorough) {
  const Event& last = execution.log.empty() ? Event() : execution.log.back();
  if (!SameState(replay_, execution.state)) {
    return Fail(
        "I2", last,
        fmt::format("replay gives another state\nreplay {}\nstate  {}",
                    CanonicalJson(replay_.ToJson()), CanonicalJson(execution.state.ToJson())));
  }
  if (ctx_ != execution.state.ctx) Fail("I34", last, "replaying ctx.updated gives another ctx");
  if (!thorough) return;
  engine::State scratch;
  for (const Event& event : execution.log) engine::Fold(scratch, event);
  if (CanonicalJson(scratch.ToJson()) != CanonicalJson(execution.state.ToJson())) {
    Fail("I2", last, "replay from scratch gives another state");
  }
}

// After a commit the run has ended, or something is under way; and nothing that could start waits.
void Invariants::CheckRest(const Execution& execution) {
  if (terminal_) return;
  const Event& last = execution.log.back();
  if (Quiescent()) return Fail("I30", last, "nothing is open and the run has not ended");
  for (int step = 0; step < static_cast<int>(steps_.size()); ++step) {
    const StepModel& model = At(step);
    const std::string& name = playbook_->steps[static_cast<std::size_t>(step)].name;
    if (model.open && model.open->in_flight == 0)
      Fail("I30", last, fmt::format("'{}' is open without a command", name));
    if (model.tokens.empty()) continue;
    if (draining_) Fail("I13", last, fmt::format("'{}' holds a token while draining", name));
    if (!model.open && !MustWait(step))
      Fail("I21", last, fmt::format("'{}' could be entered and was not", name));
  }
}

void Invariants::CheckSnapshots(const Execution& execution) {
  if (execution.log.empty()) return;
  samples_ = Mix(samples_, 2);
  const std::size_t cut = samples_ % (execution.log.size() + 1);
  engine::State state;
  for (std::size_t i = 0; i < cut; ++i) engine::Fold(state, execution.log[i]);
  Result<engine::State> read = engine::ReadSnapshot(engine::WriteSnapshot(state));
  if (!read) return Fail("I3", execution.log.back(), read.error().message);
  for (std::size_t i = cut; i < execution.log.size(); ++i) engine::Fold(*read, execution.log[i]);
  if (!SameState(*read, execution.state)) {
    Fail("I3", execution.log.back(),
         fmt::format("snapshot at {} and the tail give another state", cut));
  }
}

// Ids are names: other ids in any order give the same state, but for the ids in it.
void Invariants::CheckIdOrder(const Execution& execution) {
  engine::State state;
  for (Event event : execution.log) {
    event.event_id = 1'000'000'000 - event.event_id;
    engine::Fold(state, event);
  }
  state.last_event_id = execution.state.last_event_id;
  state.highest_event_id = execution.state.highest_event_id;
  if (!SameState(state, execution.state))
    Fail("I5", execution.log.back(), "the order of event ids changes the state");
}

void Invariants::CheckEnd(const Execution& execution) {
  const Event& last = execution.log.back();
  if (!terminal_) return Fail("I30", last, "the run never ended");
  for (const StepModel& model : steps_) {
    if (model.open && status_ == "COMPLETED" && !options_.disturbed)
      Fail("I31", last, "a run is still open");
  }
  if (evaluate_error_ || options_.disturbed) return;
  for (int step = 0; step < static_cast<int>(steps_.size()); ++step) {
    const PlanStep* plan = PlanOf(step);
    if (!plan || !plan->writes) continue;
    const std::int64_t applied = ctx_["n_" + plan->name].AsInt();
    if (At(step).sets > 0 && !ctx_["shared"].Has(plan->name)) {
      Fail("I34", last, fmt::format("ctx.shared.{} was written and is not there", plan->name));
    }
    if (applied != At(step).sets) {
      Fail("I34", last,
           fmt::format("set of '{}' was applied {} times for {} runs", plan->name, applied,
                       At(step).sets));
    }
  }
  if (plan_.cyclic) return;
  for (int step = 0; step < static_cast<int>(steps_.size()); ++step) {
    if (At(step).runs > 1)
      Fail("I18", last,
           fmt::format("step {} of an acyclic playbook ran {} times", step, At(step).runs));
  }
}

void Invariants::Finished(const Execution& execution) {
  if (!failure_.empty() || execution.log.empty()) return;
  CheckEnd(execution);
  CheckReplay(execution, true);
  if (terminal_) CheckIdOrder(execution);
}

std::map<std::string, std::vector<std::string>> Invariants::Outcomes() const {
  std::map<std::string, std::vector<std::string>> outcomes;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].outcomes.empty()) outcomes[playbook_->steps[i].name] = steps_[i].outcomes;
  }
  return outcomes;
}

}  // namespace noetl::sim
