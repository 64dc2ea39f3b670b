// Runs compiled templates.
//
// The evaluator walks the tree of ast.h. Errors are kept in the evaluator and signalled by `false`,
// which keeps the normal path free of large return values. Recursion is bounded by the parser's
// bound on nesting. One evaluator per evaluation, one thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expr/ast.h"
#include "expr/runtime.h"

namespace noetl::expr {

class Evaluator {
 public:
  explicit Evaluator(const Scope& scope) : run_(scope) {}

  [[nodiscard]] bool Evaluate(const Node& node, Value& out);
  [[nodiscard]] bool Execute(const Block& block, std::string& out);

  // After `false`.
  Error& error() { return error_; }
  // Where the failing expression is, when it was one expression that failed.
  std::optional<std::size_t> error_offset() const {
    return located_ ? std::optional(error_offset_) : std::nullopt;
  }
  Runtime& run() { return run_; }

 private:
  // A call's evaluated arguments live here while it runs.
  struct ArgumentStore;

  bool EvaluateKind(const Node& node, Value& out);
  bool EvaluateName(const Node& node, Value& out);
  bool EvaluateChain(const Node& node, Value& out);
  bool ApplySteps(const Node& chain, Value& value);
  bool ApplyStep(const struct Step& step, Value& value);
  bool ApplySlice(const struct Step& step, Value& value);
  bool EvaluateArithmetic(const Node& node, Value& out);
  bool EvaluateConcat(const Node& node, Value& out);
  bool EvaluateCompare(const Node& node, Value& out);
  bool EvaluateLogic(const Node& node, Value& out);
  bool EvaluateConditional(const Node& node, Value& out);
  bool EvaluateList(const Node& node, Value& out);
  bool EvaluateMap(const Node& node, Value& out);
  bool EvaluateCall(const Callable& callable, const CallArguments& arguments, const Value& input,
                    Value& out);

  bool ExecuteIf(const Statement& statement, std::string& out);
  bool ExecuteFor(const Statement& statement, std::string& out);
  bool ExecuteSet(const Statement& statement);
  bool ExecuteCapture(const Statement& statement, std::string& out);
  bool Bind(const std::vector<std::string>& targets, const Value& value);
  bool Assign(const Statement& statement, const Value& value);
  bool KeepItem(const Statement& statement, const Json& item, bool* keep);

  // Takes the value or keeps the error.
  bool Take(Result<Value> result, Value& out) {
    if (result) [[likely]] {
      out = std::move(*result);
      return true;
    }
    return Refuse(std::move(result.error()));
  }
  bool Check(Status status) { return status ? true : Refuse(std::move(status.error())); }
  bool Refuse(Error error);

  Runtime run_;
  Error error_;
  std::size_t error_offset_ = 0;
  bool located_ = false;
};

}  // namespace noetl::expr
