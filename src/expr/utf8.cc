#include "expr/utf8.h"

namespace noetl::expr {

namespace {

// Letters whose two cases are a constant distance apart.
struct CaseRange {
  std::uint32_t upper_first;
  std::uint32_t upper_last;
  std::uint32_t distance;
};

constexpr CaseRange kCaseRanges[] = {
    {0xC0, 0xD6, 32},   {0xD8, 0xDE, 32},   {0x391, 0x3A1, 32},
    {0x3A3, 0x3AB, 32}, {0x410, 0x42F, 32}, {0x400, 0x40F, 80},
};

// Alphabets where an upper case letter is followed by its lower case letter.
struct PairRange {
  std::uint32_t first;
  std::uint32_t last;
};

constexpr PairRange kPairRanges[] = {
    {0x100, 0x12F}, {0x132, 0x137}, {0x14A, 0x177}, {0x460, 0x481}, {0x48A, 0x4BF}, {0x4D0, 0x52F},
};
constexpr PairRange kOddPairRanges[] = {{0x139, 0x148}, {0x179, 0x17E}, {0x4C1, 0x4CE}};

std::uint32_t LowerCode(std::uint32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  for (const CaseRange& range : kCaseRanges) {
    if (code >= range.upper_first && code <= range.upper_last) return code + range.distance;
  }
  if (code == 0x178) return 0xFF;
  for (const PairRange& range : kPairRanges) {
    if (code >= range.first && code <= range.last) return code | 1u;
  }
  for (const PairRange& range : kOddPairRanges) {
    if (code >= range.first && code <= range.last) return code % 2 == 1 ? code + 1 : code;
  }
  return code;
}

std::uint32_t UpperCode(std::uint32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z' ? code - 32 : code;
  for (const CaseRange& range : kCaseRanges) {
    if (code >= range.upper_first + range.distance && code <= range.upper_last + range.distance) {
      return code - range.distance;
    }
  }
  if (code == 0xFF) return 0x178;
  if (code == 0x3C2) return 0x3A3;
  for (const PairRange& range : kPairRanges) {
    if (code >= range.first && code <= range.last) return code & ~1u;
  }
  for (const PairRange& range : kOddPairRanges) {
    if (code >= range.first && code <= range.last) return code % 2 == 0 ? code - 1 : code;
  }
  return code;
}

bool IsWordCode(std::uint32_t code) {
  return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
         (code >= 'A' && code <= 'Z') || code == '_' || code == '\'' || code >= 0x80;
}

template <typename Mapping>
std::string MapCodes(std::string_view text, Mapping mapping) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = CodePointLength(text, at);
    const std::uint32_t code = CodePointAt(text, at);
    const std::uint32_t mapped = mapping(code);
    if (mapped == code) out.append(text, at, length);
    else AppendCodePoint(out, mapped);
    at += length;
  }
  return out;
}

}  // namespace

void AppendCodePoint(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

std::size_t CodePointLength(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return at + length <= text.size() ? length : 1;
}

std::uint32_t CodePointAt(std::string_view text, std::size_t at) {
  const std::size_t length = CodePointLength(text, at);
  const auto lead = static_cast<unsigned char>(text[at]);
  if (length == 1) return lead;
  std::uint32_t code = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  return code;
}

std::vector<std::string_view> SplitCodePoints(std::string_view text) {
  std::vector<std::string_view> parts;
  parts.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = CodePointLength(text, at);
    parts.push_back(text.substr(at, length));
    at += length;
  }
  return parts;
}

std::string LowerText(std::string_view text) { return MapCodes(text, LowerCode); }

std::string UpperText(std::string_view text) { return MapCodes(text, UpperCode); }

std::string CapitalText(std::string_view text) {
  bool first = true;
  return MapCodes(text, [&first](std::uint32_t code) {
    const std::uint32_t mapped = first ? UpperCode(code) : LowerCode(code);
    first = false;
    return mapped;
  });
}

std::string TitleText(std::string_view text) {
  bool in_word = false;
  return MapCodes(text, [&in_word](std::uint32_t code) {
    const std::uint32_t mapped = in_word ? LowerCode(code) : UpperCode(code);
    in_word = IsWordCode(code);
    return mapped;
  });
}

}  // namespace noetl::expr
