// Time and tasks of a simulated machine.
//
// Every part of the machine lives on a reactor of its own. `RunOne` picks by seed one of the
// reactors that have something to do and runs its next task or due timer; when none has, the clock
// moves to the next timer. So one seed is one interleaving, and hours pass in no time. Wall time
// can be set; monotonic time only grows. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/reactor.h"

namespace noetl::sim {

class VirtualTime {
 public:
  VirtualTime(std::uint64_t seed, std::int64_t wall_us);
  ~VirtualTime();

  Clock& clock() { return clock_; }

  // The reactor belongs to us until it is removed. Its tasks are forgotten by `Clear`; what they
  // hold may still use the reactor while it goes away.
  Reactor* Add();
  void Clear(Reactor* reactor);
  void Remove(Reactor* reactor);

  // Runs one task; false when there is neither a task nor a timer.
  bool RunOne();
  // Nobody does anything for this long.
  void Pass(std::int64_t duration_us) { clock_.Advance(duration_us); }
  // Somebody sets the wall clock.
  void StepWall(std::int64_t change_us) { clock_.SetWall(clock_.NowMicros() + change_us); }

 private:
  class Queue;
  Queue& Find(Reactor* reactor);

  SeededRandom random_;
  ManualClock clock_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace noetl::sim
