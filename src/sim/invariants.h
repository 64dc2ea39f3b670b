// The promises of the engine, checked on the log of a run while it grows.
//
// `Invariants` follows the log with a model of its own, which knows the playbook's graph but none
// of the engine's code: which steps are open, which hold tokens, which commands are in flight. Each
// promise (engine 9, I1 to I34 as far as they concern the pure core) is one function that fails
// with its name. The state is compared with a replay that has no playbook. One run, one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/generator.h"
#include "sim/world.h"

namespace noetl::sim {

// The forward arcs of a playbook, worked out in the plainest way (dominators by removing steps).
class PlainGraph {
 public:
  explicit PlainGraph(const playbook::Playbook& playbook);

  const std::set<int>& In(int step) const { return in_[static_cast<std::size_t>(step)]; }
  bool ForwardReach(int from, int to) const { return forward_[Index(from)][Index(to)]; }
  bool Reach(int from, int to) const { return reach_[Index(from)][Index(to)]; }
  bool OnCycle(int step) const { return Reach(step, step); }

 private:
  using Matrix = std::vector<std::vector<bool>>;
  static std::size_t Index(int i) { return static_cast<std::size_t>(i); }
  static Matrix Closure(Matrix direct);

  std::vector<std::set<int>> in_;
  Matrix forward_;
  Matrix reach_;
};

// Equal in every member; much cheaper than comparing JSON.
bool SameState(const engine::State& a, const engine::State& b);

class Invariants {
 public:
  struct Options {
    std::uint64_t seed = 0;
    // Results may come after the end of their command: what arcs read is then not fixed.
    bool late_data = false;
    bool lose_workers = false;
    // Somebody cancels or finalizes, or timers fire early.
    bool disturbed = false;
    // How many commits in a hundred are also checked in the slow ways.
    int thorough_percent = 4;
  };
  Invariants(const Plan& plan, std::shared_ptr<const playbook::Playbook> playbook,
             const PlainGraph& graph, Options options);

  // After every committed unit.
  void Committed(const Execution& execution, const engine::Unit& unit);
  // After the last one.
  void Finished(const Execution& execution);

  // The first promise that was broken, with details; empty when all hold.
  const std::string& failure() const { return failure_; }
  // "step=completed,failed ..." by name: outcomes of all runs of each step.
  std::map<std::string, std::vector<std::string>> Outcomes() const;
  bool unhandled_failure() const { return unhandled_ > 0; }

 private:
  using Event = engine::Event;
  struct OpenCommand {
    int step = 0;
    std::int64_t run = 0;
    std::string_view kind;  // of kKinds
    std::int64_t index = 0;
    std::int64_t slot = 0;
    std::int64_t frame = 0;
    bool taken = false;  // by a worker
  };
  struct OpenRun {
    std::int64_t number = 0;
    bool final = false;
    bool loop = false;
    bool cursor = false;
    bool failing = false;
    std::int64_t expected = 0;
    std::int64_t budget = 1;
    std::int64_t in_flight = 0;
    std::int64_t next_index = 0;
    std::int64_t entered_seq = 0;
    Json items;
    bool range = false;
    std::int64_t succeeded = 0;
    std::set<std::int64_t> done;                            // indices
    std::map<std::int64_t, std::int64_t> frame_rows;        // rows that claims returned
    std::map<std::int64_t, std::set<std::int64_t>> bodies;  // rows that were issued, by frame
    std::map<std::int64_t, std::int64_t> slot_bodies;       // in flight, by slot
    std::map<std::int64_t, std::int64_t> slot_rows;         // of the last claim, by slot
  };
  struct StepModel {
    std::int64_t runs = 0;
    std::optional<OpenRun> open;
    std::set<std::pair<int, std::int64_t>> tokens;
    std::vector<std::string> outcomes;
    bool skip_reported = false;
    std::int64_t sets = 0;  // times `set` must have been applied
  };

  void Fail(std::string_view promise, const Event& event, std::string detail);
  void Follow(const Event& event);

  void CheckChain(const Event& event);
  void CheckResultShape(const Event& event);
  void CheckAfterTerminal(const Event& event);
  void CheckAdmission(const Event& event, int step);
  void CheckRoute(const Event& event, int step, std::int64_t run);
  void CheckLastSteps(const Event& event);
  void CheckSelection(const Event& event, int step, std::int64_t run);
  void CheckDeadBranch(const Event& event, int step);
  void CheckIssue(const Event& event, const OpenCommand& command, OpenRun& run);
  void CheckAttempts(const Event& event);
  void CheckItem(const Event& event, const OpenCommand& command, const OpenRun& run);
  void CheckLoopEnd(const Event& event, int step);
  void CheckCursorEnd(const Event& event, const OpenRun& run);
  void CheckDuplicate(const Event& event);
  void CheckRest(const Execution& execution);
  void CheckReplay(const Execution& execution, bool thorough);
  void CheckIdOrder(const Execution& execution);
  void CheckSnapshots(const Execution& execution);
  void CheckEnd(const Execution& execution);

  void Start(const Event& event);
  void Enter(const Event& event, int step);
  void Skip(const Event& event, int step);
  void Issue(const Event& event, int step);
  void EndCommand(const Event& event, int step);
  void CancelCommand(const Event& event, int step);
  void EndRun(const Event& event, int step);
  void CloseRun(int step, std::string outcome);
  void Terminal(const Event& event);

  int IndexOf(std::string_view step) const { return playbook_->IndexOf(step); }
  StepModel& At(int step) { return steps_[static_cast<std::size_t>(step)]; }
  const PlanStep* PlanOf(int step) const;
  bool Live(int step) const;
  bool Quiescent() const;
  bool MustWait(int step) const;
  bool Sampled(int percent);

  const Plan& plan_;
  std::shared_ptr<const playbook::Playbook> playbook_;
  const PlainGraph& graph_;
  Options options_;
  std::uint64_t samples_ = 0;
  std::string failure_;

  engine::State replay_;
  std::int64_t last_seq_ = 0;
  std::int64_t last_event_id_ = 0;
  std::vector<StepModel> steps_;
  std::map<std::string, OpenCommand, std::less<>> open_;
  std::set<std::string, std::less<>> command_ids_;
  std::set<std::string, std::less<>> command_keys_;
  std::map<std::string, std::int64_t, std::less<>>
      attempts_;  // last attempt of each logical command
  Json ctx_ = Json::Object();
  bool draining_ = false;
  bool terminal_ = false;
  std::string status_;
  int unhandled_ = 0;
  bool evaluate_error_ = false;
};

}  // namespace noetl::sim
