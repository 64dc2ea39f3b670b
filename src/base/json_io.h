// Reading and writing Json.
//
// Pure functions, any thread. Parsing uses simdjson; writing is ours because four forms of the same
// value are contracts: the compact form (what users see), the stored form (what goes into a
// database), and the two canonical forms (what gets hashed).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace noetl {

// Deeper nesting is refused by every reader and writer: the encoders are recursive. Writers that
// cannot fail write null for a container below the deepest level.
inline constexpr std::size_t kJsonDepthMax = 127;

// How number literals become values.
enum class JsonNumbers {
  // Integers that fit 64 bits stay integers, everything else is the nearest double; "-0" is -0.0.
  kTyped,
  // As kTyped, but doubles go through the historical significand-times-power conversion.
  kTypedStrict,
  // Integers of any size stay exact (kBigInt), "-0" is 0.
  kFlat,
};

// Parses one JSON document. Errors: "json_syntax" with line:column and what was expected,
// "json_depth". The last of duplicate keys wins. Rejects invalid UTF-8 and lone surrogates.
Result<Json> ParseJson(std::string_view text, JsonNumbers numbers = JsonNumbers::kTyped);

// Compact JSON, members in insertion order, non-ASCII raw, doubles shortest round-trip with ".0"
// when integral. Infinity and NaN are written as null.
std::string WriteJson(const Json& value);
void AppendJson(std::string& out, const Json& value);
// Indented by `indent` spaces a level, for people.
std::string WriteJsonPretty(const Json& value, int indent = 2);
// The bytes WriteJson would give, without making them.
std::size_t JsonSize(const Json& value);

// The form that is stored: doubles positional with a fraction and never an exponent, -0.0 as 0.0.
// Errors: "json_nul" when a string holds U+0000, "json_depth".
Result<std::string> WriteStoredJson(const Json& value);
// Replaces U+0000 in every string (keys too) by U+FFFD. `replaced` counts them.
Json ReplaceNul(const Json& value, std::size_t* replaced = nullptr);

// The forms that are hashed: members sorted by key bytes.
std::string CanonicalJson(const Json& value);
void AppendCanonicalJson(std::string& out, const Json& value);
std::string CanonicalJsonFlat(const Json& value);

}  // namespace noetl
