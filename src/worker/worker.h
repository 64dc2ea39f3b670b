// The worker: runs the commands it is given and reports how they ended.
//
// One worker holds many commands at once; each is a `CommandRun` (command_run.h), a small state
// machine over tool calls, delays and stored bodies. The worker lives on one reactor and never
// blocks it. It learns of commands through its `bus::WorkerEnd`, which may be called from any
// thread, and speaks through the `bus::ServerEnd` it was given. The same code serves one process, a
// remote worker and the simulation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/reactor.h"
#include "bus/link.h"
#include "engine/pipeline.h"
#include "worker/tool.h"
#include "worker/tools/registry.h"

namespace noetl::worker {

struct WorkerOptions {
  std::string worker_id = "local";
  // Declared nowhere: how long one tool call may take.
  std::int64_t call_timeout_ms = 3'600'000;
  // The most that a tool call may declare; 0: any.
  std::int64_t declared_timeout_ms_max = 0;
  // Task runs in one pipeline.
  std::int64_t task_runs_max = engine::kTaskRunsMaxDefault;
  // A keychain name that is not there fails the step in every profile.
  bool keychain_strict = false;
  // Tool calls of one kind at once; others wait for their turn. Kinds not named: no limit.
  std::map<std::string, int, std::less<>> calls_max;
  // Text of tool processes is sent on when this much has gathered or this long after it came.
  std::int64_t log_flush_bytes = 32 << 10;
  std::int64_t log_flush_ms = 200;
  // More text of one command and stream is not kept (head and tail are).
  std::int64_t log_bytes_max = 8 << 20;
};

class Worker final : public bus::WorkerEnd {
 public:
  // `reactor`, `clock`, `ids`, `tools` and `server` outlive the worker.
  Worker(WorkerOptions options, Reactor* reactor, Clock* clock, IdSource* ids, Tools* tools,
         bus::ServerEnd* server);
  // On the reactor's thread, or when it does not run any more. Tools that still run are killed.
  ~Worker() override;

  void Run(std::vector<bus::Grant> grants) override;
  void Stop(std::vector<std::string> command_ids) override;

  // On the reactor's thread: asks all tools to stop, as if their commands were cancelled; `idle` is
  // called when none runs any more.
  void StopAll(std::move_only_function<void()> idle);
  std::size_t running() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace noetl::worker
