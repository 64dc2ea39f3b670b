#include "api/openapi.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/route_table.h"
#include "base/check.h"
#include "base/json_io.h"
#include "base/text.h"

namespace noetl::api {

namespace {

constexpr std::string_view kErrorRef = "#/components/schemas/Error";

// Error answers that a document names for each route, by what can go wrong with it.
struct ErrorAnswer {
  int status;
  std::string_view meaning;
};
constexpr ErrorAnswer kErrorAnswers[] = {
    {400, "a parameter or the JSON of the body cannot be read"},
    {401, "login is on and nobody has logged in"},
    {403, "not allowed for this caller"},
    {404, "there is no such thing"},
    {413, "the body is too large"},
    {415, "the body is not declared as JSON"},
    {422, "the body does not say what it should"},
    {500, "a fault of the server; its log has the request id"},
    {503, "not possible at the moment; try again after Retry-After seconds"},
};

bool TakesJson(const Route& route) {
  return route.body == BodyKind::kJson || route.body == BodyKind::kOptional;
}

bool CanFail(const Route& route, int status) {
  const bool body = route.body != BodyKind::kNone;
  switch (status) {
    case 400: return TakesJson(route) || !route.query.empty() || route.path.contains('{');
    case 401: return route.scope != Scope::kOpen;
    case 404: return route.path.contains('{');
    case 413: return body;
    case 415:
    case 422: return TakesJson(route);
    default: return true;
  }
}

// Texts of the table that are not JSON are a mistake in our code.
Json Example(const Route& route, std::string_view text) {
  Result<Json> example = ParseJson(text);
  NOETL_CHECK(example.has_value(), "an example of a route is not JSON");
  return example ? std::move(*example) : Json(route.path);
}

Json JsonContent(const Json& example) {
  return Json::Object(
      {{"application/json", Json::Object({{"schema", SchemaOf(example)}, {"example", example}})}});
}

Json ParameterSchema(std::string_view type) {
  if (type == "timestamp") return Json::Object({{"type", "string"}, {"format", "date-time"}});
  return Json::Object({{"type", type}});
}

Json ParametersOf(const Route& route) {
  std::vector<Json> parameters;
  for (std::string_view segment : PathSegments(route.path)) {
    const std::string_view name = ParameterName(segment);
    if (name.empty()) continue;
    JsonObjectBuilder parameter;
    parameter.Add("name", name).Add("in", "path").Add("required", true);
    parameter.Add("schema", Json::Object({{"type", "string"}}));
    if (IsRest(segment)) {
      parameter.Add("description", "may have slashes").Add("x-rest", true);
    }
    parameters.push_back(parameter.Build());
  }
  for (const Parameter& query : route.query) {
    parameters.push_back(Json::Object({{"name", query.name},
                                       {"in", "query"},
                                       {"description", query.meaning},
                                       {"schema", ParameterSchema(query.type)}}));
  }
  return Json::Array(std::move(parameters));
}

Json RequestBodyOf(const Route& route) {
  if (route.body == BodyKind::kNone) return {};
  JsonObjectBuilder body;
  body.Add("required", route.body == BodyKind::kJson);
  if (route.body == BodyKind::kRaw) {
    body.Add("content", Json::Object({{"application/octet-stream", Json::Object()}}));
  } else if (route.request.empty()) {
    body.Add("content", Json::Object({{"application/json", Json::Object()}}));
  } else {
    body.Add("content", JsonContent(Example(route, route.request)));
  }
  return body.Build();
}

Json ResponsesOf(const Route& route) {
  JsonObjectBuilder responses;
  JsonObjectBuilder success;
  success.Add("description", "done");
  if (!route.response.empty()) success.Add("content", JsonContent(Example(route, route.response)));
  responses.Add(std::to_string(route.success), success.Build());
  for (const ErrorAnswer& answer : kErrorAnswers) {
    if (!CanFail(route, answer.status)) continue;
    responses.Add(
        std::to_string(answer.status),
        Json::Object({{"$ref", fmt::format("#/components/responses/{}", answer.status)}}));
  }
  return responses.Build();
}

// "get_api_executions_execution_id_status": unique because method and path are.
std::string OperationId(const Route& route) {
  std::string id = ToLower(route.method);
  for (std::string_view segment : PathSegments(route.path)) {
    const std::string_view name = ParameterName(segment);
    id += '_';
    for (char c : name.empty() ? segment : name) {
      id += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
  }
  return id;
}

Json OperationOf(const Route& route) {
  JsonObjectBuilder operation;
  operation.Add("operationId", OperationId(route)).Add("summary", route.summary);
  operation.Add("tags", Json::Array({route.family}));
  operation.Add("x-scope", ScopeName(route.scope));
  operation.Add("parameters", ParametersOf(route));
  operation.AddSome("requestBody", RequestBodyOf(route));
  operation.Add("responses", ResponsesOf(route));
  if (route.scope == Scope::kOpen) {
    operation.Add("security", Json::Array());
  } else if (route.scope == Scope::kInternal) {
    operation.Add("security", Json::Array({Json::Object({{"internal", Json::Array()}})}));
  }
  return operation.Build();
}

Json ErrorSchema() {
  const auto text = [](std::string_view meaning) {
    return Json::Object({{"type", "string"}, {"description", meaning}});
  };
  return Json::Object(
      {{"type", "object"},
       {"required", Json::Array({"error", "status", "detail", "code", "request_id"})},
       {"properties",
        Json::Object({{"error", text("what is wrong, for people")},
                      {"status", Json::Object({{"type", "integer"}})},
                      {"detail", text("the same as error")},
                      {"code", text("what is wrong, for programs")},
                      {"details", Json::Object({{"description", "a list of what is wrong"}})},
                      {"request_id", text("finds the request in the log")}})}});
}

Json Components() {
  JsonObjectBuilder responses;
  for (const ErrorAnswer& answer : kErrorAnswers) {
    const Json content = Json::Object(
        {{"application/json", Json::Object({{"schema", Json::Object({{"$ref", kErrorRef}})}})}});
    responses.Add(std::to_string(answer.status),
                  Json::Object({{"description", answer.meaning}, {"content", content}}));
  }
  const Json bearer = Json::Object({{"type", "http"}, {"scheme", "bearer"}});
  const Json session =
      Json::Object({{"type", "apiKey"}, {"in", "header"}, {"name", "X-Session-Token"}});
  return Json::Object(
      {{"schemas", Json::Object({{"Error", ErrorSchema()}})},
       {"responses", responses.Build()},
       {"securitySchemes",
        Json::Object({{"token", bearer}, {"session", session}, {"internal", bearer}})}});
}

}  // namespace

std::string_view ScopeName(Scope scope) {
  constexpr std::string_view kNames[] = {"open",   "viewer", "operator",
                                         "worker", "admin",  "internal"};
  return kNames[static_cast<std::size_t>(scope)];
}

std::string OpenApiPath(std::string_view path) {
  std::string plain;
  for (std::string_view segment : PathSegments(path)) {
    plain += '/';
    if (IsRest(segment)) {
      plain += fmt::format("{{{}}}", ParameterName(segment));
    } else {
      plain += segment;
    }
  }
  return plain;
}

Json SchemaOf(const Json& example) {
  switch (example.type()) {
    case Json::Type::kBool: return Json::Object({{"type", "boolean"}});
    case Json::Type::kInt:
    case Json::Type::kUint:
    case Json::Type::kBigInt: return Json::Object({{"type", "integer"}});
    case Json::Type::kDouble: return Json::Object({{"type", "number"}});
    case Json::Type::kString: return Json::Object({{"type", "string"}});
    case Json::Type::kArray: {
      if (example.empty()) return Json::Object({{"type", "array"}});
      return Json::Object({{"type", "array"}, {"items", SchemaOf(example.At(0))}});
    }
    case Json::Type::kObject: {
      JsonObjectBuilder properties;
      for (const JsonMember& member : example.members()) {
        properties.Add(member.key(), SchemaOf(member.value));
      }
      return Json::Object({{"type", "object"}, {"properties", properties.Build()}});
    }
    case Json::Type::kNull: break;  // it may be anything
  }
  return Json::Object();
}

Json MakeOpenApi(std::span<const Route* const> routes, std::string_view version) {
  std::vector<std::pair<std::string, JsonObjectBuilder>> paths;  // in the order of the table
  std::vector<Json> tags;
  for (const Route* route : routes) {
    const std::string path = OpenApiPath(route->path);
    auto entry = std::ranges::find(
        paths, path, [](const auto& known) -> const std::string& { return known.first; });
    if (entry == paths.end()) entry = paths.emplace(paths.end(), path, JsonObjectBuilder());
    entry->second.Add(ToLower(route->method), OperationOf(*route));
    const Json tag = Json::Object({{"name", route->family}});
    if (std::ranges::find(tags, tag) == tags.end()) tags.push_back(tag);
  }
  JsonObjectBuilder path_items;
  for (auto& [path, operations] : paths) path_items.Add(path, operations.Build());
  return Json::Object({{"openapi", "3.1.0"},
                       {"info", Json::Object({{"title", "noetl"}, {"version", version}})},
                       {"servers", Json::Array({Json::Object({{"url", "/"}})})},
                       {"security", Json::Array({Json::Object({{"token", Json::Array()}}),
                                                 Json::Object({{"session", Json::Array()}})})},
                       {"tags", Json::Array(std::move(tags))},
                       {"paths", path_items.Build()},
                       {"components", Components()}});
}

}  // namespace noetl::api
