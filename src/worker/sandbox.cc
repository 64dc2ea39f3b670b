#include "worker/sandbox.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "worker/process_spawn.h"
#include "worker/process_tree.h"

#ifndef MOUNT_ATTR_RDONLY
#include <linux/mount.h>
#endif

namespace noetl::worker {

namespace {

namespace fs = std::filesystem;

// Where the host's files are while the new root is put together.
constexpr std::string_view kOld = "/.host";
constexpr const char* kHostName = "noetl";
constexpr unsigned long kStrictNamespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
constexpr unsigned long kSafeMount = MS_NOSUID | MS_NODEV;
constexpr unsigned long kReadOnly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
// The root holds mount points and links only.
constexpr const char* kRootSize = "mode=755,size=1m,nr_inodes=4k";
// In memory, beyond the limits of the process: little. Its own directory is on the disk.
constexpr const char* kTemporarySize = "mode=1777,size=64m,nr_inodes=16k";

// What programs need of the system. What the host lacks is left out.
constexpr std::array kSystem = {
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ssl",
    "/etc/ca-certificates",
    "/etc/passwd",
    "/etc/group",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    // Names of programs lead through this one, names of libraries through the next.
    "/etc/alternatives",
    "/etc/ld.so.cache",
    // Debian's Python reads it at its start.
    "/etc/python3",
};
constexpr std::array kDevices = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                 "/dev/urandom"};
constexpr std::array<std::pair<const char*, const char*>, 4> kDeviceLinks = {{
    {"/proc/self/fd", "/dev/fd"},
    {"/proc/self/fd/0", "/dev/stdin"},
    {"/proc/self/fd/1", "/dev/stdout"},
    {"/proc/self/fd/2", "/dev/stderr"},
}};

// The first process waits for what comes to it and for the program, whose end is its own. A signal
// finds it prepared, or it would be lost: every process gets one of its own. What a shell says
// about a killed program is nobody's output.
constexpr const char* kShell = "/bin/sh";
constexpr const char* kFirst =
    R"(trap : TERM INT HUP QUIT USR1 USR2; exec 9>&2 2>/dev/null; (exec "$@" 2>&9 9>&-); exit $?)";

constexpr std::array<std::pair<std::string_view, SandboxLevel>, 4> kLevels = {{
    {"auto", SandboxLevel::kBasic},
    {"off", SandboxLevel::kOff},
    {"basic", SandboxLevel::kBasic},
    {"strict", SandboxLevel::kStrict},
}};

bool HasCapability(int which) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[which / 32].effective >> (which % 32) & 1U) != 0;
}

// Whether there is such a user in our own user namespace.
bool IsUser(std::uint32_t user) {
  std::ifstream file("/proc/self/uid_map");
  for (std::uint64_t first = 0, outside = 0, count = 0; file >> first >> outside >> count;) {
    if (user >= first && user - first < count) return true;
  }
  return false;
}

bool MayMakeNamespaces() { return HasCapability(CAP_SYS_ADMIN); }

// The names of steps for people.
std::string Describe(const SandboxStep& step) {
  const std::string target = step.target == nullptr ? "" : step.target;
  switch (step.act) {
    case SandboxAct::kWrite: return "write " + target;
    case SandboxAct::kMount: return "mount " + target;
    case SandboxAct::kAttributes:
    case SandboxAct::kAttributesBelow: return "protect " + target;
    case SandboxAct::kFolder:
    case SandboxAct::kFile:
    case SandboxAct::kLink: return "make " + target;
    case SandboxAct::kPivot: return "change the root";
    case SandboxAct::kChange: return "enter " + target;
    case SandboxAct::kUnmount:
    case SandboxAct::kRemove: return "leave the host's files";
    case SandboxAct::kHostName: return "set the host name";
    case SandboxAct::kLoopback: return "bring the loopback device up";
    case SandboxAct::kUser: return fmt::format("become user {}", step.flags);
    case SandboxAct::kPrivileges: return "drop capabilities";
    case SandboxAct::kFilter: return "filter system calls";
  }
  return {};
}

}  // namespace

Result<SandboxLevel> SandboxLevelOf(std::string_view name) {
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  return Fail("config", fmt::format("`sandbox` is auto, off, basic or strict, not '{}'", name));
}

SandboxPolicy SandboxPolicy::Of(const Settings* settings) {
  SandboxPolicy policy;
  if (settings == nullptr) return policy;
  const Result<SandboxLevel> level = SandboxLevelOf(settings->Text("NOETL_SANDBOX"));
  NOETL_CHECK(level.has_value(), "settings hold only known words");
  policy.level = *level;
  if (settings->IsSet("NOETL_SANDBOX_UID")) {
    policy.user = static_cast<std::uint32_t>(settings->Int("NOETL_SANDBOX_UID"));
  }
  return policy;
}

Status SandboxPolicy::Check(const std::string& scratch) const {
  if (level != SandboxLevel::kStrict) return {};
  const auto refuse = [](std::string_view why) {
    return Fail("settings", fmt::format("NOETL_SANDBOX=strict: {}", why));
  };
  const auto sandbox = Sandbox::Prepare({.level = level, .user = user, .scratch = scratch});
  if (!sandbox) return refuse(sandbox.error().message);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  const Result<Spawned> spawned = ChildTable::OfThisProcess().Start(
      {.argv = {"true"}, .descriptors = {nothing, nothing, nothing}, .sandbox = &*sandbox});
  close(nothing);
  if (!spawned) return refuse(spawned.error().message);
  siginfo_t end = {};
  waitid(P_PIDFD, static_cast<id_t>(spawned->pidfd), &end, WEXITED | WNOWAIT);
  close(spawned->pidfd);
  ChildTable::End ignored;
  ChildTable::OfThisProcess().Reap(spawned->pid, &ignored);
  if (end.si_code == CLD_EXITED && end.si_status == 0) return {};
  return refuse(fmt::format("`true` ended with {}", end.si_status));
}

unsigned long NetworkNamespaces() {
  return MayMakeNamespaces() ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER;
}

Result<Sandbox> Sandbox::Prepare(const Confinement& confinement) {
  Sandbox sandbox;
  if (!confinement.strict() && !confinement.deny_network) return sandbox;
  sandbox.asked_ = confinement.strict() ? "sandbox: strict" : "network: deny";
  if (confinement.strict() && confinement.user == 0) {
    return Fail("sandbox", "`sandbox: strict` is not for root: NOETL_SANDBOX_UID must not be 0");
  }
  // Where there is only one user it stays the same, unless another one was asked for.
  sandbox.changes_user_ = confinement.strict() && MayMakeNamespaces() &&
                          HasCapability(CAP_SETUID) &&
                          (confinement.user != kSandboxUser || IsUser(confinement.user));
  if (confinement.strict()) sandbox.namespaces_ |= kStrictNamespaces;
  if (confinement.deny_network) sandbox.namespaces_ |= CLONE_NEWNET;
  // A strict process that keeps our user must not have its power over the kernel.
  if (!MayMakeNamespaces() || (confinement.strict() && !sandbox.changes_user_)) {
    sandbox.namespaces_ |= CLONE_NEWUSER;
    sandbox.AddUserMaps();
  }
  if (confinement.strict()) {
    if (sandbox.changes_user_ &&
        chown(confinement.scratch.c_str(), confinement.user, confinement.user) < 0) {
      return Fail("sandbox", fmt::format("{}: {}", confinement.scratch, std::strerror(errno)));
    }
    sandbox.AddRoot(confinement);
    sandbox.Add(SandboxAct::kHostName, kHostName);
  }
  if (confinement.deny_network) sandbox.Add(SandboxAct::kLoopback, {});
  if (sandbox.changes_user_) {
    sandbox.Add(SandboxAct::kUser, {});
    sandbox.steps_.back().flags = confinement.user;
  }
  sandbox.Add(SandboxAct::kPrivileges, {});
  if (confinement.strict()) sandbox.Add(SandboxAct::kFilter, {});
  return sandbox;
}

const char* Sandbox::Keep(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }

void Sandbox::Add(SandboxAct act, std::string target, std::string source) {
  steps_.push_back(
      {.act = act, .source = Keep(std::move(source)), .target = Keep(std::move(target))});
}

void Sandbox::AddMount(std::string source, std::string target, const char* type,
                       unsigned long flags, const char* data) {
  steps_.push_back({.act = SandboxAct::kMount,
                    .source = Keep(std::move(source)),
                    .target = Keep(std::move(target)),
                    .type = type,
                    .flags = flags,
                    .data = data});
}

// Ourselves, and nobody else.
void Sandbox::AddUserMaps() {
  Add(SandboxAct::kWrite, "/proc/self/setgroups", "deny");
  Add(SandboxAct::kWrite, "/proc/self/uid_map", fmt::format("{0} {0} 1\n", geteuid()));
  Add(SandboxAct::kWrite, "/proc/self/gid_map", fmt::format("{0} {0} 1\n", getegid()));
}

void Sandbox::AddFolders(const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1))
    Add(SandboxAct::kFolder, path.substr(0, end));
  Add(SandboxAct::kFolder, path);
}

// A folder or file of the host at its own place.
void Sandbox::AddBind(const std::string& path, bool writable) {
  // Links lead elsewhere once the root is another.
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return;
  if (fs::is_directory(real, error)) {
    AddFolders(path);
  } else {
    AddFolders(fs::path(path).parent_path());
    Add(SandboxAct::kFile, path);
  }
  AddMount(std::string(kOld) + real.string(), path, nullptr, MS_BIND | MS_REC);
  Add(SandboxAct::kAttributesBelow, path);
  steps_.back().flags = writable ? MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV : kReadOnly;
}

void Sandbox::AddSystem(const std::string& path) {
  std::error_code error;
  const bool in_root = fs::path(path).parent_path() == "/";
  if (in_root && fs::is_symlink(path, error)) {
    Add(SandboxAct::kLink, path, fs::read_symlink(path, error).string());
  } else {
    AddBind(path, false);
  }
}

void Sandbox::AddRoot(const Confinement& confinement) {
  // Nothing that is mounted here is seen outside.
  AddMount("none", "/", nullptr, MS_REC | MS_PRIVATE);
  AddMount("noetl", confinement.scratch, "tmpfs", kSafeMount, kRootSize);
  Add(SandboxAct::kChange, confinement.scratch);
  Add(SandboxAct::kFolder, std::string(kOld.substr(1)));
  Add(SandboxAct::kPivot, std::string(kOld.substr(1)));
  Add(SandboxAct::kChange, "/");
  for (const char* path : kSystem) AddSystem(path);
  Add(SandboxAct::kFolder, "/dev");
  for (const char* path : kDevices) {
    Add(SandboxAct::kFile, path);
    AddMount(std::string(kOld) + path, path, nullptr, MS_BIND);
  }
  for (const auto& [source, path] : kDeviceLinks) Add(SandboxAct::kLink, path, source);
  for (const char* path : {"/dev/shm", "/tmp"}) {
    Add(SandboxAct::kFolder, path);
    AddMount("noetl", path, "tmpfs", kSafeMount, kTemporarySize);
  }
  // After /tmp, which may be where they are.
  for (const std::string& path : confinement.readable) AddBind(path, false);
  AddBind(confinement.scratch, true);
  Add(SandboxAct::kFolder, "/proc");
  AddMount("proc", "/proc", "proc", kSafeMount | MS_NOEXEC | MS_RDONLY);
  Add(SandboxAct::kUnmount, std::string(kOld));
  Add(SandboxAct::kRemove, std::string(kOld));
  Add(SandboxAct::kAttributes, "/");
  steps_.back().flags = kReadOnly;
}

std::vector<std::string> Sandbox::Argv(const std::string& program,
                                       std::vector<std::string> argv) const {
  if ((namespaces_ & CLONE_NEWPID) == 0) return argv;
  std::vector<std::string> whole = {kShell, "-c", kFirst, "noetl", program};
  whole.insert(whole.end(), std::make_move_iterator(argv.begin() + 1),
               std::make_move_iterator(argv.end()));
  return whole;
}

Error Sandbox::Refusal(std::size_t taken, int error) const {
  const std::string step =
      taken < steps_.size() ? Describe(steps_[taken]) : std::string("make namespaces");
  return {"sandbox", fmt::format("`{}` is not possible on this host: cannot {}: {}", asked_, step,
                                 std::strerror(error))};
}

}  // namespace noetl::worker
