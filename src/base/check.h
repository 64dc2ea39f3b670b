// Assertions that stay on in release.
//
// A broken invariant is a bug in this program, never a fault of its input: the process says where
// and why, and aborts. What can go wrong from outside is a `Result` (result.h).
#pragma once

#include <string_view>

namespace noetl {

[[noreturn]] void CheckFailed(std::string_view condition, std::string_view file, int line,
                              std::string_view message);

}  // namespace noetl

#define NOETL_CHECK(condition, message)                                \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::noetl::CheckFailed(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
