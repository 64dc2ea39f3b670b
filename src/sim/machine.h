// A whole machine in one thread: store, conductor, worker, and everything that can happen to them.
//
// The conductor, the worker and the stores are those of production; only time, the disk's moods,
// the line between worker and conductor, and the tools are virtual. Everything follows from the
// seed: the same options give the same history. A crash drops conductor, worker and all that was on
// its way; the store stays, and a new process takes over. Promises are checked after every commit
// (machine_checks.h) and by whoever is told of the units.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/state.h"
#include "sim/faults.h"
#include "sim/world.h"
#include "store/store.h"

namespace noetl::sim {

struct MachineOptions {
  std::uint64_t seed = 1;
  FaultPlan faults;
  // Texts of playbooks; the first one is run.
  std::vector<std::string> playbooks;
  Json input;
  int copies = 1;  // runs of the first playbook, started at random moments
  // Answers calls by their place; a call that is made again after a crash must get the same answer.
  // Parked and lost answers are not for machines.
  Tools* tools = nullptr;
  engine::Semantics semantics;
  std::string directory;  // of an SQLite store; empty: a store in memory
  // Told of every unit that was stored.
  std::function<void(const store::UnitRows&)> on_commit;
  // Faults stop after this many tasks: then every run must reach its end.
  std::int64_t fault_tasks = 6'000;
  std::int64_t tasks_max = 100'000;
};

struct MachineReport {
  struct Ended {
    std::int64_t execution_id = 0;
    std::string status;  // "REFUSED": it could not be started
    std::string error;
    bool stopped = false;    // cancelled or finalized by somebody
    bool timed_out = false;  // some deadline passed
    bool unhandled = false;  // a failure that nothing handled: what ran besides is a matter of luck
    // Payload of each step and value of each name in ctx, ids left out.
    std::map<std::string, std::string> steps;
    std::map<std::string, std::string> ctx;
  };
  std::string failure;      // the promise that was broken; empty: none
  std::vector<Ended> runs;  // of the first playbook
  std::array<std::int64_t, kFaultKinds> faults{};
  std::int64_t crashes = 0;
  std::int64_t tasks = 0;
  std::int64_t events = 0;
  std::string digest;  // of all logs
  // Steps with a tool call that was made more often than the playbook asked for.
  std::map<std::string, std::int64_t> repeated;
};

class Machine {
 public:
  explicit Machine(MachineOptions options);
  ~Machine();

  MachineReport Run();
  // The last events of every run, for people.
  std::string Tail() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace noetl::sim
