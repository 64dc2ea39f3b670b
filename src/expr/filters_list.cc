// Filters that take lists and maps apart and put them together.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/json_io.h"
#include "expr/ops.h"
#include "expr/registry.h"
#include "expr/runtime.h"
#include "expr/sorting.h"
#include "expr/utf8.h"

namespace noetl::expr {

namespace {

Result<Json> PlainArg(Call& call, std::size_t index) { return call.Arg(index).Plain(); }

// A count between 1 and the range bound, for batch and slice.
Result<std::size_t> CountArg(Call& call, std::size_t index) {
  NOETL_ASSIGN(const Json count, PlainArg(call, index));
  if (!count.is_int() || count.AsInt() < 1 || count.AsInt() > kRangeMax) {
    return Fail("E411", fmt::format("a count from 1 to {} is needed", kRangeMax));
  }
  return static_cast<std::size_t>(count.AsInt());
}

Result<Value> FirstOrLast(Call& call, bool first) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  if (value.is_array()) {
    if (value.empty()) return Value();
    return Value(first ? value.items().front() : value.items().back());
  }
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, Value(value)));
  if (items.empty()) return Value();
  return Value(first ? items.front() : items.back());
}

Result<Value> First(Call& call) { return FirstOrLast(call, true); }
Result<Value> Last(Call& call) { return FirstOrLast(call, false); }

// The map of a filter that needs one; null and undefined count as empty.
Result<Json> MapInput(Call& call, std::string_view filter) {
  NOETL_ASSIGN(Json value, call.input.Plain());
  if (value.is_null()) return Json::Object();
  if (value.is_object()) return value;
  return Fail("E411", fmt::format("{} needs a map, not {}", filter, value.TypeName()));
}

Result<Value> Keys(Call& call) {
  NOETL_ASSIGN(const Json map, MapInput(call, "keys"));
  std::vector<Json> keys;
  keys.reserve(map.size());
  for (const JsonMember& member : map.members()) keys.push_back(member.key_json());
  return call.run.MadeList(std::move(keys));
}

Result<Value> Values(Call& call) {
  NOETL_ASSIGN(const Json map, MapInput(call, "values"));
  std::vector<Json> values;
  values.reserve(map.size());
  for (const JsonMember& member : map.members()) values.push_back(member.value);
  return call.run.MadeList(std::move(values));
}

Result<Value> PairList(Call& call, std::span<const JsonMember> members) {
  std::vector<Json> pairs;
  pairs.reserve(members.size());
  for (const JsonMember& member : members) {
    pairs.push_back(Json::Array({member.key_json(), member.value}));
  }
  return call.run.MadeList(std::move(pairs));
}

Result<Value> Items(Call& call) {
  NOETL_ASSIGN(const Json map, MapInput(call, "items"));
  return PairList(call, map.members());
}

Result<Value> DictSort(Call& call) {
  NOETL_ASSIGN(const Json map, MapInput(call, "dictsort"));
  NOETL_ASSIGN(const Json by, PlainArg(call, 1));
  if (!by.is_null() && by.AsString() != "key" && by.AsString() != "value") {
    return Fail("E411", "dictsort: by is 'key' or 'value'");
  }
  const bool by_value = by.AsString() == "value";
  std::vector<SortItem> order;
  order.reserve(map.size());
  for (const JsonMember& member : map.members()) {
    order.push_back({by_value ? member.value : member.key_json(), order.size()});
  }
  const SortOptions options{.reverse = OperandTruth(call.Arg(2)),
                            .case_sensitive = OperandTruth(call.Arg(0))};
  NOETL_TRY(SortItems(call.run, &order, options));
  Json::Members sorted;
  sorted.reserve(order.size());
  for (const SortItem& item : order) sorted.push_back(map.members()[item.index]);
  return PairList(call, sorted);
}

Result<Value> List(Call& call) {
  NOETL_ASSIGN(std::vector<Json> items, Iterate(call.run, call.input));
  return call.run.MadeList(std::move(items));
}

Result<Value> Reverse(Call& call) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  if (value.is_string()) {
    NOETL_ASSIGN(const std::vector<std::string_view> letters, call.run.Letters(value.AsString()));
    std::string text;
    text.reserve(value.AsString().size());
    for (auto letter = letters.rbegin(); letter != letters.rend(); ++letter) text += *letter;
    return call.run.MadeText(text);
  }
  NOETL_ASSIGN(std::vector<Json> items, Iterate(call.run, Value(value)));
  std::reverse(items.begin(), items.end());
  return call.run.MadeList(std::move(items));
}

// The elements with the key to compare them by: themselves or an attribute of theirs.
Result<std::vector<SortItem>> KeyedItems(Call& call, std::span<const Json> items,
                                         const Value& attribute) {
  std::vector<SortItem> keyed;
  keyed.reserve(items.size());
  for (const Json& item : items) {
    NOETL_ASSIGN(const Value key, AttributeOf(call.run, Value(item), attribute));
    NOETL_ASSIGN(Json plain, key.Plain());
    keyed.push_back({std::move(plain), keyed.size()});
  }
  return keyed;
}

Result<Value> Sort(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  NOETL_ASSIGN(std::vector<SortItem> order, KeyedItems(call, items, call.Arg(2)));
  const SortOptions options{.reverse = OperandTruth(call.Arg(0)),
                            .case_sensitive = OperandTruth(call.Arg(1))};
  NOETL_TRY(SortItems(call.run, &order, options));
  std::vector<Json> sorted;
  sorted.reserve(items.size());
  for (const SortItem& item : order) sorted.push_back(items[item.index]);
  return call.run.MadeList(std::move(sorted));
}

// The least (sign < 0) or greatest element.
Result<Value> Extreme(Call& call, int sign) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  NOETL_ASSIGN(std::vector<SortItem> keyed, KeyedItems(call, items, call.Arg(1)));
  if (keyed.empty()) return Value();
  if (!OperandTruth(call.Arg(0))) NOETL_TRY(FoldCase(call.run, &keyed));
  const SortItem* best = &keyed[0];
  for (const SortItem& item : keyed) {
    NOETL_TRY(call.run.Charge(1));
    NOETL_ASSIGN(const int order, OrderJson(call.run, item.key, best->key));
    if (order * sign > 0) best = &item;
  }
  return Value(items[best->index]);
}

Result<Value> Min(Call& call) { return Extreme(call, -1); }
Result<Value> Max(Call& call) { return Extreme(call, 1); }

Result<Value> Unique(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  NOETL_ASSIGN(std::vector<SortItem> keyed, KeyedItems(call, items, call.Arg(1)));
  if (!OperandTruth(call.Arg(0))) NOETL_TRY(FoldCase(call.run, &keyed));
  std::unordered_set<std::string> seen;
  std::vector<Json> kept;
  for (const SortItem& item : keyed) {
    NOETL_ASSIGN(std::string identity, IdentityOf(call.run, item.key));
    if (seen.insert(std::move(identity)).second) kept.push_back(items[item.index]);
  }
  return call.run.MadeList(std::move(kept));
}

Result<Value> GroupBy(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  NOETL_ASSIGN(std::vector<SortItem> keyed, KeyedItems(call, items, call.Arg(0)));
  if (call.Has(1)) {
    NOETL_ASSIGN(const Json fallback, PlainArg(call, 1));
    for (SortItem& item : keyed) {
      if (item.key.is_null()) item.key = fallback;
    }
  }
  NOETL_TRY(SortItems(call.run, &keyed, {.case_sensitive = OperandTruth(call.Arg(2))}));
  std::vector<Json> groups;
  std::unordered_map<std::string, std::size_t> places;
  std::vector<std::pair<Json, std::vector<Json>>> found;
  for (const SortItem& item : keyed) {
    NOETL_ASSIGN(std::string identity, IdentityOf(call.run, item.key));
    const auto [place, fresh] = places.emplace(std::move(identity), found.size());
    if (fresh) found.emplace_back(item.key, std::vector<Json>());
    found[place->second].second.push_back(items[item.index]);
  }
  groups.reserve(found.size());
  for (auto& [key, members] : found) {
    groups.push_back(Json::Array({std::move(key), Json::Array(std::move(members))}));
  }
  return call.run.MadeList(std::move(groups));
}

Result<Value> Sum(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  Value total = call.Has(1) ? call.Arg(1) : Value(Json(0));
  for (const Json& item : items) {
    NOETL_TRY(call.run.Charge(1));
    NOETL_ASSIGN(const Value part, AttributeOf(call.run, Value(item), call.Arg(0)));
    NOETL_ASSIGN(total, Arithmetic(call.run, Op::kAdd, total, part));
  }
  return total;
}

// Rows of `count` elements; the last one filled up when a filler is given.
Result<Value> Batch(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  NOETL_ASSIGN(const std::size_t count, CountArg(call, 0));
  NOETL_ASSIGN(const Json filler, PlainArg(call, 1));
  std::vector<Json> rows;
  for (std::size_t at = 0; at < items.size(); at += count) {
    const std::size_t end = std::min(items.size(), at + count);
    std::vector<Json> row(items.begin() + static_cast<std::ptrdiff_t>(at),
                          items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!filler.is_null()) row.resize(count, filler);
    rows.push_back(Json::Array(std::move(row)));
  }
  return call.run.MadeList(std::move(rows));
}

// `count` columns of nearly equal length.
Result<Value> SliceFilter(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  NOETL_ASSIGN(const std::size_t count, CountArg(call, 0));
  NOETL_ASSIGN(const Json filler, PlainArg(call, 1));
  NOETL_TRY(call.run.Charge(static_cast<std::int64_t>(count)));
  const std::size_t each = items.size() / count;
  const std::size_t longer = items.size() % count;
  std::vector<Json> columns;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = each + (i < longer ? 1 : 0);
    std::vector<Json> column(items.begin() + static_cast<std::ptrdiff_t>(at),
                             items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (!filler.is_null() && longer > 0 && i >= longer) column.push_back(filler);
    columns.push_back(Json::Array(std::move(column)));
  }
  return call.run.MadeList(std::move(columns));
}

// Lists one after the other; maps merged, later members winning.
Result<Value> Chain(Call& call) {
  NOETL_ASSIGN(Json first, call.input.Plain());
  bool maps = first.is_object();
  std::vector<Json> others;
  for (const Value& value : call.values) {
    NOETL_ASSIGN(Json other, value.Plain());
    maps = maps && other.is_object();
    others.push_back(std::move(other));
  }
  if (maps) {
    for (const Json& other : others) first = first.Merge(other);
    return call.run.Made(std::move(first));
  }
  NOETL_ASSIGN(std::vector<Json> all, Iterate(call.run, Value(first)));
  for (const Json& other : others) {
    NOETL_ASSIGN(const std::vector<Json> more, Iterate(call.run, Value(other)));
    all.insert(all.end(), more.begin(), more.end());
  }
  return call.run.MadeList(std::move(all));
}

// Rows of the n-th elements of every list, as long as the shortest.
Result<Value> Zip(Call& call) {
  std::vector<std::vector<Json>> lists;
  NOETL_ASSIGN(std::vector<Json> first, Iterate(call.run, call.input));
  std::size_t size = first.size();
  lists.push_back(std::move(first));
  for (const Value& value : call.values) {
    NOETL_ASSIGN(std::vector<Json> other, Iterate(call.run, value));
    size = std::min(size, other.size());
    lists.push_back(std::move(other));
  }
  NOETL_TRY(call.run.Charge(static_cast<std::int64_t>(size * lists.size() / 4)));
  std::vector<Json> rows;
  rows.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::vector<Json> row;
    row.reserve(lists.size());
    for (const std::vector<Json>& list : lists) row.push_back(list[i]);
    rows.push_back(Json::Array(std::move(row)));
  }
  return call.run.MadeList(std::move(rows));
}

constexpr Callable kRows[] = {
    {"first", {}, 0, 0, "", false, First, "first", "The first element, undefined when empty."},
    {"last", {}, 0, 0, "", false, Last, "last", "The last element, undefined when empty."},
    {"keys", {}, 0, 0, "", false, Keys, "keys", "List of the keys of a map, in order."},
    {"values", {}, 0, 0, "", false, Values, "values", "List of the values of a map, in order."},
    {"items", {}, 0, 0, "", false, Items, "items", "List of `[key, value]` pairs, in order."},
    {"dictsort",
     {},
     0,
     3,
     "case_sensitive by reverse",
     false,
     DictSort,
     "dictsort(case_sensitive=false, by='key', reverse=false)",
     "List of `[key, value]` pairs, sorted."},
    {"list", {}, 0, 0, "", false, List, "list", "Elements, keys or characters as a list."},
    {"reverse", {}, 0, 0, "", false, Reverse, "reverse", "A list or text backwards."},
    {"sort",
     {},
     0,
     3,
     "reverse case_sensitive attribute",
     false,
     Sort,
     "sort(reverse=false, case_sensitive=false, attribute=none)",
     "A sorted list; stable."},
    {"min",
     {},
     0,
     2,
     "case_sensitive attribute",
     false,
     Min,
     "min(case_sensitive=false, attribute=none)",
     "The least element, undefined when empty."},
    {"max",
     {},
     0,
     2,
     "case_sensitive attribute",
     false,
     Max,
     "max(case_sensitive=false, attribute=none)",
     "The greatest element, undefined when empty."},
    {"unique",
     {},
     0,
     2,
     "case_sensitive attribute",
     false,
     Unique,
     "unique(case_sensitive=false, attribute=none)",
     "The list without repetitions."},
    {"groupby",
     {},
     1,
     3,
     "attribute default case_sensitive",
     false,
     GroupBy,
     "groupby(attribute, default=null, case_sensitive=false)",
     "List of `[value, elements]` pairs, sorted by the value of the attribute."},
    {"sum",
     {},
     0,
     2,
     "attribute start",
     false,
     Sum,
     "sum(attribute=none, start=0)",
     "The sum of the elements."},
    {"batch",
     {},
     1,
     2,
     "linecount fill_with",
     false,
     Batch,
     "batch(n, fill_with=none)",
     "List of lists of `n` elements."},
    {"slice",
     {},
     1,
     2,
     "slices fill_with",
     false,
     SliceFilter,
     "slice(n, fill_with=none)",
     "List of `n` lists of nearly equal length."},
    {"chain",
     {},
     1,
     kAnyCount,
     "",
     false,
     Chain,
     "chain(others...)",
     "Lists one after the other, or maps merged."},
    {"zip",
     {},
     1,
     kAnyCount,
     "",
     false,
     Zip,
     "zip(others...)",
     "List of lists of the elements at the same place."},
};

}  // namespace

std::span<const Callable> ListFilters() { return kRows; }

}  // namespace noetl::expr
