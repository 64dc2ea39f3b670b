// Whether messages may be sent to a downstream, by what became of those before.
//
// Closed: all go. After `trip_after` failures in a row it opens: none go, until `probe_after_ms` have
// passed; then one goes as a probe (half open) while the others still wait. The probe's success closes
// it, its failure opens it again. Time comes as an argument, in milliseconds of the wall clock, for
// the state outlives the process. Pure, one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "worker/subscription/spec.h"

namespace noetl::worker {

class Breaker {
 public:
  enum class Way { kGo, kProbe, kHold };
  enum class Change { kNone, kOpened, kClosed };

  Breaker(std::int64_t trip_after, std::int64_t probe_after_ms)
      : trip_after_(trip_after), probe_after_ms_(probe_after_ms) {}

  bool closed() const { return state_ == State::kClosed; }
  std::int64_t opened_at_ms() const { return opened_at_ms_; }
  std::int64_t failures() const { return failures_; }

  // kProbe makes it half open: the caller sends one message and tells what became of it.
  Way Ask(std::int64_t now_ms);
  // Whether Ask would let one go.
  bool Lets(std::int64_t now_ms) const;
  // The probe was not sent after all.
  void Withdraw() {
    if (state_ == State::kHalfOpen) state_ = State::kOpen;
  }
  Change Succeeded();
  Change Failed(std::int64_t now_ms);

  Json ToJson() const;
  // A probe that was under way is forgotten.
  void Restore(const Json& json);

 private:
  enum class State { kClosed, kOpen, kHalfOpen };

  std::int64_t trip_after_;
  std::int64_t probe_after_ms_;
  State state_ = State::kClosed;
  std::int64_t failures_ = 0;      // in a row
  std::int64_t opened_at_ms_ = 0;  // the first time since it was closed
  std::int64_t tried_at_ms_ = 0;   // when it opened, or the last probe failed
};

// The breakers of the downstreams of one subscription, by name.
class Breakers {
 public:
  explicit Breakers(const CircuitSpec& spec);

  // That of the pool when there is one, else "default", else the first.
  const std::string& NameFor(const std::string& pool) const;
  Breaker& At(const std::string& name) { return breakers_.at(name); }

  Json ToJson() const;
  void Restore(const Json& json);

 private:
  std::string fallback_;
  std::map<std::string, Breaker> breakers_;
};

}  // namespace noetl::worker
