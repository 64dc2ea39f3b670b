#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "api/replay_log.h"
#include "api/testing.h"
#include "base/random.h"
#include "base/temporary_directory.h"
#include "base/testing.h"
#include "engine/replay_flat.h"
#include "engine/replay_seal.h"
#include "store/sqlite/sqlite_store.h"
#include "store/testing.h"

namespace noetl::api {
namespace {

using engine::EventType;
using engine::replay::FoldFlatRows;
using engine::replay::FoldRows;
using engine::replay::IsSealed;
using engine::replay::Seal;

// Stores a run whose events have these ids, in this order; gives them as they are stored.
std::vector<engine::Event> StoreRun(store::Store& store, std::int64_t execution_id,
                                    const std::vector<std::int64_t>& ids) {
  static constexpr EventType kTypes[] = {EventType::kPlaybookStarted, EventType::kStepEnter,
                                         EventType::kCommandIssued, EventType::kCommandCompleted,
                                         EventType::kCallDone};
  store::TestRun run(execution_id);
  store::UnitRows unit = run.Start();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    engine::Event event = run.MakeEvent(kTypes[i % std::size(kTypes)]);
    event.event_id = ids[i];
    event.node_name = fmt::format("step_{}", i);
    event.status = i % 3 == 0 ? "" : fmt::format("S{}", i);
    // Times go neither with the ids nor with the order.
    event.created_at_us = i % 4 == 3 ? 0 : 1'000'000 * static_cast<std::int64_t>(1 + i * 7 % 10);
    event.meta = Json::Object({{"command_id", fmt::format("{}:step:{}", execution_id, i % 4 + 1)},
                               {"loop_id", fmt::format("l{}", i % 2)},
                               {"attempt", 0.1 + 0.2}});
    if (i % 5 == 4)
      event.result = Json::Object({{"status", "ok"}, {"reference", Json::Object({{"ref", "r"}})}});
    run.Add(unit, std::move(event));
  }
  if (ids.empty()) return {};
  EXPECT_EQ(store::CodeOf(store::CommitOne(store, unit)), "ok");
  return store.ReadEvents(execution_id, 0, 1'000'000).value();
}

bool NeverGone() { return false; }

ReplayRequest RequestFor(std::int64_t execution_id, std::int64_t limit = 1'000) {
  ReplayRequest request;
  request.execution_id = execution_id;
  request.limit = limit;
  return request;
}

// What the request leaves of the events, in the order of ids.
std::vector<engine::Event> Selected(std::vector<engine::Event> events,
                                    const ReplayRequest& request) {
  const ReplayCutoff& cutoff = request.cutoff;
  std::erase_if(events, [&](const engine::Event& event) {
    return (cutoff.event_id && event.event_id > *cutoff.event_id) ||
           (cutoff.seq && event.seq > *cutoff.seq) ||
           (cutoff.time_us && (event.created_at_us == 0 || event.created_at_us > *cutoff.time_us));
  });
  std::ranges::sort(events, {}, &engine::Event::event_id);
  if (std::ssize(events) > request.limit) events.resize(static_cast<std::size_t>(request.limit));
  return events;
}

// The same by the plain way: all rows in memory.
Json Plainly(const std::vector<engine::Event>& events, const ReplayRequest& request) {
  std::vector<engine::replay::Row> rows;
  for (const engine::Event& event : Selected(events, request))
    rows.push_back(engine::replay::RowOf(event));
  return Seal(FoldRows(std::move(rows), {.execution_id = request.execution_id}));
}

TEST(ReplayLog, AnyOrderAnyPageAnyLimitAnyCutoff) {
  EXPECT_TRUE(rc::check("as if all rows were sorted in memory", [] {
    const auto store = store::MakeMemoryStore();
    SeededRandom random(*rc::gen::arbitrary<std::uint64_t>());
    std::vector<std::int64_t> ids(*rc::gen::inRange<std::size_t>(0, 60));
    std::iota(ids.begin(), ids.end(), 10);
    // Few late ones, or a thorough mix.
    const std::uint64_t near = *rc::gen::element<std::uint64_t>(1, 3, 100);
    for (std::size_t i = 1; i < ids.size(); ++i)
      std::swap(ids[i], ids[i - std::min<std::size_t>(i, random.Below(near))]);
    const std::vector<engine::Event> events = StoreRun(*store, 5, ids);
    ReplayRequest request = RequestFor(5, *rc::gen::inRange(1, 70));
    request.page = *rc::gen::inRange(1, 20);
    const bool strict = *rc::gen::arbitrary<bool>();
    if (strict) request.numbers = JsonNumbers::kTypedStrict;
    switch (*rc::gen::inRange(0, 4)) {
      case 1: request.cutoff.event_id = *rc::gen::inRange(0, 80); break;
      case 2: request.cutoff.time_us = 1'000'000 * *rc::gen::inRange(0, 12); break;
      case 3: request.cutoff.seq = *rc::gen::inRange(-1, 80); break;
      default: break;
    }
    const auto folder = MakeTypedFolder({.execution_id = 5}, strict);
    const Result<ReplayedLog> log = FoldLog(*store, request, *folder, NeverGone);
    RC_ASSERT(log.has_value());
    RC_ASSERT(*folder->Seal() == Plainly(events, request));
    RC_ASSERT(log->folded == std::ssize(Selected(events, request)));
    ReplayRequest whole = request;
    whole.limit = 1'000;
    RC_ASSERT(log->truncated == (std::ssize(Selected(events, whole)) > log->folded));
  }));
}

TEST(ReplayLog, EmbeddedStore) {
  const TemporaryDirectory directory;
  auto store = store::OpenSqliteStore({.directory = directory.path()}).value();
  std::vector<std::int64_t> ids(500);
  std::iota(ids.begin(), ids.end(), 1);
  std::swap(ids[3], ids[400]);
  std::swap(ids[17], ids[18]);
  const std::vector<engine::Event> events = StoreRun(*store, 5, ids);
  for (const bool strict : {false, true}) {
    ReplayRequest request = RequestFor(5, 450);
    if (strict) request.numbers = JsonNumbers::kTypedStrict;
    request.page = 64;
    const auto folder = MakeTypedFolder({.execution_id = 5}, strict);
    const Result<ReplayedLog> log = FoldLog(*store, request, *folder, NeverGone);
    ASSERT_TRUE(log.has_value());
    EXPECT_TRUE(log->truncated);
    EXPECT_EQ(*folder->Seal(), Plainly(events, request));
  }
  ReplayRequest request = RequestFor(5);
  request.numbers = JsonNumbers::kFlat;
  request.page = 64;
  std::vector<Json> rows;
  for (const engine::Event& event : events) rows.push_back(engine::replay::FlatRowOf(event));
  const auto folder = MakeFlatFolder({.execution_id = 5});
  ASSERT_TRUE(FoldLog(*store, request, *folder, NeverGone).has_value());
  EXPECT_EQ(*folder->Seal(), *FoldFlatRows(rows, {.execution_id = 5}));
}

TEST(ReplayLog, StopsWhenNobodyWaits) {
  const auto store = store::MakeMemoryStore();
  StoreRun(*store, 5, {1, 2, 3});
  const auto folder = MakeTypedFolder({.execution_id = 5}, false);
  const Result<ReplayedLog> log = FoldLog(*store, RequestFor(5), *folder, [] { return true; });
  ASSERT_FALSE(log.has_value());
  EXPECT_EQ(log.error().code, "gone");
}

// ---- the route

struct ReplayApi : TestApi {
  explicit ReplayApi(RouterOptions options = {})
      : TestApi({.router = std::move(options), .families = {ReplayRoutes()}}) {}

  Asked State(std::string_view query) { return Get(fmt::format("/api/replay/state?{}", query)); }
  std::string Refused(std::string_view query) {
    const Asked asked = State(query);
    EXPECT_EQ(asked.status(), 400) << query;
    EXPECT_EQ(asked.body["status"].AsInt(), 400);
    return asked.body["error"].ToString();
  }
};

TEST(ReplayRoute, EmptyLog) {
  ReplayApi api;
  const Asked asked = api.State("execution_id=42");
  EXPECT_EQ(asked.status(), 200);
  EXPECT_TRUE(IsSealed(asked.body));
  EXPECT_EQ(asked.response.body.substr(0, asked.response.body.find(R"(,"checksum")")),
            R"({"tenant_id":"default","organization_id":"default","execution_id":42,)"
            R"("projection":"all","event_count":0,"execution":{"status":"UNKNOWN",)"
            R"("payload_refs":[]},"stages":{},"frames":{},"commands":{},"business_objects":{},)"
            R"("loops":{})");
  EXPECT_EQ(asked.header("X-Replay-Truncated"), "false");
  EXPECT_EQ(asked.header("X-Replay-Dialect"), "typed");
  EXPECT_EQ(asked.header("X-Replay-Strict"), "false");
  EXPECT_EQ(asked.header("X-Replay-Events-Folded"), "0");
  EXPECT_EQ(asked.header("X-Replay-Redacted"), "");
  EXPECT_EQ(asked.header("X-Replay-Seed-Version"), "");
  EXPECT_EQ(api.State("execution_id=-1").body["execution_id"], Json(-1));
  EXPECT_EQ(api.State("execution_id=999").body["checksum"]["value"],
            "4d21839f5bd6c15f4083db001ab8d3c17df730d4bc845a422b392acca6491e7f");
}

TEST(ReplayRoute, CutoffsAndLimits) {
  ReplayApi api;
  const std::vector<engine::Event> events = StoreRun(*api.store, 5, {10, 12, 11, 13, 14, 15});
  const auto folded = [&](ReplayCutoff cutoff, std::int64_t limit = 1'000) {
    ReplayRequest request = RequestFor(5, limit);
    request.cutoff = cutoff;
    return Plainly(events, request);
  };
  EXPECT_EQ(api.State("execution_id=5").body, folded({}));
  EXPECT_EQ(api.State("execution_id=5&as_of_event_id=12").body, folded({.event_id = 12}));
  EXPECT_EQ(api.State("execution_id=5&as_of_position=%2B12").body, folded({.event_id = 12}));
  EXPECT_EQ(api.State("execution_id=5&as_of_event_id=0").body, folded({.event_id = 0}));
  EXPECT_EQ(api.State("execution_id=5&as_of_event_id=-7").body, folded({.event_id = -7}));
  EXPECT_EQ(api.State("execution_id=5&as_of_seq=2").body, folded({.seq = 2}));
  EXPECT_EQ(api.State("execution_id=5&as_of_time=1970-01-01T00:00:08Z").body,
            folded({.time_us = 8'000'000}));
  EXPECT_EQ(api.State("execution_id=5&as_of_time=1970-01-01T01:00:08%2B01:00").body,
            folded({.time_us = 8'000'000}));
  const Asked few = api.State("execution_id=5&limit=3&unknown=1&unknown=2");
  EXPECT_EQ(few.body, folded({}, 3));
  EXPECT_EQ(few.header("X-Replay-Truncated"), "true");
  EXPECT_EQ(few.header("X-Replay-Events-Folded"), "3");
  EXPECT_EQ(api.State("execution_id=5&limit=0").body, folded({}, 1));
  EXPECT_EQ(api.State("execution_id=5&limit=-9").body, folded({}, 1));
  EXPECT_EQ(api.State("execution_id=5&limit=100000000").body, folded({}));
  EXPECT_EQ(api.State("execution_id=5&limit=6").header("X-Replay-Truncated"), "false");
}

TEST(ReplayRoute, OwnersProjectionsAndOnly) {
  ReplayApi api;
  StoreRun(*api.store, 5, {10, 11, 12, 13, 14});
  const Json all = api.State("execution_id=5").body;
  const Json other = api.State("execution_id=5&tenant_id=acme").body;
  EXPECT_EQ(other["tenant_id"], Json("acme"));
  EXPECT_EQ(other["event_count"], Json(0));
  EXPECT_EQ(api.State("execution_id=5&organization_id=").body["event_count"], Json(0));
  const Json echo = api.State("execution_id=5&projection=loop").body;
  EXPECT_EQ(echo["projection"], Json("loop"));
  EXPECT_EQ(echo["commands"], all["commands"]);
  EXPECT_EQ(echo["projection_checksums"], all["projection_checksums"]);
  EXPECT_NE(echo["checksum"], all["checksum"]);
  const Json loops = api.State("execution_id=5&only=loop").body;
  EXPECT_EQ(loops["checksum"], all["checksum"]);
  EXPECT_EQ(loops["loops"], all["loops"]);
  for (std::string_view gone : {"execution", "stages", "frames", "commands", "business_objects"})
    EXPECT_FALSE(loops.Has(gone)) << gone;
  EXPECT_EQ(api.State("execution_id=5&only=all&resolve_payloads=false").body, all);
}

TEST(ReplayRoute, StrictReadsStoredNumbers) {
  ReplayApi api;
  store::TestRun run(5);
  store::UnitRows unit = run.Start();
  engine::Event event = run.MakeEvent(EventType::kStepEnter);
  event.meta = Parse(R"({"loop_event_id":null,"business_object":{"type":"t","id":"i",
                         "state":{"n":0.30000000000000004}}})");
  run.Add(unit, std::move(event));
  ASSERT_EQ(store::CodeOf(store::CommitOne(*api.store, unit)), "ok");
  const Asked strict = api.State("execution_id=5&strict=true");
  EXPECT_EQ(strict.header("X-Replay-Strict"), "true");
  EXPECT_TRUE(strict.body["loops"].Has("null"));
  const Json plain = api.State("execution_id=5&strict=false").body;
  EXPECT_TRUE(plain["loops"].empty());
  EXPECT_EQ(plain["business_objects"]["t/i"]["attributes"]["n"], Json(0.30000000000000004));
}

TEST(ReplayRoute, HidesCredentialsAfterHashing) {
  ReplayApi api;
  store::TestRun run(5);
  store::UnitRows unit = run.Start();
  engine::Event event = run.MakeEvent(EventType::kStepEnter);
  event.meta = Parse(R"({"loop_id":"token","business_object":{"type":"t","id":"i",
                         "state":{"password":"hunter2","name":"ann"}}})");
  event.result = Parse(R"({"status":"ok","reference":{"ref":"r","api_key":"k-123"}})");
  run.Add(unit, std::move(event));
  ASSERT_EQ(store::CodeOf(store::CommitOne(*api.store, unit)), "ok");
  const Asked hidden = api.State("execution_id=5");
  EXPECT_EQ(hidden.header("X-Replay-Redacted"), "true");
  EXPECT_EQ(hidden.response.body.find("hunter2"), std::string::npos);
  EXPECT_EQ(hidden.response.body.find("k-123"), std::string::npos);
  const Json& object = hidden.body["business_objects"]["t/i"];
  EXPECT_EQ(object["attributes"]["name"], Json("ann"));
  // The name of a loop is no name of a secret.
  EXPECT_EQ(hidden.body["loops"]["token"]["loop_id"], Json("token"));
  EXPECT_FALSE(IsSealed(hidden.body));
  const Asked shown = api.State("execution_id=5&redact=false");
  EXPECT_EQ(shown.header("X-Replay-Redacted"), "");
  EXPECT_TRUE(IsSealed(shown.body));
  EXPECT_EQ(shown.body["checksum"], hidden.body["checksum"]);
}

TEST(ReplayRoute, FlatDialect) {
  ReplayApi api;
  const std::vector<engine::Event> events = StoreRun(*api.store, 5, {10, 12, 11, 13, 14});
  std::vector<Json> rows;
  for (const engine::Event& event : events) rows.push_back(engine::replay::FlatRowOf(event));
  const Asked asked = api.State("execution_id=5&dialect=flat");
  EXPECT_EQ(asked.header("X-Replay-Dialect"), "flat");
  EXPECT_EQ(asked.body, *FoldFlatRows(rows, {.execution_id = 5}));
  EXPECT_EQ(api.State("execution_id=999&dialect=flat").body["checksum"],
            "4e2908753240db326a22cad2e75ab347b5f4440d5b7a59f3995886684220781e");
}

TEST(ReplayRoute, FlatDialectHasNoAnswerForABadCounter) {
  ReplayApi api;
  store::TestRun run(5);
  store::UnitRows unit = run.Start();
  engine::Event event = run.MakeEvent(EventType::kStepEnter);
  event.meta = Parse(R"({"business_object":{"type":"t","id":"i","version":"new"}})");
  run.Add(unit, std::move(event));
  ASSERT_EQ(store::CodeOf(store::CommitOne(*api.store, unit)), "ok");
  EXPECT_EQ(api.State("execution_id=5&dialect=flat").status(), 500);
  EXPECT_EQ(api.State("execution_id=5").status(), 200);
}

TEST(ReplayRoute, Payloads) {
  ReplayApi api;
  store::TestRun run(5);
  store::UnitRows unit = run.Start();
  const std::string ref = "noetl://execution/5/result/step/77";
  for (const std::string& place : {ref, std::string("noetl://nowhere"), std::string("gs://b/c")}) {
    engine::Event event = run.MakeEvent(EventType::kCallDone);
    event.result = Json::Object({{"status", "ok"}, {"reference", Json::Object({{"ref", place}})}});
    run.Add(unit, std::move(event));
  }
  unit.bodies.push_back({ref, R"({"rows":[1,2,3]})"});
  ASSERT_EQ(store::CodeOf(store::CommitOne(*api.store, unit)), "ok");
  const Json plain = api.State("execution_id=5").body;
  const Json body = api.State("execution_id=5&resolve_payloads=true").body;
  const Json& rows = body["payload_resolution"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows.At(0)["resolution"]["resolved"].AsBool()) << WriteJson(rows);
  EXPECT_EQ(rows.At(0)["resolution"]["row_count"], Json(3));
  EXPECT_EQ(rows.At(1)["resolution"]["error"], Json("not found: noetl://nowhere"));
  EXPECT_EQ(rows.At(2)["resolution"]["error"], Json("not found: gs://b/c"));
  EXPECT_EQ(body["payload_resolution_summary"]["resolved"], Json(1));
  EXPECT_EQ(body.Without("payload_resolution").Without("payload_resolution_summary"), plain);
}

TEST(ReplayRoute, Refusals) {
  ReplayApi api;
  constexpr std::string_view kPrefix = "Failed to deserialize query string: ";
  for (std::string_view query : {"",
                                 "execution_id=",
                                 "execution_id=abc",
                                 "execution_id=1.5",
                                 "execution_id=+1",
                                 "execution_id=9223372036854775808",
                                 "execution_id=1&execution_id=1",
                                 "execution_id=1&as_of_event_id=",
                                 "execution_id=1&as_of_position=x",
                                 "execution_id=1&as_of_seq=x",
                                 "execution_id=1&as_of_time=",
                                 "execution_id=1&as_of_time=2026-01-01T00:00:00",
                                 "execution_id=1&as_of_time=2026-01-01T00:00:00+00:00",
                                 "execution_id=1&limit=",
                                 "execution_id=1&limit=ten",
                                 "execution_id=1&limit=99999999999999999999",
                                 "execution_id=1&resolve_payloads=yes",
                                 "execution_id=1&resolve_payloads=",
                                 "execution_id=1&strict=1",
                                 "execution_id=1&redact=perhaps",
                                 "execution_id=1&dialect=Flat",
                                 "execution_id=1&dialect=",
                                 "execution_id=1&projection=all&projection=all"}) {
    EXPECT_TRUE(api.Refused(query).starts_with(kPrefix)) << query << ": " << api.Refused(query);
  }
  EXPECT_EQ(api.Refused("limit=5"), std::string(kPrefix) + "missing field `execution_id`");
  EXPECT_EQ(api.Refused("execution_id=1&limit=1&limit=1"),
            std::string(kPrefix) + "duplicate field `limit`");
  constexpr std::string_view kOneCutoff =
      "Use only one replay cutoff: as_of_event_id, as_of_position, or as_of_time";
  EXPECT_EQ(api.Refused("execution_id=1&as_of_event_id=1&as_of_position=1"), kOneCutoff);
  EXPECT_EQ(api.Refused("execution_id=1&as_of_seq=1&as_of_time=2026-01-01T00:00:00Z"), kOneCutoff);
  constexpr std::string_view kExpected =
      "; expected one of: execution, stage, frame, command, business_object, loop, all";
  EXPECT_EQ(api.Refused("execution_id=1&projection=Stage"),
            std::string("unknown projection \"Stage\"") + std::string(kExpected));
  EXPECT_EQ(api.Refused("execution_id=1&projection=a%22%5C%0A%0D%09b"),
            std::string(R"(unknown projection "a\"\\\n\r\tb")") + std::string(kExpected));
  EXPECT_EQ(api.Refused("execution_id=1&only="),
            std::string("unknown projection \"\"") + std::string(kExpected));
  // In this order: members, cutoffs, projection.
  EXPECT_EQ(api.Refused("execution_id=1&projection=x&as_of_event_id=1&as_of_position=1"),
            kOneCutoff);
  EXPECT_TRUE(api.Refused("execution_id=1&projection=x&limit=x").starts_with(kPrefix));
}

}  // namespace
}  // namespace noetl::api
