// The functions of the language, and the methods that the v2 dialect accepts.
#include "base/text.h"

#include <algorithm>

#include <fmt/format.h>
#include "expr/ops.h"
#include "expr/registry.h"
#include "expr/runtime.h"

namespace noetl::expr {

namespace {

Result<Value> Range(Call& call) {
  std::int64_t bounds[3] = {0, 0, 1};
  for (std::size_t i = 0; i < call.values.size(); ++i) {
    if (call.Arg(i).is_undefined()) return UndefinedError(call.Arg(i));
    NOETL_ASSIGN(const Json value, call.Arg(i).Plain());
    if (!value.is_int()) {
      return Fail("E411", fmt::format("range needs integers, not {}", value.TypeName()));
    }
    bounds[i] = value.AsInt();
  }
  if (call.values.size() == 1) std::swap(bounds[0], bounds[1]);
  const auto [first, last, step] = std::tuple(bounds[0], bounds[1], bounds[2]);
  if (step == 0) return Fail("E412", "range: the step is not zero");
  std::vector<Json> items;
  std::int64_t at = first;
  while (step > 0 ? at < last : at > last) {
    if (static_cast<std::int64_t>(items.size()) >= kRangeMax) {
      return Fail("E420", fmt::format("range has more than {} numbers", kRangeMax));
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return call.run.MadeList(std::move(items));
}

Result<Value> Dict(Call& call) {
  Json result = Json::Object();
  if (call.Has(0)) {
    NOETL_ASSIGN(result, call.Arg(0).Plain());
    if (!result.is_object()) {
      return Fail("E411", fmt::format("dict needs a map, not {}", result.TypeName()));
    }
  }
  Json::Members members(result.members().begin(), result.members().end());
  for (const auto& [name, value] : call.keywords) {
    NOETL_ASSIGN(Json plain, value.Plain());
    members.emplace_back(name, std::move(plain));
  }
  return call.run.Made(Json::Object(std::move(members)));
}

Result<Value> MakeNamespace(Call& call) {
  auto space = std::make_shared<Namespace>();
  if (call.Has(0)) {
    NOETL_ASSIGN(const Json start, call.Arg(0).Plain());
    for (const JsonMember& member : start.members()) {
      NOETL_TRY(space->Set(member.key(), Value(member.value)));
    }
  }
  for (const auto& [name, value] : call.keywords) NOETL_TRY(space->Set(name, value));
  return Value(std::move(space));
}

Result<Value> Now(Call& call) {
  const std::optional<std::string> now = call.run.scope().Now();
  if (!now) return Fail("E402", "now() is not available here: it would break replay");
  return Value(Json(*now));
}

// token(google_auth) and token('google_auth') both name an alias: a bare name without a value
// stands for itself.
Result<Value> Token(Call& call) {
  const Value& alias = call.Arg(0);
  if (const Undefined* undefined = alias.undefined()) {
    if (undefined->path == nullptr) return UndefinedError(alias);
    return call.run.scope().Token(*undefined->path);
  }
  NOETL_ASSIGN(const Json name, alias.Plain());
  if (!name.is_string()) {
    return Fail("E411",
                fmt::format("token needs the name of a credential, not {}", name.TypeName()));
  }
  return call.run.scope().Token(name.AsString());
}

// Methods whose filter has another name or takes other arguments.

Result<Value> Strip(Call& call) { return ApplyFilter(call.run, "trim", call.input, call.values); }

// Without a separator, words between white space.
Result<Value> SplitMethod(Call& call) {
  if (call.Has(0) && !call.Arg(0).is_missing()) {
    return ApplyFilter(call.run, "split", call.input, call.values);
  }
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  std::vector<Json> words;
  std::string_view rest = Trim(text);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(" \t\r\n\f\v"), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest = Trim(rest.substr(end));
  }
  return call.run.MadeList(std::move(words));
}

// `separator.join(list)`.
Result<Value> JoinMethod(Call& call) {
  return ApplyFilter(call.run, "join", call.Arg(0), std::span<const Value>(&call.input, 1));
}

template <bool at_start>
Result<Value> HasEdge(Call& call) {
  NOETL_ASSIGN(const bool holds, ApplyTest(call.run, at_start ? "startingwith" : "endingwith",
                                           call.input, call.values.subspan(0, 1)));
  return Value(Json(holds));
}

struct FilterName {
  char text[16];
};

// A method that is a filter of the same name.
template <FilterName name>
Result<Value> AsFilter(Call& call) {
  return ApplyFilter(call.run, name.text, call.input, call.values);
}

constexpr Callable kFunctions[] = {
    {"range",
     {},
     1,
     3,
     "start stop step",
     false,
     Range,
     "range([start,] stop[, step])",
     "List of integers from `start` up to, not including, `stop`."},
    {"dict", {}, 0, 1, "", true, Dict, "dict(key=value, ...)", "A map."},
    {"namespace",
     {},
     0,
     1,
     "",
     true,
     MakeNamespace,
     "namespace(key=value, ...)",
     "An object whose attributes `{% set %}` may change, also inside a loop."},
    {"now",
     {},
     0,
     0,
     "",
     false,
     Now,
     "now()",
     "The time in UTC, ISO-8601. Not in `when`, `loop.in` and `set`, which must replay."},
    {"token",
     {},
     1,
     1,
     "alias",
     false,
     Token,
     "token(alias)",
     "The access token of a credential; only in tool fields."},
};

constexpr Callable kMethods[] = {
    {"get",
     {},
     1,
     2,
     "key default",
     false,
     AsFilter<{"get"}>,
     "x.get(key, default=null)",
     "As `get`."},
    {"items", {}, 0, 0, "", false, AsFilter<{"items"}>, "x.items()", "As `items`."},
    {"keys", {}, 0, 0, "", false, AsFilter<{"keys"}>, "x.keys()", "As `keys`."},
    {"values", {}, 0, 0, "", false, AsFilter<{"values"}>, "x.values()", "As `values`."},
    {"lower", {}, 0, 0, "", false, AsFilter<{"lower"}>, "x.lower()", "As `lower`."},
    {"upper", {}, 0, 0, "", false, AsFilter<{"upper"}>, "x.upper()", "As `upper`."},
    {"strip", {}, 0, 1, "chars", false, Strip, "x.strip(chars)", "As `trim`."},
    {"split",
     {},
     0,
     2,
     "sep maxsplit",
     false,
     SplitMethod,
     "x.split(sep, maxsplit)",
     "As `split`; without a separator, the words between white space."},
    {"replace",
     {},
     2,
     3,
     "old new count",
     false,
     AsFilter<{"replace"}>,
     "x.replace(old, new, count)",
     "As `replace`."},
    {"startswith",
     {},
     1,
     1,
     "prefix",
     false,
     HasEdge<true>,
     "x.startswith(text)",
     "As the test `startingwith`."},
    {"endswith",
     {},
     1,
     1,
     "suffix",
     false,
     HasEdge<false>,
     "x.endswith(text)",
     "As the test `endingwith`."},
    {"join",
     {},
     1,
     1,
     "items",
     false,
     JoinMethod,
     "separator.join(list)",
     "As `list | join(separator)`."},
};

}  // namespace

std::span<const Callable> FunctionTable() { return kFunctions; }
std::span<const Callable> MethodTable() { return kMethods; }

}  // namespace noetl::expr
