#include "playbook/draw.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "playbook/draw_layout.h"

namespace noetl::playbook {
namespace {

std::shared_ptr<const Playbook> LoadOk(const std::string& workflow, const std::string& head = "") {
  const Loaded loaded = Load(
      "apiVersion: noetl.io/v2\nkind: Playbook\n"
      "metadata: {name: picture, path: t/picture}\n" +
      head + "workflow:\n" + workflow);
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    EXPECT_FALSE(diagnostic.is_error()) << diagnostic.message;
  }
  return loaded.playbook;
}

constexpr const char* kLoop = R"(
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - step: a
    loop: {in: "{{ [1, 2] }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: shell, cmds: ls}
    next: {arcs: [{step: join}]}
  - step: b
    when: "{{ start }}"
    tool: [{name: x, kind: noop}, {name: y, kind: shell, cmds: ls}]
    next: {arcs: [{step: join}]}
  - step: join
    tool: {kind: noop}
    next: {arcs: [{step: start, when: "{{ join.more < 3 }}"}, {step: end}]}
  - step: end
  - step: lost
)";

std::shared_ptr<const Playbook> LoadLoop() { return LoadOk(kLoop); }

TEST(DrawTextTest, ShowsArcsJoinsAndLoops) {
  EXPECT_EQ(DrawText(*LoadLoop()), R"(picture  t/picture  (6 steps)

▶ start  [noop]  (entry)
  │ takes all that hold
  ├─> a
  └─> b

● a  [shell]
  │ for n in [1, 2], parallel, 3 in flight
  └─> join

● b  [2 tasks: noop, shell]
  │ only when start
  └─> join

● join  [noop]
  │ joins a, b
  │ takes the first that holds
  ├─ when join.more < 3 ─> start  (back)
  └─ else ─> end

● end  [noop]  (end)

● lost  [noop]  (unreachable)
)");
}

TEST(DrawTextTest, FinalStepComesLast) {
  const auto playbook =
      LoadOk("  - step: report\n  - step: start\n    next: finish\n  - step: finish\n",
             "executor: {spec: {final_step: report}}\n");
  const std::string text = DrawText(*playbook);
  EXPECT_GT(text.find("● report"), text.find("● finish"));
  EXPECT_NE(text.find("report  [noop]  (final: runs last, also after a failure)"), text.npos);
}

TEST(DrawTextTest, SinksAndLongConditions) {
  const std::string words(200, 'x');
  const auto playbook = LoadOk("  - step: start\n    next: {arcs: [{step: end, when: \"{{ start." +
                               words + " }}\"}]}\n");
  const std::string text = DrawText(*playbook);
  EXPECT_NE(text.find("> end  (ends the branch)"), text.npos) << text;
  EXPECT_NE(text.find("xxx… ─>"), text.npos) << text;
}

TEST(DrawTest, ShortenCountsCharacters) {
  EXPECT_EQ(Shorten("größe", 5), "größe");
  EXPECT_EQ(Shorten("größer", 5), "größ…");
  EXPECT_EQ(Shorten("", 5), "");
}

// Every tag is closed and quotes match: enough to catch a broken attribute or an unescaped '<'.
void ExpectWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != xml.npos; at = xml.find('<', at)) {
    const std::size_t end = xml.find('>', at);
    ASSERT_NE(end, xml.npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), tag.npos) << tag;
    ASSERT_EQ(std::ranges::count(tag, '"') % 2, 0) << tag;
    at = end;
    const std::string name =
        tag.substr(tag.starts_with('/'), tag.find_first_of(" /\n", 1) - tag.starts_with('/'));
    if (tag.starts_with('/')) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(DrawSvgTest, HasEveryStepAndArc) {
  const auto playbook = LoadLoop();
  const std::string svg = DrawSvg(*playbook);
  ExpectWellFormed(svg);
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(part); at != svg.npos; at = svg.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("class=\"name\""), 6u);
  EXPECT_EQ(count("class=\"arc\""), 5u);
  EXPECT_EQ(count("class=\"back\""), 1u);
  EXPECT_EQ(count("class=\"badge\""), 1u);
  EXPECT_EQ(count("class=\"box entry\""), 1u);
  EXPECT_EQ(count("class=\"box dead\""), 1u);
  EXPECT_NE(svg.find("join.more &lt; 3"), svg.npos);
  EXPECT_NE(svg.find("2 tasks: noop, shell"), svg.npos);
  EXPECT_EQ(DrawSvg(*playbook), svg);
}

TEST(DrawSvgTest, EscapesText) {
  const auto playbook = LoadOk(
      "  - step: start\n    desc: \"<b> & 'quoted'\"\n    next: 'a<b>\"&'\n"
      "  - step: 'a<b>\"&'\n");
  const std::string svg = DrawSvg(*playbook);
  ExpectWellFormed(svg);
  EXPECT_NE(svg.find("a&lt;b&gt;&quot;&amp;"), svg.npos);
  EXPECT_EQ(svg.find("a<b>"), svg.npos);
}

TEST(DrawSvgTest, SelfArcsSinksAndFinalStep) {
  const auto playbook = LoadOk(
      "  - step: start\n    next: {arcs: [{step: start, when: \"{{ start.n }}\"}, {step: end}]}\n"
      "  - step: report\n",
      "executor: {spec: {final_step: report}}\n");
  const std::string svg = DrawSvg(*playbook);
  ExpectWellFormed(svg);
  EXPECT_NE(svg.find("class=\"sink\""), svg.npos);
  EXPECT_NE(svg.find("class=\"back\""), svg.npos);
  EXPECT_NE(svg.find("class=\"box last\""), svg.npos);
}

TEST(DrawSvgTest, ManySteps) {
  std::string workflow = "  - step: start\n    next: s0\n";
  for (int i = 0; i < 300; ++i) {
    workflow += "  - step: s" + std::to_string(i) + "\n";
    if (i < 299) {
      workflow += "    next: {arcs: [{step: s" + std::to_string(std::min(299, i + 40)) +
                  ", when: \"{{ s" + std::to_string(i) + ".x }}\"}, {step: s" +
                  std::to_string(i + 1) + "}]}\n";
    }
  }
  const std::string svg = DrawSvg(*LoadOk(workflow));
  ExpectWellFormed(svg);
  EXPECT_NE(svg.find(">s299<"), svg.npos);
}

TEST(LayoutTest, NothingOverlaps) {
  Layout layout;
  std::vector<int> boxes = {layout.AddBox(100, 40, 0)};
  for (int i = 0; i < 5; ++i) boxes.push_back(layout.AddBox(60 + 20 * i, 40, 1));
  boxes.push_back(layout.AddBox(100, 40, 2));
  for (int i = 1; i <= 5; ++i) {
    layout.AddEdge(boxes[0], boxes[static_cast<std::size_t>(i)], 90, 16);
    layout.AddEdge(boxes[static_cast<std::size_t>(6 - i)], boxes[6], i % 2 ? 120 : 0, 16);
  }
  layout.AddEdge(boxes[0], boxes[6], 50, 16);
  layout.Run();
  for (std::size_t i = 0; i < layout.nodes().size(); ++i) {
    const Layout::Node& a = layout.nodes()[i];
    EXPECT_GE(a.x - a.width / 2, -0.01);
    EXPECT_LE(a.x + a.width / 2, layout.width() + 0.01);
    for (std::size_t j = 0; j < i; ++j) {
      const Layout::Node& b = layout.nodes()[j];
      if (a.row != b.row) continue;
      EXPECT_GE(std::abs(a.x - b.x), (a.width + b.width) / 2 + 10) << i << " " << j;
    }
  }
  for (const Layout::Edge& edge : layout.edges()) {
    EXPECT_LT(layout.nodes()[static_cast<std::size_t>(edge.from)].y,
              layout.nodes()[static_cast<std::size_t>(edge.to)].y);
  }
}

// An order without crossings exists and is found: 0->3, 1->2.
TEST(LayoutTest, AvoidsCrossings) {
  Layout layout;
  const int a = layout.AddBox(50, 20, 0);
  const int b = layout.AddBox(50, 20, 0);
  const int c = layout.AddBox(50, 20, 1);
  const int d = layout.AddBox(50, 20, 1);
  layout.AddEdge(a, d, 0, 0);
  layout.AddEdge(b, c, 0, 0);
  layout.Run();
  const auto x = [&](int node) { return layout.nodes()[static_cast<std::size_t>(node)].x; };
  EXPECT_EQ(x(a) < x(b), x(d) < x(c));
  EXPECT_NEAR(x(a), x(d), 1);
}

}  // namespace
}  // namespace noetl::playbook
