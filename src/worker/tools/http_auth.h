// The `auth` field of an http step.
//
// Forms: {type: bearer|basic|api_key|none, ...}, the older {source: env|inline|..., key, type,
// fields}, and a map of one alias to such an object. Secrets come inline or from environment
// variables the worker was told to offer; names of stored credentials are replaced by the worker
// before a tool sees them, so one that arrives here cannot be resolved. Pure but for reading the
// environment.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "worker/tools/http_client.h"
#include "worker/tools/http_policy.h"

namespace noetl::worker {

struct HttpAuth {
  std::vector<HttpHeader> headers;  // all secret
  std::string query;                // "key=value", or empty
};

std::string Base64(std::string_view bytes);
HttpHeader BasicAuthorization(std::string_view user, std::string_view password);

// Error "auth".
Result<HttpAuth> ReadHttpAuth(const Json& auth, const HttpPolicy& policy);

}  // namespace noetl::worker
