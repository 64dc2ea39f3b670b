// Small text helpers that several modules share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace noetl {

// The candidate nearest to `word` by edit distance, when it is near enough to be a likely typo.
std::optional<std::string> NearestName(std::string_view word,
                                       std::span<const std::string_view> candidates);
std::optional<std::string> NearestName(std::string_view word,
                                       std::span<const std::string> candidates);

// "90s", "1.5m", "2h", "250ms", "1d" or a bare number of seconds, in milliseconds. nullopt: not a
// duration.
std::optional<std::int64_t> ParseDurationMs(std::string_view text);

// Whether the text is valid UTF-8; the offset of the first bad byte otherwise.
std::optional<std::size_t> FirstInvalidUtf8(std::string_view text);
// Code points in valid UTF-8.
std::size_t CodePoints(std::string_view text);

std::string_view Trim(std::string_view text);
std::string ToLower(std::string_view text);
// [A-Za-z_][A-Za-z0-9_]*
bool IsIdentifier(std::string_view text);
// Shortest text that reads back as the same double, always with a fraction or exponent ("50.0").
std::string DoubleText(double value);

}  // namespace noetl
