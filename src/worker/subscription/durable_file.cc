#include "worker/subscription/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/descriptor.h"

namespace noetl::worker {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> Problem(std::string_view what, const std::string& path, int code = errno) {
  return Fail("io", fmt::format("{} {}: {}", what, path, std::strerror(code)));
}

Status Sync(const std::string& directory) {
  if (const int code = SyncDirectory(directory)) return Problem("cannot sync", directory, code);
  return {};
}

}  // namespace

Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  const fs::path path = fs::absolute(directory, error).lexically_normal();
  fs::path made;
  for (const fs::path& part : path) {
    made /= part;
    if (mkdir(made.c_str(), 0700) == 0 || errno == EEXIST) continue;
    if (fs::is_directory(made, error)) continue;
    return Problem("cannot make the directory", made.string());
  }
  if (!fs::is_directory(path, error))
    return Fail("io", fmt::format("{} is not a directory", directory));
  return {};
}

Status WriteDurably(const std::string& directory, const std::string& name,
                    std::string_view content) {
  const std::string path = directory + "/" + name;
  const std::string beside = path + ".new";
  {
    const Descriptor file(
        open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_open()) return Problem("cannot write", beside);
    if (const int code = WriteAll(file, content)) return Problem("cannot write", beside, code);
    if (fsync(file.get()) != 0) return Problem("cannot sync", beside);
  }
  if (rename(beside.c_str(), path.c_str()) != 0) return Problem("cannot rename", beside);
  return Sync(directory);
}

Status MoveDurably(const std::string& from_directory, const std::string& to_directory,
                   const std::string& name) {
  const std::string from = from_directory + "/" + name;
  if (rename(from.c_str(), (to_directory + "/" + name).c_str()) != 0)
    return Problem("cannot move", from);
  NOETL_TRY(Sync(to_directory));
  return Sync(from_directory);
}

Status RemoveFile(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Problem("cannot remove", path);
  return {};
}

Result<std::string> ReadWholeFile(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return Fail("not_found", fmt::format("no file {}", path));
  if (!file.is_open()) return Problem("cannot read", path);
  std::string content;
  std::array<char, 1 << 16> block;
  while (true) {
    const ssize_t count = read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Problem("cannot read", path);
    if (count == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace noetl::worker
