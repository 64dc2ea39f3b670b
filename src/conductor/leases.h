// Who holds which command, and until when. Claims of the worker in this process are not here.
//
// The truth that survives a restart is the command row; this is its image in memory, with the exact
// time at which each lease ends. Renewing touches nothing on the disk. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "conductor/worker_calls.h"

namespace noetl::conductor {

struct LeasePolicy {
  std::int64_t claim_us = 120'000'000;
  std::int64_t claim_hard_us = 1'800'000'000;  // a claim ends then, whatever its worker says
  std::int64_t lease_us = 30'000'000;
};

struct Lease {
  std::int64_t event_id = 0;  // of command.issued
  std::int64_t execution_id = 0;
  std::string command_id;
  std::string worker_id;
  std::string request_id;
  std::int64_t claim_token = 0;
  Door door = Door::kClaim;
  std::int64_t claimed_at_us = 0;
  std::int64_t until_us = 0;
};

class Leases {
 public:
  explicit Leases(LeasePolicy policy) : policy_(policy) {}

  std::int64_t LengthUs(Door door) const;
  // From now on; replaces an older one of the command. Gives the time at which it ends.
  std::int64_t Add(Lease lease, std::int64_t now_us);
  // The command has ended or is nobody's any more. `told` is kept for a while as the reason that its
  // holder gets to hear: cancelled, or lost.
  void Remove(std::int64_t event_id, std::optional<ControlEvent::Kind> told);
  std::optional<Lease> Find(std::int64_t event_id) const;
  std::vector<Lease> Of(std::string_view worker_id) const;

  // Renews what the worker still holds and tells what it does not.
  RenewAnswer Renew(std::string_view worker_id, std::span<const Holding> holdings,
                    std::int64_t now_us);
  // A sign of life without a list: claims made one by one are renewed.
  void RenewClaims(std::string_view worker_id, std::int64_t now_us);
  // One command: an event of it has come.
  void Touch(std::int64_t event_id, std::int64_t now_us);

  // Leases that have ended by now; they stay until they are removed.
  std::vector<Lease> Expired(std::int64_t now_us, std::size_t limit) const;
  std::optional<std::int64_t> NextDueUs() const;
  std::size_t size() const;

 private:
  void Extend(Lease& lease, std::int64_t now_us);

  // Reasons that are remembered for workers that have not asked yet.
  static constexpr std::size_t kToldMax = 10'000;

  const LeasePolicy policy_;
  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, Lease> leases_;
  std::set<std::pair<std::int64_t, std::int64_t>> due_;  // until, event id
  std::map<std::string, std::set<std::int64_t>, std::less<>> by_worker_;
  std::map<std::int64_t, ControlEvent::Kind> told_;
};

}  // namespace noetl::conductor
