// Commands about runs of a server: status, rerun, cleanup, and the older group `execute`.

#include <memory>

#include <fmt/format.h>

#include "api/ids.h"
#include "base/json_io.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/parser.h"
#include "cli/progress.h"
#include "cli/remote/remote_runs.h"
#include "cli/remote/server_run.h"
#include "cli/table.h"

namespace noetl::cli {
namespace {

// Completed steps that people are shown.
constexpr std::size_t kStepsShown = 50;
constexpr std::int64_t kMinutesMax = 525'600;

// ---- status

struct StatusOptions {
  std::string id;
  Output output = Output::kTable;
  ServerOptions server;
};

// Servers of other makes have only the detail.
Result<Json> StatusOf(HttpClient& client, std::int64_t id) {
  auto status = client.Get(fmt::format("/executions/{}/status", id));
  if (status || status.error().code != "http_404") return status;
  auto detail = client.Get(fmt::format("/executions/{}?page=1&page_size=10", id));
  if (detail) return *detail;
  return std::unexpected(status.error());
}

std::string DurationOf(const Json& status) {
  const std::string human = status["duration_human"].ToString();
  if (!human.empty()) return human;
  return DurationText(static_cast<std::int64_t>(status["duration_seconds"].AsDouble() * 1e6));
}

void PrintStatus(const Json& status, Console& console) {
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) console.Out(fmt::format("{:<11}{}\n", name, value));
  };
  const std::string word = status["status"].ToString();
  const Json& steps = status["completed_steps"];
  line("Execution:", status["execution_id"].ToString());
  line("Playbook:", OneLine(status["path"].AsString()));
  line("Status:", console.Paint(StyleOfStatus(word), word));
  line("Steps:", fmt::format("{} completed", steps.size()));
  line("Duration:", DurationOf(status));
  line("Current:", OneLine(status["current_step"].AsString()));
  line("Error:", OneLine(status["error"].AsString()));
  if (!steps.empty()) console.Out("Completed steps:\n");
  for (const Json& step : steps.items().first(std::min(steps.size(), kStepsShown)))
    console.Out(fmt::format("  {}\n", OneLine(step.AsString())));
  if (steps.size() > kStepsShown)
    console.Out(fmt::format("  ... and {} more; --json has them\n", steps.size() - kStepsShown));
}

Status ShowStatus(const StatusOptions& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(options.server, console));
  NOETL_ASSIGN(const std::int64_t id, FindRunId(*server.client, options.id));
  NOETL_ASSIGN(const Json answer, StatusOf(*server.client, id));
  const Json status = WithTextId(answer, "execution_id");
  if (options.output != Output::kTable) PrintDocument(status, options.output, console);
  else PrintStatus(status, console);
  return {};
}

// ---- rerun

struct RerunOptions {
  std::string id;
  PayloadOptions payload;
  FollowOptions follow;
  ServerOptions server;
};

Result<int> Rerun(const RerunOptions& options, Console& console) {
  NOETL_ASSIGN(const Json payload, ReadPayload(options.payload));
  NOETL_ASSIGN(const Server server, FindServer(options.server, console));
  NOETL_ASSIGN(const std::int64_t id, FindRunId(*server.client, options.id));
  const auto start = [&]() -> Result<Json> {
    NOETL_ASSIGN(const Json answer, server.client->Post(fmt::format("/executions/{}/rerun", id),
                                                        Json::Object({{"workload", payload}})));
    return WithTextId(answer, "execution_id");
  };
  return StartAndFollow(*server.client, start, options.follow, "rerun", console);
}

// ---- cleanup

struct CleanupOptions {
  std::int64_t minutes = 5;
  bool dry_run = false;
  Output output = Output::kTable;
  ServerOptions server;
};

Status Cleanup(const CleanupOptions& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(options.server, console));
  NOETL_ASSIGN(const Json raw,
               server.client->Post("/executions/cleanup",
                                   Json::Object({{"older_than_minutes", options.minutes},
                                                 {"dry_run", options.dry_run}})));
  const Json answer = api::IdsAsText(raw);
  if (options.output != Output::kTable) {
    PrintDocument(answer, options.output, console);
    return {};
  }
  for (const Json& id : answer["execution_ids"].items())
    console.Out(
        fmt::format("{} {}\n", options.dry_run ? "would cancel" : "cancelled", id.AsString()));
  const auto count =
      static_cast<std::size_t>(std::max<std::int64_t>(answer["cancelled_count"].AsInt(), 0));
  console.Out(
      fmt::format("{} {}\n", Count(count, "run"),
                  options.dry_run ? "would be cancelled; this was a dry run" : "cancelled"));
  return {};
}

// ---- execute playbook

struct ExecuteOptions {
  std::string path;
  PayloadOptions payload;
  FollowOptions follow;
  ServerOptions server;
};

Result<int> Execute(const ExecuteOptions& options, Console& console) {
  NOETL_ASSIGN(Json payload, ReadPayload(options.payload));
  NOETL_ASSIGN(const Server server, FindServer(options.server, console));
  const ServerRun run{.path = options.path, .payload = std::move(payload)};
  const auto start = [&] { return StartOnServer(*server.client, run, console); };
  return StartAndFollow(*server.client, start, options.follow, "execute playbook", console);
}

Action DeclareExecutePlaybook(Parser& parser) {
  auto options = std::make_shared<ExecuteOptions>();
  parser.Add("PATH", &options->path, "a playbook of the catalog").Required();
  AddPayloadOptions(parser, &options->payload);
  AddFollowOptions(parser, &options->follow);
  AddOutputOptions(parser, &options->follow.output);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Result<int> done = Execute(*options, console);
    return done ? *done : Complain("execute playbook", done.error(), console);
  };
}

}  // namespace

Action DeclareStatus(Parser& parser) {
  auto options = std::make_shared<StatusOptions>();
  AddIdArgument(parser, &options->id).Required();
  AddOutputOptions(parser, &options->output);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = ShowStatus(*options, console);
    return done ? kExitOk : Complain("status", done.error(), console);
  };
}

Action DeclareRerun(Parser& parser) {
  auto options = std::make_shared<RerunOptions>();
  AddIdArgument(parser, &options->id).Required();
  AddPayloadOptions(parser, &options->payload);
  AddFollowOptions(parser, &options->follow);
  AddOutputOptions(parser, &options->follow.output);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Result<int> done = Rerun(*options, console);
    return done ? *done : Complain("rerun", done.error(), console);
  };
}

Action DeclareCleanup(Parser& parser) {
  auto options = std::make_shared<CleanupOptions>();
  parser.Add("--older-than-minutes", &options->minutes, "nothing happened for so long")
      .Range(1, kMinutesMax)
      .Type("N")
      .ShowDefault();
  parser.Flag("--dry-run", &options->dry_run, "only say which ones");
  AddOutputOptions(parser, &options->output);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = Cleanup(*options, console);
    return done ? kExitOk : Complain("cleanup", done.error(), console);
  };
}

Action DeclareExecute(Parser& parser) {
  return parser.Verb("playbook", "start a playbook of the catalog", DeclareExecutePlaybook)
      .Verb("status", "how a run is", DeclareStatus)
      .Verb("rerun", "start a run again", DeclareRerun)
      .VerbAction();
}

}  // namespace noetl::cli
