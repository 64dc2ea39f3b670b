// What one evaluation carries around: the scope, local names and the budget.
//
// Every step of an evaluation is charged against one budget of operations; bytes and list elements
// count in proportion, so time and memory are both bounded. Values that a template builds are
// bounded in depth and in the size they would have when written out, because a shared list inside a
// list inside a list grows exponentially on paper. One runtime per evaluation, one thread.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "expr/template.h"
#include "expr/value.h"

namespace noetl::expr {

// Text work costs one operation per so many bytes: all text of one evaluation stays under 512 MB.
inline constexpr std::size_t kBytesPerOperation = 512;
// The largest result of `text * n` or `list * n`.
inline constexpr std::size_t kRepeatBytesMax = 100'000'000;
// Values made by a template may have this many nodes when written out in full.
inline constexpr std::size_t kMadeNodesMax = 4'000'000;
// Building is not measured until values could be this many times as large as what went in.
inline constexpr std::size_t kUnmeasuredGrowth = 1'000;
inline constexpr int kUnmeasuredDepth = 16;
// Filters that apply filters (`map`) inside each other.
inline constexpr int kApplyDepthMax = 10;

// The object of namespace(): attributes in order of their first assignment. It never holds another
// namespace, so there are no cycles.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  const Value* Find(std::string_view name) const;
  Status Set(std::string_view name, Value value);
  Result<Json> Plain() const;
};

class Runtime {
 public:
  explicit Runtime(const Scope& scope) : scope_(scope) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Scope& scope() const { return scope_; }

  // Counts work; fails with E420 when the budget is used up.
  Status Charge(std::int64_t operations) {
    operations_ += operations;
    if (operations_ > kOperationsMax) [[unlikely]]
      return OverBudget();
    return {};
  }
  Status ChargeBytes(std::size_t bytes) {
    return Charge(static_cast<std::int64_t>(bytes / kBytesPerOperation));
  }
  bool Step() { return ++operations_ <= kOperationsMax; }
  static std::unexpected<Error> OverBudget();

  // Every list or map that a template builds passes through here.
  Result<Value> Made(Json container);
  Result<Value> MadeList(std::vector<Json> items) { return Made(Json::Array(std::move(items))); }
  // Checked text: bounded and charged.
  Result<Value> MadeText(std::string_view text);

  // Appends the text form of a value, keeping `out` under kOutputBytesMax.
  Status AppendText(std::string& out, const Value& value);
  Status AppendLiteral(std::string& out, std::string_view text);
  Result<std::string> Text(const Value& value);
  // The characters of a text, charged before memory is taken for them.
  Result<std::vector<std::string_view>> Letters(std::string_view text);
  // Fails when a value built by this template would be too large when written out.
  Status CheckWritable(const Json& value);

  // Local names: `for` targets and `set`. Inner frames hide outer ones.
  const Value* FindLocal(std::string_view name) const;
  std::size_t PushFrame();
  void PopFrame(std::size_t frame);
  void SetLocal(std::string_view name, Value value);

  // Nested application of filters by name.
  int apply_depth = 0;

 private:
  Status Measure(const Json& value, int depth, std::size_t* nodes, std::size_t* bytes) const;

  struct Local {
    std::string_view name;
    Value value;
  };
  const Scope& scope_;
  std::int64_t operations_ = 0;
  std::vector<Local> locals_;
  std::size_t frame_ = 0;
  // Bounds on what has been built: how many times larger and how much deeper than the inputs.
  bool made_any_ = false;
  std::size_t growth_ = 1;
  int made_depth_ = 0;
};

}  // namespace noetl::expr
