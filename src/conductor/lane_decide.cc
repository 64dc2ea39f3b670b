#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "conductor/lane.h"
#include "conductor/lane_execution.h"
#include "conductor/messages.h"
#include "conductor/unit_rows.h"
#include "engine/fold.h"

namespace noetl::conductor {

using engine::Event;
using engine::EventType;

namespace {

// Events that are read from the log at once.
constexpr std::int64_t kTailPage = 1'000;

// What stands in for a report that cannot be stored.
std::vector<Event> FailureInstead(const bus::Report& report) {
  const std::string error = "the result of the tool cannot be stored";
  const Json context = Json::Object({{"command_id", report.command_id},
                                     {"error", error},
                                     {"error_info", Json::Object({{"kind", "storage"},
                                                                  {"retryable", false},
                                                                  {"code", "STORAGE"},
                                                                  {"message", error}})}});
  std::vector<Event> events;
  for (const EventType type : {EventType::kCallError, EventType::kCommandFailed}) {
    Event event = WorkerEvent(type, report.events.front(), "FAILED", report.worker_id);
    event.error = error;
    event.result = Json::Object({{"status", "FAILED"}, {"context", context}});
    event.meta = report.events.front().meta;
    events.push_back(std::move(event));
  }
  return events;
}

engine::StartRequest RequestOf(const StartCall& call, const CompiledPlaybook& playbook,
                               const ConductorOptions& options) {
  return {.execution_id = call.execution_id,
          .catalog_id = playbook.catalog_id,
          .version = playbook.version,
          .path = playbook.path,
          .payload = call.payload,
          .parent_execution_id = call.parent_execution_id,
          .parent_command_id = call.parent_command_id,
          .parent_step = call.parent_step,
          .return_step = call.return_step,
          .depth = call.depth,
          .pool = call.pool,
          .trace = call.trace,
          .env = options.env,
          .semantics = options.semantics};
}

}  // namespace

// ---- loading

Status Lane::LoadState(Execution& execution) {
  const store::Store& store = *conductor_->options_.store;
  NOETL_ASSIGN(const auto row, store.Find(execution.id));
  execution.loaded = true;
  if (!row) return {};
  execution.row = *row;
  execution.ended = row->terminal;
  if (row->terminal) return {};
  NOETL_ASSIGN(execution.playbook, conductor_->playbooks_.Find(row->catalog_id));

  NOETL_ASSIGN(const auto snapshot, store.LoadSnapshot(execution.id));
  if (snapshot && snapshot->seq <= row->head) {
    Result<engine::State> state = engine::ReadSnapshot(snapshot->text);
    if (state && state->seq == snapshot->seq) {
      execution.state = *std::move(state);
      execution.snapshot_seq = snapshot->seq;
      execution.snapshot_bytes = static_cast<std::int64_t>(snapshot->text.size());
    } else {
      LogWarn("a snapshot does not verify; the log is read instead",
              {{"execution_id", execution.id}, {"seq", snapshot->seq}});
    }
  }
  while (execution.state.seq < row->head) {
    const auto events = store.ReadEvents(execution.id, execution.state.seq, kTailPage);
    tallies_.AddRead(ReadSite::kState, !events           ? ReadOutcome::kError
                                       : events->empty() ? ReadOutcome::kMiss
                                                         : ReadOutcome::kHit);
    if (!events) return std::unexpected(events.error());
    for (const Event& event : *events) engine::Fold(execution.state, event);
    if (events->empty()) {
      return Fail("corrupt", fmt::format("the log of run {} ends at event {} of {}", execution.id,
                                         execution.state.seq, row->head));
    }
  }
  return {};
}

// Only of runs that have a state to build: not of those that have ended or never were.
void Lane::CountLoad(const Execution& execution, bool loaded) {
  if (loaded && (execution.ended || execution.row.head == 0)) return;
  const bool snapshot = execution.snapshot_seq > 0;
  if (loaded) tallies_.Add(snapshot ? Tally::kBuiltFromSnapshot : Tally::kBuiltFromLog);
  else tallies_.Add(snapshot ? Tally::kSnapshotBuildsFailed : Tally::kLogBuildsFailed);
}

// ---- one decision

Status Lane::Decide(engine::Decider& decider) {
  for (;;) {
    Status status = decider.Decide();
    if (status || status.error().code != "needs_reference") return status;
    tallies_.Add(Tally::kBodiesLoaded);
    bodies_.Load(status.error().message);
  }
}

// Loads, decides for what has arrived, and queues the unit. Takes at least one mail.
void Lane::Prepare(Execution& execution) {
  execution.extra = store::UnitRows();
  bool just_loaded = false;
  if (!execution.loaded) {
    const StartMail* start =
        execution.mail.empty() ? nullptr : std::get_if<StartMail>(&execution.mail.front());
    const bool fresh = start && start->fresh;
    Status loaded = fresh ? Status() : LoadState(execution);
    if (!fresh) CountLoad(execution, loaded.has_value());
    if (!loaded) return RefuseAll(execution, loaded.error());
    execution.loaded = true;
    just_loaded = true;
  }
  if (execution.ended) return PrepareEnded(execution);
  const bool is_new = execution.row.head == 0;
  if (is_new && !Begin(execution)) return;

  const std::int64_t now_us = conductor_->options_.clock->NowMicros();
  if (!is_new) execution.pool = PoolOf(execution.state, *execution.playbook.playbook);
  engine::Decider decider(&execution.state, *execution.playbook.playbook,
                          {conductor_->options_.ids, &bodies_, now_us});
  if (just_loaded) TakeBackLost(execution, decider);
  while (!execution.mail.empty() && execution.working.size() < kFactsMax) {
    Mail mail = std::move(execution.mail.front());
    execution.mail.pop_front();
    std::visit([&](auto& one) { Feed(execution, decider, one); }, mail);
    execution.working.push_back(std::move(mail));
  }
  tallies_.Add(Tally::kDecided);
  if (execution.more) tallies_.Add(Tally::kContinued);
  Status decided = Decide(decider);
  if (is_new) execution.pool = PoolOf(execution.state, *execution.playbook.playbook);
  if (decided) decided = OfferCommands(execution, decider);
  bodies_.Trim();
  if (decided) return Queue(execution, decider.TakeUnit());

  if (is_new) return FailStart(execution, {"invalid", decided.error().message});
  GiveUp(execution, decided.error());
}

// A run that exists and cannot be decided: what it needs from the store cannot be read. It ends, so
// that nobody waits for it.
void Lane::GiveUp(Execution& execution, const Error& error) {
  tallies_.Add(Tally::kDecisionsFailed);
  LogError("a run cannot go on", {{"execution_id", execution.id}, {"error", error.message}});
  auto [working, later] = Reset(execution);
  for (Mail& mail : working) Answer(mail, execution, std::unexpected(error));
  execution.mail.push_back(FinalizeMail{false, "the run cannot go on: " + error.message, nullptr});
  for (Mail& mail : later) execution.mail.push_back(std::move(mail));
}

// A run that cannot be loaded. When the disk is the reason its mail waits for better times.
void Lane::RefuseAll(Execution& execution, const Error& error) {
  if (IsTrouble(error)) return Pause(error);
  LogError("a run cannot be loaded", {{"execution_id", execution.id}, {"error", error.message}});
  std::deque<Mail> mails = std::move(execution.mail);
  execution.mail.clear();
  execution.more = false;
  for (Mail& mail : mails) {
    if (auto* report = std::get_if<ReportMail>(&mail)) EndHold(*report);
    if (auto* claim = std::get_if<ClaimMail>(&mail); claim && !claim->done)
      PassOn(std::move(claim->seat));
    Answer(mail, execution, std::unexpected(error));
  }
}

// The first mail of a new run says what it is; other mail speaks of a run that does not exist.
bool Lane::Begin(Execution& execution) {
  Mail& first = execution.mail.front();
  if (StartMail* start = std::get_if<StartMail>(&first)) {
    execution.playbook = start->playbook;
    return true;
  }
  const MessageMail* mail = std::get_if<MessageMail>(&first);
  if (mail && mail->message.kind == store::MessageRow::Kind::kStartChild)
    return BeginChild(execution);
  PrepareEnded(execution);
  return false;
}

bool Lane::BeginChild(Execution& execution) {
  const store::MessageRow& message = std::get<MessageMail>(execution.mail.front()).message;
  const Result<engine::ChildStart> child = ReadChildStart(message);
  if (!child) {
    FailStart(execution, child.error());
    return false;
  }
  // A run that has ended waits for nobody: its child is not started any more.
  const auto parent = conductor_->options_.store->Find(child->parent_execution_id);
  if (parent && *parent && (*parent)->terminal && !child->parent_command_id.empty()) {
    execution.extra.consumed_messages.push_back(message.message_id);
    execution.mail.pop_front();
    Queue(execution, {});
    return false;
  }
  Result<CompiledPlaybook> playbook =
      child->catalog_id != 0 ? conductor_->playbooks_.Find(child->catalog_id)
                             : conductor_->playbooks_.Find(child->path, child->version.AsInt());
  if (!playbook) {
    FailStart(execution, playbook.error());
    return false;
  }
  execution.playbook = *std::move(playbook);
  return true;
}

// A run that could not be started leaves nothing behind but the answer to who asked for it.
void Lane::FailStart(Execution& execution, const Error& error) {
  tallies_.Add(Tally::kDecisionsFailed);
  if (execution.working.empty()) {
    execution.working.push_back(std::move(execution.mail.front()));
    execution.mail.pop_front();
  }
  auto [working, later] = Reset(execution);
  const std::int64_t id = execution.id;
  execution.loaded = true;
  execution.mail = std::move(later);
  engine::Unit unit;
  for (Mail& mail : working) {
    const MessageMail* message = std::get_if<MessageMail>(&mail);
    if (!message) {
      Answer(mail, execution, std::unexpected(error));
      continue;
    }
    execution.extra.consumed_messages.push_back(message->message.message_id);
    const Result<engine::ChildStart> child = ReadChildStart(message->message);
    if (!child || child->parent_command_id.empty()) continue;
    unit.parent = engine::ChildEnd{.command_id = child->parent_command_id,
                                   .parent_execution_id = child->parent_execution_id,
                                   .child_execution_id = id,
                                   .path = child->path,
                                   .status = "FAILED",
                                   .error = error.message};
  }
  Queue(execution, std::move(unit));
}

// ---- facts

void Lane::Feed(Execution& execution, engine::Decider& decider, StartMail& mail) {
  // Starting a run that exists changes nothing.
  if (execution.row.head != 0 || execution.begun) return;
  execution.begun = true;
  decider.Start(RequestOf(mail.call, mail.playbook, conductor_->options_));
}

void Lane::Feed(Execution& execution, engine::Decider& decider, ReportMail& mail) {
  bus::Report& report = mail.report;
  EndHold(mail);
  if (Status accepted = AcceptReport(execution, report); !accepted) {
    if (mail.ended) held_.erase(report.command_id);
    std::exchange(mail.sent, nullptr)(std::move(accepted));
    return;
  }
  for (const bus::LogText& log : report.logs) {
    execution.extra.logs.push_back({execution.id, report.event_id, report.step, log.stream,
                                    log.offset, log.text, conductor_->options_.clock->NowMicros()});
  }
  if (execution.state.FindCommand(report.command_id) == nullptr) return;  // stored before
  if (mail.replaced && !report.events.empty()) {
    report.events = FailureInstead(report);
    report.bodies.clear();
  }
  for (const engine::StoredBody& body : report.bodies) {
    bodies_.Add(body.ref, body.body);
    execution.bodies.push_back(body);
  }
  for (const Event& event : report.events) decider.Ingest(event);
}

void Lane::ReturnSlot() {
  conductor_->dispatch_.ReturnSlots(1);
  slots_freed_ = true;
}

// The slot is free at once, so that the next command can have it in the same unit.
void Lane::EndHold(ReportMail& mail) {
  if (!mail.report.ends || mail.ended) return;
  mail.ended = true;
  const auto found = held_.find(mail.report.command_id);
  if (found != held_.end() && std::exchange(found->second, false)) ReturnSlot();
}

// A report counts when its worker holds the command, or when it repeats what is stored.
Status Lane::AcceptReport(const Execution& execution, const bus::Report& report) const {
  const engine::Command* command = execution.state.FindCommand(report.command_id);
  if (command) {
    if (command->status != engine::Command::Status::kIssued &&
        command->worker == report.worker_id && command->claim_token == report.claim_token)
      return {};
    return Fail("stale_claim",
                fmt::format("command {} is held by another worker", report.command_id));
  }
  if (!report.events.empty()) {
    const Event& last = report.events.back();
    const auto stored =
        tallies_.Read(ReadSite::kReport,
                      conductor_->options_.store->FindWorkerEvent(report.event_id, last.type_name));
    if (stored && *stored && (*stored)->event_id == last.event_id) return {};
  }
  if (execution.state.terminal() || execution.ended)
    return Fail("already_terminal", fmt::format("run {} has ended", execution.id));
  return Fail("superseded", fmt::format("command {} is not open any more", report.command_id));
}

void Lane::Feed(Execution& execution, engine::Decider& decider, CancelMail& mail) {
  if (execution.state.terminal()) return tallies_.Add(Tally::kEndsRefused);
  mail.effective = true;
  decider.Cancel(mail.reason, mail.requested_by);
}

void Lane::Feed(Execution& execution, engine::Decider& decider, FinalizeMail& mail) {
  if (execution.state.terminal()) return tallies_.Add(Tally::kEndsRefused);
  mail.effective = true;
  decider.Finalize(mail.completed, mail.error);
}

// Of the time limits of whole runs.
void Lane::CountTimer(const engine::Timer& timer, bool ended) {
  if (timer.kind != engine::Timer::Kind::kExecutionTimeout) return;
  tallies_.Add(Tally::kTimeLimitsDue);
  tallies_.Add(ended ? Tally::kTimeLimitsMoot : Tally::kTimeLimitsHit);
}

void Lane::Feed(Execution& execution, engine::Decider& decider, TimerMail& mail) {
  execution.extra.fired_timers.push_back(mail.timer);
  CountTimer(mail.timer, execution.state.terminal());
  decider.TimerDue(mail.timer);
}

void Lane::Feed(Execution& execution, engine::Decider& decider, MessageMail& mail) {
  const store::MessageRow& message = mail.message;
  execution.extra.consumed_messages.push_back(message.message_id);
  switch (message.kind) {
    case store::MessageRow::Kind::kStartChild: {
      if (execution.row.head != 0 || execution.begun) return;
      execution.begun = true;
      const Result<engine::ChildStart> child = ReadChildStart(message);
      NOETL_CHECK(child.has_value(), "the message was read when the run began");
      const StartCall call{.execution_id = execution.id,
                           .payload = child->payload,
                           .parent_execution_id = child->parent_execution_id,
                           .parent_command_id = child->parent_command_id,
                           .parent_step = child->parent_step,
                           .return_step = child->return_step,
                           .depth = child->depth,
                           .pool = child->pool,
                           .trace = child->trace};
      return decider.Start(RequestOf(call, execution.playbook, conductor_->options_));
    }
    case store::MessageRow::Kind::kChildEnded: {
      Result<engine::ChildEnd> end = ReadChildEnd(message);
      if (end) return decider.ChildEnded(*std::move(end));
      return LogError("a message is lost", {{"error", end.error().message}});
    }
    case store::MessageRow::Kind::kCancel: {
      if (execution.state.terminal()) tallies_.Add(Tally::kEndsRefused);
      const Result<std::string> reason = ReadCancelReason(message);
      return decider.Cancel(reason.value_or("the run that waits for it ended"), "parent");
    }
  }
}

void Lane::Feed(Execution&, engine::Decider&, WakeMail&) {}

// Commands that a worker of this process, or of one that is gone, held and nobody holds now.
void Lane::TakeBackLost(Execution& execution, engine::Decider& decider) {
  std::vector<Dispatch::Waiting> line;
  for (const auto& [id, command] : execution.state.commands()) {
    if (command.parked || command.child_execution_id != 0 || held_.contains(id)) continue;
    if (command.status == engine::Command::Status::kIssued) {
      if (execution.rescan)
        line.push_back({execution.id, id, execution.pool, command.tool_kind, nullptr});
    } else if (command.worker.starts_with(kInProcessWorker)) {
      decider.Reissue(id, command.worker != conductor_->options_.worker_id);
    }
  }
  execution.rescan = false;
  if (line.empty()) return;
  conductor_->dispatch_.Wait(std::move(line));
  slots_freed_ = true;
}

// ---- commands go to the worker

Status Lane::OfferCommands(Execution& execution, engine::Decider& decider) {
  bool claimed = false;
  const std::size_t count = decider.unit().events.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Event& event = decider.unit().events[i];
    const bool issued =
        event.type == EventType::kCommandIssued && !event.meta["server_run"].AsBool();
    if (!issued && event.type != EventType::kCommandReleased) continue;
    const std::string_view id = engine::CommandIdOf(event);
    const engine::Command* command = execution.state.FindCommand(id);
    if (!command || command->status != engine::Command::Status::kIssued) continue;
    std::optional<Seat> seat;
    if (issued) seat = conductor_->dispatch_.Take(execution.pool, event.node_type);
    if (seat) {
      Claim(execution, decider, event, nullptr, *std::move(seat));
      claimed = true;
    } else {
      execution.waiting.push_back({execution.id, std::string(id), execution.pool, event.node_type,
                                   issued ? std::make_shared<const Event>(event) : nullptr});
    }
  }
  return claimed ? Decide(decider) : Status();
}

// ---- the unit goes to the disk

void Lane::Queue(Execution& execution, engine::Unit unit) {
  execution.more = unit.more;
  if (unit.more) tallies_.Add(Tally::kCutShort);
  tallies_.Add(Tally::kBodiesStored, std::ssize(unit.bodies));
  for (engine::StoredBody& body : execution.bodies) unit.bodies.push_back(std::move(body));
  execution.bodies.clear();
  for (const std::string& id : unit.dropped_commands) {
    if (held_.contains(id)) execution.stops.push_back(id);
  }
  for (const Event& event : unit.events) {
    if (event.type != EventType::kCommandCancelled) continue;
    std::string id(engine::CommandIdOf(event));
    if (held_.contains(id)) execution.stops.push_back(std::move(id));
  }
  // What was taken and ended in one decision is not handed out.
  std::erase_if(execution.grants, [&](const Execution::Granted& granted) {
    if (std::erase(execution.stops, granted.grant.command_id) == 0) return false;
    held_.erase(granted.grant.command_id);
    conductor_->dispatch_.Return(granted.seat);
    return slots_freed_ = true;
  });
  // A task of this process waits for the run: nothing that would outlive the process.
  std::optional<engine::ChildEnd> notice;
  if (unit.parent && unit.parent->command_id.starts_with(kWaitingTask)) {
    notice = std::move(unit.parent);
    unit.parent.reset();
  }
  AnswerPosts(execution, unit);
  auto rows = MakeUnitRows(std::move(unit), execution.row, execution.state, execution.pool,
                           *conductor_->options_.ids);
  if (!rows) return Abandon(execution, rows.error());
  store::UnitRows& out = **rows;
  store::UnitRows& extra = execution.extra;
  out.execution_id = execution.id;
  out.fired_timers = std::move(extra.fired_timers);
  out.consumed_messages = std::move(extra.consumed_messages);
  out.logs = std::move(extra.logs);
  execution.notice = std::move(notice);
  if (Status added = AddLate(execution, out); !added) return Abandon(execution, added.error());
  for (Mail& mail : execution.deferred) execution.mail.push_back(std::move(mail));
  execution.deferred.clear();
  execution.posted.clear();
  const bool nothing = out.events.empty() && out.fired_timers.empty() && out.logs.empty() &&
                       out.consumed_messages.empty() && out.bodies.empty() && out.messages.empty();
  if (nothing) return Publish(execution, out);
  if (!out.events.empty()) execution.row = out.execution;
  AddSnapshot(execution, out);
  execution.in_flight = true;
  outgoing_.push_back(*std::move(rows));
}

void Lane::AddSnapshot(Execution& execution, store::UnitRows& rows) {
  const engine::State& state = execution.state;
  if (state.terminal() || rows.events.empty()) return;
  const std::int64_t events = state.seq - execution.snapshot_seq;
  const std::int64_t wanted =
      std::max(kSnapshotEvents, execution.snapshot_bytes / kSnapshotBytesPerEvent);
  const std::int64_t now_us = state.last_ingest_us;
  if (execution.snapshot_us == 0) execution.snapshot_us = now_us;
  const bool slow =
      events >= kSnapshotEventsSlow && now_us - execution.snapshot_us >= kSnapshotPauseUs;
  if (events < wanted && !slow) return;
  rows.snapshot = {execution.id, state.seq, state.highest_event_id, engine::WriteSnapshot(state)};
  execution.snapshot_seq = state.seq;
  execution.snapshot_us = now_us;
  execution.snapshot_bytes = static_cast<std::int64_t>(rows.snapshot->text.size());
}

// ---- runs that have ended, or never were

// Nothing is decided: every fact is answered from the row.
void Lane::PrepareEnded(Execution& execution) {
  while (!execution.mail.empty() && execution.working.size() < kFactsMax) {
    Mail mail = std::move(execution.mail.front());
    execution.mail.pop_front();
    if (auto* report = std::get_if<ReportMail>(&mail)) {
      EndHold(*report);
      std::exchange(report->sent, nullptr)(AcceptReport(execution, report->report));
    } else if (auto* timer = std::get_if<TimerMail>(&mail)) {
      execution.extra.fired_timers.push_back(timer->timer);
      CountTimer(timer->timer, true);
    } else if (auto* message = std::get_if<MessageMail>(&mail)) {
      execution.extra.consumed_messages.push_back(message->message.message_id);
      const bool cancels = message->message.kind == store::MessageRow::Kind::kCancel;
      if (cancels && execution.ended) tallies_.Add(Tally::kEndsRefused);
    } else if (auto* claim = std::get_if<ClaimMail>(&mail)) {
      if (claim->done) claim->answer = std::unexpected(WhyGone(execution, claim->event_id));
      else PassOn(std::move(claim->seat));
    } else if (auto* post = std::get_if<PostMail>(&mail)) {
      PostLate(execution, *post);
    } else if (auto* returned = std::get_if<ReturnMail>(&mail)) {
      returned->answer = std::unexpected(WhyGone(execution, returned->lease.event_id));
      if (returned->reason == ReturnMail::Reason::kExpired) tallies_.Add(Tally::kLeasesKept);
    } else if (execution.ended && (std::holds_alternative<CancelMail>(mail) ||
                                   std::holds_alternative<FinalizeMail>(mail))) {
      tallies_.Add(Tally::kEndsRefused);
    }
    execution.working.push_back(std::move(mail));
  }
  Queue(execution, {});
}

void Lane::Answer(Mail& mail, const Execution& execution, const Status& outcome) {
  Status status = outcome;
  if (status && execution.row.head == 0)
    status = Fail("not_found", fmt::format("there is no run {}", execution.id));
  const auto ended = [&](bool effective) -> Result<Conductor::CancelAnswer> {
    if (!status) return std::unexpected(status.error());
    return Conductor::CancelAnswer{effective, execution.row.status};
  };
  if (auto* start = std::get_if<StartMail>(&mail); start && start->started) {
    Result<std::int64_t> answer(execution.id);
    if (!status) answer = std::unexpected(status.error());
    std::exchange(start->started, nullptr)(std::move(answer));
  } else if (auto* report = std::get_if<ReportMail>(&mail); report && report->sent) {
    std::exchange(report->sent, nullptr)(status);
  } else if (auto* cancel = std::get_if<CancelMail>(&mail); cancel && cancel->cancelled) {
    std::exchange(cancel->cancelled, nullptr)(ended(cancel->effective));
  } else if (auto* finalize = std::get_if<FinalizeMail>(&mail); finalize && finalize->finalized) {
    std::exchange(finalize->finalized, nullptr)(ended(finalize->effective));
  } else if (auto* claim = std::get_if<ClaimMail>(&mail); claim && claim->done) {
    Result<Claimed> answer = std::unexpected(Error{"not_found", "there is no such command"});
    if (!status) answer = std::unexpected(status.error());
    else if (claim->answer) answer = *std::move(claim->answer);
    std::exchange(claim->done, nullptr)(std::move(answer));
  } else if (auto* post = std::get_if<PostMail>(&mail); post && post->done) {
    Result<PostAnswer> answer(std::move(post->answer));
    if (!status) answer = std::unexpected(status.error());
    std::exchange(post->done, nullptr)(std::move(answer));
  } else if (auto* returned = std::get_if<ReturnMail>(&mail); returned && returned->done) {
    std::exchange(returned->done, nullptr)(status ? returned->answer : status);
  } else if (auto* callback = std::get_if<CallbackMail>(&mail); callback && callback->done) {
    std::exchange(callback->done, nullptr)(callback->answer);
  }
}

}  // namespace noetl::conductor
