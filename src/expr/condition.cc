#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/lexer.h"
#include "expr/tree.h"

namespace noetl::expr {

namespace {

using CompileError = Template::CompileError;

constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<=", ">=", "<", ">"};
constexpr std::array<std::string_view, 5> kWords = {"and", "or", "not", "in", "is"};

template <typename Names>
bool IsOneOf(const Names& names, std::string_view word) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

// Text outside of the braces, in words; signs are words of their own even without blanks.
struct Word {
  std::string_view text;
  std::size_t offset = 0;
};

std::vector<Word> SplitWords(std::string_view text, std::size_t offset) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<Word> words;
  std::size_t at = 0;
  while (at < text.size()) {
    if (kSpace.find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::size_t end = at;
    for (const std::string_view sign : kSigns) {
      if (end == at && text.substr(at).starts_with(sign)) end = at + sign.size();
    }
    if (end == at && (text[at] == '\'' || text[at] == '"')) {
      const std::size_t close = text.find(text[at], at + 1);
      end = close == std::string_view::npos ? text.size() : close + 1;
    }
    if (end == at) end = std::min(text.find_first_of(" \t\r\n=!<>", at + 1), text.size());
    words.push_back({text.substr(at, end - at), offset + at});
    at = end;
  }
  return words;
}

bool IsOperatorWord(std::string_view word) {
  return IsOneOf(kSigns, word) || IsOneOf(kWords, word);
}

// A bare word outside of braces was meant as text, unless it reads as a literal.
std::string AsOperand(std::string_view word) {
  if (word.front() == '\'' || word.front() == '"') return std::string(word);
  auto compiled = Template::CompileExpression(word);
  const bool literal = compiled && compiled->analysis().roots.empty();
  return literal ? std::string(word) : fmt::format("'{}'", word);
}

// `{{ x }} == prod` compares nothing: it is text, and text is true. Finds such conditions and says
// what to write.
std::optional<CompileError> FindComparisonInText(std::string_view source) {
  Lexer lexer(source, Lexer::Mode::kTemplate);
  std::string rewrite;
  std::optional<std::size_t> operator_at;
  bool output = false;
  std::size_t expression_begin = 0;
  for (Token token = lexer.Next(); token.kind != TokenKind::kEnd; token = lexer.Next()) {
    if (token.kind == TokenKind::kBlockBegin) return std::nullopt;
    if (token.kind == TokenKind::kOutputBegin) {
      output = true;
      expression_begin = token.end;
    } else if (token.kind == TokenKind::kOutputEnd) {
      if (!rewrite.empty()) rewrite += ' ';
      rewrite += Trim(source.substr(expression_begin, token.offset - expression_begin));
    } else if (token.kind == TokenKind::kText) {
      const std::string_view raw = source.substr(token.offset, token.end - token.offset);
      for (const Word& word : SplitWords(raw, token.offset)) {
        const bool is_operator = IsOperatorWord(word.text);
        if (is_operator && !operator_at) operator_at = word.offset;
        if (!rewrite.empty()) rewrite += ' ';
        rewrite += is_operator ? std::string(word.text) : AsOperand(word.text);
      }
    }
  }
  if (!output || !operator_at) return std::nullopt;
  return CompileError{{"E441", fmt::format("write {{{{ {} }}}}, not {}", rewrite, Trim(source))},
                      *operator_at};
}

}  // namespace

std::expected<Condition, Template::CompileError> Condition::Compile(const Json& source,
                                                                    const Dialect& dialect) {
  Condition condition;
  condition.absent_ = false;
  condition.source_ = source;
  const std::string_view text = source.AsString();
  if (!source.is_string() || Trim(text).empty()) return condition;
  const bool has_braces = Template::LooksLikeTemplate(text);
  auto compiled =
      has_braces ? Template::Compile(text, dialect) : Template::CompileExpression(text, dialect);
  if (!compiled) return std::unexpected(std::move(compiled.error()));
  if (has_braces && !compiled->is_single()) {
    if (auto problem = FindComparisonInText(text)) return std::unexpected(std::move(*problem));
  }
  condition.literal_ = false;
  condition.compiled_ = std::make_shared<const Template>(std::move(*compiled));
  return condition;
}

Result<bool> Condition::Evaluate(const Scope& scope) const {
  if (absent_) return true;
  if (literal_) return Truthy(Value(source_));
  return compiled_->Truth(scope);
}

}  // namespace noetl::expr
