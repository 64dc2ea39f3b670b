// The data directory of one machine: who may use it.
//
// At most one process owns a directory: it holds a lock on `<dir>/lock` for as long as it lives, and
// the kernel lets go of it however the process ends. Others may read. The directory has mode 0700.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace noetl::store {

class DirectoryLock {
 public:
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Makes the directory when it is missing and takes its lock without waiting. "locked" names the
  // process that has it; "io" says why the directory cannot be used.
  static Result<std::unique_ptr<DirectoryLock>> Acquire(const std::string& directory);

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace noetl::store
