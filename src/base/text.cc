#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/json_number.h"

namespace noetl {

namespace {

// Longer words are compared by their first bytes only: edit distance is quadratic.
constexpr std::size_t kNearestWordMax = 64;
// More edits than this are another word, not a typo.
constexpr std::size_t kNearestDistanceMax = 3;
// Durations above this are refused. 300 years in milliseconds: far from any overflow.
constexpr double kDurationMsMax = 300.0 * 366 * 24 * 3600 * 1000;

// Edit distance that counts a swap of neighbours as one edit.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> two_back(width), back(width), row(width);
  for (std::size_t j = 0; j < width; ++j) back[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t change = back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    two_back.swap(back);
    back.swap(row);
  }
  return back[b.size()];
}

template <typename Name>
std::optional<std::string> Nearest(std::string_view word, std::span<const Name> candidates) {
  const std::string wanted = ToLower(word.substr(0, kNearestWordMax));
  const std::size_t allowed =
      std::min(kNearestDistanceMax, std::max<std::size_t>(1, wanted.size() / 3));
  std::optional<std::string> best;
  std::size_t best_distance = allowed + 1;
  for (const Name& candidate : candidates) {
    const std::string_view name = std::string_view(candidate).substr(0, kNearestWordMax);
    const std::size_t length_gap =
        name.size() > wanted.size() ? name.size() - wanted.size() : wanted.size() - name.size();
    if (length_gap >= best_distance) continue;
    const std::size_t distance = EditDistance(wanted, ToLower(name));
    // When every letter would have to change, the words have nothing in common.
    if (distance >= best_distance || distance >= std::max(wanted.size(), name.size())) continue;
    best_distance = distance;
    best = std::string(candidate);
  }
  return best;
}

struct DurationUnit {
  std::string_view suffix;
  double milliseconds;
};

constexpr DurationUnit kDurationUnits[] = {
    {"", 1000},       {"ms", 1},          {"s", 1000},
    {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000},
};

// Length of the valid sequence that starts at `at`, 0 when there is none (Unicode table 3-7).
std::size_t Utf8SequenceLength(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
    return second >= low && second <= high && tail(at + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high && tail(at + 2) && tail(at + 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::optional<std::string> NearestName(std::string_view word,
                                       std::span<const std::string_view> candidates) {
  return Nearest(word, candidates);
}

std::optional<std::string> NearestName(std::string_view word,
                                       std::span<const std::string> candidates) {
  return Nearest(word, candidates);
}

std::optional<std::int64_t> ParseDurationMs(std::string_view text) {
  text = Trim(text);
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  double amount = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), amount, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  if (end[-1] == '.') return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const DurationUnit& unit : kDurationUnits) {
    if (unit.suffix != suffix) continue;
    const double milliseconds = amount * unit.milliseconds;
    if (!(milliseconds <= kDurationMsMax)) return std::nullopt;
    return std::llround(milliseconds);
  }
  return std::nullopt;
}

std::optional<std::size_t> FirstInvalidUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = Utf8SequenceLength(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::size_t CodePoints(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsIdentifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

std::string DoubleText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  DoubleBuffer buffer;
  return std::string(FormatDouble(value, DoubleForm::kTyped, buffer));
}

}  // namespace noetl
