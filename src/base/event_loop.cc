#include "base/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace noetl {
namespace {

// Descriptors served between two looks at the queue.
constexpr int kEventsPerRound = 128;
// Batches of tasks served between two looks at timers and descriptors. A chain of tasks that post
// one another would pay for a system call each with 1, and starve descriptors without a bound.
constexpr int kBatchesPerRound = 32;
constexpr std::int64_t kNanosPerMicro = 1'000;
constexpr std::int64_t kNanosPerMilli = 1'000'000;
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
// A loop sleeps at most this long at once, so that times fit everywhere. Nobody notices a wake-up
// once a day.
constexpr std::int64_t kLongestSleepNanos = 86'400 * kNanosPerSecond;
// What epoll tells about the loop's own wake-up descriptor; watches have a generation above 0.
constexpr std::uint64_t kWakeKey = 0;

std::int64_t NowNanos() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

std::uint32_t ToEpoll(unsigned interest) {
  return ((interest & EventLoop::kReadable) != 0 ? EPOLLIN : 0U) |
         ((interest & EventLoop::kWritable) != 0 ? EPOLLOUT : 0U);
}

unsigned FromEpoll(std::uint32_t events) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) return EventLoop::kReadable | EventLoop::kWritable;
  return ((events & EPOLLIN) != 0 ? EventLoop::kReadable : 0U) |
         ((events & EPOLLOUT) != 0 ? EventLoop::kWritable : 0U);
}

}  // namespace

struct EventLoop::Impl {
  struct Watched {
    std::uint64_t key = 0;
    Ready ready;
  };
  using Deadline = std::pair<std::int64_t, TimerId>;  // nanoseconds; equal ones in order of making

  Impl();
  ~Impl();

  void Wake();
  std::size_t RunTasks(bool* stopped);
  std::size_t RunTimers();
  std::size_t RunDescriptors(bool wait);
  int Sleep(std::span<epoll_event> events, bool wait);
  bool FallAsleep();

  // Shared with the threads that post.
  std::mutex mutex;
  std::vector<Task> queue;
  bool stop = false;
  // The loop is, or is about to be, in the kernel: the next post has to wake it, once.
  bool asleep = false;

  // The loop thread's own.
  int epoll = -1;
  int wake = -1;
  bool precise_sleep = true;
  bool running = false;
  std::vector<Task> batch;
  std::map<Deadline, Task> timers;
  std::unordered_map<TimerId, std::int64_t> deadlines;
  TimerId last_timer = 0;
  std::unordered_map<int, std::shared_ptr<Watched>> watches;
  std::uint32_t last_generation = 0;
};

EventLoop::Impl::Impl()
    : epoll(epoll_create1(EPOLL_CLOEXEC)), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  NOETL_CHECK(epoll >= 0 && wake >= 0, "no descriptors left for an event loop");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeKey}};
  NOETL_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) == 0, std::strerror(errno));
}

EventLoop::Impl::~Impl() {
  close(wake);
  close(epoll);
}

// With the mutex held: a thread that posts the last task must be out of here before the loop ends.
void EventLoop::Impl::Wake() {
  asleep = false;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake, &one, sizeof(one));
}

// `stopped`: a stop was asked for, and all that was posted before it has run.
std::size_t EventLoop::Impl::RunTasks(bool* stopped) {
  std::size_t count = 0;
  for (int round = 0; round < kBatchesPerRound && !*stopped; ++round) {
    {
      const std::lock_guard lock(mutex);
      asleep = false;
      batch.swap(queue);
      *stopped = stop;
    }
    if (batch.empty()) break;
    for (Task& task : batch) {
      task();
      task = nullptr;  // what it holds ends now, not with the batch
    }
    count += batch.size();
    batch.clear();
  }
  return count;
}

std::size_t EventLoop::Impl::RunTimers() {
  if (timers.empty()) return 0;
  std::size_t count = 0;
  const std::int64_t now = NowNanos();
  while (!timers.empty() && timers.begin()->first.first <= now) {
    auto node = timers.extract(timers.begin());
    deadlines.erase(node.key().second);
    node.mapped()();
    ++count;
  }
  return count;
}

// False when there is something to do first.
bool EventLoop::Impl::FallAsleep() {
  const std::lock_guard lock(mutex);
  asleep = queue.empty() && !stop;
  return asleep;
}

int EventLoop::Impl::Sleep(std::span<epoll_event> events, bool wait) {
  const int room = static_cast<int>(events.size());
  if (!wait || !FallAsleep()) return epoll_wait(epoll, events.data(), room, 0);
  if (timers.empty()) return epoll_wait(epoll, events.data(), room, -1);
  const std::int64_t nanos =
      std::clamp<std::int64_t>(timers.begin()->first.first - NowNanos(), 0, kLongestSleepNanos);
  if (precise_sleep) {
    const timespec span{.tv_sec = nanos / kNanosPerSecond, .tv_nsec = nanos % kNanosPerSecond};
    const int count = epoll_pwait2(epoll, events.data(), room, &span, nullptr);
    if (count >= 0 || errno == EINTR) return count;
    precise_sleep = false;  // kernels before 5.11 know milliseconds only
  }
  const auto millis = static_cast<int>((nanos + kNanosPerMilli - 1) / kNanosPerMilli);
  return epoll_wait(epoll, events.data(), room, millis);
}

std::size_t EventLoop::Impl::RunDescriptors(bool wait) {
  std::array<epoll_event, kEventsPerRound> events;
  const int ready = Sleep(events, wait);
  NOETL_CHECK(ready >= 0 || errno == EINTR, std::strerror(errno));
  std::size_t count = 0;
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t key = events[i].data.u64;
    if (key == kWakeKey) {
      std::uint64_t posts = 0;
      [[maybe_unused]] const ssize_t got = read(wake, &posts, sizeof(posts));
      continue;
    }
    // An earlier callback of this round may have unwatched or replaced it: then this is old news.
    const auto found = watches.find(static_cast<int>(key & 0xffffffffU));
    if (found == watches.end() || found->second->key != key) continue;
    const std::shared_ptr<Watched> watched = found->second;  // outlives an unwatch inside
    watched->ready(FromEpoll(events[i].events));
    ++count;
  }
  return count;
}

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}

EventLoop::~EventLoop() {
  // What the callbacks hold may cancel, unwatch or post while it ends, so the loop is still whole.
  for (bool empty = false; !empty;) {
    std::vector<Task> queue;
    {
      const std::lock_guard lock(impl_->mutex);
      queue.swap(impl_->queue);
    }
    const auto timers = std::exchange(impl_->timers, {});
    const auto watches = std::exchange(impl_->watches, {});
    empty = queue.empty() && timers.empty() && watches.empty();
  }
}

void EventLoop::Run() {
  NOETL_CHECK(!std::exchange(impl_->running, true), "a loop runs on one thread");
  while (true) {
    bool stopped = false;
    impl_->RunTasks(&stopped);
    if (stopped) break;
    impl_->RunTimers();
    impl_->RunDescriptors(true);
  }
  impl_->running = false;
  const std::lock_guard lock(impl_->mutex);
  impl_->stop = false;
}

std::size_t EventLoop::Poll() {
  NOETL_CHECK(!std::exchange(impl_->running, true), "a loop is not polled from its own callbacks");
  bool stopped = false;
  std::size_t count = impl_->RunTasks(&stopped);
  count += impl_->RunTimers();
  count += impl_->RunDescriptors(false);
  impl_->running = false;
  return count;
}

void EventLoop::Stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stop = true;
  if (impl_->asleep) impl_->Wake();
}

void EventLoop::Post(Task task) {
  const std::lock_guard lock(impl_->mutex);
  impl_->queue.push_back(std::move(task));
  if (impl_->asleep) impl_->Wake();
}

EventLoop::TimerId EventLoop::After(std::int64_t delay_us, Task task) {
  constexpr std::int64_t kLongestDelay =
      std::numeric_limits<std::int64_t>::max() / (2 * kNanosPerMicro);
  const std::int64_t delay = std::clamp<std::int64_t>(delay_us, 0, kLongestDelay) * kNanosPerMicro;
  const std::int64_t deadline = NowNanos() + delay;
  const TimerId id = ++impl_->last_timer;
  impl_->timers.emplace(Impl::Deadline(deadline, id), std::move(task));
  impl_->deadlines.emplace(id, deadline);
  return id;
}

void EventLoop::CancelTimer(TimerId timer) {
  const auto found = impl_->deadlines.find(timer);
  if (found == impl_->deadlines.end()) return;
  // Taken out first: what the task holds may use the loop when it ends.
  const auto node = impl_->timers.extract(Impl::Deadline(found->second, timer));
  impl_->deadlines.erase(found);
}

void EventLoop::Watch(int descriptor, unsigned interest, Ready ready) {
  NOETL_CHECK(descriptor >= 0 && interest != 0, "nothing to watch");
  auto watched = std::make_shared<Impl::Watched>();
  watched->key =
      (std::uint64_t{++impl_->last_generation} << 32U) | static_cast<std::uint32_t>(descriptor);
  watched->ready = std::move(ready);
  epoll_event event{.events = ToEpoll(interest), .data = {.u64 = watched->key}};
  const bool known = impl_->watches.contains(descriptor);
  int status = epoll_ctl(impl_->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, &event);
  // Closed and opened again without an unwatch: the kernel has forgotten the first one.
  if (status != 0 && known && errno == ENOENT) {
    status = epoll_ctl(impl_->epoll, EPOLL_CTL_ADD, descriptor, &event);
  }
  NOETL_CHECK(status == 0, std::strerror(errno));
  impl_->watches[descriptor].swap(watched);  // the old one ends after the table is in order
}

void EventLoop::Unwatch(int descriptor) {
  const auto node = impl_->watches.extract(descriptor);
  if (node.empty()) return;
  epoll_event unused{};
  epoll_ctl(impl_->epoll, EPOLL_CTL_DEL, descriptor, &unused);  // fails only for a closed one
}

}  // namespace noetl
