// What the kernel knows about our descendants, and how to end them.
//
// A process that runs a tool takes over the orphans of its own descendants (see SpawnPlan), and
// this process takes over what remains when one ends. So a running tree is complete under its root,
// and a direct child of ours that nobody here started is what an ended process left behind: a
// stray. No process can hide from that by forking twice, leaving its session or changing its
// environment.
//
// The kernel keeps one list of children for a process, so there is one ChildTable, shared by all
// workers in it. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include <sys/resource.h>

#include "base/result.h"
#include "worker/process_spawn.h"

namespace noetl::worker {

// Direct children; those of every thread of the process.
std::vector<int> ChildrenOf(int pid);
// Processes under `root`, without it; little more than `most` when there are more. What forks
// meanwhile may be missing.
std::vector<int> DescendantsOf(int root, std::size_t most = 65'536);
// Kills the processes and everything under them. They may be dying still when it returns, but none
// of them does anything any more.
void KillTrees(const std::vector<int>& roots);
// Kills every process, of whatever parent, whose first environment holds the text. Slow.
void KillByEnvironment(std::string_view text);

// Memory of their own that the processes occupy.
std::int64_t MemoryKbOf(const std::vector<int>& pids);
// The same with pages that several of them share counted once; slow.
std::int64_t ExactMemoryKbOf(const std::vector<int>& pids);

class ChildTable {
 public:
  static ChildTable& OfThisProcess();

  // Spawns a process that is known from its first moment.
  Result<Spawned> Start(const SpawnPlan& plan);
  struct End {
    int status = 0;  // as waitpid gives it
    rusage use = {};
  };
  // Reaps a started process that has ended; false when it still runs.
  bool Reap(int pid, End* end);
  // Waits for the end of a started process that was killed, and of what it leaves behind; not for
  // ever. For destructors, when nobody will be there to hear of it.
  void Bury(int pid);
  // Reaps strays that are dead and kills the others. Gives the number of those: sweep again until
  // it is 0.
  std::size_t Sweep();

 private:
  ChildTable();

  std::mutex mutex_;
  std::set<int> started_;
  std::set<int> condemned_;  // strays that have their SIGKILL
};

}  // namespace noetl::worker
