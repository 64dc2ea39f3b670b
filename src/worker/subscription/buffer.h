// What stands between a listener and downstreams that may be away: their breakers, and the spool.
//
// Messages for a downstream whose breaker is open go into the spool, and so do those of a lane that
// has messages there already. `Drain` sends them once the breaker lets them. The breakers' states are
// kept beside the spool. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "worker/subscription/breaker.h"
#include "worker/subscription/dispatcher.h"
#include "worker/subscription/spec.h"
#include "worker/subscription/spool.h"
#include "worker/subscription/token_bucket.h"

namespace noetl::worker {

// Whether a downstream answers now.
using ProbeDownstream = std::function<bool(const DownstreamSpec&)>;

class Buffer {
 public:
  // All arguments outlive it.
  static Result<std::unique_ptr<Buffer>> Open(const SubscriptionSpec* spec, Clock* clock,
                                              EventSink events, ProbeDownstream probe);

  enum class Way {
    kDispatch,
    kSpool,
    kLeave,  // with the source, which brings it again
  };
  struct Route {
    Way way = Way::kDispatch;
    std::string reason;  // of the spool
  };
  const std::string& DownstreamOf(const std::string& pool) const { return breakers_.NameFor(pool); }
  // For a message that has come. After kDispatch the caller says what became of it.
  Route RouteOf(const std::string& downstream, const std::string& lane);
  void Report(const std::string& downstream, const DispatchOutcome& outcome);
  // For a message whose dispatch has failed, after the report.
  Way AfterFailure(const std::string& downstream);

  // False: there is no room, the message stays with its source.
  Result<bool> Put(SpoolItem item);
  MessageSpool& spool() { return *spool_; }

  // Asks downstreams that are away and can be asked, when it is time for it.
  void Probe();
  // Removes what is too old, once an hour.
  Status Expire();

  using Send = std::function<DispatchOutcome(const SpoolItem&)>;
  // Sends items for which it is time. `rate` is what dispatches may cost in all. Gives how many are
  // done with.
  Result<std::int64_t> Drain(const Send& send, TokenBucket& rate);
  // New messages are to wait: there are older ones that can go.
  bool blocks() const { return more_ && !spec_->spool.interleave; }

 private:
  Buffer(const SubscriptionSpec* spec, Clock* clock, EventSink events, ProbeDownstream probe,
         std::unique_ptr<MessageSpool> spool);
  Status Recover();
  void Save();
  void Tell(const std::string& downstream, Breaker::Change change, std::int64_t opened_at_ms);
  // One item; false: its lane waits.
  Result<bool> Replay(std::uint64_t seq, const Send& send, bool* away);
  Status Refused(SpoolItem item, const DispatchOutcome& outcome);

  const SubscriptionSpec* spec_;
  Clock* clock_;
  EventSink events_;
  ProbeDownstream probe_;
  std::unique_ptr<MessageSpool> spool_;
  Breakers breakers_;
  TokenBucket drain_rate_;
  std::map<std::string, std::int64_t> probed_ms_;
  std::int64_t drain_at_ms_ = 0;  // not before
  std::int64_t expired_ms_ = 0;
  bool more_ = false;      // items could go at once
  bool draining_ = false;  // and it has been told
};

}  // namespace noetl::worker
