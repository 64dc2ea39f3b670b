// What a scalar's text means, and base64 documents.
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "playbook/yaml_raw.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kCoreTag = "tag:yaml.org,2002:";

bool AllOf(std::string_view text, bool (*test)(char)) {
  if (text.empty()) return false;
  for (char c : text) {
    if (!test(c)) return false;
  }
  return true;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsOctal(char c) { return c >= '0' && c <= '7'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool IsNull(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

int BoolWord(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return 1;
  if (text == "false" || text == "False" || text == "FALSE") return 0;
  return -1;
}

double ToDouble(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return 0;
  return value;
}

bool ParseInteger(std::string_view text, TypedScalar* out) {
  std::string_view digits = text;
  int base = 10;
  bool negative = false;
  if (digits.starts_with("0x") && AllOf(digits.substr(2), IsHex)) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.starts_with("0o") && AllOf(digits.substr(2), IsOctal)) {
    base = 8;
    digits.remove_prefix(2);
  } else {
    if (digits.starts_with('-') || digits.starts_with('+')) {
      negative = digits.front() == '-';
      digits.remove_prefix(1);
    }
    if (!AllOf(digits, IsDigit)) return false;
  }
  const std::string signed_digits = (negative ? "-" : "") + std::string(digits);
  std::int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  if (std::from_chars(signed_digits.data(), end, value, base).ec == std::errc()) {
    out->value = Json(value);
    return true;
  }
  out->overflow = true;
  double wide = 0;
  if (base == 10) {
    wide = ToDouble(signed_digits);
  } else {
    for (char c : digits) {
      wide = wide * base + (IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
  }
  // Beyond the doubles a number cannot be kept as one: the text stays.
  out->value = std::isfinite(wide) && wide != 0 ? Json(wide) : Json(text);
  return true;
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool IsFloat(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t from = i;
    while (i < text.size() && IsDigit(text[i])) ++i;
    return i - from;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  const std::size_t whole = digits();
  std::size_t fraction = 0;
  if (i < text.size() && text[i] == '.') {
    ++i;
    fraction = digits();
  }
  if (whole + fraction == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

bool ParseFloat(std::string_view text, TypedScalar* out) {
  if (!IsFloat(text)) return false;
  double value = 0;
  std::string_view unsigned_text = text.starts_with('+') ? text.substr(1) : text;
  const auto [end, error] =
      std::from_chars(unsigned_text.data(), unsigned_text.data() + unsigned_text.size(), value);
  out->value = error == std::errc() && std::isfinite(value) ? Json(value) : Json(text);
  return true;
}

// ".inf" and ".nan" stay text: JSON, and so every event, has no such numbers.
TypedScalar TypePlain(std::string_view text) {
  TypedScalar typed;
  if (IsNull(text)) return typed;
  if (const int word = BoolWord(text); word >= 0) {
    typed.value = Json(word == 1);
    return typed;
  }
  if (ParseInteger(text, &typed) || ParseFloat(text, &typed)) return typed;
  typed.value = Json(text);
  return typed;
}

}  // namespace

TypedScalar TypeScalar(std::string_view text, std::string_view tag, bool plain) {
  if (tag.empty() || tag == "?") return plain ? TypePlain(text) : TypedScalar{Json(text)};
  if (tag == "!") return {Json(text)};
  TypedScalar typed;
  if (!tag.starts_with(kCoreTag)) {
    typed.ok = false;
    return typed;
  }
  const std::string_view name = tag.substr(kCoreTag.size());
  if (name == "str" || name == "timestamp") return {Json(text)};
  typed = TypePlain(text);
  if (name == "float" && typed.value.is_int()) typed.value = Json(typed.value.AsDouble());
  const bool fits =
      (name == "int" && typed.value.is_integer()) || (name == "float" && typed.value.is_double()) ||
      (name == "bool" && typed.value.is_bool()) || (name == "null" && typed.value.is_null());
  typed.ok = fits;
  return typed;
}

bool DecodeBase64Document(std::string_view text, std::string* decoded) {
  text = Trim(text);
  if (text.empty() || text.size() % 4 != 0) return false;
  const auto value = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (IsDigit(c)) return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
  };
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  unsigned bits = 0;
  int count = 0;
  for (char c : text.substr(0, text.size() - padding)) {
    const int sextet = value(c);
    if (sextet < 0) return false;
    bits = bits << 6 | static_cast<unsigned>(sextet);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFF);
  }
  if ((bits & ((1u << count) - 1)) != 0) return false;
  if (FirstInvalidUtf8(out)) return false;
  *decoded = std::move(out);
  return true;
}

}  // namespace noetl::playbook
