#include "api/ui_schema.h"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"

namespace noetl::api {
namespace {

constexpr std::string_view kDocument = R"(apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: hello
  description: says hello
  exposed_in_ui: true
workload:
  who: world
  times: 3
  ratio: 0.5
  loud: true
  nothing:
  tags: [a, b]
  password: "x"  # ui:secret
  size: m  # ui:enum=[s, 'm', "l"]
  only: one  # ui:enum=one
  db: pg_main  # ui:credential=pg_* ui:description="where rows go"
  other: 1  # ui:unknown=2 and words
  place:  # ui:description=where
    city: Bern  # ui:secret
    zip: 3000
workflow: []
)";

Json FieldNamed(const Json& schema, std::string_view name) {
  for (const Json& field : schema["fields"].items()) {
    if (field["name"].AsString() == name) return field;
  }
  return Json();
}

TEST(UiSchema, KindsFollowTheDefaults) {
  const Json schema = UiSchema(kDocument);
  EXPECT_EQ(schema["title"], Json("hello"));
  EXPECT_EQ(schema["description_markdown"], Json("says hello"));
  EXPECT_EQ(schema["exposed_in_ui"], Json(true));
  const std::pair<std::string_view, std::string_view> kinds[] = {
      {"who", "string"},   {"times", "integer"}, {"ratio", "number"}, {"loud", "boolean"},
      {"nothing", "null"}, {"tags", "array"},    {"size", "enum"},    {"place", "object"}};
  for (const auto& [name, kind] : kinds) {
    EXPECT_EQ(FieldNamed(schema, name)["kind"].AsString(), kind) << name;
  }
  EXPECT_EQ(WriteJson(FieldNamed(schema, "who")),
            R"({"name":"who","kind":"string","default":"world","description":null,"secret":false,)"
            R"("credential_glob":null,"options":null,"children":null})");
}

TEST(UiSchema, HintsStandOnTheLineOfTheField) {
  const Json schema = UiSchema(kDocument);
  EXPECT_EQ(FieldNamed(schema, "password")["secret"], Json(true));
  EXPECT_EQ(WriteJson(FieldNamed(schema, "size")["options"]), R"(["s","m","l"])");
  EXPECT_EQ(WriteJson(FieldNamed(schema, "only")["options"]), R"(["one"])");
  EXPECT_EQ(FieldNamed(schema, "db")["credential_glob"], Json("pg_*"));
  EXPECT_EQ(FieldNamed(schema, "db")["description"], Json("where rows go"));
  EXPECT_EQ(FieldNamed(schema, "db")["kind"], Json("string"));
  EXPECT_EQ(FieldNamed(schema, "other")["description"], Json());
}

TEST(UiSchema, ChildrenHaveNoHints) {
  const Json place = FieldNamed(UiSchema(kDocument), "place");
  EXPECT_EQ(place["description"], Json("where"));
  EXPECT_EQ(place["secret"], Json(false));
  ASSERT_EQ(place["children"].size(), 2u);
  EXPECT_EQ(place["children"].At(0)["secret"], Json(false));
  EXPECT_EQ(place["children"].At(1)["kind"], Json("integer"));
}

TEST(UiSchema, WhatCannotBeReadHasNoFields) {
  for (const std::string_view text :
       {"", "a: [", "workload: 3", "- a", "metadata: 3\nworkload: {}"}) {
    const Json schema = UiSchema(text);
    EXPECT_TRUE(schema["fields"].is_array()) << text;
    EXPECT_TRUE(schema["fields"].empty()) << text;
    EXPECT_TRUE(schema["title"].is_null()) << text;
  }
}

TEST(UiSchema, AnyCommentIsSafe) {
  EXPECT_TRUE(rc::check([] {
    const auto comment = *rc::gen::container<std::string>(
        rc::gen::element('u', 'i', ':', '=', '[', ']', ',', '"', '\'', '#', ' ', 's', 'e'));
    UiSchema("workload:\n  a: 1 # ui:" + comment + "\n");
  }));
}

}  // namespace
}  // namespace noetl::api
