// The text of a tool's process on its way to the server, bounded and cut into pieces.
//
// A feed belongs to one stream of one command and lives on the worker's reactor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bus/link.h"

namespace noetl::worker {

// A piece of log text is a row: larger ones are cut.
inline constexpr std::size_t kLogPieceBytesMax = 64 << 10;

// Text of one stream on its way to the server: the first two thirds of the limit as they come, the
// last third at the end. Offsets count bytes of the text as it is sent: valid UTF-8 without U+0000.
class LogFeed {
 public:
  LogFeed(std::string stream, std::int64_t bytes_max);

  void Append(std::string_view bytes);
  std::size_t ready_bytes() const { return ready_.size(); }
  // Moves what can be sent now into `out`, in pieces.
  void TakeReady(std::vector<bus::LogText>* out);
  // The same with everything that is left: the stream has ended.
  void TakeAll(std::vector<bus::LogText>* out);

 private:
  void Keep(std::string_view text);
  void Cut(std::string_view text, std::int64_t offset, std::vector<bus::LogText>* out) const;

  std::string stream_;
  std::size_t head_max_;
  std::size_t tail_max_;
  std::string partial_;  // bytes of a character whose end has not come yet
  std::string ready_;    // the end of the head, not sent yet
  std::string tail_;     // at most twice tail_max_
  std::int64_t head_bytes_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace noetl::worker
