#include "base/json_syntax.h"

#include <fmt/format.h>

#include "base/json_number.h"
#include "base/text.h"

namespace noetl {

namespace {

void AppendUtf8(std::string& out, std::uint32_t point) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | ((point >> shift) & 0x3f)));
  };
  if (point < 0x80) {
    out.push_back(static_cast<char>(point));
  } else if (point < 0x800) {
    out.push_back(static_cast<char>(0xc0 | (point >> 6)));
    tail(0);
  } else if (point < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | (point >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xf0 | (point >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

// The four hexadecimal digits at `at`.
std::optional<std::uint32_t> Hex4(std::string_view raw, std::size_t at) {
  if (at + 4 > raw.size()) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : raw.substr(at, 4)) {
    std::uint32_t digit = 0;
    if (c >= '0' && c <= '9') digit = static_cast<std::uint32_t>(c - '0');
    else if (c >= 'a' && c <= 'f') digit = static_cast<std::uint32_t>(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F') digit = static_cast<std::uint32_t>(c - 'A' + 10);
    else return std::nullopt;
    value = value * 16 + digit;
  }
  return value;
}

// Reads "\uXXXX" at `at`, with its second half when it is a pair. Returns its length, 0 when bad.
std::size_t UnescapeUnicode(std::string_view raw, std::size_t at, std::string& out) {
  const auto first = Hex4(raw, at + 2);
  if (!first || (*first >= 0xdc00 && *first <= 0xdfff)) return 0;
  if (*first < 0xd800 || *first > 0xdbff) {
    AppendUtf8(out, *first);
    return 6;
  }
  if (raw.substr(at + 6, 2) != "\\u") return 0;
  const auto second = Hex4(raw, at + 8);
  if (!second || *second < 0xdc00 || *second > 0xdfff) return 0;
  AppendUtf8(out, 0x10000 + ((*first - 0xd800) << 10) + (*second - 0xdc00));
  return 12;
}

// What a one-letter escape stands for; nothing for other letters.
std::optional<char> SimpleEscape(char letter) {
  switch (letter) {
    case '"':
    case '\\':
    case '/': return letter;
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return std::nullopt;
  }
}

// Reads a document as its grammar says and stops at the first fault.
class Explainer {
 public:
  Explainer(std::string_view text, JsonNumbers numbers) : text_(text), numbers_(numbers) {}

  std::optional<Error> Run() {
    if (const auto bad = FirstInvalidUtf8(text_)) {
      return Fault(*bad, "the text is not valid UTF-8");
    }
    Blanks();
    if (Value(0)) {
      Blanks();
      if (at_ < text_.size()) Expected("the end of the document");
    }
    return std::move(error_);
  }

 private:
  Error Fault(std::size_t at, std::string_view what, std::string_view code = "json_syntax") const {
    std::size_t line = 1, line_start = 0;
    for (std::size_t i = 0; i < at; ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      line_start = i + 1;
    }
    // The column counts characters, the way editors do; the bytes before it are valid.
    const std::size_t column = CodePoints(text_.substr(line_start, at - line_start)) + 1;
    return {std::string(code), fmt::format("line {}:{}: {}", line, column, what)};
  }

  bool Stop(std::size_t at, std::string_view what) {
    error_ = Fault(at, what);
    return false;
  }

  bool Expected(std::string_view what) {
    if (at_ >= text_.size()) return Stop(at_, fmt::format("expected {}, found the end", what));
    std::size_t length = 1;
    while (at_ + length < text_.size() && (text_[at_ + length] & 0xc0) == 0x80) ++length;
    const auto byte = static_cast<unsigned char>(text_[at_]);
    const std::string found = byte < 0x20 || byte == 0x7f
                                  ? fmt::format("byte 0x{:02x}", byte)
                                  : fmt::format("'{}'", text_.substr(at_, length));
    return Stop(at_, fmt::format("expected {}, found {}", what, found));
  }

  void Blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").contains(text_[at_])) ++at_;
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool Value(std::size_t depth) {
    const char c = Peek();
    if (c == '{' || c == '[') {
      if (depth >= kJsonDepthMax) {
        error_ =
            Fault(at_, fmt::format("nested deeper than {} levels", kJsonDepthMax), "json_depth");
        return false;
      }
      return c == '{' ? Object(depth + 1) : Array(depth + 1);
    }
    if (c == '"') return String();
    if (c == '-' || (c >= '0' && c <= '9')) return Number();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    }
    return Expected("a value");
  }

  bool Array(std::size_t depth) {
    ++at_;
    Blanks();
    if (Peek() == ']') return ++at_, true;
    while (true) {
      if (!Value(depth)) return false;
      Blanks();
      if (Peek() == ']') return ++at_, true;
      if (Peek() != ',') return Expected("',' or ']'");
      ++at_;
      Blanks();
    }
  }

  bool Object(std::size_t depth) {
    ++at_;
    Blanks();
    if (Peek() == '}') return ++at_, true;
    while (true) {
      if (Peek() != '"') return Expected("a key in double quotes");
      if (!String()) return false;
      Blanks();
      if (Peek() != ':') return Expected("':'");
      ++at_;
      Blanks();
      if (!Value(depth)) return false;
      Blanks();
      if (Peek() == '}') return ++at_, true;
      if (Peek() != ',') return Expected("',' or '}'");
      ++at_;
      Blanks();
    }
  }

  bool String() {
    const std::size_t start = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return Stop(start, "the string that starts here is not closed");
    std::string unescaped;
    const auto bad = UnescapeJson(text_.substr(start + 1, at_ - start - 1), unescaped);
    if (bad) {
      const std::size_t place = start + 1 + *bad;
      return Stop(place, text_[place] == '\\'
                             ? "bad escape in a string (or half of a surrogate pair)"
                             : "control character in a string, write it escaped");
    }
    ++at_;
    return true;
  }

  bool Number() {
    const std::size_t length = NumberLength(text_.substr(at_));
    if (length == 0) return Stop(at_, "bad number");
    const ParsedNumber parsed = ParseNumber(text_.substr(at_, length), numbers_);
    if (parsed.error != NumberError::kNone) return Stop(at_, "the number is too large");
    at_ += length;
    return true;
  }

  std::string_view text_;
  JsonNumbers numbers_;
  std::size_t at_ = 0;
  std::optional<Error> error_;
};

}  // namespace

std::optional<std::size_t> UnescapeJson(std::string_view raw, std::string& out) {
  for (std::size_t at = 0; at < raw.size();) {
    if (static_cast<unsigned char>(raw[at]) < 0x20) return at;
    if (raw[at] != '\\') {
      out.push_back(raw[at++]);
      continue;
    }
    const char letter = at + 1 < raw.size() ? raw[at + 1] : '\0';
    if (letter == 'u') {
      const std::size_t length = UnescapeUnicode(raw, at, out);
      if (length == 0) return at;
      at += length;
    } else if (const auto simple = SimpleEscape(letter)) {
      out.push_back(*simple);
      at += 2;
    } else {
      return at;
    }
  }
  return std::nullopt;
}

std::optional<Error> ExplainJsonError(std::string_view text, JsonNumbers numbers) {
  return Explainer(text, numbers).Run();
}

}  // namespace noetl
