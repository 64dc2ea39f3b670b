// Preloaded into `noetl` by tests/kill/run.py: dies at a chosen write.
//
// Counts every call that changes a file under the directory $NOETL_CRASH_DIR: writes, syncs,
// truncations, and what makes, renames and removes files. At call number $NOETL_CRASH_AT the process
// gets SIGKILL, by $NOETL_CRASH_MODE:
//
//   before   the call is not made
//   after    the call has been made, its caller does not learn of it
//   torn     half of the bytes are written; calls that write no bytes are not made
//
// Calls of other threads that come later wait for the end, so nothing after the chosen call reaches
// the disk. With 0 nobody dies. The number of calls goes to the file $NOETL_CRASH_COUNT at exit.
//
// Thread rule: all functions may be called from many threads, and from a child that still shares our
// memory before its exec; there is no lock and no allocation.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

enum class Mode { kBefore, kAfter, kTorn };

std::atomic<long> g_calls = 0;
std::atomic<bool> g_ready = false;
long g_crash_at = 0;
Mode g_mode = Mode::kBefore;
pid_t g_process = 0;
const char* g_directory = nullptr;

// The function that this one stands in front of.
template <typename Function>
class Real {
 public:
  explicit constexpr Real(const char* name) : name_(name) {}
  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    Function* function = function_.load(std::memory_order_relaxed);
    if (!function) {
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function*> function_ = nullptr;
};

bool IsInside(const char* path) {
  if (!g_ready || !path) return false;
  const std::string_view directory(g_directory);
  const std::string_view given(path);
  return given.starts_with(directory) &&
         (given.size() == directory.size() || given[directory.size()] == '/');
}

// Asked anew every time: descriptors are used again for other files.
bool IsInside(int descriptor) {
  if (!g_ready) return false;
  const int error = errno;
  char link[64];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  char path[4096];
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  errno = error;
  if (length <= 0) return false;
  path[length] = '\0';
  return IsInside(path);
}

bool HasMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

[[noreturn]] void Die() {
  kill(g_process, SIGKILL);
  while (true) pause();
}

// `part` does what is left of the call when it is torn.
template <typename Call, typename Part>
auto Counted(bool inside, Call call, Part part) {
  if (!inside) return call();
  const long number = ++g_calls;
  if (g_crash_at == 0 || number < g_crash_at) return call();
  while (number > g_crash_at) pause();
  if (g_mode == Mode::kAfter) call();
  if (g_mode == Mode::kTorn) part();
  Die();
}

template <typename Call>
auto Counted(bool inside, Call call) {
  return Counted(inside, call, [] {});
}

__attribute__((constructor)) void Begin() {
  g_directory = std::getenv("NOETL_CRASH_DIR");
  if (!g_directory) return;
  if (const char* at = std::getenv("NOETL_CRASH_AT")) g_crash_at = std::atol(at);
  if (const char* mode = std::getenv("NOETL_CRASH_MODE")) {
    if (std::strcmp(mode, "after") == 0) g_mode = Mode::kAfter;
    if (std::strcmp(mode, "torn") == 0) g_mode = Mode::kTorn;
  }
  g_process = getpid();
  g_ready = true;
}

__attribute__((destructor)) void End() {
  const char* path = std::getenv("NOETL_CRASH_COUNT");
  if (!g_ready || !path) return;
  if (std::FILE* file = std::fopen(path, "w")) {
    std::fprintf(file, "%ld\n", g_calls.load());
    std::fclose(file);
  }
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t size) {
  static constinit Real<ssize_t(int, const void*, size_t)> real("write");
  return Counted(
      IsInside(descriptor), [&] { return real(descriptor, data, size); },
      [&] { real(descriptor, data, size / 2); });
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  static constinit Real<ssize_t(int, const void*, size_t, off_t)> real("pwrite");
  return Counted(
      IsInside(descriptor), [&] { return real(descriptor, data, size, offset); },
      [&] { real(descriptor, data, size / 2, offset); });
}

ssize_t pwrite64(int descriptor, const void* data, size_t size, off64_t offset) {
  static constinit Real<ssize_t(int, const void*, size_t, off64_t)> real("pwrite64");
  return Counted(
      IsInside(descriptor), [&] { return real(descriptor, data, size, offset); },
      [&] { real(descriptor, data, size / 2, offset); });
}

int fsync(int descriptor) {
  static constinit Real<int(int)> real("fsync");
  return Counted(IsInside(descriptor), [&] { return real(descriptor); });
}

int fdatasync(int descriptor) {
  static constinit Real<int(int)> real("fdatasync");
  return Counted(IsInside(descriptor), [&] { return real(descriptor); });
}

int ftruncate(int descriptor, off_t size) noexcept {
  static constinit Real<int(int, off_t)> real("ftruncate");
  return Counted(IsInside(descriptor), [&] { return real(descriptor, size); });
}

int ftruncate64(int descriptor, off64_t size) noexcept {
  static constinit Real<int(int, off64_t)> real("ftruncate64");
  return Counted(IsInside(descriptor), [&] { return real(descriptor, size); });
}

int fallocate64(int descriptor, int mode, off64_t offset, off64_t size) {
  static constinit Real<int(int, int, off64_t, off64_t)> real("fallocate64");
  return Counted(IsInside(descriptor), [&] { return real(descriptor, mode, offset, size); });
}

int posix_fallocate64(int descriptor, off64_t offset, off64_t size) {
  static constinit Real<int(int, off64_t, off64_t)> real("posix_fallocate64");
  return Counted(IsInside(descriptor), [&] { return real(descriptor, offset, size); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static constinit Real<int(const char*, mode_t)> real("mkdir");
  return Counted(IsInside(path), [&] { return real(path, mode); });
}

int rename(const char* from, const char* to) noexcept {
  static constinit Real<int(const char*, const char*)> real("rename");
  return Counted(IsInside(to), [&] { return real(from, to); });
}

int unlink(const char* path) noexcept {
  static constinit Real<int(const char*)> real("unlink");
  return Counted(IsInside(path), [&] { return real(path); });
}

int rmdir(const char* path) noexcept {
  static constinit Real<int(const char*)> real("rmdir");
  return Counted(IsInside(path), [&] { return real(path); });
}

// Only what may make a file or empty it counts.
int open(const char* path, int flags, ...) {
  static constinit Real<int(const char*, int, mode_t)> real("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = HasMode(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return Counted((flags & (O_CREAT | O_TRUNC)) != 0 && IsInside(path),
                 [&] { return real(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  static constinit Real<int(const char*, int, mode_t)> real("open64");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = HasMode(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return Counted((flags & (O_CREAT | O_TRUNC)) != 0 && IsInside(path),
                 [&] { return real(path, flags, mode); });
}

}  // extern "C"
