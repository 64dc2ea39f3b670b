#include "conductor/committer.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>

namespace noetl::conductor {

void CommitTogether(store::EventLog& log, std::vector<std::unique_ptr<store::UnitRows>> units,
                    const std::vector<CommitSink*>& sinks) {
  std::vector<const store::UnitRows*> rows;
  rows.reserve(units.size());
  for (const auto& unit : units) rows.push_back(unit.get());
  std::vector<Status> statuses = log.Commit(rows);

  std::vector<std::pair<CommitSink*, std::vector<Committed>>> answers;
  for (std::size_t i = 0; i < units.size(); ++i) {
    auto found = std::find_if(answers.begin(), answers.end(),
                              [&](const auto& answer) { return answer.first == sinks[i]; });
    if (found == answers.end()) {
      answers.emplace_back(sinks[i], std::vector<Committed>());
      found = std::prev(answers.end());
    }
    found->second.push_back({std::move(units[i]), std::move(statuses[i])});
  }
  for (auto& [sink, results] : answers) sink->OnCommitted(std::move(results));
}

ThreadCommitter::ThreadCommitter(store::EventLog* log) : log_(log), thread_([this] { Run(); }) {}

ThreadCommitter::~ThreadCommitter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ThreadCommitter::Submit(std::vector<std::unique_ptr<store::UnitRows>> units,
                             CommitSink* sink) {
  if (units.empty()) return;
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = queue_.empty();
    for (auto& unit : units) queue_.push_back({std::move(unit), sink});
  }
  if (was_empty) wake_.notify_one();
}

void ThreadCommitter::Run() {
  pthread_setname_np(pthread_self(), "committer");
  std::vector<Job> jobs;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      jobs.swap(queue_);
    }
    std::size_t next = 0;
    while (next < jobs.size()) {
      std::vector<std::unique_ptr<store::UnitRows>> units;
      std::vector<CommitSink*> sinks;
      std::size_t events = 0;
      std::size_t bytes = 0;
      for (; next < jobs.size(); ++next) {
        Job& job = jobs[next];
        const std::size_t size = job.unit->Bytes();
        if (!units.empty() && (events + job.unit->events.size() > kCommitEventsMax ||
                               bytes + size > kCommitBytesMax)) {
          break;
        }
        events += job.unit->events.size();
        bytes += size;
        units.push_back(std::move(job.unit));
        sinks.push_back(job.sink);
      }
      CommitTogether(*log_, std::move(units), sinks);
    }
    jobs.clear();
  }
}

}  // namespace noetl::conductor
