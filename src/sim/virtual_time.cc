#include "sim/virtual_time.h"

#include <algorithm>

#include "base/check.h"

namespace noetl::sim {

namespace {

// A task takes up to this long; timers may fall due meanwhile.
constexpr std::uint64_t kTaskUsMax = 40;

}  // namespace

class VirtualTime::Queue final : public Reactor {
 public:
  explicit Queue(Clock* clock) : clock_(clock) {}

  void Post(Task task) override { tasks_.push_back(std::move(task)); }

  TimerId After(std::int64_t delay_us, Task task) override {
    const TimerId id = ++last_timer_;
    const std::int64_t due_us = clock_->MonotonicMicros() + std::max<std::int64_t>(delay_us, 0);
    timers_.emplace(std::pair(due_us, id), std::move(task));
    due_[id] = due_us;
    return id;
  }

  void CancelTimer(TimerId timer) override {
    const auto found = due_.find(timer);
    if (found == due_.end()) return;
    // The task goes last: it may hold what cancels other timers.
    const auto node = timers_.extract(std::pair(found->second, timer));
    due_.erase(found);
  }

  void Clear() {
    const auto tasks = std::exchange(tasks_, {});
    const auto timers = std::exchange(timers_, {});
    due_.clear();
  }

  bool has_task() const { return !tasks_.empty(); }
  bool has_due() const {
    return !timers_.empty() && timers_.begin()->first.first <= clock_->MonotonicMicros();
  }
  bool ready() const { return has_task() || has_due(); }
  std::int64_t next_us() const {
    return timers_.empty() ? INT64_MAX : timers_.begin()->first.first;
  }

  Task TakeTask() {
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }
  Task TakeTimer() {
    auto node = timers_.extract(timers_.begin());
    due_.erase(node.key().second);
    return std::move(node.mapped());
  }

 private:
  Clock* clock_;
  std::deque<Task> tasks_;
  std::map<std::pair<std::int64_t, TimerId>, Task> timers_;
  std::map<TimerId, std::int64_t> due_;
  TimerId last_timer_ = 0;
};

VirtualTime::VirtualTime(std::uint64_t seed, std::int64_t wall_us)
    : random_(seed), clock_(wall_us) {}

VirtualTime::~VirtualTime() = default;

Reactor* VirtualTime::Add() {
  queues_.push_back(std::make_unique<Queue>(&clock_));
  return queues_.back().get();
}

VirtualTime::Queue& VirtualTime::Find(Reactor* reactor) {
  const auto found = std::ranges::find_if(
      queues_, [&](const std::unique_ptr<Queue>& queue) { return queue.get() == reactor; });
  NOETL_CHECK(found != queues_.end(), "the reactor is one of ours");
  return **found;
}

void VirtualTime::Clear(Reactor* reactor) { Find(reactor).Clear(); }

void VirtualTime::Remove(Reactor* reactor) {
  Clear(reactor);
  std::erase_if(queues_,
                [&](const std::unique_ptr<Queue>& queue) { return queue.get() == reactor; });
}

bool VirtualTime::RunOne() {
  std::vector<Queue*> ready;
  std::int64_t next_us = INT64_MAX;
  for (const auto& queue : queues_) {
    if (queue->ready()) ready.push_back(queue.get());
    next_us = std::min(next_us, queue->next_us());
  }
  if (ready.empty()) {
    if (next_us == INT64_MAX) return false;
    clock_.Advance(std::max<std::int64_t>(next_us - clock_.MonotonicMicros(), 0));
    for (const auto& queue : queues_) {
      if (queue->ready()) ready.push_back(queue.get());
    }
  }
  Queue& queue = *ready[random_.Below(ready.size())];
  const bool timer = queue.has_due() && (!queue.has_task() || random_.Below(2) == 0);
  Reactor::Task task = timer ? queue.TakeTimer() : queue.TakeTask();
  clock_.Advance(static_cast<std::int64_t>(random_.Below(kTaskUsMax + 1)));
  task();
  return true;
}

}  // namespace noetl::sim
