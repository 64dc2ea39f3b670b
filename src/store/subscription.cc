#include "store/subscription.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/chain.h"

namespace noetl::store {

namespace {

constexpr std::string_view kRegistered = "REGISTERED";
constexpr std::string_view kActive = "ACTIVE";
constexpr std::string_view kPaused = "PAUSED";
constexpr std::string_view kDraining = "DRAINING";

constexpr std::array<std::string_view, 4> kBeforeActivate = {kRegistered, kPaused, kDeactivated,
                                                             kActive};
constexpr std::array<std::string_view, 2> kBeforePause = {kActive, kPaused};
constexpr std::array<std::string_view, 2> kBeforeResume = {kPaused, kActive};
constexpr std::array<std::string_view, 3> kBeforeDrain = {kActive, kPaused, kDraining};

constexpr std::array<SubscriptionAction, 5> kActions = {{
    {"activate", "subscription.activated", kBeforeActivate, kActive},
    {"pause", "subscription.paused", kBeforePause, kPaused},
    {"resume", "subscription.resumed", kBeforeResume, kActive},
    {"drain", "subscription.draining", kBeforeDrain, kDraining},
    {"deactivate", "subscription.deactivated", {}, kDeactivated},
}};

bool MayFollow(const SubscriptionAction& action, std::string_view state) {
  return action.from.empty() || std::ranges::find(action.from, state) != action.from.end();
}

Result<SubscriptionStep> Step(SubscriptionRow row, std::string_view event_type,
                              std::string_view state, std::int64_t event_id, std::int64_t now_us) {
  // As in the log of a run: the server's clock never goes back.
  now_us = std::max(now_us, row.updated_at_us);
  engine::Event event{.event_id = event_id,
                      .execution_id = row.subscription_id,
                      .seq = row.head + 1,
                      .catalog_id = row.catalog_id,
                      .prev_event_id = row.last_event_id,
                      .type_name = std::string(event_type),
                      .node_name = row.path,
                      .node_type = "subscription",
                      .status = std::string(state),
                      .created_at_us = now_us,
                      .ingest_us = now_us};
  NOETL_ASSIGN(EventRow stored, MakeEventRow(std::move(event), row.chain));
  row.state = state;
  row.last_event_id = event_id;
  row.last_event_type = event_type;
  row.updated_at_us = now_us;
  row.head = stored.event.seq;
  row.chain = stored.chain;
  return SubscriptionStep{std::move(row), std::move(stored)};
}

}  // namespace

std::span<const SubscriptionAction> SubscriptionActions() { return kActions; }

Result<SubscriptionStep> FirstStep(SubscriptionRow fresh, std::int64_t event_id,
                                   std::int64_t now_us) {
  if (fresh.subscription_id <= 0 || event_id <= 0 || fresh.path.empty())
    return Fail("bad_row", "a subscription without id or path");
  fresh.head = 0;
  fresh.last_event_id = 0;
  fresh.created_at_us = now_us;
  fresh.updated_at_us = now_us;
  fresh.chain = ChainStart(fresh.subscription_id);
  return Step(std::move(fresh), "subscription.registered", kRegistered, event_id, now_us);
}

Result<SubscriptionStep> NextStep(SubscriptionRow row, std::string_view name, std::int64_t event_id,
                                  std::int64_t now_us) {
  const auto action = std::ranges::find(kActions, name, &SubscriptionAction::name);
  if (action == kActions.end()) {
    std::vector<std::string_view> names;
    for (const SubscriptionAction& each : kActions) names.push_back(each.name);
    return Fail("invalid", fmt::format("there is no action '{}'; a subscription can {}", name,
                                       fmt::join(names, ", ")));
  }
  if (MayFollow(*action, row.state))
    return Step(std::move(row), action->event_type, action->to, event_id, now_us);
  std::vector<std::string_view> possible;
  for (const SubscriptionAction& each : kActions) {
    if (MayFollow(each, row.state)) possible.push_back(each.name);
  }
  return Fail("invalid", fmt::format("subscription {} is {}: '{}' needs {}; now it can {}",
                                     row.subscription_id, row.state, name,
                                     fmt::join(action->from, " or "), fmt::join(possible, ", ")));
}

std::unexpected<Error> PathIsTaken(const SubscriptionRow& row, std::int64_t holder) {
  return Fail("invalid", fmt::format("subscription {} cannot come back: '{}' has the subscription "
                                     "{}, which must be deactivated first",
                                     row.subscription_id, row.path, holder));
}

}  // namespace noetl::store
