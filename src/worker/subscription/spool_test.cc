#include "worker/subscription/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json_io.h"
#include "base/temporary_directory.h"
#include "worker/subscription/durable_file.h"

namespace noetl::worker {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class SubscriptionSpool : public testing::Test {
 protected:
  SubscriptionSpool() {
    spec_.mode = SpoolSpec::Mode::kBufferAndAck;
    spec_.path = directory_.path() + "/spool";
  }

  std::unique_ptr<MessageSpool> Open() {
    auto spool = MessageSpool::Open(spec_, "subs/orders");
    EXPECT_TRUE(spool.has_value()) << spool.error().message;
    return *std::move(spool);
  }

  static SpoolItem Item(const std::string& id, const std::string& lane = "") {
    return {.subscription = "subs/orders",
            .source = "nats",
            .lane = lane,
            .downstream = "default",
            .spooled_at_ms = 1'000,
            .reason = "circuit_open",
            .message = Json::Object({{"id", id}, {"data", Json::Object({{"n", 1}})}}),
            .plan = Json::Object({{"dedup_key", "subs/orders:" + id}})};
  }

  static std::vector<std::string> Ids(const MessageSpool& spool) {
    std::vector<std::string> ids;
    for (const auto& [seq, entry] : spool.entries()) ids.push_back(entry.message_id);
    return ids;
  }

  std::size_t DeadLettersOnDisk() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(spec_.path + "/dlq"), {}));
  }

  TemporaryDirectory directory_;
  SpoolSpec spec_;
};

TEST_F(SubscriptionSpool, ItemsReadBack) {
  SpoolItem item = Item("a/../b", "=k");
  item.recv_seq = 3;
  item.attempts = 2;
  item.body = "raw";
  const std::string text = WriteJson(SpoolItemJson(item));
  const auto back = ReadSpoolItem(text);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(WriteJson(SpoolItemJson(*back)), text);
  EXPECT_EQ(SpoolKey(3, "a/../b"), "00000000000000000003-a____b");
  EXPECT_EQ(SpoolKey(1, std::string(500, 'x')).size(), 20u + 1 + 128);
  EXPECT_EQ(SpoolRef(item), "noetl://spool/subs/orders/3/a/../b");
  std::string damaged = text;
  damaged.replace(damaged.find("\"n\":1"), 5, "\"n\":2");
  EXPECT_EQ(ReadSpoolItem(damaged).error().code, "invalid");
  EXPECT_EQ(ReadSpoolItem("{").error().code, "invalid");
}

TEST_F(SubscriptionSpool, KeepsItsOrderAcrossRestarts) {
  {
    const auto spool = Open();
    EXPECT_EQ(spool->Add(Item("1", "=a"))->recv_seq, 1u);
    EXPECT_EQ(spool->Add(Item("2", "=b"))->recv_seq, 2u);
    EXPECT_EQ(spool->Add(Item("3"))->recv_seq, 3u);
    ASSERT_TRUE(spool->Remove(2).has_value());
    ASSERT_TRUE(spool->GiveUp(3).has_value());
    EXPECT_FALSE(spool->HasLane("=b"));
  }
  const auto spool = Open();
  EXPECT_THAT(Ids(*spool), ElementsAre("1"));
  EXPECT_TRUE(spool->HasLane("=a"));
  EXPECT_EQ(spool->Add(Item("4"))->recv_seq, 4u) << "sequences of dead letters are not used again";
  EXPECT_EQ(DeadLettersOnDisk(), 1u);
  EXPECT_EQ(spool->Read(1)->message_id(), "1");
}

TEST_F(SubscriptionSpool, AttemptsAreOnTheDisk) {
  const auto bytes = [&] {
    const auto spool = Open();
    EXPECT_TRUE(spool->Add(Item("1")).has_value());
    SpoolItem item = *spool->Read(1);
    item.attempts = 10;
    EXPECT_TRUE(spool->Update(item).has_value());
    return spool->bytes();
  }();
  const auto spool = Open();
  EXPECT_EQ(spool->Read(1)->attempts, 10);
  EXPECT_EQ(spool->bytes(), bytes);
}

TEST_F(SubscriptionSpool, OneProcessUsesIt) {
  const auto first = Open();
  EXPECT_EQ(MessageSpool::Open(spec_, "subs/orders").error().code, "locked");
}

TEST_F(SubscriptionSpool, BelongsToOneSubscription) {
  EXPECT_TRUE(Open()->Add(Item("1")).has_value());
  EXPECT_EQ(MessageSpool::Open(spec_, "subs/other").error().code, "invalid");
}

TEST_F(SubscriptionSpool, DamagedFilesGoToTheDeadLetters) {
  EXPECT_TRUE(Open()->Add(Item("1")).has_value());
  const std::string file = spec_.path + "/" + SpoolKey(1, "1") + ".json";
  std::ofstream(file) << "{\"half";
  std::ofstream(spec_.path + "/" + SpoolKey(9, "x") + ".json.new") << "{";
  const auto spool = Open();
  EXPECT_TRUE(spool->entries().empty());
  EXPECT_EQ(spool->broken().size(), 1u);
  EXPECT_EQ(DeadLettersOnDisk(), 1u);
  EXPECT_EQ(spool->Add(Item("2"))->recv_seq, 2u);
}

TEST_F(SubscriptionSpool, AFullOneDoesWhatItIsTold) {
  const std::int64_t one = [&] {
    SpoolItem item = Item("1");
    item.recv_seq = 1;
    return static_cast<std::int64_t>(WriteJson(SpoolItemJson(item)).size()) + 1;
  }();
  spec_.max_bytes = 2 * one;
  {
    const auto spool = Open();
    EXPECT_FALSE(spool->Add(Item("1"))->over);
    EXPECT_FALSE(spool->Add(Item("2"))->over);
    EXPECT_EQ(spool->Add(Item("3")).error().code, "full");
  }
  spec_.on_full = SpoolSpec::OnFull::kAlertOnly;
  {
    const auto spool = Open();
    EXPECT_TRUE(spool->Add(Item("3"))->over);
    EXPECT_EQ(spool->entries().size(), 3u);
  }
  spec_.on_full = SpoolSpec::OnFull::kDropToDlq;
  const auto spool = Open();
  const auto added = spool->Add(Item("4"));
  EXPECT_EQ(added->given_up.size(), 2u);
  EXPECT_THAT(Ids(*spool), ElementsAre("3", "4"));
  EXPECT_EQ(DeadLettersOnDisk(), 2u);
}

TEST_F(SubscriptionSpool, OldOnesExpire) {
  spec_.max_age_hours = 1;
  const auto spool = Open();
  EXPECT_TRUE(spool->Add(Item("1")).has_value());
  SpoolItem young = Item("2");
  young.spooled_at_ms = 3'000'000;
  EXPECT_TRUE(spool->Add(young).has_value());
  EXPECT_EQ(spool->Expire(3'600'999)->size(), 0u);
  EXPECT_EQ(spool->Expire(3'601'000)->size(), 1u);
  EXPECT_THAT(Ids(*spool), ElementsAre("2"));
}

TEST_F(SubscriptionSpool, DirectoriesThatCannotBeAreTold) {
  std::ofstream(directory_.path() + "/file") << "x";
  spec_.path = directory_.path() + "/file/spool";
  EXPECT_EQ(MessageSpool::Open(spec_, "subs/orders").error().code, "io");
}

TEST_F(SubscriptionSpool, DeadLettersAreFiles) {
  DeadLetters letters(directory_.path() + "/a/b");
  SpoolItem item = Item("1");
  item.recv_seq = 5;
  const auto file = letters.Write(item);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(ReadSpoolItem(*ReadWholeFile(*file))->message_id(), "1");
}

}  // namespace
}  // namespace noetl::worker
