#include "store/memory/memory_subscriptions.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace noetl::store {

const SubscriptionRow* MemorySubscriptions::Live(std::string_view path) const {
  for (const auto& [id, row] : rows_) {
    if (row.path == path && row.state != kDeactivated) return &row;
  }
  return nullptr;
}

const SubscriptionRow* MemorySubscriptions::Find(std::int64_t id) const {
  const auto found = rows_.find(id);
  return found == rows_.end() ? nullptr : &found->second;
}

std::vector<SubscriptionRow> MemorySubscriptions::List(std::int64_t before_id,
                                                       std::int64_t limit) const {
  std::vector<SubscriptionRow> rows;
  const auto end = before_id == 0 ? rows_.end() : rows_.lower_bound(before_id);
  for (auto at = std::make_reverse_iterator(end); at != rows_.rend(); ++at) {
    if (std::ssize(rows) >= limit) break;
    rows.push_back(at->second);
  }
  return rows;
}

bool MemorySubscriptions::Uses(std::int64_t catalog_id) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const auto& entry) { return entry.second.catalog_id == catalog_id; });
}

Result<SubscriptionStep> MemorySubscriptions::Begin(const SubscriptionRow& fresh,
                                                    std::int64_t event_id,
                                                    std::int64_t now_us) const {
  if (Find(fresh.subscription_id))
    return Fail("bad_row", fmt::format("subscription id {} is taken", fresh.subscription_id));
  return FirstStep(fresh, event_id, now_us);
}

Result<SubscriptionStep> MemorySubscriptions::Act(std::int64_t id, std::string_view action,
                                                  std::int64_t event_id,
                                                  std::int64_t now_us) const {
  const SubscriptionRow* row = Find(id);
  if (!row) return Fail("not_found", fmt::format("there is no subscription {}", id));
  NOETL_ASSIGN(SubscriptionStep step, NextStep(*row, action, event_id, now_us));
  const SubscriptionRow* live = Live(row->path);
  if (live && live->subscription_id != id && step.row.state != kDeactivated)
    return PathIsTaken(*row, live->subscription_id);
  return step;
}

}  // namespace noetl::store
