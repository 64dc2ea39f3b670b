// Rows of a query as values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "store/sqlite/connection.h"

namespace noetl::store {

template <typename Read>
auto All(Connection& connection, Query& query, Read read)
    -> Result<std::vector<decltype(read(query))>> {
  std::vector<decltype(read(query))> rows;
  while (query.Next()) rows.push_back(read(query));
  NOETL_TRY(connection.Finished(query));
  return rows;
}

template <typename Read>
auto AtMostOne(Connection& connection, Query& query, Read read)
    -> Result<std::optional<decltype(read(query))>> {
  std::optional<decltype(read(query))> row;
  if (query.Next()) row = read(query);
  NOETL_TRY(connection.Finished(query));
  return row;
}

// SQLite takes a negative limit for none.
inline std::int64_t Limit(std::int64_t limit) { return std::max<std::int64_t>(limit, 0); }

}  // namespace noetl::store
