#include "cli/pid_file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/text.h"

namespace noetl::cli {
namespace {

// Longer names of workers are cut off in what is shown.
constexpr std::size_t kFileBytesMax = 512;
// The line of progress tells another second.
constexpr std::int64_t kTickMs = 1'000;
// The kernel ends a process that is killed at once, unless it waits for a disk.
constexpr std::int64_t kKillMs = 10'000;

std::unexpected<Error> IoError(const std::string& path, int code = errno) {
  return Fail("io", fmt::format("{}: {}", path, std::strerror(code)));
}

// The whole file.
struct flock LockOf(short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The process whose lock is in the way of reading; 0: none.
Result<int> HolderOf(int descriptor, const std::string& path) {
  struct flock lock = LockOf(F_RDLCK);
  if (fcntl(descriptor, F_GETLK, &lock) != 0) return IoError(path);
  if (lock.l_type == F_UNLCK) return 0;
  if (lock.l_pid > 0) return lock.l_pid;
  return Fail("io", fmt::format("{}: held by a process that cannot be seen from here", path));
}

std::string NameIn(int descriptor) {
  std::array<char, kFileBytesMax> text{};
  const ssize_t length = pread(descriptor, text.data(), text.size(), 0);
  const std::string_view all(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  const std::size_t line = all.find('\n');
  return line == std::string_view::npos ? "" : std::string(Trim(all.substr(line + 1)));
}

// True when the process has ended.
bool WaitForEnd(int process, std::int64_t wait_ms, std::string_view words, Console& console) {
  SystemClock clock;
  const std::int64_t began_us = clock.MonotonicMicros();
  while (true) {
    const std::int64_t passed_ms = (clock.MonotonicMicros() - began_us) / 1'000;
    const std::int64_t left_ms = std::max<std::int64_t>(wait_ms - passed_ms, 0);
    pollfd end{.fd = process, .events = POLLIN, .revents = 0};
    const int ready = poll(&end, 1, static_cast<int>(std::min(left_ms, kTickMs)));
    if (ready > 0) return true;
    if (ready == 0 && left_ms == 0) return false;
    console.Progress(fmt::format("{} ... {} s", words, passed_ms / 1'000));
  }
}

}  // namespace

Result<std::unique_ptr<PidFile>> PidFile::Take(const std::string& path, std::string_view name) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return IoError(path);
  std::unique_ptr<PidFile> file(new PidFile(descriptor));
  const struct flock lock = LockOf(F_WRLCK);
  if (fcntl(descriptor, F_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) return IoError(path);
    NOETL_ASSIGN(const int holder, HolderOf(descriptor, path));
    return Fail("locked", fmt::format("{} is held by process {}", path, holder));
  }
  // Only for people: a full disk must not keep the service from starting.
  const std::string text = fmt::format("{}\n{}\n", getpid(), name);
  if (fchmod(descriptor, 0600) == 0 && ftruncate(descriptor, 0) == 0) {
    [[maybe_unused]] const ssize_t written = pwrite(descriptor, text.data(), text.size(), 0);
  }
  return file;
}

PidFile::~PidFile() {
  [[maybe_unused]] const int emptied = ftruncate(descriptor_, 0);
  close(descriptor_);
}

Result<std::optional<Service>> FindService(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return IoError(path);
  }
  NOETL_ASSIGN(const int holder, HolderOf(file.get(), path));
  if (holder == 0) return std::nullopt;
  return Service{holder, NameIn(file.get())};
}

void AddStopOptions(Parser& parser, StopOptions* options) {
  parser.Add("--timeout", &options->timeout, "wait so long for the end; then the exit code is 4")
      .Type("TIME")
      .ShowDefault();
  parser.Flag("-f,--force", &options->force, "kill it after that time");
}

Status StopService(std::string_view what, const std::string& path, const Service& service,
                   const StopOptions& options, Console& console) {
  const auto wait_ms = ParseDurationMs(options.timeout);
  if (!wait_ms || *wait_ms < 0) {
    return Fail("usage",
                fmt::format("--timeout: '{}' is not a duration; write 90s or 5m", options.timeout));
  }
  // A handle of the process, and then a second look at the lock: a number that was given to a new
  // process in between is seen here, and later ones do not change what the handle means.
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, service.pid, 0)));
  if (process.get() < 0 && errno != ESRCH) return IoError("pidfd_open");
  NOETL_ASSIGN(const auto now, FindService(path));
  if (process.get() < 0 || !now || now->pid != service.pid)
    return Fail("gone", fmt::format("the {} has just ended", what));
  const auto send = [&](int number) -> Status {
    if (syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0) == 0 || errno == ESRCH)
      return {};
    return IoError(fmt::format("process {}", service.pid));
  };
  const std::string who = fmt::format("the {} (process {})", what, service.pid);
  NOETL_TRY(send(SIGTERM));
  bool ended = WaitForEnd(process.get(), *wait_ms, "stopping " + who, console);
  if (!ended && options.force) {
    NOETL_TRY(send(SIGKILL));
    ended = WaitForEnd(process.get(), kKillMs, "killing " + who, console);
  }
  console.EndProgress();
  if (!ended) {
    return Fail("timeout",
                fmt::format("{} has not ended within {}; --force kills it", who, options.timeout));
  }
  console.Out(fmt::format("stopped {}\n", who));
  return {};
}

}  // namespace noetl::cli
