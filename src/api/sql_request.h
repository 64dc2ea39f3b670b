// The body of a request with SQL, checked. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::api {

struct SqlRequest {
  std::string sql;
  std::vector<Json> parameters;
};

// {query | query_base64, parameters?, schema?}. "invalid" names what is wrong; other databases than
// the server's own are refused, not ignored.
Result<SqlRequest> ReadSqlRequest(const Json& body);

}  // namespace noetl::api
