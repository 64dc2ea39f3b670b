// The compiled form of a pipeline: tasks, policy rules, assignments. Private to the pipeline.
//
// Made once per command from the canonical task list, immutable afterwards. The shapes that rules
// may be written in end here: the interpreter sees one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "expr/tree.h"
#include "playbook/model.h"

namespace noetl::engine {

struct PolicyRule {
  enum class Do { kContinue, kRetry, kFail, kBreak, kJump };

  expr::Condition when;  // absent: matches always
  Do action = Do::kContinue;
  std::vector<playbook::Assignment> set;
  std::string to;       // jump: a label or "previous"
  expr::Tree settings;  // {attempts, backoff, delay, max_delay, message} as far as given
};

struct PlannedTask {
  std::string label;
  std::string kind;
  expr::Tree input;
  std::vector<playbook::Task::Field> fields;
  std::vector<playbook::Assignment> set;
  expr::Tree retry;    // tool-internal
  expr::Tree timeout;  // {timeout, timeout_seconds, timeout_ms, spec} as far as given
  Json output;
  Json spec;
  std::vector<PolicyRule> rules;
  bool continue_unmatched = false;
};

struct PipelinePlan {
  std::vector<PlannedTask> tasks;
  std::vector<std::string> warnings;

  std::optional<std::size_t> Find(std::string_view label) const;
};

// Accepts a list of {label: task}, a list of flat tasks, or a map that has such a list under
// `tasks` or `tool_config`. Errors carry the code of the playbook reference (E230, E280, E404 ...).
Result<PipelinePlan> PlanPipeline(const Json& config, playbook::Profile profile);

// Whether a jump target means the task before.
bool IsPrevious(std::string_view target);

}  // namespace noetl::engine
