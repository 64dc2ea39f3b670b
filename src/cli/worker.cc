// `noetl worker`: runs commands of a server in this process until it is told to stop; `noetl worker
// start` and `stop`: the same in the background.

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/sha256.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/data.h"
#include "cli/node.h"
#include "cli/parser.h"
#include "cli/pid_file.h"
#include "worker/process.h"
#include "worker/remote/link.h"
#include "worker/remote/status_page.h"
#include "worker/sandbox.h"
#include "worker/tools/registry.h"
#include "worker/worker.h"

namespace noetl::cli {
namespace {

// Workers on one machine that share a folder for their state.
constexpr int kStateFoldersMax = 64;
constexpr int kExitLeft = 130;  // a second signal

struct Options {
  std::string server;
  std::vector<std::string> pools;
  int slots = 0;
  std::string name;
  std::string state;
};

// SIGINT and SIGTERM as something a loop can watch. Before any thread is started: they inherit it.
class SignalWatch {
 public:
  SignalWatch() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    NOETL_CHECK(descriptor_ >= 0, "no signalfd");
  }
  ~SignalWatch() { close(descriptor_); }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int descriptor() const { return descriptor_; }
  // How many have come since the last call.
  int Take() const {
    int count = 0;
    signalfd_siginfo info;
    while (read(descriptor_, &info, sizeof(info)) == sizeof(info)) ++count;
    return count;
  }

 private:
  int descriptor_ = -1;
};

std::string HostName() {
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "localhost";
}

// Readable in logs and unlike any other.
std::string NewWorkerId() {
  std::array<unsigned char, 4> random;
  crypto::RandomBytes(random);
  return fmt::format("{}-{}-{}", HostName(), getpid(), HexText(crypto::AsText(random)));
}

Result<std::shared_ptr<const worker::HttpTls>> TlsOf(const Settings& settings) {
  const worker::HttpTls tls{.authority_file = settings.Text("NOETL_TLS_CA"),
                            .certificate_file = settings.Text("NOETL_TLS_CLIENT_CERT"),
                            .key_file = settings.Text("NOETL_TLS_CLIENT_KEY")};
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    return Fail("settings", "NOETL_TLS_CLIENT_CERT and NOETL_TLS_CLIENT_KEY: set both or neither");
  }
  return std::make_shared<const worker::HttpTls>(tls);
}

Result<worker::RemoteOptions> RemoteOptionsOf(const Settings& settings) {
  worker::RemoteOptions options;
  options.server.url = settings.Text("NOETL_SERVER_URL");
  options.server.token = settings.Text("NOETL_INTERNAL_API_TOKEN");
  NOETL_ASSIGN(options.server.tls, TlsOf(settings));
  const std::string& name = settings.Text("WORKER_ID");
  options.worker_id = name.empty() ? NewWorkerId() : name;
  options.pool_name = settings.Text("WORKER_POOL_NAME");
  options.pools = settings.List("NOETL_WORKER_POOLS");
  for (const std::string_view kind : worker::ToolRegistry::Kinds())
    options.tools.emplace_back(kind);
  options.hostname = HostName();
  options.version = VersionNumber();
  options.slots = static_cast<int>(settings.Int("WORKER_MAX_CONCURRENT"));
  options.sealed_credentials = settings.Bool("NOETL_SEALED_CREDENTIALS");
  options.sandbox_level = static_cast<int>(worker::SandboxPolicy::Of(&settings).level);
  options.heartbeat_ms = settings.DurationMs("WORKER_HEARTBEAT_INTERVAL");
  options.drain_ms = settings.DurationMs("NOETL_WORKER_DRAIN_TIMEOUT_SECONDS");
  return options;
}

// Workers that are given the same folder use folders in it, from the second on.
std::string StateFolder(const std::string& state, int number) {
  return number == 1 ? state : fmt::format("{}/{}", state, number);
}

std::string PidPath(const std::string& folder) { return folder + "/worker.pid"; }

// A worker with its tools and its server, on the thread that runs it.
class RemoteNode {
 public:
  static Result<std::unique_ptr<RemoteNode>> Open(const Settings& settings);
  ~RemoteNode();
  RemoteNode(const RemoteNode&) = delete;
  RemoteNode& operator=(const RemoteNode&) = delete;

  // Serves until it has been told to end; the reason when it could not begin.
  Status Run(const SignalWatch& signals, const Greet& greet);

 private:
  RemoteNode() = default;
  Status OpenLink(worker::RemoteOptions options, const std::string& state);
  void Drain();
  std::string Greeting() const;

  SystemClock clock_;
  worker::RemoteOptions options_;
  std::string state_;
  std::unique_ptr<PidFile> pid_file_;
  std::unique_ptr<SnowflakeIds> ids_;
  EventLoop loop_;
  std::unique_ptr<worker::Supervisor> supervisor_;
  std::unique_ptr<worker::ToolRegistry> tools_;
  std::unique_ptr<worker::RemoteLink> link_;
  std::unique_ptr<worker::Worker> worker_;
  std::unique_ptr<worker::StatusListener> status_page_;
  Status outcome_;
};

// The first folder that no other worker uses. What its former user left there is delivered.
Status RemoteNode::OpenLink(worker::RemoteOptions options, const std::string& state) {
  for (int i = 1; i <= kStateFoldersMax; ++i) {
    state_ = StateFolder(state, i);
    options.spool_file = state_ + "/events.wal";
    auto link = worker::RemoteLink::Open(options, &loop_, &clock_, ids_.get());
    if (link) {
      link_ = *std::move(link);
      options_ = std::move(options);
      return {};
    }
    if (link.error().code != "locked") return std::unexpected(std::move(link).error());
  }
  return Fail("locked", fmt::format("{}: too many workers use this folder; give --state", state));
}

Result<std::unique_ptr<RemoteNode>> RemoteNode::Open(const Settings& settings) {
  std::unique_ptr<RemoteNode> node(new RemoteNode());
  NOETL_ASSIGN(worker::RemoteOptions options, RemoteOptionsOf(settings));
  const std::int64_t machine = settings.IsSet("NOETL_SNOWFLAKE_NODE_ID")
                                   ? settings.Int("NOETL_SNOWFLAKE_NODE_ID")
                                   : MachineIdFrom(options.worker_id);
  NOETL_ASSIGN(node->ids_, SnowflakeIds::Create(node->clock_, machine));
  NOETL_TRY(node->OpenLink(std::move(options), settings.Text("NOETL_WORKER_STATE_DIR")));
  NOETL_ASSIGN(node->pid_file_, PidFile::Take(PidPath(node->state_), node->options_.worker_id));
  NOETL_ASSIGN(node->supervisor_,
               worker::Supervisor::Open(&node->loop_, node->state_ + "/run", settings));
  node->tools_ = std::make_unique<worker::ToolRegistry>(worker::ToolSetup{
      .loop = &node->loop_, .supervisor = node->supervisor_.get(), .settings = &settings});
  node->worker_ = std::make_unique<worker::Worker>(
      WorkerOptionsOf(settings, node->options_.worker_id), &node->loop_, &node->clock_,
      node->ids_.get(), node->tools_.get(), node->link_.get());
  node->link_->Attach(node->worker_.get());
  NOETL_ASSIGN(node->status_page_,
               worker::OpenStatusPage(&node->loop_, node->link_.get(), settings));
  return node;
}

RemoteNode::~RemoteNode() {
  status_page_.reset();
  worker_.reset();
  tools_.reset();
  link_.reset();
  supervisor_.reset();
}

std::string RemoteNode::Greeting() const {
  return fmt::format("noetl {} worker {}: {} commands at once from {} ({}), state in {}\n",
                     VersionNumber(), options_.worker_id, options_.slots, options_.server.url,
                     options_.pools.empty()
                         ? "all pools"
                         : fmt::format("pools {}", fmt::join(options_.pools, ", ")),
                     state_);
}

void RemoteNode::Drain() {
  link_->Drain([this] { worker_->StopAll([this] { loop_.Stop(); }); });
}

Status RemoteNode::Run(const SignalWatch& signals, const Greet& greet) {
  greet(Greeting());
  int seen = 0;
  loop_.Watch(signals.descriptor(), EventLoop::kReadable, [&](unsigned) {
    seen += signals.Take();
    if (seen > 1) _exit(kExitLeft);
    LogInfo("no more work is taken; a second signal ends this worker at once",
            {{"running", link_->running()}});
    Drain();
  });
  link_->OnDrainAsked([this] { Drain(); });
  link_->Start([this](Status status) {
    if (status) return LogInfo("registered", {{"worker", options_.worker_id}});
    if (status.error().code == "cancelled") return;  // by a signal
    outcome_ = std::move(status);
    loop_.Stop();
  });
  loop_.Run();
  loop_.Unwatch(signals.descriptor());
  return std::move(outcome_);
}

std::unique_ptr<Settings> SettingsOf(const Options& options, Console& console) {
  Settings::Variables overrides;
  if (!options.server.empty()) overrides["NOETL_SERVER_URL"] = options.server;
  if (!options.pools.empty())
    overrides["NOETL_WORKER_POOLS"] = fmt::format("{}", fmt::join(options.pools, ","));
  if (options.slots > 0) overrides["WORKER_MAX_CONCURRENT"] = std::to_string(options.slots);
  if (!options.name.empty()) overrides["WORKER_ID"] = options.name;
  if (!options.state.empty()) overrides["NOETL_WORKER_STATE_DIR"] = options.state;
  return LoadSettings(overrides, console);
}

int RunWorker(const Options& options, Console& console, const Greet& greet) {
  const SignalWatch signals;
  const auto settings = SettingsOf(options, console);
  if (!settings) return kExitInvalid;
  ConfigureLog(LogOptions::From(*settings));
  auto node = RemoteNode::Open(*settings);
  Status status =
      node ? (*node)->Run(signals, greet) : Status(std::unexpected(std::move(node).error()));
  return status ? kExitOk : Complain("worker", status.error(), console);
}

// ---- in the background

int StartWorker(const Options& options, Console& console) {
  const auto settings = SettingsOf(options, console);
  if (!settings) return kExitInvalid;
  return StartInBackground(
      {.what = "worker", .log = settings->Text("NOETL_WORKER_STATE_DIR") + "/worker.log"},
      [&](Console& own, const Greet& greet) { return RunWorker(options, own, greet); }, console);
}

struct RunningWorker {
  std::string pid_path;
  Service service;
};

// The workers whose state is in this folder.
Result<std::vector<RunningWorker>> RunningWorkers(const std::string& state) {
  std::vector<RunningWorker> running;
  for (int i = 1; i <= kStateFoldersMax; ++i) {
    const std::string path = PidPath(StateFolder(state, i));
    NOETL_ASSIGN(const auto service, FindService(path));
    if (service) running.push_back({path, *service});
  }
  return running;
}

Status StopWorker(const Options& options, const StopOptions& stop, Console& console) {
  const auto settings = SettingsOf(options, console);
  if (!settings) return Fail("settings", "the settings above are wrong");
  const std::string& state = settings->Text("NOETL_WORKER_STATE_DIR");
  const std::string& name = settings->Text("WORKER_ID");
  NOETL_ASSIGN(std::vector<RunningWorker> running, RunningWorkers(state));
  if (!name.empty())
    std::erase_if(running, [&](const RunningWorker& one) { return one.service.name != name; });
  if (running.empty()) {
    return Fail("not_found",
                fmt::format("no worker{} has its state in {}; --state DIR names another folder",
                            name.empty() ? "" : fmt::format(" '{}'", name), state));
  }
  if (running.size() > 1) {
    std::vector<std::string_view> names;
    for (const RunningWorker& one : running) names.push_back(one.service.name);
    return Fail("usage", fmt::format("several workers have their state in {}: --name says which of "
                                     "{}",
                                     state, fmt::join(names, ", ")));
  }
  return StopService("worker", running[0].pid_path, running[0].service, stop, console);
}

Action DeclareStop(Parser& parser, const std::shared_ptr<Options>& options) {
  auto stop = std::make_shared<StopOptions>();
  AddStopOptions(parser, stop.get());
  return [options, stop](Console& console) {
    const Status done = StopWorker(*options, *stop, console);
    return done ? kExitOk : Complain("worker stop", done.error(), console);
  };
}

}  // namespace

Action DeclareWorker(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser
      .Add("--server", &options->server,
           "address of the server (default: NOETL_SERVER_URL, http://localhost:8082)")
      .Type("URL");
  parser
      .Add("--pool", &options->pools,
           "take commands of this pool only; may be repeated (default: "
           "NOETL_WORKER_POOLS, else all)")
      .Repeated()
      .Type("POOL");
  parser
      .Add("-m,--slots,--max-workers", &options->slots,
           "commands that run at once (default: WORKER_MAX_CONCURRENT, 4)")
      .Positive()
      .Type("N");
  parser
      .Add("-n,--name", &options->name, "name of this worker (default: WORKER_ID, else a new one)")
      .Type("ID");
  parser
      .Add("--state", &options->state,
           "folder for results that could not be delivered (default: "
           "NOETL_WORKER_STATE_DIR)")
      .Type("DIR");
  return parser
      .Verb("start", "the same in the background; its log is worker.log in the folder of the state",
            [&](Parser&) -> Action {
              return [options](Console& console) { return StartWorker(*options, console); };
            })
      .Verb("stop", "let a worker of this machine finish its commands and end",
            [&](Parser& verb) { return DeclareStop(verb, options); })
      .VerbAction([options](Console& console) {
        return RunWorker(*options, console, [&](const std::string& text) { console.Out(text); });
      });
}

}  // namespace noetl::cli
