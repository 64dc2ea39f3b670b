// The shapes that handlers are written in, and what they share.
//
// `Now<F>` in a route's table answers with what F gives, or refuses with its error. `Later<F>` does the
// same on the thread for requests that read or write a lot. `Handled<F>` is for those that are
// answered when somebody else is done. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/route.h"
#include "api/router_parts.h"
#include "base/json.h"
#include "base/result.h"

namespace noetl::api {

template <Result<Json> (*F)(Call&)>
void Now(CallPtr call) {
  Result<Json> answer = F(*call);
  if (!answer) return call->Refuse(answer.error());
  call->Answer(*std::move(answer));
}

template <Result<Json> (*F)(Call&)>
void Later(CallPtr call) {
  InBackground(std::move(call), Now<F>);
}

// A route's handler from a function that either sees to the answer or gives the reason why not.
template <Status (*kInner)(const CallPtr&)>
void Handled(CallPtr call) {
  if (const Status status = kInner(call); !status) call->Refuse(status.error());
}

// Counts a request that changes what is stored, and how long it took.
template <WriteEndpoint kEndpoint, Result<Json> (*F)(Call&)>
Result<Json> Written(Call& call) {
  Services& services = call.services();
  const std::int64_t began_us = services.clock->MonotonicMicros();
  Result<Json> answer = F(call);
  MetricsOf(services).writes.Count(kEndpoint, answer.has_value(),
                                   services.clock->MonotonicMicros() - began_us);
  return answer;
}

// Whether shown values hide credentials: always, unless a worker or an administrator asks for
// "redact=false". "forbidden" for everybody else who asks.
inline Result<bool> WantsRedaction(const Call& call) {
  NOETL_ASSIGN(const bool redact, call.QueryBool("redact", true));
  if (!redact && call.scope() < Scope::kWorker)
    return Fail("forbidden", "redact=false needs the rights of a worker or an administrator");
  return redact;
}

// Most bodies are maps; "invalid" otherwise.
inline Status NeedMap(const Json& body) {
  if (body.is_object()) return {};
  return Fail("invalid", "the body must be a JSON map");
}

// Absent members of answers are null, not empty texts.
inline Json TextOrNull(std::string_view text) { return text.empty() ? Json() : Json(text); }

}  // namespace noetl::api
