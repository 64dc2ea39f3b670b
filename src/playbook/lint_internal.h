// What the parts of the linter share. Private to src/playbook/lint*.cc.
//
// A `Use` is one compiled template of a playbook with the place it is evaluated in. The list is
// made once; every template check is a walk over it. One thread; refers to the playbook it was made
// from.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "expr/template.h"
#include "playbook/diagnostics.h"
#include "playbook/model.h"

namespace noetl::playbook::lint {

// Where a template is evaluated; each place has names of its own.
enum class Place {
  kWorkload,
  kKeychain,
  kStepWhen,
  kAdmit,
  kLoopIn,
  kMaxInFlight,
  kCursor,
  kStepInput,
  kTaskInput,
  kTaskField,
  kTaskSet,
  kPolicyWhen,
  kPolicyThen,
  kStepSet,
  kArcWhen,
  kArcSet,
  kArcArgs,
};

struct Use {
  expr::Template compiled;
  Place place = Place::kWorkload;
  int step = -1;       // -1: workload and keychain
  int task = -1;       // -1: not in a task
  int item = -1;       // the workload entry
  std::string path;    // in the document
  std::string field;   // below the step, for messages: "next.arcs[1].when"
  std::string target;  // of an assignment
};

std::vector<Use> CollectUses(const Playbook& playbook);

// Targets of assignments under a task's policy rules, as written: "ctx.total", "iter.i", "page".
std::vector<std::string> PolicyTargets(const Step& step, int task);
// The canonical config of a pipeline's task, or null.
const Json& TaskConfig(const Step& step, int task);

// Names that a playbook defines.
struct StepNames {
  std::set<std::string, std::less<>> args;    // of arcs that lead here
  std::set<std::string, std::less<>> inputs;  // step input and args
  std::set<std::string, std::less<>> labels;
  std::set<std::string, std::less<>> locals;  // pipeline variables
  std::vector<std::set<std::string, std::less<>>> task_inputs;
};
struct Names {
  std::set<std::string, std::less<>> workload;
  std::set<std::string, std::less<>> secrets;  // workload keys marked "# ui:secret"
  std::set<std::string, std::less<>> ctx;      // assigned anywhere
  std::vector<StepNames> steps;
};
Names CollectNames(const Playbook& playbook);

// An absent condition or a literal that is true.
bool IsUnconditional(const expr::Condition& condition);
// "step 'a'" style prefix for messages about a field of a step.
std::string Where(const Playbook& playbook, const Use& use);

// A step that some run can enter: from the entry, or as final step or implicit end.
bool IsLive(const Playbook& playbook, int step);

void LintRouting(const Playbook& playbook, Diagnostics* diagnostics);
void LintTasks(const Playbook& playbook, const Names& names, const std::vector<Use>& uses,
               Diagnostics* diagnostics);
void LintTemplates(const Playbook& playbook, const Names& names, const std::vector<Use>& uses,
                   Diagnostics* diagnostics);

// Whether one of two conditions always holds, judged by their text: `x` and `not x`, `a == b` and
// `a != b`, `a < b` and `a >= b`, success and failure of `event.name` or `output.status`.
bool AreComplements(std::string_view a, std::string_view b);
// The tokens of a condition, one blank between each, without `{{ }}` and outer parentheses.
std::string NormaliseCondition(std::string_view text);

}  // namespace noetl::playbook::lint
