#include "api/subscription_spec.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace noetl::api {
namespace {

std::string Pushed(std::string_view path, std::string_view more = "") {
  return fmt::format(
      "kind: Subscription\nmetadata: {{path: subs/x}}\nspec:\n  source: webhook\n  mode: push\n"
      "  ingress: {{gateway_path: '{}', verify: {{type: bearer, secret: s}}}}\n"
      "  dispatch: {{playbook: p}}\n{}",
      path, more);
}

TEST(SubscriptionSpec, TheListenerIsTheLastPartOfThePath) {
  EXPECT_EQ(ListenerOf(Pushed("/ingress/stripe")), "stripe");
  EXPECT_EQ(ListenerOf(Pushed("/stripe//")), "stripe");
  EXPECT_EQ(ListenerOf(Pushed("/")), "");
  EXPECT_EQ(ListenerOf(Pushed("stripe")), "");
  EXPECT_EQ(ListenerOf("kind: Subscription\nspec: {source: nats, mode: pull, "
                       "ingress: {gateway_path: /x}, dispatch: {playbook: p}}"),
            "");
  EXPECT_EQ(ListenerOf("[1"), "");
  EXPECT_EQ(ListenerOf("text"), "");
}

TEST(SubscriptionSpec, TellsAGatewayWhatItNeeds) {
  const auto plain = ReadIngress(Pushed("/in/a"));
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(plain->source, "webhook");
  EXPECT_EQ(plain->verify_type, "bearer");
  EXPECT_EQ(plain->secret, "s");
  EXPECT_EQ(plain->header, "");
  EXPECT_EQ(plain->playbook, "p");
  EXPECT_EQ(plain->payload_from, "message.json");
  EXPECT_EQ(plain->execution_pool, "");
  EXPECT_TRUE(plain->directives.is_null());
  const auto full = ReadIngress(
      "kind: Subscription\nspec:\n  source: pubsub\n  mode: push\n  ingress:\n    gateway_path: "
      "/g\n"
      "    verify: {type: pubsub_oidc, audience: a, service_account: b}\n"
      "  dispatch: {playbook: p, payload_from: message.body, execution_pool: fast}\n"
      "  headers: {directives: [{header: x-pool, controls: pool}]}\n");
  ASSERT_TRUE(full.has_value()) << full.error().message;
  EXPECT_EQ(full->audience, "a");
  EXPECT_EQ(full->service_account, "b");
  EXPECT_EQ(full->payload_from, "message.body");
  EXPECT_EQ(full->execution_pool, "fast");
  EXPECT_EQ(full->directives.At(0)["controls"].AsString(), "pool");
}

TEST(SubscriptionSpec, RefusesWhatIsBroken) {
  for (const std::string& content :
       {std::string("[1"), std::string("kind: Subscription"), Pushed("/"),
        std::string("kind: Subscription\nspec: {source: nats, mode: pull, "
                    "dispatch: {playbook: p}}")}) {
    const auto spec = ReadIngress(content);
    ASSERT_FALSE(spec.has_value()) << content;
    EXPECT_EQ(spec.error().code, "invalid");
  }
}

}  // namespace
}  // namespace noetl::api
