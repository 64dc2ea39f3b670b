#include "worker/subscription/nats_source.h"

#include <gtest/gtest.h>

namespace noetl::worker {
namespace {

TEST(SubscriptionNats, AddressesAreShownWithoutSecrets) {
  EXPECT_EQ(NatsAddressForPeople("nats://u:p@host:4222"), "nats://host:4222");
  EXPECT_EQ(NatsAddressForPeople("nats://a:1, tls://tok@b:2"), "nats://a:1,tls://b:2");
  EXPECT_EQ(NatsAddressForPeople("u:p@host"), "host");
}

TEST(SubscriptionNats, NobodyThereIsAnError) {
  SystemClock clock;
  // Nothing listens on the port that means none.
  const auto source = NatsSource::Open(
      {.place = {.url = "nats://u:secret@127.0.0.1:1", .stream = "s", .consumer = "c"},
       .clock = &clock});
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().code, "source_unreachable");
  EXPECT_NE(source.error().message.find("nats://127.0.0.1:1"), std::string::npos);
  EXPECT_EQ(source.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace noetl::worker
