#include "api/openapi.h"

#include <set>

#include <gtest/gtest.h>

#include "api/route_table.h"
#include "api/testing.h"
#include "base/testing.h"
#include "base/text.h"

namespace noetl::api {
namespace {

// Every {"$ref": "#/a/b"} points to something.
void CheckRefs(const Json& value, const Json& document) {
  if (value.is_array()) {
    for (const Json& item : value.items()) CheckRefs(item, document);
  }
  for (const JsonMember& member : value.members()) {
    if (member.key() != "$ref") {
      CheckRefs(member.value, document);
      continue;
    }
    const std::string_view ref = member.value.AsString();
    ASSERT_TRUE(ref.starts_with("#/")) << ref;
    const Json* at = &document;
    for (std::string_view part : PathSegments(ref.substr(1))) at = &(*at)[part];
    EXPECT_FALSE(at->is_null()) << ref << " points to nothing";
  }
}

TEST(OpenApi, SchemasFromExamples) {
  EXPECT_EQ(SchemaOf(Parse(R"({"a":1,"b":[{"c":"x"}],"d":null,"e":1.5,"f":true,"g":[]})")),
            Parse(R"({"type":"object","properties":{
                      "a":{"type":"integer"},
                      "b":{"type":"array","items":{"type":"object","properties":{
                           "c":{"type":"string"}}}},
                      "d":{},"e":{"type":"number"},"f":{"type":"boolean"},
                      "g":{"type":"array"}}})"));
}

TEST(OpenApi, OneRoute) {
  static constexpr Parameter kQuery[] = {{"after", "timestamp", "only later ones"}};
  static constexpr Route kRoute = {.method = "PUT",
                                   .path = "/api/things/{id}/{path...}/tail",
                                   .family = "things",
                                   .summary = "Puts a thing",
                                   .scope = Scope::kInternal,
                                   .body = BodyKind::kJson,
                                   .query = kQuery,
                                   .request = R"({"a":1})",
                                   .response = R"({"ok":true})",
                                   .success = 201};
  const Route* const routes[] = {&kRoute};
  const Json document = MakeOpenApi(routes, "1.0");
  const Json& operation = document["paths"]["/api/things/{id}/{path}/tail"]["put"];
  EXPECT_EQ(operation["operationId"], Json("put_api_things_id_path_tail"));
  EXPECT_EQ(operation["parameters"].size(), 3u);
  EXPECT_EQ(operation["parameters"].At(1)["x-rest"], Json(true));
  EXPECT_EQ(operation["parameters"].At(2)["schema"],
            Parse(R"({"type":"string","format":"date-time"})"));
  EXPECT_EQ(operation["requestBody"]["content"]["application/json"]["example"],
            Parse(R"({"a":1})"));
  EXPECT_EQ(operation["responses"]["201"]["content"]["application/json"]["example"],
            Parse(R"({"ok":true})"));
  EXPECT_TRUE(operation["responses"].Has("422"));
  EXPECT_EQ(operation["security"], Parse(R"([{"internal":[]}])"));
}

// ---- the whole table

TEST(OpenApi, HasEveryRoute) {
  TestApi api;
  const Json& document = api.router->OpenApi();
  EXPECT_EQ(document["openapi"], Json("3.1.0"));
  EXPECT_EQ(document["info"]["version"], Json("1.2.3"));
  std::size_t operations = 0;
  for (const JsonMember& path : document["paths"].members()) operations += path.value.size();
  EXPECT_EQ(operations, api.router->routes().size());
  std::set<std::string> ids;
  for (const Route* route : api.router->routes()) {
    const Json& operation = document["paths"][OpenApiPath(route->path)][ToLower(route->method)];
    EXPECT_TRUE(operation.is_object()) << route->method << " " << route->path;
    EXPECT_TRUE(ids.insert(operation["operationId"].ToString()).second)
        << operation["operationId"].AsString();
  }
  CheckRefs(document, document);
}

// Answers of these are no JSON: text, bytes, or server-sent events.
bool AnswersOtherwise(const Route& route) {
  return route.path == "/metrics" || route.path.contains("/stream") ||
         (route.method == "GET" && route.path.contains("/objects/")) || route.success == 204;
}

void CheckDescription(const Route& route) {
  SCOPED_TRACE(std::string(route.method) + " " + std::string(route.path));
  EXPECT_FALSE(route.summary.empty());
  EXPECT_FALSE(route.summary.ends_with('.'));
  EXPECT_FALSE(route.family.empty());
  EXPECT_NE(route.handle, nullptr);
  EXPECT_GT(route.body_max, 0u);
  EXPECT_TRUE(route.path.starts_with("/"));
  EXPECT_TRUE(!route.response.empty() || AnswersOtherwise(route)) << "an example of the answer";
  if (route.body == BodyKind::kJson) {
    EXPECT_FALSE(route.request.empty()) << "an example of the body";
  }
  for (std::string_view example : {route.request, route.response}) {
    EXPECT_TRUE(example.empty() || ParseJson(example).has_value()) << example;
  }
  // One check guards them all.
  if (route.path.starts_with("/api/internal/")) {
    EXPECT_EQ(route.scope, Scope::kInternal);
  }
}

TEST(OpenApi, EveryRouteIsDescribed) {
  TestApi api;
  for (const Route* route : api.router->routes()) CheckDescription(*route);
}

TEST(OpenApi, IsServed) {
  TestApi api;
  for (const char* path : {"/openapi.json", "/api/openapi.json"}) {
    const Asked asked = api.Get(path);
    EXPECT_EQ(asked.status(), 200);
    EXPECT_EQ(asked.body, api.router->OpenApi());
  }
}

}  // namespace
}  // namespace noetl::api
