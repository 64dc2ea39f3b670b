#include "pg/sql_params.h"

#include <gtest/gtest.h>

#include "base/testing.h"

namespace noetl::pg {
namespace {

// "sql | a,b" or "error: ...".
std::string Bound(std::string_view sql, std::string_view params) {
  const Result<BoundStatement> bound = Bind(sql, Parse(params));
  if (!bound) return "error: " + bound.error().message;
  std::string out = bound->sql + " |";
  for (const Value& value : bound->values) out += " " + value.value_or("NULL");
  return out;
}

TEST(SqlParams, Lists) {
  EXPECT_EQ(Bound("SELECT $1, $2", R"([1, "a b"])"), "SELECT $1, $2 | 1 a b");
  EXPECT_EQ(Bound("SELECT $2, $2, '$1' -- $1\n", R"([1, null])"),
            "SELECT $1, $1, '$1' -- $1\n | NULL");
  EXPECT_EQ(Bound("SELECT $3", "[1]"), "error: params has no value for $3");
  EXPECT_EQ(Bound("SELECT $0", "[1]"), "error: params has no value for $0");
  EXPECT_EQ(Bound("SELECT $99999999999999999999", "[1]"),
            "error: params has no value for $99999999999999999999");
  std::set<std::size_t> used;
  EXPECT_TRUE(Bind("SELECT $2", Parse("[1, 2, 3]"), &used).has_value());
  EXPECT_EQ(used, (std::set<std::size_t>{1}));
}

TEST(SqlParams, Maps) {
  EXPECT_EQ(Bound("SELECT :a, %(b)s, :a", R"({"a": 1, "b": true, "c": 3})"),
            "SELECT $1, $2, $1 | 1 true");
  EXPECT_EQ(Bound("SELECT ':a', \":a\", $$:a %(a)s$$ /* :a */ -- %(a)s", R"({"a": 1})"),
            "SELECT ':a', \":a\", $$:a %(a)s$$ /* :a */ -- %(a)s |");
  EXPECT_EQ(Bound("SELECT :a::int, x::text, y[1:a], z[:a], w[b:a]", R"({"a": 1})"),
            "SELECT $1::int, x::text, y[1:a], z[:a], w[b:a] | 1");
  EXPECT_EQ(Bound("SELECT 7 % (a)", R"({"a": 1})"), "SELECT 7 % (a) |");
  EXPECT_EQ(Bound("SELECT f(x := :a)", R"({"a": 1})"), "SELECT f(x := $1) | 1");
  EXPECT_EQ(Bound("SELECT :b", R"({"a": 1})"), "error: params has no value for b");
  EXPECT_EQ(Bound("SELECT (:a),:a", R"({"a": {"k": [1]}})"), R"(SELECT ($1),$1 | {"k":[1]})");
}

TEST(SqlParams, Values) {
  const std::pair<const char*, Value> cases[] = {{"null", std::nullopt},
                                                 {"true", "true"},
                                                 {"-5", "-5"},
                                                 {"18446744073709551615", "18446744073709551615"},
                                                 {"1.5", "1.5"},
                                                 {R"("")", ""},
                                                 {R"([1, "a"])", R"([1,"a"])"}};
  for (const auto& [json, text] : cases) EXPECT_EQ(ToParameter(Parse(json)).value(), text) << json;
  EXPECT_EQ(ToParameter(Json(std::string_view("a\0b", 3))).error().code, "params");
}

}  // namespace
}  // namespace noetl::pg
