// The virtual parts around the conductor and the worker of a simulated machine: a disk with moods,
// a committer that takes its time, a line that loses words, tools that answer by a plan.
//
// All live on reactors of one `VirtualTime`; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bus/link.h"
#include "conductor/committer.h"
#include "sim/faults.h"
#include "sim/virtual_time.h"
#include "sim/world.h"
#include "store/store.h"
#include "worker/tools/registry.h"

namespace noetl::sim {

// The store as the committer sees it: commits may be refused, cut short by a crash, or lied about.
class Disk final : public store::EventLog {
 public:
  using Stored = std::function<void(const store::UnitRows&)>;
  Disk(Faults* faults, Clock* clock, Stored stored)
      : faults_(faults), clock_(clock), stored_(std::move(stored)) {}

  void Use(store::Store* store) { store_ = store; }
  // Whether the process ends now; asked once after each task.
  bool TakeCrash() { return std::exchange(crash_, false); }

  std::vector<Status> Commit(std::span<const store::UnitRows* const> units) override;
  Result<std::vector<engine::Event>> ReadEvents(std::int64_t execution_id, std::int64_t after_seq,
                                                std::int64_t limit) const override;
  Result<std::vector<store::EventRow>> ReadRows(std::int64_t execution_id, std::int64_t after_seq,
                                                std::int64_t limit) const override;
  Result<std::optional<engine::Event>> FindEvent(std::int64_t execution_id,
                                                 std::int64_t event_id) const override;
  Result<std::optional<engine::Event>> FindEvent(std::int64_t event_id) const override;
  Result<std::vector<engine::Event>> ReadNewest(std::int64_t execution_id, std::int64_t before_seq,
                                                std::string_view type_name,
                                                std::int64_t limit) const override;
  Result<std::optional<engine::Event>> FindWorkerEvent(std::int64_t command_id,
                                                       std::string_view type_name) const override;

 private:
  std::vector<Status> Write(std::span<const store::UnitRows* const> units);

  Faults* faults_;
  Clock* clock_;
  Stored stored_;
  store::Store* store_ = nullptr;
  std::int64_t full_until_us_ = 0;  // monotonic
  bool crash_ = false;
};

// Commits some of what waits, after a while.
class SlowCommitter final : public conductor::Committer {
 public:
  SlowCommitter(Reactor* reactor, RandomSource* random, store::EventLog* log)
      : reactor_(reactor), random_(random), log_(log) {}

  void Submit(std::vector<std::unique_ptr<store::UnitRows>> units,
              conductor::CommitSink* sink) override;

 private:
  struct Job {
    std::unique_ptr<store::UnitRows> unit;
    conductor::CommitSink* sink;
  };
  void Arm();
  void Work();

  Reactor* reactor_;
  RandomSource* random_;
  store::EventLog* log_;
  std::vector<Job> queue_;
  bool armed_ = false;
};

// What a worker speaks to. It belongs to the worker and outlives the process when the worker does:
// then words reach whoever owns the store now.
class Line final : public bus::ServerEnd, public std::enable_shared_from_this<Line> {
 public:
  // Gives the conductor of the present.
  using Server = std::function<bus::ServerEnd*()>;
  Line(Reactor* reactor, Faults* faults, Server server)
      : reactor_(reactor), faults_(faults), server_(std::move(server)) {}

  // The process of the worker is gone; only its reports and questions still get through.
  void Orphan() { orphan_ = true; }

  void Send(bus::Report report, Sent sent) override;
  void Load(std::string ref, Loaded loaded) override;
  void RunChild(bus::ChildCall call, ChildDone done) override;
  void FindSecret(std::string alias, std::int64_t execution_id, Loaded found) override;
  void FreeSlots(int change) override;

 private:
  std::int64_t Delay();
  std::int64_t LongDelay();
  void Later(std::int64_t delay_us, Reactor::Task task);
  void Deliver(bus::Report report, Sent sent);
  void Answer(Sent sent, Status status, std::int64_t delay_us);

  Reactor* reactor_;
  Faults* faults_;
  Server server_;
  bool orphan_ = false;
  std::map<std::string, int> refused_;  // loads, by reference
};

// Every kind of tool, answered by a `Tools` after a virtual time.
class VirtualTools final : public worker::Tools, public worker::Tool {
 public:
  // Told of each call before it starts.
  using Called = std::function<void(const ToolCall&)>;
  VirtualTools(Reactor* reactor, RandomSource* random, sim::Tools* answers, Called called)
      : reactor_(reactor), random_(random), answers_(answers), called_(std::move(called)) {}

  // Calls for a command name its place by what the grant said.
  void Expect(const bus::Grant& grant) { grants_[grant.command_id] = {grant.path, grant.meta}; }

  worker::Tool* Find(std::string_view kind) override;
  std::unique_ptr<worker::Running> Start(worker::ToolCall call, Done done) override;

 private:
  class Call;
  struct Granted {
    std::string path;
    Json meta;
  };
  ToolCall PlaceOf(const worker::ToolCall& call) const;
  std::int64_t Duration(const ToolAnswer& answer);

  Reactor* reactor_;
  RandomSource* random_;
  sim::Tools* answers_;
  Called called_;
  std::map<std::string, Granted, std::less<>> grants_;
};

}  // namespace noetl::sim
