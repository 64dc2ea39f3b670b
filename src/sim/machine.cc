#include "sim/machine.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/json_io.h"
#include "conductor/conductor.h"
#include "engine/fold.h"
#include "engine/result.h"
#include "sim/generator.h"
#include "sim/machine_checks.h"
#include "sim/machine_parts.h"
#include "sim/virtual_time.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"
#include "worker/worker.h"

namespace noetl::sim {

namespace {

constexpr std::int64_t kStartUs = 1'767'225'600'000'000;  // 2026-01-01T00:00:00Z
constexpr std::int64_t kSecondUs = 1'000'000;
constexpr int kLanes = 2;
// The server and its workers make ids at the same moments; a worker's are the larger ones.
constexpr std::int64_t kServerMachine = 1;
constexpr std::int64_t kWorkerMachine = 2;
// Ids that clients choose themselves.
constexpr std::int64_t kFirstClientId = 500'000'000;
// Clients ask again after at most this long, and start within this time.
constexpr std::uint64_t kAskAgainUsMax = 2'000'000;
constexpr std::uint64_t kStartsUsMax = 200'000;
constexpr std::uint64_t kDownUsMax = 2'000'000;
constexpr std::size_t kZombiesMax = 3;
constexpr std::size_t kTailEvents = 80;
// Digits in a row from which on they are an id.
constexpr std::size_t kIdDigits = 9;

// Ids and moments are not the same in two histories.
std::string WithoutIds(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end - i >= kIdDigits) out += '#';
    else out += text.substr(i, std::max<std::size_t>(end - i, 1));
    i = std::max(end, i + 1);
  }
  return out;
}

// What is left of a payload without ids and without what depends on the order of things: rows of a
// cursor come in any order, and a loop that fails stops where it happens to be.
std::string Lasting(const Json& payload) {
  if (payload["stats"]["failed"].AsInt() > 0) return "some iterations failed";
  if (!payload.Has("cursor") || !payload["results"].is_array())
    return WithoutIds(CanonicalJson(payload));
  std::vector<std::string> rows;
  for (const Json& row : payload["results"].items()) rows.push_back(WithoutIds(CanonicalJson(row)));
  std::ranges::sort(rows);
  return fmt::format("{} {}", WithoutIds(CanonicalJson(payload.Without("results"))),
                     fmt::join(rows, " "));
}

// Bodies of the store, for results that are stored outside.
class StoredBodies final : public engine::Bodies {
 public:
  explicit StoredBodies(const store::Results* results) : results_(results) {}
  Result<const Json*> Find(std::string_view ref) const override {
    auto found = bodies_.find(ref);
    if (found == bodies_.end())
      found = bodies_.emplace(std::string(ref), results_->Load(ref)).first;
    if (!found->second) return std::unexpected(found->second.error());
    return &*found->second;
  }

 private:
  const store::Results* results_;
  mutable std::map<std::string, Result<Json>, std::less<>> bodies_;
};

// One process: everything that a crash takes away.
struct Life {
  std::int64_t number = 0;
  std::vector<Reactor*> lanes;
  Reactor* disk_reactor = nullptr;
  Reactor* line_reactor = nullptr;
  Reactor* worker_reactor = nullptr;
  std::unique_ptr<SlowCommitter> committer;
  std::shared_ptr<Line> line;
  std::unique_ptr<VirtualTools> tools;
  std::unique_ptr<conductor::Conductor> conductor;
  std::unique_ptr<worker::Worker> worker;
  std::unique_ptr<bus::WorkerEnd> ear;
};

// Somebody who wants a run, and asks until there is an answer.
struct Client {
  bool fresh = false;         // lets the conductor choose the id
  std::int64_t id = 0;        // of the run, when it is known
  std::int64_t starting = 0;  // the life that was asked, 0: nobody
  std::int64_t stopping = 0;
  bool started = false;
  bool stop = false;  // somebody wants it stopped
  bool by_finalize = false;
  bool cascade = false;
  std::string refused;
};

}  // namespace

struct Machine::Impl {
  explicit Impl(MachineOptions given)
      : options(std::move(given)),
        time(Mix(options.seed, 1), kStartUs),
        faults(options.seed, options.faults),
        random(Mix(options.seed, 2)),
        checks(options.seed),
        disk(&faults, &time.clock(), [this](const store::UnitRows& unit) { Stored(unit); }),
        outside(time.Add()),
        ids(*SnowflakeIds::Create(time.clock(), kServerMachine)),
        worker_ids(*SnowflakeIds::Create(time.clock(), kWorkerMachine)) {
    slots = static_cast<int>(1u << random.Below(7));
    for (int i = 0; i < options.copies; ++i)
      clients.push_back({.fresh = options.copies == 1 && random.Below(2) == 0});
  }

  ~Impl() {
    life.reset();
    time.Clear(outside);
  }

  // ---- processes

  // Commands are handed to the worker as in one process: at once, in order.
  class Ear final : public bus::WorkerEnd {
   public:
    Ear(Impl* machine, Life* owner) : machine_(machine), life_(owner) {}
    void Run(std::vector<bus::Grant> grants) override {
      for (const bus::Grant& grant : grants) {
        machine_->checks.Granted(grant, machine_->lives);
        life_->tools->Expect(grant);
      }
      life_->worker->Run(std::move(grants));
    }
    void Stop(std::vector<std::string> command_ids) override {
      life_->worker->Stop(std::move(command_ids));
    }

   private:
    Impl* machine_;
    Life* life_;
  };

  Status OpenStore() {
    if (options.directory.empty()) {
      if (!store) store = store::MakeMemoryStore();
    } else {
      store.reset();
      NOETL_ASSIGN(store, store::OpenSqliteStore({.directory = options.directory}));
    }
    disk.Use(store.get());
    return {};
  }

  Status Boot() {
    NOETL_TRY(OpenStore());
    ++lives;
    life = std::make_unique<Life>();
    Life* made = life.get();
    made->number = lives;
    for (int i = 0; i < kLanes; ++i) made->lanes.push_back(time.Add());
    made->disk_reactor = time.Add();
    made->line_reactor = time.Add();
    made->worker_reactor = time.Add();
    made->committer = std::make_unique<SlowCommitter>(made->disk_reactor, &random, &disk);
    const std::string worker_id = fmt::format("{}{}", conductor::kInProcessWorker, lives);
    made->conductor = std::make_unique<conductor::Conductor>(conductor::ConductorOptions{
        .store = store.get(),
        .clock = &time.clock(),
        .ids = ids.get(),
        .committer = made->committer.get(),
        .lanes = made->lanes,
        .semantics = options.semantics,
        .worker_id = worker_id,
        .slots = slots,
        .cache_bytes = options.faults.small_cache ? 1 : std::size_t{1} << 30});
    made->line = std::make_shared<Line>(made->line_reactor, &faults,
                                        [this] { return life->conductor.get(); });
    made->tools = std::make_unique<VirtualTools>(made->worker_reactor, &random, options.tools,
                                                 [this](const ToolCall& call) { Called(call); });
    worker::WorkerOptions worker_options{.worker_id = worker_id};
    if (random.Below(3) == 0) worker_options.calls_max["noop"] = 2;
    made->worker =
        std::make_unique<worker::Worker>(worker_options, made->worker_reactor, &time.clock(),
                                         worker_ids.get(), made->tools.get(), made->line.get());
    made->ear = std::make_unique<Ear>(this, made);
    made->conductor->Attach(made->ear.get());
    return made->conductor->Recover();
  }

  // The process ends. With a zombie its worker and what it said stay.
  void Bury(Life& old, bool zombie) {
    for (Reactor* lane : old.lanes) time.Clear(lane);
    time.Clear(old.disk_reactor);
    if (!zombie) {
      time.Clear(old.line_reactor);
      time.Clear(old.worker_reactor);
      DropWorker(old);
    }
    old.conductor.reset();
    old.committer.reset();
    for (Reactor* lane : old.lanes) time.Remove(lane);
    time.Remove(old.disk_reactor);
    old.lanes.clear();
  }

  void DropWorker(Life& old) {
    old.worker.reset();
    old.tools.reset();
    old.line.reset();
    time.Remove(old.line_reactor);
    time.Remove(old.worker_reactor);
  }

  void Crash() {
    const bool zombie = faults.Happens(Fault::kZombie);
    std::unique_ptr<Life> old = std::move(life);
    if (zombie) old->line->Orphan();
    Bury(*old, zombie);
    if (zombie) zombies.push_back(std::move(old));
    if (zombies.size() > kZombiesMax) {
      DropWorker(*zombies.front());
      zombies.pop_front();
    }
    time.Pass(static_cast<std::int64_t>(random.Below(kDownUsMax)));
    if (const Status booted = Boot(); !booted) return checks.Fail("boot", booted.error().message);
    for (Client& client : clients) {
      if (client.starting != 0) AskAgain(client);
      else if (client.stopping != 0) AskAgain(client);
    }
  }

  // ---- clients

  void AskAgain(Client& client) {
    client.starting = client.stopping = 0;
    outside->After(static_cast<std::int64_t>(random.Below(kAskAgainUsMax)),
                   [this, &client] { Ask(client); });
  }

  void Ask(Client& client) {
    if (!client.started) return AskStart(client);
    if (client.stop) AskStop(client);
  }

  void AskStart(Client& client) {
    if (client.starting != 0 || !client.refused.empty()) return;
    if (client.fresh) {
      // Nobody knows whether the last try came through: look.
      const auto found = store->List({.limit = 1'000});
      for (const store::ExecutionRow& row : found.value_or(std::vector<store::ExecutionRow>())) {
        if (row.parent_execution_id != 0) continue;
        client.id = row.execution_id;
        client.started = true;
        return Ask(client);
      }
    }
    const std::int64_t asked = client.starting = lives;
    if (!client.fresh && client.id == 0) client.id = client_ids.Next();
    life->conductor->Start(
        {.execution_id = client.fresh ? 0 : client.id, .path = main_path, .payload = options.input},
        [this, &client, asked](Result<std::int64_t> answer) {
          if (client.starting == asked) Started(client, answer);
        });
  }

  void Started(Client& client, const Result<std::int64_t>& answer) {
    client.starting = 0;
    if (answer) {
      client.id = *answer;
      client.started = true;
      if (!checks.runs().contains(*answer))
        checks.Fail("I44", "a run was started and is not stored");
      if (client.stop) AskAgain(client);
      return;
    }
    if (answer.error().code == "invalid" || answer.error().code == "not_found")
      client.refused = answer.error().message;
    else AskAgain(client);
  }

  void AskStop(Client& client) {
    if (client.stopping != 0) return;
    const std::int64_t asked = client.stopping = lives;
    const auto done = [this, &client,
                       asked](const Result<conductor::Conductor::CancelAnswer>& answer) {
      if (client.stopping != asked) return;
      client.stopping = 0;
      if (answer) client.stop = false;
      else AskAgain(client);
    };
    if (client.by_finalize) life->conductor->Finalize(client.id, true, "by hand", done);
    else life->conductor->Cancel(client.id, "enough", "somebody", client.cascade, done);
  }

  void StopSomebody() {
    Client& client = clients[random.Below(clients.size())];
    client.by_finalize = random.Below(4) == 0;
    client.cascade = random.Below(2) == 0;
    client.stop = true;
    stopped.insert(static_cast<std::size_t>(&client - clients.data()));
    if (client.started) outside->Post([this, &client] { Ask(client); });
  }

  // ---- what happens

  void Stored(const store::UnitRows& unit) {
    checks.Stored(unit, *store);
    if (options.on_commit) options.on_commit(unit);
    for (const store::EventRow& row : unit.events) {
      const bool late = row.event.meta["reason"].AsString() == "deadline" ||
                        row.event.error.find("deadline") != std::string::npos ||
                        row.event.error.find("did not end within") != std::string::npos ||
                        row.event.error.ends_with("in time");  // a child, a callback
      if (late) timed_out = true;
    }
  }

  void Called(const ToolCall& call) {
    const std::string place =
        fmt::format("{}/{}/{}/{}/{}/{}/{}/{}/{}", call.execution_id, call.step, call.run,
                    call.index, call.frame, call.phase, call.label, call.attempt, call.fence);
    if (++calls[place] > 1) ++repeated[call.step];
  }

  void StepClock(Fault fault, std::uint64_t seconds_max) {
    if (!faults.Happens(fault)) return;
    const auto change_us =
        static_cast<std::int64_t>(10 + faults.random().Below(seconds_max)) * kSecondUs;
    time.StepWall(faults.random().Below(2) == 0 ? change_us : -change_us);
  }

  void Disturb() {
    if (disk.TakeCrash() || faults.Happens(Fault::kCrash)) Crash();
    StepClock(Fault::kClockStep, 20);
    StepClock(Fault::kClockLeap, 7'200);
    if (faults.Happens(Fault::kCancel)) StopSomebody();
    if (report.tasks == options.fault_tasks) faults.Stop();
  }

  Status Register() {
    for (const std::string& text : options.playbooks) {
      const playbook::Loaded loaded = playbook::Load(text);
      if (!loaded.ok()) return Fail("load", loaded.diagnostics.front().message);
      if (main_path.empty()) main_path = loaded.playbook->path;
      NOETL_TRY(store->Register({.catalog_id = ids->Next(),
                                 .path = loaded.playbook->path,
                                 .content = text,
                                 .created_at_us = kStartUs}));
    }
    return {};
  }

  MachineReport Run() {
    Status ready = OpenStore();
    if (ready) ready = Register();
    if (ready) ready = Boot();
    if (!ready) {
      report.failure = ready.error().message;
      return std::move(report);
    }
    for (Client& client : clients) {
      outside->After(static_cast<std::int64_t>(random.Below(kStartsUsMax)),
                     [this, &client] { Ask(client); });
    }
    while (checks.failure().empty() && time.RunOne()) {
      if (++report.tasks > options.tasks_max) checks.Fail("I30", "the history does not end");
      Disturb();
    }
    if (checks.failure().empty()) CheckEnd();
    Collect();
    return std::move(report);
  }

  void CheckEnd() {
    checks.Finished(*store);
    if (life->worker->running() != 0) checks.Fail("I40", "the worker still holds a command");
    if (life->conductor->free_slots() != slots)
      checks.Fail("I40", fmt::format("{} of {} slots are free at the end",
                                     life->conductor->free_slots(), slots));
    for (const Client& client : clients) {
      if (!client.started && client.refused.empty())
        checks.Fail("I44", "a start was never answered");
      if (client.stop && client.refused.empty()) checks.Fail("I30", "a stop was never answered");
    }
  }

  void Collect() {
    report.failure = checks.failure();
    report.crashes = faults.crashes();
    for (std::size_t i = 0; i < kFaultKinds; ++i)
      report.faults[i] = faults.count(static_cast<Fault>(i));
    report.repeated = std::move(repeated);
    std::string logs;
    for (const auto& [id, run] : checks.runs()) {
      report.events += std::ssize(run.log);
      logs.append(run.chain.begin(), run.chain.end());
    }
    report.digest = Sha256Hex(logs);
    if (!report.failure.empty()) return;
    for (std::size_t i = 0; i < clients.size(); ++i)
      report.runs.push_back(Describe(clients[i], stopped.contains(i)));
  }

  MachineReport::Ended Describe(const Client& client, bool was_stopped) {
    MachineReport::Ended ended{
        .execution_id = client.id, .stopped = was_stopped, .timed_out = timed_out};
    if (!client.refused.empty()) {
      ended.status = "REFUSED";
      ended.error = client.refused;
      return ended;
    }
    const MachineChecks::Run& run = checks.runs().at(client.id);
    ended.status = run.state.StatusText();
    ended.error = WithoutIds(run.log.back().error);
    for (const JsonMember& member : run.state.ctx.members())
      ended.ctx[std::string(member.key())] = WithoutIds(CanonicalJson(member.value));
    for (const engine::Event& event : run.log)
      ended.unhandled = ended.unhandled || event.meta["route"]["drain"].AsBool();
    const StoredBodies bodies(store.get());
    for (const auto& [name, step] : run.state.steps()) {
      if (!step.result) continue;
      const Result<Json> payload = engine::PayloadOf(*step.result, &bodies);
      ended.steps[name] =
          payload ? Lasting(*payload) : "not readable: " + WithoutIds(payload.error().message);
    }
    return ended;
  }

  MachineOptions options;
  VirtualTime time;
  Faults faults;
  SeededRandom random;
  MachineChecks checks;
  Disk disk;
  Reactor* outside;  // clients
  std::unique_ptr<SnowflakeIds> ids;
  std::unique_ptr<SnowflakeIds> worker_ids;
  SequentialIds client_ids{kFirstClientId};
  std::unique_ptr<store::Store> store;
  std::unique_ptr<Life> life;
  std::deque<std::unique_ptr<Life>> zombies;
  std::vector<Client> clients;
  std::set<std::size_t> stopped;
  std::string main_path;
  std::int64_t lives = 0;
  int slots = 1;
  bool timed_out = false;
  std::map<std::string, std::int64_t> calls;
  std::map<std::string, std::int64_t> repeated;
  MachineReport report;
};

Machine::Machine(MachineOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Machine::~Machine() {
  Impl& machine = *impl_;
  if (machine.life) machine.Bury(*machine.life, false);
  for (const auto& zombie : machine.zombies) machine.DropWorker(*zombie);
}

MachineReport Machine::Run() { return impl_->Run(); }

std::string Machine::Tail() const {
  std::string text;
  for (const auto& [id, run] : impl_->checks.runs()) {
    text += fmt::format("run {} of {}\n", id, run.state.path);
    const std::size_t size = run.log.size();
    for (std::size_t i = size > kTailEvents ? size - kTailEvents : 0; i < size; ++i) {
      const engine::Event& event = run.log[i];
      text +=
          fmt::format("{:>4} {:<18} {:<6} {} {} {}\n", event.seq, event.type_name, event.node_name,
                      event.status, WriteJson(event.result["context"]).substr(0, 160),
                      WriteJson(event.meta).substr(0, 260));
    }
  }
  return text;
}

}  // namespace noetl::sim
