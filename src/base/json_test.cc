#include "base/json.h"

#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "base/json_io.h"

namespace noetl {
namespace {

TEST(Json, Types) {
  EXPECT_TRUE(Json().is_null());
  EXPECT_TRUE(Json(nullptr).is_null());
  EXPECT_TRUE(Json(false).is_bool());
  EXPECT_TRUE(Json(1).is_int());
  EXPECT_TRUE(Json(1u).is_int());
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).type(), Json::Type::kUint);
  EXPECT_TRUE(Json(1.0).is_double());
  EXPECT_TRUE(Json("x").is_string());
  EXPECT_TRUE(Json::BigInt("123456789012345678901").is_integer());
  EXPECT_TRUE(Json::Array().is_container());
  EXPECT_EQ(Json::Object().TypeName(), "map");
  EXPECT_EQ(Json(2.5).TypeName(), "float");
}

TEST(Json, ReadsWithFallbacks) {
  EXPECT_EQ(Json("x").AsInt(7), 7);
  EXPECT_EQ(Json(-3).AsUint(9), 9u);
  EXPECT_EQ(Json(3).AsUint(), 3u);
  EXPECT_EQ(Json(3).AsDouble(), 3.0);
  EXPECT_EQ(Json::BigInt("100000000000000000000").AsDouble(), 1e20);
  EXPECT_EQ(Json(3).AsString(), "");
  EXPECT_TRUE(Json(1)["a"].is_null());
  EXPECT_TRUE(Json::Array({1}).At(5).is_null());
  EXPECT_EQ(Json("x").size(), 0u);
}

TEST(Json, TextsOfEveryLength) {
  for (std::size_t length = 0; length < 40; ++length) {
    const std::string text(length, 'a');
    const Json value(text);
    const Json copy = value;
    EXPECT_EQ(copy.AsString(), text);
    EXPECT_EQ(value, Json(text));
  }
  EXPECT_EQ(Json(std::string_view("a\0b", 3)).AsString().size(), 3u);
}

TEST(Json, CopiesShareAndMovesEmpty) {
  Json a = Json::Array({1, 2, 3});
  Json b = a;
  EXPECT_TRUE(a.Same(b));
  Json c = std::move(a);
  EXPECT_TRUE(a.is_null());
  EXPECT_TRUE(c.Same(b));
  b = b.Append(4);
  EXPECT_EQ(c.size(), 3u);
  EXPECT_EQ(b.size(), 4u);
  Json& self = b;
  b = self;
  EXPECT_EQ(b.size(), 4u);
}

TEST(Json, AssigningAPartOfItself) {
  Json value = Json::Object({{"inner", Json::Object({{"x", "a text that is on the heap"}})}});
  value = Json(value["inner"]);
  EXPECT_EQ(value["x"], Json("a text that is on the heap"));
}

TEST(Json, AssigningAReferenceIntoItself) {
  Json value = Json::Array({Json::Object({{"x", "a text that is on the heap"}})});
  value = value.At(0);
  EXPECT_EQ(value["x"], Json("a text that is on the heap"));
}

TEST(Json, SmallAndLargeObjects) {
  for (const int count : {1, 5, 12, 13, 100}) {
    Json::Members members;
    for (int i = count - 1; i >= 0; --i) members.emplace_back("key" + std::to_string(i), i);
    const Json object = Json::Object(members);
    for (int i = 0; i < count; ++i) EXPECT_EQ(object["key" + std::to_string(i)], Json(i));
    EXPECT_FALSE(object.Has("key"));
    EXPECT_FALSE(object.Has("zzz"));
    EXPECT_EQ(object.members()[0].key(), "key" + std::to_string(count - 1));
    members.emplace_back("key0", "again");
    const Json again = Json::Object(members);
    EXPECT_EQ(again.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(again["key0"], Json("again"));
  }
}

TEST(Json, Updates) {
  const Json object = Json::Object({{"a", 1}, {"b", 2}});
  EXPECT_EQ(WriteJson(object.With("a", 9)), R"({"a":9,"b":2})");
  EXPECT_EQ(WriteJson(object.With("c", 3)), R"({"a":1,"b":2,"c":3})");
  EXPECT_EQ(WriteJson(object.Without("a")), R"({"b":2})");
  EXPECT_EQ(WriteJson(object.Merge(Json::Object({{"b", 5}, {"d", 6}}))), R"({"a":1,"b":5,"d":6})");
  EXPECT_EQ(WriteJson(Json(1).With("a", 1)), R"({"a":1})");
  EXPECT_EQ(WriteJson(Json("x").Append(1)), "[1]");
  EXPECT_TRUE(object.Merge(Json()).Same(object));
}

TEST(Json, Equality) {
  EXPECT_EQ(Json::Object({{"a", 1}, {"b", 2}}), Json::Object({{"b", 2}, {"a", 1}}));
  EXPECT_FALSE(Json::Object({{"a", 1}}) == Json::Object({{"b", 1}}));
  EXPECT_FALSE(Json(1) == Json(1.0));
  EXPECT_FALSE(Json("1") == Json(1));
  EXPECT_EQ(Json::Array({1, "x"}), Json::Array({1, "x"}));
  EXPECT_FALSE(Json::Array({1}) == Json::Array({1, 2}));
}

TEST(Json, SharedBetweenThreads) {
  const Json shared = Json::Object({{"text", "long enough to live on the heap"}});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([shared] {
      for (int i = 0; i < 10'000; ++i) {
        const Json copy = shared.With("i", i);
        ASSERT_EQ(copy["text"].AsString().size(), 31u);
      }
    });
  }
}

}  // namespace
}  // namespace noetl
