#include "api/background.h"

#include <utility>

namespace noetl::api {

Background::~Background() { Stop(); }

void Background::Stop() {
  std::deque<Task> left;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(tasks_);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Background::Post(Task& task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || tasks_.size() >= kWaitingMax) return false;
    tasks_.push_back(std::move(task));
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_one();
  return true;
}

void Background::Later(std::chrono::milliseconds delay, Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || later_) return;
    later_ = std::move(task);
    later_at_ = std::chrono::steady_clock::now() + delay;
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_one();
}

Background::Task Background::Next(std::unique_lock<std::mutex>& lock) {
  while (!stopping_) {
    if (later_ && std::chrono::steady_clock::now() >= later_at_)
      return std::exchange(later_, nullptr);
    if (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      return task;
    }
    if (later_) changed_.wait_until(lock, later_at_);
    else changed_.wait(lock);
  }
  return nullptr;
}

void Background::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    {
      Task task = Next(lock);
      if (!task) return;
      running_ = true;
      lock.unlock();
      task();
    }  // let go before the lock is taken: its end may answer a call
    lock.lock();
    running_ = false;
  }
}

Background::Load Background::load() const {
  const std::lock_guard lock(mutex_);
  return {running_, tasks_.size()};
}

}  // namespace noetl::api
