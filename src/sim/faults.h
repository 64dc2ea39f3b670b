// What can go wrong in a simulated machine, how often, and how often it did.
//
// A `FaultPlan` says how often each fault happens; it is drawn from a seed, so that some seeds have
// one kind of trouble and others have all. `Faults` throws the dice and counts. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"

namespace noetl::sim {

enum class Fault : std::uint8_t {
  // Between worker and conductor, for each report.
  kReportLost,   // the sender is told "io" and sends it again
  kReportTwice,  // the same report arrives again
  kReportLate,   // it takes seconds; others overtake it
  kAnswerWrong,  // stored, but the sender is told "io"
  kLoadRefused,  // a stored body cannot be read at the moment
  // On the disk, for each transaction.
  kCommitRefused,  // nothing is stored
  kDiskFull,       // nothing is stored, for a while
  kCommitUnknown,  // stored, but answered "io"
  kSnapshotBad,    // a byte of a snapshot is wrong
  kCrashBefore,    // the process ends in the middle of a transaction: nothing is there
  kCrashAfter,     // ... everything is there, and nobody was told
  // Between any two tasks.
  kCrash,
  kClockStep,  // seconds
  kClockLeap,  // up to two hours
  kCancel,     // somebody cancels or finalizes a run
  // With each crash.
  kZombie,  // the old worker goes on and reports to the new conductor
};
inline constexpr std::size_t kFaultKinds = static_cast<std::size_t>(Fault::kZombie) + 1;

std::string_view FaultName(Fault fault);

struct FaultPlan {
  // Of ten thousand.
  std::array<int, kFaultKinds> rates{};
  int crashes_max = 0;
  bool small_cache = false;  // states are evicted and read again all the time

  int& rate(Fault fault) { return rates[static_cast<std::size_t>(fault)]; }
  int rate(Fault fault) const { return rates[static_cast<std::size_t>(fault)]; }
  bool has(Fault fault) const { return rate(fault) > 0; }
  // "crash 20, disk_full 100 ...": those that are on.
  std::string Text() const;
};

// Faults for a seed. Runs that are cancelled or whose deadlines come early have no result to
// compare: such faults are drawn only when `disturbing`.
FaultPlan DrawFaults(std::uint64_t seed, bool disturbing);
// Every fault that does not change results, often.
FaultPlan AllFaults();

class Faults {
 public:
  Faults(std::uint64_t seed, FaultPlan plan);

  // Whether it happens now; counted when it does.
  bool Happens(Fault fault);
  // From now on nothing happens.
  void Stop() { on_ = false; }
  bool on() const { return on_; }

  const FaultPlan& plan() const { return plan_; }
  std::int64_t count(Fault fault) const { return counts_[static_cast<std::size_t>(fault)]; }
  std::int64_t crashes() const;
  RandomSource& random() { return random_; }

 private:
  SeededRandom random_;
  FaultPlan plan_;
  std::array<std::int64_t, kFaultKinds> counts_{};
  bool on_ = true;
};

}  // namespace noetl::sim
