#include "sim/generator.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"

namespace noetl::sim {

namespace {

using When = PlanArc::When;

// Sizes: small plans are more telling and shrink faster, a few are large.
constexpr int kStepsMax = 25;
constexpr int kCyclicStepsMax = 14;
constexpr int kItemsMax = 6;
// Back arcs of one step fire in so many runs at most: bounds the length of cyclic histories.
constexpr int kRepeatsMax = 3;

std::uint64_t HashText(std::string_view text) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

class Generator {
 public:
  Generator(std::uint64_t seed, bool cyclic) : random_(Mix(seed, cyclic ? 2 : 1)) {
    plan_.seed = seed;
    plan_.cyclic = cyclic;
  }

  Plan Make(int depth, std::string path) {
    plan_.path = std::move(path);
    plan_.strict = Chance(35);
    plan_.no_next_is_error = Chance(4);
    plan_.step_error_fails = Chance(8);
    plan_.status_from_steps = Chance(8);
    if (Chance(10)) plan_.inline_bytes = 64;
    if (depth == 0 && Chance(30)) {
      for (int i = 0; i <= Below(2); ++i) {
        Generator child(Mix(plan_.seed, 77 + static_cast<std::uint64_t>(i)), false);
        plan_.children.push_back(child.Make(1, fmt::format("child{}", i)));
      }
    }
    const int size = Size(depth);
    for (int i = 0; i < size; ++i) plan_.steps.push_back(MakeStep(i));
    for (int i = 0; i + 1 < size; ++i) ForwardArcs(i);
    ForwardArcs(size - 1);
    if (plan_.cyclic) BackArcs();
    if (size > 2 && Chance(20)) {
      plan_.steps.back().name = "end";
      plan_.steps.back().arcs.clear();
    }
    if (Chance(15)) {
      PlanStep last = MakeStep(size);
      last.guard = PlanStep::Guard::kNone;
      last.name = "last";
      plan_.final_step = last.name;
      plan_.steps.push_back(std::move(last));
    }
    return plan_;
  }

 private:
  bool Chance(int percent) { return static_cast<int>(random_.Below(100)) < percent; }
  int Below(int bound) {
    return static_cast<int>(random_.Below(static_cast<std::uint64_t>(bound)));
  }

  int Size(int depth) {
    if (depth > 0) return 1 + Below(3);
    const int most = plan_.cyclic ? kCyclicStepsMax : kStepsMax;
    if (Chance(60)) return 2 + Below(5);
    if (Chance(70)) return 4 + Below(7);
    return 6 + Below(most - 6);
  }

  PlanStep MakeStep(int index) {
    PlanStep step;
    step.name = index == 0 ? "start" : fmt::format("s{}", index);
    step.repeats = 1 + Below(kRepeatsMax);
    step.writes = Chance(40);
    step.inclusive = Chance(45);
    step.must_match = Chance(3);
    step.best_effort = Chance(10);
    if (Chance(20)) step.tool = PlanStep::Tool::kPipeline;
    if (!plan_.children.empty() && Chance(35)) {
      step.tool = PlanStep::Tool::kChild;
      step.child = Below(static_cast<int>(plan_.children.size()));
      step.child_waits = Chance(75);
      step.child_failure_continues = Chance(30);
    }
    if (Chance(30)) MakeLoop(step);
    if (Chance(12)) step.guard = static_cast<PlanStep::Guard>(1 + Below(3));
    if (Chance(7)) step.admit = static_cast<PlanStep::Guard>(1 + Below(2));
    if (Chance(14)) MakeFailing(step);
    // How many items a list from the context has depends on who wrote it last: such a loop may not
    // decide anything by its items.
    if (step.fails != PlanStep::Fails::kNever && step.items_from == PlanStep::Items::kContext) {
      step.items_from = PlanStep::Items::kWorkload;
    }
    const bool plain = step.tool == PlanStep::Tool::kSingle && step.loop == PlanStep::Loop::kNone;
    step.parks = plain && step.fails == PlanStep::Fails::kNever && Chance(10);
    step.deadline = Chance(8);
    return step;
  }

  void MakeLoop(PlanStep& step) {
    step.loop = static_cast<PlanStep::Loop>(1 + Below(3));
    step.items_from = static_cast<PlanStep::Items>(Below(4));
    step.items = Chance(20) ? 0 : 1 + Below(kItemsMax);
    step.loop_continues = Chance(25);
    if (step.loop != PlanStep::Loop::kSequential && Chance(60)) step.max_in_flight = 1 + Below(3);
    if (step.loop != PlanStep::Loop::kCursor) return;
    step.frames = Below(4);
    step.frame_rows = 1 + Below(3);
    step.row_concurrency = 1 + Below(2);
    step.whole_frame = Chance(25);
    step.retain = Chance(40);
    if (step.tool == PlanStep::Tool::kChild) step.tool = PlanStep::Tool::kSingle;
  }

  void MakeFailing(PlanStep& step) {
    step.fails = Chance(50) ? PlanStep::Fails::kSoft : PlanStep::Fails::kHard;
    step.fails_percent = Chance(50) ? 100 : 30;
    step.fails_first_only = Chance(25);
    if (Chance(20)) step.on_error = "continue";
    else if (Chance(25)) step.on_error = "retry";
    if (Chance(15)) step.tool_retries = 2 + Below(2);
  }

  PlanArc MakeArc(const PlanStep& step, int target) {
    PlanArc arc;
    arc.target = target;
    arc.writes = Chance(20);
    arc.args = Chance(15);
    const int pick = Below(100);
    const bool plain = step.loop == PlanStep::Loop::kNone && step.tool != PlanStep::Tool::kChild;
    if (pick < 50) arc.when = When::kAbsent;
    else if (pick < 75 && plain) arc.when = When::kData;
    else if (pick < 80) arc.when = When::kTrue;
    else if (pick < 85) arc.when = When::kFalse;
    else if (pick < 93) arc.when = When::kError;
    else arc.when = When::kDone;
    arc.threshold = Below(9);
    return arc;
  }

  void ForwardArcs(int index) {
    PlanStep& step = plan_.steps[static_cast<std::size_t>(index)];
    const int size = static_cast<int>(plan_.steps.size());
    int count = Chance(12) ? 0 : Chance(55) ? 1 : Chance(60) ? 2 : 3;
    if (index == 0) count = std::max(count, 1);
    for (int i = 0; i < count; ++i) {
      // Near targets make long paths and joins.
      const int left = size - index - 1;
      if (left == 0) {
        if (!plan_.strict && Chance(15)) step.arcs.push_back(MakeArc(step, -1));
        return;
      }
      const int reach = Chance(70) ? std::min(left, 3) : left;
      step.arcs.push_back(MakeArc(step, index + 1 + Below(reach)));
    }
    if (step.fails != PlanStep::Fails::kNever && Chance(40) && index + 1 < size) {
      PlanArc arc = MakeArc(step, index + 1 + Below(size - index - 1));
      arc.when = When::kError;
      step.arcs.insert(step.arcs.begin() + Below(static_cast<int>(step.arcs.size()) + 1), arc);
    }
  }

  void BackArcs() {
    const int size = static_cast<int>(plan_.steps.size());
    const int count = 1 + Below(3);
    for (int i = 0; i < count; ++i) {
      const int from = Below(size);
      PlanStep& step = plan_.steps[static_cast<std::size_t>(from)];
      if (step.tool == PlanStep::Tool::kChild) step.tool = PlanStep::Tool::kSingle;
      const bool counts = step.loop != PlanStep::Loop::kNone || Chance(40);
      PlanArc arc = MakeArc(step, Below(from + 1));
      arc.when = counts ? When::kCounter : When::kMore;
      if (counts) step.writes = true;
      if (step.repeats < 2) step.repeats = 2;
      // First more often: an exclusive router behind an open arc would never lead back.
      step.arcs.insert(Chance(80) ? step.arcs.begin() : step.arcs.end(), arc);
    }
  }

  SeededRandom random_;
  Plan plan_;
};

// ---- text

std::string WhenText(const PlanStep& step, const PlanArc& arc) {
  switch (arc.when) {
    case When::kAbsent: return "";
    case When::kTrue: return "{{ workload.yes }}";
    case When::kFalse: return "{{ workload.no or workload.zero > 1 }}";
    case When::kData: return fmt::format("{{{{ output.data.x > {} }}}}", arc.threshold);
    case When::kMore: return "{{ output.data.more }}";
    case When::kCounter:
      // A failed or skipped run does not count, so it may not lead back either.
      return fmt::format("{{{{ event.name == 'step.done' and (ctx.n_{} | default(0)) < {} }}}}",
                         step.name, step.repeats);
    case When::kError: return "{{ event.name == 'call.error' }}";
    case When::kDone: return "{{ event.name == 'step.done' }}";
  }
  return "";
}

std::string_view GuardText(const PlanStep& step, PlanStep::Guard guard, std::string& buffer) {
  switch (guard) {
    case PlanStep::Guard::kNone: return "";
    case PlanStep::Guard::kTrue: return "{{ workload.zero == 0 }}";
    case PlanStep::Guard::kFalse: return "{{ workload.no }}";
    case PlanStep::Guard::kOwnResult:
      buffer = fmt::format("{{{{ (ctx.g_{} | default(0)) < 2 }}}}", step.name);
      return buffer;
  }
  return "";
}

class YamlWriter {
 public:
  std::string Write(const Plan& plan) {
    Line(0, "apiVersion: noetl.io/{}", plan.strict ? "v10" : "v2");
    Line(0, "kind: Playbook");
    Line(0, "metadata: {{name: {0}, path: {0}}}", plan.path);
    Executor(plan);
    Line(0, "workload: {{yes: true, no: false, zero: 0, list: [10, 11, 12, 13, 14, 15, 16]}}");
    Line(0, "workflow:");
    for (const PlanStep& step : plan.steps) Step(plan, step);
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Line(int indent, fmt::format_string<Args...> text, Args&&... args) {
    out_.append(static_cast<std::size_t>(indent), ' ');
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
    out_ += '\n';
  }

  void Executor(const Plan& plan) {
    if (plan.final_step.empty() && !plan.no_next_is_error && plan.inline_bytes == 0) return;
    Line(0, "executor:");
    Line(2, "spec:");
    if (!plan.final_step.empty()) Line(4, "final_step: {}", plan.final_step);
    if (plan.no_next_is_error) Line(4, "no_next_is_error: true");
    if (plan.inline_bytes > 0)
      Line(4, "policy: {{limits: {{max_payload_bytes: {}}}}}", plan.inline_bytes);
  }

  void Step(const Plan& plan, const PlanStep& step) {
    std::string buffer;
    Line(2, "- step: {}", step.name);
    if (step.guard != PlanStep::Guard::kNone && !plan.strict)
      Line(4, "when: \"{}\"", GuardText(step, step.guard, buffer));
    if (step.loop != PlanStep::Loop::kNone) Loop(step);
    Policy(step);
    Tool(plan, step);
    if (step.writes || step.guard == PlanStep::Guard::kOwnResult) {
      Line(4, "set:");
      if (step.writes) {
        Line(6, "ctx.n_{0}: \"{{{{ (ctx.n_{0} | default(0)) + 1 }}}}\"", step.name);
        Line(6, "ctx.shared.{}: \"{{{{ output.status }}}}\"", step.name);
        Line(6, "ctx.list: [1, 2, 3]");
      }
      if (step.guard == PlanStep::Guard::kOwnResult) {
        Line(6, "ctx.g_{0}: \"{{{{ (ctx.g_{0} | default(0)) + 1 }}}}\"", step.name);
      }
    }
    Next(plan, step);
  }

  void Loop(const PlanStep& step) {
    static constexpr std::string_view kModes[] = {"", "sequential", "parallel", "cursor"};
    Line(4, "loop:");
    if (step.loop == PlanStep::Loop::kCursor) {
      Line(6, "cursor: {{claim: \"select {{{{ __frame_max_rows }}}} from work\"}}");
    } else if (step.items_from == PlanStep::Items::kNumber) {
      Line(6, "in: \"{{{{ {} }}}}\"", step.items);
    } else if (step.items_from == PlanStep::Items::kContext) {
      Line(6, "in: \"{{{{ ctx.list | default([7]) }}}}\"");
    } else if (step.items_from == PlanStep::Items::kText) {
      std::string words;
      for (int i = 0; i < step.items; ++i) words += fmt::format("w{},", i);
      Line(6, "in: \"{}\"", words);
    } else {
      Line(6, "in: \"{{{{ workload.list[:{}] }}}}\"", step.items);
    }
    Line(6, "iterator: it");
    Line(6, "spec:");
    Line(8, "mode: {}", kModes[static_cast<std::size_t>(step.loop)]);
    if (step.max_in_flight > 0) Line(8, "max_in_flight: {}", step.max_in_flight);
    if (step.loop_continues || step.retain) {
      Line(8, "policy:");
      if (step.loop_continues) Line(10, "on_error: continue");
      if (step.retain) Line(10, "results: {{retain: true}}");
    }
    if (step.loop == PlanStep::Loop::kCursor) {
      Line(8, "frame: {{max_rows: {}, row_concurrency: {}, process: {}}}", step.frame_rows,
           step.row_concurrency, step.whole_frame ? "frame" : "row");
    }
  }

  void Policy(const PlanStep& step) {
    const bool policy = step.admit != PlanStep::Guard::kNone || step.best_effort || step.deadline;
    if (!policy && step.on_error.empty()) return;
    Line(4, "spec:");
    if (!step.on_error.empty()) Line(6, "on_error: {}", step.on_error);
    if (!policy) return;
    std::string buffer;
    Line(6, "policy:");
    if (step.best_effort) Line(8, "failure: {{mode: best_effort}}");
    if (step.deadline) Line(8, "lifecycle: {{deadline_s: 3600}}");
    if (step.admit == PlanStep::Guard::kNone) return;
    Line(8, "admit:");
    Line(10, "rules:");
    Line(12, "- when: \"{}\"", GuardText(step, step.admit, buffer));
    Line(12, "  then: {{allow: true}}");
    Line(12, "- else: {{then: {{allow: false}}}}");
  }

  void Tool(const Plan& plan, const PlanStep& step) {
    const std::string_view result =
        step.loop == PlanStep::Loop::kNone ? "{step: 1}" : "{item: \"{{ it }}\"}";
    if (step.tool == PlanStep::Tool::kChild) {
      Line(4, "tool:");
      Line(6, "kind: playbook");
      Line(6, "path: {}", plan.children[static_cast<std::size_t>(step.child)].path);
      if (step.child_waits) Line(6, "wait: true");
      if (step.child_failure_continues) Line(6, "on_child_failure: continue");
      return;
    }
    if (step.tool == PlanStep::Tool::kSingle) {
      Line(4, "tool:");
      Line(6, "kind: noop");
      Line(6, "result: {}", result);
      if (step.tool_retries > 0) {
        Line(6, "retry: {{max_attempts: {}, backoff_seconds: 1, retry_on: [error]}}",
             step.tool_retries);
      }
      return;
    }
    Line(4, "tool:");
    Line(6, "- name: first");
    Line(6, "  kind: noop");
    Line(6, "  result: {}", result);
    Line(6, "- name: second");
    Line(6, "  kind: noop");
    Line(6, "  result: {{seen: \"{{{{ first.x }}}}\"}}");
    Line(6, "  set: {{ctx.p_{}: \"{{{{ _prev.x | default(0) }}}}\"}}", step.name);
    if (step.tool_retries > 0) {
      Line(6, "  spec:");
      Line(6, "    policy:");
      Line(6, "      rules:");
      Line(6, "        - when: \"{{{{ output.status == 'error' }}}}\"");
      Line(6, "          then: {{do: retry, attempts: {}, delay: 1}}", step.tool_retries);
      Line(6, "        - else: {{then: {{do: continue}}}}");
    }
  }

  void Next(const Plan& plan, const PlanStep& step) {
    if (step.arcs.empty()) return;
    Line(4, "next:");
    Line(6, "spec:");
    Line(8, "mode: {}", step.inclusive ? "inclusive" : "exclusive");
    if (step.must_match) Line(8, "on_no_match: fail");
    Line(6, "arcs:");
    for (const PlanArc& arc : step.arcs) {
      Line(8, "- step: {}",
           arc.target < 0 ? "end" : plan.steps[static_cast<std::size_t>(arc.target)].name);
      if (arc.when != When::kAbsent) Line(8, "  when: \"{}\"", WhenText(step, arc));
      if (arc.writes) Line(8, "  set: {{ctx.from.{}: \"{{{{ step }}}}\"}}", step.name);
      if (arc.args && !plan.strict) Line(8, "  args: {{came_from: \"{{{{ step }}}}\"}}");
    }
  }

  std::string out_;
};

// ---- simpler plans

Plan WithoutStep(const Plan& plan, std::size_t gone) {
  Plan smaller = plan;
  if (smaller.steps[gone].name == smaller.final_step) smaller.final_step.clear();
  smaller.steps.erase(smaller.steps.begin() + static_cast<std::ptrdiff_t>(gone));
  for (PlanStep& step : smaller.steps) {
    std::erase_if(step.arcs,
                  [&](const PlanArc& arc) { return arc.target == static_cast<int>(gone); });
    for (PlanArc& arc : step.arcs) arc.target -= arc.target > static_cast<int>(gone) ? 1 : 0;
  }
  return smaller;
}

void SimplerSteps(const Plan& plan, std::vector<Plan>& out) {
  using Change = std::function<void(PlanStep&)>;
  static const Change kChanges[] = {
      [](PlanStep& s) {
        s.tool = PlanStep::Tool::kSingle;
        s.child = -1;
      },
      [](PlanStep& s) { s.loop = PlanStep::Loop::kNone; },
      [](PlanStep& s) { s.items = std::min(s.items, 2); },
      [](PlanStep& s) { s.items_from = PlanStep::Items::kWorkload; },
      [](PlanStep& s) { s.max_in_flight = 0; },
      [](PlanStep& s) { s.loop_continues = false; },
      [](PlanStep& s) { s.frames = std::min(s.frames, 1); },
      [](PlanStep& s) { s.frame_rows = 1; },
      [](PlanStep& s) { s.row_concurrency = 1; },
      [](PlanStep& s) { s.whole_frame = false; },
      [](PlanStep& s) { s.retain = false; },
      [](PlanStep& s) { s.guard = PlanStep::Guard::kNone; },
      [](PlanStep& s) { s.admit = PlanStep::Guard::kNone; },
      [](PlanStep& s) {
        s.fails = PlanStep::Fails::kNever;
        s.on_error.clear();
        s.tool_retries = 0;
      },
      [](PlanStep& s) { s.parks = false; },
      [](PlanStep& s) { s.fails_percent = 100; },
      [](PlanStep& s) { s.fails_first_only = false; },
      [](PlanStep& s) { s.on_error.clear(); },
      [](PlanStep& s) { s.tool_retries = 0; },
      [](PlanStep& s) { s.best_effort = false; },
      [](PlanStep& s) { s.deadline = false; },
      [](PlanStep& s) { s.repeats = std::min(s.repeats, 2); },
      [](PlanStep& s) { s.inclusive = false; },
      [](PlanStep& s) { s.must_match = false; },
      [](PlanStep& s) {
        for (PlanArc& arc : s.arcs) arc.writes = arc.args = false;
      },
      [](PlanStep& s) {
        for (const PlanArc& arc : s.arcs) {
          if (arc.when == PlanArc::When::kCounter) return;
        }
        s.writes = false;
      },
  };
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (const Change& change : kChanges) {
      Plan smaller = plan;
      change(smaller.steps[i]);
      if (!(smaller.steps[i] == plan.steps[i])) out.push_back(std::move(smaller));
    }
  }
}

}  // namespace

std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

Plan GeneratePlan(std::uint64_t seed, bool cyclic) {
  return Generator(seed, cyclic).Make(0, "main");
}

std::string ToYaml(const Plan& plan) { return YamlWriter().Write(plan); }

std::vector<Plan> Simplifications(const Plan& plan) {
  std::vector<Plan> out;
  for (std::size_t i = plan.steps.size(); i-- > 1;) out.push_back(WithoutStep(plan, i));
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (std::size_t arc = 0; arc < plan.steps[i].arcs.size(); ++arc) {
      Plan smaller = plan;
      auto& arcs = smaller.steps[i].arcs;
      arcs.erase(arcs.begin() + static_cast<std::ptrdiff_t>(arc));
      out.push_back(std::move(smaller));
    }
  }
  for (bool Plan::* flag : {&Plan::strict, &Plan::no_next_is_error, &Plan::step_error_fails,
                            &Plan::status_from_steps}) {
    if (!(plan.*flag)) continue;
    Plan smaller = plan;
    smaller.*flag = false;
    out.push_back(std::move(smaller));
  }
  if (plan.inline_bytes > 0) {
    out.push_back(plan);
    out.back().inline_bytes = 0;
  }
  if (!plan.final_step.empty()) {
    out.push_back(plan);
    out.back().final_step.clear();
  }
  for (std::size_t i = 0; i < plan.children.size(); ++i) {
    for (Plan& smaller_child : Simplifications(plan.children[i])) {
      Plan smaller = plan;
      smaller.children[i] = std::move(smaller_child);
      out.push_back(std::move(smaller));
    }
  }
  SimplerSteps(plan, out);
  return out;
}

std::int64_t AnswerOf(const Plan& plan, std::string_view step, std::int64_t run, std::int64_t index,
                      std::int64_t frame) {
  const std::uint64_t place =
      Mix(Mix(HashText(step), static_cast<std::uint64_t>(run)),
          Mix(static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(frame)));
  return static_cast<std::int64_t>(Mix(plan.seed, place) % 10);
}

bool FailsAt(const Plan& plan, const PlanStep& step, std::int64_t run, std::int64_t index,
             std::int64_t frame, std::int64_t attempt) {
  if (step.fails == PlanStep::Fails::kNever) return false;
  if (step.fails_first_only && attempt > 1) return false;
  const auto x = static_cast<std::uint64_t>(AnswerOf(plan, step.name, run, index, frame));
  return static_cast<int>(Mix(plan.seed + 1, x) % 100) < step.fails_percent;
}

ToolAnswer PlannedTools::Call(const ToolCall& call) {
  const Plan* plan = &plan_;
  for (const Plan& child : plan_.children) {
    if (child.path == call.path) plan = &child;
  }
  const auto step =
      std::find_if(plan->steps.begin(), plan->steps.end(),
                   [&](const PlanStep& candidate) { return candidate.name == call.step; });
  NOETL_CHECK(step != plan->steps.end(), "a tool is called for a step of the plan");
  ToolAnswer answer;
  if (call.phase == "claim") {
    std::vector<Json> rows;
    if (call.frame < step->frames) {
      for (int row = 0; row < step->frame_rows; ++row)
        rows.push_back(Json::Object({{"frame", call.frame}, {"row", row}}));
    }
    answer.outcome.payload = Json::Object({{"rows", Json::Array(std::move(rows))}});
    return answer;
  }
  const std::int64_t x = AnswerOf(*plan, call.step, call.run, call.index, call.frame);
  answer.outcome.payload = Json::Object({{"x", x},
                                         {"more", call.run < step->repeats},
                                         {"i", call.index},
                                         {"run", call.run},
                                         {"item", call.config["result"]["item"]}});
  answer.parked = step->parks;
  const bool second = call.label == "second";
  const bool fails = FailsAt(*plan, *step, call.run, call.index, call.frame, call.fence) &&
                     (call.label.empty() || second) &&
                     !(step->tool_retries > 0 && call.attempt >= step->tool_retries);
  if (fails) {
    answer.outcome.ok = false;
    answer.outcome.error = fmt::format("{} fails", call.step);
    answer.outcome.error_info =
        Json::Object({{"kind", "error"}, {"retryable", true}, {"message", answer.outcome.error}});
    answer.hard = step->fails == PlanStep::Fails::kHard && call.label.empty();
  }
  return answer;
}

}  // namespace noetl::sim
