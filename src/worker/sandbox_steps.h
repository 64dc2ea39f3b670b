// What a new process does to confine itself before it runs its program.
//
// The parent writes the steps down; the new process, which still shares the parent's memory, only
// takes them: system calls, no heap, no locks. A step that fails is the last one: `errno` says why,
// and the caller gets its place in the list. Used by sandbox.h and process_spawn.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace noetl::worker {

enum class SandboxAct : std::uint8_t {
  kWrite,            // text `source` to the file `target`
  kMount,            // `source` to `target`, with `type`, `flags` and `data` as mount(2) takes them
  kAttributes,       // MOUNT_ATTR_... `flags` on `target`
  kAttributesBelow,  // the same on all mounts below it as well
  kFolder,           // may exist
  kFile,             // empty; may exist
  kLink,             // at `target`, to `source`
  kPivot,            // the working directory becomes the root; the former one is under `target`
  kChange,           // of the working directory
  kUnmount,          // with all below it
  kRemove,           // an empty folder
  kHostName,
  kLoopback,    // brings the loopback device up
  kUser,        // `flags` is user and group
  kPrivileges,  // gives all capabilities up
  kFilter,      // of system calls
};

struct SandboxStep {
  SandboxAct act = SandboxAct::kFilter;
  const char* source = nullptr;
  const char* target = nullptr;
  const char* type = nullptr;
  unsigned long flags = 0;
  const char* data = nullptr;
};

// The number of steps that were taken; all of them: it worked.
std::size_t TakeSandboxSteps(const SandboxStep* steps, std::size_t count);

}  // namespace noetl::worker
