// Filters on text. All but a few work on the text form of any value.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/ops.h"
#include "expr/registry.h"
#include "expr/runtime.h"
#include "expr/utf8.h"

namespace noetl::expr {

namespace {

// Widths and precisions in a format text; wider output is no message but an accident.
constexpr int kFormatWidthMax = 1'000;
constexpr std::int64_t kIndentWidthMax = 1'000;

Result<std::string> ArgText(Call& call, std::size_t index, std::string_view fallback) {
  return call.Has(index) ? call.run.Text(call.Arg(index)) : std::string(fallback);
}

Result<std::int64_t> ArgInt(Call& call, std::size_t index, std::int64_t fallback) {
  if (!call.Has(index)) return fallback;
  NOETL_ASSIGN(const Json value, call.Arg(index).Plain());
  if (value.is_null()) return fallback;
  if (!value.is_int()) {
    return Fail("E411", fmt::format("an integer argument is needed, not {}", value.TypeName()));
  }
  return value.AsInt();
}

template <std::string (*Function)(std::string_view)>
Result<Value> MapText(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  return call.run.MadeText(Function(text));
}

Result<Value> String(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  return call.run.MadeText(text);
}

// Replaces up to `count` places (all when negative), never growing past the output bound.
Result<Value> ReplaceText(Runtime& run, std::string_view text, std::string_view from,
                          std::string_view to, std::int64_t count) {
  std::string out;
  std::size_t at = 0;
  while (count != 0) {
    const std::size_t found = from.empty() ? at : text.find(from, at);
    if (found == std::string_view::npos || found > text.size()) break;
    out.append(text, at, found - at);
    out += to;
    at = found + from.size();
    if (from.empty()) {
      // Between all code points, as other template languages do.
      if (at >= text.size()) {
        at = text.size();
        break;
      }
      const std::size_t length = CodePointLength(text, at);
      out.append(text, at, length);
      at += length;
    }
    if (count > 0) --count;
    if (out.size() > kOutputBytesMax) break;
  }
  out.append(text.substr(std::min(at, text.size())));
  return run.MadeText(out);
}

Result<Value> Replace(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  NOETL_ASSIGN(const std::string from, ArgText(call, 0, ""));
  NOETL_ASSIGN(const std::string to, ArgText(call, 1, ""));
  NOETL_ASSIGN(const std::int64_t count, ArgInt(call, 2, -1));
  return ReplaceText(call.run, text, from, to, count);
}

Result<Value> TrimFilter(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  NOETL_ASSIGN(const std::string set, ArgText(call, 0, " \t\r\n\f\v"));
  const auto strips = [&set](std::string_view letter) { return set.find(letter) != set.npos; };
  std::string_view rest = text;
  std::size_t steps = 0;
  while (!rest.empty() && strips(rest.substr(0, CodePointLength(rest, 0)))) {
    rest.remove_prefix(CodePointLength(rest, 0));
    ++steps;
  }
  while (!rest.empty()) {
    std::size_t start = rest.size() - 1;
    while (start > 0 && (static_cast<unsigned char>(rest[start]) & 0xC0u) == 0x80u) --start;
    if (!strips(rest.substr(start))) break;
    rest.remove_suffix(rest.size() - start);
    ++steps;
  }
  NOETL_TRY(call.run.ChargeBytes(steps * std::max<std::size_t>(set.size(), 1)));
  return call.run.MadeText(rest);
}

Result<Value> Length(Call& call) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  if (!value.is_string()) return Value(Json(value.size()));
  NOETL_TRY(call.run.ChargeBytes(value.AsString().size()));
  return Value(Json(CodePoints(value.AsString())));
}

Result<Value> Split(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  NOETL_ASSIGN(const std::string separator, ArgText(call, 0, " "));
  NOETL_ASSIGN(const std::int64_t count, ArgInt(call, 1, -1));
  std::vector<Json> parts;
  if (separator.empty()) {
    NOETL_ASSIGN(const std::vector<std::string_view> letters, call.run.Letters(text));
    parts.assign(letters.begin(), letters.end());
    return call.run.MadeList(std::move(parts));
  }
  std::size_t at = 0;
  while (count < 0 || static_cast<std::int64_t>(parts.size()) < count) {
    const std::size_t found = text.find(separator, at);
    if (found == std::string::npos) break;
    parts.emplace_back(std::string_view(text).substr(at, found - at));
    at = found + separator.size();
  }
  parts.emplace_back(std::string_view(text).substr(at));
  return call.run.MadeList(std::move(parts));
}

Result<Value> Lines(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  std::vector<Json> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return call.run.MadeList(std::move(lines));
}

Result<Value> Join(Call& call) {
  NOETL_ASSIGN(const std::vector<Json> items, Iterate(call.run, call.input));
  NOETL_ASSIGN(const std::string separator, ArgText(call, 0, ""));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) NOETL_TRY(call.run.AppendLiteral(out, separator));
    Value item(items[i]);
    if (call.Has(1)) {
      NOETL_ASSIGN(item, GetItem(call.run, item, call.Arg(1)));
    }
    NOETL_TRY(call.run.AppendText(out, item));
    NOETL_TRY(call.run.Charge(1));
  }
  return call.run.MadeText(out);
}

Result<Value> Escape(Call& call) {
  static constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    std::string_view piece(&c, 1);
    for (const auto& [letter, entity] : kEntities) {
      if (letter == c) piece = entity;
    }
    out += piece;
  }
  return call.run.MadeText(out);
}

void AppendPercent(std::string& out, std::string_view text, bool keep_slash) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || (keep_slash && c == '/');
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
}

Result<Value> UrlEncode(Call& call) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  std::string out;
  const auto pair = [&](std::string_view key, const Json& member) {
    if (!out.empty()) out += '&';
    AppendPercent(out, key, false);
    out += '=';
    AppendPercent(out, TextForm(member), false);
  };
  NOETL_TRY(call.run.CheckWritable(value));
  NOETL_TRY(call.run.Charge(static_cast<std::int64_t>(value.size())));
  for (const JsonMember& member : value.members()) pair(member.key(), member.value);
  for (const Json& item : value.items()) {
    if (item.is_array() && item.size() == 2) pair(TextForm(item.At(0)), item.At(1));
    else return Fail("E411", "urlencode needs text, a map or a list of pairs");
  }
  if (!value.is_container()) AppendPercent(out, TextForm(value), true);
  return call.run.MadeText(out);
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

Result<Value> Base64Encode(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  std::string out;
  out.reserve((text.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < text.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, text.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(text[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += i <= count ? kBase64[bits >> (18 - 6 * i) & 63u] : '=';
    }
  }
  return call.run.MadeText(out);
}

Result<Value> Base64Decode(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  std::size_t digits = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const std::size_t digit = kBase64.find(c);
    if (digit == std::string_view::npos || padding > 0) {
      return Fail("E412", "b64decode: the text is not base64");
    }
    ++digits;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held & 0xFFu);
  }
  if (digits % 4 == 1 || padding > 2 || (padding > 0 && (digits + padding) % 4 != 0)) {
    return Fail("E412", "b64decode: the text is not base64");
  }
  if (FirstInvalidUtf8(out)) return Fail("E412", "b64decode: the content is not UTF-8 text");
  return call.run.MadeText(out);
}

Result<Value> Indent(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  NOETL_ASSIGN(const Json width, call.Arg(0).Plain());
  const bool first = call.Has(1) && OperandTruth(call.Arg(1));
  const bool blank = call.Has(2) && OperandTruth(call.Arg(2));
  std::string prefix(4, ' ');
  if (width.is_string()) prefix = width.ToString();
  else if (width.is_int()) {
    prefix.assign(
        static_cast<std::size_t>(std::clamp<std::int64_t>(width.AsInt(), 0, kIndentWidthMax)), ' ');
  }
  std::string out;
  std::string_view rest = text;
  for (bool first_line = true;; first_line = false) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if ((!first_line || first) && (blank || !line.empty())) out += prefix;
    NOETL_TRY(call.run.AppendLiteral(out, line));
    if (end == rest.size()) break;
    out += '\n';
    rest.remove_prefix(end + 1);
  }
  return call.run.MadeText(out);
}

// One `%` conversion: flags, width, precision and the letter.
struct Conversion {
  bool left = false;
  bool zero = false;
  bool plus = false;
  int width = 0;
  int precision = -1;
  char kind = 's';
};

int ReadNumber(std::string_view text, std::size_t* at) {
  int number = 0;
  while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
    number = std::min(number * 10 + (text[*at] - '0'), kFormatWidthMax);
    ++*at;
  }
  return number;
}

Result<std::string> FormatOne(Runtime& run, const Conversion& conversion, const Value& value) {
  std::string body;
  const bool number =
      std::string_view("dixXofFeEgG").find(conversion.kind) != std::string_view::npos;
  if (number) {
    if (value.is_undefined()) return UndefinedError(value);
    NOETL_ASSIGN(const Json plain, value.Plain());
    if (!plain.is_number()) {
      return Fail("E411", fmt::format("format: %{} needs a number, not {}", conversion.kind,
                                      plain.TypeName()));
    }
    const double wide = plain.AsDouble();
    const bool whole = std::string_view("dixXo").find(conversion.kind) != std::string_view::npos;
    const std::int64_t cut = plain.is_int()           ? plain.AsInt()
                             : std::fabs(wide) < 9e18 ? static_cast<std::int64_t>(wide)
                                                      : 0;
    const int precision = std::min(conversion.precision < 0 ? 6 : conversion.precision, 100);
    switch (conversion.kind) {
      case 'x': body = fmt::format("{:x}", cut); break;
      case 'X': body = fmt::format("{:X}", cut); break;
      case 'o': body = fmt::format("{:o}", cut); break;
      case 'f':
      case 'F': body = fmt::format("{:.{}f}", wide, precision); break;
      case 'e': body = fmt::format("{:.{}e}", wide, precision); break;
      case 'E': body = fmt::format("{:.{}E}", wide, precision); break;
      case 'g': body = fmt::format("{:.{}g}", wide, precision); break;
      case 'G': body = fmt::format("{:.{}G}", wide, precision); break;
      default: body = fmt::format("{}", cut); break;
    }
    if (whole && !plain.is_int() && std::fabs(wide) >= 9e18) body = fmt::format("{:.0f}", wide);
    if (conversion.plus && !body.starts_with('-')) body.insert(0, "+");
  } else {
    NOETL_ASSIGN(body, run.Text(value));
    if (conversion.precision >= 0) {
      NOETL_ASSIGN(const std::vector<std::string_view> letters, run.Letters(body));
      const auto keep = static_cast<std::size_t>(conversion.precision);
      if (letters.size() > keep) {
        body.resize(keep == 0 ? 0
                              : static_cast<std::size_t>(letters[keep - 1].data() +
                                                         letters[keep - 1].size() - body.data()));
      }
    }
  }
  const std::size_t length = CodePoints(body);
  const auto width = static_cast<std::size_t>(conversion.width);
  if (length >= width) return body;
  const std::size_t padding = width - length;
  if (conversion.left) return body + std::string(padding, ' ');
  if (conversion.zero && number) {
    const std::size_t sign = body.starts_with('-') || body.starts_with('+') ? 1 : 0;
    return body.substr(0, sign) + std::string(padding, '0') + body.substr(sign);
  }
  return std::string(padding, ' ') + body;
}

// Reads what follows a '%'. `name` is set for `%(name)s`.
Result<Conversion> ReadConversion(std::string_view text, std::size_t* at, std::string_view* name) {
  Conversion conversion;
  if (*at < text.size() && text[*at] == '(') {
    const std::size_t close = text.find(')', *at);
    if (close == std::string_view::npos) return Fail("E412", "format: missing ')' after '%('");
    *name = text.substr(*at + 1, close - *at - 1);
    *at = close + 1;
  }
  for (; *at < text.size(); ++*at) {
    const char flag = text[*at];
    if (flag == '-') conversion.left = true;
    else if (flag == '0') conversion.zero = true;
    else if (flag == '+') conversion.plus = true;
    else if (flag != ' ' && flag != '#') break;
  }
  conversion.width = ReadNumber(text, at);
  if (*at < text.size() && text[*at] == '.') {
    ++*at;
    conversion.precision = ReadNumber(text, at);
  }
  constexpr std::string_view kKinds = "sdixXofFeEgGr%";
  if (*at >= text.size() || kKinds.find(text[*at]) == std::string_view::npos) {
    return Fail("E412", "format: unknown conversion after '%'");
  }
  conversion.kind = text[(*at)++];
  return conversion;
}

Result<Value> Format(Call& call) {
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  std::string out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t percent = std::min(text.find('%', at), text.size());
    out.append(text, at, percent - at);
    at = percent;
    if (at >= text.size()) break;
    ++at;
    std::string_view name;
    NOETL_ASSIGN(const Conversion conversion, ReadConversion(text, &at, &name));
    if (conversion.kind == '%') {
      out += '%';
      continue;
    }
    const Value* value = nullptr;
    if (!name.empty()) value = call.Keyword(name);
    else if (next < call.values.size()) value = &call.values[next++];
    if (value == nullptr) return Fail("E412", "format: not enough values");
    NOETL_ASSIGN(const std::string piece, FormatOne(call.run, conversion, *value));
    NOETL_TRY(call.run.AppendLiteral(out, piece));
    NOETL_TRY(call.run.Charge(1));
  }
  return call.run.MadeText(out);
}

// A literal for SQL: quoted text, bare numbers and booleans, NULL for what is missing.
Result<Value> SqlQuote(Call& call) {
  NOETL_ASSIGN(const Json value, call.input.Plain());
  if (value.is_null()) return Value(Json("NULL"));
  if (value.is_bool()) return Value(Json(value.AsBool() ? "TRUE" : "FALSE"));
  if (value.is_number()) return Value(Json(TextForm(value)));
  NOETL_ASSIGN(const std::string text, call.run.Text(Value(value)));
  if (text.find('\0') != std::string::npos) {
    return Fail("E412", "sqlquote: SQL text cannot hold a NUL character");
  }
  std::string out;
  // Only this form gives a backslash the same meaning whatever the server's settings are.
  const bool backslash = text.find('\\') != std::string::npos;
  out += backslash ? " E'" : "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += c;
    out += c;
  }
  out += '\'';
  return call.run.MadeText(out);
}

// A name for SQL: `"schema"."table"` from `schema.table`.
Result<Value> SqlIdent(Call& call) {
  if (call.input.is_undefined()) return UndefinedError(call.input);
  NOETL_ASSIGN(const std::string text, call.run.Text(call.input));
  if (text.find('\0') != std::string::npos) {
    return Fail("E412", "sqlident: a name cannot hold a NUL character");
  }
  std::string out = "\"";
  std::size_t part = 0;
  for (const char c : text) {
    if (c == '.' && part == 0) return Fail("E412", "sqlident: a part of the name is empty");
    part = c == '.' ? 0 : part + 1;
    if (c == '.') out += "\".\"";
    else if (c == '"') out += "\"\"";
    else out += c;
  }
  if (part == 0) return Fail("E412", "sqlident: the name is empty");
  return call.run.MadeText(out + "\"");
}

constexpr Callable kRows[] = {
    {"string", {}, 0, 0, "", false, String, "string", "The text form of the value."},
    {"lower", {}, 0, 0, "", false, MapText<LowerText>, "lower", "Text in lower case."},
    {"upper", {}, 0, 0, "", false, MapText<UpperText>, "upper", "Text in upper case."},
    {"title",
     {},
     0,
     0,
     "",
     false,
     MapText<TitleText>,
     "title",
     "Every word with a capital first letter."},
    {"capitalize",
     {},
     0,
     0,
     "",
     false,
     MapText<CapitalText>,
     "capitalize",
     "First letter upper case, the rest lower case."},
    {"trim",
     {},
     0,
     1,
     "chars",
     false,
     TrimFilter,
     "trim(chars=white space)",
     "Without the given characters at both ends."},
    {"replace",
     {},
     2,
     3,
     "old new count",
     false,
     Replace,
     "replace(old, new, count=all)",
     "Text with `old` replaced by `new`, literally."},
    {"length",
     {"count", "len"},
     0,
     0,
     "",
     false,
     Length,
     "length",
     "Elements, members or characters; 0 for anything else."},
    {"split",
     {},
     0,
     2,
     "sep maxsplit",
     false,
     Split,
     "split(sep=' ', maxsplit=all)",
     "List of the parts between separators."},
    {"lines", {}, 0, 0, "", false, Lines, "lines", "List of lines."},
    {"join",
     {},
     0,
     2,
     "sep attribute",
     false,
     Join,
     "join(sep='', attribute=none)",
     "The text forms of the elements, with a separator between them."},
    {"escape", {"e"}, 0, 0, "", false, Escape, "escape", "Text with HTML characters escaped."},
    {"urlencode",
     {},
     0,
     0,
     "",
     false,
     UrlEncode,
     "urlencode",
     "Text for a URL; a map or a list of pairs becomes a query string."},
    {"b64encode", {}, 0, 0, "", false, Base64Encode, "b64encode", "Text in base64."},
    {"b64decode",
     {},
     0,
     0,
     "",
     false,
     Base64Decode,
     "b64decode",
     "Text from base64; an error when it is not base64 of UTF-8 text."},
    {"indent",
     {},
     0,
     3,
     "width first blank",
     false,
     Indent,
     "indent(width=4, first=false, blank=false)",
     "Text with its lines indented."},
    {"format",
     {},
     0,
     kAnyCount,
     "",
     true,
     Format,
     "format(values...)",
     "The text as a `%s`, `%d`, `%.2f`, `%(name)s` pattern for the values."},
    {"sqlquote",
     {"sqlq"},
     0,
     0,
     "",
     false,
     SqlQuote,
     "sqlquote",
     "A literal for SQL: text is quoted, null and undefined are `NULL`."},
    {"sqlident",
     {"ident"},
     0,
     0,
     "",
     false,
     SqlIdent,
     "sqlident",
     "A quoted name for SQL; dots separate its parts."},
};

}  // namespace

std::span<const Callable> TextFilters() { return kRows; }

}  // namespace noetl::expr
