// Where messages come from. A message stays with its source until it is answered; one that is not
// answered within `ack_wait_ms` comes again. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "worker/subscription/message.h"

namespace noetl::worker {

class Source {
 public:
  virtual ~Source() = default;

  // At most `count`; none when nothing came in time. An error is of the moment: asking again may
  // work.
  virtual Result<std::vector<Message>> Fetch(std::int64_t count, std::int64_t timeout_ms) = 0;

  // Done with it.
  virtual Status Ack(const Message& message) = 0;
  // It is to come again, not before the delay.
  virtual Status Nack(const Message& message, std::int64_t delay_ms) = 0;
  // It is not to come again.
  virtual Status Term(const Message& message) = 0;
  // It is still being worked on.
  virtual Status Extend(const Message& message) = 0;
  // The answers so far have left this process.
  virtual Status Flush() = 0;

  virtual std::int64_t ack_wait_ms() const = 0;
};

}  // namespace noetl::worker
