#include <algorithm>
#include <functional>
#include <map>
#include <memory>

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

namespace noetl::cli {
namespace {

// Chunks of one read: each has at most 64 KiB.
constexpr std::int64_t kPageChunks = 64;

struct Options {
  std::string data;
  std::string id;
  std::string step;
  std::string stream;
  bool follow = false;
  bool no_redact = false;
  bool json = false;
  ServerOptions server;
};

// Where the output is: a data directory, or a server.
struct Source {
  // Chunks after the first `seen`, at most one page.
  std::function<Result<std::vector<store::LogChunk>>(std::int64_t id, std::int64_t seen)> read;
  // Whether the run has ended.
  std::function<Result<bool>(std::int64_t id)> ended;
};

// What one process wrote to one stream.
struct Stream {
  std::string step;
  std::string name;
  std::int64_t next = 0;  // offset that should come next
  TextRedactor redactor;
  std::string rest;  // a line that is not whole
};

class Printer {
 public:
  Printer(const Options& options, Console& console) : options_(options), console_(console) {}

  void Show(const store::LogChunk& chunk) {
    if (!options_.step.empty() && chunk.step != options_.step) return;
    if (!options_.stream.empty() && chunk.stream != options_.stream) return;
    any_ = true;
    if (options_.json) return ShowJson(chunk);
    Stream& stream = streams_[{chunk.command_id, chunk.stream}];
    stream.step = chunk.step;
    stream.name = chunk.stream;
    if (chunk.offset > stream.next) {
      Print(stream, Flushed(stream));
      Print(stream, fmt::format("... {} bytes were left out ...\n", chunk.offset - stream.next));
    }
    stream.next = chunk.offset + std::ssize(chunk.text);
    Print(stream, options_.no_redact ? chunk.text : stream.redactor.Next(chunk.text));
  }

  // Lines without an end.
  void End() {
    for (auto& [key, stream] : streams_) Print(stream, Flushed(stream));
  }
  bool any() const { return any_; }

 private:
  void ShowJson(const store::LogChunk& chunk) {
    const Json json =
        Json::Object({{"execution_id", std::to_string(chunk.execution_id)},
                      {"command_id", std::to_string(chunk.command_id)},
                      {"step", chunk.step},
                      {"stream", chunk.stream},
                      {"offset", chunk.offset},
                      {"text", options_.no_redact ? chunk.text : RedactText(chunk.text)},
                      {"created_at",
                       chunk.created_at_us == 0 ? Json() : Json(FormatTime(chunk.created_at_us))}});
    console_.Out(WriteJson(json) + "\n");
  }

  static std::string Flushed(Stream& stream) {
    std::string text = stream.redactor.End();
    if (!(stream.rest + text).empty() && !text.ends_with('\n')) text += '\n';
    return text;
  }

  // Whole lines, each with the name of its step when several are shown.
  void Print(Stream& stream, std::string_view text) {
    stream.rest += text;
    const std::size_t end = stream.rest.rfind('\n');
    if (end == std::string::npos) return;
    std::string_view lines = std::string_view(stream.rest).substr(0, end + 1);
    std::string out;
    const Style style = stream.name == "stderr" ? Style::kYellow : Style::kDim;
    const std::string margin =
        options_.step.empty() ? console_.Paint(style, OneLine(stream.step) + " | ") : "";
    while (!lines.empty()) {
      const std::size_t length = lines.find('\n') + 1;
      out += margin;
      out += lines.substr(0, length);
      lines.remove_prefix(length);
    }
    console_.Out(out);
    stream.rest.erase(0, end + 1);
  }

  const Options& options_;
  Console& console_;
  std::map<std::pair<std::int64_t, std::string>, Stream> streams_;
  bool any_ = false;
};

Status ShowLogs(const Options& options, const Source& source, std::int64_t id, Console& console) {
  Printer printer(options, console);
  SystemClock clock;
  std::int64_t seen = 0;
  NOETL_ASSIGN(bool ended, source.ended(id));
  while (true) {
    NOETL_ASSIGN(const std::vector<store::LogChunk> chunks, source.read(id, seen));
    for (const store::LogChunk& chunk : chunks) printer.Show(chunk);
    seen += std::ssize(chunks);
    if (std::ssize(chunks) == kPageChunks) continue;
    if (!options.follow || ended) break;
    clock.SleepMicros(kFollowPauseUs);
    // Read before the next chunks: when the run has ended, they are the last ones.
    NOETL_ASSIGN(ended, source.ended(id));
  }
  printer.End();
  if (!printer.any()) {
    console.Err(fmt::format("{} wrote no output\n", options.step.empty()
                                                        ? fmt::format("run {}", id)
                                                        : fmt::format("step '{}'", options.step)));
  }
  return {};
}

Status ShowLogsHere(const Options& options, Console& console) {
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(*data.store, options.id));
  const store::Store& store = *data.store;
  const auto ended = [&](std::int64_t id) -> Result<bool> {
    NOETL_ASSIGN(const std::optional<store::ExecutionRow> now, store.Find(id));
    if (!now) return Fail("not_found", fmt::format("run {} was purged", id));
    return now->terminal;
  };
  return ShowLogs(
      options,
      {[&](std::int64_t id, std::int64_t seen) { return store.ReadLogs(id, 0, seen, kPageChunks); },
       ended},
      row.execution_id, console);
}

Status ShowLogsThere(const Options& options, HttpClient& client, Console& console) {
  NOETL_ASSIGN(const std::int64_t found, FindRunId(client, options.id));
  const auto ended = [&](std::int64_t id) -> Result<bool> {
    NOETL_ASSIGN(const Json run, GetRun(client, id));
    return RunOf(run).terminal;
  };
  return ShowLogs(options,
                  {[&](std::int64_t id, std::int64_t seen) {
                     return ReadLogs(client, id, 0, seen, kPageChunks, !options.no_redact);
                   },
                   ended},
                  found, console);
}

Status ShowLogsHereOrThere(const Options& options, Console& console) {
  NOETL_ASSIGN(const std::optional<Server> server,
               FindServerInsteadOf(options.data, options.server, console));
  return server ? ShowLogsThere(options, *server->client, console) : ShowLogsHere(options, console);
}

}  // namespace

Action DeclareLogs(Parser& parser) {
  auto options = std::make_shared<Options>();
  AddIdArgument(parser, &options->id).Required();
  parser.Add("STEP", &options->step, "only what this step wrote");
  parser.Add("--stream", &options->stream, "only stdout or only stderr")
      .OneOf({"stdout", "stderr"})
      .Type("NAME");
  parser.Flag("-f,--follow", &options->follow, "go on until the run has ended");
  parser.Flag("-j,--json", &options->json, "one JSON object a line for each piece of text");
  AddRedactOption(parser, &options->no_redact);
  AddDataOption(parser, &options->data);
  AddServerOptions(parser, &options->server);
  return [options](Console& console) {
    const Status done = ShowLogsHereOrThere(*options, console);
    return done ? kExitOk : Complain("logs", done.error(), console);
  };
}

}  // namespace noetl::cli
