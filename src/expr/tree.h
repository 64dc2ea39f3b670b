// Compiled values: a JSON tree whose string leaves may be templates.
//
// Playbook fields (`input`, `set` values, tool fields) are trees of maps, lists, scalars and
// template strings. `Tree` compiles every string once; rendering gives JSON. Parts without
// templates are shared with the source value, not copied. Map keys are never rendered.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "expr/template.h"

namespace noetl::expr {

// Depth of a rendered value tree.
inline constexpr int kTreeDepthMax = 64;

class Tree {
 public:
  // A tree that renders to null.
  Tree() = default;

  // A problem in one leaf: where it is below this tree ("headers.Authorization", "[2].url") and
  // what.
  struct Problem {
    std::string path;
    std::string source;
    Template::CompileError error;
  };
  // Decides for a leaf path whether it is compiled at all; a leaf that is not stays verbatim.
  using Filter = std::function<bool(std::string_view path)>;

  // Compiles every leaf; problems are collected, and a leaf with a problem stays verbatim.
  static Tree Compile(const Json& source, const Dialect& dialect, std::vector<Problem>* problems,
                      const Filter& filter = nullptr);

  const Json& source() const { return source_; }
  // No templates inside: Render gives `source()`.
  bool is_literal() const { return leaves_ == 0; }
  // Every compiled template with its path, in document order.
  struct Leaf {
    std::string path;
    Template compiled;
  };
  std::vector<Leaf> Leaves() const;

  // Which leaves to leave verbatim at render time (the server leaves secrets to the worker).
  using Defer = std::function<bool(const Template&)>;
  // An error names the leaf: "<path> '<source>': <cause>".
  Result<Json> Render(const Scope& scope, Output output, const Defer& defer = nullptr) const;

 private:
  struct Node;
  Json source_;
  std::shared_ptr<const Node> root_;
  std::size_t leaves_ = 0;
};

// A `when`: absent, a literal, an expression or a template.
class Condition {
 public:
  Condition() = default;  // absent: always true
  static std::expected<Condition, Template::CompileError> Compile(const Json& source,
                                                                  const Dialect& dialect);

  bool is_absent() const { return absent_; }
  const Json& source() const { return source_; }
  // The compiled template, or nullptr for absent and literal conditions.
  const Template* compiled() const { return compiled_ ? compiled_.get() : nullptr; }
  Result<bool> Evaluate(const Scope& scope) const;

 private:
  bool absent_ = true;
  bool literal_ = true;
  Json source_;
  std::shared_ptr<const Template> compiled_;
};

}  // namespace noetl::expr
