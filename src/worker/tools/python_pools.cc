#include "worker/tools/python_pools.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace noetl::worker {

namespace {

std::int64_t NowMicros() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

PythonPools::PythonPools(EventLoop* loop, Supervisor* supervisor, std::string usual,
                         std::vector<std::string> preload, std::size_t others_max,
                         std::int64_t idle_us)
    : loop_(loop),
      supervisor_(supervisor),
      usual_name_(std::move(usual)),
      preload_(std::move(preload)),
      others_max_(others_max),
      idle_us_(idle_us),
      usual_(loop, supervisor, usual_name_, preload_) {}

PythonPools::~PythonPools() {
  loop_->CancelTimer(end_);
  loop_->CancelTimer(watch_);
}

PythonPool* PythonPools::Find(const std::string& interpreter) {
  if (interpreter == usual_name_) return &usual_;
  auto found = others_.find(interpreter);
  if (found == others_.end()) {
    if (others_.size() >= others_max_ && !MakePlace()) return nullptr;
    found = others_.emplace(interpreter, Other()).first;
    found->second.pool = std::make_unique<PythonPool>(loop_, supervisor_, interpreter, preload_);
  }
  found->second.used_us = NowMicros();
  Watch();
  return found->second.pool.get();
}

bool PythonPools::MakePlace() {
  auto oldest = others_.end();
  for (auto at = others_.begin(); at != others_.end(); ++at) {
    if (!at->second.pool->idle()) continue;
    if (oldest == others_.end() || at->second.used_us < oldest->second.used_us) oldest = at;
  }
  if (oldest == others_.end()) return false;
  Remove(oldest);
  return true;
}

void PythonPools::Remove(Others::iterator at) {
  ending_.push_back(std::move(at->second.pool));
  others_.erase(at);
  if (end_ != 0) return;
  end_ = loop_->After(0, [this] {
    end_ = 0;
    ending_.clear();
  });
}

// Looks once in the time that one may be idle; without others there is nothing to look at.
void PythonPools::Watch() {
  if (watch_ != 0 || others_.empty()) return;
  watch_ = loop_->After(idle_us_, [this] {
    watch_ = 0;
    const std::int64_t before_us = NowMicros() - idle_us_;
    for (auto at = others_.begin(); at != others_.end();) {
      const auto next = std::next(at);
      if (at->second.pool->idle() && at->second.used_us <= before_us) Remove(at);
      at = next;
    }
    Watch();
  });
}

}  // namespace noetl::worker
