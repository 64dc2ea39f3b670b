#include "worker/subscription/plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"

namespace noetl::worker {
namespace {

constexpr std::array<std::string_view, 3> kReserved = {"message", "subscription", "source"};

// The last value of a header; empty: it has none.
std::string HeaderOf(const Json& message, std::string_view name) {
  const Json& value = message["headers"][name];
  if (value.is_array()) return value.empty() ? "" : value.At(value.size() - 1).ToString();
  return value.ToString();
}

bool IsAllowed(const Directive& directive, const std::string& value) {
  return std::ranges::find(directive.allowed, value) != directive.allowed.end();
}

// The pool of a priority is used unless a header names the pool itself.
struct Chosen {
  std::string pool;
  std::string priority_pool;
};

void Apply(const Directive& directive, const std::string& value, Plan* plan, Chosen* chosen) {
  std::string effective = value;
  switch (directive.control) {
    case Control::kPlaybook:
      if (!IsAllowed(directive, value)) return;
      plan->playbook = value;
      plan->playbook_chosen = true;
      break;
    case Control::kPool:
      if (!IsAllowed(directive, value)) return;
      chosen->pool = value;
      break;
    case Control::kPriority: {
      const auto pool = directive.pools.find(value);
      if (pool == directive.pools.end()) return;
      chosen->priority_pool = pool->second;
      effective = pool->second;
      break;
    }
    case Control::kIdempotencyKey: plan->idempotency_key = value; break;
    case Control::kContentType: plan->content_type = value; break;
    case Control::kSchemaHint: plan->schema_hint = value; break;
  }
  plan->applied.push_back({directive.header, directive.control, std::move(effective)});
}

// Only the members of the header that may pass, in their order.
std::string AllowedBaggage(std::string_view baggage, const std::vector<std::string>& allowed) {
  std::string passed;
  while (!baggage.empty()) {
    const std::size_t comma = std::min(baggage.find(','), baggage.size());
    const std::string_view member = Trim(baggage.substr(0, comma));
    baggage.remove_prefix(std::min(comma + 1, baggage.size()));
    const std::string name(Trim(member.substr(0, member.find('='))));
    if (std::ranges::find(allowed, name) == allowed.end()) continue;
    if (!passed.empty()) passed += ',';
    passed += member;
  }
  return passed;
}

Json TraceOf(const SubscriptionSpec& spec, const Json& message) {
  const std::string parent = spec.trace ? HeaderOf(message, "traceparent") : "";
  if (!IsTraceparent(parent)) return {};
  JsonObjectBuilder trace;
  trace.Add("traceparent", parent);
  if (const std::string state = HeaderOf(message, "tracestate"); !state.empty())
    trace.Add("tracestate", state);
  if (const std::string baggage = AllowedBaggage(HeaderOf(message, "baggage"), spec.baggage);
      !baggage.empty())
    trace.Add("baggage", baggage);
  return trace.Build();
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

bool IsTraceparent(std::string_view text) {
  constexpr std::array<std::size_t, 4> kLengths = {2, 32, 16, 2};
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    const std::string_view part = text.substr(0, kLengths[i]);
    const bool hex = std::ranges::all_of(part, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    });
    if (part.size() != kLengths[i] || !hex) return false;
    text.remove_prefix(part.size());
    if (i + 1 == kLengths.size()) break;
    if (!text.starts_with('-')) return false;
    text.remove_prefix(1);
  }
  return text.empty();
}

Plan PlanOf(const SubscriptionSpec& spec, const Json& message) {
  Plan plan{.playbook = spec.playbook, .pool = spec.pool};
  Chosen chosen;
  for (const Directive& directive : spec.directives) {
    const std::string value = HeaderOf(message, directive.header);
    if (!value.empty()) Apply(directive, value, &plan, &chosen);
  }
  const std::string& pool = chosen.pool.empty() ? chosen.priority_pool : chosen.pool;
  if (!pool.empty()) {
    plan.pool = pool;
    plan.pool_chosen = true;
  }
  plan.trace = TraceOf(spec, message);
  plan.dedup_key = fmt::format("{}:{}", spec.path, message["id"].AsString());
  if (spec.dedup_by_key && !plan.idempotency_key.empty()) {
    plan.dedup_key = fmt::format("{}:key:{}", spec.path, plan.idempotency_key);
    plan.dedup_window_secs = spec.dedup_window_secs;
  }
  return plan;
}

Json PayloadOf(const SubscriptionSpec& spec, const Plan& plan, const Json& message,
               const std::string& body) {
  Json primary = message["data"];
  if (spec.payload_from == PayloadFrom::kBody) primary = body;
  if (spec.payload_from == PayloadFrom::kAttributes) primary = message["attributes"];
  JsonObjectBuilder payload;
  payload.Add("message", message).Add("subscription", spec.path).Add("source", spec.source);
  if (primary.is_object()) {
    for (const JsonMember& member : primary.members()) {
      if (std::ranges::find(kReserved, member.key()) == kReserved.end())
        payload.Add(member.key(), member.value);
    }
  } else {
    payload.Add("body", primary);
  }
  payload.AddSome("idempotency_key", TextOrNull(plan.idempotency_key))
      .AddSome("content_type", TextOrNull(plan.content_type))
      .AddSome("schema_hint", TextOrNull(plan.schema_hint));
  return payload.Build();
}

Json AuditOf(const Plan& plan, std::string_view message_id) {
  if (plan.applied.empty()) return {};
  std::vector<Json> applied;
  for (const Plan::Applied& each : plan.applied) {
    applied.push_back(Json::Object({{"header", each.header},
                                    {"controls", ControlName(each.control)},
                                    {"effective_value", each.value}}));
  }
  JsonObjectBuilder route;
  if (plan.playbook_chosen) route.Add("playbook", plan.playbook);
  if (plan.pool_chosen) route.Add("pool", plan.pool);
  return Json::Object({{"message_id", message_id},
                       {"applied", Json::Array(std::move(applied))},
                       {"route_override", route.Build()},
                       {"trace", plan.trace}});
}

Json PlanToJson(const Plan& plan) {
  std::vector<Json> applied;
  for (const Plan::Applied& each : plan.applied) {
    applied.push_back(Json::Object({{"header", each.header},
                                    {"control", static_cast<std::int64_t>(each.control)},
                                    {"value", each.value}}));
  }
  return Json::Object({{"playbook", plan.playbook},
                       {"pool", plan.pool},
                       {"trace", plan.trace},
                       {"idempotency_key", plan.idempotency_key},
                       {"content_type", plan.content_type},
                       {"schema_hint", plan.schema_hint},
                       {"dedup_key", plan.dedup_key},
                       {"dedup_window_secs", plan.dedup_window_secs},
                       {"applied", Json::Array(std::move(applied))},
                       {"playbook_chosen", plan.playbook_chosen},
                       {"pool_chosen", plan.pool_chosen}});
}

Plan PlanFromJson(const Json& json) {
  Plan plan{.playbook = json["playbook"].ToString(),
            .pool = json["pool"].ToString(),
            .trace = json["trace"],
            .idempotency_key = json["idempotency_key"].ToString(),
            .content_type = json["content_type"].ToString(),
            .schema_hint = json["schema_hint"].ToString(),
            .dedup_key = json["dedup_key"].ToString(),
            .dedup_window_secs = json["dedup_window_secs"].AsInt(kRedeliverySecs),
            .playbook_chosen = json["playbook_chosen"].AsBool(),
            .pool_chosen = json["pool_chosen"].AsBool()};
  for (const Json& each : json["applied"].items()) {
    const std::int64_t control = std::clamp<std::int64_t>(
        each["control"].AsInt(), 0, static_cast<std::int64_t>(Control::kSchemaHint));
    plan.applied.push_back(
        {each["header"].ToString(), static_cast<Control>(control), each["value"].ToString()});
  }
  return plan;
}

std::string LaneOf(const SpoolSpec& spec, const Json& message) {
  if (spec.ordering == SpoolSpec::Ordering::kGlobal) return "*";
  if (spec.ordering == SpoolSpec::Ordering::kNone || spec.ordering_key.empty()) return {};
  if (std::string header = HeaderOf(message, ToLower(spec.ordering_key)); !header.empty())
    return "=" + header;
  const Json* value = &message["data"];
  for (std::string_view rest = spec.ordering_key; !rest.empty();) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    value = &(*value)[rest.substr(0, dot)];
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  if (value->is_null() || value->is_container()) return {};
  return "=" + (value->is_string() ? value->ToString() : WriteJson(*value));
}

}  // namespace noetl::worker
