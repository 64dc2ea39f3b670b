// A Python process that has loaded the usual modules and forks children ahead of their calls.
//
// runner.py tells the protocol. Each child is in a process group of its own before it sees a job.
// Children end with their zygote. Lives on the event loop of the worker; destroying it kills all.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/event_loop.h"
#include "base/result.h"
#include "worker/process.h"

namespace noetl::worker {

class PythonZygote;

// A descriptor of the program text of runner.py, the caller's to close; -1: errno says why not.
int OpenRunnerSource();

// A forked child and our ends of its connections.
struct PythonChild {
  PythonZygote* zygote = nullptr;  // nullptr: started by itself
  int pid = 0;
  std::unique_ptr<ProcessGroup> group;
  int channel = -1;
  std::array<int, 2> output = {-1, -1};
  // Of one that is kept from job to job.
  int jobs = 0;
  std::int64_t first_job_us = 0;
  std::int64_t memory_kb = 0;  // after its first job
  Reactor::TimerId timer = 0;

  PythonChild() = default;
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;
  ~PythonChild() { Disconnect(); }
  void Disconnect();
};

class PythonZygote {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnForked(std::unique_ptr<PythonChild> child) = 0;
    virtual void OnForkFailed() = 0;
    // The child is reaped; what it started may live.
    virtual void OnChildExit(PythonZygote* zygote, int pid, int status) = 0;
    // It is dead, and all its children with it. May destroy it.
    virtual void OnZygoteExit(PythonZygote* zygote, std::string errors) = 0;
  };

  PythonZygote(EventLoop* loop, Supervisor* supervisor, Listener* listener)
      : loop_(loop), supervisor_(supervisor), listener_(listener) {}
  ~PythonZygote();
  PythonZygote(const PythonZygote&) = delete;
  PythonZygote& operator=(const PythonZygote&) = delete;

  Status Start(const std::string& interpreter, const std::vector<std::string>& preload);
  // Asks for one more child.
  void Order();
  // OnZygoteExit follows.
  void Kill() const;

  int pid() const { return pid_; }
  bool works() const { return forks_ > 0; }
  int forks() const { return forks_; }
  std::size_t ordered() const { return ordered_.size(); }
  // Children that have not ended, and those ordered.
  std::size_t children() const { return children_ + ordered_.size(); }

 private:
  void OnControl();
  void OnMessage(std::string_view message, std::span<const int> descriptors);
  void OnExit();
  void Close();

  EventLoop* loop_;
  Supervisor* supervisor_;
  Listener* listener_;
  int pid_ = 0;
  int pidfd_ = -1;
  int errors_ = -1;
  int control_ = -1;
  std::string scratch_;
  int forks_ = 0;
  std::size_t children_ = 0;
  std::deque<std::unique_ptr<ProcessGroup>> ordered_;  // the groups of children to come
};

}  // namespace noetl::worker
