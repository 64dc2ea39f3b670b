// A thread for requests that read a lot: counts, SQL. The threads of the HTTP server stay free.
//
// Tasks run one after the other in order. The thread begins with the first task. At the end the task
// that runs is waited for; those behind it are let go unrun. Any thread.
#pragma once

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

 private:
  void Run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace noetl::api
