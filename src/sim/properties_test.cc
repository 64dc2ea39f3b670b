// Random playbooks under random histories: every promise of the engine, every time.
//
// NOETL_PROPERTY_FACTOR multiplies the number of playbooks. NOETL_SEED runs one seed and prints its
// playbook and its log.
#include "sim/properties.h"

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace noetl::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kPlaybooks = 60;  // of each kind and shard; sanitizers are some ten times slower
#else
constexpr int kPlaybooks = 1'000;
#endif

// A broken engine may abort in the middle of a history: then the seed is the last thing to be said.
char current[64] = "";
void NameCase(int signal) {
  [[maybe_unused]] auto written = write(STDERR_FILENO, current, std::strlen(current));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Playbooks a shard tries: NOETL_PROPERTY_FACTOR times the usual number, at least 20.
std::int64_t PlaybookCount() {
  const char* text = std::getenv("NOETL_PROPERTY_FACTOR");
  const double factor = text ? std::strtod(text, nullptr) : 1;
  return std::max<std::int64_t>(
      20, static_cast<std::int64_t>(static_cast<double>(kPlaybooks) * factor));
}

void CheckSeed(std::uint64_t seed, bool cyclic, const CheckOptions& options, CheckReport* total) {
  fmt::format_to_n(current, sizeof(current) - 1, "seed {} {}\n{}", seed,
                   cyclic ? "cyclic" : "acyclic", '\0');
  const Plan plan = GeneratePlan(seed, cyclic);
  const CheckReport report = CheckPlan(plan, options);
  total->events += report.events;
  total->histories += report.histories;
  if (!report.failure.empty()) {
    ADD_FAILURE() << Explain(plan, options, report.failure) << "\nrepeat with NOETL_SEED=" << seed
                  << " and --gtest_filter='*OneSeed*'";
  }
}

class Properties : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { std::signal(SIGABRT, NameCase); }
  void TearDown() override { std::signal(SIGABRT, SIG_DFL); }

  void CheckShard(bool cyclic) {
    CheckReport total;
    const std::int64_t count = PlaybookCount();
    const std::int64_t first = GetParam() * count;
    for (std::int64_t i = 0; i < count && !HasFailure(); ++i) {
      CheckSeed(static_cast<std::uint64_t>(first + i), cyclic, {}, &total);
    }
    RecordProperty("histories", static_cast<int>(total.histories));
    RecordProperty("events", fmt::format("{}", total.events));
  }
};

TEST_P(Properties, AcyclicPlaybooksKeepEveryPromise) { CheckShard(false); }
TEST_P(Properties, CyclicPlaybooksKeepEveryPromise) { CheckShard(true); }

INSTANTIATE_TEST_SUITE_P(Shards, Properties, testing::Values(0, 1, 2, 3));

TEST(PropertiesOneSeed, Verbose) {
  const char* text = std::getenv("NOETL_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 1;
  for (const bool cyclic : {false, true}) {
    CheckReport total;
    if (text) fmt::print("{}", ToYaml(GeneratePlan(seed, cyclic)));
    CheckSeed(seed, cyclic, {.interleavings = 12, .thorough_percent = 100, .keep_log = true},
              &total);
    if (text) fmt::print("{} events in {} histories\n", total.events, total.histories);
  }
}

// Many interleavings of few playbooks find what few of many do not.
TEST(PropertiesDeep, FewPlaybooksInManyOrders) {
  CheckReport total;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(PlaybookCount()) / 20; ++seed) {
    CheckSeed(1'000'000 + seed, seed % 2 == 1, {.interleavings = 40}, &total);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace noetl::sim
