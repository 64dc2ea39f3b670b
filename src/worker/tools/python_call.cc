#include "worker/tools/python_call.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/process_tree.h"

namespace noetl::worker {

namespace {

// Descriptors that the new process gets, closed here when it has them.
struct Ends {
  int nothing = -1;
  int source = -1;
  int channel = -1;
  int output[2] = {-1, -1};
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    for (const int descriptor : {nothing, source, channel, output[0], output[1]}) {
      if (descriptor >= 0) close(descriptor);
    }
  }
};

bool OpenPipe(int* read_end, int* write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return false;
  *read_end = ends[0];
  *write_end = ends[1];
  fcntl(*read_end, F_SETFL, O_NONBLOCK);
  return true;
}

// Ours go into the child, its own into `theirs`.
Status Connect(PythonChild* child, Ends* theirs) {
  int sockets[2] = {-1, -1};
  theirs->nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  theirs->source = OpenRunnerSource();
  const bool opened = theirs->nothing >= 0 && theirs->source >= 0 &&
                      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0 &&
                      OpenPipe(&child->output[0], &theirs->output[0]) &&
                      OpenPipe(&child->output[1], &theirs->output[1]);
  const int error = errno;
  child->channel = sockets[0];
  theirs->channel = sockets[1];
  if (!opened) return Fail("spawn", fmt::format("no descriptors: {}", std::strerror(error)));
  return {};
}

}  // namespace

PythonCall::~PythonCall() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  loop_->Unwatch(pidfd_);
  // With what it had started.
  ChildTable::OfThisProcess().Bury(pid_);
  close(pidfd_);
}

Result<std::unique_ptr<PythonChild>> PythonCall::Start(const PythonJob& job, Ended ended) {
  auto child = std::make_unique<PythonChild>();
  Ends theirs;
  NOETL_TRY(Connect(child.get(), &theirs));
  NOETL_ASSIGN(const Sandbox sandbox, Sandbox::Prepare(job.confinement));
  child->group = supervisor_->MakeGroup(job.limits);
  SpawnPlan plan{.argv = {job.interpreter, "-I", "-B", "/proc/self/fd/4", "--call"},
                 .cwd = "/",
                 .descriptors = {theirs.nothing, theirs.output[0], theirs.output[1], theirs.channel,
                                 theirs.source},
                 // The others come with the job.
                 .limits = {{RLIMIT_CORE, 0}},
                 .group = child->group->Entry(),
                 .sandbox = &sandbox};
  for (const auto& [name, value] : BaseEnvironment(job.confinement.scratch)) {
    plan.env.push_back(name + "=" + value);
  }
  NOETL_ASSIGN(const Spawned spawned, ChildTable::OfThisProcess().Start(plan));
  pid_ = spawned.pid;
  pidfd_ = spawned.pidfd;
  strict_ = job.confinement.strict();
  ended_ = std::move(ended);
  child->pid = pid_;
  child->group->Lead(pid_);
  loop_->Watch(pidfd_, EventLoop::kReadable, [this](unsigned) { OnExit(); });
  return child;
}

void PythonCall::OnExit() {
  kill(-pid_, SIGKILL);
  ChildTable::End end;
  if (!ChildTable::OfThisProcess().Reap(pid_, &end)) return;
  loop_->Unwatch(pidfd_);
  close(pidfd_);
  // The first process of a sandbox tells how Python ended.
  int status = end.status;
  if (strict_ && WIFEXITED(status) && WEXITSTATUS(status) > 128) status = WEXITSTATUS(status) - 128;
  Ended ended = std::move(ended_);
  ended(std::exchange(pid_, 0), status);
}

}  // namespace noetl::worker
