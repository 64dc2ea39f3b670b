#include "engine/pipeline.h"

#include <functional>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"
#include "base/testing.h"

namespace noetl::engine {
namespace {

using playbook::Profile;

class MapBodies : public Bodies {
 public:
  Result<const Json*> Find(std::string_view ref) const override {
    if (ref.starts_with("noetl://gone"))
      return Fail("REFERENCE_NOT_AVAILABLE", "the stored result is gone");
    const auto found = bodies.find(ref);
    return found == bodies.end() ? nullptr : &found->second;
  }
  std::map<std::string, Json, std::less<>> bodies;
};

ToolOutcome Ok(Json payload) { return {.ok = true, .payload = std::move(payload)}; }
ToolOutcome Bad(std::string error, Json info = {}, Json payload = {}) {
  return {.ok = false,
          .payload = std::move(payload),
          .error = std::move(error),
          .error_info = std::move(info)};
}

// Runs pipelines with tools that are functions. The default tool answers with `result` of its
// config, as noop does.
class PipelineTest : public testing::Test {
 protected:
  using Tool = std::function<ToolOutcome(const Pipeline::RunTool&)>;

  Pipeline Make(std::string_view config) {
    scope_ = std::make_unique<Scope>(sources_);
    if (!names_.is_null()) scope_->BindAll(names_);
    options_.step = "s";
    Result<Pipeline> made = Pipeline::Create(Parse(config), options_, scope_.get());
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return std::move(made).value();
  }

  Pipeline::Finished Run(std::string_view config) {
    Pipeline pipeline = Make(config);
    return Drive(pipeline);
  }

  Pipeline::Finished Drive(Pipeline& pipeline) {
    while (true) {
      Result<Pipeline::Action> next = pipeline.Next();
      if (!next) {
        Load(next.error());
        continue;
      }
      if (auto* sleep = std::get_if<Pipeline::Sleep>(&*next)) {
        sleeps_.push_back(sleep->ms);
      } else if (auto* run = std::get_if<Pipeline::RunTool>(&*next)) {
        sequence_ += (sequence_.empty() ? "" : " ") + run->label;
        if (run->attempt > 1) sequence_ += fmt::format("#{}", run->attempt);
        runs_.push_back(*run);
        const ToolOutcome outcome = tool_(*run);
        for (Status status = pipeline.Report(outcome); !status; status = pipeline.Report(outcome)) {
          Load(status.error());
        }
      } else {
        return std::get<Pipeline::Finished>(*next);
      }
    }
  }

  void Load(const Error& error) {
    ASSERT_EQ(error.code, "needs_reference") << error.message;
    ++loads_;
    ASSERT_TRUE(stored_.contains(error.message)) << error.message;
    bodies_.bodies[error.message] = stored_[error.message];
  }

  Scope::Sources sources_{.bodies = &bodies_};
  Json names_;
  Pipeline::Options options_;
  MapBodies bodies_;
  std::map<std::string, Json> stored_;
  int loads_ = 0;
  std::unique_ptr<Scope> scope_;
  Tool tool_ = [](const Pipeline::RunTool& run) {
    return run.config.Has("fail") ? Bad(run.config["fail"].ToString()) : Ok(run.config["result"]);
  };
  std::string sequence_;
  std::vector<Pipeline::RunTool> runs_;
  std::vector<std::int64_t> sleeps_;
};

TEST_F(PipelineTest, Example8) {
  sources_.workload = Parse(R"({"pages": [[1, 2], [3]]})");
  const auto finished = Run(R"([
    {"init": {"kind": "noop", "spec": {"policy": {"rules": [
      {"else": {"do": "continue", "set": {"iter.i": 0, "iter.acc": []}}}]}}}},
    {"fetch": {"kind": "noop",
      "result": {"items": "{{ pages[iter.i] }}", "more": "{{ iter.i + 1 < (pages | length) }}"},
      "set": {"page": "{{ output }}"},
      "spec": {"policy": {"rules": [
        {"when": "{{ output.status == 'error' }}", "then": {"do": "fail"}},
        {"else": null, "then": {"do": "continue",
        "set": {"iter.acc": "{{ iter.acc + output.data.items }}"}}}]}}}},
    {"task_2": {"kind": "noop", "result": {"prev_more": "{{ _prev.more }}",
    "same": "{{ fetch.more == page.more }}",
      "me": "{{ _task }}"}}},
    {"gate": {"kind": "noop", "spec": {"policy": {"rules": [
      {"when": "{{ page.more }}", "then": {"do": "jump", "to": "fetch",
      "set": {"iter.i": "{{ iter.i + 1 }}"}}},
      {"else": {"then": {"do": "break", "set": {"ctx.all": "{{ iter.acc }}"}}}}]}}}},
    {"never": {"kind": "noop", "result": {"reached": true}}}])");
  EXPECT_TRUE(finished.ok) << finished.error;
  EXPECT_EQ(sequence_, "init fetch task_2 gate fetch task_2 gate");
  EXPECT_EQ(WriteJson(finished.ctx_updates), R"({"ctx.all":[1,2,3]})");
  EXPECT_EQ(WriteJson(finished.order), R"(["init","fetch","task_2","gate"])");
  EXPECT_EQ(finished.warnings, std::vector<std::string>());

  auto result =
      std::make_shared<StepResult>(StepResult{.data = finished.data, .order = finished.order});
  Scope after({});
  after.Bind("start", StepView(result, nullptr));
  for (const auto& [expression, expected] :
       std::map<std::string, std::string>{{"{{ start.prev_more }}", "false"},
                                          {"{{ start.fetch['items'] }}", "[3]"},
                                          {"{{ start.results.task_2.me }}", R"("task_2")"},
                                          {"{{ start.never is defined }}", "false"},
                                          {"{{ start.same }}", "true"}}) {
    auto compiled = expr::Template::Compile(expression);
    ASSERT_TRUE(compiled.has_value());
    EXPECT_EQ(WriteJson(compiled->Render(after, expr::Output::kText).value_or(Json("failed"))),
              expected)
        << expression;
  }
}

TEST_F(PipelineTest, Example9RetriesUntilTheThirdAttempt) {
  options_ = {.profile = Profile::kStrict, .single = true};
  const auto finished =
      Run(R"([{"start_task": {"kind": "noop", "result": {"attempt": "{{ _attempt }}"},
    "spec": {"policy": {"rules": [
      {"when": "{{ _attempt < 3 }}", "then": {"do": "retry", "attempts": 5, "backoff": "fixed",
      "delay": 0.01}},
      {"else": {"then": {"do": "continue", "set": {"ctx.tries": "{{ _attempt }}"}}}}]}}}}])");
  EXPECT_TRUE(finished.ok);
  EXPECT_EQ(sequence_, "start_task start_task#2 start_task#3");
  EXPECT_EQ(sleeps_, (std::vector<std::int64_t>{10, 10}));
  EXPECT_EQ(WriteJson(finished.data), R"({"attempt":3})");
  EXPECT_TRUE(finished.order.is_null());
  EXPECT_EQ(WriteJson(finished.ctx_updates), R"({"ctx.tries":3})");
  EXPECT_EQ(finished.tasks.size(), 3u);
  EXPECT_EQ(finished.tasks.At(2)["attempt"].AsInt(), 3);
}

TEST_F(PipelineTest, Example9ExhaustsRetries) {
  options_.profile = Profile::kStrict;
  tool_ = [](const Pipeline::RunTool&) { return Bad("boom"); };
  const auto finished = Run(R"([
    {"boom": {"kind": "python", "code": "raise Boom", "spec": {"policy": {"rules": [
      {"when": "{{ output.error.message == 'boom' }}", "then": {"do": "retry", "attempts": 2}}]}}}},
    {"later": {"kind": "noop"}}])");
  EXPECT_FALSE(finished.ok);
  EXPECT_EQ(sequence_, "boom boom#2");
  EXPECT_EQ(WriteJson(finished.data), R"({"failed_task":"boom"})");
  EXPECT_EQ(finished.error, "boom");
  EXPECT_EQ(finished.error_info["kind"].AsString(), "unknown");
  EXPECT_TRUE(sleeps_.empty());
}

TEST_F(PipelineTest, Example6SingleToolWithPolicyFails) {
  options_.single = true;
  names_ = IterationNames("d", Json(0), 1, 3);
  tool_ = [](const Pipeline::RunTool& run) {
    return run.input["d"].AsInt() == 0 ? Bad("ZeroDivisionError") : Ok(Json(1));
  };
  const auto finished =
      Run(R"([{"divide_task": {"kind": "python", "input": {"d": "{{ iter.d }}"}, "code": "x",
    "spec": {"policy": {"rules": [{"when": "{{ output.status == 'error' }}",
    "then": {"do": "fail"}}]}}}}])");
  EXPECT_FALSE(finished.ok);
  EXPECT_EQ(WriteJson(finished.data), R"({"failed_task":"divide_task"})");
  EXPECT_EQ(WriteJson(runs_[0].input), R"({"_index":1,"_total":3,"d":0})");
}

// Five actions, on success and on error, on the first, the middle and the last task.
struct ActionCase {
  std::string_view action;
  bool ok;
  int at;
  std::string_view sequence;
  bool finished_ok;
};

TEST_F(PipelineTest, EveryActionEverywhere) {
  const ActionCase cases[] = {
      {"continue", true, 0, "a b c", true},   {"continue", true, 1, "a b c", true},
      {"continue", true, 2, "a b c", true},   {"continue", false, 0, "a b c", true},
      {"continue", false, 1, "a b c", true},  {"continue", false, 2, "a b c", true},
      {"fail", true, 0, "a", false},          {"fail", true, 1, "a b", false},
      {"fail", true, 2, "a b c", false},      {"fail", false, 0, "a", false},
      {"fail", false, 1, "a b", false},       {"fail", false, 2, "a b c", false},
      {"break", true, 0, "a", true},          {"break", true, 1, "a b", true},
      {"break", true, 2, "a b c", true},      {"break", false, 0, "a", true},
      {"break", false, 1, "a b", true},       {"break", false, 2, "a b c", true},
      {"retry", true, 0, "a a#2", false},     {"retry", true, 1, "a b b#2", false},
      {"retry", true, 2, "a b c c#2", false}, {"retry", false, 0, "a a#2", false},
      {"retry", false, 1, "a b b#2", false},  {"retry", false, 2, "a b c c#2", false},
      {"jump", true, 0, "a c", true},         {"jump", true, 1, "a b c", true},
      {"jump", false, 0, "a c", true},        {"jump", false, 1, "a b c", true},
  };
  for (const ActionCase& row : cases) {
    SCOPED_TRACE(fmt::format("{} ok={} at={}", row.action, row.ok, row.at));
    Json config = Json::Array();
    for (int i = 0; i < 3; ++i) {
      const std::string label(1, static_cast<char>('a' + i));
      Json task = Json::Object({{"kind", "noop"}, {"result", Json::Object({{"n", i}})}});
      if (i == row.at) {
        if (!row.ok) task = task.With("fail", "broken");
        task = task.With("spec",
                         Parse(fmt::format(
                             R"({{"policy": {{"rules": [{{"then": {{"do": "{}", "attempts": "2",
    "to": "c"}}}}]}}}})",
                             row.action)));
      }
      config = config.Append(Json::Object({{label, task}}));
    }
    sequence_.clear();
    const auto finished = Run(WriteJson(config));
    EXPECT_EQ(sequence_, row.sequence);
    EXPECT_EQ(finished.ok, row.finished_ok);
    const std::string label(1, static_cast<char>('a' + row.at));
    EXPECT_EQ(finished.data["failed_task"].AsString(), finished.ok ? "" : label);
    if (!finished.ok && !row.ok) {
      EXPECT_EQ(finished.error, "broken");
    }
    // A failed task contributes nothing, continued or not.
    EXPECT_EQ(finished.data.Has(label), row.ok);
  }
}

// The last task jumping to itself or back goes on until something else stops it.
TEST_F(PipelineTest, JumpFromTheLastTask) {
  for (const bool ok : {true, false}) {
    int left = 2;
    tool_ = [&](const Pipeline::RunTool& run) {
      if (run.label == "c") --left;
      return ok || run.label != "c" ? Ok(Json::Object({{"left", left}}))
                                    : Bad("broken", {}, Json::Object({{"left", left}}));
    };
    sequence_.clear();
    const auto finished = Run(R"([{"a": {"kind": "noop"}}, {"b": {"kind": "noop"}},
      {"c": {"kind": "noop", "set": {"left": "{{ output.left }}"}, "spec": {"policy": {"rules": [
        {"when": "{{ left > 0 }}", "then": {"do": "jump", "to": "@previous"}},
        {"else": {"then": {"do": "continue"}}}]}}}}])");
    EXPECT_TRUE(finished.ok);
    EXPECT_EQ(sequence_, "a b c b c");
  }
}

TEST_F(PipelineTest, UnmatchedPolicy) {
  constexpr std::string_view kConfig =
      R"([{{"a": {{"kind": "noop", "fail": "broken", "spec": {{"policy": {{
    "on_unmatched": "{}", "rules": [{{"when": false, "then": {{"do": "break"}}}}]}}}}}}}},
    {{"b": {{"kind": "noop"}}}}])";
  EXPECT_FALSE(Run(fmt::format(kConfig, "fail")).ok);
  sequence_.clear();
  EXPECT_TRUE(Run(fmt::format(kConfig, "continue")).ok);
  EXPECT_EQ(sequence_, "a b");
  sequence_.clear();
  const auto finished = Run(
      R"([{"a": {"kind": "noop", "result": {"x": 1}}}, {"b": {"kind": "noop",
    "fail": "broken"}}])");
  EXPECT_FALSE(finished.ok);
  EXPECT_EQ(WriteJson(finished.data), R"({"a":{"x":1},"failed_task":"b"})");
}

TEST_F(PipelineTest, FailMessages) {
  EXPECT_EQ(
      Run(R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [{"then": {"do": "fail"}}]}}}}])")
          .error,
      "policy rule failed task 'a'");
  EXPECT_EQ(Run(R"([{"a": {"kind": "noop", "result": 3, "spec": {"policy": {"rules": [
    {"then": {"do": "fail", "message": "got {{ output.data }}"}}]}}}}])")
                .error,
            "got 3");
  const auto exhausted = Run(
      R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [{"then": {"do": "retry"}}]}}}}])");
  EXPECT_EQ(exhausted.error, "task 'a' exceeded its retry attempts (3)");
  EXPECT_EQ(exhausted.error_info["kind"].AsString(), "retry_exhausted");
}

TEST_F(PipelineTest, RetryDelays) {
  struct Row {
    std::string_view then;
    std::vector<std::int64_t> sleeps;
  };
  const Row rows[] = {
      {R"("attempts": 4, "backoff": "fixed", "delay": 2)", {2000, 2000, 2000}},
      {R"("attempts": 4, "backoff": "linear", "delay": "0.5")", {500, 1000, 1500}},
      {R"("attempts": "4", "backoff": "exponential", "delay": "{{ 1 + 1 }}")", {2000, 4000, 8000}},
      {R"("attempts": "{{ 2 + 1 }}", "backoff": "exponential")", {1000, 2000}},
      {R"("delay": 3)", {3000, 3000}},
      {R"("backoff": "none", "delay": 3)", {}},
      {R"("attempts": 3)", {}},
      {R"("backoff": "linear", "delay": "200s")", {200'000, 300'000}},
      {R"("attempts": 1, "delay": 1)", {}},
  };
  for (const Row& row : rows) {
    sleeps_.clear();
    Run(fmt::format(R"([{{"a": {{"kind": "noop", "fail": "x", "spec": {{"policy": {{"rules": [
      {{"then": {{"do": "retry", {}}}}}]}}}}}}}}])",
                    row.then));
    EXPECT_EQ(sleeps_, row.sleeps) << row.then;
  }
}

TEST_F(PipelineTest, RetryAfterWinsWhenLonger) {
  constexpr std::string_view kConfig = R"([{"a": {"kind": "http", "spec": {"policy": {"rules": [
    {"when":
    "{{ output.error.kind == 'rate_limit' and error.retryable and output.http.status == 429 }}",
     "then": {"do": "retry", "attempts": 2, "delay": 1}}]}}}}])";
  tool_ = [](const Pipeline::RunTool&) {
    return Bad("busy", Parse(R"({"status_code": 429, "retry_after": 7})"));
  };
  Run(kConfig);
  EXPECT_EQ(sleeps_, std::vector<std::int64_t>{7000});
  sleeps_.clear();
  tool_ = [](const Pipeline::RunTool&) {
    return Bad("busy", Parse(R"({"status_code": 429, "retry_after": 9999})"));
  };
  Run(kConfig);
  EXPECT_EQ(sleeps_, std::vector<std::int64_t>{kRetryDelayMsMax});
}

// Each page gets its own retry budget.
TEST_F(PipelineTest, RetryCountsStartFreshAfterAJump) {
  int call = 0;
  tool_ = [&](const Pipeline::RunTool& run) {
    if (run.label == "gate") return Ok(Json());
    return ++call % 2 == 1 ? Bad("flaky") : Ok(Json::Object({{"page", call / 2}}));
  };
  const auto finished = Run(R"([
    {"fetch": {"kind": "http", "spec": {"policy": {"rules": [
      {"when": "{{ output.status == 'error' }}", "then": {"do": "retry", "attempts": 2}}]}}}},
    {"gate": {"kind": "noop", "spec": {"policy": {"rules": [
      {"when": "{{ fetch.page < 3 }}", "then": {"do": "jump", "to": "previous"}}]}}}}])");
  EXPECT_TRUE(finished.ok) << finished.error;
  EXPECT_EQ(sequence_, "fetch fetch#2 gate fetch fetch#2 gate fetch fetch#2 gate");
}

TEST_F(PipelineTest, GuardStopsEndlessJumps) {
  options_.task_runs_max = 10;
  const auto finished = Run(R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [
    {"then": {"do": "jump", "to": "a",
    "set": {"ctx.n": "{{ (ctx.n | default(0)) + 1 }}"}}}]}}}}])");
  EXPECT_FALSE(finished.ok);
  EXPECT_EQ(runs_.size(), 10u);
  EXPECT_NE(finished.error.find("max_iterations_exceeded"), std::string::npos);
  EXPECT_EQ(WriteJson(finished.ctx_updates), R"({"ctx.n":10})");
}

TEST_F(PipelineTest, ToolRetryComesBeforeThePolicy) {
  int calls = 0;
  tool_ = [&](const Pipeline::RunTool& run) {
    EXPECT_EQ(run.attempt, calls < 3 ? 1 : 2);
    return ++calls < 5 ? Bad("slow", Parse(R"({"kind": "timeout"})")) : Ok(Json(calls));
  };
  const auto finished =
      Run(R"([{"a": {"kind": "http", "retry": {"max_attempts": "3", "retry_on": ["timeout"],
    "backoff_seconds": 2, "backoff": "linear"}, "spec": {"policy": {"rules": [
      {"when": "{{ output.status == 'error' }}", "then": {"do": "retry", "attempts": 2,
      "delay": 10}}]}}}}])");
  EXPECT_TRUE(finished.ok) << finished.error;
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(sleeps_, (std::vector<std::int64_t>{2000, 4000, 10'000, 2000}));
  EXPECT_FALSE(runs_[0].config.Has("retry"));
}

TEST(ToolRetryTest, Decisions) {
  struct Row {
    std::string_view retry;
    int runs;
    std::string_view error;
    bool again;
    std::int64_t delay_ms;
  };
  const Row rows[] = {
      {"null", 1, R"({"kind": "timeout"})", false, 0},
      {"{}", 1, R"({"kind": "timeout"})", true, 1000},
      {"{}", 3, R"({"kind": "timeout"})", false, 0},
      {"{}", 1, R"({"kind": "auth"})", false, 0},
      {"{}", 1, "null", false, 0},
      {R"({"max_attempts": 1})", 1, R"({"kind": "timeout"})", false, 0},
      {R"({"max_retries": 1})", 1, R"({"kind": "timeout"})", true, 1000},
      {R"({"max_retries": 1})", 2, R"({"kind": "timeout"})", false, 0},
      {R"({"retry_on": ["connection_error"]})", 1, R"({"kind": "connection"})", true, 1000},
      {R"({"retry_on": ["error"]})", 1, R"({"kind": "schema"})", true, 1000},
      {R"({"retry_on": ["timeout"]})", 1, R"({"kind": "server_error"})", false, 0},
      {R"({"retry_on_status": [409]})", 1, R"({"status_code": 409})", true, 1000},
      {R"({"retry_on_status": [409]})", 1, R"({"status_code": 503})", false, 0},
      {R"({"backoff": 0.5})", 2, R"({"kind": "timeout"})", true, 500},
      {R"({"backoff": "exponential", "backoff_seconds": 3})", 2, R"({"kind": "timeout"})", true,
       6000},
      {R"({"backoff_multiplier": 3, "initial_delay_ms": 100})", 2, R"({"kind": "timeout"})", true,
       300},
      {R"({"max_attempts": 2000, "backoff": "exponential"})", 1900, R"({"kind": "timeout"})", true,
       300'000},
      {R"({"backoff": "exponential", "max_delay_ms": 1500})", 2, R"({"kind": "timeout"})", true,
       1500},
  };
  for (const Row& row : rows) {
    const RetryDecision decision = DecideToolRetry(Parse(row.retry), row.runs, Parse(row.error));
    EXPECT_EQ(decision.again, row.again) << row.retry << " " << row.error;
    EXPECT_EQ(decision.delay_ms, row.delay_ms) << row.retry;
  }
}

TEST_F(PipelineTest, ScopesOfSet) {
  sources_.ctx = Parse(R"({"keep": 1, "nest": {"a": 1}})");
  const auto finished = Run(R"([
    {"a": {"kind": "noop", "result": {"v": 5, "data": "own"},
      "set": {"local": "{{ output.v }}", "deep.er": 1, "ctx.nest.b": "{{ output.v }}", "iter.x": 7,
      "step.y": 8,
              "old": "{{ ctx.nest.b | default('before') }}"},
      "spec": {"policy": {"rules": [{"when": "{{ local == 5 and ctx.nest.b == 5 }}",
        "then": {"set": {"ctx.seen": "{{ iter.x + step.y }}",
        "ctx.whole": "{{ output.data }}"}}}]}}}},
    {"b": {"kind": "noop", "result": {"l": "{{ local }}", "d": "{{ deep.er }}",
    "c": "{{ ctx.seen }}",
      "bare": "{{ seen }}", "nest": "{{ ctx.nest }}", "s": "{{ step }}:{{ step.y }}",
      "i": "{{ iter.x }}",
      "old": "{{ old }}", "label": "{{ a.v }}", "r": "{{ results.a.v }}",
      "p": "{{ _prev.data }}"}}}])");
  ASSERT_TRUE(finished.ok) << finished.error;
  EXPECT_EQ(WriteJson(finished.data["b"]),
            R"({"l":5,"d":1,"c":15,"bare":15,"nest":{"a":1,"b":5},"s":"s:8","i":7,)"
            R"("old":"before","label":5,"r":5,"p":"own"})");
  EXPECT_EQ(finished.ctx_updates,
            Parse(
                R"({"ctx.nest": {"a": 1, "b": 5}, "ctx.seen": 15, "ctx.whole": {"v": 5,
    "data": "own"}})"));
}

TEST_F(PipelineTest, ContextWritesSurviveAFailure) {
  const auto finished =
      Run(R"([{"a": {"kind": "noop", "fail": "x", "set": {"ctx.why": "{{ output.error }}"}}}])");
  EXPECT_FALSE(finished.ok);
  EXPECT_EQ(WriteJson(finished.ctx_updates), R"({"ctx.why":"x"})");
}

TEST_F(PipelineTest, FailingSet) {
  constexpr std::string_view kConfig =
      R"([{"a": {"kind": "noop", "set": {"ctx.bad": "{{ 1 / 0 }}", "ctx.good": 2}}},
                                           {"b": {"kind": "noop"}}])";
  sources_.ctx = Parse(R"({"bad": "old"})");
  auto finished = Run(kConfig);
  EXPECT_TRUE(finished.ok);
  EXPECT_EQ(WriteJson(finished.ctx_updates), R"({"ctx.good":2})");
  ASSERT_EQ(finished.warnings.size(), 1u);
  EXPECT_TRUE(finished.warnings[0].starts_with("W281 task 'a': set 'ctx.bad'"))
      << finished.warnings[0];
  options_.profile = Profile::kStrict;
  sequence_.clear();
  finished = Run(kConfig);
  EXPECT_FALSE(finished.ok);
  EXPECT_EQ(sequence_, "a");
  EXPECT_EQ(WriteJson(finished.ctx_updates), "{}");
  EXPECT_NE(finished.error.find("ctx.bad"), std::string::npos);
}

TEST_F(PipelineTest, FailingWhen) {
  auto finished = Run(R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [
    {"when": "{{ 1 / 0 }}", "then": {"do": "fail"}}, {"else": {"do": "break"}}]}}}},
    {"b": {"kind": "noop"}}])");
  EXPECT_TRUE(finished.ok);
  EXPECT_EQ(sequence_, "a");
  EXPECT_EQ(finished.warnings.size(), 1u);
  finished = Run(R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [
    {"when": "{{ 1 / 0 }}", "then": {"do": "continue"}}]}}}}])");
  EXPECT_FALSE(finished.ok);
  EXPECT_NE(finished.error.find("no policy rule of task 'a'"), std::string::npos);
}

TEST_F(PipelineTest, TemplateErrorIsATaskError) {
  const auto finished =
      Run(R"([{"a": {"kind": "noop", "result": "{{ 1 / 0 }}", "spec": {"policy": {"rules": [
    {"when": "{{ output.error.kind == 'template' }}", "then": {"do": "continue",
    "set": {"ctx.e": "{{ error.kind }}"}}}
    ]}}}}, {"b": {"kind": "noop", "result": 1}}])");
  EXPECT_TRUE(finished.ok) << finished.error;
  EXPECT_EQ(sequence_, "b");
  EXPECT_EQ(WriteJson(finished.ctx_updates), R"({"ctx.e":"template"})");
  EXPECT_FALSE(Run(R"([{"a": {"kind": "noop", "result": "{{ 1 / 0 }}"}}])").ok);
}

TEST_F(PipelineTest, StrictTextHasNoGaps) {
  constexpr std::string_view kConfig =
      R"([{"a": {"kind": "postgres", "command": "DELETE FROM t WHERE id > {{ ctx.id }}"}}])";
  EXPECT_TRUE(Run(kConfig).ok);
  options_.profile = Profile::kStrict;
  runs_.clear();
  const auto finished = Run(kConfig);
  EXPECT_FALSE(finished.ok);
  EXPECT_TRUE(runs_.empty());
  EXPECT_NE(finished.error.find("ctx.id"), std::string::npos) << finished.error;
}

TEST_F(PipelineTest, InputNamesAndFields) {
  names_ = Parse(R"({"base": 1, "input": {"base": 1}})");
  options_.timeout_ms = 9000;
  Run(R"([{"a": {"kind": "http", "name": "a", "input": {"x": "{{ base + 1 }}",
    "j": "[{{ base }}, 2]"},
    "url": "/{{ x }}/{{ input.base }}/{{ args.x }}", "result": "[{{ base }}, 2]", "timeout": "2s",
    "output": {"inline_max_bytes": 0}, "set": {"q": 1}, "spec": {"policy": {"rules": []},
    "sandbox": true}}},
    {"b": {"kind": "noop", "result": "{{ x is defined }}"}}])");
  EXPECT_EQ(WriteJson(runs_[0].config), R"({"url":"/2/1/2","result":"[1, 2]","timeout":"2s"})");
  EXPECT_EQ(WriteJson(runs_[0].input), R"({"base":1,"x":2,"j":[1,2]})");
  EXPECT_EQ(runs_[0].timeout_ms, 2000);
  EXPECT_EQ(WriteJson(runs_[0].output), R"({"inline_max_bytes":0})");
  EXPECT_EQ(WriteJson(runs_[0].spec), R"({"sandbox":true})");
  EXPECT_EQ(WriteJson(runs_[1].config), R"({"result":false})");
  EXPECT_EQ(runs_[1].timeout_ms, 9000);
}

TEST_F(PipelineTest, PayloadsAreNeverRendered) {
  tool_ = [](const Pipeline::RunTool& run) {
    return run.label == "a" ? Ok(Parse(R"({"evil": "{{ 7*7 }}"})")) : Ok(run.config);
  };
  const auto finished = Run(
      R"([{"a": {"kind": "http", "set": {"ctx.e": "{{ output.evil }}", "l": "x{{ output.evil }}"}}},
    {"b": {"kind": "noop", "input": {"i": "{{ a.evil }}"}, "one": "{{ a.evil }}",
    "two": "{{ i }}!{{ l }}",
           "three": "{{ ctx.e }}"}}])");
  EXPECT_EQ(WriteJson(finished.data["b"]),
            R"({"one":"{{ 7*7 }}","two":"{{ 7*7 }}!x{{ 7*7 }}","three":"{{ 7*7 }}"})");
  EXPECT_EQ(runs_[1].input["i"].AsString(), "{{ 7*7 }}");
}

TEST_F(PipelineTest, HttpPayloadsInPolicies) {
  tool_ = [](const Pipeline::RunTool&) {
    return Ok(Parse(
        R"({"status_code": 200, "headers": {}, "data": {"paging": {"more": false}}, "body": {}})"));
  };
  const auto finished = Run(R"([{"a": {"kind": "http", "spec": {"policy": {"rules": [
    {"then": {"do": "break", "set": {"ctx.a": "{{ output.data.paging.more }}",
    "ctx.b": "{{ output.data.data.paging.more }}",
      "ctx.c": "{{ output.http.status }}", "ctx.d": "{{ outcome.result.paging.more }}",
      "ctx.e": "{{ output.paging.more }}",
      "ctx.f": "{{ output.status == 'success' and output.error is not defined }}",
      "ctx.g": "{{ error is defined }}"}}}]}}}}])");
  EXPECT_EQ(WriteJson(finished.ctx_updates),
            R"({"ctx.a":false,"ctx.b":false,"ctx.c":200,"ctx.d":false,"ctx.e":false,)"
            R"("ctx.f":true,"ctx.g":false})");
}

TEST_F(PipelineTest, StoredValuesAreLoadedWithoutRepeatingEffects) {
  stored_ = {{"noetl://one", Parse(R"({"rows": [1, 2]})")},
             {"noetl://two", Json::Array({3})},
             {"noetl://three", Parse(R"({"k": 1})")}};
  sources_.ctx = Parse(R"({"one": {"_ref": "noetl://one"}, "two": {"_ref": "noetl://two"},
                           "three": {"_ref": "noetl://three"}, "n": 0})");
  const auto finished = Run(R"([
    {"a": {"kind": "noop", "result": "{{ ctx.one.rows | length }}",
    "set": {"ctx.n": "{{ ctx.n + 1 }}"},
      "spec": {"policy": {"rules": [{"when": "{{ ctx.two[0] == 3 }}",
        "then": {"do": "continue", "set": {"ctx.n": "{{ ctx.n + 10 }}",
        "ctx.three.l": 2}}}]}}}}])");
  EXPECT_TRUE(finished.ok);
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(sequence_, "a");
  EXPECT_EQ(finished.ctx_updates, Parse(R"({"ctx.n": 11, "ctx.three": {"k": 1, "l": 2}})"));
  EXPECT_EQ(finished.tasks.size(), 1u);
}

TEST_F(PipelineTest, MissingReferenceIsATaskError) {
  sources_.ctx = Parse(R"({"x": {"_ref": "noetl://gone/1"}})");
  const auto finished = Run(R"([{"a": {"kind": "noop", "result": "{{ ctx.x.f }}"}}])");
  EXPECT_FALSE(finished.ok);
  EXPECT_EQ(finished.error_info["kind"].AsString(), "missing_reference");
  EXPECT_TRUE(finished.error_info["retryable"].AsBool());
  EXPECT_EQ(finished.error_info["code"].AsString(), "REFERENCE_NOT_AVAILABLE");
}

TEST_F(PipelineTest, SingleToolKeepsTheBarePayload) {
  options_.single = true;
  EXPECT_EQ(WriteJson(Run(R"([{"a": {"kind": "noop", "result": {"x": 1}}}])").data), R"({"x":1})");
  EXPECT_EQ(
      WriteJson(Run(R"([{"a": {"kind": "noop", "fail": "broken", "spec": {"policy": {"rules": [
    {"then": {"do": "continue"}}]}}}}])")
                    .data),
      R"({"error":"broken"})");
}

TEST_F(PipelineTest, FlatTasksAndCodeText) {
  const auto finished =
      Run(R"({"tasks": [{"kind": "noop", "result": 1}, {"name": "two", "kind": "python",
    "code": "f'{{ not a template'; x = '{% nope %}'"}]})");
  EXPECT_EQ(sequence_, "task_0 two");
  ASSERT_EQ(finished.warnings.size(), 1u);
  EXPECT_TRUE(finished.warnings[0].starts_with("W413"));
  options_.profile = Profile::kStrict;
  runs_.clear();
  Run(R"([{"a": {"kind": "python", "code": "x = '{{ 7*7 }}'"}}])");
  EXPECT_EQ(runs_[0].config["code"].AsString(), "x = '{{ 7*7 }}'");
}

TEST_F(PipelineTest, RefusedConfigs) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"[]", "E231"},
      {R"([{"a": {}}])", "E230"},
      {R"([{"a": {"kind": "noop"}}, {"name": "a", "kind": "noop"}])", "E232"},
      {R"([{"a": {"kind": "noop", "result": "{{ 1 + }}"}}])", "E404"},
      {R"([{"a": {"kind": "noop", "result": "{{ 1 | nofilter }}"}}])", "E401"},
      {R"([{"a": {"kind": "noop", "set": {"workload.x": 1}}}])", "E280"},
      {R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [{"then": {"do": "explode"}}]}}}}])",
       "E451"},
      {R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [{"then": {"do": "jump",
    "to": "z"}}]}}}}])",
       "E452"},
      {R"([{"a": {"kind": "noop", "spec": {"policy": {"rules": [{"then": {"do": "jump",
    "to": "prev"}}]}}}}])",
       "E453"},
  };
  Scope scope({});
  for (const auto& [config, code] : rows) {
    const auto made = Pipeline::Create(Parse(config), {}, &scope);
    ASSERT_FALSE(made.has_value()) << config;
    EXPECT_EQ(made.error().code, code) << config << " " << made.error().message;
  }
}

// Whatever the rules and the outcomes are: it ends within the guard, stays ended, and tells the
// truth about what ran.
TEST(PipelineProperty, AlwaysEnds) {
  static constexpr std::int64_t kRunsMax = 50;
  EXPECT_TRUE(rc::check("random pipelines end", [] {
    const int count = *rc::gen::inRange(1, 5);
    const std::vector<std::string> actions = {"continue", "retry", "fail", "break", "jump"};
    Json config = Json::Array();
    for (int i = 0; i < count; ++i) {
      Json rules = Json::Array();
      for (int r = *rc::gen::inRange(0, 3); r > 0; --r) {
        const std::string when =
            *rc::gen::element<std::string>("{{ output.status == 'error' }}", "{{ _attempt < 2 }}",
                                           "{{ iter.n | default(0) > 3 }}", "{{ 1 / 0 }}", "true");
        Json then =
            Json::Object({{"do", *rc::gen::elementOf(actions)},
                          {"attempts", *rc::gen::inRange(0, 4)},
                          {"to", fmt::format("t{}", *rc::gen::inRange(0, count))},
                          {"set", Json::Object({{"iter.n", "{{ (iter.n | default(0)) + 1 }}"}})}});
        if (*rc::gen::arbitrary<bool>()) then = then.With("delay", 0.1);
        rules = rules.Append(Json::Object({{"when", when}, {"then", then}}));
      }
      Json task =
          Json::Object({{"kind", "noop"},
                        {"spec", Json::Object({{"policy", Json::Object({{"rules", rules}})}})}});
      if (*rc::gen::arbitrary<bool>())
        task = task.With("retry", Json::Object({{"max_attempts", 2}}));
      config = config.Append(Json::Object({{fmt::format("t{}", i), task}}));
    }
    Scope scope({});
    Pipeline::Options options{.profile = *rc::gen::element(Profile::kCompat, Profile::kStrict),
                              .task_runs_max = kRunsMax};
    Result<Pipeline> pipeline = Pipeline::Create(config, options, &scope);
    RC_ASSERT(pipeline.has_value());
    std::int64_t runs = 0;
    std::int64_t sleeps = 0;
    while (true) {
      Result<Pipeline::Action> next = pipeline->Next();
      RC_ASSERT(next.has_value());
      if (std::holds_alternative<Pipeline::Sleep>(*next)) {
        RC_ASSERT(++sleeps <= kRunsMax);
      } else if (std::holds_alternative<Pipeline::RunTool>(*next)) {
        RC_ASSERT(++runs <= kRunsMax);
        const ToolOutcome outcome =
            *rc::gen::arbitrary<bool>()
                ? Ok(Json::Object({{"n", runs}}))
                : Bad("broken", Json::Object({{"retryable", *rc::gen::arbitrary<bool>()}}));
        RC_ASSERT(pipeline->Report(outcome).has_value());
      } else {
        const auto& finished = std::get<Pipeline::Finished>(*next);
        RC_ASSERT(finished.ok == !finished.data.Has("failed_task"));
        RC_ASSERT(finished.ok == finished.error.empty());
        if (finished.ok) RC_ASSERT(finished.order.size() == finished.data.size());
        break;
      }
    }
    RC_ASSERT(std::holds_alternative<Pipeline::Finished>(*pipeline->Next()));
  }));
}

}  // namespace
}  // namespace noetl::engine
