// The pipeline interpreter: an ordered list of tasks with policy rules, as a pure state machine.
//
// The worker drives it: `Next` says what to do (run a tool, sleep, or it is finished), the worker
// does it and reports back. No clock, no I/O: delays are returned, durations and times are told. A
// pipeline is made from the canonical task list that a command carries, compiles each template
// once, renders each field once per run of its task, and keeps `_prev`, `results`, labels, `iter`,
// `step` and local variables. Playbook-language 5. One thread; owns its data, refers to the scope
// it was given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/scope.h"
#include "playbook/model.h"

namespace noetl::engine {

// Task runs in one command (NOETL_TASK_SEQUENCE_MAX_ITERATIONS).
inline constexpr std::int64_t kTaskRunsMaxDefault = 1'000'000;
inline constexpr std::int64_t kRetryDelayMsMax = 300'000;
inline constexpr int kRetryRunsDefault = 3;

// How one tool call ended, as the tool reported it.
struct ToolOutcome {
  bool ok = true;
  Json payload;       // the tool's data
  std::string error;  // text when not ok
  Json error_info;    // error object when not ok (may be null: kind unknown)
  Json extra;         // {http, pg, py, ref} parts for `output`
  std::int64_t duration_ms = 0;
  std::string finished_at;  // RFC 3339, recorded
};

class Pipeline {
 public:
  struct Options {
    playbook::Profile profile = playbook::Profile::kCompat;
    // The step's `tool:` was one map: the result is the bare payload of the one task.
    bool single = false;
    std::int64_t task_runs_max = kTaskRunsMaxDefault;
    std::string step;
    // Default timeout for tasks that declare none.
    std::optional<std::int64_t> timeout_ms;
  };

  struct RunTool {
    std::string label;
    std::string kind;
    Json config;      // rendered fields, without kind, name, set, spec, output
    Json input;       // bound variables (a map)
    int attempt = 1;  // 1-based
    std::optional<std::int64_t> timeout_ms;
    Json output;  // the task's output block (storage hints), or null
    Json spec;    // the task's spec block without its policy (sandbox, result ...), or null
  };
  struct Sleep {
    std::int64_t ms = 0;
  };
  struct Finished {
    bool ok = true;
    // ok: {label: payload} (or the bare payload when single) with `order`; not ok: labels so far
    // plus failed_task.
    Json data;
    Json order;  // list of labels in execution order; null when single or failed
    std::string error;
    Json error_info;
    Json ctx_updates;  // {"ctx.k": value} for _context_updates: complete values of top-level keys
    Json tasks;        // metrics: [{name, attempt, status, duration_ms}], the first 100
    std::vector<std::string> warnings;
  };
  using Action = std::variant<RunTool, Sleep, Finished>;

  // `config`: [{label: {kind, name?, input, set, spec: {policy: {rules}}, retry, timeout ...}},
  // ...]. Fails when a template or rule does not compile (the server checked them: this is for
  // foreign configs). `scope` has the step's names bound (loop variables, arc args, step input);
  // the pipeline adds its own.
  static Result<Pipeline> Create(const Json& config, Options options, Scope* scope);

  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;
  ~Pipeline();

  // The next action. After RunTool call Report, after Sleep call Next again, after Finished
  // nothing. Fails only with "needs_reference": load the body into the scope's Bodies and call Next
  // again.
  Result<Action> Next();
  // Reports how the tool that the last RunTool asked for ended. May fail with "needs_reference" as
  // Next; then call Report again with the same outcome.
  Status Report(const ToolOutcome& outcome);

 private:
  struct Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Tool-internal retry, shared by the pipeline and by single tools: whether
// the run number `runs_done` that ended in `error` is followed by another, and after which delay.
struct RetryDecision {
  bool again = false;
  std::int64_t delay_ms = 0;
};
RetryDecision DecideToolRetry(const Json& retry, int runs_done, const Json& error_info);

}  // namespace noetl::engine
