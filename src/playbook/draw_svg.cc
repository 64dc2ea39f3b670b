#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "playbook/draw.h"
#include "playbook/draw_layout.h"

namespace noetl::playbook {
namespace {

// Sizes in pixels; text widths are estimates for common sans-serif fonts, on the wide side.
constexpr double kMargin = 28;
constexpr double kTitleHeight = 46;
constexpr double kBoxHeight = 46;
constexpr double kBoxWidthMin = 116;
constexpr double kNameWidth = 7.9;    // one character of a step name, 13 px bold
constexpr double kDetailWidth = 6.2;  // 11 px
constexpr double kLabelWidth = 5.9;   // 10.5 px
constexpr double kLabelHeight = 17;
constexpr double kSinkSize = 16;
constexpr double kLane = 20;  // between arcs that lead back
constexpr std::size_t kNameLengthMax = 30;
constexpr std::size_t kDetailLengthMax = 36;
constexpr std::size_t kLabelLengthMax = 34;

// The stripe of a box tells the kind of tool at a glance.
struct KindColour {
  std::string_view kind;
  std::string_view colour;
};
constexpr KindColour kKindColours[] = {
    {"http", "#2f7ed8"},      {"postgres", "#1f9e89"},  {"duckdb", "#1f9e89"},
    {"ducklake", "#1f9e89"},  {"snowflake", "#1f9e89"}, {"python", "#d99a0b"},
    {"script", "#d99a0b"},    {"rhai", "#d99a0b"},      {"shell", "#5b6472"},
    {"container", "#5b6472"}, {"playbook", "#8e57c9"},  {"noop", "#aab2bf"},
};
constexpr std::string_view kOtherColour = "#c2557a";
constexpr std::string_view kPipelineColour = "#e06c2b";

constexpr std::string_view kStyle = R"(<style>
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.title { font-size: 16px; font-weight: 600; fill: #1d2430; }
.path { font-size: 12px; fill: #6b7482; }
.box { fill: #ffffff; stroke: #c3cad5; stroke-width: 1.2; }
.entry { stroke: #2e9e5b; stroke-width: 2.2; }
.last { stroke: #44546a; stroke-width: 2.2; }
.dead { stroke-dasharray: 3 3; fill: #fafafa; }
.name { font-size: 13px; font-weight: 600; fill: #1d2430; }
.detail { font-size: 11px; fill: #6b7482; }
.badge { fill: #eef3fb; stroke: #9db8e0; stroke-width: 1; }
.badge-text { font-size: 10px; fill: #2f5fa8; }
.arc { fill: none; stroke: #7c8798; stroke-width: 1.4; }
.back { fill: none; stroke: #b4568c; stroke-width: 1.4; stroke-dasharray: 5 4; }
.label { font-size: 10.5px; fill: #3b4656; }
.label-back { font-size: 10.5px; fill: #8f3f6d; }
.label-box { fill: #f5f7fa; }
.sink { fill: #44546a; stroke: #ffffff; stroke-width: 2; }
</style>
)";

std::size_t At(int i) { return static_cast<std::size_t>(i); }

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        // Controls are not allowed in XML 1.0.
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

std::string Number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

double TextWidth(std::string_view text, double per_character) {
  return per_character * static_cast<double>(CodePoints(text));
}

std::string LoopBadge(const Step& step) {
  if (!step.loop) return "";
  switch (step.loop->mode) {
    case Loop::Mode::kSequential: return "⟳ each";
    case Loop::Mode::kParallel: return "⟳ parallel";
    case Loop::Mode::kCursor: return "⟳ cursor";
  }
  return "";
}

class Svg {
 public:
  explicit Svg(const Playbook& playbook) : playbook_(playbook), graph_(playbook.graph) {}

  std::string Draw() {
    AssignLayers();
    AddBoxes();
    AddArcs();
    layout_.Run();
    RouteBackArcs();
    std::string body;
    for (const Arrow& arrow : arrows_) body += ForwardArc(arrow);
    for (const BackArc& arc : back_arcs_) body += BackArcPath(arc);
    for (const Arrow& arrow : arrows_) body += ForwardLabel(arrow);
    for (const Step& step : playbook_.steps) body += Box(step);
    if (sink_ >= 0) body += Sink();
    return Frame(body);
  }

 private:
  struct Arrow {
    int edge;
    const Step* step;
    std::size_t arc;
    std::string label;
  };
  struct BackArc {
    const Step* step;
    std::size_t arc;
    std::string label;
    double lane = 0;   // x of the part that leads up
    double out_y = 0;  // below the source
    double in_y = 0;   // above the target
    double source_x = 0;
    double target_x = 0;
  };

  // ---- what goes where ----

  bool RunsLast(int step) const {
    return step == playbook_.final || (playbook_.implicit_end && step == playbook_.end);
  }

  // The longest way from a root; the end and the final step below everything else.
  void AssignLayers() {
    std::vector<int> order(playbook_.steps.size());
    for (const Step& step : playbook_.steps) order[At(graph_.Topo(step.index))] = step.index;
    layers_.assign(playbook_.steps.size(), 0);
    int lowest = 0;
    for (const int step : order) {
      for (const int source : graph_.In(step)) {
        layers_[At(step)] = std::max(layers_[At(step)], layers_[At(source)] + 1);
      }
      lowest = std::max(lowest, layers_[At(step)]);
    }
    // Steps that nothing leads to stand right above the first step that they lead to.
    for (auto step = order.rbegin(); step != order.rend(); ++step) {
      if (*step == playbook_.entry || graph_.Reach(playbook_.entry).Has(*step)) continue;
      int first = -1;
      for (const Arc& arc : playbook_.steps[At(*step)].arcs) {
        if (arc.target_index < 0 || layers_[At(arc.target_index)] <= layers_[At(*step)]) continue;
        const int target = layers_[At(arc.target_index)];
        first = first < 0 ? target : std::min(first, target);
      }
      if (first > 0) layers_[At(*step)] = first - 1;
    }
    for (const int last : {playbook_.implicit_end ? playbook_.end : -1, playbook_.final}) {
      if (last < 0 || playbook_.steps.size() == 1 || !graph_.In(last).empty()) continue;
      const int shift = ++lowest - layers_[At(last)];
      layers_[At(last)] += shift;
      for (const Step& step : playbook_.steps) {
        if (!graph_.ForwardReach(last).Has(step.index)) continue;
        layers_[At(step.index)] += shift;
        lowest = std::max(lowest, layers_[At(step.index)]);
      }
    }
  }

  static std::string Detail(const Step& step) { return Shorten(ToolLabel(step), kDetailLengthMax); }

  void AddBoxes() {
    for (const Step& step : playbook_.steps) {
      const std::string badge = LoopBadge(step);
      const double badge_width = badge.empty() ? 0 : TextWidth(badge, kDetailWidth) + 26;
      const double width =
          std::max({kBoxWidthMin, TextWidth(Shorten(step.name, kNameLengthMax), kNameWidth) + 30,
                    TextWidth(Detail(step), kDetailWidth) + 30 + badge_width});
      layout_.AddBox(width, kBoxHeight, layers_[At(step.index)]);
    }
  }

  // An arc without condition behind conditional ones is what is left.
  static std::string LabelOf(const Step& step, std::size_t arc) {
    std::string label = ArcLabel(step.arcs[arc]);
    if (label.empty() && step.mode == RouteMode::kExclusive && arc > 0) label = "else";
    return label;
  }

  int SinkBox() {
    if (sink_ >= 0) return sink_;
    int layer = 0;
    for (const Step& step : playbook_.steps) {
      for (const Arc& arc : step.arcs) {
        if (arc.target_index < 0) layer = std::max(layer, layers_[At(step.index)] + 1);
      }
    }
    return sink_ = layout_.AddBox(kSinkSize, kSinkSize, layer);
  }

  void AddArcs() {
    for (const Step& step : playbook_.steps) {
      for (std::size_t i = 0; i < step.arcs.size(); ++i) {
        std::string label = LabelOf(step, i);
        if (graph_.IsBackArc(step.index, static_cast<int>(i))) {
          back_arcs_.push_back({.step = &step, .arc = i, .label = std::move(label)});
          continue;
        }
        const int target = step.arcs[i].target_index < 0 ? SinkBox() : step.arcs[i].target_index;
        const std::string shown = Shorten(label, kLabelLengthMax);
        const double width = shown.empty() ? 0 : TextWidth(shown, kLabelWidth) + 10;
        const int edge = layout_.AddEdge(step.index, target, width, kLabelHeight);
        arrows_.push_back({edge, &step, i, std::move(label)});
      }
    }
  }

  // ---- arcs that lead back: out below the source, up beside everything, in above the target ----

  void RouteBackArcs() {
    std::vector<double> right(At(layout_.row_count()), 0.0);
    for (const Layout::Node& node : layout_.nodes()) {
      double& edge = right[At(node.row)];
      edge = std::max(edge, node.x + node.width / 2);
    }
    const auto row_of = [&](int step) { return layout_.nodes()[At(step)].row; };
    std::ranges::stable_sort(back_arcs_, {}, [&](const BackArc& arc) {
      return row_of(arc.step->index) - row_of(arc.step->arcs[arc.arc].target_index);
    });
    std::vector<int> leaving(playbook_.steps.size());
    std::vector<int> entering(playbook_.steps.size());
    for (BackArc& arc : back_arcs_) {
      const int source = arc.step->index;
      const int target = arc.step->arcs[arc.arc].target_index;
      const int out = leaving[At(source)]++;
      const int in = entering[At(target)]++;
      const Layout::Node& from = layout_.nodes()[At(source)];
      const Layout::Node& to = layout_.nodes()[At(target)];
      arc.source_x = from.x + from.width / 2 - 12 - 8 * std::min(out, 4);
      arc.target_x = to.x + to.width / 2 - 14 - 8 * std::min(in, 4);
      arc.out_y = layout_.RowBottom(from.row) + 7 + 3 * std::min(out, 3);
      arc.in_y = layout_.RowTop(to.row) - 11 - 3 * std::min(in, 2);
      double lane = 0;
      for (int row = std::max(0, to.row - 1);
           row <= std::min(layout_.row_count() - 1, from.row + 1); ++row) {
        lane = std::max(lane, right[At(row)]);
      }
      arc.lane = lane + kLane;
      const std::string shown = Shorten(arc.label, kLabelLengthMax);
      const double taken = arc.lane + (shown.empty() ? 0 : TextWidth(shown, kLabelWidth) + 8);
      for (int row = std::max(0, to.row - 1);
           row <= std::min(layout_.row_count() - 1, from.row + 1); ++row) {
        right[At(row)] = taken;
      }
      right_ = std::max(right_, taken);
      top_ = std::min(top_, arc.in_y);
      bottom_ = std::max(bottom_, arc.out_y);
    }
  }

  std::string BackArcPath(const BackArc& arc) const {
    const Layout::Node& from = layout_.nodes()[At(arc.step->index)];
    const Layout::Node& to = layout_.nodes()[At(arc.step->arcs[arc.arc].target_index)];
    constexpr double kRound = 6;
    std::string out = fmt::format(
        "<path class=\"back\" marker-end=\"url(#back-head)\" d=\"M{0} {1} V{2} Q{0} {3} {4} {3} "
        "H{5} Q{6} {3} {6} {7} V{8} Q{6} {9} {5} {9} H{10} Q{11} {9} {11} {8} "
        "V{12}\">{13}</path>\n",
        Number(arc.source_x), Number(from.y + from.height), Number(arc.out_y - kRound),
        Number(arc.out_y), Number(arc.source_x + kRound), Number(arc.lane - kRound),
        Number(arc.lane), Number(arc.out_y - kRound), Number(arc.in_y + kRound), Number(arc.in_y),
        Number(arc.target_x + kRound), Number(arc.target_x), Number(to.y - 1),
        Title(*arc.step, arc.arc));
    if (!arc.label.empty()) {
      out += fmt::format("<text class=\"label-back\" x=\"{}\" y=\"{}\">{}</text>\n",
                         Number(arc.lane + 5), Number((arc.out_y + arc.in_y) / 2 + 4),
                         Escape(Shorten(arc.label, kLabelLengthMax)));
    }
    return out;
  }

  // ---- pictures ----

  // Where the arrow number `nth` of `count` leaves or enters a box.
  static double Port(const Layout::Node& node, std::size_t nth, std::size_t count) {
    const double span = std::min(node.width * 0.5, 22.0 * static_cast<double>(count - 1));
    return count < 2 ? node.x
                     : node.x - span / 2 +
                           span * static_cast<double>(nth) / static_cast<double>(count - 1);
  }

  // Arrows at one side of a box are spread in the order of where they lead.
  double PortX(int box, const Layout::Edge& mine, bool leaving) const {
    const auto neighbour = [&](const Layout::Edge& edge) {
      const int via = edge.via.empty() ? (leaving ? edge.to : edge.from)
                                       : (leaving ? edge.via.front() : edge.via.back());
      return layout_.nodes()[At(via)].x;
    };
    std::size_t nth = 0;
    std::size_t count = 0;
    for (const Arrow& arrow : arrows_) {
      const Layout::Edge& edge = layout_.edges()[At(arrow.edge)];
      if ((leaving ? edge.from : edge.to) != box) continue;
      ++count;
      if (neighbour(edge) < neighbour(mine) ||
          (neighbour(edge) == neighbour(mine) && &edge < &mine)) {
        ++nth;
      }
    }
    return Port(layout_.nodes()[At(box)], nth, count);
  }

  std::string Title(const Step& step, std::size_t arc) const {
    const std::string label = ArcLabel(step.arcs[arc]);
    return fmt::format("<title>{}</title>",
                       Escape(fmt::format("{} → {}{}", step.name, step.arcs[arc].target,
                                          label.empty() ? "" : "\u2003when " + label)));
  }

  std::string ForwardArc(const Arrow& arrow) const {
    const Layout::Edge& edge = layout_.edges()[At(arrow.edge)];
    const Layout::Node& from = layout_.nodes()[At(edge.from)];
    const Layout::Node& to = layout_.nodes()[At(edge.to)];
    double x = PortX(edge.from, edge, true);
    double y = from.y + from.height;
    std::string path = fmt::format("M{} {}", Number(x), Number(y));
    const auto curve = [&](double to_x, double to_y) {
      const double middle = (y + to_y) / 2;
      path += to_x == x ? fmt::format(" V{}", Number(to_y))
                        : fmt::format(" C{} {} {} {} {} {}", Number(x), Number(middle),
                                      Number(to_x), Number(middle), Number(to_x), Number(to_y));
      x = to_x;
      y = to_y;
    };
    for (const int via : edge.via) {
      const Layout::Node& node = layout_.nodes()[At(via)];
      curve(node.x, layout_.RowTop(node.row));
      if (layout_.RowBottom(node.row) > y) curve(node.x, layout_.RowBottom(node.row));
    }
    curve(PortX(edge.to, edge, false), to.y - 1);
    return fmt::format("<path class=\"arc\" marker-end=\"url(#head)\" d=\"{}\">{}</path>\n", path,
                       Title(*arrow.step, arrow.arc));
  }

  std::string ForwardLabel(const Arrow& arrow) const {
    const Layout::Edge& edge = layout_.edges()[At(arrow.edge)];
    if (edge.label < 0) return "";
    const Layout::Node& node = layout_.nodes()[At(edge.label)];
    return fmt::format(
        "<rect class=\"label-box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\"/>"
        "<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        Number(node.x - node.width / 2), Number(node.y), Number(node.width), Number(node.height),
        Number(node.x), Number(node.y + 12.5), Escape(Shorten(arrow.label, kLabelLengthMax)));
  }

  std::string BoxClass(const Step& step) const {
    if (step.index == playbook_.entry) return "box entry";
    if (RunsLast(step.index) || step.index == playbook_.end) return "box last";
    const bool reached = playbook_.graph.Reach(playbook_.entry).Has(step.index) ||
                         (playbook_.final >= 0 && graph_.Reach(playbook_.final).Has(step.index));
    return reached ? "box" : "box dead";
  }

  static std::string_view Colour(const Step& step) {
    if (!step.single && step.tasks.size() > 1) return kPipelineColour;
    for (const KindColour& entry : kKindColours) {
      if (entry.kind == step.tasks[0].kind) return entry.colour;
    }
    return kOtherColour;
  }

  std::string Box(const Step& step) const {
    const Layout::Node& node = layout_.nodes()[At(step.index)];
    const double left = node.x - node.width / 2;
    std::string out = fmt::format(
        "<g><title>{}</title><rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
        "rx=\"7\"/><rect x=\"{}\" y=\"{}\" width=\"4\" height=\"{}\" rx=\"2\" fill=\"{}\"/>",
        Escape(Tooltip(step)), BoxClass(step), Number(left), Number(node.y), Number(node.width),
        Number(node.height), Number(left + 7), Number(node.y + 9), Number(node.height - 18),
        Colour(step));
    out += fmt::format(
        "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text><text class=\"detail\" x=\"{}\" "
        "y=\"{}\">{}</text>",
        Number(left + 18), Number(node.y + 20), Escape(Shorten(step.name, kNameLengthMax)),
        Number(left + 18), Number(node.y + 36), Escape(Detail(step)));
    if (const std::string badge = LoopBadge(step); !badge.empty()) {
      const double width = TextWidth(badge, kDetailWidth) + 12;
      const double x = left + node.width - width - 7;
      out += fmt::format(
          "<rect class=\"badge\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"15\" rx=\"7.5\"/>"
          "<text class=\"badge-text\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
          Number(x), Number(node.y + 25), Number(width), Number(x + width / 2), Number(node.y + 36),
          Escape(badge));
    }
    return out + "</g>\n";
  }

  std::string Tooltip(const Step& step) const {
    std::string text = step.name;
    if (step.index == playbook_.entry) text += " (entry)";
    if (step.index == playbook_.final) text += " (final)";
    if (step.index == playbook_.end) text += " (end)";
    text += ": " + ToolLabel(step);
    if (step.loop) text += ", " + LoopLabel(step);
    if (!step.description.empty()) text += ". " + step.description;
    return text;
  }

  std::string Sink() const {
    const Layout::Node& node = layout_.nodes()[At(sink_)];
    return fmt::format(
        "<g><title>end of the branch</title><circle class=\"sink\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>"
        "</g>\n",
        Number(node.x), Number(node.y + kSinkSize / 2), Number(kSinkSize / 2));
  }

  std::string Frame(const std::string& body) const {
    const double title_width =
        std::max(TextWidth(playbook_.name, 9.4), TextWidth(playbook_.path, 6.8));
    const double width = std::max({layout_.width(), right_, title_width}) + 2 * kMargin;
    const double height = std::max(layout_.height(), bottom_) - top_ + 2 * kMargin + kTitleHeight;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" role=\"img\">\n<title>{2}</title>\n",
        Number(width), Number(height), Escape(playbook_.name));
    out += kStyle;
    out += "<defs>\n";
    for (const auto& [id, colour] :
         {std::pair{"head", "#7c8798"}, std::pair{"back-head", "#b4568c"}}) {
      out += fmt::format(
          "<marker id=\"{}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" "
          "markerHeight=\"7\" orient=\"auto-start-reverse\"><path d=\"M0 1 L10 5 L0 9 z\" "
          "fill=\"{}\"/></marker>\n",
          id, colour);
    }
    out += fmt::format("</defs>\n<rect width=\"{}\" height=\"{}\" fill=\"#f5f7fa\"/>\n",
                       Number(width), Number(height));
    out += fmt::format(
        "<text class=\"title\" x=\"{0}\" y=\"34\">{1}</text>\n"
        "<text class=\"path\" x=\"{0}\" y=\"52\">{2}</text>\n",
        Number(kMargin), Escape(playbook_.name), Escape(playbook_.path));
    out += fmt::format("<g transform=\"translate({} {})\">\n", Number(kMargin),
                       Number(kMargin + kTitleHeight - top_));
    return out + body + "</g>\n</svg>\n";
  }

  const Playbook& playbook_;
  const Graph& graph_;
  Layout layout_;
  std::vector<int> layers_;
  std::vector<Arrow> arrows_;
  std::vector<BackArc> back_arcs_;
  int sink_ = -1;
  double right_ = 0;
  double top_ = 0;
  double bottom_ = 0;
};

}  // namespace

std::string DrawSvg(const Playbook& playbook) { return Svg(playbook).Draw(); }

}  // namespace noetl::playbook
