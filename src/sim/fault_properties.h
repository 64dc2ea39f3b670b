// Random playbooks on a machine where everything goes wrong, and what must hold all the same.
//
// One check runs a plan twice with the same answers of tools: once in peace and once under faults.
// Every promise is checked after every commit of both, and the runs must end alike. A failure is a
// text that names the promise; `ExplainFaults` looks for the smallest plan that still fails.
// Everything follows from the seed. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "sim/faults.h"
#include "sim/generator.h"
#include "sim/machine.h"

namespace noetl::sim {

struct FaultCheck {
  std::uint64_t seed = 1;  // of the machine
  FaultPlan faults;
  int copies = 1;
  bool sqlite = false;
  bool small_context = false;  // contexts of commands are stored outside, and workers ask for them
  bool twice = false;          // the same history again must give the same logs
};

struct FaultReport {
  std::string failure;
  std::string log;  // last events, when it failed
  std::int64_t crashes = 0;
  std::int64_t events = 0;
  std::int64_t tasks = 0;
  std::int64_t compared = 0;  // runs whose end was compared with that of a peaceful one
  std::array<std::int64_t, kFaultKinds> faults{};
};

// The plan and the faults of a seed.
Plan FaultPlanOf(std::uint64_t seed);
FaultCheck FaultCheckOf(std::uint64_t seed);

FaultReport CheckFaults(const Plan& plan, const FaultCheck& check);

// The failure of a plan and of its smallest failing relative, for people.
std::string ExplainFaults(const Plan& plan, const FaultCheck& check, const FaultReport& report);

// Why two runs with the same answers did not end alike; empty when they did, or when nobody can
// tell: a run that was stopped, or failed with others under way.
std::string Difference(const MachineReport::Ended& peaceful, const MachineReport::Ended& troubled);

}  // namespace noetl::sim
