// The production reactor: one thread, its queue, its timers and the file descriptors it watches.
//
// `Run` serves until `Stop`; while nothing is to do it sleeps in the kernel and wakes for nothing.
// Tasks, timers and descriptor callbacks all run on the thread inside `Run`. `Post` and `Stop` may
// be called from any thread; everything else from the loop's own thread, or before `Run`.
#pragma once

#include <cstdint>
#include <memory>

#include "base/reactor.h"

namespace noetl {

class EventLoop final : public Reactor {
 public:
  enum Interest : unsigned { kReadable = 1, kWritable = 2 };
  // Told which of the interests are met; errors and hang-ups count as both.
  using Ready = std::move_only_function<void(unsigned ready)>;

  EventLoop();
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Serves tasks until `Stop`. Tasks that were posted before the stop still run; timers do not.
  void Run();
  // Serves what is ready now without waiting; gives the number of callbacks that ran.
  std::size_t Poll();
  void Stop();

  void Post(Task task) override;
  TimerId After(std::int64_t delay_us, Task task) override;
  void CancelTimer(TimerId timer) override;

  // Calls `ready` each time the descriptor is ready (level triggered), until `Unwatch`. Watching a
  // descriptor again replaces interest and callback. The callback may unwatch or replace itself.
  // The descriptor stays the caller's: unwatch before closing it.
  void Watch(int descriptor, unsigned interest, Ready ready);
  void Unwatch(int descriptor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace noetl
