// All processes of one call, held together by the kernel.
//
// Where a cgroup with the `pids` controller is writable each call has one: nothing that its first
// process starts can leave it, it cannot hold more than its number of processes, and once that
// number is set to 0 nothing in it can fork, so killing it always succeeds. Elsewhere a group is
// the tree of processes under the first one, found by walking /proc (process_tree.h). One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace noetl::worker {

// A build or a shell script has fewer processes at one time.
inline constexpr std::size_t kAskedMax = 32;

class ProcessGroup {
 public:
  // `folder` is its cgroup; empty: there is none.
  explicit ProcessGroup(std::string folder) : folder_(std::move(folder)) {}
  ~ProcessGroup();  // kills, and waits until nothing is left
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  bool contained() const { return !folder_.empty(); }
  // Whoever writes "0" to this file is in the group; empty: nothing to enter.
  std::string Entry() const { return contained() ? folder_ + "/cgroup.procs" : std::string(); }
  // The first process, which may not have entered yet; 0 as soon as it is reaped.
  void Lead(int pid) { leader_ = pid; }
  // The first process before the others: it should hear a signal before it sees them end.
  std::vector<int> Members() const;
  // What all its processes may have together. Without a cgroup: nothing happens.
  void Limit(std::int64_t processes_max, std::int64_t memory_mb) const;
  // Whether it wanted more processes than it may have. Without a cgroup: unknown, false.
  bool RefusedForks() const;
  // Whether the kernel killed one of it for the memory of all. Without a cgroup that counts it:
  // unknown, false.
  bool KilledForMemory() const;
  // Whether it is too crowded to be asked to stop: what forks without end must be killed at once.
  bool IsCrowd() const { return RefusedForks() || Members().size() > kAskedMax; }
  void Signal(int signal) const;
  void Kill() const;
  // False while something in it still lives. Afterwards the cgroup is gone.
  bool Remove();

 private:
  std::string folder_;
  int leader_ = 0;
};

// Where groups are made.
class GroupSource {
 public:
  // Looks for a cgroup that this process may divide, first at `preferred` unless that is empty;
  // removes what dead workers left in it.
  static GroupSource Find(const std::string& preferred = {});
  // Groups are trees of processes.
  GroupSource() = default;

  bool contains() const { return !root_.empty(); }
  // For people: what holds the processes of a call.
  std::string Describe() const;
  // Without a cgroup also when the kernel has none left to give.
  std::unique_ptr<ProcessGroup> Make(std::int64_t processes_max, std::int64_t memory_mb) const;

 private:
  std::string root_;
};

}  // namespace noetl::worker
