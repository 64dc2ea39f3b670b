#include "sim/properties.h"

#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_io.h"
#include "base/random.h"
#include "base/sha256.h"
#include "sim/invariants.h"
#include "sim/world.h"

namespace noetl::sim {

namespace {

using engine::Event;
using engine::EventType;

// A history that needs more actions than this does not end.
constexpr int kActionsMax = 40'000;
constexpr std::size_t kTailEvents = 60;
// A command is lost so often at most: more would fail it, and that is a matter of luck.
constexpr std::int64_t kLossesMax = 3;
constexpr std::size_t kShrinkTriesMax = 3'000;

struct Compiled {
  const Plan* plan = nullptr;
  std::shared_ptr<const playbook::Playbook> playbook;
  std::unique_ptr<PlainGraph> graph;
};

Result<std::vector<Compiled>> Compile(const Plan& plan) {
  std::vector<Compiled> all;
  std::vector<const Plan*> plans = {&plan};
  for (const Plan& child : plan.children) plans.push_back(&child);
  for (const Plan* part : plans) {
    playbook::Loaded loaded = playbook::Load(ToYaml(*part));
    if (!loaded.ok()) {
      std::string problems;
      for (const playbook::Diagnostic& problem : loaded.diagnostics) {
        problems += fmt::format("{} {}: {}\n", problem.code, problem.path, problem.message);
      }
      return Fail("load", problems);
    }
    all.push_back({part, loaded.playbook, std::make_unique<PlainGraph>(*loaded.playbook)});
  }
  return all;
}

bool AnyStep(const Plan& plan, bool (*holds)(const PlanStep&)) {
  const bool here = std::any_of(plan.steps.begin(), plan.steps.end(), holds);
  return here || std::any_of(plan.children.begin(), plan.children.end(),
                             [&](const Plan& child) { return AnyStep(child, holds); });
}

std::string LogLine(const Event& event) {
  return fmt::format("{:>4} {:<18} {:<6} {} {} {}", event.seq, event.type_name, event.node_name,
                     event.status, WriteJson(event.result["context"]).substr(0, 160),
                     WriteJson(event.meta).substr(0, 260));
}

// One history of one plan.
class Driver {
 public:
  Driver(const Plan& plan, const std::vector<Compiled>& compiled, const Interleaving& how,
         const CheckOptions& options)
      : plan_(plan),
        compiled_(compiled),
        how_(how),
        options_(options),
        random_(how.seed),
        tools_(plan),
        world_(MakeOptions(), &tools_) {
    for (const Compiled& part : compiled_) world_.AddPlaybook(part.playbook);
  }

  History Run() {
    History history;
    Result<std::int64_t> started = world_.Start(plan_.path);
    if (!started) {
      history.failure = "start: " + started.error().message;
      return history;
    }
    int actions = 0;
    while (actions < kActionsMax && failure_.empty() && Act()) ++actions;
    if (actions == kActionsMax) failure_ = "I30: the history does not end";
    for (auto& [id, checks] : checks_) {
      if (!failure_.empty()) break;
      checks->Finished(world_.Get(id));
      failure_ = checks->failure();
    }
    const Execution& main = world_.Get(*started);
    history.failure = failure_;
    history.status = main.state.StatusText();
    const Invariants& checks = *checks_.at(*started);
    history.unhandled = checks.unhandled_failure();
    for (const auto& [step, outcomes] : checks.Outcomes()) {
      history.outcomes += fmt::format("{}={} ", step, fmt::join(outcomes, ","));
    }
    for (const auto& [id, execution] : world_.executions())
      history.events += std::ssize(execution->log);
    if (!failure_.empty() || options_.keep_log) history.log = Tail();
    if (how_.seed % 16 == 0) history.digest = Digest();
    return history;
  }

 private:
  World::Options MakeOptions() {
    World::Options options;
    options.semantics.step_error_fails = plan_.step_error_fails;
    options.semantics.status_from_steps = plan_.status_from_steps;
    options.deduplicate = how_.deduplicate;
    options.on_commit = [this](const Execution& execution, const engine::Unit& unit) {
      Committed(execution, unit);
    };
    return options;
  }

  void Committed(const Execution& execution, const engine::Unit& unit) {
    auto& checks = checks_[execution.id];
    if (!checks) {
      const auto part = std::find_if(
          compiled_.begin(), compiled_.end(),
          [&](const Compiled& candidate) { return candidate.playbook == execution.playbook; });
      const bool child = part != compiled_.begin();
      checks = std::make_unique<Invariants>(
          *part->plan, part->playbook, *part->graph,
          Invariants::Options{.seed = how_.seed,
                              .late_data = how_.late_data,
                              .lose_workers = how_.lose_workers,
                              .disturbed = how_.stops || how_.early_timers || child,
                              .thorough_percent = options_.thorough_percent});
    }
    checks->Committed(execution, unit);
    if (failure_.empty()) failure_ = checks->failure();
  }

  bool Chance(int percent) { return static_cast<int>(random_.Below(100)) < percent; }
  std::size_t Below(std::size_t bound) { return random_.Below(bound); }

  // Does one thing; false when nothing can happen any more.
  bool Act() {
    if (how_.in_order) return ActInOrder();
    if (how_.snapshots && Chance(6)) Restart();
    if (how_.stops && Chance(2)) Stop();
    if (how_.early_timers && Chance(3)) world_.Sleep();
    if (Chance(20) && CallBack(true)) return true;
    const std::size_t queued = world_.queued().size();
    const std::vector<std::string> held = world_.held();
    const std::size_t messages = world_.messages();
    if (queued + held.size() + messages == 0) return ActWhenIdle();
    std::size_t pick = Below(queued + held.size() + messages);
    if (pick < queued) {
      const std::string id = world_.queued()[pick];
      if (how_.unseen_claims && Chance(50)) world_.ClaimUnseen(id);
      else world_.Claim(id);
      return true;
    }
    pick -= queued;
    if (pick < held.size()) {
      if (how_.lose_workers && Chance(8) && MayLose(held[pick])) world_.LoseWorker(held[pick]);
      else world_.Work(held[pick]);
      return true;
    }
    Deliver(how_.shuffle ? pick - held.size() : 0);
    return true;
  }

  bool ActInOrder() {
    if (world_.messages() > 0 || !world_.idle()) return world_.StepInOrder();
    return ActWhenIdle();
  }

  bool ActWhenIdle() {
    if (CallBack(false)) return true;
    const auto& all = world_.executions();
    const bool ended = std::all_of(
        all.begin(), all.end(), [](const auto& entry) { return entry.second->state.terminal(); });
    if (ended) return false;
    return world_.Sleep();
  }

  bool MayLose(const std::string& id) const {
    for (const auto& [execution_id, execution] : world_.executions()) {
      if (const engine::Command* command = execution->state.FindCommand(id))
        return command->lost < kLossesMax;
    }
    return true;
  }

  void Deliver(std::size_t place) {
    place = ResultsFirst(place);
    if (how_.batches && Chance(30) && world_.messages() > 1) return DeliverSome(place);
    world_.Deliver(place, how_.duplicates && Chance(20) ? 2 : 1);
  }

  // What ends a command comes after its result, unless late data is wanted.
  std::size_t ResultsFirst(std::size_t place) const {
    const Event* event = world_.MessageEvent(place);
    if (how_.late_data || !event) return place;
    for (std::size_t before = 0; before < place; ++before) {
      const Event* other = world_.MessageEvent(before);
      if (!other || (other->type != EventType::kCallDone && other->type != EventType::kCallError))
        continue;
      if (engine::CommandIdOf(*other) == engine::CommandIdOf(*event)) return before;
    }
    return place;
  }

  void DeliverSome(std::size_t first) {
    std::vector<std::size_t> places = {first};
    for (std::size_t place = first + 1; place < world_.messages() && places.size() < 6; ++place) {
      if (ResultsFirst(place) == place ||
          std::find(places.begin(), places.end(), ResultsFirst(place)) != places.end()) {
        places.push_back(place);
      }
    }
    world_.DeliverTogether(places);
  }

  // The run's state is thrown away and read back.
  void Restart() {
    for (const auto& [id, execution] : world_.executions()) {
      Result<engine::State> read = engine::ReadSnapshot(engine::WriteSnapshot(execution->state));
      if (!read) {
        failure_ = "I3: " + read.error().message;
        return;
      }
      execution->state = *std::move(read);
    }
  }

  void Stop() {
    const auto& all = world_.executions();
    auto chosen = all.begin();
    std::advance(chosen, Below(all.size()));
    if (Chance(60)) world_.Cancel(chosen->first, "enough");
    else world_.Finalize(chosen->first, Chance(50), "by hand");
  }

  // A callback for a parked command; early ones may come before the command parks.
  bool CallBack(bool early) {
    for (const auto& [id, execution] : world_.executions()) {
      for (const auto& [command_id, command] : execution->state.commands()) {
        const Compiled& part = *std::find_if(
            compiled_.begin(), compiled_.end(),
            [&](const Compiled& candidate) { return candidate.playbook == execution->playbook; });
        const auto step =
            std::find_if(part.plan->steps.begin(), part.plan->steps.end(),
                         [&](const PlanStep& candidate) { return candidate.name == command.step; });
        if (!step->parks || command.child_execution_id != 0) continue;
        const bool started = command.status == engine::Command::Status::kStarted;
        if (!command.parked && !(early && started && !command.reported)) continue;
        const std::int64_t x = AnswerOf(*part.plan, command.step, command.run, -1, -1);
        world_.Callback(id,
                        {.command_id = command_id,
                         .data = Json::Object({{"x", x}, {"more", command.run < step->repeats}})});
        return true;
      }
    }
    return false;
  }

  std::string Tail() const {
    std::string text;
    for (const auto& [id, execution] : world_.executions()) {
      text += fmt::format("run {} of {}\n", id, execution->playbook->path);
      const std::size_t size = execution->log.size();
      for (std::size_t i = size > kTailEvents ? size - kTailEvents : 0; i < size; ++i) {
        text += LogLine(execution->log[i]) + "\n";
      }
    }
    return text;
  }

  std::string Digest() const {
    std::string text;
    for (const auto& [id, execution] : world_.executions()) {
      for (const Event& event : execution->log) AppendJson(text, engine::EventToJson(event));
    }
    return Sha256Hex(text);
  }

  const Plan& plan_;
  const std::vector<Compiled>& compiled_;
  const Interleaving how_;
  const CheckOptions& options_;
  SeededRandom random_;
  PlannedTools tools_;
  std::map<std::int64_t, std::unique_ptr<Invariants>> checks_;
  std::string failure_;
  World world_;
};

// The n-th way to run a plan: the first is the plainest, later ones add trouble.
Interleaving InterleavingOf(const Plan& plan, int n) {
  Interleaving how{.seed = Mix(plan.seed, 1'000 + static_cast<std::uint64_t>(n))};
  const bool first_only = AnyStep(plan, [](const PlanStep& step) { return step.fails_first_only; });
  switch (n % 4) {
    case 0: how.in_order = n == 0; break;
    case 1:
      how.batches = true;
      how.snapshots = true;
      how.unseen_claims = true;
      break;
    case 2:
      how.duplicates = true;
      how.deduplicate = how.seed % 2 == 0;
      how.lose_workers = !first_only;
      how.unseen_claims = how.seed % 3 == 0;
      break;
    default:
      how.duplicates = how.lose_workers = how.snapshots = how.batches = true;
      how.late_data = how.seed % 2 == 0;
      how.stops = how.seed % 3 == 0;
      how.early_timers = how.seed % 5 == 0;
      break;
  }
  return how;
}

bool Comparable(const Interleaving& how, const Plan& plan) {
  if (how.late_data || how.stops || how.early_timers) return false;
  if (!how.lose_workers) return true;
  return !AnyStep(plan, [](const PlanStep& step) { return step.fails_first_only; });
}

// Outcomes may depend on the order only where routers inside a cycle choose several arcs.
bool OutcomesAreFixed(const Plan& plan, const Compiled& main) {
  if (!plan.cyclic) return true;
  for (const playbook::Step& step : main.playbook->steps) {
    if (step.mode == playbook::RouteMode::kInclusive && step.arcs.size() > 1) return false;
  }
  return true;
}

}  // namespace

CheckReport CheckPlan(const Plan& plan, const CheckOptions& options) {
  CheckReport report;
  Result<std::vector<Compiled>> compiled = Compile(plan);
  if (!compiled) {
    report.failure = "the playbook does not load: " + compiled.error().message;
    return report;
  }
  const bool fixed = OutcomesAreFixed(plan, compiled->front());
  std::optional<History> reference;
  for (int n = 0; n < options.interleavings; ++n) {
    const Interleaving how = InterleavingOf(plan, n);
    const History history = Driver(plan, *compiled, how, options).Run();
    report.events += history.events;
    ++report.histories;
    const auto fail = [&](std::string text) {
      report.failure = fmt::format("interleaving {}: {}\n{}", n, text, history.log);
      return report;
    };
    if (!history.failure.empty()) return fail(history.failure);
    if (!history.digest.empty() &&
        Driver(plan, *compiled, how, options).Run().digest != history.digest) {
      return fail("I6: the same history gave another log");
    }
    if (!Comparable(how, plan) || !fixed) continue;
    if (!reference) {
      reference = history;
      continue;
    }
    if (history.status != reference->status) {
      return fail(fmt::format("I18: the run ended {}, in another order {}", history.status,
                              reference->status));
    }
    const bool drained = history.unhandled || reference->unhandled;
    if (!drained && history.outcomes != reference->outcomes) {
      return fail(fmt::format("I18: outcomes depend on the order\n  {}\n  {}", history.outcomes,
                              reference->outcomes));
    }
  }
  return report;
}

std::string Explain(const Plan& plan, const CheckOptions& options, const std::string& failure) {
  const std::string promise = failure.substr(failure.find(": ") + 2, 3);
  Plan smallest = plan;
  std::string smallest_failure = failure;
  for (bool smaller = true, first = true; smaller; first = false) {
    smaller = false;
    std::size_t tries = 0;
    for (Plan& candidate : Simplifications(smallest)) {
      if (++tries > kShrinkTriesMax) break;
      const CheckReport report = CheckPlan(candidate, options);
      if (report.failure.empty() || report.failure.find(promise) == std::string::npos) continue;
      smallest = std::move(candidate);
      smallest_failure = report.failure;
      smaller = true;
      break;
    }
    if (first && !smaller) break;
  }
  std::string text = fmt::format(
      "seed {} ({}) failed: {}\n\nsmallest playbook that fails the same way:\n{}", plan.seed,
      plan.cyclic ? "cyclic" : "acyclic", failure.substr(0, failure.find('\n')), ToYaml(smallest));
  for (const Plan& child : smallest.children) text += fmt::format("---\n{}", ToYaml(child));
  return text + "\n" + smallest_failure;
}

}  // namespace noetl::sim
