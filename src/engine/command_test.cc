#include "engine/command.h"

#include <gtest/gtest.h>

#include "base/testing.h"

namespace noetl::engine {
namespace {

class OneBody : public Bodies {
 public:
  OneBody(std::string ref, Json body) : ref_(std::move(ref)), body_(std::move(body)) {}
  Result<const Json*> Find(std::string_view ref) const override {
    return ref == ref_ ? &body_ : nullptr;
  }

 private:
  std::string ref_;
  Json body_;
};

constexpr std::string_view kBase =
    R"({"workload":{"n":1},"ctx":{"c":2},"identity":{"execution_id":"7"},
    "steps":{"a":{"data":{"x":5}}}})";

TEST(CommandScope, ReadsTheContextOfACommand) {
  const Json context = Json::Object(
      {{"args", Parse(R"({"arg":3})")},
       {"render_context", Parse(kBase)},
       {"iteration", Parse(R"({"iterator":"it","item":{"v":9},"index":1,"total":4})")}});
  Result<std::unique_ptr<CommandScope>> made = CommandScope::Create(context, Json(), nullptr);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ((*made)->Names(), std::vector<std::string>{"a"});
  EXPECT_EQ((*made)->Find("a")->data, Parse(R"({"x":5})"));
  EXPECT_EQ((*made)->Find("b"), nullptr);
}

TEST(CommandScope, AnEmptyContextIsFine) {
  EXPECT_TRUE(CommandScope::Create(Json::Object(), Json(), nullptr).has_value());
  EXPECT_TRUE(CommandScope::Create(Json(), Json(), nullptr).has_value());
}

TEST(CommandScope, AStoredContextIsAskedFor) {
  const Json context =
      Parse(R"({"render_context":{"__context_ref__":"noetl://r","__context_bytes__":9}})");
  for (const Bodies* bodies : {static_cast<const Bodies*>(nullptr)}) {
    Result<std::unique_ptr<CommandScope>> made = CommandScope::Create(context, Json(), bodies);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, "needs_reference");
    EXPECT_EQ(made.error().message, "noetl://r");
  }
  const OneBody other("noetl://other", Json());
  EXPECT_FALSE(CommandScope::Create(context, Json(), &other).has_value());
  const OneBody right("noetl://r", Parse(kBase));
  Result<std::unique_ptr<CommandScope>> made = CommandScope::Create(context, Json(), &right);
  ASSERT_TRUE(made.has_value());
  EXPECT_NE((*made)->Find("a"), nullptr);
}

TEST(CommandScope, NamesOfAnIteration) {
  EXPECT_TRUE(NamesOfIteration(Json()).is_null());
  const Json names = NamesOfIteration(Parse(R"({"iterator":"it","item":"v","index":1,"total":4})"));
  EXPECT_EQ(names["it"], Json("v"));
  EXPECT_EQ(names["_index"], Json(1));
  EXPECT_EQ(names["_total"], Json(4));
  EXPECT_EQ(names["iter"]["it"], Json("v"));
  const Json frame =
      NamesOfIteration(Parse(R"({"iterator":"it","item":[1,2],"index":0,"total":1,"frame":true})"));
  EXPECT_EQ(frame["iter"]["frame"]["rows"], Parse("[1,2]"));
}

}  // namespace
TEST(RenderDeferred, RendersWhatTheServerLeftAndNothingElse) {
  const Json context = Json::Object(
      {{"tool_config", Json::Object({{"url", "{{ 7 * 7 }}"},  // data that came through a template
                                     {"headers", Json::Object({{"X-Fence", "f{{ fence }}"}})}})},
       {"deferred", Json::Array({"headers.X-Fence"})},
       {"idempotency_key", "1:a:1:0"}});
  auto scope = CommandScope::Create(context, Json::Object({{"attempt", 3}}), nullptr);
  ASSERT_TRUE(scope.has_value());
  Result<Json> config = RenderDeferred(context, (*scope)->scope());
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ((*config)["url"], Json("{{ 7 * 7 }}"));
  EXPECT_EQ((*config)["headers"]["X-Fence"], Json("f3"));
}

}  // namespace noetl::engine
