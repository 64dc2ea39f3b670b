#include "worker/tools/process_fields.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json_io.h"
#include "base/text.h"
#include "worker/bounded_text.h"

namespace noetl::worker {

namespace {

// Scripts are source text; more than this is something else.
constexpr std::size_t kScriptBytesMax = 4 << 20;
// With less no interpreter starts.
constexpr std::int64_t kMemoryMbMin = 64;
// Output is held in memory and travels in an event's payload.
constexpr std::int64_t kOutputBytesMax = 64 << 20;
// More than a machine has, and still a number that the kernel takes.
constexpr std::int64_t kAnyMemoryMb = 1LL << 30;
constexpr std::int64_t kAnyFileBytes = 1LL << 50;
constexpr std::int64_t kAnyOpenFiles = 1LL << 20;
constexpr std::int64_t kAnyProcesses = 1LL << 22;

std::optional<std::int64_t> ToInt(const Json& value) {
  if (value.is_int()) return value.AsInt();
  if (value.is_double() && std::abs(value.AsDouble()) < 1e15) {
    return static_cast<std::int64_t>(value.AsDouble());
  }
  const std::string_view text = Trim(value.AsString());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::optional<std::int64_t> DeclaredTimeoutMs(const ToolCall& call) {
  if (call.timeout_ms) return call.timeout_ms;
  for (const std::string_view name : {"timeout_seconds", "timeout"}) {
    const Json& value = call.config[name];
    if (!value.is_number() && !value.is_string()) continue;
    if (const auto parsed = ParseDurationMs(FieldText(value))) return parsed;
  }
  return {};
}

Result<std::string> ReadScriptFile(std::string_view path, const std::string& folder) {
  if (path.starts_with("file://")) path.remove_prefix(7);
  if (folder.empty()) return Fail("config", "script files need NOETL_SCRIPTS_DIR to be set");
  const int root = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return Fail("config", fmt::format("{}: {}", folder, std::strerror(errno)));
  // The kernel itself refuses `..`, absolute paths and links that lead out of the folder.
  open_how how = {.flags = O_RDONLY | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_BENEATH};
  const std::string name(path);
  const int file = static_cast<int>(syscall(SYS_openat2, root, name.c_str(), &how, sizeof(how)));
  const int error = errno;
  close(root);
  if (file < 0) return Fail("config", fmt::format("script {}: {}", path, std::strerror(error)));
  std::string text(kScriptBytesMax + 1, '\0');
  std::size_t size = 0;
  ssize_t got = 0;
  while ((got = read(file, text.data() + size, text.size() - size)) > 0) {
    size += static_cast<std::size_t>(got);
  }
  close(file);
  if (got < 0) return Fail("config", fmt::format("script {}: cannot be read", path));
  if (size > kScriptBytesMax) return Fail("config", fmt::format("script {}: over 4 MiB", path));
  text.resize(size);
  return text;
}

}  // namespace

std::string FieldText(const Json& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.ToString() : WriteJson(value);
}

std::int64_t FieldInt(const Json& config, std::string_view name, std::int64_t fallback) {
  return ToInt(config[name]).value_or(fallback);
}

bool FieldBool(const Json& config, std::string_view name, bool fallback) {
  const Json& value = config[name];
  if (value.is_bool()) return value.AsBool();
  if (const auto number = ToInt(value)) return *number != 0;
  const std::string text = ToLower(Trim(value.AsString()));
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  return fallback;
}

Result<Environment> CallEnvironment(const ToolCall& call) {
  Environment env = {{"NOETL_EXECUTION_ID", std::to_string(call.execution_id)},
                     {"NOETL_STEP", call.step},
                     {"NOETL_IDEMPOTENCY_KEY", call.idempotency_key},
                     {"NOETL_FENCE", std::to_string(call.fence)}};
  const Json& declared = call.config["env"];
  if (!declared.is_null() && !declared.is_object()) return Fail("config", "`env` must be a map");
  for (const JsonMember& member : declared.members()) {
    const std::string name(member.key());
    if (name.empty() || name.contains('=') || name.contains('\0')) {
      return Fail("config", fmt::format("`env`: '{}' is no name of a variable", CleanText(name)));
    }
    std::erase_if(env, [&](const auto& entry) { return entry.first == name; });
    env.emplace_back(name, FieldText(member.value));
  }
  for (auto& [name, value] : env) std::erase(value, '\0');
  return env;
}

Result<Confinement> CallConfinement(const ToolCall& call, const SandboxPolicy& policy) {
  Confinement confinement{.level = policy.level, .user = policy.user};
  const Json& asked = call.spec["sandbox"];
  if (!asked.is_null()) {
    NOETL_ASSIGN(const SandboxLevel level, SandboxLevelOf(FieldText(asked)));
    // A step can be confined more than the worker asks for, never less.
    confinement.level = std::max(confinement.level, level);
  }
  const std::string network = FieldText(call.config["network"]);
  if (!network.empty() && network != "allow" && network != "deny") {
    return Fail("config", fmt::format("`network` is allow or deny, not '{}'", network));
  }
  confinement.deny_network = network == "deny";
  return confinement;
}

ProcessLimits CallLimits(const ToolCall& call, std::int64_t timeout_ms_default,
                         SandboxLevel level) {
  ProcessLimits limits;
  if (level == SandboxLevel::kOff) {
    limits.memory_mb = kAnyMemoryMb;
    limits.file_bytes_max = kAnyFileBytes;
    limits.open_files_max = kAnyOpenFiles;
    limits.processes_max = kAnyProcesses;
  }
  limits.timeout_ms =
      std::max<std::int64_t>(DeclaredTimeoutMs(call).value_or(timeout_ms_default), 1);
  limits.memory_mb =
      std::max<std::int64_t>(FieldInt(call.config, "memory_mb", limits.memory_mb), kMemoryMbMin);
  limits.output_bytes_max = std::clamp<std::int64_t>(
      FieldInt(call.config, "max_output_bytes", limits.output_bytes_max), 0, kOutputBytesMax);
  return limits;
}

std::string TimeoutMessage(std::int64_t timeout_ms) {
  if (timeout_ms % 1000 == 0) {
    return fmt::format("Execution timed out after {} seconds", timeout_ms / 1000);
  }
  return fmt::format("Execution timed out after {} seconds",
                     static_cast<double>(timeout_ms) / 1000);
}

ToolAnswer CannotStart(const Error& error, std::string_view code) {
  if (error.code == "sandbox") {
    return Refuse("config", "SANDBOX", "Configuration error: " + error.message);
  }
  const bool config = error.code == "cwd" || error.code == "not_found";
  return Refuse(config ? "config" : "tool_error", config ? "CONFIG" : code,
                (config ? "Configuration error: " : "Process error: ") + error.message);
}

ToolAnswer Cancelled(std::string_view source) {
  ToolAnswer answer = Failed(source, "cancelled", "CANCELLED", false, "Execution was cancelled");
  answer.cancelled = true;
  return answer;
}

Result<std::string> LoadScript(const Json& script, const std::string& folder) {
  if (script.is_string()) return script.ToString();
  if (!script.is_object()) return Fail("config", "`script` must be a map with a `source`");
  const Json& source = script["source"];
  const std::string_view uri = script["uri"].AsString();
  std::string type = ToLower(source["type"].AsString());
  for (const std::string_view name : {"code", "content"}) {
    if (type.empty() && source.Has(name)) type = "inline";
  }
  if (type.empty()) type = "file";
  if (type == "inline") {
    for (const std::string_view name : {"code", "content"}) {
      if (source[name].is_string()) return source[name].ToString();
    }
    return Fail("config", "`script.source` of type inline needs `code`");
  }
  if (type == "file") {
    const std::string_view path = source["path"].AsString();
    if (path.empty() && uri.empty()) return Fail("config", "`script` needs a `uri`");
    return ReadScriptFile(path.empty() ? uri : path, folder);
  }
  return Fail("config", fmt::format("`script.source.type` '{}' is not supported here: use inline "
                                    "or file",
                                    type));
}

}  // namespace noetl::worker
