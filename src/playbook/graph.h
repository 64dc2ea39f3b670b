// The static shape of a workflow: which arcs lead back, who joins where, what reaches what.
//
// Built once per playbook version and immutable. Steps are indices in document order. Back edges
// are arcs whose target dominates their source (seen from the entry); in an irreducible graph also
// the retreating edges of a depth-first walk in declared order. The rest, the forward arcs, is
// acyclic: joins, admission order and dead branches are decided on it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace noetl::playbook {

// A fixed-size set of step indices.
class StepSet {
 public:
  StepSet() = default;
  explicit StepSet(std::size_t size) : words_((size + 63) / 64) {}

  bool Has(int step) const { return words_[Word(step)] >> (step & 63) & 1; }
  void Add(int step) { words_[Word(step)] |= std::uint64_t{1} << (step & 63); }
  void Remove(int step) { words_[Word(step)] &= ~(std::uint64_t{1} << (step & 63)); }
  void AddAll(const StepSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool operator==(const StepSet&) const = default;

 private:
  static std::size_t Word(int step) { return static_cast<std::size_t>(step) >> 6; }
  std::vector<std::uint64_t> words_;
};

class Graph {
 public:
  // `arcs[v]` are the targets of v's arcs in declared order; -1 is a sink (an `end` nobody
  // declared). `entry` is the root; steps it does not reach are roots of their own, in document
  // order.
  static Graph Build(const std::vector<std::vector<int>>& arcs, int entry);

  int size() const { return static_cast<int>(in_.size()); }
  // Whether the arc number `arc` of step `source` leads back.
  bool IsBackArc(int source, int arc) const { return back_[Index(source)][Index(arc)]; }
  // Sources of forward arcs into the step, ascending, without duplicates.
  std::span<const int> In(int step) const { return in_[Index(step)]; }
  bool IsJoin(int step) const { return in_[Index(step)].size() > 1; }
  // Steps reachable over forward arcs, at least one hop.
  const StepSet& ForwardReach(int step) const { return forward_reach_[Index(step)]; }
  // Steps reachable over all arcs, at least one hop.
  const StepSet& Reach(int step) const { return reach_[Index(step)]; }
  // Place in the topological order of the forward arcs, ties by document order.
  int Topo(int step) const { return topo_[Index(step)]; }

 private:
  static std::size_t Index(int i) { return static_cast<std::size_t>(i); }
  std::vector<std::vector<bool>> back_;
  std::vector<std::vector<int>> in_;
  std::vector<StepSet> forward_reach_;
  std::vector<StepSet> reach_;
  std::vector<int> topo_;
};

}  // namespace noetl::playbook
