// A Python process that is started for one call.
//
// It runs the same program as a child of a zygote (runner.py, python_zygote.h) and speaks as one.
// Lives on the event loop of the worker; destroying it kills the process.
#pragma once

#include <functional>
#include <memory>

#include "base/event_loop.h"
#include "base/result.h"
#include "worker/process.h"
#include "worker/tools/python_pool.h"
#include "worker/tools/python_zygote.h"

namespace noetl::worker {

class PythonCall {
 public:
  // It is reaped; what it started may live. Status as waitpid gives it. May destroy this.
  using Ended = std::move_only_function<void(int pid, int status)>;

  PythonCall(EventLoop* loop, Supervisor* supervisor) : loop_(loop), supervisor_(supervisor) {}
  ~PythonCall();
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;

  // With the interpreter, confinement and limits of the job. `ended` is called once, later.
  Result<std::unique_ptr<PythonChild>> Start(const PythonJob& job, Ended ended);

 private:
  void OnExit();

  EventLoop* loop_;
  Supervisor* supervisor_;
  Ended ended_;
  bool strict_ = false;
  int pid_ = 0;
  int pidfd_ = -1;
};

}  // namespace noetl::worker
