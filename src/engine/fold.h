// The fold: the only code that changes a run's state.
//
// `Fold` applies one stored event to the state. It evaluates no template and reads no playbook:
// what was decided is written in the event (`meta.route`, `meta.outcome`, step.enter's pinned
// collection). So replaying a log gives the same state with any later version of the playbook or
// the engine. Duplicated and late events change nothing. Pure; cost does not depend on the length
// of the log.
#pragma once

#include <string>

#include "engine/events.h"
#include "engine/state.h"

namespace noetl::engine {

void Fold(State& state, const Event& event);

// What a worker reported in call.done or with command.failed, taken apart.
struct Report {
  bool ok = true;  // tool status is success
  Json data;       // the payload, without _context_updates
  Json order;      // labels of a pipeline in execution order
  Json reference;  // of an external result
  std::string error;
  Json error_info;
  Json ctx_updates;       // {"ctx.k": value} or null
  bool has_data = false;  // a payload was reported at all
};
// From a command (its call.done, or call.error) and the event that ends it.
Report ReadReport(const Command& command, const Event& end);

// The result that stays of a plain run that `end` closes.
StepResult MakeStepResult(const Command& command, const Report& report, const Event& end);

}  // namespace noetl::engine
