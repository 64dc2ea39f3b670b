// A reactor that is driven by hand, on the time of a `ManualClock`: for tests.
//
// `Post` may be called from any thread; everything else from one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/reactor.h"

namespace noetl {

class ManualReactor final : public Reactor {
 public:
  explicit ManualReactor(ManualClock* clock) : clock_(clock) {}

  void Post(Task task) override {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    ++posts_;
  }
  TimerId After(std::int64_t delay_us, Task task) override {
    const TimerId id = ++last_timer_;
    timers_.emplace(std::pair(clock_->MonotonicMicros() + delay_us, id), std::move(task));
    return id;
  }
  void CancelTimer(TimerId timer) override {
    std::erase_if(timers_, [&](const auto& entry) { return entry.first.second == timer; });
  }

  // Everything that needs no time to pass.
  void RunPosted() {
    while (std::optional<Task> task = Take()) (*task)();
  }
  // Everything that is due within this time.
  void Advance(std::int64_t delay_us) {
    const std::int64_t until = clock_->MonotonicMicros() + delay_us;
    RunPosted();
    while (!timers_.empty() && timers_.begin()->first.first <= until) RunTimer();
    clock_->Advance(until - clock_->MonotonicMicros());
  }
  void AdvanceMs(std::int64_t delay_ms) { Advance(delay_ms * 1'000); }
  // Until there is neither a task nor a timer.
  void RunUntilIdle() {
    RunPosted();
    while (!timers_.empty()) RunTimer();
  }
  std::size_t timers() const { return timers_.size(); }
  // Tasks that were ever posted.
  std::size_t posts() const { return posts_; }

 private:
  std::optional<Task> Take() {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return std::nullopt;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    return task;
  }
  void RunTimer() {
    auto node = timers_.extract(timers_.begin());
    clock_->Advance(std::max<std::int64_t>(node.key().first - clock_->MonotonicMicros(), 0));
    node.mapped()();
    RunPosted();
  }

  ManualClock* clock_;
  std::mutex mutex_;
  std::deque<Task> queue_;
  std::map<std::pair<std::int64_t, TimerId>, Task> timers_;
  TimerId last_timer_ = 0;
  std::size_t posts_ = 0;
};

}  // namespace noetl
