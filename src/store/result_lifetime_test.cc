#include "store/result_lifetime.h"

#include <gtest/gtest.h>

namespace noetl::store {
namespace {

struct Case {
  std::string scope;
  std::int64_t expires;
  std::string asked_scope;
  std::int64_t asked_expires;
  std::string wanted_scope;
  std::int64_t wanted_expires;
};

TEST(ResultLifetime, TheLongerOneCounts) {
  const Case cases[] = {
      {"execution", 0, "execution", 0, "execution", 0},
      {"execution", 200, "execution", 300, "execution", 300},
      {"execution", 300, "execution", 200, "execution", 300},
      {"execution", 300, "execution", 0, "execution", 0},
      {"execution", 0, "execution", 300, "execution", 0},
      {"execution", 100, "step", 150, "step", 150},  // expired: as if it were new
      {"step", 0, "workflow", 0, "workflow", 0},
      {"workflow", 0, "execution", 0, "workflow", 0},
      {"workflow", 0, "step", 0, "workflow", 0},
      {"execution", 200, "permanent", 0, "permanent", 0},
      {"permanent", 0, "execution", 300, "permanent", 0},
  };
  for (const Case& each : cases) {
    ResultRow stored{.scope = each.scope, .expires_at_us = each.expires};
    const ResultRow before = stored;
    const ResultRow asked{
        .scope = each.asked_scope, .created_at_us = 100, .expires_at_us = each.asked_expires};
    const bool changed = ExtendLifetime(stored, asked);
    EXPECT_EQ(changed, stored != before);
    EXPECT_EQ(stored.scope, each.wanted_scope);
    EXPECT_EQ(stored.expires_at_us, each.wanted_expires);
  }
}

}  // namespace
}  // namespace noetl::store
