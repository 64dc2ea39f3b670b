// Starting runs for HTTP requests, each with one effect however often it is sent.
//
// A request with a key claims the key for a new run id before the run exists. Whoever finds the key
// taken uses the run of the first one, and starts it when it is not there: starting is idempotent
// by id, so a crash between the two steps is mended by the next request. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "api/route.h"
#include "base/json.h"
#include "base/result.h"
#include "conductor/conductor.h"

namespace noetl::api {

struct ExecuteRequest {
  conductor::StartCall start;
  std::string resource_kind;  // what the caller takes the entry for; empty: anything
  std::string key;            // empty: none
  std::string digest;         // of the body; empty: another body with the key is the same request
  std::int64_t key_scope = 0;
  std::int64_t key_seconds = 0;
};

// Reads the body of an execute request; `idempotency_key` is that of the header. Errors: "invalid",
// "forbidden".
Result<ExecuteRequest> ReadExecuteRequest(const Json& body, Scope scope,
                                          std::string_view idempotency_key, Json trace);

struct StartAnswer {
  std::int64_t execution_id = 0;
  bool duplicate = false;
  std::int64_t commands = 0;  // that were issued first
};
// Errors: those of the conductor's start; "conflict" for a key that came with another body.
void StartOnce(Services& services, ExecuteRequest request,
               std::move_only_function<void(Result<StartAnswer>)> done);

// {execution_id, status, commands_generated}.
Json StartBody(const StartAnswer& answer);

}  // namespace noetl::api
