#include "worker/subscription/breaker.h"

namespace noetl::worker {

bool Breaker::Lets(std::int64_t now_ms) const {
  if (state_ == State::kClosed) return true;
  // A clock that was set back must not keep it open for long.
  return state_ == State::kOpen &&
         (now_ms - tried_at_ms_ >= probe_after_ms_ || now_ms < tried_at_ms_);
}

Breaker::Way Breaker::Ask(std::int64_t now_ms) {
  if (state_ == State::kClosed) return Way::kGo;
  if (!Lets(now_ms)) return Way::kHold;
  state_ = State::kHalfOpen;
  return Way::kProbe;
}

Breaker::Change Breaker::Succeeded() {
  const bool was_closed = closed();
  state_ = State::kClosed;
  failures_ = 0;
  return was_closed ? Change::kNone : Change::kClosed;
}

Breaker::Change Breaker::Failed(std::int64_t now_ms) {
  ++failures_;
  if (state_ == State::kClosed && failures_ < trip_after_) return Change::kNone;
  const bool opened = state_ == State::kClosed;
  state_ = State::kOpen;
  tried_at_ms_ = now_ms;
  if (!opened) return Change::kNone;
  opened_at_ms_ = now_ms;
  return Change::kOpened;
}

Json Breaker::ToJson() const {
  return Json::Object({{"state", closed() ? "closed" : "open"},
                       {"failures", failures_},
                       {"opened_at_ms", opened_at_ms_},
                       {"tried_at_ms", tried_at_ms_}});
}

void Breaker::Restore(const Json& json) {
  state_ = json["state"].AsString() == "open" ? State::kOpen : State::kClosed;
  failures_ = json["failures"].AsInt();
  opened_at_ms_ = json["opened_at_ms"].AsInt();
  tried_at_ms_ = json["tried_at_ms"].AsInt();
}

Breakers::Breakers(const CircuitSpec& spec) : fallback_(spec.downstream.front().name) {
  for (const DownstreamSpec& downstream : spec.downstream) {
    if (downstream.name == "default") fallback_ = "default";
    breakers_.try_emplace(downstream.name, spec.trip_after, spec.probe_after_ms);
  }
}

const std::string& Breakers::NameFor(const std::string& pool) const {
  const auto found = breakers_.find(pool);
  return found == breakers_.end() ? fallback_ : found->first;
}

Json Breakers::ToJson() const {
  JsonObjectBuilder json;
  for (const auto& [name, breaker] : breakers_) json.Add(name, breaker.ToJson());
  return json.Build();
}

void Breakers::Restore(const Json& json) {
  for (auto& [name, breaker] : breakers_) breaker.Restore(json[name]);
}

}  // namespace noetl::worker
