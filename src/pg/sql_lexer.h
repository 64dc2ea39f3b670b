// Cuts SQL text into tokens, as far as one must know where quotes, identifiers and comments end.
//
// Nothing is lost: the texts of all tokens together are the input. What the server would refuse (a
// quote that never ends) is one token up to the end of the text. Belongs to no thread; the tokens
// point into the input.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace noetl::pg {

enum class TokenKind : std::uint8_t {
  kSpace,
  kComment,     // -- to the end of the line, or /* */ with others inside
  kWord,        // key word or identifier without quotes
  kIdentifier,  // "..."
  kString,      // '...', E'...', $tag$...$tag$
  kParameter,   // $1
  kNumber,
  kSymbol,  // any other single byte
};

struct Token {
  TokenKind kind = TokenKind::kSymbol;
  std::string_view text;

  bool Is(char symbol) const { return kind == TokenKind::kSymbol && text.front() == symbol; }
};

class SqlLexer {
 public:
  explicit SqlLexer(std::string_view sql) : sql_(sql) {}
  // nullopt at the end.
  std::optional<Token> Next();

 private:
  TokenKind Scan();
  void Quoted(char quote, bool backslashes);
  bool Dollar();
  void BlockComment();
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < sql_.size() ? sql_[at_ + ahead] : '\0';
  }
  template <typename Accept>
  void While(Accept accept) {
    while (at_ < sql_.size() && accept(sql_[at_])) ++at_;
  }

  std::string_view sql_;
  std::size_t at_ = 0;
};

}  // namespace noetl::pg
