#include "worker/tools/python.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/json_io.h"
#include "base/text.h"
#include "worker/bounded_text.h"
#include "worker/process_spawn.h"
#include "worker/tools/process_fields.h"

namespace noetl::worker {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=' || c == '\n' || c == '\r' || c == ' ') continue;
    const std::size_t value = kAlphabet.find(c == '-' ? '+' : c == '_' ? '/' : c);
    if (value == std::string_view::npos) return {};
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    if (++count % 4 == 0) {
      for (const int shift : {16, 8, 0}) out += static_cast<char>(bits >> shift);
      bits = 0;
    }
  }
  if (count % 4 == 1) return {};
  if (count % 4 == 2) out += static_cast<char>(bits >> 4U);
  if (count % 4 == 3) {
    out += static_cast<char>(bits >> 10U);
    out += static_cast<char>(bits >> 2U);
  }
  return out;
}

Result<std::string> Code(const Json& config, const std::string& scripts_folder) {
  if (!config["script"].is_null()) return LoadScript(config["script"], scripts_folder);
  for (const std::string_view name : {"code_b64", "code_base64"}) {
    if (config[name].is_null()) continue;
    std::optional<std::string> code = DecodeBase64(config[name].AsString());
    if (!code || FirstInvalidUtf8(*code)) {
      return Fail("config", fmt::format("`{}` is not base64 of a text", name));
    }
    return std::move(*code);
  }
  if (config["code"].is_string()) return config["code"].ToString();
  return Fail("config", "python needs `code` or `script`");
}

// A process that is kept for more jobs has no limit of processor time, which adds up over them.
Json KernelLimits(ProcessLimits limits, bool keep, bool strict) {
  if (keep) limits.timeout_ms = 0;
  std::vector<Json> list;
  const auto add = [&](int which, std::uint64_t value) {
    list.push_back(Json::Array({Json(which), Json(static_cast<std::int64_t>(value))}));
  };
  add(RLIMIT_AS, static_cast<std::uint64_t>(limits.memory_mb << 20) * 3 / 2);
  for (const auto& [which, value] : ResourceLimits(limits, strict)) add(which, value);
  return Json::Array(std::move(list));
}

Result<Json> SearchPath(const Json& deps) {
  std::vector<Json> path;
  for (const Json& folder : deps["sys_path"].items()) path.push_back(folder);
  if (deps["sys_path"].is_string()) path.push_back(deps["sys_path"]);
  if (!deps["packages"].is_null() && !deps["packages"].empty()) {
    return Fail("config", "`deps.packages` would install from a network: use `deps.sys_path`");
  }
  return Json::Array(std::move(path));
}

// The interpreter that a call names; empty: the usual one.
Result<std::string> NamedInterpreter(const Json& config) {
  std::string named = FieldText(config["python"]);
  const std::string venv = FieldText(config["deps"]["venv_path"]);
  if (venv.empty()) return named;
  if (!named.empty()) return Fail("config", "give `python` or `deps.venv_path`, not both");
  if (!venv.starts_with('/')) {
    return Fail("config", fmt::format("`deps.venv_path` '{}' is not an absolute path", venv));
  }
  return (fs::path(venv).lexically_normal() / "bin/python").lexically_normal().string();
}

// The folder that an interpreter and its modules are in; empty: it is of the system.
std::string FolderOf(const fs::path& program) {
  const fs::path folder = program.parent_path();
  const fs::path whole = folder.filename() == "bin" ? folder.parent_path() : folder;
  return whole == "/" || whole == "/usr" ? std::string() : whole.string();
}

// What a strictly confined interpreter has to see: its own place, and where links lead from there.
Result<std::vector<std::string>> FoldersOf(const std::string& interpreter) {
  NOETL_ASSIGN(const std::string program, FindProgram(interpreter));
  std::vector<std::string> folders = {FolderOf(program)};
  std::error_code error;
  folders.push_back(FolderOf(fs::canonical(program, error)));
  std::erase(folders, "");
  return folders;
}

// What a call asks for, checked; the job lacks only its directory.
struct PythonPlan {
  std::string interpreter;
  std::string cwd;
  Environment env;
  JsonObjectBuilder job;
  ProcessLimits limits;
  Confinement confinement;
  std::string reuse_key;
};

Result<PythonPlan> MakePlan(const ToolCall& call, const std::string& scripts_folder,
                            std::int64_t timeout_ms_default, const SandboxPolicy& policy) {
  PythonPlan plan;
  NOETL_ASSIGN(const std::string code, Code(call.config, scripts_folder));
  NOETL_ASSIGN(plan.env, CallEnvironment(call));
  NOETL_ASSIGN(const Json path, SearchPath(call.config["deps"]));
  NOETL_ASSIGN(plan.interpreter, NamedInterpreter(call.config));
  NOETL_ASSIGN(plan.confinement, CallConfinement(call, policy));
  plan.limits = CallLimits(call, timeout_ms_default, plan.confinement.level);
  // A strictly confined process can only use the directory of its first call.
  const bool keep = FieldBool(call.spec["python"], "reuse", false) && !plan.confinement.strict();
  if (keep) {
    plan.reuse_key = fmt::format("{}\n{}\n{}\n{}\n{}", call.execution_id, call.step, call.label,
                                 plan.interpreter, plan.confinement.deny_network ? "denied" : "");
  }
  Json context = call.context.is_object() ? call.context : Json::Object();
  if (!context.Has("execution_id")) {
    context = context.With("execution_id", std::to_string(call.execution_id));
  }
  if (!context.Has("step")) context = context.With("step", call.step);
  plan.cwd = FieldText(call.config["cwd"]);
  plan.job.Add("code", code)
      .Add("filename", fmt::format("<step:{}>", call.step))
      .Add("args", call.input.is_object() ? call.input : Json::Object())
      .Add("context", context)
      .Add("libs", call.config["libs"])
      .Add("assert", call.config["assert"])
      .Add("sys_path", path)
      .Add("limits", KernelLimits(plan.limits, keep, plan.confinement.strict()))
      .Add("keep", keep);
  return plan;
}

Json Printed(const PythonEnd& end) {
  return Json::Object({{"stdout", end.stdout_text}, {"stderr", end.stderr_text}});
}

std::string DeathMessage(int status, std::int64_t memory_mb) {
  if (!WIFSIGNALED(status)) {
    return fmt::format("Python exited with code {} without a result", WEXITSTATUS(status));
  }
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL) {
    return fmt::format(
        "Python was killed (SIGKILL): perhaps the machine ran out of memory; the limit is {} MB",
        memory_mb);
  }
  if (signal == SIGXCPU) return "Python was killed: it used more processor time than its limit";
  return fmt::format("Python crashed: SIG{} ({})", sigabbrev_np(signal), strsignal(signal));
}

// An exception of the code.
ToolAnswer Raised(const Json& error, const PythonEnd& end) {
  const std::string type = CleanText(error["type"].AsString());
  const std::string traceback = CleanText(error["traceback"].AsString());
  ToolAnswer answer = Failed("python", error["kind"].AsString(), "PY_" + type, false,
                             CleanText(error["line"].AsString()),
                             Printed(end).With("exit_code", error["exit_code"]));
  answer.outcome.error_info =
      answer.outcome.error_info.With("exception_type", type).With("traceback", traceback);
  answer.outcome.extra =
      Json::Object({{"py", Json::Object({{"exception", type}, {"traceback", traceback}})}});
  return answer;
}

ToolAnswer Replied(const PythonEnd& end) {
  const Result<Json> reply = ParseJson(end.reply);
  if (!reply) {
    return Failed("python", "parse", "PY_RESULT", false,
                  "the result cannot be read: " + reply.error().message, Printed(end));
  }
  if (reply->Has("cannot")) {
    return Refuse("config", (*reply)["code"].AsString(),
                  "Configuration error: " + (*reply)["cannot"].ToString());
  }
  if (!(*reply)["ok"].AsBool()) return Raised((*reply)["error"], end);
  ToolAnswer answer;
  answer.outcome.payload = ReplaceNul((*reply)["value"]);
  if (!answer.outcome.payload.is_null()) return answer;
  answer.outcome.payload = Printed(end);
  // Code that only prints may print its result.
  if (!(*reply)["has_value"].AsBool()) {
    if (Result<Json> printed = ParseJson(end.stdout_text)) {
      answer.outcome.payload = ReplaceNul(*printed);
    }
  }
  return answer;
}

ToolAnswer Judge(const PythonEnd& end, const ProcessLimits& limits) {
  switch (end.ending) {
    case PythonEnding::kReplied: return Replied(end);
    case PythonEnding::kTimedOut:
      return Failed("python", "timeout", "PY_TIMEOUT", true, TimeoutMessage(limits.timeout_ms),
                    Printed(end));
    case PythonEnding::kStopped: return Cancelled("python");
    case PythonEnding::kMemory:
      return Failed(
          "python", "tool_error", "PY_OUT_OF_MEMORY", false,
          fmt::format("Python was killed: it used more than its {} MB of memory", limits.memory_mb),
          Printed(end));
    case PythonEnding::kProcesses:
      return Failed(
          "python", "tool_error", "PY_TOO_MANY_PROCESSES", false,
          fmt::format("Python was killed: it started more than {} processes", limits.processes_max),
          Printed(end));
    case PythonEnding::kLost:
      return Failed("python", "tool_error", "PY_LOST", true, "Process error: " + end.message,
                    Printed(end));
    case PythonEnding::kCannotStart:
      if (end.code == "sandbox") return CannotStart({end.code, end.message}, "PY_START");
      return Refuse("config", "PY_START", "Configuration error: " + end.message);
    case PythonEnding::kDied: break;
  }
  if (!end.message.empty()) {
    return Failed("python", "tool_error", "PY_RESULT", false, end.message, Printed(end));
  }
  return Failed("python", "tool_error", "PY_CRASH", false,
                DeathMessage(end.status, limits.memory_mb), Printed(end));
}

// Ends with the call: its directory goes.
class PythonRun final : public Running {
 public:
  PythonRun(Supervisor* supervisor, std::string scratch)
      : supervisor_(supervisor), scratch_(std::move(scratch)) {}
  ~PythonRun() override {
    running_.reset();
    RemoveScratch();
  }
  void Stop() override {
    if (running_) running_->Stop();
  }
  void RemoveScratch() {
    if (!scratch_.empty()) supervisor_->RemoveScratch(std::exchange(scratch_, {}));
  }
  void Own(std::unique_ptr<Running> running) { running_ = std::move(running); }

 private:
  Supervisor* supervisor_;
  std::string scratch_;
  std::unique_ptr<Running> running_;
};

}  // namespace

PythonTool::PythonTool(const ToolSetup& setup)
    : setup_(setup),
      interpreter_(setup.settings == nullptr ? "python3" : setup.settings->Text("PYTHON_PATH")),
      policy_(SandboxPolicy::Of(setup.settings)),
      pools_(setup.loop, setup.supervisor, interpreter_,
             setup.settings == nullptr ? std::vector<std::string>()
                                       : setup.settings->List("NOETL_PYTHON_PREIMPORT")) {
  if (setup.settings == nullptr) return;
  others_ = setup.settings->List("NOETL_PYTHON_INTERPRETERS");
  spawns_ = setup.settings->Text("NOETL_PYTHON_MODE") == "spawn";
  scripts_folder_ = setup.settings->Text("NOETL_SCRIPTS_DIR");
  timeout_ms_default_ = setup.settings->DurationMs("NOETL_WORKER_COMMAND_TIMEOUT_SECONDS");
}

std::unique_ptr<Running> PythonTool::Start(ToolCall call, Done done) {
  Result<PythonPlan> plan = MakePlan(call, scripts_folder_, timeout_ms_default_, policy_);
  if (plan && !plan->interpreter.empty() && plan->interpreter != interpreter_ &&
      std::ranges::find(others_, plan->interpreter) == others_.end()) {
    plan = Fail("config",
                fmt::format("'{}' is not among NOETL_PYTHON_INTERPRETERS", plan->interpreter));
  }
  if (plan && plan->interpreter.empty()) plan->interpreter = interpreter_;
  if (plan && plan->confinement.strict()) {
    Result<std::vector<std::string>> folders = FoldersOf(plan->interpreter);
    if (folders) plan->confinement.readable = *std::move(folders);
    else plan = std::unexpected(std::move(folders).error());
  }
  if (!plan) {
    done(Refuse("config", "CONFIG", "Configuration error: " + plan.error().message));
    return nullptr;
  }
  Result<std::string> scratch = setup_.supervisor->MakeScratch();
  if (!scratch) {
    done(Refuse("tool_error", "PY_START", "Process error: " + scratch.error().message));
    return nullptr;
  }
  Environment env = BaseEnvironment(*scratch);
  env.insert(env.end(), plan->env.begin(), plan->env.end());
  JsonObjectBuilder variables;
  for (const auto& [name, value] : env) variables.Add(name, CleanText(value));
  PythonPool* pool =
      spawns_ || plan->confinement.strict() ? nullptr : pools_.Find(plan->interpreter);
  PythonJob job;
  job.confinement = plan->confinement;
  job.confinement.scratch = *scratch;
  if (pool == nullptr) {
    pool = &pools_.usual();
    job.interpreter = plan->interpreter;
  } else if (plan->confinement.deny_network) {
    plan->job.Add("namespaces", static_cast<std::int64_t>(NetworkNamespaces()));
  }
  job.body = WriteJson(plan->job.Add("env", variables.Build())
                           .Add("cwd", plan->cwd.empty() ? *scratch : plan->cwd)
                           .Build());
  job.limits = plan->limits;
  job.reuse_key = plan->reuse_key;
  job.output = std::move(call.output);
  auto run = std::make_unique<PythonRun>(setup_.supervisor, std::move(*scratch));
  PythonRun* const started = run.get();
  run->Own(pool->Start(std::move(job), [started, limits = plan->limits,
                                        done = std::move(done)](PythonEnd end) mutable {
    started->RemoveScratch();
    done(Judge(end, limits));
  }));
  return run;
}

std::unique_ptr<Tool> MakePython(const ToolSetup& setup) {
  return std::make_unique<PythonTool>(setup);
}

}  // namespace noetl::worker
