// The subscriptions of the store in memory. Not thread-safe: its owner holds a lock and keeps the
// events.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "store/subscription.h"

namespace noetl::store {

class MemorySubscriptions {
 public:
  // The one of the path that is not deactivated.
  const SubscriptionRow* Live(std::string_view path) const;
  const SubscriptionRow* Find(std::int64_t id) const;
  std::vector<SubscriptionRow> List(std::int64_t before_id, std::int64_t limit) const;
  bool Uses(std::int64_t catalog_id) const;

  // What the event would be; nothing is changed until `Keep`.
  Result<SubscriptionStep> Begin(const SubscriptionRow& fresh, std::int64_t event_id,
                                 std::int64_t now_us) const;
  Result<SubscriptionStep> Act(std::int64_t id, std::string_view action, std::int64_t event_id,
                               std::int64_t now_us) const;
  void Keep(const SubscriptionRow& row) { rows_.insert_or_assign(row.subscription_id, row); }

 private:
  std::map<std::int64_t, SubscriptionRow> rows_;
};

}  // namespace noetl::store
