#include "worker/subscription/listener.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "worker/subscription/spool.h"

namespace noetl::worker {
namespace {

using Kind = DispatchOutcome::Kind;

constexpr std::int64_t kStateUs = 5'000'000;
constexpr std::int64_t kPausedUs = 500'000;
// A wait for a limit is at least this, so that the loop does not spin, and at most that, so that it
// sees when it is told to stop.
constexpr std::int64_t kLimitLeastUs = 20'000;
constexpr std::int64_t kLimitMostUs = 500'000;
// Runs that have ended are noticed so late.
constexpr std::int64_t kCountUs = 1'000'000;
constexpr std::int64_t kCountAtLimitUs = 100'000;
// A source that does not work is not asked all the time.
constexpr std::int64_t kSourcePauseUs = 1'000'000;
constexpr std::int64_t kRedeliveryMsMax = 60'000;
// Of the time after which a message would come again, when it is prolonged.
constexpr std::int64_t kExtendPart = 3;

}  // namespace

std::int64_t RedeliveryDelayMs(std::int64_t delivered) {
  const std::int64_t doublings = std::clamp<std::int64_t>(delivered, 0, 6);
  return std::min(std::int64_t{1'000} << doublings, kRedeliveryMsMax);
}

Listener::Listener(ListenerOptions options)
    : options_(std::move(options)),
      spec_(*options_.spec),
      rate_(spec_.max_dispatch_per_sec, options_.clock->MonotonicMicros()) {}

// ---- the loop

Status Listener::Run() {
  const std::int64_t now_us = options_.clock->MonotonicMicros();
  active_us_ = now_us;
  state_us_ = now_us - kStateUs;
  counted_us_ = now_us - kCountUs;
  while (true) {
    NOETL_ASSIGN(const bool go_on, Turn());
    if (!go_on) break;
  }
  Answered(options_.source->Flush());
  return {};
}

Result<bool> Listener::Turn() {
  Clock& clock = *options_.clock;
  if (options_.stop() || !FollowState()) return false;
  if (state_ == "PAUSED") {
    active_us_ = clock.MonotonicMicros();
    clock.SleepMicros(kPausedUs);
    return true;
  }
  NOETL_TRY(Drain());
  if (options_.messages_max > 0 && settled_ >= options_.messages_max) return false;
  const bool blocked = options_.buffer && options_.buffer->blocks();
  const std::int64_t room = blocked ? 0 : Room();
  if (room <= 0) {
    clock.SleepMicros(
        std::clamp(rate_.WaitMicros(clock.MonotonicMicros()), kLimitLeastUs, kLimitMostUs));
    return true;
  }
  auto messages = options_.source->Fetch(room, spec_.timeout_ms);
  if (!messages) {
    Complain(messages.error().message, &source_complaint_);
    clock.SleepMicros(kSourcePauseUs);
    return !IdleTooLong();
  }
  source_complaint_.clear();
  if (messages->empty()) return !IdleTooLong();
  NOETL_TRY(Handle(*std::move(messages)));
  active_us_ = clock.MonotonicMicros();
  return true;
}

bool Listener::FollowState() {
  const std::int64_t now_us = options_.clock->MonotonicMicros();
  // A pause should not take long to end.
  const std::int64_t every_us = state_ == "PAUSED" ? kPausedUs : kStateUs;
  if (now_us - state_us_ < every_us) return true;
  state_us_ = now_us;
  Result<std::string> state = options_.dispatcher->State();
  if (!state) return true;  // dispatches tell that it is away
  const std::string before = std::exchange(state_, *std::move(state));
  if (state_ == before) return true;
  struct Event {
    std::string_view state;
    std::string_view type;
  };
  constexpr Event kEvents[] = {{"PAUSED", "subscription.paused"},
                               {"ACTIVE", "subscription.resumed"},
                               {"DRAINING", "subscription.draining"},
                               {"DEACTIVATED", "subscription.deactivated"}};
  for (const Event& event : kEvents) {
    if (event.state == state_) options_.events(event.type, Json::Object({{"state", state_}}));
  }
  return state_ != "DRAINING" && state_ != "DEACTIVATED";
}

Status Listener::Drain() {
  if (!options_.buffer) return {};
  Buffer& buffer = *options_.buffer;
  buffer.Probe();
  NOETL_TRY(buffer.Expire());
  const auto send = [this](const SpoolItem& item) {
    const Plan plan = PlanFromJson(item.plan);
    const DispatchRequest request = RequestOf(plan, item.message, item.body);
    return options_.dispatcher->Dispatch({&request, 1}).front();
  };
  NOETL_ASSIGN(const std::int64_t done, buffer.Drain(send, rate_));
  totals_.replayed += done;
  if (done > 0) active_us_ = options_.clock->MonotonicMicros();
  return {};
}

bool Listener::IdleTooLong() {
  return options_.idle_ms_max > 0 && options_.clock->MonotonicMicros() - active_us_ >=
                                         options_.idle_ms_max * std::int64_t{1'000};
}

// ---- limits

void Listener::Limited(std::string_view reason, const Json& about) {
  if (std::exchange(limited_, true)) return;
  options_.events("subscription.rate_limited", Json::Object({{"reason", reason}}).Merge(about));
}

// How many messages may be taken now.
std::int64_t Listener::Room() {
  const std::int64_t now_us = options_.clock->MonotonicMicros();
  std::int64_t room = spec_.batch;
  if (options_.messages_max > 0) room = std::min(room, options_.messages_max - settled_);
  const std::int64_t wanted = room;
  room = std::min(room, rate_.Available(now_us));
  if (room <= 0) {
    Limited("dispatch_rate", Json::Object({{"max_dispatch_per_sec", spec_.max_dispatch_per_sec}}));
    return 0;
  }
  if (spec_.max_in_flight > 0) {
    const bool full = in_flight_ >= spec_.max_in_flight;
    if (now_us - counted_us_ >= (full ? kCountAtLimitUs : kCountUs)) {
      counted_us_ = now_us;
      if (const auto count = options_.dispatcher->InFlight(spec_.max_in_flight))
        in_flight_ = *count;
    }
    room = std::min(room, spec_.max_in_flight - in_flight_);
    if (room <= 0) {
      Limited("max_in_flight", Json::Object({{"max_in_flight", spec_.max_in_flight}}));
      return 0;
    }
  }
  if (room == wanted) limited_ = false;
  return room;
}

// ---- messages

Status Listener::Handle(std::vector<Message> messages) {
  extended_us_ = options_.clock->MonotonicMicros();
  // With a spool one message decides about the next one.
  if (spec_.batch_dispatch && !options_.buffer) {
    NOETL_TRY(HandleBatch(std::move(messages)));
  } else {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Extend(std::span(messages).subspan(i));
      NOETL_TRY(HandleOne(std::move(messages[i])));
    }
  }
  Answered(options_.source->Flush());
  return {};
}

Status Listener::HandleOne(Message message) {
  Work work = Begin(std::move(message));
  if (options_.buffer) {
    const Buffer::Route route = options_.buffer->RouteOf(work.downstream, work.lane);
    if (route.way != Buffer::Way::kDispatch) return SpoolOrLeave(work, route.way, route.reason);
  }
  const DispatchRequest request = RequestOf(work.plan, work.json, BodyText(work.message.data));
  rate_.Take(1, options_.clock->MonotonicMicros());
  return Settle(work, options_.dispatcher->Dispatch({&request, 1}).front());
}

Status Listener::HandleBatch(std::vector<Message> messages) {
  const auto most = static_cast<std::size_t>(spec_.batch_max);
  for (std::size_t first = 0; first < messages.size(); first += most) {
    Extend(std::span(messages).subspan(first));
    std::vector<Work> works;
    std::vector<DispatchRequest> requests;
    for (std::size_t i = first; i < std::min(messages.size(), first + most); ++i) {
      works.push_back(Begin(std::move(messages[i])));
      const Work& work = works.back();
      requests.push_back(RequestOf(work.plan, work.json, BodyText(work.message.data)));
    }
    rate_.Take(std::ssize(requests), options_.clock->MonotonicMicros());
    const std::vector<DispatchOutcome> outcomes = options_.dispatcher->Dispatch(requests);
    for (std::size_t i = 0; i < works.size(); ++i) NOETL_TRY(Settle(works[i], outcomes[i]));
  }
  return {};
}

Listener::Work Listener::Begin(Message message) {
  ++totals_.received;
  Work work{.message = std::move(message)};
  work.json = MessageJson(work.message);
  work.plan = PlanOf(spec_, work.json);
  if (options_.buffer) {
    work.downstream = options_.buffer->DownstreamOf(work.plan.pool);
    work.lane = LaneOf(spec_.spool, work.json);
  }
  options_.events("subscription.message.received",
                  Json::Object({{"message_id", work.message.id},
                                {"delivered", work.message.delivered},
                                {"metadata", work.message.metadata}}));
  return work;
}

DispatchRequest Listener::RequestOf(const Plan& plan, const Json& message,
                                    const std::string& body) const {
  return {.playbook = plan.playbook,
          .pool = plan.pool,
          .payload = PayloadOf(spec_, plan, message, body),
          .trace = plan.trace,
          .dedup_key = plan.dedup_key,
          .dedup_window_secs = plan.dedup_window_secs,
          .audit = AuditOf(plan, message["id"].AsString())};
}

Status Listener::Settle(const Work& work, const DispatchOutcome& outcome) {
  if (options_.buffer) options_.buffer->Report(work.downstream, outcome);
  if (outcome.done()) {
    dispatch_complaint_.clear();
    TellStart(work, outcome);
    Ack(work);
    return {};
  }
  Complain(outcome.error, &dispatch_complaint_);
  if (outcome.kind == Kind::kRefused) {
    if (work.message.delivered >= spec_.max_deliver) return GiveUp(work, outcome.error);
    Nack(work, outcome.error);
    return {};
  }
  if (options_.buffer) {
    return SpoolOrLeave(work, options_.buffer->AfterFailure(work.downstream), outcome.error);
  }
  Nack(work, outcome.error);
  return {};
}

void Listener::TellStart(const Work& work, const DispatchOutcome& outcome) {
  const bool fresh = outcome.kind == Kind::kStarted;
  ++(fresh ? totals_.started : totals_.duplicates);
  if (fresh) ++in_flight_;
  options_.events("subscription.message.dispatched",
                  Json::Object({{"message_id", work.message.id},
                                {"execution_id", outcome.execution_id},
                                {"playbook", work.plan.playbook},
                                {"status", fresh ? "started" : "duplicate"}}));
  const Json audit = AuditOf(work.plan, work.message.id);
  if (fresh && !audit.is_null()) {
    options_.events("subscription.message.directives_applied",
                    audit.With("execution_id", outcome.execution_id));
  }
}

SpoolItem Listener::ItemOf(const Work& work, std::string reason) const {
  SpoolItem item{.subscription = spec_.path,
                 .source = spec_.source,
                 .lane = work.lane,
                 .downstream = work.downstream,
                 .spooled_at_ms = options_.clock->NowMillis(),
                 .reason = std::move(reason),
                 .message = work.json,
                 .plan = PlanToJson(work.plan)};
  if (spec_.payload_from == PayloadFrom::kBody) item.body = BodyText(work.message.data);
  return item;
}

Status Listener::SpoolOrLeave(const Work& work, Buffer::Way way, const std::string& reason) {
  if (way != Buffer::Way::kSpool) {
    Nack(work, reason);
    return {};
  }
  NOETL_ASSIGN(const bool kept, options_.buffer->Put(ItemOf(work, reason)));
  if (!kept) {
    Nack(work, "the spool is full");
    return {};
  }
  ++totals_.spooled;
  Ack(work);
  return {};
}

// On the disk before the source lets it go.
Status Listener::GiveUp(const Work& work, const std::string& reason) {
  SpoolItem item = ItemOf(work, reason);
  item.attempts = work.message.delivered;
  DeadLetters fallback(options_.dead_letters);
  item.recv_seq = options_.buffer ? options_.buffer->spool().TakeSeq()
                                  : static_cast<std::uint64_t>(item.spooled_at_ms);
  NOETL_ASSIGN(const std::string file,
               (options_.buffer ? options_.buffer->spool().dead_letters() : fallback).Write(item));
  ++totals_.dead_lettered;
  ++settled_;
  options_.events("subscription.message.dead_lettered",
                  Json::Object({{"message_id", work.message.id},
                                {"file", file},
                                {"attempts", work.message.delivered},
                                {"reason", reason}}));
  Answered(options_.source->Term(work.message));
  return {};
}

// ---- answers to the source

void Listener::Ack(const Work& work) {
  ++settled_;
  const Status answer = options_.source->Ack(work.message);
  Answered(answer);
  if (answer) {
    options_.events("subscription.message.acked", Json::Object({{"message_id", work.message.id}}));
  }
}

void Listener::Nack(const Work& work, const std::string& reason) {
  ++totals_.nacked;
  const std::int64_t delay_ms = RedeliveryDelayMs(work.message.delivered);
  Answered(options_.source->Nack(work.message, delay_ms));
  options_.events("subscription.message.nacked",
                  Json::Object({{"message_id", work.message.id},
                                {"delivered", work.message.delivered},
                                {"delay_ms", delay_ms},
                                {"reason", reason}}));
}

// An answer that is lost brings the message once more, and its key keeps it from starting a second
// run.
void Listener::Answered(const Status& answer) {
  if (!answer) Complain(answer.error().message, &source_complaint_);
}

void Listener::Extend(std::span<const Message> messages) {
  const std::int64_t now_us = options_.clock->MonotonicMicros();
  const std::int64_t part_us = options_.source->ack_wait_ms() * 1'000 / kExtendPart;
  if (now_us - extended_us_ < part_us) return;
  extended_us_ = now_us;
  for (const Message& message : messages) Answered(options_.source->Extend(message));
}

void Listener::Complain(const std::string& problem, std::string* last) {
  if (*last == problem) return;
  *last = problem;
  options_.complain(problem);
}

}  // namespace noetl::worker
