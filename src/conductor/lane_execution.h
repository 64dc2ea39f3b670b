// An execution as its lane holds it.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conductor/lane.h"

namespace noetl::conductor {

struct Lane::Execution {
  std::int64_t id = 0;
  bool loaded = false;
  bool ended = false;  // in the store: only the row is known
  CompiledPlaybook playbook;
  std::string pool;  // where its commands go
  engine::State state;
  // As it is stored, or as the unit on its way will leave it.
  store::ExecutionRow row;

  std::deque<Mail> mail;
  bool more = false;    // the last decision was cut short
  bool rescan = false;  // a commit failed: commands may have lost their place in line
  int conflicts = 0;    // commits in a row that failed by a wrong head

  // The unit on its way.
  bool in_flight = false;
  std::vector<Mail> working;
  struct Granted {
    bus::Grant grant;
    Seat seat;
  };
  std::vector<Granted> grants;
  std::vector<std::int64_t> leased;  // claims of remote workers, by event id of command.issued
  std::vector<Dispatch::Waiting> waiting;
  std::vector<std::string> stops;          // held commands that the unit ends
  std::optional<engine::ChildEnd> notice;  // for a task of this process

  // While a decision is made.
  bool begun = false;                      // the start was fed
  store::UnitRows extra;                   // rows that come from the mail itself
  std::vector<engine::StoredBody> bodies;  // that came with reports
  std::vector<engine::Event> late;         // posted after the end
  std::set<std::string> posted;            // keys of posts that are in the decision
  std::vector<Mail> deferred;              // can only be answered after the unit

  std::int64_t snapshot_seq = 0;
  std::int64_t snapshot_us = 0;
  std::int64_t snapshot_bytes = 0;
  std::size_t bytes = 0;  // counted in the lane's sum
  bool resting = false;
  std::list<std::int64_t>::iterator place;  // in `recent_` while resting

  // Roughly what it holds in memory.
  std::size_t Bytes() const {
    constexpr std::size_t kFixed = 8'192;
    constexpr std::size_t kPerCommand = 700;
    return kFixed + kPerCommand * state.commands().size() +
           2 * static_cast<std::size_t>(snapshot_bytes);
  }
};

// An event that is written in the name of a worker; step and tool kind are those of `about`.
engine::Event WorkerEvent(engine::EventType type, const engine::Event& about,
                          std::string_view status, const std::string& worker);

}  // namespace noetl::conductor
