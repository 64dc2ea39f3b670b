// The `python` tool kind, with what its tests and the worker's start need besides Tool.
//
// Thread rule as in tool.h.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "worker/tools/python_pool.h"
#include "worker/tools/registry.h"

namespace noetl::worker {

class PythonTool final : public Tool {
 public:
  explicit PythonTool(const ToolSetup& setup);

  std::unique_ptr<Running> Start(ToolCall call, Done done) override;
  // Starts the usual interpreter ahead of the first call. On the worker's thread: the processes
  // end with the thread that started them.
  void Warm() { PoolOf(interpreter_).Warm(); }

  PythonPool& pool() { return PoolOf(interpreter_); }

 private:
  PythonPool& PoolOf(const std::string& interpreter);

  ToolSetup setup_;
  std::string interpreter_ = "python3";
  std::vector<std::string> others_;
  std::vector<std::string> preload_;
  std::string scripts_folder_;
  std::int64_t timeout_ms_default_ = 3'600'000;
  std::map<std::string, std::unique_ptr<PythonPool>> pools_;
};

}  // namespace noetl::worker
