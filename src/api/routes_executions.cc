// Looking at runs: lists, details, status, events, children, an analysis.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/execution_changes.h"
#include "api/execution_json.h"
#include "api/handle.h"
#include "api/route.h"
#include "api/run_state.h"
#include "api/streams.h"
#include "base/json_io.h"
#include "base/redact.h"
#include "base/text.h"
#include "engine/result.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kListLimit = 50;
constexpr std::int64_t kListLimitMax = 200;
constexpr std::int64_t kOffsetMax = 5'000;
// Events of a detail without pages.
constexpr std::int64_t kDetailEvents = 2'000;
constexpr std::int64_t kPageSize = 100;
constexpr std::int64_t kPageSizeMin = 10;
constexpr std::int64_t kPageSizeMax = 500;
// Events of one type that are counted for pages.
constexpr std::int64_t kTypedEventsMax = 10'000;
constexpr std::int64_t kEventsLimitMax = 1'000;
// What `resolve=true` puts in the place of references, in all.
constexpr std::size_t kResolvedBytesMax = 4u << 20;
// Larger run variables are not part of a status.
constexpr std::size_t kVariablesBytesMax = 64u << 10;
constexpr std::int64_t kWaitMsDefault = 30'000;
constexpr std::int64_t kWaitMsMax = 60'000;

constexpr std::int64_t kNewest = std::numeric_limits<std::int64_t>::max();

// ---- lists

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

Result<store::ExecutionFilter> ReadFilter(const Call& call) {
  store::ExecutionFilter filter;
  filter.status = UpperCase(call.Query("status").value_or(""));
  // No run is ever pending: what clients call so is running.
  if (filter.status == "PENDING") filter.status = "RUNNING";
  filter.path_part = call.Query("path").value_or("");
  filter.label = call.Query("label").value_or("");
  NOETL_ASSIGN(filter.catalog_id, call.QueryId("catalog_id"));
  NOETL_ASSIGN(filter.version, call.QueryId("version"));
  NOETL_ASSIGN(filter.parent_execution_id, call.QueryId("parent_execution_id"));
  NOETL_ASSIGN(filter.started_after_us, call.QueryTimeUs("started_after"));
  NOETL_ASSIGN(filter.started_before_us, call.QueryTimeUs("started_before"));
  NOETL_ASSIGN(filter.before_id, call.QueryId("cursor"));
  NOETL_ASSIGN(filter.limit, call.QueryInt("limit", kListLimit, 1, kListLimitMax));
  NOETL_ASSIGN(filter.limit, call.QueryInt("page_size", filter.limit, 1, kListLimitMax));
  NOETL_ASSIGN(const std::int64_t page, call.QueryInt("page", 1, 1, kOffsetMax));
  NOETL_ASSIGN(filter.offset, call.QueryInt("offset", (page - 1) * filter.limit, 0, kOffsetMax));
  filter.offset = std::min(filter.offset, kOffsetMax);
  return filter;
}

struct RunPage {
  std::vector<Json> runs;
  Json next;  // the cursor of the next page, or null
};

Result<RunPage> ListPage(Call& call, store::ExecutionFilter filter, Ids ids) {
  const std::int64_t limit = filter.limit++;
  NOETL_ASSIGN(std::vector<store::ExecutionRow> rows, call.services().store->List(filter));
  RunPage page;
  if (std::ssize(rows) > limit) {
    rows.pop_back();
    page.next = IdText(rows.back().execution_id);
    call.AddHeader("X-Next-Cursor", page.next.ToString());
  }
  const std::int64_t now_us = call.services().clock->NowMicros();
  for (const store::ExecutionRow& row : rows)
    page.runs.push_back(ExecutionSummary(row, now_us, ids));
  return page;
}

Result<Json> ListExecutions(Call& call) {
  NOETL_ASSIGN(store::ExecutionFilter filter, ReadFilter(call));
  NOETL_ASSIGN(RunPage page, ListPage(call, std::move(filter), Ids::kNumbers));
  return Json::Array(std::move(page.runs));
}

Result<Json> ListChildren(Call& call) {
  NOETL_ASSIGN(const std::int64_t id, call.PathId("execution_id"));
  NOETL_TRY(FindRun(*call.services().store, id));
  store::ExecutionFilter filter;
  filter.parent_execution_id = id;
  NOETL_ASSIGN(filter.limit, call.QueryInt("limit", kListLimitMax, 1, kListLimitMax));
  NOETL_ASSIGN(filter.before_id, call.QueryId("cursor"));
  NOETL_ASSIGN(RunPage page, ListPage(call, std::move(filter), Ids::kTexts));
  return Json::Object({{"execution_id", std::to_string(id)},
                       {"children", Json::Array(std::move(page.runs))},
                       {"next_cursor", page.next}});
}

// ---- pages of events

struct Page {
  std::vector<engine::Event> events;
  Json pagination;  // null: there are no pages
};

Json Pagination(std::int64_t page, std::int64_t size, std::int64_t total) {
  const std::int64_t pages = (total + size - 1) / size;
  return Json::Object({{"page", page},
                       {"page_size", size},
                       {"total_events", total},
                       {"total_pages", pages},
                       {"has_next", page < pages},
                       {"has_prev", page > 1}});
}

// The seq that a client names by the id of an event.
Result<std::int64_t> SeqOf(const Call& call, std::int64_t execution_id, std::string_view name) {
  NOETL_ASSIGN(const std::int64_t event_id, call.QueryId(name));
  if (event_id == 0) return 0;
  NOETL_ASSIGN(const std::optional<std::int64_t> seq,
               FindSeq(*call.services().store, execution_id, event_id));
  if (seq) return *seq;
  return Fail("bad_request",
              fmt::format("`{}`: run {} has no event {}", name, execution_id, event_id));
}

// Newest first. Seqs have no gaps, so a page of all events is a range of them.
Result<Page> NumberedPage(const Call& call, const store::ExecutionRow& row,
                          std::string_view type_name) {
  const store::Store& store = *call.services().store;
  NOETL_ASSIGN(const std::int64_t page, call.QueryInt("page", 1, 1, 1'000'000));
  NOETL_ASSIGN(const std::int64_t size,
               call.QueryInt("page_size", kPageSize, kPageSizeMin, kPageSizeMax));
  Page result;
  if (type_name.empty()) {
    const std::int64_t before = row.head - (page - 1) * size + 1;
    if (before > 1) {
      NOETL_ASSIGN(result.events, store.ReadNewest(row.execution_id, before, "", size));
    }
    result.pagination = Pagination(page, size, row.head);
    return result;
  }
  NOETL_ASSIGN(std::vector<engine::Event> all,
               store.ReadNewest(row.execution_id, kNewest, type_name, kTypedEventsMax));
  const std::int64_t total = std::ssize(all);
  const std::int64_t first = std::min((page - 1) * size, total);
  const std::int64_t last = std::min(first + size, total);
  result.events.assign(std::make_move_iterator(all.begin() + first),
                       std::make_move_iterator(all.begin() + last));
  result.pagination = Pagination(page, size, total);
  return result;
}

Result<Page> DetailEvents(const Call& call, const store::ExecutionRow& row) {
  const store::Store& store = *call.services().store;
  const std::string_view type_name = call.Query("event_type").value_or("");
  const bool paged = call.Query("page").has_value() || call.Query("page_size").has_value();
  if (call.Query("since_event_id")) {
    NOETL_ASSIGN(const std::int64_t after, SeqOf(call, row.execution_id, "since_event_id"));
    NOETL_ASSIGN(const std::int64_t size,
                 call.QueryInt("page_size", kPageSizeMax, kPageSizeMin, kPageSizeMax));
    NOETL_ASSIGN(EventPage page, ReadForward(store, row.execution_id, after, type_name, size));
    const std::int64_t total = std::max<std::int64_t>(row.head - after, 0);
    Json pagination = paged ? Pagination(1, size, total).With("has_next", page.more) : Json();
    return Page{std::move(page.events), std::move(pagination)};
  }
  if (paged) return NumberedPage(call, row, type_name);
  NOETL_ASSIGN(std::vector<engine::Event> newest,
               store.ReadNewest(row.execution_id, kNewest, type_name, kDetailEvents));
  std::ranges::reverse(newest);
  return Page{std::move(newest), Json()};
}

// ---- detail

// Puts stored bodies in the place of their references while there is room for them.
class Resolver {
 public:
  explicit Resolver(const store::Store& store) : store_(store) {}

  Json Resolve(const Json& result) {
    if (const Json& inner = result["context"]["result"]; inner["reference"].is_object())
      return result.With("context", result["context"].With("result", Replace(inner)));
    return result["reference"].is_object() ? Replace(result) : result;
  }

 private:
  Json Replace(const Json& holder) {
    const Json& ref = holder["reference"]["ref"];
    if (!ref.is_string() || bytes_ >= kResolvedBytesMax) return holder;
    const Result<Json> body = store_.Load(ref.AsString());
    if (!body) return holder;
    const std::size_t size = JsonSize(*body);
    if (bytes_ + size > kResolvedBytesMax) return holder;
    bytes_ += size;
    return holder.Without("reference").With("context", *body);
  }

  const store::Store& store_;
  std::size_t bytes_ = 0;
};

Result<Json> ShownEvents(const Call& call, std::vector<engine::Event> events,
                         const EventForm& form) {
  NOETL_ASSIGN(const bool resolve, call.QueryBool("resolve", false));
  Resolver resolver(*call.services().store);
  std::vector<Json> shown;
  for (engine::Event& event : events) {
    if (resolve && form.payload) event.result = resolver.Resolve(event.result);
    shown.push_back(EventBody(event, form));
  }
  return Json::Array(std::move(shown));
}

// The terminal event; late events of workers may have come after it.
Result<std::optional<engine::Event>> FindEnd(const store::Store& store,
                                             const store::ExecutionRow& row) {
  if (!row.terminal) return std::nullopt;
  NOETL_ASSIGN(std::optional<engine::Event> last,
               store.FindEvent(row.execution_id, row.last_event_id));
  if (last && engine::IsTerminal(last->type)) return last;
  for (const engine::EventTypeInfo& info : engine::EventTypes()) {
    if (!engine::IsTerminal(info.type)) continue;
    NOETL_ASSIGN(std::vector<engine::Event> found,
                 store.ReadNewest(row.execution_id, kNewest, info.name, 1));
    if (!found.empty()) return std::move(found.front());
  }
  return std::nullopt;
}

Result<Json> GetExecution(Call& call) {
  const store::Store& store = *call.services().store;
  NOETL_ASSIGN(const std::int64_t id, call.PathId("execution_id"));
  NOETL_ASSIGN(const bool redact, WantsRedaction(call));
  NOETL_ASSIGN(const bool with_events, call.QueryBool("include_events", true));
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(store, id));
  NOETL_ASSIGN(const std::vector<engine::Event> first, store.ReadEvents(id, 0, 1));
  const auto shown = [&](const Json& value) { return redact ? Redact(value) : value; };
  Json body = ExecutionSummary(row, call.services().clock->NowMicros(), Ids::kNumbers);
  body = body.With("workload", first.empty() ? Json() : shown(first[0].context["workload"]));
  NOETL_ASSIGN(const std::optional<engine::Event> end, FindEnd(store, row));
  body = body.With("result", end ? shown(RunResultOf(*end)) : Json());
  if (end && end->meta["soft_errors"].is_array())
    body = body.With("soft_errors", shown(end->meta["soft_errors"]));
  if (!row.terminal) {
    NOETL_ASSIGN(const std::optional<engine::State> state, FoldRun(store, row));
    if (state) body = body.With("progress", ProgressOf(CountSteps(*state), false));
  }
  body = body.With("events_endpoint", fmt::format("/api/executions/{}/events", id));
  if (!with_events) return body.With("events", Json::Array());
  NOETL_ASSIGN(Page page, DetailEvents(call, row));
  NOETL_ASSIGN(Json events, ShownEvents(call, std::move(page.events),
                                        {.ids = Ids::kNumbers, .redact = redact, .payload = true}));
  body = body.With("events", std::move(events));
  return page.pagination.is_null() ? body : body.With("pagination", page.pagination);
}

// ---- events by cursor

Result<Json> ListEvents(Call& call) {
  const store::Store& store = *call.services().store;
  NOETL_ASSIGN(const std::int64_t id, call.PathId("execution_id"));
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(store, id));
  EventForm form = {.ids = Ids::kTexts};
  NOETL_ASSIGN(form.redact, WantsRedaction(call));
  JsonObjectBuilder body;
  body.Add("execution_id", std::to_string(id)).Add("path", row.path).Add("status", row.status);
  if (call.Query("page") || call.Query("page_size")) {
    NOETL_ASSIGN(form.payload, call.QueryBool("include_payload", true));
    NOETL_ASSIGN(Page page, NumberedPage(call, row, call.Query("event_type").value_or("")));
    NOETL_ASSIGN(Json events, ShownEvents(call, std::move(page.events), form));
    return body.Add("events", std::move(events))
        .Add("next_cursor", Json())
        .Add("pagination", page.pagination)
        .Build();
  }
  NOETL_ASSIGN(form.payload, call.QueryBool("include_payload", false));
  const std::string_view order = call.Query("order").value_or("asc");
  if (order != "asc" && order != "desc") return Fail("bad_request", "`order` must be asc or desc");
  const std::string_view type_name = call.Query("event_type").value_or("");
  NOETL_ASSIGN(const std::int64_t limit, call.QueryInt("limit", 100, 1, kEventsLimitMax));
  NOETL_ASSIGN(const std::int64_t after, SeqOf(call, id, "after"));
  NOETL_ASSIGN(EventPage page,
               order == "asc"
                   ? ReadForward(store, id, after, type_name, limit)
                   : ReadBackward(store, id, after == 0 ? kNewest : after, type_name, limit));
  NOETL_ASSIGN(Json events, ShownEvents(call, std::move(page.events), form));
  return body.Add("events", std::move(events))
      .Add("next_cursor", page.more ? IdText(page.cursor) : Json())
      .Build();
}

// ---- status

Result<Json> StatusOfRun(const Services& services, std::int64_t id) {
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(*services.store, id));
  NOETL_ASSIGN(const std::optional<engine::State> state, FoldRun(*services.store, row));
  StepCounts counts;
  Json variables;
  if (state) {
    counts = CountSteps(*state);
    if (JsonSize(state->ctx) <= kVariablesBytesMax) variables = Redact(state->ctx);
  }
  return StatusBody(row, counts, std::move(variables), services.clock->NowMicros());
}

Result<Json> GetStatus(Call& call) {
  NOETL_ASSIGN(const std::int64_t id, call.PathId("execution_id"));
  return StatusOfRun(call.services(), id);
}

// The state of a run that has ended, for somebody who waits for it: the fold may take as long as that
// of a run that goes on.
Result<engine::State> StateAtEnd(const store::Store& store, store::ExecutionRow row) {
  row.terminal = false;
  NOETL_ASSIGN(std::optional<engine::State> state, FoldRun(store, row));
  if (!state) return Fail("too_large", "the run has too many events to read one step's result");
  return *std::move(state);
}

// Adds what a parent in another process gets when its child has ended: the result of the step it asked
// for, or of the run when it names none or one that did not run.
Result<Json> WithResult(const store::Store& store, Json status, std::int64_t id,
                        std::string_view step_name, bool redact) {
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(store, id));
  NOETL_ASSIGN(const std::optional<engine::Event> end, FindEnd(store, row));
  if (!end) return status;
  // A list of names alone would tell the parent nothing.
  if (const Json& first = end->meta["first_error"]; row.status == "FAILED" && first.is_string()) {
    status = status.With("error", RedactText(fmt::format("{}: {}", end->error, first.AsString())));
  }
  if (row.status != "COMPLETED") return status;
  Json data;
  Json reference;
  if (!step_name.empty()) {
    NOETL_ASSIGN(const engine::State state, StateAtEnd(store, row));
    const engine::StepState* step = state.Find(step_name);
    if (step && step->result) {
      reference = step->result->reference;
      if (reference.is_null()) {
        NOETL_ASSIGN(data, engine::RecordedPayloadOf(*step->result, nullptr));
      }
    } else {
      status = status.With("step_missing", true);
    }
  }
  if (data.is_null() && reference.is_null()) {
    data = end->result["context"]["data"];
    reference = end->result["reference"];
  }
  if (!reference.is_null()) return status.With("reference", reference);
  return status.With("data", redact ? Redact(data) : data);
}

Status WaitForEnd(const CallPtr& call) {
  NOETL_ASSIGN(const std::int64_t id, call->PathId("execution_id"));
  NOETL_ASSIGN(const std::int64_t timeout_ms,
               call->QueryInt("timeout_ms", kWaitMsDefault, 0, kWaitMsMax));
  NOETL_ASSIGN(const bool redact, WantsRedaction(*call));
  NOETL_TRY(FindRun(*call->services().store, id));
  return call->services().streams->WaitForEnd(id, timeout_ms, [call, id, redact] {
    Result<Json> body = StatusOfRun(call->services(), id);
    const std::optional<std::string_view> step = call->Query("return_step");
    if (body && step) {
      body = WithResult(*call->services().store, *std::move(body), id, *step, redact);
    }
    if (!body) return call->Refuse(body.error());
    call->Answer(*std::move(body));
  });
}

Result<Json> CheckCancellation(Call& call) {
  NOETL_ASSIGN(const std::int64_t id, call.PathId("execution_id"));
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(*call.services().store, id));
  const bool cancelled = row.status == "CANCELLED";
  return Json::Object({{"execution_id", id},
                       {"is_cancelled", cancelled},
                       {"cancelled", cancelled},
                       {"status", row.status},
                       {"completed", row.status == "COMPLETED"},
                       {"failed", row.status == "FAILED"}});
}

// ---- analysis

Result<Json> Analyze(Call& call) {
  const store::Store& store = *call.services().store;
  const Json body = call.body().is_object() ? call.body() : Json::Object();
  NOETL_ASSIGN(const std::int64_t id, call.PathId("execution_id"));
  NOETL_ASSIGN(const std::int64_t max, OptionalInt(body, "max_events", 2'000, 100, 10'000));
  AnalyzeOptions options;
  NOETL_ASSIGN(options.sample, OptionalInt(body, "event_sample_size", 50, 0, 500));
  NOETL_ASSIGN(const bool content, OptionalBool(body, "include_playbook_content", false));
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(store, id));
  if (content) {
    NOETL_ASSIGN(const std::optional<store::CatalogEntry> entry, store.FindEntry(row.catalog_id));
    if (entry) options.playbook = entry->content;
  }
  NOETL_ASSIGN(std::vector<engine::Event> events, store.ReadNewest(id, kNewest, "", max));
  std::ranges::reverse(events);
  return AnalyzeRun(row, events, options, call.services().clock->NowMicros());
}

// ---- the table

constexpr Parameter kRedactQuery = {"redact", "boolean",
                                    "false shows credentials; workers and administrators only"};

constexpr Parameter kListQuery[] = {
    {"status", "string", "RUNNING, COMPLETED, FAILED or CANCELLED"},
    {"path", "string", "a part of the playbook's path, in any case"},
    {"label", "string", "key, or key=value, of the playbook's labels"},
    {"catalog_id", "integer", "runs of this catalog entry"},
    {"version", "integer", "runs of this version"},
    {"parent_execution_id", "integer", "runs that this one started"},
    {"started_after", "timestamp", "started at or after this time"},
    {"started_before", "timestamp", "started before this time"},
    {"cursor", "integer", "X-Next-Cursor of the page before"},
    {"limit", "integer", "1 to 200, default 50"},
    {"offset", "integer", "0 to 5000"},
    {"page", "integer", "from 1, instead of offset"},
    {"page_size", "integer", "instead of limit"},
};
constexpr Parameter kDetailQuery[] = {
    {"page", "integer", "from 1; events come newest first"},
    {"page_size", "integer", "10 to 500, default 100"},
    {"since_event_id", "integer", "only events after this one, in order"},
    {"event_type", "string", "only events of this type"},
    {"include_events", "boolean", "false leaves the events out"},
    {"resolve", "boolean", "true shows stored results in place, 4 MiB in all"},
    kRedactQuery,
};
constexpr Parameter kEventsQuery[] = {
    {"after", "integer", "next_cursor of the page before, or the id of an event"},
    {"limit", "integer", "1 to 1000, default 100"},
    {"event_type", "string", "only events of this type"},
    {"order", "string", "asc (default) or desc"},
    {"include_payload", "boolean", "true adds context, result and meta"},
    {"page", "integer", "from 1, newest first, instead of a cursor"},
    {"page_size", "integer", "10 to 500"},
    {"resolve", "boolean", "true shows stored results in place, 4 MiB in all"},
    kRedactQuery,
};
constexpr Parameter kWaitQuery[] = {
    {"timeout_ms", "integer", "0 to 60000, default 30000; then the status is that of the moment"},
    {"return_step", "string",
     "adds the result of this step to the status of a run that has COMPLETED: `data` or "
     "`reference`; of the run itself when it is empty or (`step_missing`) the step did not run"},
    kRedactQuery,
};
constexpr Parameter kChildrenQuery[] = {{"limit", "integer", "1 to 200"},
                                        {"cursor", "integer", "next_cursor of the page before"}};

constexpr std::string_view kStatusExample =
    R"({"execution_id":325481002387804160,"path":"demo/hello","version":1,"status":"RUNNING",)"
    R"("current_step":"start","progress":{"total_steps":1,"completed_steps":0,)"
    R"("running_steps":1,"failed_steps":0,"percent":0},"is_cancelled":false,"completed":false,)"
    R"("failed":false,"completion_inferred":false,"completed_steps":[],"error":null,)"
    R"("variables":{},"start_time":"2026-06-18T12:00:00.100000Z","end_time":null,)"
    R"("duration_seconds":0.2,"duration_human":"200ms","event_count":4})";

constexpr Route kRoutes[] = {
    {.method = "GET",
     .path = "/api/executions",
     .family = "executions",
     .summary = "Runs, newest first; the header X-Next-Cursor leads to the next page",
     .scope = Scope::kViewer,
     .handle = Now<ListExecutions>,
     .query = kListQuery,
     .response = R"([{"execution_id":325481002387804160,"catalog_id":652113904210427905,)"
                 R"("path":"demo/hello","version":1,"status":"COMPLETED",)"
                 R"("started_at":"2026-06-18T12:00:00.100000Z",)"
                 R"("completed_at":"2026-06-18T12:00:02.400000Z","duration_seconds":2.3,)"
                 R"("duration_human":"2.3s","event_count":9,"progress":100,"error":null,)"
                 R"("parent_execution_id":null}])"},
    {.method = "GET",
     .path = "/api/executions/{execution_id}",
     .family = "executions",
     .summary = "One run with its workload, result and events",
     .scope = Scope::kViewer,
     .handle = Now<GetExecution>,
     .query = kDetailQuery,
     .response = R"({"execution_id":325481002387804160,"path":"demo/hello","status":"RUNNING",)"
                 R"("started_at":"2026-06-18T12:00:00.100000Z","completed_at":null,)"
                 R"("parent_execution_id":null,"workload":{"who":"ann"},"result":null,"events":[)"
                 R"({"event_id":325481002390000000,"event_type":"playbook_started",)"
                 R"("node_name":"demo/hello","status":"STARTED",)"
                 R"("created_at":"2026-06-18T12:00:00.100000Z","result":null,"error":null}]})"},
    {.method = "GET",
     .path = "/api/executions/{execution_id}/status",
     .family = "executions",
     .summary = "How far a run is",
     .scope = Scope::kViewer,
     .handle = Now<GetStatus>,
     .response = kStatusExample},
    {.method = "GET",
     .path = "/api/executions/{execution_id}/wait",
     .family = "executions",
     .summary = "The status of a run, once it has ended or the time is over",
     .scope = Scope::kViewer,
     .handle = Handled<WaitForEnd>,
     .query = kWaitQuery,
     .response = kStatusExample,
     .waits = true},
    {.method = "GET",
     .path = "/api/executions/{execution_id}/events",
     .family = "executions",
     .summary = "Events of a run by cursor",
     .scope = Scope::kViewer,
     .handle = Now<ListEvents>,
     .query = kEventsQuery,
     .response = R"({"execution_id":"325481002387804160","path":"demo/hello",)"
                 R"("status":"RUNNING","events":[{"event_id":"325481002390000000",)"
                 R"("event_type":"playbook_started","node_name":"demo/hello",)"
                 R"("status":"STARTED"}],"next_cursor":"325481002390000000"})"},
    {.method = "GET",
     .path = "/api/executions/{execution_id}/children",
     .family = "executions",
     .summary = "Runs that a run has started",
     .scope = Scope::kViewer,
     .handle = Now<ListChildren>,
     .query = kChildrenQuery,
     .response = R"({"execution_id":"325481002387804160","children":[],"next_cursor":null})"},
    {.method = "GET",
     .path = "/api/executions/{execution_id}/cancellation-check",
     .family = "executions",
     .summary = "Whether a run was cancelled",
     .scope = Scope::kViewer,
     .handle = Now<CheckCancellation>,
     .response = R"({"execution_id":325481002387804160,"is_cancelled":false,)"
                 R"("cancelled":false,"status":"RUNNING","completed":false,"failed":false})"},
    {.method = "POST",
     .path = "/api/executions/{execution_id}/cancel",
     .family = "executions",
     .summary = "Cancel a run, and by default the runs it has started",
     .scope = Scope::kOperator,
     .body = BodyKind::kOptional,
     .body_max = kBodyDefault,
     .handle = Handled<CancelExecution>,
     .request = R"({"reason":"operator","cascade":true})",
     .response = R"({"execution_id":325481002387804160,"status":"cancelled",)"
                 R"("cancelled_executions":["325481002387804160"],)"
                 R"("message":"cancelled 1 run"})"},
    {.method = "POST",
     .path = "/api/executions/{execution_id}/stop",
     .family = "executions",
     .summary = "The same as cancel",
     .scope = Scope::kOperator,
     .body = BodyKind::kOptional,
     .body_max = kBodyDefault,
     .handle = Handled<CancelExecution>,
     .response = R"({"execution_id":325481002387804160,"status":"cancelled",)"
                 R"("cancelled_executions":["325481002387804160"],)"
                 R"("message":"cancelled 1 run"})"},
    {.method = "POST",
     .path = "/api/executions/{execution_id}/finalize",
     .family = "executions",
     .summary = "End a run by hand as COMPLETED or FAILED",
     .scope = Scope::kAdmin,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Handled<FinalizeExecution>,
     .request = R"({"status":"FAILED","error":"stuck"})",
     .response = R"({"execution_id":325481002387804160,"status":"FAILED","message":"finalized"})"},
    {.method = "POST",
     .path = "/api/executions/cleanup",
     .family = "executions",
     .summary = "Cancel runs that nobody works on and in which nothing has happened for a while",
     .scope = Scope::kOperator,
     .body = BodyKind::kOptional,
     .body_max = kBodyDefault,
     .handle = Handled<CleanupExecutions>,
     .request = R"({"older_than_minutes":5,"dry_run":true})",
     .response = R"({"cancelled_count":1,"execution_ids":[325481002387804160],)"
                 R"("message":"1 run would be cancelled"})"},
    {.method = "POST",
     .path = "/api/executions/{execution_id}/analyze",
     .family = "executions",
     .summary = "What stands out in a run: slow nodes, retries, failures",
     .scope = Scope::kViewer,
     .body = BodyKind::kOptional,
     .body_max = kBodyDefault,
     .handle = Now<Analyze>,
     .request = R"({"max_events":2000,"event_sample_size":50})",
     .response = R"({"execution_id":"325481002387804160","summary":{"event_count":9},)"
                 R"("findings":[],"recommendations":[],"event_sample":[],"ai_prompt":"...",)"
                 R"("playbook":{"path":"demo/hello","version":1},"cloud":null})"},
};

}  // namespace

std::span<const Route> ExecutionRoutes() { return kRoutes; }

}  // namespace noetl::api
