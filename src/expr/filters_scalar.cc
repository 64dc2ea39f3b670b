// Filters on single values: numbers, defaults, JSON, lookups.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "expr/ops.h"
#include "expr/registry.h"
#include "expr/runtime.h"

namespace noetl::expr {

namespace {

// Beyond this many decimals a double has nothing left to round.
constexpr std::int64_t kDecimalsMax = 300;

std::optional<Json> ParseNumber(std::string_view text) {
  text = Trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t whole = 0;
  const char* const end = text.data() + text.size();
  if (auto [at, code] = std::from_chars(text.data(), end, whole);
      code == std::errc() && at == end) {
    return Json(whole);
  }
  double number = 0;
  if (auto [at, code] = std::from_chars(text.data(), end, number);
      code == std::errc() && at == end && std::isfinite(number)) {
    return Json(number);
  }
  return std::nullopt;
}

// A number for numbers, booleans and numeric text.
std::optional<Json> ToNumber(const Json& value) {
  if (value.is_number()) return value;
  if (value.is_bool()) return Json(value.AsBool() ? 1 : 0);
  if (value.is_string()) return ParseNumber(value.AsString());
  return std::nullopt;
}

Result<Value> Int(Call& call) {
  Value fallback = call.Has(0) ? call.Arg(0) : Value(Json(0));
  NOETL_ASSIGN(const Json value, call.input.Plain());
  const std::optional<Json> number = ToNumber(value);
  if (!number) return fallback;
  if (number->is_integer()) return Value(*number);
  const double whole = std::trunc(number->AsDouble());
  constexpr double kTwo63 = 9223372036854775808.0;
  if (!(whole >= -kTwo63 && whole < kTwo63)) return fallback;
  return Value(Json(static_cast<std::int64_t>(whole)));
}

Result<Value> Float(Call& call) {
  const Value fallback = call.Has(0) ? call.Arg(0) : Value(Json(0.0));
  NOETL_ASSIGN(const Json value, call.input.Plain());
  const std::optional<Json> number = ToNumber(value);
  return number ? Value(Json(number->AsDouble())) : fallback;
}

Result<Value> Bool(Call& call) { return Value(Json(Truthy(call.input))); }

Result<Value> Default(Call& call) {
  const bool boolean = call.Has(1) && OperandTruth(call.Arg(1));
  bool missing = call.input.is_missing() || (boolean && !OperandTruth(call.input));
  if (!missing && call.input.view() != nullptr && !call.input.view()->Truthy()) {
    NOETL_ASSIGN(const Json whole, call.input.Plain());
    missing = whole.is_null();
  }
  if (!missing) return call.input;
  return call.Has(0) ? call.Arg(0) : Value(Json(""));
}

Result<Value> Abs(Call& call) {
  if (call.input.is_undefined()) return UndefinedError(call.input);
  NOETL_ASSIGN(const Json value, call.input.Plain());
  if (!value.is_number()) {
    return Fail("E411", fmt::format("abs needs a number, not {}", value.TypeName()));
  }
  const bool negative = value.is_int() ? value.AsInt() < 0 : value.AsDouble() < 0;
  return negative ? Negate(Value(value), true) : Value(value);
}

Result<Value> Round(Call& call) {
  if (call.input.is_undefined()) return UndefinedError(call.input);
  NOETL_ASSIGN(const Json value, call.input.Plain());
  NOETL_ASSIGN(const Json decimals, call.Arg(0).Plain());
  NOETL_ASSIGN(const Json method, call.Arg(1).Plain());
  const std::string_view how = method.is_null() ? "common" : method.AsString();
  if (!value.is_number() || !(decimals.is_null() || decimals.is_int())) {
    return Fail("E411", fmt::format("round needs a number, not {}", value.TypeName()));
  }
  if (how != "common" && how != "ceil" && how != "floor") {
    return Fail("E411", "round: the method is 'common', 'ceil' or 'floor'");
  }
  const std::int64_t places = std::clamp(decimals.AsInt(), -kDecimalsMax, kDecimalsMax);
  if (value.is_integer() && places >= 0) return Value(value);
  const double factor = std::pow(10.0, static_cast<double>(places));
  const double scaled = value.AsDouble() * factor;
  const double rounded = how == "ceil"    ? std::ceil(scaled)
                         : how == "floor" ? std::floor(scaled)
                                          : std::round(scaled);
  const double result = rounded / factor;
  return Value(std::isfinite(result) ? Json(result) : value);
}

Result<Value> ToJson(Call& call) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  NOETL_ASSIGN(const Json indent, call.Arg(0).Plain());
  constexpr std::int64_t kIndentMax = 16;
  NOETL_TRY(call.run.CheckWritable(value));
  if (indent.is_int() && indent.AsInt() > 0) {
    return call.run.MadeText(
        WriteJsonPretty(value, static_cast<int>(std::min(indent.AsInt(), kIndentMax))));
  }
  return call.run.MadeText(WriteJson(value));
}

Result<Value> Pprint(Call& call) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  NOETL_TRY(call.run.CheckWritable(value));
  return call.run.MadeText(WriteJsonPretty(value));
}

Result<Value> FromJson(Call& call) {
  if (call.input.is_undefined()) return UndefinedError(call.input);
  NOETL_ASSIGN(const Json text, call.input.Plain());
  if (!text.is_string()) {
    return Fail("E411", fmt::format("fromjson needs text, not {}", text.TypeName()));
  }
  NOETL_TRY(call.run.ChargeBytes(text.AsString().size()));
  Result<Json> parsed = ParseJson(text.AsString());
  if (!parsed) return Fail("E412", fmt::format("fromjson: {}", parsed.error().message));
  return Value(std::move(*parsed));
}

Result<Value> Get(Call& call) {
  NOETL_ASSIGN(Value found, GetItem(call.run, call.input, call.Arg(0)));
  if (!found.is_undefined()) return found;
  return call.Has(1) ? call.Arg(1) : Value(Json());
}

Result<Value> Attr(Call& call) { return GetItem(call.run, call.input, call.Arg(0)); }

Result<Value> Safe(Call& call) { return call.input; }

constexpr Callable kRows[] = {
    {"int",
     {},
     0,
     1,
     "default",
     false,
     Int,
     "int(default=0)",
     "Whole number: numbers are cut, text is read, booleans are 0 or 1; anything else gives the "
     "default."},
    {"float",
     {},
     0,
     1,
     "default",
     false,
     Float,
     "float(default=0.0)",
     "Floating point number, or the default."},
    {"bool",
     {},
     0,
     0,
     "",
     false,
     Bool,
     "bool",
     "True or false by the rules of `when`: the text `no`, `off`, `false`, `0` ... is false."},
    {"default",
     {"d"},
     0,
     2,
     "default_value boolean",
     false,
     Default,
     "default(v='', boolean=false)",
     "`v` when the value is undefined or null; with `boolean` also when it is false or empty."},
    {"abs", {}, 0, 0, "", false, Abs, "abs", "Absolute value."},
    {"round",
     {},
     0,
     2,
     "precision method",
     false,
     Round,
     "round(precision=0, method='common')",
     "Rounded to decimals; halves go away from zero. Methods: `common`, `ceil`, `floor`."},
    {"tojson",
     {},
     0,
     1,
     "indent",
     false,
     ToJson,
     "tojson(indent=none)",
     "The value as JSON text, compact or indented. Undefined is `null`."},
    {"pprint", {}, 0, 0, "", false, Pprint, "pprint", "The value as indented JSON text."},
    {"fromjson",
     {},
     0,
     0,
     "",
     false,
     FromJson,
     "fromjson",
     "The value that JSON text describes; an error when it is not JSON."},
    {"get",
     {},
     1,
     2,
     "key default",
     false,
     Get,
     "get(key, default=null)",
     "The member or element, or the default when there is none."},
    {"attr", {}, 1, 1, "name", false, Attr, "attr(name)", "The member of that name, or undefined."},
    {"safe", {}, 0, 0, "", false, Safe, "safe", "The value itself; nothing is escaped by default."},
};

}  // namespace

std::span<const Callable> ScalarFilters() { return kRows; }

}  // namespace noetl::expr
