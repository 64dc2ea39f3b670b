// Places boxes in rows and leads arrows between them. Private to the drawing of playbooks.
//
// A layered layout: every arrow leads to a lower row. Arrows that cross rows get invisible nodes in
// them, labels get nodes of their own, so nothing overlaps. Deterministic. One thread; holds its
// data.
#pragma once

#include <cstddef>
#include <vector>

namespace noetl::playbook {

// Invisible nodes of all arrows together; beyond it long arrows are drawn straight.
inline constexpr std::size_t kInvisibleNodesMax = 20'000;

class Layout {
 public:
  struct Node {
    double width = 0;
    double height = 0;
    int row = 0;   // boxes stand in even rows, labels in odd ones
    double x = 0;  // centre
    double y = 0;  // top, after Run
    bool is_box = false;
  };
  struct Edge {
    int from = 0;
    int to = 0;
    int label = -1;        // the node that keeps room for the label
    std::vector<int> via;  // nodes between the two boxes, top down
  };

  int AddBox(double width, double height, int layer);
  // `to` must be in a later layer than `from`. `label_width` 0: no label.
  int AddEdge(int from, int to, double label_width, double label_height);
  void Run();

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }
  int row_count() const { return static_cast<int>(rows_.size()); }
  double RowTop(int row) const { return row_top_[static_cast<std::size_t>(row)]; }
  double RowBottom(int row) const { return row_bottom_[static_cast<std::size_t>(row)]; }
  double width() const { return width_; }
  double height() const { return height_; }

 private:
  struct Link {
    int node;
    double weight;
  };

  int AddNode(Node node);
  void Connect(int upper, int lower);
  void OrderRows();
  void SortRow(std::size_t row, const std::vector<std::vector<Link>>& links);
  std::size_t Crossings() const;
  void PlaceRows();
  void AlignRow(const std::vector<int>& row, bool use_above, bool use_below);
  void StackRows();

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> rows_;    // nodes from left to right
  std::vector<std::vector<Link>> above_;  // neighbours in the row above
  std::vector<std::vector<Link>> below_;
  std::vector<double> row_top_;
  std::vector<double> row_bottom_;
  std::vector<int> place_;  // in the row
  double width_ = 0;
  double height_ = 0;
};

}  // namespace noetl::playbook
