// The values of the flat dialect: what counts as true, as a text, as an integer. Pure functions,
// any thread.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace noetl::engine::replay {

// Everything but null, false, zero and what is empty.
bool Truthy(const Json& value);
// The first that is true, else the last as it is.
Json FirstTrue(std::initializer_list<Json> candidates);
// "True", "None", digits; a container is written.
std::string FlatText(const Json& value);
Json TextOrNullOf(const Json& value);
// An integer of any size: fractions are cut off, texts read. "bad_row" when it is none.
Result<Json> FlatInt(const Json& value);
Result<Json> FlatIntOrNull(const Json& value);
// One more; stays at the limit of 64 bits.
Json PlusOne(const Json& integer);
// Two integers of any size: negative, zero or positive.
int CompareInts(const Json& a, const Json& b);
// The integer that a text spells in decimals; a blank around it, one sign and single underscores
// between digits are allowed.
std::optional<Json> ReadInteger(std::string_view text);

// The five facts of a reference, null where there are none; no types are checked.
Json FlatSummary(const Json& reference);

}  // namespace noetl::engine::replay
