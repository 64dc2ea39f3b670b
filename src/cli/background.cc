#include "cli/background.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace noetl::cli {
namespace {

// Opening a large data directory takes a while; more is a service that hangs.
constexpr int kReadyMs = 120'000;
// Of a log, when the service could not begin.
constexpr off_t kShownBytesMax = 8'192;

int Complain(const BackgroundOptions& options, std::string_view problem, Console& console) {
  console.Err(fmt::format("noetl {} start: {}\n", options.what, problem));
  return kExitFailed;
}

int OpenLog(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  mkdir(folder.c_str(), 0700);  // when it fails, so does the next thing
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && info.st_size >= kBackgroundLogBytesMax)
    rename(path.c_str(), (path + ".1").c_str());
  return open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void UseAsStreams(int log) {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close(log);
}

int Serve(int log, int ready, const std::function<int(Console&, const Greet&)>& serve) {
  setsid();
  UseAsStreams(log);
  Console console;
  const Greet greet = [ready](const std::string& text) {
    // Fits into a pipe. Whoever reads it may have gone.
    [[maybe_unused]] const ssize_t written = write(ready, text.data(), text.size());
    close(ready);
  };
  return serve(console, greet);
}

// What the service says when it is ready; empty: it ended, or time is up.
std::string ReadGreeting(int ready, bool* late) {
  std::string text;
  std::array<char, 4'096> piece{};
  while (true) {
    pollfd wait{.fd = ready, .events = POLLIN, .revents = 0};
    const int event = poll(&wait, 1, kReadyMs);
    if (event < 0 && errno == EINTR) continue;
    *late = event == 0;
    if (event <= 0) return text;
    const ssize_t length = read(ready, piece.data(), piece.size());
    if (length <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(length));
  }
}

// What was written to the log from `from` on, the end of it.
std::string Written(int log, off_t from) {
  struct stat info{};
  if (fstat(log, &info) != 0 || info.st_size <= from) return "";
  std::string text(static_cast<std::size_t>(std::min(info.st_size - from, kShownBytesMax)), '\0');
  const ssize_t length =
      pread(log, text.data(), text.size(), info.st_size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

}  // namespace

int StartInBackground(const BackgroundOptions& options,
                      const std::function<int(Console&, const Greet&)>& serve, Console& console) {
  const int log = OpenLog(options.log);
  if (log < 0)
    return Complain(options, fmt::format("{}: {}", options.log, std::strerror(errno)), console);
  struct stat before{};
  fstat(log, &before);
  std::array<int, 2> ready{};
  if (pipe2(ready.data(), O_CLOEXEC) != 0) return Complain(options, std::strerror(errno), console);
  const pid_t child = fork();
  if (child < 0) return Complain(options, std::strerror(errno), console);
  if (child == 0) {
    close(ready[0]);
    return Serve(log, ready[1], serve);
  }
  close(ready[1]);
  bool late = false;
  const std::string greeting = ReadGreeting(ready[0], &late);
  close(ready[0]);
  int code = kExitOk;
  if (!greeting.empty()) {
    console.Out(fmt::format("{}process {}, log {}\n", greeting, child, options.log));
  } else if (late) {
    console.Err(fmt::format("noetl {} start: process {} is not ready after {} s; see {}\n",
                            options.what, child, kReadyMs / 1'000, options.log));
    code = kExitTimeout;
  } else {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    console.Err(Written(log, before.st_size));
    code = WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : kExitFailed;
  }
  close(log);
  return code;
}

}  // namespace noetl::cli
