#include "cli/command.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/text.h"

namespace noetl::cli {
namespace {

constexpr std::array<Command, 20> kCommands = {{
    {"run", "run a playbook here, show how it goes and print its result",
     "  noetl run flow.yaml\n"
     "  noetl run flow.yaml --set limit=3 --input input.json\n"
     "  noetl run demo/flow@2 --json | jq .result",
     DeclareRun},
    {"resume", "continue runs that were interrupted, and wait for them",
     "  noetl resume\n"
     "  noetl resume 653912087445667840",
     DeclareResume},
    {"executions", "list runs, newest first (alias: ls)",
     "  noetl executions\n"
     "  noetl executions --status failed --since 2h\n"
     "  noetl executions --path 'billing/*' --all --json",
     DeclareExecutions},
    {"show", "show one run: steps, open commands, errors, why it failed, its result",
     "  noetl show last\n"
     "  noetl show 667840              # the end of an id\n"
     "  noetl show last --result | jq .total",
     DeclareShow},
    {"events", "print the log of a run, one line for each event",
     "  noetl events last -f\n"
     "  noetl events 667840 --type 'command.*' --step fetch\n"
     "  noetl events last --json | jq -r .event_type",
     DeclareEvents},
    {"logs", "print what the tools of a run wrote",
     "  noetl logs last\n"
     "  noetl logs 667840 fetch -f",
     DeclareLogs},
    {"cancel", "stop a run and what it started",
     "  noetl cancel last\n"
     "  noetl cancel 667840 --reason 'wrong input'",
     DeclareCancel},
    {"verify", "recompute the hash chain of one run or of all",
     "  noetl verify last\n"
     "  noetl verify",
     DeclareVerify},
    {"backup", "copy the data directory into a file while it is in use", "  noetl backup monday.db",
     DeclareBackup},
    {"restore", "make a data directory from a backup", "  noetl restore monday.db --data restored",
     DeclareRestore},
    {"purge", "remove runs that have ended",
     "  noetl purge --older-than 30d --dry-run\n"
     "  noetl purge 667840",
     DeclarePurge},
    {"doctor", "look for problems of this machine and of the data directory",
     "  noetl doctor\n"
     "  noetl doctor --json",
     DeclareDoctor},
    {"validate", "report every problem of playbooks, with line, column and a way out",
     "  noetl validate flow.yaml\n"
     "  noetl validate --strict playbooks/\n"
     "  cat flow.yaml | noetl validate - --json",
     DeclareValidate},
    {"fmt", "print playbooks in canonical form",
     "  noetl fmt flow.yaml\n"
     "  noetl fmt --write playbooks/\n"
     "  noetl fmt --check playbooks/   # for CI: exit code 1 when a file differs",
     DeclareFormat},
    {"test", "run tests of playbooks that are written as text",
     "  noetl test flow.test\n"
     "  noetl test tests/",
     DeclareTest},
    {"graph", "draw the steps and arcs of a playbook",
     "  noetl graph flow.yaml\n"
     "  noetl graph flow.yaml --svg flow.svg",
     DeclareGraph},
    {"simulate", "run a playbook on a virtual clock under faults, once per seed",
     "  noetl simulate flow.yaml --seeds 1..200\n"
     "  noetl simulate flow.yaml --seeds 17            # one run again\n"
     "  noetl simulate flow.yaml --set limit=3 --script answers.txt --json",
     DeclareSimulate},
    {"schema", "print the JSON schema of playbooks, for editors",
     "  noetl schema > noetl-schema.json", DeclareSchema},
    {"version", "print the version, the compiler and the build type", "  noetl version",
     DeclareVersion},
    {"completion", "print a completion script for a shell",
     "  noetl completion bash > /etc/bash_completion.d/noetl\n"
     "  source <(noetl completion zsh)\n"
     "  noetl completion fish > ~/.config/fish/completions/noetl.fish",
     DeclareCompletion},
}};

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 invalid playbook or wrong usage, 3 cancelled, 130 left with a "
    "second Ctrl-C.";

std::string Overview() {
  std::string text =
      "noetl - durable workflows from YAML playbooks\n\nUsage: noetl COMMAND "
      "[OPTIONS]\n\nCommands:\n";
  for (const Command& command : kCommands)
    text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  return text +
         fmt::format("\n`noetl COMMAND --help` tells more, with examples.\n{}\n", kExitCodes);
}

std::string HelpOf(const CLI::App& app, const Command& command) {
  return fmt::format("{}\nExamples:\n{}\n\n{}\n", app.help(), command.examples, kExitCodes);
}

int UnknownCommand(const std::string& name, Console& console) {
  std::vector<std::string_view> names = {"help"};
  for (const Command& command : kCommands) names.push_back(command.name);
  const auto near = NearestName(name, names);
  console.Err(fmt::format(
      "noetl: there is no command '{}'{}\n", name,
      near ? fmt::format("; did you mean '{}'?", *near) : "; `noetl --help` lists them"));
  return kExitInvalid;
}

int RunCommand(const Command& command, std::vector<std::string> arguments, Console& console) {
  CLI::App app(std::string(command.summary), fmt::format("noetl {}", command.name));
  app.get_formatter()->label("TEXT", "");
  const Action action = command.declare(app);
  try {
    std::ranges::reverse(arguments);
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    console.Out(HelpOf(app, command));
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    console.Err(fmt::format("noetl {}: {}\nSee `noetl {} --help`.\n", command.name, error.what(),
                            command.name));
    return kExitInvalid;
  }
  return action(console);
}

}  // namespace

std::span<const Command> Commands() { return kCommands; }

int RunProgram(const std::vector<std::string>& arguments, Console& console) {
  if (arguments.empty()) {
    console.Err(Overview());
    return kExitInvalid;
  }
  std::string name = arguments[0];
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "--version" || name == "-V") name = "version";
  if (name == "--help" || name == "-h" || name == "help") {
    if (rest.empty()) {
      console.Out(Overview());
      return kExitOk;
    }
    name = rest[0];
    rest = {"--help"};
  }
  if (name == "ls") name = "executions";
  for (const Command& command : kCommands) {
    if (command.name == name) return RunCommand(command, std::move(rest), console);
  }
  return UnknownCommand(name, console);
}

}  // namespace noetl::cli
