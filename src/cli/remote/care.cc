// Commands about the server itself: query, workers, db.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "api/ids.h"
#include "base/json_io.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace noetl::cli {
namespace {

// ---- query

struct QueryOptions {
  std::string sql;
  std::string schema = "noetl";
  std::string format;
  Output output = Output::kTable;
  ServerOptions server;
};

std::string CellText(const Json& value) {
  if (value.is_null()) return "NULL";
  return value.is_string() ? value.ToString() : WriteJson(value);
}

// Rows are maps; other servers send lists. Columns in the order of the answer.
void PrintRows(const Json& answer, Console& console) {
  std::vector<std::string> names;
  for (const Json& name : answer["columns"].items()) names.push_back(name.ToString());
  const Json& rows = answer["result"];
  if (names.empty()) {
    for (const JsonMember& member : rows.At(0).members()) names.emplace_back(member.key());
    for (std::size_t i = 0; names.size() < rows.At(0).items().size(); ++i)
      names.push_back(fmt::format("column {}", i + 1));
  }
  if (!names.empty()) {
    std::vector<Column> columns;
    for (const std::string& name : names) columns.push_back({name, false, true});
    Table table(std::move(columns));
    for (const Json& row : rows.items()) {
      std::vector<Cell> cells;
      for (std::size_t i = 0; i < names.size(); ++i)
        cells.emplace_back(CellText(row.is_object() ? row[names[i]] : row.At(i)));
      table.Add(std::move(cells));
    }
    console.Out(table.Text(console, TerminalWidth(console)));
  }
  console.Out(fmt::format("({})\n", Count(rows.size(), "row")));
  if (answer["truncated"].AsBool()) console.Err("... the server has more rows\n");
}

Status Query(const QueryOptions& options, Console& console) {
  std::string sql = options.sql;
  if (sql == "-") {
    NOETL_ASSIGN(sql, ReadInput("-"));
  }
  NOETL_ASSIGN(const Server server, FindServer(options.server, console));
  NOETL_ASSIGN(const Json answer,
               server.client->Post("/postgres/execute",
                                   Json::Object({{"query", sql}, {"schema", options.schema}})));
  const bool json = options.format == "json" || options.output == Output::kJson;
  if (json) PrintDocument(answer["result"], Output::kJson, console);
  else if (options.output == Output::kYaml) PrintDocument(answer["result"], Output::kYaml, console);
  else PrintRows(answer, console);
  return {};
}

// ---- workers

struct WorkerOptions {
  Output output = Output::kTable;
  ServerOptions server;
};

Status ListWorkers(const WorkerOptions& options, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(options.server, console));
  NOETL_ASSIGN(const Json raw, server.client->Get("/worker/pools"));
  const Json answer = api::IdsAsText(raw);
  if (options.output != Output::kTable) {
    PrintDocument(answer, options.output, console);
    return {};
  }
  // A bare list, or a map with one.
  const Json& list = answer.is_array() ? answer : answer["items"];
  if (list.empty()) {
    console.Err(
        "no workers but the one that the server may have itself; `noetl worker` starts one\n");
    return {};
  }
  const std::int64_t now_us = NowMicros();
  Table table({{"NAME", false, true},
               {"KIND"},
               {"STATUS"},
               {"ONLINE"},
               {"CAPACITY", true},
               {"HEARTBEAT", true},
               {"URI", false, true}});
  for (const Json& worker : list.items()) {
    const std::int64_t beat_us = ParseTime(worker["heartbeat"].AsString()).value_or(0);
    const bool online = worker["online"].AsBool();
    table.Add(
        {worker["name"].ToString(), worker["kind"].ToString(), worker["status"].ToString(),
         Cell(online ? "yes" : "no", online ? Style::kGreen : Style::kRed),
         worker["capacity"].is_int() ? std::to_string(worker["capacity"].AsInt()) : "-",
         beat_us == 0 ? "-" : DurationText(std::max<std::int64_t>(now_us - beat_us, 0)) + " ago",
         worker["uri"].ToString()});
  }
  console.Out(table.Text(console, TerminalWidth(console)));
  return {};
}

// ---- db

struct DatabaseOptions {
  std::shared_ptr<ServerOptions> server;
  Output output = Output::kTable;
};

Status PrintDatabase(const DatabaseOptions& options, bool init, Console& console) {
  NOETL_ASSIGN(const Server server, FindServer(*options.server, console));
  NOETL_ASSIGN(const Json answer, init ? server.client->Post("/db/init", Json::Object())
                                       : server.client->Get("/db/validate"));
  if (options.output == Output::kTable) console.Out(WriteJsonPretty(answer) + "\n");
  else PrintDocument(answer, options.output, console);
  if (!answer["valid"].AsBool(true)) return Fail("invalid", answer["message"].ToString());
  return {};
}

Action DeclareDatabase(Parser& parser, const std::shared_ptr<ServerOptions>& server, bool init) {
  auto options = std::make_shared<DatabaseOptions>();
  options->server = server;
  AddOutputOptions(parser, &options->output);
  return [options, init](Console& console) {
    const Status done = PrintDatabase(*options, init, console);
    return done ? kExitOk : Complain(init ? "db init" : "db validate", done.error(), console);
  };
}

}  // namespace

Action DeclareQuery(Parser& parser) {
  auto options = std::make_shared<QueryOptions>();
  parser.Add("SQL", &options->sql, "what to read; - takes it from the input").Required();
  parser.Add("-s,--schema", &options->schema, "the schema of the tables")
      .Type("NAME")
      .ShowDefault();
  parser.Add("-f,--format", &options->format, "table or json")
      .OneOf({"table", "json"})
      .Type("FORMAT");
  AddOutputOptions(parser, &options->output);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = Query(*options, console);
    return done ? kExitOk : Complain("query", done.error(), console);
  };
}

Action DeclareWorkers(Parser& parser) {
  auto options = std::make_shared<WorkerOptions>();
  AddOutputOptions(parser, &options->output);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = ListWorkers(*options, console);
    return done ? kExitOk : Complain("workers", done.error(), console);
  };
}

Action DeclareDb(Parser& parser) {
  auto server = std::make_shared<ServerOptions>();
  AddServerOptions(parser, server.get());
  return parser
      .Verb("init", "bring the tables up to date",
            [&](Parser& verb) { return DeclareDatabase(verb, server, true); })
      .Verb("validate", "say whether all tables are there",
            [&](Parser& verb) { return DeclareDatabase(verb, server, false); })
      .VerbAction();
}

}  // namespace noetl::cli
