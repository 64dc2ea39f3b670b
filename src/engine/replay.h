// Replay: the state of a run as of a point of its log.
//
// `Fold` takes the rows of a log one at a time, in the order of their event ids, and keeps six
// projections of them: the execution, its stages, frames, commands, loops and business objects. It
// is a pure function of what it is given: no clock, no storage. Memory grows with the entities and
// references that the log names, not with its length. A fold belongs to one thread at a time.
//
// The rules are those of the servers that this API comes from, to the byte: last write wins, no
// status is final, an event type that nobody knows still touches whom it names. `strict` repeats
// even their mistakes (replay_row.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/replay_row.h"
#include "engine/replay_state.h"

namespace noetl::engine::replay {

// What the request says; echoed into the state.
struct Context {
  std::string tenant_id = "default";
  std::string organization_id = "default";
  std::int64_t execution_id = 0;
  std::string projection = "all";
};

struct FoldOptions {
  bool strict = false;
  // The state to go on from; rows must have ids above those it contains.
  std::optional<State> base_state;
  // Where it came from.
  std::optional<Snapshot> snapshot_seed;
  std::optional<std::string> upcaster_registry_digest;
};

class Fold {
 public:
  explicit Fold(Context context, FoldOptions options = {});

  void Apply(const Row& row);
  const State& state() const { return state_; }
  State Take() && { return std::move(state_); }

 private:
  bool strict_;
  State state_;
};

// All rows at once, in any order; those with the same id keep theirs.
State FoldRows(std::vector<Row> rows, Context context, FoldOptions options = {});

}  // namespace noetl::engine::replay
