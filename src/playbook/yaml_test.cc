#include "playbook/yaml.h"

#include <chrono>

#include <fmt/format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"
#include "playbook/test_documents.h"

namespace noetl::playbook {
namespace {

using testing::ElementsAre;

Node Parse(std::string_view text) {
  Node node;
  Diagnostics diagnostics;
  EXPECT_TRUE(ParseYaml(text, &node, &diagnostics)) << text;
  for (const Diagnostic& d : diagnostics.list()) ADD_FAILURE() << FormatDiagnostic(d, "t");
  return node;
}

std::string AsJson(std::string_view text) { return WriteJson(NodeToJson(Parse(text))); }

std::string FirstCode(std::string_view text) {
  Node node;
  Diagnostics diagnostics;
  ParseYaml(text, &node, &diagnostics);
  const auto list = diagnostics.Take();
  return list.empty() ? "" : list[0].code;
}

TEST(YamlTest, CoreSchemaScalars) {
  EXPECT_EQ(AsJson("{a: 1, b: -7, c: 0x1F, d: 0o17, e: 1.5, f: 1e3, g: .5, h: +3}"),
            R"({"a":1,"b":-7,"c":31,"d":15,"e":1.5,"f":1000.0,"g":0.5,"h":3})");
  EXPECT_EQ(AsJson("{a: yes, b: no, c: on, d: off, on: 1}"),
            R"({"a":"yes","b":"no","c":"on","d":"off","on":1})");
  EXPECT_EQ(AsJson("{a: ~, b: null, c: , d: Null, e: ''}"),
            R"({"a":null,"b":null,"c":null,"d":null,"e":""})");
  EXPECT_EQ(AsJson("{a: true, b: False, c: TRUE, d: 'true'}"),
            R"({"a":true,"b":false,"c":true,"d":"true"})");
  EXPECT_EQ(AsJson("{a: 2024-01-02, b: .inf, c: .nan, d: 1_000, e: 0b1}"),
            R"({"a":"2024-01-02","b":".inf","c":".nan","d":"1_000","e":"0b1"})");
  EXPECT_EQ(AsJson("{a: !!str 5, b: !!float 5, c: !!int '5'}"), R"({"a":"5","b":5.0,"c":5})");
  EXPECT_EQ(Parse("v: 1.0").Find("v")->text, "1.0");
}

TEST(YamlTest, IntegersBeyond64BitsBecomeFloatsWithAWarning) {
  Node node;
  Diagnostics diagnostics;
  ASSERT_TRUE(ParseYaml("a: 123456789012345678901", &node, &diagnostics));
  EXPECT_TRUE(node.Find("a")->scalar.is_double());
  EXPECT_EQ(diagnostics.list().at(0).code, "W013");
  EXPECT_EQ(AsJson("a: 9223372036854775807"), R"({"a":9223372036854775807})");
}

TEST(YamlTest, KeysAreTextAndKeepTheirOrder) {
  EXPECT_EQ(AsJson("z: 1\n1: 2\ntrue: 3\nnull: 4\na: 5\n"),
            R"({"z":1,"1":2,"true":3,"null":4,"a":5})");
}

TEST(YamlTest, PositionsAndPaths) {
  const Node root = Parse("a:\n  - b: é\n    c: [1, {d: x}]\n");
  const Node& item = root.Find("a")->items[0];
  EXPECT_EQ(item.Find("b")->position, (Position{2, 8}));
  const Node& deep = *item.Find("c")->items[1].Find("d");
  EXPECT_EQ(deep.path, "a[0].c[1].d");
  EXPECT_EQ(deep.position, (Position{3, 16}));
  EXPECT_EQ(Parse("é: [é, x]").Find("é")->items[1].position, (Position{1, 8}));
  EXPECT_EQ(Parse("a:\nb: 1\n").Find("a")->position, (Position{1, 1}));
}

TEST(YamlTest, AnchorsAliasesMerge) {
  EXPECT_EQ(AsJson("a: &x {k: 1, l: 2}\nb: *x\n"), R"({"a":{"k":1,"l":2},"b":{"k":1,"l":2}})");
  EXPECT_EQ(AsJson("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\n  m: 4\n"),
            R"({"a":{"k":1,"l":2},"b":{"k":1,"l":3,"m":4}})");
  EXPECT_EQ(AsJson("a: &x {k: 1}\nc: &y {k: 2, z: 3}\nb: {<<: [*x, *y]}\n"),
            R"({"a":{"k":1},"c":{"k":2,"z":3},"b":{"k":1,"z":3}})");
  EXPECT_EQ(Parse("a: &x {k: [1]}\nb:\n  <<: *x\n").Find("b")->Find("k")->items[0].path, "b.k[0]");
  EXPECT_EQ(FirstCode("a: &x [*x]\n"), "E003");
  EXPECT_EQ(FirstCode("a: *nobody\n"), "E005");
  EXPECT_EQ(FirstCode("a: {<<: 5}\n"), "E005");
}

TEST(YamlTest, Refusals) {
  EXPECT_EQ(FirstCode(""), "E002");
  EXPECT_EQ(FirstCode("# only a comment\n"), "E002");
  EXPECT_EQ(FirstCode("text\n"), "E002");
  EXPECT_EQ(FirstCode("a: 1\n---\nb: 2\n"), "E002");
  EXPECT_EQ(FirstCode("a: 1\na: 2\n"), "E004");
  EXPECT_EQ(FirstCode("a: !!binary aGk=\n"), "E005");
  EXPECT_EQ(FirstCode("a: !mine x\n"), "E005");
  EXPECT_EQ(FirstCode("a: !!int x\n"), "E005");
  EXPECT_EQ(FirstCode("? [a]\n: 1\n"), "E005");
  EXPECT_EQ(FirstCode("a: {{ x }}\n"), "E005");
  EXPECT_EQ(FirstCode("a: \x01\n"), "E005");
  EXPECT_EQ(FirstCode("a: \xff\n"), "E005");
  EXPECT_EQ(FirstCode(std::string("a: \0b\n", 6)), "E005");
}

TEST(YamlTest, DuplicateKeyNamesBothLines) {
  Node node;
  Diagnostics diagnostics;
  ParseYaml("a: 1\nb: 2\na: 3\n", &node, &diagnostics);
  ASSERT_EQ(diagnostics.list().size(), 1u);
  EXPECT_EQ(diagnostics.list()[0].message, "duplicate key 'a' (first at line 1)");
  EXPECT_EQ(diagnostics.list()[0].position.line, 3);
}

TEST(YamlTest, TabsAreExplained) {
  Node node;
  Diagnostics diagnostics;
  EXPECT_FALSE(ParseYaml("a:\n\tb: 1\n", &node, &diagnostics));
  EXPECT_THAT(diagnostics.list().at(0).hint, testing::HasSubstr("line 2 is indented with a tab"));
}

TEST(YamlTest, Base64Documents) {
  EXPECT_EQ(AsJson("YTogMQpiOiB4Cg==\n"), R"({"a":1,"b":"x"})");
  EXPECT_EQ(AsJson("\xEF\xBB\xBF"
                   "a: 1\n"),
            R"({"a":1})");
  EXPECT_EQ(FirstCode("YTogMQpiOiB4Cg=\n"), "E002");  // not base64: a plain scalar
}

TEST(YamlTest, CommentsStayWithTheirNodes) {
  const Node root = Parse(
      "# top\n# second\na: 1 # beside a\n# above b\nb: # beside key b\n  - x # beside x\n  # above "
      "y\n  - y\n"
      "c: \"# no\" # yes\nd: |\n  # code\n  text # code\n# after block\ne: {k: 1} # beside map\nf: "
      "it's#no\n# end\n");
  EXPECT_THAT(root.comments_above, ElementsAre(" top", " second"));
  EXPECT_EQ(root.Find("a")->comment_beside, " beside a");
  EXPECT_THAT(root.entries[1].first.comments_above, ElementsAre(" above b"));
  EXPECT_EQ(root.entries[1].first.comment_beside, " beside key b");
  EXPECT_EQ(root.Find("b")->items[0].comment_beside, " beside x");
  EXPECT_THAT(root.Find("b")->items[1].comments_above, ElementsAre(" above y"));
  EXPECT_EQ(root.Find("c")->comment_beside, " yes");
  EXPECT_EQ(root.Find("d")->text, "# code\ntext # code\n");
  EXPECT_THAT(root.entries[4].first.comments_above, ElementsAre(" after block"));
  EXPECT_EQ(root.Find("e")->comment_beside, " beside map");
  EXPECT_EQ(root.Find("f")->text, "it's#no");
  EXPECT_THAT(root.comments_below, ElementsAre(" end"));
}

TEST(YamlTest, BlockScalarStylesAndHeaderComments) {
  const Node root = Parse("a: | # header\n  x\n\n  y\nb: >-\n  p\n  q\nc: |\nd: 'q'\n");
  EXPECT_EQ(root.Find("a")->style, Node::Style::kLiteral);
  EXPECT_EQ(root.Find("a")->comment_beside, " header");
  EXPECT_EQ(root.Find("b")->style, Node::Style::kFolded);
  EXPECT_EQ(root.Find("b")->text, "p q");
  EXPECT_EQ(root.Find("c")->text, "");
  EXPECT_EQ(root.Find("d")->style, Node::Style::kQuoted);
}

TEST(YamlTest, BracketsInProseAreNotNesting) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("k{}: see list [a{} and {{b\n", i, i);
  text += "code: |\n";
  for (int i = 0; i < 200; ++i) text += "  x = [[\n";
  text += "quoted: '[[[['\n";
  EXPECT_EQ(Parse(text).entries.size(), 202u);
}

std::string Repeat(std::string_view part, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += part;
  return out;
}

TEST(YamlTest, HostileInputIsRefusedQuickly) {
  constexpr std::size_t kMega = 1u << 20;
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    bomb += fmt::format("{0}: &{0} [", c);
    for (int i = 0; i < 9; ++i) bomb += fmt::format("*{},", static_cast<char>(c - 1));
    bomb += "]\n";
  }
  std::string staircase;
  for (std::size_t i = 0; i < 1000; ++i) staircase += std::string(i, ' ') + "a:\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Repeat("[", kMega), "E006"},
      {Repeat("[\n", kMega), "E006"},
      {Repeat("- ", kMega), "E006"},
      {Repeat("{a: ", kMega), "E006"},
      {"a: " + Repeat("[", kMega), "E006"},
      {Repeat("? ", kMega), "E006"},
      {staircase, "E006"},
      {"a: [" + Repeat("a,", 3 * kMega) + "]", "E006"},
      {Repeat("- a\n", 2 * kMega), "E006"},
      {Repeat("a: b\n", 10 * kMega), "E006"},
      {bomb, "E003"},
      {Repeat("a: ", kMega), "E005"},
      {Repeat("\x80\xff garbage", kMega), "E005"},
      {Repeat("---\n", kMega), "E002"},
  };
  for (const auto& [text, code] : cases) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(FirstCode(text), code) << text.substr(0, 40);
    const auto spent = std::chrono::steady_clock::now() - start;
    // One second in an optimised build on a quiet machine; sanitizers and neighbours cost more.
    EXPECT_LT(spent, std::chrono::seconds(10)) << text.substr(0, 40);
  }
}

TEST(YamlTest, AnyTextIsAnsweredWithoutACrash) {
  EXPECT_TRUE(rc::check(
      "parsing any text ends with a tree or a diagnostic", [](const std::vector<int>& picks) {
        static constexpr std::string_view kParts[] = {
            "a", ": ",  "- ",  "\n", "  ", "[",   "]",  "{",    "}",      ",",  "\"",
            "'", "|\n", ">\n", "#",  " #", "&a ", "*a", "<<: ", "!!str ", "\t", "é"};
        std::string text;
        for (int pick : picks) text += kParts[static_cast<unsigned>(pick) % std::size(kParts)];
        Node node;
        Diagnostics diagnostics;
        const bool ok = ParseYaml(text, &node, &diagnostics);
        RC_ASSERT(ok || diagnostics.has_errors());
      }));
}

}  // namespace
}  // namespace noetl::playbook
