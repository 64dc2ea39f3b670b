// From text to model: the examples, what the engine reads, and how long it takes.
#include <chrono>

#include <fmt/format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_io.h"
#include "playbook/model.h"
#include "playbook/test_documents.h"

namespace noetl::playbook {
namespace {

using testing::ElementsAre;

std::shared_ptr<const Playbook> MustLoad(const std::string& text) {
  Loaded loaded = Load(text);
  EXPECT_TRUE(loaded.ok()) << text << Show(loaded);
  return loaded.playbook;
}

std::string Example(std::string_view name) {
  return ReadText(fmt::format("{}/tests/playbooks/examples/{}.yaml", NOETL_SOURCE_DIR, name));
}

TEST(LoadTest, ExamplesLoad) {
  for (const char* name : {"ex1", "ex2", "ex3", "ex4", "ex5", "ex6", "ex7", "ex8", "ex9", "ex10",
                           "ex11_child", "ex11_parent", "ex12"}) {
    const std::string text = Example(name);
    ASSERT_FALSE(text.empty()) << name;
    const Loaded loaded = Load(text);
    EXPECT_TRUE(loaded.ok()) << name << "\n" << Show(loaded);
  }
}

TEST(LoadTest, Routing) {
  const auto playbook = MustLoad(Example("ex2"));
  EXPECT_EQ(playbook->profile, Profile::kCompat);
  EXPECT_EQ(playbook->path, "ex/route");
  const Step& start = *playbook->Find("start");
  ASSERT_EQ(start.arcs.size(), 3u);
  EXPECT_EQ(start.arcs[1].target, "mid");
  EXPECT_EQ(start.arcs[1].target_index, playbook->IndexOf("mid"));
  EXPECT_FALSE(start.arcs[1].when.is_absent());
  EXPECT_TRUE(start.arcs[2].when.is_absent());
  ASSERT_EQ(start.arcs[1].set.size(), 2u);
  EXPECT_EQ(start.arcs[1].set[1].scope, Assignment::Scope::kCtx);
  EXPECT_THAT(start.arcs[1].set[1].path, ElementsAre("route", "from"));
  EXPECT_EQ(start.arcs[1].path, "workflow[0].next.arcs[1]");
  EXPECT_EQ(playbook->PositionOf("workflow[0].next.arcs[1].when.x").line, 13);
  EXPECT_TRUE(playbook->graph.IsJoin(playbook->IndexOf("merge")));
}

TEST(LoadTest, EntryFinalAndEnd) {
  const auto cursor = MustLoad(Example("ex12"));
  EXPECT_EQ(cursor->entry, cursor->IndexOf("seed"));
  EXPECT_EQ(cursor->final, cursor->IndexOf("report"));
  EXPECT_EQ(cursor->end, -1);
  const Step& drain = *cursor->Find("drain");
  ASSERT_TRUE(drain.loop.has_value());
  EXPECT_EQ(drain.loop->mode, Loop::Mode::kCursor);
  EXPECT_EQ(drain.loop->frame.max_rows, 2);
  EXPECT_EQ(drain.loop->frame.row_concurrency, 2);
  EXPECT_FALSE(drain.loop->cursor.claim.is_literal());
  EXPECT_EQ(WriteJson(cursor->Find("seed")->output),
            R"({"store":{"kind":"auto"},"select":[{"path":"$.row_count","as":"row_count"}]})");
  const auto admit = MustLoad(Example("ex4"));
  EXPECT_TRUE(admit->implicit_end);
  const Step& notify = *admit->Find("notify");
  EXPECT_TRUE(notify.has_admit);
  ASSERT_EQ(notify.admit.size(), 2u);
  EXPECT_TRUE(notify.admit[0].allow);
  EXPECT_FALSE(notify.admit[1].allow);
  EXPECT_TRUE(notify.admit[1].when.is_absent());
  EXPECT_FALSE(admit->Find("publish")->when.is_absent());
  EXPECT_EQ(admit->Find("audit")->on_no_match, OnNoMatch::kQuiet);
}

TEST(LoadTest, SingleToolAndPipeline) {
  const auto playbook = MustLoad(Example("ex8"));
  const Step& start = *playbook->Find("start");
  EXPECT_FALSE(start.single);
  EXPECT_TRUE(start.pipeline);
  EXPECT_EQ(start.tool_kind, "task_sequence");
  ASSERT_EQ(start.pipeline_config.size(), 5u);
  EXPECT_EQ(start.pipeline_config.At(1)["fetch"]["kind"].AsString(), "noop");
  EXPECT_EQ(start.tasks[2].name, "task_2");
  EXPECT_EQ(start.tasks[1].set[0].scope, Assignment::Scope::kLocal);
  EXPECT_EQ(start.tasks[1].path, "workflow[0].tool[1]");
  const Step& end = *playbook->Find("end");
  EXPECT_TRUE(end.single);
  EXPECT_FALSE(end.pipeline);
  EXPECT_EQ(end.tool_kind, "noop");
  EXPECT_TRUE(end.pipeline_config.is_null());
}

TEST(LoadTest, SingleToolWithPolicyIsAPipelineWithABarePayload) {
  const auto playbook = MustLoad(StepDocument("v2",
                                              "tool:\n  kind: noop\n  set: {a: 1, iter.b: 2}\n  "
                                              "spec: {policy: {rules: [{else: {do: continue}}]}, "
                                              "timeout: 3}"));
  const Step& step = playbook->steps[0];
  EXPECT_TRUE(step.single);
  EXPECT_TRUE(step.pipeline);
  EXPECT_TRUE(step.set.empty());
  EXPECT_EQ(
      WriteJson(step.pipeline_config),
      R"([{"start_task":{"kind":"noop","name":"start_task","set":{"ctx.a":1,"iter.b":2},)"
      R"("spec":{"policy":{"rules":[{"else":{"then":{"do":"continue"}}}]}},"timeout_ms":3000}}])");
}

TEST(LoadTest, ToolSetComesBeforeStepSet) {
  const auto playbook =
      MustLoad(StepDocument("v2", "tool: {kind: noop, set: {a: 1}}\nset: {ctx.b.c: 2}"));
  const Step& step = playbook->steps[0];
  ASSERT_EQ(step.set.size(), 2u);
  EXPECT_EQ(step.set[0].scope, Assignment::Scope::kCtx);
  EXPECT_THAT(step.set[0].path, ElementsAre("a"));
  EXPECT_THAT(step.set[1].path, ElementsAre("b", "c"));
}

TEST(LoadTest, FieldsAndOutputForms) {
  const auto playbook = MustLoad(
      StepDocument("v2",
                   "tool:\n  kind: http\n  url: '{{ u | default(1) }}'\n  json: {a: 1}\n  input: "
                   "{x: 1}\n  retry: {max_attempts: "
                   "2}\n  timeout: {connect: 1, read: 2}\n  spec: {result: {scrub: off}}"));
  const Task& task = playbook->steps[0].tasks[0];
  ASSERT_EQ(task.fields.size(), 3u);
  EXPECT_EQ(task.fields[0].name, "url");
  EXPECT_EQ(task.fields[0].output, expr::Output::kText);
  EXPECT_EQ(task.Find("json")->output, expr::Output::kStructured);
  EXPECT_NE(task.Find("timeout"), nullptr);
  EXPECT_EQ(task.Find("input"), nullptr);
  EXPECT_EQ(WriteJson(task.input.source()), R"({"x":1})");
  EXPECT_EQ(WriteJson(task.retry), R"({"max_attempts":2})");
  EXPECT_EQ(WriteJson(task.spec), R"({"result":{"scrub":"off"}})");
  EXPECT_FALSE(task.timeout_ms.has_value());
}

TEST(LoadTest, EffectiveTimeouts) {
  const auto timeout = [](std::string_view executor, std::string_view lines) {
    const std::string text = StepDocument("v2", lines);
    const std::string with = fmt::format("{}{}", text, executor);
    return MustLoad(with)->steps[0].tasks[0].timeout_ms.value_or(-1);
  };
  const std::string_view defaults = "executor: {spec: {policy: {defaults: {timeout_s: 40}}}}\n";
  EXPECT_EQ(timeout(defaults, "tool: {kind: noop, timeout: 10}\nspec: {timeout: 20s}"), 10'000);
  EXPECT_EQ(timeout(defaults, "spec: {timeout: 20s, policy: {lifecycle: {timeout_s: 30}}}"),
            20'000);
  EXPECT_EQ(timeout(defaults, "spec: {policy: {lifecycle: {timeout_s: 30, deadline_s: 5}}}"),
            30'000);
  EXPECT_EQ(timeout(defaults, "desc: x"), 40'000);
  EXPECT_EQ(timeout("", "desc: x"), -1);
  EXPECT_EQ(timeout("", "tool: {kind: noop, timeout_ms: 250}"), 250);
  EXPECT_EQ(MustLoad(StepDocument("v2", "spec: {policy: {lifecycle: {deadline_s: 1m}}}"))
                ->steps[0]
                .deadline_ms,
            60'000);
  EXPECT_EQ(MustLoad(V2("executor: {spec: {timeout: 2h}}\nworkflow: [{step: start}]\n"))
                ->executor.timeout_ms,
            7'200'000);
}

TEST(LoadTest, WorkerRoots) {
  const auto playbook = MustLoad(V2(R"(workload: { api: x, other: y, key: z } # nothing
workflow:
  - step: start
    tool: { kind: http, url: "{{ api }}", headers: { A: "{{ keychain.k.t }}{{ other }}" } }
    next: { arcs: [ { step: b } ] }
  - step: b
    tool:
      - name: t
        kind: http
        url: "{{ ctx.q }}/{{ start.id }}/{{ workload.api }}/{{ iter.n }}/{{ _prev.x }}"
    set: { ctx.q: "{{ other }}" }
    next: { arcs: [ { step: c } ] }
  - step: c
    tool: { kind: python, code: "x = context['a']" }
    next: { arcs: [ { step: d } ] }
  - step: d
    tool: [ { name: t, kind: noop, result: "{{ ctx }}" } ]
)"));
  EXPECT_THAT(playbook->steps[0].worker_roots, ElementsAre("other"));
  EXPECT_THAT(playbook->steps[1].worker_roots, ElementsAre("q", "start", "workload"));
  EXPECT_FALSE(playbook->steps[1].all_roots);
  EXPECT_TRUE(playbook->steps[2].all_roots);
  EXPECT_TRUE(playbook->steps[3].all_roots);
}

TEST(LoadTest, WorkloadHintsAndEnvironment) {
  const auto playbook = MustLoad(V2(R"(workload:
  token: abc  # ui:secret
  mode: a     # ui:enum=[a, b] ui:description=How to run
  list: [1, 2] # ui:secret
  home: "{{ env.HOME_DIR | default('x') }}"
workflow:
  - step: start
    tool: { kind: http, url: "u", headers: { T: "{{ token }}-{{ mode }}", R: "{{ env.REGION }}" } }
)"));
  EXPECT_TRUE(playbook->workload[0].secret);
  EXPECT_FALSE(playbook->workload[1].secret);
  EXPECT_EQ(WriteJson(playbook->workload[1].ui),
            R"({"enum":["a","b"],"description":"How to run"})");
  EXPECT_TRUE(playbook->workload[2].secret);
  EXPECT_THAT(playbook->env_names, ElementsAre("HOME_DIR", "REGION"));
  // A template with a secret input is left to the worker.
  EXPECT_THAT(playbook->steps[0].worker_roots, ElementsAre("mode", "token"));
}

TEST(LoadTest, CodeIsNeverATemplateInTheStrictProfile) {
  const auto strict =
      MustLoad(StepDocument("v10", "tool: {kind: python, code: 'print(f\"{{ 1 + }}\")'}"));
  EXPECT_TRUE(strict->steps[0].tasks[0].Find("code")->value.is_literal());
  const auto compat = MustLoad(StepDocument("v2", "tool: {kind: python, code: 'x = {{ 1 }}'}"));
  EXPECT_FALSE(compat->steps[0].tasks[0].Find("code")->value.is_literal());
}

TEST(LoadTest, LegacyFormsAreRefusedInTheStrictProfile) {
  std::string text = Example("ex10");
  text.replace(text.find("noetl.io/v2"), 11, "noetl.io/v10");
  const Loaded loaded = Load(text);
  EXPECT_FALSE(loaded.ok());
  EXPECT_THAT(Codes(loaded), testing::IsSupersetOf({"E110", "E211"}));
}

TEST(LoadTest, BrokenFiles) {
  const struct {
    const char* name;
    std::string text;
    const char* code;
  } cases[] = {
      {"indentation", "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: x\n path: y\n",
       "E005"},
      {"tab", "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n\tname: x\n", "E005"},
      {"unknown step", StepDocument("v2", "next: {arcs: [{step: nowhere}]}"), "E272"},
      {"misspelt key", StepDocument("v10", "tols: {kind: noop}"), "E100"},
      {"bad template", StepDocument("v2", "tool: {kind: noop, result: '{{ a b }}'}"), "E404"},
      {"duplicate name", V2("workflow: [{step: start}, {step: start}]\n"), "E210"},
      {"wrong type", StepDocument("v2", "loop: 5"), "E013"},
      {"large", std::string(10u << 20, 'a'), "E006"},
      {"garbage", "\x01\x02\xfe\xff", "E005"},
  };
  for (const auto& c : cases) {
    const Loaded loaded = Load(c.text);
    EXPECT_FALSE(loaded.ok()) << c.name;
    const Diagnostic* found = FindCode(loaded, c.code);
    ASSERT_NE(found, nullptr) << c.name << Show(loaded);
    EXPECT_GT(found->position.line, 0) << c.name;
    EXPECT_FALSE(found->hint.empty()) << c.name;
  }
}

// 56 steps, 1,900 lines: the largest playbook known. The goal is 20 ms in an optimised build.
TEST(LoadTest, LargePlaybook) {
  std::string text =
      V2("workload: { a: 1, b: x }\nworkflow:\n  - step: start\n    next: { arcs: [ { step: s0 } ] "
         "}\n");
  for (int i = 0; i < 55; ++i) {
    text += fmt::format(
        "  - step: s{}\n    desc: step {}\n    tool:\n      kind: python\n      input:\n", i, i);
    for (int k = 0; k < 8; ++k) text += fmt::format("        v{}: \"{{{{ workload.a }}}}\"\n", k);
    text += "      code: |\n";
    for (int k = 0; k < 14; ++k) text += fmt::format("        line_{} = {{'a': {}}}\n", k, k);
    text += "    set:\n      ctx.x: \"{{ output.data.x | default(0) }}\"\n    next:\n      arcs:\n";
    text +=
        fmt::format("        - step: {}\n          when: \"{{{{ event.name == 'call.done' }}}}\"\n",
                    i < 54 ? fmt::format("s{}", i + 1) : "start");
  }
  const auto start = std::chrono::steady_clock::now();
  const Loaded loaded = Load(text);
  const auto spent = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(loaded.ok()) << Show(loaded);
  EXPECT_LT(spent, std::chrono::seconds(2));
}

}  // namespace
}  // namespace noetl::playbook
