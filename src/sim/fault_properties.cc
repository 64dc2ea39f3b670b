#include "sim/fault_properties.h"

#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/temporary_directory.h"
#include "engine/fold.h"
#include "sim/invariants.h"

namespace noetl::sim {

namespace {

constexpr std::size_t kShrinkTriesMax = 400;
// A crash counts against a command; with so many attempts none fails by it.
constexpr std::int64_t kMaxAttempts = 100;
constexpr std::int64_t kSmallContextBytes = 64;

struct Part {
  const Plan* plan = nullptr;
  std::string text;
  std::shared_ptr<const playbook::Playbook> playbook;
  std::unique_ptr<PlainGraph> graph;
};

Result<std::vector<Part>> PartsOf(const Plan& plan) {
  std::vector<Part> parts;
  std::vector<const Plan*> plans = {&plan};
  for (const Plan& child : plan.children) plans.push_back(&child);
  for (const Plan* each : plans) {
    Part part{.plan = each, .text = ToYaml(*each)};
    const playbook::Loaded loaded = playbook::Load(part.text);
    if (!loaded.ok()) return Fail("load", "the playbook does not load");
    part.playbook = loaded.playbook;
    part.graph = std::make_unique<PlainGraph>(*part.playbook);
    parts.push_back(std::move(part));
  }
  return parts;
}

// One history, with the promises that need to know the plan.
class History {
 public:
  History(const Plan& plan, const std::vector<Part>& parts, const FaultCheck& check)
      : parts_(parts), check_(check), tools_(plan) {
    if (check.sqlite) directory_.emplace();
    options_.seed = check.seed;
    options_.faults = check.faults;
    options_.copies = check.copies;
    options_.tools = &tools_;
    if (directory_) options_.directory = directory_->path();
    options_.semantics.step_error_fails = plan.step_error_fails;
    options_.semantics.status_from_steps = plan.status_from_steps;
    options_.semantics.max_attempts = kMaxAttempts;
    if (check.small_context) options_.semantics.context_bytes = kSmallContextBytes;
    for (const Part& part : parts) options_.playbooks.push_back(part.text);
    options_.on_commit = [this](const store::UnitRows& unit) { Stored(unit); };
  }

  MachineReport Run() {
    MachineReport report = machine_.emplace(options_).Run();
    if (report.failure.empty()) report.failure = failure_;
    for (auto& [id, model] : models_) {
      if (!report.failure.empty()) break;
      model.checks->Finished(model.execution);
      report.failure = model.checks->failure();
    }
    return report;
  }

  // "step=completed,failed ..." of a run.
  std::string Outcomes(std::int64_t id) const {
    std::string text;
    for (const auto& [step, outcomes] : models_.at(id).checks->Outcomes())
      text += fmt::format("{}={} ", step, fmt::join(outcomes, ","));
    return text;
  }
  std::string log() const { return machine_->Tail(); }

 private:
  struct Model {
    Execution execution;
    std::unique_ptr<Invariants> checks;
  };

  void Stored(const store::UnitRows& unit) {
    if (unit.events.empty() || !failure_.empty()) return;
    Model& model = models_[unit.execution_id];
    if (!model.checks) Begin(model, unit);
    engine::Unit events;
    for (const store::EventRow& row : unit.events) {
      engine::Fold(model.execution.state, row.event);
      model.execution.log.push_back(row.event);
      events.events.push_back(row.event);
    }
    model.checks->Committed(model.execution, events);
    failure_ = model.checks->failure();
  }

  void Begin(Model& model, const store::UnitRows& unit) {
    const auto part = std::ranges::find_if(parts_, [&](const Part& candidate) {
      return candidate.playbook->path == unit.execution.path;
    });
    NOETL_CHECK(part != parts_.end(), "every run is of a playbook of the plan");
    model.execution.id = unit.execution_id;
    model.execution.playbook = part->playbook;
    const bool child = unit.execution.parent_execution_id != 0;
    const bool disturbed =
        child || check_.faults.has(Fault::kCancel) || check_.faults.has(Fault::kClockLeap);
    model.checks = std::make_unique<Invariants>(
        *part->plan, part->playbook, *part->graph,
        Invariants::Options{.seed = check_.seed, .lose_workers = true, .disturbed = disturbed});
  }

  const std::vector<Part>& parts_;
  const FaultCheck& check_;
  PlannedTools tools_;
  std::optional<TemporaryDirectory> directory_;
  MachineOptions options_;
  std::map<std::int64_t, Model> models_;
  std::string failure_;
  std::optional<Machine> machine_;
};

// In a cycle a router that chooses several arcs may make outcomes depend on the order.
bool OutcomesAreFixed(const Plan& plan, const playbook::Playbook& playbook) {
  if (!plan.cyclic) return true;
  for (const playbook::Step& step : playbook.steps) {
    if (step.mode == playbook::RouteMode::kInclusive && step.arcs.size() > 1) return false;
  }
  return true;
}

// What a machine cannot do, or what would make results depend on the order.
void Prepare(Plan& plan, bool leaps) {
  for (PlanStep& step : plan.steps) {
    step.parks = false;
    if (step.items_from == PlanStep::Items::kContext) step.items_from = PlanStep::Items::kWorkload;
    if (leaps) step.deadline = false;
  }
  for (Plan& child : plan.children) Prepare(child, leaps);
}

}  // namespace

FaultCheck FaultCheckOf(std::uint64_t seed) {
  FaultCheck check{.seed = seed, .faults = DrawFaults(seed, seed % 4 == 3)};
  check.copies = 1 + static_cast<int>(seed % 3);
  check.twice = seed % 16 == 0;
  check.small_context = seed % 7 < 3;
  return check;
}

Plan FaultPlanOf(std::uint64_t seed) {
  Plan plan = GeneratePlan(seed, seed % 5 < 2);
  Prepare(plan, FaultCheckOf(seed).faults.has(Fault::kClockLeap));
  return plan;
}

namespace {

std::string FirstDifference(const std::map<std::string, std::string>& peaceful,
                            const std::map<std::string, std::string>& troubled) {
  for (const auto& [name, value] : peaceful) {
    const auto found = troubled.find(name);
    const std::string other = found == troubled.end() ? "nothing" : found->second;
    if (other != value) return fmt::format("'{}' has {}, without faults {}", name, other, value);
  }
  for (const auto& [name, value] : troubled) {
    if (!peaceful.contains(name))
      return fmt::format("'{}' has {}, without faults nothing", name, value);
  }
  return "";
}

// Iterations of a loop write their pipeline's name one after the other, in any order.
MachineReport::Ended WithoutLuck(MachineReport::Ended run, const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    if (step.loop != PlanStep::Loop::kNone) run.ctx.erase("p_" + step.name);
  }
  return run;
}

}  // namespace

std::string Difference(const MachineReport::Ended& peaceful, const MachineReport::Ended& troubled) {
  for (const MachineReport::Ended* run : {&peaceful, &troubled}) {
    if (run->stopped || run->timed_out) return "";
  }
  if (peaceful.status != troubled.status) {
    return fmt::format("the run ended {} ({}), without faults {} ({})", troubled.status,
                       troubled.error, peaceful.status, peaceful.error);
  }
  if (peaceful.unhandled || troubled.unhandled) return "";
  std::string difference = FirstDifference(peaceful.steps, troubled.steps);
  if (!difference.empty()) return "step " + difference;
  difference = FirstDifference(peaceful.ctx, troubled.ctx);
  return difference.empty() ? "" : "ctx: " + difference;
}

FaultReport CheckFaults(const Plan& plan, const FaultCheck& check) {
  FaultReport report;
  const Result<std::vector<Part>> parts = PartsOf(plan);
  if (!parts) {
    report.failure = "load: " + parts.error().message;
    return report;
  }
  const FaultCheck peace{.seed = check.seed + 1};
  History peaceful(plan, *parts, peace);
  const MachineReport reference = peaceful.Run();
  if (!reference.failure.empty()) {
    report.failure = reference.failure + " (without faults)";
    report.log = peaceful.log();
    return report;
  }
  History troubled(plan, *parts, check);
  const MachineReport result = troubled.Run();
  report.failure = result.failure;
  report.crashes = result.crashes;
  report.events = result.events;
  report.tasks = result.tasks;
  report.faults = result.faults;
  if (!report.failure.empty()) {
    report.log = troubled.log();
    return report;
  }
  if (check.twice && History(plan, *parts, check).Run().digest != result.digest) {
    report.failure = "I6: the same history gave another log";
    return report;
  }
  const bool fixed = OutcomesAreFixed(plan, *parts->front().playbook);
  const MachineReport::Ended expected = WithoutLuck(reference.runs.front(), plan);
  for (const MachineReport::Ended& run : result.runs) {
    if (!fixed || run.stopped || run.timed_out || expected.timed_out) continue;
    ++report.compared;
    std::string difference = Difference(expected, WithoutLuck(run, plan));
    const bool luck = run.unhandled || expected.unhandled || run.status == "REFUSED";
    if (difference.empty() && !luck) {
      const std::string before = peaceful.Outcomes(expected.execution_id);
      const std::string after = troubled.Outcomes(run.execution_id);
      if (before != after) difference = fmt::format("outcomes differ\n  {}\n  {}", after, before);
    }
    if (difference.empty()) continue;
    report.failure = "I38: " + difference;
    report.log = troubled.log();
  }
  return report;
}

std::string ExplainFaults(const Plan& plan, const FaultCheck& check, const FaultReport& report) {
  const std::string promise = report.failure.substr(0, report.failure.find(':'));
  Plan smallest = plan;
  FaultReport smallest_report = report;
  std::size_t tries = 0;
  for (bool smaller = true; smaller && tries < kShrinkTriesMax;) {
    smaller = false;
    for (Plan& candidate : Simplifications(smallest)) {
      if (++tries > kShrinkTriesMax) break;
      FaultReport again = CheckFaults(candidate, check);
      if (!again.failure.starts_with(promise + ":")) continue;
      smallest = std::move(candidate);
      smallest_report = std::move(again);
      smaller = true;
      break;
    }
  }
  std::string text = fmt::format(
      "seed {} failed: {}\nfaults: {}; {} copies{}\n\nsmallest playbook that fails the same "
      "way:\n{}",
      check.seed, report.failure, check.faults.Text(), check.copies, check.sqlite ? ", SQLite" : "",
      ToYaml(smallest));
  for (const Plan& child : smallest.children) text += "---\n" + ToYaml(child);
  return text +
         fmt::format(
             "\n{}\n{}\nrepeat with NOETL_SEED={} sim_test --gtest_filter='*MachineOneSeed*'",
             smallest_report.failure, smallest_report.log, check.seed);
}

}  // namespace noetl::sim
