// Runs a playbook on simulated machines where everything goes wrong, and says what that changes.
//
// Each seed draws what tools answer, runs the playbook once in peace and once under faults
// (crashes, lost and repeated reports, a full disk ...) and compares the ends. They must be the
// same; steps whose tools were called again must bear that. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "sim/faults.h"
#include "sim/simulate.h"

namespace noetl::sim {

struct FaultSimulation {
  std::string path;
  std::uint64_t first_seed = 0;
  std::uint64_t last_seed = 0;
  std::int64_t runs = 0;
  std::map<std::string, std::int64_t> statuses;
  std::array<std::int64_t, kFaultKinds> faults{};  // that were survived
  std::int64_t crashes = 0;
  // Runs that ended differently than without faults.
  std::vector<SimulateReport::Failure> differing;
  // A promise was broken: a bug of the engine.
  std::vector<SimulateReport::Failure> broken;
  // Steps with a tool that was called again because of a fault, and how often.
  std::map<std::string, std::int64_t> repeated;

  bool healthy() const { return differing.empty() && broken.empty(); }
  Json ToJson() const;
};

// Texts of playbooks: the first is simulated, the others are in the catalog. All must be valid.
FaultSimulation SimulateFaults(const std::vector<std::string>& playbooks,
                               const SimulateOptions& options);

}  // namespace noetl::sim
