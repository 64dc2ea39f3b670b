// Output of a process, kept in bounded memory.
//
// Keeps the first two thirds and the last third of the limit; what is between is counted and left
// out. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace noetl::worker {

class BoundedText {
 public:
  explicit BoundedText(std::int64_t bytes_max);

  void Append(std::string_view bytes);
  bool truncated() const { return missing() > 0; }
  // What was kept, as text: a line tells how many bytes are left out, and bytes that are not UTF-8
  // as well as U+0000 show as U+FFFD.
  std::string Text() const;

 private:
  std::uint64_t missing() const { return total_ - head_.size() - tail_.size(); }

  std::size_t head_max_;
  std::size_t tail_max_;
  std::string head_;
  std::string tail_;            // a ring once it is full
  std::size_t tail_start_ = 0;  // of the oldest byte in the ring
  std::uint64_t total_ = 0;
};

// The text with invalid UTF-8 and U+0000 replaced by U+FFFD.
std::string CleanText(std::string_view bytes);

}  // namespace noetl::worker
