// Each code of the playbook reference that is about form: a document that has it and one that has
// not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "playbook/test_documents.h"

#include <algorithm>

#include <fmt/format.h>

namespace noetl::playbook {
namespace {

struct Case {
  std::string code;
  std::string text;  // part of the message
  std::string bad;
  std::string good;
};

std::string S2(std::string_view lines) { return StepDocument("v2", lines); }
std::string S10(std::string_view lines) { return StepDocument("v10", lines); }
const std::string kStart = "workflow:\n  - step: start\n";

std::vector<Case> HeaderCases() {
  const std::string good = V2(kStart);
  return {
      {"E001", "Invalid kind", "apiVersion: noetl.io/v1\nkind: Subscription\nspec: {}\n", good},
      {"E002", "single YAML mapping", "- a\n", good},
      {"E002", "several documents", good + "---\n" + good, good},
      {"E004", "duplicate key 'kind' (first at line 2)", V2("kind: Playbook\n" + kStart), good},
      {"E005", "YAML:", V2("workflow: [\n"), good},
      {"E010", "Unsupported API version 'noetl.io/v3'",
       "apiVersion: noetl.io/v3\nkind: Playbook\nmetadata: {name: a}\n" + kStart, good},
      {"E011", "Missing 'metadata.name'", "apiVersion: noetl.io/v2\nkind: Playbook\n" + kStart,
       good},
      {"E011", "Missing 'metadata.name'",
       "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {path: a}\n" + kStart, good},
      {"E012", "workflow must be a non-empty list", V2("workflow: {}\n"), good},
      {"E012", "workflow must be a non-empty list", V2("workload: {}\n"), good},
      {"E013", "workload must be a map, got list (1 item)", V2("workload: [1]\n" + kStart),
       V2("workload: {a: 1}\n" + kStart)},
      {"E013", "workflow[0].set must be a map, got string ('x')", S2("set: x"),
       S2("set: {ctx.a: 1}")},
      {"W013", "does not fit 64 bits", V2("workload: {a: 99999999999999999999}\n" + kStart),
       V2("workload: {a: '99999999999999999999'}\n" + kStart)},
      {"W100", "unknown key 'worklod' in the document; did you mean 'workload'?",
       V2("worklod: {}\n" + kStart), good},
      {"E100", "unknown key 'nxt' in step 'start'; did you mean 'next'?", S10("nxt: end"),
       S10("desc: x")},
      {"W110", "root 'vars' is legacy", V2("vars: {a: 1}\n" + kStart), good},
      {"E110", "root 'vars' is legacy", V10("vars: {a: 1}\n" + kStart), V10(kStart)},
      {"W111", "root 'spec'", V2("spec: {a: 1}\n" + kStart), good},
      {"E111", "root 'spec'", V10("spec: {a: 1}\n" + kStart), V10(kStart)},
      {"W120", "executor.version", V2("executor: {version: other/2}\n" + kStart),
       V2("executor: {version: noetl-runtime/1}\n" + kStart)},
      {"E121", "did you mean 'http'?", V2("executor: {requires: {tools: [htpp]}}\n" + kStart),
       V2("executor: {requires: {tools: [http]}}\n" + kStart)},
      {"W122", "unknown feature", V2("executor: {requires: {features: [magic]}}\n" + kStart),
       V2("executor: {requires: {features: [ai_meta]}}\n" + kStart)},
      {"E123", "executor.spec.entry_step 'strat' is not a step (have: start)",
       V2("executor: {spec: {entry_step: strat}}\n" + kStart),
       V2("executor: {spec: {entry_step: start}}\n" + kStart)},
      {"E123", "executor.spec.final_step", V2("executor: {spec: {final_step: x}}\n" + kStart),
       good},
      {"W130", "refers to itself", V2("workload: {a: '{{ a }}'}\n" + kStart),
       V2("workload: {a: 1}\n" + kStart)},
      {"E140", "without a name", V2("keychain: [{kind: bearer}]\n" + kStart),
       V2("keychain: [{name: a}]\n" + kStart)},
      {"E140", "duplicate keychain entry 'a'", V2("keychain: [{name: a}, {name: a}]\n" + kStart),
       good},
      {"E211", "root 'name' is legacy", V10("name: x\n" + kStart), V10(kStart)},
  };
}

std::vector<Case> StepCases() {
  const std::string two =
      V2("workflow:\n  - step: start\n    next: { arcs: [{ step: b }] }\n  - step: b\n");
  const std::string workbook =
      "workbook: [{name: w, tool: {kind: noop}}, {name: x, tool: {kind: workbook, name: w}}]\n";
  return {
      {"E150", "requires a 'name'", V2(workbook + kStart + "    tool: {kind: workbook}\n"),
       V2(workbook + kStart + "    tool: {kind: workbook, name: w}\n")},
      {"E151", "no workbook entry 'v'; entries are: w, x",
       V2(workbook + kStart + "    tool: {kind: workbook, name: v}\n"),
       V2(workbook + kStart + "    tool: {kind: workbook, name: w}\n")},
      {"E152", "itself", V2(workbook + kStart + "    tool: {kind: workbook, name: x}\n"),
       V2(workbook + kStart + "    tool: {kind: workbook, name: w}\n")},
      {"W150", "expects an input 'a'",
       V2("workbook: [{name: w, assert: {expects: [a]}, tool: {kind: noop}}]\n" + kStart +
          "    tool: {kind: workbook, name: w}\n"),
       V2("workbook: [{name: w, assert: {expects: [a]}, tool: {kind: noop}}]\n" + kStart +
          "    tool: {kind: workbook, name: w, input: {a: 1}}\n")},
      {"E201", "Step 'start': use tool: {kind: http}", S2("tool: http"), S2("tool: {kind: noop}")},
      {"E201", "use tool: {kind: python}", S2("type: python\ncode: x"), S2("tool: {kind: noop}")},
      {"E202", "'case' blocks are not allowed", S2("case: []"), S2("tool: {kind: noop}")},
      {"E203", "'command' must be inside 'tool' (tool field required)",
       S2("tool: {kind: postgres}\ncommand: SELECT 1"),
       S2("tool: {kind: postgres, command: SELECT 1}")},
      {"E204", "workflow[0]: missing 'step' name", V2("workflow:\n  - tool: {kind: noop}\n"), two},
      {"E210", "Duplicate step 'start' at lines 5 and 6",
       V2("workflow:\n  - step: start\n  - step: start\n"), two},
      {"W210", "not a router", V2("workflow:\n  - step: start\n    next: {step: b}\n  - step: b\n"),
       two},
      {"E211", "'next' as text", V10("workflow:\n  - step: start\n    next: b\n  - step: b\n"),
       V10("workflow:\n  - step: start\n    next: { arcs: [{ step: b }] }\n  - step: b\n")},
      {"E211", "'next' as a list", V10("workflow:\n  - step: start\n    next: [b]\n  - step: b\n"),
       two},
      {"E211", "'when' on a step", S10("when: '{{ true }}'"), S10("desc: x")},
      {"W211", "'name' on a step", V2("workflow:\n  - name: start\n"), two},
      {"W212", "'save' on a step has no effect", S2("save: {}"), S2("desc: x")},
      {"E212", "'sink' on a step has no effect", S10("sink: {}"), S10("desc: x")},
      {"W213", "'iterator' on a tool",
       S2("tool: {kind: noop, iterator: {items: '{{ [1] }}', item: x}}"),
       S2("loop: {in: '{{ [1] }}', iterator: x}")},
      {"W220", "step name 'a-b' is not an identifier",
       V2("workflow:\n  - step: start\n    next: a-b\n  - step: a-b\n    next: c\n  - step: c\n    "
          "tool: {kind: noop, "
          "result: '{{ a-b.x }}'}\n"),
       V2("workflow:\n  - step: start\n    next: a-b\n  - step: a-b\n    next: c\n  - step: c\n    "
          "tool: {kind: noop, "
          "result: \"{{ steps['a-b'].x }}\"}\n")},
      {"W221", "step name 'ctx' shadows template root",
       V2("workflow:\n  - step: start\n    next: ctx\n  - step: ctx\n"), two},
      {"E221", "workload name 'env' shadows", V10("workload: {env: 1}\n" + kStart), V10(kStart)},
      {"E222", "reserved for the engine",
       V2("workflow:\n  - step: start\n    next: __orchestrate__\n  - step: "
          "__orchestrate__\n"),
       two},
      {"E222", "at most 200 bytes",
       V2("workflow:\n  - step: start\n  - step: " + std::string(201, 'a') + "\n"), two},
      {"E270", "next.spec.mode", S2("next: {spec: {mode: any}, arcs: []}"),
       S2("next: {spec: {mode: inclusive}, arcs: []}")},
      {"E270", "on_no_match", S2("next: {spec: {on_no_match: stop}, arcs: []}"),
       S2("next: {spec: {on_no_match: fail}, arcs: []}")},
      {"W271", "use 'when'", S2("next: {arcs: [{step: start, cond: '{{ false }}'}]}"),
       S2("next: {arcs: [{step: start, when: '{{ false }}'}]}")},
      {"E271", "use 'when'", S10("next: {arcs: [{step: start, expr: '{{ false }}'}]}"),
       S10("next: {arcs: [{step: start, when: '{{ false }}'}]}")},
      {"E272", "leads to unknown step 'strat'; did you mean 'start'?",
       S2("next: {arcs: [{step: strat, when: false}]}"),
       S2("next: {arcs: [{step: start, when: false}]}")},
      {"E272", "unknown step 'end'", S10("next: {arcs: [{step: end}]}"), S10("desc: x")},
      {"E280", "cannot assign to 'workload.x'", S2("set: {workload.x: 1}"), S2("set: {ctx.x: 1}")},
      {"E280", "cannot assign to 'ctx'", S2("set: {ctx: 1}"), S2("set: {x: 1}")},
      {"E290", "control actions", S2("spec: {policy: {rules: []}}"),
       S2("tool: {kind: noop, spec: {policy: {rules: []}}}")},
      {"W300", "start", V2("workflow:\n  - step: a\n"), two},
      {"E300", "start",
       V2("workflow:\n  - step: a\n    next: { arcs: [{ step: a, when: false }] }\n"), two},
      {"W301", "'end' should not declare 'next'",
       V2("workflow:\n  - step: start\n    next: end\n  - step: end\n    next: start\n"), two},
      {"W302", "'end', which is not declared", S2("next: {arcs: [{step: end}]}"), S2("desc: x")},
      {"W310", "on_error: retry", S2("spec: {on_error: retry}"), S2("spec: {on_error: continue}")},
  };
}

std::vector<Case> ToolCases() {
  const std::string noop = S2("tool: {kind: noop}");
  const auto rule = [](std::string_view rules) {
    return S2(fmt::format("tool: {{kind: noop, spec: {{policy: {{rules: {}}}}}}}", rules));
  };
  const std::string good_rule =
      rule("[{when: '{{ output.status == \"error\" }}', then: {do: fail}}]");
  return {
      {"E230", "tool[0] needs 'kind'", S2("tool: [{name: a}]"),
       S2("tool: [{name: a, kind: noop}]")},
      {"E230", "one label expected, found 2", S2("tool: [{a: {kind: noop}, b: {kind: noop}}]"),
       S2("tool: [{a: {kind: noop}}, {b: {kind: noop}}]")},
      {"E231", "tool list is empty", S2("tool: []"), noop},
      {"E232", "duplicate task label 'a'",
       S2("tool: [{name: a, kind: noop}, {name: a, kind: noop}]"),
       S2("tool: [{name: a, kind: noop}, {name: b, kind: noop}]")},
      {"W233", "is also a step", S2("tool: [{name: start, kind: noop}]"),
       S2("tool: [{name: a, kind: noop}]")},
      {"E233", "tool needs 'kind'", S2("tool: {url: x}"), noop},
      {"E234", "unknown tool kind 'htpp'; did you mean 'http'?", S2("tool: {kind: htpp}"), noop},
      {"E234", "unknown tool kind 'HTTP'; did you mean 'http'?", S2("tool: {kind: HTTP, url: x}"),
       noop},
      {"E234", "unknown tool kind 'playbooks'", S2("tool: {kind: playbooks}"), noop},
      {"E234", "unknown tool kind '{{ k }}'", S2("tool: {kind: '{{ k }}'}"), noop},
      {"W235", "'agent' is not available", S2("tool: {kind: agent}"), noop},
      {"E236", "internal", S2("tool: {kind: task_sequence}"), noop},
      {"E237", "postgres tool: no sql command provided", S2("tool: {kind: postgres, auth: a}"),
       S2("tool: {kind: postgres, query: SELECT 1}")},
      {"E237", "'url' or 'endpoint' is required", S2("tool: {kind: http}"),
       S2("tool: {kind: http, spec: {endpoint: x}}")},
      {"E237", "'target' is required", S2("tool: {kind: transfer, source: {}}"),
       S2("tool: {kind: transfer, source: {}, target: {}}")},
      {"W238", "literal password", S2("tool: {kind: postgres, command: x, password: p}"),
       S2("tool: {kind: postgres, command: x, password: '{{ keychain.a.p }}'}")},
      {"E238", "literal password", S10("tool: {kind: postgres, command: x, auth: {password: p}}"),
       S10("tool: {kind: postgres, command: x, auth: a}")},
      {"W240", "both 'input' and 'args'", S2("tool: {kind: noop, input: {}, args: {}}"),
       S2("tool: {kind: noop, args: {}}")},
      {"E450", "rules must be a list", rule("{}"), good_rule},
      {"E450", "needs 'when' or 'else'", rule("[{}]"), good_rule},
      {"E450", "'do' must be inside 'then'", rule("[{when: true, do: fail}]"), good_rule},
      {"E450", "backoff", rule("[{when: '{{ output.error }}', then: {do: retry, backoff: slow}}]"),
       good_rule},
      {"E450", "attempts must be at least 1",
       rule("[{when: '{{ output.error }}', then: {do: retry, attempts: 0}}]"),
       rule("[{when: '{{ output.error }}', then: {do: retry, attempts: '2'}}]")},
      {"W450", "reserved", S2("tool: {kind: noop, spec: {policy: {finally: []}}}"), good_rule},
      {"E451",
       "tool[].start_task.spec.policy.rules[0].then.do 'retyr' is not one of continue, retry, "
       "break, jump, fail",
       rule("[{when: true, then: {do: retyr}}]"), good_rule},
      {"E452", "no task is labelled 'b'",
       S2("tool: [{name: a, kind: noop, spec: {policy: {rules: [{when: false, then: "
          "{do: jump, to: b}}]}}}]"),
       good_rule},
      {"E452", "jump needs 'to'", rule("[{when: false, then: {do: jump}}]"),
       rule("[{when: false, then: {do: jump, to: start_task}}]")},
      {"E453", "no previous", rule("[{when: false, then: {do: jump, to: previous}}]"), good_rule},
      {"W454", "unreachable rule", rule("[{else: {do: continue}}, {when: true, then: {do: fail}}]"),
       good_rule},
      {"W455", "retries successes", rule("[{else: {do: retry}}]"),
       rule(
           "[{when: '{{ output.status == \"ok\" }}', then: {do: continue}}, {else: {do: retry}}]")},
      {"E460", "'path' or 'catalog_id' is required", S2("tool: {kind: playbook}"),
       S2("tool: {kind: playbook, path: a/b}")},
  };
}

std::vector<Case> LoopAndTemplateCases() {
  const std::string loop = S2("loop: {in: '{{ [1] }}', iterator: x}");
  const std::string cursor = S2("loop: {cursor: {claim: c}, iterator: x, spec: {mode: cursor}}");
  const auto result = [](std::string_view text) {
    return S2(fmt::format("tool: {{kind: noop, result: \"{}\"}}", text));
  };
  return {
      {"E260", "needs 'claim'", S2("loop: {cursor: {auth: a}, iterator: x, spec: {mode: cursor}}"),
       cursor},
      {"E261", "not both",
       S2("loop: {in: [1], cursor: {claim: c}, iterator: x, spec: {mode: cursor}}"), cursor},
      {"E262", "mode cursor needs 'cursor'",
       S2("loop: {in: [1], iterator: x, spec: {mode: cursor}}"), loop},
      {"E262", "needs spec.mode: cursor", S2("loop: {cursor: {claim: c}, iterator: x}"), cursor},
      {"E263", "loop needs 'in'", S2("loop: {iterator: x}"), loop},
      {"E264", "loop.iterator is empty", S2("loop: {in: [1]}"), loop},
      {"E264", "not an identifier", S2("loop: {in: [1], iterator: a-b}"), loop},
      {"E265", "sequential, parallel, cursor",
       S2("loop: {in: [1], iterator: x, spec: {mode: async}}"), loop},
      {"E265", "max_in_flight", S2("loop: {in: [1], iterator: x, spec: {max_in_flight: 0}}"),
       S2("loop: {in: [1], iterator: x, spec: {max_in_flight: '{{ 2 }}'}}")},
      {"E265", "frame.max_rows must be above 0",
       S2("loop: {cursor: {claim: c}, iterator: x, spec: {mode: cursor, frame: {max_rows: 0}}}"),
       cursor},
      {"E211", "loop.mode is legacy", S10("loop: {in: [1], iterator: x, mode: parallel}"),
       S10("loop: {in: [1], iterator: x, spec: {mode: parallel}}")},
      {"E400", "workflow[0].tool.result", result("{% macro x() %}{% endmacro %}"),
       result("{{ 1 }}")},
      {"E401", "default", result("{{ x | defualt(1) }}"), result("{{ x | default(1) }}")},
      {"E403", "workflow[0].tool.result", result("{{ open('x') }}"), result("{{ range(2) }}")},
      {"E404", "workflow[0].tool.result", result("{{ 1 + }}"), result("{{ 1 + 1 }}")},
      {"W413", "unrendered", S2("tool: {kind: python, code: 'f\"{{x!r}}\"'}"),
       S2("tool: {kind: python, code: 'x = 1'}")},
      {"E441", "write {{ env_name == 'prod' }}, not {{ env_name }} == prod",
       S2("next: {arcs: [{step: start, when: '{{ env_name }} == prod'}]}"),
       S2("next: {arcs: [{step: start, when: \"{{ env_name == 'prod' }}\"}]}")},
  };
}

void CheckCases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Loaded bad = Load(c.bad);
    const Diagnostic* found = nullptr;
    for (const Diagnostic& d : bad.diagnostics) {
      if (d.code == c.code && d.message.find(c.text) != std::string::npos) found = &d;
    }
    EXPECT_NE(found, nullptr) << c.code << " '" << c.text << "' missing for\n"
                              << c.bad << "\ngot\n"
                              << Show(bad);
    if (found == nullptr) continue;
    EXPECT_GT(found->position.line, 0) << c.code;
    EXPECT_GT(found->position.column, 0) << c.code;
    EXPECT_FALSE(found->hint.empty()) << c.code << " has no remedy";
    EXPECT_EQ(bad.ok(), std::none_of(bad.diagnostics.begin(), bad.diagnostics.end(),
                                     [](const Diagnostic& d) { return d.is_error(); }));
    const Loaded good = Load(c.good);
    EXPECT_THAT(Codes(good), testing::Not(testing::Contains(c.code))) << c.good << Show(good);
    EXPECT_TRUE(good.ok()) << c.good << Show(good);
  }
}

TEST(CodesTest, Header) { CheckCases(HeaderCases()); }
TEST(CodesTest, Steps) { CheckCases(StepCases()); }
TEST(CodesTest, Tools) { CheckCases(ToolCases()); }
TEST(CodesTest, LoopsAndTemplates) { CheckCases(LoopAndTemplateCases()); }

TEST(CodesTest, AllProblemsAtOnceInOrder) {
  const Loaded loaded = Load(
      "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {path: a}\nworkflow:\n"
      "  - step: start\n    tool: {kind: htpp}\n    next: {arcs: [{step: nowhere}]}\n"
      "  - step: start\n    loop: {iterator: x}\n");
  EXPECT_THAT(Codes(loaded), testing::IsSupersetOf({"E011", "E234", "E272", "E210", "E263"}));
  for (std::size_t i = 1; i < loaded.diagnostics.size(); ++i) {
    EXPECT_LE(loaded.diagnostics[i - 1].position.line, loaded.diagnostics[i].position.line);
  }
}

TEST(CodesTest, PositionAndPath) {
  const Loaded loaded =
      Load(V2("workflow:\n  - step: start\n    next:\n      arcs:\n        - step: strat\n"
              "          when: \"{{ a | defualt }}\"\n"));
  const Diagnostic* target = FindCode(loaded, "E272");
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->path, "workflow[0].next.arcs[0].step");
  EXPECT_EQ(target->position, (Position{8, 17}));
  const Diagnostic* filter = FindCode(loaded, "E401");
  ASSERT_NE(filter, nullptr);
  EXPECT_EQ(filter->path, "workflow[0].next.arcs[0].when");
  EXPECT_EQ(filter->position.line, 9);
  EXPECT_THAT(FormatDiagnostic(*target, "t.yaml"),
              testing::StartsWith("t.yaml:8:17: E272 Step 'start'"));
  EXPECT_EQ(DiagnosticJson(*target)["severity"].AsString(), "error");
}

TEST(CodesTest, RequireStart) {
  EXPECT_TRUE(Load(V2("workflow:\n  - step: a\n")).ok());
  EXPECT_FALSE(Load(V2("workflow:\n  - step: a\n"), {.require_start = true}).ok());
}

TEST(CodesTest, ScriptTypeMistakeNamesExpectedAndGot) {
  const Loaded loaded = Load(StepDocument("v2", "tool: {kind: noop, retry: 3}"));
  const Diagnostic* found = FindCode(loaded, "E013");
  ASSERT_NE(found, nullptr) << Show(loaded);
  EXPECT_EQ(found->message, "workflow[0].tool.retry must be a map, got int (3)");
}

}  // namespace
}  // namespace noetl::playbook
