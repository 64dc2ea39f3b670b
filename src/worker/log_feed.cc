#include "worker/log_feed.h"

#include <algorithm>
#include <utility>

#include "worker/bounded_text.h"

namespace noetl::worker {
namespace {

// How many bytes at the end begin a character that is not complete.
std::size_t PartialCharacter(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

bool InsideCharacter(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

}  // namespace

LogFeed::LogFeed(std::string stream, std::int64_t bytes_max)
    : stream_(std::move(stream)),
      head_max_(static_cast<std::size_t>(std::max<std::int64_t>(bytes_max, 0)) / 3 * 2),
      tail_max_(static_cast<std::size_t>(std::max<std::int64_t>(bytes_max, 0)) - head_max_) {}

void LogFeed::Append(std::string_view bytes) {
  partial_.append(bytes);
  const std::size_t whole = partial_.size() - PartialCharacter(partial_);
  Keep(CleanText(std::string_view(partial_).substr(0, whole)));
  partial_.erase(0, whole);
}

void LogFeed::Keep(std::string_view text) {
  const std::int64_t before = total_;
  total_ += std::ssize(text);
  if (before == head_bytes_) {  // nothing is in the tail yet
    std::size_t fits = std::min(text.size(), head_max_ - static_cast<std::size_t>(head_bytes_));
    while (fits > 0 && InsideCharacter(text, fits)) --fits;
    ready_.append(text.substr(0, fits));
    head_bytes_ += static_cast<std::int64_t>(fits);
    text.remove_prefix(fits);
  }
  tail_.append(text);
  if (tail_.size() > 2 * tail_max_) tail_.erase(0, tail_.size() - tail_max_);
}

void LogFeed::Cut(std::string_view text, std::int64_t offset,
                  std::vector<bus::LogText>* out) const {
  while (!text.empty()) {
    std::size_t size = std::min(text.size(), kLogPieceBytesMax);
    while (InsideCharacter(text, size)) --size;
    out->push_back({stream_, offset, std::string(text.substr(0, size))});
    text.remove_prefix(size);
    offset += static_cast<std::int64_t>(size);
  }
}

void LogFeed::TakeReady(std::vector<bus::LogText>* out) {
  Cut(ready_, head_bytes_ - std::ssize(ready_), out);
  ready_.clear();
}

void LogFeed::TakeAll(std::vector<bus::LogText>* out) {
  Keep(CleanText(std::exchange(partial_, {})));
  TakeReady(out);
  std::string_view end = tail_;
  if (end.size() > tail_max_) end.remove_prefix(end.size() - tail_max_);
  while (InsideCharacter(end, 0)) end.remove_prefix(1);
  Cut(end, total_ - std::ssize(end), out);
  tail_.clear();
}

}  // namespace noetl::worker
