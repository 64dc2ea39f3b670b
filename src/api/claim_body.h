// A command as workers get it over HTTP. Pure but for loading a stored context; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "bus/link.h"
#include "conductor/worker_calls.h"

namespace noetl::api {

// Loads what is behind a reference.
using LoadBody = std::function<Result<Json>(std::string_view ref)>;

// Names for workers that read a flat map: members of ctx, members of the workload and results of
// steps beside `workload`, `ctx`, `steps` and `identity`; the first of a name counts.
Json FlatRenderContext(const Json& render_context);

// {execution_id, node_id, node_name, action, context, meta, path}: a stored context is put in its
// place, or left as it is when it cannot be loaded.
Json CommandBody(const bus::Grant& grant, const LoadBody& load);
// The same with {status, event_id, claim_token, lease_seconds, strict, inline_bytes}.
Json ClaimBody(const conductor::Claimed& claimed, const LoadBody& load);

}  // namespace noetl::api
