// The warm Python processes of a worker: one pool for each interpreter that its calls name.
//
// The usual interpreter has a pool from the start to the end. Others get one with their first
// call, up to a number of pools; one that was not used for a while ends, and so does one without
// jobs when another interpreter needs the place. Lives on the event loop of the worker; destroying
// it kills all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "worker/process.h"
#include "worker/tools/python_pool.h"

namespace noetl::worker {

// Besides the usual one. A zygote with its spare children takes about 40 MB.
inline constexpr std::size_t kOtherPythonsMax = 4;
// A loop over a step comes back sooner.
inline constexpr std::int64_t kOtherPythonIdleUs = 120'000'000;

class PythonPools {
 public:
  PythonPools(EventLoop* loop, Supervisor* supervisor, std::string usual,
              std::vector<std::string> preload, std::size_t others_max = kOtherPythonsMax,
              std::int64_t idle_us = kOtherPythonIdleUs);
  ~PythonPools();
  PythonPools(const PythonPools&) = delete;
  PythonPools& operator=(const PythonPools&) = delete;

  PythonPool& usual() { return usual_; }
  // The pool of an interpreter, to be used before the loop goes on. nullptr: there is no place for
  // it now; its call has to start a process of its own.
  PythonPool* Find(const std::string& interpreter);
  std::size_t others() const { return others_.size(); }

 private:
  struct Other {
    std::unique_ptr<PythonPool> pool;
    std::int64_t used_us = 0;
  };
  using Others = std::map<std::string, Other>;

  bool MakePlace();
  void Remove(Others::iterator at);
  void Watch();

  EventLoop* loop_;
  Supervisor* supervisor_;
  std::string usual_name_;
  std::vector<std::string> preload_;
  std::size_t others_max_;
  std::int64_t idle_us_;
  PythonPool usual_;
  Others others_;
  // Those that end as soon as nobody is in the middle of a call into them.
  std::vector<std::unique_ptr<PythonPool>> ending_;
  Reactor::TimerId end_ = 0;
  Reactor::TimerId watch_ = 0;
};

}  // namespace noetl::worker
