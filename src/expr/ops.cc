#include "expr/ops.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/utf8.h"

namespace noetl::expr {

namespace {

// The whole text as a number, or nullopt.
std::optional<double> NumericText(std::string_view text) {
  text = Trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

int OrderOf(double left, double right) { return left < right ? -1 : left > right ? 1 : 0; }

// Exact also where the integer has no double of the same value.
int OrderIntDouble(std::int64_t left, double right) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (right >= kTwo63) return -1;
  if (right < -kTwo63) return 1;
  const auto whole = static_cast<std::int64_t>(right);
  if (left != whole) return left < whole ? -1 : 1;
  return OrderOf(0, right - static_cast<double>(whole));
}

int OrderNumbers(const Json& left, const Json& right) {
  if (left.is_int() && right.is_int()) {
    return left.AsInt() < right.AsInt() ? -1 : left.AsInt() > right.AsInt() ? 1 : 0;
  }
  if (left.is_int() && right.is_double()) return OrderIntDouble(left.AsInt(), right.AsDouble());
  if (left.is_double() && right.is_int()) return -OrderIntDouble(right.AsInt(), left.AsDouble());
  if (left.type() == Json::Type::kUint && right.type() == Json::Type::kUint) {
    return left.AsUint() < right.AsUint() ? -1 : left.AsUint() > right.AsUint() ? 1 : 0;
  }
  return OrderOf(left.AsDouble(), right.AsDouble());
}

std::string_view Sign(Op op) {
  switch (op) {
    case Op::kAdd: return "+";
    case Op::kSubtract: return "-";
    case Op::kMultiply: return "*";
    case Op::kDivide: return "/";
    case Op::kFloorDivide: return "//";
    case Op::kModulo: return "%";
    case Op::kPower: return "**";
    default: return "?";
  }
}

Result<Value> Finite(double number) {
  if (!std::isfinite(number)) return Fail("E412", "the result is not a finite number");
  return Value(Json(number));
}

Result<Value> DoubleArithmetic(Op op, double a, double b) {
  if (b == 0 && (op == Op::kDivide || op == Op::kFloorDivide || op == Op::kModulo)) {
    return Fail("E412", "division by zero");
  }
  switch (op) {
    case Op::kAdd: return Finite(a + b);
    case Op::kSubtract: return Finite(a - b);
    case Op::kMultiply: return Finite(a * b);
    case Op::kDivide: return Finite(a / b);
    case Op::kFloorDivide: return Finite(std::floor(a / b));
    case Op::kModulo: {
      double rest = std::fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      return Finite(rest);
    }
    default:
      if (a == 0 && b < 0) return Fail("E412", "division by zero");
      return Finite(std::pow(a, b));
  }
}

// nullopt: the result does not fit, or is no integer.
std::optional<std::int64_t> IntArithmetic(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (!__builtin_add_overflow(a, b, &result)) return result;
      return std::nullopt;
    case Op::kSubtract:
      if (!__builtin_sub_overflow(a, b, &result)) return result;
      return std::nullopt;
    case Op::kMultiply:
      if (!__builtin_mul_overflow(a, b, &result)) return result;
      return std::nullopt;
    case Op::kFloorDivide:
      if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
      return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
    case Op::kModulo:
      if (b == 0) return std::nullopt;
      if (b == -1) return 0;
      result = a % b;
      return result != 0 && (result < 0) != (b < 0) ? result + b : result;
    case Op::kPower: {
      if (b < 0) return std::nullopt;
      std::int64_t base = a;
      result = 1;
      for (std::int64_t exponent = b; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) return std::nullopt;
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
      }
      return result;
    }
    default: return std::nullopt;
  }
}

Result<Value> Repeat(Runtime& run, const Json& what, std::int64_t times) {
  const std::size_t count = times > 0 ? static_cast<std::size_t>(times) : 0;
  const std::size_t unit = what.is_string() ? what.AsString().size() : what.size() * sizeof(Json);
  if (unit > 0 && count > kRepeatBytesMax / unit) {
    return Fail("E420", fmt::format("'*' would make more than {} bytes", kRepeatBytesMax));
  }
  NOETL_TRY(run.ChargeBytes(unit * count));
  if (what.is_string()) {
    std::string text;
    text.reserve(unit * count);
    if (unit > 0 && count > 0) text += what.AsString();
    // Doubling: a long result is made of few copies.
    while (text.size() < unit * count) {
      text.append(text, 0, std::min(text.size(), unit * count - text.size()));
    }
    return Value(Json(text));
  }
  std::vector<Json> items;
  items.reserve(what.size() * count);
  for (std::size_t i = 0; unit > 0 && i < count; ++i) {
    items.insert(items.end(), what.items().begin(), what.items().end());
  }
  return run.MadeList(std::move(items));
}

Result<Value> ConcatLists(Runtime& run, const Json& left, const Json& right) {
  std::vector<Json> items;
  items.reserve(left.size() + right.size());
  items.insert(items.end(), left.items().begin(), left.items().end());
  items.insert(items.end(), right.items().begin(), right.items().end());
  return run.MadeList(std::move(items));
}

Result<Value> JsonArithmetic(Runtime& run, Op op, const Json& left, const Json& right) {
  if (left.is_int() && right.is_int() && op != Op::kDivide) {
    if (const auto result = IntArithmetic(op, left.AsInt(), right.AsInt())) {
      return Value(Json(*result));
    }
  }
  if (left.is_number() && right.is_number()) {
    return DoubleArithmetic(op, left.AsDouble(), right.AsDouble());
  }
  if (op == Op::kAdd && left.is_string() && right.is_string()) {
    std::string text;
    text.reserve(left.AsString().size() + right.AsString().size());
    text.append(left.AsString()).append(right.AsString());
    return run.MadeText(text);
  }
  if (op == Op::kAdd && left.is_array() && right.is_array()) return ConcatLists(run, left, right);
  if (op == Op::kMultiply) {
    if ((left.is_string() || left.is_array()) && right.is_int()) {
      return Repeat(run, left, right.AsInt());
    }
    if (left.is_int() && (right.is_string() || right.is_array())) {
      return Repeat(run, right, left.AsInt());
    }
  }
  const bool joins_text = op == Op::kAdd && (left.is_string() || right.is_string());
  return Fail("E411", fmt::format("cannot compute {} {} {}{}", left.TypeName(), Sign(op),
                                  right.TypeName(), joins_text ? " (use ~ to join text)" : ""));
}

bool AliasHas(const AliasString& alias, std::string_view text) {
  for (const std::string& name : alias.names) {
    if (name == text) return true;
  }
  return false;
}

bool EqualAlias(const AliasString& alias, const Value& other) {
  if (const AliasString* second = other.alias()) {
    for (const std::string& name : second->names) {
      if (AliasHas(alias, name)) return true;
    }
    return false;
  }
  return other.is_json() && other.json().is_string() && AliasHas(alias, other.json().AsString());
}

// A list index counted from the end when negative.
const Json* ElementAt(const Json& list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.size());
  if (index < 0) index += size;
  return index < 0 || index >= size ? nullptr : &list.items()[static_cast<std::size_t>(index)];
}

Result<Value> CharacterAt(Runtime& run, std::string_view text, std::int64_t index) {
  NOETL_TRY(run.ChargeBytes(text.size()));
  if (index < 0) index += static_cast<std::int64_t>(CodePoints(text));
  if (index < 0) return Value();
  for (std::size_t at = 0; at < text.size(); at += CodePointLength(text, at)) {
    if (index-- == 0) return Value(Json(text.substr(at, CodePointLength(text, at))));
  }
  return Value();
}

}  // namespace

bool OperandTruth(const Value& value) {
  if (value.is_json() && value.json().is_string()) return !value.json().AsString().empty();
  if (const AliasString* alias = value.alias()) {
    return !alias->names.empty() && !alias->names[0].empty();
  }
  return Truthy(value);
}

std::string_view TypeName(const Value& value) {
  if (value.is_undefined()) return "undefined";
  if (value.is_json()) return value.json().TypeName();
  return value.alias() != nullptr ? "string" : "map";
}

std::unexpected<Error> UndefinedError(const Value& value) {
  const Undefined* undefined = value.undefined();
  if (undefined == nullptr || undefined->path == nullptr || undefined->path->empty()) {
    return Fail("E410", "a value is undefined");
  }
  return Fail("E410", fmt::format("'{}' is undefined", *undefined->path));
}

bool EqualJson(const Json& left, const Json& right, std::int64_t* work) {
  if (left.Same(right)) return true;
  if (left.is_number() && right.is_number()) {
    if (left.type() == Json::Type::kBigInt && right.type() == Json::Type::kBigInt) {
      return left.AsString() == right.AsString();
    }
    return OrderNumbers(left, right) == 0;
  }
  if (left.type() != right.type()) return false;
  if (left.is_array()) {
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i) {
      // Past the budget the answer no longer matters: the caller fails.
      if (++*work > kOperationsMax) return false;
      if (!EqualJson(left.items()[i], right.items()[i], work)) return false;
    }
    return true;
  }
  if (left.is_object()) {
    if (left.size() != right.size()) return false;
    for (const JsonMember& member : left.members()) {
      if (++*work > kOperationsMax) return false;
      const Json* other = right.Find(member.key());
      if (other == nullptr || !EqualJson(member.value, *other, work)) return false;
    }
    return true;
  }
  if (left.is_string()) {
    *work += static_cast<std::int64_t>(left.AsString().size() / kBytesPerOperation);
  }
  return left == right;
}

Result<bool> Equal(Runtime& run, const Value& left, const Value& right) {
  if (left.is_missing() || right.is_missing()) {
    if (left.is_missing() && right.is_missing()) return true;
    // A view may hold null.
    if (left.view() == nullptr && right.view() == nullptr) return false;
  }
  if (left.alias() != nullptr && right.view() == nullptr) return EqualAlias(*left.alias(), right);
  if (right.alias() != nullptr && left.view() == nullptr) return EqualAlias(*right.alias(), left);
  std::int64_t work = 0;
  bool equal = false;
  if (left.is_json() && right.is_json()) {
    equal = EqualJson(left.json(), right.json(), &work);
  } else {
    NOETL_ASSIGN(const Json a, left.Plain());
    NOETL_ASSIGN(const Json b, right.Plain());
    equal = EqualJson(a, b, &work);
  }
  NOETL_TRY(run.Charge(work));
  return equal;
}

Result<int> OrderJson(Runtime& run, const Json& left, const Json& right) {
  if (left.is_number() && right.is_number()) return OrderNumbers(left, right);
  if (left.is_string() && right.is_string()) {
    NOETL_TRY(run.ChargeBytes(std::min(left.AsString().size(), right.AsString().size())));
    const int order = left.AsString().compare(right.AsString());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (left.is_number() && right.is_string()) {
    if (const auto number = NumericText(right.AsString())) {
      return OrderNumbers(left, Json(*number));
    }
  }
  if (left.is_string() && right.is_number()) {
    if (const auto number = NumericText(left.AsString())) {
      return OrderNumbers(Json(*number), right);
    }
  }
  if (left.is_array() && right.is_array()) {
    const std::size_t common = std::min(left.size(), right.size());
    for (std::size_t i = 0; i < common; ++i) {
      std::int64_t work = 1;
      const bool equal = EqualJson(left.items()[i], right.items()[i], &work);
      NOETL_TRY(run.Charge(work));
      if (equal) continue;
      return OrderJson(run, left.items()[i], right.items()[i]);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  return Fail("E411", fmt::format("cannot order {} and {}", left.TypeName(), right.TypeName()));
}

Result<std::optional<int>> Order(Runtime& run, const Value& left, const Value& right) {
  if (left.is_undefined() || right.is_undefined()) return std::nullopt;
  if (left.is_json() && right.is_json()) {
    NOETL_ASSIGN(const int order, OrderJson(run, left.json(), right.json()));
    return order;
  }
  NOETL_ASSIGN(const Json a, left.Plain());
  NOETL_ASSIGN(const Json b, right.Plain());
  NOETL_ASSIGN(const int order, OrderJson(run, a, b));
  return order;
}

Result<bool> Contains(Runtime& run, const Value& needle, const Value& collection) {
  if (needle.is_undefined() || collection.is_missing()) return false;
  if (const AliasString* alias = collection.alias()) {
    NOETL_ASSIGN(const Json text, needle.Plain());
    for (const std::string& name : alias->names) {
      if (text.is_string() && name.find(text.AsString()) != std::string::npos) return true;
    }
    return false;
  }
  NOETL_ASSIGN(const Json whole, collection.Plain());
  if (whole.is_array()) {
    for (const Json& item : whole.items()) {
      NOETL_TRY(run.Charge(1));
      NOETL_ASSIGN(const bool equal, Equal(run, needle, Value(item)));
      if (equal) return true;
    }
    return false;
  }
  if (const AliasString* alias = needle.alias()) {
    for (const std::string& name : alias->names) {
      NOETL_ASSIGN(const bool found, Contains(run, Value(Json(name)), Value(whole)));
      if (found) return true;
    }
    return false;
  }
  NOETL_ASSIGN(const Json key, needle.Plain());
  if (whole.is_object()) {
    if (key.is_container() || key.is_null()) return false;
    return whole.Has(TextForm(key));
  }
  if (whole.is_string() && key.is_string()) {
    NOETL_TRY(run.ChargeBytes(whole.AsString().size()));
    return whole.AsString().find(key.AsString()) != std::string_view::npos;
  }
  if (whole.is_null()) return false;
  return Fail("E411", fmt::format("cannot look for {} in {}", key.TypeName(), whole.TypeName()));
}

Result<bool> Compare(Runtime& run, Op op, const Value& left, const Value& right) {
  switch (op) {
    case Op::kEqual: return Equal(run, left, right);
    case Op::kNotEqual: {
      NOETL_ASSIGN(const bool equal, Equal(run, left, right));
      return !equal;
    }
    case Op::kIn: return Contains(run, left, right);
    case Op::kNotIn: {
      NOETL_ASSIGN(const bool found, Contains(run, left, right));
      return !found;
    }
    default: break;
  }
  NOETL_ASSIGN(const std::optional<int> order, Order(run, left, right));
  if (!order) return false;
  switch (op) {
    case Op::kLess: return *order < 0;
    case Op::kLessEqual: return *order <= 0;
    case Op::kGreater: return *order > 0;
    default: return *order >= 0;
  }
}

Result<Value> Arithmetic(Runtime& run, Op op, const Value& left, const Value& right) {
  if (left.is_undefined()) return UndefinedError(left);
  if (right.is_undefined()) return UndefinedError(right);
  if (left.is_json() && right.is_json()) {
    return JsonArithmetic(run, op, left.json(), right.json());
  }
  NOETL_ASSIGN(const Json a, left.Plain());
  NOETL_ASSIGN(const Json b, right.Plain());
  return JsonArithmetic(run, op, a, b);
}

Result<Value> Negate(const Value& value, bool negate) {
  if (value.is_undefined()) return UndefinedError(value);
  NOETL_ASSIGN(const Json json, value.Plain());
  if (!json.is_number()) {
    return Fail("E411", fmt::format("cannot negate {}", json.TypeName()));
  }
  if (!negate) return Value(json);
  if (json.is_int() && json.AsInt() != INT64_MIN) return Value(Json(-json.AsInt()));
  // The one integer that only exists with its sign.
  if (json.type() == Json::Type::kUint && json.AsUint() == std::uint64_t{1} << 63) {
    return Value(Json(INT64_MIN));
  }
  return Value(Json(-json.AsDouble()));
}

Result<Value> GetAttribute(const Value& base, std::string_view name) {
  if (base.is_json()) {
    const Json* found = base.json().Find(name);
    return found != nullptr ? Value(*found) : Value();
  }
  if (const View* view = base.view()) return view->Get(name);
  if (const Namespace* space = base.space()) {
    const Value* found = space->Find(name);
    return found != nullptr ? *found : Value();
  }
  return Value();
}

Result<Value> GetItem(Runtime& run, const Value& base, const Value& key) {
  if (base.is_undefined() || key.is_undefined()) return Value();
  NOETL_ASSIGN(const Json index, key.Plain());
  if (index.is_string()) return GetAttribute(base, index.AsString());
  if (!index.is_int()) return Value();
  NOETL_ASSIGN(const Json whole, base.Plain());
  if (whole.is_array()) {
    const Json* found = ElementAt(whole, index.AsInt());
    return found != nullptr ? Value(*found) : Value();
  }
  if (whole.is_string()) return CharacterAt(run, whole.AsString(), index.AsInt());
  // JSON keys are text: `m[5]` reads the key "5".
  if (whole.is_object()) return GetAttribute(base, TextForm(index));
  return Value();
}

Result<Value> Slice(Runtime& run, const Value& base, const Value& start, const Value& stop,
                    const Value& step) {
  NOETL_ASSIGN(const Json whole, base.Plain());
  if (!whole.is_array() && !whole.is_string()) return Value();
  std::int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  const Value* parts[3] = {&start, &stop, &step};
  for (int i = 0; i < 3; ++i) {
    NOETL_ASSIGN(const Json part, parts[i]->Plain());
    if (part.is_null()) continue;
    if (!part.is_int()) return Fail("E411", "the bounds of a slice are integers");
    bounds[i] = part.AsInt();
    given[i] = true;
  }
  if (bounds[2] == 0) return Fail("E412", "the step of a slice is not zero");
  std::vector<std::string_view> letters;
  if (whole.is_string()) {
    NOETL_ASSIGN(letters, run.Letters(whole.AsString()));
  }
  const auto size = static_cast<std::int64_t>(whole.is_string() ? letters.size() : whole.size());
  NOETL_TRY(run.Charge(size / 8 + 1));
  const bool forward = bounds[2] > 0;
  const auto clamp = [&](std::int64_t at) {
    if (at < 0) at = at < -size ? -1 : at + size;
    const std::int64_t low = forward ? 0 : -1;
    return std::clamp(at, low, std::max(low, forward ? size : size - 1));
  };
  const std::int64_t first = given[0] ? clamp(bounds[0]) : forward ? 0 : size - 1;
  const std::int64_t last = given[1] ? clamp(bounds[1]) : forward ? size : -1;
  // A step beyond the size visits one element, whatever its value; smaller ones cannot overflow.
  const std::int64_t stride = std::clamp(bounds[2], -size - 1, size + 1);
  std::string text;
  std::vector<Json> items;
  for (std::int64_t at = first; forward ? at < last : at > last; at += stride) {
    const auto index = static_cast<std::size_t>(at);
    if (whole.is_string()) text += letters[index];
    else items.push_back(whole.items()[index]);
  }
  if (whole.is_string()) return run.MadeText(text);
  return run.MadeList(std::move(items));
}

Result<std::vector<Json>> Iterate(Runtime& run, const Value& value) {
  NOETL_ASSIGN(const Json whole, value.Plain());
  std::vector<Json> items;
  if (whole.is_null()) return items;
  if (whole.is_array()) {
    items.assign(whole.items().begin(), whole.items().end());
  } else if (whole.is_object()) {
    items.reserve(whole.size());
    for (const JsonMember& member : whole.members()) items.push_back(member.key_json());
  } else if (whole.is_string()) {
    NOETL_ASSIGN(const std::vector<std::string_view> letters, run.Letters(whole.AsString()));
    items.assign(letters.begin(), letters.end());
  } else {
    return Fail("E411", fmt::format("cannot iterate over {}", whole.TypeName()));
  }
  NOETL_TRY(run.Charge(static_cast<std::int64_t>(items.size() / 4)));
  return items;
}

}  // namespace noetl::expr
