// One command in the hands of a worker: tool calls, delays, stored bodies and children, in order.
//
// A run is made from a grant and told to `Advance`; it goes on as far as it can without waiting and
// is told again when what it waits for has come. It ends by handing its last report to the host, or
// without one when it is cancelled. A call that is answered at once costs no turn of the reactor.
//
// Everything here lives on the worker's reactor. The host owns its runs; answers of the server come
// on any thread and enter through the `Door`. Destroying a run kills its tool.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/reactor.h"
#include "base/result.h"
#include "bus/link.h"
#include "engine/command.h"
#include "engine/pipeline.h"
#include "worker/log_feed.h"
#include "worker/masking.h"
#include "worker/reports.h"
#include "worker/tool.h"
#include "worker/worker.h"

namespace noetl::worker {

// The code of an error: a stored body is gone.
inline constexpr std::string_view kNotAvailable = "REFERENCE_NOT_AVAILABLE";
// Commands that wait for a delay or a child with their slot given back. Beyond it they keep it, so
// that what a worker holds stays bounded.
inline constexpr int kWaitingMax = 1'000;
// What the server refused for the moment is tried again after this long, doubling.
inline constexpr std::int64_t kRetryFirstMs = 100;
inline constexpr std::int64_t kSendDelayMsMax = 5'000;

// The delay after one of `delay_ms`; 0: before the first.
inline std::int64_t NextDelayMs(std::int64_t delay_ms) {
  return delay_ms == 0 ? kRetryFirstMs : std::min(delay_ms * 2, kSendDelayMsMax);
}

// Whether an error of the server passes: the same request may succeed later.
bool IsTransient(const Error& error);
// Whether the server will never take reports of this command again.
bool IsRefused(const Error& error);

// Lets tasks of other threads in for as long as the worker exists. Any thread.
class Door {
 public:
  explicit Door(Reactor* reactor) : reactor_(reactor) {}
  // Posts the task, or drops it when the door is closed.
  void Post(Reactor::Task task) {
    const std::lock_guard lock(mutex_);
    if (reactor_) reactor_->Post(std::move(task));
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    reactor_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Reactor* reactor_;
};

class CommandRun;

// What the runs of a worker share.
struct RunParts {
  const WorkerOptions* options = nullptr;
  Reactor* reactor = nullptr;
  Clock* clock = nullptr;
  IdSource* ids = nullptr;
  Tools* tools = nullptr;
  bus::ServerEnd* server = nullptr;
  std::shared_ptr<Door> door;
};

// What a run asks of its worker.
class RunHost {
 public:
  virtual ~RunHost() = default;
  virtual const RunParts& parts() const = 0;
  // False: too many calls of the kind. The run is in the queue and gets `TakeTurn`.
  virtual bool TakeCall(CommandRun& run, const std::string& kind) = 0;
  virtual void LeaveQueue(const CommandRun& run, const std::string& kind) = 0;
  virtual void GiveCall(const std::string& kind) = 0;
  // False: too many wait already, the slot stays taken.
  virtual bool BeginWait() = 0;
  virtual void EndWait() = 0;
  // `Advance` in a later task of the reactor.
  virtual void Later(CommandRun& run) = 0;
  // Destroys a call that has answered, later: it may still be on the stack.
  virtual void Discard(std::unique_ptr<Running> running) = 0;
  // The run is over. The host lets go of it.
  virtual void Ended(CommandRun& run, std::optional<bus::Report> last) = 0;
};

class CommandRun : public std::enable_shared_from_this<CommandRun> {
 public:
  CommandRun(RunHost* host, bus::Grant grant);
  ~CommandRun();
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;

  const std::string& id() const { return grant_.command_id; }
  void Advance();
  // The queue has come to this run: a call of the kind is its own now.
  void TakeTurn();
  // Stops the tool, if one runs, and ends without a report.
  void Cancel();

 private:
  enum class Phase : std::uint8_t {
    // These go on by themselves.
    kPreparing,
    kDeciding,
    kStarting,
    kHasTurn,
    kAnswered,
    // These wait.
    kQueued,
    kCalling,
    kStopping,
    kSleeping,
    kLoading,
    kWithChild,
    kFinishing,
    kEnded,
  };

  // Bodies that were loaded for this command.
  class LoadedBodies : public engine::Bodies {
   public:
    Result<const Json*> Find(std::string_view ref) const override;
    bool Knows(std::string_view ref) const { return bodies_.contains(ref); }
    void Add(const std::string& ref, Result<Json> body) { bodies_.emplace(ref, std::move(body)); }

   private:
    std::map<std::string, Result<Json>, std::less<>> bodies_;
  };

  bool pipeline() const { return grant_.tool_kind == "task_sequence"; }
  const RunParts& parts() const { return host_->parts(); }

  // Before the first call.
  void Prepare();
  Status MakeScope();
  Status MakePipeline();
  Status RenderSingle();

  // Between calls.
  void Decide();
  void DecidePipeline();
  void SplitConfig(const Json& config);

  // Secrets.
  Status BindKeychain();
  Status BindSecretInputs();
  Status AddSecret(const std::string& alias, Json* data);
  bool ApplyAuth();

  // A call.
  void StartCall();
  void Call(Tool& tool);
  void Answered(ToolAnswer answer);
  void GuardCall();
  void CallTookTooLong();
  void TakeAnswer();
  void HideSecrets(ToolAnswer& answer);
  void EndSingle(ToolAnswer answer);
  Json CallContext() const;
  ToolAnswer NoSuchTool() const;

  // Things to wait for.
  void Sleep(std::int64_t delay_ms);
  void EndSleep();
  bool Awaits(const Error& error);
  void Load(std::string ref);
  void Loaded(std::uint64_t ticket, const std::string& ref, Result<Json> body);
  void StartChild();
  Json ChildPayload() const;
  void ChildEnded(std::uint64_t ticket, Result<engine::ChildEnd> end);
  void ChildLoaded(std::uint64_t ticket, Result<Json> body);
  void ChildTookTooLong(std::int64_t limit_ms);
  void EndChild(ToolAnswer answer);
  void BeginWait() { gave_slot_ = host_->BeginWait(); }
  void EndWait();

  // Text of the tool.
  void TakeOutput(OutputStream stream, std::string_view text);
  void KeepOutput(std::size_t stream, std::string_view text);
  void FlushLogs();
  void FlushLogsAfter(std::int64_t delay_ms);
  void LogsSent(std::vector<bus::LogText> logs, const Status& status);
  void AttachLogs(bus::Report* report);

  // The end.
  void FinishPipeline(engine::Pipeline::Finished finished);
  void FinishSoft(std::string_view status, Json tool_result, JsonObjectBuilder meta);
  void FinishHard(ToolAnswer answer);
  Json ResultOf(std::string_view status, Json tool_result, bus::Report* report);
  Json EndMeta() const;
  void Finish(bus::Report report);
  void End(std::optional<bus::Report> report);
  void DropTimers();

  RunHost* host_;
  bus::Grant grant_;
  Phase phase_ = Phase::kPreparing;
  LoadedBodies bodies_;
  Masking masking_;
  std::vector<std::pair<Json, Json>> secret_inputs_;  // value, and how the log names it
  std::unique_ptr<engine::CommandScope> scope_;
  std::optional<engine::Pipeline> pipeline_;

  // The call that is to be made, runs, or was answered last.
  engine::Pipeline::RunTool call_;
  Json retry_;        // of a single tool
  int runs_ = 0;      // of a single tool
  int children_ = 0;  // started so far
  std::unique_ptr<Running> running_;
  std::optional<ToolAnswer> answer_;
  std::optional<engine::ToolOutcome> unreported_;  // what the pipeline has not taken yet
  bool starting_ = false;                          // inside Tool::Start
  bool timed_out_ = false;
  std::int64_t limit_ms_ = 0;  // of the call
  std::int64_t called_at_us_ = 0;

  Phase back_ = Phase::kPreparing;  // where a load goes on
  int load_tries_ = 0;
  std::uint64_t ticket_ = 0;  // of the answer that is awaited; older ones are ignored
  bool gave_slot_ = false;
  Reactor::TimerId timer_ = 0;  // limit of a call or child, delay of a retry

  std::array<std::unique_ptr<LogFeed>, 2> feeds_;  // by OutputStream
  std::vector<bus::LogText> unsent_;               // came back from the server
  bool sending_logs_ = false;
  std::int64_t log_delay_ms_ = 0;  // after a failure
  Reactor::TimerId log_timer_ = 0;
  std::optional<bus::Report> last_;  // waits for the logs before it
};

}  // namespace noetl::worker
