#include "store/memory/memory_catalog.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/unit_check.h"

namespace noetl::store {

namespace {

bool IsVisible(const CatalogEntry& entry) { return entry.archived_at_us == 0; }

const CatalogEntry* NewestOf(const std::vector<CatalogEntry>& versions, bool with_archived) {
  for (auto entry = versions.rbegin(); entry != versions.rend(); ++entry) {
    if (with_archived || IsVisible(*entry)) return &*entry;
  }
  return nullptr;
}

CatalogEntry WithoutContent(CatalogEntry entry) {
  entry.content.clear();
  return entry;
}

bool Fits(const CatalogFilter& filter, const CatalogEntry& entry) {
  return (filter.kind.empty() || entry.kind == filter.kind) &&
         entry.path.starts_with(filter.path_prefix) &&
         (filter.path.empty() || entry.path == filter.path) &&
         (filter.include_archived || IsVisible(entry)) &&
         (filter.before_id == 0 || entry.catalog_id < filter.before_id);
}

}  // namespace

Result<CatalogEntry> MemoryCatalog::Register(CatalogEntry entry) {
  for (const auto& [path, versions] : entries_) {
    const CatalogEntry* holder = NewestOf(versions, /*with_archived=*/false);
    if (holder && !entry.listener.empty() && path != entry.path &&
        holder->listener == entry.listener) {
      return ListenerIsTaken(entry, *holder);
    }
  }
  const auto found = entries_.find(entry.path);
  const CatalogEntry* newest =
      found == entries_.end() ? nullptr : NewestOf(found->second, /*with_archived=*/false);
  if (newest && newest->content == entry.content && newest->kind == entry.kind) return *newest;
  if (Find(entry.catalog_id))
    return Fail("bad_row", fmt::format("catalog id {} is taken", entry.catalog_id));
  std::vector<CatalogEntry>& versions = entries_[entry.path];
  entry.version = versions.empty() ? 1 : versions.back().version + 1;
  entry.archived_at_us = 0;
  versions.push_back(entry);
  return entry;
}

const CatalogEntry* MemoryCatalog::Find(std::int64_t catalog_id) const {
  for (const auto& [path, versions] : entries_) {
    for (const CatalogEntry& entry : versions) {
      if (entry.catalog_id == catalog_id) return &entry;
    }
  }
  return nullptr;
}

const CatalogEntry* MemoryCatalog::Find(std::string_view path, std::int64_t version) const {
  const auto found = entries_.find(path);
  if (found == entries_.end()) return nullptr;
  if (version == 0) return NewestOf(found->second, /*with_archived=*/false);
  for (const CatalogEntry& entry : found->second) {
    if (entry.version == version) return IsVisible(entry) ? &entry : nullptr;
  }
  return nullptr;
}

std::vector<CatalogEntry> MemoryCatalog::Newest(std::string_view after_path,
                                                std::int64_t limit) const {
  std::vector<CatalogEntry> entries;
  for (auto at = entries_.upper_bound(after_path); at != entries_.end(); ++at) {
    if (std::ssize(entries) >= limit) break;
    const CatalogEntry* newest = NewestOf(at->second, /*with_archived=*/false);
    if (newest) entries.push_back(WithoutContent(*newest));
  }
  return entries;
}

std::vector<CatalogEntry> MemoryCatalog::List(const CatalogFilter& filter) const {
  std::vector<CatalogEntry> entries;
  for (const auto& [path, versions] : entries_) {
    const CatalogEntry* newest = NewestOf(versions, filter.include_archived);
    for (const CatalogEntry& entry : versions) {
      if (!Fits(filter, entry) || (filter.latest_only && &entry != newest)) continue;
      entries.push_back(filter.include_content ? entry : WithoutContent(entry));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const CatalogEntry& a, const CatalogEntry& b) {
    return a.catalog_id > b.catalog_id;
  });
  if (std::ssize(entries) > filter.limit)
    entries.resize(static_cast<std::size_t>(std::max<std::int64_t>(filter.limit, 0)));
  return entries;
}

std::vector<CatalogEntry> MemoryCatalog::WithListener(std::string_view listener,
                                                      std::int64_t limit) const {
  std::vector<CatalogEntry> entries;
  for (const auto& [path, versions] : entries_) {
    const CatalogEntry* newest = NewestOf(versions, /*with_archived=*/false);
    if (newest && newest->listener == listener && std::ssize(entries) < limit)
      entries.push_back(*newest);
  }
  return entries;
}

CatalogRemoval MemoryCatalog::Remove(std::string_view path, std::int64_t version,
                                     std::int64_t now_us,
                                     const std::function<bool(const CatalogEntry&)>& is_used) {
  CatalogRemoval removal;
  const auto found = entries_.find(path);
  if (found == entries_.end()) return removal;
  const auto wanted = [&](const CatalogEntry& entry) {
    return IsVisible(entry) && (version == 0 || entry.version == version);
  };
  std::vector<CatalogEntry>& versions = found->second;
  removal.archived = std::any_of(versions.begin(), versions.end(), [&](const CatalogEntry& entry) {
    return wanted(entry) && is_used(entry);
  });
  for (CatalogEntry& entry : versions) {
    if (!wanted(entry)) continue;
    removal.entries.push_back(WithoutContent(entry));
    if (removal.archived) removal.entries.back().archived_at_us = now_us;
  }
  if (!removal.archived) {
    std::erase_if(versions, wanted);
    if (versions.empty()) entries_.erase(found);
    return removal;
  }
  for (CatalogEntry& entry : versions) {
    if (wanted(entry)) entry.archived_at_us = now_us;
  }
  return removal;
}

std::vector<CatalogEntry> MemoryCatalog::Restore(std::string_view path, std::int64_t version) {
  std::vector<CatalogEntry> entries;
  const auto found = entries_.find(path);
  if (found == entries_.end()) return entries;
  for (CatalogEntry& entry : found->second) {
    if (IsVisible(entry) || (version != 0 && entry.version != version)) continue;
    entry.archived_at_us = 0;
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace noetl::store
