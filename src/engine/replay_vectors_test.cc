// The fold and its seals against data that other implementations have confirmed.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "engine/replay.h"
#include "engine/replay_flat.h"
#include "engine/replay_flat_values.h"
#include "engine/replay_seal.h"

namespace noetl::engine::replay {
namespace {

const std::string kData = NOETL_SOURCE_DIR "/tests/replay/";

Json ReadJsonFile(const std::string& path, JsonNumbers numbers = JsonNumbers::kTyped) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  Result<Json> parsed = ParseJson(text, numbers);
  EXPECT_TRUE(parsed.has_value()) << path;
  return parsed.value_or(Json());
}

std::vector<Row> RowsOf(const Json& events) {
  std::vector<Row> rows;
  for (const Json& event : events.items()) {
    Result<Row> row = RowFromJson(event);
    EXPECT_TRUE(row.has_value()) << (row ? "" : row.error().message);
    if (row) rows.push_back(*std::move(row));
  }
  return rows;
}

Context ContextOf(const Json& request) {
  return {request["tenant_id"].ToString(), request["organization_id"].ToString(),
          request["execution_id"].AsInt(), request["projection"].ToString()};
}

FoldOptions OptionsOf(const Json& request, bool strict) {
  FoldOptions options{.strict = strict};
  if (const Json& base = request["base_state"]; !base.is_null()) {
    Result<State> state = StateFromJson(base);
    EXPECT_TRUE(state.has_value()) << (state ? "" : state.error().message);
    if (state) options.base_state = *std::move(state);
  }
  if (const Json& seed = request["snapshot_seed"]; !seed.is_null()) {
    Result<Snapshot> snapshot = SnapshotFromJson(seed);
    EXPECT_TRUE(snapshot.has_value()) << (snapshot ? "" : snapshot.error().message);
    if (snapshot) options.snapshot_seed = *std::move(snapshot);
  }
  if (const Json& digest = request["upcaster_registry_digest"]; digest.is_string())
    options.upcaster_registry_digest = digest.ToString();
  return options;
}

// `checksum` and `projection_checksums` of the expectation are plain texts.
void ExpectSeals(const Json& body, const Json& wanted, const std::string& what) {
  EXPECT_EQ(body["checksum"]["value"], wanted["checksum"]) << what;
  EXPECT_EQ(body["projection_checksums"].size(), 6u);
  for (const Projection& projection : kProjections) {
    EXPECT_EQ(body["projection_checksums"][projection.name]["value"],
              wanted["projection_checksums"][projection.name])
        << what << ": " << projection.name;
  }
}

TEST(ReplayVectors, AllInBothReadings) {
  // The numbers of a request are read by the rules of the reading under test.
  const Json plain = ReadJsonFile(kData + "vectors.json");
  const Json strict = ReadJsonFile(kData + "vectors.json", JsonNumbers::kTypedStrict);
  ASSERT_EQ(plain.size(), 24u);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (const bool is_strict : {false, true}) {
      const Json& vector = plain.At(i);
      const Json& request = (is_strict ? strict : plain).At(i)["request"];
      const bool own = is_strict && vector.Has("typed_strict");
      const Json& wanted = vector[own ? "typed_strict" : "typed"];
      const std::string what = vector["name"].ToString() + (is_strict ? ", strict" : "");
      const Json body = Seal(
          FoldRows(RowsOf(request["events"]), ContextOf(request), OptionsOf(request, is_strict)));
      ExpectSeals(body, wanted, what);
      EXPECT_EQ(body, wanted["state"]) << what << "\n"
                                       << WriteState(body) << "\n"
                                       << WriteState(wanted["state"]);
      EXPECT_TRUE(IsSealed(body)) << what;
    }
  }
}

std::vector<Json> ItemsOf(const Json& list) {
  return std::vector<Json>(list.items().begin(), list.items().end());
}

void ExpectFlatSeals(const Json& body, const Json& wanted, const std::string& what) {
  EXPECT_EQ(body["checksum"], wanted["checksum"]) << what;
  EXPECT_EQ(body["projection_checksums"], wanted["projection_checksums"]) << what;
}

TEST(ReplayVectors, AllInTheFlatDialect) {
  const Json requests = ReadJsonFile(kData + "vectors.json", JsonNumbers::kFlat);
  std::size_t checked = 0;
  for (const Json& vector : requests.items()) {
    if (!vector.Has("flat")) continue;  // the original's own text of containers
    ++checked;
    const Json& request = vector[vector.Has("request_flat") ? "request_flat" : "request"];
    const std::string what = vector["name"].ToString();
    const Result<Json> body =
        FoldFlatRows(ItemsOf(request["events"]), ContextOf(request),
                     {.base_state = request["base_state"],
                      .snapshot_seed = request["snapshot_seed"],
                      .upcaster_registry_digest = request["upcaster_registry_digest"]});
    ASSERT_TRUE(body.has_value()) << what << ": " << body.error().message;
    ExpectFlatSeals(*body, vector["flat"], what);
    EXPECT_EQ(*body, vector["flat"]["state"]) << what << "\n"
                                              << WriteState(*body) << "\n"
                                              << WriteState(vector["flat"]["state"]);
  }
  EXPECT_EQ(checked, 23u);
}

TEST(ReplayFlat, CountersMustBeNumbers) {
  const auto fold = [](std::string_view meta) {
    const Json row = *ParseJson(R"({"event_id":1,"event_type":"stage.closed","stage_id":"s",)"
                                R"("meta":)" +
                                    std::string(meta) + "}",
                                JsonNumbers::kFlat);
    const Result<Json> body = FoldFlatRows({row}, {});
    return body ? WriteState((*body)["stages"]["s"]["row_count"]) : body.error().code;
  };
  EXPECT_EQ(fold(R"({"row_count":" -1_000 "})"), "-1000");
  EXPECT_EQ(fold(R"({"row_count":2.9})"), "2");
  EXPECT_EQ(fold(R"({"row_count":true})"), "1");
  EXPECT_EQ(fold(R"({"row_count":1e20})"), "100000000000000000000");
  EXPECT_EQ(fold(R"({"row_count":"0018446744073709551616"})"), "18446744073709551616");
  for (std::string_view bad :
       {R"({"row_count":"x"})", R"({"row_count":"1__0"})", R"({"row_count":"_1"})",
        R"({"row_count":"1_"})", R"({"row_count":"- 1"})", R"({"row_count":[1]})"}) {
    EXPECT_EQ(fold(bad), "bad_row") << bad;
  }
}

TEST(ReplayFlat, IntegersOfAnySizeCompare) {
  const char* const ascending[] = {"-18446744073709551617", "-18446744073709551616", "-5", "0", "7",
                                   "9223372036854775808",   "18446744073709551616"};
  for (std::size_t a = 0; a < std::size(ascending); ++a) {
    for (std::size_t b = 0; b < std::size(ascending); ++b) {
      const int order = CompareInts(*ReadInteger(ascending[a]), *ReadInteger(ascending[b]));
      EXPECT_EQ(order < 0, a < b);
      EXPECT_EQ(order > 0, a > b);
    }
  }
}

TEST(ReplayVectors, StatesReadBack) {
  const Json vectors = ReadJsonFile(kData + "vectors.json");
  for (const Json& vector : vectors.items()) {
    const Json& state = vector["typed"]["state"];
    const Result<State> read = StateFromJson(state);
    ASSERT_TRUE(read.has_value()) << vector["name"].ToString() << read.error().message;
    EXPECT_EQ(Seal(*read), state) << vector["name"].ToString();
  }
}

TEST(ReplayVectors, StateOfTheParityLogIsSealed) {
  const Json state = ReadJsonFile(kData + "parity_state_typed.json");
  EXPECT_TRUE(IsSealed(state));
  const Result<State> read = StateFromJson(state);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(Seal(*read), state);
  EXPECT_EQ(CanonicalState(state["loops"]),
            R"({"L-1":{"completed":true,"done":1,"failed":0,"last_event_id":108,"loop_id":"L-1",)"
            R"("step_name":"iterate","total":2}})");
  EXPECT_EQ(CanonicalDigest(state["loops"]),
            "53dbe3dfd74313e776fbed28154c177c5c70ee0add386ea5d834fff6611c7b02");
}

// The parity log itself belongs to another project and is not kept here. NOETL_REPLAY_LOG names a
// folder with its events.json and expected.json.
class ParityLog : public testing::Test {
 protected:
  // False: there is no such folder.
  bool Load() {
    const char* folder = std::getenv("NOETL_REPLAY_LOG");
    if (folder == nullptr) {
      std::puts("NOETL_REPLAY_LOG is not set: the log of the other project was not folded");
      return false;
    }
    events_ = ReadJsonFile(std::string(folder) + "/events.json");
    rows_ = RowsOf(events_);
    expected_ = ReadJsonFile(std::string(folder) + "/expected.json");
    checksums_ = ReadJsonFile(kData + "parity_checksums.json");
    EXPECT_EQ(rows_.size(), 13u);
    return true;
  }

  Json SealedUpTo(const Json& last_id, bool strict, const std::string& projection = "all") const {
    std::vector<Row> rows;
    for (const Row& row : rows_) {
      if (last_id.is_null() || row.event_id <= last_id.AsInt()) rows.push_back(row);
    }
    return Seal(FoldRows(std::move(rows), {.execution_id = 999, .projection = projection},
                         {.strict = strict}));
  }

  Json events_;
  std::vector<Row> rows_;
  Json expected_;
  Json checksums_;
};

TEST_F(ParityLog, EveryCutoff) {
  if (!Load()) return;
  EXPECT_EQ(checksums_["cases"].size(), 15u);
  for (const Json& wanted : checksums_["cases"].items()) {
    for (const bool strict : {false, true}) {
      const Json body = SealedUpTo(wanted["as_of_event_id"], strict);
      ExpectSeals(body, wanted["typed"], "as of " + WriteJson(wanted["as_of_event_id"]));
      EXPECT_EQ(body["event_count"], wanted["events_folded"]);
    }
  }
  EXPECT_EQ(SealedUpTo(Json(), false), ReadJsonFile(kData + "parity_state_typed.json"));
}

TEST_F(ParityLog, EveryCutoffInTheFlatDialect) {
  if (!Load()) return;
  const Context context = {.execution_id = 999};
  for (const Json& wanted : checksums_["cases"].items()) {
    std::vector<Json> rows = ItemsOf(events_);
    const Json& last = wanted["as_of_event_id"];
    std::erase_if(rows, [&](const Json& row) {
      return !last.is_null() && row["event_id"].AsInt() > last.AsInt();
    });
    const Result<Json> body = FoldFlatRows(std::move(rows), context);
    ASSERT_TRUE(body.has_value());
    ExpectFlatSeals(*body, wanted["flat"], "as of " + WriteJson(last));
  }
  EXPECT_EQ(*FoldFlatRows(ItemsOf(events_), context),
            ReadJsonFile(kData + "parity_state_flat.json", JsonNumbers::kFlat));
}

TEST_F(ParityLog, EchoOfTheProjection) {
  if (!Load()) return;
  for (const Json& wanted : checksums_["projection_echo"].items()) {
    const Json body = SealedUpTo(Json(), false, wanted["projection"].ToString());
    EXPECT_EQ(body["checksum"]["value"], wanted["typed_checksum"]);
  }
}

// Nulls mean "unset" but inside free-form values.
Json WithoutNulls(const Json& value) {
  if (value.is_array()) {
    std::vector<Json> items;
    for (const Json& item : value.items()) items.push_back(WithoutNulls(item));
    return Json::Array(std::move(items));
  }
  if (!value.is_object()) return value;
  JsonObjectBuilder kept;
  for (const JsonMember& member : value.members()) {
    const std::string_view key = member.key();
    const bool free = key == "reference" || key == "attributes" || key == "output_ref";
    kept.AddSome(key, free ? member.value : WithoutNulls(member.value));
  }
  return kept.Build();
}

TEST_F(ParityLog, Structure) {
  if (!Load()) return;
  const Json wanted = WithoutNulls(expected_);
  const Json body = SealedUpTo(Json(), false);
  std::vector<Json> references;
  for (const Json& entry : body["execution"]["payload_refs"].items())
    references.push_back(entry.Without("summary"));
  const Json shown = body.With(
      "execution", body["execution"].With("payload_refs", Json::Array(std::move(references))));
  for (const JsonMember& member : wanted.members())
    EXPECT_EQ(shown[member.key()], member.value) << member.key();
}

}  // namespace
}  // namespace noetl::engine::replay
