// Sessions of people who have logged in.
//
// A session is an opaque random token; only its digest is kept, in memory, so a restart ends all of
// them. They end after a day, and the one that ends first makes room when there are too many. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/sha256.h"

namespace noetl::api {

struct Session {
  std::string token;  // only in the answer of Open
  std::int64_t expires_at_us = 0;
};

class Sessions {
 public:
  static constexpr std::int64_t kLifeUs = 24LL * 3600 * 1'000'000;
  // More people than any one server has.
  static constexpr std::size_t kCountMax = 10'000;

  explicit Sessions(Clock* clock) : clock_(clock) {}

  Session Open();
  // The session of this token, unless it has ended.
  std::optional<Session> Find(std::string_view token) const;
  void Close(std::string_view token);
  std::size_t size() const;

 private:
  void MakeRoom();

  Clock* clock_;
  mutable std::mutex mutex_;
  std::map<Sha256Digest, std::int64_t> ends_;  // by the digest of the token
};

}  // namespace noetl::api
