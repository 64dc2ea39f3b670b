// Shared by the tests of the sandbox: whether this host can confine processes, found out without
// the code that is tested, and a host that cannot.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace noetl::worker {

// True when a forked process can do all that `work` does.
inline bool WorksInChild(const std::function<bool()>& work) {
  const pid_t pid = fork();
  if (pid == 0) _exit(work() ? 0 : 1);
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0;
}

inline bool EnterNamespaces(int namespaces) {
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  if (unshare(namespaces) == 0) return true;
  if (unshare(namespaces | CLONE_NEWUSER) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  return (std::ofstream("/proc/self/uid_map") << user << " " << user << " 1" << std::flush)
             .good() &&
         (std::ofstream("/proc/self/gid_map") << group << " " << group << " 1" << std::flush)
             .good();
}

inline bool HostAllowsNetworks() {
  static const bool allows = WorksInChild([] { return EnterNamespaces(CLONE_NEWNET); });
  return allows;
}

inline bool HostAllowsStrict() {
  static const bool allows = WorksInChild([] {
    return EnterNamespaces(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) &&
           WorksInChild([] {
             return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                    mount("proc", "/proc", "proc", MS_RDONLY, nullptr) == 0;
           });
  });
  return allows;
}

// Runs the work where namespaces are refused, as in many containers: for the thread that does it,
// and for what it starts.
inline void OnARefusingHost(const std::function<void()>& work) {
  std::thread([&] {
    constexpr std::uint32_t kNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET;
    std::array<sock_filter, 8> filter = {{
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_unshare},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_clone},
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args)},
        {BPF_JMP | BPF_JSET | BPF_K, 0, 1, kNamespaces},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    }};
    const sock_fprog program = {filter.size(), filter.data()};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
    work();
  }).join();
}

// Accepts connections on 127.0.0.1 without looking at them.
class LocalListener {
 public:
  LocalListener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 16), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~LocalListener() { close(socket_); }
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

  int port() const { return port_; }

  // Python code that gives `said`: whether it reaches us, a listener of its own, and the world, and
  // whether it finds a name.
  std::string Visitor() const {
    return "import socket\n"
           "def reaches(port):\n"
           "  try:\n"
           "    socket.create_connection(('127.0.0.1', port), 5).close()\n"
           "    return True\n"
           "  except OSError: return False\n"
           "def leaves():\n"
           "  try:\n"
           "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
           "      s.connect(('192.0.2.1', 53))\n"
           "    return True\n"
           "  except OSError: return False\n"
           "def finds(name):\n"
           "  try: return bool(socket.getaddrinfo(name, 80))\n"
           "  except OSError: return False\n"
           "own = socket.create_server(('127.0.0.1', 0))\n"
           "said = [reaches(" +
           std::to_string(port_) + "), reaches(own.getsockname()[1])]\n";
  }

 private:
  int socket_;
  int port_ = 0;
};

}  // namespace noetl::worker
