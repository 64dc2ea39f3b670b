// Runs for the messages of a subscription, in the data directory of this machine.
//
// Which message started which run is kept in a file, so that a message that comes again after a crash
// starts no second one. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/backend.h"
#include "worker/subscription/dispatcher.h"
#include "worker/subscription/recent_keys.h"

namespace noetl::cli {

class LocalDispatcher final : public worker::Dispatcher {
 public:
  // `folder` is made when it is not there. The backend outlives it.
  static Result<std::unique_ptr<LocalDispatcher>> Open(Backend* backend, std::string folder);
  ~LocalDispatcher() override;
  LocalDispatcher(const LocalDispatcher&) = delete;
  LocalDispatcher& operator=(const LocalDispatcher&) = delete;

  std::vector<worker::DispatchOutcome> Dispatch(
      std::span<const worker::DispatchRequest> requests) override;
  // Nobody can pause it.
  Result<std::string> State() override { return std::string("ACTIVE"); }
  Result<std::int64_t> InFlight(std::int64_t enough) override;

  // Until the runs have ended that were started here.
  Status WaitForRuns();

 private:
  LocalDispatcher(Backend* backend, std::string folder)
      : backend_(backend), folder_(std::move(folder)) {}
  Status ReadJournal();
  // Writes only what still counts.
  Status WriteJournal();
  Status Note(const std::string& key, std::int64_t execution_id, std::int64_t until_us);
  // The run that the key has started; 0: none.
  Result<std::int64_t> FindStarted(const std::string& key);
  worker::DispatchOutcome One(const worker::DispatchRequest& request);

  Backend* backend_;
  std::string folder_;
  SystemClock clock_;
  worker::RecentKeys keys_;
  int journal_ = -1;
  std::size_t lines_ = 0;        // of the journal
  std::set<std::int64_t> open_;  // runs; some may have ended
  std::size_t look_at_ = 0;      // when there are so many, those that have ended are taken out
};

}  // namespace noetl::cli
