#include "worker/bounded_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace noetl::worker {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

void AppendWithoutNul(std::string& out, std::string_view text) {
  while (true) {
    const std::size_t nul = text.find('\0');
    out += text.substr(0, nul);
    if (nul == std::string_view::npos) return;
    out += kReplacement;
    text.remove_prefix(nul + 1);
  }
}

}  // namespace

BoundedText::BoundedText(std::int64_t bytes_max) {
  const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(bytes_max, 0));
  tail_max_ = limit / 3;
  head_max_ = limit - tail_max_;
}

void BoundedText::Append(std::string_view bytes) {
  total_ += bytes.size();
  const std::size_t to_head = std::min(bytes.size(), head_max_ - head_.size());
  head_ += bytes.substr(0, to_head);
  bytes.remove_prefix(to_head);
  if (bytes.empty() || tail_max_ == 0) return;
  if (bytes.size() >= tail_max_) {
    tail_ = bytes.substr(bytes.size() - tail_max_);
    tail_start_ = 0;
    return;
  }
  const std::size_t to_end = std::min(bytes.size(), tail_max_ - tail_.size());
  tail_ += bytes.substr(0, to_end);
  bytes.remove_prefix(to_end);
  for (; !bytes.empty(); tail_start_ %= tail_max_) {
    const std::size_t part = std::min(bytes.size(), tail_max_ - tail_start_);
    bytes.copy(tail_.data() + tail_start_, part);
    bytes.remove_prefix(part);
    tail_start_ += part;
  }
}

std::string BoundedText::Text() const {
  std::string all = head_;
  if (truncated()) all += fmt::format("\n... {} bytes are left out here ...\n", missing());
  all += std::string_view(tail_).substr(tail_start_);
  all += std::string_view(tail_).substr(0, tail_start_);
  return CleanText(all);
}

std::string CleanText(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (true) {
    const std::optional<std::size_t> bad = FirstInvalidUtf8(bytes);
    AppendWithoutNul(out, bytes.substr(0, bad.value_or(bytes.size())));
    if (!bad) return out;
    out += kReplacement;
    bytes.remove_prefix(*bad + 1);
  }
}

}  // namespace noetl::worker
