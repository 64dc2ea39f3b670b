#include "cli/run_target.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/table.h"
#include "worker/tools/registry.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

// Kinds that the engine itself runs.
constexpr std::array<std::string_view, 3> kEngineKinds = {"playbook", "workbook", "task_sequence"};
// A word alone may be a step of this one.
constexpr std::string_view kTaskFile = "noetl.yaml";
// Without an argument, the first of these.
constexpr std::array<std::string_view, 2> kDefaultFiles = {kTaskFile, "main.yaml"};
constexpr std::string_view kCatalogScheme = "catalog://";
// Children of children that are looked for as files.
constexpr std::size_t kChildFilesMax = 1'000;

bool IsFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) || fs::is_fifo(path, error);
}

// The file that is meant; nullopt: a name of the catalog.
Result<std::optional<std::string>> FileOf(const std::string& target) {
  if (target.empty()) {
    for (const std::string_view name : kDefaultFiles) {
      if (IsFile(std::string(name))) return std::string(name);
    }
    return Fail("usage", "give a playbook: there is no noetl.yaml and no main.yaml here");
  }
  if (target.starts_with(kCatalogScheme)) return std::nullopt;
  if (target == "-") return target;
  for (const std::string_view folder : {"", "automation/"}) {
    for (const std::string_view ending : {"", ".yaml", ".yml"}) {
      if (std::string file = fmt::format("{}{}{}", folder, target, ending); IsFile(file))
        return file;
    }
  }
  std::error_code error;
  const bool file_meant =
      target.ends_with(".yaml") || target.ends_with(".yml") || fs::exists(target, error);
  if (file_meant) return target;  // reading it tells what is wrong
  return std::nullopt;
}

Result<Target> NamedTarget(std::string_view text) {
  if (text.starts_with(kCatalogScheme)) text.remove_prefix(kCatalogScheme.size());
  Target target;
  const std::size_t at = text.rfind('@');
  target.name = std::string(text.substr(0, at));
  if (at == std::string_view::npos) return target;
  const std::string_view version = text.substr(at + 1);
  const auto [end, error] =
      std::from_chars(version.data(), version.data() + version.size(), target.version);
  if (error != std::errc() || end != version.data() + version.size() || target.version < 1)
    return Fail("usage", fmt::format("'{}' is not a version; write {}@3", version, target.name));
  return target;
}

// Files that are called by their name, relative to the playbook that calls them.
void AddCalledFiles(const playbook::Playbook& playbook, const fs::path& folder, Target* target) {
  for (const std::string& path : CalledPaths(playbook)) {
    if (!path.ends_with(".yaml") && !path.ends_with(".yml")) continue;
    const bool known = std::ranges::any_of(
        target->called, [&](const Target::Called& called) { return called.path == path; });
    if (known || target->called.size() >= kChildFilesMax) continue;
    const std::string file = (folder / path).string();
    auto content = ReadInput(file);
    if (!content) continue;
    const playbook::Loaded loaded = playbook::Load(*content);
    if (!loaded.ok()) continue;
    target->called.push_back({path, file, *std::move(content), loaded.playbook});
    AddCalledFiles(*loaded.playbook, (folder / path).parent_path(), target);
  }
}

// Null playbook: its problems have been told.
Result<Target> FileTarget(const std::string& file, const playbook::LoadOptions& load,
                          Console& console) {
  Target target{.file = file};
  NOETL_ASSIGN(target.content, ReadInput(file));
  playbook::Loaded loaded = playbook::Load(target.content, load);
  if (!loaded.ok()) {
    for (const playbook::Diagnostic& diagnostic : loaded.diagnostics) {
      if (diagnostic.is_error())
        console.Err(ShowDiagnostic(diagnostic, file, target.content, console));
    }
    return target;
  }
  target.name = loaded.playbook->path;
  if (!CalledPaths(*loaded.playbook).empty()) {
    for (Neighbour& other : Neighbours(file)) {
      if (other.playbook->path == target.name) continue;
      target.called.push_back(
          {other.playbook->path, other.file, std::move(other.content), std::move(other.playbook)});
    }
    AddCalledFiles(*loaded.playbook, fs::path(file).parent_path(), &target);
  }
  target.playbook = std::move(loaded.playbook);
  return target;
}

// Of a path of the catalog.
bool IsPathCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("/_.-").contains(c);
}

// `noetl run deploy`: the step of the file of tasks that is here. Nullopt: there is none.
Result<std::optional<Target>> TaskTarget(const std::string& word, Console& console) {
  const std::string file(kTaskFile);
  if (word.find_first_of("/@:.") != std::string::npos || !IsFile(file)) return std::nullopt;
  NOETL_ASSIGN(Target target, FileTarget(file, {}, console));
  if (target.playbook && !target.playbook->Find(word)) return std::nullopt;
  target.step = word;
  return target;
}

}  // namespace

Result<Target> FindTarget(const TargetWords& words, const playbook::LoadOptions& load,
                          Console& console) {
  NOETL_ASSIGN(const std::optional<std::string> file, FileOf(words.name));
  std::optional<Target> target;
  if (file) {
    const bool named = !words.step.empty();
    NOETL_ASSIGN(target, FileTarget(*file, named ? playbook::LoadOptions() : load, console));
  } else {
    NOETL_ASSIGN(target, TaskTarget(words.name, console));
  }
  if (!target) {
    NOETL_ASSIGN(target, NamedTarget(words.name));
    if (words.version > 0) target->version = words.version;
  }
  if (!words.step.empty()) target->step = words.step;
  if (!target->playbook || target->step.empty()) return *std::move(target);
  NOETL_ASSIGN(Beginning begun, BeginAt(*target->playbook, target->name, target->step));
  target->name = std::move(begun.path);
  target->content = std::move(begun.content);
  return *std::move(target);
}

std::vector<std::string> CalledPaths(const playbook::Playbook& playbook) {
  std::vector<std::string> paths;
  for (const playbook::Step& step : playbook.steps) {
    for (const playbook::Task& task : step.tasks) {
      if (task.kind != "playbook") continue;
      const playbook::Task::Field* path = task.Find("path");
      paths.push_back(path ? path->value.source().ToString() : "");
    }
  }
  return paths;
}

bool ToolsAreKnown(const playbook::Playbook& playbook, const std::string& file, Console& console) {
  std::vector<std::string_view> kinds = worker::ToolRegistry::Kinds();
  kinds.insert(kinds.end(), kEngineKinds.begin(), kEngineKinds.end());
  bool known = true;
  const auto check = [&](std::string_view kind, const std::string& path) {
    if (std::ranges::find(kinds, kind) != kinds.end()) return;
    known = false;
    const playbook::Position position = playbook.PositionOf(path);
    console.Err(
        fmt::format("{}:{}:{}: this program cannot run the tool kind '{}'\n"
                    "  hint: it runs {}\n",
                    file, position.line, position.column, kind,
                    fmt::join(worker::ToolRegistry::Kinds(), ", ")));
  };
  for (const playbook::Step& step : playbook.steps) {
    for (const playbook::Task& task : step.tasks) check(task.kind, task.path);
    if (step.loop && step.loop->mode == playbook::Loop::Mode::kCursor)
      check(step.loop->cursor.kind, step.path + ".loop");
  }
  return known;
}

bool CalledToolsAreKnown(const Target& target, Console& console) {
  bool known = ToolsAreKnown(*target.playbook, target.file, console);
  std::set<std::string> seen = {target.name};
  std::vector<std::string> paths = CalledPaths(*target.playbook);
  while (!paths.empty()) {
    const std::string path = std::move(paths.back());
    paths.pop_back();
    const auto called = std::ranges::find(target.called, path, &Target::Called::path);
    if (called == target.called.end() || !seen.insert(path).second) continue;
    known = ToolsAreKnown(*called->playbook, called->file, console) && known;
    for (std::string& next : CalledPaths(*called->playbook)) paths.push_back(std::move(next));
  }
  return known;
}

Result<Beginning> BeginAt(const playbook::Playbook& playbook, const std::string& path,
                          const std::string& step) {
  if (!playbook.Find(step)) {
    std::vector<std::string_view> names;
    for (const playbook::Step& known : playbook.steps) names.push_back(known.name);
    return Fail("usage", fmt::format("'{}' is not a step of {} (have: {})", step, path,
                                     fmt::join(names, ", ")));
  }
  const auto map = [](const Json& value) { return value.is_object() ? value : Json::Object(); };
  const Json& document = playbook.canonical;
  const Json spec = map(document["executor"]["spec"]).With("entry_step", step);
  std::string own = fmt::format("{}.from-{}", path, step);
  std::ranges::replace_if(own, [](char c) { return !IsPathCharacter(c); }, '-');
  return Beginning{own,
                   WriteYaml(document.With("executor", map(document["executor"]).With("spec", spec))
                                 .With("metadata", map(document["metadata"]).With("path", own)))};
}

}  // namespace noetl::cli
