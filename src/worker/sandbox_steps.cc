#include "worker/sandbox_steps.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MOUNT_ATTR_RDONLY
#include <linux/mount.h>
#endif

namespace noetl::worker {

namespace {

#define NOETL_UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
// Calls of a second way to number them, which a list of numbers would miss.
constexpr std::uint32_t kOtherNumbers = 0x40000000;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kOtherNumbers = 0xffffffff;
#endif

// Ways to look into other processes, to change what is mounted, to enter or make namespaces, and
// to reach parts of the kernel that no tool needs.
constexpr std::array kDenied = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_unshare,
    SYS_setns,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_userfaultfd,
    SYS_quotactl,
    SYS_acct,
    SYS_syslog,
    SYS_open_by_handle_at,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
};
constexpr std::uint32_t kNamespaceFlags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                          CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                          CLONE_NEWCGROUP;

constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

constexpr sock_filter Load(std::size_t offset) {
  return {BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(offset)};
}
constexpr sock_filter Return(std::uint32_t value) { return {BPF_RET | BPF_K, 0, 0, value}; }
// The next instructions run when the comparison holds; otherwise so many are left out.
constexpr sock_filter When(std::uint16_t comparison, std::uint32_t value, std::uint8_t otherwise) {
  return {static_cast<std::uint16_t>(BPF_JMP | comparison | BPF_K), 0, otherwise, value};
}

constexpr std::size_t kFilterSize = 13 + 2 * kDenied.size();

constexpr std::array<sock_filter, kFilterSize> MakeFilter() {
  std::array<sock_filter, kFilterSize> filter{};
  std::size_t size = 0;
  const auto add = [&](sock_filter instruction) { filter[size++] = instruction; };
  add(Load(offsetof(seccomp_data, arch)));
  add({BPF_JMP | BPF_JEQ | BPF_K, 1, 0, kArchitecture});
  add(Return(SECCOMP_RET_KILL_PROCESS));
  add(Load(offsetof(seccomp_data, nr)));
  add(When(BPF_JGE, kOtherNumbers, 1));
  add(Return(kUnknown));
  for (const long call : kDenied) {
    add(When(BPF_JEQ, static_cast<std::uint32_t>(call), 1));
    add(Return(kRefuse));
  }
  // Its flags are in memory, out of reach: libraries fall back to clone.
  add(When(BPF_JEQ, SYS_clone3, 1));
  add(Return(kUnknown));
  add(When(BPF_JEQ, SYS_clone, 3));
  add(Load(offsetof(seccomp_data, args)));
  add(When(BPF_JSET, kNamespaceFlags, 1));
  add(Return(kRefuse));
  add(Return(SECCOMP_RET_ALLOW));
  return filter;
}

constexpr std::array kFilter = MakeFilter();

NOETL_UNCHECKED bool WriteText(const char* path, const char* text) {
  std::size_t size = 0;
  while (text[size] != '\0') ++size;
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = syscall(SYS_write, file, text, size) == static_cast<long>(size);
  const int error = errno;
  syscall(SYS_close, file);
  errno = error;
  return written;
}

NOETL_UNCHECKED bool MakeFile(const char* path) {
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return false;
  syscall(SYS_close, file);
  return true;
}

NOETL_UNCHECKED bool SetAttributes(const char* path, unsigned long flags, unsigned below) {
  mount_attr attributes = {};
  attributes.attr_set = flags;
  return syscall(SYS_mount_setattr, AT_FDCWD, path, below, &attributes, sizeof(attributes)) == 0;
}

NOETL_UNCHECKED bool RaiseLoopback() {
  const long socket = syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  ifreq request = {};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP;
  const bool raised = syscall(SYS_ioctl, socket, SIOCSIFFLAGS, &request) == 0;
  const int error = errno;
  syscall(SYS_close, socket);
  errno = error;
  return raised;
}

// Nothing that it runs can gain them again: see PR_SET_NO_NEW_PRIVS in process_spawn.cc.
NOETL_UNCHECKED bool DropPrivileges() {
  syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

NOETL_UNCHECKED bool BecomeUser(unsigned long user) {
  return syscall(SYS_setgroups, 0, nullptr) == 0 && syscall(SYS_setresgid, user, user, user) == 0 &&
         syscall(SYS_setresuid, user, user, user) == 0;
}

NOETL_UNCHECKED bool SetFilter() {
  const sock_fprog program = {static_cast<unsigned short>(kFilter.size()),
                              const_cast<sock_filter*>(kFilter.data())};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

NOETL_UNCHECKED bool SetHostName(const char* name) {
  std::size_t size = 0;
  while (name[size] != '\0') ++size;
  return syscall(SYS_sethostname, name, size) == 0;
}

NOETL_UNCHECKED bool Take(const SandboxStep& step) {
  const char* const target = step.target;
  switch (step.act) {
    case SandboxAct::kWrite: return WriteText(target, step.source);
    case SandboxAct::kMount:
      return syscall(SYS_mount, step.source, target, step.type, step.flags, step.data) == 0;
    case SandboxAct::kAttributes: return SetAttributes(target, step.flags, 0);
    case SandboxAct::kAttributesBelow: return SetAttributes(target, step.flags, AT_RECURSIVE);
    case SandboxAct::kFolder:
      return syscall(SYS_mkdirat, AT_FDCWD, target, 0755) == 0 || errno == EEXIST;
    case SandboxAct::kFile: return MakeFile(target);
    case SandboxAct::kLink: return syscall(SYS_symlinkat, step.source, AT_FDCWD, target) == 0;
    case SandboxAct::kPivot: return syscall(SYS_pivot_root, ".", target) == 0;
    case SandboxAct::kChange: return syscall(SYS_chdir, target) == 0;
    case SandboxAct::kUnmount: return syscall(SYS_umount2, target, MNT_DETACH) == 0;
    case SandboxAct::kRemove: return syscall(SYS_unlinkat, AT_FDCWD, target, AT_REMOVEDIR) == 0;
    case SandboxAct::kHostName: return SetHostName(target);
    case SandboxAct::kLoopback: return RaiseLoopback();
    case SandboxAct::kUser: return BecomeUser(step.flags);
    case SandboxAct::kPrivileges: return DropPrivileges();
    case SandboxAct::kFilter: return SetFilter();
  }
  return false;
}

}  // namespace

NOETL_UNCHECKED std::size_t TakeSandboxSteps(const SandboxStep* steps, std::size_t count) {
  // What is made here must be open to the user that the process becomes.
  const long mask = syscall(SYS_umask, 0);
  std::size_t taken = 0;
  while (taken < count && Take(steps[taken])) ++taken;
  const int error = errno;
  syscall(SYS_umask, mask);
  errno = error;
  return taken;
}

}  // namespace noetl::worker
