// Folds the stored log of a run for replay: in the order of event ids, up to a cutoff, at most so
// many rows.
//
// A log is stored in the order in which its events came in, and that is nearly always the order of
// their ids: one pass is enough then. When an event with a smaller id came late, a second pass
// reads the rows again in the order of ids, a window at a time. In memory are one page, one window
// and 16 bytes a row; never the log. What is appended meanwhile is left out. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/json.h"
#include "base/json_io.h"
#include "base/result.h"
#include "engine/events.h"
#include "engine/replay.h"
#include "store/store.h"

namespace noetl::api {

// At most one is given. All are inclusive.
struct ReplayCutoff {
  std::optional<std::int64_t> event_id;
  std::optional<std::int64_t> time_us;  // by the clock of the producer; rows without a time are out
  std::optional<std::int64_t> seq;      // the first so many events that came in
};

struct ReplayRequest {
  std::int64_t execution_id = 0;
  // How the numbers of stored values are read.
  JsonNumbers numbers = JsonNumbers::kTyped;
  ReplayCutoff cutoff;
  std::int64_t limit = 0;  // the rows with the smallest ids are kept
  // Rows of a page and of a window.
  std::int64_t page = 1'000;
};

// Takes the events in the order of their ids.
class ReplayFolder {
 public:
  virtual ~ReplayFolder() = default;
  // Forgets everything.
  virtual void Restart() = 0;
  virtual Status Apply(const engine::Event& event) = 0;
  // The state with its checksums.
  virtual Result<Json> Seal() const = 0;
};

std::unique_ptr<ReplayFolder> MakeTypedFolder(engine::replay::Context context, bool strict);
std::unique_ptr<ReplayFolder> MakeFlatFolder(engine::replay::Context context);

struct ReplayedLog {
  std::int64_t folded = 0;
  bool truncated = false;  // the limit left rows out
};

// A run that nobody knows has an empty log. Errors are those of the store and of the folder, and
// "gone" once `gone` says that nobody waits any more.
Result<ReplayedLog> FoldLog(const store::Store& store, const ReplayRequest& request,
                            ReplayFolder& folder, const std::function<bool()>& gone);

}  // namespace noetl::api
