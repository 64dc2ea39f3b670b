// `noetl server` and `noetl up`: the control plane in this process, until it is told to stop.

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/backend.h"
#include "cli/command.h"
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

int RunServer(const Options& options, Console& console) {
  const HeldSignals signals;
  Settings::Variables overrides;
  if (!options.host.empty()) overrides["NOETL_HOST"] = options.host;
  if (!options.port.empty()) overrides["NOETL_PORT"] = options.port;
  const auto settings = LoadSettings(overrides, console);
  if (!settings) return kExitInvalid;
  ConfigureLog(LogOptions::From(*settings));
  const std::string directory = DataDirectory(*settings, options.data);
  auto server = ServerNode::Open({.directory = directory,
                                  .settings = settings.get(),
                                  .worker = !options.no_worker,
                                  .insecure = options.insecure});
  if (!server) {
    console.Err(fmt::format("noetl {}: {}\n", options.everything ? "up" : "server",
                            Advice(server.error())));
    const bool usage = server.error().code == "insecure" || server.error().code == "tls";
    return usage ? kExitInvalid : kExitFailed;
  }
  console.Out(Greeting(options, **server, directory));
  signals.Wait();
  signals.LetGo();
  LogInfo("stopping");
  return kExitOk;
}

void DeclareCommon(CLI::App& app, Options* options) {
  app.add_option("--host", options->host, "address to listen on (default: NOETL_HOST, 127.0.0.1)");
  app.add_option("--port", options->port,
                 "port to listen on (default: NOETL_PORT, 8082); 0 for any free one");
  app.add_option("--data", options->data,
                 "the data directory (default: NOETL_DATA_DIR, else .noetl)")
      ->type_name("DIR");
  app.add_flag("--insecure", options->insecure,
               "listen on other addresses than loopback without a token");
}

}  // namespace

Action DeclareServer(CLI::App& app) {
  auto options = std::make_shared<Options>();
  DeclareCommon(app, options.get());
  app.add_flag("--no-worker", options->no_worker,
               "run no commands in this process: `noetl worker` does");
  return [options](Console& console) { return RunServer(*options, console); };
}

Action DeclareUp(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->everything = true;
  DeclareCommon(app, options.get());
  return [options](Console& console) { return RunServer(*options, console); };
}

}  // namespace noetl::cli
