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

namespace noetl::worker {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  bool ok() const { return number_ >= 0; }

 private:
  int number_;
};

std::unexpected<Error> Problem(std::string_view what, const std::string& path) {
  return Fail("io", fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

Status SyncDirectory(const std::string& directory) {
  const Descriptor opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.ok() || fsync(opened.get()) != 0) return Problem("cannot sync", directory);
  return {};
}

Status WriteAll(int descriptor, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Problem("cannot write", path);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
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
    if (!file.ok()) return Problem("cannot write", beside);
    NOETL_TRY(WriteAll(file.get(), content, beside));
    if (fsync(file.get()) != 0) return Problem("cannot sync", beside);
  }
  if (rename(beside.c_str(), path.c_str()) != 0) return Problem("cannot rename", beside);
  return SyncDirectory(directory);
}

Status MoveDurably(const std::string& from_directory, const std::string& to_directory,
                   const std::string& name) {
  const std::string from = from_directory + "/" + name;
  if (rename(from.c_str(), (to_directory + "/" + name).c_str()) != 0)
    return Problem("cannot move", from);
  NOETL_TRY(SyncDirectory(to_directory));
  return SyncDirectory(from_directory);
}

Status RemoveFile(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Problem("cannot remove", path);
  return {};
}

Result<std::string> ReadWholeFile(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok() && errno == ENOENT) return Fail("not_found", fmt::format("no file {}", path));
  if (!file.ok()) return Problem("cannot read", path);
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
