#include "engine/scope.h"

#include <map>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/testing.h"
#include "engine/render.h"

namespace noetl::engine {
namespace {

class MapSteps : public StepSource {
 public:
  std::shared_ptr<const StepResult> Find(std::string_view step) const override {
    const auto found = steps.find(step);
    return found == steps.end() ? nullptr : found->second;
  }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const auto& [name, result] : steps) names.push_back(name);
    return names;
  }
  void Add(std::string name, Json data, Json reference = {}) {
    StepResult result{.data = std::move(data), .reference = std::move(reference)};
    steps[std::move(name)] = std::make_shared<const StepResult>(std::move(result));
  }
  std::map<std::string, std::shared_ptr<const StepResult>, std::less<>> steps;
};

class OneBody : public Bodies {
 public:
  Result<const Json*> Find(std::string_view ref) const override {
    return loaded && ref == "noetl://big" ? &body : nullptr;
  }
  bool loaded = false;
  Json body = Json::Array({1, 2, 3});
};

class ScopeTest : public testing::Test {
 protected:
  ScopeTest()
      : scope_(
            {.workload = Parse(R"({"w": 1, "both": "workload", "a": "hidden", "version": "mine"})"),
             .ctx = Parse(R"({"c": 2, "both": "ctx", "big": {"_ref": "noetl://big"}})"),
             .identity = Parse(R"({"execution_id": "77", "job": {"id": "77"},
                                      "playbook": {"path": "p/q", "version": 3}})"),
             .steps = &steps_,
             .bodies = &bodies_}) {
    steps_.Add("a", Parse(R"({"f": 5})"));
    steps_.Add("x/y", Parse(R"({"f": 6})"));
    steps_.Add("far", Parse(R"({"f": [1]})"), Parse(R"({"ref": "noetl://far"})"));
  }
  Result<Json> Eval(std::string_view expression) {
    auto compiled = expr::Template::Compile("{{ " + std::string(expression) + " }}");
    if (!compiled) return std::unexpected(compiled.error().error);
    return compiled->Render(scope_, expr::Output::kText);
  }
  void Expect(std::string_view expression, std::string_view json) {
    const Result<Json> value = Eval(expression);
    ASSERT_TRUE(value.has_value()) << expression << ": " << value.error().message;
    EXPECT_EQ(WriteJson(*value), json) << expression;
  }

  MapSteps steps_;
  OneBody bodies_;
  Scope scope_;
};

TEST_F(ScopeTest, LookupOrder) {
  Expect("w", "1");
  Expect("c", "2");
  Expect("both", R"("ctx")");
  Expect("workload.both", R"("workload")");
  Expect("a.f", "5");
  Expect("execution_id", R"("77")");
  Expect("job.id", R"("77")");
  Expect("path", R"("p/q")");
  Expect("version", R"("mine")");
  Expect("playbook.version", "3");
  Expect("nothing is defined", "false");
  const std::size_t mark = scope_.Mark();
  scope_.Bind("both", expr::Value(Json("bound")));
  scope_.BindAll(Parse(R"({"both": "latest", "execution_id": "mine"})"));
  Expect("both", R"("latest")");
  Expect("execution_id", R"("mine")");
  scope_.Rewind(mark);
  Expect("both", R"("ctx")");
}

TEST_F(ScopeTest, Ctx) {
  Expect("ctx.c", "2");
  Expect("ctx.w", "1");
  Expect("ctx.a", R"("hidden")");
  Expect("ctx['x/y'].f", "6");
  Expect("ctx.nothing is defined", "false");
  Expect("ctx.big._ref", R"("noetl://big")");
  for (std::string_view expression : {"ctx.big | length", "big | length", "ctx"}) {
    ASSERT_FALSE(Eval(expression).has_value()) << expression;
    EXPECT_EQ(Eval(expression).error().code, "needs_reference");
  }
  bodies_.loaded = true;
  Expect("ctx.big | length", "3");
  Expect("big[2]", "3");
  Expect("ctx.both", R"("ctx")");
  Expect("ctx", R"({"w":1,"both":"ctx","a":"hidden","version":"mine","c":2,"big":[1,2,3]})");
  scope_.SetCtx(Parse(R"({"c": 3})"));
  Expect("c + ctx.c", "6");
}

TEST_F(ScopeTest, Steps) {
  Expect("steps['x/y'].f", "6");
  Expect("steps.a.data.f", "5");
  Expect("steps | length", "3");
  Expect("steps.zzz is defined", "false");
  Expect("steps.far._ref", R"("noetl://far")");
}

TEST_F(ScopeTest, DataIsNotScannedAgain) {
  scope_.SetCtx(Parse(R"({"c": "{{ 7*7 }}"})"));
  Expect("c", R"("{{ 7*7 }}")");
  Expect("c ~ '!'", R"("{{ 7*7 }}!")");
}

TEST_F(ScopeTest, NamedStep) {
  scope_.Bind("step", NamedStep("load", Parse(R"({"n": 4})")));
  Expect("step ~ ''", R"("load")");
  Expect("step.n", "4");
}

TEST(SetPathTest, MakesMapsAndReplacesScalars) {
  const std::vector<std::string> path = {"a", "b"};
  EXPECT_EQ(WriteJson(SetPath(Json(), path, 1)), R"({"a":{"b":1}})");
  EXPECT_EQ(WriteJson(SetPath(Parse(R"({"a": 5, "z": 1})"), path, 1)), R"({"a":{"b":1},"z":1})");
  EXPECT_EQ(WriteJson(SetPath(Parse(R"({"a": {"c": 2}})"), path, 1)), R"({"a":{"c":2,"b":1}})");
}

TEST(IterationNamesTest, NamesAndClashes) {
  EXPECT_EQ(WriteJson(IterationNames("p", Json("Ann"), 0, 2)),
            R"({"_index":0,"_total":2,"loop_index":0,"iter":{"_index":0,"index":0,"_total":2,)"
            R"("total":2,"_first":true,"_last":false,"p":"Ann"},"loop":{"index":0,"first":true,)"
            R"("last":false,"length":2},"p":"Ann"})");
  const Json clash = IterationNames("_index", Json("mine"), 1, 2);
  EXPECT_EQ(clash["_index"].AsString(), "mine");
  EXPECT_EQ(clash["iter"]["_index"].AsString(), "mine");
}

TEST_F(ScopeTest, StrictTextHasNoGaps) {
  const auto render = [&](std::string_view field, std::string_view text,
                          playbook::Profile profile) {
    std::vector<expr::Tree::Problem> problems;
    const expr::Tree tree = expr::Tree::Compile(Json(text), {}, &problems);
    EXPECT_TRUE(problems.empty()) << text;
    return RenderField(field, tree, scope_, profile, expr::Output::kText);
  };
  using enum playbook::Profile;
  const std::string_view gap = "DELETE FROM t WHERE id > {{ a.missing }}";
  ASSERT_FALSE(render("command", gap, kStrict).has_value());
  EXPECT_EQ(render("command", gap, kStrict).error().code, "E410");
  EXPECT_NE(render("command", gap, kStrict).error().message.find("a.missing"), std::string::npos);
  EXPECT_EQ(render("command", gap, kCompat)->AsString(), "DELETE FROM t WHERE id > ");
  EXPECT_EQ(render("note", gap, kStrict)->AsString(), "DELETE FROM t WHERE id > ");
  EXPECT_EQ(render("query", "id > {{ a.f }}", kStrict)->AsString(), "id > 5");
  EXPECT_EQ(render("url", "/x/{{ a.missing | default('none') }}", kStrict)->AsString(), "/x/none");
  EXPECT_TRUE(render("url", "{{ a.missing }}", kStrict)->is_null());
}

}  // namespace
}  // namespace noetl::engine
