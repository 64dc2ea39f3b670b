#include "worker/subscription/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/subscription/testing.h"

namespace noetl::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SubscriptionSpec, HasDefaults) {
  EXPECT_THAT(ProblemsOf("{}"), IsEmpty());
  const SubscriptionSpec spec = TestSpec();
  EXPECT_EQ(spec.path, "subs/orders");
  EXPECT_EQ(spec.nats.stream, "orders");
  EXPECT_EQ(spec.playbook, "demo/order");
  EXPECT_EQ(spec.batch, 100);
  EXPECT_EQ(spec.batch_max, 100);
  EXPECT_EQ(spec.timeout_ms, 1'000);
  EXPECT_EQ(spec.max_deliver, 5);
  EXPECT_EQ(spec.payload_from, PayloadFrom::kJson);
  EXPECT_FALSE(spec.spool.on());
  EXPECT_EQ(spec.spool.circuit.downstream.size(), 1u);
}

TEST(SubscriptionSpec, ReadsEverything) {
  constexpr std::string_view kMore = R"({
    "url":"nats://x:1","user":"u","password":"p","token":"t","subject":"orders.>","auth":"a",
    "runtime":{"batch":5,"timeout_ms":50,"max_deliver":2},
    "dispatch":{"playbook":"p","payload_from":"message.body","execution_pool":"gpu",
                "batch_dispatch":true,"batch_max":3},
    "headers":{"directives":[{"header":"X-Playbook","controls":"dispatch.playbook","allowed":["q"]},
                             {"header":"X-Prio","controls":"priority","map":{"high":"fast"}}],
               "trace":{"propagate":"w3c","baggage_allowlist":["tenant"]}},
    "dedup":{"enabled":true,"window_secs":60},
    "limits":{"max_in_flight":7,"max_dispatch_per_sec":2.5},
    "spool":{"mode":"hybrid","backend":"local_disk","path":"spool","ordering":"none",
             "ordering_key":"customer","circuit":{"trip_after":2,"probe_after_ms":10,
             "probe_interval_ms":20,"downstream":[{"name":"a","type":"http","target":"http://x"},
             {"name":"b"}]},
             "retention":{"max_age_hours":0.5,"max_bytes":1000,"on_full":"drop_to_dlq"},
             "drain":{"rate_per_sec":3,"max_replay_attempts":4,"on_recovery":"interleave"},
             "hybrid_escalate_after_ms":9}})";
  EXPECT_THAT(ProblemsOf(kMore), IsEmpty());
  const SubscriptionSpec spec = TestSpec(kMore);
  EXPECT_EQ(spec.nats.subject, "orders.>");
  EXPECT_EQ(spec.auth, "a");
  EXPECT_EQ(spec.batch_max, 3);
  EXPECT_EQ(spec.payload_from, PayloadFrom::kBody);
  EXPECT_EQ(spec.directives.at(0).header, "x-playbook");
  EXPECT_EQ(spec.directives.at(1).pools.at("high"), "fast");
  EXPECT_TRUE(spec.trace);
  EXPECT_TRUE(spec.dedup_by_key);
  EXPECT_EQ(spec.max_in_flight, 7);
  EXPECT_EQ(spec.max_dispatch_per_sec, 2.5);
  EXPECT_EQ(spec.spool.mode, SpoolSpec::Mode::kHybrid);
  EXPECT_EQ(spec.spool.ordering, SpoolSpec::Ordering::kNone);
  EXPECT_EQ(spec.spool.circuit.trip_after, 2);
  EXPECT_EQ(spec.spool.circuit.downstream.at(0).probe, DownstreamSpec::Probe::kHttp);
  EXPECT_EQ(spec.spool.on_full, SpoolSpec::OnFull::kDropToDlq);
  EXPECT_TRUE(spec.spool.interleave);
  EXPECT_EQ(spec.spool.hybrid_escalate_after_ms, 9);
}

TEST(SubscriptionSpec, ReadsPubSub) {
  constexpr std::string_view kMore = R"({"source":"pubsub","endpoint":"http://localhost:8085",)"
                                     R"("subscription":"projects/p/subscriptions/s"})";
  EXPECT_THAT(ProblemsOf(kMore), IsEmpty());
  EXPECT_EQ(TestSpec(kMore).pubsub.subscription, "projects/p/subscriptions/s");
  EXPECT_EQ(TestSpec(kMore).pubsub.endpoint, "http://localhost:8085");
  EXPECT_THAT(ProblemsOf(R"({"source":"pubsub"})"),
              ElementsAre(HasSubstr("spec.subscription is missing")));
  EXPECT_THAT(ProblemsOf(R"({"source":"pubsub","subscription":"projects/p/subscriptions/a b"})"),
              ElementsAre(HasSubstr("must be projects/P/subscriptions/S")));
}

TEST(SubscriptionSpec, NamesWhatCannotBeServed) {
  EXPECT_THAT(ProblemsOf(R"({"source":"kafka"})"),
              ElementsAre(HasSubstr("it serves nats and pubsub")));
  EXPECT_THAT(ProblemsOf(R"({"source":"webhook","mode":"push"})"),
              ElementsAre(HasSubstr("needs no listener")));
  EXPECT_THAT(ProblemsOf(R"({"activation":"scheduled"})"), ElementsAre(HasSubstr("continuous")));
  EXPECT_THAT(ProblemsOf(R"({"spool":{"mode":"buffer_and_ack","backend":"s3"}})"),
              ElementsAre(HasSubstr("spec.spool.backend 's3'")));
}

TEST(SubscriptionSpec, FindsMistakes) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {R"({"stream":null})", "spec.stream is missing"},
      {R"({"consumer":"a.b"})", "must be a name of NATS"},
      {R"({"runtime":{"batch":0}})", "from 1 to 1000"},
      {R"({"dispatch":{"playbook":"p","payload_from":"json"}})", "must be one of message.json"},
      {R"({"headers":{"directives":[{"header":"h","controls":"x"}]}})",
       "spec.headers.directives[0].controls must be one of"},
      {R"({"headers":{"directives":[{"header":"h","controls":"dispatch.playbook"}]}})",
       "directives[0].allowed is missing"},
      {R"({"headers":{"directives":[{"header":"h","controls":"priority","allowed":["a"]}]}})",
       "directives[0].map is missing"},
      {R"({"limits":{"max_dispatch_per_sec":0}})", "must be a number above 0"},
      {R"({"spool":{"mode":"buffer_and_ack","backend":"local_disk"}})",
       "spec.spool.path is missing"},
      {R"({"spool":{"circuit":{"trip_after":0}}})", "trip_after must be a whole number"},
      {R"({"spool":{"circuit":{"downstream":[{"name":"a"},{"name":"a"}]}}})", "is there twice"},
      {R"({"spool":{"circuit":{"downstream":[{"type":"passive"}]}}})", "name is missing"},
      {R"({"spool":{"circuit":{"downstream":[{"name":"a","type":"tcp"}]}}})", "target is missing"},
      {R"({"spool":{"mode":"hybrid","backend":"local_disk","path":"p","ordering":"global",)"
       R"("drain":{"on_recovery":"interleave"}}})",
       "cannot go with spec.spool.ordering global"},
  };
  for (const auto& [more, problem] : kCases)
    EXPECT_THAT(ProblemsOf(more), ElementsAre(HasSubstr(std::string(problem)))) << more;
}

}  // namespace
}  // namespace noetl::worker
