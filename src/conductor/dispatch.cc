#include "conductor/dispatch.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace noetl::conductor {

namespace {

bool Lists(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

}  // namespace

bool Dispatch::Serves(const Poll& poll, std::string_view pool, std::string_view kind) {
  return Lists(poll.call.pools, pool) && Lists(poll.call.kinds, kind);
}

bool Dispatch::HasRoom(const Poll& poll) {
  const auto seats = poll.granted.size() + static_cast<std::size_t>(poll.taken);
  return !poll.closed && seats < static_cast<std::size_t>(poll.call.max);
}

std::optional<Seat> Dispatch::TakeLocked(std::string_view pool, std::string_view kind) {
  if (closed_) return std::nullopt;
  if (free_ > 0) {
    --free_;
    return Seat{};
  }
  for (const std::shared_ptr<Poll>& poll : polls_) {
    if (!HasRoom(*poll) || !Serves(*poll, pool, kind)) continue;
    // Its worker is dead: what it got would be lost until the lease ends.
    if (poll->call.gone && poll->call.gone()) {
      poll->closed = true;
      dead_.push_back(poll);
      continue;
    }
    ++poll->taken;
    return Seat{Door::kLease, poll->call.worker_id, poll->call.request_id, poll};
  }
  return std::nullopt;
}

std::optional<Seat> Dispatch::Take(std::string_view pool, std::string_view kind) {
  std::unique_lock lock(mutex_);
  const auto line = lines_.find(pool);
  if (line != lines_.end() && !line->second.empty()) return std::nullopt;
  std::optional<Seat> seat = TakeLocked(pool, kind);
  if (seat) CountTold(pool);
  if (!dead_.empty()) ExpireDead(lock);
  return seat;
}

void Dispatch::CountTold(std::string_view pool) {
  if (told_last_ == told_.end() || told_last_->first != pool) {
    told_last_ = told_.find(pool);
    const bool full = told_.size() >= kPoolsToldMax;
    if (told_last_ == told_.end())
      told_last_ = told_.try_emplace(full ? "other" : std::string(pool)).first;
  }
  ++told_last_->second;
}

void Dispatch::ExpireDead(std::unique_lock<std::mutex>& lock) {
  const std::vector<std::shared_ptr<Poll>> dead = std::exchange(dead_, {});
  lock.unlock();
  for (const std::shared_ptr<Poll>& poll : dead) Expire(poll);
}

void Dispatch::Wait(std::vector<Waiting> commands) {
  const std::lock_guard lock(mutex_);
  for (Waiting& command : commands) {
    const auto [place, added] = places_.try_emplace(engine::CommandNumber(command.command_id));
    if (!added) continue;
    if (places_.size() > kIssuedKeptMax) command.issued = nullptr;
    Line& line = lines_[command.pool];
    place->second = {&line, line.insert(line.end(), std::move(command))};
  }
  waiting_ = places_.size();
}

void Dispatch::Forget(std::int64_t command_number) {
  if (waiting_ == 0) return;
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(command_number);
  if (found != places_.end()) LeaveLine(*found->second.first, found->second.second);
}

Dispatch::Waiting Dispatch::LeaveLine(Line& line, Line::iterator place) {
  Waiting command = std::move(*place);
  places_.erase(engine::CommandNumber(command.command_id));
  line.erase(place);
  waiting_ = places_.size();
  return command;
}

std::optional<std::pair<Dispatch::Waiting, Seat>> Dispatch::Next() {
  std::unique_lock lock(mutex_);
  std::optional<std::pair<Waiting, Seat>> next = NextLocked();
  if (!dead_.empty()) ExpireDead(lock);
  return next;
}

std::optional<std::pair<Dispatch::Waiting, Seat>> Dispatch::NextLocked() {
  for (auto line = lines_.begin(); line != lines_.end();) {
    if (line->second.empty()) {
      line = lines_.erase(line);
      continue;
    }
    std::size_t looked = 0;
    for (auto place = line->second.begin(); place != line->second.end() && looked < kLookAhead;
         ++place, ++looked) {
      std::optional<Seat> seat = TakeLocked(line->first, place->kind);
      if (!seat) continue;
      CountTold(line->first);
      return std::pair(LeaveLine(line->second, place), *std::move(seat));
    }
    ++line;
  }
  return std::nullopt;
}

std::optional<Dispatch::Waiting> Dispatch::NextFor(const Seat& seat) {
  const std::lock_guard lock(mutex_);
  for (auto& [pool, line] : lines_) {
    std::size_t looked = 0;
    for (auto place = line.begin(); place != line.end() && looked < kLookAhead; ++place, ++looked) {
      if (!Serves(*seat.poll, pool, place->kind)) continue;
      CountTold(pool);
      return LeaveLine(line, place);
    }
  }
  return std::nullopt;
}

void Dispatch::ReturnSlots(int count) {
  const std::lock_guard lock(mutex_);
  free_ += count;
}

void Dispatch::Close() {
  std::vector<std::shared_ptr<Poll>> polls;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    polls.assign(polls_.begin(), polls_.end());
  }
  for (const std::shared_ptr<Poll>& poll : polls) Expire(poll);
}

int Dispatch::free_slots() const {
  const std::lock_guard lock(mutex_);
  return free_;
}

// ---- polls

void Dispatch::AddPoll(std::shared_ptr<Poll> poll) {
  const std::lock_guard lock(mutex_);
  poll->closed = closed_;
  polls_.push_back(std::move(poll));
}

bool Dispatch::Redirect(const std::shared_ptr<Poll>& poll, std::function<bool()> gone, Done& done) {
  {
    const std::lock_guard lock(mutex_);
    if (!poll->done || poll->closed) return false;
    std::swap(poll->done, done);
    poll->call.gone = std::move(gone);
  }
  done({});
  return true;
}

bool Dispatch::CompleteLocked(const std::shared_ptr<Poll>& poll) {
  if (poll->taken > 0 || !poll->done) return false;
  if (poll->granted.empty() && !poll->closed) return false;
  poll->closed = true;
  polls_.remove(poll);
  return true;
}

void Dispatch::Answer(Poll& poll) {
  if (poll.remember) poll.remember(poll);
  std::exchange(poll.done, nullptr)(std::move(poll.granted));
}

void Dispatch::Fill(const Seat& seat, Claimed claimed) {
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    --seat.poll->taken;
    seat.poll->granted.push_back(std::move(claimed));
    complete = CompleteLocked(seat.poll);
  }
  if (complete) Answer(*seat.poll);
}

void Dispatch::Return(const Seat& seat) {
  if (!seat.poll) return ReturnSlots(1);
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    --seat.poll->taken;
    complete = CompleteLocked(seat.poll);
  }
  if (complete) Answer(*seat.poll);
}

void Dispatch::Expire(const std::shared_ptr<Poll>& poll) {
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    poll->closed = true;
    complete = CompleteLocked(poll);
  }
  if (complete) Answer(*poll);
}

std::optional<std::int64_t> Dispatch::ExpireDue(std::int64_t now_us) {
  std::vector<std::shared_ptr<Poll>> over;
  std::optional<std::int64_t> next;
  {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Poll>& poll : polls_) {
      if (poll->closed && poll->taken > 0) continue;
      if (poll->closed || poll->until_us <= now_us) over.push_back(poll);
      else next = std::min(next.value_or(poll->until_us), poll->until_us);
    }
  }
  for (const std::shared_ptr<Poll>& poll : over) Expire(poll);
  return next;
}

void Dispatch::ExpireAll(std::string_view worker_id) {
  std::vector<std::shared_ptr<Poll>> polls;
  {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Poll>& poll : polls_) {
      if (poll->call.worker_id == worker_id) polls.push_back(poll);
    }
  }
  for (const std::shared_ptr<Poll>& poll : polls) Expire(poll);
}

std::vector<std::pair<std::string, std::int64_t>> Dispatch::ToldByPool() const {
  const std::lock_guard lock(mutex_);
  return {told_.begin(), told_.end()};
}

std::vector<std::pair<std::string, std::size_t>> Dispatch::WaitingByPool() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const auto& [pool, line] : lines_) {
    if (!line.empty()) counts.emplace_back(pool, line.size());
  }
  return counts;
}

}  // namespace noetl::conductor
