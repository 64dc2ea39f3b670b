// Questions of people: each has a connection of its own, which can read and nothing else.
#include <array>
#include <charconv>
#include <chrono>

#include <fmt/format.h>

#include "base/crypto.h"
#include "base/json_io.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Steps of SQLite's machine between two looks at the clock: some microseconds.
constexpr int kStepsPerLook = 1000;
// One value. Functions like zeroblob() could ask for a gigabyte.
constexpr int kValueBytesMax = 64 << 20;
// All values together; what comes after is left out as if there had been too many rows.
constexpr std::size_t kAnswerBytesMax = 256u << 20;
constexpr const char* kSchemaName = "noetl";
constexpr std::string_view kSecretColumn = "data_encrypted";

// What tells about tables; all other pragmas are refused.
constexpr std::array<std::string_view, 5> kPragmas = {"table_info", "table_xinfo", "table_list",
                                                      "index_list", "index_info"};

// SQLite declares these tables when they are first used, which looks like making one: done before
// the guard is set.
constexpr const char* kDeclareFunctions = R"sql(
SELECT 1 FROM json_each('[]'), json_tree('[]'), pragma_table_info(''), pragma_table_xinfo(''),
              pragma_table_list(''), pragma_index_list(''), pragma_index_info(''))sql";

struct Guard {
  std::string refusal;  // the first thing that was refused
  SteadyTime deadline;
};

bool IsPragma(std::string_view name) {
  return std::find(kPragmas.begin(), kPragmas.end(), name) != kPragmas.end();
}

int Refuse(Guard& guard, std::string message) {
  if (guard.refusal.empty()) guard.refusal = std::move(message);
  return SQLITE_DENY;
}

int AuthorizeRead(Guard& guard, std::string_view table, std::string_view column) {
  if ((table == "credential" || table == "keychain") && column == kSecretColumn)
    return Refuse(guard, fmt::format("{}.{} is a secret and cannot be read", table, column));
  // Pages of the file hold everything.
  if (table.starts_with("sqlite_dbpage"))
    return Refuse(guard, fmt::format("{} cannot be read", table));
  return SQLITE_OK;
}

int Authorize(void* context, int action, const char* first, const char* second, const char*,
              const char*) {
  Guard& guard = *static_cast<Guard*>(context);
  const std::string_view name = first ? first : "";
  const std::string_view detail = second ? second : "";
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_READ: return AuthorizeRead(guard, name, detail);
    case SQLITE_FUNCTION:
      if (detail != "load_extension") return SQLITE_OK;
      return Refuse(guard, "load_extension() is not allowed");
    case SQLITE_PRAGMA:
      if (IsPragma(name)) return SQLITE_OK;
      return Refuse(guard, fmt::format("PRAGMA {} is not allowed", name));
    default: return Refuse(guard, "only statements that read are allowed");
  }
}

int LookAtClock(void* context) {
  return std::chrono::steady_clock::now() > static_cast<Guard*>(context)->deadline ? 1 : 0;
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Prepared = std::unique_ptr<sqlite3_stmt, Finalize>;

std::unexpected<Error> SqlError(Connection& connection, const Guard& guard, int code) {
  if ((code & 0xff) == SQLITE_INTERRUPT) return Fail("timeout", "the query took too long");
  if (!guard.refusal.empty()) return Fail("sql", guard.refusal);
  return Fail("sql", sqlite3_errmsg(connection.handle()));
}

Result<Prepared> PrepareOne(Connection& connection, const Guard& guard, std::string_view sql) {
  if (sql.size() > static_cast<std::size_t>(kValueBytesMax)) return Fail("sql", "too long");
  Prepared statement;
  const char* at = sql.data();
  const char* const end = sql.data() + sql.size();
  while (at < end) {
    sqlite3_stmt* next = nullptr;
    const char* tail = end;
    const int code =
        sqlite3_prepare_v2(connection.handle(), at, static_cast<int>(end - at), &next, &tail);
    Prepared prepared(next);
    if (statement && (code != SQLITE_OK || prepared)) return Fail("sql", "one statement at a time");
    if (code != SQLITE_OK) return SqlError(connection, guard, code);
    if (prepared) statement = std::move(prepared);
    if (tail == at) break;  // a NUL: SQLite sees the end there
    at = tail;
  }
  if (!statement) return Fail("sql", "there is no statement");
  if (!sqlite3_stmt_readonly(statement.get()))
    return Fail("sql", "only statements that read are allowed");
  return statement;
}

void BindText(sqlite3_stmt* statement, int index, std::string_view text) {
  sqlite3_bind_text64(statement, index, text.data() ? text.data() : "", text.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
}

void BindValue(sqlite3_stmt* statement, int index, const Json& value) {
  switch (value.type()) {
    case Json::Type::kNull: sqlite3_bind_null(statement, index); break;
    case Json::Type::kBool: sqlite3_bind_int64(statement, index, value.AsBool() ? 1 : 0); break;
    case Json::Type::kInt: sqlite3_bind_int64(statement, index, value.AsInt()); break;
    case Json::Type::kUint:
    case Json::Type::kDouble: sqlite3_bind_double(statement, index, value.AsDouble()); break;
    case Json::Type::kBigInt:
    case Json::Type::kString: BindText(statement, index, value.AsString()); break;
    case Json::Type::kArray:
    case Json::Type::kObject: BindText(statement, index, WriteJson(value)); break;
  }
}

// "?2" and "$2" are the second value, "?" the next one.
Status BindAll(sqlite3_stmt* statement, std::span<const Json> parameters) {
  const int count = sqlite3_bind_parameter_count(statement);
  for (int index = 1; index <= count; ++index) {
    int place = index;
    if (const char* name = sqlite3_bind_parameter_name(statement, index); name && name[0] != '?') {
      const std::string_view digits = std::string_view(name).substr(1);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), place);
      if (error != std::errc() || end != digits.data() + digits.size() || place < 1)
        return Fail("sql", fmt::format("parameter {} has no number", name));
    }
    if (static_cast<std::size_t>(place) > parameters.size())
      return Fail("sql", fmt::format("parameter {} has no value", place));
    BindValue(statement, index, parameters[static_cast<std::size_t>(place) - 1]);
  }
  return {};
}

Json ColumnValue(sqlite3_stmt* statement, int column, std::size_t& bytes) {
  const auto text = [&](const void* data) {
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
    bytes += size;
    return data ? std::string_view(static_cast<const char*>(data), size) : std::string_view();
  };
  bytes += sizeof(Json);
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return sqlite3_column_int64(statement, column);
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_TEXT: return text(sqlite3_column_text(statement, column));
    case SQLITE_BLOB: return crypto::Base64Encode(text(sqlite3_column_blob(statement, column)));
    default: return {};
  }
}

Result<SqlConsole::Answer> ReadAnswer(Connection& connection, const Guard& guard,
                                      sqlite3_stmt* statement, std::int64_t rows_max) {
  SqlConsole::Answer answer;
  const int columns = sqlite3_column_count(statement);
  for (int i = 0; i < columns; ++i) answer.columns.emplace_back(sqlite3_column_name(statement, i));
  std::size_t bytes = 0;
  int code = SQLITE_OK;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    if (std::ssize(answer.rows) >= rows_max || bytes > kAnswerBytesMax) {
      answer.truncated = true;
      return answer;
    }
    Json::Members members;
    for (int i = 0; i < columns; ++i) {
      members.emplace_back(answer.columns[static_cast<std::size_t>(i)],
                           ColumnValue(statement, i, bytes));
    }
    answer.rows.push_back(Json::Object(std::move(members)));
  }
  if (code != SQLITE_DONE) return SqlError(connection, guard, code);
  return answer;
}

}  // namespace

Result<SqlConsole::Answer> SqliteServer::Query(std::string_view sql,
                                               std::span<const Json> parameters,
                                               std::int64_t rows_max,
                                               std::int64_t timeout_ms) const {
  NOETL_ASSIGN(std::unique_ptr<Connection> connection, Connection::Open(path_, read_mode_, vfs_));
  sqlite3* const handle = connection->handle();
  NOETL_TRY(connection->Execute("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF"));
  NOETL_TRY(connection->Execute(kDeclareFunctions));
  // "noetl.event" is then the table that "event" is.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_MAINDBNAME, kSchemaName);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kValueBytesMax);
  Guard guard{.refusal = {},
              .deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(std::max<std::int64_t>(timeout_ms, 0))};
  sqlite3_set_authorizer(handle, Authorize, &guard);
  sqlite3_progress_handler(handle, kStepsPerLook, LookAtClock, &guard);
  NOETL_ASSIGN(const Prepared statement, PrepareOne(*connection, guard, sql));
  NOETL_TRY(BindAll(statement.get(), parameters));
  return ReadAnswer(*connection, guard, statement.get(), rows_max);
}

}  // namespace noetl::store
