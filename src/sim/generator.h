// Random playbooks from a seed.
//
// A `Plan` is a small description of a playbook; `ToYaml` writes it as a document, so that tests go
// through the real loader. What a tool answers is a pure function of the plan's seed and of (step,
// run, index, frame), and conditions read only a step's own answer, its own counter or the
// workload. So in an acyclic plan no outcome may depend on the order in which things happen. Cycles
// end because an arc that leads back is only taken in the first runs of its step. Plain values; one
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/world.h"

namespace noetl::sim {

struct PlanArc {
  enum class When : std::uint8_t {
    kAbsent,
    kTrue,
    kFalse,
    kData,     // output.data.x > threshold
    kMore,     // output.data.more: the run is one of the first
    kCounter,  // ctx.n_<step> < repeats: the same through the context
    kError,    // event.name == 'call.error'
    kDone,     // event.name == 'step.done'
  };
  int target = -1;  // -1: an `end` that no step declares
  When when = When::kAbsent;
  int threshold = 0;
  bool writes = false;  // has a `set`
  bool args = false;

  bool operator==(const PlanArc&) const = default;
};

struct PlanStep {
  enum class Tool : std::uint8_t { kSingle, kPipeline, kChild };
  enum class Loop : std::uint8_t { kNone, kSequential, kParallel, kCursor };
  enum class Fails : std::uint8_t { kNever, kSoft, kHard };
  enum class Guard : std::uint8_t { kNone, kTrue, kFalse, kOwnResult };
  enum class Items : std::uint8_t { kWorkload, kNumber, kContext, kText };

  std::string name;
  Tool tool = Tool::kSingle;
  int child = -1;  // which child plan
  bool child_waits = true;
  bool child_failure_continues = false;

  Loop loop = Loop::kNone;
  Items items_from = Items::kWorkload;
  int items = 0;
  int max_in_flight = 0;  // 0: not written
  bool loop_continues = false;
  int frames = 0;  // cursor: frames that have rows
  int frame_rows = 1;
  int row_concurrency = 1;
  bool whole_frame = false;
  bool retain = false;

  Guard guard = Guard::kNone;
  Guard admit = Guard::kNone;  // kOwnResult is not used
  Fails fails = Fails::kNever;
  int fails_percent = 100;        // of (run, index)
  bool fails_first_only = false;  // only the first attempt of a command
  int tool_retries = 0;           // runs that tool `retry` allows; the tool fails before the last
  std::string on_error;           // "", "continue", "retry"
  bool best_effort = false;
  bool parks = false;  // ends by a callback
  bool deadline = false;
  bool writes = false;  // has a `set`
  int repeats = 1;      // `more` is true while run < repeats
  bool inclusive = false;
  bool must_match = false;  // on_no_match: fail
  std::vector<PlanArc> arcs;

  bool operator==(const PlanStep&) const = default;
};

struct Plan {
  std::uint64_t seed = 0;
  std::string path = "main";
  bool strict = false;
  bool cyclic = false;
  bool no_next_is_error = false;
  bool step_error_fails = false;
  bool status_from_steps = false;
  int inline_bytes = 0;  // executor budget, 0: default
  std::string final_step;
  std::vector<PlanStep> steps;
  std::vector<Plan> children;
};

// `cyclic` plans have at least one arc that leads back.
Plan GeneratePlan(std::uint64_t seed, bool cyclic);
std::string ToYaml(const Plan& plan);
// Plans that are simpler by one thing: a step, an arc, a feature less. Simplest first.
std::vector<Plan> Simplifications(const Plan& plan);
// A small hash for choices that must be fixed per (seed, place).
std::uint64_t Mix(std::uint64_t a, std::uint64_t b);

// The value `x` of a step's answer.
std::int64_t AnswerOf(const Plan& plan, std::string_view step, std::int64_t run, std::int64_t index,
                      std::int64_t frame);
bool FailsAt(const Plan& plan, const PlanStep& step, std::int64_t run, std::int64_t index,
             std::int64_t frame, std::int64_t attempt);

// Answers as the plan says.
class PlannedTools : public Tools {
 public:
  explicit PlannedTools(const Plan& plan) : plan_(plan) {}
  ToolAnswer Call(const ToolCall& call) override;

 private:
  const Plan& plan_;
};

}  // namespace noetl::sim
