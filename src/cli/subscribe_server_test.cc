#include "cli/subscribe_server.h"

#include <gtest/gtest.h>

namespace noetl::cli {
namespace {

using Kind = worker::DispatchOutcome::Kind;

TEST(SubscribeServer, AnswersSayWhetherItMayWorkLater) {
  for (const int status : {400, 404, 409, 413, 422})
    EXPECT_EQ(KindOfStatus(status), Kind::kRefused);
  for (const int status : {401, 403, 408, 429, 502, 503, 504})
    EXPECT_EQ(KindOfStatus(status), Kind::kUnavailable) << "that is not the message's fault";
  EXPECT_EQ(KindOfStatus(500), Kind::kFailed);
}

}  // namespace
}  // namespace noetl::cli
