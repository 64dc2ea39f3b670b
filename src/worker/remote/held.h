// The commands that a worker holds, and until when they are its own.
//
// A lease counts from a moment before the server granted or renewed it, by the monotonic clock, so
// that it ends here before it ends there. A process that was stopped for a while finds its leases
// ended when it goes on. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "worker/remote/wire.h"

namespace noetl::worker {

struct HeldCommand {
  std::int64_t execution_id = 0;
  std::int64_t event_id = 0;
  std::int64_t claim_token = 0;
  std::int64_t lease_us = 0;
  std::int64_t until_us = 0;  // monotonic
  bool runs = true;           // false: ended, its report is on its way
  std::string tool_kind;
  std::int64_t taken_us = 0;  // monotonic
};

class Held {
 public:
  // `since_us` is the latest moment that is surely not after the grant, `taken_us` is now. False: held
  // already.
  bool Add(const Granted& granted, std::int64_t since_us, std::int64_t taken_us = 0);
  const HeldCommand* Find(std::string_view command_id) const;
  // The text id of a command that the server names; empty: not held.
  std::string IdOf(const CommandName& name) const;
  void Ended(std::string_view command_id);
  // False: it was not held.
  bool Remove(std::string_view command_id);

  // The list of a heartbeat that is sent now, and its effect when it was answered.
  Json Renewal() const;
  void Renewed(const Json& renewal, std::int64_t since_us);

  // Whether the command's lease has ended, or it is not held.
  bool Expired(std::string_view command_id, std::int64_t now_us) const;
  // Commands that run without a lease.
  std::vector<std::string> Expired(std::int64_t now_us) const;
  std::vector<std::string> RunningIds() const;
  // Nullopt: nothing runs.
  std::optional<std::int64_t> NextEndUs() const;
  std::optional<std::int64_t> ShortestLeaseUs() const;
  std::size_t running() const;
  std::size_t size() const { return commands_.size(); }

 private:
  std::map<std::string, HeldCommand, std::less<>> commands_;  // by text id
};

}  // namespace noetl::worker
