#include "engine/replay.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"
#include "base/json_number.h"
#include "base/random.h"
#include "base/testing.h"
#include "engine/replay_seal.h"

namespace noetl::engine::replay {
namespace {

// ---- random logs, made to meet every rule and every trap of it

enum class Kind {
  kAny,   // nulls, empty texts, numbers at their limits
  kTame,  // none of them: both readings agree
};

// Draws rows from a seed. Drawing every value through the property library would shrink better and
// take minutes.
class LogMaker {
 public:
  LogMaker(std::uint64_t seed, Kind kind) : random_(seed), any_(kind == Kind::kAny) {}

  Row MakeRow(std::int64_t event_id) {
    JsonObjectBuilder row;
    row.Add("event_id", event_id)
        .Add("event_type", Pick(kTypes))
        .Add("node_name", Column())
        .Add("status", Pick(kStatuses));
    for (const char* name : {"stage_id", "frame_id", "command_id", "worker_id"})
      row.Add(name, Column());
    row.Add("aggregate_type", Chance(3) ? Pick(kAggregates) : Json());
    row.Add("aggregate_id", Column());
    row.Add("meta", Chance(8) ? Value() : Meta());
    row.Add("result", Chance(2) ? Json() : Outcome());
    return *RowFromJson(row.Build());
  }

 private:
  static inline const std::vector<Json> kTypes = {"playbook_started",
                                                  "playbook.completed",
                                                  "playbook_failed",
                                                  "playbook.cancelled",
                                                  "step.enter",
                                                  "step_started",
                                                  "step.exit",
                                                  "step_completed",
                                                  "stage.opened",
                                                  "stage.closed",
                                                  "stage.other",
                                                  "frame.dispatched",
                                                  "frame.started",
                                                  "frame.abandoned",
                                                  "frame.committed",
                                                  "frame.failed",
                                                  "command.issued",
                                                  "command.claimed",
                                                  "command.started",
                                                  "command.completed",
                                                  "command.failed",
                                                  "command.cancelled",
                                                  "command.odd",
                                                  "loop.shard.done",
                                                  "loop.shard.failed",
                                                  "loop.done",
                                                  "loop.fanin.completed",
                                                  "thing.created",
                                                  "thing.UPDATED",
                                                  "thing.removed",
                                                  "x.deleted",
                                                  "nothing",
                                                  ""};
  static inline const std::vector<Json> kStatuses = {"", "", "RUNNING", "success", "DELETED"};
  static inline const std::vector<Json> kAggregates = {"stage", "frame", "business_object", "x"};
  static inline const std::vector<Json> kNames = {"a", "b", "1", "a/b", "b/c", "stage/a", "é"};
  static inline const std::vector<Json> kOddNames = {"", "/", "null", "\x01\"\\\n", "\U0001F600"};
  static inline const std::vector<Json> kScalars = {"a", "b", 0, 1, 7, -3, 1.5, true, false, "x y"};
  static inline const std::vector<Json> kOddScalars = {Json(),
                                                       "",
                                                       -0.0,
                                                       1e16,
                                                       1e-6,
                                                       5e-324,
                                                       std::numeric_limits<std::int64_t>::max(),
                                                       "null",
                                                       "\x1f",
                                                       std::numeric_limits<std::uint64_t>::max()};
  static inline const std::vector<Json> kMetaKeys = {"stage_id",
                                                     "frame_id",
                                                     "command_id",
                                                     "loop_id",
                                                     "loop_event_id",
                                                     "__loop_epoch_id",
                                                     "kind",
                                                     "step_name",
                                                     "parent_stage_id",
                                                     "parent_frame_id",
                                                     "parent_command_id",
                                                     "worker_id",
                                                     "worker_locator",
                                                     "attempt",
                                                     "row_count",
                                                     "events_emitted",
                                                     "frame_count",
                                                     "failed_count",
                                                     "collection_size",
                                                     "total",
                                                     "object_type",
                                                     "object_id",
                                                     "business_object_id",
                                                     "business_object_type",
                                                     "business_object_version"};
  static inline const std::vector<Json> kBusinessKeys = {
      "object_type", "type", "object_id", "id", "version", "state", "patch", "attributes"};
  static inline const std::vector<Json> kReferenceKeys = {
      "sha256", "schema_digest", "row_count", "media_type", "ref",
      "uri",    "digest",        "rows_ref",  "meta",       "ipc"};

  bool Chance(std::uint64_t of) { return random_.Below(of) == 0; }
  Json Pick(const std::vector<Json>& from) { return from[random_.Below(from.size())]; }
  Json Column() {
    if (!Chance(3)) return Json();
    return any_ && Chance(3) ? Pick(kOddNames) : Pick(kNames);
  }
  Json Scalar() { return any_ && Chance(3) ? Pick(kOddScalars) : Pick(kScalars); }
  Json Value() {
    if (Chance(8)) return Json::Array({Scalar(), Scalar()});
    if (Chance(8)) return Json::Object({{"z", Scalar()}, {"a", Scalar()}});
    return Scalar();
  }
  // Some of these members, nested ones too.
  Json Map(const std::vector<Json>& keys, int depth = 0) {
    Json map = Json::Object();
    for (std::uint64_t left = random_.Below(6); left > 0; --left)
      map =
          map.With(Pick(keys).AsString(), depth < 2 && Chance(3) ? Map(keys, depth + 1) : Value());
    return map;
  }
  Json Meta() {
    Json meta = Map(kMetaKeys, 2);
    return Chance(4) ? meta.With("business_object", Map(kBusinessKeys, 1)) : meta;
  }
  Json Outcome() {
    if (Chance(5)) return Value();
    return Json::Object({{"reference", Chance(3) ? Value() : Map(kReferenceKeys)}});
  }

  SeededRandom random_;
  bool any_;
};

using Rows = std::vector<Row>;

// Ids are distinct and ascend.
Rows AnyLog(Kind kind = Kind::kAny) {
  LogMaker maker(*rc::gen::arbitrary<std::uint64_t>(), kind);
  const int count = *rc::gen::inRange(0, 25);
  std::int64_t id = *rc::gen::inRange<std::int64_t>(-5, 100);
  Rows rows;
  for (int i = 0; i < count; ++i) rows.push_back(maker.MakeRow(id += 1 + i % 3));
  return rows;
}

const Context kContext = {.tenant_id = "t", .organization_id = "o", .execution_id = 42};

Json Sealed(const Rows& rows, bool strict = false) {
  return Seal(FoldRows(rows, kContext, {.strict = strict}));
}

std::string Bytes(const Rows& rows, bool strict = false) {
  return WriteState(Sealed(rows, strict));
}

Rows Part(const Rows& rows, std::size_t from, std::size_t to) {
  return Rows(rows.begin() + static_cast<std::ptrdiff_t>(from),
              rows.begin() + static_cast<std::ptrdiff_t>(to));
}

// ---- the fold as a function

TEST(ReplayProperties, SameInputSameBytes) {
  EXPECT_TRUE(rc::check("twice, and on another thread", [] {
    const Rows rows = AnyLog();
    const bool strict = *rc::gen::arbitrary<bool>();
    const std::string here = Bytes(rows, strict);
    RC_ASSERT(Bytes(rows, strict) == here);
    std::string there;
    std::thread([&] { there = Bytes(rows, strict); }).join();
    RC_ASSERT(there == here);
  }));
}

TEST(ReplayProperties, OrderOfTheInputDoesNotMatter) {
  EXPECT_TRUE(rc::check("any permutation", [] {
    const Rows rows = AnyLog();
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), 0);
    // Swaps that are drawn one by one shrink well.
    for (std::size_t i = 1; i < order.size(); ++i)
      std::swap(order[i], order[*rc::gen::inRange<std::size_t>(0, i + 1)]);
    Rows shuffled;
    for (const std::size_t i : order) shuffled.push_back(rows[i]);
    RC_ASSERT(Bytes(shuffled) == Bytes(rows));
  }));
}

TEST(ReplayProperties, CutoffIsAFilter) {
  EXPECT_TRUE(rc::check("streaming up to n is folding the filtered log", [] {
    const Rows rows = AnyLog();
    RC_PRE(!rows.empty());
    const std::int64_t last =
        *rc::gen::inRange<std::int64_t>(rows.front().event_id - 1, rows.back().event_id + 2);
    Fold fold(kContext);
    for (const Row& row : rows) {
      if (row.event_id <= last) fold.Apply(row);
    }
    Rows kept = rows;
    std::erase_if(kept, [&](const Row& row) { return row.event_id > last; });
    RC_ASSERT(WriteState(Seal(fold.state())) == Bytes(kept));
    if (last < rows.front().event_id) RC_ASSERT(Bytes(kept) == Bytes({}));
    if (last >= rows.back().event_id) RC_ASSERT(Bytes(kept) == Bytes(rows));
  }));
}

TEST(ReplayProperties, GoesOnFromAState) {
  EXPECT_TRUE(rc::check("a tail on the state of the head", [] {
    const Rows rows = AnyLog();
    const bool strict = *rc::gen::arbitrary<bool>();
    const Json whole = Sealed(rows, strict);
    for (std::size_t split = 0; split <= rows.size(); ++split) {
      // The base takes the way through its JSON, as a stored one does.
      const Result<State> base = StateFromJson(Sealed(Part(rows, 0, split), strict));
      RC_ASSERT(base.has_value());
      FoldOptions options = {.strict = strict, .base_state = *base};
      const Rows tail = Part(rows, split, rows.size());
      RC_ASSERT(Seal(FoldRows(tail, kContext, options)) == whole);
      options.snapshot_seed = Snapshot{.aggregate_id = "execution/42/all",
                                       .aggregate_type = "replay_state",
                                       .version = 5,
                                       .checksum = {.value = "00"}};
      const Json seeded = Seal(FoldRows(tail, kContext, options));
      RC_ASSERT(seeded["projection_checksums"] == whole["projection_checksums"]);
      RC_ASSERT(seeded["checksum"] != whole["checksum"]);
      RC_ASSERT(IsSealed(seeded));
    }
  }));
}

TEST(ReplayProperties, BodiesVerify) {
  EXPECT_TRUE(rc::check("a body that was written and read is still sealed", [] {
    const std::string body = Bytes(AnyLog(), *rc::gen::arbitrary<bool>());
    const Result<Json> read = ParseJson(body);
    RC_ASSERT(read.has_value());
    RC_ASSERT(IsSealed(*read));
    RC_ASSERT(!IsSealed(read->With("event_count", (*read)["event_count"].AsInt() + 1)));
    RC_ASSERT(WriteState(*read) == body);
  }));
}

TEST(ReplayProperties, Counts) {
  EXPECT_TRUE(rc::check("counts and last ids agree with the log", [] {
    const Rows rows = AnyLog();
    const State state = FoldRows(rows, kContext);
    RC_ASSERT(state.event_count == rows.size());
    RC_ASSERT(state.last_event_id.has_value() == !rows.empty());
    if (rows.empty()) return;
    const std::int64_t last = rows.back().event_id;
    RC_ASSERT(state.last_event_id == last);
    std::int64_t business = 0;
    for (const auto& [key, object] : state.business_objects) {
      business += object.event_count;
      RC_ASSERT(*object.last_event_id <= last);
      RC_ASSERT(*object.first_event_id <= *object.last_event_id);
    }
    RC_ASSERT(business <= std::ssize(rows));
    for (const auto& [id, it] : state.stages) RC_ASSERT(*it.last_event_id <= last);
    for (const auto& [id, it] : state.frames) RC_ASSERT(*it.last_event_id <= last);
    for (const auto& [id, it] : state.commands) RC_ASSERT(*it.last_event_id <= last);
    for (const auto& [id, it] : state.loops) RC_ASSERT(*it.last_event_id <= last);
  }));
}

TEST(ReplayProperties, TameLogsHaveOneReading) {
  EXPECT_TRUE(rc::check("strict and plain agree without nulls and empty texts", [] {
    const Rows rows = AnyLog(Kind::kTame);
    RC_ASSERT(Bytes(rows, true) == Bytes(rows, false));
  }));
}

TEST(ReplayProperties, SurfacesAreIsolated) {
  EXPECT_TRUE(rc::check("a row that names nobody of a surface leaves it alone", [] {
    const Rows rows = AnyLog();
    const bool strict = *rc::gen::arbitrary<bool>();
    RC_PRE(!rows.empty());
    const std::size_t left_out = *rc::gen::inRange<std::size_t>(0, rows.size());
    Rows fewer = rows;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(left_out));
    const Json with = Sealed(rows, strict)["projection_checksums"];
    const Json without = Sealed(fewer, strict)["projection_checksums"];
    const RowView view(rows[left_out], strict);
    if (!view.Stage()) RC_ASSERT(with["stage"] == without["stage"]);
    if (!view.Frame()) RC_ASSERT(with["frame"] == without["frame"]);
    if (!view.Command()) RC_ASSERT(with["command"] == without["command"]);
    if (!view.Loop()) RC_ASSERT(with["loop"] == without["loop"]);
    if (!view.Object()) RC_ASSERT(with["business_object"] == without["business_object"]);
    if (view.Reference().is_null() && rows[left_out].event_type == "nothing")
      RC_ASSERT(with["execution"] == without["execution"]);
  }));
}

TEST(ReplayProperties, UnknownTypesChangeNoStatus) {
  EXPECT_TRUE(rc::check("of the execution and of commands", [] {
    const Rows rows = AnyLog();
    Fold fold(kContext);
    for (Row row : rows) {
      if (*rc::gen::arbitrary<bool>()) row.event_type = "unheard.of";
      const State before = fold.state();
      fold.Apply(row);
      if (row.event_type != "unheard.of") continue;
      RC_ASSERT(fold.state().execution.status == before.execution.status);
      for (const auto& [id, command] : fold.state().commands) {
        const auto was = before.commands.find(id);
        RC_ASSERT(command.status ==
                  (was == before.commands.end() ? "UNKNOWN" : was->second.status));
      }
    }
  }));
}

TEST(ReplayProperties, SomeFactsOnlyGrow) {
  EXPECT_TRUE(rc::check("attempts, counters and ends along the log", [] {
    const Rows rows = AnyLog();
    Fold fold(kContext, {.strict = *rc::gen::arbitrary<bool>()});
    for (const Row& row : rows) {
      const State before = fold.state();
      fold.Apply(row);
      const State& after = fold.state();
      RC_ASSERT(after.event_count == before.event_count + 1);
      for (const auto& [id, frame] : before.frames)
        RC_ASSERT(after.frames.at(id).attempts >= frame.attempts);
      for (const auto& [id, loop] : before.loops) {
        RC_ASSERT(after.loops.at(id).done >= loop.done);
        RC_ASSERT(after.loops.at(id).failed >= loop.failed);
        RC_ASSERT(after.loops.at(id).completed >= loop.completed);
      }
      for (const auto& [key, object] : before.business_objects) {
        RC_ASSERT(after.business_objects.at(key).event_count >= object.event_count);
        RC_ASSERT(after.business_objects.at(key).payload_refs.size() >= object.payload_refs.size());
      }
    }
  }));
}

TEST(ReplayProperties, TheEchoChangesOnlyTheTop) {
  EXPECT_TRUE(rc::check("the name of the projection", [] {
    const Rows rows = AnyLog();
    Context other = kContext;
    other.projection = "stage";
    const Json here = Sealed(rows);
    const Json there = Seal(FoldRows(rows, other));
    RC_ASSERT(there["projection_checksums"] == here["projection_checksums"]);
    RC_ASSERT(there["checksum"] != here["checksum"]);
  }));
}

TEST(ReplayProperties, CopyOfARowIsCounted) {
  EXPECT_TRUE(rc::check("an exact copy counts, and changes little else", [] {
    Rows rows = AnyLog();
    RC_PRE(!rows.empty());
    const State once = FoldRows(rows, kContext);
    rows.insert(rows.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(rows)),
                rows[*rc::gen::inRange<std::size_t>(0, rows.size())]);
    const State twice = FoldRows(rows, kContext);
    RC_ASSERT(twice.event_count == once.event_count + 1);
    RC_ASSERT(twice.last_event_id == once.last_event_id);
    RC_ASSERT(twice.stages == once.stages);
    RC_ASSERT(twice.frames == once.frames);
    RC_ASSERT(twice.commands == once.commands);
    RC_ASSERT(twice.execution.status == once.execution.status);
    RC_ASSERT(twice.execution.payload_refs.size() <= once.execution.payload_refs.size() + 1);
    for (const auto& [id, loop] : twice.loops) {
      const Loop& was = once.loops.at(id);
      RC_ASSERT(loop.done + loop.failed <= was.done + was.failed + 1);
      RC_ASSERT(loop.completed == was.completed);
    }
  }));
}

// ---- the canonical form

TEST(ReplayCanonical, IsAFixedPoint) {
  EXPECT_TRUE(rc::check("and does not see the order of keys", [] {
    const Json body = Sealed(AnyLog());
    const std::string text = CanonicalState(body);
    const Result<Json> read = ParseJson(text);
    RC_ASSERT(read.has_value());
    RC_ASSERT(CanonicalState(*read) == text);
    RC_ASSERT(WriteState(*read) == text);
    RC_ASSERT(CanonicalJson(body) == text);
    Json::Members turned(body.members().begin(), body.members().end());
    std::ranges::reverse(turned);
    RC_ASSERT(CanonicalState(Json::Object(std::move(turned))) == text);
    RC_ASSERT(CanonicalDigest(body) == CanonicalDigest(*read));
  }));
}

TEST(ReplayCanonical, NumbersComeBack) {
  EXPECT_TRUE(rc::check("every finite double", [] {
    const auto bits = *rc::gen::arbitrary<std::uint64_t>();
    const double number = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(number));
    const std::string text = CanonicalState(Json(number));
    const ParsedNumber read = ParseNumber(text, JsonNumbers::kTyped);
    RC_ASSERT(read.error == NumberError::kNone);
    RC_ASSERT(read.value.is_double());
    RC_ASSERT(std::bit_cast<std::uint64_t>(read.value.AsDouble()) == bits);
  }));
}

TEST(ReplayCanonical, DeepestValueOfALogIsHashed) {
  // A reference may use up all levels of its event; in the state it lies deeper.
  const std::size_t levels = kJsonDepthMax - 1;
  const std::string deep = std::string(levels, '[') + std::string(levels, ']');
  const Json event = Parse(R"({"event_id":1,"event_type":"a.created",
    "meta":{"object_type":"a","object_id":"1"}})");
  Row row = *RowFromJson(event);
  row.result = Json::Object({{"reference", Parse(deep)}});
  const std::string body = WriteState(Sealed({row}));
  EXPECT_NE(body.find(deep), std::string::npos);
}

// ---- rows

TEST(ReplayRow, ReadsEvents) {
  Event event;
  event.event_id = 9;
  event.type_name = "command.completed";
  event.status = "COMPLETED";
  event.meta = Parse(R"({"command_id":"42:step:7:i3"})");
  const Row row = RowOf(event);
  EXPECT_EQ(row.event_id, 9);
  EXPECT_EQ(row.command_id, "7");
  EXPECT_EQ(row.node_name, std::nullopt);
  EXPECT_EQ(row.worker_id, std::nullopt);
  event.node_name = "step";
  event.worker_id = "w";
  event.meta = Json();
  EXPECT_EQ(RowOf(event).node_name, "step");
  EXPECT_EQ(RowOf(event).worker_id, "w");
  EXPECT_EQ(RowOf(event).command_id, std::nullopt);
}

TEST(ReplayRow, RefusesWrongTypes) {
  for (std::string_view text :
       {"1", "{}", R"({"event_id":"1"})", R"({"event_id":1,"status":5})",
        R"({"event_id":1,"stage_id":[]})", R"({"event_id":1,"command_id":1.5})",
        R"({"event_id":1,"aggregate_id":true})", R"({"event_id":18446744073709551615})"}) {
    const Result<Row> row = RowFromJson(Parse(text));
    ASSERT_FALSE(row.has_value()) << text;
    EXPECT_EQ(row.error().code, "bad_row");
  }
  EXPECT_EQ(RowFromJson(Parse(R"({"event_id":1,"stage_id":12})"))->stage_id, "12");
}

// ---- states

TEST(ReplayState, RefusesWhatIsNoState) {
  const Json good = Sealed({*RowFromJson(Parse(
      R"({"event_id":1,"event_type":"stage.opened","stage_id":"s","frame_id":"f","command_id":3,
          "meta":{"loop_id":"l","object_type":"t","object_id":"i"}})"))});
  ASSERT_TRUE(StateFromJson(good).has_value());
  EXPECT_FALSE(StateFromJson(Json("state")).has_value());
  for (std::string_view key :
       {"tenant_id", "organization_id", "execution_id", "projection", "event_count", "execution"}) {
    const Result<State> read = StateFromJson(good.Without(key));
    ASSERT_FALSE(read.has_value()) << key;
    EXPECT_NE(read.error().message.find(key), std::string::npos);
  }
  for (std::string_view key : {"stages", "frames", "commands", "loops", "business_objects"}) {
    EXPECT_TRUE(StateFromJson(good.Without(key)).has_value()) << key;
    EXPECT_FALSE(StateFromJson(good.With(key, Json::Array())).has_value()) << key;
    const std::string id(good[key].members()[0].key());
    EXPECT_FALSE(StateFromJson(good.With(key, good[key].With(id, Json::Object()))).has_value())
        << key;
  }
  EXPECT_FALSE(StateFromJson(good.With("event_count", -1)).has_value());
  EXPECT_FALSE(StateFromJson(good.With("last_event_id", "1")).has_value());
  EXPECT_TRUE(StateFromJson(good.With("last_event_id", Json()).With("more", 1)).has_value());
}

TEST(ReplayState, CountersStayAtTheirLimit) {
  State base;
  base.event_count = std::numeric_limits<std::uint64_t>::max();
  base.loops["l"] = {.loop_id = "l", .done = std::numeric_limits<std::int64_t>::max()};
  const Row row = *RowFromJson(
      Parse(R"({"event_id":1,"event_type":"loop.shard.done","meta":{"loop_id":"l"}})"));
  const State state = FoldRows({row}, kContext, {.base_state = base});
  EXPECT_EQ(state.event_count, base.event_count);
  EXPECT_EQ(state.loops.at("l").done, std::numeric_limits<std::int64_t>::max());
}

TEST(ReplayState, EmptyLog) {
  const Json body = Sealed({});
  EXPECT_EQ(CanonicalState(body["execution"]), R"({"payload_refs":[],"status":"UNKNOWN"})");
  EXPECT_EQ(body["projection_checksums"]["stage"]["value"],
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
  EXPECT_FALSE(body.Has("last_event_id"));
}

}  // namespace
}  // namespace noetl::engine::replay
