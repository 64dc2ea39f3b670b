// The tables of the user reference, made from the tables of the code.
//
// docs/templates.md holds each section between two marker lines; a test compares them, so the page
// cannot drift from the program. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace noetl::expr {

// "filters", "tests", "functions", "methods".
std::span<const std::string_view> ReferenceSections();
// The Markdown table of one section.
std::string ReferenceTable(std::string_view section);
// `page` with every section between `<!-- begin NAME -->` and `<!-- end NAME -->` made anew.
std::string UpdateReference(std::string_view page);

}  // namespace noetl::expr
