// Watching runs as they go: server-sent events, and the text that tools write.
#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/execution_json.h"
#include "api/handle.h"
#include "api/route.h"
#include "api/run_state.h"
#include "api/streams.h"
#include "base/redact.h"
#include "engine/events.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kLogLimit = 1'000;
constexpr std::int64_t kLogLimitMax = 10'000;
// Text of one answer; the rest is on the next page.
constexpr std::size_t kLogBytesMax = 8u << 20;

Response StreamHead(std::string_view content_type) {
  Response head;
  head.content_type = content_type;
  head.headers.Set("Cache-Control", "no-store");
  // A proxy that gathers would hold the events back.
  head.headers.Set("X-Accel-Buffering", "no");
  return head;
}

// Where a client that comes again goes on: the header of a browser, or `after`; 0: from the start.
Result<std::int64_t> ResumeFrom(const Call& call) {
  NOETL_ASSIGN(const std::int64_t after, call.QueryId("after"));
  const std::string_view text = call.request().headers.Find("Last-Event-ID");
  std::int64_t id = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool good = problem == std::errc() && end == text.data() + text.size() && id > 0;
  return good ? id : after;
}

// Opens the stream and hands it over with a place among the watchers.
template <typename Follow>
Status Open(const CallPtr& call, std::string_view content_type, Follow follow) {
  Streams& streams = *call->services().streams;
  NOETL_ASSIGN(const Streams::Id id, streams.Reserve());
  std::shared_ptr<BodyStream> stream =
      call->Stream(StreamHead(content_type), [&streams, id] { streams.Remove(id); });
  if (!stream) streams.Remove(id);
  else follow(streams, id, std::move(stream));
  return {};
}

Status StreamRun(const CallPtr& call) {
  Streams::RunFeed feed;
  NOETL_ASSIGN(feed.execution_id, call->PathId("execution_id"));
  NOETL_ASSIGN(feed.redact, WantsRedaction(*call));
  const store::Store& store = *call->services().store;
  NOETL_TRY(FindRun(store, feed.execution_id));
  NOETL_ASSIGN(const std::int64_t after, ResumeFrom(*call));
  if (after != 0) {
    // An id that the run does not have: everything comes again, nothing is missed.
    NOETL_ASSIGN(const std::optional<std::int64_t> seq, FindSeq(store, feed.execution_id, after));
    feed.after_seq = seq.value_or(0);
  }
  return Open(call, "text/event-stream",
              [&](Streams& streams, Streams::Id id, std::shared_ptr<BodyStream> stream) {
                streams.FollowRun(id, std::move(stream), feed);
              });
}

Status StreamList(const CallPtr& call) {
  Streams::ListFeed feed;
  feed.path_part = call->Query("path").value_or("");
  NOETL_ASSIGN(feed.after_event_id, ResumeFrom(*call));
  return Open(call, "text/event-stream",
              [&](Streams& streams, Streams::Id id, std::shared_ptr<BodyStream> stream) {
                streams.FollowList(id, std::move(stream), std::move(feed));
              });
}

// ---- logs

// A command by its number or its text id; 0: all.
Result<std::int64_t> QueryCommand(const Call& call) {
  const std::string_view text = call.Query("command_id").value_or("");
  const std::int64_t number = engine::CommandNumber(text);
  return number != 0 ? Result<std::int64_t>(number) : call.QueryId("command_id");
}

Result<Streams::LogFeed> ReadLogFeed(const Call& call) {
  Streams::LogFeed feed;
  NOETL_ASSIGN(feed.execution_id, call.PathId("execution_id"));
  NOETL_ASSIGN(feed.command_id, QueryCommand(call));
  feed.step = call.Query("step").value_or("");
  feed.stream = call.Query("stream").value_or("");
  NOETL_ASSIGN(feed.after, call.QueryInt("cursor", 0, 0, INT64_MAX));
  NOETL_ASSIGN(feed.redact, WantsRedaction(call));
  const std::string_view format = call.Query("format").value_or("");
  const std::string_view accept = call.request().headers.Find("Accept");
  if (!format.empty() && format != "text" && format != "json")
    return Fail("bad_request", "`format` must be text or json");
  feed.sse =
      format.empty() ? accept.find("text/plain") == std::string_view::npos : format == "json";
  return feed;
}

struct LogPage {
  std::vector<store::LogChunk> chunks;
  std::int64_t next = 0;  // 0: there are no more
};

Result<LogPage> ReadLogPage(const store::Store& store, const Streams::LogFeed& feed,
                            std::int64_t limit) {
  LogPage page;
  std::int64_t at = feed.after;
  std::size_t bytes = 0;
  for (;;) {
    NOETL_ASSIGN(std::vector<store::LogChunk> chunks,
                 store.ReadLogs(feed.execution_id, feed.command_id, at, kLogLimit));
    for (store::LogChunk& chunk : chunks) {
      if (std::ssize(page.chunks) == limit || bytes > kLogBytesMax) {
        page.next = at;
        return page;
      }
      ++at;
      const bool wanted = (feed.step.empty() || chunk.step == feed.step) &&
                          (feed.stream.empty() || chunk.stream == feed.stream);
      if (!wanted) continue;
      bytes += chunk.text.size();
      page.chunks.push_back(std::move(chunk));
    }
    if (std::ssize(chunks) < kLogLimit) return page;
  }
}

std::string PlainText(const LogPage& page, bool redact) {
  std::string text;
  for (const store::LogChunk& chunk : page.chunks) text += chunk.text;
  return redact ? RedactText(text) : text;
}

Status GetLogs(const CallPtr& call) {
  NOETL_ASSIGN(Streams::LogFeed feed, ReadLogFeed(*call));
  NOETL_ASSIGN(const bool follow, call->QueryBool("follow", false));
  NOETL_ASSIGN(const std::int64_t limit, call->QueryInt("limit", kLogLimit, 1, kLogLimitMax));
  const store::Store& store = *call->services().store;
  NOETL_TRY(FindRun(store, feed.execution_id));
  if (follow) {
    return Open(call, feed.sse ? "text/event-stream" : "text/plain; charset=utf-8",
                [&](Streams& streams, Streams::Id id, std::shared_ptr<BodyStream> stream) {
                  streams.FollowLogs(id, std::move(stream), std::move(feed));
                });
  }
  NOETL_ASSIGN(const LogPage page, ReadLogPage(store, feed, limit));
  if (page.next != 0) call->AddHeader("X-Next-Cursor", std::to_string(page.next));
  if (!feed.sse) {
    Response response;
    response.content_type = "text/plain; charset=utf-8";
    response.body = PlainText(page, feed.redact);
    call->Answer(std::move(response));
    return {};
  }
  std::vector<Json> chunks;
  for (const store::LogChunk& chunk : page.chunks) chunks.push_back(LogBody(chunk, feed.redact));
  call->Answer(Json::Object({{"execution_id", std::to_string(feed.execution_id)},
                             {"chunks", Json::Array(std::move(chunks))},
                             {"next_cursor", IdText(page.next)}}));
  return {};
}

constexpr Parameter kRunQuery[] = {
    {"after", "integer", "the event to go on after; the header Last-Event-ID counts more"},
    {"redact", "boolean", "false shows credentials; workers and administrators only"},
};
constexpr Parameter kListQuery[] = {
    {"path", "string", "a part of the playbook's path, in any case"},
    {"after", "integer", "the id to go on after; the header Last-Event-ID counts more"},
};
constexpr Parameter kLogQuery[] = {
    {"step", "string", "only what tools of this step wrote"},
    {"command_id", "string", "only what this command's tool wrote"},
    {"stream", "string", "stdout or stderr"},
    {"format", "string", "json (default) or text"},
    {"follow", "boolean", "true goes on until the run has ended, as events or as text"},
    {"limit", "integer", "1 to 10000 pieces"},
    {"cursor", "integer", "next_cursor of the page before"},
    {"redact", "boolean", "false shows credentials; workers and administrators only"},
};

constexpr Route kRoutes[] = {
    {.method = "GET",
     .path = "/api/executions/stream",
     .family = "streams",
     .summary = "Server-sent events: runs as they change, first a snapshot",
     .scope = Scope::kViewer,
     .handle = Handled<StreamList>,
     .query = kListQuery,
     .response = R"({"execution_id":"325481002387804160","path":"demo/hello",)"
                 R"("status":"RUNNING","last_event_type":"step.enter"})"},
    {.method = "GET",
     .path = "/api/executions/{execution_id}/stream",
     .family = "streams",
     .summary = "Server-sent events: every event of a run, then `end`",
     .scope = Scope::kViewer,
     .handle = Handled<StreamRun>,
     .query = kRunQuery,
     .response = R"({"event_id":"325481002390000000","execution_id":"325481002387804160",)"
                 R"("seq":1,"event_type":"playbook_started","status":"STARTED"})"},
    {.method = "GET",
     .path = "/api/executions/{execution_id}/logs",
     .family = "streams",
     .summary = "What the tools of a run wrote",
     .scope = Scope::kViewer,
     .handle = Handled<GetLogs>,
     .query = kLogQuery,
     .response = R"({"execution_id":"325481002387804160","chunks":[{)"
                 R"("command_id":"325481002400000000","step":"start","stream":"stdout",)"
                 R"("offset":0,"text":"hello\n","created_at":"2026-06-18T12:00:01.000000Z"}],)"
                 R"("next_cursor":null})"},
};

}  // namespace

std::span<const Route> StreamRoutes() { return kRoutes; }

}  // namespace noetl::api
