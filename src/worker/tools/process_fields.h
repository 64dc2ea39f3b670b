// Fields that the tools which run programs have in common.
//
// Values of rendered fields may come as text ("30", "true"): readers take both. Pure functions,
// except LoadScript, which reads a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "worker/process.h"
#include "worker/tool.h"

namespace noetl::worker {

using Environment = std::vector<std::pair<std::string, std::string>>;

// A value as a program sees it: text as it is, null as nothing, the rest as JSON.
std::string FieldText(const Json& value);
// Whole numbers and booleans, also written as text; the fallback when the field is absent or
// something else.
std::int64_t FieldInt(const Json& config, std::string_view name, std::int64_t fallback);
bool FieldBool(const Json& config, std::string_view name, bool fallback);

// What every program may know about its call, then the declared `env`. Error: "config".
Result<Environment> CallEnvironment(const ToolCall& call);
// How the call is confined: as `policy` says, or more when its `network` or `spec.sandbox` asks for
// more. The scratch directory is the caller's to fill. Error: "config".
Result<Confinement> CallConfinement(const ToolCall& call, const SandboxPolicy& policy);
// Limits of the call: declared time, memory and output, or the fallbacks, which without a sandbox
// are none but the time.
ProcessLimits CallLimits(const ToolCall& call, std::int64_t timeout_ms_default,
                         SandboxLevel level = SandboxLevel::kBasic);

// "Execution timed out after N seconds"
std::string TimeoutMessage(std::int64_t timeout_ms);
// The answer of a call whose process could not be started; `code` is the tool's own for it.
ToolAnswer CannotStart(const Error& error, std::string_view code);
// The answer of a call that ended because it was told to.
ToolAnswer Cancelled(std::string_view source);

// The text of a script block {uri, source: {type: inline|file, code|content}} or a bare string.
// Files are under `folder`. Error: "config".
Result<std::string> LoadScript(const Json& script, const std::string& folder);

}  // namespace noetl::worker
