// Names that templates can read, and where they come from.
//
// One scope class serves the server (over the folded state) and the worker (over the context that a
// command carries). Lookup order: bound names, reserved roots, ctx keys, steps, workload keys. A
// scope refers to its sources and lives as long as one evaluation or one command; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/result.h"
#include "expr/template.h"

namespace noetl::engine {

// Results of steps by name.
class StepSource {
 public:
  virtual ~StepSource() = default;
  // nullptr: the step has not ended a run.
  virtual std::shared_ptr<const StepResult> Find(std::string_view step) const = 0;
  virtual std::vector<std::string> Names() const = 0;
};

class Scope : public expr::Scope {
 public:
  struct Sources {
    Json workload;  // effective workload
    Json ctx;       // execution context
    Json identity;  // execution_id, catalog_id, parent_execution_id, job, playbook, env, ...
    const StepSource* steps = nullptr;
    const Bodies* bodies = nullptr;
  };
  explicit Scope(Sources sources) : sources_(std::move(sources)) {}

  // Binds a name above all sources. The latest binding of a name wins.
  void Bind(std::string_view name, expr::Value value);
  // Binds every member of a map.
  void BindAll(const Json& names);
  // Forgets bindings made after `mark` (a value returned by Mark()).
  std::size_t Mark() const { return bound_.size(); }
  void Rewind(std::size_t mark) { bound_.resize(mark); }

  const Json& ctx() const { return sources_.ctx; }
  // Replaces the execution context (a pipeline's own ctx writes are visible at once).
  void SetCtx(Json ctx) { sources_.ctx = std::move(ctx); }
  // Replaces the workload (a worker puts secret inputs into it).
  void SetWorkload(Json workload) { sources_.workload = std::move(workload); }
  const Sources& sources() const { return sources_; }

  void SetNow(std::string now) { now_ = std::move(now); }
  // NOETL_TEMPLATE_RETYPE=legacy, as the run was started with.
  void SetRetypesText(bool retypes) { retypes_ = retypes; }
  bool RetypesText() const override { return retypes_; }
  using TokenSource = std::function<Result<expr::Value>(std::string_view alias)>;
  void SetTokens(TokenSource tokens) { tokens_ = std::move(tokens); }

  Result<expr::Value> Lookup(std::string_view name) const override;
  std::optional<std::string> Now() const override { return now_; }
  Result<expr::Value> Token(std::string_view alias) const override;

 private:
  Sources sources_;
  std::vector<std::pair<std::string, expr::Value>> bound_;
  std::optional<std::string> now_;
  bool retypes_ = false;
  TokenSource tokens_;
};

// {{ step }}: its text is the step's name, its keys are the `step.*` scratch.
expr::Value NamedStep(std::string name, Json scratch);

// Writes `value` at a dotted path, making maps on the way; a non-map in the middle is replaced.
Json SetPath(const Json& root, std::span<const std::string> path, Json value);

// The names of one loop iteration: <iterator>, _index, _total, loop_index, iter{...}, loop{...}.
Json IterationNames(std::string_view iterator, const Json& item, std::int64_t index,
                    std::int64_t total);

}  // namespace noetl::engine
