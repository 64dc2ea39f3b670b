#include "conductor/dispatch.h"

#include <iterator>
#include <utility>

namespace noetl::conductor {

bool Dispatch::TakeSlot() {
  const std::lock_guard lock(mutex_);
  if (closed_ || free_ <= 0 || !line_.empty()) return false;
  --free_;
  return true;
}

void Dispatch::ReturnSlots(int count) {
  const std::lock_guard lock(mutex_);
  free_ += count;
}

void Dispatch::Wait(std::vector<Waiting> commands) {
  const std::lock_guard lock(mutex_);
  line_.insert(line_.end(), std::move_iterator(commands.begin()),
               std::move_iterator(commands.end()));
}

std::optional<Dispatch::Waiting> Dispatch::Next() {
  const std::lock_guard lock(mutex_);
  if (closed_ || free_ <= 0 || line_.empty()) return std::nullopt;
  --free_;
  Waiting next = std::move(line_.front());
  line_.pop_front();
  return next;
}

void Dispatch::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

std::size_t Dispatch::waiting() const {
  const std::lock_guard lock(mutex_);
  return line_.size();
}

int Dispatch::free_slots() const {
  const std::lock_guard lock(mutex_);
  return free_;
}

}  // namespace noetl::conductor
