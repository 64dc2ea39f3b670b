// Time arrives as an argument: everything that needs it takes a `Clock`.
//
// All times are microseconds; wall time counts from 1970-01-01T00:00:00 UTC and may step, monotonic
// time counts from an arbitrary start and never goes back. All clocks are safe to use from many
// threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace noetl {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t NowMicros() = 0;
  virtual std::int64_t MonotonicMicros() = 0;
  virtual void SleepMicros(std::int64_t duration) = 0;

  std::int64_t NowMillis() { return NowMicros() / 1000; }
  std::int64_t MonotonicMillis() { return MonotonicMicros() / 1000; }
};

class SystemClock final : public Clock {
 public:
  std::int64_t NowMicros() override { return Micros(std::chrono::system_clock::now()); }
  std::int64_t MonotonicMicros() override { return Micros(std::chrono::steady_clock::now()); }
  void SleepMicros(std::int64_t duration) override {
    std::this_thread::sleep_for(std::chrono::microseconds(duration));
  }

 private:
  template <typename TimePoint>
  static std::int64_t Micros(TimePoint point) {
    const auto since = point.time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  }
};

// Stands still until it is told to move. A sleep moves it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t now_micros = 0) : wall_(now_micros) {}

  std::int64_t NowMicros() override { return wall_.load(); }
  std::int64_t MonotonicMicros() override { return monotonic_.load(); }
  void SleepMicros(std::int64_t duration) override { Advance(duration); }

  void Advance(std::int64_t micros) {
    monotonic_ += micros;
    wall_ += micros;
  }
  // Somebody sets the wall clock; monotonic time does not notice.
  void SetWall(std::int64_t now_micros) { wall_ = now_micros; }

 private:
  std::atomic<std::int64_t> wall_;
  std::atomic<std::int64_t> monotonic_{0};
};

}  // namespace noetl
