#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/url.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "cli/progress.h"
#include "cli/remote/remote_runs.h"
#include "cli/remote/remote_show.h"
#include "cli/show_run.h"
#include "cli/table.h"

namespace noetl::cli {
namespace {

// Lines of each list that people are shown; there may be thousands.
constexpr std::size_t kListed = 20;
constexpr std::size_t kStepsListed = 100;
constexpr std::size_t kCommandsRead = 100;
// Of results and inputs.
constexpr std::size_t kValueBytes = 3'000;
constexpr std::size_t kValueLines = 40;
// A longer input is not for the command line.
constexpr std::size_t kTypedBytes = 400;

struct Options {
  std::string data;
  std::string id;
  bool result = false;
  bool no_redact = false;
  Output output = Output::kTable;
  ServerOptions server;
};

// ---- gathering

std::string OutcomeText(const engine::StepState& step) {
  constexpr std::array<std::string_view, 6> kOutcomes = {"",        "COMPLETED", "FAILED",
                                                         "SKIPPED", "DENIED",    "CANCELLED"};
  if (step.open) return "RUNNING";
  if (!step.tokens.empty()) return "WAITING";
  if (step.outcome == engine::StepState::Outcome::kNone && step.skip_reported) return "SKIPPED";
  return std::string(kOutcomes[static_cast<std::size_t>(step.outcome)]);
}

// What to order steps by: when their last run began.
std::int64_t BeganAt(const engine::StepState& step) {
  if (step.open) return step.open->entered_at_us;
  if (!step.result) return INT64_MAX;
  return ParseTime(step.result->meta["started_at"].AsString()).value_or(INT64_MAX);
}

Json StepToJson(const engine::StepState& step, std::int64_t now_us) {
  JsonObjectBuilder json;
  json.Add("step", step.name).Add("status", OutcomeText(step)).Add("runs", step.runs);
  Json stats;
  if (step.open) {
    const engine::Run& run = *step.open;
    json.Add("duration_ms", (now_us - run.entered_at_us) / 1'000);
    if (run.kind != engine::Run::Kind::kPlain) {
      stats = Json::Object(
          {{"done", run.succeeded + run.failed},
           {"total", run.kind == engine::Run::Kind::kLoop ? Json(run.expected) : Json()},
           {"failed", run.failed},
           {"in_flight", run.in_flight}});
    }
  } else if (step.result) {
    const Json& meta = step.result->meta;
    json.AddSome("attempt", meta["attempt"]).AddSome("duration_ms", meta["duration_ms"]);
    if (const Json& ended = step.result->data["stats"];
        step.result->shape != engine::StepResult::Shape::kPlain && ended.is_object()) {
      stats = Json::Object({{"done", ended["total"]},
                            {"total", ended["total"]},
                            {"failed", ended["failed"]},
                            {"in_flight", 0}});
    }
    if (!step.result->error.empty()) json.Add("error", step.result->error);
  }
  return json.AddSome("loop", std::move(stats)).Build();
}

Json StepsToJson(const engine::State& state, std::int64_t now_us) {
  std::vector<const engine::StepState*> steps;
  for (const auto& [name, step] : state.steps()) {
    if (!OutcomeText(step).empty()) steps.push_back(&step);
  }
  std::ranges::stable_sort(steps, {}, [](const auto* step) { return BeganAt(*step); });
  std::vector<Json> list;
  for (const engine::StepState* step : steps) list.push_back(StepToJson(*step, now_us));
  return Json::Array(std::move(list));
}

// The row of a command; nullopt when nobody has it here.
using FindCommand = std::function<Result<std::optional<store::CommandRow>>(std::int64_t)>;

Result<Json> CommandsToJson(const FindCommand& find, const engine::State& state,
                            std::int64_t now_us) {
  std::vector<Json> list;
  for (const auto& [id, command] : state.commands()) {
    if (list.size() == kCommandsRead) break;
    NOETL_ASSIGN(const auto row, find(command.event_id));
    JsonObjectBuilder json;
    json.Add("command_id", std::to_string(command.event_id))
        .Add("step", command.step)
        .Add("tool", command.tool_kind)
        .Add("attempt", command.attempt);
    if (command.kind != engine::Command::Kind::kSingle) json.Add("index", command.index);
    if (row) {
      json.Add("status", row->parked ? "WAITING" : store::CommandStatusName(row->status));
      json.Add("age_ms", std::max<std::int64_t>(now_us - row->created_at_us, 0) / 1'000);
      if (!row->worker_id.empty()) json.Add("worker", row->worker_id);
      if (row->child_execution_id != 0)
        json.Add("child_execution_id", std::to_string(row->child_execution_id));
    }
    list.push_back(json.Build());
  }
  return Json::Array(std::move(list));
}

Json FailureToJson(const RunView& view) {
  if (!view.failure) return Json();
  const RunFailure& failure = *view.failure;
  JsonObjectBuilder json;
  if (!failure.step.empty()) json.Add("step", failure.step);
  json.Add("error", failure.error);
  if (failure.attempt > 0) json.Add("attempt", failure.attempt);
  if (failure.iteration >= 0) json.Add("index", failure.iteration);
  json.AddSome("error_info", failure.error_info).AddSome("input", failure.input);
  if (!failure.stderr_tail.empty()) json.Add("stderr", failure.stderr_tail);
  return json.Build();
}

Json SoftErrors(const engine::State& state) {
  std::vector<Json> list;
  for (const engine::SoftError& soft : state.soft_errors) {
    Json json = Json::Object({{"step", soft.step}, {"run", soft.run}});
    if (soft.index >= 0) json = json.With("index", soft.index);
    list.push_back(json.With("error", soft.error));
  }
  return Json::Array(std::move(list));
}

Json ChildrenToJson(const std::vector<store::ExecutionRow>& rows, std::int64_t now_us) {
  std::vector<Json> list;
  for (const store::ExecutionRow& row : rows) list.push_back(RunToJson(row, now_us));
  return Json::Array(std::move(list));
}

// Everything that is shown, as one document: text and JSON say the same.
Result<Json> Gather(const RunView& view, const FindCommand& find,
                    const std::vector<store::ExecutionRow>& child_rows) {
  const std::int64_t now_us = NowMicros();
  NOETL_ASSIGN(Json commands, CommandsToJson(find, view.state, now_us));
  Json children = ChildrenToJson(child_rows, now_us);
  return RunToJson(view.row, now_us)
      .Merge(Json::Object({{"input", view.state.workload},
                           {"steps", StepsToJson(view.state, now_us)},
                           {"open_command_count", view.state.commands().size()},
                           {"open_commands", std::move(commands)},
                           {"soft_error_list", SoftErrors(view.state)},
                           {"warnings", view.state.warning_count},
                           {"result", RunResult(view)},
                           {"failure", FailureToJson(view)},
                           {"children", std::move(children)},
                           {"partial", view.partial}}));
}

// ---- for people

class Page {
 public:
  Page(const Json& run, Console& console)
      : run_(run), console_(console), width_(TerminalWidth(console)) {}

  void Print() {
    Head();
    Steps();
    Commands();
    SoftErrorList();
    Failure();
    Value("Result", run_["result"]["data"]);
    if (const Json& ref = run_["result"]["ref"]; ref.is_string())
      console_.Out(fmt::format("\nResult\n  stored as {}; `noetl show {} --result` prints it\n",
                               ref.AsString(), Id()));
    Children();
    Hints();
  }

 private:
  std::string_view Id() const { return run_["execution_id"].AsString(); }
  static std::string Text(const Json& json) { return OneLine(json.AsString()); }
  static std::string Elapsed(const Json& ms) {
    return ms.is_int() ? DurationText(ms.AsInt() * 1'000) : "-";
  }
  static std::string Time(const Json& time) {
    return TimeText(ParseTime(time.AsString()).value_or(0));
  }
  void Title(std::string_view title) {
    console_.Out("\n" + console_.Paint(Style::kBold, title) + "\n");
  }
  void Line(std::string_view name, const std::string& value) {
    if (!value.empty()) console_.Out(fmt::format("{:<10}{}\n", name, value));
  }
  void More(std::size_t all, std::size_t shown) {
    if (all > shown) console_.Out(fmt::format("  ... and {} more; --json has them\n", all - shown));
  }

  void Head() {
    const std::string_view status = run_["status"].AsString();
    Line("Run", std::string(Id()));
    Line("Playbook", fmt::format("{} version {}", Text(run_["path"]), run_["version"].AsInt()));
    Line("Status", console_.Paint(StyleOfStatus(status), status));
    Line("Started", Time(run_["started_at"]));
    if (run_["ended_at"].is_string()) Line("Ended", Time(run_["ended_at"]));
    Line("Duration", Elapsed(run_["duration_ms"]));
    Line("Events", fmt::format("{}", run_["events"].AsInt()));
    if (run_["parent_execution_id"].is_string())
      Line("Parent", run_["parent_execution_id"].ToString());
    if (run_["warnings"].AsInt() > 0) Line("Warnings", fmt::format("{}", run_["warnings"].AsInt()));
    if (run_["failure"].is_null()) Line("Error", Text(run_["error"]));
    if (run_["partial"].AsBool()) {
      console_.Out(console_.Paint(
          Style::kYellow, fmt::format("The log is long and has no snapshot: what follows is known "
                                      "from its {} oldest and {} newest events.\n",
                                      kOldestEvents, kNewestEvents)));
    }
    if (!run_["input"].empty())
      Line("Input", Cut(OneLine(WriteJson(run_["input"])), width_ > 40 ? width_ - 11 : 160));
  }

  void Steps() {
    const Json& steps = run_["steps"];
    if (steps.empty()) return;
    Title("Steps");
    Table table({{"STEP", false, true},
                 {"STATUS"},
                 {"RUNS", true},
                 {"DURATION", true},
                 {"ITEMS"},
                 {"ERROR", false, true}});
    for (const Json& step : steps.items().first(std::min(steps.size(), kStepsListed))) {
      const std::string status = step["status"].ToString();
      table.Add({step["step"].ToString(), Cell(status, StyleOfStatus(status)),
                 std::to_string(step["runs"].AsInt()), Elapsed(step["duration_ms"]),
                 Items(step["loop"]), step["error"].ToString()});
    }
    console_.Out(table.Text(console_, width_, 2));
    More(steps.size(), kStepsListed);
  }

  static std::string Items(const Json& loop) {
    if (!loop.is_object()) return "";
    std::string text = std::to_string(loop["done"].AsInt());
    if (loop["total"].is_int()) text += fmt::format("/{}", loop["total"].AsInt());
    if (loop["failed"].AsInt() > 0) text += fmt::format(", {} failed", loop["failed"].AsInt());
    return text;
  }

  void Commands() {
    const Json& commands = run_["open_commands"];
    if (commands.empty()) return;
    Title("Open commands");
    Table table({{"STEP", false, true},
                 {"TOOL"},
                 {"ITEM", true},
                 {"ATTEMPT", true},
                 {"STATUS"},
                 {"AGE", true},
                 {"WORKER", false, true}});
    for (const Json& command : commands.items().first(std::min(commands.size(), kListed))) {
      table.Add({command["step"].ToString(), command["tool"].ToString(),
                 command["index"].is_int() ? std::to_string(command["index"].AsInt()) : "",
                 std::to_string(command["attempt"].AsInt()), command["status"].ToString(),
                 Elapsed(command["age_ms"]),
                 command["child_execution_id"].is_string()
                     ? "run " + command["child_execution_id"].ToString()
                     : command["worker"].ToString()});
    }
    console_.Out(table.Text(console_, width_, 2));
    More(static_cast<std::size_t>(run_["open_command_count"].AsInt()), kListed);
  }

  void SoftErrorList() {
    const Json& list = run_["soft_error_list"];
    if (list.empty()) return;
    Title("Errors that did not stop the run");
    for (const Json& soft : list.items().first(std::min(list.size(), kListed))) {
      const std::string item =
          soft["index"].is_int() ? fmt::format(" item {}", soft["index"].AsInt()) : "";
      console_.Out(fmt::format("  {}{}: {}\n", Text(soft["step"]), item, Text(soft["error"])));
    }
    More(static_cast<std::size_t>(std::max<std::int64_t>(run_["soft_errors"].AsInt(), 0)), kListed);
  }

  void Failure() {
    const Json& failure = run_["failure"];
    if (!failure.is_object()) return;
    Title("Failure");
    std::string place = Text(failure["step"]);
    if (failure["index"].is_int()) place += fmt::format(", item {}", failure["index"].AsInt());
    if (failure["attempt"].AsInt() > 1)
      place += fmt::format(", attempt {}", failure["attempt"].AsInt());
    if (!place.empty()) console_.Out(fmt::format("  step   {}\n", place));
    console_.Out(fmt::format("  error  {}\n", console_.Paint(Style::kRed, Text(failure["error"]))));
    Block("input", failure["input"]);
    if (failure["stderr"].is_string()) Block("stderr", failure["stderr"]);
    else Block("details", failure["error_info"]);
  }

  // A value below its name, cut to a bound.
  void Block(std::string_view name, const Json& value) {
    if (value.is_null() || (value.is_container() && value.empty())) return;
    console_.Out(fmt::format("  {}\n{}", name, Bounded(value, 4)));
  }
  void Value(std::string_view name, const Json& value) {
    if (value.is_null()) return;
    Title(name);
    console_.Out(Bounded(value, 2));
  }

  std::string Bounded(const Json& value, std::size_t indent) const {
    const std::string whole = value.is_string() ? value.ToString() : WriteJsonPretty(value);
    std::string out;
    std::string_view rest = whole;
    bool cut = false;
    for (std::size_t lines = 0; !rest.empty() && !cut; ++lines) {
      const std::size_t length = std::min(rest.find('\n'), rest.size());
      const std::string line = Cut(CleanText(rest.substr(0, length)), kValueBytes);
      cut = lines == kValueLines || out.size() + line.size() > kValueBytes + indent;
      if (!cut || lines == 0) out += std::string(indent, ' ') + line + "\n";
      rest.remove_prefix(std::min(length + 1, rest.size()));
    }
    if (cut) out += std::string(indent, ' ') + "... cut; --json shows all of it\n";
    return out;
  }

  void Children() {
    const Json& children = run_["children"];
    if (children.empty()) return;
    Title("Runs that it started");
    Table table({{"ID"}, {"PATH", false, true}, {"STATUS"}, {"DURATION", true}});
    for (const Json& child : children.items().first(std::min(children.size(), kListed))) {
      const std::string status = child["status"].ToString();
      table.Add({child["execution_id"].ToString(), child["path"].ToString(),
                 Cell(status, StyleOfStatus(status)), Elapsed(child["duration_ms"])});
    }
    console_.Out(table.Text(console_, width_, 2));
    if (children.size() > kListed)
      console_.Out(fmt::format("  ... and more: noetl executions --parent {}\n", Id()));
  }

  void Hints() {
    const Json& failure = run_["failure"];
    if (!failure.is_object()) return;
    Title("Next");
    const std::string step = Text(failure["step"]);
    if (!step.empty()) {
      console_.Out(fmt::format("  noetl logs {} {}\n", Id(), step));
      console_.Out(fmt::format("  noetl events {} --step {}\n", Id(), step));
    }
    console_.Out(fmt::format("  noetl run {}@{}{}\n", Text(run_["path"]), run_["version"].AsInt(),
                             PayloadOption(run_["input"])));
  }

  // The same input again, when it can be typed and nothing in it was hidden.
  static std::string PayloadOption(const Json& input) {
    if (input.empty()) return "";
    const std::string text = WriteJson(input);
    if (text.size() > kTypedBytes || text.find('\'') != std::string::npos ||
        text.find(kRedacted) != std::string::npos)
      return " --input FILE";
    return fmt::format(" --payload '{}'", text);
  }

  const Json& run_;
  Console& console_;
  std::size_t width_;
};

// Where the run is: a data directory, or a server.
struct Source {
  RunView view;
  FindCommand find;
  std::vector<store::ExecutionRow> children;
  std::function<Result<Json>(const std::string& ref)> load;
};

// The whole result and nothing else.
Status PrintResult(const Source& source, const Options& options, Console& console) {
  if (!source.view.row.terminal)
    return Fail("open", fmt::format("run {} has not ended", source.view.row.execution_id));
  const Json result = RunResult(source.view);
  Json data = result["data"];
  if (const Json& ref = result["ref"]; ref.is_string()) {
    NOETL_ASSIGN(data, source.load(ref.ToString()));
  }
  if (!options.no_redact) data = Redact(data);
  if (options.output == Output::kYaml) console.Out(WriteYaml(data));
  else if (options.output == Output::kJson) console.Out(WriteJson(data) + "\n");
  else console.Out(WriteJsonPretty(data) + "\n");
  return {};
}

Status ShowFrom(const Source& source, const Options& options, Console& console) {
  if (options.result) return PrintResult(source, options, console);
  NOETL_ASSIGN(Json run, Gather(source.view, source.find, source.children));
  if (!options.no_redact) run = Redact(run);
  if (options.output != Output::kTable) PrintDocument(run, options.output, console);
  else Page(run, console).Print();
  return {};
}

Status ShowHere(const Options& options, Console& console) {
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  const store::Store& store = *data.store;
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(store, options.id));
  Source source{.find = [&](std::int64_t id) { return store.FindCommand(id); },
                .load = [&](const std::string& ref) { return store.Load(ref); }};
  NOETL_ASSIGN(source.view, ViewRun(store, row));
  store::ExecutionFilter filter;
  filter.parent_execution_id = row.execution_id;
  NOETL_ASSIGN(source.children, store.List(filter));
  return ShowFrom(source, options, console);
}

Status ShowThere(const Options& options, HttpClient& client, Console& console) {
  NOETL_ASSIGN(const std::int64_t id, FindRunId(client, options.id));
  Source source{
      .find = [](std::int64_t) -> Result<std::optional<store::CommandRow>> { return std::nullopt; },
      .load =
          [&](const std::string& ref) {
            return client.Get("/result/resolve?ref=" + PercentEncode(ref));
          }};
  NOETL_ASSIGN(source.view, ViewRemoteRun(client, id, !options.no_redact));
  store::ExecutionFilter filter;
  filter.parent_execution_id = id;
  NOETL_ASSIGN(source.children, ListRuns(client, filter));
  return ShowFrom(source, options, console);
}

Status Show(const Options& options, Console& console) {
  NOETL_ASSIGN(const std::optional<Server> server,
               FindServerInsteadOf(options.data, options.server, console));
  return server ? ShowThere(options, *server->client, console) : ShowHere(options, console);
}

}  // namespace

Action DeclareShow(Parser& parser) {
  auto options = std::make_shared<Options>();
  AddIdArgument(parser, &options->id).Required();
  parser.Flag("--result", &options->result, "only the result, all of it");
  AddRedactOption(parser, &options->no_redact);
  AddOutputOptions(parser, &options->output);
  AddDataOption(parser, &options->data);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = Show(*options, console);
    return done ? kExitOk : Complain("show", done.error(), console);
  };
}

}  // namespace noetl::cli
