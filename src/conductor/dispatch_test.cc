#include "conductor/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace noetl::conductor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

Dispatch::Waiting Command(std::int64_t number, std::string pool = "shared",
                          std::string kind = "noop") {
  return {.execution_id = 1,
          .command_id = fmt::format("1:step:{}", number),
          .pool = std::move(pool),
          .kind = std::move(kind),
          .issued = std::make_shared<const engine::Event>()};
}

std::vector<std::string> TakeAll(Dispatch& dispatch) {
  std::vector<std::string> ids;
  while (auto next = dispatch.Next()) ids.push_back(next->first.command_id);
  return ids;
}

TEST(DispatchTest, CommandsGetSeatsInTheOrderInWhichTheyCame) {
  Dispatch dispatch;
  dispatch.Wait({Command(7), Command(5), Command(6)});
  dispatch.ReturnSlots(2);
  EXPECT_THAT(TakeAll(dispatch), ElementsAre("1:step:7", "1:step:5"));
  EXPECT_THAT(dispatch.WaitingByPool(), ElementsAre(Pair("shared", 1U)));
}

TEST(DispatchTest, WhatWasClaimedByItsNameLeavesTheLine) {
  Dispatch dispatch;
  dispatch.Wait({Command(1), Command(2), Command(3), Command(4, "gpu")});
  dispatch.Forget(2);
  dispatch.Forget(4);
  dispatch.Forget(4);
  dispatch.Forget(99);
  EXPECT_THAT(dispatch.WaitingByPool(), ElementsAre(Pair("shared", 2U)));
  dispatch.ReturnSlots(9);
  EXPECT_THAT(TakeAll(dispatch), ElementsAre("1:step:1", "1:step:3"));
  EXPECT_THAT(dispatch.WaitingByPool(), IsEmpty());
}

TEST(DispatchTest, ACommandStandsInLineOnce) {
  Dispatch dispatch;
  dispatch.Wait({Command(1), Command(1)});
  dispatch.Wait({Command(1)});
  dispatch.ReturnSlots(9);
  EXPECT_THAT(TakeAll(dispatch), ElementsAre("1:step:1"));
  // And may come again, when it was given back.
  dispatch.Wait({Command(1)});
  EXPECT_THAT(TakeAll(dispatch), ElementsAre("1:step:1"));
}

TEST(DispatchTest, APollTakesOnlyItsKinds) {
  Dispatch dispatch;
  dispatch.Wait({Command(1), Command(2, "shared", "python"), Command(3)});
  const auto poll = std::make_shared<Poll>();
  poll->call.kinds = {"python"};
  poll->call.max = 4;
  poll->done = [](const std::vector<Claimed>&) {};
  dispatch.AddPoll(poll);
  EXPECT_THAT(TakeAll(dispatch), ElementsAre("1:step:2"));
  EXPECT_FALSE(dispatch.NextFor({.door = Door::kLease, .poll = poll}));
  EXPECT_THAT(dispatch.WaitingByPool(), ElementsAre(Pair("shared", 2U)));
}

// A line of any length costs little more than its names.
TEST(DispatchTest, EventsOfALongLineAreNotKept) {
  Dispatch dispatch;
  constexpr std::int64_t kCommands = 12'000;
  for (std::int64_t i = 1; i <= kCommands; ++i) dispatch.Wait({Command(i)});
  dispatch.ReturnSlots(kCommands);
  EXPECT_TRUE(dispatch.Next()->first.issued);
  std::size_t kept = 1;
  while (auto next = dispatch.Next()) kept += next->first.issued ? 1 : 0;
  EXPECT_EQ(kept, 10'000U);
}

}  // namespace
}  // namespace noetl::conductor
