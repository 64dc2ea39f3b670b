// What went wrong in PostgreSQL, as the answer of a tool.
//
// One table from SQLSTATE to kind and whether trying again may help. The password of the connection
// never shows, whatever a message says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pg/failure.h"
#include "worker/tool.h"

namespace noetl::worker {

struct PostgresFailure {
  pg::Failure failure;
  std::string_view context;  // "Query failed", "Failed to get connection" ...
  std::optional<std::size_t> statement;
  std::string_view password;
};

ToolAnswer PostgresError(const PostgresFailure& what);

}  // namespace noetl::worker
