#include <gtest/gtest.h>

#include "expr/testing.h"

namespace noetl::expr {
namespace {

using testing::RichScope;

Json Parsed(std::string_view text) { return *ParseJson(text); }

TEST(Tree, RendersLeavesAndKeepsKeysAndTypes) {
  std::vector<Tree::Problem> problems;
  const Tree tree = Tree::Compile(
      Parsed(R"({"{{ s }}": "{{ i }}", "text": "n={{ i }}", "list": ["{{ l }}", 5, null, "plain"],
                 "deep": {"a": {"b": "{{ nothing.at.all }}"}}})"),
      {}, &problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_FALSE(tree.is_literal());
  const Result<Json> rendered = tree.Render(RichScope(), Output::kText);
  ASSERT_TRUE(rendered);
  EXPECT_EQ(
      WriteJson(*rendered),
      R"({"{{ s }}":7,"text":"n=7","list":[[3,1,2],5,null,"plain"],"deep":{"a":{"b":null}}})");
}

TEST(Tree, EmptyAndScalarTrees) {
  EXPECT_TRUE(Tree().Render(RichScope(), Output::kText)->is_null());
  const Tree number = Tree::Compile(5, {}, nullptr);
  EXPECT_TRUE(number.is_literal());
  EXPECT_EQ(number.Render(RichScope(), Output::kText)->AsInt(), 5);
  const Tree text = Tree::Compile("{{ i + 1 }}", {}, nullptr);
  EXPECT_EQ(text.Render(RichScope(), Output::kText)->AsInt(), 8);
  EXPECT_EQ(text.Leaves()[0].path, "");
}

TEST(Tree, LeafPathsInDocumentOrder) {
  const Tree tree = Tree::Compile(
      Parsed(
          R"([{"url": "{{ a }}"}, "x", {"headers": {"Content-Type": "{{ b }}", "n": ["{{ c }}"]}}])"),
      {}, nullptr);
  std::vector<std::string> paths;
  for (const Tree::Leaf& leaf : tree.Leaves()) paths.push_back(leaf.path);
  EXPECT_EQ(paths,
            (std::vector<std::string>{"[0].url", "[2].headers.Content-Type", "[2].headers.n[0]"}));
  EXPECT_TRUE(tree.Leaves()[1].compiled.analysis().UsesRoot("b"));
}

TEST(Tree, SharesWhatHasNoTemplates) {
  const Json source = Parsed(R"({"big": {"rows": [1, 2, {"long": "a text that is on the heap"}]},
                                 "t": "{{ i }}"})");
  const Tree tree = Tree::Compile(source, {}, nullptr);
  const Result<Json> rendered = tree.Render(RichScope(), Output::kText);
  ASSERT_TRUE(rendered);
  EXPECT_TRUE((*rendered)["big"].Same(source["big"]));
  const Tree literal = Tree::Compile(source["big"], {}, nullptr);
  EXPECT_TRUE(literal.is_literal());
  EXPECT_TRUE(literal.Render(RichScope(), Output::kText)->Same(source["big"]));
}

TEST(Tree, ProblemsLeaveTheLeafVerbatim) {
  std::vector<Tree::Problem> problems;
  const Tree tree = Tree::Compile(
      Parsed(R"({"headers": {"A": "{{ 1 + }}"}, "b": "{{ i }}", "c": ["{{ x | uper }}"]})"), {},
      &problems);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].path, "headers.A");
  EXPECT_EQ(problems[0].source, "{{ 1 + }}");
  EXPECT_EQ(problems[0].error.error.code, "E404");
  EXPECT_EQ(problems[0].error.offset, 7u);
  EXPECT_EQ(problems[1].path, "c[0]");
  EXPECT_EQ(problems[1].error.error.code, "E401");
  EXPECT_EQ(WriteJson(*tree.Render(RichScope(), Output::kText)),
            R"({"headers":{"A":"{{ 1 + }}"},"b":7,"c":["{{ x | uper }}"]})");
}

TEST(Tree, FilterAndDefer) {
  const Json source = Parsed(R"({"code": "{{ i }}", "auth": "{{ keychain.k }}", "v": "{{ i }}"})");
  const Tree tree =
      Tree::Compile(source, {}, nullptr, [](std::string_view path) { return path != "code"; });
  EXPECT_EQ(tree.Leaves().size(), 2u);
  const auto secret = [](const Template& leaf) { return leaf.analysis().UsesRoot("keychain"); };
  EXPECT_EQ(WriteJson(*tree.Render(RichScope(), Output::kText, secret)),
            R"({"code":"{{ i }}","auth":"{{ keychain.k }}","v":7})");
}

TEST(Tree, ErrorsNameTheLeaf) {
  const Tree tree = Tree::Compile(Parsed(R"({"a": [{"b": "{{ start.rows + 1 }}"}]})"), {}, nullptr);
  const Result<Json> rendered = tree.Render(RichScope(), Output::kText);
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code, "E410");
  EXPECT_EQ(rendered.error().message, "a[0].b '{{ start.rows + 1 }}': 'start.rows' is undefined");
}

TEST(Tree, NeedsReferencePassesUnchanged) {
  const Tree tree = Tree::Compile(Parsed(R"({"a": "x {{ remote.rows }}"})"), {}, nullptr);
  const Result<Json> rendered = tree.Render(RichScope(), Output::kText);
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error(), (Error{"needs_reference", "noetl://body"}));
  const Tree reference = Tree::Compile(Parsed(R"({"a": "{{ remote._ref }}"})"), {}, nullptr);
  EXPECT_EQ(WriteJson(*reference.Render(RichScope(), Output::kText)), R"({"a":"noetl://body"})");
}

TEST(Tree, StructuredTextIsParsed) {
  const Tree tree =
      Tree::Compile(Parsed(R"({"a": "[{{ i }}, {{ i }}]", "b": "{{ '[1]' }}"})"), {}, nullptr);
  EXPECT_EQ(WriteJson(*tree.Render(RichScope(), Output::kStructured)), R"({"a":[7,7],"b":"[1]"})");
  EXPECT_EQ(WriteJson(*tree.Render(RichScope(), Output::kText)), R"({"a":"[7, 7]","b":"[1]"})");
}

TEST(Tree, DepthIsBounded) {
  Json deep = "{{ i }}";
  for (int i = 0; i < kTreeDepthMax; ++i) deep = Json::Array({deep});
  std::vector<Tree::Problem> problems;
  const Tree fits = Tree::Compile(deep, {}, &problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(fits.Leaves().size(), 1u);
  const Tree too_deep = Tree::Compile(Json::Array({deep}), {}, &problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].error.error.code, "E420");
  EXPECT_TRUE(too_deep.is_literal());
}

TEST(Tree, DataIsNeverRenderedAgain) {
  const JsonScope scope(Json::Object({{"request", "{{ 7*7 }}"}}));
  const Tree tree =
      Tree::Compile(Parsed(R"({"a": "{{ request }}", "b": "<{{ request }}>"})"), {}, nullptr);
  EXPECT_EQ(WriteJson(*tree.Render(scope, Output::kStructured)),
            R"({"a":"{{ 7*7 }}","b":"<{{ 7*7 }}>"})");
}

}  // namespace
}  // namespace noetl::expr
