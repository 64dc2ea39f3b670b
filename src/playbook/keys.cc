#include "playbook/keys.h"

namespace noetl::playbook {
namespace {

using T = KeyType;

constexpr Key kRoot[] = {
    {"apiVersion", T::kString, true, "language version", "noetl.io/v2|noetl.io/v10"},
    {"kind", T::kString, true, "what the document is", "Playbook"},
    {"metadata", T::kMap, true, "name, path and labels of the playbook"},
    {"executor", T::kMap, false, "where and how the playbook runs"},
    {"workload", T::kMap, false, "inputs and their defaults; a run may override each key"},
    {"keychain", T::kList, false, "credentials the playbook uses"},
    {"workbook", T::kAny, false, "named tools that steps refer to with kind: workbook"},
    {"workflow", T::kList, true, "the steps"},
    {"tracing", T::kMap, false, "trace export settings; no effect on the run"},
    {"spec", T::kMap, false, "legacy inputs, readable as {{ spec.x }}"},
};

constexpr Key kMetadata[] = {
    {"name", T::kString, true, "display title"},
    {"path", T::kString, false, "catalog key: segments of letters, digits, _ . - joined by /"},
    {"version", T::kString, false, "informational; the catalog counts its own versions"},
    {"description", T::kString, false, "markdown text"},
    {"labels", T::kMap, false, "names to scalars"},
    {"tags", T::kStringList, false, "words to find the playbook by"},
    {"capabilities", T::kStringList, false, "what an agent may use the playbook for"},
    {"exposed_in_ui", T::kBool, false, "show a run form"},
    {"exposes_as_mcp", T::kBool, false, "false hides the playbook from MCP clients"},
    {"agent", T::kBool, false, "legacy marker"},
};

constexpr Key kExecutor[] = {
    {"profile", T::kString, false, "where the playbook runs", "local|distributed|auto"},
    {"version", T::kString, false, "semantic contract, noetl-runtime/1"},
    {"requires", T::kMap, false, "tools and features a run needs"},
    {"spec", T::kMap, false, "entry, end and limits of a run"},
};

constexpr Key kExecutorSpec[] = {
    {"entry_step", T::kString, false, "the step a run starts with; default: start"},
    {"final_step", T::kString, false, "run once at the end, also after a failure"},
    {"no_next_is_error", T::kBool, false, "a step whose arcs all fail to match fails the run"},
    {"pool", T::kString, false, "worker pool"},
    {"timeout", T::kDuration, false, "limit of the whole run"},
    {"policy", T::kMap, false,
     "defaults.timeout_s, results.reference_first, limits.max_payload_bytes"},
    {"loop_mode", T::kString, false, "advisory", "local|fanout"},
};

constexpr Key kKeychain[] = {
    {"name", T::kString, true, "how templates and auth refer to the entry"},
    {"kind", T::kString, false, "secrets, oauth2, credential, google_id_token, bearer, static ..."},
    {"scope", T::kString, false, "who shares the value", "local|global|shared"},
    {"provider", T::kString, false, "secret backend"},
    {"auth", T::kAny, false, "credential used against the provider"},
    {"map", T::kMap, false, "output field to secret path"},
    {"credential", T::kString, false, "a stored credential"},
    {"token_type", T::kString, false, "type of the token"},
    {"auto_renew", T::kBool, false, "renew before it expires"},
    {"ttl_seconds", T::kAny, false, "lifetime of the cached value"},
    {"region", T::kString, false, "where the secret lives"},
    {"residency", T::kString, false, "residency policy", "none|advisory|strict"},
    {"allowed_regions", T::kStringList, false, "regions the secret may be used in"},
    {"no_broker_fallback", T::kBool, false, "never ask the broker"},
    {"endpoint", T::kAny, false, "token endpoint"},
    {"method", T::kAny, false, "HTTP method"},
    {"headers", T::kAny, false, "HTTP headers"},
    {"data", T::kAny, false, "HTTP body"},
    {"target_audience", T::kAny, false, "audience of an id token"},
    {"service_account_secret", T::kAny, false, "secret that holds the service account"},
    {"service_account_credential", T::kAny, false, "credential that holds the service account"},
    {"type", T::kAny, false, "type of the credential"},
    {"ref", T::kAny, false, "reference to a stored credential"},
    {"token", T::kAny, false, "a literal or templated token"},
};

constexpr Key kWorkbook[] = {
    {"name", T::kString, true, "how steps refer to the entry"},
    {"desc", T::kString, false, "what it does"},
    {"tool", T::kMap, true, "one tool"},
    {"assert", T::kMap, false, "expects and returns: names a caller gives and gets"},
};

constexpr Key kStep[] = {
    {"step", T::kString, true, "unique name; templates read the result under it"},
    {"desc", T::kText, false, "what the step does"},
    {"when", T::kCondition, false, "guard: false bypasses the step"},
    {"spec", T::kMap, false, "admission, time limits, failure handling"},
    {"input", T::kMap, false, "variables for the step's tools"},
    {"loop", T::kMap, false, "run the tool once per item"},
    {"tool", T::kAny, false, "one tool, or a list of tasks; absent: nothing to run"},
    {"set", T::kMap, false, "assignments after the tool ended"},
    {"output", T::kMap, false, "where the result goes and which fields stay readable"},
    {"next", T::kMap, false, "where to go"},
};

constexpr Key kStepSpec[] = {
    {"policy", T::kMap, false, "admit, lifecycle, failure"},
    {"timeout", T::kDuration, false, "limit of one tool call or task"},
    {"on_error", T::kString, false, "what a failed tool does to the step", "fail|continue|retry"},
    {"loop_mode", T::kString, false, "advisory", "local|fanout"},
};

constexpr Key kStepPolicy[] = {
    {"admit", T::kMap, false, "rules that let the step in"},
    {"lifecycle", T::kMap, false, "timeout_s per call, deadline_s from entry"},
    {"failure", T::kMap, false, "mode: best_effort lets other branches finish"},
    {"emit", T::kAny, false, "reserved"},
};

constexpr Key kAdmit[] = {
    {"mode", T::kString, false, "reserved"},
    {"rules", T::kList, false, "the first rule that holds decides; none denies"},
};

constexpr Key kAdmitRule[] = {
    {"when", T::kCondition, false, "condition"},
    {"else", T::kAny, false, "{then: ...} when no rule before held"},
    {"then", T::kMap, false, "{allow: true or false}"},
};

constexpr Key kLoop[] = {
    {"in", T::kAny, false, "the collection: a template, a list or a map"},
    {"cursor", T::kMap, false, "pull items instead, with mode cursor"},
    {"iterator", T::kString, true, "name of the item in templates"},
    {"spec", T::kMap, false, "mode, max_in_flight, policy, frame"},
};

constexpr Key kLoopSpec[] = {
    {"mode", T::kString, false, "order of iterations", "sequential|parallel|cursor"},
    {"max_in_flight", T::kAny, false, "unfinished iterations at a time: a number or a template"},
    {"policy", T::kMap, false, "exec, results, on_error"},
    {"frame", T::kMap, false, "cursor: how many rows a claim takes and how they run"},
};

constexpr Key kLoopPolicy[] = {
    {"exec", T::kString, false, "advisory", "distributed|local"},
    {"results", T::kMap, false, "preserve_order; retain keeps the rows of a cursor loop"},
    {"on_error", T::kString, false, "whether a failed iteration fails the step", "fail|continue"},
};

constexpr Key kLoopCursor[] = {
    {"kind", T::kString, false, "tool that claims; default postgres"},
    {"auth", T::kAny, false, "credential"},
    {"claim", T::kString, true, "statement that leases rows and returns them"},
    {"options", T::kMap, false, "further fields for the tool"},
};

constexpr Key kLoopFrame[] = {
    {"max_rows", T::kInt, false, "rows per claim, default 1"},
    {"max_seconds", T::kNumber, false, "advisory, default 30"},
    {"max_bytes", T::kInt, false, "advisory, default 67108864"},
    {"lease_seconds", T::kNumber, false, "advisory, default 120"},
    {"heartbeat_seconds", T::kNumber, false, "advisory, default 30"},
    {"row_concurrency", T::kInt, false, "rows of a frame at a time, default 1"},
    {"process", T::kString, false, "one run per row or per frame", "row|frame"},
    {"verify_ipc", T::kBool, false, "reserved"},
    {"retry_mode", T::kString, false, "advisory"},
    {"max_attempts", T::kInt, false, "advisory, default 3"},
};

constexpr Key kNext[] = {
    {"spec", T::kMap, false, "mode, on_no_match"},
    {"arcs", T::kList, false, "targets in order"},
};

constexpr Key kNextSpec[] = {
    {"mode", T::kString, false, "first arc that holds, or every one", "exclusive|inclusive"},
    {"on_no_match", T::kString, false, "when no arc holds", "complete|quiet|fail"},
    {"policy", T::kAny, false, "reserved"},
};

constexpr Key kArc[] = {
    {"step", T::kString, true, "target step"},
    {"when", T::kCondition, false, "condition; absent: always"},
    {"set", T::kMap, false, "assignments when the arc fires"},
    {"args", T::kMap, false, "input for the target on this entry"},
    {"spec", T::kAny, false, "reserved"},
};

constexpr Key kTool[] = {
    {"kind", T::kString, true, "what runs"},
    {"name", T::kString, false, "label of the task in a list"},
    {"input", T::kMap, false, "variables for the tool"},
    {"auth", T::kAny, false, "credential name, or an inline map"},
    {"libs", T::kAny, false, "python packages"},
    {"code", T::kText, false, "program text"},
    {"url", T::kText, false, "address"},
    {"method", T::kText, false, "HTTP method"},
    {"query", T::kAny, false, "SQL text"},
    {"connection", T::kAny, false, "connection string"},
    {"params", T::kAny, false, "parameters"},
    {"headers", T::kAny, false, "HTTP headers"},
    {"command", T::kAny, false, "SQL or shell text, or the words of a container command"},
    {"commands", T::kAny, false, "several statements"},
    {"cmds", T::kAny, false, "shell command or commands"},
    {"script", T::kAny, false, "{uri, source}: program text from elsewhere"},
    {"set", T::kMap, false, "assignments after the task ran"},
    {"spec", T::kMap, false, "policy rules"},
    {"retry", T::kMap, false, "tool-internal retry"},
    {"timeout", T::kAny, false, "seconds, a duration like 90s, or {connect, read}"},
    {"output", T::kMap, false, "where the result goes and which fields stay readable"},
    {"sink", T::kBool, false, "the task writes the system of record"},
};

constexpr Key kToolSpec[] = {
    {"policy", T::kMap, false, "rules: what to do after the task ended"},
    {"timeout", T::kAny, false, "legacy place of timeout"},
    {"result", T::kAny, false, "scrub: off keeps known secrets in the result"},
    {"python", T::kAny, false, "reuse: true keeps the interpreter for one step of one run"},
    {"sandbox", T::kString, false, "how python and shell are confined at least",
     "auto|off|basic|strict"},
};

constexpr Key kPolicy[] = {
    {"rules", T::kList, false, "the first rule that holds decides"},
    {"on_unmatched", T::kString, false, "what an error does that no rule matched", "continue|fail"},
    {"mode", T::kAny, false, "reserved"},
};

constexpr Key kRule[] = {
    {"when", T::kCondition, false, "condition"},
    {"else", T::kAny, false, "{then: ...} when no rule before held"},
    {"then", T::kMap, false, "what to do"},
};

constexpr Key kRuleThen[] = {
    {"do", T::kString, false, "action, default continue", "continue|retry|break|jump|fail"},
    {"set", T::kMap, false, "assignments before the action"},
    {"attempts", T::kAny, false, "retry: runs in all, default 3"},
    {"backoff", T::kString, false, "retry: how the delay grows", "none|fixed|linear|exponential"},
    {"delay", T::kAny, false, "retry: seconds"},
    {"to", T::kString, false, "jump: label of a task, or previous"},
    {"message", T::kText, false, "fail: text of the error"},
    {"allow", T::kBool, false, "admission rules only"},
};

constexpr Key kRetry[] = {
    {"max_attempts", T::kAny, false, "runs in all, default 3"},
    {"retry_on", T::kStringList, false, "error kinds"},
    {"retry_on_status", T::kList, false, "HTTP status codes"},
    {"backoff_seconds", T::kAny, false, "delay, default 1"},
    {"backoff", T::kAny, false, "seconds, or fixed, linear, exponential"},
};

constexpr Key kOutput[] = {
    {"store", T::kMap, false, "where a large result goes"},
    {"select", T::kList, false, "fields that stay readable: names, or {path, as}"},
    {"inline_max_bytes", T::kInt, false, "larger results are stored; 0: always"},
    {"preview_max_bytes", T::kInt, false, "length of the preview, default 1024"},
    {"scope", T::kString, false, "how long it is kept", "step|execution|workflow|permanent"},
    {"as", T::kString, false, "name of the stored result"},
    {"accumulate", T::kMap, false, "collect results of several runs"},
};

constexpr Key kOutputStore[] = {
    {"kind", T::kString, false, "tier",
     "auto|memory|kv|disk|object|s3|gcs|db|duckdb|eventlog|nats_kv|nats_object|postgres"},
    {"driver", T::kString, false, "driver"},
    {"bucket", T::kText, false, "bucket"},
    {"prefix", T::kText, false, "key prefix"},
    {"ttl", T::kAny, false, "lifetime"},
    {"compression", T::kAny, false, "compression"},
    {"credential", T::kText, false, "credential"},
};

struct Place {
  std::string_view name;
  std::span<const Key> keys;
};

constexpr Place kPlaces[] = {
    {"root", kRoot},
    {"metadata", kMetadata},
    {"executor", kExecutor},
    {"executor.spec", kExecutorSpec},
    {"keychain", kKeychain},
    {"workbook", kWorkbook},
    {"step", kStep},
    {"step.spec", kStepSpec},
    {"step.spec.policy", kStepPolicy},
    {"admit", kAdmit},
    {"admit.rule", kAdmitRule},
    {"loop", kLoop},
    {"loop.spec", kLoopSpec},
    {"loop.spec.policy", kLoopPolicy},
    {"loop.cursor", kLoopCursor},
    {"loop.spec.frame", kLoopFrame},
    {"next", kNext},
    {"next.spec", kNextSpec},
    {"arc", kArc},
    {"tool", kTool},
    {"tool.spec", kToolSpec},
    {"policy", kPolicy},
    {"rule", kRule},
    {"rule.then", kRuleThen},
    {"retry", kRetry},
    {"output", kOutput},
    {"output.store", kOutputStore},
};

}  // namespace

std::span<const Key> KeysOf(std::string_view place) {
  for (const Place& candidate : kPlaces) {
    if (candidate.name == place) return candidate.keys;
  }
  return {};
}

}  // namespace noetl::playbook
