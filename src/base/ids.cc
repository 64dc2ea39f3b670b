#include "base/ids.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace noetl {

namespace {

constexpr int kSequenceBits = 12;
constexpr int kMachineBits = 10;
constexpr std::int64_t kSequenceMask = (1 << kSequenceBits) - 1;
constexpr std::int64_t kElapsedMsMax = (std::int64_t{1} << 41) - 1;
// A caller that is too far ahead of the clock looks again after this long.
constexpr std::int64_t kWaitMicros = 1000;

}  // namespace

IdParts DecodeId(std::int64_t id) {
  return {.time_ms = (id >> (kSequenceBits + kMachineBits)) + kIdEpochMs,
          .machine = (id >> kSequenceBits) & kMachineIdMax,
          .sequence = id & kSequenceMask};
}

std::int64_t MachineIdFrom(std::string_view seed) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : seed) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return static_cast<std::int64_t>(hash & kMachineIdMax);
}

std::int64_t IdRange::operator[](std::int64_t index) const {
  NOETL_CHECK(index >= 0 && index < count_, "no such id in the reserved range");
  const std::int64_t slot = first_slot_ + index;
  return (slot >> kSequenceBits) << (kSequenceBits + kMachineBits) | machine_ << kSequenceBits |
         (slot & kSequenceMask);
}

Result<std::unique_ptr<SnowflakeIds>> SnowflakeIds::Create(Clock& clock, std::int64_t machine_id,
                                                           std::int64_t not_before_ms) {
  if (machine_id < 0 || machine_id > kMachineIdMax) {
    return Fail("machine_id_out_of_range",
                fmt::format("machine id {} is outside 0 to {}", machine_id, kMachineIdMax));
  }
  const std::int64_t elapsed = clock.NowMillis() - kIdEpochMs;
  if (elapsed < 0) {
    return Fail("clock_before_epoch",
                "the system clock is before 2024-01-01: set it and start again");
  }
  const std::int64_t start = std::max(elapsed, not_before_ms - kIdEpochMs);
  if (start > kElapsedMsMax - kBorrowMsMax) {
    return Fail("clock_after_range", "the system clock is after 2093-09-06: ids would overflow");
  }
  const std::int64_t before_first = (start << kSequenceBits) - 1;
  return std::unique_ptr<SnowflakeIds>(new SnowflakeIds(clock, machine_id, before_first));
}

SnowflakeIds::SnowflakeIds(Clock& clock, std::int64_t machine_id, std::int64_t first_slot)
    : clock_(clock),
      machine_id_(machine_id),
      offset_micros_(clock.NowMicros() - clock.MonotonicMicros()),
      last_slot_(first_slot) {}

std::int64_t SnowflakeIds::ElapsedMs() {
  const std::int64_t monotonic = clock_.MonotonicMicros();
  const std::int64_t offset = clock_.NowMicros() - monotonic;
  std::int64_t largest = offset_micros_.load(std::memory_order_relaxed);
  while (offset > largest && !offset_micros_.compare_exchange_weak(largest, offset)) {
  }
  return (monotonic + std::max(offset, largest)) / 1000 - kIdEpochMs;
}

// The first slot whose id on this machine is larger than `floor`.
std::int64_t SnowflakeIds::SlotAbove(std::int64_t floor) const {
  const std::int64_t first_of_ms = (floor >> (kSequenceBits + kMachineBits)) << kSequenceBits;
  const IdParts parts = DecodeId(floor);
  if (machine_id_ > parts.machine) return first_of_ms;
  if (machine_id_ < parts.machine) return first_of_ms + (1 << kSequenceBits);
  return first_of_ms + parts.sequence + 1;
}

IdRange SnowflakeIds::Take(std::int64_t count, std::int64_t floor) {
  NOETL_CHECK(count >= 1 && count <= kReserveMax, "reserve 1 to kReserveMax ids");
  const std::int64_t above = SlotAbove(floor);
  std::int64_t last = last_slot_.load(std::memory_order_relaxed);
  while (true) {
    const std::int64_t elapsed = ElapsedMs();
    NOETL_CHECK(elapsed <= kElapsedMsMax - kBorrowMsMax, "the system clock is after 2093-09-06");
    std::int64_t first = std::max(last + 1, elapsed << kSequenceBits);
    if ((above >> kSequenceBits) <= elapsed + kBorrowMsMax) first = std::max(first, above);
    const std::int64_t end = first + count - 1;
    if ((end >> kSequenceBits) > elapsed + kBorrowMsMax) {
      waits_.fetch_add(1, std::memory_order_relaxed);
      clock_.SleepMicros(kWaitMicros);
      last = last_slot_.load(std::memory_order_relaxed);
      continue;
    }
    if (last_slot_.compare_exchange_weak(last, end)) return IdRange(first, count, machine_id_);
  }
}

std::int64_t SnowflakeIds::last_ms() const {
  return (last_slot_.load(std::memory_order_relaxed) >> kSequenceBits) + kIdEpochMs;
}

std::int64_t SequentialIds::NextAbove(std::int64_t floor) {
  std::int64_t next = next_.load(std::memory_order_relaxed);
  std::int64_t id;
  do {
    id = floor < next || floor - next > kLeadMax ? next : floor + 1;
  } while (!next_.compare_exchange_weak(next, id + 1, std::memory_order_relaxed));
  return id;
}

}  // namespace noetl
