#include "playbook/draw_layout.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace noetl::playbook {
namespace {

constexpr double kGapX = 28;           // between neighbours in a row
constexpr double kGapXInvisible = 16;  // beside an arrow that passes
constexpr double kGapY = 19;           // above and below each row
constexpr int kOrderSweeps = 16;       // enough for drawings of some hundred boxes to settle
constexpr int kAlignSweeps = 60;
constexpr double kStraightWeight = 6;  // long arrows want to be straight more than short ones

std::size_t At(int i) { return static_cast<std::size_t>(i); }

}  // namespace

int Layout::AddNode(Node node) {
  const int index = static_cast<int>(nodes_.size());
  if (rows_.size() <= At(node.row)) rows_.resize(At(node.row) + 1);
  rows_[At(node.row)].push_back(index);
  nodes_.push_back(node);
  above_.emplace_back();
  below_.emplace_back();
  return index;
}

int Layout::AddBox(double width, double height, int layer) {
  return AddNode({.width = width, .height = height, .row = 2 * layer, .is_box = true});
}

void Layout::Connect(int upper, int lower) {
  const bool straight = !nodes_[At(upper)].is_box && !nodes_[At(lower)].is_box;
  const double weight = straight ? kStraightWeight : 1;
  below_[At(upper)].push_back({lower, weight});
  above_[At(lower)].push_back({upper, weight});
}

int Layout::AddEdge(int from, int to, double label_width, double label_height) {
  const int first = nodes_[At(from)].row + 1;
  const int last = nodes_[At(to)].row - 1;
  NOETL_CHECK(first <= last, "an arrow leads upwards");
  Edge edge{.from = from, .to = to};
  const bool room = nodes_.size() + At(last - first) < kInvisibleNodesMax;
  int upper = from;
  for (int row = first; row <= last && (room || row == first); ++row) {
    const bool labelled = row == first && label_width > 0;
    const int node = AddNode(
        {.width = labelled ? label_width : 0, .height = labelled ? label_height : 0, .row = row});
    if (labelled) edge.label = node;
    edge.via.push_back(node);
    Connect(upper, node);
    upper = node;
  }
  if (room) Connect(upper, to);
  edges_.push_back(std::move(edge));
  return static_cast<int>(edges_.size()) - 1;
}

void Layout::Run() {
  OrderRows();
  PlaceRows();
  StackRows();
}

// ---- order within rows ----

void Layout::SortRow(std::size_t row, const std::vector<std::vector<Link>>& links) {
  std::vector<std::pair<double, int>> keyed;
  for (const int node : rows_[row]) {
    double sum = 0;
    for (const Link& link : links[At(node)]) sum += place_[At(link.node)];
    const auto& mine = links[At(node)];
    const double wish = mine.empty() ? place_[At(node)] : sum / static_cast<double>(mine.size());
    keyed.emplace_back(wish, node);
  }
  std::ranges::stable_sort(keyed, {}, &std::pair<double, int>::first);
  for (std::size_t i = 0; i < keyed.size(); ++i) {
    rows_[row][i] = keyed[i].second;
    place_[At(keyed[i].second)] = static_cast<int>(i);
  }
}

// Pairs of arrows that cross, counted row by row with a tree of prefix sums.
std::size_t Layout::Crossings() const {
  std::size_t crossings = 0;
  for (std::size_t row = 0; row + 1 < rows_.size(); ++row) {
    std::vector<std::size_t> sums(rows_[row + 1].size() + 1);
    std::size_t seen = 0;
    for (const int node : rows_[row]) {
      std::vector<std::size_t> targets;
      for (const Link& link : below_[At(node)]) targets.push_back(At(place_[At(link.node)]));
      for (const std::size_t target : targets) {
        std::size_t not_right = 0;
        for (std::size_t i = target + 1; i > 0; i -= i & (~i + 1)) not_right += sums[i];
        crossings += seen - not_right;
      }
      for (const std::size_t target : targets) {
        for (std::size_t i = target + 1; i < sums.size(); i += i & (~i + 1)) ++sums[i];
        ++seen;
      }
    }
  }
  return crossings;
}

void Layout::OrderRows() {
  place_.resize(nodes_.size());
  const auto number = [&] {
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) place_[At(row[i])] = static_cast<int>(i);
    }
  };
  number();
  auto best = rows_;
  std::size_t fewest = Crossings();
  for (int sweep = 0; sweep < kOrderSweeps && fewest > 0; ++sweep) {
    if (sweep % 2 == 0) {
      for (std::size_t row = 1; row < rows_.size(); ++row) SortRow(row, above_);
    } else {
      for (std::size_t row = rows_.size(); row-- > 0;) SortRow(row, below_);
    }
    if (const std::size_t crossings = Crossings(); crossings < fewest) {
      fewest = crossings;
      best = rows_;
    }
  }
  rows_ = std::move(best);
  number();
}

// ---- places ----

// Moves the nodes of a row as near to their neighbours as their order and widths allow: isotonic
// regression by pooling neighbours that would overlap.
void Layout::AlignRow(const std::vector<int>& row, bool use_above, bool use_below) {
  struct Pool {
    double sum;
    double weight;
    std::size_t count;
  };
  std::vector<double> offsets;
  std::vector<Pool> pools;
  double offset = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Node& node = nodes_[At(row[i])];
    if (i > 0) {
      const Node& left = nodes_[At(row[i - 1])];
      const double gap = node.is_box && left.is_box ? kGapX : kGapXInvisible;
      offset += (left.width + node.width) / 2 + gap;
    }
    offsets.push_back(offset);
    double sum = 0;
    double weight = 0;
    const auto pull = [&](const std::vector<Link>& links) {
      for (const Link& link : links) {
        sum += link.weight * nodes_[At(link.node)].x;
        weight += link.weight;
      }
    };
    if (use_above) pull(above_[At(row[i])]);
    if (use_below) pull(below_[At(row[i])]);
    // A node that nothing pulls stays where it is, lightly.
    if (weight == 0) sum = node.x * (weight = 0.1);
    pools.push_back({sum - weight * offset, weight, 1});
    while (pools.size() > 1) {
      const Pool& last = pools.back();
      Pool& before = pools[pools.size() - 2];
      if (before.sum / before.weight <= last.sum / last.weight) break;
      before = {before.sum + last.sum, before.weight + last.weight, before.count + last.count};
      pools.pop_back();
    }
  }
  std::size_t i = 0;
  for (const Pool& pool : pools) {
    for (std::size_t k = 0; k < pool.count; ++k, ++i) {
      nodes_[At(row[i])].x = pool.sum / pool.weight + offsets[i];
    }
  }
}

void Layout::PlaceRows() {
  for (const auto& row : rows_) AlignRow(row, false, false);
  for (int sweep = 0; sweep < kAlignSweeps; ++sweep) {
    const bool last = sweep + 2 >= kAlignSweeps;
    if (sweep % 2 == 0) {
      for (const auto& row : rows_) AlignRow(row, true, last);
    } else {
      for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) AlignRow(*row, last, true);
    }
  }
  double left = std::numeric_limits<double>::max();
  double right = std::numeric_limits<double>::lowest();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (above_[i].empty() && below_[i].empty() && rows_[At(node.row)].size() == 1 &&
        nodes_.size() > 1) {
      continue;
    }
    left = std::min(left, node.x - node.width / 2);
    right = std::max(right, node.x + node.width / 2);
  }
  if (nodes_.empty()) return;
  // A box alone in its row that no arrow touches belongs in the middle.
  for (const auto& row : rows_) {
    if (row.size() != 1 || !above_[At(row[0])].empty() || !below_[At(row[0])].empty()) continue;
    nodes_[At(row[0])].x = (left + right) / 2;
  }
  for (Node& node : nodes_) node.x -= left;
  width_ = right - left;
}

void Layout::StackRows() {
  double y = 0;
  for (const auto& row : rows_) {
    double height = 0;
    for (const int node : row) height = std::max(height, nodes_[At(node)].height);
    for (const int node : row) nodes_[At(node)].y = y + (height - nodes_[At(node)].height) / 2;
    row_top_.push_back(y);
    row_bottom_.push_back(y + height);
    y += height + kGapY;
  }
  height_ = row_bottom_.empty() ? 0 : row_bottom_.back();
}

}  // namespace noetl::playbook
