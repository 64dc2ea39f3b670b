// Remote workers at the conductor's end: questions for work, leases, reports.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "conductor/conductor.h"
#include "conductor/lane.h"

namespace noetl::conductor {

namespace {

// Leases that are looked at in one wake-up; more follow at once.
constexpr std::size_t kExpiredMax = 1'000;
// Workers whose last question is remembered; beyond it the ones without an open question go.
constexpr std::size_t kQuestionsMax = 10'000;

}  // namespace

// ---- one command by its id

void Conductor::Claim(ClaimCall call, ClaimDone done) {
  const auto row = options_.store->FindCommand(call.event_id);
  if (!row) return done(std::unexpected(row.error()));
  if (!*row || (*row)->server_run) {
    return done(std::unexpected(
        Error{"not_found", fmt::format("there is no command {} to claim", call.event_id)}));
  }
  const std::int64_t id = (*row)->execution_id;
  ClaimMail mail{.command_id = (*row)->id, .event_id = call.event_id};
  mail.seat = {Door::kClaim, std::move(call.worker_id), std::move(call.request_id), nullptr};
  mail.done = std::move(done);
  LaneOf(id).Deliver(id, std::move(mail));
}

// ---- work by a long poll

void Conductor::Lease(LeaseCall call, std::move_only_function<void(std::vector<Claimed>)> answer) {
  // What nobody hears of is given back at once instead of being lost with its lease.
  std::move_only_function<void(std::vector<Claimed>)> done =
      [this, worker_id = call.worker_id, gone = call.gone,
       answer = std::move(answer)](std::vector<Claimed> commands) mutable {
        if (gone && gone()) {
          for (const Claimed& claimed : commands)
            Release(worker_id, {claimed.grant.event_id, claimed.grant.claim_token}, [](Status) {});
          commands.clear();
        }
        answer(std::move(commands));
      };
  auto poll = std::make_shared<Poll>();
  if (!call.request_id.empty()) {
    std::unique_lock lock(questions_mutex_);
    Question& question = questions_[call.worker_id];
    if (question.request_id == call.request_id) {
      const std::shared_ptr<Poll> open = question.poll;
      std::vector<Claimed> answer = question.answer;
      lock.unlock();
      if (open && dispatch_.Redirect(open, call.gone, done)) return;
      // Answered before: again, as far as it is still true.
      std::erase_if(answer, [&](const Claimed& claimed) {
        const auto lease = leases_.Find(claimed.grant.event_id);
        return !lease || lease->worker_id != call.worker_id ||
               lease->claim_token != claimed.grant.claim_token;
      });
      for (Claimed& claimed : answer) claimed.repeated = true;
      return done(std::move(answer));
    }
    question = {call.request_id, poll, {}};
    if (questions_.size() > kQuestionsMax) {
      std::erase_if(questions_, [&](const auto& entry) { return entry.second.poll == nullptr; });
    }
  }
  const std::int64_t wait_ms = std::clamp<std::int64_t>(call.wait_ms, 0, kLeaseWaitMsMax);
  call.max = std::clamp(call.max, 1, kLeaseMax);
  poll->until_us = options_.clock->MonotonicMicros() + wait_ms * 1'000;
  poll->call = std::move(call);
  poll->done = std::move(done);
  poll->remember = [this](Poll& answered) {
    if (answered.call.request_id.empty()) return;
    const std::lock_guard lock(questions_mutex_);
    const auto question = questions_.find(answered.call.worker_id);
    if (question == questions_.end() || question->second.request_id != answered.call.request_id)
      return;
    question->second.poll = nullptr;
    question->second.answer = answered.granted;
  };
  dispatch_.AddPoll(poll);
  Offer();
  if (wait_ms > 0 && !poll->closed) ArmWorkers(poll->until_us);
  else dispatch_.Expire(poll);
}

// ---- reports

void Conductor::Post(PostCall call, std::move_only_function<void(Result<PostAnswer>)> done) {
  const std::int64_t id = call.execution_id;
  Lane& lane = LaneOf(id);
  if (std::optional<Error> refusal = lane.PostRefusal())
    return done(std::unexpected(*std::move(refusal)));
  lane.Deliver(id, PostMail{std::move(call), std::move(done), {}});
}

void Conductor::Callback(CallbackCall call,
                         std::move_only_function<void(Result<CallbackAnswer>)> done) {
  const std::int64_t id = call.execution_id;
  CallbackMail mail;
  mail.call = std::move(call);
  mail.done = std::move(done);
  LaneOf(id).Deliver(id, std::move(mail));
}

void Conductor::FindSecret(std::string alias, std::int64_t execution_id, Loaded found) {
  if (options_.secrets)
    return options_.secrets->FindSecret(std::move(alias), execution_id, std::move(found));
  found(std::unexpected(Error{"not_found", fmt::format("there is no credential '{}'", alias)}));
}

// ---- leases

RenewAnswer Conductor::Renew(std::string_view worker_id, std::span<const Holding> holdings) {
  return leases_.Renew(worker_id, holdings, options_.clock->MonotonicMicros());
}

void Conductor::RenewClaims(std::string_view worker_id) {
  leases_.RenewClaims(worker_id, options_.clock->MonotonicMicros());
}

void Conductor::Release(std::string_view worker_id, Holding holding,
                        std::move_only_function<void(Status)> done) {
  const std::optional<conductor::Lease> lease = leases_.Find(holding.event_id);
  if (!lease) {
    const auto row = options_.store->FindCommand(holding.event_id);
    const bool known = row && *row;
    return done(Fail(known ? "stale_claim" : "not_found",
                     fmt::format("command {} is not held by anybody", holding.event_id)));
  }
  const bool stale = holding.claim_token != 0 && holding.claim_token != lease->claim_token;
  if (lease->worker_id != worker_id || stale) {
    return done(Fail("stale_claim", fmt::format("command {} is not held by {} with this token",
                                                lease->command_id, worker_id)));
  }
  ReturnMail mail;
  mail.lease = *lease;
  mail.done = std::move(done);
  LaneOf(lease->execution_id).Deliver(lease->execution_id, std::move(mail));
}

void Conductor::ReleaseAll(std::string_view worker_id, bool counts) {
  dispatch_.ExpireAll(worker_id);
  {
    const std::lock_guard lock(questions_mutex_);
    if (const auto found = questions_.find(worker_id); found != questions_.end())
      questions_.erase(found);
  }
  for (const conductor::Lease& lease : leases_.Of(worker_id)) {
    ReturnMail mail;
    mail.lease = lease;
    mail.reason = counts ? ReturnMail::Reason::kGone : ReturnMail::Reason::kReleased;
    LaneOf(lease.execution_id).Deliver(lease.execution_id, std::move(mail));
  }
}

// A claim that an earlier process of the server had given: its worker has as long as for a new one.
void Conductor::Readopt(const store::CommandRow& command) {
  const auto claimed = options_.store->FindWorkerEvent(command.command_id, "command.claimed");
  const bool leased = claimed && *claimed && (*claimed)->meta["door"].AsString() == kLeaseDoor;
  const Door door = leased ? Door::kLease : Door::kClaim;
  const std::int64_t now_us = options_.clock->MonotonicMicros();
  ArmWorkers(leases_.Add({.event_id = command.command_id,
                          .execution_id = command.execution_id,
                          .command_id = command.id,
                          .worker_id = command.worker_id,
                          .claim_token = command.claim_token,
                          .door = door,
                          .claimed_at_us = now_us},
                         now_us));
}

void Conductor::ArmWorkers(std::int64_t due_us) {
  std::int64_t armed = workers_due_us_.load(std::memory_order_relaxed);
  if (armed != 0 && armed <= due_us) return;  // it will look again then
  lanes_.front()->reactor()->Post([this, due_us] {
    if (workers_timer_ != 0 && workers_us_ <= due_us) return;
    Reactor* reactor = lanes_.front()->reactor();
    if (workers_timer_ != 0) reactor->CancelTimer(workers_timer_);
    workers_us_ = due_us;
    workers_due_us_.store(due_us, std::memory_order_relaxed);
    const std::int64_t wait_us = due_us - options_.clock->MonotonicMicros();
    workers_timer_ = reactor->After(std::max(wait_us, std::int64_t{0}), [this] { OnWorkers(); });
  });
}

void Conductor::OnWorkers() {
  workers_timer_ = 0;
  workers_due_us_.store(0, std::memory_order_relaxed);
  const std::int64_t now_us = options_.clock->MonotonicMicros();
  const std::vector<conductor::Lease> expired = leases_.Expired(now_us, kExpiredMax);
  Tallies& tallies = lanes_.front()->tallies();  // we are on its thread
  tallies.Add(Tally::kLeasesEnded, std::ssize(expired));
  if (expired.size() == kExpiredMax) tallies.Add(Tally::kLeaseLooksFull);
  for (const conductor::Lease& lease : expired) {
    ReturnMail mail;
    mail.lease = lease;
    mail.reason = ReturnMail::Reason::kExpired;
    LaneOf(lease.execution_id).Deliver(lease.execution_id, std::move(mail));
  }
  std::optional<std::int64_t> next = dispatch_.ExpireDue(now_us);
  if (const auto lease = leases_.NextDueUs()) next = std::min(next.value_or(*lease), *lease);
  // What has just been sent is still here: a moment later it is not, or it is tried again.
  constexpr std::int64_t kAgainUs = 100'000;
  if (next) ArmWorkers(std::max(*next, expired.empty() ? now_us : now_us + kAgainUs));
}

}  // namespace noetl::conductor
