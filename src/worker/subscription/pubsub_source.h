// Messages of a Pub/Sub subscription, over its REST interface.
//
// An http:// endpoint (an emulator) is asked without a login, others with the token. Pub/Sub has no way
// to give a message up: it is acknowledged. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "worker/subscription/source.h"
#include "worker/subscription/spec.h"

namespace noetl::worker {

// One of the `receivedMessages` of a pull. `delivered` is what we counted, for subscriptions that do
// not count.
Message PubSubMessage(const Json& received, std::int64_t delivered);

class PubSubSource final : public Source {
 public:
  // Errors: "source_unreachable" (nobody answers, or does not let us in), "invalid" (there is no such
  // subscription). The clock outlives it.
  static Result<std::unique_ptr<PubSubSource>> Open(PubSubPlace place, Clock* clock);
  ~PubSubSource() override;
  PubSubSource(const PubSubSource&) = delete;
  PubSubSource& operator=(const PubSubSource&) = delete;

  Result<std::vector<Message>> Fetch(std::int64_t count, std::int64_t timeout_ms) override;
  Status Ack(const Message& message) override;
  Status Nack(const Message& message, std::int64_t delay_ms) override;
  Status Term(const Message& message) override { return Ack(message); }
  Status Extend(const Message& message) override;
  Status Flush() override { return {}; }  // every answer was a request of its own
  std::int64_t ack_wait_ms() const override { return ack_wait_ms_; }

 private:
  PubSubSource(PubSubPlace place, Clock* clock);
  // The body of a good answer. `action` is ":pull" and so on; null body: GET.
  Result<Json> Call(const std::string& action, const Json& body);
  std::unexpected<Error> Refusal(long status, const std::string& text) const;
  Status SetDeadline(const Message& message, std::int64_t seconds);

  PubSubPlace place_;
  Clock* clock_;
  void* handle_;  // CURL*
  std::int64_t ack_wait_ms_ = 10'000;
  std::map<std::string, std::int64_t> delivered_;  // messages that came and were not acknowledged
};

}  // namespace noetl::worker
