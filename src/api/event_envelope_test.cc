#include "api/event_envelope.h"

#include <string>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/time.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kNowUs = 1'781'784'000'000'000;

Json Text(std::string_view json) { return ParseJson(json).value(); }

TEST(EventEnvelope, ComesBackAsItWent) {
  engine::Event event;
  event.event_id = 9001;
  event.execution_id = 42;
  event.seq = 7;
  event.catalog_id = 5;
  event.parent_event_id = 9000;
  event.type = engine::EventType::kCallDone;
  event.type_name = "call.done";
  event.node_name = "start";
  event.status = "COMPLETED";
  event.result = Text(R"({"status":"COMPLETED","context":{"data":1}})");
  event.meta = Text(R"({"command_id":"42:start:8999"})");
  event.worker_id = "w1";
  event.created_at_us = kNowUs;
  event.ingest_us = kNowUs + 5;

  const Json envelope = EventEnvelope(event);
  EXPECT_EQ(envelope["timestamp"], Json(FormatTime(kNowUs)));
  const auto back = ReadEnvelope(envelope, 0);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->execution_id, 42);
  EXPECT_EQ(back->worker_id, "w1");
  EXPECT_EQ(back->posted.command_id, "42:start:8999");
  EXPECT_EQ(back->posted.event.created_at_us, kNowUs);
  EXPECT_EQ(back->posted.event.parent_event_id, 9000);
  EXPECT_EQ(back->posted.event.result, event.result);
}

TEST(EventEnvelope, OtherMakersAreUnderstood) {
  const auto read = ReadEnvelope(
      Text(R"({"event_id":"9001","execution_id":"42","catalog_id":"","parent_event_id":0,
               "event_type":"step.exit","timestamp":"2026-06-18T12:00:00.5","extra":[1]})"),
      kNowUs);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->posted.event.event_id, 9001);
  EXPECT_EQ(read->posted.event.catalog_id, 0);
  EXPECT_EQ(read->posted.event.status, "COMPLETED");
  EXPECT_EQ(read->posted.event.created_at_us, ParseTime("2026-06-18T12:00:00.5Z").value());

  const auto spaced = ReadEnvelope(
      Text(R"({"event_id":1,"event_type":"x","timestamp":" ","created_at":"2026-06-18 12:00:00"})"),
      kNowUs);
  ASSERT_TRUE(spaced) << spaced.error().message;
  EXPECT_EQ(spaced->execution_id, 0);
  EXPECT_EQ(spaced->posted.event.created_at_us, ParseTime("2026-06-18T12:00:00Z").value());
  EXPECT_EQ(
      ReadEnvelope(Text(R"({"event_id":1,"event_type":"x"})"), kNowUs)->posted.event.created_at_us,
      kNowUs);
}

TEST(EventEnvelope, WhatCannotBeStoredIsRefused) {
  for (const std::string_view text : {R"([])", R"({"event_type":"x"})", R"({"event_id":1})",
                                      R"({"event_id":-1,"event_type":"x"})",
                                      R"({"event_id":1,"event_type":"x","timestamp":"yesterday"})",
                                      R"({"event_id":1,"event_type":"x","result":{"data":1}})",
                                      R"({"event_id":1,"event_type":"x","meta":3})",
                                      R"({"event_id":1,"event_type":"x\u0000"})"}) {
    EXPECT_FALSE(ReadEnvelope(Text(text), kNowUs)) << text;
  }
}

}  // namespace
}  // namespace noetl::api
