#include "api/claim_body.h"

#include <algorithm>
#include <string>

#include "engine/result.h"

namespace noetl::api {

namespace {

// Old workers keep quiet about failures before the tool runs while they think that a later attempt
// is due, which is below this number.
constexpr std::int64_t kAttemptsReported = 3;

Json WorkerContext(const Json& context, const LoadBody& load) {
  Json base = context["render_context"];
  if (const Json* ref = base.Find("__context_ref__")) {
    Result<Json> body = load(ref->AsString());
    if (!body) return context;
    base = *std::move(body);
  }
  if (!base.is_object()) return context;
  return context.With("render_context", FlatRenderContext(base));
}

Json WorkerMeta(const bus::Grant& grant) {
  const std::int64_t attempt = grant.meta["attempt"].AsInt(1);
  return grant.meta.With("command_id", grant.command_id)
      .With("attempt", attempt)
      .With("attempts", std::max(kAttemptsReported, attempt));
}

void AddCommand(JsonObjectBuilder& body, const bus::Grant& grant, const LoadBody& load) {
  body.Add("execution_id", grant.execution_id)
      .Add("node_id", grant.step)
      .Add("node_name", grant.step)
      .Add("action", grant.tool_kind)
      .Add("context", WorkerContext(grant.context, load))
      .Add("meta", WorkerMeta(grant))
      .Add("path", grant.path);
}

}  // namespace

Json FlatRenderContext(const Json& render_context) {
  Json flat = render_context;
  const auto add = [&](std::string_view name, const Json& value) {
    if (!flat.Has(name)) flat = flat.With(name, value);
  };
  for (const char* part : {"ctx", "workload"}) {
    for (const JsonMember& member : render_context[part].members()) add(member.key(), member.value);
  }
  for (const JsonMember& step : render_context["steps"].members()) {
    if (flat.Has(step.key())) continue;
    const engine::StepResult result = engine::StepResult::FromJson(step.value);
    // A result that is stored elsewhere is seen by its summary.
    add(step.key(), engine::PayloadOf(result, nullptr).value_or(result.data));
  }
  return flat;
}

Json CommandBody(const bus::Grant& grant, const LoadBody& load) {
  JsonObjectBuilder body;
  AddCommand(body, grant, load);
  return body.Build();
}

Json ClaimBody(const conductor::Claimed& claimed, const LoadBody& load) {
  const bus::Grant& grant = claimed.grant;
  JsonObjectBuilder body;
  body.Add("status", "ok").Add("event_id", grant.event_id);
  AddCommand(body, grant, load);
  body.Add("claim_token", grant.claim_token)
      .Add("lease_seconds", claimed.lease_ms / 1'000)
      .Add("strict", grant.strict)
      .Add("inline_bytes", grant.inline_bytes);
  return body.Build();
}

}  // namespace noetl::api
