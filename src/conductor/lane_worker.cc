// Claims, and what remote workers say.

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "conductor/lane.h"
#include "conductor/lane_execution.h"
#include "engine/decide.h"
#include "store/chain.h"

namespace noetl::conductor {

using engine::Command;
using engine::Event;
using engine::EventType;

namespace {

constexpr std::string_view kHeartbeat = "command.heartbeat";

Posted Refused(std::string_view code, std::string message) {
  return {.code = std::string(code), .message = std::move(message)};
}

Posted Refused(const Error& error) { return {.code = error.code, .message = error.message}; }

// Whether the command has said already what this type of event says.
bool IsReported(const Command& command, EventType type) {
  switch (type) {
    case EventType::kCommandStarted: return command.status == Command::Status::kStarted;
    case EventType::kCallDone: return command.reported;
    case EventType::kCallError: return command.reported || !command.report.is_null();
    default: return false;
  }
}

}  // namespace

Event WorkerEvent(EventType type, const Event& about, std::string_view status,
                  const std::string& worker) {
  Event event;
  event.type = type;
  event.type_name = engine::EventName(type);
  event.node_name = about.node_name;
  event.node_type = about.node_type;
  event.status = std::string(status);
  event.worker_id = worker;
  return event;
}

// ---- claims

std::shared_ptr<const Event> Lane::IssuedEvent(const Execution& execution,
                                               std::int64_t event_id) const {
  auto found = tallies_.Read(ReadSite::kIssued,
                             conductor_->options_.store->FindEvent(execution.id, event_id));
  if (!found || !*found) return nullptr;
  return std::make_shared<const Event>(**std::move(found));
}

bus::Grant Lane::MakeGrant(const Execution& execution, const Event& issued,
                           std::int64_t claim_token, Door door) const {
  Json context = issued.context;
  // Workers that claim one by one have their variables from here, whether the tool needs them or not.
  if (door == Door::kClaim && !context.Has("render_context")) {
    context = context.With("render_context", Json::Object({{"workload", execution.state.workload},
                                                           {"ctx", execution.state.ctx}}));
  }
  return {.execution_id = execution.id,
          .command_id = issued.meta["command_id"].ToString(),
          .event_id = issued.event_id,
          .path = execution.state.path,
          .step = issued.node_name,
          .tool_kind = issued.node_type,
          .context = std::move(context),
          .meta = issued.meta,
          .claim_token = claim_token,
          .strict = execution.state.semantics.strict,
          .inline_bytes = execution.state.semantics.inline_bytes};
}

void Lane::Feed(Execution& execution, engine::Decider& decider, ClaimMail& mail) {
  mail.answer.reset();
  const Command* command = execution.state.FindCommand(mail.command_id);
  const bool offered = command && !command->parked && command->child_execution_id == 0;
  const bool taken = held_.contains(mail.command_id) ||
                     (offered && conductor_->leases_.Find(command->event_id).has_value());
  const bool open = offered && command->status == Command::Status::kIssued && !taken;
  if (open && !mail.issued) mail.issued = IssuedEvent(execution, command->event_id);
  if (open && mail.issued) {
    return Claim(execution, decider, *mail.issued, mail.done ? &mail : nullptr,
                 std::move(mail.seat));
  }
  if (!mail.done) return PassOn(std::move(mail.seat));
  if (!offered) mail.answer = std::unexpected(WhyGone(execution, mail.event_id));
  else ClaimAgain(execution, *command, mail);
}

// The command is not to be had: the seat is for the next in line.
void Lane::PassOn(Seat seat) {
  if (!seat.poll) return ReturnSlot();
  conductor_->OfferSeat(std::move(seat));
}

// The command has a holder: perhaps it is the one who asks, and lost the answer.
void Lane::ClaimAgain(Execution& execution, const Command& command, ClaimMail& mail) {
  const std::optional<Lease> lease = conductor_->leases_.Find(command.event_id);
  const std::string& worker = lease ? lease->worker_id : command.worker;
  const bool same = lease && lease->worker_id == mail.seat.worker_id;
  if (same && command.status == Command::Status::kIssued) {
    // Its claim is in the unit that is being decided.
    ClaimMail again{.command_id = mail.command_id, .event_id = mail.event_id};
    again.seat = mail.seat;
    again.done = std::exchange(mail.done, nullptr);
    execution.deferred.emplace_back(std::move(again));
    return;
  }
  const bool repeats =
      same && !mail.seat.request_id.empty() && mail.seat.request_id == lease->request_id;
  if (same && (command.status == Command::Status::kClaimed || repeats)) {
    if (const auto issued = IssuedEvent(execution, command.event_id)) {
      conductor_->leases_.Touch(command.event_id, conductor_->options_.clock->MonotonicMicros());
      mail.answer = Claimed{MakeGrant(execution, *issued, command.claim_token, lease->door),
                            conductor_->leases_.LengthUs(lease->door) / 1'000, true};
      return;
    }
  }
  mail.answer = std::unexpected(
      Error{"active_claim", fmt::format("command {} is claimed by {}", command.id, worker)});
}

// The seat was taken. Issue, claim and start can be one unit; the grant goes out when it is stored.
// `asked`: the worker that asked for it gets it as the answer.
void Lane::Claim(Execution& execution, engine::Decider& decider, const Event& issued,
                 ClaimMail* asked, Seat seat) {
  const bool remote = seat.door != Door::kInProcess;
  const std::string& worker = remote ? seat.worker_id : conductor_->options_.worker_id;
  const Json id = issued.meta["command_id"];
  const Command* command = execution.state.FindCommand(id.AsString());
  const std::int64_t token = command->claim_token + 1;
  Event claimed = WorkerEvent(EventType::kCommandClaimed, issued, "RUNNING", worker);
  JsonObjectBuilder meta;
  meta.Add("command_id", id).Add("worker_id", worker).Add("claim_token", token);
  bus::Grant grant = MakeGrant(execution, issued, token, seat.door);
  if (remote) {
    const std::int64_t now_us = conductor_->options_.clock->MonotonicMicros();
    const std::int64_t until_us = conductor_->leases_.Add({.event_id = issued.event_id,
                                                           .execution_id = execution.id,
                                                           .command_id = grant.command_id,
                                                           .worker_id = worker,
                                                           .request_id = seat.request_id,
                                                           .claim_token = token,
                                                           .door = seat.door,
                                                           .claimed_at_us = now_us},
                                                          now_us);
    execution.leased.push_back(issued.event_id);
    conductor_->ArmWorkers(until_us);
    if (seat.door == Door::kLease) meta.Add("door", kLeaseDoor);
    meta.Add("lease_until_us",
             conductor_->options_.clock->NowMicros() + conductor_->leases_.LengthUs(seat.door));
  } else {
    held_[grant.command_id] = true;
  }
  claimed.meta = meta.Build();
  claimed.result =
      Json::Object({{"status", "RUNNING"},
                    {"context", Json::Object({{"command_id", id}, {"worker_id", worker}})}});
  decider.Ingest(std::move(claimed));
  if (!remote) {
    Event started = WorkerEvent(EventType::kCommandStarted, issued, "STARTED", worker);
    started.meta = Json::Object(
        {{"command_id", id}, {"attempts", issued.meta["attempt"]}, {"claim_token", token}});
    started.result =
        Json::Object({{"status", "STARTED"}, {"context", Json::Object({{"command_id", id}})}});
    decider.Ingest(std::move(started));
  }
  if (asked)
    asked->answer = Claimed{std::move(grant), conductor_->leases_.LengthUs(seat.door) / 1'000};
  else if (!remote || seat.poll) execution.grants.push_back({std::move(grant), std::move(seat)});
}

// The unit with these claims is not stored.
void Lane::DropClaims(Execution& execution) {
  for (const Execution::Granted& granted : execution.grants) {
    if (granted.seat.poll) conductor_->dispatch_.Return(granted.seat);
    else if (held_.erase(granted.grant.command_id) > 0) ReturnSlot();
  }
  for (const std::int64_t id : execution.leased) conductor_->leases_.Remove(id, std::nullopt);
}

// ---- leases end

void Lane::Feed(Execution& execution, engine::Decider& decider, ReturnMail& mail) {
  const Lease& lease = mail.lease;
  mail.answer = {};
  const Command* command = execution.state.FindCommand(lease.command_id);
  const std::optional<Lease> now = conductor_->leases_.Find(lease.event_id);
  const bool expired = mail.reason == ReturnMail::Reason::kExpired;
  if (!command || command->worker != lease.worker_id || !now ||
      now->claim_token != lease.claim_token) {
    if (expired) tallies_.Add(Tally::kLeasesKept);
    mail.answer = Fail("stale_claim", fmt::format("command {} is not held by {} any more",
                                                  lease.command_id, lease.worker_id));
    return;
  }
  // Renewed while the mail was on its way.
  if (expired && now->until_us > conductor_->options_.clock->MonotonicMicros())
    return tallies_.Add(Tally::kLeasesKept);
  if (expired) tallies_.Add(Tally::kLeasesTaken);
  if (mail.reason != ReturnMail::Reason::kReleased) {
    LogWarn("a worker is lost", {{"execution_id", execution.id},
                                 {"command_id", lease.command_id},
                                 {"worker_id", lease.worker_id}});
    return decider.Reissue(lease.command_id, true);
  }
  decider.Release(lease.command_id);
}

// After the commit: a command that has ended, waits for a callback or was given back is nobody's.
void Lane::EndLease(const store::CommandChange& change) {
  Leases& leases = conductor_->leases_;
  const bool held = store::IsOpen(change.status) && !change.parked &&
                    change.status != store::CommandStatus::kPending;
  if (held) return;
  const std::optional<Lease> lease = leases.Find(change.command_id);
  if (!lease) return;
  if (change.status != store::CommandStatus::kCancelled || change.error == "released")
    return leases.Remove(change.command_id, std::nullopt);
  const auto kind =
      change.error == "superseded" ? ControlEvent::Kind::kLost : ControlEvent::Kind::kCancel;
  leases.Remove(change.command_id, kind);
  conductor_->fleet_.Tell(lease->worker_id, {kind, change.command_id, lease->command_id});
}

// Why a command cannot be had any more.
Error Lane::WhyGone(const Execution& execution, std::int64_t command_number) const {
  const auto row = conductor_->options_.store->FindCommand(command_number);
  if (!row || !*row) return {"not_found", "there is no such command"};
  const store::CommandRow& command = **row;
  if (command.server_run)
    return {"not_found", fmt::format("command {} is run by the server", command.id)};
  if (command.status == store::CommandStatus::kCancelled) {
    const bool replaced = command.error == "superseded" || command.error == "released";
    if (replaced) return {"superseded", fmt::format("command {} was replaced", command.id)};
    return {"cancelled", fmt::format("command {} was cancelled", command.id)};
  }
  if (execution.row.terminal && execution.row.status == "CANCELLED")
    return {"cancelled", fmt::format("run {} was cancelled", execution.id)};
  return {"already_terminal", fmt::format("command {} has ended", command.id)};
}

// ---- posts

void Lane::Feed(Execution& execution, engine::Decider& decider, PostMail& mail) {
  mail.answer = {};
  for (PostedEvent& posted : mail.call.events)
    mail.answer.events.push_back(Take(execution, decider, mail.call, posted));
}

// The id that the event gets: its own unless somebody has it.
std::int64_t Lane::FreshId(std::int64_t event_id) const {
  if (event_id == 0) return conductor_->options_.ids->Next();
  const auto found =
      tallies_.Read(ReadSite::kEventId, conductor_->options_.store->FindEvent(event_id));
  return found && *found ? conductor_->options_.ids->Next() : event_id;
}

// What is stored under the key of the event already.
std::optional<Posted> Lane::FindRepeated(const Execution& execution,
                                         const PostedEvent& posted) const {
  const store::Store& store = *conductor_->options_.store;
  const Event& event = posted.event;
  if (event.event_id != 0) {
    const auto same =
        tallies_.Read(ReadSite::kRepeated, store.FindEvent(execution.id, event.event_id));
    if (same && *same && (*same)->type_name == event.type_name &&
        engine::CommandIdOf(**same) == posted.command_id)
      return Posted{.event_id = event.event_id};
  }
  const std::int64_t number = engine::CommandNumber(posted.command_id);
  if (number == 0 || event.type == EventType::kOther) return std::nullopt;
  const auto same =
      tallies_.Read(ReadSite::kRepeated, store.FindWorkerEvent(number, event.type_name));
  if (same && *same) return Posted{.event_id = (*same)->event_id};
  return std::nullopt;
}

Posted Lane::Take(Execution& execution, engine::Decider& decider, const PostCall& call,
                  PostedEvent& posted) {
  if (!posted.command_id.empty()) return TakeOfCommand(execution, decider, call, posted);
  if (const auto repeated = FindRepeated(execution, posted)) return *repeated;
  Event event = posted.event;
  event.event_id = FreshId(event.event_id);
  decider.Ingest(event);
  return {.event_id = event.event_id};
}

Posted Lane::TakeOfCommand(Execution& execution, engine::Decider& decider, const PostCall& call,
                           PostedEvent& posted) {
  const Command* command = execution.state.FindCommand(posted.command_id);
  const EventType type = posted.event.type;
  const bool heartbeat = posted.event.type_name == kHeartbeat;
  const std::int64_t number = engine::CommandNumber(posted.command_id);
  if (!command) {
    if (const auto repeated = FindRepeated(execution, posted)) return *repeated;
    if (heartbeat || posted.claim_token != 0) return Refused(WhyGone(execution, number));
  } else {
    const bool claims = type == EventType::kCommandClaimed;
    const bool foreign = !call.worker_id.empty() && command->worker != call.worker_id;
    if (claims && command->status != Command::Status::kIssued) {
      if (!foreign) return {};
      return Refused("active_claim",
                     fmt::format("command {} is claimed by {}", command->id, command->worker));
    }
    const bool stale = posted.claim_token != 0 && posted.claim_token != command->claim_token;
    if (command->status == Command::Status::kIssued || foreign || stale) {
      return Refused("stale_claim", fmt::format("command {} is not held by {} with this token",
                                                command->id, call.worker_id));
    }
    conductor_->leases_.Touch(number, conductor_->options_.clock->MonotonicMicros());
    if (heartbeat) return {};
    if (IsReported(*command, type)) {
      if (const auto repeated = FindRepeated(execution, posted)) return *repeated;
    }
  }
  Event event = posted.event;
  event.event_id = FreshId(event.event_id);
  const bool once = execution.posted
                        .insert(type == EventType::kOther
                                    ? fmt::format("event:{}", event.event_id)
                                    : fmt::format("{}:{}", posted.command_id, event.type_name))
                        .second;
  if (once) decider.Ingest(event);
  return {.event_id = event.event_id};
}

// The run has ended: what comes without a token is kept, and decides nothing.
void Lane::PostLate(Execution& execution, PostMail& mail) {
  mail.answer = {};
  if (execution.row.head == 0) return;
  for (PostedEvent& posted : mail.call.events) {
    const auto repeated = FindRepeated(execution, posted);
    const bool refused =
        posted.event.type_name == kHeartbeat || (posted.claim_token != 0 && !repeated);
    if (repeated) {
      mail.answer.events.push_back(*repeated);
    } else if (refused) {
      mail.answer.events.push_back(
          Refused(WhyGone(execution, engine::CommandNumber(posted.command_id))));
    } else {
      Event event = posted.event;
      event.event_id = FreshId(event.event_id);
      mail.answer.events.push_back({.event_id = event.event_id});
      execution.late.push_back(std::move(event));
    }
  }
}

Status Lane::AddLate(Execution& execution, store::UnitRows& rows) {
  if (execution.late.empty()) return {};
  store::ExecutionRow& row = rows.execution = execution.row;
  rows.expected_head = row.head;
  for (Event& event : std::exchange(execution.late, {})) {
    event.execution_id = execution.id;
    event.catalog_id = row.catalog_id;
    event.seq = ++row.head;
    event.prev_event_id = row.last_event_id;
    event.ingest_us = std::max(row.updated_at_us, conductor_->options_.clock->NowMicros());
    if (event.created_at_us == 0) event.created_at_us = event.ingest_us;
    NOETL_ASSIGN(store::EventRow stored, store::MakeEventRow(std::move(event), row.chain));
    row.chain = stored.chain;
    row.last_event_id = stored.event.event_id;
    row.last_event_type = stored.event.type_name;
    row.last_node_name = stored.event.node_name;
    row.updated_at_us = stored.event.ingest_us;
    rows.events.push_back(std::move(stored));
  }
  return {};
}

// ---- callbacks

void Lane::Feed(Execution& execution, engine::Decider& decider, CallbackMail& mail) {
  mail.answer = {};
  const Command* waiting = nullptr;
  for (const auto& [id, command] : execution.state.commands()) {
    if (command.child_execution_id != 0 || command.step != mail.call.step) continue;
    if (!mail.call.command_id.empty() && id != mail.call.command_id) continue;
    // Of several the one that was parked under this name, else a parked one.
    const Json& named = command.report["context"]["data"]["job_name"];
    const bool exact = !mail.call.key.empty() && named.AsString() == mail.call.key;
    if (!waiting || exact || (command.parked && !waiting->parked)) waiting = &command;
    if (exact) break;
  }
  if (!waiting) return;
  mail.answer.accepted = true;
  mail.command_id = waiting->id;
  decider.Callback({.command_id = waiting->id,
                    .ok = mail.call.ok,
                    .data = mail.call.data,
                    .error = mail.call.error});
}

// What answers tell of the decision.
void Lane::AnswerPosts(Execution& execution, const engine::Unit& unit) {
  const auto issued = std::ranges::count(unit.events, EventType::kCommandIssued, &Event::type);
  for (Mail& mail : execution.working) {
    if (auto* post = std::get_if<PostMail>(&mail)) post->answer.commands_issued = issued;
    auto* callback = std::get_if<CallbackMail>(&mail);
    if (!callback || !callback->answer.accepted) continue;
    for (const Event& event : unit.events) {
      if (event.type == EventType::kCallDone && engine::CommandIdOf(event) == callback->command_id)
        callback->answer.event_id = event.event_id;
    }
  }
}

}  // namespace noetl::conductor
