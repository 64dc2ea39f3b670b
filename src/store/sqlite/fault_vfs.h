// A file system for SQLite that fails on request: full disks, errors, and the loss of power.
//
// Wraps the default one and counts every write, sync, truncation and removal of database and log.
// Syncs are not passed on: what is synced is only remembered, so that a loss of power can take back
// everything after it. For tests. Safe to use from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace noetl::store {

class FaultVfs {
 public:
  enum class Kind {
    kNone,
    kFull,       // writes find no space
    kIoError,    // writes and syncs fail
    kPowerLoss,  // what was not synced is gone
    kTornWrite,  // the same, but the last write and every second one before it got through in part
  };

  // Registers under a name of its own, which options name.
  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  const std::string& name() const { return name_; }

  // From the `operation`-th counted one on (the first is 1) everything fails this way.
  void FailFrom(std::int64_t operation, Kind kind);
  void Heal();

  std::int64_t operations() const;
  // Syncs of write-ahead logs.
  std::int64_t log_syncs() const;

  struct Shared;

 private:
  std::string name_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace noetl::store
