// Random playbooks under faults. NOETL_SEEDS sets how many seeds are tried, NOETL_SEED runs one and
// prints its playbook and faults.
#include "sim/fault_properties.h"

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.h"

namespace noetl::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kSeeds = 60;
#else
constexpr std::int64_t kSeeds = 500;
#endif
constexpr int kShards = 4;
constexpr std::uint64_t kSqliteSeeds = 6;  // of each shard
constexpr std::uint64_t kFirstSqliteSeed = 1'000'000;

// A broken engine may abort in the middle of a history: then the seed is the last thing to be said.
char current[64] = "";
void NameSeed(int signal) {
  [[maybe_unused]] auto written = write(STDERR_FILENO, current, std::strlen(current));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::int64_t SeedCount() {
  const char* text = std::getenv("NOETL_SEEDS");
  return text ? std::max(std::strtoll(text, nullptr, 10), 1LL) : kSeeds;
}

class MachineFaults : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, NameSeed);
    ConfigureLog({.level = LogLevel::kOff});
  }
  void TearDown() override {
    ConfigureLog({});
    for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);
  }

  void Check(std::uint64_t seed, bool sqlite) {
    fmt::format_to_n(current, sizeof(current) - 1, "seed {}\n{}", seed, '\0');
    const Plan plan = FaultPlanOf(seed);
    FaultCheck check = FaultCheckOf(seed);
    check.sqlite = sqlite;
    const FaultReport report = CheckFaults(plan, check);
    crashes_ += report.crashes;
    compared_ += report.compared;
    tasks_ += report.tasks;
    for (std::size_t i = 0; i < kFaultKinds; ++i) faults_[i] += report.faults[i];
    if (report.failure.empty()) return;
    fmt::print(stderr, "seed {}: {}\nfaults: {}\nlooking for a smaller playbook\n", seed,
               report.failure, check.faults.Text());
    if (std::getenv("NOETL_SEED")) fmt::print(stderr, "{}", report.log);
    ADD_FAILURE() << ExplainFaults(plan, check, report);
  }

  std::int64_t crashes_ = 0;
  std::int64_t compared_ = 0;
  std::int64_t tasks_ = 0;
  std::array<std::int64_t, kFaultKinds> faults_{};
};

TEST_P(MachineFaults, RunsEndAsIfNothingHadHappened) {
  const std::int64_t count = std::max<std::int64_t>(SeedCount() / kShards, 1);
  const std::int64_t first = GetParam() * count;
  for (std::int64_t i = 0; i < count && !HasFailure(); ++i)
    Check(static_cast<std::uint64_t>(first + i), false);
  RecordProperty("crashes", fmt::format("{}", crashes_));
  RecordProperty("compared", fmt::format("{}", compared_));
  if (HasFailure() || count < 100) return;
  // The faults did happen, and most runs could be compared.
  for (std::size_t i = 0; i < kFaultKinds; ++i)
    EXPECT_GT(faults_[i], 0) << FaultName(static_cast<Fault>(i));
  EXPECT_GT(compared_, count / 2);
}

TEST_P(MachineFaults, OnSqlite) {
  const auto first = kFirstSqliteSeed + static_cast<std::uint64_t>(GetParam()) * kSqliteSeeds;
  for (std::uint64_t i = 0; i < kSqliteSeeds && !HasFailure(); ++i) Check(first + i, true);
}

INSTANTIATE_TEST_SUITE_P(Shards, MachineFaults, testing::Range(0, kShards));

class MachineOneSeed : public MachineFaults {};

TEST_P(MachineOneSeed, Verbose) {
  const char* text = std::getenv("NOETL_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 1;
  if (text) {
    fmt::print("{}", ToYaml(FaultPlanOf(seed)));
    for (const Plan& child : FaultPlanOf(seed).children) fmt::print("---\n{}", ToYaml(child));
    fmt::print("faults: {}\n", FaultCheckOf(seed).faults.Text());
  }
  Check(seed, seed >= kFirstSqliteSeed);
  if (text) fmt::print("{} tasks, {} crashes\n", tasks_, crashes_);
}

INSTANTIATE_TEST_SUITE_P(One, MachineOneSeed, testing::Values(0));

}  // namespace
}  // namespace noetl::sim
