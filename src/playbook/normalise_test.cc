#include "playbook/normalise.h"

#include <fmt/format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_io.h"
#include "playbook/test_documents.h"

namespace noetl::playbook {
namespace {

struct Result2 {
  Json canonical;
  std::vector<std::string> codes;
};

Result2 Canonical(const std::string& text) {
  Node node;
  Diagnostics diagnostics;
  EXPECT_TRUE(ParseYaml(text, &node, &diagnostics)) << text;
  Result2 result;
  result.canonical = NodeToJson(Normalise(std::move(node), &diagnostics));
  for (const Diagnostic& d : diagnostics.Take()) result.codes.push_back(d.code);
  return result;
}

// One step's canonical form, or a part of it.
std::string Step(std::string_view lines, std::string_view part) {
  const Result2 result = Canonical(StepDocument("v2", lines));
  return WriteJson(result.canonical["workflow"].At(0)[part]);
}

TEST(NormaliseTest, NextForms) {
  EXPECT_EQ(Step("next: b", "next"), R"({"arcs":[{"step":"b"}]})");
  EXPECT_EQ(Step("next: [b, c]", "next"),
            R"({"spec":{"mode":"inclusive"},"arcs":[{"step":"b"},{"step":"c"}]})");
  EXPECT_EQ(Step("next: [{step: b, when: x, with: {a: 1}}, {step: c}]", "next"),
            R"({"arcs":[{"step":"b","when":"x","args":{"a":1}},{"step":"c"}]})");
  EXPECT_EQ(Step("next: [{step: b}]\nspec: {next_mode: inclusive}", "next"),
            R"({"arcs":[{"step":"b"}],"spec":{"mode":"inclusive"}})");
  EXPECT_EQ(Step("next: {step: b, when: y}", "next"), R"({"arcs":[{"step":"b","when":"y"}]})");
  EXPECT_EQ(Step("next: {arcs: [{step: b, condition: z}]}", "next"),
            R"({"arcs":[{"step":"b","when":"z"}]})");
  EXPECT_EQ(Step("next:", "next"), "null");
}

TEST(NormaliseTest, ToolForms) {
  EXPECT_EQ(Step("desc: x", "tool"), R"({"kind":"noop"})");
  EXPECT_EQ(Step("tool: [{kind: noop}, {b: {kind: http, url: u}}, {name: c, kind: noop}]", "tool"),
            R"([{"name":"task_0","kind":"noop"},{"name":"b","kind":"http","url":"u"},)"
            R"({"name":"c","kind":"noop"}])");
  EXPECT_EQ(Step("tool: {kind: noop, args: {a: 1}}", "tool"), R"({"kind":"noop","input":{"a":1}})");
  EXPECT_EQ(Step("tool: {kind: container, image: i, args: [a]}", "tool"),
            R"({"kind":"container","image":"i","args":["a"]})");
  EXPECT_EQ(Step("tool: {kind: http, spec: {url: u, method: GET, policy: {rules: []}}}", "tool"),
            R"({"kind":"http","spec":{"policy":{"rules":[]}},"url":"u","method":"GET"})");
  EXPECT_EQ(Step("tool: {kind: postgres, credential: c, command: x}", "tool"),
            R"({"kind":"postgres","auth":"c","command":"x"})");
  EXPECT_EQ(Step("tool: {kind: noop, timeout_ms: 1500}", "tool"),
            R"({"kind":"noop","timeout":"1500ms"})");
  EXPECT_EQ(Step("tool: {kind: noop, spec: {timeout: 5}}", "tool"),
            R"({"kind":"noop","timeout":5})");
  EXPECT_EQ(Step("tool: {kind: noop, output_select: {strategy: size_threshold, threshold_kb: 2}}",
                 "tool"),
            R"({"kind":"noop","output":{"inline_max_bytes":2048}})");
  EXPECT_EQ(Step("retry: {max_attempts: 2}\ntool: {kind: noop}", "tool"),
            R"({"kind":"noop","retry":{"max_attempts":2}})");
}

TEST(NormaliseTest, StepAliases) {
  EXPECT_EQ(Step("description: d", "desc"), R"("d")");
  EXPECT_EQ(Step("args: {a: 1}", "input"), R"({"a":1})");
  EXPECT_EQ(Step("with: {a: 1}", "input"), R"({"a":1})");
  EXPECT_EQ(Step("vars: {a: 1, b: 2}\nset: {ctx.b: 3}", "set"), R"({"ctx.b":3,"ctx.a":1})");
  EXPECT_EQ(Step("loop: {in: [1], iterator: x, mode: parallel, max_in_flight: 3}", "loop"),
            R"({"in":[1],"iterator":"x","spec":{"mode":"parallel","max_in_flight":3}})");
  EXPECT_EQ(Step("tool: {kind: noop, iterator: {items: '{{ a }}', item: x}}", "loop"),
            R"({"in":"{{ a }}","iterator":"x"})");
  EXPECT_EQ(Step("output: {output_select: [a]}", "output"), R"({"select":["a"]})");
}

std::string Rules(std::string_view rules) {
  const Result2 result = Canonical(StepDocument(
      "v2", fmt::format("tool: {{kind: noop, spec: {{policy: {{rules: {}}}}}}}", rules)));
  return WriteJson(result.canonical["workflow"].At(0)["tool"]["spec"]["policy"]["rules"]);
}

TEST(NormaliseTest, RuleShapes) {
  const std::string other = R"([{"else":{"then":{"do":"fail"}}}])";
  EXPECT_EQ(Rules("[{else: {then: {do: fail}}}]"), other);
  EXPECT_EQ(Rules("[{else: {do: fail}}]"), other);
  EXPECT_EQ(Rules("[{else: , then: {do: fail}}]"), other);
  EXPECT_EQ(Rules("[{then: {do: fail}}]"), other);
  EXPECT_EQ(Rules("[{when: true, then: {do: fail}}]"), R"([{"when":true,"then":{"do":"fail"}}])");
  EXPECT_EQ(Rules("[{expr: x, then: {set_ctx: {a: 1}, set_iter: {b: 2}, set_vars: {c: 3}}}]"),
            R"([{"when":"x","then":{"set":{"ctx.c":3,"ctx.a":1,"iter.b":2}}}])");
}

TEST(NormaliseTest, Eval) {
  const Result2 result =
      Canonical(StepDocument("v2",
                             "tool: {kind: noop, eval: [{expr: x, do: jump, target: a, set_vars: "
                             "{v: 1}}, {else: {do: retry, attempts: 2}}]}"));
  EXPECT_EQ(WriteJson(result.canonical["workflow"].At(0)["tool"]["spec"]["policy"]["rules"]),
            R"([{"when":"x","then":{"do":"jump","to":"a","set":{"ctx.v":1}}},)"
            R"({"else":{"then":{"do":"retry","attempts":2}}}])");
}

TEST(NormaliseTest, Workbook) {
  const std::string head =
      "workbook:\n  - name: w\n    tool: {kind: noop, input: {a: 1, b: 2}, result: r}\n";
  const Result2 single = Canonical(
      V2(head + "workflow:\n  - step: start\n    tool: {kind: workbook, name: w, input: {b: "
                "3}, timeout: 5}\n"));
  EXPECT_EQ(WriteJson(single.canonical["workflow"].At(0)["tool"]),
            R"({"kind":"noop","input":{"a":1,"b":3},"result":"r","timeout":5})");
  const Result2 list = Canonical(
      V2(head + "workflow:\n  - step: start\n    tool: [{name: l, kind: workbook, task: w}, "
                "{name: w, kind: workbook}]\n"));
  EXPECT_EQ(list.canonical["workflow"].At(0)["tool"].At(0)["name"].AsString(), "l");
  EXPECT_EQ(list.canonical["workflow"].At(0)["tool"].At(1)["result"].AsString(), "r");
  const Result2 map = Canonical(
      V2("workbook: {tasks: {w: {kind: noop, result: 1}}}\nworkflow:\n  - step: start\n    tool: "
         "{kind: workbook, name: w}\n"));
  EXPECT_EQ(WriteJson(map.canonical["workflow"].At(0)["tool"]), R"({"kind":"noop","result":1})");
}

TEST(NormaliseTest, RootForms) {
  const Result2 result = Canonical(
      "apiVersion: noetl.io/v2\nkind: Playbook\nname: n\npath: a/b\nvars: {x: 1, y: 2}\nworkload: "
      "{y: 3}\n"
      "executor: {kind: hybrid}\nkeychain: [{name: k, scope: catalog}]\nmetadata: {tags: "
      "one}\nworkflow: [{step: start}]\n");
  EXPECT_EQ(WriteJson(result.canonical["metadata"]), R"({"tags":["one"],"name":"n","path":"a/b"})");
  EXPECT_EQ(WriteJson(result.canonical["workload"]), R"({"y":3,"x":1})");
  EXPECT_EQ(WriteJson(result.canonical["executor"]), R"({"profile":"auto"})");
  EXPECT_EQ(WriteJson(result.canonical["keychain"]), R"([{"name":"k","scope":"global"}])");
}

// What comes out goes in again unchanged.
TEST(NormaliseTest, CanonicalDocumentsStayAsTheyAre) {
  for (const char* name :
       {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11_child", "11_parent", "12"}) {
    const std::string text =
        ReadText(fmt::format("{}/tests/playbooks/examples/ex{}.yaml", NOETL_SOURCE_DIR, name));
    const Result2 once = Canonical(text);
    const Result2 twice = Canonical(WriteJson(once.canonical));
    EXPECT_EQ(WriteJson(once.canonical), WriteJson(twice.canonical)) << name;
    // Arc args are old but have no other spelling.
    EXPECT_THAT(twice.codes, testing::Each("W211")) << name;
  }
}

}  // namespace
}  // namespace noetl::playbook
