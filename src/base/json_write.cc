// The writers of json_io.h. One walker serves all forms; a sink either stores or counts.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/json_number.h"

namespace noetl {

namespace {

struct Form {
  DoubleForm doubles = DoubleForm::kTyped;
  bool sorted = false;
  bool ascii = false;
  int indent = 0;  // 0: everything on one line
};

constexpr Form kCompact{};
constexpr Form kStored{.doubles = DoubleForm::kStored};
constexpr Form kCanonical{.sorted = true};
constexpr Form kCanonicalFlat{.doubles = DoubleForm::kFlat, .sorted = true, .ascii = true};

class StringSink {
 public:
  explicit StringSink(std::string& out) : out_(out) {}
  void Put(char c) { out_.push_back(c); }
  void Put(std::string_view text) { out_.append(text); }
  void Fill(std::size_t count) { out_.append(count, ' '); }

 private:
  std::string& out_;
};

class CountSink {
 public:
  void Put(char) { ++bytes_; }
  void Put(std::string_view text) { bytes_ += text.size(); }
  void Fill(std::size_t count) { bytes_ += count; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// For each byte: 0 when it stands for itself, 'u' for a \u00xx escape, else the escape's letter.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> table{};
  for (std::size_t c = 0; c < 0x20; ++c) table[c] = 'u';
  table['"'] = '"';
  table['\\'] = '\\';
  table['\b'] = 'b';
  table['\t'] = 't';
  table['\n'] = 'n';
  table['\f'] = 'f';
  table['\r'] = 'r';
  return table;
}();

// The code point at `at`, which moves behind it. A byte that is no UTF-8 reads as U+FFFD.
std::uint32_t NextCodePoint(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
  if (first < 0x80) return ++at, first;
  if (length == 1 || first > 0xf4 || at + length > text.size()) return ++at, 0xfffd;
  std::uint32_t point = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xc0) != 0x80) return ++at, 0xfffd;
    point = point << 6 | (byte & 0x3f);
  }
  at += length;
  return point;
}

template <typename Sink>
class Writer {
 public:
  Writer(Sink& sink, const Form& form) : sink_(sink), form_(form) {}

  void Value(const Json& value, std::size_t depth = 0) {
    switch (value.type()) {
      case Json::Type::kNull: sink_.Put("null"); break;
      case Json::Type::kBool: sink_.Put(value.AsBool() ? "true" : "false"); break;
      case Json::Type::kInt: Integer(value.AsInt()); break;
      case Json::Type::kUint: Integer(value.AsUint()); break;
      case Json::Type::kDouble: Double(value.AsDouble()); break;
      case Json::Type::kBigInt: sink_.Put(value.AsString()); break;
      case Json::Type::kString: String(value.AsString()); break;
      case Json::Type::kArray:
        if (Enter(depth)) Array(value, depth + 1);
        break;
      case Json::Type::kObject:
        if (Enter(depth)) Object(value, depth + 1);
        break;
    }
  }

  bool too_deep() const { return too_deep_; }
  bool has_nul() const { return has_nul_; }

 private:
  // Containers below the deepest level are written as null.
  bool Enter(std::size_t depth) {
    if (depth < kJsonDepthMax) return true;
    too_deep_ = true;
    sink_.Put("null");
    return false;
  }

  template <typename T>
  void Integer(T number) {
    char digits[24];
    const char* end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    sink_.Put(std::string_view(digits, static_cast<std::size_t>(end - digits)));
  }

  void Double(double number) {
    if (!std::isfinite(number)) return sink_.Put("null");
    DoubleBuffer buffer;
    sink_.Put(FormatDouble(number, form_.doubles, buffer));
  }

  void HexEscape(std::uint32_t unit) {
    constexpr char kHex[] = "0123456789abcdef";
    const char text[] = {
        '\\',           'u', kHex[unit >> 12 & 15], kHex[unit >> 8 & 15], kHex[unit >> 4 & 15],
        kHex[unit & 15]};
    sink_.Put(std::string_view(text, sizeof(text)));
  }

  void Escape(unsigned char byte) {
    const char letter = kEscapes[byte];
    if (letter == 'u') return HexEscape(byte);
    sink_.Put('\\');
    sink_.Put(letter);
  }

  void CodePoint(std::uint32_t point) {
    if (point < 0x10000) return HexEscape(point);
    HexEscape(0xd800 + ((point - 0x10000) >> 10));
    HexEscape(0xdc00 + ((point - 0x10000) & 0x3ff));
  }

  void String(std::string_view text) {
    sink_.Put('"');
    std::size_t plain = 0;  // start of the run that needs no escape
    for (std::size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      const bool escape = kEscapes[byte] != 0;
      if (!escape && !(form_.ascii && byte >= 0x7f)) {
        ++at;
        continue;
      }
      if (at > plain) sink_.Put(text.substr(plain, at - plain));
      if (byte == 0) has_nul_ = true;
      if (escape) {
        Escape(byte);
        ++at;
      } else {
        CodePoint(NextCodePoint(text, at));
      }
      plain = at;
    }
    if (plain < text.size()) sink_.Put(text.substr(plain));
    sink_.Put('"');
  }

  void NewLine(std::size_t depth) {
    if (form_.indent == 0) return;
    sink_.Put('\n');
    sink_.Fill(depth * static_cast<std::size_t>(form_.indent));
  }

  void Array(const Json& array, std::size_t depth) {
    if (array.empty()) return sink_.Put("[]");
    char separator = '[';
    for (const Json& item : array.items()) {
      sink_.Put(separator);
      separator = ',';
      NewLine(depth);
      Value(item, depth);
    }
    NewLine(depth - 1);
    sink_.Put(']');
  }

  void Member(const JsonMember& member, char separator, std::size_t depth) {
    sink_.Put(separator);
    NewLine(depth);
    String(member.key());
    sink_.Put(':');
    if (form_.indent > 0) sink_.Put(' ');
    Value(member.value, depth);
  }

  void Object(const Json& object, std::size_t depth) {
    if (object.empty()) return sink_.Put("{}");
    char separator = '{';
    if (form_.sorted) {
      // The sorted members of all open objects share one stack.
      const std::size_t base = order_.size();
      for (const JsonMember& member : object.members()) order_.push_back(&member);
      const auto first = order_.begin() + static_cast<std::ptrdiff_t>(base);
      const auto by_key = [](const JsonMember* a, const JsonMember* b) {
        return a->key() < b->key();
      };
      if (!std::is_sorted(first, order_.end(), by_key)) std::sort(first, order_.end(), by_key);
      const std::size_t end = order_.size();
      for (std::size_t i = base; i < end; ++i, separator = ',')
        Member(*order_[i], separator, depth);
      order_.resize(base);
    } else {
      for (const JsonMember& member : object.members()) {
        Member(member, separator, depth);
        separator = ',';
      }
    }
    NewLine(depth - 1);
    sink_.Put('}');
  }

  Sink& sink_;
  Form form_;
  bool too_deep_ = false;
  bool has_nul_ = false;
  std::vector<const JsonMember*> order_;
};

std::string WriteAs(const Json& value, const Form& form) {
  std::string out;
  StringSink sink(out);
  Writer<StringSink>(sink, form).Value(value);
  return out;
}

bool HasNul(std::string_view text) { return text.contains('\0'); }

// Where the first U+0000 is, as "a.b[2]"; appended to `path`.
bool FindNul(const Json& value, std::string& path) {
  const std::size_t length = path.size();
  std::size_t index = 0;
  for (const Json& item : value.items()) {
    path += fmt::format("[{}]", index++);
    if (FindNul(item, path)) return true;
    path.resize(length);
  }
  for (const JsonMember& member : value.members()) {
    if (HasNul(member.key())) return true;
    if (!path.empty()) path += '.';
    path += member.key();
    if (FindNul(member.value, path)) return true;
    path.resize(length);
  }
  return value.is_string() && HasNul(value.AsString());
}

Json CleanText(std::string_view text, std::size_t& count) {
  std::string clean;
  for (const char c : text) {
    if (c == '\0') {
      clean += "\xef\xbf\xbd";
      ++count;
    } else {
      clean += c;
    }
  }
  return Json(clean);
}

// The value without U+0000; the same node when it has none.
Json Clean(const Json& value, std::size_t& count) {
  if (value.is_string() && HasNul(value.AsString())) return CleanText(value.AsString(), count);
  if (!value.is_container()) return value;
  const std::size_t before = count;
  if (value.is_array()) {
    std::vector<Json> items;
    items.reserve(value.size());
    for (const Json& item : value.items()) items.push_back(Clean(item, count));
    return count == before ? value : Json::Array(std::move(items));
  }
  Json::Members members;
  members.reserve(value.size());
  for (const JsonMember& member : value.members()) {
    Json key = HasNul(member.key()) ? CleanText(member.key(), count) : member.key_json();
    members.emplace_back(std::move(key), Clean(member.value, count));
  }
  return count == before ? value : Json::Object(std::move(members));
}

}  // namespace

std::string WriteJson(const Json& value) { return WriteAs(value, kCompact); }

void AppendJson(std::string& out, const Json& value) {
  StringSink sink(out);
  Writer<StringSink>(sink, kCompact).Value(value);
}

std::string WriteJsonPretty(const Json& value, int indent) {
  return WriteAs(value, Form{.indent = indent});
}

std::size_t JsonSize(const Json& value) {
  CountSink sink;
  Writer<CountSink>(sink, kCompact).Value(value);
  return sink.bytes();
}

Result<std::string> WriteStoredJson(const Json& value) {
  std::string out;
  StringSink sink(out);
  Writer<StringSink> writer(sink, kStored);
  writer.Value(value);
  if (writer.too_deep()) {
    return Fail("json_depth",
                fmt::format("the value is nested deeper than {} levels", kJsonDepthMax));
  }
  if (writer.has_nul()) {
    std::string path;
    FindNul(value, path);
    return Fail("json_nul",
                fmt::format("a text at '{}' holds the character U+0000, which cannot be "
                            "stored",
                            path));
  }
  return out;
}

Json ReplaceNul(const Json& value, std::size_t* replaced) {
  std::size_t count = 0;
  Json clean = Clean(value, count);
  if (replaced) *replaced = count;
  return clean;
}

std::string CanonicalJson(const Json& value) { return WriteAs(value, kCanonical); }
void AppendCanonicalJson(std::string& out, const Json& value) {
  StringSink sink(out);
  Writer<StringSink>(sink, kCanonical).Value(value);
}
std::string CanonicalJsonFlat(const Json& value) { return WriteAs(value, kCanonicalFlat); }

}  // namespace noetl
