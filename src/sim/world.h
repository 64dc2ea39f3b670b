// A whole system in one thread: runs, workers, messages and a clock, all virtual.
//
// The world keeps what a store would keep (logs, bodies, loop rows, timers), moves messages between
// the engine and model workers, and decides nothing itself: every rule is the engine's. A driver
// says what happens next, in order (text tests) or at random (properties), so one seed repeats one
// history. Tools are answered by a `Tools` implementation. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "engine/command.h"
#include "engine/decide.h"
#include "engine/pipeline.h"
#include "playbook/model.h"

namespace noetl::sim {

// One call of a tool by a model worker.
struct ToolCall {
  std::int64_t execution_id = 0;
  std::string path;  // of the playbook
  std::string step;
  std::int64_t run = 1;     // of the step
  std::int64_t index = -1;  // iteration or row, -1 outside loops
  std::int64_t frame = -1;  // cursor loops
  std::string phase;        // "claim" for a cursor's claim, else empty
  std::string label;        // task label in a pipeline, else empty
  std::string kind;
  Json config;               // rendered fields
  Json input;                // bound variables
  std::int64_t attempt = 1;  // of the task in a pipeline, of the call otherwise
  std::int64_t fence = 1;    // attempt of the command
};

struct ToolAnswer {
  engine::ToolOutcome outcome;
  bool hard = false;                 // could not run: command.failed
  bool parked = false;               // ends later by a callback
  bool lost = false;                 // the worker dies in this call
  std::int64_t duration_us = 1'000;  // see kQuickCallUs
};

// A longer call is waited for: other things may happen, and timers fall due, until it ends.
inline constexpr std::int64_t kQuickCallUs = 1'000;

class Tools {
 public:
  virtual ~Tools() = default;
  virtual ToolAnswer Call(const ToolCall& call) = 0;
};

// What the `noop` kind does.
ToolAnswer AnswerNoop(const ToolCall& call);

struct Execution {
  std::int64_t id = 0;
  std::shared_ptr<const playbook::Playbook> playbook;
  engine::State state;
  std::vector<engine::Event> log;
  std::set<std::string> keys;  // idempotency keys that were stored
  // Step runs in the order they started: "a", "l[2]", "p.task#2", "x:skipped", "(child)" ...
  std::vector<std::string> sequence;
  std::map<std::int64_t, std::size_t> child_places;  // child id to its place in `sequence`
};

class World : public engine::Bodies {
 public:
  struct Options {
    std::int64_t start_us = 1'767'225'600'000'000;  // 2026-01-01T00:00:00Z
    engine::Semantics semantics;
    // Repeated events are dropped before they reach the engine, as the store does.
    bool deduplicate = true;
    Json env;
    // Called after every unit that was committed.
    std::function<void(const Execution&, const engine::Unit&)> on_commit;
  };
  World(Options options, Tools* tools);
  ~World() override;

  void AddPlaybook(std::shared_ptr<const playbook::Playbook> playbook);
  // Starts a run of the playbook with this path. Fails when there is none or its workload cannot be
  // rendered.
  Result<std::int64_t> Start(std::string_view path, Json payload = Json());

  Execution& Get(std::int64_t id) { return *executions_.at(id); }
  const std::map<std::int64_t, std::unique_ptr<Execution>>& executions() const {
    return executions_;
  }
  std::int64_t now_us() const { return now_us_; }

  // ---- what can happen next

  // Commands that wait for a worker, oldest first.
  const std::vector<std::string>& queued() const { return queued_; }
  // Commands that a worker holds.
  std::vector<std::string> held() const;
  // Whether the worker of a held command waits: for a slow call, or before a retry.
  bool sleeping(std::string_view command_id) const;
  std::size_t messages() const { return messages_.size(); }
  // The messages by their place in the queue.
  struct Waiting {
    std::int64_t execution_id = 0;
    std::string command_id;
    engine::EventType type = engine::EventType::kOther;  // kOther: the end of a child
  };
  std::vector<Waiting> waiting() const;
  bool idle() const { return queued_.empty() && tasks_.empty() && messages_.empty(); }

  // A worker takes a queued command.
  void Claim(std::string_view command_id);
  // The same, but the engine learns of it only when the claim's message is delivered.
  void ClaimUnseen(std::string_view command_id);
  // The worker of a command goes on: it starts, runs its tool, or reports. Events become messages.
  void Work(std::string_view command_id);
  // Delivers the message with this place in the queue; `copies` times.
  void Deliver(std::size_t place, int copies = 1);
  // Delivers the messages with these places, one decision for each run they are for.
  void DeliverTogether(std::span<const std::size_t> places);
  // The worker event in a message; nullptr when the message is a child's end.
  const engine::Event* MessageEvent(std::size_t place) const;
  // Delivers several messages of one run in one decision: the places must be ascending and of the
  // run of the first; others stay.
  void DeliverTogether(const std::vector<std::size_t>& places);
  // Moves the clock to the next timer or sleeping worker. False when there is none.
  bool Sleep();
  // The worker of a held command is gone; the engine is told.
  void LoseWorker(std::string_view command_id);
  void Cancel(std::int64_t execution_id, std::string reason);
  void Finalize(std::int64_t execution_id, bool completed, std::string error);
  void Callback(std::int64_t execution_id, engine::CallbackReport report);

  // Does the first possible thing: messages, then held commands, then the oldest queued one, then
  // sleep. False when nothing can happen any more.
  bool StepInOrder();
  // StepInOrder until nothing can happen or `actions` were done; false in the second case.
  bool RunInOrder(std::int64_t actions = 1'000'000);

  // "start a b (c d) end": the sequence of a run with its children's in place.
  std::string SequenceText(const Execution& execution) const;

  // What `{{ step }}` is in this run now; null for a step without a result.
  Result<Json> PayloadOf(const Execution& execution, std::string_view step) const;
  // The result of a run that has ended; null when it has none.
  Result<Json> ResultOf(const Execution& execution) const;

  // A stored body, loaded by a former `needs_reference`.
  Result<const Json*> Find(std::string_view ref) const override;

 private:
  struct Task;
  struct Message;

  using Feed = std::function<void(engine::Decider&)>;
  std::unique_ptr<Task> TakeTask(const std::string& id, engine::Event* claimed);
  Status TryDecide(Execution& execution, const Feed& feed);
  void Decide(Execution& execution, const Feed& feed);
  Status Begin(engine::StartRequest request, std::shared_ptr<const playbook::Playbook> playbook);
  void Commit(Execution& execution, engine::Unit unit);
  void Trace(Execution& execution, const engine::Event& event);
  void StartChild(const engine::ChildStart& child);
  void Post(Task& task, engine::EventType type, std::string_view status, Json context,
            std::string error);
  void StartWork(Task& task);
  void RunSingle(Task& task);
  void RunPipeline(Task& task);
  void EndTask(Task& task, ToolAnswer answer);
  void Report(Task& task, const ToolAnswer& answer, Json tool_result);
  std::optional<ToolAnswer> CallTool(Task& task, ToolCall call);

  Options options_;
  Tools* tools_;
  std::int64_t now_us_;
  SequentialIds ids_{1'000};
  std::map<std::string, std::shared_ptr<const playbook::Playbook>, std::less<>> catalog_;
  std::map<std::int64_t, std::unique_ptr<Execution>> executions_;
  std::vector<std::string> queued_;
  std::map<std::string, std::unique_ptr<Task>, std::less<>> tasks_;
  std::vector<std::unique_ptr<Message>> messages_;
  std::map<std::string, Json, std::less<>> bodies_;
  std::map<std::string, std::map<std::int64_t, Json>, std::less<>> loop_rows_;
  std::map<std::string, engine::Event, std::less<>> issued_;  // open commands by id
  std::multimap<std::int64_t, std::pair<std::int64_t, engine::Timer>> timers_;
  std::multimap<std::int64_t, engine::ChildStart> delayed_children_;
  // References that were asked for; the first ask is answered "not loaded", as a lane would.
  mutable std::set<std::string, std::less<>> loaded_;
  mutable std::map<std::string, Json, std::less<>> loop_lists_;
};

}  // namespace noetl::sim
