#include "expr/sorting.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/json_io.h"
#include "expr/ops.h"
#include "expr/utf8.h"

namespace noetl::expr {

Status FoldCase(Runtime& run, std::vector<SortItem>* items) {
  for (SortItem& item : *items) {
    if (!item.key.is_string()) continue;
    // Letter by letter is slower than copying.
    NOETL_TRY(run.ChargeBytes(item.key.AsString().size() * 8));
    item.key = Json(LowerText(item.key.AsString()));
  }
  return {};
}

Status SortItems(Runtime& run, std::vector<SortItem>* items, const SortOptions& options) {
  if (!options.case_sensitive) NOETL_TRY(FoldCase(run, items));
  // The comparison must be consistent: numbers among numbers, text among text.
  const bool numbers = !items->empty() && items->front().key.is_number();
  for (const SortItem& item : *items) {
    const Json& first = items->front().key;
    if (numbers ? item.key.is_number() : item.key.type() == first.type()) continue;
    return Fail("E411",
                fmt::format("cannot order {} and {}", first.TypeName(), item.key.TypeName()));
  }
  // Nulls among themselves have no order to bring them into.
  if (!items->empty() && items->front().key.is_null()) return {};
  Status status;
  const auto less = [&](const SortItem& a, const SortItem& b) {
    if (!status) return false;
    const Result<int> order =
        OrderJson(run, options.reverse ? b.key : a.key, options.reverse ? a.key : b.key);
    if (!order) status = std::unexpected(order.error());
    else if (const Status charged = run.Charge(1); !charged) status = charged;
    return status && *order < 0;
  };
  if (items->size() > 1 && items->front().key.is_bool()) {
    std::stable_sort(items->begin(), items->end(), [&](const SortItem& a, const SortItem& b) {
      return options.reverse ? b.key.AsBool() < a.key.AsBool() : a.key.AsBool() < b.key.AsBool();
    });
    return {};
  }
  std::stable_sort(items->begin(), items->end(), less);
  return status;
}

namespace {

// Integral doubles become integers, so that equal numbers are written alike.
Json Normal(const Json& value) {
  if (value.is_double()) {
    const double number = value.AsDouble();
    if (number == std::trunc(number) && std::fabs(number) < 9e15) {
      return Json(static_cast<std::int64_t>(number));
    }
    return value;
  }
  if (value.is_array()) {
    std::vector<Json> items;
    items.reserve(value.size());
    for (const Json& item : value.items()) items.push_back(Normal(item));
    return Json::Array(std::move(items));
  }
  if (!value.is_object()) return value;
  Json::Members members;
  members.reserve(value.size());
  for (const JsonMember& member : value.members()) {
    members.emplace_back(member.key_json(), Normal(member.value));
  }
  return Json::Object(std::move(members));
}

}  // namespace

Result<std::string> IdentityOf(Runtime& run, const Json& value) {
  NOETL_TRY(run.CheckWritable(value));
  std::string text = CanonicalJson(Normal(value));
  NOETL_TRY(run.ChargeBytes(text.size()));
  NOETL_TRY(run.Charge(1));
  return text;
}

Result<Value> AttributeOf(Runtime& run, const Value& item, const Value& attribute) {
  if (attribute.is_missing()) return item;
  NOETL_ASSIGN(const Json name, attribute.Plain());
  if (!name.is_string()) return GetItem(run, item, attribute);
  Value value = item;
  std::string_view rest = name.AsString();
  while (true) {
    NOETL_TRY(run.Charge(1));
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    std::int64_t index = 0;
    const auto [at, code] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = code == std::errc() && at == part.data() + part.size() && !part.empty();
    NOETL_ASSIGN(value,
                 number ? GetItem(run, value, Value(Json(index))) : GetAttribute(value, part));
    if (end == rest.size()) return value;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace noetl::expr
