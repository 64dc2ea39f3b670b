// The catalog of the store in memory. Not thread-safe: its owner holds a lock.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "store/store.h"

namespace noetl::store {

class MemoryCatalog {
 public:
  Result<CatalogEntry> Register(CatalogEntry entry);
  const CatalogEntry* Find(std::int64_t catalog_id) const;
  // Null when it is archived.
  const CatalogEntry* Find(std::string_view path, std::int64_t version) const;
  std::vector<CatalogEntry> Newest(std::string_view after_path, std::int64_t limit) const;
  std::vector<CatalogEntry> List(const CatalogFilter& filter) const;
  std::vector<CatalogEntry> WithListener(std::string_view listener, std::int64_t limit) const;
  CatalogRemoval Remove(std::string_view path, std::int64_t version, std::int64_t now_us,
                        const std::function<bool(const CatalogEntry&)>& is_used);
  std::vector<CatalogEntry> Restore(std::string_view path, std::int64_t version);

 private:
  // By path; the versions of a path grow.
  std::map<std::string, std::vector<CatalogEntry>, std::less<>> entries_;
};

}  // namespace noetl::store
