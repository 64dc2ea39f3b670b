#include "base/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace noetl {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends_[0]);
    CloseWriter();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void Write() { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  bool Read() {
    char byte = 0;
    return read(ends_[0], &byte, 1) == 1;
  }
  void CloseWriter() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

std::int64_t NowMicros() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

TEST(EventLoop, TasksRunInTheOrderTheyWerePosted) {
  EventLoop loop;
  std::string order;
  loop.Post([&] {
    order += 'a';
    loop.Post([&] { order += 'c'; });
    loop.Post([&] { loop.Stop(); });
  });
  loop.Post([&] { order += 'b'; });
  loop.Run();
  EXPECT_EQ(order, "abc");
}

TEST(EventLoop, TasksPostedBeforeTheStopStillRunAndTimersDoNot) {
  EventLoop loop;
  std::string order;
  loop.Post([&] {
    loop.After(0, [&] { order += 't'; });
    loop.Post([&] { order += '1'; });
    loop.Stop();
    order += '0';
  });
  loop.Post([&] { order += 'x'; });
  loop.Run();
  EXPECT_EQ(order, "0x1");
  loop.Post([&] { loop.Stop(); });  // and it can be run again
  loop.Run();
}

TEST(EventLoop, StopBeforeRunEndsItAtOnce) {
  EventLoop loop;
  bool ran = false;
  loop.Post([&] { ran = true; });
  loop.Stop();
  loop.Run();
  EXPECT_TRUE(ran);
}

TEST(EventLoop, ManyThreadsPostAndEachKeepsItsOrder) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 5'000;
  EventLoop loop;
  std::vector<std::vector<int>> seen(kThreads);
  int left = kThreads * kPosts;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        loop.Post([&, t, i] {
          seen[t].push_back(i);
          if (--left == 0) loop.Stop();
        });
      }
    });
  }
  loop.Run();
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& numbers : seen) {
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(kPosts));
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  }
}

// Every post finds the loop asleep or on its way there: a lost wake-up would hang the test.
TEST(EventLoop, APostWakesASleepingLoop) {
  EventLoop loop;
  std::thread thread([&] { loop.Run(); });
  for (int i = 0; i < 2'000; ++i) {
    std::atomic<bool> done = false;
    loop.Post([&] {
      done = true;
      done.notify_one();
    });
    done.wait(false);
  }
  loop.Stop();
  thread.join();
}

// The thread that posts may be the last to touch a loop that its task lets go.
TEST(EventLoop, ALoopMayEndWhileThePosterReturns) {
  for (int i = 0; i < 300; ++i) {
    auto loop = std::make_unique<EventLoop>();
    EventLoop* const raw = loop.get();
    std::thread poster([raw] { raw->Post([raw] { raw->Stop(); }); });
    loop->Run();
    loop.reset();
    poster.join();
  }
}

TEST(EventLoop, TimersRunInTheOrderOfTheirTimes) {
  EventLoop loop;
  std::string order;
  loop.After(3'000, [&] {
    order += 'd';
    loop.Stop();
  });
  loop.After(1'000, [&] { order += 'b'; });
  loop.After(0, [&] { order += 'a'; });
  loop.After(1'500, [&] { order += 'c'; });
  loop.After(-5, [&] { order += '0'; });
  loop.Run();
  EXPECT_TRUE(order == "a0bcd" || order == "0abcd") << order;
}

TEST(EventLoop, ATimerIsNeverEarly) {
  EventLoop loop;
  const std::int64_t start = NowMicros();
  std::int64_t end = 0;
  loop.After(2'300, [&] {
    end = NowMicros();
    loop.Stop();
  });
  loop.Run();
  EXPECT_GE(end - start, 2'300);
}

TEST(EventLoop, ACancelledTimerNeverRuns) {
  EventLoop loop;
  bool ran = false;
  const auto held = std::make_shared<int>(1);
  const EventLoop::TimerId far = loop.After(3'600'000'000, [held] {});
  const EventLoop::TimerId near = loop.After(100, [&] { ran = true; });
  EXPECT_NE(near, 0U);
  loop.After(0, [&] { loop.CancelTimer(near); });
  loop.After(2'000, [&] { loop.Stop(); });
  loop.CancelTimer(far);
  EXPECT_EQ(held.use_count(), 1);  // what it held is free at once
  loop.CancelTimer(far);
  loop.CancelTimer(12'345);
  // The first timer may be late: then both are due in one round and the cancel still counts.
  loop.Run();
  EXPECT_FALSE(ran);
}

TEST(EventLoop, ATimerThatMakesItselfAgainStarvesNobody) {
  EventLoop loop;
  Pipe pipe;
  pipe.Write();
  int turns = 0;
  std::function<void()> again = [&] {
    ++turns;
    loop.After(0, again);
  };
  again();
  loop.Watch(pipe.reader(), EventLoop::kReadable, [&](unsigned) { loop.Stop(); });
  loop.Run();
  EXPECT_GT(turns, 0);
}

TEST(EventLoop, ATaskThatPostsItselfAgainStarvesNobody) {
  EventLoop loop;
  Pipe pipe;
  bool timer = false;
  bool end = false;
  std::function<void()> again = [&] {
    if (!end) loop.Post(again);
  };
  loop.Post(again);
  loop.After(500, [&] {
    timer = true;
    pipe.Write();
  });
  loop.Watch(pipe.reader(), EventLoop::kReadable, [&](unsigned) {
    end = true;
    loop.Stop();
  });
  loop.Run();
  EXPECT_TRUE(timer);
}

TEST(EventLoop, WatchingIsLevelTriggered) {
  EventLoop loop;
  Pipe pipe;
  for (int i = 0; i < 3; ++i) pipe.Write();
  int calls = 0;
  loop.Watch(pipe.reader(), EventLoop::kReadable, [&](unsigned ready) {
    EXPECT_EQ(ready, EventLoop::kReadable);
    ++calls;
    EXPECT_TRUE(pipe.Read());
    if (calls == 3) loop.Stop();
  });
  loop.Run();
  EXPECT_EQ(loop.Poll(), 0U);
  EXPECT_EQ(calls, 3);
  pipe.Write();
  EXPECT_EQ(loop.Poll(), 1U);
  loop.Unwatch(pipe.reader());
  pipe.Write();
  EXPECT_EQ(loop.Poll(), 0U);
}

TEST(EventLoop, AWatchTellsWritableAndHangUp) {
  EventLoop loop;
  Pipe pipe;
  unsigned seen = 0;
  loop.Watch(pipe.writer(), EventLoop::kWritable, [&](unsigned ready) {
    seen = ready;
    loop.Unwatch(pipe.writer());
  });
  EXPECT_EQ(loop.Poll(), 1U);
  EXPECT_EQ(seen, EventLoop::kWritable);
  EXPECT_EQ(loop.Poll(), 0U);
  loop.Watch(pipe.reader(), EventLoop::kReadable, [&](unsigned ready) { seen = ready; });
  pipe.CloseWriter();
  EXPECT_EQ(loop.Poll(), 1U);
  EXPECT_EQ(seen, EventLoop::kReadable | EventLoop::kWritable);
}

TEST(EventLoop, ACallbackMayReplaceItself) {
  EventLoop loop;
  Pipe pipe;
  pipe.Write();
  std::string order;
  const auto held = std::make_shared<std::string>("first");
  loop.Watch(pipe.reader(), EventLoop::kReadable, [&, held](unsigned) {
    loop.Watch(pipe.reader(), EventLoop::kReadable, [&](unsigned) { order += "second"; });
    order += *held;  // the replaced callback lives until it returns
  });
  loop.Poll();
  loop.Poll();
  EXPECT_EQ(order, "firstsecond");
  EXPECT_EQ(held.use_count(), 1);
}

// Both are ready in one round, and the first to be served closes the other.
TEST(EventLoop, AnUnwatchedDescriptorIsNotServedInTheSameRound) {
  EventLoop loop;
  auto one = std::make_unique<Pipe>();
  auto two = std::make_unique<Pipe>();
  one->Write();
  two->Write();
  int calls = 0;
  const auto drop = [&](std::unique_ptr<Pipe>& other) {
    ++calls;
    loop.Unwatch(other->reader());
    other = std::make_unique<Pipe>();  // very likely the same numbers
    loop.Watch(other->reader(), EventLoop::kReadable, [&](unsigned) { calls += 100; });
  };
  loop.Watch(one->reader(), EventLoop::kReadable, [&](unsigned) { drop(two); });
  loop.Watch(two->reader(), EventLoop::kReadable, [&](unsigned) { drop(one); });
  EXPECT_EQ(loop.Poll(), 1U);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, PollNeverWaitsAndCounts) {
  EventLoop loop;
  EXPECT_EQ(loop.Poll(), 0U);
  loop.Post([] {});
  loop.Post([] {});
  loop.After(3'600'000'000, [] { FAIL(); });
  loop.After(0, [] {});
  EXPECT_EQ(loop.Poll(), 3U);
  EXPECT_EQ(loop.Poll(), 0U);
}

TEST(EventLoop, WhatIsLeftEndsWithTheLoopAndMayStillUseIt) {
  struct Holder {
    EventLoop* loop;
    int* ended;
    ~Holder() {
      ++*ended;
      loop->CancelTimer(1);
      loop->Unwatch(0);
    }
  };
  int ended = 0;
  {
    EventLoop loop;
    Pipe pipe;
    const auto make = [&] { return std::make_unique<Holder>(&loop, &ended); };
    loop.After(3'600'000'000, [holder = make()] {});
    loop.Post([holder = make()] {});
    loop.Watch(pipe.reader(), EventLoop::kReadable, [holder = make()](unsigned) {});
  }
  EXPECT_EQ(ended, 3);
}

// An idle loop with a far timer and a quiet descriptor stays in the kernel: the thread gives up the
// processor of its own accord once for each sleep.
TEST(EventLoop, AnIdleLoopSleeps) {
  EventLoop loop;
  Pipe pipe;
  loop.Watch(pipe.reader(), EventLoop::kReadable, [](unsigned) { FAIL(); });
  loop.After(3'600'000'000, [] { FAIL(); });
  rusage before{};
  rusage after{};
  loop.Post([&] { getrusage(RUSAGE_THREAD, &before); });
  loop.After(50'000, [&] {
    getrusage(RUSAGE_THREAD, &after);
    loop.Stop();
  });
  loop.Run();
  EXPECT_LE(after.ru_nvcsw - before.ru_nvcsw, 2);
}

}  // namespace
}  // namespace noetl
