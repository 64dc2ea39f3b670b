// What lanes count of their own work, for whoever watches the server.
//
// A `Tallies` belongs to one lane, which alone adds to it, without a lock or a locked instruction;
// any thread may read. Figures only grow, and begin at zero with each process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace noetl::conductor {

enum class Tally : std::uint8_t {
  // Decisions.
  kDecided,          // a decision was asked for
  kApplied,          // a unit with events was stored
  kWaitedForUnit,    // a fact came while a unit of its run was on its way
  kCutShort,         // a decision that has more to do
  kContinued,        // ... and the one after it
  kDecisionsFailed,  // a run that cannot be started, decided or stored
  kBodiesStored,     // values that a decision put beside the log
  kBodiesLoaded,     // ... or had to read
  kEndsRefused,      // a second end of a run
  // States read from the store.
  kBuiltFromSnapshot,
  kBuiltFromLog,
  kSnapshotBuildsFailed,
  kLogBuildsFailed,
  // Commands that the worker of this process got.
  kClaimedInProcess,
  // Leases and time limits.
  kLeasesEnded,     // looked at because their time was over
  kLeasesTaken,     // the command was taken from its worker
  kLeasesKept,      // renewed or given back meanwhile
  kLeaseLooksFull,  // more than one look takes
  kTimeLimitsDue,
  kTimeLimitsHit,   // the run was ended
  kTimeLimitsMoot,  // it had ended before
  kTimerLooksFull,  // more than one look takes
  kTimerLooksFailed,
  kCount,
};

// Where lanes read the log while somebody waits.
enum class ReadSite : std::uint8_t {
  kState,     // the events after a snapshot
  kIssued,    // command.issued of a command that is claimed
  kRepeated,  // whether a posted event is stored already
  kEventId,   // whether the id of a posted event is taken
  kReport,    // whether a report is a repetition
  kCount,
};
enum class ReadOutcome : std::uint8_t { kHit, kMiss, kError, kCount };

inline constexpr auto kTallies = static_cast<std::size_t>(Tally::kCount);
inline constexpr auto kReadSites = static_cast<std::size_t>(ReadSite::kCount);
inline constexpr auto kReadOutcomes = static_cast<std::size_t>(ReadOutcome::kCount);

// The sums of all lanes.
struct ConductorStats {
  std::array<std::int64_t, kTallies> tallies{};
  std::array<std::array<std::int64_t, kReadOutcomes>, kReadSites> reads{};

  std::int64_t operator[](Tally tally) const { return tallies[static_cast<std::size_t>(tally)]; }
  std::int64_t Reads(ReadSite site, ReadOutcome outcome) const {
    return reads[static_cast<std::size_t>(site)][static_cast<std::size_t>(outcome)];
  }
};

class Tallies {
 public:
  void Add(Tally tally, std::int64_t amount = 1) {
    Grow(tallies_[static_cast<std::size_t>(tally)], amount);
  }
  void AddRead(ReadSite site, ReadOutcome outcome) {
    Grow(reads_[static_cast<std::size_t>(site)][static_cast<std::size_t>(outcome)], 1);
  }
  // Counts what a read found; gives it back.
  template <typename T>
  Result<T> Read(ReadSite site, Result<T> found) {
    AddRead(site, !found ? ReadOutcome::kError : *found ? ReadOutcome::kHit : ReadOutcome::kMiss);
    return found;
  }

  void AddTo(ConductorStats& stats) const {
    for (std::size_t i = 0; i < kTallies; ++i)
      stats.tallies[i] += tallies_[i].load(std::memory_order_relaxed);
    for (std::size_t site = 0; site < kReadSites; ++site) {
      for (std::size_t i = 0; i < kReadOutcomes; ++i)
        stats.reads[site][i] += reads_[site][i].load(std::memory_order_relaxed);
    }
  }

 private:
  using Figure = std::atomic<std::int64_t>;
  // Only one thread writes.
  static void Grow(Figure& figure, std::int64_t amount) {
    figure.store(figure.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::array<Figure, kTallies> tallies_{};
  std::array<std::array<Figure, kReadOutcomes>, kReadSites> reads_{};
};

}  // namespace noetl::conductor
