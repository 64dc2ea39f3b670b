// Tools and assignments: races, hidden names, children nobody waits for.
#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "playbook/lint_internal.h"

namespace noetl::playbook::lint {
namespace {

using expr::RootPath;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

class TaskLint {
 public:
  TaskLint(const Playbook& playbook, const Names& names, const std::vector<Use>& uses,
           Diagnostics* diagnostics)
      : playbook_(playbook), names_(names), uses_(uses), diagnostics_(diagnostics) {
    for (const Use& use : uses) {
      for (const RootPath& root : use.compiled.analysis().roots) {
        readers_[root.root].push_back(&use);
      }
    }
  }

  void Run() {
    for (const Step& step : playbook_.steps) {
      for (std::size_t i = 0; i < step.tasks.size(); ++i) {
        const Task& task = step.tasks[i];
        Races(step, static_cast<int>(i));
        if (!step.single) HiddenFields(step, task);
        if (playbook_.profile == Profile::kStrict) BracesInCode(step, task);
        if (task.kind == "playbook") Child(step, task);
      }
    }
    for (const Use& use : uses_) ReferenceNames(use);
  }

 private:
  void Add(std::string_view code, const std::string& path, std::string message, std::string hint) {
    diagnostics_->Add(code, path, playbook_.PositionOf(path), std::move(message), std::move(hint));
  }

  // ---- W250 ----

  static bool RunsSideBySide(const Loop& loop) {
    if (loop.mode == Loop::Mode::kSequential) return false;
    const Json& limit = loop.max_in_flight.source();
    const bool one_slot =
        loop.mode == Loop::Mode::kCursor ? limit.is_null() || limit == Json(1) : limit == Json(1);
    return !one_slot || (loop.mode == Loop::Mode::kCursor && loop.frame.row_concurrency > 1);
  }

  void Races(const Step& step, int index) {
    if (!step.loop || !RunsSideBySide(*step.loop)) return;
    const Task& task = step.tasks[At(index)];
    const auto report = [&](const std::string& key, const std::string& path) {
      Add("W250", path,
          fmt::format("Step '{}': parallel iterations race on ctx.{}; last completion wins",
                      step.name, key),
          fmt::format("return the value and read {}.results afterwards, or use mode: sequential",
                      step.name));
    };
    // The set of a single tool runs once, after the loop.
    if (!step.single) {
      for (const Assignment& assignment : task.set) {
        if (assignment.scope != Assignment::Scope::kCtx) continue;
        report(fmt::format("{}", fmt::join(assignment.path, ".")),
               task.path + ".set." + assignment.target);
      }
    }
    for (const std::string& target : PolicyTargets(step, index)) {
      if (target.starts_with("ctx.")) report(target.substr(4), task.path + ".spec.policy.rules");
    }
  }

  // ---- W420 ----

  void HiddenFields(const Step& step, const Task& task) {
    // Only a noop says beforehand what its payload will be.
    const Task::Field* result = task.kind == "noop" ? task.Find("result") : nullptr;
    if (result == nullptr) return;
    for (const JsonMember& field : result->value.source().members()) {
      if (!names_.steps[At(step.index)].labels.contains(field.key())) continue;
      Add("W420", fmt::format("{}.result.{}", task.path, field.key()),
          fmt::format("Step '{}': result field '{}' of task '{}' has the name of a task; "
                      "{}.{} will be the task",
                      step.name, field.key(), task.name, step.name, field.key()),
          "rename the field or the task");
    }
  }

  // ---- W414 ----

  void BracesInCode(const Step& step, const Task& task) {
    const Task::Field* code = task.Find("code");
    if (code == nullptr || !code->value.source().is_string()) return;
    const auto compiled = expr::Template::Compile(code->value.source().AsString());
    if (!compiled || compiled->is_literal()) return;
    for (const RootPath& root : compiled->analysis().roots) {
      const bool known = names_.workload.contains(root.root) || names_.ctx.contains(root.root) ||
                         playbook_.IndexOf(root.root) >= 0 || IsReservedRoot(root.root) ||
                         names_.steps[At(step.index)].inputs.contains(root.root);
      if (!known) continue;
      Add("W414", task.path + ".code",
          fmt::format(
              "Step '{}': code is never rendered in noetl.io/v10, '{{{{ {} }}}}' stays as it is",
              step.name, root.root),
          fmt::format("pass it: input: {{{}: \"{{{{ {} }}}}\"}} and use the variable", root.root,
                      root.root));
      return;
    }
  }

  // ---- W462, W463 ----

  static bool IsOn(const Task& task, std::string_view field) {
    const Task::Field* found = task.Find(field);
    if (found == nullptr) return false;
    const Json& value = found->value.source();
    return !(value.is_null() || value == Json(false) || value == Json(""));
  }

  // What a child that is only started tells its parent.
  static bool IsStartAnswer(std::string_view field) {
    static constexpr std::string_view kFields[] = {
        "status", "execution_id", "path", "async", "error", "meta", "_prev", "child_status"};
    return std::ranges::find(kFields, field) != std::end(kFields);
  }

  // The field of the child's data that a path below the step's result reads, if any.
  static std::optional<std::string> DataField(std::span<const std::string> path) {
    static constexpr std::string_view kAccessors[] = {"data", "result", "output", "context"};
    while (!path.empty() && std::ranges::find(kAccessors, path[0]) != std::end(kAccessors)) {
      path = path.subspan(1);
    }
    if (path.empty() || IsStartAnswer(path[0])) return std::nullopt;
    return path[0];
  }

  void Child(const Step& step, const Task& task) {
    const Task::Field* path = task.Find("path");
    const std::string child = path ? path->value.source().ToString() : "";
    for (const std::string_view field : {"return_step", "result_step"}) {
      const Task::Field* wanted = task.Find(field);
      if (wanted == nullptr || child != playbook_.path || !wanted->value.is_literal()) continue;
      const std::string name = wanted->value.source().ToString();
      if (name.empty() || playbook_.IndexOf(name) >= 0) continue;
      Add("W463", fmt::format("{}.{}", task.path, field),
          fmt::format("Step '{}': {} '{}' is not a step of '{}'; its whole result is returned",
                      step.name, field, name, child),
          NearestStep(name));
    }
    for (const std::string_view field : {"return_step", "return_result", "result_step", "wait"}) {
      if (IsOn(task, field)) return;
    }
    const Use* reader = nullptr;
    std::string what;
    for (const Use* use : PossibleReaders(step)) {
      for (const RootPath& root : use->compiled.analysis().roots) {
        if (reader != nullptr || root.guarded) continue;
        if (const auto field = ReadFromChild(step, task, *use, root)) {
          reader = use;
          what = *field;
        }
      }
    }
    if (reader == nullptr) return;
    Add("W462", task.path,
        fmt::format(
            "Step '{}': the playbook{} is started and not waited for, but {} reads its '{}'",
            step.name, child.empty() ? "" : fmt::format(" '{}'", child), Where(playbook_, *reader),
            what),
        "add return_result: true (or return_step: <step>) to wait for its data");
  }

  // Templates that name the step or belong to it, in document order.
  std::vector<const Use*> PossibleReaders(const Step& step) const {
    std::vector<const Use*> readers;
    if (const auto found = readers_.find(step.name); found != readers_.end()) {
      readers = found->second;
    }
    const auto own = std::ranges::equal_range(uses_, step.index, {}, &Use::step);
    for (const Use& use : own) readers.push_back(&use);
    std::ranges::sort(readers);
    return readers;
  }

  std::optional<std::string> ReadFromChild(const Step& step, const Task& task, const Use& use,
                                           const RootPath& root) const {
    std::span<const std::string> path = root.path;
    const bool own = use.step == step.index && use.task < 0;
    if (step.single && (root.root == step.name || (own && root.root == "result") ||
                        (own && root.root == "output"))) {
      return DataField(path);
    }
    if (step.single) return std::nullopt;
    if (root.root == step.name && path.size() > 1 && path[0] == task.name) {
      return DataField(path.subspan(1));
    }
    if (use.step == step.index && use.task >= 0 && root.root == task.name) return DataField(path);
    return std::nullopt;
  }

  std::string NearestStep(std::string_view name) const {
    std::vector<std::string> names;
    for (const Step& step : playbook_.steps) names.push_back(step.name);
    const auto near = NearestName(name, std::span<const std::string>(names));
    return near ? fmt::format("did you mean '{}'?", *near) : "name a step of that playbook";
  }

  // ---- W282 ----

  static bool IsReferenceName(std::string_view name) {
    return name.ends_with("_ref") || name == "ref" || name == "_uri";
  }

  void ReferenceNames(const Use& use) {
    const auto& roots = use.compiled.analysis().roots;
    if (use.target.empty() || !use.compiled.is_single() || roots.size() != 1 || roots[0].open ||
        !use.compiled.analysis().filters.empty()) {
      return;
    }
    // Only a value that is one path says what it holds.
    const std::string text = NormaliseCondition(use.compiled.source());
    const std::string whole =
        roots[0].path.empty() ? roots[0].root
                              : fmt::format("{}.{}", roots[0].root, fmt::join(roots[0].path, "."));
    if (text != whole) return;
    const std::string_view target = use.target;
    const std::string name(target.substr(target.rfind('.') + 1));
    const std::string& last = roots[0].path.empty() ? roots[0].root : roots[0].path.back();
    const bool named_reference = name.ends_with("_ref");
    if (named_reference == IsReferenceName(last)) return;
    Add("W282", use.path,
        named_reference ? fmt::format("{}: '{}' is named like a reference and holds data",
                                      Where(playbook_, use), use.target)
                        : fmt::format("{}: '{}' holds a reference and is named like data",
                                      Where(playbook_, use), use.target),
        named_reference ? "drop the ending _ref, or assign a ._ref"
                        : fmt::format("name it {}_ref", use.target));
  }

  const Playbook& playbook_;
  const Names& names_;
  const std::vector<Use>& uses_;  // in document order, so sorted by step
  std::map<std::string, std::vector<const Use*>, std::less<>> readers_;
  Diagnostics* diagnostics_;
};

}  // namespace

void LintTasks(const Playbook& playbook, const Names& names, const std::vector<Use>& uses,
               Diagnostics* diagnostics) {
  TaskLint(playbook, names, uses, diagnostics).Run();
}

}  // namespace noetl::playbook::lint
