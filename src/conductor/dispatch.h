// Who waits for the worker of this process, and how many slots it has left.
//
// A lane that issues a command takes a slot for it at once when nobody waits, so that issue and
// claim are one unit; otherwise the command stands in line. Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/events.h"

namespace noetl::conductor {

class Dispatch {
 public:
  struct Waiting {
    std::int64_t execution_id = 0;
    std::string command_id;
    std::shared_ptr<const engine::Event> issued;  // null: only in the log
  };

  explicit Dispatch(int slots) : free_(slots) {}

  // Takes a slot unless others wait for one.
  bool TakeSlot();
  void ReturnSlots(int count);
  void Wait(std::vector<Waiting> commands);
  // The next in line, with a slot taken for it; nullopt when there is none or no slot is free.
  std::optional<Waiting> Next();
  // From now on no slot is given out.
  void Close();
  std::size_t waiting() const;
  int free_slots() const;

 private:
  mutable std::mutex mutex_;
  int free_;
  bool closed_ = false;
  std::deque<Waiting> line_;
};

}  // namespace noetl::conductor
