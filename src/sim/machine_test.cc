#include "sim/machine.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "sim/simulate_faults.h"
#include "sim/virtual_time.h"

namespace noetl::sim {
namespace {

constexpr std::string_view kHead =
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: demo/t}\nworkflow:\n";
constexpr std::string_view kLoop = R"(
  - step: start
    tool: {kind: http, url: "http://x"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ [1, 2, 3, 4] }}", iterator: it, spec: {mode: parallel}}
    tool: {kind: python, code: "x", input: {n: "{{ it }}"}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: {got: "{{ each.results | length }}"}}
)";

class Echo final : public Tools {
 public:
  ToolAnswer Call(const ToolCall& call) override {
    ToolAnswer answer;
    answer.outcome.payload = call.kind == "noop" ? call.config["result"] : call.input;
    return answer;
  }
};

class Machines : public testing::Test {
 protected:
  void SetUp() override { ConfigureLog({.level = LogLevel::kOff}); }
  void TearDown() override { ConfigureLog({}); }

  MachineReport Run(std::uint64_t seed, const FaultPlan& faults) {
    MachineOptions options{.seed = seed,
                           .faults = faults,
                           .playbooks = {std::string(kHead) + std::string(kLoop)},
                           .copies = 2,
                           .tools = &tools_};
    options.semantics.max_attempts = 100;  // no command fails by crashes alone
    Machine machine(options);
    MachineReport report = machine.Run();
    EXPECT_EQ(report.failure, "") << machine.Tail();
    return report;
  }

  Echo tools_;
};

TEST_F(Machines, WithoutFaultsEveryToolIsCalledOnce) {
  const MachineReport report = Run(7, {});
  ASSERT_EQ(report.runs.size(), 2U);
  for (const MachineReport::Ended& run : report.runs) {
    EXPECT_EQ(run.status, "COMPLETED") << run.error;
    EXPECT_EQ(run.steps.at("end"), "{\"got\":4}");
  }
  EXPECT_TRUE(report.repeated.empty());
  EXPECT_EQ(report.crashes, 0);
}

TEST_F(Machines, UnderAllFaultsTheResultIsTheSame) {
  const MachineReport peaceful = Run(1, {});
  std::int64_t crashes = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const MachineReport report = Run(seed, AllFaults());
    crashes += report.crashes;
    for (const MachineReport::Ended& run : report.runs) {
      EXPECT_EQ(run.status, "COMPLETED") << run.error << " with seed " << seed;
      EXPECT_EQ(run.steps, peaceful.runs[0].steps) << "seed " << seed;
    }
  }
  EXPECT_GT(crashes, 20);
}

TEST_F(Machines, TheSameSeedIsTheSameHistory) {
  EXPECT_EQ(Run(5, AllFaults()).digest, Run(5, AllFaults()).digest);
  EXPECT_NE(Run(5, AllFaults()).digest, Run(6, AllFaults()).digest);
}

TEST_F(Machines, SimulateFaultsNamesTheStepsThatMustBearARepetition) {
  const FaultSimulation report =
      SimulateFaults({std::string(kHead) + std::string(kLoop)}, {.first_seed = 1, .last_seed = 30});
  EXPECT_TRUE(report.healthy()) << (report.broken.empty() ? "" : report.broken[0].error);
  EXPECT_EQ(report.runs, 30);
  EXPECT_GT(report.crashes, 0);
  EXPECT_TRUE(report.repeated.contains("each"));
  EXPECT_EQ(report.ToJson()["healthy"], Json(true));
}

TEST(VirtualTimeTest, TasksOfOneReactorKeepTheirOrderAndTimersMoveTheClock) {
  VirtualTime time(3, 1'000);
  Reactor* one = time.Add();
  Reactor* two = time.Add();
  std::string order;
  one->Post([&] { order += "a"; });
  one->Post([&] { order += "b"; });
  const Reactor::TimerId never = two->After(500, [&] { order += "x"; });
  two->After(7'000'000, [&] { order += "t"; });
  two->CancelTimer(never);
  while (time.RunOne()) {
  }
  EXPECT_EQ(order, "abt");
  EXPECT_GE(time.clock().MonotonicMicros(), 7'000'000);
  const std::int64_t monotonic = time.clock().MonotonicMicros();
  time.StepWall(-5'000'000);
  EXPECT_EQ(time.clock().MonotonicMicros(), monotonic);
}

}  // namespace
}  // namespace noetl::sim
