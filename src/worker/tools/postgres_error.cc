#include "worker/tools/postgres_error.h"

#include <algorithm>
#include <array>

#include "worker/bounded_text.h"

namespace noetl::worker {
namespace {

// Shorter ones occur in ordinary words.
constexpr std::size_t kPasswordBytesMin = 4;

struct StateKind {
  std::string_view prefix;  // of SQLSTATE
  std::string_view kind;
  bool retryable;
};
// The first that fits.
constexpr std::array kStateKinds = {
    StateKind{"40001", "db_deadlock", true},    // serialization failure
    StateKind{"40P01", "db_deadlock", true},    // deadlock
    StateKind{"55P03", "db_timeout", true},     // lock not available
    StateKind{"57014", "db_timeout", true},     // cancelled: statement timeout
    StateKind{"57P0", "db_connection", true},   // the server stops or starts
    StateKind{"08", "db_connection", true},     // the connection broke
    StateKind{"53300", "db_connection", true},  // too many connections
    StateKind{"23", "db_constraint", false},    //
    StateKind{"28", "auth", false},             //
    StateKind{"", "tool_error", false},
};

struct Class {
  std::string_view kind;
  std::string code;
  bool retryable;
};

Class ClassOf(const pg::Failure& failure) {
  using enum pg::Failure::Kind;
  if (!failure.sqlstate.empty()) {
    const auto* const found = std::ranges::find_if(kStateKinds, [&](const StateKind& each) {
      return failure.sqlstate.starts_with(each.prefix);
    });
    return {found->kind, "PG_" + failure.sqlstate, found->retryable};
  }
  switch (failure.kind) {
    case kResolve: return {"connection", "DNS_ERROR", true};
    case kTimeout: return {"timeout", "CONN_TIMEOUT", true};
    case kBusy: return {"connection", "POOL_EXHAUSTED", true};
    case kConnect:
      if (failure.message.contains("no password supplied")) return {"auth", "AUTH", false};
      if (failure.message.contains("Connection refused"))
        return {"connection", "CONN_REFUSED", true};
      return {"connection", "CONN_ERROR", true};
    default: return {"connection", "CONN_ERROR", true};
  }
}

std::string Hidden(std::string text, std::string_view password) {
  if (password.size() < kPasswordBytesMin) return text;
  for (std::size_t at = 0; (at = text.find(password, at)) != std::string::npos; at += 3) {
    text.replace(at, password.size(), "***");
  }
  return text;
}

}  // namespace

ToolAnswer PostgresError(const PostgresFailure& what) {
  const pg::Failure& failure = what.failure;
  const Class class_of = ClassOf(failure);
  std::string text = fmt::format("Database error: {}: ", what.context);
  if (!failure.severity.empty()) text += failure.severity + ": ";
  text += failure.message;
  if (!failure.sqlstate.empty()) text += fmt::format(" (SQLSTATE {})", failure.sqlstate);
  if (!failure.detail.empty()) text += " | DETAIL: " + failure.detail;
  if (!failure.hint.empty()) text += " | HINT: " + failure.hint;

  ToolAnswer answer = Failed("postgres", class_of.kind, class_of.code, class_of.retryable,
                             CleanText(Hidden(std::move(text), what.password)));
  Json info =
      answer.outcome.error_info.With("message", CleanText(Hidden(failure.message, what.password)));
  if (!failure.sqlstate.empty()) {
    info = info.With("pg_code", failure.sqlstate).With("sqlstate", failure.sqlstate);
  }
  if (what.statement) {
    info = info.With("details", Json::Object({{"statement_index", *what.statement}}));
  }
  answer.outcome.error_info = std::move(info);
  return answer;
}

}  // namespace noetl::worker
