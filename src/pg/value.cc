#include "pg/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/text.h"

namespace noetl::pg {
namespace {

// More levels than the server's arrays have.
constexpr int kArrayDepthMax = 16;
constexpr std::size_t kFractionDigits = 6;

using Convert = Json (*)(std::string_view text, const ValueOptions& options);

Json Plain(std::string_view text, const ValueOptions&) { return text; }

Json Integer(std::string_view text, const ValueOptions&) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? Json(number) : Json(text);
}

Json Float(std::string_view text, const ValueOptions&) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(number) ? Json(number) : Json(text);
}

Json Numeric(std::string_view text, const ValueOptions& options) {
  if (!options.numeric_as_number) return text;
  const Json integer = Integer(text, options);
  return integer.is_int() ? integer : Float(text, options);
}

Json Boolean(std::string_view text, const ValueOptions&) {
  return text == "t" || text == "true" ? Json(true) : Json(false);
}

Json Document(std::string_view text, const ValueOptions&) {
  const Result<Json> parsed = ParseJson(text);
  return parsed ? ReplaceNul(*parsed) : Json(text);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The older form: printable bytes, \\ and \ooo.
std::string EscapedBytes(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes += text[at];
    } else if (at + 3 < text.size() && text[at + 1] != '\\') {
      const int value = (text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0');
      bytes += static_cast<char>(value);
      at += 3;
    } else {
      bytes += '\\';
      ++at;
    }
  }
  return bytes;
}

Json Bytes(std::string_view text, const ValueOptions&) {
  if (!text.starts_with("\\x")) return crypto::Base64Encode(EscapedBytes(text));
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t at = 2; at + 1 < text.size(); at += 2) {
    const int high = HexDigit(text[at]);
    const int low = HexDigit(text[at + 1]);
    if (high < 0 || low < 0) return text;
    bytes += static_cast<char>((high << 4) | low);
  }
  return crypto::Base64Encode(bytes);
}

// The parts of "2024-01-01 10:00:00.5+02:30".
struct Moment {
  std::array<std::int64_t, 6> fields{};  // year to second
  std::string_view fraction;
  std::int64_t offset_s = 0;
  bool has_offset = false;
};

bool Digits(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool ReadOffset(std::string_view text, Moment& moment) {
  if (text.empty()) return true;
  if (text.front() != '+' && text.front() != '-') return false;
  const std::int64_t sign = text.front() == '-' ? -1 : 1;
  std::int64_t unit = 3600;
  do {
    text.remove_prefix(1);
    std::int64_t number = 0;
    if (text.empty() || !Digits(text, number)) return false;
    moment.offset_s += sign * number * unit;
    unit /= 60;
  } while (unit > 0 && !text.empty() && text.front() == ':');
  moment.has_offset = true;
  return text.empty();
}

// False for what has another shape: infinity, years before Christ, another date style.
bool ReadMoment(std::string_view text, Moment& moment) {
  constexpr std::string_view kAfter = "-- ::";
  for (std::size_t field = 0; field < moment.fields.size(); ++field) {
    if (text.empty() || !Digits(text, moment.fields[field])) return false;
    if (field == kAfter.size()) break;
    if (text.empty() || text.front() != kAfter[field]) return false;
    text.remove_prefix(1);
  }
  if (text.starts_with('.')) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", 1), text.size());
    moment.fraction = text.substr(1, end - 1);
    text.remove_prefix(end);
  }
  return ReadOffset(text, moment);
}

std::string MomentText(const Moment& moment, std::string_view zone) {
  const auto& f = moment.fields;
  std::string out =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", f[0], f[1], f[2], f[3], f[4], f[5]);
  if (!moment.fraction.empty()) {
    std::string fraction(moment.fraction);
    // Some readers take three digits or six, nothing else.
    if (fraction.size() < kFractionDigits) fraction.resize(kFractionDigits, '0');
    out += '.' + fraction;
  }
  return out.append(zone);
}

Json Timestamp(std::string_view text, const ValueOptions&) {
  Moment moment;
  if (!ReadMoment(text, moment) || moment.has_offset) return text;
  return MomentText(moment, "");
}

Json TimestampUtc(std::string_view text, const ValueOptions&) {
  using namespace std::chrono;
  Moment moment;
  // Calendars of this library end before the server's; those years stay as printed.
  if (!ReadMoment(text, moment) || !moment.has_offset || moment.fields[0] > 30'000) return text;
  auto& f = moment.fields;
  if (moment.offset_s != 0) {
    const sys_days day = year(static_cast<int>(f[0])) / month(static_cast<unsigned>(f[1])) /
                         std::chrono::day(static_cast<unsigned>(f[2]));
    const sys_seconds utc =
        day + hours(f[3]) + minutes(f[4]) + seconds(f[5]) - seconds(moment.offset_s);
    const sys_days utc_day = floor<days>(utc);
    const year_month_day date(utc_day);
    const hh_mm_ss time(utc - utc_day);
    f = {static_cast<int>(date.year()),
         static_cast<unsigned>(date.month()),
         static_cast<unsigned>(date.day()),
         time.hours().count(),
         time.minutes().count(),
         time.seconds().count()};
  }
  return MomentText(moment, "+00:00");
}

struct Known {
  TypeId type;
  TypeId array;
  Convert convert = Plain;
  char delimiter = ',';
};

// By the numbers of pg_type, which never change for types built in.
constexpr std::array kKnown = {
    Known{16, 1000, Boolean},         // bool
    Known{17, 1001, Bytes},           // bytea
    Known{18, 1002},                  // "char"
    Known{19, 1003},                  // name
    Known{20, 1016, Integer},         // int8
    Known{21, 1005, Integer},         // int2
    Known{23, 1007, Integer},         // int4
    Known{25, 1009},                  // text
    Known{26, 1028, Integer},         // oid
    Known{114, 199, Document},        // json
    Known{142, 143},                  // xml
    Known{600, 1017},                 // point
    Known{601, 1018},                 // lseg
    Known{602, 1019},                 // path
    Known{603, 1020, Plain, ';'},     // box
    Known{604, 1027},                 // polygon
    Known{628, 629},                  // line
    Known{650, 651},                  // cidr
    Known{700, 1021, Float},          // float4
    Known{701, 1022, Float},          // float8
    Known{705, 0},                    // unknown
    Known{718, 719},                  // circle
    Known{774, 775},                  // macaddr8
    Known{790, 791},                  // money
    Known{829, 1040},                 // macaddr
    Known{869, 1041},                 // inet
    Known{1042, 1014},                // bpchar
    Known{1043, 1015},                // varchar
    Known{1082, 1182},                // date
    Known{1083, 1183},                // time
    Known{1114, 1115, Timestamp},     // timestamp
    Known{1184, 1185, TimestampUtc},  // timestamptz
    Known{1186, 1187},                // interval
    Known{1266, 1270},                // timetz
    Known{1560, 1561},                // bit
    Known{1562, 1563},                // varbit
    Known{1700, 1231, Numeric},       // numeric
    Known{2249, 2287},                // record
    Known{2278, 0},                   // void
    Known{2950, 2951},                // uuid
    Known{3614, 3643},                // tsvector
    Known{3615, 3645},                // tsquery
    Known{3802, 3807, Document},      // jsonb
    Known{3904, 3905},                // int4range
    Known{3906, 3907},                // numrange
    Known{3908, 3909},                // tsrange
    Known{3910, 3911},                // tstzrange
    Known{3912, 3913},                // daterange
    Known{3926, 3927},                // int8range
};

const Known* FindKnown(TypeId type) {
  const auto* const found = std::ranges::lower_bound(kKnown, type, {}, &Known::type);
  return found != kKnown.end() && found->type == type ? found : nullptr;
}

const Known* FindArray(TypeId type) {
  if (type == 0) return nullptr;
  const auto* const found = std::ranges::find(kKnown, type, &Known::array);
  return found == kKnown.end() ? nullptr : found;
}

// {1,NULL,"a \"b\""}, nested, with bounds in front when they are unusual: [0:1]={1,2}
class ArrayReader {
 public:
  ArrayReader(const TypeShape& shape, std::string_view text, const ValueOptions& options)
      : shape_(shape), text_(text), options_(options) {}

  // Null when the text is no array.
  Json Read() {
    if (text_.starts_with('[')) {
      const std::size_t equals = text_.find('=');
      if (equals == std::string_view::npos) return Json();
      at_ = equals + 1;
    }
    Json list = List(1);
    return at_ == text_.size() && !broken_ ? list : Json();
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Json List(int depth) {
    std::vector<Json> items;
    if (Peek() != '{' || depth > kArrayDepthMax) {
      broken_ = true;
      return Json();
    }
    ++at_;
    if (Peek() == '}') {
      ++at_;
      return Json::Array();
    }
    while (!broken_) {
      items.push_back(Peek() == '{' ? List(depth + 1) : Element());
      const char next = Peek();
      ++at_;
      if (next == '}') break;
      broken_ = broken_ || next != shape_.delimiter;
    }
    return Json::Array(std::move(items));
  }

  Json Element() {
    std::string element;
    const bool quoted = Peek() == '"';
    if (quoted) ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (quoted ? c == '"' : (c == shape_.delimiter || c == '}')) break;
      if (c == '\\' && at_ + 1 < text_.size()) ++at_;
      element += text_[at_++];
    }
    if (quoted) {
      broken_ = broken_ || Peek() != '"';
      ++at_;
    }
    if (!quoted && element == "NULL") return Json();
    return ToJson(shape_.element, element, options_);
  }

  const TypeShape& shape_;
  std::string_view text_;
  const ValueOptions& options_;
  std::size_t at_ = 0;
  bool broken_ = false;
};

}  // namespace

bool IsKnownType(TypeId type) { return FindKnown(type) != nullptr || FindArray(type) != nullptr; }

TypeShape ShapeOf(TypeId type) {
  const Known* array = FindArray(type);
  return array == nullptr ? TypeShape() : TypeShape{array->type, array->delimiter};
}

Json ToJson(TypeId type, std::string_view text, const ValueOptions& options) {
  if (const Known* known = FindKnown(type)) return known->convert(text, options);
  const TypeShape shape = ShapeOf(type);
  return shape.element == 0 ? Json(text) : ArrayToJson(shape, text, options);
}

Json ArrayToJson(const TypeShape& shape, std::string_view text, const ValueOptions& options) {
  Json list = ArrayReader(shape, text, options).Read();
  return list.is_null() ? Json(text) : list;
}

}  // namespace noetl::pg
