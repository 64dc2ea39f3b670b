#include "worker/subscription/plan.h"

#include <gtest/gtest.h>

#include "worker/subscription/testing.h"

namespace noetl::worker {
namespace {

constexpr std::string_view kDirectives = R"({"headers":{"directives":[
    {"header":"X-Playbook","controls":"dispatch.playbook","allowed":["demo/a","demo/b"]},
    {"header":"X-Pool","controls":"dispatch.execution_pool","allowed":["gpu"]},
    {"header":"X-Prio","controls":"priority","map":{"high":"fast"}},
    {"header":"X-Key","controls":"idempotency_key"},
    {"header":"Content-Type","controls":"content_type"},
    {"header":"X-Schema","controls":"schema_hint"}],
    "trace":{"propagate":"w3c","baggage_allowlist":["tenant","user"]}},
    "dedup":{"enabled":true,"window_secs":60}})";

constexpr std::string_view kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

Json With(std::vector<std::pair<std::string, std::string>> headers, std::string data = "{}") {
  return MessageJson({.id = "7", .data = std::move(data), .headers = std::move(headers)});
}

TEST(SubscriptionPlan, WithoutHeadersIsThatOfTheDocument) {
  const Plan plan = PlanOf(TestSpec(kDirectives), With({}));
  EXPECT_EQ(plan.playbook, "demo/order");
  EXPECT_EQ(plan.pool, "");
  EXPECT_EQ(plan.dedup_key, "subs/orders:7");
  EXPECT_EQ(plan.dedup_window_secs, 600);
  EXPECT_TRUE(plan.trace.is_null());
  EXPECT_TRUE(AuditOf(plan, "7").is_null());
}

TEST(SubscriptionPlan, HeadersDecideWhatTheyMay) {
  const SubscriptionSpec spec = TestSpec(kDirectives);
  Plan plan = PlanOf(spec, With({{"x-playbook", "demo/a"}, {"X-PLAYBOOK", "demo/b"}}));
  EXPECT_EQ(plan.playbook, "demo/b") << "the last value counts";
  plan = PlanOf(spec, With({{"x-playbook", "demo/evil"}, {"x-pool", "cpu"}, {"x-prio", "low"}}));
  EXPECT_EQ(plan.playbook, "demo/order");
  EXPECT_EQ(plan.pool, "");
  EXPECT_TRUE(plan.applied.empty());
  plan = PlanOf(spec, With({{"x-prio", "high"}}));
  EXPECT_EQ(plan.pool, "fast");
  plan = PlanOf(spec, With({{"x-pool", "gpu"}, {"x-prio", "high"}}));
  EXPECT_EQ(plan.pool, "gpu") << "a pool that is named goes before a priority";
}

TEST(SubscriptionPlan, AnIdempotencyKeyReplacesTheMessage) {
  Plan plan = PlanOf(TestSpec(kDirectives), With({{"x-key", "order-1"}}));
  EXPECT_EQ(plan.dedup_key, "subs/orders:key:order-1");
  EXPECT_EQ(plan.dedup_window_secs, 60);
  SubscriptionSpec spec = TestSpec(kDirectives);
  spec.dedup_by_key = false;
  plan = PlanOf(spec, With({{"x-key", "order-1"}}));
  EXPECT_EQ(plan.dedup_key, "subs/orders:7");
}

TEST(SubscriptionPlan, HandsOnTraces) {
  const SubscriptionSpec spec = TestSpec(kDirectives);
  const Plan plan = PlanOf(spec, With({{"traceparent", std::string(kParent)},
                                       {"tracestate", "a=b"},
                                       {"baggage", "secret=1, tenant=t ,user=u"}}));
  EXPECT_EQ(WriteJson(plan.trace), R"({"traceparent":")" + std::string(kParent) +
                                       R"(","tracestate":"a=b","baggage":"tenant=t,user=u"})");
  EXPECT_TRUE(PlanOf(spec, With({{"traceparent", "nonsense"}})).trace.is_null());
  EXPECT_TRUE(PlanOf(TestSpec(), With({{"traceparent", std::string(kParent)}})).trace.is_null());
}

TEST(SubscriptionPlan, KnowsTraceparents) {
  EXPECT_TRUE(IsTraceparent(kParent));
  for (const std::string_view text : {"", "00", "00-", "00-zz", "00-0af7-b7ad-01"})
    EXPECT_FALSE(IsTraceparent(text)) << text;
  EXPECT_FALSE(IsTraceparent(std::string(kParent) + "-00"));
  EXPECT_FALSE(IsTraceparent("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
}

TEST(SubscriptionPlan, PayloadSpreadsMapsButNotOverItsOwn) {
  const SubscriptionSpec spec = TestSpec(kDirectives);
  const Json message = With({{"x-key", "k"}}, R"({"n":1,"source":"evil","message":2})");
  const Json payload = PayloadOf(spec, PlanOf(spec, message), message, "");
  EXPECT_EQ(payload["n"], Json(1));
  EXPECT_EQ(payload["source"], Json("nats"));
  EXPECT_EQ(payload["subscription"], Json("subs/orders"));
  EXPECT_EQ(payload["message"]["id"], Json("7"));
  EXPECT_EQ(payload["idempotency_key"], Json("k"));
  EXPECT_FALSE(payload.Has("body"));
}

TEST(SubscriptionPlan, PayloadOfOtherParts) {
  SubscriptionSpec spec = TestSpec();
  const Json message = With({{"A", "x"}}, "[1]");
  EXPECT_EQ(PayloadOf(spec, {}, message, "[1]")["body"], Json::Array({1}));
  spec.payload_from = PayloadFrom::kBody;
  EXPECT_EQ(PayloadOf(spec, {}, message, "[1]")["body"], Json("[1]"));
  spec.payload_from = PayloadFrom::kAttributes;
  EXPECT_EQ(PayloadOf(spec, {}, message, "[1]")["A"], Json("x"));
}

TEST(SubscriptionPlan, AuditSaysWhatWasDecided) {
  const Plan plan =
      PlanOf(TestSpec(kDirectives), With({{"x-playbook", "demo/a"}, {"x-prio", "high"}}));
  EXPECT_EQ(WriteJson(AuditOf(plan, "7")),
            R"({"message_id":"7","applied":[{"header":"x-playbook","controls":"dispatch.playbook",)"
            R"("effective_value":"demo/a"},{"header":"x-prio","controls":"priority",)"
            R"("effective_value":"fast"}],"route_override":{"playbook":"demo/a","pool":"fast"},)"
            R"("trace":null})");
}

TEST(SubscriptionPlan, ReadsBackFromTheDisk) {
  const Plan plan = PlanOf(TestSpec(kDirectives), With({{"x-playbook", "demo/a"},
                                                        {"x-prio", "high"},
                                                        {"x-key", "k"},
                                                        {"x-schema", "s"},
                                                        {"content-type", "text/plain"},
                                                        {"traceparent", std::string(kParent)}}));
  const Json stored = PlanToJson(plan);
  EXPECT_EQ(PlanToJson(PlanFromJson(stored)), stored);
  EXPECT_EQ(AuditOf(PlanFromJson(stored), "7"), AuditOf(plan, "7"));
}

TEST(SubscriptionPlan, LanesComeFromHeadersOrData) {
  SpoolSpec spool;
  EXPECT_EQ(LaneOf(spool, With({})), "") << "no key is named: there is no order";
  spool.ordering_key = "Customer.Id";
  EXPECT_EQ(LaneOf(spool, With({{"customer.id", "h"}})), "=h");
  spool.ordering_key = "customer.id";
  EXPECT_EQ(LaneOf(spool, With({}, R"({"customer":{"id":5}})")), "=5");
  EXPECT_EQ(LaneOf(spool, With({}, R"({"customer":{"id":"x"}})")), "=x");
  EXPECT_EQ(LaneOf(spool, With({}, "{}")), "");
  spool.ordering = SpoolSpec::Ordering::kNone;
  EXPECT_EQ(LaneOf(spool, With({{"customer.id", "h"}})), "");
  spool.ordering = SpoolSpec::Ordering::kGlobal;
  EXPECT_EQ(LaneOf(spool, With({})), "*");
}

}  // namespace
}  // namespace noetl::worker
