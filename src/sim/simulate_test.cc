#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_io.h"
#include "sim/invent.h"
#include "sim/text_file.h"

namespace noetl::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<const playbook::Playbook> LoadBody(std::string_view workflow) {
  const playbook::Loaded loaded = playbook::Load(
      "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t, path: demo/t }\nworkflow:\n" +
      std::string(workflow));
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.diagnostics[0].message);
  return loaded.playbook;
}

constexpr std::string_view kBranches = R"(
  - step: start
    tool: { kind: http, url: "http://x" }
    next:
      spec: { mode: inclusive }
      arcs:
        - { step: big, when: "{{ start.total > 100 }}" }
        - { step: gold, when: "{{ start.level == 'gold' }}" }
        - { step: each }
        - { step: never, when: "{{ false }}" }
  - step: big
  - step: gold
  - step: never
  - step: each
    loop: { in: "{{ start.rows }}", iterator: r, spec: { mode: parallel } }
    tool: { kind: python, code: "x", input: { id: "{{ r.id }}", tag: "{{ iter.r.tag }}" } }
)";

TEST(Simulate, MeetsBothSidesOfConditions) {
  const SimulateReport report =
      Simulate({LoadBody(kBranches)}, {.first_seed = 1, .last_seed = 200});
  EXPECT_TRUE(report.healthy()) << WriteJson(report.ToJson());
  EXPECT_EQ(report.runs, 200);
  EXPECT_THAT(report.unreached_steps, ElementsAre("never"));
  ASSERT_EQ(report.untaken_arcs.size(), 1u);
  EXPECT_EQ(report.untaken_arcs[0].target, "never");
  EXPECT_GT(report.paths.size(), 3u);
  EXPECT_GE(report.paths[0].runs, report.paths[1].runs);
}

TEST(Simulate, IsTheSameForTheSameSeeds) {
  const auto playbook = LoadBody(kBranches);
  const SimulateOptions options{.first_seed = 7, .last_seed = 60};
  EXPECT_EQ(Simulate({playbook}, options).ToJson(), Simulate({playbook}, options).ToJson());
}

TEST(Simulate, ReportsFailuresWithTheirFirstSeed) {
  const auto section = ReadLines("start: fail \"as told\"\n", "s");
  const SimulateReport report =
      Simulate({LoadBody(kBranches)},
               {.first_seed = 3, .last_seed = 12, .script = *ParseScript(*section, "s")});
  EXPECT_EQ(report.statuses, (std::map<std::string, std::int64_t>{{"FAILED", 10}}));
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].runs, 10);
  EXPECT_EQ(report.failures[0].seed, 3u);
  EXPECT_THAT(report.failures[0].error, testing::HasSubstr("as told"));
  EXPECT_TRUE(report.healthy());
}

TEST(Simulate, CursorLoopsDrain) {
  const SimulateReport report = Simulate({LoadBody(R"(
  - step: start
    loop:
      iterator: row
      cursor: { kind: postgres, auth: pg, claim: "SELECT {{ __frame_max_rows }}" }
      spec: { mode: cursor, max_in_flight: 2, frame: { max_rows: 2 } }
    tool: { kind: python, code: "x", input: { id: "{{ row.id }}" } }
)")},
                                         {.first_seed = 1, .last_seed = 50});
  EXPECT_TRUE(report.healthy()) << WriteJson(report.ToJson());
}

TEST(Invent, FollowsWhatTemplatesRead) {
  const auto playbook = LoadBody(kBranches);
  const Shapes shapes = Shapes::Learn(*playbook);
  SeededRandom random(1);
  bool rows = false;
  for (int i = 0; i < 50; ++i) {
    const Json payload = shapes.Invent("start", "", "http", random);
    EXPECT_NEAR(static_cast<double>(payload["total"].AsInt(-100)), 100, 1) << WriteJson(payload);
    EXPECT_TRUE(payload["level"].is_string());
    ASSERT_TRUE(payload["rows"].is_array());
    for (const Json& row : payload["rows"].items()) {
      rows = true;
      EXPECT_TRUE(row.Has("id") && row.Has("tag")) << WriteJson(payload);
    }
  }
  EXPECT_TRUE(rows);
}

}  // namespace
}  // namespace noetl::sim
