#include "cli/node.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "cli/console.h"
#include "store/sqlite/sqlite_store.h"

extern char** environ;

namespace noetl::cli {

namespace {

// Commands that the worker of this process holds at once. Kinds that start processes have limits of
// their own, below.
constexpr int kSlots = 1'000;
// Python and shell calls at once, for each core.
constexpr int kProcessesPerCore = 4;

engine::Semantics SemanticsOf(const Settings& settings) {
  engine::Semantics semantics;
  semantics.step_error_fails = settings.Bool("NOETL_STEP_ERROR_FAILS");
  semantics.status_from_steps = settings.Bool("NOETL_EXECUTION_STATUS_FROM_STEPS");
  semantics.retype_legacy = settings.Text("NOETL_TEMPLATE_RETYPE") == "legacy";
  semantics.max_step_runs = settings.Int("NOETL_MAX_STEP_RUNS");
  semantics.max_attempts = settings.Int("NOETL_COMMAND_MAX_ATTEMPTS");
  semantics.inline_bytes = settings.Int("NOETL_EVENT_RESULT_CONTEXT_MAX_BYTES");
  semantics.context_bytes = settings.Int("NOETL_COMMAND_CONTEXT_MAX_BYTES");
  semantics.callback_deadline_s = settings.DurationMs("NOETL_CALLBACK_DEADLINE_SECS") / 1'000;
  semantics.execution_timeout_s = settings.DurationMs("NOETL_EXECUTION_TIMEOUT_SECS") / 1'000;
  return semantics;
}

conductor::LeasePolicy LeasesOf(const Settings& settings) {
  return {
      .claim_us = settings.DurationMs("NOETL_COMMAND_CLAIM_LEASE_SECONDS") * 1'000,
      .claim_hard_us =
          settings.DurationMs("NOETL_COMMAND_CLAIM_HEALTHY_WORKER_HARD_TIMEOUT_SECONDS") * 1'000,
      .lease_us = settings.DurationMs("NOETL_LEASE_SECONDS") * 1'000};
}

// The variables that templates may read.
Json EnvironmentOf(const Settings& settings) {
  Json env = Json::Object();
  for (const std::string& name : settings.List("NOETL_TEMPLATE_ENV")) {
    if (const char* value = std::getenv(name.c_str())) env = env.With(name, value);
  }
  return env;
}

// The time of the newest id that is stored: new ids must be larger.
Result<std::int64_t> NewestIdMs(const store::Store& store, Clock& clock) {
  constexpr std::int64_t kBehindMsMax = 2'000;  // waited for
  NOETL_ASSIGN(const auto newest, store.List({.limit = 1}));
  if (newest.empty()) return 0;
  const std::int64_t id = std::max(newest[0].execution_id, newest[0].last_event_id);
  const std::int64_t newest_ms = DecodeId(id).time_ms;
  const std::int64_t behind_ms = newest_ms - clock.NowMillis();
  if (behind_ms > kBehindMsMax) {
    return Fail("clock", fmt::format("the clock is {} seconds behind the newest run of this data "
                                     "directory; set the clock, or wait",
                                     behind_ms / 1'000));
  }
  return newest_ms;
}

}  // namespace

worker::WorkerOptions WorkerOptionsOf(const Settings& settings, std::string worker_id) {
  worker::WorkerOptions options;
  options.worker_id = std::move(worker_id);
  options.call_timeout_ms = settings.DurationMs("NOETL_WORKER_COMMAND_TIMEOUT_SECONDS");
  options.declared_timeout_ms_max = settings.DurationMs("NOETL_WORKER_COMMAND_TIMEOUT_MAX_SECONDS");
  options.task_runs_max = settings.Int("NOETL_TASK_SEQUENCE_MAX_ITERATIONS");
  options.keychain_strict = settings.Bool("NOETL_KEYCHAIN_STRICT");
  const int processes =
      kProcessesPerCore * static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.calls_max = {{"python", processes}, {"shell", processes}};
  for (const auto& [kind, text] : settings.Family("NOETL_TOOL_MAX_")) {
    std::string name = kind;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    options.calls_max[name] = std::max(1, std::atoi(text.c_str()));
  }
  return options;
}

Result<std::unique_ptr<Node>> Node::Open(NodeOptions options) {
  auto node = std::unique_ptr<Node>(new Node());
  node->options_ = options;
  const Settings& settings = *options.settings;
  NOETL_ASSIGN(node->lock_, store::DirectoryLock::Acquire(options.directory));
  NOETL_ASSIGN(node->store_, store::OpenSqliteStore(
                                 {.directory = options.directory,
                                  .outbox = settings.Text("NOETL_OUTBOX_DRAINER") == "external"}));

  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  const std::int64_t machine = settings.IsSet("NOETL_SERVER_MACHINE_ID")
                                   ? settings.Int("NOETL_SERVER_MACHINE_ID")
                                   : MachineIdFrom(host);
  NOETL_ASSIGN(const std::int64_t newest_ms, NewestIdMs(*node->store_, node->clock_));
  NOETL_ASSIGN(node->ids_, SnowflakeIds::Create(node->clock_, machine, newest_ms));

  NOETL_TRY(node->OpenVault());

  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<Reactor*> reactors;
  for (unsigned i = 0; i < cores; ++i) {
    node->lane_loops_.push_back(std::make_unique<EventLoop>());
    reactors.push_back(node->lane_loops_.back().get());
  }
  node->worker_loop_ = std::make_unique<EventLoop>();
  node->committer_ = std::make_unique<conductor::ThreadCommitter>(node->store_.get());
  const std::string worker_id =
      fmt::format("{}{}-{}", conductor::kInProcessWorker, host, node->ids_->Next());
  node->conductor_ = std::make_unique<conductor::Conductor>(conductor::ConductorOptions{
      .store = node->store_.get(),
      .clock = &node->clock_,
      .ids = node->ids_.get(),
      .committer = node->committer_.get(),
      .lanes = reactors,
      .semantics = SemanticsOf(settings),
      .env = EnvironmentOf(settings),
      .worker_id = worker_id,
      .slots = settings.IsSet("WORKER_MAX_CONCURRENT")
                   ? static_cast<int>(settings.Int("WORKER_MAX_CONCURRENT"))
                   : kSlots,
      .leases = LeasesOf(settings),
      .cache_bytes = static_cast<std::size_t>(settings.Int("NOETL_ORCH_CACHE_BYTES")),
      .listener = options.listener,
      .secrets = node->secrets_.get(),
      .refuse_early = options.refuse_early});
  NOETL_ASSIGN(node->supervisor_, worker::Supervisor::Open(node->worker_loop_.get(),
                                                           options.directory + "/run", settings));
  node->tools_ = std::make_unique<worker::ToolRegistry>(
      worker::ToolSetup{.loop = node->worker_loop_.get(),
                        .supervisor = node->supervisor_.get(),
                        .settings = &settings});
  node->worker_ = std::make_unique<worker::Worker>(
      WorkerOptionsOf(settings, worker_id), node->worker_loop_.get(), &node->clock_,
      node->ids_.get(), node->tools_.get(), node->conductor_.get());
  if (options.worker) node->conductor_->Attach(node->worker_.get());
  NOETL_TRY(node->conductor_->Recover());
  constexpr std::int64_t kMaintainAfterUs = 5'000'000;  // not while a short run is in a hurry
  node->lane_loops_.front()->After(kMaintainAfterUs, [node = node.get()] { node->Maintain(); });
  node->RunLoops();
  return node;
}

Status Node::OpenVault() {
  NOETL_ASSIGN(const auto credentials, store_->ScanCredentials(0, 1));
  NOETL_ASSIGN(const auto kept, store_->ScanKeychain("", 1));
  NOETL_ASSIGN(auto keys, vault::Keys::Load(*options_.settings, options_.directory,
                                            !credentials.empty() || !kept.empty()));
  vault_ = std::make_unique<vault::Vault>(store_.get(), std::move(keys), &clock_, ids_.get(),
                                          vault::VaultOptions::From(*options_.settings));
  if (options_.settings->Bool("NOETL_KEY_CHECK")) NOETL_TRY(vault_->CheckKeys());
  secrets_ = std::make_unique<NodeSecrets>(store_.get(), vault_.get(), &clock_, *options_.settings);
  return {};
}

// Threads have names, for those who look with `top -H`.
void Node::RunLoops() {
  const auto run = [this](EventLoop* loop, const std::string& name) {
    threads_.emplace_back([loop, name] {
      pthread_setname_np(pthread_self(), name.c_str());
      loop->Run();
    });
  };
  for (std::size_t i = 0; i < lane_loops_.size(); ++i)
    run(lane_loops_[i].get(), fmt::format("lane-{}", i));
  run(worker_loop_.get(), "worker");
}

// Old runs go in small pieces, so that the lane it runs on is not held up.
void Node::Maintain() {
  constexpr std::int64_t kPiece = 100;
  constexpr std::int64_t kDayUs = 86'400'000'000;
  constexpr std::int64_t kPauseUs = 3'600'000'000;
  const std::int64_t days = options_.settings->Int("NOETL_RETENTION_DAYS");
  const std::int64_t now_us = clock_.NowMicros();
  const Result<std::int64_t> purged =
      store_->PurgeEnded(days > 0 ? now_us - days * kDayUs : 0, now_us, kPiece);
  if (!purged) LogWarn("old runs cannot be removed", {{"error", purged.error().message}});
  EventLoop& loop = *lane_loops_.front();
  if (purged && *purged == kPiece) loop.Post([this] { Maintain(); });
  else if (days > 0) loop.After(kPauseUs, [this] { Maintain(); });
}

void Node::StopTools(std::move_only_function<void()> stopped) {
  conductor_->StopOffering();
  worker_loop_->Post(
      [this, stopped = std::move(stopped)]() mutable { worker_->StopAll(std::move(stopped)); });
}

// Threads end first, so that nobody calls what is taken apart.
Node::~Node() {
  if (worker_loop_) worker_loop_->Stop();
  for (const auto& loop : lane_loops_) loop->Stop();
  for (std::thread& thread : threads_) thread.join();
  committer_.reset();  // what was handed over is committed
  worker_.reset();
  tools_.reset();
  supervisor_.reset();
  conductor_.reset();
  secrets_.reset();
}

Settings::Variables ProcessEnvironment() {
  Settings::Variables environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::unique_ptr<Settings> LoadSettings(const Settings::Variables& overrides, Console& console) {
  Result<Settings> settings = Settings::Load(ProcessEnvironment(), overrides);
  if (!settings) {
    console.Err(settings.error().message + "\n");
    return nullptr;
  }
  for (const std::string& notice : settings->notices()) console.Err(notice + "\n");
  return std::make_unique<Settings>(*std::move(settings));
}

std::string DataDirectory(const Settings& settings, const std::string& given) {
  return given.empty() ? settings.Text("NOETL_DATA_DIR") : given;
}

}  // namespace noetl::cli
