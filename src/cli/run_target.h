// What `noetl run` is told to run: a file, a name of the catalog, or a step of one of them.
//
// A file brings along the playbooks that it may call: those of its directory, and files that it
// names. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/console.h"
#include "playbook/model.h"

namespace noetl::cli {

struct Target {
  std::string file;  // empty: by name
  std::string name;
  std::int64_t version = 0;  // 0: the newest
  std::string step;          // begins there; empty: where the playbook says
  std::string content;       // of a file, with that beginning
  std::shared_ptr<const playbook::Playbook> playbook;  // of a file
  struct Called {
    std::string path;
    std::string file;
    std::string content;
    std::shared_ptr<const playbook::Playbook> playbook;
  };
  std::vector<Called> called;
};

struct TargetWords {
  std::string name;  // empty: noetl.yaml or main.yaml
  std::int64_t version = 0;
  std::string step;
};
// `load` is for a file that begins where it says, not at a step that was named. Null playbook of a
// file: its problems have been told. Errors have code "usage" or "file".
Result<Target> FindTarget(const TargetWords& words, const playbook::LoadOptions& load,
                          Console& console);

// Paths of sub-playbooks that are written out.
std::vector<std::string> CalledPaths(const playbook::Playbook& playbook);

// Tells of each tool kind that this program cannot run, with its place; false when there is one.
bool ToolsAreKnown(const playbook::Playbook& playbook, const std::string& file, Console& console);
// The same for a file and every playbook that it calls by a path that is written out.
bool CalledToolsAreKnown(const Target& target, Console& console);

// The playbook with another step to begin with. It has a path of its own, "demo/flow.from-deploy",
// so that the whole one stays the newest of its path. Error "usage": there is no such step.
struct Beginning {
  std::string path;
  std::string content;
};
Result<Beginning> BeginAt(const playbook::Playbook& playbook, const std::string& path,
                          const std::string& step);

}  // namespace noetl::cli
