#include "worker/subscription/message.h"

#include <gtest/gtest.h>

#include "base/json_io.h"

namespace noetl::worker {
namespace {

TEST(SubscriptionMessage, HasNamesInLowerCaseAndAsTheyCame) {
  const Message message{.id = "7",
                        .data = R"({"n":1})",
                        .headers = {{"X-Kind", "a"}, {"Tag", "1"}, {"tag", "2"}},
                        .metadata = Json::Object({{"subject", "orders.new"}})};
  EXPECT_EQ(
      WriteJson(MessageJson(message)),
      R"({"id":"7","data":{"n":1},"headers":{"x-kind":"a","tag":["1","2"]},)"
      R"("attributes":{"X-Kind":"a","Tag":"1","tag":"2"},"metadata":{"subject":"orders.new"}})");
}

TEST(SubscriptionMessage, DataIsJsonElseTextElseBase64) {
  EXPECT_EQ(MessageJson({.data = "[1,2]"})["data"], Json::Array({1, 2}));
  EXPECT_EQ(MessageJson({.data = "plain"})["data"], Json("plain"));
  EXPECT_EQ(MessageJson({.data = "\xff\xfe"})["data"], Json("//4="));
  EXPECT_EQ(MessageJson({.data = ""})["data"], Json(""));
}

}  // namespace
}  // namespace noetl::worker
