// Group commit: many units of many lanes in one transaction.
//
// Lanes hand over finished units and get them back with the answer of the store. While one
// transaction waits for the disk the next one gathers, so the number of units in a transaction
// follows the load and no timer is needed. Units of one execution are never handed over two at a
// time, so their order is that of the calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "store/store.h"

namespace noetl::conductor {

struct Committed {
  std::unique_ptr<store::UnitRows> unit;
  Status status;
};

// Where answers go. Called on the committer's thread.
class CommitSink {
 public:
  virtual ~CommitSink() = default;
  virtual void OnCommitted(std::vector<Committed> results) = 0;
};

class Committer {
 public:
  virtual ~Committer() = default;
  // Any thread.
  virtual void Submit(std::vector<std::unique_ptr<store::UnitRows>> units, CommitSink* sink) = 0;
};

// A larger transaction would make the next one wait too long; one unit may be larger.
inline constexpr std::size_t kCommitEventsMax = 2'000;
inline constexpr std::size_t kCommitBytesMax = 8u << 20;

// Commits on a thread of its own.
class ThreadCommitter final : public Committer {
 public:
  explicit ThreadCommitter(store::EventLog* log);
  // Everything that was submitted is committed first.
  ~ThreadCommitter() override;

  void Submit(std::vector<std::unique_ptr<store::UnitRows>> units, CommitSink* sink) override;

 private:
  struct Job {
    std::unique_ptr<store::UnitRows> unit;
    CommitSink* sink;
  };
  void Run();

  store::EventLog* log_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

// Commits the units in one transaction and answers each sink once.
void CommitTogether(store::EventLog& log, std::vector<std::unique_ptr<store::UnitRows>> units,
                    const std::vector<CommitSink*>& sinks);

}  // namespace noetl::conductor
