#include "api/ids.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/testing.h"

namespace noetl::api {
namespace {

TEST(IdsAsText, NamedMembers) {
  EXPECT_EQ(IdsAsText(Parse(R"({"id":7,"execution_id":8,"event_ids":[1,2],"count":3,"idle":4})")),
            Parse(R"({"id":"7","execution_id":"8","event_ids":["1","2"],"count":3,"idle":4})"));
}

TEST(IdsAsText, InsideOfListsAndMaps) {
  EXPECT_EQ(IdsAsText(Parse(R"([{"a":{"parent_event_id":5,"n":1}},[{"id":6}],9])")),
            Parse(R"([{"a":{"parent_event_id":"5","n":1}},[{"id":"6"}],9])"));
}

TEST(IdsAsText, LeavesWhatIsNoNumber) {
  const Json value = Parse(R"({"id":null,"worker_id":"w","a_id":true,"b_id":{"n":1},"c_id":1.5})");
  EXPECT_TRUE(IdsAsText(value).Same(value));
}

TEST(IdsAsText, LargeIntegersAnywhere) {
  EXPECT_EQ(
      IdsAsText(Parse(R"({"n":9007199254740993,"m":9007199254740992,"o":[-9007199254740993]})")),
      Parse(R"({"n":"9007199254740993","m":9007199254740992,"o":["-9007199254740993"]})"));
  EXPECT_EQ(IdsAsText(Parse("18446744073709551615")), Json("18446744073709551615"));
}

TEST(IdsAsText, SharesWhatDoesNotChange) {
  const Json value =
      Parse(R"({"big":{"text":"a text that is longer than the inline ones"},"id":1})");
  const Json changed = IdsAsText(value);
  EXPECT_TRUE(changed["big"].Same(value["big"]));
  EXPECT_EQ(changed["id"], Json("1"));
}

TEST(IdsAsText, KeepsTheOrder) {
  EXPECT_EQ(WriteJson(IdsAsText(Parse(R"({"b":1,"id":2,"a":3})"))), R"({"b":1,"id":"2","a":3})");
}

TEST(IdsAsText, TwiceIsOnce) {
  EXPECT_TRUE(rc::check([](const std::vector<std::int64_t>& numbers) {
    std::vector<Json> items;
    for (std::int64_t number : numbers) {
      items.push_back(Json::Object({{"x_id", number}, {"n", number}}));
    }
    const Json once = IdsAsText(Json::Array(std::move(items)));
    RC_ASSERT(IdsAsText(once).Same(once));
    for (const Json& item : once.items()) RC_ASSERT(item["x_id"].is_string());
  }));
}

}  // namespace
}  // namespace noetl::api
