// The program `noetl server` over sockets of the loopback, seen from outside.
//
//   http_bench --binary NOETL [--quick] [--overload] [--dir DIR] [--json FILE]
//
// Each figure is taken three times and stands beside a floor from the same run: a bare server that
// answers a constant, or one that answers after a synced write (http_floor.h). Client, server and
// floors share the cores of one machine. Prints a table; --json writes the same as JSON. The
// directory should be on the disk that will hold the data. --overload measures nothing else.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/ids.h"
#include "base/json_io.h"
#include "http_floor.h"
#include "http_load.h"

namespace noetl::bench {
namespace {

constexpr int kFew = 1;
constexpr int kMany = 32;
constexpr int kCapacityConnections = 64;
// More than the server can have in hand within the time of a load, so that it has to refuse or to
// let clients wait.
constexpr int kOverloadConnections = 1'024;
constexpr std::int64_t kStoredRuns = 1'000'000;

constexpr const char* kOneStep = R"({"content":"apiVersion: noetl.io/v10\nkind: Playbook\n)"
                                 R"(metadata: {name: one, path: bench/one}\nworkflow:\n)"
                                 R"(  - step: start\n    tool: {kind: noop}\n"})";
constexpr const char* kStart = R"({"path":"bench/one"})";

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// ---- the server

class Server {
 public:
  Server(const std::string& binary, const std::string& directory, bool worker) {
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) Give("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(out[1], 1);
      dup2(open((directory + "/../server.log").c_str(), O_CREAT | O_APPEND | O_WRONLY, 0600), 2);
      execl(binary.c_str(), binary.c_str(), "server", "--port", "0", "--data", directory.c_str(),
            worker ? nullptr : "--no-worker", nullptr);
      _exit(127);
    }
    close(out[1]);
    port_ = ReadPort(out[0]);
    close(out[0]);
  }
  ~Server() {
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
    if (status != 0) fmt::print(stderr, "http_bench: the server ended with status {}\n", status);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }

 private:
  static int ReadPort(int fd) {
    constexpr std::string_view kPlace = "listening on http://127.0.0.1:";
    std::string text;
    char byte = 0;
    while (read(fd, &byte, 1) == 1 && byte != '\n') text += byte;
    const std::size_t at = text.find(kPlace);
    if (at == std::string::npos) Give("the server did not start: " + text);
    return std::stoi(text.substr(at + kPlace.size()));
  }

  pid_t pid_ = 0;
  int port_ = 0;
};

// ---- figures

// One route at one number of connections; an entry of each list a run.
struct Figure {
  std::string name;
  int connections = 0;
  std::string floor;
  std::vector<double> rates, p50, p99, worst;
  std::vector<double> floor_rates, floor_p50;

  void Add(const LoadResult& result) {
    if (result.refused != 0) Give(fmt::format("{}: {} were refused", name, result.refused));
    rates.push_back(result.per_second());
    p50.push_back(result.admitted.At(0.5));
    p99.push_back(result.admitted.At(0.99));
    worst.push_back(result.admitted.At(1));
  }
  void AddFloor(const LoadResult& result) {
    floor_rates.push_back(result.per_second());
    floor_p50.push_back(result.admitted.At(0.5));
  }
  Json ToJson() const {
    return Json::Object({{"name", name},
                         {"connections", connections},
                         {"per_second", Median(rates)},
                         {"per_second_worst", std::ranges::min(rates)},
                         {"p50_us", Median(p50)},
                         {"p99_us", Median(p99)},
                         {"p99_us_worst", std::ranges::max(p99)},
                         {"longest_us", std::ranges::max(worst)},
                         {"floor", floor},
                         {"floor_per_second", Median(floor_rates)},
                         {"floor_p50_us", Median(floor_p50)}});
  }
};

// A number of the overload: median and worst over the runs.
struct Number {
  std::string name;
  std::string unit;
  std::string goal;
  bool more_is_better = false;
  std::vector<double> runs;

  double worst() const { return more_is_better ? std::ranges::min(runs) : std::ranges::max(runs); }
  Json ToJson() const {
    return Json::Object({{"name", name},
                         {"unit", unit},
                         {"goal", goal},
                         {"median", Median(runs)},
                         {"worst", worst()}});
  }
};

// ---- what is asked for

struct Command {
  std::int64_t event_id = 0;
  std::int64_t execution_id = 0;
  std::int64_t claim_token = 0;
};

// The number behind `"name":`, in quotes or not; 0: there is none.
std::int64_t NumberIn(std::string_view body, std::string_view name) {
  const std::string key = fmt::format("\"{}\":", name);
  std::size_t at = body.find(key);
  if (at == std::string_view::npos) return 0;
  at += key.size();
  if (at < body.size() && body[at] == '"') ++at;
  std::int64_t number = 0;
  std::from_chars(body.data() + at, body.data() + body.size(), number);
  return number;
}

class Database {
 public:
  Database(const std::string& directory, int flags) {
    if (sqlite3_open_v2((directory + "/noetl.db").c_str(), &handle_, flags, nullptr) != SQLITE_OK)
      Give("cannot open the database of " + directory);
  }
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void Execute(const std::string& sql) {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      Give(sqlite3_errmsg(handle_));
  }
  // Commands that nobody has claimed, oldest first.
  std::vector<Command> Pending() {
    sqlite3_stmt* select = nullptr;
    sqlite3_prepare_v2(handle_,
                       "SELECT command_id, execution_id FROM command "
                       "WHERE open = 1 AND status = 'PENDING' ORDER BY command_id",
                       -1, &select, nullptr);
    std::vector<Command> commands;
    while (sqlite3_step(select) == SQLITE_ROW)
      commands.push_back({sqlite3_column_int64(select, 0), sqlite3_column_int64(select, 1)});
    sqlite3_finalize(select);
    return commands;
  }

 private:
  sqlite3* handle_ = nullptr;
};

// Runs that have ended, one every 80 ms until now; one in 97 has failed, one in 100 has each path.
void StoreRuns(const std::string& directory, std::int64_t count) {
  const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  Database database(directory, SQLITE_OPEN_READWRITE);
  database.Execute(fmt::format(R"sql(
BEGIN;
WITH RECURSIVE number (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < {0}),
     run AS (SELECT i, {1} - ({0} - i) * 80 AS ms,
                    CASE i % 97 WHEN 0 THEN 'FAILED' ELSE 'COMPLETED' END AS status FROM number)
INSERT INTO execution (execution_id, catalog_id, path, version, status, started_at, ended_at, error,
                       soft_error_count, last_event_id, last_event_type, last_node_name, updated_at,
                       head, terminal, chain)
SELECT (ms - {2}) << 22, 1, 'bench/p' || (i % 100), 1, status, ms * 1000, ms * 1000 + 5000,
       CASE status WHEN 'FAILED' THEN 'the step failed' END, 0, ((ms - {2}) << 22) + 8,
       'playbook.completed', 'start', ms * 1000 + 5000, 8, 1, zeroblob(32)
FROM run;
COMMIT;
PRAGMA wal_checkpoint(TRUNCATE);
)sql",
                               count, now_ms, kIdEpochMs));
}

// ---- the program

struct Options {
  bool quick = false;
  bool overload_only = false;
  std::string binary;
  std::string directory = "/var/tmp";
  std::string json;
};

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)), seconds_(options_.quick ? 1 : 2) {
    root_ = fmt::format("{}/noetl-http-bench-{}", options_.directory, getpid());
  }
  ~Bench() {
    std::error_code ignored;  // a server that is still being killed may write
    std::filesystem::remove_all(root_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void Run() {
    const int runs = options_.quick ? 1 : 3;
    if (options_.overload_only) {
      for (int run = 0; run < runs; ++run) Overload(Fresh());
      return;
    }
    const std::string stored = Fresh();
    // The first start makes the tables.
    {
      const Server server(options_.binary, stored, false);
    }
    StoreRuns(stored, kStoredRuns);
    for (int run = 0; run < runs; ++run) {
      Floors();
      Requests(Fresh());
      Overload(Fresh());
      WholeRuns(Fresh());
      Lists(stored);
    }
  }

  void Show() const;
  Json ToJson() const;

 private:
  std::string Fresh() {
    const std::string directory = fmt::format("{}/{}", root_, ++directories_);
    std::filesystem::create_directories(directory);
    return directory;
  }

  // The figure of that name, in the order of the first use.
  Figure& At(const std::string& name, int connections, const std::string& floor) {
    for (Figure& figure : figures_)
      if (figure.name == name && figure.connections == connections) return figure;
    figures_.push_back({.name = name, .connections = connections, .floor = floor});
    return figures_.back();
  }
  Number& At(const std::string& name, const std::string& unit, const std::string& goal,
             bool more_is_better) {
    for (Number& number : numbers_)
      if (number.name == name) return number;
    numbers_.push_back(
        {.name = name, .unit = unit, .goal = goal, .more_is_better = more_is_better, .runs = {}});
    return numbers_.back();
  }

  void Floors() {
    const FloorServer server(Fresh() + "/floor");
    for (const int connections : {kFew, kMany}) {
      Load load = {.port = server.port(), .connections = connections, .seconds = 1};
      load.next = [](std::string& request) { return !(request = Get("/constant")).empty(); };
      floors_[{"constant", connections}] = RunLoad(load);
      load.next = [](std::string& request) { return !(request = Post("/add", kStart)).empty(); };
      floors_[{"commit", connections}] = RunLoad(load);
    }
  }

  // Measures one route at both numbers of connections.
  using Next = std::function<bool(std::string&)>;
  using Answered = std::function<bool(std::string_view, std::string&)>;
  void Measure(const Server& server, const std::string& name, const std::string& floor, Next next,
               Answered answered = nullptr) {
    for (const int connections : {kFew, kMany}) {
      Figure& figure = At(name, connections, floor);
      figure.Add(RunLoad({.port = server.port(),
                          .connections = connections,
                          .seconds = seconds_,
                          .next = next,
                          .answered = answered}));
      figure.AddFloor(floors_.at({floor, connections}));
    }
  }

  // Starts runs until so many commands wait.
  std::vector<Command> Prepare(const Server& server, const std::string& directory,
                               std::size_t count) {
    constexpr std::size_t kBatch = 500;
    std::string list = kStart;
    for (std::size_t i = 1; i < kBatch; ++i) list += fmt::format(",{}", kStart);
    const std::string request =
        Post("/api/execute/batch", fmt::format("{{\"executions\":[{}]}}", list));
    Database database(directory, SQLITE_OPEN_READONLY);
    for (;;) {
      std::vector<Command> commands = database.Pending();
      if (commands.size() >= count) return commands;
      for (std::size_t i = commands.size(); i < count; i += kBatch) Ask(server.port(), request);
    }
  }

  void Requests(const std::string& directory);
  void ClaimsAndEvents(const Server& server, const std::vector<Command>& commands);
  void Leases(const Server& server, std::size_t waiting);
  void Overload(const std::string& directory);
  void WholeRuns(const std::string& directory);
  void Lists(const std::string& directory);

  Options options_;
  double seconds_;
  std::string root_;
  int directories_ = 0;
  std::map<std::pair<std::string, int>, LoadResult> floors_;  // of this run
  std::vector<Figure> figures_;
  std::vector<Number> numbers_;
};

void Bench::Requests(const std::string& directory) {
  const Server server(options_.binary, directory, false);
  Ask(server.port(), Post("/api/catalog/register", kOneStep));
  Measure(server, "POST /api/execute", "commit",
          [](std::string& request) { return !(request = Post("/api/execute", kStart)).empty(); });
  // Claims take at most two thirds, leases the rest.
  const std::size_t wanted = static_cast<std::size_t>(45'000 * seconds_);
  const std::vector<Command> commands = Prepare(server, directory, wanted);
  std::size_t turn = 0;
  Measure(server, "GET /api/executions/{id}/status", "constant", [&](std::string& request) {
    // A stride through all of them: neighbours are not asked for one after the other.
    const Command& command = commands[(turn += 7'919) % commands.size()];
    request = Get(fmt::format("/api/executions/{}/status", command.execution_id));
    return true;
  });
  ClaimsAndEvents(server, commands);
  Leases(server, commands.size() / 3);
}

void Bench::ClaimsAndEvents(const Server& server, const std::vector<Command>& commands) {
  const std::string body = R"({"worker_id":"bench"})";
  std::size_t claimed_to = 0;
  std::vector<Command> claimed;
  Measure(
      server, "POST /api/commands/{id}/claim", "commit",
      [&](std::string& request) {
        if (claimed_to >= commands.size() * 2 / 3) return false;
        const std::int64_t id = commands[claimed_to++].event_id;
        request = Post(fmt::format("/api/commands/{}/claim", id), body);
        return true;
      },
      [&](std::string_view answer, std::string&) {
        claimed.push_back({NumberIn(answer, "event_id"), NumberIn(answer, "execution_id"),
                           NumberIn(answer, "claim_token")});
        return false;
      });
  std::size_t started_to = 0;
  Measure(server, "POST /api/events", "commit", [&](std::string& request) {
    if (started_to >= claimed.size()) return false;
    const Command& command = claimed[started_to++];
    request =
        Post("/api/events",
             fmt::format(R"({{"execution_id":{0},"event_type":"command.started","step":"start",)"
                         R"("worker_id":"bench","context":{{"command_id":"{0}:start:{1}"}},)"
                         R"("meta":{{"claim_token":{2}}}}})",
                         command.execution_id, command.event_id, command.claim_token));
    return true;
  });
}

void Bench::Leases(const Server& server, std::size_t waiting) {
  const std::string lease =
      Post("/api/commands/lease", R"({"worker_id":"bench-2","max":1,"wait_ms":0})");
  Measure(
      server, "POST /api/commands/lease", "commit",
      [&](std::string& request) {
        request = lease;
        return waiting != 0 && waiting-- != 0;
      },
      [](std::string_view answer, std::string&) {
        if (NumberIn(answer, "claim_token") == 0) Give("there was nothing to lease");
        return false;
      });
}

void Bench::Overload(const std::string& directory) {
  const Server server(options_.binary, directory, false);
  Ask(server.port(), Post("/api/catalog/register", kOneStep));
  Load load = {.port = server.port(),
               .connections = kCapacityConnections,
               .seconds = seconds_ * 2,
               .next = [](std::string& request) {
                 return !(request = Post("/api/execute", kStart)).empty();
               }};
  const LoadResult full = RunLoad(load);
  load.connections = kOverloadConnections;
  load.rate = full.per_second() / 2;
  const LoadResult half = RunLoad(load);
  load.rate = full.per_second() * 2;
  const LoadResult twice = RunLoad(load);

  const auto add = [this](const char* name, const char* unit, double value, const char* goal = "",
                          bool more_is_better = false) {
    At(name, unit, goal, more_is_better).runs.push_back(value);
  };
  const double full_p99 = full.admitted.At(0.99);
  add("starts, 64 connections", "/s", full.per_second(), "", true);
  add("  p99", "us", full_p99);
  add("at 50 %: p99", "us", half.since_due.At(0.99));
  add("at 200 %: asked for", "/s", load.rate, "", true);
  add("  sent", "/s", static_cast<double>(twice.offered) / load.seconds, "", true);
  add("  admitted", "/s", twice.per_second(), "", true);
  add("  refused (429, 503)", "", static_cast<double>(twice.refused));
  add("  no connection free", "", static_cast<double>(twice.unsent));
  add("  p99 of the admitted", "us", twice.admitted.At(0.99));
  add("  p99 since they were due", "us", twice.since_due.At(0.99));
  add("  p99 over p99 at capacity", "times", twice.admitted.At(0.99) / full_p99, "<= 2");
}

void Bench::WholeRuns(const std::string& directory) {
  const Server server(options_.binary, directory, true);
  Ask(server.port(), Post("/api/catalog/register", kOneStep));
  Measure(
      server, "execute and wait for the end", "commit",
      [](std::string& request) { return !(request = Post("/api/execute", kStart)).empty(); },
      [](std::string_view answer, std::string& request) {
        if (answer.find("\"commands_generated\"") != std::string_view::npos) {
          request = Get(fmt::format("/api/executions/{}/wait", NumberIn(answer, "execution_id")));
          return true;
        }
        if (answer.find("\"COMPLETED\"") == std::string_view::npos)
          Give(fmt::format("a run did not complete: {}", answer));
        return false;
      });
}

void Bench::Lists(const std::string& directory) {
  const Server server(options_.binary, directory, false);
  for (const char* filter : {"", "&status=FAILED", "&path=bench/p7"}) {
    const std::string target = fmt::format("/api/executions?limit=50{}", filter);
    Measure(
        server, "GET " + target, "constant",
        [&](std::string& request) { return !(request = Get(target)).empty(); },
        [](std::string_view answer, std::string&) {
          if (answer.find("\"execution_id\"") == std::string_view::npos) Give("an empty list");
          return false;
        });
  }
}

void Bench::Show() const {
  fmt::print("{:<46} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "request", "conns", "median/s",
             "worst/s", "p50 us", "p99 us", "longest", "floor");
  for (const Figure& figure : figures_) {
    fmt::print(
        "{:<46} {:>5} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f}  {:.0f}/s, {:.0f} us ({})\n",
        figure.name, figure.connections, Median(figure.rates), std::ranges::min(figure.rates),
        Median(figure.p50), Median(figure.p99), std::ranges::max(figure.worst),
        Median(figure.floor_rates), Median(figure.floor_p50), figure.floor);
  }
  fmt::print("\n{:<32} {:>12} {:>12} {:<6} {}\n", "overload of POST /api/execute", "median",
             "worst", "unit", "goal");
  for (const Number& number : numbers_) {
    fmt::print("{:<32} {:>12.1f} {:>12.1f} {:<6} {}\n", number.name, Median(number.runs),
               number.worst(), number.unit, number.goal);
  }
}

Json Bench::ToJson() const {
  std::vector<Json> requests;
  std::vector<Json> overload;
  for (const Figure& figure : figures_) requests.push_back(figure.ToJson());
  for (const Number& number : numbers_) overload.push_back(number.ToJson());
  return Json::Object({{"requests", Json::Array(std::move(requests))},
                       {"overload", Json::Array(std::move(overload))}});
}

// Thousands of connections, here and in the server, which inherits it.
void RaiseFileLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
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
    else if (flag == "--overload") options.overload_only = true;
    else if (flag == "--binary") options.binary = value();
    else if (flag == "--dir") options.directory = value();
    else if (flag == "--json") options.json = value();
    else Give("unknown option " + flag);
  }
  if (options.binary.empty()) Give("--binary is missing: the program to measure");
  RaiseFileLimit();
  static Bench bench(options);  // its files go also when Give ends the program
  bench.Run();
  bench.Show();
  if (!options.json.empty()) std::ofstream(options.json) << WriteJsonPretty(bench.ToJson()) << "\n";
  return 0;
}

}  // namespace
}  // namespace noetl::bench

int main(int argc, char** argv) { return noetl::bench::Main(argc, argv); }
