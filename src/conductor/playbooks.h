// Compiled playbooks of the catalog.
//
// A catalog entry never changes, so each is compiled once and kept; the least recently used ones go
// when there are many. Any thread.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "playbook/model.h"
#include "store/store.h"

namespace noetl::conductor {

// Compiled playbooks that stay in memory.
inline constexpr std::size_t kPlaybooksMax = 256;

struct CompiledPlaybook {
  std::int64_t catalog_id = 0;
  std::string path;
  std::int64_t version = 0;
  std::shared_ptr<const playbook::Playbook> playbook;
};

class Playbooks {
 public:
  explicit Playbooks(const store::Catalog* catalog) : catalog_(catalog) {}

  // "not_found" names the path or id; "invalid" lists what is wrong with the text.
  Result<CompiledPlaybook> Find(std::int64_t catalog_id);
  Result<CompiledPlaybook> Find(std::string_view path, std::int64_t version);

 private:
  Result<CompiledPlaybook> Compile(const store::CatalogEntry& entry);

  const store::Catalog* catalog_;
  std::mutex mutex_;
  std::list<CompiledPlaybook> recent_;  // the last used one first
  std::map<std::int64_t, std::list<CompiledPlaybook>::iterator> by_id_;
};

}  // namespace noetl::conductor
