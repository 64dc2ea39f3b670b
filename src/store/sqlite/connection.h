// One SQLite connection with its prepared statements.
//
// Owned by one thread at a time. Errors become values: the code says what the caller can do about it
// (store.h lists them), the message names the file.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "base/sha256.h"

namespace noetl::store {

// One run of a prepared statement: binds, steps, and is ready for the next run when it goes.
// Texts that are bound must live until then.
class Query {
 public:
  explicit Query(sqlite3_stmt* statement) : statement_(statement) {}
  ~Query() {
    if (statement_) sqlite3_reset(statement_);
  }
  Query(Query&& other) noexcept : statement_(other.statement_), code_(other.code_) {
    other.statement_ = nullptr;
  }
  Query& operator=(Query&&) = delete;

  // Zero and empty are stored as NULL by the "Some" forms.
  Query& Int(int index, std::int64_t value) {
    sqlite3_bind_int64(statement_, index, value);
    return *this;
  }
  Query& SomeInt(int index, std::int64_t value) {
    if (value == 0) {
      sqlite3_bind_null(statement_, index);
    } else {
      sqlite3_bind_int64(statement_, index, value);
    }
    return *this;
  }
  Query& Text(int index, std::string_view text) {
    sqlite3_bind_text64(statement_, index, text.data() ? text.data() : "", text.size(),
                        SQLITE_STATIC, SQLITE_UTF8);
    return *this;
  }
  Query& SomeText(int index, std::string_view text) {
    if (!text.empty()) return Text(index, text);
    sqlite3_bind_null(statement_, index);
    return *this;
  }
  Query& Blob(int index, const Sha256Digest& digest) {
    sqlite3_bind_blob64(statement_, index, digest.data(), digest.size(), SQLITE_STATIC);
    return *this;
  }
  Query& Bytes(int index, std::string_view bytes) {
    sqlite3_bind_blob64(statement_, index, bytes.data() ? bytes.data() : "", bytes.size(),
                        SQLITE_STATIC);
    return *this;
  }
  Query& Null(int index) {
    sqlite3_bind_null(statement_, index);
    return *this;
  }

  // Whether there is another row. False at the end and on an error: see code().
  bool Next() {
    code_ = sqlite3_step(statement_);
    return code_ == SQLITE_ROW;
  }
  // Runs a statement that gives no rows.
  int Run() {
    code_ = sqlite3_step(statement_);
    return code_;
  }
  int code() const { return code_; }

  // Columns of the row. Texts are valid until the next step; NULL is 0 or empty.
  bool IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::int64_t GetInt(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string_view GetText(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    if (!text) return {};
    return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  std::string GetString(int column) const { return std::string(GetText(column)); }
  Sha256Digest GetDigest(int column) const;
  std::string GetBytes(int column) const;

 private:
  sqlite3_stmt* statement_;
  int code_ = SQLITE_OK;
};

// For classes with a member that is called Query.
using Statement = Query;

// The code for a caller, e.g. SQLITE_FULL is "disk_full".
std::string_view ErrorCodeOf(int sqlite_code);
// Whether the row is at fault, and not the disk.
bool IsRowFault(int sqlite_code);

class Connection {
 public:
  enum class Mode { kCreate, kWrite, kRead, kImmutable };

  // Opens the file; kCreate makes it when it is missing.
  static Result<std::unique_ptr<Connection>> Open(const std::string& path, Mode mode,
                                                  const std::string& vfs);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // `sql` must be a constant: its address is the key under which the statement is kept.
  Result<Query> Get(const char* sql);
  // A statement whose text is made at run time; kept as well, so there must be few of them.
  Result<Query> GetText(const std::string& sql);
  // One or more statements without rows or arguments.
  Status Execute(const std::string& sql);
  // The first column of the first row.
  Result<std::int64_t> Number(const char* sql);
  Result<std::string> Word(const char* sql);

  // An error after a failed call.
  std::unexpected<Error> Failed(int sqlite_code) const;
  // Ok when the query went to its end.
  Status Finished(const Query& query) const;

  bool InTransaction() const { return sqlite3_get_autocommit(handle_) == 0; }
  std::int64_t Changes() const { return sqlite3_changes64(handle_); }
  sqlite3* handle() { return handle_; }
  const std::string& path() const { return path_; }

 private:
  Connection(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Result<sqlite3_stmt*> Prepare(std::string_view sql);

  sqlite3* handle_;
  std::string path_;
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
  std::unordered_map<std::string, sqlite3_stmt*> text_statements_;
};

}  // namespace noetl::store
