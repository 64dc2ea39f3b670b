#include "cli/remote/remote_runs.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_io.h"
#include "base/time.h"
#include "base/url.h"
#include "cli/data.h"

namespace noetl::cli {

namespace {

// What the server gives in one answer.
constexpr std::int64_t kRunsPage = 200;
constexpr std::int64_t kEventsPage = 1'000;
// A whole id has so many digits: shorter ones are ends of ids.
constexpr std::size_t kWholeIdMin = 15;
// Ends of ids are looked for among so many of the newest runs: each page is a request.
constexpr std::int64_t kSuffixRuns = 2'000;

std::int64_t TimeOf(const Json& time) { return ParseTime(time.AsString()).value_or(0); }

bool MatchesPath(std::string_view wanted, std::string_view path) {
  if (wanted.empty()) return true;
  if (wanted.ends_with('*')) return path.starts_with(wanted.substr(0, wanted.size() - 1));
  return wanted == path;
}

std::string RunsQuery(const store::ExecutionFilter& filter, std::int64_t limit) {
  std::string query = fmt::format("/executions?limit={}", limit);
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) query += fmt::format("&{}={}", name, PercentEncode(value));
  };
  const auto add_id = [&](std::string_view name, std::int64_t id) {
    if (id != 0) query += fmt::format("&{}={}", name, id);
  };
  std::string part = filter.path;
  while (part.ends_with('*')) part.pop_back();
  add("path", part);
  add("status", filter.status);
  add_id("parent_execution_id", filter.parent_execution_id);
  if (filter.started_after_us != 0) add("started_after", FormatTime(filter.started_after_us));
  add_id("cursor", filter.before_id);
  return query;
}

Result<std::int64_t> FindBySuffix(HttpClient& client, std::string_view suffix) {
  store::ExecutionFilter filter;
  filter.limit = kSuffixRuns;
  NOETL_ASSIGN(const std::vector<store::ExecutionRow> rows, ListRuns(client, filter));
  std::vector<std::int64_t> found;
  for (const store::ExecutionRow& row : rows) {
    if (std::to_string(row.execution_id).ends_with(suffix)) found.push_back(row.execution_id);
  }
  if (found.empty())
    return Fail("not_found", fmt::format("{} has no run {}; `noetl executions` lists them",
                                         client.base_url(), suffix));
  if (found.size() == 1) return found[0];
  return Fail("ambiguous",
              fmt::format("{} is the end of several ids, among them {} and {}; give more digits",
                          suffix, found[0], found[1]));
}

}  // namespace

std::int64_t AnyId(const Json& id) {
  if (id.is_int()) return id.AsInt();
  const std::string_view text = id.AsString();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

Json WithTextId(const Json& answer, std::string_view name) {
  const std::int64_t id = AnyId(answer[name]);
  return id == 0 ? answer : answer.With(name, std::to_string(id));
}

store::ExecutionRow RunOf(const Json& summary) {
  store::ExecutionRow row;
  row.execution_id = AnyId(summary["execution_id"]);
  row.catalog_id = AnyId(summary["catalog_id"]);
  row.path = summary["path"].ToString();
  row.version = summary["version"].AsInt();
  row.parent_execution_id = AnyId(summary["parent_execution_id"]);
  row.status = summary["status"].ToString();
  row.started_at_us = TimeOf(summary["start_time"]);
  row.ended_at_us = TimeOf(summary["end_time"]);
  row.error = summary["error"].ToString();
  row.soft_error_count = summary["soft_error_count"].AsInt();
  row.last_event_id = AnyId(summary["last_event_id"]);
  row.last_event_type = summary["last_event_type"].ToString();
  row.last_node_name = summary["last_node_name"].ToString();
  row.updated_at_us = TimeOf(summary["updated_at"]);
  row.head = summary["event_count"].AsInt();
  row.terminal = !row.status.empty() && row.status != "RUNNING" && row.status != "PENDING";
  return row;
}

engine::Event EventOf(const Json& body) {
  engine::Event event;
  event.event_id = AnyId(body["event_id"]);
  event.execution_id = AnyId(body["execution_id"]);
  event.seq = body["seq"].AsInt();
  event.catalog_id = AnyId(body["catalog_id"]);
  event.parent_event_id = AnyId(body["parent_event_id"]);
  event.parent_execution_id = AnyId(body["parent_execution_id"]);
  event.type_name = body["event_type"].ToString();
  event.type = engine::EventTypeOf(event.type_name);
  event.node_name = body["node_name"].ToString();
  event.node_type = body["node_type"].ToString();
  event.status = body["status"].ToString();
  event.context = body["context"];
  event.result = body["result"];
  event.meta = body["meta"];
  event.error = body["error"].ToString();
  event.worker_id = body["worker_id"].ToString();
  event.created_at_us = TimeOf(body["created_at"]);
  event.ingest_us = event.created_at_us;
  return event;
}

Result<std::vector<store::ExecutionRow>> ListRuns(HttpClient& client,
                                                  const store::ExecutionFilter& filter) {
  std::vector<store::ExecutionRow> rows;
  store::ExecutionFilter page = filter;
  while (std::ssize(rows) < filter.limit) {
    const std::int64_t limit =
        filter.path.empty() ? std::min(kRunsPage, filter.limit - std::ssize(rows)) : kRunsPage;
    NOETL_ASSIGN(const Json list, client.Get(RunsQuery(page, limit)));
    for (const Json& item : list.items()) {
      store::ExecutionRow row = RunOf(item);
      page.before_id = row.execution_id;
      // The server looks for a part of the path.
      if (MatchesPath(filter.path, row.path) && std::ssize(rows) < filter.limit)
        rows.push_back(std::move(row));
    }
    if (std::cmp_less(list.size(), limit)) break;
  }
  return rows;
}

Result<std::int64_t> FindRunId(HttpClient& client, std::string_view id) {
  if (id == "last") {
    store::ExecutionFilter filter;
    filter.limit = 1;
    NOETL_ASSIGN(const std::vector<store::ExecutionRow> rows, ListRuns(client, filter));
    if (!rows.empty()) return rows[0].execution_id;
    return Fail("not_found", fmt::format("{} has no runs yet", client.base_url()));
  }
  const std::int64_t number = AnyId(Json(id));
  if (number <= 0) {
    return Fail("not_found",
                fmt::format("'{}' is not the id of a run; `noetl executions` lists them, "
                            "`last` is the newest",
                            id));
  }
  if (id.size() >= kWholeIdMin) return number;
  if (id.size() < kIdSuffixMin) {
    return Fail("not_found", fmt::format("there is no run {}; the end of an id needs at least {} "
                                         "digits",
                                         id, kIdSuffixMin));
  }
  return FindBySuffix(client, id);
}

Result<Json> AboutRun(Result<Json> answer) {
  if (!answer && answer.error().code == "http_404")
    answer.error().message +=
        "\n  runs of this machine are in a data directory: --data DIR names it";
  return answer;
}

Result<Json> GetRun(HttpClient& client, std::int64_t execution_id) {
  return AboutRun(client.Get(fmt::format("/executions/{}?include_events=false", execution_id)));
}

Status ReadEvents(HttpClient& client, EventFeed feed, const UseEvent& use) {
  while (true) {
    std::string path = fmt::format("/executions/{}/events?limit={}&include_payload=true",
                                   feed.execution_id, kEventsPage);
    if (feed.after_event_id != 0) path += fmt::format("&after={}", feed.after_event_id);
    if (!feed.redact) path += "&redact=false";
    NOETL_ASSIGN(const Json page, AboutRun(client.Get(path)));
    for (const Json& item : page["events"].items()) {
      const engine::Event event = EventOf(item);
      feed.after_event_id = event.event_id;
      if (!use(event)) return {};
    }
    if (page["next_cursor"].is_null()) return {};
  }
}

Status FollowEvents(HttpClient& client, EventFeed feed, const UseEvent& use,
                    const std::function<bool()>& go_on) {
  SystemClock clock;
  const std::string path =
      fmt::format("/executions/{}/stream{}", feed.execution_id, feed.redact ? "" : "?redact=false");
  bool done = false;
  bool behind = false;  // something was left out
  bool told = false;    // the connection was good for something
  const UseEvent take = [&](const engine::Event& event) {
    feed.after_event_id = event.event_id;
    done = !use(event);
    return !done;
  };
  for (int retries = 0; !done;) {
    const SseReader::Use on_message = [&](const SseMessage& message) {
      told = true;
      done = message.type == "end";
      behind = message.type == "snapshot";
      if (done || behind) return false;
      const auto body = ParseJson(message.data);
      return !body || take(EventOf(*body));
    };
    const std::string last = feed.after_event_id == 0 ? "" : std::to_string(feed.after_event_id);
    Status ended = client.Stream(path, last, on_message, go_on);
    if (std::exchange(behind, false) && ended) ended = ReadEvents(client, feed, take);
    if (done || !go_on()) return {};
    if (std::exchange(told, false)) retries = 0;
    // A server that stops ends its streams without a word.
    if (ended) ended = Fail("server_unreachable", "the server ends the stream again and again");
    const std::string& code = ended.error().code;
    const bool lost = code == "server_unreachable" || code == "stream_broken";
    if (!lost || ++retries > kRetriesMax) return ended;
    if (retries > 1) clock.SleepMicros(kRetryPauseUs);
  }
  return {};
}

Result<std::vector<store::LogChunk>> ReadLogs(HttpClient& client, std::int64_t execution_id,
                                              std::int64_t command_id, std::int64_t seen,
                                              std::int64_t limit, bool redact) {
  std::string path =
      fmt::format("/executions/{}/logs?format=json&limit={}&cursor={}", execution_id, limit, seen);
  if (command_id != 0) path += fmt::format("&command_id={}", command_id);
  if (!redact) path += "&redact=false";
  NOETL_ASSIGN(const Json page, client.Get(path));
  std::vector<store::LogChunk> chunks;
  for (const Json& item : page["chunks"].items()) {
    chunks.push_back({.execution_id = execution_id,
                      .command_id = AnyId(item["command_id"]),
                      .step = item["step"].ToString(),
                      .stream = item["stream"].ToString(),
                      .offset = item["offset"].AsInt(),
                      .text = item["text"].ToString(),
                      .created_at_us = TimeOf(item["created_at"])});
  }
  return chunks;
}

}  // namespace noetl::cli
