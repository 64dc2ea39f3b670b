#include "store/sqlite/objects.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/descriptor.h"
#include "base/sha256.h"

namespace noetl::store {

namespace {

std::unexpected<Error> IoError(const std::string& path, int number = errno) {
  std::string_view code = "io";
  if (number == ENOSPC || number == EDQUOT) code = "disk_full";
  if (number == EROFS || number == EACCES) code = "read_only";
  return Fail(code, fmt::format("{}: {}", path, std::strerror(number)));
}

Status WriteWhole(const std::string& path, std::string_view data) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return IoError(path);
  if (const int code = WriteAll(file, data)) return IoError(path, code);
  if (fsync(file.get()) != 0) return IoError(path);
  return {};
}

Status Sync(const std::string& directory) {
  if (const int code = SyncDirectory(directory)) return IoError(directory, code);
  return {};
}

Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return IoError(path);
  return {};
}

}  // namespace

Result<std::string> ObjectFiles::Put(std::int64_t execution_id, std::string_view sha256_hex,
                                     std::string_view data) const {
  return PutFile(fmt::format("{}", execution_id), fmt::format("{}.json", sha256_hex), data);
}

// The name may hold anything, so the file has its digest.
Result<std::string> ObjectFiles::PutNamed(std::string_view name, std::string_view sha256_hex,
                                          std::string_view data) const {
  return PutFile("named", fmt::format("{}-{}", Sha256Hex(name), sha256_hex), data);
}

Result<std::string> ObjectFiles::PutFile(const std::string& folder, const std::string& name,
                                         std::string_view data) const {
  const std::string directory = fmt::format("{}/{}", root_, folder);
  const std::string key = fmt::format("{}/{}", folder, name);
  const std::string path = fmt::format("{}/{}", root_, key);
  if (access(path.c_str(), F_OK) != 0) {
    NOETL_TRY(MakeDirectory(root_));
    NOETL_TRY(MakeDirectory(directory));
    const std::string unfinished = path + ".new";
    if (const Status written = WriteWhole(unfinished, data); !written) {
      unlink(unfinished.c_str());
      return std::unexpected(written.error());
    }
    if (rename(unfinished.c_str(), path.c_str()) != 0) return IoError(path);
  }
  NOETL_TRY(Sync(directory));
  NOETL_TRY(Sync(root_));
  return key;
}

Result<std::string> ObjectFiles::Read(const std::string& key) const {
  const std::string path = fmt::format("{}/{}", root_, key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail("not_found", fmt::format("{}: {}", path, std::strerror(errno)));
  std::string data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return Fail("io", fmt::format("{}: cannot be read", path));
  return data;
}

void ObjectFiles::RemoveAll(std::int64_t execution_id, const std::set<std::string>& kept) const {
  std::error_code ignored;
  const std::string folder = fmt::format("{}/{}", root_, execution_id);
  if (kept.empty()) {
    std::filesystem::remove_all(folder, ignored);
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    std::string key = fmt::format("{}/{}", execution_id, entry.path().filename().string());
    if (!kept.contains(key)) Remove(key);
  }
}

void ObjectFiles::Remove(const std::string& key) const {
  unlink(fmt::format("{}/{}", root_, key).c_str());
}

}  // namespace noetl::store
