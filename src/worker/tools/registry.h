// The tool kinds a worker can run.
//
// One table: kind, how to make it, what it needs. `docs/` and `noetl doctor` print it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/event_loop.h"
#include "base/result.h"
#include "base/settings.h"
#include "worker/process.h"
#include "worker/tool.h"

namespace noetl::worker {

struct ToolSetup {
  EventLoop* loop = nullptr;
  Supervisor* supervisor = nullptr;
  const Settings* settings = nullptr;
};

class Tools {
 public:
  virtual ~Tools() = default;
  // nullptr: no such kind here.
  virtual Tool* Find(std::string_view kind) = 0;
};

class ToolRegistry final : public Tools {
 public:
  explicit ToolRegistry(ToolSetup setup);
  Tool* Find(std::string_view kind) override;
  static std::vector<std::string_view> Kinds();

 private:
  std::map<std::string, std::unique_ptr<Tool>, std::less<>> tools_;
};

std::unique_ptr<Tool> MakeNoop(const ToolSetup& setup);
std::unique_ptr<Tool> MakePython(const ToolSetup& setup);
std::unique_ptr<Tool> MakeShell(const ToolSetup& setup);
std::unique_ptr<Tool> MakeHttp(const ToolSetup& setup);
std::unique_ptr<Tool> MakePostgres(const ToolSetup& setup);

}  // namespace noetl::worker
