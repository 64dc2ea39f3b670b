#include "worker/tools/python_pool.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <map>
#include <optional>
#include <ranges>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "worker/bounded_text.h"
#include "worker/process_tree.h"
#include "worker/tools/python_call.h"
#include "worker/tools/python_zygote.h"

namespace noetl::worker {

namespace {

// Children that wait for a job. Each costs a few MB that it does not share.
constexpr std::size_t kSparesWanted = 6;
// A reply is parsed and kept in memory.
constexpr std::uint64_t kReplyBytesMax = 64 << 20;
constexpr std::size_t kFrameHeadBytes = 8;
constexpr std::size_t kReadBytes = 64 << 10;
constexpr int kReadsAtOnce = 8;
// How long a child that has replied, or was killed, may take to be gone.
constexpr std::int64_t kGoneAfterReplyUs = 200'000;
// The kernel takes seconds to end a hundred processes that fork the same memory.
constexpr std::int64_t kGoneAfterKillUs = 30'000'000;
// A child that is kept for one step: how many jobs, how old, how long without a job, how much
// larger than after its first one, and how many such children.
constexpr int kKeptJobsMax = 200;
constexpr std::int64_t kKeptAgeUs = 60'000'000;
constexpr std::int64_t kKeptIdleUs = 10'000'000;
constexpr std::int64_t kKeptGrowthKb = 64 << 10;
constexpr std::size_t kKeptMax = 16;
// After a fork that failed, or a zygote that was lost.
constexpr std::int64_t kAgainUs = 50'000;

std::int64_t NowMicros() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

void CloseDescriptor(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

std::string Frame(std::string body) {
  std::string frame(kFrameHeadBytes, '\0');
  for (std::size_t i = 0; i < kFrameHeadBytes; ++i) {
    frame[i] = static_cast<char>(body.size() >> (8 * (kFrameHeadBytes - 1 - i)));
  }
  return frame += body;
}

std::optional<std::uint64_t> FrameSize(std::string_view bytes) {
  if (bytes.size() < kFrameHeadBytes) return {};
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kFrameHeadBytes; ++i) {
    size = size << 8U | static_cast<unsigned char>(bytes[i]);
  }
  return size;
}

}  // namespace

class PythonPool::Impl final : public PythonZygote::Listener {
 public:
  Impl(EventLoop* loop, Supervisor* supervisor, std::string interpreter,
       std::vector<std::string> preload, int forks_max)
      : loop(loop),
        supervisor(supervisor),
        interpreter(std::move(interpreter)),
        preload(std::move(preload)),
        forks_max(forks_max) {}
  ~Impl() override;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void OnForked(std::unique_ptr<PythonChild> child) override;
  void OnForkFailed() override { Again(); }
  void OnChildExit(PythonZygote* zygote, int pid, int status) override;
  void OnZygoteExit(PythonZygote* zygote, std::string errors) override;

  Status StartZygote();
  // Starts a process for this job alone.
  void StartCall(Run* run);
  // The one that forks: the latest that has shown that it works.
  PythonZygote* Active() const;
  void Recycle();
  void Order();
  void Dispatch();
  void Again();
  void Replied(std::unique_ptr<PythonChild> child, const std::string& reuse_key, bool reusable);
  bool Keepable(PythonChild& child) const;
  void Retire(std::unique_ptr<PythonChild> child);
  using Kept = std::map<std::string, std::unique_ptr<PythonChild>>;
  void DropKept(Kept::iterator kept);
  template <typename Dead>
  void BuryIf(Dead dead);
  void Remove(Run* run);

  // Children of different zygotes may for a moment have the same number. Those without a zygote
  // were started by ourselves.
  using ChildKey = std::pair<const PythonZygote*, int>;

  EventLoop* loop;
  Supervisor* supervisor;
  std::string interpreter;
  std::vector<std::string> preload;
  int forks_max;

  std::vector<std::unique_ptr<PythonZygote>> zygotes;  // the oldest first
  std::map<int, std::unique_ptr<PythonCall>> calls;
  Reactor::TimerId again = 0;
  std::deque<std::unique_ptr<PythonChild>> spares;
  Kept kept;
  std::map<ChildKey, std::unique_ptr<PythonChild>> going;  // done with, not yet gone
  std::map<Run*, std::shared_ptr<Run>> runs;
  std::deque<Run*> waiting;
  std::map<ChildKey, Run*> busy;
};

// A job from its start to its answer.
class PythonPool::Run {
 public:
  Run(Impl* pool, PythonJob job, Ended ended)
      : pool_(pool),
        loop_(pool->loop),
        job_(std::move(job)),
        ended_(std::move(ended)),
        texts_{BoundedText(job_.limits.output_bytes_max),
               BoundedText(job_.limits.output_bytes_max)} {}
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const PythonJob& job() const { return job_; }
  void Begin(std::unique_ptr<PythonChild> child);
  void Stop();
  void Abandon();
  // The pool goes: nobody hears of it.
  void Drop();
  void OnExit(int status);
  // The zygote is gone, and the child with it.
  void OnLost(PythonEnding ending, std::string message);
  void OnCannotStart(const Error& error);

 private:
  void OnChannel(unsigned ready);
  bool Send();
  void Receive();
  void OnReply();
  void ReadOutput(OutputStream which);
  void CloseOutput(OutputStream which);
  void WatchChannel();
  void Terminate();
  void Kill();
  void Disconnect();
  void Answer();

  Impl* pool_;
  EventLoop* loop_;
  PythonJob job_;
  Ended ended_;
  std::array<BoundedText, 2> texts_;
  std::unique_ptr<PythonChild> child_;
  std::string frame_;
  std::size_t sent_ = 0;
  std::string received_;
  bool channel_watched_ = false;
  bool replied_ = false;
  bool clean_ = false;
  bool gone_ = false;
  std::optional<PythonEnding> cause_;
  Reactor::TimerId timeout_ = 0;
  Reactor::TimerId grace_ = 0;
  PythonEnd end_;
};

class PythonPool::Handle final : public Running {
 public:
  explicit Handle(const std::shared_ptr<Run>& run) : run_(run) {}
  ~Handle() override {
    if (const auto run = run_.lock()) run->Abandon();
  }
  void Stop() override {
    if (const auto run = run_.lock()) run->Stop();
  }

 private:
  std::weak_ptr<Run> run_;
};

// A run ----------------------------------------------------------------------------------------

PythonPool::Run::~Run() {
  loop_->CancelTimer(timeout_);
  loop_->CancelTimer(grace_);
  if (child_) Disconnect();
}

void PythonPool::Run::Begin(std::unique_ptr<PythonChild> child) {
  child_ = std::move(child);
  if (child_->first_job_us == 0) child_->first_job_us = NowMicros();
  frame_ = Frame(std::move(job_.body));
  pool_->busy.emplace(Impl::ChildKey(child_->zygote, child_->pid), this);
  // Children wait for their jobs in groups with the usual limits.
  constexpr ProcessLimits kUsual;
  if (child_->zygote != nullptr && (job_.limits.memory_mb != kUsual.memory_mb ||
                                    job_.limits.processes_max != kUsual.processes_max)) {
    child_->group->Limit(job_.limits.processes_max, job_.limits.memory_mb);
  }
  pool_->supervisor->Guard(child_->group.get(), job_.limits, [this](Supervisor::Excess excess) {
    if (!cause_) {
      cause_ =
          excess == Supervisor::Excess::kMemory ? PythonEnding::kMemory : PythonEnding::kProcesses;
    }
    Kill();
  });
  timeout_ = loop_->After(job_.limits.timeout_ms * 1000, [this] {
    if (!cause_) cause_ = PythonEnding::kTimedOut;
    Terminate();
  });
  Send();
  WatchChannel();
  for (const OutputStream which : {OutputStream::kStdout, OutputStream::kStderr}) {
    loop_->Watch(child_->output[static_cast<std::size_t>(which)], EventLoop::kReadable,
                 [this, which](unsigned) { ReadOutput(which); });
  }
}

void PythonPool::Run::WatchChannel() {
  const unsigned interest =
      EventLoop::kReadable | (sent_ < frame_.size() ? EventLoop::kWritable : 0U);
  channel_watched_ = true;
  loop_->Watch(child_->channel, interest, [this](unsigned ready) { OnChannel(ready); });
}

void PythonPool::Run::OnChannel(unsigned ready) {
  if ((ready & EventLoop::kWritable) != 0 && sent_ < frame_.size() && Send()) WatchChannel();
  if ((ready & EventLoop::kReadable) != 0) Receive();
}

// True when the whole job is away.
bool PythonPool::Run::Send() {
  while (sent_ < frame_.size()) {
    const ssize_t put = send(child_->channel, frame_.data() + sent_, frame_.size() - sent_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return false;
    if (put < 0) sent_ = frame_.size();  // it is dead or does not want it: its end tells
    if (put > 0) sent_ += static_cast<std::size_t>(put);
  }
  return true;
}

void PythonPool::Run::Receive() {
  std::array<char, kReadBytes> buffer;
  while (!replied_) {
    const ssize_t got = recv(child_->channel, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) received_.append(buffer.data(), static_cast<std::size_t>(got));
    const std::optional<std::uint64_t> size = FrameSize(received_);
    const bool senseless = size && (*size == 0 || *size > kReplyBytesMax);
    if (size && !senseless && received_.size() >= kFrameHeadBytes + *size) {
      received_.resize(kFrameHeadBytes + *size);
      return OnReply();
    }
    if (got <= 0 || senseless) {
      // Closed without a reply, or a reply that is none. The process may still run.
      if (senseless) received_.clear();
      if (senseless && *size > kReplyBytesMax) {
        end_.message = fmt::format("the result is larger than {} MB", kReplyBytesMax >> 20);
      }
      if (channel_watched_) loop_->Unwatch(child_->channel);
      channel_watched_ = false;
      if (senseless && !gone_) Kill();
      return;
    }
  }
}

void PythonPool::Run::OnReply() {
  replied_ = true;
  clean_ = received_[kFrameHeadBytes] == 'c';
  end_.reply = received_.substr(kFrameHeadBytes + 1);
  if (gone_) return;
  loop_->Unwatch(child_->channel);
  channel_watched_ = false;
  loop_->CancelTimer(timeout_);
  if (clean_) return Answer();
  Kill();
}

void PythonPool::Run::ReadOutput(OutputStream which) {
  const int descriptor = child_->output[static_cast<std::size_t>(which)];
  std::array<char, kReadBytes> buffer;
  for (int i = 0; i < kReadsAtOnce && descriptor >= 0; ++i) {
    const ssize_t got = read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return CloseOutput(which);
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    texts_[static_cast<std::size_t>(which)].Append(bytes);
    if (job_.output && ended_) job_.output(which, bytes);
  }
}

void PythonPool::Run::CloseOutput(OutputStream which) {
  int& descriptor = child_->output[static_cast<std::size_t>(which)];
  if (descriptor >= 0) loop_->Unwatch(descriptor);
  CloseDescriptor(descriptor);
}

void PythonPool::Run::Stop() {
  if (!cause_) cause_ = PythonEnding::kStopped;
  if (child_) return Terminate();
  std::erase(pool_->waiting, this);
  Answer();
}

void PythonPool::Run::Abandon() {
  ended_ = nullptr;
  if (child_) return Kill();
  std::erase(pool_->waiting, this);
  pool_->Remove(this);
}

void PythonPool::Run::Terminate() {
  if (grace_ != 0 || gone_ || !child_) return;
  // One that takes all it can get has no time for manners.
  if (child_->group->IsCrowd()) return Kill();
  child_->group->Signal(SIGTERM);
  child_->group->Signal(SIGCONT);  // what is stopped could not even die
  grace_ = loop_->After(job_.limits.stop_grace_ms * 1000, [this] { Kill(); });
}

void PythonPool::Run::Kill() {
  if (gone_) return;
  child_->group->Kill();
  loop_->CancelTimer(grace_);
  if (child_->zygote == nullptr) return;
  // The zygote tells of the end; one that does not is of no more use.
  grace_ = loop_->After(kGoneAfterKillUs, [zygote = child_->zygote] { zygote->Kill(); });
}

void PythonPool::Run::Drop() {
  if (!child_->group) return;
  pool_->supervisor->Unguard(child_->group.get());
  child_->group->Kill();
}

void PythonPool::Run::OnExit(int status) {
  gone_ = true;
  end_.status = status;
  loop_->CancelTimer(timeout_);
  loop_->CancelTimer(grace_);
  // The reply may have come together with the end.
  if (channel_watched_) Receive();
  if (!cause_ && child_->group->KilledForMemory()) cause_ = PythonEnding::kMemory;
  pool_->supervisor->Unguard(child_->group.get());
  child_->group->Lead(0);
  pool_->supervisor->End(std::move(child_->group), [weak = std::weak_ptr(pool_->runs.at(this))] {
    if (const auto run = weak.lock()) run->Answer();
  });
}

void PythonPool::Run::OnLost(PythonEnding ending, std::string message) {
  if (!replied_ && !cause_) cause_ = ending;
  end_.message = std::move(message);
  if (child_) return OnExit(0);
  Answer();
}

void PythonPool::Run::OnCannotStart(const Error& error) {
  end_.code = error.code;
  OnLost(PythonEnding::kCannotStart, error.message);
}

void PythonPool::Run::Disconnect() {
  if (channel_watched_) loop_->Unwatch(child_->channel);
  channel_watched_ = false;
  for (const int descriptor : child_->output) {
    if (descriptor >= 0) loop_->Unwatch(descriptor);
  }
}

void PythonPool::Run::Answer() {
  if (child_) {
    // What it wrote before its reply is in the pipes by now.
    for (const OutputStream which : {OutputStream::kStdout, OutputStream::kStderr}) {
      for (int pipes = 0; pipes < 4; ++pipes) ReadOutput(which);
    }
    Disconnect();
    pool_->busy.erase({child_->zygote, child_->pid});
    if (child_->group) pool_->supervisor->Unguard(child_->group.get());
  }
  end_.stdout_text = texts_[0].Text();
  end_.stderr_text = texts_[1].Text();
  end_.ending = replied_ ? PythonEnding::kReplied : cause_.value_or(PythonEnding::kDied);
  Ended ended = std::move(ended_);
  PythonEnd end = std::move(end_);
  std::unique_ptr<PythonChild> child = std::move(child_);
  const std::string reuse_key = job_.reuse_key;
  const bool still_there = !gone_;
  const bool whole = clean_ && child && child->output[0] >= 0 && child->output[1] >= 0 && !cause_;
  Impl* const pool = pool_;
  pool->Remove(this);  // `this` is gone
  if (child && still_there) pool->Replied(std::move(child), reuse_key, whole);
  if (ended) ended(std::move(end));
}

// The pool -------------------------------------------------------------------------------------

PythonPool::Impl::~Impl() {
  loop->CancelTimer(again);
  for (const auto& [key, child] : going) loop->CancelTimer(child->timer);
  for (const auto& [key, child] : kept) loop->CancelTimer(child->timer);
  for (const auto& [key, run] : busy) run->Drop();
  // Their children end with them, and the groups go when they are empty.
  zygotes.clear();
  calls.clear();
}

void PythonPool::Impl::StartCall(Run* run) {
  auto call = std::make_unique<PythonCall>(loop, supervisor);
  Result<std::unique_ptr<PythonChild>> child = call->Start(run->job(), [this](int pid, int status) {
    const std::unique_ptr<PythonCall> last = std::move(calls.at(pid));
    calls.erase(pid);
    OnChildExit(nullptr, pid, status);
  });
  if (!child) return run->OnCannotStart(child.error());
  calls.emplace((*child)->pid, std::move(call));
  run->Begin(std::move(*child));
}

Status PythonPool::Impl::StartZygote() {
  auto zygote = std::make_unique<PythonZygote>(loop, supervisor, this);
  NOETL_TRY(zygote->Start(interpreter, preload));
  zygotes.push_back(std::move(zygote));
  return {};
}

PythonZygote* PythonPool::Impl::Active() const {
  for (const auto& zygote : std::views::reverse(zygotes)) {
    if (zygote->works()) return zygote.get();
  }
  return zygotes.empty() ? nullptr : zygotes.back().get();
}

void PythonPool::Impl::Recycle() {
  PythonZygote* const active = Active();
  if (active == nullptr) return;
  // The next one loads its modules while this one serves on.
  if (active->forks() >= forks_max && active == zygotes.back().get() && StartZygote()) {
    zygotes.back()->Order();
  }
  for (const auto& zygote : zygotes) {
    if (zygote.get() == active) break;
    if (zygote->children() == 0) zygote->Kill();
  }
}

void PythonPool::Impl::OnForked(std::unique_ptr<PythonChild> child) {
  spares.push_back(std::move(child));
  Recycle();
  Dispatch();
}

void PythonPool::Impl::OnChildExit(PythonZygote* zygote, int pid, int status) {
  const auto run = busy.find({zygote, pid});
  if (run != busy.end()) run->second->OnExit(status);
  BuryIf([&](const PythonChild& child) { return child.zygote == zygote && child.pid == pid; });
  Recycle();
}

// Children without a job that are dead. They say that they leave nothing; this makes it true.
template <typename Dead>
void PythonPool::Impl::BuryIf(Dead dead) {
  const auto bury = [&](PythonChild& child) {
    if (!dead(child)) return false;
    loop->CancelTimer(child.timer);
    child.group->Lead(0);
    supervisor->End(std::move(child.group), [] {});
    return true;
  };
  std::erase_if(going, [&](const auto& entry) { return bury(*entry.second); });
  std::erase_if(kept, [&](const auto& entry) { return bury(*entry.second); });
  if (std::erase_if(spares, [&](const auto& child) { return bury(*child); }) > 0) Order();
}

void PythonPool::Impl::OnZygoteExit(PythonZygote* zygote, std::string errors) {
  std::vector<Run*> lost;
  for (const auto& [key, run] : busy) {
    if (key.first == zygote) lost.push_back(run);
  }
  const bool works = zygote->works();
  BuryIf([&](const PythonChild& child) { return child.zygote == zygote; });
  std::erase_if(zygotes, [&](const auto& one) { return one.get() == zygote; });
  for (Run* run : lost) {
    run->OnLost(PythonEnding::kLost, "the Python process behind this call was lost");
  }
  // Jobs that wait only need another zygote, unless this one never worked.
  if (!works && zygotes.empty()) {
    for (Run* run : std::exchange(waiting, {})) {
      run->OnLost(PythonEnding::kCannotStart, fmt::format("{} ended: {}", interpreter, errors));
    }
  }
  if (!waiting.empty()) Again();
}

void PythonPool::Impl::Again() {
  if (again != 0) return;
  again = loop->After(kAgainUs, [this] {
    again = 0;
    Dispatch();
    Order();
  });
}

void PythonPool::Impl::Order() {
  PythonZygote* const active = Active();
  if (active == nullptr) return;
  const std::size_t wanted = waiting.size() + kSparesWanted;
  for (std::size_t have = spares.size() + active->ordered(); have < wanted; ++have) {
    active->Order();
  }
}

void PythonPool::Impl::Dispatch() {
  while (!waiting.empty() && !spares.empty()) {
    std::unique_ptr<PythonChild> child = std::move(spares.front());
    spares.pop_front();
    Run* const run = waiting.front();
    waiting.pop_front();
    run->Begin(std::move(child));
  }
  if (!waiting.empty() && zygotes.empty()) {
    if (const Status started = StartZygote(); !started) {
      for (Run* run : std::exchange(waiting, {})) {
        run->OnCannotStart(started.error());
      }
      return;
    }
  }
  // Forking beside a call costs it time: with enough spares it can wait until the answer.
  if (!waiting.empty() || spares.size() < kSparesWanted / 2) Order();
}

bool PythonPool::Impl::Keepable(PythonChild& child) const {
  const std::int64_t memory_kb = MemoryKbOf({child.pid});
  if (++child.jobs == 1) child.memory_kb = memory_kb;
  return child.jobs < kKeptJobsMax && NowMicros() - child.first_job_us < kKeptAgeUs &&
         memory_kb - child.memory_kb <= kKeptGrowthKb;
}

void PythonPool::Impl::Replied(std::unique_ptr<PythonChild> child, const std::string& reuse_key,
                               bool reusable) {
  if (reusable && !reuse_key.empty() && !kept.contains(reuse_key) && Keepable(*child)) {
    if (kept.size() >= kKeptMax) DropKept(kept.begin());
    const std::int64_t age_us = NowMicros() - child->first_job_us;
    child->timer = loop->After(std::min(kKeptIdleUs, kKeptAgeUs - age_us), [this, reuse_key] {
      if (const auto found = kept.find(reuse_key); found != kept.end()) DropKept(found);
    });
    kept.emplace(reuse_key, std::move(child));
  } else {
    Retire(std::move(child));
  }
  Order();
}

void PythonPool::Impl::DropKept(Kept::iterator at) {
  std::unique_ptr<PythonChild> child = std::move(at->second);
  kept.erase(at);
  loop->CancelTimer(child->timer);
  Retire(std::move(child));
}

void PythonPool::Impl::Retire(std::unique_ptr<PythonChild> child) {
  const ChildKey key(child->zygote, child->pid);
  // A kept one ends when it hears that there is nobody any more.
  child->Disconnect();
  child->timer = loop->After(kGoneAfterReplyUs, [this, key] {
    PythonChild& late = *going.at(key);
    late.group->Kill();
    if (late.zygote == nullptr) return;
    late.timer = loop->After(kGoneAfterKillUs, [zygote = late.zygote] { zygote->Kill(); });
  });
  going.emplace(key, std::move(child));
}

void PythonPool::Impl::Remove(Run* run) {
  const auto found = runs.find(run);
  if (found == runs.end()) return;
  const std::shared_ptr<Run> last = std::move(found->second);
  runs.erase(found);
}

PythonPool::PythonPool(EventLoop* loop, Supervisor* supervisor, std::string interpreter,
                       std::vector<std::string> preload, int forks_max)
    : impl_(std::make_unique<Impl>(loop, supervisor, std::move(interpreter), std::move(preload),
                                   forks_max)) {}

PythonPool::~PythonPool() = default;

void PythonPool::Warm() {
  if (impl_->zygotes.empty() && !impl_->StartZygote()) return;
  impl_->Order();
}

std::unique_ptr<Running> PythonPool::Start(PythonJob job, Ended ended) {
  const auto run = std::make_shared<Run>(impl_.get(), std::move(job), std::move(ended));
  impl_->runs.emplace(run.get(), run);
  auto handle = std::make_unique<Handle>(run);
  if (const auto found = impl_->kept.find(run->job().reuse_key); found != impl_->kept.end()) {
    std::unique_ptr<PythonChild> child = std::move(found->second);
    impl_->kept.erase(found);
    impl_->loop->CancelTimer(child->timer);
    run->Begin(std::move(child));
    return handle;
  }
  if (!run->job().interpreter.empty()) {
    impl_->StartCall(run.get());
    return handle;
  }
  impl_->waiting.push_back(run.get());
  impl_->Dispatch();
  return handle;
}

std::size_t PythonPool::spares() const { return impl_->spares.size(); }
int PythonPool::zygote_pid() const {
  const PythonZygote* const active = impl_->Active();
  return active == nullptr ? 0 : active->pid();
}
bool PythonPool::idle() const {
  return impl_->runs.empty() && impl_->going.empty() && impl_->kept.empty();
}

}  // namespace noetl::worker
