// Python processes that are ready before they are needed.
//
// For one interpreter: a zygote (python_zygote.h) and children that it forked ahead of their calls.
// A job takes one of them and uses it up, so calls share nothing; with a `reuse_key` the child
// stays for the next job of the same key, up to a number of jobs, an age and a growth. A job may
// also ask for a process that is started for it (python_call.h): slower by far, but it can be any
// interpreter and confined in any way. The zygote starts with the first job or with `Warm`; it is
// replaced after a number of forks, and when it was lost: jobs that ran at that moment end as
// kLost. A pool without jobs wakes nobody. Lives on the event loop of the worker; destroying it
// kills all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/event_loop.h"
#include "worker/process.h"
#include "worker/tool.h"

namespace noetl::worker {

struct PythonJob {
  std::string body;  // JSON
  ProcessLimits limits;
  std::string reuse_key;  // empty: a child of its own
  // The interpreter to start for it, and how that is confined; empty: a child of the zygote.
  std::string interpreter;
  Confinement confinement;
  std::function<void(OutputStream, std::string_view)> output;
};

enum class PythonEnding : std::uint8_t {
  kReplied,
  kDied,  // without a reply
  kTimedOut,
  kStopped,
  kMemory,      // killed for using too much
  kProcesses,   // killed for starting too many
  kLost,        // the zygote was lost; may be tried again
  kCannotStart  // there is no such interpreter, or it does not run
};

struct PythonEnd {
  PythonEnding ending = PythonEnding::kReplied;
  std::string reply;    // JSON
  std::string message;  // kLost, kCannotStart
  std::string code;     // of the error that is behind kCannotStart, when there is one
  int status = 0;       // kDied, as waitpid gives it
  std::string stdout_text;
  std::string stderr_text;
};

// A zygote's memory becomes ragged with its forks; another one takes its place after so many.
inline constexpr int kPythonForksMax = 1'000;

class PythonPool {
 public:
  using Ended = std::move_only_function<void(PythonEnd)>;

  PythonPool(EventLoop* loop, Supervisor* supervisor, std::string interpreter,
             std::vector<std::string> preload, int forks_max = kPythonForksMax);
  ~PythonPool();
  PythonPool(const PythonPool&) = delete;
  PythonPool& operator=(const PythonPool&) = delete;

  // Starts the zygote and its first children, so that the first job finds them.
  void Warm();
  // Destroying the result kills the job, and `ended` is never called.
  std::unique_ptr<Running> Start(PythonJob job, Ended ended);

  std::size_t spares() const;
  int zygote_pid() const;  // of the one that forks; 0: not started
  // Neither jobs nor remains of jobs.
  bool idle() const;

 private:
  class Impl;
  class Run;
  class Handle;
  std::unique_ptr<Impl> impl_;
};

}  // namespace noetl::worker
