// Child processes that cannot harm their parent.
//
// A process runs in its own process group with a scrubbed environment, limits on memory, files and
// output, and a scratch directory that is removed when it ends. Its output is read as it comes and
// kept bounded (the first two thirds and the last third of the limit). Stopping it, or reaching its
// time limit, sends SIGTERM to everything it started, SIGKILL two seconds later; when it has ended
// nothing that it started is left, however it forked (process_group.h). A process that does nothing
// wakes nobody. Lives on the event loop of the worker.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/event_loop.h"
#include "base/result.h"
#include "worker/process_group.h"
#include "worker/sandbox.h"
#include "worker/tool.h"

namespace noetl::worker {

struct ProcessLimits {
  std::int64_t timeout_ms = 0;  // 0: none
  std::int64_t memory_mb = 1'024;
  std::int64_t output_bytes_max = 8 << 20;  // per stream
  std::int64_t file_bytes_max = 1 << 30;
  std::int64_t open_files_max = 256;
  std::int64_t processes_max = 64;
  std::int64_t stop_grace_ms = kStopGraceMs;
};

struct ProcessSpec {
  std::vector<std::string> argv;  // the first with or without a path
  // The whole environment besides PATH, HOME, TMPDIR, LANG and TZ, which are set here.
  std::vector<std::pair<std::string, std::string>> env;
  std::string cwd;         // empty: the scratch directory
  std::string scratch;     // of MakeScratch; empty: one that lives as long as the process
  std::string stdin_text;  // written to the process, then closed
  ProcessLimits limits;
  Confinement confinement;  // its scratch directory is the one above
  std::function<void(OutputStream, std::string_view)> output;
};

struct ProcessExit {
  int code = 0;    // exit code, 128 + signal when killed
  int signal = 0;  // 0: it exited
  bool timed_out = false;
  bool stopped = false;  // by Stop
  bool out_of_memory = false;
  bool too_many_processes = false;
  std::string stdout_text;
  std::string stderr_text;
  bool stdout_truncated = false;
  bool stderr_truncated = false;
  std::int64_t duration_ms = 0;
  std::int64_t cpu_ms = 0;
  std::int64_t memory_kb_max = 0;
};

class Process {
 public:
  using Ended = std::move_only_function<void(ProcessExit)>;
  virtual ~Process() = default;  // kills at once when it has not ended
  virtual void Stop() = 0;
  virtual int pid() const = 0;
};

struct SupervisorOptions {
  // Without them it does as where none can be made.
  bool cgroups = true;
  // The one to divide; empty: it is looked for.
  std::string cgroup_root;
};

// Starts and watches processes. One for each worker; its scratch directories are under `scratch`.
class Supervisor {
 public:
  // Removes what earlier workers left in `scratch` and in the cgroups.
  static Result<std::unique_ptr<Supervisor>> Create(EventLoop* loop, std::string scratch,
                                                    const SupervisorOptions& options = {});
  // As the settings say. Error "settings": this host cannot confine processes as they ask for.
  static Result<std::unique_ptr<Supervisor>> Open(EventLoop* loop, std::string scratch,
                                                  const Settings& settings);
  virtual ~Supervisor() = default;

  // Fails when the program cannot be started, with a code of Spawn; otherwise `ended` is called
  // once, later.
  virtual Result<std::unique_ptr<Process>> Start(ProcessSpec spec, Process::Ended ended) = 0;
  // Processes that run now.
  virtual std::size_t running() const = 0;
  // What holds the processes of a call together, for people.
  virtual std::string Containment() const = 0;

  // For tools that keep processes of their own.
  //
  // A directory that only this user can read, and its removal with all that is in it.
  virtual Result<std::string> MakeScratch() = 0;
  virtual void RemoveScratch(const std::string& path) = 0;
  // A group for the processes of one call.
  virtual std::unique_ptr<ProcessGroup> MakeGroup(const ProcessLimits& limits) = 0;
  // Kills the group, and tells why, once it wants more processes or memory than it may have.
  // `Unguard` before its first process is reaped.
  enum class Excess { kProcesses, kMemory };
  virtual void Guard(ProcessGroup* group, const ProcessLimits& limits,
                     std::move_only_function<void(Excess)> exceeded) = 0;
  virtual void Unguard(ProcessGroup* group) = 0;
  // Kills what is left of a group whose first process has ended, then calls `clean`.
  virtual void End(std::unique_ptr<ProcessGroup> group, std::move_only_function<void()> clean) = 0;
};

// The same limits as the kernel takes them for each process: RLIMIT_... and value. `counted`: its
// user is not root, whose processes the kernel does not count.
std::vector<std::pair<int, std::uint64_t>> ResourceLimits(const ProcessLimits& limits,
                                                          bool counted = false);

// The environment that every process gets; HOME and TMPDIR are the scratch directory.
std::vector<std::pair<std::string, std::string>> BaseEnvironment(std::string_view scratch);

}  // namespace noetl::worker
