// Who waits for a worker, and who waits for work.
//
// A lane that issues a command asks for a seat at once when nobody of its pool waits, so that issue
// and claim are one unit; otherwise the command stands in line. Seats are those of the worker in this
// process, which takes everything, and those that remote workers offer with a poll. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "conductor/worker_calls.h"
#include "engine/events.h"

namespace noetl::conductor {

// A remote worker's question for work that has not been answered yet. Owned by `Dispatch`; others
// hold it to say what became of a seat.
struct Poll {
  LeaseCall call;
  std::move_only_function<void(std::vector<Claimed>)> done;
  std::function<void(Poll&)> remember;  // before it is answered; may be empty
  std::vector<Claimed> granted;
  std::int64_t until_us = 0;  // monotonic
  int taken = 0;              // seats whose fate is not known
  bool closed = false;        // no more seats: its time is over, or it has been answered
};

// Whose a command will be.
struct Seat {
  Door door = Door::kInProcess;
  std::string worker_id;  // empty: the worker of this process
  std::string request_id;
  std::shared_ptr<Poll> poll;  // null: the worker of this process
};

class Dispatch {
 public:
  struct Waiting {
    std::int64_t execution_id = 0;
    std::string command_id;
    std::string pool;
    std::string kind;
    std::shared_ptr<const engine::Event> issued;  // null: only in the log
  };

  // The worker in this process has no seats until `ReturnSlots`.
  Dispatch() = default;

  // A seat for a command of this pool and kind, unless others of the pool wait for one.
  std::optional<Seat> Take(std::string_view pool, std::string_view kind);
  // They stand in line, unless they do so already.
  void Wait(std::vector<Waiting> commands);
  // The command needs no seat any more: somebody claimed it by its name, or it was cancelled.
  void Forget(std::int64_t command_number);
  // The next pair of a command in line and a seat for it; nullopt when there is none.
  std::optional<std::pair<Waiting, Seat>> Next();

  // The next command in line for a seat that was taken; nullopt: none that its poll serves.
  std::optional<Waiting> NextFor(const Seat& seat);

  // The worker in this process has more or fewer seats.
  void ReturnSlots(int count);
  // From now on nobody gets anything: open polls are answered.
  void Close();
  int free_slots() const;

  void AddPoll(std::shared_ptr<Poll> poll);
  // The question is asked again while it is open: who asks now gets the answer, the one before gets
  // nothing. Null: it has been answered.
  using Done = std::move_only_function<void(std::vector<Claimed>)>;
  bool Redirect(const std::shared_ptr<Poll>& poll, std::function<bool()> gone, Done& done);
  // What became of a seat of a poll: the command is claimed and stored, or it is not. Answers the
  // poll when that was the last seat it waited for.
  void Fill(const Seat& seat, Claimed claimed);
  void Return(const Seat& seat);
  // The time of a poll is over: it is answered with what it has, as soon as no seat is open.
  void Expire(const std::shared_ptr<Poll>& poll);
  // The same for all whose time is over; gives when the next one is due.
  std::optional<std::int64_t> ExpireDue(std::int64_t now_us);
  // Polls of a worker that has gone; answered at once with nothing more.
  void ExpireAll(std::string_view worker_id);

  std::vector<std::pair<std::string, std::size_t>> WaitingByPool() const;
  // How often a command of a pool got a seat; pools beyond kPoolsToldMax are together as "other".
  std::vector<std::pair<std::string, std::int64_t>> ToldByPool() const;

 private:
  std::optional<Seat> TakeLocked(std::string_view pool, std::string_view kind);
  std::optional<std::pair<Waiting, Seat>> NextLocked();
  // Answers polls that were found dead, without the lock.
  void ExpireDead(std::unique_lock<std::mutex>& lock);
  static bool Serves(const Poll& poll, std::string_view pool, std::string_view kind);
  static bool HasRoom(const Poll& poll);
  void CountTold(std::string_view pool);
  // Takes the poll out when it is complete; `done` is then called without the lock.
  bool CompleteLocked(const std::shared_ptr<Poll>& poll);
  static void Answer(Poll& poll);

  using Line = std::list<Waiting>;
  Waiting LeaveLine(Line& line, Line::iterator place);

  // Commands in line whose events are kept in memory. Those behind them are read when it is their turn.
  static constexpr std::size_t kIssuedKeptMax = 10'000;
  // Commands of a line that are looked at for a poll that does not take every kind.
  static constexpr std::size_t kLookAhead = 256;
  // Pools have names that users choose.
  static constexpr std::size_t kPoolsToldMax = 256;

  mutable std::mutex mutex_;
  int free_ = 0;
  bool closed_ = false;
  std::map<std::string, Line, std::less<>> lines_;                             // by pool
  std::unordered_map<std::int64_t, std::pair<Line*, Line::iterator>> places_;  // by command number
  std::atomic<std::size_t> waiting_ = 0;    // commands in all lines; changed with the lock held
  std::list<std::shared_ptr<Poll>> polls_;  // the one that waits longest first
  std::vector<std::shared_ptr<Poll>> dead_;
  using Told = std::map<std::string, std::int64_t, std::less<>>;
  Told told_;
  Told::iterator told_last_ = told_.end();  // most commands are of the pool of the one before
};

}  // namespace noetl::conductor
