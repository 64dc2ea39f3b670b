// Operators on template values.
//
// Pure functions over values and a runtime that is charged for the work. Views are read through
// `Plain`, so any of these may fail with "needs_reference".
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "expr/ast.h"
#include "expr/runtime.h"
#include "expr/value.h"

namespace noetl::expr {

// Truth inside an expression (`and`, `or`, `not`, `if`): as Truthy, but any non-empty text is true.
bool OperandTruth(const Value& value);

// Strict between types, except that 1 equals 1.0; null equals undefined.
Result<bool> Equal(Runtime& run, const Value& left, const Value& right);
bool EqualJson(const Json& left, const Json& right, std::int64_t* work);

// <0, 0, >0; nullopt when one side is undefined (every ordering is then false); E411 for types
// that have no order.
Result<std::optional<int>> Order(Runtime& run, const Value& left, const Value& right);
Result<int> OrderJson(Runtime& run, const Json& left, const Json& right);

Result<bool> Contains(Runtime& run, const Value& needle, const Value& collection);
Result<bool> Compare(Runtime& run, Op op, const Value& left, const Value& right);

Result<Value> Arithmetic(Runtime& run, Op op, const Value& left, const Value& right);
Result<Value> Negate(const Value& value, bool negate);

// Undefined for whatever is not there.
Result<Value> GetAttribute(const Value& base, std::string_view name);
Result<Value> GetItem(Runtime& run, const Value& base, const Value& key);
Result<Value> Slice(Runtime& run, const Value& base, const Value& start, const Value& stop,
                    const Value& step);

// What a loop runs over: list elements, map keys, code points; nothing for undefined and null.
Result<std::vector<Json>> Iterate(Runtime& run, const Value& value);

// "'start.rows' is undefined", with code E410.
std::unexpected<Error> UndefinedError(const Value& value);
// "int", "map", ... or "undefined", for messages.
std::string_view TypeName(const Value& value);

}  // namespace noetl::expr
