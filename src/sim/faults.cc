#include "sim/faults.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "sim/generator.h"

namespace noetl::sim {

namespace {

struct FaultInfo {
  Fault fault;
  std::string_view name;
  int rare;  // rates of ten thousand
  int often;
  bool disturbs;  // the result of a run may be another one
};

constexpr std::array<FaultInfo, kFaultKinds> kFaults = {{
    {Fault::kReportLost, "report_lost", 200, 3'000, false},
    {Fault::kReportTwice, "report_twice", 500, 5'000, false},
    {Fault::kReportLate, "report_late", 200, 2'000, false},
    {Fault::kAnswerWrong, "answer_wrong", 200, 3'000, false},
    {Fault::kLoadRefused, "load_refused", 500, 3'000, false},
    {Fault::kCommitRefused, "commit_refused", 100, 2'000, false},
    {Fault::kDiskFull, "disk_full", 50, 500, false},
    {Fault::kCommitUnknown, "commit_unknown", 100, 2'000, false},
    {Fault::kSnapshotBad, "snapshot_bad", 1'000, 8'000, false},
    {Fault::kCrashBefore, "crash_before_commit", 50, 600, false},
    {Fault::kCrashAfter, "crash_after_commit", 50, 600, false},
    {Fault::kCrash, "crash", 10, 100, false},
    {Fault::kClockStep, "clock_step", 10, 100, false},
    {Fault::kClockLeap, "clock_leap", 5, 50, true},
    {Fault::kCancel, "cancel", 5, 40, true},
    {Fault::kZombie, "zombie", 3'000, 9'000, false},
}};

constexpr int kCrashesMax = 12;
constexpr int kOnPercent = 45;
constexpr int kOftenPercent = 35;
constexpr int kDisturbingPercent = 60;

bool IsCrash(Fault fault) {
  return fault == Fault::kCrash || fault == Fault::kCrashBefore || fault == Fault::kCrashAfter;
}

}  // namespace

std::string_view FaultName(Fault fault) { return kFaults[static_cast<std::size_t>(fault)].name; }

std::string FaultPlan::Text() const {
  std::string text;
  for (const FaultInfo& info : kFaults) {
    if (has(info.fault)) text += fmt::format("{} {}, ", info.name, rate(info.fault));
  }
  text += fmt::format("at most {} crashes", crashes_max);
  if (small_cache) text += ", small cache";
  return text;
}

FaultPlan DrawFaults(std::uint64_t seed, bool disturbing) {
  SeededRandom random(Mix(seed, 0xfa017));
  const auto chance = [&](int percent) { return static_cast<int>(random.Below(100)) < percent; };
  FaultPlan plan;
  for (const FaultInfo& info : kFaults) {
    const bool on = chance(info.disturbs ? kDisturbingPercent : kOnPercent);
    const int rate = chance(kOftenPercent) ? info.often : info.rare;
    if (on && (disturbing || !info.disturbs)) plan.rate(info.fault) = rate;
  }
  plan.crashes_max = 1 + static_cast<int>(random.Below(kCrashesMax));
  plan.small_cache = chance(50);
  return plan;
}

FaultPlan AllFaults() {
  FaultPlan plan;
  for (const FaultInfo& info : kFaults) {
    if (!info.disturbs) plan.rate(info.fault) = (info.rare + info.often) / 2;
  }
  plan.crashes_max = kCrashesMax;
  plan.small_cache = true;
  return plan;
}

Faults::Faults(std::uint64_t seed, FaultPlan plan) : random_(Mix(seed, 0xd1ce)), plan_(plan) {}

bool Faults::Happens(Fault fault) {
  if (!on_ || !plan_.has(fault)) return false;
  if (static_cast<int>(random_.Below(10'000)) >= plan_.rate(fault)) return false;
  if (IsCrash(fault) && crashes() >= plan_.crashes_max) return false;
  ++counts_[static_cast<std::size_t>(fault)];
  return true;
}

std::int64_t Faults::crashes() const {
  return count(Fault::kCrash) + count(Fault::kCrashBefore) + count(Fault::kCrashAfter);
}

}  // namespace noetl::sim
