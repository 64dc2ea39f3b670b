#include "worker/tools/python_zygote.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "worker/bounded_text.h"
#include "worker/process_tree.h"
#include "worker/runner_py.h"

namespace noetl::worker {

namespace {

constexpr std::int64_t kErrorBytesMax = 4 << 10;

void CloseDescriptor(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

}  // namespace

int OpenRunnerSource() {
  int source = memfd_create("noetl_runner.py", MFD_CLOEXEC);
  if (source >= 0 && write(source, kRunnerSource.data(), kRunnerSource.size()) !=
                         static_cast<ssize_t>(kRunnerSource.size())) {
    CloseDescriptor(source);
  }
  return source;
}

void PythonChild::Disconnect() {
  CloseDescriptor(channel);
  for (int& descriptor : output) CloseDescriptor(descriptor);
}

PythonZygote::~PythonZygote() {
  if (pid_ != 0) {
    Kill();
    loop_->Unwatch(pidfd_);
    loop_->Unwatch(control_);
    // With its children, which died with it.
    ChildTable::OfThisProcess().Bury(pid_);
  }
  Close();
}

void PythonZygote::Close() {
  CloseDescriptor(pidfd_);
  CloseDescriptor(errors_);
  CloseDescriptor(control_);
  if (!scratch_.empty()) supervisor_->RemoveScratch(std::exchange(scratch_, {}));
  pid_ = 0;
}

Status PythonZygote::Start(const std::string& interpreter,
                           const std::vector<std::string>& preload) {
  NOETL_ASSIGN(scratch_, supervisor_->MakeScratch());
  const int source = OpenRunnerSource();
  int sockets[2] = {-1, -1};
  int errors[2] = {-1, -1};
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  const bool opened = source >= 0 && nothing >= 0 &&
                      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0 &&
                      pipe2(errors, O_CLOEXEC | O_NONBLOCK) == 0;
  SpawnPlan plan{.argv = {interpreter, "-I", "-B", "/proc/self/fd/4"},
                 .cwd = "/",
                 .descriptors = {nothing, nothing, errors[1], sockets[1], source},
                 .limits = {{RLIMIT_CORE, 0}},
                 .adopts = false};
  plan.argv.insert(plan.argv.end(), preload.begin(), preload.end());
  for (const auto& [name, value] : BaseEnvironment(scratch_)) {
    plan.env.push_back(name + "=" + value);
  }
  const Result<Spawned> spawned =
      opened ? ChildTable::OfThisProcess().Start(plan)
             : Fail("spawn", fmt::format("no descriptors: {}", std::strerror(errno)));
  for (const int descriptor : {source, nothing, errors[1], sockets[1]}) {
    if (descriptor >= 0) close(descriptor);
  }
  control_ = sockets[0];
  errors_ = errors[0];
  if (!spawned) {
    Close();
    return std::unexpected(spawned.error());
  }
  pid_ = spawned->pid;
  pidfd_ = spawned->pidfd;
  loop_->Watch(control_, EventLoop::kReadable, [this](unsigned) { OnControl(); });
  loop_->Watch(pidfd_, EventLoop::kReadable, [this](unsigned) { OnExit(); });
  return {};
}

void PythonZygote::Order() {
  if (control_ < 0) return;
  std::unique_ptr<ProcessGroup> group = supervisor_->MakeGroup(ProcessLimits());
  const std::string message = "F" + group->Entry();
  // When it is too busy to listen, the next order comes with the next event.
  if (send(control_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    ordered_.push_back(std::move(group));
  }
}

void PythonZygote::Kill() const {
  if (pid_ != 0) kill(pid_, SIGKILL);
}

void PythonZygote::OnControl() {
  while (control_ >= 0) {
    std::array<char, 256> text;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> attached;
    iovec part{.iov_base = text.data(), .iov_len = text.size()};
    msghdr message{.msg_iov = &part,
                   .msg_iovlen = 1,
                   .msg_control = attached.data(),
                   .msg_controllen = attached.size()};
    const ssize_t got = recvmsg(control_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      // Its end comes over the other descriptor.
      loop_->Unwatch(control_);
      return;
    }
    std::array<int, 3> descriptors;
    std::size_t count = 0;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_type != SCM_RIGHTS) continue;
      count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::memcpy(descriptors.data(), CMSG_DATA(head), count * sizeof(int));
    }
    OnMessage({text.data(), static_cast<std::size_t>(got)}, {descriptors.data(), count});
  }
}

void PythonZygote::OnMessage(std::string_view message, std::span<const int> descriptors) {
  const std::string_view rest = message.substr(1);
  const char* const end = rest.data() + rest.size();
  int pid = 0;
  const char* const after = std::from_chars(rest.data(), end, pid).ptr;
  if (message[0] == 'X') {
    int status = 0;
    if (after < end) std::from_chars(after + 1, end, status);
    children_ -= std::min<std::size_t>(children_, 1);
    return listener_->OnChildExit(this, pid, status);
  }
  NOETL_CHECK(!ordered_.empty(), "a child comes when it was ordered");
  std::unique_ptr<ProcessGroup> group = std::move(ordered_.front());
  ordered_.pop_front();
  if (message[0] == 'E') {
    LogWarn("python cannot fork", {{"error", CleanText(rest)}});
    return listener_->OnForkFailed();
  }
  NOETL_CHECK(descriptors.size() == 3, "a child of the runner comes with three descriptors");
  auto child = std::make_unique<PythonChild>();
  child->zygote = this;
  child->pid = pid;
  child->group = std::move(group);
  child->group->Lead(pid);
  child->channel = descriptors[0];
  child->output = {descriptors[1], descriptors[2]};
  for (const int descriptor : child->output) {
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }
  ++forks_;
  ++children_;
  listener_->OnForked(std::move(child));
}

void PythonZygote::OnExit() {
  ChildTable::End end;
  if (!ChildTable::OfThisProcess().Reap(pid_, &end)) return;
  OnControl();  // ends that it still told of
  loop_->Unwatch(pidfd_);
  loop_->Unwatch(control_);
  BoundedText errors(kErrorBytesMax);
  std::array<char, kErrorBytesMax> buffer;
  for (ssize_t got = 0; (got = read(errors_, buffer.data(), buffer.size())) > 0;) {
    errors.Append({buffer.data(), static_cast<std::size_t>(got)});
  }
  Close();
  ordered_.clear();
  listener_->OnZygoteExit(this, errors.Text());
}

}  // namespace noetl::worker
