// The workers that have made themselves known to this server.
//
// Registrations are stored; heartbeats are kept in memory and stored only now and then, so that an
// idle fleet costs no writes. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "conductor/worker_calls.h"
#include "store/server.h"

namespace noetl::conductor {

class Fleet {
 public:
  Fleet(store::Runtimes* store, Clock* clock, IdSource* ids)
      : store_(store), clock_(clock), ids_(ids) {}

  // Makes or renews the registration by kind and name.
  Result<store::RuntimeRow> Register(store::RuntimeRow row);
  // False: it was not known, and has been made known with what the call tells.
  Result<bool> Heartbeat(std::string_view kind, std::string_view name, std::string_view status,
                         std::int64_t capacity, std::int64_t in_flight);
  // False: it was not known.
  Result<bool> Deregister(std::string_view kind, std::string_view name);
  // With the newest heartbeats.
  Result<std::vector<store::RuntimeRow>> List(std::string_view kind, std::string_view status,
                                              std::string_view name_part) const;
  Result<std::optional<store::RuntimeRow>> Find(std::string_view kind, std::string_view name) const;

  // News for a worker, as they happen: `told` is called on any thread until `Unlisten`.
  using Told = std::function<void(const ControlEvent&)>;
  std::uint64_t Listen(std::string worker_id, Told told);
  void Unlisten(std::uint64_t listener);
  void Tell(std::string_view worker_id, const ControlEvent& event);

 private:
  struct Listener {
    std::string worker_id;
    std::shared_ptr<Told> told;
  };
  // A heartbeat is stored when the stored one is older than this.
  static constexpr std::int64_t kStoreEveryUs = 300'000'000;

  store::Runtimes* store_;
  Clock* clock_;
  IdSource* ids_;
  mutable std::mutex mutex_;
  // By kind and name: the newest heartbeat, and the one that is stored.
  struct Beat {
    std::int64_t at_us = 0;
    std::int64_t stored_us = 0;
    std::int64_t in_flight = 0;
  };
  std::map<std::pair<std::string, std::string>, Beat, std::less<>> beats_;
  std::uint64_t next_listener_ = 1;
  std::map<std::uint64_t, Listener> listeners_;
};

}  // namespace noetl::conductor
