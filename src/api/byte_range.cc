#include "api/byte_range.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace noetl::api {
namespace {

std::optional<std::size_t> Number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

ByteRange ReadRange(std::string_view header, std::size_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const ByteRange whole{.count = size};
  if (!header.starts_with(kUnit)) return whole;
  const std::string_view range = Trim(header.substr(kUnit.size()));
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view from = range.substr(0, dash);
  const std::string_view to = range.substr(dash + 1);

  if (from.empty()) {
    const std::optional<std::size_t> last = Number(to);
    if (!last) return whole;
    if (*last == 0 || size == 0) return {.kind = ByteRange::Kind::kOutside};
    const std::size_t count = std::min(*last, size);
    return {.kind = ByteRange::Kind::kPart, .first = size - count, .count = count};
  }
  const std::optional<std::size_t> first = Number(from);
  const std::optional<std::size_t> last = to.empty() ? size : Number(to);
  if (!first || !last || (!to.empty() && *last < *first)) return whole;
  if (*first >= size) return {.kind = ByteRange::Kind::kOutside};
  const std::size_t end = *last >= size ? size : *last + 1;
  return {.kind = ByteRange::Kind::kPart, .first = *first, .count = end - *first};
}

bool NamesTag(std::string_view header, std::string_view digest) {
  while (!header.empty()) {
    const std::size_t comma = header.find(',');
    std::string_view tag = Trim(header.substr(0, comma));
    header = comma == std::string_view::npos ? std::string_view() : header.substr(comma + 1);
    if (tag == "*") return true;
    if (tag.starts_with("W/")) tag.remove_prefix(2);
    if (tag.size() == digest.size() + 2 && tag.front() == '"' && tag.back() == '"' &&
        tag.substr(1, digest.size()) == digest) {
      return true;
    }
  }
  return false;
}

}  // namespace noetl::api
