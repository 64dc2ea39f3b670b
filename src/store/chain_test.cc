#include "store/chain.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>

#include "base/json_io.h"
#include "base/testing.h"

namespace noetl::store {
namespace {

engine::Event SampleEvent() {
  engine::Event event;
  event.event_id = 12;
  event.execution_id = 7;
  event.seq = 2;
  event.type = engine::EventType::kCallDone;
  event.type_name = "call.done";
  event.status = "COMPLETED";
  event.node_name = "say \"hi\"\n";
  event.created_at_us = 100;
  event.meta = Parse(R"({"b":1,"a":{"z":null,"y":"ü"},"command_id":"7:a:b:11:i3"})");
  return event;
}

// The row as a reader finds it: values parsed from the stored texts.
EventRow Reread(const EventRow& row) {
  EventRow read = row;
  const auto parse = [](const std::string& text) { return text.empty() ? Json() : Parse(text); };
  read.event.context = parse(row.context);
  read.event.result = parse(row.result);
  read.event.meta = parse(row.meta);
  return read;
}

TEST(Chain, CanonicalRowIsSortedAndWithoutAbsentColumns) {
  const EventRow row = *MakeEventRow(SampleEvent(), ChainStart(7));
  EXPECT_EQ(CanonicalRow(row),
            R"({"command_id":11,"created_at":100,"event_id":12,"event_type":"call.done",)"
            R"("execution_id":7,"meta":{"a":{"y":"ü","z":null},"b":1,"command_id":"7:a:b:11:i3"},)"
            R"("node_name":"say \"hi\"\n","status":"COMPLETED","stream_version":2})");
  EXPECT_EQ(CanonicalRow(row), CanonicalJson(Parse(CanonicalRow(row))));
}

TEST(Chain, StartAndStepsAreAsDescribed) {
  EXPECT_EQ(ChainStart(7), Sha256("noetl.log.chain.v2\n{\"execution_id\":7}"));
  EXPECT_NE(ChainStart(7), ChainStart(8));
  const EventRow row = *MakeEventRow(SampleEvent(), ChainStart(7));
  const Sha256Digest start = ChainStart(7);
  std::string text(reinterpret_cast<const char*>(start.data()), start.size());
  EXPECT_EQ(row.chain, Sha256(text + CanonicalRow(row)));
  EXPECT_EQ(row.chain, ChainNext(start, row));
}

TEST(Chain, EveryColumnCounts) {
  const EventRow row = *MakeEventRow(SampleEvent(), ChainStart(7));
  const auto differs = [&](const std::function<void(EventRow&)>& change) {
    EventRow changed = row;
    change(changed);
    return ChainNext(ChainStart(7), changed) != row.chain;
  };
  EXPECT_TRUE(differs([](EventRow& r) { r.event.event_id = 13; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.execution_id = 8; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.seq = 3; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.catalog_id = 1; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.parent_event_id = 1; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.prev_event_id = 1; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.parent_execution_id = 1; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.type_name = "x"; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.node_name = "x"; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.node_type = "x"; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.status = "x"; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.context = Json(1); }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.result = Json(1); }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.meta = Json(1); }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.error = "x"; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.worker_id = "x"; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.created_at_us = 1; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.event.ingest_us = 1; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.command_id = 1; }));
  EXPECT_TRUE(differs([](EventRow& r) { r.idempotency_key = "x"; }));
}

TEST(Chain, ValuesThatChangeWhenTheyAreStored) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Json& value :
       {Json(-0.0), Json::Array({Json(-0.0), Json(1e300), Json(5e-324), Json(0.1)}),
        Json::Object({{"b", Json::BigInt("123456789012345678901234567890")}, {"a", infinity}}),
        Json(infinity), Json(std::uint64_t{18446744073709551615u}), Json("\x01é\U0001F600\"\\")}) {
    engine::Event event = SampleEvent();
    event.context = value;
    const EventRow row = *MakeEventRow(event, ChainStart(7));
    EXPECT_EQ(Reread(row).event, row.event) << WriteJson(value);
    EXPECT_EQ(ChainNext(ChainStart(7), Reread(row)), row.chain) << WriteJson(value);
  }
}

TEST(Chain, WhatCannotBeStoredIsRefused) {
  engine::Event event = SampleEvent();
  event.context = Json(std::string_view("a\0b", 3));
  EXPECT_EQ(MakeEventRow(event, ChainStart(7)).error().code, "json_nul");
  Json deep(1);
  for (std::size_t i = 0; i <= kJsonDepthMax; ++i) deep = Json::Array({deep});
  event.context = deep;
  EXPECT_EQ(MakeEventRow(event, ChainStart(7)).error().code, "json_depth");
}

TEST(Chain, TheCommandOfAnEvent) {
  const auto number = [](const char* id) {
    engine::Event event = SampleEvent();
    event.meta = Json::Object({{"command_id", id}});
    return MakeEventRow(event, ChainStart(7))->command_id;
  };
  EXPECT_EQ(number("7:a:11"), 11);
  EXPECT_EQ(number("7:a:11:i0"), 11);
  EXPECT_EQ(number("7:a:i5:11"), 11);
  EXPECT_EQ(number("seven"), 0);
  EXPECT_EQ(number("7:a:"), 0);
  EXPECT_EQ(number(""), 0);
}

Json AnyJson(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 9 : 7)) {
    case 0: return {};
    case 1: return *rc::gen::arbitrary<bool>();
    case 2: return *rc::gen::arbitrary<std::int64_t>();
    case 3: return *rc::gen::arbitrary<std::uint64_t>();
    case 4: return *rc::gen::arbitrary<double>();
    case 5: return *rc::gen::element(Json(-0.0), Json(1e22), Json(-1e-7), Json("\u00e9\u4e2d"));
    case 6: {
      auto text = *rc::gen::arbitrary<std::string>();
      std::erase_if(text, [](char c) { return c == 0 || static_cast<unsigned char>(c) > 126; });
      return Json(text);
    }
    case 7: {
      std::vector<Json> items(*rc::gen::inRange<std::size_t>(0, 4));
      for (Json& item : items) item = AnyJson(depth - 1);
      return Json::Array(std::move(items));
    }
    default: {
      JsonObjectBuilder builder;
      const int count = *rc::gen::inRange(0, 4);
      for (int i = 0; i < count; ++i) {
        builder.Add(std::string(1, static_cast<char>(*rc::gen::inRange<int>('a', 'f'))),
                    AnyJson(depth - 1));
      }
      return builder.Build();
    }
  }
}

TEST(Chain, TheStoredRowHasTheSameChain) {
  EXPECT_TRUE(rc::check("the chain of a row equals that of the row read back", [] {
    engine::Event event = SampleEvent();
    event.context = AnyJson(3);
    event.result = AnyJson(2);
    event.meta = AnyJson(2);
    const EventRow row = *MakeEventRow(event, ChainStart(7));
    RC_ASSERT(Reread(row).event == row.event);
    RC_ASSERT(ChainNext(ChainStart(7), Reread(row)) == row.chain);
  }));
}

}  // namespace
}  // namespace noetl::store
