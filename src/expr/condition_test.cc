#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expr/testing.h"

#include <fmt/format.h>

namespace noetl::expr {
namespace {

using testing::Decided;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Condition, AbsentIsTrue) {
  const Condition absent;
  EXPECT_TRUE(absent.is_absent());
  EXPECT_EQ(absent.compiled(), nullptr);
  EXPECT_TRUE(*absent.Evaluate(testing::RichScope()));
}

TEST(Condition, YamlLiterals) {
  EXPECT_EQ(Decided(true), "true");
  EXPECT_EQ(Decided(false), "false");
  EXPECT_EQ(Decided(nullptr), "false");
  EXPECT_EQ(Decided(0), "false");
  EXPECT_EQ(Decided(0.0), "false");
  EXPECT_EQ(Decided(-2), "true");
  EXPECT_EQ(Decided(Json::Array()), "false");
  EXPECT_EQ(Decided(""), "false");
  EXPECT_EQ(Decided("  "), "false");
}

// Every word of the false list: as text of a lone expression, and as the text of mixed output.
TEST(Condition, FalseWordsInTextAndNativeForm) {
  for (const std::string_view word : {"", "false", "0", "0.0", "no", "none", "null", "off",
                                      "undefined", "{}", "[]", "False", "NO", " Off ", "NULL"}) {
    EXPECT_EQ(Decided(fmt::format("{{{{ '{}' }}}}", word)), "false") << word;
    EXPECT_EQ(Decided(fmt::format("{{{{ '{}' }}}}{{{{ blank }}}}", word)), "false") << word;
    EXPECT_EQ(Decided(fmt::format("{{% if true %}}{}{{% endif %}}", word)), "false") << word;
  }
  for (const std::string_view word :
       {"true", "1", "yes", "req-1", "0.00", "00", "nope", "-", "{ }"}) {
    EXPECT_EQ(Decided(fmt::format("{{{{ '{}' }}}}", word)), "true") << word;
    EXPECT_EQ(Decided(fmt::format("{{{{ '{}' }}}}{{{{ blank }}}}", word)), "true") << word;
  }
}

TEST(Condition, NativeValues) {
  const std::pair<std::string_view, std::string_view> kRows[] = {
      {"nothing", "false"},  {"n", "false"},          {"false", "false"},
      {"true", "true"},      {"0", "false"},          {"0.0", "false"},
      {"-1", "true"},        {"0.1", "true"},         {"none_list", "false"},
      {"none_map", "false"}, {"[0]", "true"},         {"{'a': none}", "true"},
      {"step", "true"},      {"empty_step", "true"},  {"event.name", "true"},
      {"remote", "true"},    {"blank", "false"},      {"s", "true"},
      {"n and s", "false"},  {"s and i", "true"},     {"not blank", "true"},
      {"none", "false"},     {"namespace()", "true"},
  };
  for (const auto& [expression, expected] : kRows) {
    EXPECT_EQ(Decided(fmt::format("{{{{ {} }}}}", expression)), expected) << expression;
    EXPECT_EQ(Decided(expression), expected) << expression;
  }
}

TEST(Condition, ExpressionsWithoutBraces) {
  EXPECT_EQ(Decided("i == 7"), "true");
  EXPECT_EQ(Decided("s == 'no'"), "false");
  EXPECT_EQ(Decided("true"), "true");
  EXPECT_EQ(Decided("False"), "false");
  EXPECT_EQ(Decided("event.name == 'step.done'"), "true");
  EXPECT_THAT(Decided("i =="), StartsWith("compile E404 "));
  EXPECT_THAT(Decided("i > [1]"), StartsWith("E411 "));
  EXPECT_THAT(Decided("broken"), StartsWith("E999 "));
}

TEST(Condition, ComparisonOutsideOfBraces) {
  const std::pair<std::string_view, std::string_view> kRows[] = {
      {"{{ x }} == prod", "write {{ x == 'prod' }}, not {{ x }} == prod"},
      {"{{ x }}==prod", "write {{ x == 'prod' }}, "},
      {"{{ x }} == 'prod'", "write {{ x == 'prod' }}, "},
      {"{{ x }} != 5", "write {{ x != 5 }}, "},
      {"{{ x | int }} >= {{ y }}", "write {{ x | int >= y }}, "},
      {"{{ x }} and {{ y }}", "write {{ x and y }}, "},
      {"not {{ x }}", "write {{ not x }}, "},
      {"{{ x }} in prod", "write {{ x in 'prod' }}, "},
      {"{{ x }} == true", "write {{ x == true }}, "},
      {"prod == {{ x }}", "write {{ 'prod' == x }}, "},
  };
  for (const auto& [source, advice] : kRows) {
    const auto condition = Condition::Compile(Json(source), Dialect{});
    ASSERT_FALSE(condition) << source;
    EXPECT_EQ(condition.error().error.code, "E441") << source;
    EXPECT_THAT(condition.error().error.message, HasSubstr(std::string(advice))) << source;
  }
  const auto condition = Condition::Compile("{{ x }} == prod", Dialect{});
  EXPECT_EQ(condition.error().offset, 8u);
  // Text with no operator, and operators inside of blocks, are fine.
  EXPECT_EQ(Decided("{{ s }}-{{ i }}"), "true");
  EXPECT_EQ(Decided("{% if i > 3 %}yes{% else %}no{% endif %}"), "true");
  EXPECT_EQ(Decided("{% if i > 9 %}yes{% else %}no{% endif %}"), "false");
}

TEST(Condition, KeepsItsSource) {
  const auto condition = Condition::Compile("{{ i > 3 }}", Dialect{});
  ASSERT_TRUE(condition);
  EXPECT_FALSE(condition->is_absent());
  EXPECT_EQ(condition->source().AsString(), "{{ i > 3 }}");
  ASSERT_NE(condition->compiled(), nullptr);
  EXPECT_TRUE(condition->compiled()->analysis().UsesRoot("i"));
}

}  // namespace
}  // namespace noetl::expr
