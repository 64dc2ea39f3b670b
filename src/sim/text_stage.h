// A world with everything a text test watches: which commands exist, how many were open, and
// whether the log folds to the state the engine has.
//
// Owns the world; refers to the tools it was given. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/state.h"
#include "sim/text_script.h"
#include "sim/world.h"

namespace noetl::sim {

// A command that was issued, and how a test names it.
struct IssuedCommand {
  std::string id;
  std::int64_t execution_id = 0;
  std::string path;  // of the playbook
  std::string step;
  std::int64_t run = 0;
  std::int64_t frame = -1;
  std::int64_t index = -1;
  bool claim = false;

  bool Is(const Place& place, std::string_view main_path) const;
  // "step[2]", with the path in front when it is not that of the main run.
  std::string Text(std::string_view main_path) const;
};

class Stage {
 public:
  Stage(World::Options options, ScriptedTools* tools);

  World& world() { return *world_; }
  const World& world() const { return *world_; }
  const ScriptedTools& tools() const { return *tools_; }
  // Starts the run that the test is about.
  Status Start(std::string_view path, Json input);
  Execution& main() { return world_->Get(main_); }
  const Execution& main() const { return *world_->executions().at(main_); }
  const std::string& main_path() const { return main_path_; }

  // In the order they were issued.
  const std::vector<IssuedCommand>& commands() const { return commands_; }
  std::int64_t MostOpen(const std::string& step) const;
  // Breaches of what must hold in every test.
  const std::vector<std::string>& breaches() const { return breaches_; }
  // Compares the states once more, whatever the length of the log.
  void CheckAtEnd();

 private:
  // The state twice more, made from stored events only: folded from the start, and through a
  // snapshot after every unit.
  struct Shadow {
    engine::State folded;
    engine::State restored;
    std::int64_t units = 0;
  };
  void OnCommit(const Execution& execution, const engine::Unit& unit);
  void Compare(const Execution& execution, const Shadow& shadow);

  ScriptedTools* tools_;
  std::unique_ptr<World> world_;
  std::int64_t main_ = 0;
  std::string main_path_;
  std::vector<IssuedCommand> commands_;
  std::map<std::string, std::int64_t> most_open_;  // of the main run
  std::map<std::int64_t, Shadow> shadows_;
  std::vector<std::string> breaches_;
};

}  // namespace noetl::sim
