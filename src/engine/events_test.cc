#include "engine/events.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/testing.h"

namespace noetl::engine {
namespace {

TEST(Events, EveryTypeIsReadByItsNameAndItsAliases) {
  for (const EventTypeInfo& info : EventTypes()) {
    EXPECT_EQ(EventTypeOf(info.name), info.type);
    EXPECT_EQ(EventName(info.type), info.name);
    for (std::size_t at = 0; at < info.aliases.size();) {
      const std::size_t end = std::min(info.aliases.find(' ', at), info.aliases.size());
      EXPECT_EQ(EventTypeOf(info.aliases.substr(at, end - at)), info.type);
      at = end + 1;
    }
  }
  EXPECT_EQ(EventTypeOf("subscription.message.deduplicated"), EventType::kOther);
  EXPECT_EQ(EventTypeOf(""), EventType::kOther);
  EXPECT_EQ(EventTypeOf("playbook"), EventType::kOther);
}

TEST(Events, ThreeTypesEndARun) {
  int terminal = 0;
  for (const EventTypeInfo& info : EventTypes()) terminal += IsTerminal(info.type) ? 1 : 0;
  EXPECT_EQ(terminal, 3);
}

TEST(Events, IdempotencyKeys) {
  struct Row {
    std::string_view type, meta, result, key;
  };
  const Row rows[] = {
      {"command.started", R"({"command_id":"7:a:9"})", "null", "cmd:7:a:9:command.started"},
      {"action_started", R"({"command_id":"7:a:9"})", "null", "cmd:7:a:9:command.started"},
      {"call.done", R"({"command_id":"c"})", "null", "cmd:c:call.done"},
      {"call.error", R"({"command_id":"c"})", "null", "cmd:c:call.error"},
      {"command.completed", "{}", R"({"status":"success","context":{"command_id":"c"}})",
       "cmd:c:command.completed"},
      {"command.failed", "{}", R"({"status":"FAILED","data":{"command_id":"c"}})",
       "cmd:c:command.failed"},
      {"command.claimed", R"({"command_id":"c","claim_token":3})", "null",
       "cmd:c:command.claimed:3"},
      {"command.claimed", R"({"command_id":"c"})", "null", "cmd:c:command.claimed:0"},
      {"command.issued", R"({"command_id":"c"})", "null", "event:5"},
      {"command.completed", "{}", "null", "event:5"},
      {"command.completed", R"({"command_id":7})", "null", "event:5"},
      {"something.else", R"({"command_id":"c"})", "null", "event:5"},
  };
  for (const Row& row : rows) {
    Event event;
    event.event_id = 5;
    event.type_name = std::string(row.type);
    event.type = EventTypeOf(row.type);
    event.meta = Parse(row.meta);
    event.result = Parse(row.result);
    EXPECT_EQ(IdempotencyKey(event), row.key) << row.type << " " << row.meta;
  }
}

TEST(Events, RowsComeBackAsTheyWere) {
  Event event;
  event.event_id = 11;
  event.execution_id = 7;
  event.seq = 3;
  event.prev_event_id = 10;
  event.parent_event_id = 9;
  event.catalog_id = 2;
  event.parent_execution_id = 1;
  event.type = EventType::kCallDone;
  event.type_name = "action_done";
  event.node_name = "a";
  event.node_type = "http";
  event.status = "COMPLETED";
  event.context = Parse(R"({"k":[1,2]})");
  event.result = Parse(R"({"status":"COMPLETED","context":{"x":1},"reference":{"ref":"r"}})");
  event.meta = Parse(R"({"command_id":"c"})");
  event.error = "e";
  event.worker_id = "w";
  event.created_at_us = 5;
  event.ingest_us = 6;
  Result<Event> read = EventFromJson(EventToJson(event));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, event);
}

TEST(Events, DecimalTextIsAnId) {
  Result<Event> read =
      EventFromJson(Parse(R"({"event_id":"9007199254740993","event_type":"call.done"})"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->event_id, 9007199254740993);
}

TEST(Events, BadRowsAreRefusedWithTheField) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"[]", "an event must be an object"},
      {"null", "an event must be an object"},
      {R"({"event_type":"x","event_id":"12a"})", "event_id"},
      {R"({"event_type":"x","event_id":1.5})", "event_id"},
      {R"({"event_type":"x","stream_version":true})", "stream_version"},
      {R"({"event_type":"x","node_name":1})", "node_name"},
      {R"({"event_type":7})", "event_type"},
      {R"({})", "event_type"},
      {R"({"event_type":"x","meta":[]})", "meta"},
      {R"({"event_type":"x","result":[]})", "result"},
      {R"({"event_type":"x","result":{}})", "result"},
      {R"({"event_type":"x","result":{"status":1}})", "result"},
      {R"({"event_type":"x","result":{"status":"ok","data":{}}})", "data"},
      {R"({"event_type":"x","result":{"status":"ok","context":1}})", "context"},
      {R"({"event_type":"x","result":{"status":"ok","reference":"r"}})", "reference"},
  };
  for (const auto& [row, field] : rows) {
    Result<Event> read = EventFromJson(Parse(row));
    ASSERT_FALSE(read.has_value()) << row;
    EXPECT_EQ(read.error().code, "bad_event");
    EXPECT_NE(read.error().message.find(field), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace noetl::engine
