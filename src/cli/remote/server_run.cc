#include "cli/remote/server_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_io.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/data.h"
#include "cli/parser.h"
#include "cli/remote/remote_runs.h"
#include "cli/run_watch.h"

namespace noetl::cli {

namespace {

// One request waits at most so long at the server.
constexpr std::int64_t kWaitMs = 20'000;
// What runs is drawn at most so often.
constexpr std::int64_t kDrawPauseUs = 100'000;
// How often to look at what children of the run do.
constexpr std::int64_t kChildrenPauseUs = 500'000;
// "A month" in milliseconds: a longer wait is a mistake of the unit.
constexpr std::int64_t kTimeoutMsMax = 30LL * 86'400'000;

Result<std::int64_t> TimeoutOf(const FollowOptions& options) {
  if (options.timeout.empty()) return kTimeoutMsMax;
  const auto timeout = ParseDurationMs(options.timeout);
  if (timeout && *timeout > 0) return std::min(*timeout, kTimeoutMsMax);
  return Fail("usage", fmt::format("--timeout: '{}' is not a duration; write 90s, 5m or 1h",
                                   options.timeout));
}

// Follows one run of a server.
class Follower {
 public:
  Follower(HttpClient& client, Console& console, const FollowOptions& options,
           std::int64_t execution_id, std::int64_t timeout_ms)
      : client_(client),
        beside_(client.options()),
        console_(console),
        options_(options),
        display_(&console, options.watch ? RunDisplay::ModeFor(console, !options.for_people())
                                         : RunDisplay::Mode::kSilent),
        feed_{.execution_id = execution_id},
        until_us_(clock_.MonotonicMicros() + timeout_ms * 1'000) {
    progress_.Watch(execution_id);
  }

  Status Run() {
    client_.InterruptWhen([this] { return MustCancel(); });
    while (!Ended() && !TimedOut()) {
      if (MustCancel()) NOETL_TRY(Cancel());
      NOETL_TRY(options_.watch ? Watch() : Wait());
    }
    client_.InterruptWhen({});
    // What the run did is needed for the report, also of one that is not watched.
    NOETL_TRY(
        ReadEvents(client_, feed_, [this](const engine::Event& event) { return Take(event); }));
    Draw();
    display_.Clear();
    return {};
  }

  int Report() {
    const WatchedRun& run = *progress_.Watched()[0];
    if (!options_.for_people()) {
      const LoadResult load = [this](const std::string& ref) {
        return client_.Get("/result/resolve?ref=" + PercentEncode(ref));
      };
      PrintDocument(RunDocument(run, load), options_.output, console_);
    }
    if (!run.end) {
      console_.Err(fmt::format("run {} has not ended within {}; it goes on: noetl status {}\n",
                               run.execution_id, options_.timeout, run.execution_id));
      return kExitTimeout;
    }
    if (options_.for_people()) {
      RunDisplay words(&console_, RunDisplay::ModeFor(console_, false));
      SayEnd(run, console_, words);
      ShowResult(run, console_, words);
    }
    return ExitCodeOf(run, options_.strict);
  }

 private:
  bool Ended() const { return ended_ || progress_.AllEnded(); }
  bool TimedOut() { return clock_.MonotonicMicros() >= until_us_; }
  bool MustCancel() const { return StopSignals::Asked() && !cancelled_; }

  bool Take(const engine::Event& event) {
    ReadBefore(event);
    feed_.after_event_id = event.event_id;
    progress_.Feed(event);
    return !progress_.AllEnded();
  }

  // A stream has the events of one run. Those of runs that it waits for are read beside it: before the
  // end of the command that waits is shown, and now and then. They are only for the eye: what cannot
  // be read now is read later, or is left out.
  void ReadBefore(const engine::Event& event) {
    using enum engine::EventType;
    if (event.type == kCommandCompleted || event.type == kCommandFailed)
      ReadChildren(progress_.OpenChildren(event.execution_id, event.node_name));
    if (event.type == kPlaybookCompleted || event.type == kPlaybookFailed ||
        event.type == kPlaybookCancelled)
      ReadChildren(progress_.OpenChildren(event.execution_id, ""));
  }

  void ReadChildren(const std::vector<std::int64_t>& children) {
    if (!options_.watch || !options_.for_people()) return;
    for (const std::int64_t child : children) {
      EventFeed feed{.execution_id = child, .after_event_id = seen_[child]};
      const Status read = ReadEvents(beside_, feed, [&](const engine::Event& event) {
        ReadBefore(event);
        seen_[child] = event.event_id;
        progress_.Feed(event);
        return true;
      });
      if (!read || !progress_.Shows(child)) seen_.erase(child);
    }
  }

  void LookAtChildren() {
    const std::int64_t now_us = clock_.MonotonicMicros();
    if (now_us - looked_us_ < kChildrenPauseUs) return;
    looked_us_ = now_us;
    std::vector<std::int64_t> open = progress_.OpenRuns();
    std::erase(open, feed_.execution_id);
    ReadChildren(open);
  }

  // Asked for with every piece of the stream; drawn when something ended, or now and then.
  void Draw() {
    const std::vector<ProgressLine> ended = progress_.TakeLines();
    const std::int64_t now_us = clock_.MonotonicMicros();
    if (ended.empty() && now_us - drawn_us_ < kDrawPauseUs) return;
    drawn_us_ = now_us;
    display_.Show(ended, progress_.RunningLines(clock_.NowMicros()));
  }

  Status Watch() {
    const auto go_on = [this] {
      LookAtChildren();
      Draw();
      return !TimedOut() && !MustCancel();
    };
    NOETL_TRY(FollowEvents(
        client_, feed_, [this](const engine::Event& event) { return Take(event); }, go_on));
    ended_ = !TimedOut() && !MustCancel();
    return {};
  }

  // A server that goes away for a while may come back with the run.
  Status Wait() {
    const std::int64_t left_ms = (until_us_ - clock_.MonotonicMicros()) / 1'000;
    const auto status =
        client_.Get(fmt::format("/executions/{}/wait?timeout_ms={}", feed_.execution_id,
                                std::clamp<std::int64_t>(left_ms, 0, kWaitMs)));
    if (status) {
      lost_ = 0;
      ended_ = RunOf(*status).terminal;
      return {};
    }
    if (status.error().code == "interrupted") return {};
    if (status.error().code != "server_unreachable" || ++lost_ > kRetriesMax)
      return std::unexpected(status.error());
    clock_.SleepMicros(kRetryPauseUs);
    return {};
  }

  Status Cancel() {
    cancelled_ = true;
    console_.Err("stopping ... (once more to leave; the run then goes on)\n");
    const Json body =
        Json::Object({{"reason", "interrupted by the user"}, {"requested_by", "cli"}});
    NOETL_TRY(client_.Post(fmt::format("/executions/{}/cancel", feed_.execution_id), body));
    return {};
  }

  HttpClient& client_;
  HttpClient beside_;  // for requests while the stream is open
  Console& console_;
  const FollowOptions& options_;
  RunDisplay display_;
  SystemClock clock_;
  Progress progress_;
  EventFeed feed_;
  std::int64_t until_us_;
  std::map<std::int64_t, std::int64_t> seen_;  // of children: the last event
  std::int64_t drawn_us_ = 0;
  std::int64_t looked_us_ = 0;
  int lost_ = 0;
  bool ended_ = false;
  bool cancelled_ = false;
};

// Puts one document into the catalog; its version.
Result<Json> RegisterDocument(HttpClient& client, const ServerRun::Document& document,
                              Console& console) {
  NOETL_ASSIGN(Json answer,
               client.Post("/catalog/register", Json::Object({{"content", document.content},
                                                              {"resource_type", "Playbook"}})));
  if (answer["status"].AsString() != "unchanged") {
    console.Err(fmt::format("registered {} version {} ({})\n", answer["path"].AsString(),
                            answer["version"].AsInt(), document.file));
  }
  return answer;
}

}  // namespace

void AddFollowOptions(Parser& parser, FollowOptions* options) {
  parser.Flag("--wait", &options->wait, "on a server: wait for the end, print the result");
  parser.Flag("--watch", &options->watch, "the same, and show how it goes");
  parser
      .Add("--timeout", &options->timeout,
           "wait at most so long; then the exit code is 4 and the run goes on")
      .Type("TIME");
}

int StartAndFollow(HttpClient& client, const std::function<Result<Json>()>& start,
                   const FollowOptions& options, std::string_view command, Console& console) {
  const auto timeout_ms = TimeoutOf(options);
  if (!timeout_ms) return Complain(command, timeout_ms.error(), console);
  // Before the start: a run that began is cancelled, not left alone.
  std::optional<StopSignals> signals;
  if (options.follow()) signals.emplace();
  const Result<Json> answer = start();
  if (!answer) return Complain(command, answer.error(), console);
  const std::int64_t id = AnyId((*answer)["execution_id"]);
  if (!options.follow()) {
    if (!options.for_people()) {
      PrintDocument(*answer, options.output, console);
      return kExitOk;
    }
    console.Out(WriteJsonPretty(*answer) + "\n");
    console.Err(console.PaintErr(Style::kDim, fmt::format("noetl status {}\n", id)));
    return kExitOk;
  }
  Follower follower(client, console, options, id, *timeout_ms);
  if (const Status done = follower.Run(); !done) {
    const int code = Complain(command, done.error(), console);
    console.Err(fmt::format("run {} was started: noetl status {}\n", id, id));
    return code;
  }
  return follower.Report();
}

Result<Json> StartOnServer(HttpClient& client, const ServerRun& run, Console& console) {
  Json request = Json::Object({{"path", run.path}});
  if (run.version > 0) request = request.With("version", run.version);
  for (const ServerRun::Document& document : run.documents) {
    NOETL_ASSIGN(const Json answer, RegisterDocument(client, document, console));
    if (&document == &run.documents.back())
      request = request.With("path", answer["path"]).With("version", answer["version"]);
  }
  request = request.With("workload", run.payload).With("resource_kind", "playbook");
  NOETL_ASSIGN(Json answer, client.Post("/execute", request));
  return WithTextId(answer, "execution_id");
}

}  // namespace noetl::cli
