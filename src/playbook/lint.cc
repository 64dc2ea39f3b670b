#include "playbook/lint.h"

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "playbook/lint_internal.h"

namespace noetl::playbook {
namespace lint {
namespace {

std::size_t At(int i) { return static_cast<std::size_t>(i); }

std::string JoinPath(std::string_view base, std::string_view below) {
  if (base.empty() || below.empty()) return fmt::format("{}{}", base, below);
  return fmt::format("{}{}{}", base, below[0] == '[' ? "" : ".", below);
}

// Collects the templates of a playbook in document order.
class Collector {
 public:
  explicit Collector(const Playbook& playbook) : playbook_(playbook) {
    dialect_.methods = playbook.profile == Profile::kCompat;
  }

  std::vector<Use> Run() {
    for (std::size_t i = 0; i < playbook_.workload.size(); ++i) {
      const WorkloadEntry& entry = playbook_.workload[i];
      use_ = {.compiled = Nothing(), .place = Place::kWorkload, .item = static_cast<int>(i)};
      AddTree(entry.value, "workload." + entry.name);
    }
    for (std::size_t i = 0; i < playbook_.keychain.items().size(); ++i) {
      use_ = {.compiled = Nothing(), .place = Place::kKeychain};
      AddJson(playbook_.keychain.items()[i], fmt::format("keychain[{}]", i));
    }
    for (const Step& step : playbook_.steps) AddStep(step);
    return std::move(uses_);
  }

 private:
  static expr::Template Nothing() { return *expr::Template::Compile(""); }

  void Add(const expr::Template& compiled, std::string path) {
    use_.compiled = compiled;
    const std::string base = use_.step < 0 ? "" : playbook_.steps[At(use_.step)].path;
    use_.field = path.starts_with(base + ".") ? path.substr(base.size() + 1) : path;
    use_.path = std::move(path);
    uses_.push_back(use_);
  }

  void AddTree(const expr::Tree& tree, const std::string& path) {
    for (const auto& leaf : tree.Leaves()) Add(leaf.compiled, JoinPath(path, leaf.path));
  }

  // What the model keeps as plain JSON (keychain entries, policy rules) is compiled here. Problems
  // were reported when the document was read.
  void AddJson(const Json& value, const std::string& path) {
    std::vector<expr::Tree::Problem> problems;
    AddTree(expr::Tree::Compile(value, dialect_, &problems), path);
  }

  void AddCondition(const expr::Condition& condition, std::string path) {
    if (const auto* compiled = condition.compiled()) Add(*compiled, std::move(path));
  }

  void AddSet(const std::vector<Assignment>& set, const std::string& path) {
    for (const Assignment& assignment : set) {
      use_.target = assignment.target;
      AddTree(assignment.value, JoinPath(path, assignment.target));
    }
    use_.target.clear();
  }

  void AddStep(const Step& step) {
    const auto at = [&](std::string_view below) { return JoinPath(step.path, below); };
    use_ = {.compiled = Nothing(), .place = Place::kStepWhen, .step = step.index};
    AddCondition(step.when, at("when"));
    use_.place = Place::kAdmit;
    for (std::size_t i = 0; i < step.admit.size(); ++i) {
      AddCondition(step.admit[i].when, at(fmt::format("spec.policy.admit.rules[{}].when", i)));
    }
    if (step.loop) AddLoop(*step.loop, step);
    use_.place = Place::kStepInput;
    AddTree(step.input, at("input"));
    for (std::size_t i = 0; i < step.tasks.size(); ++i) AddTask(step, static_cast<int>(i));
    use_.task = -1;
    use_.place = Place::kStepSet;
    AddSet(step.set, at("set"));
    for (const Arc& arc : step.arcs) {
      use_.place = Place::kArcWhen;
      AddCondition(arc.when, arc.path + ".when");
      use_.place = Place::kArcSet;
      AddSet(arc.set, arc.path + ".set");
      use_.place = Place::kArcArgs;
      AddTree(arc.args, arc.path + ".args");
    }
  }

  void AddLoop(const Loop& loop, const Step& step) {
    use_.place = Place::kLoopIn;
    AddTree(loop.in, step.path + ".loop.in");
    use_.place = Place::kMaxInFlight;
    AddTree(loop.max_in_flight, step.path + ".loop.spec.max_in_flight");
    use_.place = Place::kCursor;
    AddTree(loop.cursor.auth, step.path + ".loop.cursor.auth");
    AddTree(loop.cursor.claim, step.path + ".loop.cursor.claim");
  }

  void AddTask(const Step& step, int index) {
    const Task& task = step.tasks[At(index)];
    use_.task = index;
    use_.place = Place::kTaskInput;
    AddTree(task.input, task.path + ".input");
    use_.place = Place::kTaskField;
    for (const Task::Field& field : task.fields) {
      AddTree(field.value, JoinPath(task.path, field.name));
    }
    use_.place = Place::kTaskSet;
    // The set of a single tool is part of the step's.
    if (!step.single) AddSet(task.set, task.path + ".set");
    const Json& rules = TaskConfig(step, index)["spec"]["policy"]["rules"];
    for (std::size_t i = 0; i < rules.items().size(); ++i) {
      AddRule(rules.items()[i], fmt::format("{}.spec.policy.rules[{}]", task.path, i));
    }
  }

  void AddRule(const Json& rule, const std::string& path) {
    use_.place = Place::kPolicyWhen;
    if (const Json* when = rule.Find("when")) {
      if (const auto condition = expr::Condition::Compile(*when, dialect_)) {
        AddCondition(*condition, path + ".when");
      }
    }
    use_.place = Place::kPolicyThen;
    AddJson(rule["then"], path + ".then");
    AddJson(rule["else"], path + ".else");
  }

  const Playbook& playbook_;
  expr::Dialect dialect_;
  Use use_{.compiled = Nothing()};
  std::vector<Use> uses_;
};

void AddKeys(const expr::Tree& map, std::set<std::string, std::less<>>* names) {
  for (const JsonMember& member : map.source().members()) names->emplace(member.key());
}

void AddTargets(const std::vector<Assignment>& set, Names* names, StepNames* step) {
  for (const Assignment& assignment : set) {
    if (assignment.scope == Assignment::Scope::kCtx) names->ctx.insert(assignment.path[0]);
    if (assignment.scope == Assignment::Scope::kLocal) step->locals.insert(assignment.path[0]);
  }
}

}  // namespace

std::vector<Use> CollectUses(const Playbook& playbook) { return Collector(playbook).Run(); }

const Json& TaskConfig(const Step& step, int task) {
  static const Json kNull;
  const Json& item = step.pipeline_config.At(At(task));
  return item.members().size() == 1 ? item.members()[0].value : kNull;
}

std::vector<std::string> PolicyTargets(const Step& step, int task) {
  std::vector<std::string> targets;
  const auto add = [&](const Json& set) {
    for (const JsonMember& member : set.members()) targets.emplace_back(member.key());
  };
  for (const Json& rule : TaskConfig(step, task)["spec"]["policy"]["rules"].items()) {
    add(rule["then"]["set"]);
    add(rule["else"]["set"]);
    add(rule["else"]["then"]["set"]);
  }
  return targets;
}

Names CollectNames(const Playbook& playbook) {
  Names names;
  names.steps.resize(playbook.steps.size());
  for (const WorkloadEntry& entry : playbook.workload) {
    names.workload.insert(entry.name);
    if (entry.secret) names.secrets.insert(entry.name);
  }
  for (const Step& step : playbook.steps) {
    StepNames& mine = names.steps[At(step.index)];
    AddKeys(step.input, &mine.inputs);
    AddTargets(step.set, &names, &mine);
    for (const Arc& arc : step.arcs) {
      AddTargets(arc.set, &names, &mine);
      if (arc.target_index >= 0) AddKeys(arc.args, &names.steps[At(arc.target_index)].args);
    }
    for (std::size_t i = 0; i < step.tasks.size(); ++i) {
      const Task& task = step.tasks[i];
      if (step.pipeline) mine.labels.insert(task.name);
      AddKeys(task.input, &mine.task_inputs.emplace_back());
      AddTargets(task.set, &names, &mine);
      for (const std::string& target : PolicyTargets(step, static_cast<int>(i))) {
        const std::size_t dot = target.find('.');
        const std::string first = target.substr(0, dot);
        if (first == "ctx" && dot != target.npos) {
          const std::string rest = target.substr(dot + 1);
          names.ctx.insert(rest.substr(0, rest.find('.')));
        } else if (first != "iter" && first != "step") {
          mine.locals.insert(first);
        }
      }
    }
  }
  for (StepNames& step : names.steps) step.inputs.insert(step.args.begin(), step.args.end());
  return names;
}

bool IsUnconditional(const expr::Condition& condition) {
  if (condition.is_absent()) return true;
  const Json& source = condition.source();
  return (source.is_bool() && source.AsBool()) ||
         (source.is_string() && NormaliseCondition(source.AsString()) == "true");
}

std::string Where(const Playbook& playbook, const Use& use) {
  if (use.step < 0) return use.field;
  return fmt::format("Step '{}': {}", playbook.steps[At(use.step)].name, use.field);
}

bool IsLive(const Playbook& playbook, int step) {
  const auto starts = [&](int root) {
    return root >= 0 && (root == step || playbook.graph.Reach(root).Has(step));
  };
  return starts(playbook.entry) || starts(playbook.final) ||
         (playbook.implicit_end && starts(playbook.end));
}

}  // namespace lint

void Lint(const Playbook& playbook, Diagnostics* diagnostics) {
  const lint::Names names = lint::CollectNames(playbook);
  const std::vector<lint::Use> uses = lint::CollectUses(playbook);
  lint::LintRouting(playbook, diagnostics);
  lint::LintTasks(playbook, names, uses, diagnostics);
  lint::LintTemplates(playbook, names, uses, diagnostics);
}

}  // namespace noetl::playbook
