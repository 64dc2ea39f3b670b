// The life of a subscription: which actions there are, from which states, and the event that each
// writes. Pure, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "store/rows.h"
#include "store/server_rows.h"

namespace noetl::store {

struct SubscriptionAction {
  std::string_view name;
  std::string_view event_type;
  std::span<const std::string_view> from;  // empty: from any state
  std::string_view to;
};

inline constexpr std::string_view kDeactivated = "DEACTIVATED";

// What can be done to one that is registered.
std::span<const SubscriptionAction> SubscriptionActions();

// A row and the event that made it what it is.
struct SubscriptionStep {
  SubscriptionRow row;
  EventRow event;
};

// The first event; `fresh` brings id, path and catalog id.
Result<SubscriptionStep> FirstStep(SubscriptionRow fresh, std::int64_t event_id,
                                   std::int64_t now_us);
// "invalid": no such action, or not from this state; the message says what is allowed.
Result<SubscriptionStep> NextStep(SubscriptionRow row, std::string_view action,
                                  std::int64_t event_id, std::int64_t now_us);

// Why a deactivated subscription cannot come back: `holder` has its path.
std::unexpected<Error> PathIsTaken(const SubscriptionRow& row, std::int64_t holder);

}  // namespace noetl::store
