#include "worker/subscription/pubsub_source.h"

#include <gtest/gtest.h>

#include "base/json_io.h"

namespace noetl::worker {
namespace {

TEST(SubscriptionPubSub, MessagesKeepWhatCame) {
  const Message message = PubSubMessage(
      *ParseJson(R"({"ackId":"a1","message":{"messageId":"7","data":"eyJuIjoxfQ==",)"
                 R"("attributes":{"Kind":"x"},"publishTime":"2026-01-01T00:00:00Z"}})"),
      3);
  EXPECT_EQ(WriteJson(MessageJson(message)),
            R"({"id":"7","data":{"n":1},"headers":{"kind":"x"},"attributes":{"Kind":"x"},)"
            R"("metadata":{"messageId":"7","publishTime":"2026-01-01T00:00:00Z",)"
            R"("deliveryAttempt":3,"ackId":"a1"}})");
  EXPECT_EQ(message.delivered, 3);
  const Message counted = PubSubMessage(
      *ParseJson(R"({"ackId":"a","deliveryAttempt":9,"message":{"messageId":"8"}})"), 1);
  EXPECT_EQ(counted.delivered, 9);
  EXPECT_EQ(counted.data, "");
}

TEST(SubscriptionPubSub, NobodyThereIsAnError) {
  SystemClock clock;
  const auto source = PubSubSource::Open(
      {.subscription = "projects/p/subscriptions/s", .endpoint = "http://127.0.0.1:1"}, &clock);
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().code, "source_unreachable");
}

}  // namespace
}  // namespace noetl::worker
