#include "worker/subscription/buffer.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/log.h"
#include "worker/subscription/durable_file.h"

namespace noetl::worker {
namespace {

using Kind = DispatchOutcome::Kind;

constexpr std::string_view kCircuitFile = "circuit.json";
// An item that was refused is not sent again before this.
constexpr std::int64_t kReplayPauseMs = 1'000;
// Between two looks at new messages.
constexpr std::int64_t kReplaysMax = 100;
constexpr std::int64_t kExpireMs = 3'600'000;

}  // namespace

Buffer::Buffer(const SubscriptionSpec* spec, Clock* clock, EventSink events, ProbeDownstream probe,
               std::unique_ptr<MessageSpool> spool)
    : spec_(spec),
      clock_(clock),
      events_(std::move(events)),
      probe_(std::move(probe)),
      spool_(std::move(spool)),
      breakers_(spec->spool.circuit),
      drain_rate_(spec->spool.drain_per_sec, clock->MonotonicMicros()) {}

Result<std::unique_ptr<Buffer>> Buffer::Open(const SubscriptionSpec* spec, Clock* clock,
                                             EventSink events, ProbeDownstream probe) {
  NOETL_ASSIGN(std::unique_ptr<MessageSpool> spool, MessageSpool::Open(spec->spool, spec->path));
  std::unique_ptr<Buffer> buffer(
      new Buffer(spec, clock, std::move(events), std::move(probe), std::move(spool)));
  NOETL_TRY(buffer->Recover());
  return buffer;
}

Status Buffer::Recover() {
  const auto circuit = ReadWholeFile(spool_->directory() + "/" + std::string(kCircuitFile));
  if (circuit) {
    if (const auto state = ParseJson(*circuit)) breakers_.Restore(*state);
  } else if (circuit.error().code != "not_found") {
    return std::unexpected(circuit.error());
  }
  for (const std::string& name : spool_->broken()) {
    events_("subscription.message.dead_lettered",
            Json::Object({{"file", spool_->dead_letters().directory() + "/" + name},
                          {"reason", "the file was damaged"}}));
  }
  if (spool_->entries().empty()) return {};
  events_("subscription.spool.recovered", Json::Object({{"messages", spool_->entries().size()},
                                                        {"bytes", spool_->bytes()},
                                                        {"path", spool_->directory()}}));
  return {};
}

// Losing it costs some failures until the breaker opens again: no reason to stop.
void Buffer::Save() {
  const Status saved = WriteDurably(spool_->directory(), std::string(kCircuitFile),
                                    WriteJson(breakers_.ToJson()) + "\n");
  if (!saved) LogWarn("the state of the circuit is not kept", {{"error", saved.error().message}});
}

// ---- breakers

void Buffer::Tell(const std::string& downstream, Breaker::Change change,
                  std::int64_t opened_at_ms) {
  if (change == Breaker::Change::kNone) return;
  Save();
  if (change == Breaker::Change::kOpened) {
    events_("subscription.circuit.opened",
            Json::Object(
                {{"downstream", downstream}, {"failures", breakers_.At(downstream).failures()}}));
    return;
  }
  drain_at_ms_ = 0;
  events_(
      "subscription.circuit.closed",
      Json::Object({{"downstream", downstream}, {"open_ms", clock_->NowMillis() - opened_at_ms}}));
}

void Buffer::Report(const std::string& downstream, const DispatchOutcome& outcome) {
  Breaker& breaker = breakers_.At(downstream);
  const bool answered = outcome.done() || outcome.kind == Kind::kRefused;
  const std::int64_t opened_at_ms = breaker.opened_at_ms();
  Tell(downstream, answered ? breaker.Succeeded() : breaker.Failed(clock_->NowMillis()),
       opened_at_ms);
}

void Buffer::Probe() {
  const std::int64_t now_ms = clock_->NowMillis();
  for (const DownstreamSpec& downstream : spec_->spool.circuit.downstream) {
    Breaker& breaker = breakers_.At(downstream.name);
    if (downstream.probe == DownstreamSpec::Probe::kPassive || breaker.closed()) continue;
    std::int64_t& probed_ms = probed_ms_[downstream.name];
    if (now_ms - probed_ms < spec_->spool.circuit.probe_interval_ms) continue;
    probed_ms = now_ms;
    const std::int64_t opened_at_ms = breaker.opened_at_ms();
    if (probe_(downstream)) Tell(downstream.name, breaker.Succeeded(), opened_at_ms);
  }
}

// ---- messages that come

Buffer::Way Buffer::AfterFailure(const std::string& downstream) {
  if (spec_->spool.mode == SpoolSpec::Mode::kBufferAndAck) return Way::kSpool;
  const Breaker& breaker = breakers_.At(downstream);
  const std::int64_t open_ms = clock_->NowMillis() - breaker.opened_at_ms();
  const bool patient =
      breaker.closed() || (open_ms >= 0 && open_ms < spec_->spool.hybrid_escalate_after_ms);
  return patient ? Way::kLeave : Way::kSpool;
}

Buffer::Route Buffer::RouteOf(const std::string& downstream, const std::string& lane) {
  if (!lane.empty() && spool_->HasLane(lane)) return {Way::kSpool, "ordering"};
  if (breakers_.At(downstream).Ask(clock_->NowMillis()) != Breaker::Way::kHold) return {};
  return {AfterFailure(downstream), "circuit_open"};
}

Result<bool> Buffer::Put(SpoolItem item) {
  item.spooled_at_ms = clock_->NowMillis();
  const Json about = Json::Object({{"message_id", item.message_id()},
                                   {"downstream", item.downstream},
                                   {"reason", item.reason}});
  const auto added = spool_->Add(std::move(item));
  if (!added && added.error().code != "full") return std::unexpected(added.error());
  if (!added || added->over) {
    events_("subscription.spool.alert", Json::Object({{"bytes", spool_->bytes()},
                                                      {"max_bytes", spec_->spool.max_bytes},
                                                      {"accepted", added.has_value()}}));
  }
  if (!added) return false;
  for (const MessageSpool::Entry& entry : added->given_up) {
    events_("subscription.message.dead_lettered",
            Json::Object({{"message_id", entry.message_id},
                          {"file", spool_->dead_letters().directory() + "/" + entry.name},
                          {"reason", "the spool is full"}}));
  }
  events_("subscription.message.spooled",
          about.With("ref", added->ref).With("spool_bytes", spool_->bytes()));
  return true;
}

// ---- messages that go

Status Buffer::Expire() {
  const std::int64_t now_ms = clock_->NowMillis();
  if (expired_ms_ != 0 && now_ms - expired_ms_ < kExpireMs) return {};
  expired_ms_ = now_ms;
  NOETL_ASSIGN(const auto expired, spool_->Expire(now_ms));
  for (const MessageSpool::Entry& entry : expired) {
    events_("subscription.message.dropped", Json::Object({{"message_id", entry.message_id},
                                                          {"reason", "older than max_age_hours"}}));
  }
  return {};
}

Status Buffer::Refused(SpoolItem item, const DispatchOutcome& outcome) {
  ++item.attempts;
  if (item.attempts < spec_->spool.max_replay_attempts) return spool_->Update(item);
  item.reason = outcome.error;
  NOETL_TRY(spool_->Update(item));
  const std::string name = spool_->entries().at(item.recv_seq).name;
  NOETL_TRY(spool_->GiveUp(item.recv_seq));
  events_("subscription.message.dead_lettered",
          Json::Object({{"message_id", item.message_id()},
                        {"file", spool_->dead_letters().directory() + "/" + name},
                        {"attempts", item.attempts},
                        {"reason", outcome.error}}));
  return {};
}

Result<bool> Buffer::Replay(std::uint64_t seq, const Send& send, bool* away) {
  const std::string& downstream = breakers_.NameFor(spool_->entries().at(seq).downstream);
  Result<SpoolItem> item = spool_->Read(seq);
  if (!item) {
    breakers_.At(downstream).Withdraw();
    const std::string name = spool_->entries().at(seq).name;
    NOETL_TRY(spool_->GiveUp(seq));
    events_("subscription.message.dead_lettered",
            Json::Object({{"file", spool_->dead_letters().directory() + "/" + name},
                          {"reason", item.error().message}}));
    return true;
  }
  const DispatchOutcome outcome = send(*item);
  Report(downstream, outcome);
  if (outcome.done()) {
    NOETL_TRY(spool_->Remove(seq));
    events_("subscription.message.replayed",
            Json::Object({{"message_id", item->message_id()},
                          {"execution_id", outcome.execution_id},
                          {"status", outcome.kind == Kind::kStarted ? "started" : "duplicate"},
                          {"attempts", item->attempts + 1}}));
    return true;
  }
  *away = outcome.kind != Kind::kRefused;
  // Nobody was there: that says nothing about the message.
  if (outcome.kind == Kind::kUnavailable) return false;
  NOETL_TRY(Refused(*std::move(item), outcome));
  return !spool_->entries().contains(seq);
}

Result<std::int64_t> Buffer::Drain(const Send& send, TokenBucket& rate) {
  more_ = false;
  std::int64_t done = 0;
  const std::int64_t now_ms = clock_->NowMillis();
  if (spool_->entries().empty() || now_ms < drain_at_ms_) return done;
  std::set<std::string> stalled;  // lanes
  std::set<std::string> away;     // downstreams
  const MessageSpool::Entries& entries = spool_->entries();
  for (auto entry = entries.begin(); entry != entries.end();) {
    const std::uint64_t seq = entry->first;
    const std::string lane = entry->second.lane;
    const std::string downstream = breakers_.NameFor(entry->second.downstream);
    ++entry;
    if (stalled.contains(lane) || away.contains(downstream)) continue;
    const std::int64_t now_us = clock_->MonotonicMicros();
    if (done >= kReplaysMax || drain_rate_.Available(now_us) < 1 || rate.Available(now_us) < 1) {
      more_ = true;
      break;
    }
    if (breakers_.At(downstream).Ask(clock_->NowMillis()) == Breaker::Way::kHold) {
      away.insert(downstream);
      if (away.size() == spec_->spool.circuit.downstream.size()) break;
      continue;
    }
    if (!std::exchange(draining_, true))
      events_("subscription.spool.draining", Json::Object({{"messages", entries.size()}}));
    drain_rate_.Take(1, now_us);
    rate.Take(1, now_us);
    bool gone = false;
    NOETL_ASSIGN(const bool settled, Replay(seq, send, &gone));
    if (gone) away.insert(downstream);
    if (settled) ++done;
    else if (!lane.empty()) stalled.insert(lane);
    if (!settled) drain_at_ms_ = now_ms + kReplayPauseMs;
  }
  if (entries.empty()) draining_ = false;
  return done;
}

}  // namespace noetl::worker
