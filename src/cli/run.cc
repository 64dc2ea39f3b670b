#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/json_io.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/remote/server_run.h"
#include "cli/run_watch.h"
#include "worker/tools/registry.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

// Kinds that the engine itself runs.
constexpr std::array<std::string_view, 3> kEngineKinds = {"playbook", "workbook", "task_sequence"};
// Without an argument, the first of these.
constexpr std::array<std::string_view, 2> kDefaultFiles = {"noetl.yaml", "main.yaml"};
constexpr std::string_view kCatalogScheme = "catalog://";
// Children of children that are looked for as files.
constexpr std::size_t kChildFilesMax = 1'000;

struct Options {
  std::string target;
  PayloadOptions payload;
  std::string data;
  WatchOptions watch;
  bool dry_run = false;
  std::int64_t version = 0;
  std::string runtime;
  ServerOptions server;
  FollowOptions follow;
  bool no_register = false;
};

// What to run: a file with the playbooks it may call, or an entry of the catalog.
struct Target {
  std::string file;  // empty: by name
  std::string name;
  std::int64_t version = 0;
  std::string content;
  std::shared_ptr<const playbook::Playbook> playbook;
  struct Called {
    std::string path;
    std::string file;
    std::string content;
    std::shared_ptr<const playbook::Playbook> playbook;
  };
  std::vector<Called> called;
};

int Complain(Console& console, const Error& error, int code) {
  console.Err(fmt::format("noetl run: {}\n", Advice(error)));
  return code;
}

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
  for (const std::string_view ending : {"", ".yaml", ".yml"}) {
    if (const std::string file = target + std::string(ending); IsFile(file)) return file;
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

// Each kind that this program cannot run, with its place.
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

// Paths of sub-playbooks that are written out.
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
Result<Target> FileTarget(const std::string& file, Console& console) {
  Target target{.file = file};
  NOETL_ASSIGN(target.content, ReadInput(file));
  playbook::Loaded loaded = playbook::Load(target.content);
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

// The same for every playbook that it calls by a path that is written out.
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

Error NoSuchPlaybook(const Target& target) {
  const std::string version =
      target.version > 0 ? fmt::format("version {} of ", target.version) : "";
  return {"usage", fmt::format("there is no file and no {}playbook '{}' in the catalog; give a "
                               "file, or the directory that has it: --data DIR",
                               version, target.name)};
}

// The id of the entry to run, when everything that it needs is in the catalog.
Result<std::int64_t> EntryOf(const Target& target, Backend& backend, Console& console) {
  if (!target.file.empty()) {
    for (const Target::Called& called : target.called)
      NOETL_TRY(backend.Register(called.path, called.content));
    return backend.Register(target.name, target.content);
  }
  NOETL_ASSIGN(const auto entry, backend.store().FindEntry(target.name, target.version));
  if (!entry) return std::unexpected(NoSuchPlaybook(target));
  const playbook::Loaded loaded = playbook::Load(entry->content);
  if (!loaded.ok())
    return Fail("usage", fmt::format("playbook '{}' version {} is not valid any more", entry->path,
                                     entry->version));
  if (!ToolsAreKnown(*loaded.playbook, entry->path, console))
    return Fail("usage", "nothing was started");
  return entry->catalog_id;
}

// Runs that an earlier process left: opening the directory took them up.
void TellOfOthers(Backend& backend, RunWatch& watch) {
  if (!backend.owns()) return;
  const auto open = OpenRunsOf(backend.store());
  if (!open) return;
  const auto roots = std::ranges::count(*open, 0, &OpenRun::parent_execution_id);
  if (roots == 0) return;
  watch.Say(fmt::format("also continuing {}; see `noetl executions`",
                        Count(static_cast<std::size_t>(roots), "earlier run")));
}

int DryRun(const Target& target, const Json& payload, Console& console) {
  if (target.file.empty()) {
    console.Out(fmt::format("would run {}{} of the catalog\n", target.name,
                            target.version > 0 ? fmt::format(" version {}", target.version) : ""));
  } else {
    console.Out(fmt::format("would run {} ({}, {})\n", target.name, target.file,
                            Count(target.playbook->steps.size(), "step")));
    for (const Target::Called& called : target.called)
      console.Out(fmt::format("  may call {}\n", called.path));
  }
  console.Out(WriteJsonPretty(payload) + "\n");
  return kExitOk;
}

Result<Target> TargetOf(const Options& options, Console& console) {
  NOETL_ASSIGN(const std::optional<std::string> file, FileOf(options.target));
  if (file) return FileTarget(*file, console);
  NOETL_ASSIGN(Target target, NamedTarget(options.target));
  if (options.version > 0) target.version = options.version;
  return target;
}

// ---- on a server

// The server that this run is for; nullopt: it runs here.
Result<std::optional<Server>> PlaceOf(const Options& options, bool is_file, Console& console) {
  if (!options.runtime.empty()) NOETL_TRY(CheckRuntime(options.runtime));
  if (options.runtime == "local") return std::nullopt;
  if (options.runtime == "distributed") {
    NOETL_ASSIGN(Server server, FindServer(options.server, console));
    return server;
  }
  NOETL_ASSIGN(std::optional<Server> server,
               FindServerInsteadOf(options.data, options.server, console));
  if (!server || server->runtime == "distributed") return server;
  if (server->runtime == "local") return std::nullopt;
  if (!is_file || options.server.named()) return server;
  // The same command means this machine for a file and the server for a name: say which.
  if (!options.watch.json) {
    console.Err(
        fmt::format("running here: the context '{}' has runtime auto, and this is a file "
                    "(-r distributed runs it at {})\n",
                    server->context, server->client->base_url()));
  }
  return std::nullopt;
}

// The playbooks that the target calls by paths that are written out, the innermost first.
void AddCalled(const Target& target, const playbook::Playbook& caller, std::set<std::string>* seen,
               std::vector<ServerRun::Document>* documents) {
  for (const std::string& path : CalledPaths(caller)) {
    const auto called = std::ranges::find(target.called, path, &Target::Called::path);
    if (called == target.called.end() || !seen->insert(path).second) continue;
    AddCalled(target, *called->playbook, seen, documents);
    documents->push_back({called->file, called->content});
  }
}

int RunThere(const Options& options, HttpClient& client, const Target& target, const Json& payload,
             Console& console) {
  ServerRun run{.path = target.name, .version = target.version, .payload = payload};
  if (!target.file.empty() && !options.no_register) {
    std::set<std::string> seen = {target.name};
    AddCalled(target, *target.playbook, &seen, &run.documents);
    run.documents.push_back({target.file, target.content});
  }
  FollowOptions follow = options.follow;
  follow.json = options.watch.json;
  follow.strict = options.watch.strict;
  const auto start = [&] { return StartOnServer(client, run, console); };
  return StartAndFollow(client, start, follow, "run", console);
}

int StartAndWait(const Options& options, const Settings& settings, const Target& target,
                 const Json& payload, Console& console) {
  const std::string directory = DataDirectory(settings, options.data);
  std::error_code error;
  // A name that is mistyped leaves no directory behind.
  if (target.file.empty() && !fs::exists(directory + "/noetl.db", error))
    return Complain(console, NoSuchPlaybook(target), kExitInvalid);
  const StopSignals signals;
  RunWatch watch(&console, options.watch);
  auto backend = Backend::Open(directory, &settings, &watch);
  if (!backend) return Complain(console, backend.error(), kExitFailed);
  const auto entry = EntryOf(target, **backend, console);
  if (!entry) {
    const bool usage = entry.error().code == "usage" || entry.error().code == "invalid";
    return Complain(console, entry.error(), usage ? kExitInvalid : kExitFailed);
  }
  TellOfOthers(**backend, watch);
  const auto started =
      (*backend)->Start(*entry, payload, [&](std::int64_t id) { watch.Watch(id); });
  if (!started) return Complain(console, started.error(), kExitFailed);
  if (const Status waited = watch.Wait(**backend); !waited) {
    Complain(console, waited.error(), kExitFailed);
    console.Err(
        fmt::format("run {} has not ended; `noetl resume {}` continues it\n", *started, *started));
    return kExitFailed;
  }
  return watch.Report((*backend)->store(), false);
}

int RunRun(const Options& options, Console& console) {
  const auto settings = LoadSettings({}, console);
  if (!settings) return kExitInvalid;
  auto payload = ReadPayload(options.payload);
  if (!payload) return Complain(console, payload.error(), kExitInvalid);
  const auto target = TargetOf(options, console);
  if (!target) return Complain(console, target.error(), kExitInvalid);
  if (!target->file.empty() && !target->playbook) return kExitInvalid;
  auto server = PlaceOf(options, !target->file.empty(), console);
  if (!server) return cli::Complain("run", server.error(), console);
  // Workers elsewhere may know other tools.
  if (!*server && !target->file.empty() && !CalledToolsAreKnown(*target, console))
    return kExitInvalid;
  if (options.dry_run) return DryRun(*target, *payload, console);
  if (*server) return RunThere(options, *(*server)->client, *target, *payload, console);
  if (!options.follow.timeout.empty())
    return Complain(console, {"usage", "--timeout is for runs on a server"}, kExitInvalid);
  return StartAndWait(options, *settings, *target, *payload, console);
}

}  // namespace

Action DeclareRun(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("PLAYBOOK", options->target,
                 "a file, or NAME or NAME@VERSION of the catalog; else noetl.yaml or main.yaml");
  app.add_option("--set", options->payload.set,
                 "one value of the payload, JSON or text; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  app.add_option("-i,--input", options->payload.input, "the payload of the run, a JSON map")
      ->type_name("FILE");
  app.add_option("--payload,--workload", options->payload.json, "the same as text, over --input")
      ->type_name("JSON");
  app.add_option("--data", options->data,
                 "the data directory (default: NOETL_DATA_DIR, else .noetl)")
      ->type_name("DIR");
  app.add_option("-V,--version", options->version, "a version of the catalog; else the newest")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  app.add_flag("-j,--json", options->watch.json, "one JSON document instead of text");
  app.add_flag("--strict", options->watch.strict,
               "exit code 1 also for errors that did not stop the run");
  app.add_flag("-v,--verbose", options->watch.verbose, "show what tools write");
  app.add_flag("--dry-run", options->dry_run, "check everything, start nothing");
  app.add_option("-r,--runtime", options->runtime,
                 "local: in this process; distributed: on a server; auto: a name on the server of "
                 "the context, a file here")
      ->type_name("WHERE");
  AddFollowOptions(app, &options->follow);
  app.add_flag("--no-register", options->no_register,
               "on a server: run what its catalog has under the path of the file");
  AddServerOptions(app, &options->server);
  app.add_option("--endpoint", options->server.server_url, "the same as --server-url")
      ->type_name("URL")
      ->group("Server");
  return [options](Console& console) { return RunRun(*options, console); };
}

}  // namespace noetl::cli
