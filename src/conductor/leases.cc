#include "conductor/leases.h"

#include <algorithm>

namespace noetl::conductor {

std::int64_t Leases::LengthUs(Door door) const {
  return door == Door::kLease ? policy_.lease_us : policy_.claim_us;
}

void Leases::Extend(Lease& lease, std::int64_t now_us) {
  due_.erase({lease.until_us, lease.event_id});
  lease.until_us = now_us + LengthUs(lease.door);
  if (lease.door == Door::kClaim)
    lease.until_us = std::min(lease.until_us, lease.claimed_at_us + policy_.claim_hard_us);
  due_.insert({lease.until_us, lease.event_id});
}

std::int64_t Leases::Add(Lease lease, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  const std::int64_t event_id = lease.event_id;
  const auto found = leases_.find(event_id);
  if (found != leases_.end()) {
    due_.erase({found->second.until_us, event_id});
    by_worker_[found->second.worker_id].erase(event_id);
  }
  told_.erase(event_id);
  by_worker_[lease.worker_id].insert(event_id);
  Lease& held = leases_[event_id] = std::move(lease);
  Extend(held, now_us);
  return held.until_us;
}

void Leases::Remove(std::int64_t event_id, std::optional<ControlEvent::Kind> told) {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(event_id);
  if (found == leases_.end()) return;
  due_.erase({found->second.until_us, event_id});
  const auto worker = by_worker_.find(found->second.worker_id);
  worker->second.erase(event_id);
  if (worker->second.empty()) by_worker_.erase(worker);
  leases_.erase(found);
  if (!told) return;
  told_[event_id] = *told;
  if (told_.size() > kToldMax) told_.erase(told_.begin());
}

std::optional<Lease> Leases::Find(std::int64_t event_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(event_id);
  if (found == leases_.end()) return std::nullopt;
  return found->second;
}

std::vector<Lease> Leases::Of(std::string_view worker_id) const {
  const std::lock_guard lock(mutex_);
  std::vector<Lease> held;
  const auto found = by_worker_.find(worker_id);
  if (found == by_worker_.end()) return held;
  for (const std::int64_t id : found->second) held.push_back(leases_.at(id));
  return held;
}

RenewAnswer Leases::Renew(std::string_view worker_id, std::span<const Holding> holdings,
                          std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  RenewAnswer answer;
  for (const Holding& holding : holdings) {
    const auto found = leases_.find(holding.event_id);
    const bool holds =
        found != leases_.end() && found->second.worker_id == worker_id &&
        (holding.claim_token == 0 || holding.claim_token == found->second.claim_token);
    if (holds) {
      Extend(found->second, now_us);
      continue;
    }
    const auto told = told_.find(holding.event_id);
    const bool cancelled = told != told_.end() && told->second == ControlEvent::Kind::kCancel;
    (cancelled ? answer.cancel : answer.lost).push_back(holding.event_id);
  }
  return answer;
}

void Leases::RenewClaims(std::string_view worker_id, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  const auto found = by_worker_.find(worker_id);
  if (found == by_worker_.end()) return;
  for (const std::int64_t id : found->second) {
    Lease& lease = leases_.at(id);
    if (lease.door == Door::kClaim) Extend(lease, now_us);
  }
}

void Leases::Touch(std::int64_t event_id, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(event_id);
  if (found != leases_.end()) Extend(found->second, now_us);
}

std::vector<Lease> Leases::Expired(std::int64_t now_us, std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  std::vector<Lease> expired;
  for (const auto& [until_us, id] : due_) {
    if (until_us > now_us || expired.size() == limit) break;
    expired.push_back(leases_.at(id));
  }
  return expired;
}

std::optional<std::int64_t> Leases::NextDueUs() const {
  const std::lock_guard lock(mutex_);
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

std::size_t Leases::size() const {
  const std::lock_guard lock(mutex_);
  return leases_.size();
}

}  // namespace noetl::conductor
