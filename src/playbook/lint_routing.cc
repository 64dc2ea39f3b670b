// The shape of the workflow: arcs that cannot fire, steps nobody reaches, cycles without an end.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "playbook/lint_internal.h"

namespace noetl::playbook::lint {
namespace {

std::size_t At(int i) { return static_cast<std::size_t>(i); }

std::string SourceText(const expr::Condition& condition) {
  return condition.source().is_string() ? condition.source().ToString() : "";
}

// An arc that looks at how the step ended is considered after a failure, when unconditional arcs
// are not.
bool TestsTheOutcome(const expr::Condition& condition) {
  const expr::Template* compiled = condition.compiled();
  if (compiled == nullptr) return false;
  return std::ranges::any_of(compiled->analysis().roots, [](const expr::RootPath& root) {
    return root.root == "event" || root.root == "error" ||
           (root.root == "output" && !root.path.empty() &&
            (root.path[0] == "status" || root.path[0] == "error"));
  });
}

// True whenever the step succeeds: as good as unconditional for the normal course.
bool HoldsOnSuccess(const Step& step, const expr::Condition& condition) {
  static constexpr std::string_view kAlways[] = {"step.done", "step.exit"};
  static constexpr std::string_view kCall[] = {"call.done", "command.completed"};
  const std::string text = NormaliseCondition(SourceText(condition));
  const auto is = [&](std::string_view name) {
    return text == fmt::format("event.name == '{}'", name);
  };
  return std::ranges::any_of(kAlways, is) ||
         (step.loop ? is("loop.done") : std::ranges::any_of(kCall, is));
}

void LintArcs(const Playbook& playbook, const Step& step, Diagnostics* diagnostics) {
  const Arc* first_unconditional = nullptr;
  bool complete = step.arcs.empty();
  for (std::size_t i = 0; i < step.arcs.size(); ++i) {
    const Arc& arc = step.arcs[i];
    if (step.mode == RouteMode::kExclusive && first_unconditional != nullptr &&
        !TestsTheOutcome(arc.when)) {
      diagnostics->Add(
          "W273", arc.path, playbook.PositionOf(arc.path),
          fmt::format("Step '{}': arc {} to '{}' can never fire", step.name, i, arc.target),
          fmt::format("the arc to '{}' before it always fires; move that arc to the end, or use "
                      "next.spec.mode: inclusive to take both",
                      first_unconditional->target));
    }
    if (IsUnconditional(arc.when)) {
      complete = true;
      if (first_unconditional == nullptr) first_unconditional = &arc;
    }
    complete = complete || HoldsOnSuccess(step, arc.when);
    for (std::size_t j = 0; j < i && !complete; ++j) {
      complete = AreComplements(SourceText(step.arcs[j].when), SourceText(arc.when));
    }
  }
  // `quiet` says that the author means it; `fail` is not silent.
  if (complete || step.on_no_match != OnNoMatch::kComplete || playbook.executor.no_next_is_error) {
    return;
  }
  const std::string path = step.path + ".next";
  diagnostics->Add("W274", path, playbook.PositionOf(path),
                   fmt::format("Step '{}': no arc may match; branch would end silently", step.name),
                   "add a last arc without 'when', or set next.spec.on_no_match to quiet or fail");
}

// Whether two branches that may run side by side meet again.
bool BranchesMeet(const Playbook& playbook, const std::vector<int>& targets) {
  for (const Step& step : playbook.steps) {
    int branches = 0;
    for (const int target : targets) {
      branches += target == step.index || playbook.graph.ForwardReach(target).Has(step.index);
    }
    if (branches > 1) return true;
  }
  return false;
}

void LintFanOut(const Playbook& playbook, const Step& step, Diagnostics* diagnostics) {
  if (step.mode != RouteMode::kInclusive || playbook.implicit_end || playbook.final >= 0) return;
  std::vector<int> targets;
  std::vector<const Arc*> arcs;
  for (const Arc& arc : step.arcs) {
    if (arc.target_index < 0 || std::ranges::find(targets, arc.target_index) != targets.end()) {
      continue;
    }
    targets.push_back(arc.target_index);
    arcs.push_back(&arc);
  }
  if (targets.size() < 2) return;
  const bool alternatives =
      targets.size() == 2 && AreComplements(SourceText(arcs[0]->when), SourceText(arcs[1]->when));
  if (alternatives || BranchesMeet(playbook, targets)) return;
  const std::string path = step.path + ".next";
  diagnostics->Add(
      "W277", path, playbook.PositionOf(path),
      fmt::format("[fanout_no_reducer] Step '{}' starts {} branches that never meet", step.name,
                  targets.size()),
      "lead the branches to one step that collects their results, or set executor.spec.final_step");
}

// ---- cycles ----

// Targets of a step's arcs that are taken every time: all unconditional ones of an inclusive step,
// the first arc of an exclusive one.
std::vector<int> CertainTargets(const Step& step) {
  std::vector<int> targets;
  for (const Arc& arc : step.arcs) {
    const bool certain = IsUnconditional(arc.when);
    if (certain && arc.target_index >= 0) targets.push_back(arc.target_index);
    if (step.mode == RouteMode::kExclusive) break;
  }
  return targets;
}

// The shortest way from a step back to itself over the given arcs; empty when there is none.
std::vector<int> ShortestCycle(const std::vector<std::vector<int>>& arcs, int start) {
  std::vector<int> from(arcs.size(), -1);
  std::queue<int> open;
  open.push(start);
  while (!open.empty()) {
    const int step = open.front();
    open.pop();
    for (const int target : arcs[At(step)]) {
      if (target == start) {
        std::vector<int> cycle = {start};
        for (int at = step; at != start; at = from[At(at)]) cycle.push_back(at);
        std::reverse(cycle.begin() + 1, cycle.end());
        return cycle;
      }
      if (from[At(target)] >= 0) continue;
      from[At(target)] = step;
      open.push(target);
    }
  }
  return {};
}

// No arc leaves the steps that can be entered again, none of their arcs has a condition, and no
// admission rule can end the branch: only the cap on runs ends such a run.
bool IsEndless(const Playbook& playbook, int start) {
  for (const Step& step : playbook.steps) {
    const bool inside =
        playbook.graph.Reach(start).Has(step.index) && playbook.graph.Reach(step.index).Has(start);
    if (!inside) continue;
    if (!step.admit.empty()) return false;
    for (const Arc& arc : step.arcs) {
      const bool leaves =
          arc.target_index < 0 || !playbook.graph.Reach(arc.target_index).Has(start);
      if (leaves || !IsUnconditional(arc.when)) return false;
    }
  }
  return true;
}

void LintCycles(const Playbook& playbook, Diagnostics* diagnostics) {
  std::vector<std::vector<int>> certain;
  for (const Step& step : playbook.steps) certain.push_back(CertainTargets(step));
  std::vector<bool> reported(playbook.steps.size());
  for (const Step& step : playbook.steps) {
    if (reported[At(step.index)] || !playbook.graph.Reach(step.index).Has(step.index) ||
        !IsLive(playbook, step.index)) {
      continue;
    }
    const std::vector<int> cycle = ShortestCycle(certain, step.index);
    if (cycle.empty()) continue;
    std::string names;
    for (const int at : cycle) {
      names += playbook.steps[At(at)].name + " -> ";
      reported[At(at)] = true;
    }
    names += step.name;
    const bool refuse = playbook.profile == Profile::kStrict || IsEndless(playbook, step.index);
    const std::string path = playbook.steps[At(cycle.back())].path + ".next";
    diagnostics->Add(refuse ? "E276" : "W276", path, playbook.PositionOf(path),
                     fmt::format("Step '{}': infinite cycle {}", step.name, names),
                     "give an arc of the cycle a 'when' and lead another arc out of it");
  }
}

}  // namespace

void LintRouting(const Playbook& playbook, Diagnostics* diagnostics) {
  for (const Step& step : playbook.steps) {
    LintArcs(playbook, step, diagnostics);
    LintFanOut(playbook, step, diagnostics);
    if (!IsLive(playbook, step.index)) {
      diagnostics->Add("W275", step.path, playbook.PositionOf(step.path),
                       fmt::format("step '{}' is unreachable", step.name),
                       "lead an arc to it, or remove it");
    }
  }
  LintCycles(playbook, diagnostics);
}

}  // namespace noetl::playbook::lint
