// A lane: the one place where decisions about its executions are made.
//
// Facts arrive as mail (a start, a worker's report, a due timer, a message of another run ...). The
// lane drains its mailbox, and for every execution that got mail loads the state if needed, folds
// and decides once, and hands the unit to the committer. While a unit is on its way to the disk the
// execution's further mail waits and is decided together afterwards; other executions go on. What
// follows from a unit (answers, grants, messages) happens after its commit, never before.
//
// When a commit fails the state in memory is thrown away and read again from the store, so memory
// never knows more than the disk. When the disk cannot be written at all, mail is kept, new runs
// are refused, and the lane tries again by itself.
//
// Lives on one reactor; only `Deliver` and `OnCommitted` may be called from other threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/reactor.h"
#include "conductor/body_cache.h"
#include "conductor/conductor.h"
#include "conductor/dispatch.h"
#include "conductor/tally.h"
#include "engine/decide.h"
#include "engine/state.h"
#include "store/store.h"

namespace noetl::conductor {

// ---- mail

struct StartMail {
  StartCall call;
  CompiledPlaybook playbook;
  bool fresh = false;  // the id was just made: nobody has it
  Conductor::Started started;
};
struct ReportMail {
  bus::Report report;
  bus::ServerEnd::Sent sent;
  bool ended = false;     // the worker is done with the command, and its slot was returned
  bool replaced = false;  // the result could not be stored: a failure stands in for it
};
// There is a seat for a command that stood in line; or a worker asks for it by its id (`done`).
struct ClaimMail {
  std::string command_id;
  std::shared_ptr<const engine::Event> issued;  // null: to be read from the log
  Seat seat;
  std::int64_t event_id = 0;  // of command.issued, when a worker asks
  Conductor::ClaimDone done;
  std::optional<Result<Claimed>> answer;
};
// Events that a remote worker posted.
struct PostMail {
  PostCall call;
  std::move_only_function<void(Result<PostAnswer>)> done;
  PostAnswer answer;
};
// A remote worker gives a command back, or is gone.
struct ReturnMail {
  Lease lease;
  enum class Reason : std::uint8_t { kReleased, kExpired, kGone };
  Reason reason = Reason::kReleased;
  std::move_only_function<void(Status)> done;
  Status answer;
};
struct CallbackMail {
  CallbackCall call;
  std::move_only_function<void(Result<CallbackAnswer>)> done;
  CallbackAnswer answer;
  std::string command_id;
};
struct CancelMail {
  std::string reason;
  std::string requested_by;
  Conductor::Cancelled cancelled;
  bool effective = false;  // the run had not ended
};
struct FinalizeMail {
  bool completed = false;
  std::string error;
  Conductor::Cancelled finalized;
  bool effective = false;
};
struct TimerMail {
  engine::Timer timer;
};
struct MessageMail {
  store::MessageRow message;
};
// Something may be left to decide, or to take back from a process that is gone.
struct WakeMail {};

using Mail = std::variant<StartMail, ReportMail, ClaimMail, PostMail, ReturnMail, CallbackMail,
                          CancelMail, FinalizeMail, TimerMail, MessageMail, WakeMail>;

// Starts that may wait in one mailbox; more are refused.
inline constexpr std::size_t kStartsWaitingMax = 50'000;
// Posts of remote workers that may wait in one mailbox; more are refused.
inline constexpr std::size_t kPostsWaitingMax = 20'000;
// Facts that one decision takes; more wait for the next.
inline constexpr std::size_t kFactsMax = 512;
// A snapshot is written after this many events, later when the last one was large: what snapshots
// add to the disk stays below kSnapshotBytesPerEvent for each event.
inline constexpr std::int64_t kSnapshotEvents = 500;
inline constexpr std::int64_t kSnapshotBytesPerEvent = 256;
// ... or after this long and this many.
inline constexpr std::int64_t kSnapshotPauseUs = 30'000'000;
inline constexpr std::int64_t kSnapshotEventsSlow = 50;
// Units and grants are handed over when this many have gathered, so that committer and worker need
// not wait until the lane has been through all its mail.
inline constexpr std::size_t kHandOver = 64;
// How long a lane waits before it tries again to write.
inline constexpr std::int64_t kRetryUsMin = 100'000;
inline constexpr std::int64_t kRetryUsMax = 5'000'000;

// In place of the parent's command: a task of this process waits for the run.
inline constexpr std::string_view kWaitingTask = "wait:";

class Lane final : public CommitSink {
 public:
  Lane(Conductor* conductor, Reactor* reactor);
  ~Lane() override;

  void Deliver(std::int64_t execution_id, Mail mail);
  void OnCommitted(std::vector<Committed> results) override;
  // Starts are refused while the mailbox is full or the disk is; the reason, or nothing.
  std::optional<Error> Refusal() const;
  // The same for posts of remote workers.
  std::optional<Error> PostRefusal() const;
  Reactor* reactor() const { return reactor_; }
  std::size_t cached() const { return cached_.load(std::memory_order_relaxed); }
  // To be added to on the lane's thread only.
  Tallies& tallies() const { return tallies_; }

 private:
  struct Execution;
  using Executions = std::unordered_map<std::int64_t, std::unique_ptr<Execution>>;

  // lane.cc: mailbox, commits, memory.
  Execution& Touch(std::int64_t execution_id);
  void Drain();
  void Serve(Execution& execution);
  void Submit();
  void Finish(Committed& committed);
  void Publish(Execution& execution, store::UnitRows& unit);
  void Abandon(Execution& execution, const Error& error);
  // Forgets what is in memory of an execution but its mail: `working` is what was being decided.
  struct Unserved {
    std::vector<Mail> working;
    std::deque<Mail> later;
  };
  Unserved Reset(Execution& execution);
  void Forget(std::int64_t execution_id);
  void Rest(Execution& execution);
  void Pause(const Error& error);
  static bool IsTrouble(const Error& error);
  void Resume();
  void HandOut();
  void Trim();

  // lane_decide.cc: one decision.
  Status LoadState(Execution& execution);
  void CountLoad(const Execution& execution, bool loaded);
  void Prepare(Execution& execution);
  void PrepareEnded(Execution& execution);
  void RefuseAll(Execution& execution, const Error& error);
  void GiveUp(Execution& execution, const Error& error);
  bool Begin(Execution& execution);
  bool BeginChild(Execution& execution);
  void FailStart(Execution& execution, const Error& error);
  void Feed(Execution& execution, engine::Decider& decider, StartMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, ReportMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, ClaimMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, PostMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, ReturnMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, CallbackMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, CancelMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, FinalizeMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, TimerMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, MessageMail& mail);
  void Feed(Execution& execution, engine::Decider& decider, WakeMail& mail);
  void CountTimer(const engine::Timer& timer, bool ended);
  void EndHold(ReportMail& mail);
  void ReturnSlot();
  Status AcceptReport(const Execution& execution, const bus::Report& report) const;
  void TakeBackLost(Execution& execution, engine::Decider& decider);
  Status Decide(engine::Decider& decider);
  Status OfferCommands(Execution& execution, engine::Decider& decider);
  bus::Grant MakeGrant(const Execution& execution, const engine::Event& issued,
                       std::int64_t claim_token, Door door) const;

  // lane_worker.cc: remote workers, and claims.
  void Claim(Execution& execution, engine::Decider& decider, const engine::Event& issued,
             ClaimMail* asked, Seat seat);
  void PassOn(Seat seat);
  void ClaimAgain(Execution& execution, const engine::Command& command, ClaimMail& mail);
  std::shared_ptr<const engine::Event> IssuedEvent(const Execution& execution,
                                                   std::int64_t event_id) const;
  Posted Take(Execution& execution, engine::Decider& decider, const PostCall& call,
              PostedEvent& posted);
  Posted TakeOfCommand(Execution& execution, engine::Decider& decider, const PostCall& call,
                       PostedEvent& posted);
  std::optional<Posted> FindRepeated(const Execution& execution, const PostedEvent& posted) const;
  std::int64_t FreshId(std::int64_t event_id) const;
  void PostLate(Execution& execution, PostMail& mail);
  Status AddLate(Execution& execution, store::UnitRows& rows);
  static void AnswerPosts(Execution& execution, const engine::Unit& unit);
  Error WhyGone(const Execution& execution, std::int64_t command_number) const;
  void EndLease(const store::CommandChange& change);
  void DropClaims(Execution& execution);
  void Queue(Execution& execution, engine::Unit unit);
  void AddSnapshot(Execution& execution, store::UnitRows& rows);
  static void Answer(Mail& mail, const Execution& execution, const Status& status);

  Conductor* conductor_;
  Reactor* reactor_;
  Executions executions_;
  std::list<std::int64_t> recent_;  // those at rest, the last used one first
  std::atomic<std::size_t> cached_{0};
  mutable Tallies tallies_;
  std::size_t bytes_ = 0;
  BodyCache bodies_;
  // Commands of this lane that the worker of this process holds, until their end is stored; and
  // whether they still have their slot.
  std::unordered_map<std::string, bool> held_;

  std::vector<std::unique_ptr<store::UnitRows>> outgoing_;
  std::vector<bus::Grant> grants_;
  std::vector<std::string> stops_;
  bool slots_freed_ = false;

  mutable std::mutex mutex_;
  std::vector<std::pair<std::int64_t, Mail>> mailbox_;
  std::vector<Committed> committed_;
  bool woken_ = false;
  std::optional<Error> trouble_;  // the disk cannot be written
  std::atomic<std::size_t> starts_waiting_{0};
  std::atomic<std::size_t> posts_waiting_{0};

  std::int64_t retry_us_ = kRetryUsMin;
  bool paused_ = false;
};

}  // namespace noetl::conductor
