#include "engine/replay_flat_values.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/json_number.h"

namespace noetl::engine::replay {

namespace {

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// Beyond this a double is no 64-bit integer.
constexpr double kInt64End = 9223372036854775808.0;

Json Truncated(double number) {
  const double whole = std::trunc(number);
  if (whole >= -kInt64End && whole < kInt64End) return Json(static_cast<std::int64_t>(whole));
  return ParseNumber(fmt::format("{:.0f}", whole), JsonNumbers::kFlat).value;
}

std::string Digits(const Json& integer) { return CanonicalJsonFlat(integer); }

}  // namespace

bool Truthy(const Json& value) {
  switch (value.type()) {
    case Json::Type::kNull: return false;
    case Json::Type::kBool: return value.AsBool();
    case Json::Type::kInt: return value.AsInt() != 0;
    case Json::Type::kDouble: return value.AsDouble() != 0;
    case Json::Type::kString: return !value.AsString().empty();
    case Json::Type::kArray:
    case Json::Type::kObject: return !value.empty();
    default: return true;  // integers beyond 64 bits are not zero
  }
}

Json FirstTrue(std::initializer_list<Json> candidates) {
  for (const Json& candidate : candidates) {
    if (Truthy(candidate)) return candidate;
  }
  return *(candidates.end() - 1);
}

std::string FlatText(const Json& value) {
  if (value.is_string()) return value.ToString();
  if (value.is_null()) return "None";
  if (value.is_bool()) return value.AsBool() ? "True" : "False";
  return CanonicalJsonFlat(value);
}

Json TextOrNullOf(const Json& value) { return value.is_null() ? value : Json(FlatText(value)); }

std::optional<Json> ReadInteger(std::string_view text) {
  text = TrimBlanks(text);
  std::string literal;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    if (text.front() == '-') literal = "-";
    text.remove_prefix(1);
  }
  bool digit_before = false;
  bool leading = true;
  for (const char c : text) {
    if (c == '_' && digit_before) {
      digit_before = false;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    digit_before = true;
    if (leading && c == '0') continue;
    leading = false;
    literal += c;
  }
  if (!digit_before) return std::nullopt;  // empty, or an underscore at the end
  if (literal.empty() || literal == "-") return Json(0);
  return ParseNumber(literal, JsonNumbers::kFlat).value;
}

Result<Json> FlatInt(const Json& value) {
  if (value.is_integer()) return value;
  if (value.is_bool()) return Json(static_cast<std::int64_t>(value.AsBool()));
  if (value.is_double()) return Truncated(value.AsDouble());
  if (value.is_string()) {
    if (std::optional<Json> read = ReadInteger(value.AsString())) return *std::move(read);
  }
  return Fail("bad_row", fmt::format("a counter is no number: {}", FlatText(value).substr(0, 80)));
}

Result<Json> FlatIntOrNull(const Json& value) {
  if (value.is_null()) return value;
  return FlatInt(value);
}

Json PlusOne(const Json& integer) {
  if (!integer.is_int() || integer.AsInt() == std::numeric_limits<std::int64_t>::max())
    return integer;
  return integer.AsInt() + 1;
}

int CompareInts(const Json& a, const Json& b) {
  if (a.is_int() && b.is_int()) return a.AsInt() < b.AsInt() ? -1 : a.AsInt() > b.AsInt() ? 1 : 0;
  std::string left = Digits(a);
  std::string right = Digits(b);
  const bool negative = left.starts_with('-');
  if (negative != right.starts_with('-')) return negative ? -1 : 1;
  if (negative) std::swap(left, right);
  if (left.size() != right.size()) return left.size() < right.size() ? -1 : 1;
  return left.compare(right);
}

Json FlatSummary(const Json& reference) {
  const auto part = [](const Json& value) { return value.is_object() ? value : Json(); };
  const Json top = part(reference);
  const Json rows = part(top["rows_ref"]);
  const Json meta = part(rows["meta"]);
  const Json ipc = part(rows["ipc"]);
  const auto three = [&](std::string_view key) {
    return FirstTrue({top[key], meta[key], ipc[key]});
  };
  return Json::Object(
      {{"sha256", FirstTrue({top["sha256"], meta["sha256"], ipc["sha256"], top["digest"]})},
       {"schema_digest", three("schema_digest")},
       {"row_count", three("row_count")},
       {"media_type", three("media_type")},
       {"ref", FirstTrue({top["ref"], rows["ref"], top["uri"]})}});
}

}  // namespace noetl::engine::replay
