#include "worker/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "worker/bounded_text.h"
#include "worker/process_tree.h"

namespace noetl::worker {

namespace {

namespace fs = std::filesystem;

// Without a cgroup the machine's latest process number is read this often while something runs, and
// trees are counted when it moves fast: two cores fork 20 000 small processes a second, so a
// runaway tree has about a hundred when it is noticed.
constexpr std::int64_t kForksTickUs = 5'000;
constexpr int kForksOfNote = 16;
// A group is looked at first after this long, then after twice as long each time: soon enough for
// one that grows at once, and next to nothing wakes up for a quiet one. What happens in between is
// bounded by the kernel.
constexpr std::int64_t kFirstLookUs = 50'000;
// From SIGKILL until the dead are looked for again.
constexpr std::int64_t kEndAgainUs = 1'000;
// A process that the kernel cannot end (blocked in a device) is given up after this.
constexpr int kEndPassesMax = 20'000;
// Read at a time, so that one that writes without end does not keep the loop from the others.
constexpr std::size_t kReadBytes = 64 << 10;
constexpr int kReadsAtOnce = 8;
// Seconds of processor time beyond the time limit, for children that wait on each other.
constexpr std::int64_t kCpuSlackS = 5;
// Attempts of a destructor to see the killed end, a millisecond each.
constexpr int kDestroyWaits = 2'000;

std::int64_t NowMicros() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

struct MachineLoad {
  std::int64_t threads = 0;
  std::int64_t last_pid = 0;
};

// "0.20 0.18 0.12 1/80 11206": runnable/existing threads, latest process.
MachineLoad ReadLoad() {
  MachineLoad load;
  std::array<char, 128> text{};
  const int file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (file < 0) return load;
  const ssize_t got = read(file, text.data(), text.size() - 1);
  close(file);
  std::string_view rest(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return load;
  rest.remove_prefix(slash + 1);
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), load.threads);
  const char* last = std::min(parsed.ptr + 1, rest.data() + rest.size());
  std::from_chars(last, rest.data() + rest.size(), load.last_pid);
  return load;
}

void CloseDescriptor(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseDescriptor(read_end);
    CloseDescriptor(write_end);
  }
  Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
      return Fail("spawn", fmt::format("pipe: {}", std::strerror(errno)));
    }
    read_end = ends[0];
    write_end = ends[1];
    return {};
  }
};

void SetNonBlocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

void RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return;
  // A process may have taken its own directories' permissions away.
  for (fs::recursive_directory_iterator
           at(path, fs::directory_options::skip_permission_denied, error),
       end;
       !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) {
      fs::permissions(at->path(), fs::perms::owner_all, ignored);
    }
  }
  fs::remove_all(path, error);
  if (error) LogWarn("cannot remove a scratch directory", {{"path", path}});
}

}  // namespace

class SupervisorImpl;

namespace {

// One process from its start until nothing of it is left.
class Child {
 public:
  Child(SupervisorImpl* supervisor, ProcessSpec spec, Process::Ended ended);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Status Start();
  void Stop();
  // The owner lost interest: ends at once and tells nobody.
  void Abandon();
  int pid() const { return pid_; }

 private:
  struct Stream {
    int descriptor = -1;
    BoundedText text;
  };

  void WatchStreams();
  void WriteInput();
  void ReadOutput(OutputStream which);
  void Drain(OutputStream which);
  void CloseStream(OutputStream which);
  void Terminate();
  void KillNow();
  void OnExit();
  void Finish();
  Stream& stream(OutputStream which) { return streams_[static_cast<std::size_t>(which)]; }

  SupervisorImpl* supervisor_;
  EventLoop* loop_;
  ProcessSpec spec_;
  Process::Ended ended_;
  bool own_scratch_ = false;
  std::unique_ptr<ProcessGroup> group_;
  int pid_ = 0;
  int pidfd_ = -1;
  int input_ = -1;
  std::size_t input_written_ = 0;
  std::array<Stream, 2> streams_;
  std::int64_t started_us_ = 0;
  Reactor::TimerId timeout_ = 0;
  Reactor::TimerId grace_ = 0;
  bool terminating_ = false;
  bool killed_ = false;  // by us
  ProcessExit exit_;
};

}  // namespace

class SupervisorImpl final : public Supervisor {
 public:
  SupervisorImpl(EventLoop* loop, std::string folder, int lock, GroupSource groups)
      : loop_(loop), folder_(std::move(folder)), lock_(lock), groups_(std::move(groups)) {}
  ~SupervisorImpl() override;

  Result<std::unique_ptr<Process>> Start(ProcessSpec spec, Process::Ended ended) override;
  std::size_t running() const override { return children_.size(); }
  std::string Containment() const override { return groups_.Describe(); }
  Result<std::string> MakeScratch() override;
  void RemoveScratch(const std::string& path) override { RemoveAll(path); }
  std::unique_ptr<ProcessGroup> MakeGroup(const ProcessLimits& limits) override {
    return groups_.Make(limits.processes_max, limits.memory_mb);
  }
  void Guard(ProcessGroup* group, const ProcessLimits& limits,
             std::move_only_function<void(Excess)> exceeded) override;
  void Unguard(ProcessGroup* group) override;
  void End(std::unique_ptr<ProcessGroup> group, std::move_only_function<void()> clean) override;

  EventLoop* loop() { return loop_; }
  // Gives the last reference to the caller.
  std::shared_ptr<Child> Forget(Child* child);

 private:
  struct Guarded {
    ProcessLimits limits;
    std::move_only_function<void(Excess)> exceeded;
    Reactor::TimerId look = 0;
  };
  struct Ending {
    std::unique_ptr<ProcessGroup> group;
    std::move_only_function<void()> clean;
    int passes = 0;
  };

  void LookAfter(ProcessGroup* group, std::int64_t delay_us);
  void Look(ProcessGroup* group, std::int64_t delay_us);
  void CountProcesses();
  void Exceed(ProcessGroup* group, Excess excess);
  void EndPass();

  EventLoop* loop_;
  std::string folder_;
  int lock_;
  GroupSource groups_;
  std::uint64_t scratches_ = 0;
  std::map<Child*, std::shared_ptr<Child>> children_;
  std::map<ProcessGroup*, Guarded> guarded_;
  Reactor::TimerId count_ = 0;
  std::int64_t last_pid_ = 0;
  std::vector<Ending> ending_;
  Reactor::TimerId end_pass_ = 0;
};

namespace {

// What the caller of Start holds. The child itself lives until its remains are gone.
class Handle final : public Process {
 public:
  explicit Handle(const std::shared_ptr<Child>& child) : child_(child), pid_(child->pid()) {}
  ~Handle() override {
    if (const auto child = child_.lock()) child->Abandon();
  }
  void Stop() override {
    if (const auto child = child_.lock()) child->Stop();
  }
  int pid() const override { return pid_; }

 private:
  std::weak_ptr<Child> child_;
  int pid_;
};

Child::Child(SupervisorImpl* supervisor, ProcessSpec spec, Process::Ended ended)
    : supervisor_(supervisor),
      loop_(supervisor->loop()),
      spec_(std::move(spec)),
      ended_(std::move(ended)),
      streams_{Stream{-1, BoundedText(spec_.limits.output_bytes_max)},
               Stream{-1, BoundedText(spec_.limits.output_bytes_max)}} {}

Child::~Child() {
  if (input_ >= 0) loop_->Unwatch(input_);
  CloseDescriptor(input_);
  CloseStream(OutputStream::kStdout);
  CloseStream(OutputStream::kStderr);
  if (pidfd_ >= 0) {
    // Only when the supervisor itself goes: nobody will be there to hear of the end.
    loop_->Unwatch(pidfd_);
    supervisor_->Unguard(group_.get());
    group_->Kill();
    ChildTable::End end;
    for (int i = 0; i < kDestroyWaits && !ChildTable::OfThisProcess().Reap(pid_, &end); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CloseDescriptor(pidfd_);
    group_->Lead(0);
    group_.reset();
  }
  loop_->CancelTimer(timeout_);
  loop_->CancelTimer(grace_);
  if (own_scratch_) supervisor_->RemoveScratch(spec_.scratch);
}

Status Child::Start() {
  if (spec_.scratch.empty()) {
    NOETL_ASSIGN(spec_.scratch, supervisor_->MakeScratch());
    own_scratch_ = true;
  }
  Pipe in;
  Pipe out;
  Pipe err;
  NOETL_TRY(in.Open());
  NOETL_TRY(out.Open());
  NOETL_TRY(err.Open());
  spec_.confinement.scratch = spec_.scratch;
  NOETL_ASSIGN(const Sandbox sandbox, Sandbox::Prepare(spec_.confinement));
  group_ = supervisor_->MakeGroup(spec_.limits);
  SpawnPlan plan{.argv = spec_.argv,
                 .cwd = spec_.cwd.empty() ? spec_.scratch : spec_.cwd,
                 .descriptors = {in.read_end, out.write_end, err.write_end},
                 .limits = ResourceLimits(spec_.limits, sandbox.changes_user()),
                 .group = group_->Entry(),
                 .sandbox = &sandbox};
  for (const auto& [name, value] : BaseEnvironment(spec_.scratch)) {
    if (std::ranges::find(spec_.env, name, &std::pair<std::string, std::string>::first) ==
        spec_.env.end()) {
      plan.env.push_back(name + "=" + value);
    }
  }
  for (const auto& [name, value] : spec_.env) plan.env.push_back(name + "=" + value);
  started_us_ = NowMicros();
  NOETL_ASSIGN(const Spawned spawned, ChildTable::OfThisProcess().Start(plan));
  pid_ = spawned.pid;
  pidfd_ = spawned.pidfd;
  group_->Lead(pid_);
  input_ = std::exchange(in.write_end, -1);
  stream(OutputStream::kStdout).descriptor = std::exchange(out.read_end, -1);
  stream(OutputStream::kStderr).descriptor = std::exchange(err.read_end, -1);
  WatchStreams();
  return {};
}

void Child::WatchStreams() {
  for (const OutputStream which : {OutputStream::kStdout, OutputStream::kStderr}) {
    SetNonBlocking(stream(which).descriptor);
    loop_->Watch(stream(which).descriptor, EventLoop::kReadable,
                 [this, which](unsigned) { ReadOutput(which); });
  }
  SetNonBlocking(input_);
  WriteInput();
  if (input_ >= 0) {
    loop_->Watch(input_, EventLoop::kWritable, [this](unsigned) { WriteInput(); });
  }
  loop_->Watch(pidfd_, EventLoop::kReadable, [this](unsigned) { OnExit(); });
  supervisor_->Guard(group_.get(), spec_.limits, [this](Supervisor::Excess excess) {
    (excess == Supervisor::Excess::kMemory ? exit_.out_of_memory : exit_.too_many_processes) = true;
    killed_ = true;
  });
  if (spec_.limits.timeout_ms > 0) {
    timeout_ = loop_->After(spec_.limits.timeout_ms * 1000, [this] {
      if (terminating_) return;
      exit_.timed_out = true;
      Terminate();
    });
  }
}

void Child::WriteInput() {
  const std::string_view all = spec_.stdin_text;
  while (input_written_ < all.size()) {
    const ssize_t put = write(input_, all.data() + input_written_, all.size() - input_written_);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put < 0) break;  // it does not want the rest
    input_written_ += static_cast<std::size_t>(put);
  }
  loop_->Unwatch(input_);
  CloseDescriptor(input_);
}

void Child::ReadOutput(OutputStream which) {
  std::array<char, kReadBytes> buffer;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t got = read(stream(which).descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return CloseStream(which);
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    stream(which).text.Append(bytes);
    if (spec_.output && ended_) spec_.output(which, bytes);
  }
}

// All that is in the pipe now. Bounded: its writers are dead.
void Child::Drain(OutputStream which) {
  const int before = stream(which).descriptor;
  if (before < 0) return;
  for (std::size_t pipes = 0; pipes < 4 && stream(which).descriptor >= 0; ++pipes) {
    ReadOutput(which);
  }
  CloseStream(which);
}

void Child::CloseStream(OutputStream which) {
  int& descriptor = stream(which).descriptor;
  if (descriptor >= 0) loop_->Unwatch(descriptor);
  CloseDescriptor(descriptor);
}

void Child::Stop() {
  if (!terminating_) exit_.stopped = true;
  Terminate();
}

void Child::Abandon() {
  ended_ = nullptr;
  KillNow();
}

void Child::Terminate() {
  if (terminating_ || pidfd_ < 0) return;
  terminating_ = true;
  // One that takes all it can get has no time for manners.
  if (group_->IsCrowd()) return KillNow();
  group_->Signal(SIGTERM);
  // What is stopped could not even die.
  group_->Signal(SIGCONT);
  grace_ = loop_->After(spec_.limits.stop_grace_ms * 1000, [this] { KillNow(); });
}

void Child::KillNow() {
  if (pidfd_ < 0) return;
  killed_ = true;
  group_->Kill();
}

void Child::OnExit() {
  // Its number, and so its group, stay its own until it is reaped.
  kill(-pid_, SIGKILL);
  ChildTable::End end;
  if (!ChildTable::OfThisProcess().Reap(pid_, &end)) return;
  supervisor_->Unguard(group_.get());
  group_->Lead(0);
  loop_->Unwatch(pidfd_);
  CloseDescriptor(pidfd_);
  loop_->CancelTimer(timeout_);
  loop_->CancelTimer(grace_);
  exit_.duration_ms = (NowMicros() - started_us_) / 1000;
  exit_.signal = WIFSIGNALED(end.status) ? WTERMSIG(end.status) : 0;
  exit_.code = exit_.signal != 0 ? 128 + exit_.signal : WEXITSTATUS(end.status);
  // The first process of a sandbox tells how the program ended.
  if (spec_.confinement.strict() && exit_.code > 128 && exit_.code <= 128 + SIGRTMAX) {
    exit_.signal = exit_.code - 128;
  }
  // Nobody but the kernel's own guard of memory sends this.
  if (exit_.signal == SIGKILL && !killed_ && !terminating_) exit_.out_of_memory = true;
  if (exit_.code != 0 && !terminating_ && group_->KilledForMemory()) exit_.out_of_memory = true;
  const timeval& user = end.use.ru_utime;
  const timeval& system = end.use.ru_stime;
  exit_.cpu_ms = (user.tv_sec + system.tv_sec) * 1000 + (user.tv_usec + system.tv_usec) / 1000;
  exit_.memory_kb_max = end.use.ru_maxrss;
  supervisor_->End(std::move(group_), [this] { Finish(); });
}

void Child::Finish() {
  Drain(OutputStream::kStdout);
  Drain(OutputStream::kStderr);
  exit_.stdout_text = stream(OutputStream::kStdout).text.Text();
  exit_.stderr_text = stream(OutputStream::kStderr).text.Text();
  exit_.stdout_truncated = stream(OutputStream::kStdout).text.truncated();
  exit_.stderr_truncated = stream(OutputStream::kStderr).text.truncated();
  // The scratch directory goes before anybody hears of the end.
  Process::Ended ended = std::move(ended_);
  ProcessExit exit = std::move(exit_);
  supervisor_->Forget(this).reset();  // `this` is gone
  if (ended) ended(std::move(exit));
}

// A folder that no living supervisor holds: its processes and files are remains.
void SweepFolder(const fs::path& folder) {
  const int lock = open((folder / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0) {
    close(lock);
    return;
  }
  KillByEnvironment(folder.string() + "/");
  RemoveAll(folder.string());
  if (lock >= 0) close(lock);
}

}  // namespace

std::vector<std::pair<int, std::uint64_t>> ResourceLimits(const ProcessLimits& limits,
                                                          bool counted) {
  const auto bytes = static_cast<std::uint64_t>(limits.memory_mb) << 20;
  std::vector<std::pair<int, std::uint64_t>> list = {
      {RLIMIT_DATA, bytes},
      {RLIMIT_FSIZE, static_cast<std::uint64_t>(limits.file_bytes_max)},
      {RLIMIT_NOFILE, static_cast<std::uint64_t>(limits.open_files_max)},
      {RLIMIT_CORE, 0},
  };
  if (limits.timeout_ms > 0) {
    list.emplace_back(RLIMIT_CPU, limits.timeout_ms / 1000 + 1 + kCpuSlackS);
  }
  if (counted || geteuid() != 0) {
    // The kernel counts all processes of the user; nobody else's must be in the way.
    list.emplace_back(RLIMIT_NPROC, ReadLoad().threads + limits.processes_max);
  }
  return list;
}

std::vector<std::pair<std::string, std::string>> BaseEnvironment(std::string_view scratch) {
  return {{"PATH", std::string(kProgramPath)},
          {"HOME", std::string(scratch)},
          {"TMPDIR", std::string(scratch)},
          {"LANG", "C.UTF-8"},
          {"TZ", "UTC"}};
}

Result<std::unique_ptr<Supervisor>> Supervisor::Create(EventLoop* loop, std::string scratch,
                                                       const SupervisorOptions& options) {
  std::error_code error;
  fs::create_directories(scratch, error);
  if (error) return Fail("scratch", fmt::format("{}: {}", scratch, error.message()));
  scratch = fs::canonical(scratch, error).string();
  if (error) return Fail("scratch", fmt::format("{}: {}", scratch, error.message()));
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch, error)) {
    if (entry.path().filename().string().starts_with("run-")) SweepFolder(entry.path());
  }

  std::string folder = scratch + "/run-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return Fail("scratch", fmt::format("{}: {}", scratch, std::strerror(errno)));
  }
  const int lock = open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0) {
    if (lock >= 0) close(lock);
    return Fail("scratch", fmt::format("{}: {}", folder, std::strerror(errno)));
  }
  ChildTable::OfThisProcess();
  // A process that does not read its input must not end the worker.
  struct sigaction pipe_action = {};
  sigaction(SIGPIPE, nullptr, &pipe_action);
  if (pipe_action.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
  auto supervisor = std::make_unique<SupervisorImpl>(
      loop, std::move(folder), lock,
      options.cgroups ? GroupSource::Find(options.cgroup_root) : GroupSource());
  static std::once_flag told;
  std::call_once(
      told, [&] { LogInfo("processes of tools are held", {{"by", supervisor->Containment()}}); });
  return supervisor;
}

Result<std::unique_ptr<Supervisor>> Supervisor::Open(EventLoop* loop, std::string scratch,
                                                     const Settings& settings) {
  NOETL_ASSIGN(auto supervisor, Create(loop, std::move(scratch),
                                       {.cgroup_root = settings.Text("NOETL_CGROUP_ROOT")}));
  NOETL_ASSIGN(const std::string trial, supervisor->MakeScratch());
  const Status possible = SandboxPolicy::Of(&settings).Check(trial);
  supervisor->RemoveScratch(trial);
  NOETL_TRY(possible);
  return supervisor;
}

SupervisorImpl::~SupervisorImpl() {
  children_.clear();
  ending_.clear();
  loop_->CancelTimer(count_);
  loop_->CancelTimer(end_pass_);
  for (int i = 0; i < kDestroyWaits && ChildTable::OfThisProcess().Sweep() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  RemoveAll(folder_);
  close(lock_);
}

Result<std::unique_ptr<Process>> SupervisorImpl::Start(ProcessSpec spec, Process::Ended ended) {
  auto child = std::make_shared<Child>(this, std::move(spec), std::move(ended));
  NOETL_TRY(child->Start());
  children_.emplace(child.get(), child);
  return std::make_unique<Handle>(child);
}

std::shared_ptr<Child> SupervisorImpl::Forget(Child* child) {
  const auto found = children_.find(child);
  NOETL_CHECK(found != children_.end(), "a process ends once");
  std::shared_ptr<Child> last = std::move(found->second);
  children_.erase(found);
  return last;
}

Result<std::string> SupervisorImpl::MakeScratch() {
  std::string path = fmt::format("{}/{}", folder_, ++scratches_);
  if (mkdir(path.c_str(), 0700) < 0) {
    return Fail("scratch", fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return path;
}

void SupervisorImpl::Guard(ProcessGroup* group, const ProcessLimits& limits,
                           std::move_only_function<void(Excess)> exceeded) {
  Unguard(group);
  Guarded& guarded = guarded_[group];
  guarded.limits = limits;
  guarded.exceeded = std::move(exceeded);
  LookAfter(group, kFirstLookUs);
  if (!group->contained() && count_ == 0) {
    last_pid_ = ReadLoad().last_pid;
    count_ = loop_->After(kForksTickUs, [this] { CountProcesses(); });
  }
}

void SupervisorImpl::Unguard(ProcessGroup* group) {
  const auto found = guarded_.find(group);
  if (found == guarded_.end()) return;
  loop_->CancelTimer(found->second.look);
  guarded_.erase(found);
}

void SupervisorImpl::LookAfter(ProcessGroup* group, std::int64_t delay_us) {
  guarded_.at(group).look =
      loop_->After(delay_us, [this, group, delay_us] { Look(group, delay_us); });
}

void SupervisorImpl::Look(ProcessGroup* group, std::int64_t delay_us) {
  const ProcessLimits& limits = guarded_.at(group).limits;
  const std::int64_t memory_kb_max = limits.memory_mb * 1024;
  const std::vector<int> pids = group->Members();
  if (group->RefusedForks() || pids.size() > static_cast<std::size_t>(limits.processes_max)) {
    return Exceed(group, Excess::kProcesses);
  }
  if (MemoryKbOf(pids) > memory_kb_max && ExactMemoryKbOf(pids) > memory_kb_max) {
    return Exceed(group, Excess::kMemory);
  }
  LookAfter(group, delay_us * 2);
}

void SupervisorImpl::CountProcesses() {
  count_ = 0;
  std::vector<ProcessGroup*> over;
  const std::int64_t last_pid = ReadLoad().last_pid;
  // Process numbers wrap around.
  const bool forking = last_pid - last_pid_ > kForksOfNote || last_pid < last_pid_;
  bool any = false;
  for (const auto& [group, guarded] : guarded_) {
    if (group->contained()) continue;
    any = true;
    const auto processes_max = static_cast<std::size_t>(guarded.limits.processes_max);
    if (forking && group->Members().size() > processes_max) over.push_back(group);
  }
  for (ProcessGroup* group : over) Exceed(group, Excess::kProcesses);
  if (!any) return;
  last_pid_ = ReadLoad().last_pid;
  count_ = loop_->After(kForksTickUs, [this] { CountProcesses(); });
}

void SupervisorImpl::Exceed(ProcessGroup* group, Excess excess) {
  const auto found = guarded_.find(group);
  if (found == guarded_.end()) return;
  auto exceeded = std::move(found->second.exceeded);
  Unguard(group);
  group->Kill();
  exceeded(excess);
}

void SupervisorImpl::End(std::unique_ptr<ProcessGroup> group,
                         std::move_only_function<void()> clean) {
  ending_.push_back({std::move(group), std::move(clean)});
  if (end_pass_ == 0) EndPass();
}

void SupervisorImpl::EndPass() {
  end_pass_ = 0;
  std::vector<bool> removed;
  for (const Ending& ending : ending_) {
    removed.push_back(ending.group->Remove());
    if (!removed.back()) ending.group->Kill();
  }
  // The dead of a group whose first process has ended are ours to bury; without a cgroup they may
  // be alive still.
  const std::size_t strays = ChildTable::OfThisProcess().Sweep();
  std::vector<Ending> clean;
  std::vector<Ending> left;
  for (std::size_t i = 0; i < ending_.size(); ++i) {
    Ending& ending = ending_[i];
    const bool given_up = ++ending.passes >= kEndPassesMax;
    if (given_up) LogWarn("processes that a tool left behind do not end");
    ((removed[i] && strays == 0) || given_up ? clean : left).push_back(std::move(ending));
  }
  ending_ = std::move(left);
  if (!ending_.empty()) end_pass_ = loop_->After(kEndAgainUs, [this] { EndPass(); });
  for (Ending& ending : clean) ending.clean();
}

}  // namespace noetl::worker
