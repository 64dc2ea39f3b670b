#include "worker/remote/link.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/log.h"
#include "worker/command_run.h"

namespace noetl::worker {
namespace {

constexpr std::int64_t kMicrosPerMilli = 1'000;
constexpr int kLeaseMax = 64;  // commands of one request
// With events in the same request the server waits no longer for work.
constexpr std::int64_t kLeaseWaitWithEventsMs = 20;
// An answer to a long request comes at the latest after its wait and this.
constexpr std::int64_t kAnswerMarginMs = 10'000;
constexpr std::int64_t kBeatsPerLease = 3;
// A grant counts as up to two ticks older than it is, and has to live until the next heartbeat.
constexpr std::int64_t kTicksPerLease = 6;
constexpr std::int64_t kBeatTimeoutMsMin = 200;

// Why a command is stopped that this worker could have gone on with.
constexpr std::string_view kCancelled = "it was cancelled";
constexpr std::string_view kLeaving = "this worker ends";

}  // namespace

Result<std::unique_ptr<RemoteLink>> RemoteLink::Open(RemoteOptions options, EventLoop* loop,
                                                     Clock* clock, IdSource* ids) {
  NOETL_ASSIGN(auto spool, Spool::Open(options.spool_file, options.spool_bytes_max));
  return std::unique_ptr<RemoteLink>(
      new RemoteLink(std::move(options), loop, clock, ids, std::move(spool)));
}

RemoteLink::RemoteLink(RemoteOptions options, EventLoop* loop, Clock* clock, IdSource* ids,
                       std::unique_ptr<Spool> spool)
    : options_(std::move(options)),
      loop_(loop),
      clock_(clock),
      ids_(ids),
      metrics_(options_.version, options_.tools),
      client_(loop, options_.server),
      spool_(std::move(spool)),
      outbox_(
          std::make_unique<Outbox>(Outbox::Parts{.loop = loop,
                                                 .clock = clock,
                                                 .ids = ids,
                                                 .client = &client_,
                                                 .spool = spool_.get(),
                                                 .metrics = &metrics_,
                                                 .pace = options_.pace,
                                                 .request_timeout_ms = options_.request_timeout_ms},
                                   static_cast<Outbox::Host*>(this))),
      questions_({.loop = loop,
                  .clock = clock,
                  .client = &client_,
                  .seal = options_.sealed_credentials ? &seal_ : nullptr,
                  .worker_id = options_.worker_id,
                  .request_timeout_ms = options_.request_timeout_ms}),
      control_(loop, &client_, options_.worker_id, options_.pace,
               [this, alive = std::weak_ptr<bool>(alive_)](const ControlNews& news) {
                 if (alive.lock()) TakeNews(news);
               }),
      tick_timer_(loop),
      poll_timer_(loop),
      stage_timer_(loop),
      register_timer_(loop) {
  metrics_.Confines(options_.sandbox_level);
}

RemoteLink::~RemoteLink() = default;

std::string_view RemoteLink::stage_name() const {
  switch (stage_) {
    case Stage::kIdle:
    case Stage::kStarting: return "starting";
    case Stage::kServing: return "ready";
    case Stage::kDraining:
    case Stage::kFlushing:
    case Stage::kLeaving: return "draining";
    case Stage::kGone: break;
  }
  return "gone";
}

std::string RemoteLink::ExposeMetrics() {
  return metrics_.Expose({.ready = ready(),
                          .slots = options_.slots,
                          .running = held_.running(),
                          .waiting = waiting_,
                          .undelivered = outbox_->size(),
                          .spool_records = spool_->open_records(),
                          .spool_bytes = spool_->bytes()});
}

// ---- calls of the worker

void RemoteLink::Enter(Reactor::Task task) {
  loop_->Post([alive = std::weak_ptr<bool>(alive_), task = std::move(task)]() mutable {
    if (alive.lock()) task();
  });
}

void RemoteLink::Send(bus::Report report, Sent sent) {
  Enter([this, report = std::move(report), sent = std::move(sent)]() mutable {
    TakeReport(std::move(report), std::move(sent));
  });
}

void RemoteLink::Load(std::string ref, Loaded loaded) {
  Enter([this, ref = std::move(ref), loaded = std::move(loaded)]() mutable {
    questions_.Load(ref, std::move(loaded));
  });
}

void RemoteLink::RunChild(bus::ChildCall call, ChildDone done) {
  Enter([this, call = std::move(call), done = std::move(done)]() mutable {
    questions_.RunChild(std::move(call), std::move(done));
  });
}

void RemoteLink::FindSecret(std::string alias, std::int64_t execution_id, Loaded found) {
  Enter([this, alias = std::move(alias), execution_id, found = std::move(found)]() mutable {
    questions_.FindSecret(std::move(alias), execution_id, std::move(found));
  });
}

void RemoteLink::FreeSlots(int change) {
  Enter([this, change] {
    waiting_ += change;
    Kick();
  });
}

// A worker that lost a command may not know it yet: it was stopped itself for a while.
void RemoteLink::TakeReport(bus::Report report, Sent sent) {
  const HeldCommand* command = held_.Find(report.command_id);
  if (command == nullptr || command->claim_token != report.claim_token)
    return sent(Fail("superseded", "the command is not this worker's any more"));
  const bool ran = command->runs;
  if (ran && command->until_us <= NowUs()) {
    StopCommands({report.command_id}, "its lease has ended");
    return sent(Fail("superseded", "the lease of the command has ended"));
  }
  if (report.ends) {
    if (ran) {
      const bool failed =
          !report.events.empty() && report.events.back().type == engine::EventType::kCommandFailed;
      metrics_.Ended(command->tool_kind, NowUs() - command->taken_us, failed);
    }
    held_.Ended(report.command_id);
    questions_.Forget(report.command_id);
  }
  outbox_->Add(std::move(report), ran && report.ends, std::move(sent));
  CheckDrained();
}

// ---- registration

Json RemoteLink::Registration() const {
  const auto texts = [](const std::vector<std::string>& list) {
    return Json::Array(std::vector<Json>(list.begin(), list.end()));
  };
  return Json::Object({{"name", options_.worker_id},
                       {"component_type", "worker_pool"},
                       {"status", "ready"},
                       {"hostname", options_.hostname},
                       {"capacity", options_.slots},
                       {"labels", Json::Object({{"pool_name", options_.pool_name}})},
                       {"runtime", Json::Object({{"kind", "cpp"},
                                                 {"version", options_.version},
                                                 {"worker_public_key", seal_.public_text()},
                                                 {"pools", texts(options_.pools)},
                                                 {"tools", texts(options_.tools)}})}});
}

void RemoteLink::Start(std::move_only_function<void(Status)> ready) {
  stage_ = Stage::kStarting;
  ready_ = std::move(ready);
  tick_us_ = read_us_ = NowUs();
  stage_timer_.Set(options_.register_ms * kMicrosPerMilli, [this] {
    EndStart(
        Fail("unavailable", fmt::format("{} does not answer: {}", client_.url(), last_error_)));
  });
  outbox_->AddFound();
  if (!outbox_->empty()) {
    LogInfo("an earlier worker left reports; they go first", {{"reports", outbox_->size()}});
    last_error_ = "reports of an earlier worker could not be delivered";
  }
  outbox_->WhenEmpty([this] {
    if (stage_ == Stage::kStarting) Register();
  });
}

void RemoteLink::Register() {
  client_.Start({.method = "POST",
                 .path = "/api/worker/pool/register",
                 .body = WriteJson(Registration()),
                 .timeout_ms = options_.request_timeout_ms},
                [this](Result<Json> answer) { Registered(std::move(answer)); });
}

void RemoteLink::Registered(Result<Json> answer) {
  if (answer) {
    register_delay_ms_ = 0;
    NoteLease(LeaseMsOf(*answer));
    return EndStart({});
  }
  last_error_ = answer.error().message;
  // What will be refused again, and a certificate that somebody has to put right.
  if (answer.error().code == "invalid" || answer.error().code == "tls")
    return EndStart(std::unexpected(answer.error()));
  if (register_delay_ms_ == 0) {
    LogWarn("cannot register; trying again",
            {{"server", client_.url()}, {"error", answer.error().message}});
  }
  register_delay_ms_ = options_.pace.After(register_delay_ms_);
  register_timer_.Set(register_delay_ms_ * kMicrosPerMilli, [this] {
    if (stage_ == Stage::kStarting) Register();
  });
}

void RemoteLink::EndStart(Status status) {
  if (stage_ != Stage::kStarting) return;
  stage_timer_.Cancel();
  register_timer_.Cancel();
  stage_ = status ? Stage::kServing : Stage::kGone;
  if (status) {
    control_.Open();
    next_beat_us_ = NowUs() + BeatIntervalUs();
    Tick();
    Kick();
  }
  if (auto ready = std::move(ready_)) ready(std::move(status));
}

// ---- work

int RemoteLink::Free() const { return options_.slots - occupied_ - reserved_ + waiting_; }

void RemoteLink::LeaveSlots(int count) { occupied_ -= count; }

int RemoteLink::ReserveSlots(int most) {
  if (stage_ != Stage::kServing || spool_->full()) return 0;
  const int slots = std::clamp(std::min(most, Free()), 0, kLeaseMax);
  reserved_ += slots;
  return slots;
}

Json RemoteLink::LeaseRequest(int slots, std::int64_t wait_ms) {
  JsonObjectBuilder request;
  request.Add("worker_id", options_.worker_id)
      .Add("request_id", fmt::format("{}-{}", options_.worker_id, ids_->Next()))
      .Add("max", slots)
      .Add("wait_ms", wait_ms);
  if (!options_.pools.empty()) {
    request.Add("pools",
                Json::Array(std::vector<Json>(options_.pools.begin(), options_.pools.end())));
  }
  return request.Build();
}

// What an open request for work will bring need not be waited for.
std::int64_t RemoteLink::LeaseWaitMs() { return poll_ ? 0 : kLeaseWaitWithEventsMs; }

// Reports go before the request for work, so that the slots they free are asked for with them.
void RemoteLink::Kick() {
  if (std::exchange(kicked_, true)) return;
  Enter([this] {
    kicked_ = false;
    outbox_->Pump();
    StartPoll();
  });
}

void RemoteLink::StartPoll() {
  if (poll_) return;
  const int slots = ReserveSlots(kLeaseMax);
  if (slots == 0) return;
  poll_ = Poll{};
  poll_->slots = slots;
  poll_->body = WriteJson(LeaseRequest(slots, options_.poll_wait_ms));
  TryPoll();
}

void RemoteLink::TryPoll() {
  poll_->asked_at_us = NowUs();
  poll_->call = client_.Start({.method = "POST",
                               .path = "/api/commands/lease",
                               .body = poll_->body,
                               .timeout_ms = options_.poll_wait_ms + kAnswerMarginMs},
                              [this](Result<Json> answer) { Polled(std::move(answer)); });
}

void RemoteLink::Polled(Result<Json> answer) {
  poll_->call = 0;
  Result<LeaseAnswer> lease =
      answer ? LeaseAnswerFromJson(*answer) : Result<LeaseAnswer>(std::unexpected(answer.error()));
  if (!lease) {
    metrics_.PullFailed();
    if (poll_->delay_ms == 0)
      LogWarn("cannot ask for work; trying again", {{"error", lease.error().message}});
    return PollLater();
  }
  metrics_.Pulled(lease->commands.size());
  const std::int64_t asked_at_us = poll_->asked_at_us;
  const std::int64_t took_us = NowUs() - asked_at_us;
  const int slots = poll_->slots;
  const bool early =
      lease->commands.empty() && took_us < options_.poll_wait_ms * kMicrosPerMilli / 2;
  poll_.reset();
  Leased(&*lease, slots, asked_at_us, options_.poll_wait_ms);
  // A server that does not wait is asked at our pace.
  if (early && !poll_timer_.set())
    poll_timer_.Set(options_.pace.first_ms * kMicrosPerMilli, [this] { Kick(); });
  else if (!early) Kick();
}

void RemoteLink::PollLater() {
  poll_->delay_ms = options_.pace.After(poll_->delay_ms);
  poll_timer_.Set(poll_->delay_ms * kMicrosPerMilli, [this] {
    if (poll_) TryPoll();
    else Kick();
  });
}

void RemoteLink::EndPoll() {
  poll_timer_.Cancel();
  if (!poll_) return;
  client_.Drop(poll_->call);
  reserved_ -= poll_->slots;
  poll_.reset();
}

void RemoteLink::Leased(LeaseAnswer* answer, int slots, std::int64_t asked_at_us, std::int64_t) {
  reserved_ -= slots;
  if (answer == nullptr) return;
  for (const std::string& problem : answer->problems)
    LogError("a command cannot be read; its lease will run out", {{"problem", problem}});
  StopNamed(answer->cancel, kCancelled);
  StopNamed(answer->lost, "somebody else has it");
  TakeCommands(std::move(answer->commands), asked_at_us);
}

// A grant is not older than the request, nor than the last moment at which it had not come yet.
void RemoteLink::TakeCommands(std::vector<Granted> commands, std::int64_t asked_at_us) {
  const std::int64_t now_us = NowUs();
  const std::int64_t since_us = std::max(asked_at_us, read_us_);
  std::vector<bus::Grant> runs;
  for (Granted& granted : commands) {
    if (!Accept(granted, since_us)) continue;
    const auto stopped = stopped_.find(granted.grant.command_id);
    const std::int64_t ready_us =
        stopped == stopped_.end() ? 0 : stopped->second + options_.stopping_ms * kMicrosPerMilli;
    // The same command again, whose tool may still be on its way out.
    if (ready_us > now_us) RunLater(std::move(granted.grant), ready_us - now_us);
    else runs.push_back(std::move(granted.grant));
  }
  if (!runs.empty()) worker_->Run(std::move(runs));
  SetTick();
}

bool RemoteLink::Accept(const Granted& granted, std::int64_t since_us) {
  const bus::Grant& grant = granted.grant;
  if (stage_ != Stage::kServing) {
    Release(grant.event_id, grant.claim_token, nullptr);
    return false;
  }
  if (const HeldCommand* held = held_.Find(grant.command_id)) {
    if (held->claim_token == grant.claim_token) return false;  // told twice
    StopCommands({grant.command_id}, "it was granted anew");
  }
  NoteLease(granted.lease_ms);
  if (since_us + granted.lease_ms * kMicrosPerMilli <= NowUs()) {
    LogWarn("a command came too late", {{"command", grant.command_id}});
    return false;
  }
  held_.Add(granted, since_us, NowUs());
  metrics_.Accepted();
  ++occupied_;
  next_beat_us_ = std::min(next_beat_us_, NowUs() + BeatIntervalUs());
  return true;
}

void RemoteLink::RunLater(bus::Grant grant, std::int64_t delay_us) {
  loop_->After(delay_us, [this, alive = std::weak_ptr<bool>(alive_), grant = std::move(grant)] {
    if (!alive.lock()) return;
    const HeldCommand* held = held_.Find(grant.command_id);
    if (held != nullptr && held->claim_token == grant.claim_token) worker_->Run({grant});
  });
}

void RemoteLink::Delivered(const std::string& command_id) {
  held_.Remove(command_id);
  Kick();
}

void RemoteLink::Refused(const std::string& command_id, const std::string& code) {
  StopCommands({command_id}, code);
}

// ---- leases

std::int64_t RemoteLink::BeatIntervalUs() const {
  const std::int64_t beat_us = options_.heartbeat_ms * kMicrosPerMilli;
  const std::optional<std::int64_t> lease_us = held_.ShortestLeaseUs();
  return lease_us ? std::min(beat_us, *lease_us / kBeatsPerLease) : beat_us;
}

void RemoteLink::NoteLease(std::optional<std::int64_t> lease_ms) {
  if (lease_ms) lease_us_ = *lease_ms * kMicrosPerMilli;
}

void RemoteLink::SetTick() {
  const std::int64_t now_us = NowUs();
  std::int64_t next_us =
      now_us + std::min(options_.pulse_ms * kMicrosPerMilli, lease_us_ / kTicksPerLease);
  if (!beating_) next_us = std::min(next_us, next_beat_us_);
  if (const auto end_us = held_.NextEndUs()) next_us = std::min(next_us, *end_us);
  tick_timer_.Set(next_us - now_us, [this] { Tick(); });
}

void RemoteLink::Tick() {
  if (stage_ == Stage::kLeaving || stage_ == Stage::kGone) return;
  const std::int64_t now_us = NowUs();
  if (const auto expired = held_.Expired(now_us); !expired.empty())
    StopCommands(expired, "its lease could not be renewed");
  if (!beating_ && now_us >= next_beat_us_) Beat();
  read_us_ = std::exchange(tick_us_, now_us);
  SetTick();
}

void RemoteLink::Beat() {
  beating_ = true;
  const std::int64_t interval_us = BeatIntervalUs();
  const std::int64_t asked_at_us = NowUs();
  next_beat_us_ = asked_at_us + interval_us;
  const bool draining = stage_ != Stage::kServing;
  const Json renewal = held_.Renewal();
  const Json body = Json::Object({{"name", options_.worker_id},
                                  {"component_type", "worker_pool"},
                                  {"status", draining ? "draining" : "ready"},
                                  {"draining", draining},
                                  {"inflight", held_.running()},
                                  {"capacity", options_.slots},
                                  {"commands", renewal},
                                  // Registering by itself would end what this worker holds.
                                  {"registration", Registration()}});
  client_.Start({.method = "POST",
                 .path = "/api/worker/pool/heartbeat",
                 .body = WriteJson(body),
                 .timeout_ms = std::clamp(interval_us / kMicrosPerMilli, kBeatTimeoutMsMin,
                                          options_.request_timeout_ms)},
                [this, renewal, asked_at_us](Result<Json> answer) {
                  Beaten(renewal, asked_at_us, std::move(answer));
                });
}

void RemoteLink::Beaten(const Json& renewal, std::int64_t asked_at_us, Result<Json> answer) {
  beating_ = false;
  if (std::exchange(leaves_after_beat_, false)) return Deregister();
  if (stage_ == Stage::kGone) return;
  if (answer) {
    beats_fail_ = false;
    held_.Renewed(renewal, asked_at_us);
    NoteLease(LeaseMsOf(*answer));
    const BeatAnswer beat = BeatAnswerFromJson(*answer);
    StopNamed(beat.lost, "somebody else has it");
    StopNamed(beat.cancel, kCancelled);
    if (beat.recreated) LogInfo("the server did not know this worker and has registered it anew");
  } else {
    if (!std::exchange(beats_fail_, true))
      LogWarn("a heartbeat failed; trying again", {{"error", answer.error().message}});
    next_beat_us_ = std::min(next_beat_us_, NowUs() + options_.pace.first_ms * kMicrosPerMilli);
  }
  SetTick();
}

void RemoteLink::StopNamed(const std::vector<CommandName>& names, std::string_view why) {
  std::vector<std::string> ids;
  for (const CommandName& name : names) {
    if (std::string id = held_.IdOf(name); !id.empty()) ids.push_back(std::move(id));
  }
  if (!ids.empty()) StopCommands(ids, why);
}

void RemoteLink::StopCommands(const std::vector<std::string>& ids, std::string_view why) {
  const std::int64_t now_us = NowUs();
  const std::int64_t grace_us = options_.stopping_ms * kMicrosPerMilli;
  std::erase_if(stopped_, [&](const auto& entry) { return entry.second + grace_us <= now_us; });
  for (const std::string& id : ids) {
    const HeldCommand* command = held_.Find(id);
    if (command == nullptr) continue;
    if (command->runs) {
      --occupied_;
      stopped_[id] = now_us;
      if (why != kCancelled && why != kLeaving) metrics_.LeaseLost();
      LogInfo("a command is stopped", {{"command", id}, {"because", why}});
    }
    held_.Remove(id);
    questions_.Forget(id);
  }
  worker_->Stop(ids);
  CheckDrained();
  Kick();
}

void RemoteLink::TakeNews(const ControlNews& news) {
  switch (news.kind) {
    case ControlNews::Kind::kCancel: return StopNamed({news.command}, kCancelled);
    case ControlNews::Kind::kLost: return StopNamed({news.command}, "somebody else has it");
    case ControlNews::Kind::kDrain:
      LogInfo("the server asks this worker to end");
      if (drain_asked_) drain_asked_();
      return;
  }
}

// ---- the end

void RemoteLink::Drain(std::move_only_function<void()> gone) {
  gone_.push_back(std::move(gone));
  if (stage_ == Stage::kStarting) EndStart(Fail("cancelled", "the worker was told to end"));
  if (stage_ == Stage::kGone || stage_ == Stage::kIdle) return Gone();
  if (stage_ != Stage::kServing) return;
  stage_ = Stage::kDraining;
  EndPoll();
  outbox_->StopLeasing();
  if (!beating_) Beat();
  stage_timer_.Set(options_.drain_ms * kMicrosPerMilli, [this] { ReleaseRest(); });
  CheckDrained();
}

void RemoteLink::CheckDrained() {
  if (stage_ == Stage::kDraining && held_.running() == 0 && releasing_ == 0) Flush();
}

// Commands that do not end are given back, so that others begin with them at once.
void RemoteLink::ReleaseRest() {
  const std::vector<std::string> ids = held_.RunningIds();
  LogInfo("commands did not end in time and are given back", {{"commands", ids.size()}});
  for (const std::string& id : ids) {
    const HeldCommand* command = held_.Find(id);
    ++releasing_;
    Release(command->event_id, command->claim_token, [this] {
      --releasing_;
      CheckDrained();
    });
  }
  StopCommands(ids, kLeaving);
}

void RemoteLink::Release(std::int64_t event_id, std::int64_t claim_token,
                         std::move_only_function<void()> done) {
  client_.Start({.method = "POST",
                 .path = fmt::format("/api/commands/{}/release", event_id),
                 .body = WriteJson(Json::Object(
                     {{"worker_id", options_.worker_id}, {"claim_token", claim_token}})),
                 .timeout_ms = options_.goodbye_ms},
                [done = std::move(done)](const Result<Json>& answer) mutable {
                  if (!answer) {
                    LogWarn("a command could not be given back; its lease will run out",
                            {{"error", answer.error().message}});
                  }
                  if (done) done();
                });
}

void RemoteLink::Flush() {
  stage_ = Stage::kFlushing;
  stage_timer_.Set(options_.goodbye_ms * kMicrosPerMilli, [this] {
    // Saying good-bye would end the claims of these reports; the next start delivers them.
    outbox_->SpoolAll();
    LogWarn("reports stay in the spool for the next start", {{"reports", outbox_->size()}});
    Gone();
  });
  outbox_->WhenEmpty([this] {
    if (stage_ != Stage::kFlushing) return;
    stage_timer_.Cancel();
    Deregister();
  });
}

// After the last heartbeat was answered: it would make this worker known again.
void RemoteLink::Deregister() {
  stage_ = Stage::kLeaving;
  leaves_after_beat_ = beating_;
  if (beating_) return;
  client_.Start({.method = "POST",
                 .path = "/api/worker/pool/deregister",
                 .body = WriteJson(Json::Object(
                     {{"name", options_.worker_id}, {"component_type", "worker_pool"}})),
                 .timeout_ms = options_.goodbye_ms},
                [this](const Result<Json>& answer) {
                  if (!answer) LogWarn("cannot say good-bye", {{"error", answer.error().message}});
                  Gone();
                });
}

void RemoteLink::Gone() {
  stage_ = Stage::kGone;
  stage_timer_.Cancel();
  tick_timer_.Cancel();
  register_timer_.Cancel();
  control_.Close();
  EndPoll();
  for (auto& gone : std::exchange(gone_, {}))
    loop_->Post([gone = std::move(gone)]() mutable { gone(); });
}

}  // namespace noetl::worker
