// Names, clocks and secrets in templates: is what a template reads there when it is evaluated?
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
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

// What a place offers beyond the base names, and what it forbids.
enum Offer : unsigned {
  kNothing = 0,
  kArgs = 1 << 0,       // arc args
  kInputs = 1 << 1,     // step input
  kLoopNames = 1 << 2,  // iterator and counters, in a loop step
  kTaskNames = 1 << 3,  // _task, _attempt, input; in a pipeline also labels, locals, _prev, iter
  kOwnInput = 1 << 4,   // the task's own input
  kOutput = 1 << 5,
  kError = 1 << 6,       // error
  kOutcome = 1 << 7,     // outcome
  kEvent = 1 << 8,       // event, result
  kFrame = 1 << 9,       // __frame_max_rows
  kNoSecrets = 1 << 10,  // E431
  kReplayed = 1 << 11,   // E402: evaluated again on replay
};

struct PlaceRule {
  Place place;
  std::string_view name;
  unsigned offers;
};

constexpr unsigned kTask = kArgs | kInputs | kLoopNames | kTaskNames;
constexpr unsigned kRouting = kNoSecrets | kReplayed;
constexpr unsigned kAfterStep = kOutput | kError | kEvent | kRouting;

constexpr PlaceRule kPlaceRules[] = {
    {Place::kWorkload, "workload", kNothing},
    {Place::kKeychain, "keychain", kNothing},
    {Place::kStepWhen, "when", kRouting},
    {Place::kAdmit, "admit rules", kRouting},
    {Place::kLoopIn, "loop.in", kRouting},
    {Place::kMaxInFlight, "max_in_flight", kRouting},
    {Place::kCursor, "loop.cursor", kFrame},
    {Place::kStepInput, "step input", kArgs | kLoopNames},
    {Place::kTaskInput, "tool input", kTask},
    {Place::kTaskField, "tool fields", kTask | kOwnInput},
    {Place::kTaskSet, "the set of a task", kTask | kOwnInput | kOutput | kNoSecrets},
    {Place::kPolicyWhen, "policy rules",
     kTask | kOwnInput | kOutput | kError | kOutcome | kNoSecrets},
    {Place::kPolicyThen, "policy rules",
     kTask | kOwnInput | kOutput | kError | kOutcome | kNoSecrets},
    {Place::kStepSet, "the set of a step", kAfterStep},
    {Place::kArcWhen, "arcs", kAfterStep},
    {Place::kArcSet, "arcs", kAfterStep},
    {Place::kArcArgs, "arcs", kAfterStep},
};

const PlaceRule& RuleOf(Place place) {
  return *std::ranges::find(kPlaceRules, place, &PlaceRule::place);
}

// Names with a fixed meaning: what offers them, and where an author finds them.
enum class Needs { kBase, kStart, kLoop, kTask, kPipeline, kIter, kOffer };
struct RootRule {
  std::string_view name;
  Needs needs;
  unsigned offer;
  std::string_view where;
};

constexpr std::string_view kInLoops = "it exists in the tool of a loop step";
constexpr std::string_view kInPipelines = "it exists in the tasks of a pipeline (tool: [...])";

constexpr RootRule kRootRules[] = {
    {"execution_id", Needs::kStart, 0, ""},
    {"parent_execution_id", Needs::kStart, 0, ""},
    {"job", Needs::kStart, 0, ""},
    {"env", Needs::kStart, 0, ""},
    {"workload", Needs::kStart, 0, ""},
    {"catalog_id", Needs::kBase, 0, "it exists in steps"},
    {"playbook", Needs::kBase, 0, "it exists in steps"},
    {"ctx", Needs::kBase, 0, "it exists in steps"},
    {"steps", Needs::kBase, 0, "it exists in steps"},
    {"path", Needs::kBase, 0, "it exists in steps"},
    {"version", Needs::kBase, 0, "it exists in steps"},
    {"step", Needs::kBase, 0, "it exists in steps"},
    {"_index", Needs::kLoop, 0, kInLoops},
    {"_total", Needs::kLoop, 0, kInLoops},
    {"loop_index", Needs::kLoop, 0, kInLoops},
    {"loop", Needs::kLoop, 0, kInLoops},
    {"iter", Needs::kIter, 0, "it exists in the tool of a loop step and in pipelines"},
    {"input", Needs::kTask, 0, "it exists in the fields of a tool"},
    {"args", Needs::kTask, 0, "it exists in the fields of a tool"},
    {"_task", Needs::kTask, 0, "it exists in the fields of a tool"},
    {"_attempt", Needs::kTask, 0, "it exists in the fields of a tool"},
    {"_prev", Needs::kPipeline, 0, kInPipelines},
    {"results", Needs::kPipeline, 0, kInPipelines},
    {"_results", Needs::kPipeline, 0, kInPipelines},
    {"server_url", Needs::kPipeline, 0, kInPipelines},
    {"worker_id", Needs::kPipeline, 0, kInPipelines},
    {"command_id", Needs::kPipeline, 0, kInPipelines},
    {"output", Needs::kOffer, kOutput,
     "it exists in set, next and policy rules, after the tool ran"},
    {"error", Needs::kOffer, kError,
     "it exists in step set, next and policy rules after a failure"},
    {"outcome", Needs::kOffer, kOutcome, "it exists in policy rules; elsewhere read output"},
    {"event", Needs::kOffer, kEvent, "it exists in step set and next"},
    {"result", Needs::kOffer, kEvent, "it exists in step set and next"},
    {"exit_code", Needs::kOffer, kEvent, "it exists in next"},
    {"__frame_max_rows", Needs::kOffer, kFrame, "it exists in loop.cursor.claim"},
    {"__cursor_frame", Needs::kLoop, 0, kInLoops},
    {"__cursor_row", Needs::kLoop, 0, kInLoops},
};

std::string Suggest(std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = NearestName(word, std::span<const std::string>(candidates));
  return near ? fmt::format("did you mean '{}'?", *near) : "";
}

class TemplateLint {
 public:
  TemplateLint(const Playbook& playbook, const Names& names, Diagnostics* diagnostics)
      : playbook_(playbook), names_(names), diagnostics_(diagnostics) {}

  void Check(const Use& use) {
    const auto& analysis = use.compiled.analysis();
    const unsigned offers = RuleOf(use.place).offers;
    if (analysis.uses_now && (offers & kReplayed)) {
      Add("E402", use,
          fmt::format("{}: now() is not allowed in {}: a replay would decide otherwise",
                      Where(playbook_, use), RuleOf(use.place).name),
          "put now() into the workload or a tool field, where the rendered text is recorded");
    }
    CheckSecrets(use, analysis, (offers & kNoSecrets) != 0);
    if (!analysis.methods.empty() && playbook_.profile == Profile::kCompat) {
      Add("W408", use,
          fmt::format("{}: method call .{}() is accepted in noetl.io/v2 only",
                      Where(playbook_, use), analysis.methods[0]),
          fmt::format("write it as a filter: value | {}", FilterFor(analysis.methods[0])));
    }
    for (const RootPath& root : analysis.roots) CheckRoot(use, root);
  }

 private:
  void Add(std::string_view code, const Use& use, std::string message, std::string hint) {
    diagnostics_->Add(code, use.path, playbook_.PositionOf(use.path), std::move(message),
                      std::move(hint));
  }

  static std::string_view FilterFor(std::string_view method) {
    static constexpr std::pair<std::string_view, std::string_view> kFilters[] = {
        {"strip", "trim"},
        {"get", "get(key)"},
        {"startswith", "... (test: value is startingwith(text))"},
        {"endswith", "... (test: value is endingwith(text))"},
    };
    for (const auto& [name, filter] : kFilters) {
      if (name == method) return filter;
    }
    return method;
  }

  // ---- secrets ----

  bool IsSecretInput(const RootPath& root) const {
    if (names_.secrets.empty()) return false;
    const bool through = root.root == "workload" || root.root == "ctx";
    if (through) return !root.path.empty() && names_.secrets.contains(root.path[0]);
    return names_.secrets.contains(root.root);
  }

  void CheckSecrets(const Use& use, const expr::Analysis& analysis, bool forbidden) {
    std::string secret;
    if (analysis.uses_token) secret = "token()";
    for (const RootPath& root : analysis.roots) {
      if (root.root == "keychain") secret = "keychain";
      if (IsSecretInput(root)) secret = fmt::format("secret input '{}'", SecretName(root));
    }
    if (secret.empty() || use.place == Place::kWorkload || use.place == Place::kKeychain) return;
    if (forbidden) {
      Add("E431", use,
          fmt::format("{}: {} must not be used in {}: its value would reach the log",
                      Where(playbook_, use), secret, RuleOf(use.place).name),
          "use it in a tool field or through auth:, and decide on the tool's result");
      return;
    }
    static constexpr std::string_view kExposed[] = {"url",  "endpoint", "command", "commands",
                                                    "cmds", "query",    "code",    "script"};
    if (use.place != Place::kTaskField) return;
    const std::string& task = playbook_.steps[At(use.step)].tasks[At(use.task)].path;
    const std::string below = use.path.substr(std::min(task.size() + 1, use.path.size()));
    const std::string field = below.substr(0, below.find_first_of(".["));
    if (std::ranges::find(kExposed, field) == std::end(kExposed)) return;
    Add("W432", use,
        fmt::format("{}: {} inside '{}' may leak into logs of the other side",
                    Where(playbook_, use), secret, field),
        "prefer auth: <name>, headers or input");
  }

  static const std::string& SecretName(const RootPath& root) {
    return root.root == "workload" || root.root == "ctx" ? root.path[0] : root.root;
  }

  // ---- names ----

  void CheckRoot(const Use& use, const RootPath& root) {
    if (IsFunction(root.root) || root.root == "keychain") return;
    if (use.place == Place::kWorkload) return CheckWorkloadName(use, root);
    if (use.place == Place::kKeychain) return CheckKeychainName(use, root);
    if (IsLocal(use, root.root)) return;
    if (CheckFixedRoot(use, root)) return;
    if (names_.ctx.contains(root.root)) return;
    if (const int step = playbook_.IndexOf(root.root); step >= 0) {
      if (!names_.workload.contains(root.root)) CheckOrder(use, root, step);
      return;
    }
    if (names_.workload.contains(root.root) || root.guarded) return;
    if (CheckForeignName(use, root.root)) return;
    NeverDefined(use, root.root);
  }

  static bool IsFunction(std::string_view name) {
    const auto functions = expr::FunctionNames();
    return std::ranges::find(functions, name) != functions.end();
  }

  // Names bound for this step or task, which hide all others.
  bool IsLocal(const Use& use, std::string_view name) const {
    const unsigned offers = RuleOf(use.place).offers;
    const Step& step = playbook_.steps[At(use.step)];
    const StepNames& mine = names_.steps[At(use.step)];
    if ((offers & kArgs) && mine.args.contains(name)) return true;
    if ((offers & kInputs) && mine.inputs.contains(name)) return true;
    if ((offers & kLoopNames) && step.loop && step.loop->iterator == name) return true;
    if ((offers & kOwnInput) && mine.task_inputs[At(use.task)].contains(name)) return true;
    if (!(offers & kTaskNames) || !step.pipeline) return false;
    return mine.labels.contains(name) || mine.locals.contains(name);
  }

  bool IsOffered(const Use& use, const RootRule& rule) const {
    const unsigned offers = RuleOf(use.place).offers;
    const Step& step = playbook_.steps[At(use.step)];
    const bool in_loop = (offers & kLoopNames) && step.loop;
    const bool in_pipeline = (offers & kTaskNames) && step.pipeline;
    switch (rule.needs) {
      case Needs::kBase:
      case Needs::kStart: return true;
      case Needs::kLoop: return in_loop;
      case Needs::kTask: return (offers & kTaskNames) != 0;
      case Needs::kPipeline: return in_pipeline;
      case Needs::kIter: return in_loop || in_pipeline;
      case Needs::kOffer: return (offers & rule.offer) != 0;
    }
    return false;
  }

  // True when the root is one of the fixed names and all about it has been said.
  bool CheckFixedRoot(const Use& use, const RootPath& root) {
    if (root.root == "spec" && !playbook_.root_spec.is_null()) return true;
    if (root.root == "summary" && use.step == playbook_.final) return true;
    const auto* rule = std::ranges::find(kRootRules, root.root, &RootRule::name);
    if (rule == std::end(kRootRules)) return false;
    if (IsOffered(use, *rule)) {
      CheckMember(use, root);
      return true;
    }
    // A playbook may use such a word for a name of its own.
    const bool own = names_.ctx.contains(root.root) || names_.workload.contains(root.root) ||
                     playbook_.IndexOf(root.root) >= 0;
    if (own || root.guarded) return true;
    NotHere(use, root.root, std::string(rule->where));
    return true;
  }

  // ctx.x, workload.x and steps.x: is there an x?
  void CheckMember(const Use& use, const RootPath& root) {
    if (root.path.empty() || root.guarded) return;
    const std::string& name = root.path[0];
    const int step = playbook_.IndexOf(name);
    std::vector<std::string> candidates;
    if (root.root == "steps") {
      if (step >= 0) return CheckOrder(use, root, step);
      for (const Step& each : playbook_.steps) candidates.push_back(each.name);
    } else if (root.root == "ctx") {
      if (names_.ctx.contains(name) || names_.workload.contains(name) || step >= 0) return;
      candidates.assign(names_.ctx.begin(), names_.ctx.end());
      candidates.insert(candidates.end(), names_.workload.begin(), names_.workload.end());
    } else if (root.root == "workload") {
      if (names_.workload.contains(name)) return;
      candidates.assign(names_.workload.begin(), names_.workload.end());
    } else {
      return;
    }
    std::string hint = Suggest(name, candidates);
    if (hint.empty()) {
      hint = root.root == "steps" ? "no step has that name"
             : root.root == "ctx" ? fmt::format("no set block assigns ctx.{}", name)
                                  : fmt::format("declare '{}' under workload", name);
    }
    Add("W405", use,
        fmt::format("{}: '{}.{}' is never defined; it will render as empty", Where(playbook_, use),
                    root.root, name),
        std::move(hint));
  }

  // Whether `other` can have run when this template is evaluated.
  bool MayHaveRun(const Use& use, int other) const {
    const auto is_last = [&](int step) {
      return step == playbook_.final || (playbook_.implicit_end && step == playbook_.end);
    };
    if (use.step == other) {
      return (RuleOf(use.place).offers & kEvent) != 0 || playbook_.graph.Reach(other).Has(other);
    }
    if (!IsLive(playbook_, other) || other == playbook_.final) return false;
    if (is_last(use.step)) return true;
    return playbook_.graph.Reach(other).Has(use.step);
  }

  void CheckOrder(const Use& use, const RootPath& root, int other) {
    if (root.guarded || MayHaveRun(use, other)) return;
    const std::string& name = playbook_.steps[At(other)].name;
    const bool itself = use.step == other;
    Add("W406", use,
        itself ? fmt::format("{}: '{}' has not ended yet when this is evaluated",
                             Where(playbook_, use), name)
               : fmt::format("{}: '{}' never runs before '{}'", Where(playbook_, use), name,
                             playbook_.steps[At(use.step)].name),
        itself
            ? "read the step's own result in its set or next"
            : fmt::format("lead an arc from '{}' here, or guard it: '{} is defined'", name, name));
  }

  void NotHere(const Use& use, std::string_view name, std::string hint) {
    Add("W407", use,
        fmt::format("{}: '{}' is not available in {}", Where(playbook_, use), name,
                    RuleOf(use.place).name),
        std::move(hint));
  }

  // A label, iterator, input or local of this or another step, read where it does not exist.
  bool CheckForeignName(const Use& use, std::string_view name) {
    if (CheckNameOf(use, name, use.step)) return true;
    for (const Step& step : playbook_.steps) {
      if (step.index != use.step && CheckNameOf(use, name, step.index)) return true;
    }
    return false;
  }

  bool CheckNameOf(const Use& use, std::string_view name, int owner) {
    const Step& step = playbook_.steps[At(owner)];
    const StepNames& mine = names_.steps[At(owner)];
    const bool task_input = std::ranges::any_of(
        mine.task_inputs, [&](const auto& inputs) { return inputs.contains(name); });
    if (step.loop && step.loop->iterator == name) {
      NotHere(use, name,
              fmt::format("it is the iterator of step '{}' and lives in its tool only", step.name));
    } else if (step.pipeline && mine.labels.contains(name)) {
      NotHere(use, name,
              fmt::format("it is a task of step '{}': write {}.{}", step.name, step.name, name));
    } else if (mine.locals.contains(name)) {
      NotHere(use, name,
              fmt::format("it is a local of step '{}'; set ctx.{} to share it", step.name, name));
    } else if (owner == use.step && (mine.inputs.contains(name) || task_input)) {
      NotHere(use, name, "it is an input of the tool and lives in the tool's other fields only");
    } else {
      return false;
    }
    return true;
  }

  void NeverDefined(const Use& use, std::string_view name) {
    std::vector<std::string> candidates(names_.ctx.begin(), names_.ctx.end());
    candidates.insert(candidates.end(), names_.workload.begin(), names_.workload.end());
    if (use.step >= 0) {
      for (const Step& step : playbook_.steps) candidates.push_back(step.name);
      const StepNames& mine = names_.steps[At(use.step)];
      for (const auto* set : {&mine.inputs, &mine.labels, &mine.locals}) {
        candidates.insert(candidates.end(), set->begin(), set->end());
      }
    }
    for (const RootRule& rule : kRootRules) {
      if (use.step < 0 ? rule.needs == Needs::kStart : IsOffered(use, rule)) {
        candidates.emplace_back(rule.name);
      }
    }
    std::string hint = Suggest(name, candidates);
    if (hint.empty()) {
      hint = fmt::format("declare it under workload, set ctx.{}, or write {} | default(...)", name,
                         name);
    }
    Add("W405", use,
        fmt::format("{}: '{}' is never defined; it will render as empty", Where(playbook_, use),
                    name),
        std::move(hint));
  }

  // Workload values see what stands above them.
  void CheckWorkloadName(const Use& use, const RootPath& root) {
    const auto* rule = std::ranges::find(kRootRules, root.root, &RootRule::name);
    const bool through = root.root == "workload" && !root.path.empty();
    const std::string& name = through ? root.path[0] : root.root;
    const auto entry = std::ranges::find(playbook_.workload, name, &WorkloadEntry::name);
    if (entry != playbook_.workload.end()) {
      // A value that names itself is W130, reported when the document is read.
      if (entry - playbook_.workload.begin() > use.item) {
        NotHere(use, name,
                fmt::format("move '{}' above '{}'", name, playbook_.workload[At(use.item)].name));
      }
      return;
    }
    if ((rule != std::end(kRootRules) && rule->needs == Needs::kStart && !through) ||
        root.guarded) {
      return;
    }
    if (rule != std::end(kRootRules) && !through)
      return NotHere(use, name, std::string(rule->where));
    NeverDefined(use, name);
  }

  void CheckKeychainName(const Use& use, const RootPath& root) {
    const bool known = root.root == "workload" || root.root == "execution_id" ||
                       names_.workload.contains(root.root);
    if (known || root.guarded) return;
    const auto* rule = std::ranges::find(kRootRules, root.root, &RootRule::name);
    if (rule != std::end(kRootRules) || playbook_.IndexOf(root.root) >= 0 ||
        names_.ctx.contains(root.root)) {
      return NotHere(use, root.root, "keychain entries see the workload and execution_id only");
    }
    NeverDefined(use, root.root);
  }

  const Playbook& playbook_;
  const Names& names_;
  Diagnostics* diagnostics_;
};

}  // namespace

void LintTemplates(const Playbook& playbook, const Names& names, const std::vector<Use>& uses,
                   Diagnostics* diagnostics) {
  TemplateLint lint(playbook, names, diagnostics);
  for (const Use& use : uses) lint.Check(use);
}

}  // namespace noetl::playbook::lint
