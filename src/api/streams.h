// Whoever watches runs: server-sent events, logs that are followed, and requests that wait for an
// end.
//
// The conductor tells what was committed; a thread of the streams' own reads it back from the store
// and writes it to the watchers, so a lane never waits for a client. Every watcher has its own
// place in the log: what was committed before it came and what comes later reach it the same way,
// in order, once. A client that does not keep up gets one `snapshot` with the present state instead
// of what it missed, and goes on from there. While nobody watches the thread sleeps.
//
// Any thread. Streams outlive the HTTP server and the conductor that tells them; they use the store
// until they are stopped.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/http.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/redact.h"
#include "base/result.h"
#include "conductor/conductor.h"
#include "store/store.h"

namespace noetl::api {

struct StreamOptions {
  // Each holds a connection and up to kStreamBytesMax of text.
  std::size_t watchers_max = 2'000;
  std::size_t waits_max = 10'000;
  std::int64_t heartbeat_ms = 15'000;
  std::int64_t coalesce_ms = 100;  // changes of the list of runs
};

// One message of a stream of server-sent events; `id` may be empty.
std::string SseMessage(std::string_view type, std::string_view id, const Json& data);

class Streams final : public conductor::Listener {
 public:
  explicit Streams(const store::Store* store, Clock* clock, StreamOptions options = {});
  ~Streams() override;
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Ends all streams and answers all waits. From then on nobody is let in, news are ignored and the
  // store is not used any more.
  void Stop();

  // conductor::Listener: on a lane's thread, takes a note at most.
  void OnEvents(const store::ExecutionRow& execution,
                std::span<const store::EventRow> events) override;
  void OnLogs(std::span<const store::LogChunk> chunks) override;

  using Id = std::uint64_t;
  // A place for a watcher; "unavailable" when there is none. Then the stream is opened with
  // `Remove(id)` as its `closed`, and handed over with one of the functions below.
  Result<Id> Reserve();
  void Remove(Id id);

  struct RunFeed {
    std::int64_t execution_id = 0;
    std::int64_t after_seq = 0;
    bool redact = true;
  };
  // Events of a run; `end` after the terminal one.
  void FollowRun(Id id, std::shared_ptr<BodyStream> stream, RunFeed feed);

  struct ListFeed {
    std::string path_part;            // in any case; empty: all runs
    std::int64_t after_event_id = 0;  // 0: begins with a snapshot of the newest runs
  };
  // Changes of runs.
  void FollowList(Id id, std::shared_ptr<BodyStream> stream, ListFeed feed);

  struct LogFeed {
    std::int64_t execution_id = 0;
    std::int64_t command_id = 0;  // 0: all
    std::string step;             // empty: all
    std::string stream;           // empty: both
    std::int64_t after = 0;       // chunks that are left out
    bool sse = false;             // else plain text
    bool redact = true;
  };
  // What the tools of a run write, until the run has ended.
  void FollowLogs(Id id, std::shared_ptr<BodyStream> stream, LogFeed feed);

  // Only heartbeats: others write to the stream.
  void KeepAlive(Id id, std::shared_ptr<BodyStream> stream);

  // Calls `done` once the run has ended, or the time is over. "unavailable" when too many wait.
  Status WaitForEnd(std::int64_t execution_id, std::int64_t timeout_ms,
                    std::move_only_function<void()> done);

  std::size_t watchers() const;

 private:
  struct Watcher;
  using WatcherPtr = std::shared_ptr<Watcher>;
  struct Wait {
    std::int64_t execution_id = 0;
    std::int64_t due_us = 0;
    std::move_only_function<void()> done;
  };
  // What the thread does next, taken out under the lock and done without it.
  struct Round {
    std::vector<WatcherPtr> due;
    std::vector<WatcherPtr> lists;
    std::vector<WatcherPtr> beats;
    std::vector<std::move_only_function<void()>> waits;
    std::map<std::int64_t, store::ExecutionRow> changed;
    bool changed_too_many = false;
  };

  void Add(Id id, WatcherPtr watcher);
  void Run();
  std::int64_t NextDueUs() const;  // monotonic; INT64_MAX: nothing
  Round TakeRound(std::int64_t now_us);
  void TakeWait(std::uint64_t id, Round* round);
  void Serve(Round& round);

  void ServeRun(Watcher& watcher);
  void SendSnapshot(Watcher& watcher, const store::ExecutionRow& row);
  void EndRun(Watcher& watcher, std::string_view status);
  void ServeLogs(Watcher& watcher);
  void ServeList(Watcher& watcher, const Round& round);
  void SendList(Watcher& watcher);
  // False: the client has to take something first; the watcher is looked at again soon.
  bool Ready(Watcher& watcher);
  bool Write(Watcher& watcher, std::string text);
  void LookAgain(Watcher& watcher);

  const store::Store* store_;
  Clock* clock_;
  const StreamOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  Id next_id_ = 1;
  std::map<Id, WatcherPtr> watchers_;  // null: reserved
  std::multimap<std::int64_t, WatcherPtr> by_run_;
  std::size_t list_watchers_ = 0;
  std::map<std::uint64_t, Wait> waits_;
  std::multimap<std::int64_t, std::uint64_t> waits_by_run_;
  std::set<std::pair<std::int64_t, std::uint64_t>> waits_due_;
  std::vector<std::move_only_function<void()>> ended_waits_;
  std::set<WatcherPtr> due_;   // have something to read
  std::set<WatcherPtr> slow_;  // have something, and clients that must take what they have first
  std::int64_t slow_at_us_ = 0;
  std::int64_t beat_at_us_ = 0;
  // Runs that changed since the lists were told.
  std::map<std::int64_t, store::ExecutionRow> changed_;
  bool changed_too_many_ = false;
  std::int64_t flush_at_us_ = 0;
  // Watchers and waits; read without the lock on every commit.
  std::atomic<std::size_t> interested_ = 0;
  std::thread thread_;
};

}  // namespace noetl::api
