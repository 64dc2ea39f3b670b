#include "conductor/lane.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "conductor/lane_execution.h"

namespace noetl::conductor {

// Errors that say nothing about the unit: writing or reading may work later.
bool Lane::IsTrouble(const Error& error) {
  return error.code == "disk_full" || error.code == "read_only" || error.code == "io" ||
         error.code == "corrupt";
}

Lane::Lane(Conductor* conductor, Reactor* reactor)
    : conductor_(conductor), reactor_(reactor), bodies_(conductor->options_.store) {}

Lane::~Lane() = default;

// ---- what comes in

void Lane::Deliver(std::int64_t execution_id, Mail mail) {
  if (std::holds_alternative<StartMail>(mail)) ++starts_waiting_;
  if (std::holds_alternative<PostMail>(mail)) ++posts_waiting_;
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    mailbox_.emplace_back(execution_id, std::move(mail));
    wakes = !std::exchange(woken_, true);
  }
  if (wakes) reactor_->Post([this] { Drain(); });
}

void Lane::OnCommitted(std::vector<Committed> results) {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    for (Committed& result : results) committed_.push_back(std::move(result));
    wakes = !std::exchange(woken_, true);
  }
  if (wakes) reactor_->Post([this] { Drain(); });
}

std::optional<Error> Lane::Refusal() const {
  if (starts_waiting_.load(std::memory_order_relaxed) >= kStartsWaitingMax) {
    return Error{"overloaded", fmt::format("{} runs wait to be started; try again in a moment",
                                           kStartsWaitingMax)};
  }
  const std::lock_guard lock(mutex_);
  if (!trouble_) return std::nullopt;
  return Error{"unavailable", "no run can be started now: " + trouble_->message};
}

std::optional<Error> Lane::PostRefusal() const {
  if (posts_waiting_.load(std::memory_order_relaxed) >= kPostsWaitingMax) {
    return Error{"overloaded", fmt::format("{} reports of workers wait to be stored; try again in "
                                           "a moment",
                                           kPostsWaitingMax)};
  }
  const std::lock_guard lock(mutex_);
  if (!trouble_) return std::nullopt;
  return Error{"unavailable", "nothing can be stored now: " + trouble_->message};
}

Lane::Execution& Lane::Touch(std::int64_t execution_id) {
  std::unique_ptr<Execution>& slot = executions_[execution_id];
  if (!slot) {
    slot = std::make_unique<Execution>();
    slot->id = execution_id;
    cached_.store(executions_.size(), std::memory_order_relaxed);
  }
  if (slot->resting) {
    recent_.erase(slot->place);
    slot->resting = false;
  }
  return *slot;
}

void Lane::Drain() {
  std::vector<std::pair<std::int64_t, Mail>> mails;
  std::vector<Committed> committed;
  {
    const std::lock_guard lock(mutex_);
    mails.swap(mailbox_);
    committed.swap(committed_);
    woken_ = false;
  }
  // Mail first: what a run is told while its unit was on its way is decided with what follows.
  std::vector<std::int64_t> touched;
  touched.reserve(mails.size() + committed.size());
  for (auto& [id, mail] : mails) {
    if (std::holds_alternative<StartMail>(mail)) --starts_waiting_;
    if (std::holds_alternative<PostMail>(mail)) --posts_waiting_;
    Execution& execution = Touch(id);
    if (execution.in_flight) tallies_.Add(Tally::kWaitedForUnit);
    execution.mail.push_back(std::move(mail));
    touched.push_back(id);
  }
  for (Committed& result : committed) {
    touched.push_back(result.unit->execution_id);
    Finish(result);
    if (grants_.size() >= kHandOver) HandOut();
  }
  HandOut();
  for (const std::int64_t id : touched) {
    const auto found = executions_.find(id);
    if (found != executions_.end()) Serve(*found->second);
    if (outgoing_.size() >= kHandOver) Submit();
  }
  Submit();
  HandOut();
  Trim();
}

void Lane::Serve(Execution& execution) {
  while (!paused_ && !execution.in_flight && (!execution.mail.empty() || execution.more)) {
    Prepare(execution);
  }
  if (!execution.in_flight && execution.mail.empty() && !execution.more) Rest(execution);
}

void Lane::Submit() {
  if (outgoing_.empty()) return;
  conductor_->options_.committer->Submit(std::move(outgoing_), this);
  outgoing_.clear();
}

void Lane::HandOut() {
  if (!stops_.empty()) conductor_->worker_->Stop(std::exchange(stops_, {}));
  if (!grants_.empty()) conductor_->worker_->Run(std::exchange(grants_, {}));
  if (std::exchange(slots_freed_, false)) conductor_->Offer();
}

// ---- what the disk says

void Lane::Finish(Committed& committed) {
  Execution& execution = Touch(committed.unit->execution_id);
  NOETL_CHECK(execution.in_flight, "only a unit on its way can be committed");
  execution.in_flight = false;
  if (!committed.status) return Abandon(execution, committed.status.error());
  execution.conflicts = 0;
  if (!committed.unit->events.empty()) tallies_.Add(Tally::kApplied);
  if (trouble_) {
    const std::lock_guard lock(mutex_);
    trouble_.reset();
    retry_us_ = kRetryUsMin;
  }
  Publish(execution, *committed.unit);
}

void Lane::Publish(Execution& execution, store::UnitRows& unit) {
  if (Listener* listener = conductor_->options_.listener) {
    if (!unit.events.empty()) listener->OnEvents(unit.execution, unit.events);
    if (!unit.logs.empty()) listener->OnLogs(unit.logs);
  }
  // Before the answers: whoever cancelled a run and then asks as its worker hears of it.
  for (const store::CommandChange& change : unit.command_changes) EndLease(change);
  for (Mail& mail : execution.working) {
    Answer(mail, execution, {});
    const ReportMail* report = std::get_if<ReportMail>(&mail);
    if (report && report->ended) held_.erase(report->report.command_id);
  }
  execution.working.clear();
  execution.leased.clear();
  for (Execution::Granted& granted : execution.grants) {
    if (granted.seat.poll) {
      const std::int64_t lease_ms = conductor_->leases_.LengthUs(granted.seat.door) / 1'000;
      conductor_->dispatch_.Fill(granted.seat, {std::move(granted.grant), lease_ms});
    } else {
      grants_.push_back(std::move(granted.grant));
      tallies_.Add(Tally::kClaimedInProcess);
    }
  }
  execution.grants.clear();
  if (!execution.waiting.empty()) {
    conductor_->dispatch_.Wait(std::exchange(execution.waiting, {}));
    slots_freed_ = true;
  }
  for (std::string& id : execution.stops) {
    const auto held = held_.find(id);
    if (held == held_.end()) continue;
    if (held->second) ReturnSlot();
    held_.erase(held);
    stops_.push_back(std::move(id));
  }
  execution.stops.clear();
  for (const store::CommandChange& change : unit.command_changes) {
    if (change.status != store::CommandStatus::kPending)
      conductor_->dispatch_.Forget(change.command_id);
  }
  if (execution.notice) conductor_->AnswerWaiting(*std::exchange(execution.notice, {}));
  for (store::MessageRow& message : unit.messages) conductor_->Route(std::move(message));
  for (const engine::Timer& timer : unit.timers) conductor_->ArmTimer(timer.due_us);
}

// The unit is not stored, or nobody knows: what is in memory is forgotten, what was asked for is
// asked again or refused.
void Lane::Abandon(Execution& execution, const Error& error) {
  const int conflicts = execution.conflicts + 1;
  auto [working, later] = Reset(execution);
  const std::int64_t id = execution.id;
  execution.rescan = true;
  execution.conflicts = conflicts;

  const bool trouble = IsTrouble(error);
  const bool again = trouble || (error.code == "conflict" && conflicts == 1);
  if (!again) {
    tallies_.Add(Tally::kDecisionsFailed);
    LogError("a unit was refused", {{"execution_id", id}, {"error", error.message}});
  }
  for (Mail& mail : working) {
    ReportMail* report = std::get_if<ReportMail>(&mail);
    if (report && !report->sent) continue;  // refused already, by what is stored
    const ClaimMail* claim = std::get_if<ClaimMail>(&mail);
    if (claim && !claim->done) continue;  // its seat is returned, see `rescan`
    if (report && !again && !report->replaced && !report->report.events.empty()) {
      // The command must end all the same.
      report->replaced = true;
      execution.mail.push_back(std::move(mail));
    } else if (again && !std::holds_alternative<StartMail>(mail)) {
      execution.mail.push_back(std::move(mail));
    } else if (again && conductor_->IsStored(id)) {
      std::get<StartMail>(mail).started(id);  // it was stored after all
    } else {
      Answer(mail, execution, std::unexpected(error));
    }
  }
  execution.mail.push_back(WakeMail{});
  for (Mail& mail : later) execution.mail.push_back(std::move(mail));
  if (trouble) Pause(error);
}

Lane::Unserved Lane::Reset(Execution& execution) {
  DropClaims(execution);
  Unserved mail{std::move(execution.working), std::move(execution.mail)};
  bytes_ -= execution.bytes;
  const std::int64_t id = execution.id;
  execution = Execution();
  execution.id = id;
  return mail;
}

void Lane::Pause(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    trouble_ = error;
  }
  if (std::exchange(paused_, true)) return;
  LogError("nothing can be written; trying again",
           {{"error", error.message}, {"after_ms", retry_us_ / 1'000}});
  reactor_->After(retry_us_, [this] { Resume(); });
  retry_us_ = std::min(2 * retry_us_, kRetryUsMax);
}

void Lane::Resume() {
  paused_ = false;
  // Notes of units whose fate was unknown.
  if (Status routed = conductor_->RouteStored(); !routed) return Pause(routed.error());
  {
    // When nothing waits to be written, the next start finds out whether it can be.
    const std::lock_guard lock(mutex_);
    trouble_.reset();
  }
  std::vector<std::int64_t> ids;
  for (const auto& [id, execution] : executions_) {
    if (!execution->mail.empty()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  for (const std::int64_t id : ids) {
    if (const auto found = executions_.find(id); found != executions_.end()) Serve(*found->second);
  }
  Submit();
  HandOut();
}

// ---- memory

void Lane::Forget(std::int64_t execution_id) {
  const auto found = executions_.find(execution_id);
  bytes_ -= found->second->bytes;
  if (found->second->resting) recent_.erase(found->second->place);
  executions_.erase(found);
  cached_.store(executions_.size(), std::memory_order_relaxed);
}

void Lane::Rest(Execution& execution) {
  if (!execution.loaded || execution.row.head == 0 || execution.row.terminal)
    return Forget(execution.id);
  bytes_ -= execution.bytes;
  execution.bytes = execution.Bytes();
  bytes_ += execution.bytes;
  if (execution.snapshot_seq == execution.state.seq && bytes_ > conductor_->LaneBytes())
    return Forget(execution.id);
  if (execution.resting) return;
  recent_.push_front(execution.id);
  execution.place = recent_.begin();
  execution.resting = true;
}

void Lane::Trim() {
  while (bytes_ > conductor_->LaneBytes() && !recent_.empty()) {
    Execution& oldest = *executions_.at(recent_.back());
    if (oldest.state.seq == oldest.snapshot_seq) {
      Forget(oldest.id);
      continue;
    }
    Touch(oldest.id);
    auto rows = std::make_unique<store::UnitRows>();
    rows->execution_id = oldest.id;
    const std::string text = engine::WriteSnapshot(oldest.state);
    rows->snapshot = {oldest.id, oldest.state.seq, oldest.state.highest_event_id, text};
    oldest.snapshot_seq = oldest.state.seq;
    bytes_ -= oldest.bytes;
    oldest.bytes = 0;
    oldest.in_flight = true;
    outgoing_.push_back(std::move(rows));
  }
  Submit();
}

}  // namespace noetl::conductor
