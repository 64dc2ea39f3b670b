#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "cli/backend.h"
#include "cli/command.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "cli/run_watch.h"

namespace noetl::cli {
namespace {

// A run that was asked for begins as soon as the directory is open, unless it cannot.
constexpr std::chrono::seconds kBeginSeconds{10};
constexpr std::chrono::milliseconds kBeginCheck{10};

struct Options {
  std::string id;
  std::string data;
  WatchOptions watch;
};

// Those that no open run has started.
Result<std::vector<OpenRun>> OpenRoots(const store::Store& store) {
  NOETL_ASSIGN(std::vector<OpenRun> open, OpenRunsOf(store));
  std::set<std::int64_t> ids;
  for (const OpenRun& run : open) ids.insert(run.execution_id);
  std::erase_if(open, [&](const OpenRun& run) { return ids.contains(run.parent_execution_id); });
  return open;
}

// Waits until the runs have begun; those that cannot are left out.
void WatchBegun(const std::vector<OpenRun>& runs, const store::Store& store, RunWatch* watch) {
  const auto until = std::chrono::steady_clock::now() + kBeginSeconds;
  for (const OpenRun& run : runs) {
    while (!run.begun) {
      if (const auto found = store.Find(run.execution_id); found && *found) {
        watch->Watch(run.execution_id);
        break;
      }
      const auto open = OpenRunsOf(store);
      const bool waits =
          open && std::ranges::find(*open, run.execution_id, &OpenRun::execution_id) != open->end();
      if (!waits || std::chrono::steady_clock::now() > until) break;
      std::this_thread::sleep_for(kBeginCheck);
    }
  }
}

// The runs to wait for. They are looked up before the directory is opened, which makes them go: one
// that then ends at once is not missed.
Result<std::vector<OpenRun>> WantedRuns(const Options& options, const std::string& directory) {
  std::error_code error;
  const bool exists = std::filesystem::exists(directory + "/noetl.db", error);
  if (!exists && options.id.empty()) return std::vector<OpenRun>();
  if (!exists)
    return Fail("not_found",
                fmt::format("{} holds no runs; give their directory: --data DIR", directory));
  auto opened = OpenForReading(directory);
  // Killed while the file was made: there is nothing in it.
  if (!opened && opened.error().code == "not_found" && options.id.empty())
    return std::vector<OpenRun>();
  NOETL_ASSIGN(const auto store, std::move(opened));
  if (options.id.empty()) return OpenRoots(*store);
  const std::int64_t id = IdOf(Json(options.id));
  if (id <= 0) return Fail("usage", fmt::format("'{}' is not the id of a run", options.id));
  NOETL_ASSIGN(const auto run, store->Find(id));
  if (!run)
    return Fail("not_found", fmt::format("there is no run {} in {}; `noetl executions` lists them",
                                         id, directory));
  return std::vector<OpenRun>{{.execution_id = id}};
}

int RunResume(const Options& options, Console& console) {
  const auto settings = LoadSettings({}, console);
  if (!settings) return kExitInvalid;
  const std::string directory = DataDirectory(*settings, options.data);
  const auto wanted = WantedRuns(options, directory);
  if (!wanted) {
    const bool usage = wanted.error().code == "usage";
    return Complain("resume", wanted.error(), console, usage ? kExitInvalid : kExitFailed);
  }
  const bool list = options.id.empty();
  if (wanted->empty()) {
    if (options.watch.for_people()) console.Err("nothing to resume\n");
    else PrintDocument(Json::Object({{"runs", Json::Array()}}), options.watch.output, console);
    return kExitOk;
  }
  const StopSignals signals;
  RunWatch watch(&console, options.watch);
  for (const OpenRun& run : *wanted) {
    if (run.begun) watch.Watch(run.execution_id);
  }
  auto backend = Backend::Open(directory, settings.get(), &watch);
  if (!backend) return Complain("resume", backend.error(), console, kExitFailed);
  WatchBegun(*wanted, (*backend)->store(), &watch);
  if (const auto run = (*backend)->store().Find(wanted->front().execution_id);
      !list && run && *run && (*run)->terminal) {
    watch.Say(fmt::format("run {} has ended already", options.id));
  }
  if (const Status waited = watch.Wait(**backend); !waited) {
    Complain("resume", waited.error(), console, kExitFailed);
    console.Err("the runs have not ended; `noetl resume` continues them\n");
    return kExitFailed;
  }
  return watch.Report((*backend)->store(), list);
}

}  // namespace

Action DeclareResume(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("ID", &options->id, "a run; without it, all that have not ended");
  AddDataOption(parser, &options->data);
  AddWatchOptions(parser, &options->watch);
  return [options](Console& console) { return RunResume(*options, console); };
}

}  // namespace noetl::cli
