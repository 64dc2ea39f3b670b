#include "conductor/fleet.h"

#include <algorithm>
#include <utility>

namespace noetl::conductor {

Result<store::RuntimeRow> Fleet::Register(store::RuntimeRow row) {
  const std::int64_t now_us = clock_->NowMicros();
  row.runtime_id = ids_->Next();
  row.heartbeat_us = row.created_at_us = row.updated_at_us = now_us;
  NOETL_ASSIGN(store::RuntimeRow stored, store_->PutRuntime(std::move(row)));
  const std::lock_guard lock(mutex_);
  beats_[{stored.kind, stored.name}] = {now_us, now_us};
  return stored;
}

Result<bool> Fleet::Heartbeat(std::string_view kind, std::string_view name, std::string_view status,
                              std::int64_t capacity, std::int64_t in_flight) {
  const std::int64_t now_us = clock_->NowMicros();
  const std::pair key{std::string(kind), std::string(name)};
  {
    const std::lock_guard lock(mutex_);
    const auto found = beats_.find(key);
    if (found != beats_.end()) {
      found->second.at_us = now_us;
      found->second.in_flight = in_flight;
      if (now_us - found->second.stored_us < kStoreEveryUs && status.empty()) return true;
    }
  }
  NOETL_ASSIGN(auto row, store_->FindRuntime(kind, name));
  const bool known = row.has_value();
  if (!known) {
    row = store::RuntimeRow{.runtime_id = ids_->Next(),
                            .name = std::string(name),
                            .kind = std::string(kind),
                            .status = "ready",
                            .created_at_us = now_us};
  }
  const bool changed = (!status.empty() && row->status != status) ||
                       (capacity >= 0 && row->capacity != capacity) || !known ||
                       now_us - row->heartbeat_us >= kStoreEveryUs;
  if (changed) {
    if (!status.empty()) row->status = std::string(status);
    if (capacity >= 0) row->capacity = capacity;
    row->heartbeat_us = row->updated_at_us = now_us;
    NOETL_TRY(store_->PutRuntime(*row));
  }
  const std::lock_guard lock(mutex_);
  beats_[key] = {now_us, changed ? now_us : row->heartbeat_us, in_flight};
  return known;
}

Result<bool> Fleet::Deregister(std::string_view kind, std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    beats_.erase({std::string(kind), std::string(name)});
  }
  return store_->DeleteRuntime(kind, name);
}

Result<std::vector<store::RuntimeRow>> Fleet::List(std::string_view kind, std::string_view status,
                                                   std::string_view name_part) const {
  NOETL_ASSIGN(std::vector<store::RuntimeRow> rows, store_->ListRuntimes(kind, status, name_part));
  const std::lock_guard lock(mutex_);
  for (store::RuntimeRow& row : rows) {
    const auto beat = beats_.find({row.kind, row.name});
    if (beat != beats_.end()) row.heartbeat_us = std::max(row.heartbeat_us, beat->second.at_us);
  }
  return rows;
}

Result<std::optional<store::RuntimeRow>> Fleet::Find(std::string_view kind,
                                                     std::string_view name) const {
  return store_->FindRuntime(kind, name);
}

std::uint64_t Fleet::Listen(std::string worker_id, Told told) {
  const std::lock_guard lock(mutex_);
  listeners_[next_listener_] = {std::move(worker_id), std::make_shared<Told>(std::move(told))};
  return next_listener_++;
}

void Fleet::Unlisten(std::uint64_t listener) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(listener);
}

void Fleet::Tell(std::string_view worker_id, const ControlEvent& event) {
  std::vector<std::shared_ptr<Told>> to;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, listener] : listeners_) {
      if (listener.worker_id == worker_id) to.push_back(listener.told);
    }
  }
  for (const auto& told : to) (*told)(event);
}

}  // namespace noetl::conductor
