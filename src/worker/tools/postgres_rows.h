// The outcome of a script, collected as it arrives and made into a payload at the end.
//
// {columns, rows, row_count} of the last statement that gave rows, {affected_rows, command} of the
// last statement; each statement by itself as command_0, command_1 ... when there are several.
// Counts rows and bytes and says when there are too many, so that a result of any size costs
// bounded memory. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "pg/connection.h"
#include "pg/value.h"

namespace noetl::worker {

struct PostgresRowsOptions {
  pg::ValueOptions values;
  bool as_objects = true;
  std::int64_t rows_max = 0;  // 0: any number
  std::int64_t bytes_max = 0;
  // The server does not promise UTF-8: bytes that are not are replaced.
  bool clean = false;
};

class PostgresRows {
 public:
  explicit PostgresRows(PostgresRowsOptions options) : options_(options) {}

  // A new statement begins.
  void Begin() { statements_.emplace_back(); }
  void Add(const pg::ResultView& result);
  // What is too large, for a message; nullopt while all is well. What comes later is thrown away.
  const std::optional<std::string>& excess() const { return excess_; }

  // Types of columns that only the catalog can tell about.
  std::vector<pg::TypeId> UnknownTypes(const std::map<pg::TypeId, pg::TypeShape>& known) const;
  Json Payload(const std::map<pg::TypeId, pg::TypeShape>& shapes);

 private:
  struct Statement {
    std::vector<Json> names;
    std::vector<pg::TypeId> types;
    std::vector<std::vector<Json>> rows;
    bool has_rows = false;
    std::string command;
    std::int64_t affected = 0;
  };

  void AddRow(Statement& statement, const pg::ResultView& result, int row);
  bool Counts(std::size_t bytes);
  Json Rows(Statement& statement, const std::map<pg::TypeId, pg::TypeShape>& shapes) const;
  Json Own(Statement& statement, const std::map<pg::TypeId, pg::TypeShape>& shapes) const;

  PostgresRowsOptions options_;
  std::vector<Statement> statements_;
  std::optional<std::string> excess_;
  std::int64_t row_count_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace noetl::worker
