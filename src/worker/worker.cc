#include "worker/worker.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "worker/command_run.h"

namespace noetl::worker {

struct Worker::Impl final : RunHost, std::enable_shared_from_this<Worker::Impl> {
  // Calls of one kind that is limited.
  struct Kind {
    int max = 1;
    int used = 0;
    std::deque<std::weak_ptr<CommandRun>> queue;
  };
  // A last report that the server could not take for the moment.
  struct Waiting {
    std::shared_ptr<const bus::Report> report;
    Reactor::TimerId timer = 0;
  };

  Impl(WorkerOptions given, Reactor* reactor, Clock* clock, IdSource* ids, Tools* tools,
       bus::ServerEnd* server)
      : options(std::move(given)),
        shared{&options, reactor, clock, ids, tools, server, std::make_shared<Door>(reactor)} {
    // A limit below one would never let a call through.
    for (const auto& [kind, max] : options.calls_max) kinds[kind].max = std::max(max, 1);
  }

  ~Impl() override {
    shared.door->Close();
    for (const auto& [id, entry] : unsent) shared.reactor->CancelTimer(entry.timer);
    runs.clear();
  }

  // ---- what runs ask for

  const RunParts& parts() const override { return shared; }

  bool TakeCall(CommandRun& run, const std::string& kind) override {
    const auto found = kinds.find(kind);
    if (found == kinds.end()) return true;
    if (found->second.used < found->second.max) {
      ++found->second.used;
      return true;
    }
    found->second.queue.push_back(run.weak_from_this());
    return false;
  }

  void LeaveQueue(const CommandRun& run, const std::string& kind) override {
    std::erase_if(kinds[kind].queue, [&](const std::weak_ptr<CommandRun>& waits) {
      return waits.lock().get() == &run;
    });
  }

  void GiveCall(const std::string& kind) override {
    const auto found = kinds.find(kind);
    if (found == kinds.end()) return;
    Kind& calls = found->second;
    --calls.used;
    while (!calls.queue.empty() && calls.used < calls.max) {
      const std::shared_ptr<CommandRun> next = calls.queue.front().lock();
      calls.queue.pop_front();
      if (!next) continue;
      ++calls.used;
      next->TakeTurn();
      Later(*next);
    }
  }

  bool BeginWait() override {
    if (waiting >= kWaitingMax) return false;
    ++waiting;
    shared.server->FreeSlots(1);
    return true;
  }

  void EndWait() override {
    --waiting;
    shared.server->FreeSlots(-1);
  }

  void Later(CommandRun& run) override {
    ready.push_back(run.weak_from_this());
    PostTurn();
  }

  void Discard(std::unique_ptr<Running> running) override {
    discarded.push_back(std::move(running));
    PostTurn();
  }

  void Ended(CommandRun& run, std::optional<bus::Report> last) override {
    const std::shared_ptr<CommandRun> self = run.shared_from_this();
    runs.erase(run.id());
    if (last) Send(*std::move(last), 0);
    TellIdle();
  }

  // ---- turns

  void PostTurn() {
    if (std::exchange(turn_posted, true)) return;
    shared.reactor->Post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Turn();
    });
  }

  // All runs that became ready since the last turn; one that becomes ready meanwhile has the next.
  void Turn() {
    turn_posted = false;
    const auto gone = std::exchange(discarded, {});
    for (const std::weak_ptr<CommandRun>& weak : std::exchange(ready, {})) {
      if (const auto run = weak.lock()) run->Advance();
    }
  }

  void Start(std::vector<bus::Grant> grants) {
    for (bus::Grant& grant : grants) {
      if (closed) return;
      auto run = std::make_shared<CommandRun>(this, std::move(grant));
      if (!runs.try_emplace(run->id(), run).second) continue;  // told twice
      run->Advance();
    }
  }

  void Cancel(const std::string& command_id) {
    if (const auto found = unsent.find(command_id); found != unsent.end()) {
      shared.reactor->CancelTimer(found->second.timer);
      unsent.erase(found);
    }
    if (const auto found = runs.find(command_id); found != runs.end()) {
      const std::shared_ptr<CommandRun> run = found->second;
      run->Cancel();
    }
  }

  void CancelAll(std::move_only_function<void()> then) {
    closed = true;
    idle.push_back(std::move(then));
    std::vector<std::shared_ptr<CommandRun>> all;
    for (const auto& [id, run] : runs) all.push_back(run);
    for (const auto& run : all) run->Cancel();
    TellIdle();
  }

  // In a task of its own: who is told may destroy the worker.
  void TellIdle() {
    if (!runs.empty() || idle.empty()) return;
    shared.reactor->Post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      for (auto& then : std::exchange(self->idle, {})) then();
    });
  }

  // ---- last reports

  // The report is kept until the server has it. Success needs no task of ours.
  void Send(bus::Report report, std::int64_t delay_ms) {
    auto kept = std::make_shared<const bus::Report>(report);
    shared.server->Send(std::move(report), [door = shared.door, weak = weak_from_this(),
                                            kept = std::move(kept), delay_ms](Status status) {
      if (status || IsRefused(status.error())) return;
      door->Post([weak, kept, delay_ms, error = std::move(status).error()] {
        if (const auto self = weak.lock()) self->SendAgain(kept, delay_ms, error);
      });
    });
  }

  void SendAgain(std::shared_ptr<const bus::Report> report, std::int64_t delay_ms,
                 const Error& error) {
    if (!IsTransient(error)) {
      // The server does not want these words ever: say instead that they are lost, once.
      const bool said = !report->events.empty() &&
                        report->events.back().type == engine::EventType::kCommandFailed;
      if (!said) Send(StorageFailure(shared, *report, error), 0);
      return;
    }
    const std::int64_t next_ms = NextDelayMs(delay_ms);
    Waiting& entry = unsent[report->command_id];
    entry.report = std::move(report);
    entry.timer = shared.reactor->After(
        next_ms * 1'000, [weak = weak_from_this(), id = entry.report->command_id, next_ms] {
          const auto self = weak.lock();
          if (!self) return;
          const auto node = self->unsent.extract(id);
          if (node) self->Send(*node.mapped().report, next_ms);
        });
  }

  WorkerOptions options;
  RunParts shared;
  std::map<std::string, Kind, std::less<>> kinds;
  std::unordered_map<std::string, std::shared_ptr<CommandRun>> runs;
  std::unordered_map<std::string, Waiting> unsent;
  std::vector<std::weak_ptr<CommandRun>> ready;
  std::vector<std::unique_ptr<Running>> discarded;
  std::vector<std::move_only_function<void()>> idle;
  int waiting = 0;
  bool turn_posted = false;
  bool closed = false;  // no new commands: the worker is being shut down
};

Worker::Worker(WorkerOptions options, Reactor* reactor, Clock* clock, IdSource* ids, Tools* tools,
               bus::ServerEnd* server)
    : impl_(std::make_shared<Impl>(std::move(options), reactor, clock, ids, tools, server)) {}

Worker::~Worker() = default;

void Worker::Run(std::vector<bus::Grant> grants) {
  impl_->shared.door->Post(
      [weak = std::weak_ptr<Impl>(impl_), grants = std::move(grants)]() mutable {
        if (const auto impl = weak.lock()) impl->Start(std::move(grants));
      });
}

void Worker::Stop(std::vector<std::string> command_ids) {
  impl_->shared.door->Post([weak = std::weak_ptr<Impl>(impl_), ids = std::move(command_ids)] {
    const auto impl = weak.lock();
    if (!impl) return;
    for (const std::string& id : ids) impl->Cancel(id);
  });
}

void Worker::StopAll(std::move_only_function<void()> idle) { impl_->CancelAll(std::move(idle)); }

std::size_t Worker::running() const { return impl_->runs.size(); }

}  // namespace noetl::worker
