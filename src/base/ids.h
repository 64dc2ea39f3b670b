// Ids of events, commands and executions.
//
// An id is 41 bits of milliseconds since 2024, 10 bits of machine and 12 bits of sequence (storage
// 2.1). All sources are safe to use from many threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace noetl {

// 2024-01-01T00:00:00Z in milliseconds since 1970.
inline constexpr std::int64_t kIdEpochMs = 1'704'067'200'000;
inline constexpr std::int64_t kMachineIdMax = 1023;

class IdSource {
 public:
  virtual ~IdSource() = default;
  // Larger than every id this source has given before.
  std::int64_t Next() { return NextAbove(0); }
  // Larger than `floor` too, an id of somebody else, unless the floor is too far in the future.
  virtual std::int64_t NextAbove(std::int64_t floor) = 0;
};

struct IdParts {
  std::int64_t time_ms = 0;  // since 1970
  std::int64_t machine = 0;
  std::int64_t sequence = 0;

  bool operator==(const IdParts&) const = default;
};

IdParts DecodeId(std::int64_t id);

// The machine id for a seed text, usually the host name: FNV-1a, cut to 10 bits.
std::int64_t MachineIdFrom(std::string_view seed);

// A block of ids, growing by index.
class IdRange {
 public:
  IdRange(std::int64_t first_slot, std::int64_t count, std::int64_t machine)
      : first_slot_(first_slot), count_(count), machine_(machine) {}
  std::int64_t size() const { return count_; }
  std::int64_t operator[](std::int64_t index) const;

 private:
  std::int64_t first_slot_;
  std::int64_t count_;
  std::int64_t machine_;
};

// Lock-free. One atomic counts slots (millisecond times 4096 plus sequence). When a millisecond is
// spent, ids borrow from the next ones, at most kBorrowMsMax ahead of the clock; then callers wait.
// The clock it goes by is the wall clock, carried on by monotonic time whenever somebody sets the
// wall clock back: ids never get smaller and nobody waits for the clock to catch up.
class SnowflakeIds final : public IdSource {
 public:
  static constexpr std::int64_t kBorrowMsMax = 1000;
  // As many as one second of borrowing holds.
  static constexpr std::int64_t kReserveMax = 4096 * kBorrowMsMax;

  // `not_before_ms` (since 1970) keeps a restarted process above the ids of its former life.
  // Errors: "machine_id_out_of_range", "clock_before_epoch", "clock_after_range".
  static Result<std::unique_ptr<SnowflakeIds>> Create(Clock& clock, std::int64_t machine_id,
                                                      std::int64_t not_before_ms = 0);

  // A floor more than kBorrowMsMax ahead of the clock does not count.
  std::int64_t NextAbove(std::int64_t floor) override { return Take(1, floor)[0]; }
  // `count` ids in one step, 1 to kReserveMax.
  IdRange Reserve(std::int64_t count) { return Take(count, 0); }

  // The latest millisecond (since 1970) that an id was given for: what a restart must stay above.
  std::int64_t last_ms() const;
  // How often a caller had to wait for the clock.
  std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }

 private:
  SnowflakeIds(Clock& clock, std::int64_t machine_id, std::int64_t first_slot);
  std::int64_t ElapsedMs();
  std::int64_t SlotAbove(std::int64_t floor) const;
  IdRange Take(std::int64_t count, std::int64_t floor);

  Clock& clock_;
  const std::int64_t machine_id_;
  // Largest wall time minus monotonic time seen.
  std::atomic<std::int64_t> offset_micros_;
  std::atomic<std::int64_t> last_slot_;
  std::atomic<std::uint64_t> waits_{0};
};

// 1, 2, 3, for tests and simulation.
class SequentialIds final : public IdSource {
 public:
  // A floor further ahead than this does not count.
  static constexpr std::int64_t kLeadMax = std::int64_t{1} << 32;

  explicit SequentialIds(std::int64_t first = 1) : next_(first) {}
  std::int64_t NextAbove(std::int64_t floor) override;

 private:
  std::atomic<std::int64_t> next_;
};

}  // namespace noetl
