#include "playbook/graph.h"

#include <chrono>
#include <cstddef>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace noetl::playbook {
namespace {

using Arcs = std::vector<std::vector<int>>;
using Edge = std::pair<int, int>;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

std::set<Edge> BackEdges(const Graph& graph, const Arcs& arcs) {
  std::set<Edge> back;
  for (std::size_t source = 0; source < arcs.size(); ++source) {
    for (std::size_t arc = 0; arc < arcs[source].size(); ++arc) {
      const int from = static_cast<int>(source);
      if (graph.IsBackArc(from, static_cast<int>(arc))) back.emplace(from, arcs[source][arc]);
    }
  }
  return back;
}

std::vector<int> In(const Graph& graph, int step) {
  return {graph.In(step).begin(), graph.In(step).end()};
}

// Steps that `from` reaches in zero or more hops without entering `avoiding` or a step outside
// `inside`.
std::vector<bool> NaiveReach(const Arcs& arcs, int from, int avoiding,
                             const std::vector<bool>& inside) {
  std::vector<bool> seen(arcs.size());
  if (from == avoiding) return seen;
  std::queue<int> open;
  seen[At(from)] = true;
  open.push(from);
  while (!open.empty()) {
    const int step = open.front();
    open.pop();
    for (const int target : arcs[At(step)]) {
      if (target < 0 || target == avoiding || seen[At(target)] || !inside[At(target)]) continue;
      seen[At(target)] = true;
      open.push(target);
    }
  }
  return seen;
}

// Arcs within what the entry reaches whose target dominates their source, straight from the
// definition: without the target, the source cannot be reached.
std::set<Edge> NaiveDominatorBackEdges(const Arcs& arcs, int entry) {
  const std::vector<bool> everywhere(arcs.size(), true);
  const auto reached = NaiveReach(arcs, entry, -1, everywhere);
  std::set<Edge> back;
  for (int target = 0; target < static_cast<int>(arcs.size()); ++target) {
    const auto without = NaiveReach(arcs, entry, target, everywhere);
    for (int source = 0; source < static_cast<int>(arcs.size()); ++source) {
      if (!reached[At(source)] || without[At(source)]) continue;
      for (const int to : arcs[At(source)]) {
        if (to == target) back.emplace(source, target);
      }
    }
  }
  return back;
}

Arcs Without(const Arcs& arcs, const std::set<Edge>& removed) {
  Arcs kept(arcs.size());
  for (int source = 0; source < static_cast<int>(arcs.size()); ++source) {
    for (const int target : arcs[At(source)]) {
      if (target >= 0 && !removed.contains({source, target})) kept[At(source)].push_back(target);
    }
  }
  return kept;
}

std::vector<bool> NaiveReachHops(const Arcs& arcs, int from) {
  std::vector<bool> all(arcs.size());
  for (const int target : arcs[At(from)]) {
    if (target < 0) continue;
    const auto more = NaiveReach(arcs, target, -1, std::vector<bool>(arcs.size(), true));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] || more[i];
  }
  return all;
}

bool HasCycle(const Arcs& arcs, const std::vector<bool>& inside) {
  for (int step = 0; step < static_cast<int>(arcs.size()); ++step) {
    if (inside[At(step)] && NaiveReachHops(arcs, step)[At(step)]) return true;
  }
  return false;
}

TEST(GraphTest, EmptyAndSingle) {
  EXPECT_EQ(Graph::Build({}, -1).size(), 0);
  const Graph one = Graph::Build({{}}, 0);
  EXPECT_EQ(one.size(), 1);
  EXPECT_FALSE(one.IsJoin(0));
  EXPECT_FALSE(one.Reach(0).Has(0));
  EXPECT_EQ(one.Topo(0), 0);
}

TEST(GraphTest, DiamondIsAJoin) {
  const Arcs arcs = {{1, 2}, {3}, {3}, {}};
  const Graph graph = Graph::Build(arcs, 0);
  EXPECT_TRUE(BackEdges(graph, arcs).empty());
  EXPECT_EQ(In(graph, 3), (std::vector<int>{1, 2}));
  EXPECT_TRUE(graph.IsJoin(3));
  EXPECT_FALSE(graph.IsJoin(1));
  EXPECT_TRUE(graph.ForwardReach(0).Has(3));
  EXPECT_FALSE(graph.ForwardReach(0).Has(0));
  EXPECT_FALSE(graph.ForwardReach(1).Has(2));
}

// Vector V17: s->h->[a,b], a->j, b->j, j->{h|e}. The join inside the loop body stays a join.
TEST(GraphTest, JoinInsideALoopStaysAJoin) {
  enum { s, h, a, b, j, e };
  const Arcs arcs = {{h}, {a, b}, {j}, {j}, {h, e}, {}};
  const Graph graph = Graph::Build(arcs, s);
  EXPECT_EQ(BackEdges(graph, arcs), (std::set<Edge>{{j, h}}));
  EXPECT_EQ(In(graph, j), (std::vector<int>{a, b}));
  EXPECT_EQ(In(graph, h), (std::vector<int>{s}));
  EXPECT_FALSE(graph.IsJoin(h));
  EXPECT_TRUE(graph.Reach(j).Has(a));
  EXPECT_FALSE(graph.ForwardReach(j).Has(a));
  EXPECT_TRUE(graph.Reach(a).Has(a));
}

TEST(GraphTest, SelfArcsLeadBack) {
  const Arcs arcs = {{1}, {1, 2}, {}};
  const Graph graph = Graph::Build(arcs, 0);
  EXPECT_TRUE(graph.IsBackArc(1, 0));
  EXPECT_FALSE(graph.IsBackArc(1, 1));
  EXPECT_TRUE(graph.Reach(1).Has(1));
  EXPECT_FALSE(graph.ForwardReach(1).Has(1));
  EXPECT_EQ(In(graph, 1), (std::vector<int>{0}));
}

TEST(GraphTest, SinksAndRepeatedTargets) {
  const Arcs arcs = {{1, -1, 1}, {-1, 0, 0}};
  const Graph graph = Graph::Build(arcs, 0);
  EXPECT_FALSE(graph.IsBackArc(0, 1));
  EXPECT_FALSE(graph.IsBackArc(1, 0));
  EXPECT_TRUE(graph.IsBackArc(1, 1));
  EXPECT_TRUE(graph.IsBackArc(1, 2));
  EXPECT_EQ(In(graph, 1), (std::vector<int>{0}));
}

// 0 -> 1 and 2, which form a cycle with two entries: neither dominates the other.
TEST(GraphTest, IrreducibleCycleIsCutInDeclaredOrder) {
  const Arcs arcs = {{1, 2}, {2}, {1}};
  EXPECT_TRUE(NaiveDominatorBackEdges(arcs, 0).empty());
  EXPECT_EQ(BackEdges(Graph::Build(arcs, 0), arcs), (std::set<Edge>{{2, 1}}));
  const Arcs other = {{2, 1}, {2}, {1}};
  EXPECT_EQ(BackEdges(Graph::Build(other, 0), other), (std::set<Edge>{{1, 2}}));
}

TEST(GraphTest, EntryNeedNotBeTheFirstStep) {
  const Arcs arcs = {{1}, {0}, {1}};
  const Graph graph = Graph::Build(arcs, 2);
  EXPECT_EQ(BackEdges(graph, arcs), (std::set<Edge>{{0, 1}}));
  EXPECT_EQ(graph.Topo(2), 0);
  EXPECT_EQ(graph.Topo(1), 1);
  EXPECT_EQ(graph.Topo(0), 2);
}

// A dead step that leads into a loop does not change the loop: 0->1->2->1, and 3->2 never runs.
TEST(GraphTest, UnreachableStepsAreRootsOfTheirOwn) {
  const Arcs arcs = {{1}, {2}, {1}, {2}};
  const Graph graph = Graph::Build(arcs, 0);
  EXPECT_EQ(BackEdges(graph, arcs), (std::set<Edge>{{2, 1}}));
  EXPECT_EQ(In(graph, 2), (std::vector<int>{1, 3}));
}

// 1 <-> 2 is a cycle nobody enters, 4 leads into 3 <-> 5: the root is the one with no source.
TEST(GraphTest, UnreachableCycles) {
  const Arcs arcs = {{}, {2}, {1}, {5}, {5}, {3}};
  const Graph graph = Graph::Build(arcs, 0);
  EXPECT_EQ(BackEdges(graph, arcs), (std::set<Edge>{{2, 1}, {3, 5}}));
}

TEST(GraphTest, TiesFollowTheDocument) {
  const Arcs arcs = {{3, 2, 1}, {}, {}, {}};
  const Graph graph = Graph::Build(arcs, 0);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(graph.Topo(step), step);
}

void CheckAgainstDefinitions(const Arcs& arcs, int entry) {
  const int size = static_cast<int>(arcs.size());
  const Graph graph = Graph::Build(arcs, entry);
  const std::set<Edge> back = BackEdges(graph, arcs);
  const Arcs forward = Without(arcs, back);
  const std::vector<bool> everywhere(arcs.size(), true);
  RC_ASSERT(!HasCycle(forward, everywhere));

  const auto dominated = NaiveDominatorBackEdges(arcs, entry);
  for (const Edge& edge : dominated) RC_ASSERT(back.contains(edge));
  const auto reached = NaiveReach(arcs, entry, -1, everywhere);
  if (!HasCycle(Without(arcs, dominated), reached)) {
    // Reducible: nothing but the dominated arcs leads back among reached steps.
    for (const Edge& edge : back) RC_ASSERT(!reached[At(edge.first)] || dominated.contains(edge));
  }
  for (const auto& [source, target] : back) {
    // A back arc always closes a cycle.
    RC_ASSERT(target == source || NaiveReachHops(arcs, target)[At(source)]);
  }

  std::set<int> places;
  for (int step = 0; step < size; ++step) {
    places.insert(graph.Topo(step));
    const auto all = NaiveReachHops(arcs, step);
    const auto ahead = NaiveReachHops(forward, step);
    std::set<int> sources;
    for (int other = 0; other < size; ++other) {
      RC_ASSERT(graph.Reach(step).Has(other) == all[At(other)]);
      RC_ASSERT(graph.ForwardReach(step).Has(other) == ahead[At(other)]);
      for (const int target : forward[At(other)]) {
        if (target == step) sources.insert(other);
      }
    }
    RC_ASSERT(In(graph, step) == std::vector<int>(sources.begin(), sources.end()));
    for (const int target : forward[At(step)]) RC_ASSERT(graph.Topo(step) < graph.Topo(target));
  }
  RC_ASSERT(places.size() == arcs.size());
  RC_ASSERT(places.empty() || (*places.begin() == 0 && *places.rbegin() == size - 1));
}

TEST(GraphTest, RandomGraphsFollowTheDefinitions) {
  // inRange scales with the size parameter; nominal size gives the whole range from the first case.
  const auto between = [](int low, int high) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high));
  };
  int cyclic = 0;
  EXPECT_TRUE(rc::check([&] {
    Arcs arcs(At(between(1, 12)));
    const int size = static_cast<int>(arcs.size());
    for (auto& targets : arcs) {
      targets.resize(At(between(0, 4)));
      for (int& target : targets) target = between(-1, size);
    }
    cyclic += HasCycle(arcs, std::vector<bool>(arcs.size(), true));
    CheckAgainstDefinitions(arcs, between(0, size));
  }));
  EXPECT_GT(cyclic, 20);
}

TEST(GraphTest, BigGraphsAreQuick) {
  constexpr int kSize = 2'000;
  Arcs chain(kSize);
  Arcs dense(kSize);
  std::mt19937 random(7);
  for (int step = 0; step < kSize; ++step) {
    if (step + 1 < kSize) chain[At(step)].push_back(step + 1);
    chain[At(step)].push_back(0);
    for (int i = 0; i < 200; ++i) dense[At(step)].push_back(static_cast<int>(random() % kSize));
  }
  const auto start = std::chrono::steady_clock::now();
  const Graph long_graph = Graph::Build(chain, 0);
  const Graph dense_graph = Graph::Build(dense, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(long_graph.Topo(kSize - 1), kSize - 1);
  EXPECT_TRUE(long_graph.Reach(kSize - 1).Has(kSize - 1));
  EXPECT_TRUE(dense_graph.Reach(5).Has(1999));
}

}  // namespace
}  // namespace noetl::playbook
