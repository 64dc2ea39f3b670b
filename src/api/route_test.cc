#include "api/route.h"

#include <memory>

#include <gtest/gtest.h>

#include "api/testing.h"
#include "base/testing.h"
#include "base/time.h"

namespace noetl::api {
namespace {

constexpr Route kAny = {.method = "GET", .path = "/any/{execution_id}", .family = "test"};

// A call of its own, without a router.
struct Lone {
  explicit Lone(Request request, std::map<std::string, std::string, std::less<>> path = {})
      : exchange(std::make_shared<FakeExchange>(std::move(request))),
        call(std::make_shared<Call>(exchange, &kAny, &services, std::move(path), Scope::kAdmin)) {}
  explicit Lone(std::string_view target) : Lone(MakeRequest("GET", target)) {}

  Json answer() const { return Parse(exchange->Wait().body); }

  Services services;
  std::shared_ptr<FakeExchange> exchange;
  CallPtr call;
};

template <typename T>
std::string ErrorOf(const Result<T>& result) {
  return result ? "none" : result.error().code + ": " + result.error().message;
}

TEST(Call, PathIds) {
  const auto id = [](std::string text) {
    return Lone(MakeRequest("GET", "/any"), {{"execution_id", std::move(text)}})
        .call->PathId("execution_id");
  };
  EXPECT_EQ(id("42"), 42);
  EXPECT_EQ(id("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "0", "-1", "x", "1x", " 1", "+1", "9223372036854775808"}) {
    EXPECT_EQ(ErrorOf(id(bad)).substr(0, 12), "bad_request:") << bad;
  }
}

TEST(Call, QueryMembers) {
  Lone lone("/any?a=1&b=x%20y&full&neg=-5&huge=99999999999999999999&no=off&id=77&a=2");
  EXPECT_EQ(lone.call->Query("a"), "1");
  EXPECT_EQ(lone.call->Query("b"), "x y");
  EXPECT_EQ(lone.call->Query("c"), std::nullopt);
  EXPECT_EQ(lone.call->QueryInt("a", 5, 0, 10), 1);
  EXPECT_EQ(lone.call->QueryInt("c", 5, 0, 10), 5);
  EXPECT_EQ(lone.call->QueryInt("neg", 5, 0, 10), 0);
  EXPECT_EQ(lone.call->QueryInt("huge", 5, 0, 10), 10);
  EXPECT_EQ(ErrorOf(lone.call->QueryInt("b", 5, 0, 10)),
            "bad_request: `b` must be an integer, not 'x y'");
  EXPECT_EQ(lone.call->QueryBool("full", false), true);
  EXPECT_EQ(lone.call->QueryBool("no", true), false);
  EXPECT_EQ(lone.call->QueryBool("c", true), true);
  EXPECT_FALSE(lone.call->QueryBool("b", true).has_value());
  EXPECT_EQ(lone.call->QueryId("id"), 77);
  EXPECT_EQ(lone.call->QueryId("c"), 0);
  EXPECT_FALSE(lone.call->QueryId("neg").has_value());
}

TEST(Call, QueryTimes) {
  const std::int64_t noon = *ParseTime("2026-06-18T12:00:00Z");
  Lone lone(
      "/any?z=2026-06-18T12:00:00Z&plus=2026-06-18T14:00:00+02:00&pg=2026-06-18 12:00:00%2B00"
      "&bare=2026-06-18T12:00:00&day=2026-06-18&bad=yesterday&micros=2026-06-18T12:00:00.5Z");
  EXPECT_EQ(lone.call->QueryTimeUs("z"), noon);
  EXPECT_EQ(lone.call->QueryTimeUs("plus"), noon);
  EXPECT_EQ(lone.call->QueryTimeUs("pg"), noon);
  EXPECT_EQ(lone.call->QueryTimeUs("bare"), noon);
  EXPECT_EQ(lone.call->QueryTimeUs("day"), *ParseTime("2026-06-18T00:00:00Z"));
  EXPECT_EQ(lone.call->QueryTimeUs("micros"), noon + 500'000);
  EXPECT_EQ(lone.call->QueryTimeUs("absent"), 0);
  EXPECT_FALSE(lone.call->QueryTimeUs("bad").has_value());
}

TEST(Call, TraceContext) {
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto trace = [](std::string parent, std::string state = "") {
    HeaderList headers = {{"traceparent", std::move(parent)}};
    if (!state.empty()) headers.emplace_back("tracestate", std::move(state));
    return Lone(MakeRequest("GET", "/any", "", headers)).call->Trace();
  };
  EXPECT_EQ(trace(good), Json::Object({{"traceparent", good}}));
  EXPECT_EQ(trace(good, "a=1,b=2"),
            Json::Object({{"traceparent", good}, {"tracestate", "a=1,b=2"}}));
  EXPECT_EQ(trace(good, std::string(600, 'a')), Json::Object({{"traceparent", good}}));
  EXPECT_FALSE(trace("01" + good.substr(2) + "-more").is_null());
  for (std::string bad : {std::string(), std::string("00"), "ff" + good.substr(2), good + "-more",
                          std::string("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
                          std::string("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
                          std::string("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01")}) {
    EXPECT_TRUE(trace(bad).is_null()) << bad;
  }
}

TEST(Call, FirstAnswerCounts) {
  Lone lone("/any");
  lone.call->Answer(Json::Object({{"n", 1}}), 201);
  lone.call->Answer(Json::Object({{"n", 2}}));
  lone.call->Refuse(500, "internal", "late");
  EXPECT_EQ(lone.exchange->Wait().status, 201);
  EXPECT_EQ(lone.answer(), Parse(R"({"n":1})"));
}

TEST(Call, UnansweredIsAnError) {
  Lone lone("/any");
  lone.call.reset();
  EXPECT_EQ(lone.exchange->Wait().status, 500);
  EXPECT_EQ(lone.answer()["code"], Json("internal"));
}

TEST(Call, ErrorEnvelope) {
  Lone lone("/any");
  lone.call->Refuse(Error{"not_found", "no run 7"}, Json::Array({"hint"}));
  const Response response = lone.exchange->Wait();
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body,
            R"({"error":"no run 7","status":404,"detail":"no run 7","code":"not_found",)"
            R"("details":["hint"],"request_id":"test-request"})");
  EXPECT_FALSE(response.headers.Has("Retry-After"));
}

TEST(Call, TroubleOfTheStoreIsNotTold) {
  struct Case {
    std::string_view code;
    int status;
    std::string_view answered;
  };
  for (const Case& test : {Case{"io", 503, "io"}, Case{"disk_full", 503, "disk_full"},
                           Case{"read_only", 503, "read_only"}, Case{"busy", 503, "busy"},
                           Case{"corrupt", 500, "internal"}, Case{"whatever", 500, "internal"}}) {
    Lone lone("/any");
    lone.call->Refuse(Error{std::string(test.code), "/secret/path/noetl.db: oops"});
    const Response response = lone.exchange->Wait();
    EXPECT_EQ(response.status, test.status) << test.code;
    EXPECT_EQ(lone.answer()["code"], Json(test.answered));
    EXPECT_EQ(response.body.find("secret"), std::string::npos) << response.body;
    EXPECT_EQ(response.headers.Has("Retry-After"), test.status == 503);
  }
}

TEST(Call, RetryAfter) {
  const auto after = [](std::string code) {
    Lone lone("/any");
    lone.call->Refuse(Error{std::move(code), "no"});
    return std::string(lone.exchange->Wait().headers.Find("Retry-After"));
  };
  EXPECT_EQ(after("active_claim"), "2");
  EXPECT_EQ(after("overloaded"), "2");
  EXPECT_EQ(after("unavailable"), "2");
  EXPECT_EQ(after("stale_claim"), "");
  EXPECT_EQ(after("invalid"), "");
}

TEST(Call, IdsAsTextWhenAskedFor) {
  const auto answer = [](Request request) {
    Lone lone(std::move(request));
    lone.call->Answer(Json::Object({{"execution_id", 7}, {"n", 7}}));
    return lone.exchange->Wait().body;
  };
  EXPECT_EQ(answer(MakeRequest("GET", "/any")), R"({"execution_id":7,"n":7})");
  EXPECT_EQ(answer(MakeRequest("GET", "/any?ids=string")), R"({"execution_id":"7","n":7})");
  EXPECT_EQ(answer(MakeRequest("GET", "/any", "", {{"X-Noetl-Ids", "string"}})),
            R"({"execution_id":"7","n":7})");
  EXPECT_EQ(answer(MakeRequest("GET", "/any?ids=number")), R"({"execution_id":7,"n":7})");
}

TEST(StatusOf, Codes) {
  EXPECT_EQ(StatusOf("bad_request"), 400);
  EXPECT_EQ(StatusOf("unauthorized"), 401);
  EXPECT_EQ(StatusOf("not_found"), 404);
  EXPECT_EQ(StatusOf("already_terminal"), 409);
  EXPECT_EQ(StatusOf("too_large"), 413);
  EXPECT_EQ(StatusOf("invalid"), 422);
  EXPECT_EQ(StatusOf("overloaded"), 429);
  EXPECT_EQ(StatusOf("timeout"), 504);
  EXPECT_EQ(StatusOf("never heard of"), 500);
}

TEST(Members, Ids) {
  const Json body = Parse(R"({"n":7,"t":"8","zero":0,"neg":-1,"f":1.5,"word":"x","nul":null,
                              "list":[],"huge":18446744073709551615})");
  EXPECT_EQ(IdMember(body, "n"), 7);
  EXPECT_EQ(IdMember(body, "t"), 8);
  EXPECT_EQ(OptionalId(body, "nul").value(), std::nullopt);
  EXPECT_EQ(OptionalId(body, "absent").value(), std::nullopt);
  for (const char* name : {"zero", "neg", "f", "word", "nul", "absent", "list", "huge"}) {
    const Result<std::int64_t> id = IdMember(body, name);
    ASSERT_FALSE(id.has_value()) << name;
    EXPECT_EQ(id.error().code, "invalid");
    EXPECT_NE(id.error().message.find(name), std::string::npos) << id.error().message;
  }
}

TEST(Members, TextsNumbersAndMaps) {
  const Json body = Parse(R"({"t":"x","blank":" ","n":5,"b":true,"m":{"a":1},"at":"2026-06-18"})");
  EXPECT_EQ(TextMember(body, "t"), "x");
  EXPECT_EQ(ErrorOf(TextMember(body, "blank")), "invalid: `blank` must not be blank");
  EXPECT_EQ(ErrorOf(TextMember(body, "absent")), "invalid: `absent` is missing");
  EXPECT_EQ(ErrorOf(TextMember(body, "n")), "invalid: `n` must be a text, not int");
  EXPECT_EQ(OptionalText(body, "absent", "else"), "else");
  EXPECT_EQ(OptionalInt(body, "n", 1, 0, 9), 5);
  EXPECT_EQ(OptionalInt(body, "absent", 1, 0, 9), 1);
  EXPECT_EQ(ErrorOf(OptionalInt(body, "n", 1, 0, 4)), "invalid: `n` must be 0 to 4, not 5");
  EXPECT_FALSE(OptionalInt(body, "t", 1, 0, 4).has_value());
  EXPECT_EQ(OptionalBool(body, "b", false), true);
  EXPECT_FALSE(OptionalBool(body, "n", false).has_value());
  EXPECT_EQ(OptionalObject(body, "m"), Parse(R"({"a":1})"));
  EXPECT_EQ(OptionalObject(body, "absent"), Json());
  EXPECT_FALSE(OptionalObject(body, "t").has_value());
  EXPECT_EQ(OptionalTimeUs(body, "at").value(), ParseTime("2026-06-18T00:00:00Z"));
  EXPECT_FALSE(OptionalTimeUs(body, "t").has_value());
  // What is no map has no members.
  EXPECT_FALSE(TextMember(Json("text"), "t").has_value());
}

TEST(Values, TimesAndIds) {
  EXPECT_TRUE(TimeOrNull(0).is_null());
  EXPECT_EQ(TimeOrNull(1), Json("1970-01-01T00:00:00.000001Z"));
  EXPECT_TRUE(IdOrNull(0).is_null());
  EXPECT_EQ(IdOrNull(5), Json(5));
  EXPECT_EQ(IdText(5), Json("5"));
}

}  // namespace
}  // namespace noetl::api
