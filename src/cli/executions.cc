#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "base/redact.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/parser.h"
#include "cli/progress.h"
#include "cli/remote/remote_runs.h"
#include "cli/table.h"

namespace noetl::cli {
namespace {

constexpr std::int64_t kRunsShown = 20;
// Rows of one read.
constexpr std::int64_t kPage = 500;
constexpr std::array<std::string_view, 4> kStatuses = {"RUNNING", "COMPLETED", "FAILED",
                                                       "CANCELLED"};

struct Options {
  std::string data;
  std::string status;
  std::string path;
  std::string since;
  std::string parent;
  std::int64_t limit = kRunsShown;
  bool all = false;
  bool no_redact = false;
  Output output = Output::kTable;
  ServerOptions server;
};

// Where the runs are: a data directory, or a server.
struct Source {
  std::function<Result<std::vector<store::ExecutionRow>>(const store::ExecutionFilter&)> list;
  std::function<Result<std::int64_t>(std::string_view)> find;
};

Result<std::int64_t> ReadSince(const std::string& text, std::int64_t now_us) {
  if (const auto time = ParseTime(text)) return *time;
  // A date means its first moment in UTC.
  if (const auto day = ParseTime(text + "T00:00:00Z")) return *day;
  if (const auto duration = ParseDurationMs(text)) return now_us - *duration * 1'000;
  return Fail("usage", fmt::format("--since: '{}' is neither a duration (30m, 2h, 3d) nor a time "
                                   "(2026-06-04, 2026-06-04T06:30:00Z)",
                                   text));
}

Result<std::string> ReadStatus(const std::string& text) {
  std::string status = text;
  std::ranges::transform(status, status.begin(), [](unsigned char c) { return std::toupper(c); });
  if (std::ranges::find(kStatuses, status) != kStatuses.end()) return status;
  return Fail("usage",
              fmt::format("--status: '{}' is not one of {}", text, fmt::join(kStatuses, ", ")));
}

Result<store::ExecutionFilter> FilterOf(const Options& options, const Source& source,
                                        std::int64_t now_us) {
  store::ExecutionFilter filter;
  filter.path = options.path;
  if (!options.status.empty()) {
    NOETL_ASSIGN(filter.status, ReadStatus(options.status));
  }
  if (!options.since.empty()) {
    NOETL_ASSIGN(filter.started_after_us, ReadSince(options.since, now_us));
  }
  if (!options.parent.empty()) {
    NOETL_ASSIGN(filter.parent_execution_id, source.find(options.parent));
  }
  return filter;
}

// Calls `use` for one page after the other; true: there are more than the limit.
template <typename Use>
Result<bool> ReadPages(const Source& source, store::ExecutionFilter filter, std::int64_t limit,
                       Use use) {
  while (true) {
    filter.limit = std::min(kPage, limit) + 1;
    NOETL_ASSIGN(std::vector<store::ExecutionRow> rows, source.list(filter));
    const bool more = std::ssize(rows) == filter.limit;
    if (more) rows.pop_back();
    use(rows);
    limit -= std::ssize(rows);
    if (!more || limit <= 0) return more;
    filter.before_id = rows.back().execution_id;
  }
}

void AddRow(Table& table, const store::ExecutionRow& row, const Options& options,
            std::int64_t now_us) {
  table.Add({std::to_string(row.execution_id), row.path,
             Cell(row.status, StyleOfStatus(row.status)), TimeText(row.started_at_us),
             DurationText(DurationOf(row, now_us)), std::to_string(row.head),
             options.no_redact ? row.error : RedactText(row.error)});
}

Status List(const Options& options, const Source& source, Console& console) {
  const std::int64_t now_us = NowMicros();
  NOETL_ASSIGN(const store::ExecutionFilter filter, FilterOf(options, source, now_us));
  const std::int64_t limit =
      options.all ? std::numeric_limits<std::int64_t>::max() - 1 : options.limit;
  Table table({{"ID"},
               {"PATH", false, true},
               {"STATUS"},
               {"STARTED"},
               {"DURATION", true},
               {"EVENTS", true},
               {"ERROR", false, true}});
  std::vector<Json> documents;
  NOETL_ASSIGN(const bool more, ReadPages(source, filter, limit, [&](const auto& rows) {
                 for (const store::ExecutionRow& row : rows) {
                   if (options.output == Output::kTable) {
                     AddRow(table, row, options, now_us);
                     continue;
                   }
                   const Json document = RunToJson(row, now_us);
                   documents.push_back(options.no_redact ? document : Redact(document));
                 }
               }));
  if (options.output != Output::kTable) {
    PrintDocument(Json::Array(std::move(documents)), options.output, console);
    return {};
  }
  if (table.empty()) {
    console.Err("no runs\n");
    return {};
  }
  console.Out(table.Text(console, TerminalWidth(console)));
  if (more) {
    console.Err(fmt::format("... and more: --limit N or --all show them\n"));
  }
  return {};
}

Status ListHereOrThere(const Options& options, Console& console) {
  NOETL_ASSIGN(const std::optional<Server> server,
               FindServerInsteadOf(options.data, options.server, console));
  if (server) {
    HttpClient& client = *server->client;
    return List(options,
                {[&](const store::ExecutionFilter& filter) { return ListRuns(client, filter); },
                 [&](std::string_view id) { return FindRunId(client, id); }},
                console);
  }
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  const store::Store& store = *data.store;
  const auto find = [&](std::string_view id) -> Result<std::int64_t> {
    NOETL_ASSIGN(const store::ExecutionRow row, FindRun(store, id));
    return row.execution_id;
  };
  return List(options,
              {[&](const store::ExecutionFilter& filter) { return store.List(filter); }, find},
              console);
}

}  // namespace

Action DeclareExecutions(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("--status", &options->status, "only running, completed, failed or cancelled ones")
      .Type("STATUS");
  parser
      .Add("--path", &options->path,
           "only runs of this playbook; a * at its end: all that "
           "begin so")
      .Type("PATH");
  parser
      .Add("--since", &options->since,
           "only those that started after this: 30m, 2h, 3d or a "
           "time")
      .Type("TIME");
  parser.Add("--parent", &options->parent, "only those that this run started").Type("ID");
  parser.Add("--limit", &options->limit, "so many at most")
      .Range(1, 1'000'000)
      .Type("N")
      .ShowDefault();
  parser.Flag("--all", &options->all, "all of them");
  AddRedactOption(parser, &options->no_redact);
  AddOutputOptions(parser, &options->output);
  AddDataOption(parser, &options->data);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = ListHereOrThere(*options, console);
    return done ? kExitOk : Complain("executions", done.error(), console);
  };
}

}  // namespace noetl::cli
