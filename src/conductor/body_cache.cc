#include "conductor/body_cache.h"

#include <fmt/format.h>

#include "base/json_io.h"

namespace noetl::conductor {

Result<const Json*> BodyCache::Find(std::string_view ref) const {
  const auto found = entries_.find(ref);
  if (found == entries_.end()) return nullptr;
  if (found->second.body) return &*found->second.body;
  return Fail("REFERENCE_NOT_AVAILABLE", fmt::format("the stored body {} is not available: {}", ref,
                                                     found->second.body.error().message));
}

void BodyCache::Load(const std::string& ref) {
  Result<Json> body = results_->Load(ref);
  // Rows of a loop that a decision has just made are laid over the stored ones; there may be none.
  if (!body && body.error().code == "not_found" && ref.find("/loop/") != std::string::npos)
    body = Json::Array();
  const bool lasting = body && ref.find("/result/") != std::string::npos;
  const std::size_t bytes = lasting ? JsonSize(*body) : 0;
  Put(ref, {std::move(body), bytes, lasting});
}

void BodyCache::Add(const std::string& ref, Json body) {
  // Not before it is stored may it outlive the decision.
  Put(ref, {std::move(body), 0, false});
}

void BodyCache::Put(const std::string& ref, Entry entry) {
  if (entry.lasting) {
    order_.push_back(ref);
    bytes_ += entry.bytes;
  }
  entries_.insert_or_assign(ref, std::move(entry));
}

void BodyCache::Trim() {
  if (entries_.size() != order_.size()) {
    std::erase_if(entries_, [](const auto& item) { return !item.second.lasting; });
  }
  while (bytes_ > kBodyCacheBytesMax) {
    const auto oldest = entries_.find(order_.front());
    bytes_ -= oldest->second.bytes;
    entries_.erase(oldest);
    order_.pop_front();
  }
}

}  // namespace noetl::conductor
