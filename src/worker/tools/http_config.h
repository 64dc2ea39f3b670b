// From the fields of an http step to the request it means.
//
// Lenient with scalars, since templates often give text: "30" is 30, "false" is false. Reads no
// files but checks where uploads lie; belongs to no thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "worker/tool.h"
#include "worker/tools/http_client.h"
#include "worker/tools/http_policy.h"

namespace noetl::worker {

enum class HttpResponseType : std::uint8_t { kJson, kText, kBinary };

struct HttpPlan {
  HttpRequest request;
  HttpResponseType response_type = HttpResponseType::kJson;
};

// Errors: "config" names the field and what it should be, "auth" is about credentials.
Result<HttpPlan> PlanHttp(const ToolCall& call, const HttpPolicy& policy);

}  // namespace noetl::worker
