#include "api/event_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_io.h"

namespace noetl::api {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kNowUs = 1'767'225'600'000'000;

Json Parse(std::string_view text) { return ParseJson(text).value(); }

Result<EventRequest> Read(std::string_view text, EventDefaults defaults = {}) {
  defaults.now_us = kNowUs;
  return ReadEventRequest(Parse(text), defaults);
}

TEST(EventRequestTest, ReadsTheFormOfOldWorkers) {
  const auto request = Read(
      R"({"execution_id":"7","name":"call.done","step":"start","created_at":"2026-01-01T00:00:01Z",
          "context":{"command_id":"7:start:9","call_index":0,"result":{"status":"success"}},
          "event_id":"11","worker_id":"w","meta":{"attempts":1}})");
  ASSERT_TRUE(request.has_value()) << request.error().message;
  const conductor::PostedEvent& posted = request->posted;
  EXPECT_EQ(request->execution_id, 7);
  EXPECT_EQ(request->worker_id, "w");
  EXPECT_EQ(posted.command_id, "7:start:9");
  EXPECT_EQ(posted.claim_token, 0);
  EXPECT_EQ(posted.event.event_id, 11);
  EXPECT_EQ(posted.event.type, engine::EventType::kCallDone);
  EXPECT_EQ(posted.event.node_name, "start");
  EXPECT_EQ(posted.event.status, "COMPLETED");
  EXPECT_EQ(posted.event.created_at_us, kNowUs + 1'000'000);
  EXPECT_EQ(posted.event.result, Parse(R"({"status":"COMPLETED","context":{"command_id":"7:start:9",
      "call_index":0,"result":{"status":"success"}}})"));
  EXPECT_EQ(posted.event.meta, Parse(R"({"attempts":1,"actionable":true,"informative":true,
      "worker_id":"w","command_id":"7:start:9"})"));
}

TEST(EventRequestTest, TakesWhatIsMissingFromTheRequestAround) {
  const auto request = Read(R"({"node_name":"s","event_type":"command.started","payload":null})",
                            {.execution_id = 3, .worker_id = "batch", .actionable = false});
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->execution_id, 3);
  EXPECT_EQ(request->worker_id, "batch");
  EXPECT_EQ(request->posted.event.created_at_us, kNowUs);
  EXPECT_EQ(request->posted.event.status, "RUNNING");
  EXPECT_EQ(request->posted.event.result, Parse(R"({"status":"RUNNING"})"));
  EXPECT_FALSE(request->posted.event.meta["actionable"].AsBool(true));
}

TEST(EventRequestTest, WrapsPayloadsThatAreNoMaps) {
  const auto request = Read(R"({"execution_id":1,"step":"s","event_type":"note","payload":[1,2]})");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->posted.event.result["context"], Parse(R"({"value":[1,2]})"));
}

TEST(EventRequestTest, ReadsReferences) {
  const auto one = Read(R"({"execution_id":1,"step":"s","event_type":"call.done",
      "result_kind":"ref","result_uri":"s3://bucket/key","payload":{"command_id":"1:s:2"}})");
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->posted.event.result["reference"],
            Parse(R"({"store_tier":"s3","logical_uri":"s3://bucket/key"})"));
  EXPECT_EQ(one->posted.command_id, "1:s:2");
  const auto parts = Read(R"({"execution_id":1,"step":"s","event_type":"call.done",
      "result_kind":"refs","event_ids":[4,5]})");
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->posted.event.result["reference"],
            Parse(R"({"event_ids":[4,5],"total_parts":2})"));
}

TEST(EventRequestTest, FindsTheClaimWhereverItIsTold) {
  for (const char* place : {R"("claim_token":5)", R"("claim_epoch":"5")",
                            R"("meta":{"claim_token":5})", R"("meta":{"claim_epoch":5})"}) {
    const auto request = Read(std::string(R"({"execution_id":1,"step":"s","event_type":"call.done",
        "payload":{"command_id":"1:s:2"},)") +
                              place + "}");
    ASSERT_TRUE(request.has_value()) << place;
    EXPECT_EQ(request->posted.claim_token, 5) << place;
    EXPECT_EQ(request->posted.event.meta["claim_token"].AsInt(), 5) << place;
  }
}

TEST(EventRequestTest, TakesTheErrorOffThePayload) {
  const auto request = Read(R"({"execution_id":1,"step":"s","event_type":"command.failed",
      "payload":{"command_id":"1:s:2","error":"no such host"}})");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->posted.event.error, "no such host");
  EXPECT_EQ(request->posted.event.status, "FAILED");
}

TEST(EventRequestTest, RefusesWhatOnlyTheServerWrites) {
  for (const char* type :
       {"playbook.completed", "playbook_failed", "playbook.anything", "execution.cancelled",
        "command.issued", "step.enter", "step.skipped", "ctx.updated", "loop.done", "run.warning",
        "command.cancelled", "subscription.paused"}) {
    const auto request = ReadEventRequest(
        Json::Object({{"execution_id", 1}, {"step", "s"}, {"event_type", type}}), {});
    ASSERT_FALSE(request.has_value()) << type;
    EXPECT_EQ(request.error().code, "forbidden") << type;
  }
  for (const char* type : {"step.exit", "command.claimed", "call.error", "command.heartbeat",
                           "subscription.message.received"})
    EXPECT_FALSE(IsServerOwned(type)) << type;
}

TEST(EventRequestTest, SaysWhatIsWrong) {
  const auto code = [](std::string_view text) {
    const auto request = Read(text);
    return request ? std::string("none") : request.error().code;
  };
  EXPECT_EQ(code(R"([])"), "invalid");
  EXPECT_EQ(code(R"({"step":"s","event_type":"x"})"), "invalid");
  EXPECT_EQ(code(R"({"execution_id":"x","step":"s","event_type":"x"})"), "invalid");
  EXPECT_EQ(code(R"({"execution_id":1,"event_type":"x"})"), "invalid");
  EXPECT_EQ(code(R"({"execution_id":1,"step":"s"})"), "invalid");
  EXPECT_EQ(code(R"({"execution_id":1,"step":"s","event_type":"x","event_id":"y"})"), "invalid");
  EXPECT_EQ(code(R"({"execution_id":1,"step":"s","event_type":"x","meta":[]})"), "invalid");
  EXPECT_EQ(code(R"({"execution_id":1,"step":"s","event_type":"x","payload":{"a":["\u0000"]}})"),
            "invalid");
  EXPECT_EQ(code(R"({"execution_id":1,"step":"s","event_type":"x","payload":{"\u0000":1}})"),
            "invalid");
}

TEST(EventRequestTest, ABatchSaysWhichEventIsWrong) {
  const auto requests = ReadEventRequests(
      Parse(R"([{"step":"s","event_type":"x"},{"event_type":"x"}])"), {.execution_id = 1});
  ASSERT_FALSE(requests.has_value());
  EXPECT_THAT(requests.error().message, HasSubstr("events[1]"));
  const auto foreign = ReadEventRequests(
      Parse(R"([{"execution_id":2,"step":"s","event_type":"x"}])"), {.execution_id = 1});
  EXPECT_EQ(foreign.error().code, "invalid");
  const auto many = ReadEventRequests(
      Json::Array(std::vector<Json>(kBatchEventsMax + 1, Json::Object())), {.execution_id = 1});
  EXPECT_EQ(many.error().code, "too_large");
}

TEST(EventRequestTest, ReadsHoldings) {
  const auto holdings = ReadHoldings(Parse(R"([{"event_id":"4","claim_token":2},5])"));
  ASSERT_TRUE(holdings.has_value());
  ASSERT_EQ(holdings->size(), 2u);
  EXPECT_EQ((*holdings)[0].event_id, 4);
  EXPECT_EQ((*holdings)[0].claim_token, 2);
  EXPECT_EQ((*holdings)[1].event_id, 5);
  EXPECT_EQ((*holdings)[1].claim_token, 0);
  EXPECT_FALSE(ReadHoldings(Parse(R"({"a":1})")).has_value());
}

}  // namespace
}  // namespace noetl::api
