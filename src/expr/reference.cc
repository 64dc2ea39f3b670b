#include "expr/reference.h"

#include <array>

#include <fmt/format.h>

#include "expr/registry.h"

namespace noetl::expr {

namespace {

constexpr std::array<std::string_view, 4> kSections = {"filters", "tests", "functions", "methods"};

std::span<const Callable> TableOf(std::string_view section) {
  if (section == "filters") return FilterTable();
  if (section == "tests") return TestTable();
  return section == "functions" ? FunctionTable() : MethodTable();
}

// A bar would end the cell.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::span<const std::string_view> ReferenceSections() { return kSections; }

std::string ReferenceTable(std::string_view section) {
  std::string out = "| call | also | meaning |\n|---|---|---|\n";
  for (const Callable& row : TableOf(section)) {
    std::string aliases;
    for (const std::string_view alias : row.aliases) {
      if (alias.empty()) continue;
      aliases += fmt::format("{}`{}`", aliases.empty() ? "" : ", ", Cell(alias));
    }
    out += fmt::format("| `{}` | {} | {} |\n", Cell(row.usage), aliases, Cell(row.doc));
  }
  return out;
}

std::string UpdateReference(std::string_view page) {
  std::string out(page);
  for (const std::string_view section : kSections) {
    const std::string begin = fmt::format("<!-- begin {} -->\n", section);
    const std::string end = fmt::format("<!-- end {} -->\n", section);
    const std::size_t from = out.find(begin);
    const std::size_t to = out.find(end);
    if (from == std::string::npos || to == std::string::npos || to < from) continue;
    const std::size_t start = from + begin.size();
    out.replace(start, to - start, ReferenceTable(section));
  }
  return out;
}

}  // namespace noetl::expr
