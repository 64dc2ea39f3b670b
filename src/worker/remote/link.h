// The server, as a worker in another process has it: commands come over HTTP and reports go back.
//
// A link holds one long request for work open while slots are free, sends reports with a request of
// their own that asks for the next commands (outbox.h), renews the leases of what the worker holds and
// listens for news. A command whose lease could not be renewed in time is stopped and nothing is said
// about it: somebody else may run it by then.
//
// `Start` first delivers what an earlier process left in the spool, then registers: registering ends
// the claims of the earlier process. `Drain` is the way out. The methods of `bus::ServerEnd` may be
// called from any thread, everything else on the loop's. Loop, clock and ids outlive the link; the
// worker goes first and is not called after its link is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/ids.h"
#include "base/result.h"
#include "bus/link.h"
#include "worker/remote/control_stream.h"
#include "worker/remote/held.h"
#include "worker/remote/metrics.h"
#include "worker/remote/outbox.h"
#include "worker/remote/questions.h"
#include "worker/remote/sealed.h"
#include "worker/remote/server_client.h"
#include "worker/remote/spool.h"

namespace noetl::worker {

struct RemoteOptions {
  ServerAddress server;
  std::string worker_id;
  std::string pool_name = "default";  // a label
  std::vector<std::string> pools;     // empty: any
  std::vector<std::string> tools;     // told at registration
  std::string hostname;
  std::string version;
  int slots = 4;
  bool sealed_credentials = false;  // credentials come encrypted to this process
  int sandbox_level = 1;            // for the metrics

  std::string spool_file;
  std::int64_t spool_bytes_max = std::int64_t{256} << 20;

  RetryPace pace;
  std::int64_t request_timeout_ms = 30'000;
  std::int64_t poll_wait_ms = 20'000;
  std::int64_t heartbeat_ms = 15'000;
  // The loop wakes at least so often, and more often when leases are short: how long it slept shows
  // whether the process was stopped.
  std::int64_t pulse_ms = 5'000;
  std::int64_t register_ms = 60'000;  // how long a start waits for the server
  std::int64_t drain_ms = 30'000;     // how long commands may go on when the worker ends
  std::int64_t goodbye_ms = 5'000;    // each of the last requests
  std::int64_t stopping_ms = 3'000;   // how long a tool may need to stop
};

class RemoteLink final : public bus::ServerEnd, private Outbox::Host {
 public:
  // Errors of the spool: "locked", "io".
  static Result<std::unique_ptr<RemoteLink>> Open(RemoteOptions options, EventLoop* loop,
                                                  Clock* clock, IdSource* ids);
  ~RemoteLink() override;
  RemoteLink(const RemoteLink&) = delete;
  RemoteLink& operator=(const RemoteLink&) = delete;

  void Attach(bus::WorkerEnd* worker) { worker_ = worker; }
  // `ready` is called once: registered, or with the reason why not.
  void Start(std::move_only_function<void(Status)> ready);
  // No new work; waits for what runs, gives back what does not end in time, says good-bye. `gone` is
  // called once. A second call changes nothing.
  void Drain(std::move_only_function<void()> gone);
  // The server wants this worker to end.
  void OnDrainAsked(std::function<void()> asked) { drain_asked_ = std::move(asked); }

  std::size_t running() const { return held_.running(); }
  std::size_t undelivered() const { return outbox_->size(); }
  // Registered, and not about to leave.
  bool ready() const { return stage_ == Stage::kServing; }
  // "starting", "ready", "draining" or "gone".
  std::string_view stage_name() const;
  // The text that Prometheus reads.
  std::string ExposeMetrics();

  // bus::ServerEnd
  void Send(bus::Report report, Sent sent) override;
  void Load(std::string ref, Loaded loaded) override;
  void RunChild(bus::ChildCall call, ChildDone done) override;
  void FindSecret(std::string alias, std::int64_t execution_id, Loaded found) override;
  void FreeSlots(int change) override;

 private:
  // A request for work that waits on the server. It is repeated as it is until it was answered.
  struct Poll {
    ServerClient::CallId call = 0;
    std::string body;
    int slots = 0;
    std::int64_t asked_at_us = 0;
    std::int64_t delay_ms = 0;
  };

  RemoteLink(RemoteOptions options, EventLoop* loop, Clock* clock, IdSource* ids,
             std::unique_ptr<Spool> spool);

  // Outbox::Host
  void LeaveSlots(int count) override;
  int ReserveSlots(int most) override;
  Json LeaseRequest(int slots, std::int64_t wait_ms) override;
  std::int64_t LeaseWaitMs() override;
  void Leased(LeaseAnswer* answer, int slots, std::int64_t asked_at_us,
              std::int64_t wait_ms) override;
  void Delivered(const std::string& command_id) override;
  void Refused(const std::string& command_id, const std::string& code) override;

  void Enter(Reactor::Task task);
  void Kick();
  std::int64_t NowUs() { return clock_->MonotonicMicros(); }

  // Registration.
  void Register();
  void Registered(Result<Json> answer);
  void EndStart(Status status);
  Json Registration() const;

  // Work.
  int Free() const;
  void StartPoll();
  void TryPoll();
  void Polled(Result<Json> answer);
  void PollLater();
  void EndPoll();
  void TakeCommands(std::vector<Granted> commands, std::int64_t asked_at_us);
  bool Accept(const Granted& granted, std::int64_t since_us);
  void RunLater(bus::Grant grant, std::int64_t delay_us);
  void TakeReport(bus::Report report, Sent sent);

  // Leases.
  void Tick();
  void SetTick();
  void NoteLease(std::optional<std::int64_t> lease_ms);
  void Beat();
  void Beaten(const Json& renewal, std::int64_t asked_at_us, Result<Json> answer);
  std::int64_t BeatIntervalUs() const;
  void StopNamed(const std::vector<CommandName>& names, std::string_view why);
  void StopCommands(const std::vector<std::string>& ids, std::string_view why);
  void TakeNews(const ControlNews& news);

  // The end.
  void CheckDrained();
  void ReleaseRest();
  void Release(std::int64_t event_id, std::int64_t claim_token,
               std::move_only_function<void()> done);
  void Flush();
  void Deregister();
  void Gone();

  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // first: others watch it
  RemoteOptions options_;
  EventLoop* loop_;
  Clock* clock_;
  IdSource* ids_;
  bus::WorkerEnd* worker_ = nullptr;
  SealKey seal_;
  WorkerMetrics metrics_;
  ServerClient client_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Outbox> outbox_;
  Questions questions_;
  ControlStream control_;
  Held held_;

  enum class Stage : std::uint8_t {
    kIdle,
    kStarting,
    kServing,
    kDraining,
    kFlushing,
    kLeaving,
    kGone
  };
  Stage stage_ = Stage::kIdle;
  std::move_only_function<void(Status)> ready_;
  std::vector<std::move_only_function<void()>> gone_;
  std::function<void()> drain_asked_;
  std::string last_error_;
  std::int64_t register_delay_ms_ = 0;

  int occupied_ = 0;  // slots of commands whose events have not gone out
  int reserved_ = 0;  // slots that requests under way ask for
  int waiting_ = 0;   // commands that wait and need no slot
  std::optional<Poll> poll_;
  bool kicked_ = false;

  // The last tick, and the one before it: by the last one, all that had come until the one before it
  // was read. After a stop the first tick may come before what lay in the sockets.
  std::int64_t tick_us_ = 0;
  std::int64_t read_us_ = 0;
  std::int64_t lease_us_ = kLeaseMsDefault * 1'000;  // what the server grants, as it last said
  std::int64_t next_beat_us_ = 0;
  bool beating_ = false;
  bool beats_fail_ = false;
  bool leaves_after_beat_ = false;
  std::map<std::string, std::int64_t, std::less<>> stopped_;  // when tools were told to stop
  int releasing_ = 0;

  OwnedTimer tick_timer_;
  OwnedTimer poll_timer_;
  OwnedTimer stage_timer_;
  OwnedTimer register_timer_;
};

}  // namespace noetl::worker
