#include "worker/tools/registry.h"

#include <array>

namespace noetl::worker {
namespace {

struct Kind {
  std::string_view name;
  std::unique_ptr<Tool> (*make)(const ToolSetup& setup);
};

constexpr std::array kKinds = {
    Kind{"noop", MakeNoop}, Kind{"python", MakePython},     Kind{"shell", MakeShell},
    Kind{"http", MakeHttp}, Kind{"postgres", MakePostgres},
};

}  // namespace

ToolRegistry::ToolRegistry(ToolSetup setup) {
  for (const Kind& kind : kKinds) tools_.emplace(kind.name, kind.make(setup));
}

Tool* ToolRegistry::Find(std::string_view kind) {
  const auto found = tools_.find(kind);
  return found == tools_.end() ? nullptr : found->second.get();
}

std::vector<std::string_view> ToolRegistry::Kinds() {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  return names;
}

}  // namespace noetl::worker
