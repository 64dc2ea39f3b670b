// Which run a key started not long ago. For dispatchers that have no server to remember it. Pure, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace noetl::worker {

class RecentKeys {
 public:
  // More would be an hour of a thousand a second; then the one that ends first is forgotten.
  static constexpr std::size_t kKeysMax = 4'000'000;

  struct Key {
    std::int64_t execution_id = 0;
    std::int64_t until_us = 0;
  };

  // 0: none.
  std::int64_t Find(const std::string& key, std::int64_t now_us) {
    Prune(now_us);
    const auto found = keys_.find(key);
    return found == keys_.end() ? 0 : found->second.execution_id;
  }
  void Add(const std::string& key, std::int64_t execution_id, std::int64_t until_us) {
    Remove(key);
    keys_[key] = {execution_id, until_us};
    ends_.emplace(until_us, key);
    if (keys_.size() > kKeysMax) Remove(std::string(ends_.begin()->second));
  }
  void Remove(const std::string& key) {
    const auto found = keys_.find(key);
    if (found == keys_.end()) return;
    ends_.erase({found->second.until_us, key});
    keys_.erase(found);
  }
  const std::map<std::string, Key>& keys() const { return keys_; }

 private:
  void Prune(std::int64_t now_us) {
    while (!ends_.empty() && ends_.begin()->first <= now_us)
      Remove(std::string(ends_.begin()->second));
  }

  std::map<std::string, Key> keys_;
  std::set<std::pair<std::int64_t, std::string>> ends_;
};

}  // namespace noetl::worker
