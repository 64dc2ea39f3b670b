// Handlers that give their errors back instead of answering each one themselves.
#pragma once

#include "api/route.h"
#include "base/result.h"

namespace noetl::api {

// A route's handler from a function that either sees to the answer or gives the reason why not.
template <Status (*kInner)(const CallPtr&)>
void Handled(CallPtr call) {
  if (const Status status = kInner(call); !status) call->Refuse(status.error());
}

// Whether shown values hide credentials: always, unless a worker or an administrator asks for
// "redact=false". "forbidden" for everybody else who asks.
inline Result<bool> WantsRedaction(const Call& call) {
  NOETL_ASSIGN(const bool redact, call.QueryBool("redact", true));
  if (!redact && call.scope() < Scope::kWorker)
    return Fail("forbidden", "redact=false needs the rights of a worker or an administrator");
  return redact;
}

}  // namespace noetl::api
