// One machine from end to end: real threads, a real disk, the worker of this process.
//
//   embedded_bench [--quick] [--workflows] [--dir DIR] [--json FILE]
//
// Each figure is taken three times and stands beside a floor from the same run: what the machine needs
// for the part that nobody can leave out. Prints a table; --json writes the same as JSON. The
// directory should be on the disk that will hold the data.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json_io.h"
#include "cli/console.h"
#include "cli/node.h"
#include "engine/fold.h"
#include "floors.h"

namespace noetl::bench {
namespace {

using Steady = std::chrono::steady_clock;

double SecondsSince(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

[[noreturn]] void Give(const std::string& message) {
  fmt::print(stderr, "embedded_bench: {}\n", message);
  std::exit(1);
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Figure {
  std::string name;
  std::string unit;
  std::string goal;
  bool more_is_better = true;
  std::string floor;  // what the floor is
  std::vector<double> runs;
  std::vector<double> floors;

  double worst() const {
    if (runs.empty()) return 0;
    return more_is_better ? *std::ranges::min_element(runs) : *std::ranges::max_element(runs);
  }
  Json ToJson() const {
    return Json::Object({{"name", name},
                         {"unit", unit},
                         {"goal", goal},
                         {"median", Median(runs)},
                         {"worst", worst()},
                         {"floor", floor},
                         {"floor_median", Median(floors)}});
  }
};

// Counts runs that end, and events.
class Counter final : public conductor::Listener {
 public:
  void OnEvents(const store::ExecutionRow& execution,
                std::span<const store::EventRow> events) override {
    const std::lock_guard lock(mutex_);
    events_ += static_cast<std::int64_t>(events.size());
    if (execution.terminal) {
      ++ended_;
      if (execution.status != "COMPLETED")
        Give(fmt::format("a run of {} ended {}: {}", execution.path, execution.status,
                         execution.error));
    }
    // Waking somebody for every commit would be measured too.
    if (ended_ >= wanted_runs_ || events_ >= wanted_events_) wake_.notify_all();
  }
  void Reset() {
    const std::lock_guard lock(mutex_);
    ended_ = events_ = 0;
  }
  void WaitForRuns(std::int64_t count) { Wait(count, INT64_MAX); }
  void WaitForEvents(std::int64_t count) { Wait(INT64_MAX, count); }

 private:
  void Wait(std::int64_t runs, std::int64_t events) {
    std::unique_lock lock(mutex_);
    wanted_runs_ = runs;
    wanted_events_ = events;
    wake_.wait(lock, [&] { return ended_ >= runs || events_ >= events; });
    wanted_runs_ = wanted_events_ = INT64_MAX;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::int64_t ended_ = 0;
  std::int64_t events_ = 0;
  std::int64_t wanted_runs_ = INT64_MAX;
  std::int64_t wanted_events_ = INT64_MAX;
};

struct Machine {
  explicit Machine(const std::string& directory) {
    cli::Console console;
    settings = cli::LoadSettings({}, console);
    auto opened =
        cli::Node::Open({.directory = directory, .settings = settings.get(), .listener = &counter});
    if (!opened) Give(opened.error().message);
    node = *std::move(opened);
  }
  std::int64_t Register(const std::string& path, const std::string& content) {
    return node->store()
        .Register({.catalog_id = node->ids().Next(), .path = path, .content = content})
        .value()
        .catalog_id;
  }
  std::int64_t Start(std::int64_t catalog_id, Json payload = Json()) {
    std::mutex mutex;
    std::condition_variable wake;
    std::int64_t id = 0;
    node->conductor().Start({.catalog_id = catalog_id, .payload = std::move(payload)},
                            [&](Result<std::int64_t> started) {
                              const std::lock_guard lock(mutex);
                              id = started.value();
                              wake.notify_one();
                            });
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return id != 0; });
    return id;
  }

  Counter counter;
  std::unique_ptr<Settings> settings;
  std::unique_ptr<cli::Node> node;
};

std::string Chain(int steps) {
  std::string text = fmt::format(
      "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {{name: chain, path: bench/chain{}}}\n"
      "workflow:\n",
      steps);
  for (int i = 0; i < steps; ++i) {
    text += fmt::format("  - step: s{}\n    tool: {{kind: noop}}\n", i);
    if (i + 1 < steps) text += fmt::format("    next: {{arcs: [{{step: s{}}}]}}\n", i + 1);
  }
  return text;
}

constexpr const char* kLoop =
    "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: loop, path: bench/loop}\n"
    "workload: {count: 10}\nworkflow:\n  - step: start\n"
    "    loop: {in: \"{{ workload.count }}\", iterator: n,"
    " spec: {mode: parallel, max_in_flight: 64}}\n"
    "    tool: {kind: noop}\n";

void EachEvent(Machine& machine, std::int64_t id,
               const std::function<void(const engine::Event&)>& visit) {
  for (std::int64_t after = 0;;) {
    const auto events = machine.node->store().ReadEvents(id, after, 1'000).value();
    if (events.empty()) return;
    after = events.back().seq;
    for (const engine::Event& event : events) visit(event);
  }
}

// ---- figures

struct StepTimes {
  double step_us = 0;   // end of one step to end of the next
  double claim_us = 0;  // issued to claimed
};

StepTimes SequentialSteps(Machine& machine, int steps) {
  machine.counter.Reset();
  const std::int64_t catalog = machine.Register("bench/chain", Chain(steps));
  const std::int64_t id = machine.Start(catalog);
  machine.counter.WaitForRuns(1);
  std::vector<double> gaps;
  std::vector<double> claims;
  std::int64_t ended = 0;
  std::int64_t issued = 0;
  EachEvent(machine, id, [&](const engine::Event& event) {
    if (event.type == engine::EventType::kCommandIssued) issued = event.ingest_us;
    if (event.type == engine::EventType::kCommandClaimed)
      claims.push_back(static_cast<double>(event.ingest_us - issued));
    if (event.type != engine::EventType::kCommandCompleted) return;
    if (ended != 0) gaps.push_back(static_cast<double>(event.ingest_us - ended));
    ended = event.ingest_us;
  });
  return {Median(gaps), Median(claims)};
}

double WorkflowsPerSecond(Machine& machine, std::int64_t count) {
  machine.counter.Reset();
  const std::int64_t catalog = machine.Register("bench/one", Chain(1));
  // Enough to keep the disk busy; a caller that starts without limit would measure the queue.
  constexpr std::int64_t kOpenMax = 4'000;
  constexpr std::int64_t kStep = 500;
  const auto start = Steady::now();
  for (std::int64_t i = 0; i < count; ++i) {
    if (i >= kOpenMax && i % kStep == 0) machine.counter.WaitForRuns(i - kOpenMax + kStep);
    machine.node->conductor().Start({.catalog_id = catalog}, [](const auto& started) {
      if (!started) Give(started.error().message);
    });
  }
  machine.counter.WaitForRuns(count);
  return static_cast<double>(count) / SecondsSince(start);
}

double LoopItemsPerSecond(Machine& machine, std::int64_t count, std::int64_t* id) {
  machine.counter.Reset();
  const std::int64_t catalog = machine.Register("bench/loop", kLoop);
  const auto start = Steady::now();
  *id = machine.Start(catalog, Json::Object({{"count", count}}));
  machine.counter.WaitForRuns(1);
  return static_cast<double>(count) / SecondsSince(start);
}

double FoldPerSecond(Machine& machine, std::int64_t id) {
  engine::State state;
  std::int64_t count = 0;
  const auto start = Steady::now();
  EachEvent(machine, id, [&](const engine::Event& event) {
    engine::Fold(state, event);
    ++count;
  });
  return static_cast<double>(count) / SecondsSince(start);
}

// A long run is open when the process ends; how long until the next process adds to its log.
double RestartMs(const std::string& directory, std::int64_t events) {
  {
    Machine machine(directory);
    const std::int64_t catalog = machine.Register("bench/loop", kLoop);
    machine.Start(catalog, Json::Object({{"count", 10'000'000}}));
    machine.counter.WaitForEvents(events);
  }
  const auto start = Steady::now();
  Machine machine(directory);
  machine.counter.WaitForEvents(1);
  return SecondsSince(start) * 1e3;
}

double OpenMs(const std::string& directory) {
  const auto start = Steady::now();
  const Machine machine(directory);
  return SecondsSince(start) * 1e3;
}

// What an idle process holds and does, seen in a process of its own.
struct Idle {
  double rss_mb = 0;
  double wakeups_per_second = 0;
};

std::int64_t ProcField(const std::string& file, std::string_view key) {
  std::ifstream stream(file);
  std::string word;
  while (stream >> word) {
    if (word != key) continue;
    std::int64_t value = 0;
    stream >> value;
    return value;
  }
  return 0;
}

std::int64_t Wakeups(pid_t pid) {
  std::int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    sum += ProcField(task.path().string() + "/status", "voluntary_ctxt_switches:");
  }
  return sum;
}

Idle MeasureIdle(const char* self, const std::string& directory) {
  int ready[2];
  if (pipe(ready) != 0) Give("no pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ready[1], 1);
    execl(self, self, "--idle", directory.c_str(), nullptr);
    _exit(1);
  }
  char byte = 0;
  if (read(ready[0], &byte, 1) != 1) Give("the idle process did not start");
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::int64_t before = Wakeups(pid);
  constexpr int kSeconds = 3;
  std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
  Idle idle;
  idle.wakeups_per_second = static_cast<double>(Wakeups(pid) - before) / kSeconds;
  idle.rss_mb =
      static_cast<double>(ProcField(fmt::format("/proc/{}/status", pid), "VmRSS:")) / 1024;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  return idle;
}

int StayIdle(const std::string& directory) {
  const Machine machine(directory);
  if (write(1, "r", 1) != 1) return 1;
  pause();
  return 0;
}

// ---- the program

struct Options {
  bool quick = false;
  bool workflows_only = false;  // for a profile
  std::string directory = "/var/tmp";
  std::string json;
};

class Bench {
 public:
  Bench(Options options, const char* self) : options_(std::move(options)), self_(self) {
    root_ = fmt::format("{}/noetl-bench-{}", options_.directory, getpid());
  }
  ~Bench() { std::filesystem::remove_all(root_); }

  void Run() {
    for (int run = 0; run < (options_.quick ? 1 : 3); ++run) Once(Fresh());
  }

  std::vector<const Figure*> figures() const {
    return {&step_, &claim_,   &flows_, &append_,   &loop_,
            &fold_, &restart_, &ready_, &idle_rss_, &idle_wakeups_};
  }

 private:
  std::string Fresh() {
    const std::string directory = fmt::format("{}/{}", root_, ++directories_);
    std::filesystem::create_directories(directory);
    return directory;
  }

  void Once(const std::string& directory) {
    const std::int64_t flows = options_.quick ? 20'000 : 60'000;
    const std::int64_t items = options_.quick ? 30'000 : 100'000;
    if (options_.workflows_only) {
      Machine machine(directory);
      flows_.runs.push_back(WorkflowsPerSecond(machine, flows));
      return;
    }
    step_.floors.push_back(SyncUs(directory));
    append_.floors.push_back(RawInsertsPerSecond(Fresh()));
    append_.runs.push_back(AppendsPerSecond(Fresh()));
    flows_.floors.push_back(append_.floors.back() / kEventsPerWorkflow);
    loop_.floors.push_back(append_.floors.back() / kEventsPerItem);
    {
      Machine machine(directory);
      const StepTimes times = SequentialSteps(machine, 300);
      step_.runs.push_back(times.step_us);
      claim_.runs.push_back(times.claim_us);
      flows_.runs.push_back(WorkflowsPerSecond(machine, flows));
      std::int64_t id = 0;
      loop_.runs.push_back(LoopItemsPerSecond(machine, items, &id));
      fold_.runs.push_back(FoldPerSecond(machine, id));
      fold_.floors.push_back(RawReadsPerSecond(directory));
    }
    restart_.runs.push_back(RestartMs(Fresh(), options_.quick ? 100'000 : 500'000));
    ready_.runs.push_back(OpenMs(Fresh()));
    ready_.floors.push_back(ProcessStartMs());
    const Idle idle = MeasureIdle(self_, Fresh());
    idle_rss_.runs.push_back(idle.rss_mb);
    idle_wakeups_.runs.push_back(idle.wakeups_per_second);
  }

  // Events in the log of a one-step run, and of one item of a loop.
  static constexpr double kEventsPerWorkflow = 8;
  static constexpr double kEventsPerItem = 5;

  Options options_;
  const char* self_;
  std::string root_;
  int directories_ = 0;

  Figure step_{"sequential durable step, p50", "us", "<= 600", false, "fdatasync of a page"};
  Figure claim_{"command issued to claimed, p50", "us", "<= 200", false, ""};
  Figure flows_{"one-step workflows", "/s", ">= 20,000", true, "raw SQLite inserts / 8"};
  Figure append_{"durable events appended", "/s", ">= 200,000", true, "raw SQLite inserts"};
  Figure loop_{"items of one loop", "/s", ">= 10,000", true, "raw SQLite inserts / 5"};
  Figure fold_{"fold from disk", "events/s", ">= 1,000,000", true, "raw SQLite reads"};
  Figure restart_{"restart with a long run open", "ms", "<= 200", false, ""};
  Figure ready_{"ready after start", "ms", "<= 50", false, "an empty process"};
  Figure idle_rss_{"memory when idle", "MB", "<= 30", false, ""};
  Figure idle_wakeups_{"wake-ups when idle", "/s", "0", false, ""};
};

void Show(const std::vector<const Figure*>& figures) {
  fmt::print("{:<32} {:>12} {:>12} {:<9} {:<13} {}\n", "figure", "median", "worst", "unit", "goal",
             "floor");
  for (const Figure* figure : figures) {
    const std::string floor =
        figure->floors.empty() ? std::string()
                               : fmt::format("{:.1f} ({})", Median(figure->floors), figure->floor);
    fmt::print("{:<32} {:>12.1f} {:>12.1f} {:<9} {:<13} {}\n", figure->name, Median(figure->runs),
               figure->worst(), figure->unit, figure->goal, floor);
  }
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) Give(flag + " needs a value");
      return argv[++i];
    };
    if (flag == "--quick") options.quick = true;
    else if (flag == "--workflows") options.workflows_only = true;
    else if (flag == "--dir") options.directory = value();
    else if (flag == "--json") options.json = value();
    else if (flag == "--idle") return StayIdle(value());
    else Give("unknown option " + flag);
  }
  Bench bench(options, argv[0]);
  bench.Run();
  Show(bench.figures());
  if (!options.json.empty()) {
    std::vector<Json> list;
    for (const Figure* figure : bench.figures()) list.push_back(figure->ToJson());
    std::ofstream(options.json) << WriteJsonPretty(Json::Array(std::move(list))) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace noetl::bench

int main(int argc, char** argv) { return noetl::bench::Main(argc, argv); }
