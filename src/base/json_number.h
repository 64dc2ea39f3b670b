// The numbers of JSON: from literal to value and from double to text.
//
// Shared by the reader, the writers and the explanation of syntax errors. Pure functions, any
// thread, no allocation but for integers that fit no machine word.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/json_io.h"

namespace noetl {

enum class NumberError { kNone, kSyntax, kOverflow };

struct ParsedNumber {
  Json value;
  NumberError error = NumberError::kNone;
};

// Length of the number literal at the start of `text` by the grammar of JSON; 0 when there is none.
std::size_t NumberLength(std::string_view text);

// Converts a whole literal. kSyntax: not a number of JSON. kOverflow: no finite double.
ParsedNumber ParseNumber(std::string_view literal, JsonNumbers numbers);

// How doubles are spelled.
enum class DoubleForm {
  kTyped,   // positional for exponents -5..15, else "1e+16", "1e-6"
  kFlat,    // positional for exponents -4..15, else "1e+16", "1e-06"
  kStored,  // always positional, -0.0 as 0.0
};

// Sign, "0.", 323 zeros and 17 digits are the longest positional form.
using DoubleBuffer = std::array<char, 352>;

// The value must be finite. The text lies in `buffer`.
std::string_view FormatDouble(double value, DoubleForm form, DoubleBuffer& buffer);

}  // namespace noetl
