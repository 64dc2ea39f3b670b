// The tables of filters, tests, functions and methods.
//
// Each of them is one row: how it is called, what computes it, and the line the reference page
// shows. The parser resolves names and keyword arguments against these rows, so that evaluation
// only indexes an array. The tables are constant; any thread may read them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "expr/value.h"

namespace noetl::expr {

class Runtime;

// A call takes at most this many arguments that have a place of their own in its row.
inline constexpr std::size_t kNamedArgumentsMax = 8;
// For `Callable::max`: any number of values.
inline constexpr int kAnyCount = 255;

// One call at run time. `values` follows the parameter list of the row; `present` has a bit for
// each of the first parameters that was given.
struct Call {
  Runtime& run;
  const Value& input;
  std::span<const Value> values;
  std::uint32_t present = 0;
  std::span<const std::pair<std::string_view, Value>> keywords;

  bool Has(std::size_t index) const {
    return index < values.size() && (index >= kNamedArgumentsMax || (present >> index & 1u) != 0);
  }
  const Value& Arg(std::size_t index) const;
  const Value* Keyword(std::string_view name) const;
};

using CallFunction = Result<Value> (*)(Call&);

// One row. `parameters` lists the keyword names in positional order, separated by blanks.
struct Callable {
  std::string_view name;
  std::array<std::string_view, 2> aliases;
  int min = 0;
  int max = 0;
  std::string_view parameters;
  bool any_keywords = false;
  CallFunction function = nullptr;
  std::string_view usage;
  std::string_view doc;

  // The position of a keyword argument, or -1.
  int Position(std::string_view keyword) const;
};

std::span<const Callable> FilterTable();
std::span<const Callable> TestTable();
std::span<const Callable> FunctionTable();
// The method calls that the v2 dialect accepts; the receiver is the input.
std::span<const Callable> MethodTable();

const Callable* FindCallable(std::span<const Callable> table, std::string_view name);
const Callable* FindFilter(std::string_view name);
const Callable* FindTest(std::string_view name);

// "unknown filter 'defualt' (did you mean 'default'?)"
std::string UnknownName(std::string_view what, std::string_view name,
                        std::span<const Callable> table);

// The rows by subject; filters.cc joins them into one table.
std::span<const Callable> ScalarFilters();
std::span<const Callable> TextFilters();
std::span<const Callable> ListFilters();
std::span<const Callable> SelectFilters();

// Applies a filter or test whose name is only known at run time (`map('upper')`).
Result<Value> ApplyFilter(Runtime& run, std::string_view name, const Value& input,
                          std::span<const Value> values);
Result<bool> ApplyTest(Runtime& run, std::string_view name, const Value& input,
                       std::span<const Value> values);

}  // namespace noetl::expr
