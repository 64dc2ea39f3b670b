#include "playbook/lint.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "playbook/lint_internal.h"
#include "playbook/model.h"

namespace noetl::playbook {
namespace {

std::string Head(const std::string& version = "v2") {
  return "apiVersion: noetl.io/" + version +
         "\nkind: Playbook\nmetadata: {name: n, path: t/self}\n";
}

std::vector<Diagnostic> Diagnose(const std::string& text) { return Load(text).diagnostics; }

// "CODE path" of each finding; legacy forms (W211) are no concern of the linter.
std::vector<std::string> Found(const std::string& text) {
  std::vector<std::string> found;
  for (const Diagnostic& diagnostic : Diagnose(text)) {
    if (diagnostic.code == "W211") continue;
    found.push_back(diagnostic.code + " " + diagnostic.path);
  }
  return found;
}

Diagnostic Only(const std::string& code, const std::string& text) {
  Diagnostic only;
  int count = 0;
  for (const Diagnostic& diagnostic : Diagnose(text)) {
    if (diagnostic.code != code) continue;
    only = diagnostic;
    ++count;
  }
  EXPECT_EQ(count, 1) << code << "\n" << text << "\n" << testing::PrintToString(Found(text));
  return only;
}

using List = std::vector<std::string>;

#define EXPECT_CLEAN(text) EXPECT_EQ(Found(text), List())

// ---- conditions ----

TEST(ConditionTest, Normalises) {
  EXPECT_EQ(lint::NormaliseCondition("{{  a.b   ==\"x\" }}"), "a.b == 'x'");
  EXPECT_EQ(lint::NormaliseCondition("((a))"), "a");
  EXPECT_EQ(lint::NormaliseCondition("(a) and (b)"), "( a ) and ( b )");
  EXPECT_EQ(lint::NormaliseCondition("{{- True -}}"), "true");
}

TEST(ConditionTest, Complements) {
  const auto yes = [](const char* a, const char* b) {
    EXPECT_TRUE(lint::AreComplements(a, b)) << a << " / " << b;
    EXPECT_TRUE(lint::AreComplements(b, a)) << b << " / " << a;
  };
  const auto no = [](const char* a, const char* b) {
    EXPECT_FALSE(lint::AreComplements(a, b)) << a << " / " << b;
    EXPECT_FALSE(lint::AreComplements(b, a)) << b << " / " << a;
  };
  yes("{{ x.more }}", "{{ not x.more }}");
  yes("{{ a and b }}", "{{ not (a and b) }}");
  yes("{{ a == 'b' }}", "{{a != \"b\"}}");
  yes("{{ a < 5 }}", "{{ a>=5 }}");
  yes("{{ a > 5 }}", "{{ a <= 5 }}");
  yes("{{ x in [1, 2] }}", "{{ x not in [1,2] }}");
  yes("{{ x is defined }}", "{{ x is not defined }}");
  yes("{{ event.name == 'call.done' }}", "{{ event.name == 'call.error' }}");
  yes("{{ output.status == 'ok' }}", "{{ output.status == 'failed' }}");
  yes("a == 1", "{{ a != 1 }}");
  no("{{ a }}", "{{ b }}");
  no("{{ a < 5 }}", "{{ a > 5 }}");
  no("{{ a < 5 }}", "{{ a >= 6 }}");
  no("{{ a == 1 and c }}", "{{ a != 1 and c }}");
  no("{{ a and b }}", "{{ not a and b }}");
  no("{{ a == 'ok' }}", "{{ a == 'error' }}");
  no("", "");
}

// ---- routing ----

TEST(LintTest, ArcAfterAnUnconditionalOne) {
  const std::string text = Head() + R"(workflow:
  - step: start
    next: {arcs: [{step: a}, {step: b, when: "{{ start.x }}"}]}
  - step: a
  - step: b
)";
  const Diagnostic found = Only("W273", text);
  EXPECT_EQ(found.path, "workflow[0].next.arcs[1]");
  EXPECT_EQ(found.message, "Step 'start': arc 1 to 'b' can never fire");
  EXPECT_EQ(found.position.line, 6);
  EXPECT_NE(found.hint.find("'a'"), found.hint.npos);
}

TEST(LintTest, FailureArcsMayComeLater) {
  for (const char* when : {"event.name == 'call.error'", "error", "output.status == 'error'"}) {
    EXPECT_CLEAN(Head("v10") +
                 "workflow:\n  - step: start\n    next: {arcs: [{step: a}, {step: b, "
                 "when: \"{{ " +
                 when + " }}\"}]}\n  - step: a\n  - step: b\n");
  }
  EXPECT_CLEAN(Head() + R"(workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, when: "{{ start.x }}"}]}
  - {step: a, next: c}
  - {step: b, next: c}
  - step: c
)");
}

std::string Arcs(const std::string& arcs, const std::string& spec = "{}") {
  return Head() + "workflow:\n  - step: start\n    next: {spec: " + spec + ", arcs: [" + arcs +
         "]}\n  - step: a\n  - step: b\n    when: \"{{ start.q }}\"\n    next: a\n";
}

TEST(LintTest, NoArcMayMatch) {
  const std::string when_x = "{step: a, when: \"{{ start.x }}\"}";
  const Diagnostic found = Only("W274", Arcs(when_x + ", {step: b, when: \"{{ start.y }}\"}"));
  EXPECT_EQ(found.message, "Step 'start': no arc may match; branch would end silently");
  EXPECT_CLEAN(Arcs(when_x + ", {step: b, when: \"{{ not start.x }}\"}"));
  EXPECT_CLEAN(Arcs(when_x + ", {step: b}"));
  EXPECT_CLEAN(Arcs("{step: b, when: \"{{ event.name == 'call.done' }}\"}"));
  EXPECT_EQ(Found(Arcs("{step: b, when: \"{{ event.name == 'loop.done' }}\"}")),
            List{"W274 workflow[0].next"});
  for (const char* spec : {"{on_no_match: quiet}", "{on_no_match: fail}"}) {
    EXPECT_CLEAN(Arcs("{step: b, when: \"{{ start.x }}\"}", spec));
  }
}

TEST(LintTest, UnreachableSteps) {
  const std::string text = Head() +
                           "workflow:\n  - step: start\n  - step: lost\n    next: more\n"
                           "  - step: more\n";
  EXPECT_EQ(Found(text), (List{"W275 workflow[1]", "W275 workflow[2]"}));
  EXPECT_EQ(Diagnose(text)[0].message, "step 'lost' is unreachable");
  EXPECT_CLEAN(Head() +
               "executor: {spec: {final_step: last}}\n"
               "workflow:\n  - step: start\n  - step: last\n  - step: end\n");
}

std::string Cycle(const std::string& version, const std::string& arcs) {
  return Head(version) +
         "workflow:\n  - step: start\n    next: {arcs: [{step: a}]}\n"
         "  - step: a\n    next: {arcs: [{step: b}]}\n"
         "  - step: b\n    next: {arcs: [" +
         arcs + "]}\n  - step: out\n";
}

TEST(LintTest, EndlessCycles) {
  for (const char* version : {"v2", "v10"}) {
    const Diagnostic found = Only("E276", Cycle(version, "{step: a}"));
    EXPECT_EQ(found.message, "Step 'a': infinite cycle a -> b -> a");
    EXPECT_EQ(found.path, "workflow[2].next");
  }
  // An arc that leaves: a warning in v2, an error in v10.
  Only("W276", Cycle("v2", "{step: a}, {step: out, when: \"{{ event.name == 'call.error' }}\"}"));
  Only("E276", Cycle("v10", "{step: a}, {step: out, when: \"{{ event.name == 'call.error' }}\"}"));
  EXPECT_CLEAN(Cycle("v10", "{step: a, when: \"{{ b.more }}\"}, {step: out}"));
  EXPECT_CLEAN(Cycle("v2", "{step: out, when: \"{{ b.done }}\"}, {step: a}"));
  // A cycle that nobody enters never runs.
  EXPECT_EQ(Found(Head() +
                  "workflow:\n  - step: start\n  - {step: a, next: b}\n  - {step: b, next: a}\n"),
            (List{"W275 workflow[1]", "W275 workflow[2]"}));
}

TEST(LintTest, SelfCycleAndAdmission) {
  const auto text = [](const std::string& spec) {
    return Head() + "workflow:\n  - step: start\n" + spec + "    next: {arcs: [{step: start}]}\n";
  };
  EXPECT_EQ(Only("E276", text("")).message, "Step 'start': infinite cycle start -> start");
  Only("W276", text("    spec: {policy: {admit: {rules: [{when: \"{{ start.x }}\", then: {allow: "
                    "true}}]}}}\n"));
}

TEST(LintTest, FanOutWithoutJoin) {
  const auto text = [](const std::string& b) {
    return Head() +
           "workflow:\n  - step: start\n    next: [a, b]\n  - step: a\n    next: {arcs: "
           "[{step: c}]}\n  - step: b\n" +
           b + "  - step: c\n";
  };
  const Diagnostic found = Only("W277", text(""));
  EXPECT_NE(found.message.find("[fanout_no_reducer] Step 'start' starts 2 branches"),
            found.message.npos);
  const auto joined = Found(text("    next: {arcs: [{step: c}]}\n"));
  EXPECT_EQ(std::ranges::count_if(joined, [](auto& f) { return f.starts_with("W277"); }), 0);
}

// ---- tasks and assignments ----

std::string ParallelLoop(const std::string& mode, const std::string& set) {
  return Head() +
         "workflow:\n  - step: start\n    loop: {in: [1], iterator: i, spec: {mode: " + mode +
         "}}\n    tool:\n      - {name: one, kind: noop, set: {" + set + "}}\n";
}

TEST(LintTest, ParallelWritesRace) {
  const Diagnostic found = Only("W250", ParallelLoop("parallel", "ctx.total: \"{{ i }}\""));
  EXPECT_EQ(found.message,
            "Step 'start': parallel iterations race on ctx.total; last completion wins");
  EXPECT_CLEAN(ParallelLoop("sequential", "ctx.total: \"{{ i }}\""));
  EXPECT_CLEAN(ParallelLoop("parallel, max_in_flight: 1", "ctx.total: \"{{ i }}\""));
  EXPECT_CLEAN(ParallelLoop("parallel", "iter.total: \"{{ i }}\""));
}

TEST(LintTest, PolicyWritesRaceToo) {
  Only("W250", Head() + R"(workflow:
  - step: start
    loop: {in: [1], iterator: i, spec: {mode: parallel}}
    tool:
      kind: noop
      spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.last: "{{ i }}"}}}}]}}
)");
}

TEST(LintTest, LabelsHideSteps) {
  EXPECT_EQ(
      Only("W233", Head() + "workflow:\n  - step: start\n    tool: [{name: other, kind: noop}]\n"
                            "    next: other\n  - step: other\n")
          .path,
      "workflow[0].tool[0].name");
}

TEST(LintTest, FieldsHiddenByLabels) {
  Only("W420", Head() +
                   "workflow:\n  - step: start\n    tool:\n"
                   "      - {name: one, kind: noop, result: {two: 1}}\n"
                   "      - {name: two, kind: noop}\n");
}

TEST(LintTest, ReferenceNames) {
  const auto text = [](const std::string& set) {
    return Head() + "workflow:\n  - step: start\n    set: {" + set + "}\n";
  };
  Only("W282", text("ctx.page_ref: \"{{ start.rows }}\""));
  Only("W282", text("ctx.page: \"{{ start._ref }}\""));
  EXPECT_CLEAN(text("ctx.page_ref: \"{{ start._ref }}\""));
  EXPECT_CLEAN(text("ctx.page: \"{{ start.rows }}\""));
}

TEST(LintTest, ChildNobodyWaitsFor) {
  const auto text = [](const std::string& wait, const std::string& read) {
    return Head() + "workflow:\n  - step: start\n    tool: {kind: playbook, path: t/child" + wait +
           "}\n    next: {arcs: [{step: end}]}\n  - step: end\n    tool: {kind: noop, result: "
           "\"{{ " +
           read + " }}\"}\n";
  };
  const Diagnostic found = Only("W462", text("", "start.rows"));
  EXPECT_NE(found.message.find("'t/child'"), found.message.npos);
  EXPECT_NE(found.message.find("reads its 'rows'"), found.message.npos);
  EXPECT_CLEAN(text(", return_result: true", "start.rows"));
  EXPECT_CLEAN(text("", "start.execution_id"));
  EXPECT_CLEAN(text("", "start.data.status"));
}

TEST(LintTest, ReturnStepOfItself) {
  const auto text = [](const std::string& path) {
    return Head() + "workflow:\n  - step: start\n    tool: {kind: playbook, path: " + path +
           ", return_step: strat}\n";
  };
  EXPECT_EQ(Only("W463", text("t/self")).hint, "did you mean 'start'?");
  EXPECT_CLEAN(text("t/other"));
}

// ---- clock and secrets ----

TEST(LintTest, ClockInRouting) {
  const std::string now = "\"{{ now() }}\"";
  const auto step = [&](const std::string& lines) {
    return Head() + "workflow:\n  - step: start\n" + lines;
  };
  Only("E402", step("    when: " + now + "\n"));
  Only("E402", step("    set: {ctx.at: " + now + "}\n"));
  Only("E402", step("    loop: {in: " + now + ", iterator: i}\n"));
  Only("E402", step("    loop: {in: [1], iterator: i, spec: {max_in_flight: " + now + "}}\n"));
  Only("E402",
       step("    next: {arcs: [{step: end, when: " + now + "}, {step: end}]}\n  - step: end\n"));
  Only("E402",
       step("    next: {arcs: [{step: end, set: {ctx.at: " + now + "}}]}\n  - step: end\n"));
  Only("E402",
       step("    spec: {policy: {admit: {rules: [{when: " + now + ", then: {allow: true}}]}}}\n"));
  EXPECT_CLEAN(Head() + "workload: {at: " + now +
               "}\nworkflow:\n  - step: start\n"
               "    tool: {kind: noop, result: " +
               now + "}\n");
}

TEST(LintTest, SecretsInRouting) {
  const std::string head = Head() +
                           "workload:\n  key: ''  # ui:secret\n  open: ''\n"
                           "keychain: [{name: k, kind: bearer}]\n";
  const auto step = [&](const std::string& lines) {
    return head + "workflow:\n  - step: start\n" + lines;
  };
  for (const char* secret : {"keychain.k.token", "key", "workload.key", "ctx.key", "token('k')"}) {
    const std::string text = "\"{{ " + std::string(secret) + " }}\"";
    Only("E431", step("    when: " + text + "\n"));
    Only("E431", step("    set: {ctx.a: " + text + "}\n"));
    Only("E431", step("    loop: {in: " + text + ", iterator: i}\n"));
    Only("E431", step("    next: {arcs: [{step: end, args: {a: " + text + "}}]}\n  - step: end\n"));
    Only("W432", step("    tool: {kind: http, url: " + text + "}\n"));
    EXPECT_CLEAN(step("    tool: {kind: http, url: x, headers: {A: " + text + "}}\n"));
  }
  EXPECT_CLEAN(step("    when: \"{{ open }}\"\n"));
}

// ---- names ----

std::string Step(const std::string& lines, const std::string& version = "v2") {
  return Head(version) + "workload: {limit: 1}\nworkflow:\n  - step: start\n" + lines;
}

TEST(LintTest, UnknownNames) {
  const Diagnostic found =
      Only("W405", Step("    tool: {kind: noop, result: {a: \"{{ limti }}\"}}\n"));
  EXPECT_EQ(found.path, "workflow[0].tool.result.a");
  EXPECT_EQ(found.message,
            "Step 'start': tool.result.a: 'limti' is never defined; it will render as empty");
  EXPECT_EQ(found.hint, "did you mean 'limit'?");
  EXPECT_EQ(found.position.line, 7);
  EXPECT_EQ(Only("W405", Step("    tool: {kind: noop, result: \"{{ strat.x }}\"}\n")).hint,
            "did you mean 'start'?");
  Only("W405", Step("    tool: {kind: noop, result: \"{{ ctx.totl }}\"}\n"));
  Only("W405", Step("    tool: {kind: noop, result: \"{{ workload.limt }}\"}\n"));
  Only("W405", Step("    tool: {kind: noop, result: \"{{ steps.strat }}\"}\n"));
  EXPECT_CLEAN(Step("    tool: {kind: noop, result: \"{{ other | default(1) }}\"}\n"));
  EXPECT_CLEAN(Step("    tool: {kind: noop, result: \"{{ other is defined }}\"}\n"));
}

TEST(LintTest, KnownNames) {
  EXPECT_CLEAN(Step(R"(    input: {a: "{{ limit }}"}
    loop: {in: [1], iterator: row}
    tool:
      - name: one
        kind: noop
        input: {b: "{{ a }}{{ row }}{{ iter.row }}{{ _index }}{{ loop.first }}"}
        result: "{{ b }}{{ input.b }}{{ _task }}{{ _attempt }}{{ env.HOME }}{{ job.uuid }}"
        set: {page: "{{ output }}", ctx.total: 1}
      - name: two
        kind: noop
        result: "{{ one.x }}{{ page }}{{ _prev }}{{ results.one }}{{ keychain.k.t }}{{ range(3) }}"
        spec:
          policy:
            rules: [{when: "{{ outcome.status == 'error' and error.kind }}", then: {do: fail}}]
    set: {ctx.n: "{{ output.data }}{{ result.one }}{{ event.name }}"}
    next: {arcs: [{step: end, args: {q: "{{ start.one }}"}, set: {m: 1}}]}
  - step: end
    tool:
      kind: noop
      result: "{{ q }}{{ total }}{{ ctx.n }}{{ m }}{{ steps['start'].x }}{{ execution_id }}"
)"));
}

TEST(LintTest, StepsThatCannotHaveRun) {
  const std::string text = Head() + R"(workflow:
  - step: start
    tool: {kind: noop, result: "{{ later.x }}"}
    next: {arcs: [{step: later}]}
  - step: later
    tool: {kind: noop, result: "{{ start.x }}{{ later.y }}"}
    set: {ctx.z: "{{ later.y }}"}
)";
  EXPECT_EQ(Found(text), (List{"W406 workflow[0].tool.result", "W406 workflow[1].tool.result"}));
  EXPECT_EQ(Diagnose(text)[0].message,
            "Step 'start': tool.result: 'later' never runs before 'start'");
  // In a cycle the former run is readable, and the final step sees everything.
  EXPECT_CLEAN(Head() + R"(executor: {spec: {final_step: last}}
workflow:
  - step: last
    tool: {kind: noop, result: "{{ poll.n }}"}
  - step: start
    next: {arcs: [{step: poll}]}
  - step: poll
    tool: {kind: noop, result: "{{ poll.n }}"}
    next: {arcs: [{step: poll, when: "{{ poll.n }}"}, {step: end}]}
  - step: end
)");
}

TEST(LintTest, NamesOutOfScope) {
  const Diagnostic found =
      Only("W407", Step("    loop: {in: \"{{ output.rows }}\", iterator: i}\n"));
  EXPECT_EQ(found.message, "Step 'start': loop.in: 'output' is not available in loop.in");
  EXPECT_NE(found.hint.find("after the tool ran"), found.hint.npos);
  Only("W407", Step("    tool: {kind: noop, result: \"{{ event.name }}\"}\n"));
  Only("W407", Step("    tool: {kind: noop, result: \"{{ _prev }}\"}\n"));
  Only("W407", Step("    tool: {kind: noop, result: \"{{ iter.x }}\"}\n"));
  Only("W407", Step("    when: \"{{ _index }}\"\n"));
  // A label, an iterator and an input outside their step.
  EXPECT_EQ(
      Only("W407", Step("    tool: [{name: one, kind: noop}]\n    next: {arcs: [{step: end, when: "
                        "\"{{ one.x }}\"}, {step: end}]}\n  - step: end\n"))
          .hint,
      "it is a task of step 'start': write start.one");
  Only("W407", Step("    loop: {in: [1], iterator: row}\n    set: {ctx.a: \"{{ row }}\"}\n"));
  Only("W407", Step("    tool: {kind: noop, input: {a: \"{{ a }}\"}}\n"));
  Only("W407", Step("    input: {q: 1}\n    set: {ctx.a: \"{{ q }}\"}\n"));
}

TEST(LintTest, WorkloadAndKeychainScopes) {
  const auto text = [](const std::string& head) {
    return Head() + head + "workflow:\n  - step: start\n";
  };
  EXPECT_CLEAN(text("workload: {a: 1, b: \"{{ a }}{{ workload.a }}{{ job.uuid }}{{ env.X }}\"}\n"));
  EXPECT_EQ(Only("W407", text("workload: {a: \"{{ b }}\", b: 1}\n")).hint, "move 'b' above 'a'");
  Only("W407", text("workload: {a: \"{{ ctx.x }}\"}\n"));
  Only("W405", text("workload: {a: \"{{ nope }}\"}\n"));
  EXPECT_CLEAN(
      text("workload: {a: 1}\nkeychain: [{name: k, auth: \"{{ a }}{{ workload.a }}\"}]\n"));
  Only("W407", text("keychain: [{name: k, auth: \"{{ start.x }}\"}]\n"));
  Only("W405", text("keychain: [{name: k, auth: \"{{ nope }}\"}]\n"));
}

TEST(LintTest, MethodsAndBracesInCode) {
  EXPECT_NE(Only("W408", Step("    tool: {kind: noop, result: \"{{ start_name.lower() | default('')"
                              " if false else limit }}\"}\n"))
                .hint.find("lower"),
            std::string::npos);
  Only("W414", Step("    tool: {kind: python, code: \"print({{ limit }})\"}\n", "v10"));
  EXPECT_CLEAN(Step("    tool: {kind: python, code: \"print(f'{{x}}')\"}\n", "v10"));
}

}  // namespace
}  // namespace noetl::playbook
