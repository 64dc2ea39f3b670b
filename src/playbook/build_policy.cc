// Checking a task's policy rules.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "playbook/build.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kActions[] = {"continue", "retry", "break", "jump", "fail"};
constexpr std::string_view kPrevious[] = {"previous", "prev", "_previous", "@previous"};
constexpr std::string_view kReserved[] = {"before", "after", "finally"};
constexpr std::string_view kOutcomeRoots[] = {"output", "outcome", "error"};

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class PolicyChecker {
 public:
  PolicyChecker(BuildContext* context, const Step& step, std::size_t task,
                const std::vector<std::string>& labels)
      : context_(context), step_(step), task_(task), labels_(labels) {}

  void Check(const Node& policy) {
    if (!CheckShape(policy)) return;
    const Node* rules = policy.Find("rules");
    if (rules == nullptr || rules->is_null()) return;
    if (!rules->is_list()) {
      Report("E450", *rules,
             fmt::format("spec.policy.rules must be a list, got {} ({})", rules->TypeName(),
                         ShowValue(*rules)),
             "write rules: [{when: ..., then: {do: ...}}]");
      return;
    }
    for (std::size_t i = 0; i < rules->items.size(); ++i) CheckRule(rules->items[i], i);
  }

 private:
  void Report(std::string_view code, const Node& at, std::string_view message, std::string hint) {
    context_->report.Add(
        code, at, fmt::format("Step '{}': tool[].{}.{}", step_.name, labels_[task_], message),
        std::move(hint));
  }

  bool CheckShape(const Node& policy) {
    if (!policy.is_map()) {
      context_->report.WrongType(policy, "a map");
      return false;
    }
    Node known = MapNode(policy);
    for (const auto& [key, value] : policy.entries) {
      if (Contains(kReserved, key.text)) {
        Report("W450", key, fmt::format("spec.policy.{} is reserved and has no effect", key.text),
               "use rules");
      } else if (key.text != "rules") {
        known.entries.emplace_back(key, value);
      }
    }
    context_->report.CheckKeys(known, "policy", fmt::format("a policy of step '{}'", step_.name));
    return true;
  }

  void CheckRule(const Node& rule, std::size_t index) {
    const std::string where = fmt::format("spec.policy.rules[{}]", index);
    if (!rule.is_map()) {
      Report("E450", rule, fmt::format("{} must be a map, got {}", where, rule.TypeName()),
             "write {when: ..., then: {do: ...}}");
      return;
    }
    if (after_else_)
      Report("W454", rule, where + ": unreachable rule", "move it before the else rule");
    const Node* when = rule.Find("when");
    const Node* otherwise = rule.Find("else");
    const Node* then = rule.Find("then");
    if (otherwise != nullptr && when == nullptr) {
      after_else_ = true;
      then = otherwise->is_map() ? otherwise->Find("then") : otherwise;
    } else if (when == nullptr) {
      Report("E450", rule, where + " needs 'when' or 'else'", "write {when: ..., then: {do: ...}}");
      return;
    }
    if (const Node* stray = rule.Find("do")) {
      Report("E450", *stray, where + ": 'do' must be inside 'then'", "write then: {do: ...}");
      return;
    }
    context_->report.CheckKeys(rule, "rule", fmt::format("a rule of step '{}'", step_.name));
    const bool limited = CheckCondition(when);
    if (then != nullptr && !then->is_null())
      CheckThen(*then, where, when == nullptr || IsTrue(*when));
    outcome_tested_ = outcome_tested_ || limited;
  }

  static bool IsTrue(const Node& when) { return when.scalar.AsBool(false) || when.text == "true"; }

  // Whether the condition looks at how the task ended.
  bool CheckCondition(const Node* when) {
    if (when == nullptr) return false;
    const expr::Condition condition = CompileWhen(context_, when);
    const expr::Template* compiled = condition.compiled();
    return compiled != nullptr &&
           std::any_of(std::begin(kOutcomeRoots), std::end(kOutcomeRoots),
                       [&](std::string_view root) { return compiled->analysis().UsesRoot(root); });
  }

  void CheckThen(const Node& then, const std::string& where, bool always) {
    if (!then.is_map()) {
      Report("E450", then,
             fmt::format("{}.then must be a map, got {} ({})", where, then.TypeName(),
                         ShowValue(then)),
             "write then: {do: continue}");
      return;
    }
    context_->report.CheckKeys(then, "rule.then", fmt::format("a rule of step '{}'", step_.name));
    const Node* action = then.Find("do");
    const std::string verb = action == nullptr || action->is_null() ? "continue" : TextOf(action);
    if (!Contains(kActions, verb)) {
      Report("E451", *action,
             fmt::format("{}.then.do '{}' is not one of continue, retry, break, jump, fail "
                         "(invalid action){}",
                         where, verb, DidYouMean(verb, kActions)),
             "write one of continue, retry, break, jump, fail");
    }
    if (verb == "jump") CheckJump(then, where);
    if (verb == "retry" && always && !outcome_tested_) {
      Report("W455", then, where + ": retries successes too, because no rule tests the outcome",
             "add when: \"{{ output.status == 'error' }}\"");
    }
    CheckAttempts(then, where);
    BuildSet(context_, then.Find("set"), Assignment::Scope::kLocal);
    for (std::string_view key : {"attempts", "delay", "message", "to"}) {
      if (const Node* value = then.Find(key)) CompileTree(context_, *value);
    }
  }

  void CheckJump(const Node& then, const std::string& where) {
    const Node* to = then.Find("to");
    const std::string label = TextOf(to);
    if (label.empty()) {
      Report("E452", then, where + ".then: jump needs 'to'",
             "name the label of a task, or 'previous'");
    } else if (Contains(kPrevious, label)) {
      if (task_ == 0) {
        Report("E453", *to, where + ".then.to: the first task has no previous one",
               "jump to a label");
      }
    } else if (std::find(labels_.begin(), labels_.end(), label) == labels_.end()) {
      Report("E452", *to,
             fmt::format("{}.then.to: no task is labelled '{}'{}", where, label,
                         DidYouMean(label, labels_)),
             fmt::format("labels are: {}", JoinNames(labels_)));
    }
  }

  void CheckAttempts(const Node& then, const std::string& where) {
    const Node* attempts = then.Find("attempts");
    if (attempts != nullptr && !attempts->is_null()) {
      const bool number =
          attempts->is_scalar() && attempts->scalar.is_int() && attempts->scalar.AsInt() >= 1;
      const bool text =
          attempts->is_string() &&
          (expr::Template::LooksLikeTemplate(attempts->text) || IsCount(attempts->text));
      if (!number && !text) {
        Report("E450", *attempts,
               fmt::format("{}.then.attempts must be at least 1, got {} ({})", where,
                           attempts->TypeName(), ShowValue(*attempts)),
               "write attempts: 3 (runs in all)");
      }
    }
    const Node* delay = then.Find("delay");
    if (delay != nullptr && !delay->is_null()) ReadDuration(context_, delay);
  }

  static bool IsCount(std::string_view text) {
    return !text.empty() && text != "0" &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  BuildContext* context_;
  const Step& step_;
  std::size_t task_;
  const std::vector<std::string>& labels_;
  bool after_else_ = false;
  bool outcome_tested_ = false;
};

}  // namespace

void CheckPolicy(BuildContext* context, const Node& policy, const Step& step, std::size_t task,
                 const std::vector<std::string>& labels) {
  PolicyChecker(context, step, task, labels).Check(policy);
}

}  // namespace noetl::playbook
