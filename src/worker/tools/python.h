// The `python` tool kind, with what its tests and the worker's start need besides Tool.
//
// Thread rule as in tool.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/sandbox.h"
#include "worker/tools/python_pools.h"
#include "worker/tools/registry.h"

namespace noetl::worker {

class PythonTool final : public Tool {
 public:
  explicit PythonTool(const ToolSetup& setup);

  std::unique_ptr<Running> Start(ToolCall call, Done done) override;
  // Starts the usual interpreter ahead of the first call. On the worker's thread: the processes
  // end with the thread that started them.
  void Warm() {
    if (!spawns_) pools_.usual().Warm();
  }

  PythonPool& pool() { return pools_.usual(); }

 private:
  ToolSetup setup_;
  std::string interpreter_;
  std::vector<std::string> others_;
  std::string scripts_folder_;
  std::int64_t timeout_ms_default_ = 3'600'000;
  SandboxPolicy policy_;
  bool spawns_ = false;  // a process for each call instead of warm ones
  PythonPools pools_;
};

}  // namespace noetl::worker
