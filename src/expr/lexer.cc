#include "expr/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/utf8.h"

namespace noetl::expr {

namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";

bool IsSpace(char c) { return kSpace.find(c) != std::string_view::npos; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 26> kOperators = {
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
    ">",  "=",  ".",  ",",  ":",  "|",  "(", ")", "[", "]", "{", "}", ";"};

// What people write out of habit from other languages, and what to write here.
struct Habit {
  std::string_view text;
  std::string_view advice;
};
constexpr Habit kHabits[] = {{"&&", "write 'and'"},
                             {"||", "write 'or'"},
                             {"!", "write 'not'"},
                             {"?", "write 'a if condition else b'"}};

bool ParseDigits(std::string_view text, int base, Json* value) {
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  std::uint64_t number = 0;
  const auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (code == std::errc() && end == digits.data() + digits.size() && !digits.empty()) {
    *value = Json(number);
    return true;
  }
  if (base != 10 || code != std::errc::result_out_of_range) return false;
  double wide = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), wide);
  if (parsed.ec != std::errc() || !std::isfinite(wide)) return false;
  *value = Json(wide);
  return true;
}

}  // namespace

std::string Where(std::string_view source, std::size_t offset) {
  offset = std::min(offset, source.size());
  std::size_t line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < offset; ++i) {
    if (source[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  std::size_t column = 1;
  for (std::size_t i = line_start; i < offset; i += CodePointLength(source, i)) ++column;
  return line == 1 ? fmt::format(" at col {}", column)
                   : fmt::format(" at line {} col {}", line, column);
}

bool HasDelimiters(std::string_view source) {
  for (const auto& [open, close] : {std::pair("{{", "}}"), std::pair("{%", "%}")}) {
    const std::size_t begin = source.find(open);
    if (begin == std::string_view::npos) continue;
    if (source.find(close, begin + 2) != std::string_view::npos) return true;
  }
  return false;
}

Token Lexer::Make(TokenKind kind, std::size_t begin, std::size_t end) {
  Token token;
  token.kind = kind;
  token.offset = static_cast<std::uint32_t>(begin);
  token.end = static_cast<std::uint32_t>(end);
  token.text = source_.substr(begin, end - begin);
  return token;
}

Token Lexer::Error(std::string_view message, std::size_t offset) {
  if (!failed_) {
    failed_ = true;
    error_ = {{"E404", std::string(message) + Where(source_, offset)}, offset};
  }
  at_ = source_.size();
  return Make(TokenKind::kEnd, at_, at_);
}

Token Lexer::Next() {
  if (failed_) return Make(TokenKind::kEnd, source_.size(), source_.size());
  return inside_ ? NextInside() : NextOutside();
}

Token Lexer::Text(std::size_t begin, std::size_t end, bool trim_end) {
  const std::size_t token_begin = begin;
  const std::size_t token_end = end;
  if (trim_next_) {
    while (begin < end && IsSpace(source_[begin])) ++begin;
  }
  if (trim_end) {
    while (end > begin && IsSpace(source_[end - 1])) --end;
  }
  trim_next_ = false;
  Token token = Make(TokenKind::kText, token_begin, token_end);
  token.text = source_.substr(begin, end - begin);
  return token;
}

Token Lexer::NextOutside() {
  while (true) {
    std::size_t open = at_;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= source_.size()) {
        open = source_.size();
        break;
      }
      const char kind = source_[open + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
    }
    if (open > at_) {
      const bool trim_end = open + 2 < source_.size() && source_[open + 2] == '-';
      const std::size_t begin = at_;
      at_ = open;
      Token text = Text(begin, open, trim_end);
      if (!text.text.empty()) return text;
      continue;
    }
    if (open == source_.size()) return Make(TokenKind::kEnd, open, open);
    if (source_[open + 1] == '#') {
      if (!SkipComment(open)) return Make(TokenKind::kEnd, at_, at_);
      continue;
    }
    Token raw;
    if (source_[open + 1] == '%' && Raw(open, &raw)) {
      if (failed_ || !raw.text.empty()) return raw;
      continue;
    }
    in_block_ = source_[open + 1] == '%';
    inside_ = true;
    nesting_ = 0;
    trim_next_ = false;
    at_ = open + 2;
    if (at_ < source_.size() && (source_[at_] == '-' || (in_block_ && source_[at_] == '+'))) ++at_;
    return Make(in_block_ ? TokenKind::kBlockBegin : TokenKind::kOutputBegin, open, at_);
  }
}

bool Lexer::SkipComment(std::size_t open) {
  saw_comment_or_raw_ = true;
  const std::size_t close = source_.find("#}", open + 2);
  if (close == std::string_view::npos) {
    Error("missing '#}' of the comment", open);
    return false;
  }
  trim_next_ = close > open + 2 && source_[close - 1] == '-';
  at_ = close + 2;
  return true;
}

// The end of `{% name %}` at `open`, or npos when that is not what is there.
std::size_t Lexer::MatchTag(std::size_t open, std::string_view name, bool* trim_before,
                            bool* trim_after) const {
  std::size_t at = open + 2;
  const auto skip_space = [&] {
    while (at < source_.size() && IsSpace(source_[at])) ++at;
  };
  const auto sign = [&] {
    if (at >= source_.size() || (source_[at] != '-' && source_[at] != '+')) return false;
    return source_[at++] == '-';
  };
  *trim_before = sign();
  skip_space();
  if (source_.substr(at, name.size()) != name) return std::string_view::npos;
  at += name.size();
  skip_space();
  *trim_after = sign();
  return source_.substr(at, 2) == "%}" ? at + 2 : std::string_view::npos;
}

bool Lexer::Raw(std::size_t open, Token* text) {
  bool trim_before = false;
  bool trim_start = false;
  const std::size_t begin = MatchTag(open, "raw", &trim_before, &trim_start);
  if (begin == std::string_view::npos) return false;
  saw_comment_or_raw_ = true;
  for (std::size_t end = source_.find("{%", begin); end != std::string_view::npos;
       end = source_.find("{%", end + 2)) {
    bool trim_end = false;
    bool trim_after = false;
    const std::size_t after = MatchTag(end, "endraw", &trim_end, &trim_after);
    if (after == std::string_view::npos) continue;
    trim_next_ = trim_start;
    *text = Text(begin, end, trim_end);
    trim_next_ = trim_after;
    at_ = after;
    return true;
  }
  *text = Error("missing '{% endraw %}'", open);
  return true;
}

bool Lexer::TryClose(Token* token) {
  if (bare_ || nesting_ > 0) return false;
  const std::string_view close = in_block_ ? "%}" : "}}";
  std::size_t at = at_;
  const bool sign = source_[at] == '-' || (in_block_ && source_[at] == '+');
  if (sign) ++at;
  if (source_.substr(at, 2) != close) return false;
  trim_next_ = sign && source_[at_] == '-';
  *token = Make(in_block_ ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, at_, at + 2);
  at_ = at + 2;
  inside_ = false;
  return true;
}

Token Lexer::NextInside() {
  while (at_ < source_.size() && IsSpace(source_[at_])) ++at_;
  if (at_ >= source_.size()) {
    if (bare_) return Make(TokenKind::kEnd, at_, at_);
    return Error(in_block_ ? "missing '%}'" : "missing '}}'", at_);
  }
  Token token;
  if (TryClose(&token)) return token;
  const char c = source_[at_];
  if (IsNameStart(c)) {
    const std::size_t begin = at_;
    while (at_ < source_.size() && IsNamePart(source_[at_])) ++at_;
    return Make(TokenKind::kName, begin, at_);
  }
  if (IsDigit(c)) return Number();
  if (c == '\'' || c == '"' || c == '`') return String(c);
  return Operator();
}

Token Lexer::Number() {
  const std::size_t begin = at_;
  const auto digits = [&] {
    while (at_ < source_.size() && (IsDigit(source_[at_]) || source_[at_] == '_')) ++at_;
  };
  const char mark = at_ + 1 < source_.size() && source_[at_] == '0' ? source_[at_ + 1] : ' ';
  const int base = mark == 'x' || mark == 'X'   ? 16
                   : mark == 'o' || mark == 'O' ? 8
                   : mark == 'b' || mark == 'B' ? 2
                                                : 10;
  bool fraction = false;
  if (base != 10) {
    at_ += 2;
    while (at_ < source_.size() && IsNamePart(source_[at_])) ++at_;
  } else {
    digits();
    if (at_ + 1 < source_.size() && source_[at_] == '.' && IsDigit(source_[at_ + 1])) {
      fraction = true;
      ++at_;
      digits();
    }
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      std::size_t exponent = at_ + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
        ++exponent;
      }
      if (exponent < source_.size() && IsDigit(source_[exponent])) {
        fraction = true;
        at_ = exponent;
        digits();
      }
    }
  }
  Token token = Make(TokenKind::kNumber, begin, at_);
  bool good = at_ >= source_.size() || !IsNameStart(source_[at_]);
  if (good && !fraction) {
    good = ParseDigits(base == 10 ? token.text : token.text.substr(2), base, &token.value);
  } else if (good) {
    std::string plain;
    for (const char c : token.text) {
      if (c != '_') plain += c;
    }
    double number = 0;
    const auto [end, code] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
    good = code == std::errc() && end == plain.data() + plain.size() && std::isfinite(number);
    token.value = Json(number);
  }
  if (!good) return Error("malformed number", begin);
  return token;
}

bool Lexer::CodePoint(int digits, std::uint32_t* code) {
  *code = 0;
  if (at_ + static_cast<std::size_t>(digits) > source_.size()) return false;
  const char* begin = source_.data() + at_;
  const auto [end, error] = std::from_chars(begin, begin + digits, *code, 16);
  if (error != std::errc() || end != begin + digits) return false;
  at_ += static_cast<std::size_t>(digits);
  return true;
}

// One escape; `at_` is behind the backslash.
bool Lexer::Escape(std::string* out) {
  static constexpr std::pair<char, char> kSimple[] = {
      {'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}, {'\'', '\''}, {'"', '"'},
      {'b', '\b'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'},  {'/', '/'}};
  const char kind = source_[at_++];
  for (const auto& [name, meaning] : kSimple) {
    if (kind == name) {
      *out += meaning;
      return true;
    }
  }
  if (kind == '\n') return true;
  const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0) {
    *out += '\\';
    *out += kind;
    return true;
  }
  std::uint32_t code = 0;
  if (!CodePoint(digits, &code)) return false;
  if (code >= 0xD800 && code < 0xDC00 && source_.substr(at_, 2) == "\\u") {
    at_ += 2;
    std::uint32_t low = 0;
    if (!CodePoint(4, &low) || low < 0xDC00 || low > 0xDFFF) return false;
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
  AppendCodePoint(*out, code);
  return true;
}

Token Lexer::String(char quote) {
  const std::size_t begin = at_++;
  std::string text;
  while (at_ < source_.size() && source_[at_] != quote) {
    const char c = source_[at_++];
    if (c != '\\' || quote == '`') {
      text += c;
      continue;
    }
    const std::size_t escape = at_ - 1;
    if (at_ >= source_.size()) break;
    if (!Escape(&text)) return Error("malformed escape in a string", escape);
  }
  if (at_ >= source_.size()) return Error("missing end of the string that starts", begin);
  ++at_;
  Token token = Make(TokenKind::kString, begin, at_);
  token.value = Json(text);
  return token;
}

Token Lexer::Operator() {
  const std::string_view rest = source_.substr(at_);
  for (const Habit& habit : kHabits) {
    if (rest.starts_with(habit.text) && !rest.starts_with("!=")) {
      return Error(fmt::format("unexpected '{}' ({})", habit.text, habit.advice), at_);
    }
  }
  for (const std::string_view name : kOperators) {
    if (!rest.starts_with(name)) continue;
    const char c = name[0];
    if (c == '(' || c == '[' || c == '{') ++nesting_;
    if ((c == ')' || c == ']' || c == '}') && nesting_ > 0) --nesting_;
    Token token = Make(TokenKind::kOperator, at_, at_ + name.size());
    at_ += name.size();
    return token;
  }
  const std::string_view what = rest.substr(0, CodePointLength(rest, 0));
  const bool printable = static_cast<unsigned char>(what[0]) >= 0x20 && what[0] != 0x7f;
  return Error(printable ? fmt::format("unexpected '{}'", what)
                         : std::string("unexpected control character"),
               at_);
}

}  // namespace noetl::expr
