#include "playbook/graph.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

#include "base/check.h"

namespace noetl::playbook {
namespace {

using Arcs = std::vector<std::vector<int>>;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

// A depth-first walk with its own stack: playbooks may be 2,000 steps deep.
//
// Arcs are followed in declared order. An arc is retreating when its target is on the stack at that
// moment. Every arc whose target dominates its source is retreating in any such walk, because a
// dominator is an ancestor in the walk's tree; in a reducible graph there are no others. So the
// retreating arcs are exactly the back arcs of graph.h, and no dominator tree has to be built.
class Walk {
 public:
  Walk(const Arcs& arcs, std::vector<std::vector<bool>>* back)
      : arcs_(arcs), back_(*back), state_(arcs.size(), State::kNew) {}

  bool Visited(int step) const { return state_[At(step)] != State::kNew; }

  void From(int root) {
    if (Visited(root)) return;
    Enter(root);
    while (!stack_.empty()) {
      auto& [step, next] = stack_.back();
      if (next == arcs_[At(step)].size()) {
        state_[At(step)] = State::kDone;
        stack_.pop_back();
        continue;
      }
      const std::size_t arc = next++;
      const int target = arcs_[At(step)][arc];
      if (target < 0) continue;
      if (state_[At(target)] == State::kOpen) back_[At(step)][arc] = true;
      if (state_[At(target)] == State::kNew) Enter(target);
    }
  }

 private:
  enum class State { kNew, kOpen, kDone };

  void Enter(int step) {
    state_[At(step)] = State::kOpen;
    stack_.emplace_back(step, 0);
  }

  const Arcs& arcs_;
  std::vector<std::vector<bool>>& back_;
  std::vector<State> state_;
  std::vector<std::pair<int, std::size_t>> stack_;  // step, next arc to look at
};

// The entry first; then steps that nothing unreached leads to; then what is left (cycles that
// nobody enters) in document order.
void WalkFromAllRoots(const Arcs& arcs, int entry, Walk* walk) {
  if (entry >= 0) walk->From(entry);
  std::vector<bool> has_unreached_source(arcs.size());
  for (std::size_t source = 0; source < arcs.size(); ++source) {
    if (walk->Visited(static_cast<int>(source))) continue;
    for (const int target : arcs[source]) {
      if (target >= 0 && At(target) != source) has_unreached_source[At(target)] = true;
    }
  }
  for (std::size_t step = 0; step < arcs.size(); ++step) {
    if (!has_unreached_source[step]) walk->From(static_cast<int>(step));
  }
  for (std::size_t step = 0; step < arcs.size(); ++step) walk->From(static_cast<int>(step));
}

// Targets of arcs that are wanted, without sinks.
Arcs Select(const Arcs& arcs, const std::vector<std::vector<bool>>* without) {
  Arcs selected(arcs.size());
  for (std::size_t source = 0; source < arcs.size(); ++source) {
    auto& targets = selected[source];
    for (std::size_t arc = 0; arc < arcs[source].size(); ++arc) {
      if (arcs[source][arc] < 0 || (without && (*without)[source][arc])) continue;
      targets.push_back(arcs[source][arc]);
    }
    std::ranges::sort(targets);
    targets.erase(std::ranges::unique(targets).begin(), targets.end());
  }
  return selected;
}

// Steps in topological order; of several that could come next, the first in the document.
std::vector<int> TopologicalOrder(const Arcs& forward) {
  std::vector<int> open_sources(forward.size());
  for (const auto& targets : forward) {
    for (const int target : targets) ++open_sources[At(target)];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t step = 0; step < forward.size(); ++step) {
    if (open_sources[step] == 0) ready.push(static_cast<int>(step));
  }
  std::vector<int> order;
  order.reserve(forward.size());
  while (!ready.empty()) {
    const int step = ready.top();
    ready.pop();
    order.push_back(step);
    for (const int target : forward[At(step)]) {
      if (--open_sources[At(target)] == 0) ready.push(target);
    }
  }
  NOETL_CHECK(order.size() == forward.size(), "forward arcs of a workflow hold a cycle");
  return order;
}

// Reach over an acyclic graph: targets first. Targets are taken in topological order, so that a
// target already reached brings nothing new and dense graphs stay cheap.
std::vector<StepSet> ReachAcyclic(const Arcs& forward, const std::vector<int>& order,
                                  const std::vector<int>& place) {
  std::vector<StepSet> reach(forward.size(), StepSet(forward.size()));
  for (auto step = order.rbegin(); step != order.rend(); ++step) {
    auto targets = forward[At(*step)];
    std::ranges::sort(targets, {}, [&](int target) { return place[At(target)]; });
    StepSet& mine = reach[At(*step)];
    for (const int target : targets) {
      if (mine.Has(target)) continue;
      mine.Add(target);
      mine.AddAll(reach[At(target)]);
    }
  }
  return reach;
}

// Which cycle cluster (strongly connected component) each step belongs to: Tarjan's algorithm with
// its own stack. Clusters are numbered so that arcs lead to the same or a lower number.
class Clusters {
 public:
  explicit Clusters(const Arcs& arcs)
      : arcs_(arcs), order_(arcs.size(), -1), low_(arcs.size()), of_(arcs.size(), -1) {
    for (std::size_t step = 0; step < arcs.size(); ++step) {
      if (order_[step] < 0) From(static_cast<int>(step));
    }
  }

  int Of(int step) const { return of_[At(step)]; }
  const Arcs& members() const { return members_; }

 private:
  void Enter(int step) {
    order_[At(step)] = low_[At(step)] = counter_++;
    pending_.push_back(step);
    stack_.emplace_back(step, 0);
  }

  void From(int root) {
    Enter(root);
    while (!stack_.empty()) {
      auto& [step, next] = stack_.back();
      if (next < arcs_[At(step)].size()) {
        const int target = arcs_[At(step)][next++];
        if (order_[At(target)] < 0) {
          Enter(target);
        } else if (of_[At(target)] < 0) {
          low_[At(step)] = std::min(low_[At(step)], order_[At(target)]);
        }
        continue;
      }
      Leave(step);
    }
  }

  void Leave(int step) {
    stack_.pop_back();
    if (!stack_.empty()) {
      int& parent = low_[At(stack_.back().first)];
      parent = std::min(parent, low_[At(step)]);
    }
    if (low_[At(step)] != order_[At(step)]) return;
    std::vector<int> cluster;
    do {
      cluster.push_back(pending_.back());
      of_[At(pending_.back())] = static_cast<int>(members_.size());
      pending_.pop_back();
    } while (cluster.back() != step);
    members_.push_back(std::move(cluster));
  }

  const Arcs& arcs_;
  std::vector<int> order_;
  std::vector<int> low_;
  std::vector<int> of_;
  Arcs members_;
  std::vector<int> pending_;
  std::vector<std::pair<int, std::size_t>> stack_;
  int counter_ = 0;
};

// Reach over any graph: all steps of a cluster reach the same steps.
std::vector<StepSet> ReachAll(const Arcs& arcs) {
  const Clusters clusters(arcs);
  std::vector<StepSet> reach(arcs.size());
  for (const auto& cluster : clusters.members()) {
    StepSet all(arcs.size());
    for (const int step : cluster) {
      for (const int target : arcs[At(step)]) {
        const bool known = all.Has(target);
        all.Add(target);
        if (!known && clusters.Of(target) != clusters.Of(step)) all.AddAll(reach[At(target)]);
      }
    }
    for (const int step : cluster) reach[At(step)] = all;
  }
  return reach;
}

}  // namespace

Graph Graph::Build(const std::vector<std::vector<int>>& arcs, int entry) {
  const int size = static_cast<int>(arcs.size());
  NOETL_CHECK(entry < size, "the entry is not a step");
  Graph graph;
  for (const auto& targets : arcs) {
    graph.back_.emplace_back(targets.size());
    for (const int target : targets) NOETL_CHECK(target < size, "an arc leads to no step");
  }
  Walk walk(arcs, &graph.back_);
  WalkFromAllRoots(arcs, entry, &walk);

  const Arcs forward = Select(arcs, &graph.back_);
  graph.in_.resize(arcs.size());
  for (int source = 0; source < size; ++source) {
    for (const int target : forward[At(source)]) graph.in_[At(target)].push_back(source);
  }
  const std::vector<int> order = TopologicalOrder(forward);
  graph.topo_.resize(arcs.size());
  for (int place = 0; place < size; ++place) graph.topo_[At(order[At(place)])] = place;
  graph.forward_reach_ = ReachAcyclic(forward, order, graph.topo_);
  graph.reach_ = ReachAll(Select(arcs, nullptr));
  return graph;
}

}  // namespace noetl::playbook
