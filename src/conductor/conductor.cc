#include "conductor/conductor.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "base/shard.h"
#include "conductor/lane.h"
#include "conductor/secret_inputs.h"

namespace noetl::conductor {

namespace {

// Rows that are read from the store at once.
constexpr std::int64_t kPage = 1'000;
// A longer sleep would miss a wall clock that was set forward.
constexpr std::int64_t kTimerSleepUsMax = 30'000'000;

}  // namespace

Conductor::Conductor(ConductorOptions options)
    : options_(std::move(options)),
      playbooks_(options_.store),
      leases_(options_.leases),
      fleet_(options_.store, options_.clock, options_.ids) {
  NOETL_CHECK(!options_.lanes.empty(), "a conductor needs a lane");
  NOETL_CHECK(options_.worker_id.starts_with(kInProcessWorker), "a worker of this process");
  for (Reactor* reactor : options_.lanes) lanes_.push_back(std::make_unique<Lane>(this, reactor));
}

Conductor::~Conductor() = default;

void Conductor::Attach(bus::WorkerEnd* worker) {
  worker_ = worker;
  dispatch_.ReturnSlots(options_.slots);
}

Lane& Conductor::LaneOf(std::int64_t execution_id) {
  return *lanes_[static_cast<std::size_t>(
      ShardFor(execution_id, static_cast<std::uint32_t>(lanes_.size())))];
}

std::size_t Conductor::cached() const {
  std::size_t sum = 0;
  for (const auto& lane : lanes_) sum += lane->cached();
  return sum;
}

ConductorStats Conductor::Stats() const {
  ConductorStats stats;
  for (const auto& lane : lanes_) lane->tallies().AddTo(stats);
  return stats;
}

bool Conductor::IsStored(std::int64_t execution_id) const {
  const auto row = options_.store->Find(execution_id);
  return row && *row;
}

// ---- requests

void Conductor::Start(StartCall call, Started started) {
  Result<CompiledPlaybook> playbook = call.catalog_id != 0
                                          ? playbooks_.Find(call.catalog_id)
                                          : playbooks_.Find(call.path, call.version);
  if (!playbook) return started(std::unexpected(playbook.error()));
  const bool fresh = call.execution_id == 0;
  if (fresh) call.execution_id = options_.ids->Next();
  const std::int64_t id = call.execution_id;
  Lane& lane = LaneOf(id);
  if (std::optional<Error> refusal = lane.Refusal())
    return started(std::unexpected(*std::move(refusal)));
  if (options_.refuse_early) {
    if (std::optional<Error> refusal = call.patient ? std::nullopt : AdmitStart())
      return started(std::unexpected(*std::move(refusal)));
    if (!call.patient) {
      started = [this, told = std::move(started)](Result<std::int64_t> answer) mutable {
        EndStart();
        told(std::move(answer));
      };
    }
  }
  // Starting a run that exists changes nothing, its secrets neither.
  if (fresh || !IsStored(id)) {
    const Status hidden =
        HideSecretInputs(*playbook->playbook, *options_.store, options_.secrets, &call);
    if (!hidden) return started(std::unexpected(hidden.error()));
  }
  lane.Deliver(id, StartMail{std::move(call), *std::move(playbook), fresh, std::move(started)});
}

std::optional<Error> Conductor::AdmitStart() {
  const std::int64_t before = starts_.fetch_add(1, std::memory_order_relaxed);
  if (before < kStartsWhileRefusing) return std::nullopt;
  const std::int64_t now_us = options_.clock->MonotonicMicros() + 1;  // never 0
  if (now_us >= refusing_until_.load(std::memory_order_relaxed)) {
    std::int64_t since_us = 0;
    const bool queue =
        before >= kStartsOnTheirWay &&
        !starts_many_since_.compare_exchange_strong(since_us, now_us, std::memory_order_relaxed);
    if (!queue || now_us - since_us < kStandingQueueUs) return std::nullopt;
  }
  starts_.fetch_sub(1, std::memory_order_relaxed);
  return RefuseStart(now_us);
}

std::optional<Error> Conductor::RefusesStarts() {
  if (starts_.load(std::memory_order_relaxed) < kStartsWhileRefusing) return std::nullopt;
  const std::int64_t now_us = options_.clock->MonotonicMicros() + 1;
  if (now_us >= refusing_until_.load(std::memory_order_relaxed)) return std::nullopt;
  return RefuseStart(now_us);
}

Error Conductor::RefuseStart(std::int64_t now_us) {
  refusing_until_.store(now_us + kRefusingUs, std::memory_order_relaxed);
  return {"overloaded", "more runs are started than can be stored; try again in a moment"};
}

void Conductor::EndStart() {
  if (starts_.fetch_sub(1, std::memory_order_relaxed) <= kStartsOnTheirWay)
    starts_many_since_.store(0, std::memory_order_relaxed);
}

void Conductor::Cancel(std::int64_t execution_id, std::string reason, std::string requested_by,
                       bool cascade, Cancelled cancelled) {
  auto done = [this, execution_id, reason, requested_by, cascade,
               cancelled = std::move(cancelled)](Result<CancelAnswer> answer) mutable {
    if (answer && cascade) {
      const auto children =
          options_.store->List({.parent_execution_id = execution_id, .limit = kPage});
      for (const store::ExecutionRow& child :
           children.value_or(std::vector<store::ExecutionRow>())) {
        if (!child.terminal)
          Cancel(child.execution_id, reason, requested_by, true, [](const auto&) {});
      }
    }
    cancelled(std::move(answer));
  };
  LaneOf(execution_id)
      .Deliver(execution_id,
               CancelMail{std::move(reason), std::move(requested_by), std::move(done)});
}

void Conductor::Finalize(std::int64_t execution_id, bool completed, std::string error,
                         Cancelled finalized) {
  LaneOf(execution_id)
      .Deliver(execution_id, FinalizeMail{completed, std::move(error), std::move(finalized)});
}

void Conductor::StopOffering() { dispatch_.Close(); }

// ---- the worker's end

void Conductor::Send(bus::Report report, Sent sent) {
  const std::int64_t id = report.execution_id;
  LaneOf(id).Deliver(id, ReportMail{std::move(report), std::move(sent)});
}

void Conductor::Load(std::string ref, Loaded loaded) { loaded(options_.store->Load(ref)); }

void Conductor::FreeSlots(int change) {
  dispatch_.ReturnSlots(change);
  if (change > 0) Offer();
}

void Conductor::RunChild(bus::ChildCall call, ChildDone done) {
  StartCall start{.execution_id = options_.ids->Next(),
                  .path = call.path,
                  .version = call.version.AsInt(),
                  .payload = call.payload,
                  .parent_execution_id = call.parent_execution_id,
                  .parent_step = call.parent_step,
                  .return_step = call.return_step,
                  .depth = call.depth,
                  .pool = call.pool};
  const std::int64_t child = start.execution_id;
  if (!call.wait) {
    return Start(std::move(start), [child, path = call.path,
                                    done = std::move(done)](Result<std::int64_t> started) mutable {
      if (!started) return done(std::unexpected(started.error()));
      done(engine::ChildEnd{.child_execution_id = child, .path = path, .status = "STARTED"});
    });
  }
  const std::string key = fmt::format("{}{}", kWaitingTask, child);
  start.parent_command_id = key;
  {
    const std::lock_guard lock(waiting_mutex_);
    waiting_[key] = std::move(done);
  }
  Start(std::move(start), [this, key](Result<std::int64_t> started) {
    if (started) return;
    ChildDone waiting;
    {
      const std::lock_guard lock(waiting_mutex_);
      waiting = std::move(waiting_.extract(key).mapped());
    }
    waiting(std::unexpected(started.error()));
  });
}

void Conductor::AnswerWaiting(const engine::ChildEnd& end) {
  ChildDone waiting;
  {
    const std::lock_guard lock(waiting_mutex_);
    auto found = waiting_.extract(end.command_id);
    if (found.empty()) return;  // of an earlier process
    waiting = std::move(found.mapped());
  }
  waiting(end);
}

// Commands in line get the seats that are free.
void Conductor::Offer() {
  while (auto next = dispatch_.Next()) Deliver(std::move(next->first), std::move(next->second));
}

void Conductor::OfferSeat(Seat seat) {
  std::optional<Dispatch::Waiting> next = dispatch_.NextFor(seat);
  if (next) Deliver(*std::move(next), std::move(seat));
  else dispatch_.Return(seat);
}

void Conductor::Deliver(Dispatch::Waiting waiting, Seat seat) {
  const std::int64_t id = waiting.execution_id;
  ClaimMail mail{.command_id = std::move(waiting.command_id), .issued = std::move(waiting.issued)};
  mail.seat = std::move(seat);
  LaneOf(id).Deliver(id, std::move(mail));
}

// ---- messages and timers

void Conductor::Route(store::MessageRow message) {
  if (message.not_before_us > options_.clock->NowMicros()) return ArmTimer(message.not_before_us);
  const std::int64_t id = message.target_execution_id;
  LaneOf(id).Deliver(id, MessageMail{std::move(message)});
}

Status Conductor::RouteStored() {
  for (std::int64_t after = 0;;) {
    NOETL_ASSIGN(auto messages, options_.store->Messages(after, kPage));
    if (messages.empty()) return {};
    after = messages.back().message_id;
    for (store::MessageRow& message : messages) Route(std::move(message));
  }
}

void Conductor::ArmTimer(std::int64_t due_us) {
  lanes_.front()->reactor()->Post([this, due_us] {
    if (armed_ != 0 && armed_us_ <= due_us) return;
    Reactor* reactor = lanes_.front()->reactor();
    if (armed_ != 0) reactor->CancelTimer(armed_);
    armed_us_ = due_us;
    const std::int64_t wait_us = due_us - options_.clock->NowMicros();
    armed_ = reactor->After(std::clamp(wait_us, std::int64_t{0}, kTimerSleepUsMax),
                            [this] { OnTimer(); });
  });
}

void Conductor::OnTimer() {
  armed_ = 0;
  const std::int64_t now_us = options_.clock->NowMicros();
  const auto due = options_.store->DueTimers(now_us, kPage);
  Tallies& tallies = lanes_.front()->tallies();  // we are on its thread
  if (!due) {
    tallies.Add(Tally::kTimerLooksFailed);
    LogError("timers cannot be read; trying again", {{"error", due.error().message}});
    return ArmTimer(now_us + kRetryUsMax);
  }
  for (const store::TimerRow& row : *due)
    LaneOf(row.execution_id).Deliver(row.execution_id, TimerMail{row.timer});
  if (Status routed = RouteStored(); !routed)
    LogError("messages cannot be read", {{"error", routed.error().message}});
  if (static_cast<std::int64_t>(due->size()) == kPage) tallies.Add(Tally::kTimerLooksFull);
  // What was just fired is still stored until its run has acted on it.
  const auto next = options_.store->NextDueUs(now_us);
  if (next && *next) ArmTimer(**next);
  else if (static_cast<std::int64_t>(due->size()) == kPage) ArmTimer(now_us + 1'000);
}

// ---- recovery

Status Conductor::Recover() {
  std::unordered_set<std::int64_t> working;
  std::vector<Dispatch::Waiting> line;
  for (std::int64_t after = 0;;) {
    NOETL_ASSIGN(const auto commands, options_.store->OpenCommands(after, kPage));
    if (commands.empty()) break;
    after = commands.back().command_id;
    for (const store::CommandRow& command : commands) {
      const bool first = working.insert(command.execution_id).second;
      if (command.server_run || command.parked) continue;
      if (command.status == store::CommandStatus::kPending) {
        line.push_back(
            {command.execution_id, command.id, command.pool, command.tool_kind, nullptr});
      } else if (!command.worker_id.starts_with(kInProcessWorker)) {
        Readopt(command);
      } else if (first) {
        LaneOf(command.execution_id).Deliver(command.execution_id, WakeMail{});
      }
    }
  }
  // A run without an open command was on its way to the next decision.
  for (std::int64_t after = 0;;) {
    NOETL_ASSIGN(const auto open, options_.store->Open(after, kPage));
    if (open.empty()) break;
    after = open.back().execution_id;
    for (const store::ExecutionRow& row : open) {
      if (!working.contains(row.execution_id))
        LaneOf(row.execution_id).Deliver(row.execution_id, WakeMail{});
    }
  }
  NOETL_TRY(RouteStored());
  dispatch_.Wait(std::move(line));
  Offer();
  NOETL_ASSIGN(const auto due, options_.store->NextDueUs(0));
  if (due) ArmTimer(*due);
  return {};
}

}  // namespace noetl::conductor
