// Which root names the worker needs for the templates that it renders itself.
#include <algorithm>

#include "playbook/build.h"

namespace noetl::playbook {
namespace {

// Made by the worker or the engine next to the templates; never read from the shipped context.
constexpr std::string_view kInjected[] = {
    "iter",         "item",     "loop",           "_prev",    "_results",   "results",
    "outcome",      "output",   "result",         "error",    "event",      "__cursor_frame",
    "__cursor_row", "keychain", "_task",          "_attempt", "server_url", "worker_id",
    "command_id",   "fence",    "idempotency_key"};

bool IsInjected(std::string_view name) {
  return std::find(std::begin(kInjected), std::end(kInjected), name) != std::end(kInjected);
}

}  // namespace

bool RootCollector::Deferred(const expr::Analysis& analysis) const {
  if (analysis.uses_token || analysis.UsesRoot("keychain") || analysis.UsesRoot("fence"))
    return true;
  for (const expr::RootPath& root : analysis.roots) {
    if (secrets_->contains(root.root)) return true;
    const bool below = root.root == "workload" || root.root == "ctx";
    if (below && !root.path.empty() && secrets_->contains(root.path.front())) return true;
  }
  return false;
}

void RootCollector::Add(const expr::Analysis& analysis) {
  const bool deferred = Deferred(analysis);
  defers_ = defers_ || deferred;
  if (mode_ == Mode::kDeferred && !deferred) return;
  for (const expr::RootPath& root : analysis.roots) {
    if (IsInjected(root.root)) continue;
    if (root.root == "ctx" || root.root == "steps") {
      if (root.path.empty()) {
        all_ = true;
      } else {
        roots_.insert(root.path.front());
      }
      continue;
    }
    roots_.insert(root.root);
  }
}

void RootCollector::MoveTo(Step* step) {
  step->worker_roots.assign(roots_.begin(), roots_.end());
  step->all_roots = all_;
  step->defers = defers_;
}

}  // namespace noetl::playbook
