// Template source to tokens, one at a time.
//
// Outside of delimiters the lexer gives text with white space control, comments and raw blocks
// already applied; inside it gives the tokens of expressions. Braces and brackets are balanced, so
// `}}` ends an expression only where it cannot close a map literal. Tokens point into the source.
// One lexer per compilation, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace noetl::expr {

enum class TokenKind : std::uint8_t {
  kEnd,
  kText,
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kNumber,
  kOperator
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::uint32_t offset = 0;
  std::uint32_t end = 0;
  std::string_view text;  // as written; for kText what is left after white space control
  Json value;             // of kString and kNumber

  bool Is(TokenKind expected, std::string_view expected_text) const {
    return kind == expected && text == expected_text;
  }
  bool IsOperator(std::string_view expected) const { return Is(TokenKind::kOperator, expected); }
  bool IsName(std::string_view expected) const { return Is(TokenKind::kName, expected); }
};

// What is wrong with a source, and where.
struct SyntaxError {
  Error error;
  std::size_t offset = 0;
};

class Lexer {
 public:
  enum class Mode { kTemplate, kExpression };
  Lexer(std::string_view source, Mode mode) : source_(source), inside_(mode == Mode::kExpression) {
    if (mode == Mode::kExpression) bare_ = true;
  }

  // The next token. After an error every call gives kEnd and `failed()` holds.
  Token Next();
  bool failed() const { return failed_; }
  const SyntaxError& error() const { return error_; }
  // Comments and raw blocks seen so far: with them a template is not a lone expression.
  bool saw_comment_or_raw() const { return saw_comment_or_raw_; }

 private:
  Token NextOutside();
  Token Text(std::size_t begin, std::size_t end, bool trim_end);
  bool SkipComment(std::size_t open);
  bool Raw(std::size_t open, Token* text);
  std::size_t MatchTag(std::size_t open, std::string_view name, bool* trim_before,
                       bool* trim_after) const;
  Token NextInside();
  bool TryClose(Token* token);
  Token Number();
  Token String(char quote);
  bool Escape(std::string* out);
  bool CodePoint(int digits, std::uint32_t* code);
  Token Operator();
  Token Make(TokenKind kind, std::size_t begin, std::size_t end);
  Token Error(std::string_view message, std::size_t offset);

  std::string_view source_;
  std::size_t at_ = 0;
  bool inside_ = false;
  bool in_block_ = false;
  bool bare_ = false;  // a whole source that is one expression
  bool trim_next_ = false;
  int nesting_ = 0;
  bool saw_comment_or_raw_ = false;
  bool failed_ = false;
  SyntaxError error_;
};

// " at col 7", or " at line 3 col 7" below the first line.
std::string Where(std::string_view source, std::size_t offset);

// Whether a string holds `{{ ... }}` or `{% ... %}` at all.
bool HasDelimiters(std::string_view source);

}  // namespace noetl::expr
