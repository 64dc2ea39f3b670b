#include "base/text.h"

#include <limits>

#include <gtest/gtest.h>

namespace noetl {
namespace {

TEST(NearestName, FindsTypos) {
  const std::string_view names[] = {"http", "postgres", "python", "iterator", "input"};
  EXPECT_EQ(NearestName("htpp", names), "http");
  EXPECT_EQ(NearestName("postgre", names), "postgres");
  EXPECT_EQ(NearestName("POSTGRES", names), "postgres");
  EXPECT_EQ(NearestName("iteratro", names), "iterator");
  EXPECT_EQ(NearestName("banana", names), std::nullopt);
  EXPECT_EQ(NearestName("x", names), std::nullopt);
  EXPECT_EQ(NearestName("", names), std::nullopt);
  EXPECT_EQ(NearestName(std::string(100'000, 'a'), names), std::nullopt);
  const std::vector<std::string> owned = {"alpha", "beta"};
  EXPECT_EQ(NearestName("bata", owned), "beta");
}

TEST(ParseDurationMs, UnitsAndRefusals) {
  EXPECT_EQ(ParseDurationMs("90s"), 90'000);
  EXPECT_EQ(ParseDurationMs("1.5m"), 90'000);
  EXPECT_EQ(ParseDurationMs("2h"), 7'200'000);
  EXPECT_EQ(ParseDurationMs("250ms"), 250);
  EXPECT_EQ(ParseDurationMs("1d"), 86'400'000);
  EXPECT_EQ(ParseDurationMs(" 30 "), 30'000);
  EXPECT_EQ(ParseDurationMs("0.5"), 500);
  EXPECT_EQ(ParseDurationMs("0"), 0);
  for (const char* bad : {"", " ", "s", "-1s", "+1s", "1x", "1 s", "1e3", "inf", "nan", "1.s",
                          ".5s", "0x10", "99999999999999999999d", "1s2"}) {
    EXPECT_EQ(ParseDurationMs(bad), std::nullopt) << bad;
  }
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(FirstInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("a\xc3\xa9\xe2\x98\x83\xf0\x9f\x98\x80"), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("ab\xff"), 2u);
  EXPECT_EQ(FirstInvalidUtf8("a\xc3"), 1u);
  EXPECT_EQ(FirstInvalidUtf8("\xc0\x80"), 0u);
  EXPECT_EQ(FirstInvalidUtf8("\xed\xa0\x80"), 0u);
  EXPECT_EQ(FirstInvalidUtf8("\xe0\x80\x80"), 0u);
  EXPECT_EQ(FirstInvalidUtf8("\xf4\x90\x80\x80"), 0u);
  EXPECT_EQ(FirstInvalidUtf8("\xf0\x9f\x98"), 0u);
  EXPECT_EQ(CodePoints("a\xc3\xa9\xf0\x9f\x98\x80"), 3u);
}

TEST(Text, SmallHelpers) {
  EXPECT_EQ(Trim("  a b\t\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(ToLower("AbC\xc3\x89"), "abc\xc3\x89");
  EXPECT_TRUE(IsIdentifier("_a1"));
  EXPECT_FALSE(IsIdentifier("1a"));
  EXPECT_FALSE(IsIdentifier(""));
  EXPECT_FALSE(IsIdentifier("a-b"));
  EXPECT_EQ(DoubleText(50), "50.0");
  EXPECT_EQ(DoubleText(-0.1), "-0.1");
  EXPECT_EQ(DoubleText(1e300), "1e+300");
  EXPECT_EQ(DoubleText(std::numeric_limits<double>::infinity()), "inf");
}

}  // namespace
}  // namespace noetl
