// The commands of the program: one table for dispatch, help and completion.
//
// Each command declares its options on a parser and gives back what to do with them. To add a
// command, write its `Declare...` function and a line in commands.cc.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"

namespace CLI {
class App;
}

namespace noetl::cli {

// Runs a command whose options have been read; gives the exit code.
using Action = std::function<int(Console&)>;

struct Command {
  std::string_view name;
  std::string_view summary;   // one line
  std::string_view examples;  // shown below the options
  Action (*declare)(CLI::App& app);
  bool hidden = false;  // works, but is not told of
};
std::span<const Command> Commands();

Action DeclareUp(CLI::App& app);
Action DeclareServer(CLI::App& app);
Action DeclareWorker(CLI::App& app);
Action DeclareRun(CLI::App& app);
Action DeclareResume(CLI::App& app);
Action DeclareValidate(CLI::App& app);
Action DeclareFormat(CLI::App& app);
Action DeclareTest(CLI::App& app);
Action DeclareGraph(CLI::App& app);
Action DeclareSimulate(CLI::App& app);
Action DeclareExecutions(CLI::App& app);
Action DeclareShow(CLI::App& app);
Action DeclareEvents(CLI::App& app);
Action DeclareLogs(CLI::App& app);
Action DeclareCancel(CLI::App& app);
Action DeclareStatus(CLI::App& app);
Action DeclareRerun(CLI::App& app);
Action DeclareCleanup(CLI::App& app);
Action DeclareRegister(CLI::App& app);
Action DeclareCatalog(CLI::App& app);
Action DeclareCredential(CLI::App& app);
Action DeclareQuery(CLI::App& app);
Action DeclareWorkers(CLI::App& app);
Action DeclareDb(CLI::App& app);
Action DeclareContext(CLI::App& app);
Action DeclareAuth(CLI::App& app);
Action DeclareExecute(CLI::App& app);
Action DeclareGet(CLI::App& app);
Action DeclareList(CLI::App& app);
Action DeclareBackup(CLI::App& app);
Action DeclareRestore(CLI::App& app);
Action DeclareDoctor(CLI::App& app);
Action DeclarePurge(CLI::App& app);
Action DeclareVerify(CLI::App& app);
Action DeclareSchema(CLI::App& app);
Action DeclareVersion(CLI::App& app);
Action DeclareCompletion(CLI::App& app);

// "noetl 0.1.0 (compiler, build type)".
std::string VersionText();
// "0.1.0".
std::string VersionNumber();

// The whole program: arguments without the program's name, exit code back.
int RunProgram(const std::vector<std::string>& arguments, Console& console);

}  // namespace noetl::cli
