// Shared by tests of several modules.
#pragma once

#include <string_view>

#include <gtest/gtest.h>

#include "base/json_io.h"

namespace noetl {

// The JSON of a literal in a test; a typo in it fails the test.
inline Json Parse(std::string_view text) {
  Result<Json> parsed = ParseJson(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(Json());
}

}  // namespace noetl
