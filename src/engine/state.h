// The state of one run: what the fold of its log gives.
//
// The state holds what is needed to decide the next step and nothing that grows with the length of
// the run: counters, open runs, commands in flight, tokens, and the last result of each step.
// Iteration results live in rows outside; an index below `next_index` that is not in flight is
// done. It is a plain value owned by one lane; snapshots are `ToJson`, and `FromJson(ToJson(s)) ==
// s`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/result.h"

namespace noetl::engine {

// Raised when the meaning of the snapshot JSON changes; older snapshots are then ignored.
inline constexpr std::int64_t kStateSchema = 1;
// Soft errors and warnings that are listed; later ones are only counted.
inline constexpr std::int64_t kListedErrorsMax = 100;

// Commands of one loop run that may be open at once, whatever the playbook asks for: each is held
// in the state.
inline constexpr std::int64_t kInFlightMax = 10'000;

// Permission to enter a step, made by a fired arc. Empty source: the entry of the run.
struct Token {
  std::string source;
  std::int64_t source_run = 0;
  Json args;  // rendered arc args, or null

  bool operator==(const Token&) const = default;
};

struct Command {
  enum class Kind : std::uint8_t { kSingle, kIteration, kClaim, kBody };
  enum class Status : std::uint8_t { kIssued, kClaimed, kStarted };

  std::string id;             // <execution>:<step>:<event id>[:i<index>]
  std::int64_t event_id = 0;  // of command.issued
  std::string step;
  std::int64_t run = 0;
  Kind kind = Kind::kSingle;
  std::int64_t index = 0;    // iteration, or row of the frame
  std::int64_t slot = 0;     // cursor loops
  std::int64_t frame = 0;    // cursor loops
  std::int64_t attempt = 1;  // of the logical command, over lost workers and re-runs
  std::int64_t lost = 0;     // attempts that ended with a lost worker
  std::int64_t reruns = 0;   // attempts that on_error or a child's retry asked for
  std::string tool_kind;
  Status status = Status::kIssued;
  bool parked = false;                  // waits for a callback or a child, holds no worker
  std::int64_t child_execution_id = 0;  // a sub-playbook that the server runs
  std::string worker;
  std::int64_t claim_token = 0;  // of the newest claim
  std::int64_t started_at_us = 0;
  // From call.done or call.error, until the command ends.
  bool reported = false;
  Json report;            // the RES of call.done, or {error, error_info} of call.error
  bool callback = false;  // the report came from a callback

  bool operator==(const Command&) const = default;
};

// One worker slot of a cursor loop.
struct CursorSlot {
  enum class Phase : std::uint8_t { kIdle, kClaiming, kRows, kDrained };
  Phase phase = Phase::kIdle;
  std::int64_t frame = 0;
  Json rows;  // rows of the frame, or {_ref}
  std::int64_t row_count = 0;
  std::int64_t next_row = 0;
  std::int64_t in_flight = 0;

  bool operator==(const CursorSlot&) const = default;
};

struct Run {
  enum class Kind : std::uint8_t { kPlain, kLoop, kCursor };
  std::int64_t number = 0;  // 1, 2, ... per step
  Kind kind = Kind::kPlain;
  std::int64_t entered_at_us = 0;
  std::int64_t deadline_us = 0;  // 0: none
  Json args;                     // merged arc args of the tokens that entered
  bool final = false;            // the run of final_step
  std::int64_t in_flight = 0;    // open commands

  // Loops: the pinned collection is `items` (a list), or {_ref}, or absent with `expected` items
  // 0..n-1 when `range`.
  Json items;
  bool range = false;
  std::int64_t expected = 0;
  std::int64_t budget = 1;
  std::int64_t next_index = 0;
  // Loops and cursors.
  std::int64_t succeeded = 0;
  std::int64_t failed = 0;
  std::int64_t result_bytes = 0;
  Json first_result;     // index 0, bounded
  bool failing = false;  // a hard error: no new iterations
  std::string error;
  Json error_info;
  std::vector<CursorSlot> slots;
  std::int64_t next_frame = 0;

  bool operator==(const Run&) const = default;
};

struct StepState {
  enum class Outcome : std::uint8_t { kNone, kCompleted, kFailed, kSkipped, kDenied, kCancelled };

  std::string name;
  std::int64_t runs = 0;
  std::optional<Run> open;
  std::vector<Token> tokens;
  Outcome outcome = Outcome::kNone;  // of the last ended run
  std::shared_ptr<const StepResult> result;
  bool skip_reported = false;  // step.skipped with reason route was written
  // The command whose end closed the last run before its data arrived; empty otherwise.
  std::string awaits_data_of;
};

// Settings that can change a decision, pinned when the run starts.
struct Semantics {
  bool strict = false;             // noetl.io/v10
  bool step_error_fails = false;   // NOETL_STEP_ERROR_FAILS
  bool status_from_steps = false;  // NOETL_EXECUTION_STATUS_FROM_STEPS
  bool retype_legacy = false;      // NOETL_TEMPLATE_RETYPE=legacy
  std::int64_t max_step_runs = 100'000;
  std::int64_t max_attempts = 5;
  std::int64_t inline_bytes = 102'400;
  std::int64_t context_bytes = 32'768;
  std::int64_t callback_deadline_s = 86'400;
  std::int64_t execution_timeout_s = 0;

  Json ToJson() const;
  static Semantics FromJson(const Json& json);
  bool operator==(const Semantics&) const = default;
};

struct SoftError {
  std::string step;
  std::int64_t run = 0;
  std::int64_t index = -1;  // iteration, -1 for none
  std::string error;

  bool operator==(const SoftError&) const = default;
};

class State {
 public:
  enum class Status : std::uint8_t { kNew, kRunning, kCompleted, kFailed, kCancelled };

  std::int64_t execution_id = 0;
  std::int64_t catalog_id = 0;
  std::int64_t parent_execution_id = 0;
  std::string parent_command_id;
  std::string return_step;  // what the parent wants back
  std::int64_t depth = 0;   // from the root execution
  std::string path;
  std::int64_t version = 0;
  std::string pool;  // explicit execution pool
  Json trace;
  Json env;  // captured at start
  Semantics semantics;
  Json workload = Json::Object();
  Json ctx = Json::Object();

  Status status = Status::kNew;
  std::int64_t seq = 0;
  std::int64_t last_event_id = 0;
  std::int64_t highest_event_id = 0;
  std::int64_t last_ingest_us = 0;
  std::int64_t started_at_us = 0;
  std::int64_t ended_at_us = 0;
  std::int64_t context_version = 0;  // raised by every change of ctx or of a step result
  std::int64_t context_stored = -1;  // the version whose base was stored as a body, and its ref
  std::string context_ref;

  bool draining = false;
  bool final_entered = false;
  std::vector<std::string> failed_steps;  // unhandled, in failure order
  std::string first_error;
  std::vector<SoftError> soft_errors;
  std::int64_t soft_error_count = 0;
  std::vector<std::string> denied_steps;
  std::int64_t warning_count = 0;
  std::string last_completed_step;

  bool terminal() const { return status >= Status::kCompleted; }
  std::string_view StatusText() const;

  StepState* Find(std::string_view step);
  const StepState* Find(std::string_view step) const;
  StepState& Touch(std::string_view step);
  const std::map<std::string, StepState, std::less<>>& steps() const { return steps_; }

  Command* FindCommand(std::string_view id);
  const Command* FindCommand(std::string_view id) const;
  std::map<std::string, Command, std::less<>>& commands() { return commands_; }
  const std::map<std::string, Command, std::less<>>& commands() const { return commands_; }

  // Kept in step by the fold.
  std::set<std::string, std::less<>>& open_steps() { return open_steps_; }
  const std::set<std::string, std::less<>>& open_steps() const { return open_steps_; }
  std::set<std::string, std::less<>>& token_steps() { return token_steps_; }
  const std::set<std::string, std::less<>>& token_steps() const { return token_steps_; }
  bool quiescent() const { return open_steps_.empty() && token_steps_.empty(); }

  Json ToJson() const;
  static Result<State> FromJson(const Json& json);

 private:
  std::map<std::string, StepState, std::less<>> steps_;
  std::map<std::string, Command, std::less<>> commands_;
  std::set<std::string, std::less<>> open_steps_;
  std::set<std::string, std::less<>> token_steps_;
};

// Snapshot of a whole state with schema and checksum; reading one that does not verify is an error
// with code "bad_snapshot" (the caller then replays the log).
std::string WriteSnapshot(const State& state);
Result<State> ReadSnapshot(std::string_view text);

}  // namespace noetl::engine
