#include "pg/value.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"
#include "pg/failure.h"

namespace noetl::pg {
namespace {

std::string Text(TypeId type, std::string_view text, bool numbers = false) {
  return WriteJson(ToJson(type, text, {.numeric_as_number = numbers}));
}

TEST(Value, EachType) {
  struct Case {
    TypeId type;
    const char* text;
    const char* json;
  };
  const Case cases[] = {
      {16, "t", "true"},
      {16, "f", "false"},
      {20, "-9223372036854775808", "-9223372036854775808"},
      {21, "7", "7"},
      {23, "-1", "-1"},
      {26, "4294967295", "4294967295"},
      {700, "0.1", "0.1"},
      {701, "1e+300", "1e+300"},
      {701, "3", "3.0"},
      {701, "NaN", R"("NaN")"},
      {701, "-Infinity", R"("-Infinity")"},
      {1700, "12345678901234567890.1234567890", R"("12345678901234567890.1234567890")"},
      {1700, "NaN", R"("NaN")"},
      {25, "a\"b", R"("a\"b")"},
      {99999, "sad", R"("sad")"},
      {114, R"({"a": [1, null]})", R"({"a":[1,null]})"},
      {3802, "12", "12"},
      {114, "not json", R"("not json")"},
      {17, "\\x00ff10", R"("AP8Q")"},
      {17, "\\x", R"("")"},
      {17, "a\\\\b\\001", R"("YVxiAQ==")"},
      {1082, "2024-02-29", R"("2024-02-29")"},
      {1114, "2024-02-29 23:59:59", R"("2024-02-29T23:59:59")"},
      {1114, "2024-02-29 23:59:59.5", R"("2024-02-29T23:59:59.500000")"},
      {1114, "infinity", R"("infinity")"},
      {1114, "0044-03-15 12:00:00 BC", R"("0044-03-15 12:00:00 BC")"},
      {1184, "2024-01-01 10:00:00+00", R"("2024-01-01T10:00:00+00:00")"},
      {1184, "2024-01-01 01:00:00.123456+02", R"("2023-12-31T23:00:00.123456+00:00")"},
      {1184, "2024-02-28 22:00:00-03:30", R"("2024-02-29T01:30:00+00:00")"},
      {1184, "1890-01-01 00:00:00+00:53:28", R"("1889-12-31T23:06:32+00:00")"},
      {1184, "-infinity", R"("-infinity")"},
      {1184, "Mon 01 Jan 10:00:00 2024 UTC", R"("Mon 01 Jan 10:00:00 2024 UTC")"},
      {1186, "1 day 02:00:00", R"("1 day 02:00:00")"},
      {869, "10.0.0.1/8", R"("10.0.0.1/8")"},
      {3904, "[1,5)", R"x("[1,5)")x"},
      {1007, "{}", "[]"},
      {1007, "{1,NULL,-3}", "[1,null,-3]"},
      {1007, "{{1,2},{3,4}}", "[[1,2],[3,4]]"},
      {1007, "[0:1]={5,6}", "[5,6]"},
      {1007, "[0:1][2:2]={{5},{6}}", "[[5],[6]]"},
      {1009, R"({a,"b,c","d\"e\\f","NULL",NULL,"","{x}"})",
       R"(["a","b,c","d\"e\\f","NULL",null,"","{x}"])"},
      {1000, "{t,f}", "[true,false]"},
      {3807, R"({"{\"a\": 1}","[1]",null})", R"([{"a":1},[1],null])"},
      {1020, "{(1,1),(0,0);(2,2),(1,1)}", R"x(["(1,1),(0,0)","(2,2),(1,1)"])x"},
      {1185, R"({"2024-01-01 10:00:00+00"})", R"(["2024-01-01T10:00:00+00:00"])"},
      {1231, "{1.50,NaN}", R"(["1.50","NaN"])"},
      {1007, "{1,2", R"("{1,2")"},
      {1007, "nothing", R"("nothing")"},
  };
  for (const Case& each : cases) EXPECT_EQ(Text(each.type, each.text), each.json) << each.text;
}

TEST(Value, NumericAsNumber) {
  EXPECT_EQ(Text(1700, "12", true), "12");
  EXPECT_EQ(Text(1700, "1.50", true), "1.5");
  EXPECT_EQ(Text(1700, "NaN", true), R"("NaN")");
  EXPECT_EQ(Text(1231, "{1,2.5,NULL}", true), "[1,2.5,null]");
  EXPECT_EQ(Text(25, "12", true), R"("12")");
}

TEST(Value, ArraysOfOtherTypes) {
  EXPECT_EQ(WriteJson(ArrayToJson({.element = 99999}, "{sad,\"not ok\"}")), R"(["sad","not ok"])");
  EXPECT_TRUE(IsKnownType(1007));
  EXPECT_TRUE(IsKnownType(23));
  EXPECT_FALSE(IsKnownType(99999));
  EXPECT_FALSE(IsKnownType(0));
}

// As the server writes an array of text.
std::string Written(const std::vector<std::optional<std::string>>& items) {
  std::string out = "{";
  for (const auto& item : items) {
    if (out.size() > 1) out += ',';
    if (!item) {
      out += "NULL";
      continue;
    }
    out += '"';
    for (const char c : *item) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    out += '"';
  }
  return out + "}";
}

TEST(Value, AnyArrayOfTextComesBack) {
  EXPECT_TRUE(rc::check("text[]", [] {
    const auto items = *rc::gen::container<std::vector<std::optional<std::string>>>(
        rc::gen::map(rc::gen::maybe(rc::gen::container<std::string>(
                         rc::gen::element('a', '"', '\\', ',', '{', '}', ' ', 'N'))),
                     [](const rc::Maybe<std::string>& text) {
                       return text ? std::optional<std::string>(*text) : std::nullopt;
                     }));
    std::vector<Json> expected;
    for (const auto& item : items) expected.push_back(item ? Json(*item) : Json());
    RC_ASSERT(ToJson(1009, Written(items)) == Json::Array(std::move(expected)));
  }));
}

TEST(Value, AnyTextOfAnyTypeIsRead) {
  EXPECT_TRUE(rc::check("never crashes", [] {
    const auto type = *rc::gen::element<TypeId>(16, 17, 20, 114, 701, 1007, 1009, 1020, 1114, 1184,
                                                1185, 1700, 3807);
    const auto text = *rc::gen::container<std::string>(rc::gen::element(
        '{', '}', '"', ',', '\\', '1', '-', ':', ' ', '.', '+', 'x', '[', '=', 'N'));
    WriteJson(ToJson(type, text));
  }));
}

TEST(Value, FailuresOfConnecting) {
  const Failure refused = ConnectFailure(
      "connection to server at \"h\", port 1 failed: FATAL:  28P01: password authentication failed "
      "for user \"u\"\nLOCATION:  auth_failed, auth.c:326\n");
  EXPECT_EQ(refused.sqlstate, "28P01");
  EXPECT_EQ(refused.severity, "FATAL");
  EXPECT_EQ(refused.message, "password authentication failed for user \"u\"");
  const Failure down = ConnectFailure("connection failed: Connection refused\n\tIs it running?\n");
  EXPECT_EQ(down.sqlstate, "");
  EXPECT_EQ(down.message, "connection failed: Connection refused Is it running?");
}

}  // namespace
}  // namespace noetl::pg
