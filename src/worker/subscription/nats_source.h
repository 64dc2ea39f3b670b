// Messages of a NATS JetStream stream, by way of a durable pull consumer.
//
// The consumer is made when there is none, and made again when somebody removes it. A connection that
// breaks is made anew for as long as it takes. The id of a message is its sequence in the stream. One
// thread; the library of NATS has threads of its own.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "worker/subscription/source.h"
#include "worker/subscription/spec.h"

namespace noetl::worker {

struct NatsSourceOptions {
  NatsPlace place;
  Clock* clock = nullptr;
};

class NatsSource : public Source {
 public:
  // Errors: "source_unreachable" (nobody answers, or does not let us in), "invalid" (no such stream,
  // a consumer that does not fit), with what to do.
  static Result<std::unique_ptr<NatsSource>> Open(NatsSourceOptions options);
  // What people should know about the consumer; empty: nothing.
  virtual const std::string& notice() const = 0;
};

// The address without user and password.
std::string NatsAddressForPeople(std::string_view url);

}  // namespace noetl::worker
