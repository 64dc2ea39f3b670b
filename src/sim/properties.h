// Histories of random playbooks: drives worlds in many orders and checks every promise.
//
// One `CheckPlan` runs a plan under several interleavings. A failure is a text that names the
// promise; `Shrink` looks for the smallest plan that still fails. Everything follows from seeds.
// One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/generator.h"

namespace noetl::sim {

// What may happen in a history besides the work itself.
struct Interleaving {
  std::uint64_t seed = 0;
  bool in_order = false;  // messages first, oldest first; nothing below but the checks
  bool shuffle = true;    // any message next; results still come before the end of their command
  bool duplicates = false;
  bool deduplicate = true;  // false: repeated events reach the engine
  bool lose_workers = false;
  bool snapshots = false;      // the state is written and read back at random moments
  bool batches = false;        // several messages in one decision
  bool unseen_claims = false;  // claims reach the engine late
  bool late_data = false;      // call.done may come after command.completed
  bool stops = false;          // cancel or finalize at a random moment
  bool early_timers = false;   // timers fire while work is under way
};

struct History {
  std::string failure;   // empty: all promises held
  std::string status;    // of the main run
  std::string outcomes;  // steps with the outcomes of their runs, sorted by name
  bool unhandled = false;
  std::int64_t events = 0;
  std::string log;     // last events, when it failed or `keep_log`
  std::string digest;  // of the whole log
};

struct CheckOptions {
  int interleavings = 4;
  int thorough_percent = 4;
  bool keep_log = false;
};

struct CheckReport {
  std::string failure;
  std::int64_t events = 0;
  std::int64_t histories = 0;
};

// All interleavings of one plan, and that they agree where they must.
CheckReport CheckPlan(const Plan& plan, const CheckOptions& options = {});

// The failure of a plan and of its smallest failing relative, for people.
std::string Explain(const Plan& plan, const CheckOptions& options, const std::string& failure);

}  // namespace noetl::sim
