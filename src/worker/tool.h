// What a tool kind is to the worker.
//
// A tool is started with one call and answers once, later, through `Done`. It never blocks the
// worker's thread: processes and sockets are watched by the event loop. The registry
// (tools/registry.h) owns one instance of each kind; all calls come from the worker's thread, which
// is also where `Done` and `output` are called.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/pipeline.h"

namespace noetl::worker {

enum class OutputStream : std::uint8_t { kStdout, kStderr };

// One call of a tool: a whole single-tool command, or one attempt of one task of a pipeline.
struct ToolCall {
  std::int64_t execution_id = 0;
  std::string command_id;
  std::string step;
  std::string label;  // of the task in a pipeline, else empty
  std::string kind;
  Json config;      // rendered fields, without kind, name, set, spec, output
  Json input;       // bound variables: the members of `input`/`args` (a map)
  Json context;     // what code may look at besides: {workload, ctx, iter?, execution_id, step ...}
  Json spec;        // the task's spec block (sandbox, python.reuse ...), or null
  int attempt = 1;  // of this task or call
  std::int64_t fence = 1;  // attempt of the command
  std::string idempotency_key;
  // Declared limit of this call; the kind's default counts when there is none.
  std::optional<std::int64_t> timeout_ms;
  // Text the tool's process wrote, as it comes; may be called until Done is.
  std::function<void(OutputStream, std::string_view)> output;
};

struct ToolAnswer {
  // ok, payload, error, error_info, extra; `duration_ms` and `finished_at` are the worker's to fill.
  engine::ToolOutcome outcome;
  // The tool could not run at all (unknown field, missing interpreter): the command fails hard. An
  // error that the tool itself reported is not hard.
  bool hard = false;
  // The tool ended because it was told to stop.
  bool cancelled = false;
};

// A call in progress. Destroying one that has not answered stops it at once (SIGKILL for
// processes) and Done is never called.
class Running {
 public:
  virtual ~Running() = default;
  // Asks the tool to stop, politely first: it answers with `cancelled` when it has ended, within
  // kStopGraceMs plus a moment. Calling it twice is harmless.
  virtual void Stop() = 0;
};

// From SIGTERM to SIGKILL.
inline constexpr std::int64_t kStopGraceMs = 2'000;

class Tool {
 public:
  using Done = std::move_only_function<void(ToolAnswer)>;

  virtual ~Tool() = default;
  // Starts the call. `done` is called exactly once, possibly before Start returns (then the result
  // may be null).
  virtual std::unique_ptr<Running> Start(ToolCall call, Done done) = 0;
};

// An answer for a call that could not run. `kind` and `code` as in the error table of the tools
// ("config", "CONFIG" ...). Hard unless the tool ran.
ToolAnswer Refuse(std::string_view kind, std::string_view code, std::string message);
// An answer of a tool that ran and reports an error; `payload` is what stays readable.
ToolAnswer Failed(std::string_view source, std::string_view kind, std::string_view code,
                  bool retryable, std::string message, Json payload = Json());

}  // namespace noetl::worker
