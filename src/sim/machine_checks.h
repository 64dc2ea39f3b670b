// Promises about everything that reaches the store of a simulated machine.
//
// `MachineChecks` is told of every stored unit and of every command that is handed to a worker. It
// follows each run with a fold of its own and fails with the name of the promise (I1, I8 ...) that
// was broken. It knows no playbook; `Invariants` looks at what a playbook allows. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bus/link.h"
#include "engine/state.h"
#include "store/store.h"

namespace noetl::sim {

class MachineChecks {
 public:
  struct Run {
    engine::State state;
    std::vector<engine::Event> log;
    Sha256Digest chain{};
    bool terminal = false;
    std::set<std::string, std::less<>> keys;  // of commands
    std::map<std::string, std::int64_t, std::less<>> attempts;
    std::set<std::string, std::less<>> started;
  };

  explicit MachineChecks(std::uint64_t seed) : samples_(seed) {}

  void Stored(const store::UnitRows& unit, const store::Store& store);
  // `lives`: how many processes there have been; each but the first took over after a crash.
  void Granted(const bus::Grant& grant, std::int64_t lives);
  // Nothing happens any more.
  void Finished(const store::Store& store);

  const std::map<std::int64_t, Run>& runs() const { return runs_; }
  const std::string& failure() const { return failure_; }
  void Fail(std::string_view promise, std::string detail);

 private:
  void CheckEvent(Run& run, const store::EventRow& row);
  void CheckIssued(Run& run, const engine::Event& event);
  void CheckRow(const Run& run, const store::ExecutionRow& row);
  void CheckSnapshot(const Run& run, const store::SnapshotRow& snapshot);
  void CheckReplay(std::int64_t id, const Run& run, const store::Store& store);
  void CheckLoopRows(const Run& run, const store::Store& store);

  std::uint64_t samples_;
  std::map<std::int64_t, Run> runs_;
  std::set<std::string, std::less<>> granted_;
  std::string failure_;
};

}  // namespace noetl::sim
