// The commands of the program: one table for dispatch, help and completion.
//
// Each command declares its options on a parser and gives back what to do with them. To add a
// command, write its `Declare...` function and a line in commands.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/parser.h"

namespace noetl::cli {

struct Command {
  std::string_view name;
  std::string_view summary;   // one line
  std::string_view examples;  // shown below the options
  Action (*declare)(Parser& parser);
  bool hidden = false;  // works, but is not told of
};
std::span<const Command> Commands();

Action DeclareUp(Parser& parser);
Action DeclareServer(Parser& parser);
Action DeclareWorker(Parser& parser);
Action DeclareSubscribe(Parser& parser);
Action DeclareRun(Parser& parser);
Action DeclareResume(Parser& parser);
Action DeclareValidate(Parser& parser);
Action DeclareFormat(Parser& parser);
Action DeclareTest(Parser& parser);
Action DeclareGraph(Parser& parser);
Action DeclareSimulate(Parser& parser);
Action DeclareExecutions(Parser& parser);
Action DeclareShow(Parser& parser);
Action DeclareEvents(Parser& parser);
Action DeclareLogs(Parser& parser);
Action DeclareCancel(Parser& parser);
Action DeclareStatus(Parser& parser);
Action DeclareRerun(Parser& parser);
Action DeclareCleanup(Parser& parser);
Action DeclareRegister(Parser& parser);
Action DeclareCatalog(Parser& parser);
Action DeclareCredential(Parser& parser);
Action DeclareQuery(Parser& parser);
Action DeclareWorkers(Parser& parser);
Action DeclareDb(Parser& parser);
Action DeclareContext(Parser& parser);
Action DeclareAuth(Parser& parser);
Action DeclareExecute(Parser& parser);
Action DeclareGet(Parser& parser);
Action DeclareList(Parser& parser);
Action DeclareBackup(Parser& parser);
Action DeclareRestore(Parser& parser);
Action DeclareDoctor(Parser& parser);
Action DeclarePurge(Parser& parser);
Action DeclareVerify(Parser& parser);
Action DeclareSchema(Parser& parser);
Action DeclareVersion(Parser& parser);
Action DeclareCompletion(Parser& parser);

// "noetl 0.1.0 (compiler, build type)".
std::string VersionText();
// "0.1.0".
std::string VersionNumber();

// The whole program: arguments without the program's name, exit code back.
int RunProgram(const std::vector<std::string>& arguments, Console& console);

}  // namespace noetl::cli
