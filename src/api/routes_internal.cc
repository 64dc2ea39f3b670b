// What other parts of a cluster ask for: copies of events going out and coming in, care of the store,
// ends of containers. All of it needs the internal token.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/event_envelope.h"
#include "api/event_request.h"
#include "api/handle.h"
#include "api/housekeeping.h"
#include "api/outbox_delay.h"
#include "api/route.h"
#include "base/text.h"
#include "engine/fold.h"
#include "engine/state.h"
#include "store/store.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kClaimMax = 1000;
constexpr std::size_t kMarkedMax = 1000;
constexpr std::size_t kErrorCharactersMax = 2000;
constexpr std::int64_t kDelayDefaultS = 300;
constexpr std::int64_t kDelayMaxS = 86'400;
constexpr std::size_t kProjectedMax = 1000;
constexpr std::size_t kAdvancedMax = 500;
// Events that one request folds in all: about a second of work.
constexpr std::int64_t kFoldedMax = 200'000;
constexpr std::int64_t kFoldPage = 1000;
constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kMinuteUs = 60 * kSecondUs;
constexpr std::int64_t kDayUs = 86'400 * kSecondUs;
constexpr std::int64_t kDaysMax = 36'500;
constexpr std::int64_t kMinutesMax = kDaysMax * 1440;
// Runs that one request removes: they hold the store's writer while they go.
constexpr std::int64_t kPurgeDefault = 500;
constexpr std::int64_t kPurgeMax = 5000;
constexpr std::string_view kWorkerPool = "worker_pool";

// ---- outbox

std::int64_t OutboxLeaseUs(const Services& services) {
  return services.settings->DurationMs("NOETL_OUTBOX_LEASE_SECONDS") * 1000;
}

Result<Json> ClaimOutbox(Call& call) {
  NOETL_TRY(NeedMap(call.body()));
  const Services& services = call.services();
  NOETL_ASSIGN(
      const std::int64_t asked,
      OptionalInt(call.body(), "limit", services.settings->Int("NOETL_OUTBOX_PUBLISHER_BATCH_SIZE"),
                  INT64_MIN, INT64_MAX));
  const std::int64_t now_us = services.clock->NowMicros();
  NOETL_ASSIGN(const auto claimed,
               services.store->ClaimOutbox(now_us, OutboxLeaseUs(services),
                                           std::clamp<std::int64_t>(asked, 1, kClaimMax)));
  std::vector<Json> rows;
  std::vector<std::int64_t> gone;
  for (const store::OutboxRow& row : claimed) {
    NOETL_ASSIGN(const auto event, services.store->FindEvent(row.execution_id, row.event_id));
    if (!event) {
      gone.push_back(row.outbox_id);
      continue;
    }
    rows.push_back(Json::Object({{"outbox_id", row.outbox_id},
                                 {"event_id", row.event_id},
                                 {"execution_id", row.execution_id},
                                 {"subject", fmt::format("noetl.events.{}", row.event_type)},
                                 {"payload", EventEnvelope(*event)},
                                 {"payload_codec", "json"},
                                 {"attempts", row.attempts}}));
  }
  // Their run was purged meanwhile: there is nothing left to publish.
  if (!gone.empty()) NOETL_TRY(services.store->MarkPublished(gone, now_us));
  const std::size_t count = rows.size();
  return Json::Object({{"rows", Json::Array(std::move(rows))}, {"claimed", count}});
}

Result<std::vector<std::int64_t>> ReadIds(const Json& body, std::string_view name,
                                          std::size_t max) {
  const Json& list = body[name];
  if (!list.is_array()) return Fail("invalid", fmt::format("`{}` must be a list of ids", name));
  if (list.size() > max) {
    return Fail("invalid",
                fmt::format("`{}` has {} ids; at most {} are taken", name, list.size(), max));
  }
  std::vector<std::int64_t> ids;
  for (const Json& item : list.items()) {
    NOETL_ASSIGN(const std::int64_t id, IdMember(Json::Object({{name, item}}), name));
    ids.push_back(id);
  }
  return ids;
}

Result<Json> MarkPublished(Call& call) {
  NOETL_ASSIGN(const auto ids, ReadIds(call.body(), "outbox_ids", kMarkedMax));
  if (ids.empty()) return Fail("bad_request", "`outbox_ids` is empty");
  const Services& services = call.services();
  NOETL_ASSIGN(const std::int64_t marked,
               services.store->MarkPublished(ids, services.clock->NowMicros()));
  return Json::Object({{"marked", marked}});
}

// The first characters of valid UTF-8.
std::string_view FirstCharacters(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  while (at < text.size() && count > 0) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    --count;
  }
  return text.substr(0, at);
}

Result<Json> MarkFailed(Call& call) {
  const Json& body = call.body();
  NOETL_ASSIGN(const std::int64_t id, IdMember(body, "outbox_id"));
  NOETL_ASSIGN(const std::string error, OptionalText(body, "error"));
  if (error.empty()) return Fail("bad_request", "`error` is empty");
  NOETL_ASSIGN(const std::int64_t attempts, OptionalInt(body, "attempts", 1, INT32_MIN, INT32_MAX));
  NOETL_ASSIGN(const std::int64_t max_delay,
               OptionalInt(body, "max_delay_seconds", kDelayDefaultS, 1, kDelayMaxS));
  const std::int64_t delay = OutboxDelaySeconds(attempts, max_delay);
  const Services& services = call.services();
  NOETL_ASSIGN(const bool marked,
               services.store->MarkFailed(id, FirstCharacters(error, kErrorCharactersMax),
                                          services.clock->NowMicros() + delay * kSecondUs));
  return Json::Object({{"marked", marked}, {"available_at_in", delay}});
}

Result<Json> CountOutbox(Call& call) {
  const Services& services = call.services();
  NOETL_ASSIGN(const std::int64_t pending,
               services.store->CountOutbox(services.clock->NowMicros(), OutboxLeaseUs(services)));
  return Json::Object({{"pending", pending}});
}

// ---- events that come from elsewhere

constexpr std::string_view kProjected = "projected";

// One request with rows of events: which go to their runs, and what is known of the others.
class Intake {
 public:
  explicit Intake(CallPtr call, std::string_view counted)
      : call_(std::move(call)), counted_(counted) {}

  void Reject(const Json& event, std::string_view reason) {
    rejected_.push_back(Json::Object({{"event_id", event["event_id"]}, {"reason", reason}}));
  }

  // Sorts one event in: to be posted, a repetition, or refused. An error is one of the store.
  Status Add(const Json& item, Result<EventRequest> request) {
    if (!request) return Reject(item, request.error().message), Status();
    const std::int64_t event_id = request->posted.event.event_id;
    NOETL_ASSIGN(const bool known, IsKnown(request->execution_id));
    if (!known) {
      Reject(item, fmt::format("there is no run {}", request->execution_id));
      return {};
    }
    if (event_id != 0) {
      const store::Store& store = *call_->services().store;
      NOETL_ASSIGN(const auto stored, store.FindEvent(request->execution_id, event_id));
      if (stored || !seen_.insert({request->execution_id, event_id}).second) {
        ++duplicates_;
        return {};
      }
    }
    if (IsServerOwned(request->posted.event.type_name)) {
      Reject(item, fmt::format("events of type '{}' are written by the server only",
                               request->posted.event.type_name));
      return {};
    }
    requests_.push_back(*std::move(request));
    return {};
  }

  // Posts what is to be posted and answers when all of it is durable.
  static void Finish(std::shared_ptr<Intake> intake) {
    for (const EventRequest& request : intake->requests_) {
      intake->ids_.push_back(request.posted.event.event_id);
    }
    conductor::Conductor& conductor = *intake->call_->services().conductor;
    PostEvents(conductor, std::move(intake->requests_),
               [intake](PostOutcome outcome) { intake->Answer(outcome); });
  }

 private:
  Result<bool> IsKnown(std::int64_t execution_id) {
    if (execution_id == 0) return false;
    if (const auto found = runs_.find(execution_id); found != runs_.end()) return found->second;
    NOETL_ASSIGN(const auto row, call_->services().store->Find(execution_id));
    return runs_[execution_id] = row.has_value();
  }

  void Answer(const PostOutcome& outcome) {
    std::int64_t stored = 0;
    for (std::size_t i = 0; i < outcome.events.size(); ++i) {
      const EventOutcome& event = outcome.events[i];
      const bool own = ids_[i] == 0 || event.event_id == ids_[i];
      if (event.code.empty()) {
        ++(own ? stored : duplicates_);
        continue;
      }
      // Nothing is wrong with the events: the whole request may be sent again.
      const int status = StatusOf(event.code);
      if (status == 429 || status >= 500) return call_->Refuse({event.code, event.message});
      Reject(Json::Object({{"event_id", IdOrNull(ids_[i])}}), event.message);
    }
    ServerMetrics& metrics = MetricsOf(call_->services());
    const bool projected = counted_ == kProjected;
    (projected ? metrics.events_projected : metrics.events_materialized)
        .Add({}, static_cast<double>(stored));
    if (projected) metrics.events_projected_duplicates.Add({}, static_cast<double>(duplicates_));
    JsonObjectBuilder answer;
    answer.Add(counted_, stored).Add("duplicates", duplicates_).Add("quarantined", 0);
    answer.Add("rejected", Json::Array(std::move(rejected_)));
    call_->Answer(answer.Build());
  }

  CallPtr call_;
  std::string_view counted_;
  std::vector<EventRequest> requests_;
  std::vector<std::int64_t> ids_;  // as they were sent
  std::set<std::pair<std::int64_t, std::int64_t>> seen_;
  std::map<std::int64_t, bool> runs_;
  std::vector<Json> rejected_;
  std::int64_t duplicates_ = 0;
};

// Reads every item with `read`, then posts.
template <typename Read>
void TakeIn(CallPtr call, const Json& list, std::string_view counted, Read read) {
  if (!list.is_array()) return call->Refuse(422, "invalid", "the events must be a list");
  if (list.size() > kProjectedMax) {
    return call->Refuse(
        422, "invalid",
        fmt::format("{} events in one request; at most {} are taken", list.size(), kProjectedMax));
  }
  auto intake = std::make_shared<Intake>(call, counted);
  for (const Json& item : list.items()) {
    if (const Status added = intake->Add(item, read(item)); !added) {
      return call->Refuse(added.error());
    }
  }
  Intake::Finish(std::move(intake));
}

void ProjectEvents(CallPtr call) {
  const Json& list = call->body()["events"];
  if (list.is_array() && list.empty()) return call->Refuse(400, "bad_request", "`events` is empty");
  const std::int64_t now_us = call->services().clock->NowMicros();
  TakeIn(call, list, kProjected, [&](const Json& item) { return ReadEnvelope(item, now_us); });
}

void MaterializeEvents(CallPtr call) {
  const EventDefaults defaults{.now_us = call->services().clock->NowMicros()};
  TakeIn(call, call->body(), "materialized",
         [&](const Json& item) { return ReadEventRequest(item, defaults); });
}

// ---- read model

// The state that the store can rebuild. `budget` is what the request may still fold; `from_snapshot`
// tells whether not all events had to be.
Result<engine::State> Rebuild(const store::Store& store, std::int64_t execution_id,
                              std::int64_t& budget, bool& from_snapshot) {
  engine::State state;
  NOETL_ASSIGN(const auto snapshot, store.LoadSnapshot(execution_id));
  if (snapshot) {
    // One that cannot be read is as good as none.
    if (auto read = engine::ReadSnapshot(snapshot->text)) state = *std::move(read);
    from_snapshot = state.seq > 0;
  }
  while (true) {
    NOETL_ASSIGN(const auto events, store.ReadEvents(execution_id, state.seq, kFoldPage));
    for (const engine::Event& event : events) engine::Fold(state, event);
    budget -= std::ssize(events);
    if (std::ssize(events) < kFoldPage) return state;
    if (budget < 0) {
      return Fail("too_large", "too many events for one request: ask for fewer runs at once");
    }
  }
}

Result<Json> AdvanceProjection(Call& call) {
  NOETL_ASSIGN(const auto ids, ReadIds(call.body(), "execution_ids", kAdvancedMax));
  std::set<std::int64_t> seen;
  std::vector<Json> advanced;
  std::vector<Json> failed;
  std::int64_t budget = kFoldedMax;
  for (const std::int64_t id : ids) {
    if (!seen.insert(id).second) continue;
    bool snapshot = false;
    const Result<engine::State> state = Rebuild(*call.services().store, id, budget, snapshot);
    if (!state || state->seq > 0) {
      ServerMetrics& metrics = MetricsOf(call.services());
      metrics.state_build.Add({snapshot ? "snapshot" : "full", state ? "ok" : "error"});
      if (state && !snapshot) metrics.state_build_event_scans.Add();
    }
    if (state && state->seq > 0) {
      advanced.push_back(Json::Object(
          {{"execution_id", id}, {"version", state->highest_event_id}, {"events", state->seq}}));
      continue;
    }
    const std::string error = !state ? state.error().message : std::string("no events");
    failed.push_back(Json::Object({{"execution_id", id}, {"error", error}}));
  }
  MetricsOf(call.services()).projection_advanced.Add({}, static_cast<double>(advanced.size()));
  return Json::Object(
      {{"advanced", Json::Array(std::move(advanced))}, {"failed", Json::Array(std::move(failed))}});
}

// ---- cleaning up

struct Cleanup {
  std::int64_t runtime_minutes = 60;
  std::int64_t event_days = 0;
  std::int64_t limit = kPurgeDefault;
  bool dry_run = false;
};

Result<Cleanup> ReadCleanup(const Json& body) {
  Cleanup cleanup;
  if (body.is_null()) return cleanup;
  NOETL_TRY(NeedMap(body));
  // Commands go with their run; the setting is checked and has no effect of its own.
  NOETL_TRY(OptionalInt(body, "command_retention_days", 7, -kDaysMax, kDaysMax));
  NOETL_ASSIGN(cleanup.runtime_minutes,
               OptionalInt(body, "runtime_stale_minutes", 60, -kMinutesMax, kMinutesMax));
  NOETL_ASSIGN(cleanup.event_days,
               OptionalInt(body, "event_retention_days", 0, -kDaysMax, kDaysMax));
  NOETL_ASSIGN(cleanup.limit, OptionalInt(body, "limit", kPurgeDefault, 1, kPurgeMax));
  NOETL_ASSIGN(cleanup.dry_run, OptionalBool(body, "dry_run", false));
  return cleanup;
}

// Workers whose last sign of life is older. Heartbeats are newer in memory than in the store.
Result<std::int64_t> PurgeWorkers(conductor::Fleet& fleet, std::int64_t before_us, bool dry_run) {
  NOETL_ASSIGN(const auto rows, fleet.List(kWorkerPool, "", ""));
  std::int64_t purged = 0;
  for (const store::RuntimeRow& row : rows) {
    if (row.heartbeat_us >= before_us) continue;
    bool gone = true;
    if (!dry_run) {
      NOETL_ASSIGN(gone, fleet.Deregister(row.kind, row.name));
    }
    purged += gone ? 1 : 0;
  }
  return purged;
}

// How many runs a purge would remove, at most `limit`.
Result<std::int64_t> CountEnded(const store::Store& store, std::int64_t before_us,
                                std::int64_t limit) {
  std::int64_t count = 0;
  for (const std::string_view status : {"COMPLETED", "FAILED", "CANCELLED"}) {
    store::ExecutionFilter filter{.status = std::string(status), .started_before_us = before_us};
    filter.limit = kFoldPage;
    while (count < limit) {
      NOETL_ASSIGN(const auto rows, store.List(filter));
      for (const store::ExecutionRow& row : rows) {
        count += row.ended_at_us != 0 && row.ended_at_us < before_us ? 1 : 0;
        filter.before_id = row.execution_id;
      }
      if (std::ssize(rows) < kFoldPage) break;
    }
  }
  return std::min(count, limit);
}

Result<Json> Purge(Call& call) {
  NOETL_ASSIGN(const Cleanup cleanup, ReadCleanup(call.body()));
  const Services& services = call.services();
  store::Store& store = *services.store;
  const std::int64_t now_us = services.clock->NowMicros();
  std::int64_t runtimes = 0;
  if (cleanup.runtime_minutes > 0) {
    NOETL_ASSIGN(runtimes,
                 PurgeWorkers(services.conductor->fleet(),
                              now_us - cleanup.runtime_minutes * kMinuteUs, cleanup.dry_run));
  }
  std::int64_t runs = 0;
  if (cleanup.event_days > 0) {
    const std::int64_t before_us = now_us - cleanup.event_days * kDayUs;
    NOETL_ASSIGN(runs, cleanup.dry_run ? CountEnded(store, before_us, cleanup.limit)
                                       : store.PurgeEnded(before_us, now_us, cleanup.limit));
  }
  JsonObjectBuilder answer;
  answer.Add("commands_purged", 0)
      .Add("runtime_purged", runtimes)
      .Add("events_purged", runs)
      .Add("more", runs == cleanup.limit)
      .Add("dry_run", cleanup.dry_run);
  if (!cleanup.dry_run) {
    CounterTable& purged = MetricsOf(call.services()).cleanup_rows_purged;
    purged.Add({"runtime"}, static_cast<double>(runtimes));
    NOETL_ASSIGN(const Swept swept, SweepStore(call.services()));
    answer.Add("keychain_purged", swept.keychain)
        .Add("request_keys_purged", swept.request_keys)
        .Add("results_purged", swept.results)
        .Add("outbox_purged", swept.outbox);
  }
  return answer.Build();
}

// ---- containers

constexpr std::array<std::string_view, 6> kContainerStates = {
    "succeeded", "failed", "failed_image_pull", "failed_oom", "failed_node_lost", "failed_timeout"};

Result<conductor::CallbackCall> ReadCallback(const Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  conductor::CallbackCall callback{.step = std::string(Trim(call.Path("step")))};
  const Result<std::int64_t> execution_id = call.PathId("execution_id");
  if (!execution_id) return Fail("invalid", execution_id.error().message);
  callback.execution_id = *execution_id;
  if (callback.step.empty()) return Fail("invalid", "the step in the path is blank");
  NOETL_ASSIGN(const std::string state, TextMember(body, "state"));
  if (std::ranges::find(kContainerStates, state) == kContainerStates.end()) {
    return Fail("invalid", fmt::format("`state` must not be '{}'", state));
  }
  NOETL_ASSIGN(callback.key, TextMember(body, "job_name"));
  NOETL_ASSIGN(callback.command_id, OptionalText(body, "command_id"));
  NOETL_TRY(OptionalTimeUs(body, "completed_at"));
  NOETL_TRY(OptionalInt(body, "exit_code", 0, INT32_MIN, INT32_MAX));
  NOETL_ASSIGN(const std::string reason, OptionalText(body, "reason"));
  callback.ok = state == kContainerStates[0];
  JsonObjectBuilder data;
  data.Add("terminal_state", state);
  for (const std::string_view name :
       {"job_name", "job_uid", "completed_at", "exit_code", "reason", "stdout_uri", "stderr_uri"}) {
    data.Add(name, body[name]);
  }
  callback.data = data.Build();
  if (!callback.ok) {
    callback.error = reason.empty()
                         ? fmt::format("container job {}: {}", callback.key, state)
                         : fmt::format("container job {}: {} ({})", callback.key, state, reason);
  }
  return callback;
}

void ContainerCallback(CallPtr call) {
  Result<conductor::CallbackCall> callback = ReadCallback(*call);
  if (!callback) return call->Refuse(callback.error());
  call->services().conductor->Callback(
      *std::move(callback), [call](Result<conductor::CallbackAnswer> answer) {
        const bool unknown = !answer && answer.error().code == "not_found";
        if (!answer && !unknown) return call->Refuse(answer.error());
        ServerMetrics& metrics = MetricsOf(call->services());
        const std::string state = call->body()["state"].ToString();
        metrics.container_callback.Add({state});
        if (unknown || !answer->accepted) {
          metrics.container_callback_stale.Add({state});
          return call->Answer(Json::Object({{"status", "accepted_stale"}}), 202);
        }
        call->Answer(Json::Object({{"status", "accepted_in_flight"},
                                   {"event_id", IdText(answer->event_id)}}),
                     202);
      });
}

// ---- what workers of other servers ask for

// Objects are not collected: they stay until somebody removes them.
Result<Json> CollectTier(Call& call) {
  NOETL_ASSIGN(const bool dry_run, OptionalBool(call.body(), "dry_run", true));
  return Json::Object({{"enabled", false},
                       {"dry_run", dry_run},
                       {"scanned", 0},
                       {"deleted", 0},
                       {"candidates", Json::Array()}});
}

// Marks guard objects from being collected; nothing collects them here.
Result<Json> KeepSink(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, IdMember(call.body(), "execution_id"));
  return Json::Object({{"execution_id", execution_id}, {"changed", false}});
}

// ---- the table

constexpr std::string_view kSink = R"({"execution_id":325481002387804160,"worker_id":"w1"})";
constexpr std::string_view kSinkAnswer = R"({"execution_id":325481002387804160,"changed":false})";

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/internal/outbox/claim",
     .family = "internal",
     .summary = "Takes copies of events that are to be published, in order",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<ClaimOutbox>,
     .request = R"({"limit":100})",
     .response = R"({"rows":[{"outbox_id":17,"event_id":325481006000000001,)"
                 R"("execution_id":325481002387804160,)"
                 R"("subject":"noetl.events.command.completed",)"
                 R"("payload":{"event_id":325481006000000001},"payload_codec":"json",)"
                 R"("attempts":1}],"claimed":1})"},
    {.method = "POST",
     .path = "/api/internal/outbox/mark-published",
     .family = "internal",
     .summary = "Says that copies were published",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<MarkPublished>,
     .request = R"({"outbox_ids":[17,18]})",
     .response = R"({"marked":2})"},
    {.method = "POST",
     .path = "/api/internal/outbox/mark-failed",
     .family = "internal",
     .summary = "Says that a copy could not be published; it comes again after a delay",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<MarkFailed>,
     .request = R"({"outbox_id":17,"error":"timeout","attempts":2,"max_delay_seconds":300})",
     .response = R"({"marked":true,"available_at_in":2})"},
    {.method = "GET",
     .path = "/api/internal/outbox/pending-count",
     .family = "internal",
     .summary = "How many copies could be taken now",
     .scope = Scope::kInternal,
     .handle = Now<CountOutbox>,
     .response = R"({"pending":0})"},
    {.method = "POST",
     .path = "/api/internal/events/project",
     .family = "internal",
     .summary = "Stores rows of events in their runs; repetitions change nothing",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = ProjectEvents,
     .request = R"({"events":[{"event_id":9001,"execution_id":42,"event_type":"call.progress",)"
                R"("node_name":"start","status":"RUNNING",)"
                R"("timestamp":"2026-06-18T12:00:00.5"}]})",
     .response = R"({"projected":1,"duplicates":0,"quarantined":0,"rejected":[]})"},
    {.method = "POST",
     .path = "/api/internal/events/materialize",
     .family = "internal",
     .summary = "Stores a list of events as workers post them",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = MaterializeEvents,
     .request = R"([{"execution_id":42,"event_type":"command.started","step":"start",)"
                R"("event_id":9002,"context":{"command_id":"42:start:9000"}}])",
     .response = R"({"materialized":1,"duplicates":0,"quarantined":0,"rejected":[]})"},
    {.method = "POST",
     .path = "/api/internal/projection/advance",
     .family = "internal",
     .summary = "The state that can be rebuilt of runs: newest event and number of events",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Later<AdvanceProjection>,
     .request = R"({"execution_ids":[42,43]})",
     .response = R"({"advanced":[{"execution_id":42,"version":9007,"events":12}],)"
                 R"("failed":[{"execution_id":43,"error":"no events"}]})"},
    {.method = "POST",
     .path = "/api/internal/cleanup/purge",
     .family = "internal",
     .summary = "Removes old runs, silent workers and what has expired",
     .scope = Scope::kInternal,
     .body = BodyKind::kOptional,
     .body_max = kBodyDefault,
     .handle = Later<Purge>,
     .request = R"({"runtime_stale_minutes":60,"event_retention_days":30,"limit":500,)"
                R"("dry_run":false})",
     .response = R"({"commands_purged":0,"runtime_purged":2,"events_purged":120,"more":false,)"
                 R"("dry_run":false,"keychain_purged":3,"request_keys_purged":0,)"
                 R"("results_purged":12,"outbox_purged":0})"},
    {.method = "POST",
     .path = "/api/internal/container-callback/{execution_id}/{step}",
     .family = "internal",
     .summary = "Says how the container of a parked step ended",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = ContainerCallback,
     .request = R"({"state":"succeeded","job_name":"noetl-container-train-1","exit_code":0})",
     .response = R"({"status":"accepted_in_flight","event_id":"325481020000000000"})",
     .success = 202},
    {.method = "POST",
     .path = "/api/internal/result-tier/gc",
     .family = "internal",
     .summary = "Collection of stored objects; there is none",
     .scope = Scope::kInternal,
     .body = BodyKind::kOptional,
     .body_max = kBodyDefault,
     .handle = Now<CollectTier>,
     .request = R"({"dry_run":true})",
     .response = R"({"enabled":false,"dry_run":true,"scanned":0,"deleted":0,"candidates":[]})"},
    {.method = "POST",
     .path = "/api/internal/sink-state/mark",
     .family = "internal",
     .summary = "Accepted; nothing is collected that would have to be guarded",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<KeepSink>,
     .request = kSink,
     .response = kSinkAnswer},
    {.method = "POST",
     .path = "/api/internal/sink-state/confirm",
     .family = "internal",
     .summary = "Accepted; nothing is collected that would have to be guarded",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<KeepSink>,
     .request = kSink,
     .response = kSinkAnswer},
    {.method = "POST",
     .path = "/api/internal/sink-state/release",
     .family = "internal",
     .summary = "Accepted; nothing is collected that would have to be guarded",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<KeepSink>,
     .request = kSink,
     .response = kSinkAnswer},
};

}  // namespace

std::span<const Route> InternalRoutes() { return kRoutes; }

}  // namespace noetl::api
