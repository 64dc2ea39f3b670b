// A store in memory, with faults on request: what simulation runs on.
//
// Committed units survive a `Crash` (a new conductor over the same store), everything else is gone,
// as with a process that is killed. Faults are decided by a function that is asked before each
// commit. Safe to use from many threads.
#pragma once

#include <functional>
#include <memory>

#include "store/store.h"

namespace noetl::store {

enum class CommitFault {
  kNone,
  kRefuse,   // "io": nothing is stored
  kFull,     // "disk_full": nothing is stored
  kUnknown,  // stored, but answered "io": the caller cannot know
};

struct MemoryStoreOptions {
  // Asked once before each commit with its number (from 1).
  std::function<CommitFault(std::int64_t commit)> fault;
  // Called after each commit that stored something; for invariants.
  std::function<void(std::span<const UnitRows* const> stored)> on_commit;
  // Each event that is committed also makes a row of the outbox (server.h).
  bool outbox = false;
};

std::unique_ptr<Store> MakeMemoryStore(MemoryStoreOptions options = {});

}  // namespace noetl::store
