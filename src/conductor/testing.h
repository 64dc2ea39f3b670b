// Shared by the tests of the conductor: a machine without threads whose worker does as told.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json_io.h"
#include "base/manual_reactor.h"
#include "conductor/committer.h"
#include "conductor/conductor.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"

namespace noetl::conductor {

// Commits when the reactor comes to it, all that was handed over together.
class PostedCommitter final : public Committer {
 public:
  PostedCommitter(store::EventLog* log, Reactor* reactor) : log_(log), reactor_(reactor) {}

  void Submit(std::vector<std::unique_ptr<store::UnitRows>> units, CommitSink* sink) override {
    for (auto& unit : units) {
      units_.push_back(std::move(unit));
      sinks_.push_back(sink);
    }
    reactor_->Post([this] {
      if (units_.empty()) return;
      ++commits;
      CommitTogether(*log_, std::exchange(units_, {}), std::exchange(sinks_, {}));
    });
  }

  int commits = 0;

 private:
  store::EventLog* log_;
  Reactor* reactor_;
  std::vector<std::unique_ptr<store::UnitRows>> units_;
  std::vector<CommitSink*> sinks_;
};

// Holds the commands it was given until a test says how they ended.
class HeldCommands final : public bus::WorkerEnd {
 public:
  void Run(std::vector<bus::Grant> grants) override {
    for (bus::Grant& grant : grants) {
      ++granted[grant.command_id];
      held.push_back(std::move(grant));
    }
  }
  void Stop(std::vector<std::string> command_ids) override {
    for (const std::string& id : command_ids) {
      stopped.push_back(id);
      std::erase_if(held, [&](const bus::Grant& grant) { return grant.command_id == id; });
    }
  }

  std::vector<bus::Grant> held;
  std::vector<std::string> stopped;
  std::map<std::string, int> granted;
};

class Machine {
 public:
  struct Options {
    store::MemoryStoreOptions store;
    int slots = 64;
    std::size_t cache_bytes = std::size_t{1} << 30;
    int lanes = 1;
    bool worker = true;  // in this process
    bool refuse_early = false;
    std::string sqlite;                          // a directory: on SQLite instead of memory
    std::atomic<std::int64_t>* syncs = nullptr;  // of SQLite
  };
  Machine() : Machine(Options()) {}
  explicit Machine(Options options) : options_(std::move(options)) {
    if (options_.sqlite.empty()) {
      store = store::MakeMemoryStore(options_.store);
    } else {
      store =
          store::OpenSqliteStore({.directory = options_.sqlite, .syncs = options_.syncs}).value();
    }
    Boot();
  }

  // A new process over the same store: everything in memory is gone.
  void Restart() {
    Kill();
    Boot();
  }
  void Kill() {
    conductor.reset();
    committer.reset();
    worker.reset();
    reactor.reset();
  }
  void Boot() {
    reactor = std::make_unique<ManualReactor>(&clock);
    committer = std::make_unique<PostedCommitter>(store.get(), reactor.get());
    worker = std::make_unique<HeldCommands>();
    worker_id = "inproc-test-" + std::to_string(++boots_);
    ConductorOptions options;
    options.store = store.get();
    options.clock = &clock;
    options.ids = &ids;
    options.committer = committer.get();
    for (int i = 0; i < options_.lanes; ++i) options.lanes.push_back(reactor.get());
    options.worker_id = worker_id;
    options.slots = options_.slots;
    options.cache_bytes = options_.cache_bytes;
    options.refuse_early = options_.refuse_early;
    conductor = std::make_unique<Conductor>(std::move(options));
    if (options_.worker) conductor->Attach(worker.get());
    const Status recovered = conductor->Recover();
    EXPECT_TRUE(recovered.has_value()) << (recovered ? "" : recovered.error().message);
    Run();
  }

  void Run() { reactor->RunPosted(); }

  std::int64_t Register(std::string_view path, std::string_view content) {
    const auto entry = store->Register(
        {.catalog_id = ids.Next(), .path = std::string(path), .content = std::string(content)});
    EXPECT_TRUE(entry.has_value());
    return entry->catalog_id;
  }
  Result<std::int64_t> Start(std::string_view path, Json payload = Json()) {
    std::optional<Result<std::int64_t>> answer;
    conductor->Start({.path = std::string(path), .payload = std::move(payload)},
                     [&](Result<std::int64_t> started) { answer = std::move(started); });
    Run();
    EXPECT_TRUE(answer.has_value()) << "the start was not answered";
    return *answer;
  }

  // The worker's last word on a command it holds: the tool gave `data`.
  bus::Report Success(const bus::Grant& grant, Json data) {
    bus::Report report = Blank(grant);
    const Json tool = Json::Object({{"status", "success"}, {"data", std::move(data)}});
    const Json res = Json::Object({{"status", "success"}, {"context", tool}});
    Add(report, engine::EventType::kCallDone, "COMPLETED",
        Json::Object({{"command_id", grant.command_id}, {"call_index", 0}, {"result", res}}));
    Add(report, engine::EventType::kCommandCompleted, "success",
        Json::Object({{"command_id", grant.command_id}, {"status", "success"}}));
    return report;
  }
  Status Send(bus::Report report) {
    std::optional<Status> answer;
    conductor->Send(std::move(report), [&](Status sent) { answer = std::move(sent); });
    Run();
    EXPECT_TRUE(answer.has_value()) << "the report was not answered";
    return *answer;
  }
  // Completes the held command of this step; fails the test when there is none.
  Status Complete(std::string_view step, Json data = Json::Object()) {
    for (std::size_t i = 0; i < worker->held.size(); ++i) {
      if (worker->held[i].step != step) continue;
      const bus::Grant grant = worker->held[i];
      worker->held.erase(worker->held.begin() + static_cast<std::ptrdiff_t>(i));
      return Send(Success(grant, std::move(data)));
    }
    ADD_FAILURE() << "no command of step " << step << " is held";
    return {};
  }

  store::ExecutionRow Row(std::int64_t id) const {
    const auto row = store->Find(id);
    EXPECT_TRUE(row && *row) << "run " << id << " is not stored";
    return row && *row ? **row : store::ExecutionRow();
  }
  std::vector<engine::Event> Events(std::int64_t id) const {
    return store->ReadEvents(id, 0, 1'000'000).value();
  }
  // "playbook_started step.enter ...".
  std::string Types(std::int64_t id) const {
    std::string text;
    for (const engine::Event& event : Events(id)) {
      if (!text.empty()) text += ' ';
      text += event.type_name;
    }
    return text;
  }

  ManualClock clock{1'767'225'600'000'000};
  SequentialIds ids{1'000};
  std::unique_ptr<store::Store> store;
  std::unique_ptr<ManualReactor> reactor;
  std::unique_ptr<PostedCommitter> committer;
  std::unique_ptr<HeldCommands> worker;
  std::unique_ptr<Conductor> conductor;
  std::string worker_id;

 private:
  bus::Report Blank(const bus::Grant& grant) {
    bus::Report report;
    report.execution_id = grant.execution_id;
    report.command_id = grant.command_id;
    report.event_id = grant.event_id;
    report.claim_token = grant.claim_token;
    report.worker_id = worker_id;
    report.step = grant.step;
    report.ends = true;
    return report;
  }
  void Add(bus::Report& report, engine::EventType type, std::string_view status, Json context) {
    engine::Event event;
    event.event_id = ids.Next();
    event.type = type;
    event.type_name = engine::EventName(type);
    event.node_name = report.step;
    event.status = std::string(status);
    event.worker_id = report.worker_id;
    event.created_at_us = clock.NowMicros();
    event.result = Json::Object({{"status", status}, {"context", std::move(context)}});
    event.meta = Json::Object({{"claim_token", report.claim_token}});
    report.events.push_back(std::move(event));
  }

  Options options_;
  int boots_ = 0;
};

}  // namespace noetl::conductor
