// Filters that apply other filters and tests to every element.
#include "expr/ops.h"

#include <algorithm>

#include <fmt/format.h>
#include "expr/registry.h"
#include "expr/runtime.h"
#include "expr/sorting.h"

namespace noetl::expr {

namespace {

Result<std::string> NameArg(Call& call, std::size_t index, std::string_view what) {
  NOETL_ASSIGN(const Json name, call.Arg(index).Plain());
  if (!name.is_string()) return Fail("E411", fmt::format("the name of a {} is needed", what));
  return name.ToString();
}

Result<Value> Map(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  const Value* attribute = call.Keyword("attribute");
  const Value* fallback = call.Keyword("default");
  for (const auto& [name, value] : call.keywords) {
    if (name == "attribute" || name == "default") continue;
    return Fail("E411", fmt::format("map has no argument '{}'", name));
  }
  if ((attribute != nullptr) == call.Has(0)) {
    return Fail("E411", "map needs the name of a filter or attribute=...");
  }
  std::string filter;
  if (attribute == nullptr) {
    NOETL_ASSIGN(filter, NameArg(call, 0, "filter"));
  }
  std::vector<Json> mapped;
  mapped.reserve(items.size());
  for (const Json& item : items) {
    Value value;
    if (attribute != nullptr) {
      NOETL_ASSIGN(value, AttributeOf(call.run, Value(item), *attribute));
      if (value.is_undefined() && fallback != nullptr) value = *fallback;
    } else {
      NOETL_ASSIGN(value, ApplyFilter(call.run, filter, Value(item), call.values.subspan(1)));
    }
    NOETL_ASSIGN(Json plain, value.Plain());
    mapped.push_back(std::move(plain));
  }
  return call.run.MadeList(std::move(mapped));
}

// Keeps the elements for which the test says `wanted`. `attributes` is 1 when the first argument
// names what to test.
template <bool wanted, std::size_t attributes>
Result<Value> Keep(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  const bool has_test = call.Has(attributes);
  std::string test;
  if (has_test) {
    NOETL_ASSIGN(test, NameArg(call, attributes, "test"));
  }
  const auto arguments = call.values.subspan(std::min(call.values.size(), attributes + 1));
  std::vector<Json> kept;
  for (const Json& item : items) {
    NOETL_TRY(call.run.Charge(1));
    Value subject(item);
    if (attributes == 1) {
      NOETL_ASSIGN(subject, AttributeOf(call.run, subject, call.Arg(0)));
    }
    bool holds = OperandTruth(subject);
    if (has_test) {
      NOETL_ASSIGN(holds, ApplyTest(call.run, test, subject, arguments));
    }
    if (holds == wanted) kept.push_back(item);
  }
  return call.run.MadeList(std::move(kept));
}

constexpr Callable kRows[] = {
    {"map",
     {},
     0,
     kAnyCount,
     "",
     true,
     Map,
     "map(filter, args...) or map(attribute=, default=)",
     "A filter applied to every element, or an attribute of every element."},
    {"select",
     {},
     0,
     kAnyCount,
     "",
     false,
     Keep<true, 0>,
     "select(test, args...)",
     "The elements that pass a test, or that are true."},
    {"reject",
     {},
     0,
     kAnyCount,
     "",
     false,
     Keep<false, 0>,
     "reject(test, args...)",
     "The elements that do not pass a test."},
    {"selectattr",
     {},
     1,
     kAnyCount,
     "",
     false,
     Keep<true, 1>,
     "selectattr(name, test, args...)",
     "The elements with an attribute that passes a test, or that is true."},
    {"rejectattr",
     {},
     1,
     kAnyCount,
     "",
     false,
     Keep<false, 1>,
     "rejectattr(name, test, args...)",
     "The elements with an attribute that does not pass a test."},
};

}  // namespace

std::span<const Callable> SelectFilters() { return kRows; }

}  // namespace noetl::expr
