// What becomes of one message: which playbook it starts, where, with what payload and trace.
//
// Headers may decide some of it, as far as the document of the subscription allows; what they decided
// is kept for the audit. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "worker/subscription/message.h"
#include "worker/subscription/spec.h"

namespace noetl::worker {

// Deliveries of one message within this time start one run.
inline constexpr std::int64_t kRedeliverySecs = 600;

struct Plan {
  struct Applied {
    std::string header;
    Control control = Control::kPlaybook;
    std::string value;  // what it came to
  };

  std::string playbook;
  std::string pool;  // empty: that of the playbook
  Json trace;        // {traceparent, tracestate?, baggage?}, or null
  std::string idempotency_key;
  std::string content_type;
  std::string schema_hint;
  std::string dedup_key;
  std::int64_t dedup_window_secs = kRedeliverySecs;
  std::vector<Applied> applied;
  bool playbook_chosen = false;  // by a header
  bool pool_chosen = false;
};

// `message` is the JSON of a message (MessageJson).
Plan PlanOf(const SubscriptionSpec& spec, const Json& message);

// What the run gets. `body` is the text of the message.
Json PayloadOf(const SubscriptionSpec& spec, const Plan& plan, const Json& message,
               const std::string& body);

// The context of the event that says what headers decided; null when they decided nothing.
Json AuditOf(const Plan& plan, std::string_view message_id);

// For the disk: a message that is replayed goes the way it was sent at first.
Json PlanToJson(const Plan& plan);
Plan PlanFromJson(const Json& json);

// The lane of the message in a spool: messages of one lane keep their order. Empty: none.
std::string LaneOf(const SpoolSpec& spec, const Json& message);

// "00-<32 hex>-<16 hex>-<2 hex>".
bool IsTraceparent(std::string_view text);

}  // namespace noetl::worker
