// A thread for requests that read a lot: counts, SQL; and for work that can wait. The threads of the
// HTTP server stay free.
//
// Tasks run one after the other in order. The thread begins with the first task. At the end the task
// that runs is waited for; those behind it are let go unrun. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace noetl::api {

class Background {
 public:
  using Task = std::move_only_function<void()>;
  // Tasks that may wait; more would only be answered too late.
  static constexpr std::size_t kWaitingMax = 64;

  Background() = default;
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Waits for the task that runs and lets the others go; nothing can be posted any more. Once is
  // enough, again is harmless.
  void Stop();
  struct Load {
    bool running = false;
    std::size_t waiting = 0;
  };
  Load load() const;
  // False: too many wait. The task is untouched then.
  bool Post(Task& task);
  // Runs the task once, when this has passed, before tasks that wait then. There is one such task:
  // a call while it waits changes nothing.
  void Later(std::chrono::milliseconds delay, Task task);

 private:
  using Time = std::chrono::steady_clock::time_point;

  void Run();
  // The next task: waits for one. Empty: it is time to stop.
  Task Next(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  Task later_;  // null: none
  Time later_at_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace noetl::api
