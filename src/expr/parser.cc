#include "expr/parser.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"

namespace noetl::expr {

namespace {

constexpr std::string_view kReserved[] = {"and", "or", "not", "in", "is", "if", "else"};

bool IsReserved(std::string_view name) {
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

struct NamedLiteral {
  std::string_view name;
  Json value;
};

const Json* FindLiteral(std::string_view name) {
  static const std::array<NamedLiteral, 7> kLiterals = {{{"true", true},
                                                         {"True", true},
                                                         {"false", false},
                                                         {"False", false},
                                                         {"none", nullptr},
                                                         {"None", nullptr},
                                                         {"null", nullptr}}};
  for (const NamedLiteral& literal : kLiterals) {
    if (literal.name == name) return &literal.value;
  }
  return nullptr;
}

// The name of the value that `chain` has now, or null when it has none.
std::shared_ptr<const std::string> ChainPath(const Node& chain) {
  return chain.steps.empty() ? chain.items[0]->path : chain.steps.back().path;
}

}  // namespace

bool Parser::Nesting::ok() const {
  if (parser_.depth_ <= kDepthMax) return true;
  parser_.Fail("E420", fmt::format("nested deeper than {} levels", kDepthMax),
               parser_.ahead_count_ > 0 ? parser_.ahead_[0].offset : 0);
  return false;
}

std::nullptr_t Parser::Fail(std::string_view code, std::string message, std::size_t offset) {
  if (!failed_) {
    failed_ = true;
    error_ = {{std::string(code), std::move(message)}, offset};
  }
  return nullptr;
}

std::nullptr_t Parser::Unexpected(const Token& token, std::string_view wanted) {
  if (lexer_.failed()) {
    if (!failed_) error_ = lexer_.error();
    failed_ = true;
    return nullptr;
  }
  const std::string what =
      token.kind == TokenKind::kEnd ? "end of the template" : fmt::format("'{}'", token.text);
  std::string message = fmt::format("unexpected {}{}", what, Where(source_, token.offset));
  if (!wanted.empty()) message += fmt::format(", expected {}", wanted);
  const bool foreign = token.offset >= 2 && source_.substr(token.offset - 2, 2) == "{{";
  if (foreign) message += " (braces for another program go between {% raw %} and {% endraw %})";
  return Fail("E404", std::move(message), token.offset);
}

Node* Parser::NewNode(NodeKind kind, std::uint32_t offset) {
  if (arena_.size() >= kNodesMax) {
    Fail("E420", fmt::format("a template has at most {} parts", kNodesMax), offset);
    return nullptr;
  }
  Node& node = arena_.emplace_back();
  node.kind = kind;
  node.offset = offset;
  return &node;
}

const Token& Parser::Peek() {
  if (ahead_count_ == 0) {
    ahead_[0] = lexer_.Next();
    ahead_count_ = 1;
  }
  return ahead_[0];
}

const Token& Parser::PeekSecond() {
  Peek();
  if (ahead_count_ == 1) {
    ahead_[1] = lexer_.Next();
    ahead_count_ = 2;
  }
  return ahead_[1];
}

Token Parser::Take() {
  Peek();
  Token token = std::move(ahead_[0]);
  if (ahead_count_ == 2) ahead_[0] = std::move(ahead_[1]);
  --ahead_count_;
  return token;
}

bool Parser::TakeOperator(std::string_view text) {
  if (!Peek().IsOperator(text)) return false;
  Take();
  return true;
}

bool Parser::TakeName(std::string_view text) {
  if (!Peek().IsName(text)) return false;
  Take();
  return true;
}

bool Parser::ExpectOperator(std::string_view text) {
  if (TakeOperator(text)) return true;
  Unexpected(Peek(), fmt::format("'{}'", text));
  return false;
}

const Node* Parser::ParseBareExpression() {
  const Node* node = ParseExpression();
  if (node == nullptr) return nullptr;
  if (Peek().kind != TokenKind::kEnd || lexer_.failed()) return Unexpected(Peek(), "an operator");
  return node;
}

const Node* Parser::ParseExpression() {
  Nesting nesting(*this);
  if (!nesting.ok()) return nullptr;
  const Node* then = ParseOr();
  if (then == nullptr || !Peek().IsName("if")) return then;
  const std::uint32_t offset = Take().offset;
  const Node* condition = ParseOr();
  if (condition == nullptr) return nullptr;
  Node* node = NewNode(NodeKind::kConditional, offset);
  if (node == nullptr) return nullptr;
  node->items = {then, condition};
  if (!TakeName("else")) return node;
  const Node* otherwise = ParseExpression();
  if (otherwise == nullptr) return nullptr;
  node->items.push_back(otherwise);
  return node;
}

const Node* Parser::ParseOr() {
  const Node* first = ParseAnd();
  if (first == nullptr || !Peek().IsName("or")) return first;
  Node* node = NewNode(NodeKind::kOr, Peek().offset);
  if (node == nullptr) return nullptr;
  node->items.push_back(first);
  while (TakeName("or")) {
    const Node* next = ParseAnd();
    if (next == nullptr) return nullptr;
    node->items.push_back(next);
  }
  return node;
}

const Node* Parser::ParseAnd() {
  const Node* first = ParseNot();
  if (first == nullptr || !Peek().IsName("and")) return first;
  Node* node = NewNode(NodeKind::kAnd, Peek().offset);
  if (node == nullptr) return nullptr;
  node->items.push_back(first);
  while (TakeName("and")) {
    const Node* next = ParseNot();
    if (next == nullptr) return nullptr;
    node->items.push_back(next);
  }
  return node;
}

const Node* Parser::ParseNot() {
  if (!Peek().IsName("not")) return ParseCompare();
  Nesting nesting(*this);
  if (!nesting.ok()) return nullptr;
  const std::uint32_t offset = Take().offset;
  const Node* operand = ParseNot();
  if (operand == nullptr) return nullptr;
  Node* node = NewNode(NodeKind::kNot, offset);
  if (node != nullptr) node->items.push_back(operand);
  return node;
}

// Takes a comparison operator when one is next.
std::optional<Op> Parser::ComparisonAhead() {
  static constexpr Symbol kComparisons[] = {
      {"==", Op::kEqual},     {"!=", Op::kNotEqual}, {"<", Op::kLess},
      {"<=", Op::kLessEqual}, {">", Op::kGreater},   {">=", Op::kGreaterEqual},
  };
  const Token& token = Peek();
  if (token.kind == TokenKind::kOperator) {
    for (const Symbol& symbol : kComparisons) {
      if (token.text != symbol.text) continue;
      Take();
      return symbol.op;
    }
    return std::nullopt;
  }
  if (TakeName("in")) return Op::kIn;
  if (token.IsName("not") && PeekSecond().IsName("in")) {
    Take();
    Take();
    return Op::kNotIn;
  }
  return std::nullopt;
}

const Node* Parser::ParseCompare() {
  const Node* first = ParseAdditive();
  if (first == nullptr) return nullptr;
  std::uint32_t offset = Peek().offset;
  Node* node = nullptr;
  while (const std::optional<Op> op = ComparisonAhead()) {
    if (node == nullptr) {
      node = NewNode(NodeKind::kCompare, offset);
      if (node == nullptr) return nullptr;
      node->items.push_back(first);
    }
    const Node* next = ParseAdditive();
    if (next == nullptr) return nullptr;
    node->ops.push_back(*op);
    node->items.push_back(next);
  }
  return node != nullptr ? node : first;
}

const Node* Parser::ParseLeftToRight(std::span<const Symbol> symbols, Level next) {
  const Node* first = (this->*next)();
  if (first == nullptr) return nullptr;
  Node* node = nullptr;
  while (Peek().kind == TokenKind::kOperator) {
    const auto symbol = std::find_if(symbols.begin(), symbols.end(), [this](const Symbol& entry) {
      return entry.text == Peek().text;
    });
    if (symbol == symbols.end()) break;
    const std::uint32_t offset = Take().offset;
    if (node == nullptr) {
      node = NewNode(NodeKind::kArithmetic, offset);
      if (node == nullptr) return nullptr;
      node->items.push_back(first);
    }
    const Node* operand = (this->*next)();
    if (operand == nullptr) return nullptr;
    node->ops.push_back(symbol->op);
    node->items.push_back(operand);
  }
  return node != nullptr ? node : first;
}

const Node* Parser::ParseAdditive() {
  static constexpr Symbol kSymbols[] = {{"+", Op::kAdd}, {"-", Op::kSubtract}};
  return ParseLeftToRight(kSymbols, &Parser::ParseConcat);
}

const Node* Parser::ParseConcat() {
  const Node* first = ParseMultiplicative();
  if (first == nullptr || !Peek().IsOperator("~")) return first;
  Node* node = NewNode(NodeKind::kConcat, Peek().offset);
  if (node == nullptr) return nullptr;
  node->items.push_back(first);
  while (TakeOperator("~")) {
    const Node* next = ParseMultiplicative();
    if (next == nullptr) return nullptr;
    node->items.push_back(next);
  }
  return node;
}

const Node* Parser::ParseMultiplicative() {
  static constexpr Symbol kSymbols[] = {
      {"*", Op::kMultiply}, {"/", Op::kDivide}, {"//", Op::kFloorDivide}, {"%", Op::kModulo}};
  return ParseLeftToRight(kSymbols, &Parser::ParsePower);
}

const Node* Parser::ParsePower() {
  static constexpr Symbol kSymbols[] = {{"**", Op::kPower}};
  return ParseLeftToRight(kSymbols, &Parser::ParseUnary);
}

// A signed operand with its filters and tests: these bind looser than the sign.
const Node* Parser::ParseUnary() {
  const Node* operand = ParseSigned();
  if (operand == nullptr) return nullptr;
  Node* chain = nullptr;
  while (Peek().IsOperator("|") || Peek().IsName("is")) {
    if (chain == nullptr) chain = ChainOn(operand);
    if (chain == nullptr) return nullptr;
    if (!(Take().IsOperator("|") ? ParseFilter(chain) : ParseTest(chain))) return nullptr;
  }
  if (Peek().IsOperator("(") || Peek().IsOperator("[") || Peek().IsOperator(".")) {
    if (chain != nullptr) return Unexpected(Peek(), "an operator; put the filter in parentheses");
  }
  return chain != nullptr ? chain : operand;
}

// The chain to add steps to: `base` itself when it already is one.
Node* Parser::ChainOn(const Node* base) {
  if (base->kind == NodeKind::kChain) return const_cast<Node*>(base);
  Node* chain = NewNode(NodeKind::kChain, base->offset);
  if (chain != nullptr) chain->items.push_back(base);
  return chain;
}

const Node* Parser::ParseSigned() {
  const bool negate = Peek().IsOperator("-");
  if (!negate && !Peek().IsOperator("+")) return ParsePostfix();
  Nesting nesting(*this);
  if (!nesting.ok()) return nullptr;
  const std::uint32_t offset = Take().offset;
  const Node* operand = ParseSigned();
  if (operand == nullptr) return nullptr;
  Node* node = NewNode(negate ? NodeKind::kNegate : NodeKind::kPlus, offset);
  if (node != nullptr) node->items.push_back(operand);
  return node;
}

const Node* Parser::ParsePostfix() {
  const Node* base = ParsePrimary();
  if (base == nullptr) return nullptr;
  Node* chain = nullptr;
  while (Peek().IsOperator(".") || Peek().IsOperator("[") || Peek().IsOperator("(")) {
    if (Peek().IsOperator("(")) {
      const std::uint32_t offset = Peek().offset;
      return Fail("E403", "only functions and methods can be called" + Where(source_, offset),
                  offset);
    }
    if (chain == nullptr) {
      // A parenthesised chain keeps its own node: `(a.b).c` and `a.b.c` mean the same.
      chain = ChainOn(base);
      if (chain == nullptr) return nullptr;
    }
    if (!(Peek().IsOperator(".") ? ParseAttribute(chain) : ParseItem(chain))) return nullptr;
  }
  return chain != nullptr ? chain : base;
}

bool Parser::ParseAttribute(Node* chain) {
  Take();
  const Token name = Take();
  if (name.kind == TokenKind::kNumber && name.value.is_int()) {
    Node* index = NewNode(NodeKind::kLiteral, name.offset);
    if (index == nullptr) return false;
    index->literal = name.value;
    Step step{.kind = StepKind::kItem, .offset = name.offset, .item = index};
    if (const auto path = ChainPath(*chain)) {
      step.path = std::make_shared<const std::string>(fmt::format("{}[{}]", *path, name.text));
    }
    chain->steps.push_back(std::move(step));
    return true;
  }
  if (name.kind != TokenKind::kName) return Unexpected(name, "a name after '.'") != nullptr;
  if (Peek().IsOperator("(")) return ParseMethod(chain, name);
  Step step{.kind = StepKind::kAttribute, .offset = name.offset, .name = std::string(name.text)};
  if (const auto path = ChainPath(*chain)) {
    step.path = std::make_shared<const std::string>(*path + "." + step.name);
  }
  chain->steps.push_back(std::move(step));
  return true;
}

bool Parser::ParseItem(Node* chain) {
  Nesting nesting(*this);
  if (!nesting.ok()) return false;
  Step step{.kind = StepKind::kItem, .offset = Take().offset};
  const auto path = ChainPath(*chain);
  const bool open_start = Peek().IsOperator(":");
  if (!open_start) {
    step.item = ParseExpression();
    if (step.item == nullptr) return false;
  }
  if (Peek().IsOperator(":")) {
    step.kind = StepKind::kSlice;
    step.bounds[0] = step.item;
    step.item = nullptr;
    for (int bound = 1; bound < 3 && TakeOperator(":"); ++bound) {
      if (Peek().IsOperator(":") || Peek().IsOperator("]")) continue;
      step.bounds[bound] = ParseExpression();
      if (step.bounds[bound] == nullptr) return false;
    }
  } else if (path != nullptr && step.item->kind == NodeKind::kLiteral) {
    const Json& key = step.item->literal;
    const std::string text = TextForm(key);
    step.path = std::make_shared<const std::string>(
        key.is_string() && IsIdentifier(text) ? fmt::format("{}.{}", *path, text)
        : key.is_string()                     ? fmt::format("{}['{}']", *path, text)
                                              : fmt::format("{}[{}]", *path, text));
  } else if (path != nullptr) {
    step.path = std::make_shared<const std::string>(*path + "[...]");
  }
  chain->steps.push_back(std::move(step));
  return ExpectOperator("]");
}

bool Parser::ParseMethod(Node* chain, const Token& name) {
  const Callable* method = dialect_.methods ? FindCallable(MethodTable(), name.text) : nullptr;
  if (method == nullptr) {
    const std::string_view advice = FindCallable(MethodTable(), name.text) != nullptr
                                        ? "; use the filter of that kind instead"
                                        : "";
    const std::string where = Where(source_, name.offset);
    Fail("E403", fmt::format("unknown method '{}'{}{}", name.text, where, advice), name.offset);
    return false;
  }
  Step step{.kind = StepKind::kMethod, .offset = name.offset, .callable = method};
  if (!ParseArguments(*method, "method", &step.arguments)) return false;
  chain->steps.push_back(std::move(step));
  return true;
}

// The name and arguments behind a '|'.
bool Parser::ParseFilter(Node* chain) {
  const Token name = Take();
  if (name.kind != TokenKind::kName) return Unexpected(name, "the name of a filter") != nullptr;
  const Callable* filter = FindFilter(name.text);
  if (filter == nullptr) {
    Fail("E401", UnknownName("filter", name.text, FilterTable()), name.offset);
    return false;
  }
  Step step{.kind = StepKind::kFilter, .offset = name.offset, .callable = filter};
  if (!ParseArguments(*filter, "filter", &step.arguments)) return false;
  chain->steps.push_back(std::move(step));
  return true;
}

// What follows `is`: `name`, `not name`, `name(args)` or `name arg`.
bool Parser::ParseTest(Node* chain) {
  const bool negated = TakeName("not");
  const Token name = Take();
  const bool symbol = name.kind == TokenKind::kOperator && FindTest(name.text) != nullptr;
  if (name.kind != TokenKind::kName && !symbol) {
    return Unexpected(name, "the name of a test") != nullptr;
  }
  const Callable* test = FindTest(name.text);
  if (test == nullptr) {
    Fail("E401", UnknownName("test", name.text, TestTable()), name.offset);
    return false;
  }
  Step step{.kind = StepKind::kTest, .negated = negated, .offset = name.offset, .callable = test};
  const Token& next = Peek();
  const bool bare_argument = test->min > 0 && !next.IsOperator("(") &&
                             (next.kind == TokenKind::kString || next.kind == TokenKind::kNumber ||
                              (next.kind == TokenKind::kName && !IsReserved(next.text)) ||
                              next.IsOperator("[") || next.IsOperator("{") || next.IsOperator("-"));
  if (bare_argument) {
    const Node* argument = ParseSigned();
    if (argument == nullptr) return false;
    step.arguments.slots.push_back(argument);
  } else if (!ParseArguments(*test, "test", &step.arguments)) {
    return false;
  }
  chain->steps.push_back(std::move(step));
  return true;
}

const Node* Parser::ParseFunction(const Token& name) {
  const Callable* function = FindCallable(FunctionTable(), name.text);
  if (function == nullptr) {
    return Fail("E403", UnknownName("function", name.text, FunctionTable()), name.offset);
  }
  Node* node = NewNode(NodeKind::kCall, name.offset);
  if (node == nullptr) return nullptr;
  node->callable = function;
  return ParseArguments(*function, "function", &node->arguments) ? node : nullptr;
}

bool Parser::ParseArguments(const Callable& callable, std::string_view what,
                            CallArguments* arguments) {
  Nesting nesting(*this);
  if (!nesting.ok()) return false;
  const std::uint32_t offset = Peek().offset;
  const auto named = [&](std::string_view problem) {
    Fail("E404", fmt::format("{} '{}' {}{}", what, callable.name, problem, Where(source_, offset)),
         offset);
    return false;
  };
  if (TakeOperator("(")) {
    while (!TakeOperator(")")) {
      if (Peek().kind == TokenKind::kName && PeekSecond().IsOperator("=")) {
        const Token keyword = Take();
        Take();
        const Node* value = ParseExpression();
        if (value == nullptr) return false;
        const int position = callable.Position(keyword.text);
        if (position < 0 && !callable.any_keywords) {
          return named(fmt::format("has no argument '{}'", keyword.text));
        }
        if (position < 0) {
          arguments->keywords.emplace_back(keyword.text, value);
        } else {
          const auto index = static_cast<std::size_t>(position);
          if (arguments->slots.size() <= index) arguments->slots.resize(index + 1, nullptr);
          if (arguments->slots[index] != nullptr) {
            return named(fmt::format("got '{}' twice", keyword.text));
          }
          arguments->slots[index] = value;
        }
      } else {
        const Node* value = ParseExpression();
        if (value == nullptr) return false;
        arguments->slots.push_back(value);
      }
      if (!Peek().IsOperator(")") && !ExpectOperator(",")) return false;
    }
  }
  const auto given =
      static_cast<int>(std::count_if(arguments->slots.begin(), arguments->slots.end(),
                                     [](const Node* slot) { return slot != nullptr; }));
  if (given < callable.min) return named(fmt::format("needs {} argument(s)", callable.min));
  if (static_cast<int>(arguments->slots.size()) > callable.max) {
    return named(fmt::format("takes at most {} argument(s)", callable.max));
  }
  return CheckNestedName(callable, *arguments);
}

// `map('uper')` and `select('ood')` name a filter or test: a wrong name is found here already.
bool Parser::CheckNestedName(const Callable& callable, const CallArguments& arguments) {
  struct Nested {
    std::string_view name;
    std::size_t position;
    bool filter;
  };
  static constexpr Nested kNested[] = {{"map", 0, true},
                                       {"select", 0, false},
                                       {"reject", 0, false},
                                       {"selectattr", 1, false},
                                       {"rejectattr", 1, false}};
  for (const Nested& nested : kNested) {
    if (callable.name != nested.name || arguments.slots.size() <= nested.position) continue;
    const Node* argument = arguments.slots[nested.position];
    if (argument == nullptr || argument->kind != NodeKind::kLiteral) continue;
    const std::string_view name = argument->literal.AsString();
    const std::span<const Callable> table = nested.filter ? FilterTable() : TestTable();
    if (FindCallable(table, name) != nullptr) continue;
    Fail("E401", UnknownName(nested.filter ? "filter" : "test", name, table), argument->offset);
    return false;
  }
  return true;
}

const Node* Parser::ParsePrimary() {
  const Token& token = Peek();
  switch (token.kind) {
    case TokenKind::kName: return ParseNameOrLiteral();
    case TokenKind::kNumber:
    case TokenKind::kString: {
      const Token literal = Take();
      Node* node = NewNode(NodeKind::kLiteral, literal.offset);
      if (node == nullptr) return nullptr;
      node->literal = literal.value;
      if (literal.kind == TokenKind::kString && Peek().kind == TokenKind::kString) {
        std::string joined = literal.value.ToString();
        while (Peek().kind == TokenKind::kString) joined += Take().value.AsString();
        node->literal = Json(joined);
      }
      return node;
    }
    case TokenKind::kOperator:
      if (token.text == "(") return ParseParenthesis();
      if (token.text == "[") return ParseList();
      if (token.text == "{") return ParseMap();
      [[fallthrough]];
    default: return Unexpected(token, "a value");
  }
}

const Node* Parser::ParseNameOrLiteral() {
  if (IsReserved(Peek().text)) return Unexpected(Peek(), "a value");
  const Token name = Take();
  if (const Json* literal = FindLiteral(name.text)) {
    Node* node = NewNode(NodeKind::kLiteral, name.offset);
    if (node != nullptr) node->literal = *literal;
    return node;
  }
  if (Peek().IsOperator("(")) return ParseFunction(name);
  Node* node = NewNode(NodeKind::kName, name.offset);
  if (node == nullptr) return nullptr;
  if (name.text == "loop") loop_mentioned_ = true;
  node->name = std::string(name.text);
  node->path = std::make_shared<const std::string>(name.text);
  return node;
}

const Node* Parser::ParseList() {
  Node* node = NewNode(NodeKind::kList, Take().offset);
  if (node == nullptr) return nullptr;
  while (!TakeOperator("]")) {
    const Node* item = ParseExpression();
    if (item == nullptr) return nullptr;
    node->items.push_back(item);
    if (!Peek().IsOperator("]") && !ExpectOperator(",")) return nullptr;
  }
  return node;
}

const Node* Parser::ParseMap() {
  Node* node = NewNode(NodeKind::kMap, Take().offset);
  if (node == nullptr) return nullptr;
  while (!TakeOperator("}")) {
    const Node* key = ParseExpression();
    if (key == nullptr || !ExpectOperator(":")) return nullptr;
    const Node* value = ParseExpression();
    if (value == nullptr) return nullptr;
    node->items.push_back(key);
    node->items.push_back(value);
    if (!Peek().IsOperator("}") && !ExpectOperator(",")) return nullptr;
  }
  return node;
}

// A grouped expression or a tuple, which is a list here.
const Node* Parser::ParseParenthesis() {
  const std::uint32_t offset = Take().offset;
  std::vector<const Node*> items;
  bool tuple = Peek().IsOperator(")");
  while (!TakeOperator(")")) {
    const Node* item = ParseExpression();
    if (item == nullptr) return nullptr;
    items.push_back(item);
    if (Peek().IsOperator(")")) continue;
    if (!ExpectOperator(",")) return nullptr;
    tuple = true;
  }
  if (!tuple) {
    // A node of its own keeps filters of the inside from joining those outside of the parentheses.
    return items[0];
  }
  Node* node = NewNode(NodeKind::kList, offset);
  if (node != nullptr) node->items = std::move(items);
  return node;
}

}  // namespace noetl::expr
