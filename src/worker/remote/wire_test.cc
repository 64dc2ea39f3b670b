#include "worker/remote/wire.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"
#include "base/testing.h"
#include "base/time.h"

namespace noetl::worker {
namespace {

TEST(WireTest, AClaimBecomesAGrant) {
  const Result<Granted> granted = GrantFromJson(Parse(R"({
    "status": "ok", "event_id": 21, "execution_id": "16", "node_id": "fetch", "node_name": "fetch",
    "action": "http", "context": {"tool_config": {"url": "u"}, "args": {}},
    "meta": {"command_id": "16:fetch:21", "attempt": 2, "strict": true, "inline_bytes": 7,
             "path": "demo/p"},
    "lease_seconds": 1.5, "claim_token": 4, "unknown": []})"));
  ASSERT_TRUE(granted) << granted.error().message;
  const bus::Grant& grant = granted->grant;
  EXPECT_EQ(grant.execution_id, 16);
  EXPECT_EQ(grant.event_id, 21);
  EXPECT_EQ(grant.command_id, "16:fetch:21");
  EXPECT_EQ(grant.step, "fetch");
  EXPECT_EQ(grant.tool_kind, "http");
  EXPECT_EQ(grant.path, "demo/p");
  EXPECT_EQ(grant.context["tool_config"]["url"], Json("u"));
  EXPECT_EQ(grant.meta["attempt"], Json(2));
  EXPECT_EQ(grant.claim_token, 4);
  EXPECT_TRUE(grant.strict);
  EXPECT_EQ(grant.inline_bytes, 7);
  EXPECT_EQ(granted->lease_ms, 1'500);
}

TEST(WireTest, WhatAClaimLeavesOutHasDefaults) {
  const Result<Granted> granted = GrantFromJson(Parse(
      R"({"event_id": "21", "execution_id": 16, "node_name": "a", "action": "noop",
          "claim_epoch": 3, "lease_seconds": -1, "path": "p", "strict": true})"));
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->grant.command_id, "16:a:21");
  EXPECT_EQ(granted->grant.claim_token, 3);
  EXPECT_EQ(granted->grant.path, "p");
  EXPECT_TRUE(granted->grant.strict);
  EXPECT_EQ(granted->grant.inline_bytes, kInlineBytesDefault);
  EXPECT_EQ(granted->lease_ms, kLeaseMsDefault);
}

TEST(WireTest, AClaimThatNamesNothingIsRefused) {
  for (const std::string_view text :
       {"{}", "[]", "null", R"({"event_id": 1, "execution_id": 2})",
        R"({"event_id": -1, "execution_id": 2, "node_name": "a", "action": "b"})",
        R"({"event_id": "x", "execution_id": 2, "node_name": "a", "action": "b"})",
        R"({"event_id": 1, "execution_id": 2, "node_name": "a"})"}) {
    const Result<Granted> granted = GrantFromJson(Parse(text));
    ASSERT_FALSE(granted) << text;
    EXPECT_EQ(granted.error().code, "bad_answer");
  }
}

TEST(WireTest, AnEventSaysWhatTheServerAsksFor) {
  bus::Report report{
      .execution_id = 77, .command_id = "77:s:1", .claim_token = 3, .worker_id = "w"};
  engine::Event event;
  event.event_id = 900;
  event.execution_id = 77;
  event.type = engine::EventType::kCallError;
  event.type_name = "call.error";
  event.node_name = "s";
  event.status = "FAILED";
  event.error = "no";
  event.created_at_us = 1'000'000;
  event.result = Parse(R"({"status": "FAILED", "context": {"command_id": "77:s:1"}})");
  EXPECT_EQ(EventRequest(event, report), Parse(R"({
    "execution_id": 77, "event_id": 900, "event_type": "call.error", "step": "s",
    "status": "FAILED", "created_at": "1970-01-01T00:00:01.000000Z", "worker_id": "w",
    "context": {"command_id": "77:s:1"}, "meta": {"claim_token": 3}, "error": "no"})"));
}

TEST(WireTest, AnswersToLeases) {
  const Result<LeaseAnswer> answer = LeaseAnswerFromJson(Parse(R"({
    "events": [{"event_id": 1, "status": "ok"},
               {"event_id": 2, "status": "refused", "code": "stale_claim", "error": "why"}],
    "commands": [{"event_id": 5, "execution_id": 6, "node_name": "a", "action": "noop"}, {}],
    "cancel": [7, "8", "77:s:9", {"event_id": "10"}, {}, null], "lost": [11]})"));
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->events.size(), 2U);
  EXPECT_EQ(answer->events[0].code, "");
  EXPECT_EQ(answer->events[1].code, "stale_claim");
  EXPECT_EQ(answer->events[1].message, "why");
  EXPECT_EQ(answer->commands.size(), 1U);
  EXPECT_EQ(answer->problems.size(), 1U);
  EXPECT_EQ(answer->cancel, (std::vector<CommandName>{{7, ""}, {8, ""}, {0, "77:s:9"}, {10, ""}}));
  EXPECT_EQ(answer->lost, (std::vector<CommandName>{{11, ""}}));
  EXPECT_FALSE(LeaseAnswerFromJson(Parse("[]")));
}

TEST(WireTest, News) {
  const auto cancel = ControlNewsFrom("cancel", Parse(R"({"event_id": "5", "command_id": "c"})"));
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->kind, ControlNews::Kind::kCancel);
  EXPECT_EQ(cancel->command, (CommandName{5, "c"}));
  EXPECT_EQ(ControlNewsFrom("drain", Json())->kind, ControlNews::Kind::kDrain);
  EXPECT_FALSE(ControlNewsFrom("hello", Json()));
}

TEST(WireTest, EndsOfChildren) {
  EXPECT_FALSE(ChildEndFromJson(Parse(R"({"status": "RUNNING"})")));
  const auto end = ChildEndFromJson(Parse(R"({"status": "failed", "error": "no"})"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, "FAILED");
  EXPECT_EQ(end->error, "no");
  engine::ChildEnd child;
  SetChildResult(Parse(R"({"kind": "result_ref", "ref": "noetl://x"})"), &child);
  EXPECT_EQ(child.reference["ref"], Json("noetl://x"));
  EXPECT_TRUE(child.data.is_null());
  SetChildResult(Parse(R"({"ref": "noetl://x"})"), &child);
  EXPECT_EQ(child.data["ref"], Json("noetl://x"));
}

// ---- round trips

rc::Gen<std::string> Text() {
  return rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc:_\"\\ \n9")));
}
rc::Gen<std::string> SomeText() {
  return rc::gen::map(Text(), [](std::string text) { return "t" + text; });
}
rc::Gen<std::int64_t> Id() { return rc::gen::inRange<std::int64_t>(1, INT64_MAX); }
rc::Gen<Json> Value() {
  return rc::gen::oneOf(rc::gen::map(Text(), [](const std::string& text) { return Json(text); }),
                        rc::gen::map(Id(), [](std::int64_t id) { return Json(id); }),
                        rc::gen::map(Text(), [](const std::string& text) {
                          return Json::Object({{"k", text}, {"l", Json::Array({Json(), text})}});
                        }));
}

// A claim as a server writes it.
Json ClaimOf(const Granted& granted, bool ids_as_text) {
  const bus::Grant& grant = granted.grant;
  const auto id = [&](std::int64_t value) {
    return ids_as_text ? Json(std::to_string(value)) : Json(value);
  };
  return Json::Object({{"status", "ok"},
                       {"event_id", id(grant.event_id)},
                       {"execution_id", id(grant.execution_id)},
                       {"node_id", grant.step},
                       {"node_name", grant.step},
                       {"action", grant.tool_kind},
                       {"context", grant.context},
                       {"meta", grant.meta.With("command_id", grant.command_id)},
                       {"path", grant.path},
                       {"claim_token", id(grant.claim_token)},
                       {"lease_seconds", static_cast<double>(granted.lease_ms) / 1'000},
                       {"strict", grant.strict},
                       {"inline_bytes", grant.inline_bytes}});
}

TEST(WireTest, GrantsSurviveTheWire) {
  EXPECT_TRUE(rc::check([] {
    Granted granted;
    bus::Grant& grant = granted.grant;
    grant.execution_id = *Id();
    grant.event_id = *Id();
    grant.claim_token = *Id();
    grant.command_id = *SomeText();
    grant.step = *SomeText();
    grant.tool_kind = *SomeText();
    grant.path = *Text();
    grant.context = Json::Object({{"tool_config", *Value()}});
    grant.meta = Json::Object({{"attempt", *Id()}, {"x", *Value()}});
    grant.strict = *rc::gen::arbitrary<bool>();
    grant.inline_bytes = *Id();
    granted.lease_ms = *rc::gen::inRange<std::int64_t>(1, 10'000'000);
    const std::string text = WriteJson(ClaimOf(granted, *rc::gen::arbitrary<bool>()));
    const Result<Granted> back = GrantFromJson(Parse(text));
    RC_ASSERT(back.has_value());
    RC_ASSERT(back->lease_ms == granted.lease_ms);
    const bus::Grant& got = back->grant;
    RC_ASSERT(got.execution_id == grant.execution_id && got.event_id == grant.event_id);
    RC_ASSERT(got.claim_token == grant.claim_token && got.command_id == grant.command_id);
    RC_ASSERT(got.step == grant.step && got.tool_kind == grant.tool_kind && got.path == grant.path);
    RC_ASSERT(got.context == grant.context);
    RC_ASSERT(got.meta.Without("command_id") == grant.meta);
    RC_ASSERT(got.strict == grant.strict && got.inline_bytes == grant.inline_bytes);
  }));
}

engine::Event AnyEvent() {
  engine::Event event;
  event.event_id = *Id();
  event.execution_id = *Id();
  event.type = *rc::gen::element(engine::EventType::kCallDone, engine::EventType::kCommandFailed);
  event.type_name = engine::EventName(event.type);
  event.node_name = *SomeText();
  event.status = *SomeText();
  event.error = *Text();
  event.worker_id = "w";
  event.created_at_us = *rc::gen::inRange<std::int64_t>(1, 4'000'000'000'000'000);
  event.result = Json::Object({{"status", event.status},
                               {"context", Json::Object({{"command_id", "c"}, {"v", *Value()}})}});
  event.meta = Json::Object({{"claim_token", 3}, {"attempts", *Id()}});
  return event;
}

// An event request as a server reads it.
engine::Event ReadRequest(const Json& request) {
  engine::Event event;
  event.event_id = request["event_id"].AsInt();
  event.execution_id = request["execution_id"].AsInt();
  event.type_name = request["event_type"].ToString();
  event.type = engine::EventTypeOf(event.type_name);
  event.node_name = request["step"].ToString();
  event.status = request["status"].ToString();
  event.error = request["error"].ToString();
  event.worker_id = request["worker_id"].ToString();
  event.created_at_us = ParseTime(request["created_at"].AsString()).value_or(0);
  event.result = Json::Object({{"status", event.status}, {"context", request["context"]}});
  event.meta = request["meta"];
  return event;
}

TEST(WireTest, EventsSurviveTheWire) {
  EXPECT_TRUE(rc::check([] {
    const engine::Event event = AnyEvent();
    const bus::Report report{.claim_token = 3, .worker_id = "w"};
    RC_ASSERT(ReadRequest(Parse(WriteJson(EventRequest(event, report)))) == event);
  }));
}

TEST(WireTest, ReportsSurviveTheSpool) {
  EXPECT_TRUE(rc::check([] {
    bus::Report report{.execution_id = *Id(),
                       .command_id = *SomeText(),
                       .event_id = *Id(),
                       .claim_token = *Id(),
                       .worker_id = *Text(),
                       .step = *Text()};
    report.ends = *rc::gen::arbitrary<bool>();
    for (int i = *rc::gen::inRange(0, 3); i > 0; --i) report.events.push_back(AnyEvent());
    for (int i = *rc::gen::inRange(0, 3); i > 0; --i)
      report.bodies.push_back({*SomeText(), *Value()});
    for (int i = *rc::gen::inRange(0, 3); i > 0; --i)
      report.logs.push_back({*Text(), *Id(), *Text()});
    const Json json = ReportToJson(report);
    const Result<bus::Report> back = ReportFromJson(Parse(WriteJson(json)));
    RC_ASSERT(back.has_value());
    RC_ASSERT(back->events == report.events);
    RC_ASSERT(ReportToJson(*back) == json);
  }));
}

TEST(WireTest, ReplacingTouchesWholeTextsOnly) {
  EXPECT_EQ(ReplaceText(Parse(R"({"a": "x", "b": ["x", "xx", 1], "x": null})"), "x", "y"),
            Parse(R"({"a": "y", "b": ["y", "xx", 1], "x": null})"));
}

}  // namespace
}  // namespace noetl::worker
