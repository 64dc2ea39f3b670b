#include "cli/command.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/parser.h"

namespace noetl::cli {
namespace {

constexpr auto kCommands = std::to_array<Command>({
    {"run", "run a playbook, here or on a server (alias: exec)",
     "  noetl run flow.yaml\n"
     "  noetl run flow.yaml --set limit=3 --input input.json\n"
     "  noetl run demo/flow@2 --json | jq .result\n"
     "  noetl run deploy               # a step of ./noetl.yaml\n"
     "  noetl run flow.yaml -r distributed --watch",
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
    {"status", "say how a run of a server is",
     "  noetl status 653912087445667840\n"
     "  noetl status last --json | jq -r .status",
     DeclareStatus},
    {"rerun", "start a run of a server again, with its input and changes to it",
     "  noetl rerun 653912087445667840\n"
     "  noetl rerun last --set limit=3 --watch",
     DeclareRerun},
    {"register", "put playbooks and credentials of files into a server",
     "  noetl register flow.yaml\n"
     "  noetl register playbooks/\n"
     "  noetl register credential -f pg.json",
     DeclareRegister},
    {"catalog", "the documents of a server and their versions",
     "  noetl catalog list playbook\n"
     "  noetl catalog get demo/flow@2 > flow.yaml\n"
     "  noetl catalog versions demo/flow",
     DeclareCatalog},
    {"credential", "secrets that a server keeps for playbooks",
     "  noetl credential list\n"
     "  noetl credential create pg_demo --type postgres --data - < pg.json\n"
     "  noetl credential get pg_demo --json | jq -r .data.db_user",
     DeclareCredential},
    {"query", "read the tables of a server with SQL, when it allows that",
     "  noetl query 'SELECT status, count(*) AS n FROM noetl.execution GROUP BY status'",
     DeclareQuery},
    {"workers", "list the workers of a server", "  noetl workers", DeclareWorkers},
    {"cleanup", "cancel runs of a server on which nobody works any more",
     "  noetl cleanup --dry-run\n"
     "  noetl cleanup --older-than-minutes 60",
     DeclareCleanup},
    {"db", "look after the tables of a server",
     "  noetl db validate\n"
     "  noetl db init",
     DeclareDb},
    {"context", "servers by name, and which one is meant",
     "  noetl context add prod --server-url https://noetl.example.com --runtime distributed\n"
     "  noetl context init team --from-gateway https://gateway.example.com\n"
     "  noetl context use prod\n"
     "  noetl --context prod executions",
     DeclareContext},
    {"auth", "log in at a server, and out",
     "  noetl auth login --token - < token.txt\n"
     "  noetl auth logout",
     DeclareAuth},
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
    {"up", "start everything on this machine: server, worker and page (alias: dev)",
     "  noetl up\n"
     "  noetl up --port 9000 --data runs",
     DeclareUp},
    {"server", "start the control plane: the HTTP API, and a worker unless told otherwise",
     "  noetl server\n"
     "  noetl server --no-worker --port 8082\n"
     "  noetl server start --data runs && noetl server stop --data runs\n"
     "  NOETL_API_TOKEN=... noetl server --host 0.0.0.0",
     DeclareServer},
    {"worker", "run commands of a server in this process",
     "  noetl worker --server http://10.0.0.5:8082\n"
     "  noetl worker --pool gpu --pool shared --slots 16 --name gpu-1 --state "
     "/var/lib/noetl/gpu-1\n"
     "  noetl worker start --name spare && noetl worker stop --name spare",
     DeclareWorker},
    {"subscribe", "start a run for each message of a NATS stream or a Pub/Sub subscription",
     "  noetl subscribe orders.subscription.yaml\n"
     "  noetl subscribe subscriptions/orders --server-url http://10.0.0.5:8082\n"
     "  noetl subscribe orders.subscription.yaml --dispatch local --idle-exit 10s | jq .event_type",
     DeclareSubscribe},
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
    {"execute", "start runs of a server, and look at them",
     "  noetl execute status 653912087445667840", DeclareExecute, true},
    {"get", "print one thing of a server", "  noetl get credential pg_demo", DeclareGet, true},
    {"list", "list the catalog of a server", "  noetl list playbook", DeclareList, true},
});

// Options that may stand before the command. Those of the server are handed on to commands that
// know them; the others do without a server.
struct GlobalOption {
  std::string_view name;
  bool value;
};
constexpr auto kGlobalOptions = std::to_array<GlobalOption>({{"--server-url", true},
                                                             {"--host", true},
                                                             {"--port", true},
                                                             {"-p", true},
                                                             {"--context", true},
                                                             {"--session-token", true},
                                                             {"--gateway", false},
                                                             {"--no-color", false}});

struct Given {
  std::vector<std::string> words;  // "--port", "8082"
};

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 invalid playbook or wrong usage, 3 cancelled, 4 waited too "
    "long, "
    "5 server not reachable, 77 login needed, 130 left with a second Ctrl-C.";

std::string Overview() {
  std::string text =
      "noetl - durable workflows from YAML playbooks\n\nUsage: noetl [--context NAME | "
      "--server-url "
      "URL] [--no-color] COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    if (!command.hidden) text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  }
  return text +
         fmt::format("\n`noetl COMMAND --help` tells more, with examples.\n{}\n", kExitCodes);
}

int UnknownCommand(const std::string& name, Console& console) {
  std::vector<std::string_view> names = {"help"};
  for (const Command& command : kCommands) {
    if (!command.hidden) names.push_back(command.name);
  }
  const auto near = NearestName(name, names);
  console.Err(fmt::format(
      "noetl: there is no command '{}'{}\n", name,
      near ? fmt::format("; did you mean '{}'?", *near) : "; `noetl --help` lists them"));
  return kExitInvalid;
}

// The parser of the verb that comes next; null: the command has none.
const Parser* VerbOf(const Parser& parser, const std::vector<std::string>& arguments) {
  for (const Parser* verb : parser.verbs()) {
    if (!arguments.empty() && verb->name() == arguments[0]) return verb;
  }
  return nullptr;
}

// Global options that were given before the command, for the command's own parser or its verb's.
void HandOn(const std::vector<Given>& given, const Parser& parser,
            std::vector<std::string>* arguments) {
  const Parser* const verb = VerbOf(parser, *arguments);
  std::vector<std::string> known;
  std::vector<std::string> known_to_verb;
  for (const Given& option : given) {
    const bool own = parser.HasOption(option.words[0]);
    const bool verbs = !own && verb && verb->HasOption(option.words[0]);
    std::vector<std::string>& list = verbs ? known_to_verb : known;
    if (own || verbs) list.insert(list.end(), option.words.begin(), option.words.end());
  }
  if (verb) {
    arguments->insert(arguments->begin() + 1, known_to_verb.begin(), known_to_verb.end());
  }
  arguments->insert(arguments->begin(), known.begin(), known.end());
}

int RunCommand(const Command& command, const std::vector<Given>& given,
               std::vector<std::string> arguments, Console& console) {
  Parser parser(command.summary, fmt::format("noetl {}", command.name));
  parser.Flag("--no-color", [&console] { console.DropColours(); }, "plain text").Hidden();
  const Action action = command.declare(parser);
  HandOn(given, parser, &arguments);
  const auto asked = parser.Parse(std::move(arguments));
  if (!asked) {
    console.Err(fmt::format("noetl {}: {}\nSee `noetl {} --help`.\n", command.name,
                            asked.error().message, command.name));
    return kExitInvalid;
  }
  if (*asked == Parser::Asked::kHelp) {
    console.Out(
        fmt::format("{}\nExamples:\n{}\n\n{}\n", parser.Help(), command.examples, kExitCodes));
    return kExitOk;
  }
  return action(console);
}

}  // namespace

std::span<const Command> Commands() { return kCommands; }

namespace {

// Takes the global options from the front; false: one of them lacks its value.
bool TakeGlobals(std::vector<std::string>* arguments, std::vector<Given>* given) {
  while (!arguments->empty()) {
    const std::string& word = arguments->front();
    const std::size_t equals = word.find('=');
    const auto* option =
        std::ranges::find(kGlobalOptions, word.substr(0, equals), &GlobalOption::name);
    if (option == kGlobalOptions.end()) return true;
    const std::size_t words = option->value && equals == std::string::npos ? 2 : 1;
    if (arguments->size() < words) return false;
    Given taken{{std::string(option->name)}};
    if (equals != std::string::npos) taken.words.push_back(word.substr(equals + 1));
    if (words == 2) taken.words.push_back((*arguments)[1]);
    given->push_back(std::move(taken));
    arguments->erase(arguments->begin(), arguments->begin() + static_cast<std::ptrdiff_t>(words));
  }
  return true;
}

}  // namespace

int RunProgram(const std::vector<std::string>& words, Console& console) {
  std::vector<std::string> arguments = words;
  std::vector<Given> given;
  if (!TakeGlobals(&arguments, &given) || arguments.empty()) {
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
  if (name == "exec") name = "run";
  if (name == "dev") name = "up";
  for (const Command& command : kCommands) {
    if (command.name == name) return RunCommand(command, given, std::move(rest), console);
  }
  return UnknownCommand(name, console);
}

}  // namespace noetl::cli
