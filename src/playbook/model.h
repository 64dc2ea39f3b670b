// A checked playbook: what the engine runs.
//
// The model is canonical: every legacy form has been rewritten, every template compiled, every name
// resolved. It is immutable, made once per playbook version, shared by all threads. Positions and
// document paths stay with it for messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "expr/tree.h"
#include "playbook/diagnostics.h"
#include "playbook/graph.h"

namespace noetl::playbook {

inline constexpr std::size_t kStepsMax = 2'000;
inline constexpr std::size_t kStepNameBytesMax = 200;
inline constexpr int kParallelInFlightDefault = 100;

// noetl.io/v2 keeps routing after a tool error; noetl.io/v10 fails the step.
enum class Profile { kCompat, kStrict };

// One `target: value` of a set block. In task sets a bare target is pipeline-local (kLocal); at
// step and arc level bare means ctx. Dotted targets write nested maps.
struct Assignment {
  enum class Scope { kCtx, kIter, kStep, kLocal };
  Scope scope = Scope::kCtx;
  std::vector<std::string> path;  // at least one part
  std::string target;             // as written
  expr::Tree value;
};

struct Arc {
  // A step name; `target_index` is -1 for an arc to an `end` that no step declares.
  std::string target;
  int target_index = -1;
  expr::Condition when;
  std::vector<Assignment> set;
  expr::Tree args;   // a map, or null
  std::string path;  // "workflow[3].next.arcs[1]"
};

enum class RouteMode { kExclusive, kInclusive };
enum class OnNoMatch { kComplete, kQuiet, kFail };
enum class OnError { kFail, kContinue, kRetry };

struct AdmitRule {
  expr::Condition when;  // absent for `else`
  bool allow = true;
};

struct Loop {
  enum class Mode { kSequential, kParallel, kCursor };
  Mode mode = Mode::kSequential;
  std::string iterator;
  // `in` (not for cursors) and its source text for messages.
  expr::Tree in;
  std::string in_source;
  // A number or a template; null means the default of the mode.
  expr::Tree max_in_flight;
  // Hard iteration errors are counted instead of failing the step.
  bool continue_on_error = false;
  // Cursor loops keep per-row results only when asked.
  bool retain_results = false;

  struct Cursor {
    std::string kind = "postgres";
    expr::Tree auth;
    expr::Tree claim;
    Json options;
  };
  Cursor cursor;
  struct Frame {
    std::int64_t max_rows = 1;
    std::int64_t row_concurrency = 1;
    bool whole_frame = false;  // process: frame
    Json raw;                  // the block as written, for the worker
  };
  Frame frame;
};

// One tool call. `fields` are what the server renders for a single tool; pipelines travel as
// `Step::pipeline_config` and the worker renders them.
struct Task {
  std::string name;
  std::string kind;
  expr::Tree input;  // a map, or null
  struct Field {
    std::string name;
    expr::Tree value;
    expr::Output output = expr::Output::kText;
  };
  // Everything but kind, name, input, set, spec, output, retry and timeouts.
  std::vector<Field> fields;
  std::vector<Assignment> set;
  Json retry;                              // tool-internal retry map, or null
  Json spec;                               // spec without policy and timeout, or null
  std::optional<std::int64_t> timeout_ms;  // effective: tool, step, lifecycle, executor default
  std::string path;                        // "workflow[3].tool" or "workflow[3].tool[1]"

  const Field* Find(std::string_view field) const;
};

struct Step {
  std::string name;
  std::string description;
  int index = 0;
  Position position;
  std::string path;  // "workflow[3]"

  std::vector<Task> tasks;  // at least one
  // `tool:` was one map: the step's result is the bare payload.
  bool single = true;
  // Runs through the pipeline interpreter: a list, or a single tool with a policy.
  bool pipeline = false;
  // [{label: {kind, name, input, set, spec, ...}}, ...] with canonical fields; null unless
  // `pipeline`.
  Json pipeline_config;
  // The kind on the wire: the tool's own, or "task_sequence".
  std::string tool_kind;

  expr::Tree input;  // a map, or null
  std::optional<Loop> loop;
  RouteMode mode = RouteMode::kExclusive;
  OnNoMatch on_no_match = OnNoMatch::kComplete;
  std::vector<Arc> arcs;
  std::vector<Assignment> set;  // a single tool's own `set` comes first
  expr::Condition when;
  bool has_admit = false;  // rules may be empty: then everything is admitted
  std::vector<AdmitRule> admit;
  OnError on_error = OnError::kFail;
  bool best_effort = false;                 // policy.failure.mode
  std::optional<std::int64_t> deadline_ms;  // policy.lifecycle.deadline_s, from entry
  Json output;                              // {store, select, inline_max_bytes, ...} or null

  // Root names the worker's templates need from the context; `all_roots` when that cannot be known
  // (a bare ctx or steps, code that reads `context`, an uncompiled template).
  std::vector<std::string> worker_roots;
  bool all_roots = false;
  // Some template of the tool is left to the worker: it names a secret or the fence.
  bool defers = false;
};

struct WorkloadEntry {
  std::string name;
  expr::Tree value;
  bool secret = false;  // "# ui:secret"
  Json ui;              // other form hints, or null
};

struct Executor {
  std::string entry_step;
  std::string final_step;
  bool no_next_is_error = false;
  std::string pool;
  std::optional<std::int64_t> timeout_ms;         // executor.spec.timeout: the whole run
  std::optional<std::int64_t> max_payload_bytes;  // overrides the inline budget
  Json raw;
};

struct Playbook {
  Profile profile = Profile::kCompat;
  Json metadata;
  std::string name;
  std::string path;  // metadata.path, else the name
  Executor executor;
  std::vector<WorkloadEntry> workload;
  Json keychain;   // list of entries as written, templates verbatim
  Json root_spec;  // root `spec` (v2), readable as {{ spec.x }}; null when absent
  std::vector<Step> steps;
  Graph graph;
  int entry = 0;
  int final = -1;             // executor.spec.final_step
  int end = -1;               // the step named `end`
  bool implicit_end = false;  // `end` exists and no arc leads to it
  // env.X names that some template reads: captured once at the start of a run.
  std::vector<std::string> env_names;
  // Canonical document: what `noetl fmt` prints, as JSON.
  Json canonical;
  // Document path to position, for messages.
  std::map<std::string, Position, std::less<>> positions;

  const Step* Find(std::string_view step) const;
  // -1 when there is no such step.
  int IndexOf(std::string_view step) const;
  // The position of the path or of its nearest parent.
  Position PositionOf(std::string_view path) const;

  std::map<std::string, int, std::less<>> index;
};

// A document that was read. `playbook` is null when `diagnostics` has errors.
struct Loaded {
  std::shared_ptr<const Playbook> playbook;
  std::vector<Diagnostic> diagnostics;

  bool ok() const { return playbook != nullptr; }
};

// Settings that change what is accepted.
struct LoadOptions {
  bool require_start = false;  // NOETL_REQUIRE_START
};

// Reads, normalises, checks and compiles a document. All problems at once, ordered by line.
Loaded Load(std::string_view text, const LoadOptions& options = {});

// Known tool kinds: accepted, and whether a tool for it exists in this program or only may exist on
// some worker (W235).
struct ToolKind {
  std::string_view name;
  bool internal = false;    // authors may not write it (E236)
  bool known_only = false;  // no executor here: W235
  std::string_view
      required;  // fields of which one must be present, "a|b", "" for none; "&" joins groups
};
const std::vector<ToolKind>& ToolKinds();
// Names that templates use for themselves (W221/E221).
bool IsReservedRoot(std::string_view name);

}  // namespace noetl::playbook
