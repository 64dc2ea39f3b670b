// Reports on their way to the server.
//
// A report is stored in parts: bodies first (the server gives each its reference, which replaces ours
// in the events), then the text of the tool, then the events. Events of many reports travel together,
// and the request that carries them asks for as many new commands as slots became free, so that a busy
// worker pays one round trip a step. A request that fails is repeated as it is, with the same ids,
// after a growing delay; what could not be sent at the first try is in the spool from then on.
//
// `sent` of a report is called once: when its events are stored, or with the reason why they never
// will be. Lives on the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/ids.h"
#include "bus/link.h"
#include "worker/remote/metrics.h"
#include "worker/remote/server_client.h"
#include "worker/remote/spool.h"
#include "worker/remote/wire.h"

namespace noetl::worker {

// The delay before a repetition: the first, then doubled up to the largest.
struct RetryPace {
  std::int64_t first_ms = 500;
  std::int64_t largest_ms = 10'000;

  std::int64_t After(std::int64_t delay_ms) const {
    return delay_ms == 0 ? first_ms : std::min(delay_ms * 2, largest_ms);
  }
};

class Outbox {
 public:
  struct Parts {
    EventLoop* loop = nullptr;
    Clock* clock = nullptr;
    IdSource* ids = nullptr;
    ServerClient* client = nullptr;
    Spool* spool = nullptr;
    WorkerMetrics* metrics = nullptr;
    RetryPace pace;
    std::int64_t request_timeout_ms = 30'000;
  };

  // What an outbox asks of whoever holds the commands.
  class Host {
   public:
    virtual ~Host() = default;
    // So many commands that had a slot have ended.
    virtual void LeaveSlots(int count) = 0;
    // How many commands to ask for, at most `most`; they are reserved then. 0: none.
    virtual int ReserveSlots(int most) = 0;
    // The request for work, without its events.
    virtual Json LeaseRequest(int slots, std::int64_t wait_ms) = 0;
    // How long a request that carries events should wait for work.
    virtual std::int64_t LeaseWaitMs() = 0;
    // The answer to a request that had reserved slots; nullptr: there will be none.
    virtual void Leased(LeaseAnswer* answer, int slots, std::int64_t asked_at_us,
                        std::int64_t wait_ms) = 0;
    virtual void Delivered(const std::string& command_id) = 0;
    // The server takes no word about this command.
    virtual void Refused(const std::string& command_id, const std::string& code) = 0;
  };

  Outbox(Parts parts, Host* host);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // `holds_slot`: the command leaves a slot when its events go out.
  void Add(bus::Report report, bool holds_slot, bus::ServerEnd::Sent sent);
  // What an earlier process could not deliver.
  void AddFound();
  // Sends what is ready. Called by the host when slots may have changed.
  void Pump();

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  // Whether requests with events fail at the moment.
  bool failing() const { return failing_ > 0; }
  // Called once, from the loop, when nothing is left.
  void WhenEmpty(std::move_only_function<void()> then);
  // Requests that wait for their repetition stop asking for work.
  void StopLeasing();
  // Everything that is not delivered goes to the spool: the process is about to end.
  void SpoolAll();

 private:
  struct Entry;
  struct Sending;

  // One report.
  Entry* NewEntry(bus::Report report);
  void Prepare(Entry* entry);
  void PutBody(Entry* entry);
  void BodyStored(Entry* entry, const Json& answer);
  void PostLogs(Entry* entry);
  void LogsAnswered(Entry* entry, std::size_t count, const Result<Json>& answer);
  void PrepareLater(Entry* entry, const Error& error);
  void Deliver(Entry* entry);
  void Drop(Entry* entry, Error error);
  void Close(Entry* entry, Status status);
  void Keep(const std::vector<Entry*>& entries);

  // Requests with events.
  std::vector<Entry*> Gather();
  void Send(std::vector<Entry*> entries);
  std::string BodyOf(const Sending& sending);
  void Try(Sending* sending);
  void Answered(Sending* sending, const Result<Json>& answer);
  bool Stored(Sending& sending, const Json& body);
  void Settle(Entry* entry, const std::vector<EventAnswer>& answers, std::size_t first);
  void TryLater(Sending* sending, const Error& error);
  void SendAlone(Sending* sending);
  void Remove(Sending* sending);

  Parts parts_;
  Host* host_;
  int failing_ = 0;
  std::list<std::unique_ptr<Entry>> entries_;
  std::deque<Entry*> ready_;
  std::list<std::unique_ptr<Sending>> sendings_;
  std::vector<std::move_only_function<void()>> when_empty_;
  OwnedTimer empty_timer_;
};

}  // namespace noetl::worker
