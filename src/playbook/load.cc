// Reading a document from text to model.
#include <algorithm>

#include <fmt/format.h>

#include "playbook/build.h"
#include "playbook/lint.h"
#include "playbook/model.h"
#include "playbook/normalise.h"
#include "playbook/yaml.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kReservedRoots[] = {"workload",
                                               "ctx",
                                               "iter",
                                               "step",
                                               "input",
                                               "args",
                                               "output",
                                               "outcome",
                                               "result",
                                               "results",
                                               "error",
                                               "event",
                                               "steps",
                                               "keychain",
                                               "execution_id",
                                               "catalog_id",
                                               "parent_execution_id",
                                               "job",
                                               "env",
                                               "playbook",
                                               "loop",
                                               "_prev",
                                               "_task",
                                               "_attempt",
                                               "_index",
                                               "_total",
                                               "loop_index",
                                               "__frame_max_rows"};

bool CheckKindOfDocument(const Node& root, Diagnostics* diagnostics) {
  const Node* kind = root.Find("kind");
  const std::string got = TextOf(kind);
  if (got == "Playbook") return true;
  const Node& at = kind == nullptr ? root : *kind;
  diagnostics->Add("E001", kind == nullptr ? "kind" : kind->path, at.position,
                   fmt::format("Invalid kind '{}'; this endpoint takes Playbook", got),
                   "write kind: Playbook");
  return false;
}

void NotePositions(const Node& node, const std::string& path,
                   std::map<std::string, Position, std::less<>>* positions) {
  positions->emplace(path, node.position);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    NotePositions(node.items[i], fmt::format("{}[{}]", path, i), positions);
  }
  for (const auto& [key, value] : node.entries) {
    NotePositions(value, path.empty() ? key.text : path + "." + key.text, positions);
  }
}

int EntryWithoutName(BuildContext* context, const Node& workflow) {
  const Playbook& playbook = *context->playbook;
  if (const int start = playbook.IndexOf("start"); start >= 0) return start;
  const std::string message = "no entry: add a step 'start' or set executor.spec.entry_step";
  const std::string hint =
      "rename the first step to 'start', or name it in executor.spec.entry_step";
  if (context->report.strict() && !context->options.require_start) return 0;
  bool incoming = false;
  for (const Step& step : playbook.steps) {
    for (const Arc& arc : step.arcs) incoming = incoming || arc.target_index == 0;
  }
  if (incoming || context->options.require_start) {
    context->report.Add("E300", workflow, message, hint);
    return 0;
  }
  context->report.Add("W300", workflow.items[0],
                      fmt::format("{}; the run starts at '{}'", message, playbook.steps[0].name),
                      hint);
  return 0;
}

int NamedStep(BuildContext* context, const Node& root, std::string_view key,
              const std::string& name) {
  const int index = context->playbook->IndexOf(name);
  if (index >= 0) return index;
  const Node* at = FindPath(root, {"executor", "spec", key});
  context->report.Add("E123", at == nullptr ? root : *at,
                      fmt::format("executor.spec.{} '{}' is not a step (have: {})", key, name,
                                  JoinNames(context->step_names)) +
                          DidYouMean(name, context->step_names),
                      "name one of the steps");
  return -1;
}

}  // namespace

void ResolveFlow(BuildContext* context, const Node& root) {
  Playbook& playbook = *context->playbook;
  if (playbook.steps.empty()) return;
  const Executor& executor = playbook.executor;
  if (executor.entry_step.empty()) {
    playbook.entry = EntryWithoutName(context, *root.Find("workflow"));
  } else {
    playbook.entry = std::max(0, NamedStep(context, root, "entry_step", executor.entry_step));
  }
  if (!executor.final_step.empty()) {
    playbook.final = NamedStep(context, root, "final_step", executor.final_step);
  }
  playbook.end = playbook.IndexOf("end");
  std::vector<std::vector<int>> arcs;
  bool end_targeted = false;
  for (const Step& step : playbook.steps) {
    std::vector<int>& targets = arcs.emplace_back();
    for (const Arc& arc : step.arcs) {
      targets.push_back(arc.target_index);
      end_targeted = end_targeted || arc.target_index == playbook.end;
    }
  }
  playbook.implicit_end = playbook.end >= 0 && !end_targeted && playbook.end != playbook.entry;
  playbook.graph = Graph::Build(arcs, playbook.entry);
}

// Errors elsewhere do not hide what the checks of the whole say; a step without a tool would.
static bool CanLint(const Playbook& playbook) {
  return !playbook.steps.empty() &&
         std::ranges::none_of(playbook.steps, [](const Step& step) { return step.tasks.empty(); });
}

Loaded Load(std::string_view text, const LoadOptions& options) {
  Diagnostics diagnostics;
  Loaded loaded;
  Node root;
  if (!ParseYaml(text, &root, &diagnostics) || !CheckKindOfDocument(root, &diagnostics)) {
    loaded.diagnostics = diagnostics.Take();
    return loaded;
  }
  auto playbook = std::make_shared<Playbook>();
  NotePositions(root, "", &playbook->positions);
  const Node canonical = Normalise(std::move(root), &diagnostics);
  NotePositions(canonical, "", &playbook->positions);
  const bool strict = TextOf(canonical.Find("apiVersion")) == "noetl.io/v10";
  playbook->profile = strict ? Profile::kStrict : Profile::kCompat;
  BuildContext context{.report = Reporter(&diagnostics, playbook->profile),
                       .playbook = playbook.get(),
                       .options = options,
                       .dialect = {.methods = !strict}};
  BuildHeader(&context, canonical);
  BuildWorkload(&context, canonical);
  BuildKeychain(&context, canonical);
  CheckWorkbook(&context, canonical);
  BuildSteps(&context, canonical);
  ResolveFlow(&context, canonical);
  playbook->env_names.assign(context.env_names.begin(), context.env_names.end());
  playbook->canonical = NodeToJson(canonical);
  if (CanLint(*playbook)) Lint(*playbook, &diagnostics);
  if (!diagnostics.has_errors()) loaded.playbook = std::move(playbook);
  loaded.diagnostics = diagnostics.Take();
  return loaded;
}

const std::vector<ToolKind>& ToolKinds() {
  static const std::vector<ToolKind> kinds = {
      {.name = "http", .required = "url|endpoint"},
      {.name = "postgres", .required = "command|query|commands|script|command_b64"},
      {.name = "duckdb", .required = "command|query|commands|script|command_b64"},
      {.name = "ducklake", .required = "command|query|commands|script|command_b64"},
      {.name = "snowflake", .required = "command|query|commands|script|command_b64"},
      {.name = "python", .required = "code|script|code_b64"},
      {.name = "shell", .required = "cmds|command|script"},
      {.name = "rhai"},
      {.name = "noop"},
      {.name = "playbook", .required = "path|catalog_id"},
      {.name = "artifact", .required = "action"},
      {.name = "result_fetch"},
      {.name = "nats", .required = "operation"},
      {.name = "transfer", .required = "source&target"},
      {.name = "container", .required = "image"},
      {.name = "script"},
      {.name = "mcp"},
      {.name = "provider"},
      {.name = "subscription"},
      {.name = "workbook"},
      {.name = "agent", .known_only = true},
      {.name = "secrets", .known_only = true},
      {.name = "gcs", .known_only = true},
      {.name = "gateway", .known_only = true},
      {.name = "snowflake_transfer", .known_only = true},
      {.name = "wasm", .known_only = true, .required = "plugin"},
      {.name = "task_sequence", .internal = true},
      {.name = "iterator", .internal = true},
  };
  return kinds;
}

bool IsReservedRoot(std::string_view name) {
  return std::find(std::begin(kReservedRoots), std::end(kReservedRoots), name) !=
         std::end(kReservedRoots);
}

const Task::Field* Task::Find(std::string_view field) const {
  for (const Field& candidate : fields) {
    if (candidate.name == field) return &candidate;
  }
  return nullptr;
}

const Step* Playbook::Find(std::string_view step) const {
  const int found = IndexOf(step);
  return found < 0 ? nullptr : &steps[static_cast<std::size_t>(found)];
}

int Playbook::IndexOf(std::string_view step) const {
  const auto found = index.find(step);
  return found == index.end() ? -1 : found->second;
}

Position Playbook::PositionOf(std::string_view path) const {
  while (!path.empty()) {
    if (const auto found = positions.find(path); found != positions.end()) return found->second;
    const std::size_t cut = path.find_last_of(".[");
    path = cut == std::string_view::npos ? std::string_view() : path.substr(0, cut);
  }
  const auto found = positions.find("");
  return found == positions.end() ? Position{} : found->second;
}

}  // namespace noetl::playbook
