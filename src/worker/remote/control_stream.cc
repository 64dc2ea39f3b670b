#include "worker/remote/control_stream.h"

#include <utility>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/log.h"
#include "base/url.h"
#include "worker/tools/http_url.h"

namespace noetl::worker {
namespace {

// A server that says nothing for so long, not even a comment, may be gone.
constexpr std::int64_t kSilenceMs = 90'000;
// A line or an event that is longer is none of ours.
constexpr std::size_t kEventBytesMax = 1 << 20;
constexpr std::int64_t kMicrosPerMilli = 1'000;

}  // namespace

void EventStreamReader::Take(std::string_view piece) {
  rest_ += piece;
  std::size_t at = 0;
  for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', at)) {
    std::string_view line = std::string_view(rest_).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    Line(line);
    at = end + 1;
  }
  rest_.erase(0, at);
  if (rest_.size() > kEventBytesMax) Reset();
}

void EventStreamReader::Reset() {
  rest_.clear();
  event_.clear();
  data_.clear();
  has_data_ = false;
}

void EventStreamReader::Line(std::string_view line) {
  if (line.empty()) {
    if (has_data_ || !event_.empty()) told_(event_, data_);
    event_.clear();
    data_.clear();
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value =
      colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    event_ = value;
  } else if (field == "data" && data_.size() + value.size() < kEventBytesMax) {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
}

ControlStream::ControlStream(EventLoop* loop, ServerClient* client, std::string worker_id,
                             RetryPace pace, Told told)
    : loop_(loop),
      client_(client),
      path_("/api/worker/control?worker_id=" + PercentEncode(worker_id)),
      pace_(pace),
      told_(std::move(told)),
      reader_([this](std::string_view event, std::string_view data) {
        const std::optional<ControlNews> news =
            ControlNewsFrom(event, ParseJson(data).value_or(Json()));
        // In a task of its own: who is told may close the stream.
        if (news) loop_->Post([told = told_, news = *news] { told(news); });
      }),
      timer_(loop) {}

void ControlStream::Open() {
  reader_.Reset();
  call_ = client_->Stream(
      path_, kSilenceMs,
      [this](std::string_view piece) {
        delay_ms_ = 0;
        reader_.Take(piece);
      },
      [this](const Result<Json>& end) {
        if (!end) LogDebug("the control stream ended", {{"error", end.error().message}});
        Ended();
      });
}

void ControlStream::Ended() {
  call_ = 0;
  delay_ms_ = pace_.After(delay_ms_);
  timer_.Set(delay_ms_ * kMicrosPerMilli, [this] { Open(); });
}

void ControlStream::Close() {
  timer_.Cancel();
  client_->Drop(std::exchange(call_, 0));
}

}  // namespace noetl::worker
