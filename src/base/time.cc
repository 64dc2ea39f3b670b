#include "base/time.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace noetl {

namespace {

constexpr std::int64_t kMicrosPerSecond = 1'000'000;
constexpr std::int64_t kMicrosPerDay = 86'400 * kMicrosPerSecond;

std::int64_t DaysOf(int year, unsigned month, unsigned day) {
  const std::chrono::sys_days days =
      std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day);
  return days.time_since_epoch().count();
}

// Takes text from the front, piece by piece.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Exactly `count` digits, at most `max`.
  bool Digits(std::size_t count, int max, int& value) {
    if (text_.size() < count) return false;
    value = 0;
    for (const char c : text_.substr(0, count)) {
      if (c < '0' || c > '9') return false;
      value = value * 10 + (c - '0');
    }
    text_.remove_prefix(count);
    return value <= max;
  }

  bool OneOf(std::string_view choices) {
    if (text_.empty() || !choices.contains(text_.front())) return false;
    text_.remove_prefix(1);
    return true;
  }

  // An optional fraction, as microseconds.
  bool Fraction(std::int64_t& micros) {
    micros = 0;
    if (!OneOf(".")) return true;
    std::size_t digits = 0;
    std::int64_t scale = kMicrosPerSecond / 10;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
      micros += (text_[digits] - '0') * scale;
      scale /= 10;
    }
    text_.remove_prefix(digits);
    return digits > 0;
  }

  // The zone, as seconds east of Greenwich.
  bool Zone(std::int64_t& seconds) {
    seconds = 0;
    if (OneOf("Zz")) return text_.empty();
    const bool west = !text_.empty() && text_.front() == '-';
    int hours = 0, minutes = 0;
    if (!OneOf("+-") || !Digits(2, 23, hours) || !OneOf(":") || !Digits(2, 59, minutes))
      return false;
    seconds = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    return text_.empty();
  }

 private:
  std::string_view text_;
};

}  // namespace

std::string FormatTime(std::int64_t micros) {
  static const std::int64_t first = DaysOf(0, 1, 1) * kMicrosPerDay;
  static const std::int64_t last = (DaysOf(9999, 12, 31) + 1) * kMicrosPerDay - 1;
  micros = std::clamp(micros, first, last);
  std::int64_t days = micros / kMicrosPerDay;
  std::int64_t rest = micros % kMicrosPerDay;
  if (rest < 0) {
    --days;
    rest += kMicrosPerDay;
  }
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{days}}};
  const std::int64_t seconds = rest / kMicrosPerSecond;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     seconds / 3600, seconds / 60 % 60, seconds % 60, rest % kMicrosPerSecond);
}

std::optional<std::int64_t> ParseTime(std::string_view text) {
  Scanner scan(text);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::int64_t fraction = 0, zone = 0;
  const bool good = scan.Digits(4, 9999, year) && scan.OneOf("-") && scan.Digits(2, 12, month) &&
                    scan.OneOf("-") && scan.Digits(2, 31, day) && scan.OneOf("Tt ") &&
                    scan.Digits(2, 23, hour) && scan.OneOf(":") && scan.Digits(2, 59, minute) &&
                    scan.OneOf(":") && scan.Digits(2, 60, second) && scan.Fraction(fraction) &&
                    scan.Zone(zone);
  if (!good) return std::nullopt;
  const auto date = std::chrono::year(year) / std::chrono::month(static_cast<unsigned>(month)) /
                    std::chrono::day(static_cast<unsigned>(day));
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = DaysOf(year, static_cast<unsigned>(month), static_cast<unsigned>(day));
  const std::int64_t seconds = hour * 3600 + minute * 60 + second - zone;
  return days * kMicrosPerDay + seconds * kMicrosPerSecond + fraction;
}

}  // namespace noetl
