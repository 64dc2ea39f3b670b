// Replay in the older dialect, "flat": every member is there and null when unset, values keep the
// types they came with, checksums are bare texts, and those of the projections are made of rows
// that live tables can be turned into as well.
//
// Kept to the byte for comparing with servers that speak it. `FlatFold` takes rows in the order of
// their event ids, as `Fold` (replay.h) does, as maps with the names of columns; numbers must have
// been read with JsonNumbers::kFlat. A fold belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/events.h"
#include "engine/replay.h"

namespace noetl::engine::replay {

struct FlatOptions {
  Json base_state;     // null or an empty map: none
  Json snapshot_seed;  // null: none
  Json upcaster_registry_digest;
};

class FlatFold {
 public:
  explicit FlatFold(const Context& context, const FlatOptions& options = {});
  ~FlatFold();
  FlatFold(FlatFold&&) noexcept;
  FlatFold& operator=(FlatFold&&) noexcept;

  // "bad_row": a counter is no number. The fold is of no use then.
  Status Apply(const Json& row);
  // The state with its checksums. "bad_row" as above, for what a base state brought in.
  Result<Json> Seal() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A stored event as a row. Texts and ids that are empty are null.
Json FlatRowOf(const Event& event);

// All rows at once, in any order; those with the same id keep theirs. Sealed.
Result<Json> FoldFlatRows(std::vector<Json> rows, const Context& context,
                          const FlatOptions& options = {});

}  // namespace noetl::engine::replay
