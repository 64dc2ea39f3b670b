// Runs a playbook many times on a virtual clock, under faults, and says what can happen.
//
// Each seed is one run: what tools answer, in which order things happen, which workers die, which
// messages arrive twice and when the server restarts are all drawn from it. The same playbook, seed
// and script give the same history. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "playbook/model.h"
#include "sim/text_script.h"

namespace noetl::sim {

// Actions (a message, a claim, a call, a timer) after which a run is said to never end.
inline constexpr std::int64_t kSimulatedActionsMax = 200'000;
// Runs that never end cost that much each; after so many the simulation stops.
inline constexpr std::size_t kEndlessRunsMax = 3;
// Distinct paths and errors that are kept apart; later ones are only counted.
inline constexpr std::size_t kPathsKept = 1'000;
inline constexpr std::size_t kErrorsKept = 100;
// Steps of a path that are kept; paths that differ later count as one.
inline constexpr std::size_t kPathStepsKept = 200;

struct SimulateOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t last_seed = 20;
  Script script;
  Json input;
  // Called after every run with the number of runs done.
  std::function<void(std::uint64_t done)> progress;
};

struct SimulateReport {
  struct Path {
    std::vector<std::string> steps;  // entered, in order; repetitions in a row counted once
    std::int64_t runs = 0;
    std::uint64_t seed = 0;  // the first
  };
  struct Failure {
    std::string error;
    std::int64_t runs = 0;
    std::uint64_t seed = 0;
  };
  struct Arc {
    std::string step;
    std::string target;
    std::string when;  // "" always
  };

  std::string path;
  std::uint64_t first_seed = 0;
  std::uint64_t last_seed = 0;
  std::int64_t runs = 0;
  std::map<std::string, std::int64_t> statuses;
  std::vector<Path> paths;       // most frequent first
  std::int64_t other_paths = 0;  // runs with paths beyond kPathsKept
  std::vector<std::string> unreached_steps;
  std::vector<Arc> untaken_arcs;
  std::vector<Failure> failures;  // most frequent first
  std::vector<Failure> wedged;    // nothing can happen, and the run has not ended
  std::vector<Failure> endless;
  std::vector<Failure> broken;  // the log does not fold to the state: a bug of the engine

  bool healthy() const { return wedged.empty() && endless.empty() && broken.empty(); }
  Json ToJson() const;
};

// `playbooks[0]` is simulated, the others are in the catalog.
SimulateReport Simulate(const std::vector<std::shared_ptr<const playbook::Playbook>>& playbooks,
                        const SimulateOptions& options);

}  // namespace noetl::sim
