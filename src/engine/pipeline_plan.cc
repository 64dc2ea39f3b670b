#include "engine/pipeline_plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "engine/render.h"

namespace noetl::engine {
namespace {

using playbook::Assignment;

// Keys of a task that are not fields for its tool.
constexpr std::array<std::string_view, 8> kTaskKeys = {"kind", "name", "input",  "args",
                                                       "set",  "spec", "output", "retry"};
constexpr std::array<std::string_view, 3> kTimeoutKeys = {"timeout", "timeout_seconds",
                                                          "timeout_ms"};
constexpr std::array<std::string_view, 5> kRuleSettings = {"attempts", "backoff", "delay",
                                                           "max_delay", "message"};
// Bodies in other languages, where braces may mean something else.
constexpr std::array<std::string_view, 4> kForeignText = {"code", "cmds", "command", "script"};
constexpr std::array<std::string_view, 4> kReadOnlyRoots = {"workload", "keychain", "output",
                                                            "event"};
constexpr std::array<std::pair<std::string_view, PolicyRule::Do>, 5> kActions = {{
    {"continue", PolicyRule::Do::kContinue},
    {"retry", PolicyRule::Do::kRetry},
    {"fail", PolicyRule::Do::kFail},
    {"break", PolicyRule::Do::kBreak},
    {"jump", PolicyRule::Do::kJump},
}};

template <std::size_t N>
bool IsIn(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

template <std::size_t N>
Json Pick(const Json& map, const std::array<std::string_view, N>& names) {
  JsonObjectBuilder picked;
  for (std::string_view name : names) {
    if (const Json* found = map.Find(name)) picked.Add(name, *found);
  }
  return picked.Build();
}

class Planner {
 public:
  explicit Planner(playbook::Profile profile)
      : profile_(profile), dialect_{.methods = profile == playbook::Profile::kCompat} {}

  Result<PipelinePlan> Plan(const Json& config);

 private:
  Status AddTask(const Json& item, std::size_t index);
  Status AddFields(const Json& task, PlannedTask* planned);
  Status AddPolicy(const Json& policy, PlannedTask* planned);
  Result<PolicyRule> Rule(const Json& rule);
  Result<expr::Tree> Compile(std::string_view field, const Json& source);
  Status AddAssignments(const Json& set, std::string_view prefix, std::vector<Assignment>* out);
  Status CheckJumps() const;

  std::unexpected<Error> Refuse(std::string_view code, std::string_view what) const {
    return Fail(code, fmt::format("task '{}': {}", label_, what));
  }

  playbook::Profile profile_;
  expr::Dialect dialect_;
  std::string label_;
  PipelinePlan plan_;
};

Result<PipelinePlan> Planner::Plan(const Json& config) {
  const Json& list =
      config.is_object() ? (config.Has("tasks") ? config["tasks"] : config["tool_config"]) : config;
  if (!list.is_array() || list.empty()) return Fail("E231", "a pipeline needs at least one task");
  for (std::size_t i = 0; i < list.size(); ++i) NOETL_TRY(AddTask(list.At(i), i));
  NOETL_TRY(CheckJumps());
  return std::move(plan_);
}

Status Planner::AddTask(const Json& item, std::size_t index) {
  const Json* task = &item;
  label_ = item["name"].is_string() ? item["name"].ToString() : fmt::format("task_{}", index);
  if (item.is_object() && !item["kind"].is_string() && item.size() == 1) {
    label_ = item.members()[0].key();
    task = &item.members()[0].value;
  }
  if (!(*task)["kind"].is_string()) return Refuse("E230", "a task is a map with a 'kind'");
  if (plan_.Find(label_)) return Refuse("E232", "the label is used twice");

  PlannedTask planned;
  planned.label = label_;
  planned.kind = (*task)["kind"].ToString();
  planned.output = (*task)["output"];
  planned.spec = (*task)["spec"].Without("policy");
  if (planned.spec.empty()) planned.spec = Json();
  NOETL_TRY(AddFields(*task, &planned));
  NOETL_TRY(AddAssignments((*task)["set"], "", &planned.set));
  NOETL_TRY(AddPolicy((*task)["spec"]["policy"], &planned));
  plan_.tasks.push_back(std::move(planned));
  return {};
}

Status Planner::AddFields(const Json& task, PlannedTask* planned) {
  // `args` of a container is its argv.
  const bool args_is_input = planned->kind != "container";
  Json input = task["input"];
  if (args_is_input && task["args"].is_object()) input = task["args"].Merge(input);
  NOETL_ASSIGN(planned->input, Compile("input", input));
  NOETL_ASSIGN(planned->retry, Compile("retry", task["retry"]));
  Json timeout = Pick(task, kTimeoutKeys);
  if (const Json* declared = task["spec"].Find("timeout"))
    timeout = timeout.With("spec", *declared);
  NOETL_ASSIGN(planned->timeout, Compile("timeout", timeout));
  for (const JsonMember& member : task.members()) {
    const std::string_view name = member.key();
    if (IsIn(kTaskKeys, name) && !(name == "args" && !args_is_input)) continue;
    NOETL_ASSIGN(expr::Tree value, Compile(name, member.value));
    planned->fields.push_back({std::string(name), std::move(value), OutputOf(name)});
  }
  return {};
}

Result<expr::Tree> Planner::Compile(std::string_view field, const Json& source) {
  // In v10 code is never rendered.
  const bool verbatim = field == "code" && profile_ == playbook::Profile::kStrict;
  std::vector<expr::Tree::Problem> problems;
  expr::Tree tree =
      expr::Tree::Compile(source, dialect_, &problems,
                          verbatim ? [](std::string_view) { return false; } : expr::Tree::Filter());
  if (problems.empty()) return tree;
  const expr::Tree::Problem& first = problems.front();
  const std::string where =
      first.path.empty() ? std::string(field) : fmt::format("{}.{}", field, first.path);
  const std::string text =
      fmt::format("{} '{}': {}", where, first.source, first.error.error.message);
  if (profile_ == playbook::Profile::kCompat && IsIn(kForeignText, field)) {
    plan_.warnings.push_back(fmt::format("W413 task '{}': {}; left as written", label_, text));
    return tree;
  }
  return Refuse(first.error.error.code, text);
}

Status Planner::AddAssignments(const Json& set, std::string_view prefix,
                               std::vector<Assignment>* out) {
  constexpr std::array<std::pair<std::string_view, Assignment::Scope>, 3> kScopes = {
      {{"ctx.", Assignment::Scope::kCtx},
       {"iter.", Assignment::Scope::kIter},
       {"step.", Assignment::Scope::kStep}}};
  for (const JsonMember& member : set.members()) {
    Assignment assignment{.scope = Assignment::Scope::kLocal, .target = std::string(prefix)};
    assignment.target += member.key();
    std::string_view path = assignment.target;
    for (const auto& [name, scope] : kScopes) {
      if (!assignment.target.starts_with(name)) continue;
      assignment.scope = scope;
      path.remove_prefix(name.size());
      break;
    }
    for (std::size_t start = 0; start <= path.size();) {
      const std::size_t dot = std::min(path.find('.', start), path.size());
      assignment.path.emplace_back(path.substr(start, dot - start));
      if (assignment.path.back().empty()) {
        return Refuse("E280", fmt::format("set target '{}' has an empty part", assignment.target));
      }
      start = dot + 1;
    }
    if (assignment.scope == Assignment::Scope::kLocal && assignment.path.size() > 1 &&
        IsIn(kReadOnlyRoots, assignment.path[0])) {
      return Refuse("E280", fmt::format("set target '{}' cannot be written", assignment.target));
    }
    NOETL_ASSIGN(assignment.value, Compile(assignment.target, member.value));
    out->push_back(std::move(assignment));
  }
  return {};
}

Status Planner::AddPolicy(const Json& policy, PlannedTask* planned) {
  planned->continue_unmatched = policy["on_unmatched"].AsString() == "continue";
  const Json& rules = policy.is_array() ? policy : policy["rules"];
  for (const Json& rule : rules.items()) {
    NOETL_ASSIGN(PolicyRule compiled, Rule(rule));
    planned->rules.push_back(std::move(compiled));
  }
  return {};
}

// {when, then}, {else: {then}}, {else: {do, ...}}, {else: null, then}, {then}, {expr, do}.
Result<PolicyRule> Planner::Rule(const Json& rule) {
  if (!rule.is_object()) return Refuse("E450", "a policy rule is a map with 'when' and 'then'");
  const Json* otherwise = rule.Find("else");
  const Json* then = rule.Find("then");
  if (otherwise != nullptr && otherwise->is_object()) {
    then = otherwise->Has("then") ? otherwise->Find("then") : otherwise;
  }
  if (then == nullptr) then = &rule;

  PolicyRule planned;
  for (std::string_view name : {"when", "expr"}) {
    const Json* when = rule.Find(name);
    if (otherwise != nullptr || when == nullptr) continue;
    auto compiled = expr::Condition::Compile(*when, dialect_);
    if (!compiled) {
      return Refuse(
          compiled.error().error.code,
          fmt::format("policy when '{}': {}", when->AsString(), compiled.error().error.message));
    }
    planned.when = *std::move(compiled);
    break;
  }
  const std::string_view verb = then->is_string() ? then->AsString() : (*then)["do"].AsString();
  if (!verb.empty()) {
    const auto found =
        std::ranges::find(kActions, verb, [](const auto& action) { return action.first; });
    if (found == kActions.end()) {
      return Refuse(
          "E451",
          fmt::format("unknown action '{}': use continue, retry, fail, break or jump", verb));
    }
    planned.action = found->second;
  }
  planned.to = (*then)["to"].ToString();
  NOETL_TRY(AddAssignments((*then)["set"], "", &planned.set));
  NOETL_TRY(AddAssignments((*then)["set_ctx"], "ctx.", &planned.set));
  NOETL_TRY(AddAssignments((*then)["set_iter"], "iter.", &planned.set));
  NOETL_ASSIGN(planned.settings, Compile("policy", Pick(*then, kRuleSettings)));
  return planned;
}

Status Planner::CheckJumps() const {
  for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
    for (const PolicyRule& rule : plan_.tasks[i].rules) {
      if (rule.action != PolicyRule::Do::kJump) continue;
      const std::string& label = plan_.tasks[i].label;
      if (IsPrevious(rule.to)) {
        if (i > 0) continue;
        return Fail("E453",
                    fmt::format("task '{}': the first task has no previous one to jump to", label));
      }
      if (plan_.Find(rule.to)) continue;
      return Fail("E452", fmt::format("task '{}': jump to '{}', which is no task of this step",
                                      label, rule.to));
    }
  }
  return {};
}

}  // namespace

std::optional<std::size_t> PipelinePlan::Find(std::string_view label) const {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].label == label) return i;
  }
  return std::nullopt;
}

bool IsPrevious(std::string_view target) {
  return target == "previous" || target == "prev" || target == "_previous" || target == "@previous";
}

Result<PipelinePlan> PlanPipeline(const Json& config, playbook::Profile profile) {
  return Planner(profile).Plan(config);
}

}  // namespace noetl::engine
