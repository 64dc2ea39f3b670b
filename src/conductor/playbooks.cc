#include "conductor/playbooks.h"

#include <fmt/format.h>

namespace noetl::conductor {

Result<CompiledPlaybook> Playbooks::Find(std::int64_t catalog_id) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_id_.find(catalog_id); found != by_id_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return recent_.front();
    }
  }
  NOETL_ASSIGN(const auto entry, catalog_->FindEntry(catalog_id));
  if (!entry)
    return Fail("not_found", fmt::format("the catalog has no entry with the id {}", catalog_id));
  return Compile(*entry);
}

Result<CompiledPlaybook> Playbooks::Find(std::string_view path, std::int64_t version) {
  NOETL_ASSIGN(const auto entry, catalog_->FindEntry(path, version));
  if (!entry && version > 0) {
    return Fail("not_found",
                fmt::format("the catalog has no version {} of playbook '{}'", version, path));
  }
  if (!entry) return Fail("not_found", fmt::format("the catalog has no playbook '{}'", path));
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_id_.find(entry->catalog_id); found != by_id_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return recent_.front();
    }
  }
  return Compile(*entry);
}

Result<CompiledPlaybook> Playbooks::Compile(const store::CatalogEntry& entry) {
  const playbook::Loaded loaded = playbook::Load(entry.content);
  if (!loaded.ok()) {
    std::string problems;
    for (const playbook::Diagnostic& diagnostic : loaded.diagnostics) {
      if (diagnostic.is_error())
        problems += "\n" + playbook::FormatDiagnostic(diagnostic, entry.path);
    }
    return Fail("invalid", fmt::format("playbook '{}' version {} is not valid:{}", entry.path,
                                       entry.version, problems));
  }
  CompiledPlaybook compiled{entry.catalog_id, entry.path, entry.version, loaded.playbook};
  const std::lock_guard lock(mutex_);
  if (by_id_.contains(entry.catalog_id)) return compiled;
  recent_.push_front(compiled);
  by_id_[entry.catalog_id] = recent_.begin();
  if (recent_.size() > kPlaybooksMax) {
    by_id_.erase(recent_.back().catalog_id);
    recent_.pop_back();
  }
  return compiled;
}

}  // namespace noetl::conductor
