// The conductor: owns the executions of one store and makes them go.
//
// Every execution belongs to one lane (lane.h), which alone decides for it; the conductor sorts
// requests into lanes, offers commands to its worker, fires timers and carries messages between
// executions. All methods may be called from any thread unless they say otherwise. An answer that
// tells of success comes after the commit; answers come on a lane's thread.
//
// Error codes of answers: "not_found"; "invalid" (a playbook that does not compile, a payload that
// cannot be stored); "overloaded" and "unavailable" (try again later; the message says why);
// "superseded", "stale_claim", "active_claim", "cancelled", "already_terminal" for workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/reactor.h"
#include "bus/link.h"
#include "conductor/committer.h"
#include "conductor/dispatch.h"
#include "conductor/fleet.h"
#include "conductor/leases.h"
#include "conductor/playbooks.h"
#include "conductor/tally.h"
#include "conductor/worker_calls.h"
#include "engine/state.h"
#include "store/store.h"

namespace noetl::conductor {

class Lane;

// Claims of a worker with such a name end with the process that made them: the next one that owns
// the store takes the commands back at once.
inline constexpr std::string_view kInProcessWorker = "inproc-";

// Told of everything that was committed, in order for each execution. Called on the lane's thread:
// must be quick.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnEvents(const store::ExecutionRow& execution,
                        std::span<const store::EventRow> events) = 0;
  virtual void OnLogs(std::span<const store::LogChunk>) {}
};

// Where secrets come from; answers on any thread.
class SecretSource {
 public:
  virtual ~SecretSource() = default;
  virtual void FindSecret(std::string alias, std::int64_t execution_id,
                          bus::ServerEnd::Loaded found) = 0;
  // Keeps a secret input of a run until the run is removed. Gives the alias that finds it, as
  // {name, type: "input", data: {value}}; the same one when it is kept again.
  virtual Result<std::string> KeepInput(std::int64_t execution_id, std::string_view name,
                                        const Json& value) = 0;
};

struct StartCall {
  std::int64_t execution_id = 0;  // 0: a new one; starting one that exists changes nothing
  std::int64_t catalog_id = 0;    // 0: by path and version
  std::string path;
  std::int64_t version = 0;  // 0: the newest
  Json payload;
  std::int64_t parent_execution_id = 0;
  std::string parent_command_id;
  std::string parent_step;
  std::string return_step;
  std::int64_t depth = 0;
  std::string pool;
  Json trace;
  // Besides those of its parent a run may be given the secret inputs of this one.
  std::int64_t secrets_of = 0;
  bool patient = false;  // not refused because others wait; whoever sets it starts few at a time
};

// Starts on their way to the disk that are no queue yet: some 8 ms of work. When there have been
// more for kStandingQueueUs without a pause, the load is more than we can do. Then, and for
// kRefusingUs after the last refusal, fewer are let in, so that they are as quick as without the
// load. A burst passes.
inline constexpr std::int64_t kStartsOnTheirWay = 128;
inline constexpr std::int64_t kStartsWhileRefusing = 64;
inline constexpr std::int64_t kStandingQueueUs = 10'000;
inline constexpr std::int64_t kRefusingUs = 1'000'000;

struct ConductorOptions {
  store::Store* store = nullptr;
  Clock* clock = nullptr;
  IdSource* ids = nullptr;
  Committer* committer = nullptr;
  std::vector<Reactor*> lanes;  // one lane on each
  engine::Semantics semantics;  // for new runs
  Json env;                     // captured by new runs
  std::string worker_id;        // of the worker in this process; starts with kInProcessWorker
  int slots = 64;               // commands it holds at once
  LeasePolicy leases;           // of remote workers
  std::size_t cache_bytes = std::size_t{1} << 30;  // states kept in memory
  Listener* listener = nullptr;                    // may be null
  SecretSource* secrets = nullptr;                 // null: there are none
  bool refuse_early = false;                       // starts, when a queue of them stands
};

class Conductor final : public bus::ServerEnd {
 public:
  explicit Conductor(ConductorOptions options);
  // When no reactor runs any more.
  ~Conductor() override;

  // The worker that commands are offered to; before `Recover`. None: commands wait.
  void Attach(bus::WorkerEnd* worker);

  // Takes up everything that an earlier process left undone. Once, before other calls.
  Status Recover();

  using Started = std::move_only_function<void(Result<std::int64_t>)>;
  void Start(StartCall call, Started started);
  // Why a start would be refused just now, for callers that have not read it yet. Any thread.
  std::optional<Error> RefusesStarts();

  struct CancelAnswer {
    bool cancelled = false;  // false: it had ended already
    std::string status;
  };
  using Cancelled = std::move_only_function<void(Result<CancelAnswer>)>;
  // `cascade`: also runs that this one started and does not wait for.
  void Cancel(std::int64_t execution_id, std::string reason, std::string requested_by, bool cascade,
              Cancelled cancelled);
  void Finalize(std::int64_t execution_id, bool completed, std::string error, Cancelled finalized);

  // No command is offered to any worker any more; what runs goes on. Questions for work are
  // answered with nothing.
  void StopOffering();

  // Remote workers (worker_calls.h). Answers that tell of success come after the commit.
  using ClaimDone = std::move_only_function<void(Result<Claimed>)>;
  void Claim(ClaimCall call, ClaimDone done);
  // Waits for work; answered with what there is, at the latest when the time is over.
  void Lease(LeaseCall call, std::move_only_function<void(std::vector<Claimed>)> done);
  // All events of one run: stored together, one decision after them.
  void Post(PostCall call, std::move_only_function<void(Result<PostAnswer>)> done);
  RenewAnswer Renew(std::string_view worker_id, std::span<const Holding> holdings);
  // The worker lives: claims that it made one by one are renewed.
  void RenewClaims(std::string_view worker_id);
  // Gives a command back. Not started: it is offered again as it is; started: a new attempt that
  // does not count. "not_found", "stale_claim".
  void Release(std::string_view worker_id, Holding holding,
               std::move_only_function<void(Status)> done);
  // Everything a worker holds: it says good-bye (does not count), or it begins anew, so what it held
  // before is lost (counts).
  void ReleaseAll(std::string_view worker_id, bool counts);
  void Callback(CallbackCall call, std::move_only_function<void(Result<CallbackAnswer>)> done);

  Fleet& fleet() { return fleet_; }
  const Leases& leases() const { return leases_; }
  // Commands in line, by pool.
  std::vector<std::pair<std::string, std::size_t>> WaitingByPool() const {
    return dispatch_.WaitingByPool();
  }

  // Commands that workers were told of, by pool.
  std::vector<std::pair<std::string, std::int64_t>> ToldByPool() const {
    return dispatch_.ToldByPool();
  }
  // What the lanes have counted so far.
  ConductorStats Stats() const;

  // bus::ServerEnd
  void Send(bus::Report report, Sent sent) override;
  void Load(std::string ref, Loaded loaded) override;
  void RunChild(bus::ChildCall call, ChildDone done) override;
  void FindSecret(std::string alias, std::int64_t execution_id, Loaded found) override;
  void FreeSlots(int change) override;

  // Executions in memory, for tests and metrics.
  std::size_t cached() const;
  // Slots of the worker that no command has.
  int free_slots() const { return dispatch_.free_slots(); }

 private:
  friend class Lane;

  Lane& LaneOf(std::int64_t execution_id);
  // Counts a start, or tells why it is refused.
  std::optional<Error> AdmitStart();
  Error RefuseStart(std::int64_t now_us);
  void EndStart();
  void Route(store::MessageRow message);
  // Routes every message that is stored; those on their way already do no harm twice.
  Status RouteStored();
  bool IsStored(std::int64_t execution_id) const;
  std::size_t LaneBytes() const { return options_.cache_bytes / lanes_.size(); }
  void Offer();
  // A seat of a poll is free again: the next command that it serves, or nothing.
  void OfferSeat(Seat seat);
  void Deliver(Dispatch::Waiting waiting, Seat seat);
  void ArmTimer(std::int64_t due_us);
  void OnTimer();
  void AnswerWaiting(const engine::ChildEnd& end);
  // Wake-ups of polls and leases, on the first lane's reactor.
  void ArmWorkers(std::int64_t due_us);
  void OnWorkers();
  void Readopt(const store::CommandRow& command);

  ConductorOptions options_;
  bus::WorkerEnd* worker_ = nullptr;
  Playbooks playbooks_;
  Dispatch dispatch_;
  std::vector<std::unique_ptr<Lane>> lanes_;

  std::atomic<std::int64_t> starts_{0};             // on their way
  std::atomic<std::int64_t> starts_many_since_{0};  // monotonic; 0: few
  std::atomic<std::int64_t> refusing_until_{0};     // monotonic

  // The next wake-up for timers and delayed messages; touched on the first lane's reactor only.
  std::int64_t armed_us_ = 0;
  Reactor::TimerId armed_ = 0;

  // The same for polls and leases, by the monotonic clock.
  std::int64_t workers_us_ = 0;
  Reactor::TimerId workers_timer_ = 0;
  std::atomic<std::int64_t> workers_due_us_{0};  // 0: not armed

  Leases leases_;
  Fleet fleet_;
  // The last question for work of each worker, to answer it again.
  struct Question {
    std::string request_id;
    std::shared_ptr<Poll> poll;
    std::vector<Claimed> answer;
  };
  std::mutex questions_mutex_;
  std::map<std::string, Question, std::less<>> questions_;

  std::mutex waiting_mutex_;
  std::map<std::string, ChildDone, std::less<>> waiting_;  // tasks that wait for a child
};

}  // namespace noetl::conductor
