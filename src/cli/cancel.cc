#include <algorithm>
#include <future>
#include <memory>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_io.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/control.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/node.h"
#include "cli/parser.h"
#include "cli/remote/remote_runs.h"
#include "cli/table.h"

namespace noetl::cli {
namespace {

// Runs below the one that is cancelled which are looked at.
constexpr std::size_t kDescendantsMax = 1'000;
// How long we wait for those to end too: what is left is done by whoever runs next.
constexpr std::int64_t kCascadeWaitUs = 5'000'000;
constexpr std::int64_t kCascadePauseUs = 20'000;
// An owner that has just begun or is about to end does not answer yet, or no more.
constexpr int kOwnerTries = 20;
constexpr std::int64_t kOwnerPauseUs = 100'000;

struct Options {
  std::string data;
  std::string id;
  std::string reason;
  bool no_cascade = false;
  bool cascade = true;  // the default, said aloud
  Output output = Output::kTable;
  ServerOptions server;
};

struct Answer {
  bool cancelled = false;
  std::string status;
};

// Runs that were started by this one, or by one of those, and have not ended.
Result<std::vector<std::int64_t>> OpenDescendants(const store::Store& store, std::int64_t root) {
  std::vector<std::int64_t> found;
  std::vector<std::int64_t> parents = {root};
  while (!parents.empty() && found.size() < kDescendantsMax) {
    store::ExecutionFilter filter;
    filter.parent_execution_id = parents.back();
    filter.limit = static_cast<std::int64_t>(kDescendantsMax);
    parents.pop_back();
    NOETL_ASSIGN(const std::vector<store::ExecutionRow> rows, store.List(filter));
    for (const store::ExecutionRow& row : rows) {
      parents.push_back(row.execution_id);
      if (!row.terminal) found.push_back(row.execution_id);
    }
  }
  return found;
}

// Those of `ids` that are cancelled, when all have ended or the wait is over.
Result<std::vector<std::int64_t>> AwaitCancelled(const store::Store& store,
                                                 const std::vector<std::int64_t>& ids) {
  SystemClock clock;
  const std::int64_t until_us = clock.MonotonicMicros() + kCascadeWaitUs;
  while (true) {
    std::vector<std::int64_t> cancelled;
    bool open = false;
    for (const std::int64_t id : ids) {
      NOETL_ASSIGN(const std::optional<store::ExecutionRow> row, store.Find(id));
      if (row && row->status == "CANCELLED") cancelled.push_back(id);
      open = open || (row && !row->terminal);
    }
    if (!open || clock.MonotonicMicros() >= until_us) return cancelled;
    clock.SleepMicros(kCascadePauseUs);
  }
}

Result<Answer> AskOwner(const std::string& directory, std::int64_t id, const Options& options) {
  NOETL_ASSIGN(const Json answer,
               CallOwner(directory, Json::Object({{"op", "cancel"},
                                                  {"execution_id", std::to_string(id)},
                                                  {"reason", options.reason},
                                                  {"cascade", !options.no_cascade}})));
  return Answer{answer["cancelled"].AsBool(), answer["status"].ToString()};
}

// Nobody owns the directory: this process does for a moment. It runs nothing.
Result<Answer> CancelHere(const Data& data, std::int64_t id, const Options& options,
                          const std::vector<std::int64_t>& below) {
  NOETL_ASSIGN(
      const std::unique_ptr<Node> node,
      Node::Open({.directory = data.directory, .settings = data.settings.get(), .worker = false}));
  std::promise<Result<conductor::Conductor::CancelAnswer>> promise;
  node->conductor().Cancel(id, options.reason, "cli", !options.no_cascade,
                           [&](auto answer) { promise.set_value(std::move(answer)); });
  NOETL_ASSIGN(const conductor::Conductor::CancelAnswer answer, promise.get_future().get());
  if (!options.no_cascade) {
    // The node must live until the others have been told.
    NOETL_ASSIGN([[maybe_unused]] const auto ended, AwaitCancelled(node->store(), below));
  }
  return Answer{answer.cancelled, answer.status};
}

Result<Answer> CancelRun(const Data& data, std::int64_t id, const Options& options,
                         const std::vector<std::int64_t>& below) {
  SystemClock clock;
  for (int tries = 1;; ++tries) {
    Result<Answer> answer = AskOwner(data.directory, id, options);
    if (answer || answer.error().code != "unreachable") return answer;
    answer = CancelHere(data, id, options, below);
    if (answer || answer.error().code != "locked" || tries == kOwnerTries) return answer;
    clock.SleepMicros(kOwnerPauseUs);
  }
}

void Print(const Options& options, std::int64_t id, const Answer& answer,
           const std::vector<std::int64_t>& cancelled, Console& console) {
  if (options.output != Output::kTable) {
    std::vector<Json> ids;
    for (const std::int64_t one : cancelled) ids.push_back(std::to_string(one));
    PrintDocument(Json::Object({{"execution_id", std::to_string(id)},
                                {"status", answer.status},
                                {"cancelled", Json::Array(std::move(ids))}}),
                  options.output, console);
    return;
  }
  if (!answer.cancelled) {
    console.Out(fmt::format("run {} has already ended: {}\n", id,
                            console.Paint(StyleOfStatus(answer.status), answer.status)));
  }
  for (const std::int64_t one : cancelled) console.Out(fmt::format("cancelled {}\n", one));
}

Status CancelThere(const Options& options, HttpClient& client, Console& console) {
  NOETL_ASSIGN(const std::int64_t id, FindRunId(client, options.id));
  Json body = Json::Object({{"cascade", !options.no_cascade}, {"requested_by", "cli"}});
  if (!options.reason.empty()) body = body.With("reason", options.reason);
  const auto said = AboutRun(client.Post(fmt::format("/executions/{}/cancel", id), body));
  // Other servers refuse to cancel what has ended.
  if (!said && said.error().code != "http_400") return std::unexpected(said.error());
  Answer answer{.cancelled = said && (*said)["status"].AsString() == "cancelled",
                .status = "CANCELLED"};
  std::vector<std::int64_t> cancelled;
  if (answer.cancelled) {
    for (const Json& one : (*said)["cancelled_executions"].items()) cancelled.push_back(AnyId(one));
  } else {
    NOETL_ASSIGN(const Json run, GetRun(client, id));
    answer.status = run["status"].ToString();
  }
  Print(options, id, answer, cancelled, console);
  return {};
}

Status Cancel(const Options& options, Console& console) {
  NOETL_ASSIGN(const std::optional<Server> server,
               FindServerInsteadOf(options.data, options.server, console));
  if (server) return CancelThere(options, *server->client, console);
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(*data.store, options.id));
  Answer answer{.status = row.status};
  std::vector<std::int64_t> cancelled;
  if (!row.terminal) {
    NOETL_ASSIGN(const std::vector<std::int64_t> below,
                 OpenDescendants(*data.store, row.execution_id));
    NOETL_ASSIGN(answer, CancelRun(data, row.execution_id, options, below));
    if (answer.cancelled && !options.no_cascade) {
      NOETL_ASSIGN(cancelled, AwaitCancelled(*data.store, below));
    }
    if (answer.cancelled) cancelled.insert(cancelled.begin(), row.execution_id);
  }
  Print(options, row.execution_id, answer, cancelled, console);
  return {};
}

}  // namespace

Action DeclareCancel(Parser& parser) {
  auto options = std::make_shared<Options>();
  AddIdArgument(parser, &options->id).Required();
  parser.Add("-r,--reason", &options->reason, "why; it is kept with the run").Type("TEXT");
  parser.Flag("--no-cascade", &options->no_cascade,
              "leave runs alone that it started and does not wait for");
  parser.Flag("--cascade", &options->cascade, "also the runs that it started: what happens anyway");
  AddOutputOptions(parser, &options->output);
  AddDataOption(parser, &options->data);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = Cancel(*options, console);
    return done ? kExitOk : Complain("cancel", done.error(), console);
  };
}

}  // namespace noetl::cli
