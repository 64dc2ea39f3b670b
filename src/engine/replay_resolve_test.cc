#include "engine/replay_resolve.h"

#include <fstream>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/testing.h"
#include "engine/replay_flat.h"
#include "engine/replay_seal.h"

namespace noetl::engine::replay {
namespace {

bool InTime() { return false; }

// The text under which a store knows a payload.
std::string Place(const Json& target) {
  return target.is_string() ? target.ToString() : LocatorOf(target);
}

Json BodyWith(const std::vector<Json>& references) {
  std::vector<Json> entries;
  for (const Json& reference : references)
    entries.push_back(Json::Object({{"event_id", 1}, {"reference", reference}}));
  return Json::Object(
      {{"execution", Json::Object({{"payload_refs", Json::Array(std::move(entries))}})}});
}

TEST(ReplayResolve, SharedVector) {
  std::ifstream file(NOETL_SOURCE_DIR "/tests/data/canonical_json_vectors.json", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Json vectors = *ParseJson(text, JsonNumbers::kFlat);
  ASSERT_EQ(vectors["resolution"].size(), 1u);
  for (const Json& vector : vectors["resolution"].items()) {
    const Json& events = vector["request"]["events"];
    const Result<Json> body =
        FoldFlatRows({events.items().begin(), events.items().end()},
                     {.execution_id = vector["request"]["execution_id"].AsInt()});
    ASSERT_TRUE(body.has_value());
    std::map<std::string, int> asked;
    const Json resolved = ResolvePayloads(
        *body,
        [&](const Json& target) -> Result<Json> {
          const std::string place = Place(target);
          ++asked[place];
          if (const Json* payload = vector["store"].Find(place)) return *payload;
          return Fail("not_found", "not found: " + place);
        },
        InTime);
    EXPECT_EQ(resolved["payload_resolution"], vector["payload_resolution"]);
    EXPECT_EQ(resolved["payload_resolution_summary"], vector["payload_resolution_summary"]);
    for (const auto& [place, times] : asked) EXPECT_EQ(times, 1) << place;
    EXPECT_EQ(resolved.Without("payload_resolution").Without("payload_resolution_summary"), *body);
  }
}

TEST(ReplayResolve, Locators) {
  const auto locator = [](std::string_view text) { return LocatorOf(Parse(text)); };
  EXPECT_EQ(locator(R"("a")"), "a");
  EXPECT_EQ(locator("7"), "");
  EXPECT_EQ(locator("[]"), "");
  EXPECT_EQ(locator(R"({"kind":"payload_store","uri":"u","sha256":"s","ref":"r"})"), "u");
  EXPECT_EQ(locator(R"({"kind":"payload_store","sha256":"s","ref":"r"})"), "s");
  EXPECT_EQ(locator(R"({"sha256":"s","ref":"","uri":"u","locator":"l"})"), "u");
  EXPECT_EQ(locator(R"({"locator":5})"), "5");
  EXPECT_EQ(locator(R"({"rows_ref":{"locator":"l"}})"), "l");
  EXPECT_EQ(locator(R"({"rows_ref":"l"})"), "");
}

TEST(ReplayResolve, Budgets) {
  std::vector<Json> references;
  for (std::size_t i = 0; i < kPayloadsMax + 5; ++i) references.emplace_back(fmt::format("r{}", i));
  references.emplace_back("r0");
  std::size_t asked = 0;
  const PayloadLoader load = [&](const Json&) -> Result<Json> { return Json(++asked); };
  const Json body = ResolvePayloads(BodyWith(references), load, InTime);
  EXPECT_EQ(asked, kPayloadsMax);
  const Json& summary = body["payload_resolution_summary"];
  EXPECT_EQ(summary["unresolved"].AsInt(), 5);
  EXPECT_FALSE(summary["all_resolved"].AsBool());
  EXPECT_EQ(body["payload_resolution"].At(kPayloadsMax)["resolution"]["error"],
            Json("resolution budget exhausted"));
  const Json late = ResolvePayloads(BodyWith(references), load, [] { return true; });
  EXPECT_EQ(late["payload_resolution_summary"]["resolved"].AsInt(), 0);
  EXPECT_EQ(asked, kPayloadsMax);
}

TEST(ReplayResolve, NothingToResolve) {
  const Json body = ResolvePayloads(Seal(FoldRows({}, {})), nullptr, InTime);
  EXPECT_EQ(body["payload_resolution"], Json::Array());
  EXPECT_TRUE(body["payload_resolution_summary"]["all_resolved"].AsBool());
}

}  // namespace
}  // namespace noetl::engine::replay
