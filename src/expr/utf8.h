// Code points and letter case of valid UTF-8 text, for the text filters.
//
// Pure functions. Case mapping covers ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic; other
// letters stay as they are. Text that is not valid UTF-8 is taken byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace noetl::expr {

void AppendCodePoint(std::string& out, std::uint32_t code);
// Bytes of the code point that starts at `at`.
std::size_t CodePointLength(std::string_view text, std::size_t at);
std::uint32_t CodePointAt(std::string_view text, std::size_t at);
// One view for each code point.
std::vector<std::string_view> SplitCodePoints(std::string_view text);

std::string LowerText(std::string_view text);
std::string UpperText(std::string_view text);
std::string CapitalText(std::string_view text);
// The first letter of each word upper case, the others lower case.
std::string TitleText(std::string_view text);

}  // namespace noetl::expr
