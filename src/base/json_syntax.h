// The slow side of reading JSON: escapes in strings, and what is wrong with a bad document.
//
// The fast reader (json_io.cc) only learns that a document is bad. `ExplainJsonError` then reads it
// again from the start, byte by byte, and finds the first fault and its place. Pure functions, any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_io.h"
#include "base/result.h"

namespace noetl {

// Appends the text that `raw`, the inside of a string literal, stands for. Gives the offset of the
// first bad escape (lone surrogates count) or raw control character; nullopt when all is well.
std::optional<std::size_t> UnescapeJson(std::string_view raw, std::string& out);

// The first fault of a document that ParseJson refused; nullopt when there is none.
std::optional<Error> ExplainJsonError(std::string_view text, JsonNumbers numbers);

}  // namespace noetl
