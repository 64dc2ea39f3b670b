// The decision: what follows from new facts.
//
// A `Decider` takes the facts that arrived for one run (worker events, a child's end, a due timer,
// a cancel), folds each into the state together with what the playbook says follows from it, and
// collects everything into one `Unit`. Every event goes through `Fold` at the moment it is made, so
// the state is the fold of the log by construction.
//
// Pure: ids, the time and stored bodies come in through `World`; no clock, no I/O, no randomness,
// no hash order. Evaluating a template may need a stored body: then `Decide` fails with code
// "needs_reference" and the reference as message; the caller makes the body available in
// `World::bodies` and calls `Decide` again, which goes on where it stopped. Nothing is lost or done
// twice.
//
// A decider lives for one decision and owns nothing but its unit; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "engine/events.h"
#include "engine/fold.h"
#include "engine/scope.h"
#include "engine/state.h"
#include "engine/unit.h"
#include "playbook/model.h"

namespace noetl::engine {

// A unit with more events is closed early; `Unit::more` then asks for another decision at once.
inline constexpr std::size_t kUnitEventsMax = 4'096;
// A larger collection is pinned as a stored body instead of inside step.enter.
inline constexpr std::size_t kInlineItemsBytes = 65'536;
// A larger context value is stored and replaced by {_ref}.
inline constexpr std::size_t kInlineContextValueBytes = 65'536;
inline constexpr std::int64_t kChildDepthMax = 16;
// Waiting for a child: return_step, and return_result or wait.
inline constexpr std::int64_t kReturnStepTimeoutMs = 300'000;
inline constexpr std::int64_t kReturnResultTimeoutMs = 180'000;

struct World {
  IdSource* ids = nullptr;
  const Bodies* bodies = nullptr;
  std::int64_t now_us = 0;
};

struct StartRequest {
  std::int64_t execution_id = 0;
  std::int64_t catalog_id = 0;
  std::int64_t version = 0;
  std::string path;  // catalog path; empty: the playbook's own
  Json payload;      // overrides of the workload
  std::int64_t parent_execution_id = 0;
  std::string parent_command_id;
  std::string parent_step;
  std::string return_step;
  std::int64_t depth = 0;
  std::string pool;
  Json trace;
  Json env;             // allow-listed variables by name
  Semantics semantics;  // the profile is taken from the playbook
};

// What an external callback reports for a parked command.
struct CallbackReport {
  std::string command_id;
  bool ok = true;
  Json data;
  std::string error;
};

class Decider {
 public:
  Decider(State* state, const playbook::Playbook& playbook, World world);
  ~Decider();

  // Facts, in the order they arrived. None of them decides anything before `Decide`.
  void Start(StartRequest request);
  // A worker's event: not yet numbered, duplicates already removed.
  void Ingest(Event event);
  void Callback(CallbackReport report);
  void ChildEnded(ChildEnd end);
  void TimerDue(Timer timer);
  // The worker of the command is gone (`counts` towards max_attempts) or gave it back.
  void Reissue(std::string command_id, bool counts);
  // Its worker gave the command back: one that has not begun may be claimed again as it is, one that
  // has begun is replaced by an attempt that does not count.
  void Release(std::string command_id);
  void Cancel(std::string reason, std::string requested_by);
  void Finalize(bool completed, std::string error);

  // May be called again after more facts; the unit then holds both decisions.
  Status Decide();
  const Unit& unit() const { return unit_; }
  Unit TakeUnit() { return std::move(unit_); }

 private:
  using Step = playbook::Step;

  // The end of a step's run while it is being worked out.
  struct Ending {
    const Step* step = nullptr;
    std::int64_t run = 0;
    std::string outcome;  // completed, soft, failed, skipped, denied, cancelled
    Event event;
    std::vector<Event> before;                 // written just before `event`
    std::shared_ptr<const StepResult> result;  // null: the run has none
    Json ctx_updates;                          // of a pipeline
    bool final = false;                        // the run of final_step follows no arcs
    std::string error;
  };
  // What follows from an ending.
  struct Routing {
    Json arcs = Json::Array();
    Json ctx;
    Json scratch = Json::Object();  // step.*, until the run has ended
    std::string outcome;
    std::string error;
    std::vector<std::pair<std::string, std::string>> warnings;  // code, message
  };
  // One command to make.
  struct CommandSpec {
    const Step* step = nullptr;
    std::int64_t run = 0;
    Command::Kind kind = Command::Kind::kSingle;
    std::int64_t index = 0;
    std::int64_t total = 0;
    std::int64_t slot = 0;
    std::int64_t frame = 0;
    Json names;  // of the iteration, or null
    Json args;   // arc args of the run
    std::int64_t attempt = 1;
    std::int64_t lost = 0;
    std::int64_t reruns = 0;
    std::string retry_of;
    std::int64_t start_at_us = 0;  // children of a retry
  };
  struct ReissueFact {
    std::string command_id;
    bool counts = true;
  };
  struct ReleaseFact {
    std::string command_id;
  };
  struct CancelFact {
    std::string reason;
    std::string requested_by;
  };
  struct FinalizeFact {
    bool completed = false;
    std::string error;
  };
  using Input = std::variant<StartRequest, Event, CallbackReport, ChildEnd, Timer, ReissueFact,
                             ReleaseFact, CancelFact, FinalizeFact>;
  class OwnBodies;
  class StateSteps;

  // decide_facts.cc: facts from outside.
  Status ProcessInput();
  Status Process(const StartRequest& request);
  Status Process(const Event& event);
  Status Process(const CallbackReport& report);
  Status Process(const ChildEnd& end);
  Status Process(const Timer& timer);
  Status Process(const ReissueFact& fact);
  Status Process(const ReleaseFact& fact);
  Status Process(const CancelFact& fact);
  Status Process(const FinalizeFact& fact);
  Result<Json> InitialWorkload(const StartRequest& request) const;
  void Replace(std::vector<Input> facts);
  Status Park(const Command& command, Event event);
  Status MissDeadline(const Timer& timer);
  Event FailedCommand(const Command& command, std::string_view kind, std::string_view code,
                      const std::string& error) const;

  // decide.cc: what comes next, who may enter, the end of the run.
  Status NextAction(bool* done);
  std::vector<const Step*> OpenSteps() const;
  int NextAdmissible() const;
  bool JoinIsReady(const StepState& step, int index) const;
  void WithdrawUnclaimed();
  void ReportDeadBranches();
  Status EndWhenQuiescent(bool* done);
  Status Complete();
  void EndRun(EventType type, Json result, Json meta, std::string error);
  void FailRun(std::string_view reason, const std::string& message);
  ChildEnd NoticeToParent(std::string_view status, const std::string& error) const;

  // decide_enter.cc: guards, admission, collections.
  Status EnterStep(const Step& step, bool final);
  Result<bool> Admitted(const Step& step, const Scope& scope) const;
  Status EnterLoop(const Step& step, const Scope& scope, Event enter, std::int64_t run);
  Result<Json> Collection(const Step& step, const Scope& scope) const;
  Result<std::int64_t> Budget(const Step& step, const Scope& scope) const;
  Json Summary() const;
  std::string CycleOf(const Step& step) const;

  // decide_finish.cc: commands end, runs end, arcs are followed.
  Status EndCommand(const Command& command, Event event);
  std::string OutcomeOf(const Command& command, const Step& step, const Report& report,
                        bool hard) const;
  Status EndIteration(const Command& command, const Step& step, Event event, const Report& report);
  Status EndClaim(const Command& command, Event event, const Report& report);
  Status FailUnissued(const Step& step, std::int64_t run, std::vector<Event> before,
                      const Error& error);
  Status FinishRun(Ending ending);
  Result<Routing> Route(const Ending& ending) const;
  Status ApplySet(const Step& step, std::span<const playbook::Assignment> set,
                  std::string_view where, Scope& scope, Routing* routing) const;
  Status FollowArcs(const Ending& ending, Scope& scope, Routing* routing) const;
  void BindEnding(const Ending& ending, Scope& scope) const;
  void UpdateContext(const Step& step, std::int64_t run, std::int64_t gen, const Json& after);
  Status FinishLoopIfDone(const Step& step);
  Result<Json> LoopData(const Step& step, const Run& run) const;

  // decide_issue.cc: commands are made.
  Status IssueFor(const Step& step, bool* issued);
  Status IssueIteration(const Step& step, const Run& run, std::int64_t index);
  Status IssueForCursor(const Step& step, bool* issued);
  Status IssueCursorRow(const Step& step, const Run& run, std::int64_t slot);
  Status IssueCommand(CommandSpec spec);
  Status IssueAgain(const Command& command, std::int64_t lost, std::int64_t reruns, Event ended,
                    std::int64_t start_at_us);
  Result<Json> BuildContext(const CommandSpec& spec) const;
  Result<Json> SingleToolConfig(const CommandSpec& spec, Scope& scope, const Json& bound) const;
  Result<Json> ClaimConfig(const CommandSpec& spec, Scope& scope) const;
  Json RenderContext(const Step& step, bool all_roots) const;
  void EmitCommand(const CommandSpec& spec, Json context);
  Json CommandMeta(const CommandSpec& spec, const std::string& command_id,
                   std::string_view kind) const;
  void StartChild(const CommandSpec& spec, const Json& config, const std::string& command_id,
                  std::int64_t event_id, std::int64_t child_id);
  Result<Json> ItemOf(const Run& run, std::int64_t index) const;
  bool Defers(const expr::Template& compiled) const;
  bool HasSecretInputs() const;
  Json DeferredFields(const playbook::Task& task) const;
  std::string IdempotencyKeyOf(const CommandSpec& spec) const;

  // Shared.
  const Step& StepAt(int index) const { return playbook_.steps[static_cast<std::size_t>(index)]; }
  const Step& StepOf(std::string_view name) const;
  const Run& OpenRun(std::string_view step) const;
  Json Identity() const;
  Scope MakeScope(Json ctx, const StepSource& steps) const;
  std::int64_t NextId();
  Event NewEvent(EventType type, std::string_view node, std::string_view status) const;
  void Emit(Event event);
  void Warn(std::string_view code, std::string_view step, std::string message);
  std::string StoreBody(std::string_view name, Json body);
  playbook::Profile profile() const { return playbook_.profile; }

  State* state_;
  const playbook::Playbook& playbook_;
  World world_;
  std::unique_ptr<OwnBodies> bodies_;
  std::unique_ptr<StateSteps> steps_;
  mutable Json identity_;  // the same for all scopes of a decision
  std::deque<Input> inputs_;
  Unit unit_;
  std::int64_t cause_ = 0;  // the event that the next ones follow from
  bool replaced_ = false;   // the fact in work put others in its place
  bool was_draining_ = false;
  bool routed_ = false;  // a run ended: branches may have died
};

}  // namespace noetl::engine
