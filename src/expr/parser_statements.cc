#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/parser.h"

namespace noetl::expr {

namespace {

// Known from the language family, but a playbook has no use for them.
constexpr std::string_view kUnsupported[] = {
    "extends",    "include", "import", "from", "block",    "macro", "call",
    "autoescape", "trans",   "do",     "with", "continue", "break", "pluralize"};
constexpr std::string_view kSupported[] = {"if", "for", "set", "filter", "raw"};
constexpr std::string_view kContinuations[] = {"elif",   "else",   "endif",    "endfor",
                                               "endset", "endraw", "endfilter"};

template <typename Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool Parser::ParseTemplate(Block* block) { return ParseBlock(block, {}, nullptr); }

// Reads statements up to one of the tags in `ends` and takes that tag's name; with no `ends` reads
// up to the end of the source.
bool Parser::ParseBlock(Block* block, std::span<const std::string_view> ends,
                        std::string* ended_by) {
  Nesting nesting(*this);
  if (!nesting.ok()) return false;
  while (true) {
    const Token token = Take();
    switch (token.kind) {
      case TokenKind::kText: {
        Statement statement;
        statement.offset = token.offset;
        statement.text = std::string(token.text);
        block->push_back(std::move(statement));
        break;
      }
      case TokenKind::kOutputBegin: {
        Statement statement;
        statement.kind = StatementKind::kOutput;
        statement.offset = token.end;
        statement.expression = ParseExpression();
        if (statement.expression == nullptr) return false;
        if (Peek().kind != TokenKind::kOutputEnd) {
          return Unexpected(Peek(), "an operator or '}}'") != nullptr;
        }
        Take();
        block->push_back(std::move(statement));
        break;
      }
      case TokenKind::kBlockBegin: {
        const Token name = Take();
        if (name.kind != TokenKind::kName) return Unexpected(name, "a statement") != nullptr;
        if (std::find(ends.begin(), ends.end(), name.text) != ends.end()) {
          *ended_by = std::string(name.text);
          return true;
        }
        if (!ParseStatement(name, block)) return false;
        break;
      }
      default:
        if (lexer_.failed()) return Unexpected(token, "") != nullptr;
        if (ends.empty()) return true;
        return Unexpected(token, fmt::format("'{{% {} %}}'", ends.back())) != nullptr;
    }
    if (block->size() > kNodesMax) {
      return Fail("E420", fmt::format("a template has at most {} parts", kNodesMax),
                  token.offset) != nullptr;
    }
  }
}

bool Parser::ParseStatement(const Token& name, Block* block) {
  struct Handler {
    std::string_view name;
    bool (Parser::*parse)(std::uint32_t, Block*);
  };
  static constexpr Handler kHandlers[] = {{"if", &Parser::ParseIf},
                                          {"for", &Parser::ParseFor},
                                          {"set", &Parser::ParseSet},
                                          {"filter", &Parser::ParseFilterBlock}};
  for (const Handler& handler : kHandlers) {
    if (handler.name == name.text) return (this->*handler.parse)(name.offset, block);
  }
  if (Contains(kContinuations, name.text)) {
    return Unexpected(name, "no such tag here") != nullptr;
  }
  std::string message = fmt::format("statement '{}' is not supported", name.text);
  if (!Contains(kUnsupported, name.text)) {
    const auto near = NearestName(name.text, std::span<const std::string_view>(kSupported));
    if (near) message += fmt::format(" (did you mean '{}'?)", *near);
  }
  return Fail("E400", message + Where(source_, name.offset), name.offset) != nullptr;
}

bool Parser::CloseBlock() {
  if (Peek().kind == TokenKind::kBlockEnd) {
    Take();
    return true;
  }
  return Unexpected(Peek(), "'%}'") != nullptr;
}

bool Parser::ParseIf(std::uint32_t offset, Block* block) {
  static constexpr std::string_view kEnds[] = {"elif", "else", "endif"};
  static constexpr std::string_view kLastEnds[] = {"endif"};
  Statement statement;
  statement.kind = StatementKind::kIf;
  statement.offset = offset;
  std::string tag = "if";
  while (tag != "endif") {
    Branch& branch = statement.branches.emplace_back();
    if (tag != "else") {
      branch.condition = ParseExpression();
      if (branch.condition == nullptr) return false;
    }
    if (!CloseBlock()) return false;
    const bool last = tag == "else";
    if (!ParseBlock(&branch.body, last ? std::span<const std::string_view>(kLastEnds) : kEnds,
                    &tag)) {
      return false;
    }
  }
  block->push_back(std::move(statement));
  return CloseBlock();
}

// `a`, `a, b` or `(a, b)`.
bool Parser::ParseTargets(std::vector<std::string>* targets) {
  const bool parenthesis = TakeOperator("(");
  do {
    const Token name = Take();
    if (name.kind != TokenKind::kName) return Unexpected(name, "a name") != nullptr;
    targets->emplace_back(name.text);
  } while (TakeOperator(","));
  return !parenthesis || ExpectOperator(")");
}

bool Parser::ParseFor(std::uint32_t offset, Block* block) {
  static constexpr std::string_view kEnds[] = {"else", "endfor"};
  static constexpr std::string_view kLastEnds[] = {"endfor"};
  Statement statement;
  statement.kind = StatementKind::kFor;
  statement.offset = offset;
  if (!ParseTargets(&statement.targets)) return false;
  if (!TakeName("in")) return Unexpected(Peek(), "'in'") != nullptr;
  // Not a whole expression: `if` here begins the filter of the loop.
  statement.expression = ParseOr();
  if (statement.expression == nullptr) return false;
  const bool outer_mentioned = loop_mentioned_;
  loop_mentioned_ = false;
  if (TakeName("if")) {
    statement.condition = ParseExpression();
    if (statement.condition == nullptr) return false;
  }
  if (!CloseBlock()) return false;
  std::string tag;
  if (!ParseBlock(&statement.body, kEnds, &tag)) return false;
  statement.uses_loop = loop_mentioned_;
  loop_mentioned_ = outer_mentioned || loop_mentioned_;
  if (tag == "else") {
    if (!CloseBlock() || !ParseBlock(&statement.otherwise, kLastEnds, &tag)) return false;
  }
  block->push_back(std::move(statement));
  return CloseBlock();
}

bool Parser::ParseSet(std::uint32_t offset, Block* block) {
  static constexpr std::string_view kEnds[] = {"endset"};
  Statement statement;
  statement.kind = StatementKind::kSet;
  statement.offset = offset;
  if (!ParseTargets(&statement.targets)) return false;
  if (statement.targets.size() == 1 && TakeOperator(".")) {
    const Token attribute = Take();
    if (attribute.kind != TokenKind::kName) return Unexpected(attribute, "a name") != nullptr;
    statement.attribute = std::string(attribute.text);
  }
  if (TakeOperator("=")) {
    statement.expression = ParseExpression();
    if (statement.expression == nullptr) return false;
    if (Peek().IsOperator(",")) {
      Node* tuple = NewNode(NodeKind::kList, statement.expression->offset);
      if (tuple == nullptr) return false;
      tuple->items.push_back(statement.expression);
      while (TakeOperator(",")) {
        const Node* item = ParseExpression();
        if (item == nullptr) return false;
        tuple->items.push_back(item);
      }
      statement.expression = tuple;
    }
    block->push_back(std::move(statement));
    return CloseBlock();
  }
  statement.kind = StatementKind::kSetBlock;
  if (statement.targets.size() > 1) return Unexpected(Peek(), "'='") != nullptr;
  Node* chain = NewNode(NodeKind::kChain, offset);
  if (chain == nullptr) return false;
  while (TakeOperator("|")) {
    if (!ParseFilter(chain)) return false;
  }
  statement.expression = chain;
  if (!CloseBlock()) return false;
  std::string tag;
  if (!ParseBlock(&statement.body, kEnds, &tag)) return false;
  block->push_back(std::move(statement));
  return CloseBlock();
}

bool Parser::ParseFilterBlock(std::uint32_t offset, Block* block) {
  static constexpr std::string_view kEnds[] = {"endfilter"};
  Statement statement;
  statement.kind = StatementKind::kFilterBlock;
  statement.offset = offset;
  Node* chain = NewNode(NodeKind::kChain, offset);
  if (chain == nullptr) return false;
  // `filter upper | trim`: the first filter has no bar of its own.
  do {
    if (!ParseFilter(chain)) return false;
  } while (TakeOperator("|"));
  statement.expression = chain;
  if (!CloseBlock()) return false;
  std::string tag;
  if (!ParseBlock(&statement.body, kEnds, &tag)) return false;
  block->push_back(std::move(statement));
  return CloseBlock();
}

}  // namespace noetl::expr
