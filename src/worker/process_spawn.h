// Starting a program, without copying the memory of this process.
//
// `Spawn` suspends the calling thread until the new process runs its program: nothing of a large
// worker is copied, and a program that cannot run is an error here and not an exit code later. The
// new process leads a session and a process group of its own, dies with the thread that started it,
// can gain no privileges, and has only the descriptors it was given. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace noetl::worker {

class Sandbox;

// Where programs without a path are looked for, and the PATH of every process.
inline constexpr std::string_view kProgramPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct SpawnPlan {
  std::vector<std::string> argv;  // the first with or without a path
  std::vector<std::string> env;   // NAME=value
  std::string cwd;
  std::vector<int> descriptors;                       // the i-th becomes descriptor i
  std::vector<std::pair<int, std::uint64_t>> limits;  // RLIMIT_..., both soft and hard
  std::string group;                 // file that lets the process into its cgroup; empty: none
  bool adopts = true;                // takes over the orphans of its descendants; otherwise we do
  const Sandbox* sandbox = nullptr;  // that it enters before it runs; nullptr: none
};

struct Spawned {
  int pid = 0;
  int pidfd = -1;  // the caller's to close
};

// Errors: "not_found" (no such program), "cwd", "too_long" (arguments and environment), "sandbox"
// (the host refuses it), "spawn".
Result<Spawned> Spawn(const SpawnPlan& plan);

// The file that a program name stands for. Error: "not_found".
Result<std::string> FindProgram(std::string_view name);

}  // namespace noetl::worker
