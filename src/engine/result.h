// What a step or task produced, and how templates see it.
//
// A tool result is the JSON that a worker reports. `StepResult` is what stays of a run after it
// ended; the views below give templates its accessors: `S.f`, `S.data`, `S.results` ... Immutable;
// any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "expr/value.h"

namespace noetl::engine {

// Bodies of stored results that have been loaded for this decision or command.
class Bodies {
 public:
  virtual ~Bodies() = default;
  // The body, nullptr when it was not loaded (the caller then reports "needs_reference"), or an
  // error with code "REFERENCE_NOT_AVAILABLE" when it is known to be gone.
  virtual Result<const Json*> Find(std::string_view ref) const = 0;
};

// The last ended run of a step.
struct StepResult {
  // The payload as stored. For a pipeline: {label: payload} in `order`. For an external result: the
  // bounded summary.
  Json data;
  // Labels of a pipeline in execution order, latest execution last; empty otherwise.
  Json order;
  // Reference object of an external result ({ref, uri, store, selected, ...}); null when inline.
  Json reference;
  std::string tool_kind;
  enum class Shape : std::uint8_t { kPlain, kLoop, kCursor, kChild };
  Shape shape = Shape::kPlain;
  // The tool reported an error (soft) or the run failed; text and object of it.
  bool failed = false;
  std::string error;
  Json error_info;
  // {status, attempt, duration_ms, started_at, ended_at, run, worker_id}
  Json meta;
  // Names that are readable but not part of the payload (a child's execution_id, child_status ...).
  Json accessors;

  std::string_view ref() const { return reference["ref"].AsString(); }

  Json ToJson() const;
  static StepResult FromJson(const Json& json);
  bool operator==(const StepResult&) const = default;
};

// The payload of a result, flattened when it is a pipeline's. "needs_reference" when it is external
// and not among `bodies` (which may be null).
Result<Json> PayloadOf(const StepResult& result, const Bodies* bodies);

// The same for an event: the rows of a large loop stay a reference, so that nothing is loaded.
Result<Json> RecordedPayloadOf(const StepResult& result, const Bodies* bodies);

// The reference inside a value that is exactly {"_ref": "noetl://..."}; empty for every other
// value.
std::string_view ReferenceOf(const Json& value);

// A value that is stored elsewhere: `_ref` can be read without it, anything else needs its body.
expr::Value ReferenceView(std::string ref, const Bodies* bodies);

// {{ S }}: the view of a step's result. `bodies` must outlive the evaluation.
expr::Value StepView(std::shared_ptr<const StepResult> result, const Bodies* bodies);

// A task's payload inside its pipeline: `label.f`, `label.data.f`, http bodies fall through.
expr::Value PayloadView(Json payload, std::string_view tool_kind);

// {{ output }} at step and arc level.
expr::Value StepOutputView(std::shared_ptr<const StepResult> result, const Bodies* bodies);

// `output` of a policy rule: status is an alias string, `data` a payload view, other keys as given.
struct TaskEnvelope {
  bool ok = true;
  Json payload;
  std::string tool_kind;
  Json error;  // error object, or null when ok
  Json meta;   // {attempt, duration_ms, ts}
  Json extra;  // {http: {...}, pg: {...}, py: {...}, ref} members as far as they exist
};
expr::Value TaskOutputView(const TaskEnvelope& envelope);

// Status text with its other spelling: ok = success, error = failed.
expr::Value StatusAlias(bool ok);

// The error object {kind, retryable, code, message, ...} from what a worker reported: `info` when
// it is a map, else one made from the text.
Json ErrorObject(std::string_view text, const Json& info);

}  // namespace noetl::engine
