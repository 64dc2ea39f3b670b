#include "base/json_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

#include "base/check.h"

namespace noetl {

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A literal that the grammar has accepted, in its parts.
struct Literal {
  bool negative = false;
  std::string_view integer;
  std::string_view fraction;
  std::string_view exponent;  // with its sign
  bool is_integer = false;
};

Literal Split(std::string_view text) {
  Literal parts;
  if (text.front() == '-') {
    parts.negative = true;
    text.remove_prefix(1);
  }
  std::size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  parts.integer = text.substr(0, end);
  parts.is_integer = end == text.size();
  text.remove_prefix(end);
  if (!text.empty() && text.front() == '.') {
    end = 1;
    while (end < text.size() && IsDigit(text[end])) ++end;
    parts.fraction = text.substr(1, end - 1);
    text.remove_prefix(end);
  }
  if (!text.empty()) parts.exponent = text.substr(1);
  return parts;
}

// The explicit exponent, saturated to 32 bits.
std::int64_t ExponentOf(std::string_view text) {
  if (text.empty()) return 0;
  const bool negative = text.front() == '-';
  if (text.front() == '-' || text.front() == '+') text.remove_prefix(1);
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  std::int64_t value = 0;
  for (const char c : text) value = std::min(value * 10 + (c - '0'), kLimit);
  return negative ? -value : value;
}

// Powers of ten, each correctly rounded, 10^0 to 10^308.
const std::array<double, 309>& PowersOfTen() {
  static const std::array<double, 309> table = [] {
    std::array<double, 309> powers{};
    for (std::size_t i = 0; i < powers.size(); ++i) {
      char text[8] = {'1', 'e'};
      char* end = std::to_chars(text + 2, text + sizeof(text), i).ptr;
      std::from_chars(text, end, powers[i]);
    }
    return powers;
  }();
  return table;
}

// Appends a decimal digit unless the significand would leave 64 bits.
bool Push(std::uint64_t& significand, char digit) {
  const auto add = static_cast<std::uint64_t>(digit - '0');
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  if (significand > (kMax - add) / 10) return false;
  significand = significand * 10 + add;
  return true;
}

// The historical conversion: one rounding of the significand, one of the power.
std::optional<double> StrictDouble(const Literal& parts) {
  std::uint64_t significand = 0;
  std::int64_t exponent = 0;
  bool full = false;
  for (const char c : parts.integer) {
    if (full || !Push(significand, c)) {
      full = true;
      ++exponent;
    }
  }
  for (const char c : parts.fraction) {
    if (!Push(significand, c)) break;
    --exponent;
  }
  exponent = std::clamp<std::int64_t>(exponent + ExponentOf(parts.exponent),
                                      std::numeric_limits<std::int32_t>::min(),
                                      std::numeric_limits<std::int32_t>::max());
  const auto& powers = PowersOfTen();
  auto value = static_cast<double>(significand);
  while (exponent < -308 && value != 0) {
    value /= 1e308;
    exponent += 308;
  }
  if (value != 0) {
    if (exponent > 308) return std::nullopt;
    if (exponent >= 0) value *= powers[static_cast<std::size_t>(exponent)];
    else value /= powers[static_cast<std::size_t>(-exponent)];
  }
  if (std::isinf(value)) return std::nullopt;
  return parts.negative ? -value : value;
}

// Whether the magnitude is at least one: tells overflow from underflow.
bool IsLarge(const Literal& parts) {
  const std::int64_t exponent = ExponentOf(parts.exponent);
  if (parts.integer != "0") return static_cast<std::int64_t>(parts.integer.size()) + exponent > 0;
  const std::size_t zeros = parts.fraction.find_first_not_of('0');
  if (zeros == std::string_view::npos) return false;
  return exponent > static_cast<std::int64_t>(zeros);
}

std::optional<double> NearestDouble(std::string_view literal, const Literal& parts) {
  double value = 0;
  const auto result = std::from_chars(literal.data(), literal.data() + literal.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    if (IsLarge(parts)) return std::nullopt;
    return parts.negative ? -0.0 : 0.0;
  }
  NOETL_CHECK(result.ec == std::errc() && result.ptr == literal.data() + literal.size(),
              "the grammar accepts what from_chars does not");
  if (std::isinf(value)) return std::nullopt;
  return value;
}

// An integer that fits 64 bits, or nothing.
std::optional<Json> MachineInteger(std::string_view literal, bool negative) {
  const char* end = literal.data() + literal.size();
  if (negative) {
    std::int64_t value = 0;
    if (std::from_chars(literal.data(), end, value).ec == std::errc()) return Json(value);
  } else {
    std::uint64_t value = 0;
    if (std::from_chars(literal.data(), end, value).ec == std::errc()) return Json(value);
  }
  return std::nullopt;
}

char* Copy(char* out, const char* from, int count) {
  std::memcpy(out, from, static_cast<std::size_t>(count));
  return out + count;
}

char* Zeros(char* out, int count) {
  std::memset(out, '0', static_cast<std::size_t>(count));
  return out + count;
}

// digits d1..dn with the value d1.d2..dn x 10^exponent, without an exponent part.
char* Positional(char* out, const char* digits, int count, int exponent) {
  if (exponent < 0) {
    out = Zeros(out, 1);
    *out++ = '.';
    return Copy(Zeros(out, -exponent - 1), digits, count);
  }
  const int whole = exponent + 1;
  if (count <= whole) {
    out = Zeros(Copy(out, digits, count), whole - count);
    *out++ = '.';
    return Zeros(out, 1);
  }
  out = Copy(out, digits, whole);
  *out++ = '.';
  return Copy(out, digits + whole, count - whole);
}

char* Scientific(char* out, const char* digits, int count, int exponent, bool two_digits) {
  *out++ = digits[0];
  if (count > 1) {
    *out++ = '.';
    out = Copy(out, digits + 1, count - 1);
  }
  *out++ = 'e';
  *out++ = exponent < 0 ? '-' : '+';
  const int magnitude = std::abs(exponent);
  if (two_digits && magnitude < 10) *out++ = '0';
  return std::to_chars(out, out + 4, magnitude).ptr;
}

}  // namespace

std::size_t NumberLength(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? text[i] : '\0'; };
  std::size_t i = at(0) == '-' ? 1 : 0;
  if (!IsDigit(at(i))) return 0;
  if (at(i) == '0') ++i;
  else
    while (IsDigit(at(i))) ++i;
  if (at(i) == '.') {
    if (!IsDigit(at(i + 1))) return 0;
    ++i;
    while (IsDigit(at(i))) ++i;
  }
  if (at(i) == 'e' || at(i) == 'E') {
    std::size_t k = i + 1;
    if (at(k) == '+' || at(k) == '-') ++k;
    if (!IsDigit(at(k))) return 0;
    while (IsDigit(at(k))) ++k;
    i = k;
  }
  return i;
}

ParsedNumber ParseNumber(std::string_view literal, JsonNumbers numbers) {
  const std::size_t length = NumberLength(literal);
  if (length == 0 || length != literal.size()) return {Json(), NumberError::kSyntax};
  const Literal parts = Split(literal);
  if (parts.is_integer) {
    if (literal == "-0") return {numbers == JsonNumbers::kFlat ? Json(0) : Json(-0.0)};
    if (auto integer = MachineInteger(literal, parts.negative)) return {std::move(*integer)};
    if (numbers == JsonNumbers::kFlat) return {Json::BigInt(literal)};
  }
  const std::optional<double> value =
      numbers == JsonNumbers::kTypedStrict ? StrictDouble(parts) : NearestDouble(literal, parts);
  if (!value) return {Json(), NumberError::kOverflow};
  return {Json(*value)};
}

std::string_view FormatDouble(double value, DoubleForm form, DoubleBuffer& buffer) {
  NOETL_CHECK(std::isfinite(value), "only finite doubles have digits");
  char* out = buffer.data();
  if (std::signbit(value) && !(form == DoubleForm::kStored && value == 0)) *out++ = '-';
  value = std::fabs(value);

  // "d.ddde+XX" with the fewest digits that read back as the same value.
  char text[32];
  const char* end =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr;
  char digits[20];
  int count = 0;
  const char* p = text;
  for (; *p != 'e'; ++p) {
    if (*p != '.') digits[count++] = *p;
  }
  ++p;
  const bool exponent_negative = *p++ == '-';
  int exponent = 0;
  std::from_chars(p, end, exponent);
  if (exponent_negative) exponent = -exponent;

  const int lowest = form == DoubleForm::kTyped ? -5 : -4;
  if (form == DoubleForm::kStored || value == 0 || (exponent >= lowest && exponent <= 15)) {
    out = Positional(out, digits, count, exponent);
  } else {
    out = Scientific(out, digits, count, exponent, form == DoubleForm::kFlat);
  }
  return {buffer.data(), static_cast<std::size_t>(out - buffer.data())};
}

}  // namespace noetl
