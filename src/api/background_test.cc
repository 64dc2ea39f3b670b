#include "api/background.h"

#include <gtest/gtest.h>

#include <chrono>
#include <semaphore>
#include <vector>

namespace noetl::api {
namespace {

using namespace std::chrono_literals;

TEST(Background, RunsTasksInTheirOrder) {
  std::vector<int> ran;
  std::binary_semaphore done(0);
  Background background;
  for (int i = 0; i < 3; ++i) {
    Background::Task task = [&ran, &done, i] {
      ran.push_back(i);
      if (i == 2) done.release();
    };
    ASSERT_TRUE(background.Post(task));
  }
  done.acquire();
  background.Stop();
  EXPECT_EQ(ran, (std::vector{0, 1, 2}));
  Background::Task late = [] {};
  EXPECT_FALSE(background.Post(late));
}

TEST(Background, WhatCanWaitComesOnceAndOnlyOneWaits) {
  std::counting_semaphore<> times(0);
  std::binary_semaphore posted(0);
  Background background;
  int others = 0;
  for (int round = 0; round < 3; ++round) {
    background.Later(1ms, [&] { times.release(); });
    background.Later(0ms, [&] { ++others; });
    times.acquire();
    Background::Task task = [&] { posted.release(); };
    ASSERT_TRUE(background.Post(task));
    posted.acquire();
  }
  background.Stop();
  EXPECT_FALSE(times.try_acquire());
  EXPECT_LE(others, 3) << "at most those that came when the first had begun";
}

TEST(Background, StopsWithoutWaitingForTheNextTime) {
  Background background;
  bool ran = false;
  background.Later(24h, [&] { ran = true; });
  background.Stop();
  EXPECT_FALSE(ran);
  background.Later(1ms, [&] { ran = true; });  // too late
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace noetl::api
