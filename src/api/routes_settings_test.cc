// Settings that change what a route takes or answers.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/testing.h"
#include "conductor/testing.h"
#include "store/testing.h"

namespace noetl::api {
namespace {

const HeaderList kInside = {{"Authorization", "Bearer inner"}};

TestApi::Options With(std::string name, std::string value) {
  return {.router = {.internal_token = "inner"},
          .settings = {{std::move(name), std::move(value)}},
          .families = {}};
}

constexpr std::string_view kNoStart = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: one, path: demo/one}
workflow:
  - step: only
    tool: {kind: noop}
)";

std::string ContentBody(std::string_view text) {
  return WriteJson(Json::Object({{"content", text}}));
}

TEST(RouteSettings, ALargestObject) {
  TestApi api(With("NOETL_OBJECT_MAX_BYTES", "4"));
  EXPECT_EQ(api.Ask("PUT", "/api/internal/objects/a", "1234", kInside).status(), 200);
  const Asked refused = api.Ask("PUT", "/api/internal/objects/b", "12345", kInside);
  EXPECT_EQ(refused.status(), 413);
  EXPECT_EQ(refused.body["error"], Json("the object has 5 bytes; at most 4 are stored here"));
  EXPECT_EQ(api.Get("/api/internal/objects/b", kInside).status(), 404);
}

TEST(RouteSettings, RowsForAPublisherThatDoesNotSayHowMany) {
  TestApi api(With("NOETL_OUTBOX_PUBLISHER_BATCH_SIZE", "2"));
  store::MemoryStoreOptions options;
  options.outbox = true;
  const auto store = store::MakeMemoryStore(std::move(options));
  api.services.store = store.get();
  store::TestRun run(5);
  ASSERT_TRUE(store::CommitOne(*store, run.Next(4)).has_value());
  const auto claim = [&](std::string_view body) {
    return api.Post("/api/internal/outbox/claim", body, kInside).body["claimed"].AsInt();
  };
  EXPECT_EQ(claim("{}"), 2);
  EXPECT_EQ(claim(R"({"limit":1})"), 1);
  EXPECT_EQ(claim("{}"), 1);
}

TEST(RouteSettings, PlaybooksWithoutAStart) {
  for (const bool required : {false, true}) {
    TestApi api(With("NOETL_REQUIRE_START", required ? "true" : "false"));
    const int status = required ? 422 : 200;
    for (const char* route : {"/api/catalog/register", "/api/catalog/playbooks/validate"}) {
      const Asked asked = api.Post(route, ContentBody(kNoStart));
      EXPECT_EQ(asked.status(), status) << route << asked.response.body;
      EXPECT_EQ(asked.response.body.contains("E300"), required);
    }
  }
}

// Posts this many events for a run that does not exist.
int PostMany(TestApi& api, std::size_t count) {
  const Json event =
      Json::Object({{"event_type", "command.started"}, {"step", "s"}, {"payload", Json::Object()}});
  const Json body = Json::Object(
      {{"execution_id", 77}, {"events", Json::Array(std::vector<Json>(count, event))}});
  return api.Post("/api/events/batch", WriteJson(body)).status();
}

TEST(RouteSettings, MostEventsOfABatch) {
  conductor::Machine machine({.worker = false});
  for (const std::size_t most : {3u, 300u}) {
    TestApi api(With("NOETL_BATCH_MAX_EVENTS_PER_REQUEST", std::to_string(most)));
    api.services.store = machine.store.get();
    api.services.conductor = machine.conductor.get();
    api.services.clock = &machine.clock;
    api.services.ids = &machine.ids;
    api.run = [&] { machine.Run(); };
    EXPECT_EQ(PostMany(api, most), 404) << most;
    EXPECT_EQ(PostMany(api, most + 1), 413) << most;
  }
}

}  // namespace
}  // namespace noetl::api
