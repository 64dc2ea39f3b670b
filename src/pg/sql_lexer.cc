#include "pg/sql_lexer.h"

#include <algorithm>

namespace noetl::pg {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
// Bytes above 0x7f are letters to the server.
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsWordPart(char c) { return IsLetter(c) || IsDigit(c) || c == '$'; }
bool IsNumberPart(char c) { return IsLetter(c) || IsDigit(c) || c == '.'; }

}  // namespace

std::optional<Token> SqlLexer::Next() {
  if (at_ >= sql_.size()) return std::nullopt;
  const std::size_t start = at_;
  const TokenKind kind = Scan();
  return Token{kind, sql_.substr(start, at_ - start)};
}

TokenKind SqlLexer::Scan() {
  const char c = Peek();
  if (IsSpace(c)) {
    While(IsSpace);
    return TokenKind::kSpace;
  }
  if (c == '-' && Peek(1) == '-') {
    While([](char next) { return next != '\n'; });
    return TokenKind::kComment;
  }
  if (c == '/' && Peek(1) == '*') {
    BlockComment();
    return TokenKind::kComment;
  }
  if (c == '\'' || c == '"') {
    Quoted(c, false);
    return c == '"' ? TokenKind::kIdentifier : TokenKind::kString;
  }
  if ((c == 'e' || c == 'E') && Peek(1) == '\'') {
    ++at_;
    Quoted('\'', true);
    return TokenKind::kString;
  }
  if (c == '$' && IsDigit(Peek(1))) {
    ++at_;
    While(IsDigit);
    return TokenKind::kParameter;
  }
  if (c == '$' && Dollar()) return TokenKind::kString;
  if (IsLetter(c)) {
    While(IsWordPart);
    return TokenKind::kWord;
  }
  if (IsDigit(c)) {
    While(IsNumberPart);
    return TokenKind::kNumber;
  }
  ++at_;
  return TokenKind::kSymbol;
}

// From the opening quote past the closing one; a doubled quote is one inside.
void SqlLexer::Quoted(char quote, bool backslashes) {
  ++at_;
  while (at_ < sql_.size()) {
    const char c = sql_[at_++];
    if (backslashes && c == '\\' && at_ < sql_.size()) ++at_;
    if (c != quote) continue;
    if (Peek() != quote || at_ >= sql_.size()) return;
    ++at_;
  }
}

// $tag$ ... $tag$. False, and nothing read, when there is no opening tag here.
bool SqlLexer::Dollar() {
  std::size_t end = at_ + 1;
  while (end < sql_.size() && (IsLetter(sql_[end]) || IsDigit(sql_[end]))) ++end;
  if (end >= sql_.size() || sql_[end] != '$') return false;
  const std::string_view tag = sql_.substr(at_, end + 1 - at_);
  const std::size_t close = sql_.find(tag, end + 1);
  at_ = close == std::string_view::npos ? sql_.size() : close + tag.size();
  return true;
}

void SqlLexer::BlockComment() {
  int depth = 0;
  while (at_ < sql_.size()) {
    if (Peek() == '/' && Peek(1) == '*') {
      ++depth;
      at_ += 2;
    } else if (Peek() == '*' && Peek(1) == '/') {
      at_ += 2;
      if (--depth == 0) return;
    } else {
      ++at_;
    }
  }
  at_ = std::min(at_, sql_.size());
}

}  // namespace noetl::pg
