// Pictures of a workflow: text for a terminal, SVG for a page.
//
// Pure functions of the model; the same playbook gives the same bytes. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "playbook/model.h"

namespace noetl::playbook {

// Steps in topological order with their arcs, conditions, joins and loops; UTF-8.
std::string DrawText(const Playbook& playbook);

// A self-contained SVG: one box a step in layers from the entry down, labelled arrows, arcs that
// lead back dashed.
std::string DrawSvg(const Playbook& playbook);

// The arc's condition as people read it, without `{{ }}`; "" when it always holds.
std::string ArcLabel(const Arc& arc);
// "http", "3 tasks: http, python, postgres".
std::string ToolLabel(const Step& step);
// "for p in people, parallel, 10 in flight"; "" for a step without a loop.
std::string LoopLabel(const Step& step);
// The text, shortened to so many code points.
std::string Shorten(std::string_view text, std::size_t length_max);

}  // namespace noetl::playbook
