// Tokens to statements and expressions.
//
// Recursive descent with one function a precedence level. Nesting is counted
// and bounded by kDepthMax, the number of nodes by kNodesMax: any input ends in a program or in a
// `SyntaxError`, on a stack of known size. Names of filters, tests, functions and methods and their
// keyword arguments are resolved here. One parser per compilation, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "expr/ast.h"
#include "expr/lexer.h"
#include "expr/template.h"

namespace noetl::expr {

// More nodes than any real template has; keeps the memory of a compiled source in proportion.
inline constexpr std::size_t kNodesMax = 200'000;

class Parser {
 public:
  Parser(std::string_view source, Lexer::Mode mode, const Dialect& dialect, Arena* arena)
      : source_(source), lexer_(source, mode), dialect_(dialect), arena_(*arena) {}

  // The statements of a template. False: see `error()`.
  bool ParseTemplate(Block* block);
  // The source as one expression; null: see `error()`.
  const Node* ParseBareExpression();

  const SyntaxError& error() const { return error_; }
  bool saw_comment_or_raw() const { return lexer_.saw_comment_or_raw(); }

 private:
  // Counts one level of nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    // False, with the error set, when the bound is exceeded.
    bool ok() const;

   private:
    Parser& parser_;
  };

  // parser.cc: expressions.
  const Node* ParseExpression();
  const Node* ParseOr();
  const Node* ParseAnd();
  const Node* ParseNot();
  const Node* ParseCompare();
  using Level = const Node* (Parser::*)();
  struct Symbol {
    std::string_view text;
    Op op;
  };
  const Node* ParseLeftToRight(std::span<const Symbol> symbols, Level next);
  const Node* ParseAdditive();
  const Node* ParseConcat();
  const Node* ParseMultiplicative();
  const Node* ParsePower();
  const Node* ParseUnary();
  const Node* ParseSigned();
  const Node* ParsePostfix();
  const Node* ParsePrimary();
  const Node* ParseNameOrLiteral();
  const Node* ParseList();
  const Node* ParseMap();
  const Node* ParseParenthesis();
  bool ParseAttribute(Node* chain);
  bool ParseItem(Node* chain);
  bool ParseMethod(Node* chain, const Token& name);
  bool ParseFilter(Node* chain);
  bool ParseTest(Node* chain);
  const Node* ParseFunction(const Token& name);
  bool ParseArguments(const Callable& callable, std::string_view what, CallArguments* arguments);
  bool CheckNestedName(const Callable& callable, const CallArguments& arguments);
  std::optional<Op> ComparisonAhead();

  // parser_statements.cc.
  bool ParseBlock(Block* block, std::span<const std::string_view> ends, std::string* ended_by);
  bool ParseStatement(const Token& name, Block* block);
  bool ParseIf(std::uint32_t offset, Block* block);
  bool ParseFor(std::uint32_t offset, Block* block);
  bool ParseSet(std::uint32_t offset, Block* block);
  bool ParseFilterBlock(std::uint32_t offset, Block* block);
  bool ParseTargets(std::vector<std::string>* targets);
  bool CloseBlock();

  // Shared.
  Node* NewNode(NodeKind kind, std::uint32_t offset);
  Node* ChainOn(const Node* base);
  const Token& Peek();
  const Token& PeekSecond();
  Token Take();
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);
  bool ExpectOperator(std::string_view text);
  std::nullptr_t Fail(std::string_view code, std::string message, std::size_t offset);
  std::nullptr_t Unexpected(const Token& token, std::string_view wanted);

  std::string_view source_;
  Lexer lexer_;
  const Dialect& dialect_;
  Arena& arena_;
  Token ahead_[2];
  int ahead_count_ = 0;
  int depth_ = 0;
  bool loop_mentioned_ = false;
  bool failed_ = false;
  SyntaxError error_;
};

}  // namespace noetl::expr
