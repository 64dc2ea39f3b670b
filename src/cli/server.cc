// `noetl server` and `noetl up`: the control plane in this process, until it is told to stop;
// `noetl server start` and `stop`: the same in the background.

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/backend.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/data.h"
#include "cli/parser.h"
#include "cli/pid_file.h"
#include "cli/server_node.h"

namespace noetl::cli {
namespace {

struct Options {
  std::string host;
  std::string port;
  std::string data;
  bool no_worker = false;
  bool insecure = false;
  bool everything = false;  // `up`
  bool init_db = false;
};

// SIGINT and SIGTERM wait for `Wait` instead of ending the process. Before any thread is started:
// they inherit it.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  void Wait() const {
    int signal = 0;
    sigwait(&signals_, &signal);
  }
  // From now on the next one ends the process.
  void LetGo() const { pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); }

 private:
  sigset_t signals_;
};

std::string Greeting(const Options& options, const ServerNode& server,
                     const std::string& directory) {
  std::string text = fmt::format("noetl {} listening on {}\n", VersionNumber(), server.url());
  if (!options.everything) return text;
  return text + fmt::format(
                    "  data       {}\n"
                    "  worker     in this process\n"
                    "  API        {}/openapi.json\n"
                    "Start a run: noetl run examples/tour.yaml --data {}\n"
                    "Stop with Ctrl-C.\n",
                    directory, server.url(), directory);
}

// Overrides from the command line.
std::unique_ptr<Settings> SettingsOf(const Options& options, Console& console) {
  Settings::Variables overrides;
  if (!options.host.empty()) overrides["NOETL_HOST"] = options.host;
  if (!options.port.empty()) overrides["NOETL_PORT"] = options.port;
  return LoadSettings(overrides, console);
}

std::string PidPath(const std::string& directory) { return directory + "/server.pid"; }

int RunServer(const Options& options, Console& console, const Greet& greet) {
  const HeldSignals signals;
  const auto settings = SettingsOf(options, console);
  if (!settings) return kExitInvalid;
  ConfigureLog(LogOptions::From(*settings));
  const std::string directory = DataDirectory(*settings, options.data);
  std::unique_ptr<PidFile> pid_file;  // let go of when the server has ended
  auto server = ServerNode::Open({.directory = directory,
                                  .settings = settings.get(),
                                  .worker = !options.no_worker,
                                  .insecure = options.insecure});
  if (!server) {
    const bool usage = server.error().code == "insecure" || server.error().code == "tls";
    return Complain(options.everything ? "up" : "server", server.error(), console,
                    usage ? kExitInvalid : kExitFailed);
  }
  auto taken = PidFile::Take(PidPath(directory), "server");
  if (taken) pid_file = *std::move(taken);
  else LogWarn("`noetl server stop` will not find this server", {{"error", taken.error().message}});
  greet(Greeting(options, **server, directory));
  signals.Wait();
  signals.LetGo();
  LogInfo("stopping");
  return kExitOk;
}

int RunHere(const Options& options, Console& console) {
  return RunServer(options, console, [&](const std::string& text) { console.Out(text); });
}

int StartServer(const Options& options, Console& console) {
  const auto settings = SettingsOf(options, console);
  if (!settings) return kExitInvalid;
  const std::string directory = DataDirectory(*settings, options.data);
  const auto running = FindService(PidPath(directory));
  if (running && *running) {
    return Complain(
        "server start",
        {"running", fmt::format("a server runs on {} already, process {}; `noetl server "
                                "stop` ends it",
                                directory, (*running)->pid)},
        console);
  }
  return StartInBackground(
      {.what = "server", .log = directory + "/server.log"},
      [&](Console& own, const Greet& greet) { return RunServer(options, own, greet); }, console);
}

Status StopServer(const Options& options, const StopOptions& stop, Console& console) {
  const auto settings = SettingsOf(options, console);
  if (!settings) return Fail("settings", "the settings above are wrong");
  const std::string directory = DataDirectory(*settings, options.data);
  NOETL_ASSIGN(const auto running, FindService(PidPath(directory)));
  if (!running) {
    return Fail("not_found", fmt::format("no server runs on {}; --data DIR names the directory of "
                                         "another one",
                                         directory));
  }
  return StopService("server", PidPath(directory), *running, stop, console);
}

Action DeclareStart(Parser& parser, const std::shared_ptr<Options>& options) {
  // Tables are made and brought up to date whenever a server starts.
  parser.Flag("--init-db", &options->init_db, "does nothing: that happens always").Hidden();
  return [options](Console& console) { return StartServer(*options, console); };
}

Action DeclareStop(Parser& parser, const std::shared_ptr<Options>& options) {
  auto stop = std::make_shared<StopOptions>();
  AddStopOptions(parser, stop.get());
  return [options, stop](Console& console) {
    const Status done = StopServer(*options, *stop, console);
    return done ? kExitOk : Complain("server stop", done.error(), console);
  };
}

void DeclareCommon(Parser& parser, Options* options) {
  parser.Add("--host", &options->host, "address to listen on (default: NOETL_HOST, 127.0.0.1)");
  parser.Add("--port", &options->port,
             "port to listen on (default: NOETL_PORT, 8082); 0 for any free one");
  AddDataOption(parser, &options->data);
  parser.Flag("--insecure", &options->insecure,
              "listen on other addresses than loopback without a token");
}

}  // namespace

Action DeclareServer(Parser& parser) {
  auto options = std::make_shared<Options>();
  DeclareCommon(parser, options.get());
  parser.Flag("--no-worker", &options->no_worker,
              "run no commands in this process: `noetl worker` does");
  return parser
      .Verb("start", "the same in the background; its log is server.log in the data directory",
            [&](Parser& verb) { return DeclareStart(verb, options); })
      .Verb("stop", "end the server of the data directory",
            [&](Parser& verb) { return DeclareStop(verb, options); })
      .VerbAction([options](Console& console) { return RunHere(*options, console); });
}

Action DeclareUp(Parser& parser) {
  auto options = std::make_shared<Options>();
  options->everything = true;
  DeclareCommon(parser, options.get());
  return [options](Console& console) { return RunHere(*options, console); };
}

}  // namespace noetl::cli
