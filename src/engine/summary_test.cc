#include "engine/summary.h"

#include <string>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/sha256.h"
#include "base/testing.h"

namespace noetl::engine {
namespace {

TEST(Summary, SmallValuesStayReadable) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"null", "null"},
      {"true", "true"},
      {"12", "12"},
      {"\"text\"", "\"text\""},
      {"[]", R"({"_count":0})"},
      {"[1,2,3]", "[1]"},
      {"{}", "{}"},
      {R"({"a":{"b":[{"c":1},{"c":2}]}})", R"({"a":{"b":[{"c":1}]}})"},
      {R"([[[[[[[[1]]]]]]]])", R"([[[[[[[[1]]]]]]]])"},
      {R"([[[[[[[[[1]]]]]]]]])", R"([[[[[[[[{"_count":1}]]]]]]]])"},
      {R"([[[[[[[[{"a":1}]]]]]]]])", R"([[[[[[[[{"_count":1,"_keys":true}]]]]]]]])"},
  };
  for (const auto& [value, summary] : rows)
    EXPECT_EQ(Summarise(Parse(value)), Parse(summary)) << value;
}

TEST(Summary, LongTextsBecomeTheirLength) {
  EXPECT_EQ(Summarise(Json(std::string(512, 'x'))), Json(std::string(512, 'x')));
  EXPECT_EQ(Summarise(Json(std::string(513, 'x'))), Parse(R"({"_len":513})"));
}

TEST(Summary, IsBoundedAndSaysWhereItWasCut) {
  JsonObjectBuilder wide;
  for (int i = 0; i < 10'000; ++i) wide.Add("key" + std::to_string(i), i);
  const Json summary = Summarise(wide.Build());
  EXPECT_TRUE(summary["_truncated"].AsBool());
  EXPECT_EQ(summary["key0"], Json(0));
  EXPECT_LT(JsonSize(summary), 2 * kSummaryBytesMax);
  Json deep = Json(1);
  for (int i = 0; i < 100; ++i) deep = Json::Object({{"a", deep}, {"b", std::string(400, 'x')}});
  EXPECT_LT(JsonSize(Summarise(deep)), 2 * kSummaryBytesMax);
}

TEST(Summary, ReferencesCarryHashSummaryAndSelectedFields) {
  const Json body = Parse(R"({"id":7,"rows":[1,2,3],"name":"n"})");
  const Json fields = Parse(
      R"([{"path":"rows","as":"rows"},{"path":"$.rows[1]","as":"second"},{"path":"missing","as":"m"}])");
  const Json reference = MakeReference("noetl://execution/1/result/a/2", body, fields);
  EXPECT_EQ(reference["ref"].AsString(), "noetl://execution/1/result/a/2");
  EXPECT_EQ(reference["kind"].AsString(), "result_ref");
  EXPECT_EQ(reference["meta"]["bytes"], Json(WriteJson(body).size()));
  EXPECT_EQ(reference["meta"]["sha256"].AsString(), Sha256Hex(WriteJson(body)));
  EXPECT_EQ(reference["extracted"], Parse(R"({"id":7,"rows":[1],"name":"n"})"));
  EXPECT_EQ(reference["selected"], Parse(R"({"rows":[1,2,3],"second":2})"));
  EXPECT_FALSE(MakeReference("r", body, Json()).Has("selected"));
}

TEST(Summary, SelectedFieldsAreBoundedTogether) {
  const Json body =
      Json::Object({{"a", std::string(60'000, 'a')}, {"b", std::string(10'000, 'b')}, {"c", 1}});
  const Json fields =
      Parse(R"([{"path":"a","as":"a"},{"path":"b","as":"b"},{"path":"c","as":"c"}])");
  const Json selected = MakeReference("r", body, fields)["selected"];
  EXPECT_EQ(selected["a"], body["a"]);
  EXPECT_EQ(selected["b"], Parse(R"({"_len":10002})"));
}

}  // namespace
}  // namespace noetl::engine
