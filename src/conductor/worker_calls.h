// What remote workers ask of a conductor, as plain values. HTTP routes turn requests into these.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bus/link.h"
#include "engine/events.h"

namespace noetl::conductor {

// How a command was handed out; each door has its own lease.
enum class Door : std::uint8_t {
  kInProcess,  // for as long as the process lives
  kClaim,      // one command by its id: NOETL_COMMAND_CLAIM_LEASE_SECONDS, renewed by the worker's
               // heartbeat up to a hard limit
  kLease,      // many at once by a long poll: NOETL_LEASE_SECONDS, renewed for each command
};

// How the log calls the last one: `meta.door` of command.claimed.
inline constexpr std::string_view kLeaseDoor = "lease";

struct ClaimCall {
  std::int64_t event_id = 0;  // of command.issued
  std::string worker_id;
  std::string request_id;  // the same in a repeated request; may be empty
};

// A command that is the caller's, until its lease ends. Errors of a claim: "not_found",
// "active_claim", "already_terminal", "cancelled", "superseded".
struct Claimed {
  bus::Grant grant;
  std::int64_t lease_ms = 0;
  bool repeated = false;  // it was the caller's already
};

// One event as a worker posts it.
struct PostedEvent {
  engine::Event event;           // without seq; event_id 0: the server makes one
  std::string command_id;        // empty: it speaks of no command
  std::int64_t claim_token = 0;  // 0: not told
};

struct PostCall {
  std::int64_t execution_id = 0;
  std::string worker_id;
  std::vector<PostedEvent> events;
};

struct Posted {
  std::int64_t event_id = 0;  // as stored; of the first one when it is a repetition
  // Empty: stored, now or before. Else why nothing was stored: "stale_claim", "active_claim",
  // "superseded", "cancelled", "already_terminal".
  std::string code;
  std::string message;
};
struct PostAnswer {
  std::vector<Posted> events;        // in the order of the call
  std::int64_t commands_issued = 0;  // by the decision that followed
};

struct LeaseCall {
  std::string worker_id;
  std::vector<std::string> pools;  // empty: any
  std::vector<std::string> kinds;  // empty: any
  int max = 1;
  std::int64_t wait_ms = 0;
  std::string request_id;  // the same in a repeated request: then the same commands come again
  // Whether nobody will hear the answer any more; may be empty. Any thread, quick.
  std::function<bool()> gone;
};
inline constexpr int kLeaseMax = 64;
inline constexpr std::int64_t kLeaseWaitMsMax = 30'000;
// With events in the same request the answer waits no longer for work.
inline constexpr std::int64_t kLeaseWaitMsWithEvents = 20;

// A claim as its holder names it.
struct Holding {
  std::int64_t event_id = 0;
  std::int64_t claim_token = 0;  // 0: not told
};

struct RenewAnswer {
  std::vector<std::int64_t> lost;    // no longer the caller's
  std::vector<std::int64_t> cancel;  // their run was cancelled or has ended: stop the tool
};

// News for one worker process.
struct ControlEvent {
  enum class Kind : std::uint8_t { kCancel, kLost, kDrain };
  Kind kind = Kind::kCancel;
  std::int64_t event_id = 0;  // of the command's command.issued
  std::string command_id;
};

// An external system says how a parked command ended.
struct CallbackCall {
  std::int64_t execution_id = 0;
  std::string step;
  std::string command_id;  // empty: the parked command of the step
  std::string key;         // what the parked data must name when several are parked: job_name
  bool ok = true;
  Json data;
  std::string error;
};
struct CallbackAnswer {
  bool accepted = false;  // false: no command waits for it
  std::int64_t event_id = 0;
};

}  // namespace noetl::conductor
