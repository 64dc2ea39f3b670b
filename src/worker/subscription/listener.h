// The loop of one subscription: messages of a source become runs.
//
// A message is acknowledged after its run was accepted, or after it is on the disk; never before. When
// nobody answers, it comes again later; when it is refused too often, it is written to the dead letters
// and taken from the source. Deliveries of one message carry one key, so that they start one run. One
// thread; source, dispatcher and clock outlive the listener.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/subscription/buffer.h"
#include "worker/subscription/dispatcher.h"
#include "worker/subscription/plan.h"
#include "worker/subscription/source.h"
#include "worker/subscription/spec.h"
#include "worker/subscription/token_bucket.h"

namespace noetl::worker {

// How long a message that was delivered so often is to stay away: 2 s, 4 s, ... at most a minute.
std::int64_t RedeliveryDelayMs(std::int64_t delivered);

struct ListenerOptions {
  const SubscriptionSpec* spec = nullptr;
  Source* source = nullptr;
  Dispatcher* dispatcher = nullptr;
  Clock* clock = nullptr;
  Buffer* buffer = nullptr;    // null: there is no spool
  std::string dead_letters;    // a directory, for when there is none
  EventSink events;            // one call for each event
  std::function<bool()> stop;  // asked between two batches
  // For people: what the source or the server complains about, once until it works again.
  std::function<void(const std::string&)> complain;
  std::int64_t messages_max = 0;  // ends after so many were settled; 0: goes on
  std::int64_t idle_ms_max = 0;   // ends when nothing came for so long; 0: goes on
};

class Listener {
 public:
  explicit Listener(ListenerOptions options);

  struct Totals {
    std::int64_t received = 0;
    std::int64_t started = 0;
    std::int64_t duplicates = 0;
    std::int64_t nacked = 0;
    std::int64_t spooled = 0;
    std::int64_t replayed = 0;
    std::int64_t dead_lettered = 0;
  };
  // Until it is told to stop, or the state says so. An error is of the disk: nothing can be promised
  // any more.
  Status Run();
  const Totals& totals() const { return totals_; }
  // What the dispatcher said last; "ACTIVE" at first.
  const std::string& state() const { return state_; }

 private:
  // A message on its way.
  struct Work {
    Message message;
    Json json;
    Plan plan;
    std::string downstream;
    std::string lane;
  };

  // False: it is time to end.
  Result<bool> Turn();
  bool FollowState();
  std::int64_t Room();
  void Limited(std::string_view reason, const Json& about);
  bool IdleTooLong();
  Status Drain();

  Status Handle(std::vector<Message> messages);
  Status HandleOne(Message message);
  Status HandleBatch(std::vector<Message> messages);
  Work Begin(Message message);
  DispatchRequest RequestOf(const Plan& plan, const Json& message, const std::string& body) const;
  Status Settle(const Work& work, const DispatchOutcome& outcome);
  Status SpoolOrLeave(const Work& work, Buffer::Way way, const std::string& reason);
  Status GiveUp(const Work& work, const std::string& reason);
  SpoolItem ItemOf(const Work& work, std::string reason) const;
  void TellStart(const Work& work, const DispatchOutcome& outcome);
  void Ack(const Work& work);
  void Nack(const Work& work, const std::string& reason);
  void Answered(const Status& answer);
  void Extend(std::span<const Message> messages);
  // Once for each problem, until it is over.
  void Complain(const std::string& problem, std::string* last);

  ListenerOptions options_;
  const SubscriptionSpec& spec_;
  Totals totals_;
  std::string state_ = "ACTIVE";
  TokenBucket rate_;
  std::int64_t state_us_ = 0;     // when it was asked for
  std::int64_t active_us_ = 0;    // when something happened
  std::int64_t extended_us_ = 0;  // when the batch was fetched, or prolonged
  std::int64_t in_flight_ = 0;    // runs; may have ended since they were counted
  std::int64_t counted_us_ = 0;
  std::int64_t settled_ = 0;
  bool limited_ = false;
  std::string source_complaint_;
  std::string dispatch_complaint_;
};

}  // namespace noetl::worker
