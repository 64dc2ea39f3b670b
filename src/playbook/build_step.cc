// Steps: names, routing, loops, admission.
#include <algorithm>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "playbook/build.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kEngineStep = "__orchestrate__";
constexpr std::string_view kNoTargets[] = {"workload", "keychain", "output", "event"};
// What only a task's policy can do.
constexpr std::string_view kControlKeys[] = {"rules",   "do",   "retry", "attempts",
                                             "backoff", "jump", "then"};

std::string WherePart(const Step& step, std::string_view part) {
  return fmt::format("{} of step '{}'", part, step.name);
}

void CheckStepName(BuildContext* context, const Node& name, const std::string& text) {
  Reporter& report = context->report;
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (text == kEngineStep) {
    report.Add("E222", name, fmt::format("step name '{}' is reserved for the engine", text),
               "choose another name");
  } else if (text.size() > kStepNameBytesMax || control) {
    report.Add("E222", name,
               fmt::format("step name {} must be at most {} bytes without control characters",
                           ShowValue(name), kStepNameBytesMax),
               "choose a shorter name");
  }
  CheckReserved(context, name, text, "step");
  if (!IsIdentifier(text)) context->odd_names.push_back(text);
}

// Names first, because arcs and templates refer to any of them.
void NameSteps(BuildContext* context, const Node& workflow) {
  Playbook& playbook = *context->playbook;
  std::vector<int> lines;
  for (std::size_t i = 0; i < workflow.items.size(); ++i) {
    const Node& node = workflow.items[i];
    Step step;
    step.index = static_cast<int>(i);
    step.path = fmt::format("workflow[{}]", i);
    step.position = node.position;
    lines.push_back(node.position.line);
    const Node* name = node.is_map() ? node.Find("step") : nullptr;
    step.name = TextOf(name);
    if (!node.is_map()) {
      context->report.WrongType(node, "a step (a map with 'step' and 'tool')");
    } else if (Trim(step.name).empty()) {
      context->report.Add("E204", name == nullptr ? node : *name,
                          fmt::format("workflow[{}]: missing 'step' name", i),
                          "add 'step: <name>'");
    } else {
      CheckStepName(context, *name, step.name);
      const auto [first, added] = playbook.index.emplace(step.name, step.index);
      if (!added) {
        context->report.Add(
            "E210", *name,
            fmt::format("Duplicate step '{}' at lines {} and {}", step.name,
                        lines[static_cast<std::size_t>(first->second)], lines.back()),
            "rename one of them");
      } else {
        context->step_names.push_back(step.name);
      }
    }
    playbook.steps.push_back(std::move(step));
  }
}

void BuildStepPolicy(BuildContext* context, const Node& policy, Step* step) {
  Reporter& report = context->report;
  if (!policy.is_map()) {
    report.WrongType(policy, "a map");
    return;
  }
  Node known = MapNode(policy);
  for (const auto& entry : policy.entries) {
    const std::string& key = entry.first.text;
    if (std::find(std::begin(kControlKeys), std::end(kControlKeys), key) ==
        std::end(kControlKeys)) {
      known.entries.push_back(entry);
      continue;
    }
    report.Add(
        "E290", entry.first,
        fmt::format("Step '{}': '{}' under the step's spec.policy has no effect; control actions "
                    "belong to a tool",
                    step->name, key),
        "move it to tool.spec.policy.rules");
  }
  report.CheckKeys(known, "step.spec.policy", WherePart(*step, "spec.policy"));
  if (const Node* admit = policy.Find("admit"); admit != nullptr && !admit->is_null()) {
    BuildAdmit(context, *admit, step);
  }
  step->deadline_ms = ReadDuration(context, FindPath(policy, {"lifecycle", "deadline_s"}));
  if (const Node* mode = FindPath(policy, {"failure", "mode"})) {
    step->best_effort = TextOf(mode) == "best_effort";
    if (!step->best_effort && TextOf(mode) != "fail_fast")
      report.WrongType(*mode, "best_effort or fail_fast");
  }
}

void BuildStepSpec(BuildContext* context, const Node& spec, Step* step) {
  Reporter& report = context->report;
  if (!report.CheckKeys(spec, "step.spec", WherePart(*step, "spec"))) return;
  const Node* on_error = spec.Find("on_error");
  const std::string word = TextOf(on_error);
  if (word == "continue") step->on_error = OnError::kContinue;
  if (word == "retry") {
    step->on_error = OnError::kRetry;
    report.Add("W310", *on_error,
               fmt::format("Step '{}': on_error: retry runs the whole step once more", step->name),
               "prefer spec.policy.rules with do: retry on the tool");
  }
  if (const Node* policy = spec.Find("policy"); policy != nullptr && !policy->is_null()) {
    BuildStepPolicy(context, *policy, step);
  }
}

Arc BuildArc(BuildContext* context, const Node& node, std::size_t index, const Step& step) {
  Reporter& report = context->report;
  Arc arc;
  arc.path = fmt::format("{}.next.arcs[{}]", step.path, index);
  if (!report.CheckKeys(node, "arc", WherePart(step, fmt::format("arc {}", index)))) return arc;
  const Node* target = node.Find("step");
  arc.target = TextOf(target);
  arc.target_index = context->playbook->IndexOf(arc.target);
  if (arc.target.empty()) {
    report.Add("E272", node,
               fmt::format("Step '{}': arc {} names no step (unknown step '')", step.name, index),
               "add 'step: <name>'");
  } else if (arc.target_index < 0 && arc.target == "end" && !report.strict()) {
    report.Add("W302", *target,
               fmt::format("Step '{}': arc {} leads to 'end', which is not declared; "
                           "the branch ends here",
                           step.name, index),
               "add a step 'end', or remove the arc");
  } else if (arc.target_index < 0) {
    report.Add(
        "E272", *target,
        fmt::format("Step '{}': arc {} leads to unknown step '{}'", step.name, index, arc.target) +
            DidYouMean(arc.target, context->step_names),
        fmt::format("steps are: {}", JoinNames(context->step_names)));
  }
  arc.when = CompileWhen(context, node.Find("when"));
  arc.set = BuildSet(context, node.Find("set"), Assignment::Scope::kCtx);
  if (const Node* args = node.Find("args"); args != nullptr && args->is_map()) {
    arc.args = CompileTree(context, *args);
  }
  return arc;
}

void BuildStep(BuildContext* context, const Node& node, Step* step) {
  Reporter& report = context->report;
  report.CheckKeys(node, "step", fmt::format("step '{}'", step->name));
  step->description = TextOf(node.Find("desc"));
  step->when = CompileWhen(context, node.Find("when"));
  if (const Node* input = node.Find("input"); input != nullptr && !input->is_null()) {
    step->input = CompileTree(context, *input);
  }
  if (const Node* spec = node.Find("spec"); spec != nullptr && !spec->is_null()) {
    BuildStepSpec(context, *spec, step);
  }
  if (const Node* loop = node.Find("loop"); loop != nullptr && !loop->is_null()) {
    BuildLoop(context, *loop, step);
  }
  step->output = BuildOutput(context, node.Find("output"));
  BuildTools(context, node, step);
  for (Assignment& assignment : BuildSet(context, node.Find("set"), Assignment::Scope::kCtx)) {
    step->set.push_back(std::move(assignment));
  }
  BuildNext(context, node.Find("next"), step);
  if (step->name == "end" && !step->arcs.empty()) {
    report.Add("W301", *FindKey(node, "next"), "step 'end' should not declare 'next'",
               "route to another step instead, or rename this one");
  }
}

}  // namespace

std::vector<Assignment> BuildSet(BuildContext* context, const Node* set, Assignment::Scope bare) {
  using Scope = Assignment::Scope;
  static constexpr std::pair<std::string_view, Scope> kScopes[] = {
      {"ctx", Scope::kCtx}, {"iter", Scope::kIter}, {"step", Scope::kStep}};
  std::vector<Assignment> assignments;
  if (set == nullptr || !set->is_map()) return assignments;
  for (const auto& [key, value] : set->entries) {
    Assignment assignment;
    assignment.target = key.text;
    assignment.scope = bare;
    for (std::string_view rest = key.text;;) {
      const std::size_t dot = rest.find('.');
      assignment.path.emplace_back(rest.substr(0, dot));
      if (dot == std::string_view::npos) break;
      rest = rest.substr(dot + 1);
    }
    const std::string root = assignment.path.front();
    const bool refused =
        std::find(std::begin(kNoTargets), std::end(kNoTargets), root) != std::end(kNoTargets);
    for (const auto& [name, scope] : kScopes) {
      if (root != name) continue;
      assignment.scope = scope;
      assignment.path.erase(assignment.path.begin());
    }
    const bool broken = assignment.path.empty() ||
                        std::any_of(assignment.path.begin(), assignment.path.end(),
                                    [](const std::string& part) { return part.empty(); });
    if (refused || broken) {
      context->report.Add("E280", key, fmt::format("cannot assign to '{}'", key.text),
                          "assign to ctx.<name>, iter.<name> or step.<name>");
      continue;
    }
    assignment.value = CompileTree(context, value);
    assignments.push_back(std::move(assignment));
  }
  return assignments;
}

void BuildAdmit(BuildContext* context, const Node& admit, Step* step) {
  Reporter& report = context->report;
  if (!report.CheckKeys(admit, "admit", WherePart(*step, "admit"))) return;
  step->has_admit = true;
  const Node* rules = admit.Find("rules");
  if (rules == nullptr || !rules->is_list()) return;
  for (const Node& rule : rules->items) {
    if (!report.CheckKeys(rule, "admit.rule", WherePart(*step, "an admit rule"))) continue;
    AdmitRule built;
    const Node* then = rule.Find("then");
    if (const Node* otherwise = rule.Find("else")) {
      then = otherwise->is_map() ? otherwise->Find("then") : nullptr;
    } else if (rule.Find("when") != nullptr) {
      built.when = CompileWhen(context, rule.Find("when"));
    }
    const Node* allow = then != nullptr && then->is_map() ? then->Find("allow") : nullptr;
    if (allow == nullptr || !allow->is_scalar() || !allow->scalar.is_bool()) {
      report.Add(
          "E450", rule,
          fmt::format("Step '{}': an admit rule needs then: {{allow: true}} or {{allow: false}}",
                      step->name),
          "write {when: ..., then: {allow: true}}");
      continue;
    }
    built.allow = allow->scalar.AsBool();
    step->admit.push_back(std::move(built));
  }
}

void BuildNext(BuildContext* context, const Node* next, Step* step) {
  if (next == nullptr || next->is_null()) return;
  Reporter& report = context->report;
  if (!report.CheckKeys(*next, "next", WherePart(*step, "next"))) return;
  if (const Node* spec = next->Find("spec"); spec != nullptr && !spec->is_null()) {
    report.CheckKeys(*spec, "next.spec", WherePart(*step, "next.spec"));
    if (TextOf(spec->is_map() ? spec->Find("mode") : nullptr) == "inclusive")
      step->mode = RouteMode::kInclusive;
    const std::string none = TextOf(spec->is_map() ? spec->Find("on_no_match") : nullptr);
    if (none == "quiet") step->on_no_match = OnNoMatch::kQuiet;
    if (none == "fail") step->on_no_match = OnNoMatch::kFail;
  }
  const Node* arcs = next->Find("arcs");
  if (arcs == nullptr || !arcs->is_list()) return;
  for (std::size_t i = 0; i < arcs->items.size(); ++i) {
    step->arcs.push_back(BuildArc(context, arcs->items[i], i, *step));
  }
}

void BuildSteps(BuildContext* context, const Node& root) {
  const Node* workflow = root.Find("workflow");
  if (workflow == nullptr || !workflow->is_list() || workflow->items.empty()) {
    context->report.Add("E012", workflow == nullptr ? root : *workflow,
                        fmt::format("workflow must be a non-empty list of steps, got {}",
                                    workflow == nullptr ? "nothing" : workflow->TypeName()),
                        "add workflow: with at least '- step: start'");
    return;
  }
  if (workflow->items.size() > kStepsMax) {
    context->report.Add(
        "E006", *workflow,
        fmt::format("number of steps exceeded: {} > {}", workflow->items.size(), kStepsMax),
        "split the playbook into sub-playbooks");
    return;
  }
  NameSteps(context, *workflow);
  for (std::size_t i = 0; i < workflow->items.size(); ++i) {
    if (workflow->items[i].is_map()) {
      BuildStep(context, workflow->items[i], &context->playbook->steps[i]);
    }
  }
}

}  // namespace noetl::playbook
