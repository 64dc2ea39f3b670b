#include "store/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace noetl::store {

namespace {

std::unexpected<Error> IoError(const std::string& path) {
  return Fail("io", fmt::format("{}: {}", path, std::strerror(errno)));
}

Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(directory).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) return Fail("io", fmt::format("{}: {}", parent.string(), error.message()));
  if (mkdir(directory.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return IoError(directory);
  struct stat info{};
  if (stat(directory.c_str(), &info) != 0) return IoError(directory);
  if (!S_ISDIR(info.st_mode)) {
    return Fail("io", fmt::format("{}: is a file, a directory is needed", directory));
  }
  // The log holds what runs were given: nobody else reads it, whatever the directory was made with.
  if ((info.st_mode & 0077) != 0 && chmod(directory.c_str(), 0700) != 0) return IoError(directory);
  return {};
}

std::string OwnerOf(int descriptor) {
  char text[24] = {};
  const ssize_t length = pread(descriptor, text, sizeof(text) - 1, 0);
  std::string owner(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  while (!owner.empty() && owner.back() == '\n') owner.pop_back();
  return owner.empty() ? "unknown" : owner;
}

}  // namespace

Result<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& directory) {
  NOETL_TRY(MakeDirectory(directory));
  const std::string path = directory + "/lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return IoError(path);
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return IoError(path);
    return Fail("locked", fmt::format("{} is in use by process {}; stop it or choose another "
                                      "data directory",
                                      directory, OwnerOf(descriptor)));
  }
  // Only for the message above: a full disk must not keep the owner from starting.
  const std::string owner = fmt::format("{}\n", getpid());
  if (ftruncate(descriptor, 0) == 0) {
    [[maybe_unused]] const ssize_t written = pwrite(descriptor, owner.data(), owner.size(), 0);
  }
  return lock;
}

DirectoryLock::~DirectoryLock() { close(descriptor_); }

}  // namespace noetl::store
