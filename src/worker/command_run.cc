#include "worker/command_run.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/json_io.h"
#include "base/time.h"
#include "engine/pipeline_retry.h"
#include "engine/result.h"
#include "engine/summary.h"
#include "worker/credentials.h"
#include "worker/tools/process_fields.h"

namespace noetl::worker {

using engine::Event;
using engine::EventType;

namespace {

// A pipeline of quick tasks lets others have the reactor after this many steps of its own.
constexpr int kStepsPerTurn = 1'024;
// A declared limit is the tool's to keep. It may take its grace to stop; then the worker steps in.
constexpr std::int64_t kGuardMarginMs = kStopGraceMs + 1'000;
// A stored body that cannot be read at the moment is asked for this often again.
constexpr int kLoadRetriesMax = 3;

// Secrets are loaded like bodies, under a name that no body has.
constexpr std::string_view kSecretRef = "secret:";
constexpr std::string_view kKeychainRoot = "keychain.";

constexpr std::array<std::string_view, 7> kTransientCodes = {
    "overloaded", "unavailable", "io", "disk_full", "read_only", "timeout", "tls"};
constexpr std::array<std::string_view, 5> kRefusals = {
    "superseded", "cancelled", "already_terminal", "stale_claim", "not_found"};
// Members of a single tool's config that are for the worker, not for the tool.
constexpr std::array<std::string_view, 7> kEnvelopeKeys = {"kind",   "name",  "set",       "spec",
                                                           "output", "retry", "timeout_ms"};

template <std::size_t N>
bool IsIn(const std::array<std::string_view, N>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

// The names after `keychain.` in the texts of a config, each once.
void AddKeychainNames(const Json& value, std::set<std::string>* names) {
  for (const Json& item : value.items()) AddKeychainNames(item, names);
  for (const JsonMember& member : value.members()) AddKeychainNames(member.value, names);
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const std::string_view text = value.is_string() ? value.AsString() : std::string_view();
  for (std::size_t at = text.find(kKeychainRoot); at != std::string_view::npos;
       at = text.find(kKeychainRoot, at + 1)) {
    if (at > 0 && (word(text[at - 1]) || text[at - 1] == '.')) continue;
    const std::size_t begin = at + kKeychainRoot.size();
    std::size_t end = begin;
    while (end < text.size() && word(text[end])) ++end;
    if (end > begin) names->emplace(text.substr(begin, end - begin));
  }
}

std::set<std::string> KeychainNames(const Json& config) {
  std::set<std::string> names;
  AddKeychainNames(config, &names);
  return names;
}

ToolAnswer MissingBody(std::string message) {
  ToolAnswer answer = Refuse("missing_reference", kNotAvailable, std::move(message));
  answer.outcome.error_info = answer.outcome.error_info.With("retryable", true);
  return answer;
}

}  // namespace

bool IsTransient(const Error& error) { return IsIn(kTransientCodes, error.code); }
bool IsRefused(const Error& error) { return IsIn(kRefusals, error.code); }

// ---- the run

CommandRun::CommandRun(RunHost* host, bus::Grant grant) : host_(host), grant_(std::move(grant)) {}

CommandRun::~CommandRun() { DropTimers(); }

Result<const Json*> CommandRun::LoadedBodies::Find(std::string_view ref) const {
  const auto found = bodies_.find(ref);
  if (found == bodies_.end()) return nullptr;
  if (!found->second) return std::unexpected(found->second.error());
  return &*found->second;
}

void CommandRun::Advance() {
  const std::shared_ptr<CommandRun> self = shared_from_this();  // the host lets go of us at the end
  for (int steps = 0; steps < kStepsPerTurn; ++steps) {
    switch (phase_) {
      case Phase::kPreparing: Prepare(); break;
      case Phase::kDeciding: Decide(); break;
      case Phase::kStarting:
      case Phase::kHasTurn: StartCall(); break;
      case Phase::kAnswered: TakeAnswer(); break;
      case Phase::kQueued:
      case Phase::kCalling:
      case Phase::kStopping:
      case Phase::kSleeping:
      case Phase::kLoading:
      case Phase::kWithChild:
      case Phase::kFinishing:
      case Phase::kEnded: return;
    }
  }
  host_->Later(*this);
}

void CommandRun::TakeTurn() { phase_ = Phase::kHasTurn; }

void CommandRun::Cancel() {
  switch (phase_) {
    case Phase::kCalling:
      phase_ = Phase::kStopping;
      running_->Stop();
      return;
    case Phase::kStopping:
    case Phase::kEnded: return;
    case Phase::kQueued: host_->LeaveQueue(*this, call_.kind); break;
    case Phase::kHasTurn: host_->GiveCall(call_.kind); break;
    default: break;
  }
  End(std::nullopt);
}

// ---- before the first call

void CommandRun::Prepare() {
  const Json& context = grant_.context;
  const bool stored = context["render_context"].Has("__context_ref__");
  Status status;
  if (pipeline() || stored || !context["deferred"].is_null()) status = MakeScope();
  if (status) status = pipeline() ? MakePipeline() : RenderSingle();
  if (status) {
    phase_ = Phase::kDeciding;
    return;
  }
  if (Awaits(status.error())) return;
  const Error& error = status.error();
  if (error.code == kNotAvailable) return FinishHard(MissingBody(error.message));
  const bool config = pipeline() && scope_;
  FinishHard(Refuse(config ? "config" : "template", error.code,
                    (config ? "Configuration error: " : "Template error: ") + error.message));
}

Status CommandRun::MakeScope() {
  if (scope_) return {};
  NOETL_ASSIGN(scope_, engine::CommandScope::Create(grant_.context, grant_.meta, &bodies_));
  Status bound = BindKeychain();
  if (bound) bound = BindSecretInputs();
  if (!bound) scope_.reset();
  return bound;
}

// ---- secrets

// `keychain.<name>` wherever the templates of the command say it. In a strict playbook, and for a
// worker that is strict about it, each must be there; else a missing one reads as nothing.
Status CommandRun::BindKeychain() {
  engine::Scope& names = scope_->scope();
  names.SetNow(FormatTime(parts().clock->NowMicros()));
  const bool strict = grant_.strict || parts().options->keychain_strict;
  Json keychain = Json::Object();
  for (const std::string& alias : KeychainNames(grant_.context["tool_config"])) {
    Json data;
    const Status found = AddSecret(alias, &data);
    if (found) keychain = keychain.With(alias, std::move(data));
    else if (strict || found.error().code == "needs_reference") return found;
  }
  names.Bind("keychain", std::move(keychain));
  names.SetTokens([this](std::string_view alias) -> Result<expr::Value> {
    Json data;
    NOETL_TRY(AddSecret(std::string(alias), &data));
    for (const std::string_view key : {"access_token", "token", "api_key", "value"}) {
      if (const Json* token = data.Find(key)) return expr::Value(*token);
    }
    return Fail("E430", fmt::format("token('{}'): the credential has no token", alias));
  });
  return {};
}

// Inputs of the run that the log only names.
Status CommandRun::BindSecretInputs() {
  engine::Scope& names = scope_->scope();
  const Json named = names.sources().workload;
  Json workload = named;
  secret_inputs_.clear();
  for (const JsonMember& member : named.members()) {
    const Json* alias = member.value.Find("_secret");
    if (!alias) continue;
    Json data;
    NOETL_TRY(AddSecret(alias->ToString(), &data));
    secret_inputs_.emplace_back(data["value"], member.value);
    workload = workload.With(member.key(), data["value"]);
  }
  if (!secret_inputs_.empty()) names.SetWorkload(std::move(workload));
  return {};
}

// The data of a secret that has been loaded; its values are hidden from now on.
Status CommandRun::AddSecret(const std::string& alias, Json* data) {
  const std::string ref = fmt::format("{}{}", kSecretRef, alias);
  if (!bodies_.Knows(ref)) return Fail("needs_reference", ref);
  NOETL_ASSIGN(const Json* secret, bodies_.Find(ref));
  *data = (*secret)["data"];
  for (std::string& value : SecretsOf((*secret)["type"].AsString(), *data))
    masking_.Add(std::move(value));
  return {};
}

// Puts the credential that the call names into its fields. False: it is on its way, or the call has
// been answered because there is none.
bool CommandRun::ApplyAuth() {
  const Json& auth = call_.config["auth"];
  const Json& named = auth.is_string()                 ? auth
                      : auth["credential"].is_string() ? auth["credential"]
                                                       : call_.config["credential"];
  if (!named.is_string() || named.AsString().empty()) return true;
  const std::string alias = named.ToString();
  Json data;
  Status found = AddSecret(alias, &data);
  if (!found && found.error().code == "needs_reference") {
    Awaits(found.error());
    return false;
  }
  Result<Json> applied = std::unexpected(Error());
  if (found) {
    const Json& secret = **bodies_.Find(fmt::format("{}{}", kSecretRef, alias));
    applied = ApplyCredential(call_.kind, call_.config, alias, secret["type"].AsString(), data);
    if (applied) {
      call_.config = *std::move(applied);
      return true;
    }
  }
  called_at_us_ = parts().clock->MonotonicMicros();
  answer_ = Refuse("auth", "AUTH", found ? applied.error().message : found.error().message);
  phase_ = Phase::kAnswered;
  return false;
}

Status CommandRun::MakePipeline() {
  auto made = engine::Pipeline::Create(
      grant_.context["tool_config"],
      {.profile = grant_.strict ? playbook::Profile::kStrict : playbook::Profile::kCompat,
       .single = grant_.meta["single"].AsBool(),
       .task_runs_max = parts().options->task_runs_max,
       .step = grant_.step},
      &scope_->scope());
  if (!made) return std::unexpected(std::move(made).error());
  pipeline_ = *std::move(made);
  return {};
}

Status CommandRun::RenderSingle() {
  const Json& config = grant_.context["tool_config"];
  if (grant_.context["deferred"].is_null()) {
    SplitConfig(config);
    return {};
  }
  scope_->scope().BindAll(config["args"]);
  NOETL_ASSIGN(const Json rendered, engine::RenderDeferred(grant_.context, scope_->scope()));
  SplitConfig(rendered);
  return {};
}

// A single tool's config holds its own fields and what is said about the call.
void CommandRun::SplitConfig(const Json& config) {
  // A container's own `args` are its argv: then the variables are under `input`.
  const std::string_view input = config["args"].is_object() ? "args" : "input";
  Json::Members fields;
  fields.reserve(config.size());
  for (const JsonMember& member : config.members()) {
    if (member.key() != input && !IsIn(kEnvelopeKeys, member.key())) fields.push_back(member);
  }
  call_.kind = grant_.tool_kind;
  call_.config = Json::Object(std::move(fields));
  call_.input = config[input].is_object() ? config[input] : Json::Object();
  call_.spec = config["spec"];
  retry_ = config["retry"];
  if (const Json& ms = config["timeout_ms"]; ms.is_int() && ms.AsInt() > 0) {
    call_.timeout_ms = ms.AsInt();
    return;
  }
  Json declared = config;
  if (const Json* limit = config["spec"].Find("timeout")) declared = config.With("spec", *limit);
  else if (config.Has("spec")) declared = config.Without("spec");
  call_.timeout_ms = engine::TimeoutMs(declared);
}

// ---- between calls

void CommandRun::Decide() {
  if (pipeline_) return DecidePipeline();
  call_.attempt = ++runs_;
  phase_ = Phase::kStarting;
}

void CommandRun::DecidePipeline() {
  if (unreported_) {
    Status reported = pipeline_->Report(*unreported_);
    if (!reported) {
      NOETL_CHECK(Awaits(reported.error()), reported.error().message);
      return;
    }
    unreported_.reset();
  }
  Result<engine::Pipeline::Action> action = pipeline_->Next();
  if (!action) {
    NOETL_CHECK(Awaits(action.error()), action.error().message);
    return;
  }
  if (const auto* sleep = std::get_if<engine::Pipeline::Sleep>(&*action)) return Sleep(sleep->ms);
  if (auto* run = std::get_if<engine::Pipeline::RunTool>(&*action)) {
    call_ = std::move(*run);
    phase_ = Phase::kStarting;
    return;
  }
  FinishPipeline(std::get<engine::Pipeline::Finished>(*std::move(action)));
}

// ---- a call

void CommandRun::StartCall() {
  if (call_.kind == "playbook") return StartChild();
  if (phase_ == Phase::kStarting && !ApplyAuth()) return;
  Tool* tool = parts().tools->Find(call_.kind);
  if (!tool) {
    called_at_us_ = parts().clock->MonotonicMicros();
    answer_ = NoSuchTool();
    phase_ = Phase::kAnswered;
    return;
  }
  if (phase_ == Phase::kStarting && !host_->TakeCall(*this, call_.kind)) {
    phase_ = Phase::kQueued;
    return;
  }
  Call(*tool);
}

ToolAnswer CommandRun::NoSuchTool() const {
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : ToolRegistry::Kinds()) {
    if (parts().tools->Find(kind)) kinds.push_back(kind);
  }
  kinds.push_back("playbook");
  return Refuse(
      "config", "TOOL_NOT_FOUND",
      fmt::format("Tool not found: {} (this worker has: {})", call_.kind, fmt::join(kinds, ", ")));
}

void CommandRun::Call(Tool& tool) {
  ToolCall call{.execution_id = grant_.execution_id,
                .command_id = grant_.command_id,
                .step = grant_.step,
                .label = call_.label,
                .kind = call_.kind,
                .config = call_.config,
                .input = call_.input,
                .context = CallContext(),
                .spec = call_.spec,
                .attempt = call_.attempt,
                .fence = grant_.meta["attempt"].AsInt(1),
                .idempotency_key = grant_.context["idempotency_key"].ToString(),
                .timeout_ms = call_.timeout_ms};
  // A call that is destroyed never calls back, and we destroy ours before ourselves.
  call.output = [this](OutputStream stream, std::string_view text) { TakeOutput(stream, text); };
  phase_ = Phase::kCalling;
  timed_out_ = false;
  called_at_us_ = parts().clock->MonotonicMicros();
  starting_ = true;
  std::unique_ptr<Running> running =
      tool.Start(std::move(call), [this](ToolAnswer answer) { Answered(std::move(answer)); });
  starting_ = false;
  if (answer_) {
    running.reset();
    host_->GiveCall(call_.kind);
    phase_ = Phase::kAnswered;
    return;
  }
  NOETL_CHECK(running != nullptr, "a tool that has not answered runs");
  running_ = std::move(running);
  GuardCall();
}

// What code may look at besides its variables.
Json CommandRun::CallContext() const {
  const Json& base = grant_.context["render_context"];
  JsonObjectBuilder context;
  context.Add("execution_id", std::to_string(grant_.execution_id))
      .Add("step", grant_.step)
      .Add("command_id", grant_.command_id);
  if (!scope_) {
    context.AddSome("workload", base["workload"]).AddSome("ctx", base["ctx"]);
    if (const Json& iteration = grant_.context["iteration"]; iteration.is_object())
      context.AddSome("iter", engine::NamesOfIteration(iteration)["iter"]);
    return context.Build();
  }
  const engine::Scope& names = scope_->scope();
  context.Add("workload", names.sources().workload).Add("ctx", names.ctx());
  const Result<expr::Value> iter = names.Lookup("iter");
  if (iter && iter->is_json() && iter->json().is_object()) context.Add("iter", iter->json());
  return context.Build();
}

void CommandRun::Answered(ToolAnswer answer) {
  NOETL_CHECK(!answer_, "a tool answers once");
  for (const std::size_t stream : {0, 1}) {
    if (const std::string rest = masking_.Rest(stream); !rest.empty()) KeepOutput(stream, rest);
  }
  answer_ = std::move(answer);
  if (starting_) return;
  if (timer_) parts().reactor->CancelTimer(std::exchange(timer_, 0));
  // The call is on the stack: what follows has a task of its own.
  host_->Discard(std::move(running_));
  host_->GiveCall(call_.kind);
  if (phase_ == Phase::kStopping) return End(std::nullopt);
  phase_ = Phase::kAnswered;
  host_->Later(*this);
}

void CommandRun::GuardCall() {
  const WorkerOptions& options = *parts().options;
  limit_ms_ = call_.timeout_ms.value_or(options.call_timeout_ms);
  // The tool keeps a limit that it knows; it does not know that less may be declared here.
  bool known = call_.timeout_ms.has_value();
  if (known && options.declared_timeout_ms_max > 0 && limit_ms_ > options.declared_timeout_ms_max) {
    limit_ms_ = options.declared_timeout_ms_max;
    known = false;
  }
  const std::int64_t after_ms = limit_ms_ + (known ? kGuardMarginMs : 0);
  timer_ = parts().reactor->After(after_ms * 1'000, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->CallTookTooLong();
  });
}

void CommandRun::CallTookTooLong() {
  timer_ = 0;
  if (phase_ != Phase::kCalling) return;
  timed_out_ = true;
  running_->Stop();
}

void CommandRun::TakeAnswer() {
  ToolAnswer answer = *std::exchange(answer_, std::nullopt);
  if (!masking_.empty()) HideSecrets(answer);
  if (timed_out_ && answer.cancelled) {
    answer = Failed(call_.kind, "timeout", "TIMEOUT", true, TimeoutMessage(limit_ms_),
                    std::move(answer.outcome.payload));
  }
  if (!pipeline_) return EndSingle(std::move(answer));
  answer.outcome.duration_ms = (parts().clock->MonotonicMicros() - called_at_us_) / 1'000;
  answer.outcome.finished_at = FormatTime(parts().clock->NowMicros());
  unreported_ = std::move(answer.outcome);
  phase_ = Phase::kDeciding;
}

void CommandRun::HideSecrets(ToolAnswer& answer) {
  engine::ToolOutcome& outcome = answer.outcome;
  const bool scrub = call_.spec["result"]["scrub"].AsString() != "off";
  if (scrub) outcome.payload = masking_.Result(outcome.payload);
  outcome.error = masking_.Text(outcome.error);
  if (const Json* message = outcome.error_info.Find("message"))
    outcome.error_info = outcome.error_info.With("message", masking_.Text(message->AsString()));
}

void CommandRun::EndSingle(ToolAnswer answer) {
  engine::ToolOutcome& outcome = answer.outcome;
  if (!outcome.ok && !retry_.is_null()) {
    const engine::RetryDecision retry = engine::DecideToolRetry(
        retry_, runs_, engine::ErrorObject(outcome.error, outcome.error_info));
    if (retry.again) return Sleep(retry.delay_ms);
  }
  if (answer.hard) return FinishHard(std::move(answer));
  const bool late = outcome.error_info["kind"].AsString() == "timeout";
  const std::string_view status = outcome.ok ? "success" : late ? "timeout" : "error";
  JsonObjectBuilder result;
  result.Add("status", status).Add("data", std::move(outcome.payload));
  if (!outcome.ok) result.Add("error", outcome.error).AddSome("error_info", outcome.error_info);
  FinishSoft(status, result.Build(), {});
}

// ---- things to wait for

void CommandRun::EndWait() {
  if (std::exchange(gave_slot_, false)) host_->EndWait();
}

void CommandRun::Sleep(std::int64_t delay_ms) {
  phase_ = Phase::kDeciding;
  if (delay_ms <= 0) return;
  phase_ = Phase::kSleeping;
  BeginWait();
  timer_ = parts().reactor->After(delay_ms * 1'000, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->EndSleep();
  });
}

void CommandRun::EndSleep() {
  timer_ = 0;
  if (phase_ != Phase::kSleeping) return;
  EndWait();
  phase_ = Phase::kDeciding;
  Advance();
}

// Whether the error asks for a stored body. Then it is on its way; one that was asked for before and
// did not help ends the command, which could not go on.
bool CommandRun::Awaits(const Error& error) {
  if (error.code != "needs_reference") return false;
  if (bodies_.Knows(error.message)) {
    const Result<const Json*> known = bodies_.Find(error.message);
    FinishHard(MissingBody(
        known ? fmt::format("the stored body {} does not hold what is asked for", error.message)
              : known.error().message));
    return true;
  }
  back_ = phase_;
  load_tries_ = 0;
  phase_ = Phase::kLoading;
  Load(error.message);
  return true;
}

void CommandRun::Load(std::string ref) {
  std::string name = ref;
  auto loaded = [door = parts().door, weak = weak_from_this(), ticket = ++ticket_,
                 ref = std::move(ref)](Result<Json> body) mutable {
    door->Post([weak, ticket, ref = std::move(ref), body = std::move(body)]() mutable {
      if (const auto self = weak.lock()) self->Loaded(ticket, ref, std::move(body));
    });
  };
  if (!name.starts_with(kSecretRef))
    return parts().server->Load(std::move(name), std::move(loaded));
  parts().server->FindSecret(name.substr(kSecretRef.size()), grant_.execution_id,
                             std::move(loaded));
}

void CommandRun::Loaded(std::uint64_t ticket, const std::string& ref, Result<Json> body) {
  if (phase_ != Phase::kLoading || ticket != ticket_) return;
  if (!body && IsTransient(body.error()) && load_tries_ < kLoadRetriesMax) {
    const std::int64_t delay_ms = kRetryFirstMs << load_tries_++;
    timer_ = parts().reactor->After(delay_ms * 1'000, [weak = weak_from_this(), ref] {
      const auto self = weak.lock();
      if (!self || self->phase_ != Phase::kLoading) return;
      self->timer_ = 0;
      self->Load(ref);
    });
    return;
  }
  if (!body && ref.starts_with(kSecretRef)) {
    body = Fail("E430", fmt::format("credential '{}': {}", ref.substr(kSecretRef.size()),
                                    body.error().message));
  } else if (!body) {
    body = Fail("REFERENCE_NOT_AVAILABLE",
                fmt::format("the stored body {} is not available: {}", ref, body.error().message));
  }
  bodies_.Add(ref, std::move(body));
  phase_ = back_;
  Advance();
}

// ---- text of the tool

void CommandRun::TakeOutput(OutputStream stream, std::string_view text) {
  if (phase_ != Phase::kCalling) return;  // nobody will read what a stopped tool says
  const auto number = static_cast<std::size_t>(stream);
  if (masking_.empty()) return KeepOutput(number, text);
  KeepOutput(number, masking_.Piece(number, text));
}

void CommandRun::KeepOutput(std::size_t stream, std::string_view text) {
  auto& feed = feeds_[stream];
  if (!feed) {
    feed = std::make_unique<LogFeed>(stream == 0 ? "stdout" : "stderr",
                                     parts().options->log_bytes_max);
  }
  feed->Append(text);
  if (sending_logs_) return;
  std::size_t ready = 0;
  for (const auto& each : feeds_) ready += each ? each->ready_bytes() : 0;
  const bool enough = static_cast<std::int64_t>(ready) >= parts().options->log_flush_bytes;
  if (enough && log_delay_ms_ == 0) return FlushLogs();
  if (ready > 0 && log_timer_ == 0) FlushLogsAfter(parts().options->log_flush_ms);
}

void CommandRun::FlushLogsAfter(std::int64_t delay_ms) {
  log_timer_ = parts().reactor->After(delay_ms * 1'000, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->log_timer_ = 0;
    self->FlushLogs();
  });
}

// One report at a time, so that they stay in order whatever the server answers.
void CommandRun::FlushLogs() {
  if (sending_logs_ || phase_ == Phase::kEnded || phase_ == Phase::kStopping) return;
  if (log_timer_) parts().reactor->CancelTimer(std::exchange(log_timer_, 0));
  bus::Report report = ReportOn(parts(), grant_);
  report.logs = std::exchange(unsent_, {});
  for (const auto& feed : feeds_) {
    if (feed) feed->TakeReady(&report.logs);
  }
  if (report.logs.empty()) return;
  sending_logs_ = true;
  std::vector<bus::LogText> logs = report.logs;
  parts().server->Send(std::move(report), [door = parts().door, weak = weak_from_this(),
                                           logs = std::move(logs)](Status status) mutable {
    door->Post([weak, logs = std::move(logs), status = std::move(status)]() mutable {
      if (const auto self = weak.lock()) self->LogsSent(std::move(logs), status);
    });
  });
}

void CommandRun::LogsSent(std::vector<bus::LogText> logs, const Status& status) {
  sending_logs_ = false;
  const bool again = !status && IsTransient(status.error());
  log_delay_ms_ = again ? NextDelayMs(log_delay_ms_) : 0;
  if (again) unsent_ = std::move(logs);
  if (phase_ == Phase::kFinishing) {
    bus::Report report = *std::exchange(last_, std::nullopt);
    AttachLogs(&report);
    return End(std::move(report));
  }
  if (phase_ == Phase::kEnded || phase_ == Phase::kStopping) return;
  bool more = again;
  for (const auto& feed : feeds_) more = more || (feed && feed->ready_bytes() > 0);
  if (!more) return;
  FlushLogsAfter(again ? log_delay_ms_ : parts().options->log_flush_ms);
}

void CommandRun::AttachLogs(bus::Report* report) {
  report->logs = std::exchange(unsent_, {});
  for (const auto& feed : feeds_) {
    if (feed) feed->TakeAll(&report->logs);
  }
}

// ---- the end

Json CommandRun::EndMeta() const {
  return Json::Object({{"attempts", grant_.meta["attempt"]}, {"claim_token", grant_.claim_token}});
}

void CommandRun::FinishPipeline(engine::Pipeline::Finished finished) {
  const std::string_view status = finished.ok ? "success" : "error";
  JsonObjectBuilder result;
  result.Add("status", status)
      .Add("data", std::move(finished.data))
      .AddSome("order", std::move(finished.order));
  if (!finished.ctx_updates.empty()) result.Add("ctx_updates", std::move(finished.ctx_updates));
  if (!finished.ok)
    result.Add("error", finished.error).AddSome("error_info", std::move(finished.error_info));
  JsonObjectBuilder meta;
  meta.Add("metrics", Json::Object({{"tasks", std::move(finished.tasks)}}));
  if (!finished.warnings.empty()) {
    meta.Add("warnings",
             Json::Array(std::vector<Json>(finished.warnings.begin(), finished.warnings.end())));
  }
  FinishSoft(status, result.Build(), std::move(meta));
}

// The tool ran: call.done and command.completed, whatever it says.
void CommandRun::FinishSoft(std::string_view status, Json tool_result, JsonObjectBuilder extra) {
  Findings findings;
  Inspect(tool_result, 0, &findings);
  if (findings.deep) {
    return FinishHard(
        Refuse("parse", "JSON_DEPTH",
               fmt::format("the result is nested deeper than {} levels", kResultDepthMax)));
  }
  Json meta = EndMeta();
  const Json done_extra = extra.Build();
  Json done_meta = done_extra.empty() ? meta : meta.Merge(done_extra);
  if (findings.nul) {
    std::size_t replaced = 0;
    tool_result = ReplaceNul(tool_result, &replaced);
    done_meta = done_meta.With("nul_replaced", replaced);
  }
  bus::Report report = ReportOn(parts(), grant_);
  Json result = ResultOf(status, std::move(tool_result), &report);
  report.events.reserve(2);
  report.events.push_back(MakeEvent(
      parts(), report, EventType::kCallDone, "COMPLETED",
      Json::Object(
          {{"call_index", 0}, {"result", std::move(result)}, {"command_id", grant_.command_id}}),
      std::move(done_meta)));
  report.events.push_back(MakeEvent(
      parts(), report, EventType::kCommandCompleted, status,
      Json::Object({{"status", status}, {"command_id", grant_.command_id}}), std::move(meta)));
  report.ends = true;
  Finish(std::move(report));
}

// The result as the event carries it; the data itself goes beside it when it is large.
Json CommandRun::ResultOf(std::string_view status, Json tool_result, bus::Report* report) {
  const Json& output = grant_.context["output"];
  const std::int64_t budget = output["inline_max_bytes"].AsInt(grant_.inline_bytes);
  const Json data = tool_result["data"];
  if (static_cast<std::int64_t>(JsonSize(data)) <= budget)
    return Json::Object({{"status", status}, {"context", std::move(tool_result)}});
  std::string ref = fmt::format("noetl://execution/{}/result/{}/{}", grant_.execution_id,
                                grant_.step, parts().ids->Next());
  Json result = Json::Object({{"status", status},
                              {"context", tool_result.With("data", Json::Object({{"_ref", ref}}))},
                              {"reference", engine::MakeReference(ref, data, output["select"])}});
  report->bodies.push_back({std::move(ref), data});
  return result;
}

void CommandRun::FinishHard(ToolAnswer answer) {
  // What a failed call leaves behind is worth having, but not worth storing elsewhere.
  if (static_cast<std::int64_t>(JsonSize(answer.outcome.payload)) > grant_.inline_bytes)
    answer.outcome.payload = Json();
  Finish(HardReport(parts(), ReportOn(parts(), grant_), EndMeta(), answer));
}

void CommandRun::Finish(bus::Report report) {
  if (sending_logs_) {
    phase_ = Phase::kFinishing;
    last_ = std::move(report);
    return;
  }
  AttachLogs(&report);
  End(std::move(report));
}

void CommandRun::End(std::optional<bus::Report> report) {
  phase_ = Phase::kEnded;
  DropTimers();
  EndWait();
  host_->Ended(*this, std::move(report));
}

void CommandRun::DropTimers() {
  for (Reactor::TimerId* timer : {&timer_, &log_timer_}) {
    if (*timer) parts().reactor->CancelTimer(std::exchange(*timer, 0));
  }
}

}  // namespace noetl::worker
