// The context that a command carries: written by the server, read by the worker.
//
// A JSON map with these members; those with "?" may be absent:
//   tool_config       rendered fields of a tool, or the task list of a pipeline
//   args              step input and arc args
//   iteration?        {iterator, item, index, total, frame?}
//   render_context?   {workload, ctx, steps, identity}; over the budget it is stored and replaced by
//                     {"__context_ref__", "__context_bytes__"}
//   output?, retype?  storage hints of the step; legacy retyping of rendered text
//   idempotency_key   the same for all attempts
//   deferred?         paths in tool_config that hold templates for the worker
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/scope.h"

namespace noetl::engine {

// The names of the iteration that a command is for; null when it is for none.
Json NamesOfIteration(const Json& iteration);

// What the worker's templates read: a scope over the context of one command. Owns all it refers to
// except `bodies`; does not move. One thread.
class CommandScope : public StepSource {
 public:
  // Fails with "needs_reference" when the context itself is a stored body that is not in `bodies`.
  // `meta` is that of the command; its attempt is the fence.
  static Result<std::unique_ptr<CommandScope>> Create(const Json& context, const Json& meta,
                                                      const Bodies* bodies);

  CommandScope(const CommandScope&) = delete;
  CommandScope& operator=(const CommandScope&) = delete;

  Scope& scope() { return *scope_; }

  std::shared_ptr<const StepResult> Find(std::string_view step) const override;
  std::vector<std::string> Names() const override;

 private:
  CommandScope() = default;
  std::map<std::string, std::shared_ptr<const StepResult>, std::less<>> steps_;
  std::unique_ptr<Scope> scope_;
};

// The config of a single tool with the fields that were left to the worker rendered, each once.
// What the server rendered is data and is not looked at again.
Result<Json> RenderDeferred(const Json& context, const Scope& scope);

}  // namespace noetl::engine
