#include "sim/simulate_faults.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"
#include "base/sha256.h"
#include "engine/pipeline_retry.h"
#include "engine/result.h"
#include "sim/fault_properties.h"
#include "sim/generator.h"
#include "sim/invent.h"
#include "sim/machine.h"

namespace noetl::sim {
namespace {

// How often, of a thousand calls.
constexpr std::uint64_t kHardPermille = 10;
constexpr std::uint64_t kSoftPermille = 30;
// A cursor is drained after so many claims.
constexpr std::int64_t kClaimsMax = 5;
// Crashes alone do not fail a command.
constexpr std::int64_t kMaxAttempts = 100;

std::uint64_t HashOf(std::string_view text) {
  const Sha256Digest digest = Sha256(text);
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < sizeof(hash); ++i) hash = hash << 8 | digest[i];
  return hash;
}

// Draws the answer of a call from its place, so that a call that is repeated gets the same one.
class PlacedTools final : public Tools {
 public:
  PlacedTools(std::uint64_t seed, const Script& script, const std::map<std::string, Shapes>& shapes)
      : seed_(seed), script_(script), shapes_(shapes) {}

  ToolAnswer Call(const ToolCall& call) override {
    if (auto answer = Scripted(call)) return *std::move(answer);
    if (call.kind == "noop") return AnswerNoop(call);
    SeededRandom random(
        Mix(seed_, HashOf(fmt::format("{}/{}/{}/{}/{}/{}", PlaceText(call), call.run, call.frame,
                                      call.phase, call.attempt, call.fence))));
    ToolAnswer answer;
    const std::uint64_t dice = random.Below(1'000);
    if (dice < kHardPermille + kSoftPermille && call.phase.empty()) {
      answer.hard = dice < kHardPermille;
      answer.outcome.ok = false;
      answer.outcome.error = "simulated: the tool failed";
      answer.outcome.error_info = engine::ErrorObject(answer.outcome.error, Json());
      return answer;
    }
    const Shapes& shapes = shapes_.at(call.path);
    if (!call.phase.empty()) {
      answer.outcome.payload =
          call.frame >= kClaimsMax
              ? Json::Object({{"rows", Json::Array()}, {"row_count", 0}})
              : shapes.InventRows(call.step, call.input["__frame_max_rows"].AsInt(2), random);
    } else if (const auto defined = AnswerByDefinition(call)) {
      answer.outcome.payload = defined->outcome.payload;
    } else {
      answer.outcome.payload = shapes.Invent(call.step, call.label, call.kind, random);
    }
    return answer;
  }

 private:
  // The n-th time that the playbook itself asks for a call gets the n-th answer of its line.
  std::optional<ToolAnswer> Scripted(const ToolCall& call) const {
    if (script_.lines.empty()) return std::nullopt;
    ScriptedTools fresh(script_);
    std::optional<ToolAnswer> answer;
    for (std::int64_t n = call.run + call.attempt + call.fence - 2; n > 0; --n)
      answer = fresh.Find(call);
    return answer;
  }

  std::uint64_t seed_;
  const Script& script_;
  const std::map<std::string, Shapes>& shapes_;
};

void Add(std::vector<SimulateReport::Failure>& list, const std::string& error, std::uint64_t seed) {
  for (SimulateReport::Failure& failure : list) {
    if (failure.error == error) {
      ++failure.runs;
      return;
    }
  }
  if (list.size() < kErrorsKept) list.push_back({error, 1, seed});
}

Json FailuresJson(const std::vector<SimulateReport::Failure>& failures) {
  std::vector<Json> list;
  for (const SimulateReport::Failure& failure : failures) {
    list.push_back(
        Json::Object({{"error", failure.error}, {"runs", failure.runs}, {"seed", failure.seed}}));
  }
  return Json::Array(std::move(list));
}

void RunSeed(std::uint64_t seed, MachineOptions machine, Tools& tools, FaultSimulation* report) {
  machine.tools = &tools;
  machine.seed = seed;
  const MachineReport peaceful = Machine(machine).Run();
  // Every third seed has all faults at once.
  machine.faults = seed % 3 == 0 ? AllFaults() : DrawFaults(seed, false);
  const MachineReport troubled = Machine(machine).Run();
  for (const MachineReport* each : {&peaceful, &troubled}) {
    if (!each->failure.empty()) return Add(report->broken, each->failure, seed);
  }
  ++report->statuses[troubled.runs.front().status];
  report->crashes += troubled.crashes;
  for (std::size_t i = 0; i < kFaultKinds; ++i) report->faults[i] += troubled.faults[i];
  for (const auto& [step, count] : troubled.repeated) report->repeated[step] += count;
  const std::string difference = Difference(peaceful.runs.front(), troubled.runs.front());
  if (!difference.empty()) Add(report->differing, difference, seed);
}

}  // namespace

FaultSimulation SimulateFaults(const std::vector<std::string>& playbooks,
                               const SimulateOptions& options) {
  FaultSimulation report{.first_seed = options.first_seed, .last_seed = options.last_seed};
  std::map<std::string, Shapes> shapes;
  for (const std::string& text : playbooks) {
    const playbook::Loaded loaded = playbook::Load(text);
    NOETL_CHECK(loaded.ok(), "the playbooks are valid");
    if (report.path.empty()) report.path = loaded.playbook->path;
    shapes.emplace(loaded.playbook->path, Shapes::Learn(*loaded.playbook));
  }
  MachineOptions machine{.playbooks = playbooks, .input = options.input};
  machine.semantics.max_attempts = kMaxAttempts;
  for (std::uint64_t seed = options.first_seed; seed <= options.last_seed; ++seed) {
    PlacedTools tools(seed, options.script, shapes);
    RunSeed(seed, machine, tools, &report);
    ++report.runs;
    if (options.progress) options.progress(static_cast<std::uint64_t>(report.runs));
    if (seed == UINT64_MAX) break;
  }
  return report;
}

Json FaultSimulation::ToJson() const {
  JsonObjectBuilder by_status;
  for (const auto& [status, count] : statuses) by_status.Add(status, count);
  JsonObjectBuilder survived;
  for (std::size_t i = 0; i < kFaultKinds; ++i)
    survived.Add(FaultName(static_cast<Fault>(i)), faults[i]);
  JsonObjectBuilder again;
  for (const auto& [step, count] : repeated) again.Add(step, count);
  return Json::Object({{"playbook", path},
                       {"first_seed", first_seed},
                       {"last_seed", last_seed},
                       {"runs", runs},
                       {"statuses", by_status.Build()},
                       {"crashes", crashes},
                       {"faults", survived.Build()},
                       {"repeated_steps", again.Build()},
                       {"differing", FailuresJson(differing)},
                       {"broken", FailuresJson(broken)},
                       {"healthy", healthy()}});
}

}  // namespace noetl::sim
