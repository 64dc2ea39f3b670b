#include "api/claim_body.h"

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "engine/result.h"

namespace noetl::api {
namespace {

Json Parse(std::string_view text) { return ParseJson(text).value(); }

Json StepJson(Json data) {
  engine::StepResult result;
  result.data = std::move(data);
  return result.ToJson();
}

bus::Grant Granted(Json render_context) {
  bus::Grant grant;
  grant.execution_id = 7;
  grant.command_id = "7:start:9";
  grant.event_id = 9;
  grant.path = "demo/hello";
  grant.step = "start";
  grant.tool_kind = "python";
  grant.context = Json::Object({{"tool_config", Parse(R"({"kind":"python"})")},
                                {"render_context", std::move(render_context)}});
  grant.meta = Parse(R"({"attempt":2})");
  grant.claim_token = 4;
  return grant;
}

Result<Json> LoadNothing(std::string_view) { return Fail("not_found", "gone"); }

TEST(ClaimBodyTest, HasEverythingAWorkerReads) {
  const Json body = ClaimBody({Granted(Json::Object()), 29'500}, LoadNothing);
  EXPECT_EQ(body["status"], Json("ok"));
  EXPECT_EQ(body["event_id"], Json(9));
  EXPECT_EQ(body["execution_id"], Json(7));
  EXPECT_EQ(body["node_id"], Json("start"));
  EXPECT_EQ(body["node_name"], Json("start"));
  EXPECT_EQ(body["action"], Json("python"));
  EXPECT_EQ(body["claim_token"], Json(4));
  EXPECT_EQ(body["lease_seconds"], Json(29));  // rather too short than too long
  EXPECT_EQ(body["meta"]["command_id"], Json("7:start:9"));
  EXPECT_EQ(body["meta"]["attempt"], Json(2));
  EXPECT_EQ(body["meta"]["attempts"], Json(3));
}

TEST(ClaimBodyTest, OldWorkersFindNamesAtTheTop) {
  Json base = Parse(R"({"workload":{"who":"ann","ctx":"mine","both":"workload"},
                        "ctx":{"count":1,"both":"ctx","steps":9},
                        "identity":{"execution_id":"7"}})");
  base = base.With("steps", Json::Object({{"fetch", StepJson(Parse(R"({"rows":3})"))},
                                          {"who", StepJson(Json("step"))}}));
  const Json flat = FlatRenderContext(base);
  EXPECT_EQ(flat["who"], Json("ann"));   // the workload before a step
  EXPECT_EQ(flat["both"], Json("ctx"));  // ctx before the workload
  EXPECT_EQ(flat["ctx"], base["ctx"]);   // a root is never hidden
  EXPECT_EQ(flat["steps"], base["steps"]);
  EXPECT_EQ(flat["fetch"], Parse(R"({"rows":3})"));
  EXPECT_EQ(flat["count"], Json(1));
}

TEST(ClaimBodyTest, AStoredContextIsPutInItsPlace) {
  const Json stored = Parse(R"({"__context_ref__":"noetl://x","__context_bytes__":40000})");
  const LoadBody load = [](std::string_view ref) -> Result<Json> {
    EXPECT_EQ(ref, "noetl://x");
    return Parse(R"({"workload":{"who":"ann"},"ctx":{},"steps":{},"identity":{}})");
  };
  const Json body = CommandBody(Granted(stored), load);
  EXPECT_EQ(body["context"]["render_context"]["who"], Json("ann"));
  EXPECT_EQ(CommandBody(Granted(stored), LoadNothing)["context"]["render_context"], stored);
}

}  // namespace
}  // namespace noetl::api
