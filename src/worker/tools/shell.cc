// The `shell` tool: programs of a shell, one after the other.
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "worker/bounded_text.h"
#include "worker/process.h"
#include "worker/tools/process_fields.h"
#include "worker/tools/registry.h"

namespace noetl::worker {

namespace {

constexpr std::int64_t kTimeoutMsDefault = 600'000;
// `commands` shows what each one printed; the whole is in stdout and stderr.
constexpr std::int64_t kCommandTextBytesMax = 64 << 10;
constexpr std::size_t kPreviewBytesMax = 120;
// The kernel takes no longer string in an environment (32 pages, with name and terminator).
constexpr std::size_t kVariableBytesMax = (128 << 10) - 1;
constexpr std::size_t kCommandsMax = 1'000;
constexpr std::string_view kStartCode = "SH_START";

constexpr std::array<std::string_view, 4> kShells = {"sh", "bash", "dash", "zsh"};
// Of the worker's own environment only these are passed on: programs inside a cluster need them.
constexpr std::array<const char*, 2> kPassedOn = {"KUBERNETES_SERVICE_HOST",
                                                  "KUBERNETES_SERVICE_PORT"};

std::int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// What a call asks for, checked.
struct ShellPlan {
  std::string shell;
  std::vector<std::string> commands;
  Environment env;
  std::string cwd;
  std::string stdin_text;
  ProcessLimits limits;
  Confinement confinement;
  bool capture = true;
  bool parse_json = false;
};

std::string VariableName(std::string_view name) {
  std::string variable = "NOETL_ARG_";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    variable += std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return variable;
}

Result<std::vector<std::string>> Commands(const Json& config) {
  for (const std::string_view name : {"cmds", "command", "cmd"}) {
    const Json& value = config[name];
    if (value.is_null()) continue;
    std::vector<std::string> commands;
    if (!value.is_array()) commands.push_back(FieldText(value));
    for (const Json& item : value.items()) commands.push_back(FieldText(item));
    for (const std::string& command : commands) {
      if (command.contains('\0')) return Fail("config", fmt::format("`{}` holds U+0000", name));
    }
    if (commands.empty() || Trim(commands[0]).empty()) break;
    if (commands.size() > kCommandsMax) {
      return Fail("config", fmt::format("`{}` has more than {} entries", name, kCommandsMax));
    }
    return commands;
  }
  return Fail("config", "shell needs `cmds` or `command`");
}

Result<ShellPlan> MakePlan(const ToolCall& call, const SandboxPolicy& policy) {
  ShellPlan plan;
  NOETL_ASSIGN(plan.commands, Commands(call.config));
  plan.shell = call.config.Has("shell") ? FieldText(call.config["shell"]) : "sh";
  if (!plan.shell.starts_with('/') &&
      std::ranges::find(kShells, std::string_view(plan.shell)) == kShells.end()) {
    return Fail("config", fmt::format("`shell` must be one of {} or an absolute path, not '{}'",
                                      fmt::join(kShells, ", "), plan.shell));
  }
  NOETL_ASSIGN(plan.env, CallEnvironment(call));
  for (const char* name : kPassedOn) {
    if (const char* value = std::getenv(name)) plan.env.emplace_back(name, value);
  }
  for (const JsonMember& member : call.input.members()) {
    std::string value = FieldText(member.value);
    std::erase(value, '\0');
    plan.env.emplace_back(VariableName(member.key()), std::move(value));
  }
  for (const auto& [name, value] : plan.env) {
    if (name.size() + value.size() + 1 < kVariableBytesMax) continue;
    return Fail("config",
                fmt::format("{} is longer than the 128 KiB that a variable may have", name));
  }
  plan.cwd = FieldText(call.config["cwd"]);
  plan.stdin_text = FieldText(call.config["stdin"]);
  NOETL_ASSIGN(plan.confinement, CallConfinement(call, policy));
  plan.limits = CallLimits(call, kTimeoutMsDefault, plan.confinement.level);
  plan.capture = FieldBool(call.config, "capture", true);
  plan.parse_json = call.config["parse"].AsString() == "json";
  return plan;
}

std::string Preview(std::string_view command) {
  command = Trim(command);
  command = command.substr(0, std::min(command.find('\n'), kPreviewBytesMax));
  // Not in the middle of a character.
  if (const auto bad = FirstInvalidUtf8(command)) command = command.substr(0, *bad);
  return std::string(command);
}

std::string Shortened(const std::string& text) {
  BoundedText part(kCommandTextBytesMax);
  part.Append(text);
  return part.Text();
}

class ShellRun final : public Running {
 public:
  ShellRun(Supervisor* supervisor, ShellPlan plan, ToolCall call, Tool::Done done)
      : supervisor_(supervisor),
        plan_(std::move(plan)),
        call_(std::move(call)),
        done_(std::move(done)),
        stdout_(plan_.limits.output_bytes_max),
        stderr_(plan_.limits.output_bytes_max) {}
  ~ShellRun() override {
    process_.reset();
    if (!scratch_.empty()) supervisor_->RemoveScratch(scratch_);
  }

  void Start() {
    Result<std::string> scratch = supervisor_->MakeScratch();
    if (!scratch) return Answer(CannotStart(scratch.error(), kStartCode));
    scratch_ = std::move(*scratch);
    started_ms_ = NowMs();
    Next();
  }

  void Stop() override {
    stopped_ = true;
    if (process_) process_->Stop();
  }

 private:
  void Next() {
    ProcessSpec spec;
    spec.argv = {plan_.shell, "-c", plan_.commands[next_]};
    spec.env = plan_.env;
    spec.scratch = scratch_;
    spec.cwd = plan_.cwd;
    spec.stdin_text = plan_.stdin_text;
    spec.limits = plan_.limits;
    spec.confinement = plan_.confinement;
    spec.limits.timeout_ms =
        std::max<std::int64_t>(plan_.limits.timeout_ms - (NowMs() - started_ms_), 1);
    spec.output = call_.output;
    Result<std::unique_ptr<Process>> process =
        supervisor_->Start(std::move(spec), [this](ProcessExit exit) { OnEnded(std::move(exit)); });
    if (!process) return Answer(CannotStart(process.error(), kStartCode));
    process_ = std::move(*process);
  }

  void OnEnded(ProcessExit exit) {
    process_.reset();
    stdout_.Append(exit.stdout_text);
    stderr_.Append(exit.stderr_text);
    JsonObjectBuilder entry;
    entry.Add("cmd_preview", Preview(plan_.commands[next_])).Add("returncode", exit.code);
    if (plan_.capture) {
      entry.Add("stdout", Shortened(exit.stdout_text)).Add("stderr", Shortened(exit.stderr_text));
    }
    ran_.push_back(entry.Add("duration_ms", exit.duration_ms).Build());
    if (stopped_ || exit.stopped) return Answer(Cancelled("shell"));
    ++next_;
    if (exit.code == 0 && !exit.timed_out && next_ < plan_.commands.size()) return Next();
    Answer(Judge(exit));
  }

  ToolAnswer Judge(const ProcessExit& exit) {
    Json payload = Payload(exit.code);
    if (exit.timed_out) {
      return Failed("shell", "timeout", "SH_TIMEOUT", true, TimeoutMessage(plan_.limits.timeout_ms),
                    std::move(payload));
    }
    if (exit.too_many_processes) {
      return Failed("shell", "tool_error", "SH_TOO_MANY_PROCESSES", false,
                    fmt::format("Command was killed: it started more than {} processes",
                                plan_.limits.processes_max),
                    std::move(payload));
    }
    if (exit.out_of_memory) {
      return Failed("shell", "tool_error", "SH_OUT_OF_MEMORY", false,
                    fmt::format("Command was killed: it used more than its {} MB of memory, or "
                                "the machine ran out of memory",
                                plan_.limits.memory_mb),
                    std::move(payload));
    }
    if (exit.code != 0) {
      return Failed("shell", "tool_error", fmt::format("SH_EXIT_{}", exit.code), false,
                    fmt::format("Command exited with code {}", exit.code), std::move(payload));
    }
    ToolAnswer answer;
    answer.outcome.payload = std::move(payload);
    return answer;
  }

  Json Payload(int code) {
    JsonObjectBuilder payload;
    payload.Add("exit_code", code).Add("returncode", code);
    if (plan_.capture) {
      const std::string text = stdout_.Text();
      const std::size_t end = text.find_last_not_of("\r\n");
      payload.Add("stdout", text)
          .Add("stderr", stderr_.Text())
          .Add("text", std::string_view(text).substr(0, end + 1));
      if (plan_.parse_json) {
        if (Result<Json> parsed = ParseJson(text)) payload.Add("json", ReplaceNul(*parsed));
      }
    }
    return payload.Add("commands", Json::Array(std::move(ran_)))
        .Add("duration_ms", NowMs() - started_ms_)
        .Build();
  }

  void Answer(ToolAnswer answer) {
    if (!scratch_.empty()) supervisor_->RemoveScratch(std::exchange(scratch_, {}));
    // The owner may destroy this run when it hears the answer.
    Tool::Done done = std::move(done_);
    done(std::move(answer));
  }

  Supervisor* supervisor_;
  ShellPlan plan_;
  ToolCall call_;
  Tool::Done done_;
  BoundedText stdout_;
  BoundedText stderr_;
  std::string scratch_;
  std::unique_ptr<Process> process_;
  std::vector<Json> ran_;
  std::size_t next_ = 0;
  std::int64_t started_ms_ = 0;
  bool stopped_ = false;
};

class Shell final : public Tool {
 public:
  Shell(Supervisor* supervisor, SandboxPolicy policy) : supervisor_(supervisor), policy_(policy) {}

  std::unique_ptr<Running> Start(ToolCall call, Done done) override {
    Result<ShellPlan> plan = MakePlan(call, policy_);
    if (!plan) {
      done(Refuse("config", "CONFIG", "Configuration error: " + plan.error().message));
      return nullptr;
    }
    auto run =
        std::make_unique<ShellRun>(supervisor_, std::move(*plan), std::move(call), std::move(done));
    run->Start();
    return run;
  }

 private:
  Supervisor* supervisor_;
  SandboxPolicy policy_;
};

}  // namespace

std::unique_ptr<Tool> MakeShell(const ToolSetup& setup) {
  return std::make_unique<Shell>(setup.supervisor, SandboxPolicy::Of(setup.settings));
}

}  // namespace noetl::worker
