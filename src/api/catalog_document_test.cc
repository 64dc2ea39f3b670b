#include "api/catalog_document.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/crypto.h"

namespace noetl::api {
namespace {

constexpr std::string_view kPlaybook = R"(apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: demo/hello, labels: {team: a}}
workload: {who: world}
workflow:
- step: start
  tool: {kind: python, code: "return 1"}
)";

std::string Subscription(std::string_view spec) {
  return fmt::format("kind: Subscription\nmetadata: {{path: subs/x}}\nspec: {}\n", spec);
}

std::string FirstPath(std::string_view spec) {
  const Document document = ReadDocument(Subscription(spec), "", true);
  return document.findings.empty() ? "" : document.findings[0].path;
}

TEST(CatalogDocument, TextAndBase64AreTheSame) {
  for (const std::string& content : {std::string(kPlaybook), crypto::Base64Encode(kPlaybook),
                                     " " + crypto::Base64Encode(kPlaybook) + "\n"}) {
    const Document document = ReadDocument(content, "Playbook", true);
    EXPECT_TRUE(document.ok());
    EXPECT_EQ(document.text, kPlaybook);
    EXPECT_EQ(document.kind, "playbook");
    EXPECT_EQ(document.path, "demo/hello");
  }
}

TEST(CatalogDocument, ProblemsHaveTheirPlace) {
  const Document document = ReadDocument(
      "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n- step: start\n"
      "  tool: {kind: nonsense}\n",
      "Playbook", true);
  EXPECT_FALSE(document.ok());
  const Json errors = document.Errors();
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors.At(0)["line"], Json(6));
  EXPECT_FALSE(errors.At(0)["message"].AsString().empty());
  EXPECT_TRUE(ReadDocument(document.text, "Playbook", false).ok());
}

TEST(CatalogDocument, HeadsAreAlwaysChecked) {
  for (const std::string_view text :
       {"", "a: [", "kind: Playbook", "kind: Playbook\nmetadata: {}",
        "kind: Playbook\nmetadata: {name: ' '}", "kind: Sandwich\nmetadata: {name: x}"}) {
    EXPECT_FALSE(ReadDocument(text, "Playbook", false).ok()) << text;
  }
  EXPECT_EQ(ReadDocument("metadata: {name: x}", "MCP", false).kind, "mcp");
  EXPECT_EQ(ReadDocument("kind: Memory\nmetadata: {name: x, path: a/b}", "mcp", true).path, "a/b");
}

TEST(CatalogDocument, EntriesShowTheirParts) {
  store::CatalogEntry entry{.catalog_id = 7,
                            .path = "demo/hello",
                            .version = 3,
                            .content = std::string(kPlaybook),
                            .created_at_us = 1};
  const Json json = EntryJson(entry, true);
  EXPECT_EQ(json["catalog_id"], Json("7"));
  EXPECT_EQ(json["layout"].At(0)["step"], Json("start"));
  EXPECT_EQ(json["payload"]["who"], Json("world"));
  EXPECT_EQ(json["meta"]["team"], Json("a"));
  EXPECT_FALSE(json.Has("archived_at"));
  const Json bare = EntryJson(entry, false);
  EXPECT_TRUE(bare.Has("content") && bare["content"].is_null());
  EXPECT_TRUE(bare["layout"].is_null());

  EXPECT_FALSE(IsAgent(entry, {}));
  entry.content = "metadata: {name: x, agent: true, capabilities: [a, b]}";
  EXPECT_TRUE(IsAgent(entry, {"a"}));
  EXPECT_FALSE(IsAgent(entry, {"a", "c"}));
}

TEST(CatalogDocument, VersionsAreReadKindly) {
  EXPECT_EQ(ReadVersion(Json()).value(), 0);
  EXPECT_EQ(ReadVersion(Json("latest")).value(), 0);
  EXPECT_EQ(ReadVersion(Json("3")).value(), 3);
  EXPECT_EQ(ReadVersion(Json(3)).value(), 3);
  for (const Json& bad : {Json("x"), Json("0"), Json(-1), Json(1.5), Json(true), Json("3a")}) {
    EXPECT_FALSE(ReadVersion(bad));
  }
}

TEST(CatalogDocument, SubscriptionsFollowTheirRules) {
  const std::string good = "source: nats, mode: pull, dispatch: {playbook: a/b}";
  EXPECT_EQ(FirstPath("{" + good + "}"), "");
  EXPECT_EQ(
      FirstPath("{" + good +
                ", activation: continuous, dedup: {enabled: true, window_secs: 5}, limits: "
                "{max_in_flight: 3}, headers: {directives: [{header: a, controls: b}]}, spool: "
                "{mode: hybrid, bucket: x, ordering: global}}"),
      "");
  EXPECT_EQ(FirstPath("{source: webhook, mode: push, dispatch: {playbook: x}, ingress: "
                      "{gateway_path: /in/x, verify: {type: bearer, secret: s}}}"),
            "");
  const std::pair<std::string, std::string_view> bad[] = {
      {"null", "spec"},
      {"{source: mail, mode: pull, dispatch: {playbook: x}}", "spec.source"},
      {"{source: nats, mode: shove, dispatch: {playbook: x}}", "spec.mode"},
      {"{source: nats, mode: pull}", "spec.dispatch"},
      {"{source: nats, mode: pull, dispatch: {}}", "spec.dispatch.playbook"},
      {"{source: webhook, mode: push, dispatch: {playbook: x}}", "spec.ingress"},
      {"{source: webhook, mode: push, dispatch: {playbook: x}, ingress: {gateway_path: in, verify: "
       "{type: bearer, secret: s}}}",
       "spec.ingress.gateway_path"},
      {"{source: webhook, mode: push, dispatch: {playbook: x}, ingress: {gateway_path: /in, "
       "verify: "
       "{type: hmac_sha256, secret: s}}}",
       "spec.ingress.verify.header"},
      {"{" + good + ", activation: sometimes}", "spec.activation"},
      {"{source: nats, mode: pull, dispatch: {playbook: a/b, batch_max: 1001}}",
       "spec.dispatch.batch_max"},
      {"{" + good + ", dedup: {enabled: maybe}}", "spec.dedup.enabled"},
      {"{" + good + ", dedup: {window_secs: 0}}", "spec.dedup.window_secs"},
      {"{" + good + ", limits: {max_in_flight: 0}}", "spec.limits.max_in_flight"},
      {"{" + good + ", headers: {directives: [{header: a}]}}",
       "spec.headers.directives[0].controls"},
      {"{" + good + ", spool: {mode: hybrid, backend: local_disk}}", "spec.spool.path"},
      {"{" + good + ", spool: {mode: hybrid}}", "spec.spool.bucket"},
      {"{" + good +
           ", spool: {mode: hybrid, bucket: b, ordering: global, drain: {on_recovery: "
           "interleave}}}",
       "spec.spool.drain.on_recovery"},
  };
  for (const auto& [spec, path] : bad) EXPECT_EQ(FirstPath(spec), path) << spec;
}

}  // namespace
}  // namespace noetl::api
