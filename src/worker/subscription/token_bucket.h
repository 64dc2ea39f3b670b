// How many things may be done now when so many a second are allowed.
//
// The bucket holds what one second allows (at least one), is full at first and fills continuously.
// Time comes as an argument, in microseconds of a clock that does not go back. Pure, one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace noetl::worker {

class TokenBucket {
 public:
  // `per_second` 0: there is no limit.
  explicit TokenBucket(double per_second, std::int64_t now_us = 0)
      : per_second_(per_second), tokens_(Capacity()), at_us_(now_us) {}

  bool limited() const { return per_second_ > 0; }

  // Whole tokens that are there.
  std::int64_t Available(std::int64_t now_us) {
    if (!limited()) return std::numeric_limits<std::int64_t>::max();
    Fill(now_us);
    return static_cast<std::int64_t>(tokens_ + kRounding);
  }

  // More than there are may be taken: later ones pay for it.
  void Take(std::int64_t count, std::int64_t now_us) {
    if (!limited()) return;
    Fill(now_us);
    tokens_ -= static_cast<double>(count);
  }

  // Until there is one.
  std::int64_t WaitMicros(std::int64_t now_us) {
    if (Available(now_us) >= 1) return 0;
    return static_cast<std::int64_t>(std::ceil((1 - tokens_) / per_second_ * 1e6));
  }

 private:
  // A third of a token three times is one.
  static constexpr double kRounding = 1e-9;

  double Capacity() const { return std::max(per_second_, 1.0); }
  void Fill(std::int64_t now_us) {
    if (now_us > at_us_) {
      tokens_ += static_cast<double>(now_us - at_us_) * 1e-6 * per_second_;
      tokens_ = std::min(tokens_, Capacity());
    }
    at_us_ = std::max(at_us_, now_us);
  }

  double per_second_;
  double tokens_;
  std::int64_t at_us_;
};

}  // namespace noetl::worker
