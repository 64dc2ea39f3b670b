#include <algorithm>
#include <charconv>
#include <memory>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/parser.h"
#include "sim/simulate.h"
#include "sim/simulate_faults.h"
#include "sim/text_file.h"

namespace noetl::cli {
namespace {

// More runs would not be waited for.
constexpr std::uint64_t kSeedsMax = 10'000'000;
// Lines of each list that people are shown; --json has them all.
constexpr std::size_t kShownMax = 10;
constexpr std::size_t kShownStepsMax = 12;
// Progress is shown so many times in all.
constexpr std::uint64_t kProgressSteps = 200;

struct Options {
  std::string file;
  std::string seeds = "1..20";
  std::string script;
  PayloadOptions payload;
  bool faults = false;
  bool json = false;
};

bool ReadSeed(std::string_view text, std::uint64_t* seed) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *seed);
  return error == std::errc() && end == text.data() + text.size();
}

Status ReadSeeds(const std::string& text, sim::SimulateOptions* options) {
  const std::size_t dots = text.find("..");
  const std::string_view first = std::string_view(text).substr(0, dots);
  const std::string_view last =
      dots == std::string::npos ? first : std::string_view(text).substr(dots + 2);
  if (!ReadSeed(first, &options->first_seed) || !ReadSeed(last, &options->last_seed) ||
      options->last_seed < options->first_seed) {
    return Fail("usage", fmt::format("--seeds: '{}' is not a range such as 1..200", text));
  }
  if (options->last_seed - options->first_seed >= kSeedsMax) {
    return Fail("usage", fmt::format("--seeds: more than {} runs", kSeedsMax));
  }
  return {};
}

Result<sim::Script> ReadScript(const std::string& file) {
  if (file.empty()) return sim::Script();
  NOETL_ASSIGN(const std::string text, ReadInput(file));
  NOETL_ASSIGN(const sim::TextSection section, sim::ReadLines(text, file));
  return sim::ParseScript(section, file);
}

std::string PathText(const std::vector<std::string>& steps) {
  if (steps.size() <= kShownStepsMax) return fmt::format("{}", fmt::join(steps, " > "));
  return fmt::format("{} > ... ({} more)",
                     fmt::join(steps.begin(), steps.begin() + kShownStepsMax, " > "),
                     steps.size() - kShownStepsMax);
}

void ShowFailures(std::string_view title, const std::vector<sim::SimulateReport::Failure>& failures,
                  Style style, Console& console) {
  if (failures.empty()) return;
  console.Out(console.Paint(style, title) + "\n");
  for (std::size_t i = 0; i < std::min(failures.size(), kShownMax); ++i) {
    const auto& failure = failures[i];
    console.Out(fmt::format("  {}, first with seed {}: {}\n",
                            Count(static_cast<std::size_t>(failure.runs), "run"), failure.seed,
                            failure.error));
  }
  if (failures.size() > kShownMax)
    console.Out(fmt::format("  ... and {} more kinds\n", failures.size() - kShownMax));
}

void Show(const sim::SimulateReport& report, Console& console) {
  console.Out(fmt::format("{}: {}, seeds {}..{}\n", report.path,
                          Count(static_cast<std::size_t>(report.runs), "run"), report.first_seed,
                          report.last_seed));
  for (const auto& [status, count] : report.statuses) {
    const Style style = status == "COMPLETED" ? Style::kGreen
                        : status == "RUNNING" ? Style::kYellow
                                              : Style::kRed;
    console.Out(fmt::format("  {:>6} {}\n", count, console.Paint(style, status)));
  }
  console.Out("Paths\n");
  for (std::size_t i = 0; i < std::min(report.paths.size(), kShownMax); ++i) {
    const auto& path = report.paths[i];
    console.Out(fmt::format("  {:>6} {}  {}\n", path.runs, PathText(path.steps),
                            console.Paint(Style::kDim, fmt::format("(seed {})", path.seed))));
  }
  if (report.paths.size() > kShownMax) {
    console.Out(fmt::format("         ... and {} more paths\n", report.paths.size() - kShownMax));
  }
  if (!report.unreached_steps.empty()) {
    console.Out(fmt::format("Steps never reached\n  {}\n", fmt::join(report.unreached_steps, " ")));
  }
  if (!report.untaken_arcs.empty()) console.Out("Arcs never taken\n");
  for (const auto& arc : report.untaken_arcs) {
    console.Out(fmt::format("  {} > {}{}\n", arc.step, arc.target,
                            arc.when.empty() ? "" : "  when " + arc.when));
  }
  ShowFailures("Failed", report.failures, Style::kYellow, console);
  ShowFailures("Wedged: nothing can happen, and the run has not ended", report.wedged, Style::kRed,
               console);
  ShowFailures("Never ended", report.endless, Style::kRed, console);
  ShowFailures("Broken: a bug of noetl, please report it", report.broken, Style::kRed, console);
}

void ShowFaults(const sim::FaultSimulation& report, Console& console) {
  console.Out(fmt::format("{}: {} under faults, seeds {}..{}\n", report.path,
                          Count(static_cast<std::size_t>(report.runs), "run"), report.first_seed,
                          report.last_seed));
  for (const auto& [status, count] : report.statuses) {
    const Style style = status == "COMPLETED" ? Style::kGreen : Style::kRed;
    console.Out(fmt::format("  {:>6} {}\n", count, console.Paint(style, status)));
  }
  console.Out(fmt::format("Survived ({} crashes in all)\n", report.crashes));
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
    if (report.faults[i] == 0) continue;
    console.Out(
        fmt::format("  {:>6} {}\n", report.faults[i], sim::FaultName(static_cast<sim::Fault>(i))));
  }
  if (!report.repeated.empty())
    console.Out("Steps whose tools were called again after a fault: they must bear that\n");
  for (const auto& [step, count] : report.repeated)
    console.Out(fmt::format("  {:>6} {}\n", count, step));
  ShowFailures("Ended differently than without faults", report.differing, Style::kRed, console);
  ShowFailures("Broken: a bug of noetl, please report it", report.broken, Style::kRed, console);
}

int RunFaults(const Options& options, const sim::SimulateOptions& simulate,
              std::vector<std::string> texts, Console& console) {
  ConfigureLog({.level = LogLevel::kOff});  // what the machine says of its faults is no news
  const sim::FaultSimulation report = sim::SimulateFaults(texts, simulate);
  console.EndProgress();
  if (options.json) console.Out(WriteJson(report.ToJson()) + "\n");
  else ShowFaults(report, console);
  return report.healthy() ? kExitOk : kExitFailed;
}

int RunSimulation(const Options& options, Console& console) {
  sim::SimulateOptions simulate;
  const auto complain = [&](const Error& error) {
    console.Err(fmt::format("noetl simulate: {}\n", error.message));
    return kExitInvalid;
  };
  if (const Status seeds = ReadSeeds(options.seeds, &simulate); !seeds)
    return complain(seeds.error());
  auto payload = ReadPayload(options.payload);
  if (!payload) return complain(payload.error());
  simulate.input = *std::move(payload);
  auto script = ReadScript(options.script);
  if (!script) return complain(script.error());
  simulate.script = *std::move(script);
  const auto playbook = LoadOrComplain(options.file, console);
  if (!playbook) return kExitInvalid;
  std::vector<std::shared_ptr<const playbook::Playbook>> playbooks = {playbook};
  std::vector<std::string> texts(1);
  for (Neighbour& other : Neighbours(options.file)) {
    if (other.playbook->path == playbook->path) continue;
    playbooks.push_back(std::move(other.playbook));
    texts.push_back(std::move(other.content));
  }
  const std::uint64_t total = simulate.last_seed - simulate.first_seed + 1;
  simulate.progress = [&](std::uint64_t done) {
    if (done % (total / kProgressSteps + 1) == 0)
      console.Progress(fmt::format("{}/{} runs", done, total));
  };
  if (options.faults) {
    if (options.file == "-") return complain({"usage", "--faults: the playbook must be a file"});
    auto text = ReadInput(options.file);
    if (!text) return complain(text.error());
    texts.front() = *std::move(text);
    return RunFaults(options, simulate, std::move(texts), console);
  }
  const sim::SimulateReport report = sim::Simulate(playbooks, simulate);
  console.EndProgress();
  if (options.json) console.Out(WriteJson(report.ToJson()) + "\n");
  else Show(report, console);
  return report.healthy() ? kExitOk : kExitFailed;
}

}  // namespace

Action DeclareSimulate(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("FILE", &options->file, "a playbook; others of its directory can be called by it")
      .Required();
  parser.Add("--seeds", &options->seeds, "one run for each of these numbers")
      .Type("A..B")
      .ShowDefault();
  parser.Add("--script", &options->script, "what tools answer, as in the script of a text test")
      .Type("FILE");
  AddPayloadOptions(parser, &options->payload);
  parser.Flag("--faults", &options->faults,
              "run the whole machine and let everything go wrong: crashes, lost reports, a full "
              "disk; results must not change");
  parser.Flag("--json", &options->json, "one JSON document instead of text");
  return [options](Console& console) { return RunSimulation(*options, console); };
}

}  // namespace noetl::cli
