// Errors that can happen are values.
//
// `Result<T>` holds a T or an `Error`. An error has a short code that programs test for (each
// module documents its own, for example "E410" or "needs_reference") and a message that tells a
// user what was wrong, where, and what to do. Exceptions never cross a module border.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace noetl {

struct Error {
  std::string code;
  std::string message;

  bool operator==(const Error&) const = default;
};

template <typename T>
using Result = std::expected<T, Error>;

// For functions that succeed without a value.
using Status = Result<void>;

inline std::unexpected<Error> Fail(std::string_view code, std::string message) {
  return std::unexpected(Error{std::string(code), std::move(message)});
}

}  // namespace noetl

// Returns the error of `expression` from the enclosing function, or goes on.
#define NOETL_TRY(expression)                                         \
  do {                                                                \
    if (auto noetl_status = (expression); !noetl_status) [[unlikely]] \
      return std::unexpected(std::move(noetl_status).error());        \
  } while (false)

#define NOETL_CONCAT_INNER(a, b) a##b
#define NOETL_CONCAT(a, b) NOETL_CONCAT_INNER(a, b)

// `NOETL_ASSIGN(auto x, F());` declares x from a Result, or returns its error.
#define NOETL_ASSIGN(declaration, expression) \
  NOETL_ASSIGN_INNER(NOETL_CONCAT(noetl_result_, __LINE__), declaration, expression)
#define NOETL_ASSIGN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                               \
  if (!temporary) [[unlikely]]                                 \
    return std::unexpected(std::move(temporary).error());      \
  declaration = std::move(*temporary)
