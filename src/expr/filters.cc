// The table of filters and what is common to all tables.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/ops.h"
#include "expr/registry.h"
#include "expr/runtime.h"
#include "expr/template.h"

namespace noetl::expr {

namespace {

std::vector<std::string_view> NamesOf(std::span<const Callable> table) {
  std::vector<std::string_view> names;
  for (const Callable& row : table) {
    names.push_back(row.name);
    for (const std::string_view alias : row.aliases) {
      if (!alias.empty()) names.push_back(alias);
    }
  }
  return names;
}

// A call whose name is only known at run time gets its arguments by position.
Result<Value> Apply(Runtime& run, const Callable& callable, const Value& input,
                    std::span<const Value> values) {
  const auto count = static_cast<int>(values.size());
  if (count < callable.min || count > callable.max) {
    return Fail("E411", fmt::format("'{}' does not take {} argument(s)", callable.name, count));
  }
  if (run.apply_depth >= kApplyDepthMax) {
    return Fail("E420", fmt::format("filters applied deeper than {} levels", kApplyDepthMax));
  }
  NOETL_TRY(run.Charge(1));
  Call call{run, input, values, 0xffffffffu, {}};
  ++run.apply_depth;
  Result<Value> result = callable.function(call);
  --run.apply_depth;
  return result;
}

}  // namespace

int Callable::Position(std::string_view keyword) const {
  int position = 0;
  std::string_view rest = parameters;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == keyword) return position;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++position;
  }
  return -1;
}

const Callable* FindCallable(std::span<const Callable> table, std::string_view name) {
  for (const Callable& row : table) {
    if (row.name == name) return &row;
    for (const std::string_view alias : row.aliases) {
      if (!alias.empty() && alias == name) return &row;
    }
  }
  return nullptr;
}

std::span<const Callable> FilterTable() {
  static const std::vector<Callable> kTable = [] {
    std::vector<Callable> rows;
    for (const auto part : {ScalarFilters(), TextFilters(), ListFilters(), SelectFilters()}) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    std::sort(rows.begin(), rows.end(),
              [](const Callable& a, const Callable& b) { return a.name < b.name; });
    return rows;
  }();
  return kTable;
}

const Callable* FindFilter(std::string_view name) { return FindCallable(FilterTable(), name); }
const Callable* FindTest(std::string_view name) { return FindCallable(TestTable(), name); }

std::string UnknownName(std::string_view what, std::string_view name,
                        std::span<const Callable> table) {
  std::string message = fmt::format("unknown {} '{}'", what, name);
  const std::vector<std::string_view> names = NamesOf(table);
  if (const auto near = NearestName(name, std::span<const std::string_view>(names))) {
    message += fmt::format(" (did you mean '{}'?)", *near);
  }
  return message;
}

std::vector<std::string_view> FilterNames() { return NamesOf(FilterTable()); }
std::vector<std::string_view> TestNames() { return NamesOf(TestTable()); }
std::vector<std::string_view> FunctionNames() { return NamesOf(FunctionTable()); }

Result<Value> ApplyFilter(Runtime& run, std::string_view name, const Value& input,
                          std::span<const Value> values) {
  const Callable* filter = FindFilter(name);
  if (filter == nullptr) return Fail("E401", UnknownName("filter", name, FilterTable()));
  return Apply(run, *filter, input, values);
}

Result<bool> ApplyTest(Runtime& run, std::string_view name, const Value& input,
                       std::span<const Value> values) {
  const Callable* test = FindTest(name);
  if (test == nullptr) return Fail("E401", UnknownName("test", name, TestTable()));
  NOETL_ASSIGN(const Value holds, Apply(run, *test, input, values));
  return holds.json().AsBool();
}

}  // namespace noetl::expr
