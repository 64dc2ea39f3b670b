// The compiled form of a template: a tree of expressions inside a list of statements.
//
// Nodes live in the `Arena` of their program and are immutable once parsed. Chains (`a.b | f | g`,
// `a + b + c`, `x and y and z`) are flat, so that depth comes from nesting only and the parser's
// bound on nesting also bounds the evaluator's recursion.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "expr/registry.h"

namespace noetl::expr {

enum class NodeKind : std::uint8_t {
  kLiteral,
  kName,
  kChain,  // items[0], then steps
  kNegate,
  kPlus,
  kNot,
  kArithmetic,  // items[0], then ops[i] with items[i + 1], from left to right
  kConcat,
  kCompare,  // chained: items[i] ops[i] items[i + 1]
  kAnd,
  kOr,
  kConditional,  // items: then, condition, otherwise (may be missing)
  kList,
  kMap,   // items: key, value, key, value ...
  kCall,  // a function of the table
};

enum class Op : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Node;

// The arguments of a call. A null slot is a parameter that was not given.
struct CallArguments {
  std::vector<const Node*> slots;
  std::vector<std::pair<std::string, const Node*>> keywords;
};

enum class StepKind : std::uint8_t { kAttribute, kItem, kSlice, kMethod, kFilter, kTest };

// One link of a chain.
struct Step {
  StepKind kind = StepKind::kAttribute;
  bool negated = false;  // `is not`
  std::uint32_t offset = 0;
  std::string name;            // attribute
  const Node* item = nullptr;  // item
  const Node* bounds[3] = {};  // slice
  const Callable* callable = nullptr;
  CallArguments arguments;
  // What to call the value when it is undefined; null after a filter, a call or a test.
  std::shared_ptr<const std::string> path;
};

struct Node {
  NodeKind kind = NodeKind::kLiteral;
  std::uint32_t offset = 0;
  Json literal;
  std::string name;
  std::shared_ptr<const std::string> path;  // name
  std::vector<const Node*> items;
  std::vector<Op> ops;
  std::vector<Step> steps;
  const Callable* callable = nullptr;
  CallArguments arguments;
};

enum class StatementKind : std::uint8_t {
  kText,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kFilterBlock
};

struct Statement;
using Block = std::vector<Statement>;

struct Branch {
  const Node* condition = nullptr;  // null: else
  Block body;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  std::uint32_t offset = 0;
  std::string text;
  // kOutput, kSet: the value. kFor: the collection. kFilterBlock, kSetBlock: the filters to apply
  // to `body_name`, or null.
  const Node* expression = nullptr;
  const Node* condition = nullptr;   // kFor: `if`
  std::vector<std::string> targets;  // kFor, kSet
  std::string attribute;             // kSet: `set space.attribute = ...`
  bool uses_loop = false;            // kFor: the body mentions `loop`
  std::vector<Branch> branches;      // kIf
  Block body;
  Block otherwise;  // kFor
};

// Owns the nodes of one program.
using Arena = std::deque<Node>;

}  // namespace noetl::expr
