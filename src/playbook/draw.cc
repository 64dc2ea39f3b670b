#include "playbook/draw.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"

namespace noetl::playbook {
namespace {

// A condition or collection longer than this hides the shape of the graph in a terminal.
constexpr std::size_t kConditionLengthMax = 70;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

// One line, blanks collapsed, without `{{ }}` around the whole.
std::string OneLine(std::string_view text) {
  text = Trim(text);
  if (text.starts_with("{{") && text.ends_with("}}") && text.find("{{", 2) == text.npos) {
    text = Trim(text.substr(2, text.size() - 4));
  }
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) line += c;
    if (blank && !line.ends_with(' ')) line += ' ';
  }
  return line;
}

std::string OneLine(const Json& value) {
  return value.is_string() ? OneLine(value.AsString()) : WriteJson(value);
}

bool IsFallback(const Step& step, std::size_t arc) {
  return step.mode == RouteMode::kExclusive && arc > 0 && ArcLabel(step.arcs[arc]).empty();
}

std::string ArcLine(const Playbook& playbook, const Step& step, std::size_t index) {
  const Arc& arc = step.arcs[index];
  std::string line = index + 1 < step.arcs.size() ? "  ├─" : "  └─";
  if (const std::string label = ArcLabel(arc); !label.empty()) {
    line += fmt::format(" when {} ─", Shorten(label, kConditionLengthMax));
  } else if (IsFallback(step, index)) {
    line += " else ─";
  }
  line += fmt::format("> {}", arc.target);
  if (playbook.graph.IsBackArc(step.index, static_cast<int>(index))) line += "  (back)";
  if (arc.target_index < 0) line += "  (ends the branch)";
  return line + "\n";
}

// Which part of a run a step belongs to, in the order of drawing.
enum class Part { kRun, kUnreachable, kEnd, kFinal };

Part PartOf(const Playbook& playbook, int step) {
  const auto from = [&](int root) {
    return root >= 0 && (root == step || playbook.graph.Reach(root).Has(step));
  };
  if (from(playbook.entry)) return Part::kRun;
  if (playbook.implicit_end && from(playbook.end)) return Part::kEnd;
  return from(playbook.final) ? Part::kFinal : Part::kUnreachable;
}

std::vector<const Step*> DrawingOrder(const Playbook& playbook) {
  std::vector<const Step*> order(playbook.steps.size());
  for (const Step& step : playbook.steps) order[At(playbook.graph.Topo(step.index))] = &step;
  std::ranges::stable_sort(order, {},
                           [&](const Step* step) { return PartOf(playbook, step->index); });
  return order;
}

std::string Marks(const Playbook& playbook, const Step& step) {
  std::vector<std::string> marks;
  const int at = step.index;
  if (at == playbook.entry) marks.push_back("entry");
  if (at == playbook.final) marks.push_back("final: runs last, also after a failure");
  if (at == playbook.end) {
    marks.push_back(playbook.implicit_end ? "end: runs when all is done" : "end");
  }
  if (PartOf(playbook, at) == Part::kUnreachable) marks.push_back("unreachable");
  return marks.empty() ? "" : fmt::format("  ({})", fmt::join(marks, "; "));
}

std::string StepText(const Playbook& playbook, const Step& step) {
  std::string text = fmt::format("{} {}  [{}]{}\n", step.index == playbook.entry ? "▶" : "●",
                                 step.name, ToolLabel(step), Marks(playbook, step));
  const char* rail = step.arcs.empty() ? "   " : "  │";
  const auto note = [&](std::string_view what) { text += fmt::format("{} {}\n", rail, what); };
  if (playbook.graph.IsJoin(step.index)) {
    std::vector<std::string> sources;
    for (const int source : playbook.graph.In(step.index)) {
      sources.push_back(playbook.steps[At(source)].name);
    }
    note(fmt::format("joins {}", fmt::join(sources, ", ")));
  }
  if (!step.when.is_absent()) {
    note(fmt::format("only when {}", Shorten(OneLine(step.when.source()), kConditionLengthMax)));
  }
  if (!step.admit.empty()) note("admitted by rules");
  if (step.loop) note(LoopLabel(step));
  if (step.arcs.size() > 1) {
    note(step.mode == RouteMode::kExclusive ? "takes the first that holds" : "takes all that hold");
  }
  for (std::size_t i = 0; i < step.arcs.size(); ++i) text += ArcLine(playbook, step, i);
  return text;
}

}  // namespace

std::string Shorten(std::string_view text, std::size_t length_max) {
  if (CodePoints(text) <= length_max) return std::string(text);
  std::size_t end = 0;
  for (std::size_t points = 0; points + 1 < length_max && end < text.size(); ++points) {
    ++end;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  }
  return std::string(Trim(text.substr(0, end))) + "…";
}

std::string ArcLabel(const Arc& arc) {
  if (arc.when.is_absent()) return "";
  const Json& source = arc.when.source();
  if (source.is_bool() && source.AsBool()) return "";
  return OneLine(source);
}

std::string ToolLabel(const Step& step) {
  if (step.single || step.tasks.size() == 1) return step.tasks[0].kind;
  std::vector<std::string> kinds;
  for (const Task& task : step.tasks) {
    if (std::ranges::find(kinds, task.kind) == kinds.end()) kinds.push_back(task.kind);
  }
  return fmt::format("{} tasks: {}", step.tasks.size(), fmt::join(kinds, ", "));
}

std::string LoopLabel(const Step& step) {
  if (!step.loop) return "";
  const Loop& loop = *step.loop;
  std::string label =
      loop.mode == Loop::Mode::kCursor
          ? fmt::format("for {} from a {} cursor", loop.iterator, loop.cursor.kind)
          : fmt::format("for {} in {}", loop.iterator, Shorten(OneLine(loop.in.source()), 40));
  if (loop.mode == Loop::Mode::kSequential) return label + ", one after the other";
  if (loop.mode == Loop::Mode::kParallel) label += ", parallel";
  const Json& limit = loop.max_in_flight.source();
  if (!limit.is_null()) label += fmt::format(", {} in flight", Shorten(OneLine(limit), 20));
  return label;
}

std::string DrawText(const Playbook& playbook) {
  std::string text = playbook.name;
  if (playbook.path != playbook.name) text += fmt::format("  {}", playbook.path);
  text += fmt::format("  ({} {})\n", playbook.steps.size(),
                      playbook.steps.size() == 1 ? "step" : "steps");
  for (const Step* step : DrawingOrder(playbook)) text += "\n" + StepText(playbook, *step);
  return text;
}

}  // namespace noetl::playbook
