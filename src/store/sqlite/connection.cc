#include "store/sqlite/connection.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace noetl::store {

namespace {

// A writer waits this long for the lock of another process (a backup tool, the sqlite3 shell).
constexpr int kBusyTimeoutMs = 5000;

struct CodeName {
  int sqlite_code;
  std::string_view code;
};
// Whatever is not here is "io": the caller may try again.
constexpr std::array<CodeName, 9> kCodes = {{{SQLITE_FULL, "disk_full"},
                                             {SQLITE_READONLY, "read_only"},
                                             {SQLITE_PERM, "read_only"},
                                             {SQLITE_CORRUPT, "corrupt"},
                                             {SQLITE_NOTADB, "corrupt"},
                                             {SQLITE_CONSTRAINT, "bad_row"},
                                             {SQLITE_TOOBIG, "bad_row"},
                                             {SQLITE_MISMATCH, "bad_row"},
                                             {SQLITE_RANGE, "bad_row"}}};

int FlagsOf(Connection::Mode mode) {
  constexpr int kCommon = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  switch (mode) {
    case Connection::Mode::kCreate: return kCommon | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    case Connection::Mode::kWrite: return kCommon | SQLITE_OPEN_READWRITE;
    case Connection::Mode::kRead: return kCommon | SQLITE_OPEN_READONLY;
    case Connection::Mode::kImmutable: return kCommon | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  }
  return kCommon;
}

// Statistics of memory cost a lock for every allocation of every connection, and nobody reads them.
// Fails without harm when the library is in use already.
void ConfigureOnce() {
  static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)configured;
}

// A path inside a URI: only what has a meaning there is escaped.
std::string ImmutableUri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri.push_back(c);
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

std::string_view ErrorCodeOf(int sqlite_code) {
  for (const CodeName& entry : kCodes) {
    if (entry.sqlite_code == (sqlite_code & 0xff)) return entry.code;
  }
  return "io";
}

bool IsRowFault(int sqlite_code) { return ErrorCodeOf(sqlite_code) == "bad_row"; }

Sha256Digest Query::GetDigest(int column) const {
  Sha256Digest digest{};
  const void* bytes = sqlite3_column_blob(statement_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  if (bytes) std::memcpy(digest.data(), bytes, std::min(size, digest.size()));
  return digest;
}

std::string Query::GetBytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  if (!bytes) return {};
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

Result<std::unique_ptr<Connection>> Connection::Open(const std::string& path, Mode mode,
                                                     const std::string& vfs) {
  ConfigureOnce();
  sqlite3* handle = nullptr;
  const std::string name = mode == Mode::kImmutable ? ImmutableUri(path) : path;
  const int code =
      sqlite3_open_v2(name.c_str(), &handle, FlagsOf(mode), vfs.empty() ? nullptr : vfs.c_str());
  std::unique_ptr<Connection> connection(new Connection(handle, path));
  if (code != SQLITE_OK) return connection->Failed(code);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  for (const auto& [sql, statement] : text_statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

std::unexpected<Error> Connection::Failed(int sqlite_code) const {
  const char* text = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(sqlite_code);
  return Fail(ErrorCodeOf(sqlite_code), fmt::format("{}: {}", path_, text));
}

Status Connection::Finished(const Query& query) const {
  if (query.code() == SQLITE_DONE || query.code() == SQLITE_ROW) return {};
  return Failed(query.code());
}

Result<sqlite3_stmt*> Connection::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Failed(code);
  return statement;
}

Result<Query> Connection::Get(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  if (!statement) {
    NOETL_ASSIGN(statement, Prepare(sql));
  }
  return Query(statement);
}

Result<Query> Connection::GetText(const std::string& sql) {
  sqlite3_stmt*& statement = text_statements_[sql];
  if (!statement) {
    NOETL_ASSIGN(statement, Prepare(sql));
  }
  return Query(statement);
}

Status Connection::Execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return Failed(code);
  return {};
}

Result<std::int64_t> Connection::Number(const char* sql) {
  NOETL_ASSIGN(Query query, Get(sql));
  const std::int64_t number = query.Next() ? query.GetInt(0) : 0;
  NOETL_TRY(Finished(query));
  return number;
}

Result<std::string> Connection::Word(const char* sql) {
  NOETL_ASSIGN(Query query, Get(sql));
  std::string word = query.Next() ? query.GetString(0) : std::string();
  NOETL_TRY(Finished(query));
  return word;
}

}  // namespace noetl::store
