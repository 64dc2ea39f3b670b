// Where callbacks run: the queue and the timers of one thread.
//
// Lanes and workers live on a reactor and use no locks: everything they do is a task of theirs. In
// production it is an `EventLoop` (event_loop.h) on a thread of its own; in simulation all parts
// share one that moves a virtual clock. `Post` may be called from any thread; the rest only from
// tasks of the reactor itself. Tasks run in the order they were posted, one at a time.
#pragma once

#include <cstdint>
#include <functional>

namespace noetl {

class Reactor {
 public:
  using Task = std::move_only_function<void()>;
  using TimerId = std::uint64_t;  // 0 is never given

  virtual ~Reactor() = default;

  virtual void Post(Task task) = 0;
  // Runs the task once, not before `delay_us` from now by the monotonic clock.
  virtual TimerId After(std::int64_t delay_us, Task task) = 0;
  // Forgets a timer; harmless when it has run.
  virtual void CancelTimer(TimerId timer) = 0;
};

}  // namespace noetl
