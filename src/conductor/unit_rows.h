// From a decision to the rows that are stored. Pure but for the ids, any thread.
#pragma once

#include <memory>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "engine/state.h"
#include "engine/unit.h"
#include "playbook/model.h"
#include "store/rows.h"

namespace noetl::conductor {

// Rows of a decision: `before` is the execution as stored (head 0: new), `state` what the decision
// left, `pool` where its commands go. The events of the unit move into the rows. Fails with "invalid" when a value cannot be
// stored.
Result<std::unique_ptr<store::UnitRows>> MakeUnitRows(engine::Unit unit,
                                                      const store::ExecutionRow& before,
                                                      const engine::State& state,
                                                      std::string_view pool, IdSource& ids);

// The pool of a run's commands: what was asked for at the start, else what the playbook says, else
// by the first part of its path.
std::string PoolOf(const engine::State& state, const playbook::Playbook& playbook);

}  // namespace noetl::conductor
