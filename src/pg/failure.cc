#include "pg/failure.h"

#include <algorithm>

#include "base/text.h"

namespace noetl::pg {
namespace {

std::string OneLine(std::string_view text) {
  std::string out;
  for (const char c : Trim(text)) {
    const bool blank = c == '\n' || c == '\t' || c == '\r' || c == ' ';
    if (!blank) out += c;
    else if (!out.ends_with(' ')) out += ' ';
  }
  return out;
}

bool IsSqlState(std::string_view text) {
  return text.size() == 5 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
         });
}

}  // namespace

Failure ConnectFailure(std::string_view text) {
  Failure failure{.kind = Failure::Kind::kConnect};
  // ... failed: FATAL:  28P01: password authentication failed for user "x"\nLOCATION:  ...
  for (const std::string_view severity : {"FATAL:  ", "ERROR:  "}) {
    const std::size_t at = text.rfind(severity);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = text.substr(at + severity.size());
    if (rest.size() < 7 || !IsSqlState(rest.substr(0, 5)) || rest.substr(5, 2) != ": ") continue;
    failure.severity = severity.substr(0, 5);
    failure.sqlstate = rest.substr(0, 5);
    failure.message = OneLine(rest.substr(7, rest.find('\n', 7) - 7));
    return failure;
  }
  failure.message = OneLine(text);
  return failure;
}

}  // namespace noetl::pg
