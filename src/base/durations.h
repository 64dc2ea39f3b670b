// How often something took how long, counted without a lock.
//
// For hot paths: adding is two additions to atomics. Whoever shows the figures reads them when it is
// asked; counts and sum are read one after the other, so a reader may see one without the other for
// a moment. Any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace noetl {

// Upper bounds of the buckets for request times, inclusive. The last bucket has none.
inline constexpr std::array<std::int64_t, 12> kDurationBoundsUs = {
    1'000,   5'000,   10'000,    25'000,    50'000,    100'000,
    250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000};

class Durations {
 public:
  struct Counts {
    std::array<std::int64_t, kDurationBoundsUs.size() + 1> buckets{};
    std::int64_t sum_us = 0;

    std::int64_t count() const {
      std::int64_t all = 0;
      for (const std::int64_t bucket : buckets) all += bucket;
      return all;
    }
  };

  // A clock that went back counts as no time.
  void Add(std::int64_t us) {
    us = std::max<std::int64_t>(us, 0);
    const auto* const bound = std::ranges::lower_bound(kDurationBoundsUs, us);
    const auto bucket = static_cast<std::size_t>(bound - kDurationBoundsUs.begin());
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_us_.fetch_add(us, std::memory_order_relaxed);
  }

  Counts Read() const {
    Counts counts;
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    counts.sum_us = sum_us_.load(std::memory_order_relaxed);
    return counts;
  }

 private:
  std::array<std::atomic<std::int64_t>, kDurationBoundsUs.size() + 1> buckets_{};
  std::atomic<std::int64_t> sum_us_{0};
};

}  // namespace noetl
