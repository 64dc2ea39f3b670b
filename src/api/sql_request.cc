#include "api/sql_request.h"

#include <string_view>

#include <fmt/format.h>

#include "api/route.h"
#include "base/crypto.h"
#include "base/text.h"

namespace noetl::api {

namespace {

// What would send the query somewhere else. Null and empty mean nothing.
constexpr std::string_view kElsewhere[] = {"procedure", "database", "credential",
                                           "connection_string"};

Status CheckPlace(const Json& body) {
  for (std::string_view name : kElsewhere) {
    const Json& value = body[name];
    if (value.is_null() || (value.is_string() && value.AsString().empty())) continue;
    return Fail(
        "invalid",
        fmt::format("`{}` cannot be used here: only the store of the server is queried; use a "
                    "playbook with the postgres tool for other databases",
                    name));
  }
  for (std::string_view name : {"schema", "db_schema"}) {
    NOETL_ASSIGN(const std::string schema, OptionalText(body, name));
    if (schema.empty() || schema == "noetl" || schema == "main" || schema == "public") continue;
    return Fail("invalid", fmt::format("there is no schema '{}', only noetl", schema));
  }
  return {};
}

Result<std::string> TextOf(const Json& body) {
  NOETL_ASSIGN(const std::string encoded, OptionalText(body, "query_base64"));
  if (encoded.empty()) return OptionalText(body, "query");
  const auto decoded = crypto::Base64Decode(encoded);
  if (!decoded) return Fail("invalid", "`query_base64` is not base64");
  if (FirstInvalidUtf8(*decoded)) return Fail("invalid", "`query_base64` does not hold UTF-8");
  return *decoded;
}

}  // namespace

Result<SqlRequest> ReadSqlRequest(const Json& body) {
  if (!body.is_object()) return Fail("invalid", "the body must be a JSON map");
  NOETL_TRY(CheckPlace(body));
  SqlRequest request;
  NOETL_ASSIGN(request.sql, TextOf(body));
  if (Trim(request.sql).empty()) {
    return Fail("invalid", "there is no SQL: give `query` or `query_base64`");
  }
  const Json& parameters = body["parameters"];
  if (parameters.is_null()) return request;
  if (!parameters.is_array()) {
    return Fail("invalid",
                fmt::format("`parameters` must be a list, not {}", parameters.TypeName()));
  }
  request.parameters.assign(parameters.items().begin(), parameters.items().end());
  return request;
}

}  // namespace noetl::api
