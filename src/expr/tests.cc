// The tests of `x is name`. Asked about a value of a foreign type they say false.
#include <cmath>

#include "expr/ops.h"
#include "expr/registry.h"
#include "expr/runtime.h"
#include "expr/utf8.h"

namespace noetl::expr {

namespace {

Result<Value> Answer(bool holds) { return Value(Json(holds)); }

Result<Value> Defined(Call& call) { return Answer(!call.input.is_undefined()); }
Result<Value> UndefinedTest(Call& call) { return Answer(call.input.is_undefined()); }

// A test on the plain value; undefined passes none of them.
template <bool (*Holds)(const Json&)>
Result<Value> OnPlain(Call& call) {
  if (call.input.is_undefined()) return Answer(false);
  NOETL_ASSIGN(const Json value, call.input.Plain());
  NOETL_TRY(call.run.ChargeBytes(value.AsString().size()));
  return Answer(Holds(value));
}

bool IsNone(const Json& value) { return value.is_null(); }
bool IsString(const Json& value) { return value.is_string(); }
bool IsNumber(const Json& value) { return value.is_number(); }
bool IsInteger(const Json& value) { return value.is_integer(); }
bool IsFloat(const Json& value) { return value.is_double(); }
bool IsBoolean(const Json& value) { return value.is_bool(); }
bool IsTrue(const Json& value) { return value.is_bool() && value.AsBool(); }
bool IsFalse(const Json& value) { return value.is_bool() && !value.AsBool(); }
bool IsSequence(const Json& value) { return value.is_array() || value.is_string(); }
bool IsIterable(const Json& value) { return value.is_container() || value.is_string(); }
bool IsMapping(const Json& value) { return value.is_object(); }
bool IsOdd(const Json& value) { return value.is_int() && value.AsInt() % 2 != 0; }
bool IsEven(const Json& value) { return value.is_int() && value.AsInt() % 2 == 0; }
bool IsLower(const Json& value) {
  return value.is_string() && LowerText(value.AsString()) == value.AsString() &&
         UpperText(value.AsString()) != value.AsString();
}
bool IsUpper(const Json& value) {
  return value.is_string() && UpperText(value.AsString()) == value.AsString() &&
         LowerText(value.AsString()) != value.AsString();
}
bool IsFilterName(const Json& value) { return FindFilter(value.AsString()) != nullptr; }
bool IsTestName(const Json& value) { return FindTest(value.AsString()) != nullptr; }

Result<Value> DivisibleBy(Call& call) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  NOETL_ASSIGN(const Json by, call.Arg(0).Plain());
  if (by.is_number() && by.AsDouble() == 0) return Fail("E412", "division by zero");
  if (value.is_int() && by.is_int()) {
    return Answer(by.AsInt() == -1 || value.AsInt() % by.AsInt() == 0);
  }
  if (!value.is_number() || !by.is_number()) return Answer(false);
  return Answer(std::fmod(value.AsDouble(), by.AsDouble()) == 0);
}

template <Op op>
Result<Value> Compared(Call& call) {
  NOETL_ASSIGN(const bool holds, Compare(call.run, op, call.input, call.Arg(0)));
  return Answer(holds);
}

Result<Value> SameAs(Call& call) {
  if (call.input.is_undefined() || call.Arg(0).is_undefined()) {
    return Answer(call.input.is_undefined() && call.Arg(0).is_undefined());
  }
  NOETL_ASSIGN(const Json left, call.input.Plain());
  NOETL_ASSIGN(const Json right, call.Arg(0).Plain());
  if (left.Same(right)) return Answer(true);
  return Answer(!left.is_container() && left == right);
}

template <bool at_start>
Result<Value> HasEdge(Call& call) {
  NOETL_ASSIGN(const Json text, call.input.Plain());
  NOETL_ASSIGN(const Json part, call.Arg(0).Plain());
  if (!text.is_string() || !part.is_string()) return Answer(false);
  return Answer(at_start ? text.AsString().starts_with(part.AsString())
                         : text.AsString().ends_with(part.AsString()));
}

constexpr Callable kRows[] = {
    {"defined",
     {},
     0,
     0,
     "",
     false,
     Defined,
     "defined",
     "The name leads somewhere. Null is defined."},
    {"undefined", {}, 0, 0, "", false, UndefinedTest, "undefined", "The name leads nowhere."},
    {"none", {"null"}, 0, 0, "", false, OnPlain<IsNone>, "none", "Null, but not undefined."},
    {"string", {}, 0, 0, "", false, OnPlain<IsString>, "string", "Text."},
    {"number", {}, 0, 0, "", false, OnPlain<IsNumber>, "number", "An integer or a float."},
    {"integer", {}, 0, 0, "", false, OnPlain<IsInteger>, "integer", "An integer."},
    {"float", {}, 0, 0, "", false, OnPlain<IsFloat>, "float", "A floating point number."},
    {"boolean", {}, 0, 0, "", false, OnPlain<IsBoolean>, "boolean", "True or false."},
    {"true", {"True"}, 0, 0, "", false, OnPlain<IsTrue>, "true", "The value true itself."},
    {"false", {"False"}, 0, 0, "", false, OnPlain<IsFalse>, "false", "The value false itself."},
    {"sequence", {}, 0, 0, "", false, OnPlain<IsSequence>, "sequence", "A list or text."},
    {"iterable", {}, 0, 0, "", false, OnPlain<IsIterable>, "iterable", "A list, a map or text."},
    {"mapping", {}, 0, 0, "", false, OnPlain<IsMapping>, "mapping", "A map."},
    {"odd", {}, 0, 0, "", false, OnPlain<IsOdd>, "odd", "An odd integer."},
    {"even", {}, 0, 0, "", false, OnPlain<IsEven>, "even", "An even integer."},
    {"divisibleby",
     {},
     1,
     1,
     "num",
     false,
     DivisibleBy,
     "divisibleby(n)",
     "A number that `n` divides."},
    {"eq", {"equalto", "=="}, 1, 1, "other", false, Compared<Op::kEqual>, "eq(other)", "Equal."},
    {"ne", {"!="}, 1, 1, "other", false, Compared<Op::kNotEqual>, "ne(other)", "Not equal."},
    {"lt", {"lessthan", "<"}, 1, 1, "other", false, Compared<Op::kLess>, "lt(other)", "Less."},
    {"le", {"<="}, 1, 1, "other", false, Compared<Op::kLessEqual>, "le(other)", "Less or equal."},
    {"gt",
     {"greaterthan", ">"},
     1,
     1,
     "other",
     false,
     Compared<Op::kGreater>,
     "gt(other)",
     "Greater."},
    {"ge",
     {">="},
     1,
     1,
     "other",
     false,
     Compared<Op::kGreaterEqual>,
     "ge(other)",
     "Greater or equal."},
    {"in",
     {},
     1,
     1,
     "seq",
     false,
     Compared<Op::kIn>,
     "in(collection)",
     "An element, a key or a part of the text."},
    {"sameas",
     {},
     1,
     1,
     "other",
     false,
     SameAs,
     "sameas(other)",
     "The same value and type; 1 is not the same as 1.0."},
    {"startingwith",
     {},
     1,
     1,
     "prefix",
     false,
     HasEdge<true>,
     "startingwith(text)",
     "Text that begins so."},
    {"endingwith",
     {},
     1,
     1,
     "suffix",
     false,
     HasEdge<false>,
     "endingwith(text)",
     "Text that ends so."},
    {"lower", {}, 0, 0, "", false, OnPlain<IsLower>, "lower", "Text without upper case letters."},
    {"upper", {}, 0, 0, "", false, OnPlain<IsUpper>, "upper", "Text without lower case letters."},
    {"filter", {}, 0, 0, "", false, OnPlain<IsFilterName>, "filter", "The name of a filter."},
    {"test", {}, 0, 0, "", false, OnPlain<IsTestName>, "test", "The name of a test."},
};

}  // namespace

std::span<const Callable> TestTable() { return kRows; }

}  // namespace noetl::expr
