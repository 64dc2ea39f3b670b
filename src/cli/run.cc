#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/json_io.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/parser.h"
#include "cli/remote/server_run.h"
#include "cli/run_target.h"
#include "cli/run_watch.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

struct Options {
  TargetWords target;
  PayloadOptions payload;
  std::string data;
  WatchOptions watch;
  bool dry_run = false;
  std::string runtime;
  ServerOptions server;
  FollowOptions follow;
  bool no_register = false;
};

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
  if (target.step.empty()) return entry->catalog_id;
  NOETL_ASSIGN(const Beginning begun, BeginAt(*loaded.playbook, entry->path, target.step));
  return backend.Register(begun.path, begun.content);
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
  if (options.watch.for_people()) {
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
  follow.output = options.watch.output;
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
    return Complain("run", NoSuchPlaybook(target), console, kExitInvalid);
  const StopSignals signals;
  RunWatch watch(&console, options.watch);
  auto backend = Backend::Open(directory, &settings, &watch);
  if (!backend) return Complain("run", backend.error(), console, kExitFailed);
  const auto entry = EntryOf(target, **backend, console);
  if (!entry) {
    const bool usage = entry.error().code == "usage" || entry.error().code == "invalid";
    return Complain("run", entry.error(), console, usage ? kExitInvalid : kExitFailed);
  }
  TellOfOthers(**backend, watch);
  const auto started =
      (*backend)->Start(*entry, payload, [&](std::int64_t id) { watch.Watch(id); });
  if (!started) return Complain("run", started.error(), console, kExitFailed);
  if (const Status waited = watch.Wait(**backend); !waited) {
    Complain("run", waited.error(), console, kExitFailed);
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
  if (!payload) return Complain("run", payload.error(), console, kExitInvalid);
  const playbook::LoadOptions load{.require_start = settings->Bool("NOETL_REQUIRE_START")};
  const auto target = FindTarget(options.target, load, console);
  if (!target) return Complain("run", target.error(), console, kExitInvalid);
  if (!target->file.empty() && !target->playbook) return kExitInvalid;
  auto server = PlaceOf(options, !target->file.empty(), console);
  if (!server) return Complain("run", server.error(), console);
  // Workers elsewhere may know other tools.
  if (!*server && !target->file.empty() && !CalledToolsAreKnown(*target, console))
    return kExitInvalid;
  if (options.dry_run) return DryRun(*target, *payload, console);
  if (*server && target->file.empty() && !target->step.empty())
    return Complain("run", {"usage", "--target on a server needs the file of the playbook"},
                    console, kExitInvalid);
  if (*server) return RunThere(options, *(*server)->client, *target, *payload, console);
  if (!options.follow.timeout.empty())
    return Complain("run", {"usage", "--timeout is for runs on a server"}, console, kExitInvalid);
  return StartAndWait(options, *settings, *target, *payload, console);
}

}  // namespace

Action DeclareRun(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add(
      "PLAYBOOK", &options->target.name,
      "a file, a step of noetl.yaml, or NAME or NAME@VERSION of the catalog; else noetl.yaml "
      "or main.yaml");
  AddPayloadOptions(parser, &options->payload);
  parser.Add("-t,--target", &options->target.step, "begin with this step").Type("STEP");
  parser.Add("-V,--version", &options->target.version, "a version of the catalog; else the newest")
      .Positive()
      .Type("N");
  AddDataOption(parser, &options->data);
  AddWatchOptions(parser, &options->watch);
  parser.Flag("--dry-run", &options->dry_run, "check everything, start nothing");
  parser
      .Add("-r,--runtime", &options->runtime,
           "local: in this process; distributed: on a server; auto: a name on the server of "
           "the context, a file here")
      .Type("WHERE");
  AddFollowOptions(parser, &options->follow);
  parser.Flag("--no-register", &options->no_register,
              "on a server: run what its catalog has under the path of the file");
  AddServerOptions(parser, &options->server);
  parser.Add("--endpoint", &options->server.server_url, "the same as --server-url")
      .Type("URL")
      .Group("Server");
  return [options](Console& console) { return RunRun(*options, console); };
}

}  // namespace noetl::cli
