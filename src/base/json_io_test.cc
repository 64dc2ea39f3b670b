#include "base/json_io.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_number.h"
#include "base/json_syntax.h"
#include "base/sha256.h"

namespace noetl {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Json Parse(std::string_view text, JsonNumbers numbers = JsonNumbers::kTyped) {
  auto parsed = ParseJson(text, numbers);
  EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().message);
  return parsed ? *parsed : Json("refused");
}

std::string ErrorOf(std::string_view text, JsonNumbers numbers = JsonNumbers::kTyped) {
  auto parsed = ParseJson(text, numbers);
  if (parsed) return "accepted";
  return parsed.error().code + ": " + parsed.error().message;
}

std::string Nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(CanonicalJson, SharedVectors) {
  const Json vectors = Parse(ReadFile(NOETL_SOURCE_DIR "/tests/data/canonical_json_vectors.json"));
  struct Dialect {
    const char* name;
    JsonNumbers numbers;
    std::string (*write)(const Json&);
  };
  const Dialect dialects[] = {{"typed", JsonNumbers::kTyped, &CanonicalJson},
                              {"typed_strict", JsonNumbers::kTypedStrict, &CanonicalJson},
                              {"flat", JsonNumbers::kFlat, &CanonicalJsonFlat}};
  std::size_t checked = 0;
  for (const Json& vector : vectors["cases"].items()) {
    for (const Dialect& dialect : dialects) {
      const std::string_view input = vector["input"].AsString();
      const std::string canonical = dialect.write(Parse(input, dialect.numbers));
      EXPECT_EQ(canonical, vector[dialect.name]["canonical"].AsString()) << dialect.name << input;
      EXPECT_EQ(Sha256Hex(canonical), vector[dialect.name]["sha256"].AsString());
      ++checked;
    }
  }
  EXPECT_GE(checked, 48u);
}

TEST(ParseJson, Values) {
  EXPECT_TRUE(Parse("null").is_null());
  EXPECT_EQ(Parse(" true "), Json(true));
  EXPECT_EQ(Parse("\n-12\t"), Json(-12));
  EXPECT_EQ(Parse("\"a\""), Json("a"));
  EXPECT_EQ(Parse("\"\""), Json(""));
  EXPECT_EQ(Parse("\"a\\\"\\\\\""), Json("a\"\\"));
  EXPECT_EQ(Parse(R"( {"a" : [1, {"b":null} , "x" ] , "a b\n":{}} )"),
            Json::Object({{"a", Json::Array({1, Json::Object({{"b", nullptr}}), "x"})},
                          {"a b\n", Json::Object()}}));
  EXPECT_EQ(Parse("[[],{}]"), Json::Array({Json::Array(), Json::Object()}));
  EXPECT_EQ(Parse("\"\\u00e9\\ud83d\\ude00\\/\""), Json("\xc3\xa9\xf0\x9f\x98\x80/"));
  const std::string long_text(100, 'x');
  EXPECT_EQ(Parse("{\"k\":\"" + long_text + "\"}")["k"], Json(long_text));
}

TEST(ParseJson, NumbersByMode) {
  EXPECT_EQ(Parse("18446744073709551615").type(), Json::Type::kUint);
  EXPECT_EQ(Parse("9223372036854775807").type(), Json::Type::kInt);
  EXPECT_EQ(Parse("18446744073709551616").type(), Json::Type::kDouble);
  EXPECT_EQ(Parse("-9223372036854775809").type(), Json::Type::kDouble);
  EXPECT_EQ(Parse("3.0").type(), Json::Type::kDouble);
  EXPECT_EQ(Parse("1e2"), Json(100.0));
  EXPECT_TRUE(std::signbit(Parse("-0").AsDouble()));
  EXPECT_EQ(Parse("-0", JsonNumbers::kFlat), Json(0));
  EXPECT_EQ(Parse("18446744073709551616", JsonNumbers::kFlat),
            Json::BigInt("18446744073709551616"));
  EXPECT_EQ(Parse("1e-400"), Json(0.0));
  EXPECT_TRUE(std::signbit(Parse("-1e-400").AsDouble()));
  EXPECT_EQ(Parse("0e999999999999"), Json(0.0));
  EXPECT_EQ(Parse("0.000e999999999999", JsonNumbers::kTypedStrict), Json(0.0));
  EXPECT_EQ(Parse("9007199254740993.0", JsonNumbers::kTypedStrict), Json(9007199254740994.0));
  EXPECT_EQ(Parse("1e-330", JsonNumbers::kTypedStrict), Json(0.0));
  EXPECT_EQ(Parse("123e-320", JsonNumbers::kTypedStrict), Json(123.0 / 1e308 / 1e12));
  EXPECT_EQ(Parse("18446744073709551616000.0", JsonNumbers::kTypedStrict),
            Json(1844674407370955161.0 * 1e4));
}

TEST(ParseJson, Refusals) {
  for (const char* bad : {"",
                          " ",
                          "[",
                          "]",
                          "{",
                          "}",
                          "[1",
                          "[1,",
                          "[1,]",
                          "[,1]",
                          "[1 2]",
                          "[1}",
                          "{\"a\":1",
                          "{\"a\"}",
                          "{\"a\":}",
                          "{\"a\":1,}",
                          "{a:1}",
                          "{1:2}",
                          "{\"a\" 1}",
                          "{\"a\":1 \"b\":2}",
                          "[[1]",
                          "1 2",
                          "[] []",
                          "{} x",
                          "[]]",
                          "truex",
                          "tru",
                          "nul",
                          "nan",
                          "NaN",
                          "Infinity",
                          "01",
                          "-",
                          "-01",
                          "+1",
                          "1.",
                          ".5",
                          "1.e3",
                          "1e",
                          "1e+",
                          "0x1",
                          "1_000",
                          "\"",
                          "\"\\\"",
                          "\"\\x\"",
                          "\"\\u12\"",
                          "\"\\u12g4\"",
                          "\"\\ud800\"",
                          "\"\\ud800x\"",
                          "\"\\ud800\\u0041\"",
                          "\"\\udc00\"",
                          "\"a\nb\"",
                          "\"\t\"",
                          "'a'",
                          "[1]//c",
                          "\xff",
                          "\"\xc3\"",
                          "\"\xed\xa0\x80\"",
                          "\xef\xbb\xbf[]",
                          "1e400",
                          "-1e400",
                          "[true false]",
                          "{\"a\":1}}",
                          "\"a\" \"b\"",
                          "\"a\"b",
                          "{\"a\":\"b\":1}",
                          "[\"a\":1]",
                          "[1:2]",
                          "{\"a\":1:2}",
                          "{\"a\":true:2}"}) {
    for (const auto numbers :
         {JsonNumbers::kTyped, JsonNumbers::kTypedStrict, JsonNumbers::kFlat}) {
      EXPECT_FALSE(ParseJson(bad, numbers)) << bad;
      EXPECT_TRUE(ExplainJsonError(bad, numbers)) << bad;
    }
  }
  EXPECT_FALSE(ParseJson(std::string_view("[1,\0]", 5)));
  EXPECT_FALSE(ParseJson(std::string_view("1\0", 2)));
  EXPECT_FALSE(ParseJson(std::string_view("[1]\0", 4)));
}

TEST(ParseJson, MessagesTellThePlace) {
  EXPECT_EQ(ErrorOf("{\"a\": 1,\n \"b\" 2}"), "json_syntax: line 2:6: expected ':', found '2'");
  EXPECT_EQ(ErrorOf("[1, \xc3\xa9]"), "json_syntax: line 1:5: expected a value, found '\xc3\xa9'");
  EXPECT_EQ(ErrorOf("[\"\xc3\xa9\" 1]"), "json_syntax: line 1:6: expected ',' or ']', found '1'");
  EXPECT_EQ(ErrorOf("{\"a\":1"), "json_syntax: line 1:7: expected ',' or '}', found the end");
  EXPECT_EQ(ErrorOf(""), "json_syntax: line 1:1: expected a value, found the end");
  EXPECT_EQ(ErrorOf("[1e999]"), "json_syntax: line 1:2: the number is too large");
  EXPECT_EQ(ErrorOf("\n\"\xff\""), "json_syntax: line 2:2: the text is not valid UTF-8");
  EXPECT_EQ(ErrorOf("[\"\\ud800\"]"),
            "json_syntax: line 1:3: bad escape in a string (or half of a surrogate pair)");
  EXPECT_EQ(ErrorOf(Nested(128)), "json_depth: line 1:128: nested deeper than 127 levels");
}

TEST(ParseJson, DepthIsBounded) {
  EXPECT_TRUE(ParseJson(Nested(127)));
  EXPECT_FALSE(ParseJson(Nested(128)));
  EXPECT_FALSE(ParseJson(Nested(1'000'000)));
  EXPECT_FALSE(ParseJson(std::string(1'000'000, '[')));
  std::string objects;
  for (int i = 0; i < 200'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(ErrorOf(objects).substr(0, 10), "json_depth");
}

TEST(ParseJson, LastDuplicateKeyWins) {
  EXPECT_EQ(WriteJson(Parse(R"({"a":1,"b":2,"a":3})")), R"({"a":3,"b":2})");
  std::string many = "{";
  for (int i = 0; i < 40; ++i) many += fmt::format("\"k{}\":{},", i % 20, i);
  many.back() = '}';
  const Json object = Parse(many);
  EXPECT_EQ(object.size(), 20u);
  EXPECT_EQ(object["k3"], Json(23));
}

TEST(ParseJson, LargeDocumentsAndReuse) {
  std::string text = "[";
  for (int i = 0; i < 200'000; ++i)
    text += fmt::format("{{\"id\":{},\"name\":\"item {}\"}},", i, i);
  text.back() = ']';
  const Json big = Parse(text);
  EXPECT_EQ(big.size(), 200'000u);
  EXPECT_EQ(WriteJson(big), text);
  EXPECT_FALSE(ParseJson("[1,"));
  EXPECT_EQ(Parse("[1]"), Json::Array({1}));
}

TEST(WriteJson, CompactAndPretty) {
  const Json value = Json::Object({{"b", Json::Array({1, -2.5, true, nullptr})},
                                   {"a", Json::Object({{"\xc3\xa9", "x\"\n\x01"}})},
                                   {"e", Json::Array()},
                                   {"o", Json::Object()}});
  const std::string compact =
      "{\"b\":[1,-2.5,true,null],\"a\":{\"\xc3\xa9\":\"x\\\"\\n\\u0001\"},"
      "\"e\":[],\"o\":{}}";
  EXPECT_EQ(WriteJson(value), compact);
  EXPECT_EQ(JsonSize(value), compact.size());
  std::string appended = "x=";
  AppendJson(appended, value);
  EXPECT_EQ(appended, "x=" + compact);
  EXPECT_EQ(WriteJsonPretty(Json::Object({{"a", Json::Array({1, 2})}, {"b", Json::Object()}})),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
}

TEST(WriteJson, NoNumberForInfinity) {
  EXPECT_EQ(WriteJson(Json(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(WriteJson(Json(std::nan(""))), "null");
  EXPECT_EQ(WriteJson(Json(50.0)), "50.0");
  EXPECT_EQ(WriteJson(Json(1e16)), "1e+16");
}

TEST(WriteJson, DepthIsBounded) {
  Json deep = 1;
  for (int i = 0; i < 127; ++i) deep = Json::Array({deep});
  EXPECT_TRUE(WriteStoredJson(deep));
  EXPECT_EQ(Parse(WriteJson(deep)), deep);
  deep = Json::Array({deep});
  EXPECT_EQ(WriteStoredJson(deep).error().code, "json_depth");
  EXPECT_EQ(WriteJson(deep), std::string(127, '[') + "null" + std::string(127, ']'));
}

TEST(WriteStoredJson, PositionalDoubles) {
  const auto stored = [](double value) { return *WriteStoredJson(Json(value)); };
  EXPECT_EQ(stored(-0.0), "0.0");
  EXPECT_EQ(stored(0.0), "0.0");
  EXPECT_EQ(stored(1e20), "100000000000000000000.0");
  EXPECT_EQ(stored(1e-7), "0.0000001");
  EXPECT_EQ(stored(-1.5e-7), "-0.00000015");
  EXPECT_EQ(stored(2.5), "2.5");
  EXPECT_EQ(stored(-std::numeric_limits<double>::denorm_min()).size(), 327u);
  for (const double value : {1.7976931348623157e308, 2.2250738585072014e-308, 5e-324}) {
    EXPECT_EQ(Parse(stored(value)), Json(value));
    EXPECT_EQ(Parse(stored(-value)), Json(-value));
  }
}

TEST(WriteStoredJson, RefusesNul) {
  const Json bad = Json::Object({{"a", Json::Array({1, Json(std::string_view("x\0y", 3))})}});
  const auto stored = WriteStoredJson(bad);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, "json_nul");
  EXPECT_NE(stored.error().message.find("'a[1]'"), std::string::npos);
  EXPECT_FALSE(WriteStoredJson(Json::Object({{std::string_view("\0", 1), 1}})));
}

TEST(ReplaceNul, ReplacesInTextsAndKeys) {
  const Json bad = Json::Object({{std::string_view("k\0", 2), Json(std::string_view("\0\0", 2))},
                                 {"same", Json::Array({"a long enough text to be a node"})}});
  std::size_t replaced = 0;
  const Json clean = ReplaceNul(bad, &replaced);
  EXPECT_EQ(replaced, 3u);
  EXPECT_EQ(clean["k\xef\xbf\xbd"], Json("\xef\xbf\xbd\xef\xbf\xbd"));
  EXPECT_TRUE(clean["same"].Same(bad["same"]));
  EXPECT_TRUE(ReplaceNul(clean, &replaced).Same(clean));
  EXPECT_EQ(replaced, 0u);
}

TEST(CanonicalJsonFlat, NeverReadsPastBadText) {
  EXPECT_EQ(CanonicalJsonFlat(Json("\xf0\x9f")), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(CanonicalJsonFlat(Json("\xff"
                                   "a\xc3")),
            "\"\\ufffda\\ufffd\"");
}

Json ArbitraryJson(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 8 : 6)) {
    case 0: return Json();
    case 1: return Json(*rc::gen::arbitrary<bool>());
    case 2: return Json(*rc::gen::arbitrary<std::int64_t>());
    case 3: return Json(*rc::gen::arbitrary<std::uint64_t>());
    case 4: return Json(*rc::gen::arbitrary<double>());
    case 5: {
      std::string text;
      for (const char c : *rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127)))
        text += c;
      return Json(text + "\xe2\x98\x83");
    }
    case 6: {
      std::vector<Json> items;
      const int count = *rc::gen::inRange(0, 4);
      for (int i = 0; i < count; ++i) items.push_back(ArbitraryJson(depth - 1));
      return Json::Array(std::move(items));
    }
    default: {
      Json::Members members;
      const int count = *rc::gen::inRange(0, 16);
      for (int i = 0; i < count; ++i) {
        members.emplace_back(*rc::gen::arbitrary<bool>() ? fmt::format("key{}", i) : "same",
                             ArbitraryJson(depth - 1));
      }
      return Json::Object(std::move(members));
    }
  }
}

TEST(JsonRoundTrip, WhatIsWrittenReadsBack) {
  EXPECT_TRUE(rc::check([] {
    const Json value = ArbitraryJson(3);
    const std::string text = WriteJson(value);
    RC_ASSERT(*ParseJson(text) == value);
    RC_ASSERT(JsonSize(value) == text.size());
    RC_ASSERT(WriteJson(*ParseJson(WriteJsonPretty(value))) == text);
    const std::string canonical = CanonicalJson(value);
    RC_ASSERT(CanonicalJson(*ParseJson(canonical)) == canonical);
    const std::string flat = CanonicalJsonFlat(value);
    RC_ASSERT(CanonicalJsonFlat(*ParseJson(flat, JsonNumbers::kFlat)) == flat);
    const Json clean = ReplaceNul(value);
    RC_ASSERT(*ParseJson(*WriteStoredJson(clean)) == clean);
  }));
}

}  // namespace
}  // namespace noetl
