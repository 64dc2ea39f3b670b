// RFC 3339 text of UTC times in microseconds since 1970. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace noetl {

// "2026-06-04T06:51:26.037000Z": always six fraction digits, so texts sort as the times do. Times
// outside the years 0000 to 9999 give the nearest one inside.
std::string FormatTime(std::int64_t micros);

// Any RFC 3339 time with a zone; digits beyond microseconds are cut off, the leap second :60 counts
// as the next second. nullopt: not such a time.
std::optional<std::int64_t> ParseTime(std::string_view text);

}  // namespace noetl
