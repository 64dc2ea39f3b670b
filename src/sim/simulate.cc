#include "sim/simulate.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/random.h"
#include "engine/fold.h"
#include "playbook/draw.h"
#include "sim/invent.h"
#include "sim/world.h"

namespace noetl::sim {
namespace {

using engine::Event;
using engine::EventType;
using Playbooks = std::vector<std::shared_ptr<const playbook::Playbook>>;

// How often, of a thousand calls or actions.
constexpr std::uint64_t kLostPermille = 10;
constexpr std::uint64_t kHardPermille = 20;
constexpr std::uint64_t kSoftPermille = 60;
constexpr std::uint64_t kSlowPermille = 100;
constexpr std::uint64_t kTwicePermille = 50;
constexpr std::uint64_t kRestartPermille = 10;
constexpr std::uint64_t kSlowSecondsMax = 30;
// A cursor is drained after so many claims, whatever was drawn.
constexpr std::int64_t kClaimsMax = 5;

// Answers from the script, else drawn.
class DrawnTools : public Tools {
 public:
  DrawnTools(const Script& script, const std::map<std::string, Shapes>& shapes,
             RandomSource* random)
      : scripted_(script), shapes_(shapes), random_(random) {}

  ToolAnswer Call(const ToolCall& call) override {
    if (auto answer = scripted_.Find(call)) return *std::move(answer);
    ToolAnswer answer;
    answer.lost = Chance(kLostPermille);
    if (Chance(kSlowPermille)) {
      answer.duration_us =
          static_cast<std::int64_t>(1 + random_->Below(kSlowSecondsMax)) * 1'000'000;
    }
    if (call.kind == "noop") {
      answer.outcome = AnswerNoop(call).outcome;
      return answer;
    }
    if (Chance(kHardPermille)) return FailWith(answer, "simulated: the tool could not run", true);
    if (Chance(kSoftPermille))
      return FailWith(answer, "simulated: the tool reported an error", false);
    const Shapes& shapes = shapes_.at(call.path);
    if (!call.phase.empty()) {
      const bool drained =
          ++claims_[fmt::format("{}/{}/{}", call.execution_id, call.step, call.run)] > kClaimsMax;
      answer.outcome.payload =
          drained ? Json::Object({{"rows", Json::Array()}, {"row_count", 0}})
                  : shapes.InventRows(call.step, call.input["__frame_max_rows"].AsInt(2), *random_);
    } else if (const auto defined = AnswerByDefinition(call)) {
      answer.outcome.payload = defined->outcome.payload;
    } else {
      answer.outcome.payload = shapes.Invent(call.step, call.label, call.kind, *random_);
    }
    return answer;
  }

 private:
  bool Chance(std::uint64_t permille) { return random_->Below(1'000) < permille; }

  ToolAnswer FailWith(ToolAnswer answer, std::string error, bool hard) {
    answer.hard = hard;
    answer.outcome.ok = false;
    answer.outcome.error = std::move(error);
    answer.outcome.error_info =
        engine::ErrorObject(answer.outcome.error, Json()).With("retryable", random_->Below(2) == 0);
    return answer;
  }

  ScriptedTools scripted_;
  const std::map<std::string, Shapes>& shapes_;
  RandomSource* random_;
  std::map<std::string, std::int64_t> claims_;
};

// Does one thing at random; false when nothing can happen any more.
bool StepAtRandom(World& world, RandomSource& random) {
  const std::vector<std::string> held = world.held();
  // Messages of one command arrive in their order: only its first one may be delivered.
  std::vector<std::size_t> first;
  std::set<std::string> seen;
  const auto waiting = world.waiting();
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (seen.insert(waiting[i].command_id).second) first.push_back(i);
  }
  std::vector<std::string> awake;
  for (const std::string& id : held) {
    if (!world.sleeping(id)) awake.push_back(id);
  }
  const std::size_t choices = first.size() + awake.size() + world.queued().size();
  if (choices == 0) return world.StepInOrder();  // only time can pass
  std::size_t choice = random.Below(choices);
  if (choice < first.size()) {
    world.Deliver(first[choice], random.Below(1'000) < kTwicePermille ? 2 : 1);
    return true;
  }
  choice -= first.size();
  if (choice < awake.size()) world.Work(awake[choice]);
  else world.Claim(std::string(world.queued()[choice - awake.size()]));
  return true;
}

// The server restarts: every state is read back from its snapshot.
Status Restart(World& world) {
  for (const auto& [id, execution] : world.executions()) {
    NOETL_ASSIGN(execution->state, engine::ReadSnapshot(engine::WriteSnapshot(execution->state)));
  }
  return {};
}

class Simulation {
 public:
  Simulation(const Playbooks& playbooks, const SimulateOptions& options)
      : playbooks_(playbooks), main_(*playbooks[0]), options_(options) {
    for (const auto& playbook : playbooks)
      shapes_.emplace(playbook->path, Shapes::Learn(*playbook));
    report_.path = main_.path;
    report_.first_seed = options.first_seed;
    report_.last_seed = options.last_seed;
  }

  SimulateReport Run() {
    for (std::uint64_t seed = options_.first_seed; seed <= options_.last_seed; ++seed) {
      RunSeed(seed);
      ++report_.runs;
      if (options_.progress) options_.progress(static_cast<std::uint64_t>(report_.runs));
      if (endless_runs_ >= kEndlessRunsMax || seed == UINT64_MAX) break;
    }
    for (const playbook::Step& step : main_.steps) {
      if (!reached_.contains(step.name)) report_.unreached_steps.push_back(step.name);
      for (std::size_t i = 0; i < step.arcs.size(); ++i) {
        if (taken_.contains({step.name, static_cast<std::int64_t>(i)})) continue;
        report_.untaken_arcs.push_back(
            {step.name, step.arcs[i].target, playbook::ArcLabel(step.arcs[i])});
      }
    }
    const auto more = [](const auto& a, const auto& b) {
      return a.runs != b.runs ? a.runs > b.runs : a.seed < b.seed;
    };
    for (auto& [steps, path] : paths_) report_.paths.push_back(std::move(path));
    std::ranges::sort(report_.paths, more);
    std::ranges::sort(report_.failures, more);
    return std::move(report_);
  }

 private:
  void RunSeed(std::uint64_t seed) {
    SeededRandom random(seed);
    DrawnTools tools(options_.script, shapes_, &random);
    World world({}, &tools);
    for (const auto& playbook : playbooks_) world.AddPlaybook(playbook);
    const Result<std::int64_t> started = world.Start(main_.path, options_.input);
    if (!started) {
      ++report_.statuses["REFUSED"];
      return Add(report_.failures, started.error().message, seed);
    }
    bool over = false;
    for (std::int64_t i = 0; i < kSimulatedActionsMax && !over; ++i) {
      over = !StepAtRandom(world, random);
      if (random.Below(1'000) >= kRestartPermille) continue;
      if (const Status restarted = Restart(world); !restarted)
        Add(report_.broken, restarted.error().message, seed);
    }
    const Execution& execution = world.Get(*started);
    Collect(execution, seed);
    ++report_.statuses[std::string(execution.state.StatusText())];
    if (!over) {
      ++endless_runs_;
      Add(report_.endless,
          fmt::format("still {} after {} actions, last in step '{}'", execution.state.StatusText(),
                      kSimulatedActionsMax, execution.log.back().node_name),
          seed);
    }
    for (const auto& [id, run] : world.executions()) {
      if (over && !run->state.terminal()) {
        Add(report_.wedged,
            fmt::format("{}: nothing can happen any more; open steps: {}", run->playbook->path,
                        fmt::join(run->state.open_steps(), " ")),
            seed);
      }
      CheckFold(*run, seed);
    }
  }

  void CheckFold(const Execution& run, std::uint64_t seed) {
    engine::State folded;
    for (const Event& event : run.log) engine::Fold(folded, event);
    if (CanonicalJson(folded.ToJson()) == CanonicalJson(run.state.ToJson())) return;
    Add(report_.broken, fmt::format("{}: the log does not fold to the state", run.playbook->path),
        seed);
  }

  void Collect(const Execution& execution, std::uint64_t seed) {
    std::vector<std::string> steps;
    for (const Event& event : execution.log) {
      if (event.type == EventType::kStepEnter) {
        reached_.insert(event.node_name);
        const bool repeated = !steps.empty() && steps.back() == event.node_name;
        if (!repeated && steps.size() < kPathStepsKept) steps.push_back(event.node_name);
      }
      for (const Json& arc : event.meta["route"]["arcs"].items())
        taken_.insert({event.node_name, arc["i"].AsInt(-1)});
      if (event.type == EventType::kPlaybookFailed) {
        const std::string_view first = event.meta["first_error"].AsString();
        Add(report_.failures,
            first.empty() ? event.error : fmt::format("{}: {}", event.error, first), seed);
      }
    }
    const auto found = paths_.find(steps);
    if (found != paths_.end()) ++found->second.runs;
    else if (paths_.size() < kPathsKept) paths_[steps] = {.steps = steps, .runs = 1, .seed = seed};
    else ++report_.other_paths;
  }

  static void Add(std::vector<SimulateReport::Failure>& list, const std::string& error,
                  std::uint64_t seed) {
    for (SimulateReport::Failure& failure : list) {
      if (failure.error != error) continue;
      ++failure.runs;
      return;
    }
    if (list.size() < kErrorsKept) list.push_back({error, 1, seed});
  }

  const Playbooks& playbooks_;
  const playbook::Playbook& main_;
  const SimulateOptions& options_;
  std::map<std::string, Shapes> shapes_;
  std::map<std::vector<std::string>, SimulateReport::Path> paths_;
  std::set<std::string> reached_;
  std::set<std::pair<std::string, std::int64_t>> taken_;
  std::size_t endless_runs_ = 0;
  SimulateReport report_;
};

Json FailuresJson(const std::vector<SimulateReport::Failure>& failures) {
  std::vector<Json> list;
  for (const auto& failure : failures) {
    list.push_back(
        Json::Object({{"error", failure.error}, {"runs", failure.runs}, {"seed", failure.seed}}));
  }
  return Json::Array(std::move(list));
}

}  // namespace

Json SimulateReport::ToJson() const {
  JsonObjectBuilder by_status;
  for (const auto& [status, count] : statuses) by_status.Add(status, count);
  std::vector<Json> path_list;
  for (const Path& taken : paths) {
    path_list.push_back(
        Json::Object({{"steps", Json::Array({taken.steps.begin(), taken.steps.end()})},
                      {"runs", taken.runs},
                      {"seed", taken.seed}}));
  }
  std::vector<Json> arcs;
  for (const Arc& arc : untaken_arcs) {
    arcs.push_back(Json::Object({{"step", arc.step}, {"target", arc.target}, {"when", arc.when}}));
  }
  return Json::Object(
      {{"playbook", path},
       {"first_seed", first_seed},
       {"last_seed", last_seed},
       {"runs", runs},
       {"statuses", by_status.Build()},
       {"paths", Json::Array(std::move(path_list))},
       {"other_paths", other_paths},
       {"unreached_steps", Json::Array({unreached_steps.begin(), unreached_steps.end()})},
       {"untaken_arcs", Json::Array(std::move(arcs))},
       {"failures", FailuresJson(failures)},
       {"wedged", FailuresJson(wedged)},
       {"endless", FailuresJson(endless)},
       {"broken", FailuresJson(broken)},
       {"healthy", healthy()}});
}

SimulateReport Simulate(const Playbooks& playbooks, const SimulateOptions& options) {
  return Simulation(playbooks, options).Run();
}

}  // namespace noetl::sim
