// Counts the events of one request on its way through the server.
//
// Made when the request comes, copied into whatever waits for the answer. Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "api/event_request.h"
#include "api/services.h"
#include "base/json.h"
#include "base/result.h"

namespace noetl::api {

class Ingest {
 public:
  explicit Ingest(Services& services);
  // The request was read, and so many events go on to be stored.
  void Read(std::size_t events);
  // The request is refused as a whole, with all events that it brought. Gives the error back.
  std::unexpected<Error> Refuse(std::span<const Json> events, const Error& error) const;
  // Before the answer: every event is stored or refused.
  void End(const PostOutcome& outcome) const;

 private:
  std::int64_t NowUs() const { return services_->clock->MonotonicMicros(); }

  Services* services_;
  std::int64_t began_us_;
  std::int64_t read_us_ = 0;
};

}  // namespace noetl::api
