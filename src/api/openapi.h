// The OpenAPI 3.1 document of a table of routes.
//
// Made from the table alone: parameters from paths and query lists, schemas inferred from the
// examples. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/route.h"
#include "base/json.h"

namespace noetl::api {

// "viewer".
std::string_view ScopeName(Scope scope);

Json MakeOpenApi(std::span<const Route* const> routes, std::string_view version);

// A JSON schema that the example fits: types of members and items, nothing required.
Json SchemaOf(const Json& example);

// "/api/catalog/{path...}/ui_schema" -> "/api/catalog/{path}/ui_schema".
std::string OpenApiPath(std::string_view path);

}  // namespace noetl::api
