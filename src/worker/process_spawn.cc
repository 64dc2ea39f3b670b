#include "worker/process_spawn.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/sandbox.h"

namespace noetl::worker {

namespace {

// The child only makes system calls between its start and exec; this is ample.
constexpr std::size_t kChildStackBytes = 64 << 10;
// However many processes a call starts, the worker goes before them.
constexpr int kCallNiceness = 10;
// Copies of the given descriptors go above this before they take their places.
constexpr int kDescriptorsMax = 16;

enum class Stage { kSetup, kGroup, kSandbox, kDirectory, kLimits, kProgram, kExec };

// Everything the child needs, prepared before it starts: it shares our memory and must not touch
// the heap or any lock.
struct ChildPlan {
  const char* program = nullptr;
  char* const* argv = nullptr;
  char* const* env = nullptr;
  const char* cwd = nullptr;
  const int* descriptors = nullptr;
  int descriptor_count = 0;
  const std::pair<int, std::uint64_t>* limits = nullptr;
  std::size_t limit_count = 0;
  const char* group = nullptr;
  int parent = 0;
  int parent_pidfd = -1;  // when the process cannot see the number of its parent
  bool adopts = true;
  const SandboxStep* steps = nullptr;
  std::size_t step_count = 0;
  std::size_t steps_taken = 0;
  const char* wrapped = nullptr;  // program that the first process of a namespace runs
  Stage stage = Stage::kSetup;
  int error = 0;
};

#define NOETL_UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))

NOETL_UNCHECKED bool SetUp(ChildPlan& plan) {
  // Handlers of the parent must never run in the child; ignored signals would survive exec.
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } standard = {};
  for (int signal = 1; signal <= 64; ++signal) {
    syscall(SYS_rt_sigaction, signal, &standard, nullptr, sizeof(standard.mask));
  }
  if (syscall(SYS_setsid) < 0) return false;
  if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return false;
  if (plan.adopts) syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  syscall(SYS_umask, 077);

  int copies[kDescriptorsMax];
  for (int i = 0; i < plan.descriptor_count; ++i) {
    copies[i] =
        static_cast<int>(syscall(SYS_fcntl, plan.descriptors[i], F_DUPFD_CLOEXEC, kDescriptorsMax));
    if (copies[i] < 0) return false;
  }
  int first_closed = plan.descriptor_count;
  if (plan.parent_pidfd >= 0) {
    const long copy = syscall(SYS_fcntl, plan.parent_pidfd, F_DUPFD_CLOEXEC, kDescriptorsMax + 1);
    if (copy < 0 || syscall(SYS_dup3, copy, first_closed, O_CLOEXEC) < 0) return false;
    plan.parent_pidfd = first_closed++;
  }
  for (int i = 0; i < plan.descriptor_count; ++i) {
    if (syscall(SYS_dup3, copies[i], i, 0) < 0) return false;
  }
  return syscall(SYS_close_range, first_closed, ~0U, 0) == 0;
}

// After the last change of user, which would undo it.
NOETL_UNCHECKED bool DieWithParent(const ChildPlan& plan) {
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  // The parent may have died before the request.
  if (plan.parent_pidfd < 0) return syscall(SYS_getppid) == plan.parent;
  pollfd parent = {plan.parent_pidfd, POLLIN, 0};
  timespec at_once = {};
  return syscall(SYS_ppoll, &parent, 1, &at_once, nullptr, 0) == 0;
}

NOETL_UNCHECKED bool EnterSandbox(ChildPlan& plan) {
  plan.steps_taken = TakeSandboxSteps(plan.steps, plan.step_count);
  return plan.steps_taken == plan.step_count;
}

NOETL_UNCHECKED bool SetLimits(const ChildPlan& plan) {
  for (std::size_t i = 0; i < plan.limit_count; ++i) {
    struct {
      std::uint64_t soft;
      std::uint64_t hard;
    } limit = {plan.limits[i].second, plan.limits[i].second};
    if (syscall(SYS_prlimit64, 0, plan.limits[i].first, &limit, nullptr) == 0) continue;
    // More than the worker itself may have: its own limit stays.
    if (errno != EPERM) return false;
  }
  return true;
}

// Before anything else runs: what the program starts is in the group from its birth.
NOETL_UNCHECKED bool EnterGroup(const ChildPlan& plan) {
  if (plan.group == nullptr) return true;
  const long file = syscall(SYS_openat, AT_FDCWD, plan.group, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool entered = syscall(SYS_write, file, "0", 1) == 1;
  syscall(SYS_close, file);
  syscall(SYS_setpriority, PRIO_PROCESS, 0, kCallNiceness);
  return entered;
}

// A stage is named before it begins, so that a failure knows where it was.
NOETL_UNCHECKED bool Begin(ChildPlan& plan, Stage stage) {
  plan.stage = stage;
  return true;
}

NOETL_UNCHECKED int RunChild(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  if (SetUp(plan) && Begin(plan, Stage::kGroup) && EnterGroup(plan) &&
      Begin(plan, Stage::kSandbox) && EnterSandbox(plan) && Begin(plan, Stage::kSetup) &&
      DieWithParent(plan) && Begin(plan, Stage::kDirectory) && syscall(SYS_chdir, plan.cwd) == 0 &&
      Begin(plan, Stage::kLimits) && SetLimits(plan) && Begin(plan, Stage::kProgram) &&
      (plan.wrapped == nullptr || syscall(SYS_faccessat, AT_FDCWD, plan.wrapped, X_OK) == 0)) {
    plan.stage = Stage::kExec;
    const unsigned long none = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
    syscall(SYS_execve, plan.program, plan.argv, plan.env);
  }
  plan.error = errno != 0 ? errno : ECHILD;
  syscall(SYS_exit_group, 127);
  return 127;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::unexpected<Error> StartFailure(const SpawnPlan& plan, const ChildPlan& child) {
  const Stage stage = child.stage;
  const int error = child.error;
  if (stage == Stage::kSandbox) {
    return std::unexpected(plan.sandbox->Refusal(child.steps_taken, error));
  }
  if (stage == Stage::kProgram) {
    return Fail("not_found",
                fmt::format("{} in the sandbox: {}", child.wrapped, std::strerror(error)));
  }
  if (stage == Stage::kDirectory) {
    return Fail("cwd", fmt::format("directory {}: {}", plan.cwd, std::strerror(error)));
  }
  if (stage == Stage::kGroup) {
    return Fail("spawn", fmt::format("{}: {}", plan.group, std::strerror(error)));
  }
  const std::string_view code =
      stage == Stage::kExec && error == E2BIG ? "too_long" : std::string_view("spawn");
  return Fail(code, fmt::format("{}: {}", plan.argv[0], std::strerror(error)));
}

}  // namespace

Result<std::string> FindProgram(std::string_view name) {
  if (name.contains('/')) {
    std::string path(name);
    if (access(path.c_str(), X_OK) == 0) return path;
    return Fail("not_found", fmt::format("{}: {}", name, std::strerror(errno)));
  }
  std::string_view rest = kProgramPath;
  while (!name.empty() && !rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::string path = fmt::format("{}/{}", rest.substr(0, end), name);
    if (access(path.c_str(), X_OK) == 0) return path;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return Fail("not_found", fmt::format("there is no program '{}' in {}", name, kProgramPath));
}

Result<Spawned> Spawn(const SpawnPlan& plan) {
  if (plan.argv.empty()) return Fail("not_found", "no program");
  if (plan.descriptors.size() > kDescriptorsMax) return Fail("spawn", "too many descriptors");
  NOETL_ASSIGN(const std::string program, FindProgram(plan.argv[0]));
  const Sandbox* const sandbox = plan.sandbox;
  const unsigned long namespaces = sandbox == nullptr ? 0 : sandbox->namespaces();
  const bool hidden = (namespaces & CLONE_NEWPID) != 0;
  const std::vector<std::string> words =
      sandbox == nullptr ? plan.argv : sandbox->Argv(program, plan.argv);
  const std::vector<char*> argv = Pointers(words);
  const std::vector<char*> env = Pointers(plan.env);
  ChildPlan child{
      .program = hidden ? words[0].c_str() : program.c_str(),
      .argv = argv.data(),
      .env = env.data(),
      .cwd = plan.cwd.empty() ? "/" : plan.cwd.c_str(),
      .descriptors = plan.descriptors.data(),
      .descriptor_count = static_cast<int>(plan.descriptors.size()),
      .limits = plan.limits.data(),
      .limit_count = plan.limits.size(),
      .group = plan.group.empty() ? nullptr : plan.group.c_str(),
      .parent = getpid(),
      .parent_pidfd = hidden ? static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)) : -1,
      .adopts = plan.adopts,
      .steps = sandbox == nullptr ? nullptr : sandbox->steps().data(),
      .step_count = sandbox == nullptr ? 0 : sandbox->steps().size(),
      .wrapped = hidden ? program.c_str() : nullptr};
  const int parent_pidfd = child.parent_pidfd;
  if (hidden && parent_pidfd < 0) {
    return Fail("spawn", fmt::format("{}: {}", plan.argv[0], std::strerror(errno)));
  }
  const auto stack = std::make_unique_for_overwrite<char[]>(kChildStackBytes);
  char* top = stack.get() + kChildStackBytes;
  top -= reinterpret_cast<std::uintptr_t>(top) % 16;

  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const bool dumpable = prctl(PR_GET_DUMPABLE) == 1;
  const int pid = clone(
      RunChild, top, static_cast<int>(CLONE_VM | CLONE_VFORK | CLONE_PIDFD | namespaces) | SIGCHLD,
      &child, &pidfd);
  const int clone_error = errno;
  // A child that becomes another user closes the memory that we share; it is ours alone again.
  if (dumpable && sandbox != nullptr && sandbox->changes_user()) prctl(PR_SET_DUMPABLE, 1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (parent_pidfd >= 0) close(parent_pidfd);

  if (pid < 0 && namespaces != 0 && clone_error != EAGAIN && clone_error != ENOMEM) {
    return std::unexpected(sandbox->Refusal(sandbox->steps().size(), clone_error));
  }
  if (pid < 0) return Fail("spawn", fmt::format("{}: {}", plan.argv[0], strerror(clone_error)));
  if (child.error != 0) {
    close(pidfd);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return StartFailure(plan, child);
  }
  return Spawned{pid, pidfd};
}

}  // namespace noetl::worker
