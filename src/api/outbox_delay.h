// How long a copy of an event waits after it could not be published. Pure, any thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace noetl::api {

// Doubles with every attempt, from 1 to 256 seconds, and is never more than `max_seconds`.
constexpr std::int64_t OutboxDelaySeconds(std::int64_t attempts, std::int64_t max_seconds) {
  constexpr std::int64_t kDoublingsMax = 8;
  const std::int64_t doublings =
      attempts <= 1 ? 0 : std::min<std::int64_t>(attempts - 1, kDoublingsMax);
  return std::min(max_seconds, std::int64_t{1} << doublings);
}

}  // namespace noetl::api
