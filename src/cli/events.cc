#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_io.h"
#include "base/redact.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/parser.h"
#include "cli/remote/remote_runs.h"
#include "cli/table.h"
#include "engine/events.h"

namespace noetl::cli {
namespace {

// Of the text that says what changed, when there is no terminal.
constexpr std::size_t kChangePointsMax = 160;
constexpr std::size_t kStepWidth = 20;
constexpr std::size_t kTypeWidth = 18;

struct Options {
  std::string data;
  std::string id;
  std::vector<std::string> types;
  std::string step;
  std::int64_t after = 0;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  bool follow = false;
  bool no_redact = false;
  Output output = Output::kTable;
  ServerOptions server;
};

// ---- what an event changed, in a few words

std::string RouteText(const Json& route) {
  std::vector<std::string> targets;
  for (const Json& arc : route["arcs"].items()) {
    if (arc["step"].is_string()) targets.push_back(arc["step"].ToString());
  }
  std::string text = route["outcome"].ToString();
  if (targets.empty()) return text;
  return fmt::format("{}{}then {}", text, text.empty() ? "" : ", ", fmt::join(targets, ", "));
}

std::string EndText(const engine::Event& event) {
  const Json& route = event.meta["route"];
  if (route.is_object()) return RouteText(route);
  std::string text = event.meta["outcome"].ToString();
  if (const Json& index = event.meta["iteration_index"]; index.is_int())
    text += fmt::format("{}item {}", text.empty() ? "" : ", ", index.AsInt());
  return text;
}

std::string DataText(const engine::Event& event) {
  const Json& context = event.result["context"];
  const Json& result = context["result"];
  if (const Json& reference = result["reference"]; reference.is_object())
    return "stored as " + reference["ref"].ToString();
  for (const Json* data : {result["context"].Find("data"), context.Find("data")}) {
    if (data) return WriteJson(*data);
  }
  return "";
}

std::string StartText(const engine::Event& event) {
  std::string text = event.context["path"].ToString();
  if (const Json& version = event.meta["version"]; version.is_int())
    text += fmt::format(" version {}", version.AsInt());
  if (const Json& workload = event.context["workload"]; !workload.empty())
    text += " " + WriteJson(workload);
  return text;
}

std::string EnterText(const engine::Event& event) {
  const Json& context = event.result["context"];
  std::string text = fmt::format("run {}", context["run"].AsInt(1));
  if (const Json& expected = context["iterations_expected"]; expected.is_int())
    text += fmt::format(", {} items", expected.AsInt());
  if (context["__cursor_loop"].AsBool()) text += ", cursor";
  if (const Json& args = context["args"]; !args.empty()) text += " " + WriteJson(args);
  return text;
}

std::string IssueText(const engine::Event& event) {
  std::string text = event.meta["tool_kind"].ToString();
  if (const Json& index = event.meta["iteration_index"]; index.is_int())
    text += fmt::format(", item {}", index.AsInt());
  if (const std::int64_t attempt = event.meta["attempt"].AsInt(1); attempt > 1)
    text += fmt::format(", attempt {}", attempt);
  if (const std::int64_t child = event.meta["child_execution_id"].AsInt(); child != 0)
    text += fmt::format(", run {}", child);
  return text;
}

std::string WorkerText(const engine::Event& event) { return event.worker_id; }
std::string ReasonText(const engine::Event& event) { return event.meta["reason"].ToString(); }
std::string ValuesText(const engine::Event& event) {
  const Json& values = event.result["context"]["values"];
  return values.empty() ? "" : WriteJson(values);
}
std::string NoText(const engine::Event&) { return ""; }

struct Words {
  engine::EventType type;
  std::string (*text)(const engine::Event&);
};
constexpr Words kWords[] = {
    {engine::EventType::kPlaybookStarted, StartText},
    {engine::EventType::kPlaybookCompleted, DataText},
    {engine::EventType::kPlaybookCancelled, ReasonText},
    {engine::EventType::kStepEnter, EnterText},
    {engine::EventType::kStepSkipped, ReasonText},
    {engine::EventType::kLoopDone, EndText},
    {engine::EventType::kCtxUpdated, ValuesText},
    {engine::EventType::kCommandIssued, IssueText},
    {engine::EventType::kCommandClaimed, WorkerText},
    {engine::EventType::kCommandStarted, WorkerText},
    {engine::EventType::kCallDone, DataText},
    {engine::EventType::kCommandCompleted, EndText},
    {engine::EventType::kCommandFailed, EndText},
    {engine::EventType::kCommandCancelled, ReasonText},
};

std::string ChangeText(const engine::Event& event) {
  auto text_of = NoText;
  for (const Words& words : kWords) {
    if (words.type == event.type) text_of = words.text;
  }
  const std::string text = text_of(event);
  if (event.error.empty() || event.error == text) return text;
  return text.empty() ? event.error : fmt::format("{}: {}", text, event.error);
}

// ---- showing

engine::Event Redacted(engine::Event event) {
  event.context = Redact(event.context);
  event.result = Redact(event.result);
  event.meta = Redact(event.meta);
  event.error = RedactText(event.error);
  return event;
}

std::string LineOf(const engine::Event& event, std::size_t width, const Console& console) {
  const std::string_view type =
      event.type_name.empty() ? engine::EventName(event.type) : event.type_name;
  const std::string time = FormatTime(event.ingest_us).substr(11, 12);
  std::string line = fmt::format("{:>6}  {}  {:<{}}  {:<{}}  ", event.seq, time, type, kTypeWidth,
                                 Cut(OneLine(event.node_name), kStepWidth), kStepWidth);
  const std::size_t used = line.size() + 11;
  const std::size_t points = width > used + 10 ? width - used : kChangePointsMax;
  const std::string status = fmt::format("{:<9}", event.status);
  const bool failed = event.status == "FAILED" || !event.error.empty();
  const bool ended = engine::IsTerminal(event.type);
  line += console.Paint(failed  ? Style::kRed
                        : ended ? StyleOfStatus(event.status)
                                : Style::kPlain,
                        status);
  line += "  " + Cut(OneLine(ChangeText(event)), points);
  while (line.back() == ' ') line.pop_back();
  return line + "\n";
}

bool Matches(const std::vector<std::string>& types, std::string_view name) {
  return types.empty() || std::ranges::any_of(types, [&](std::string_view type) {
           if (type.ends_with('*')) return name.starts_with(type.substr(0, type.size() - 1));
           return type == name;
         });
}

// Shows the events of one run; remembers how far it is.
class Printer {
 public:
  Printer(const Options& options, Console& console)
      : options_(options),
        console_(console),
        seq_(options.after),
        left_(options.limit),
        width_(TerminalWidth(console)) {}

  void Show(const engine::Event& event) {
    if (event.seq <= seq_ || done()) return;
    seq_ = event.seq;
    if (!Matches(options_.types, event.type_name)) return;
    if (!options_.step.empty() && event.node_name != options_.step) return;
    --left_;
    const engine::Event shown = options_.no_redact ? event : Redacted(event);
    switch (options_.output) {
      case Output::kTable: text_ += LineOf(shown, width_, console_); break;
      case Output::kJson: text_ += WriteJson(engine::EventToJson(shown)) + "\n"; break;
      case Output::kYaml: text_ += "---\n" + WriteYaml(engine::EventToJson(shown)); break;
    }
  }
  // Prints what was shown since the last call.
  void Flush() { console_.Out(std::exchange(text_, {})); }
  bool done() const { return left_ <= 0; }
  std::int64_t seq() const { return seq_; }

 private:
  const Options& options_;
  Console& console_;
  std::int64_t seq_;
  std::int64_t left_;
  std::size_t width_;
  std::string text_;
};

// Shows everything up to the head that the run has now.
Status CatchUp(const store::Store& store, std::int64_t execution_id, Printer& printer) {
  while (!printer.done()) {
    NOETL_ASSIGN(const std::vector<engine::Event> events,
                 store.ReadEvents(execution_id, printer.seq(), kPageEvents));
    for (const engine::Event& event : events) printer.Show(event);
    printer.Flush();
    if (std::ssize(events) < kPageEvents) break;
  }
  return {};
}

Status ShowEventsHere(const Options& options, Console& console) {
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  NOETL_ASSIGN(store::ExecutionRow row, FindRun(*data.store, options.id));
  Printer printer(options, console);
  NOETL_TRY(CatchUp(*data.store, row.execution_id, printer));
  SystemClock clock;
  while (options.follow && !row.terminal && !printer.done()) {
    clock.SleepMicros(kFollowPauseUs);
    NOETL_ASSIGN(std::optional<store::ExecutionRow> now, data.store->Find(row.execution_id));
    if (!now) return Fail("not_found", fmt::format("run {} was purged", row.execution_id));
    row = *std::move(now);
    // The row was read first: what it counts is there.
    NOETL_TRY(CatchUp(*data.store, row.execution_id, printer));
  }
  return {};
}

Status ShowEventsThere(const Options& options, HttpClient& client, Console& console) {
  EventFeed feed{.redact = !options.no_redact};
  NOETL_ASSIGN(feed.execution_id, FindRunId(client, options.id));
  Printer printer(options, console);
  const UseEvent show = [&](const engine::Event& event) {
    printer.Show(event);
    printer.Flush();
    return !printer.done();
  };
  if (!options.follow) return ReadEvents(client, feed, show);
  return FollowEvents(client, feed, show, [] { return true; });
}

Status ShowEvents(const Options& options, Console& console) {
  NOETL_ASSIGN(const std::optional<Server> server,
               FindServerInsteadOf(options.data, options.server, console));
  return server ? ShowEventsThere(options, *server->client, console)
                : ShowEventsHere(options, console);
}

}  // namespace

Action DeclareEvents(Parser& parser) {
  auto options = std::make_shared<Options>();
  AddIdArgument(parser, &options->id).Required();
  parser
      .Add("--type", &options->types,
           "only events of this type; command.* means all that begin so; may be repeated")
      .Type("TYPE")
      .Repeated();
  parser.Add("--step", &options->step, "only events of this step").Type("STEP");
  parser.Add("--after", &options->after, "only events after this number").NonNegative().Type("SEQ");
  parser.Add("--limit", &options->limit, "so many at most").Positive().Type("N");
  parser.Flag("-f,--follow", &options->follow, "go on until the run has ended");
  AddRedactOption(parser, &options->no_redact);
  AddOutputOptions(parser, &options->output);
  AddDataOption(parser, &options->data);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = ShowEvents(*options, console);
    return done ? kExitOk : Complain("events", done.error(), console);
  };
}

}  // namespace noetl::cli
