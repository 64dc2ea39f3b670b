#include "worker/remote/spool.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/temporary_directory.h"

namespace noetl::worker {
namespace {

constexpr std::int64_t kLarge = 1 << 20;

class SpoolTest : public testing::Test {
 protected:
  std::unique_ptr<Spool> Open(std::int64_t bytes_max = kLarge) {
    auto spool = Spool::Open(path_, bytes_max);
    EXPECT_TRUE(spool) << spool.error().message;
    return spool ? *std::move(spool) : nullptr;
  }
  static std::vector<std::string> Texts(Spool& spool) {
    std::vector<std::string> texts;
    for (const Spool::Record& record : spool.TakeFound()) texts.push_back(record.text);
    return texts;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/state/events.wal";
};

TEST_F(SpoolTest, KeepsWhatIsNotDone) {
  {
    const auto spool = Open();
    const std::uint64_t a = *spool->Add("a");
    ASSERT_TRUE(spool->Add(std::string("b\0b", 3)));
    ASSERT_TRUE(spool->Add(""));
    ASSERT_TRUE(spool->Sync());
    spool->Done(a);
    spool->Done(a);
  }
  const auto spool = Open();
  EXPECT_EQ(Texts(*spool), (std::vector<std::string>{std::string("b\0b", 3), ""}));
  EXPECT_EQ(spool->open_records(), 2U);
}

TEST_F(SpoolTest, IsEmptiedWhenAllIsDone) {
  const auto spool = Open();
  const std::uint64_t a = *spool->Add("a");
  const std::uint64_t b = *spool->Add("b");
  spool->Done(b);
  EXPECT_GT(std::filesystem::file_size(path_), 0U);
  spool->Done(a);
  EXPECT_EQ(std::filesystem::file_size(path_), 0U);
  ASSERT_TRUE(spool->Add("c"));
  EXPECT_EQ(spool->open_records(), 1U);
}

TEST_F(SpoolTest, HasABound) {
  const auto spool = Open(100);
  const std::uint64_t first = *spool->Add(std::string(50, 'x'));
  EXPECT_FALSE(spool->full());
  EXPECT_EQ(spool->Add(std::string(50, 'x')).error().code, "full");
  EXPECT_TRUE(spool->full());
  spool->Done(first);
  EXPECT_FALSE(spool->full());
}

TEST_F(SpoolTest, BelongsToOneAtATime) {
  const auto spool = Open();
  const auto second = Spool::Open(path_, kLarge);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "locked");
}

TEST_F(SpoolTest, ARecordThatWasCutIsIgnored) {
  std::int64_t whole = 0;
  {
    const auto spool = Open();
    ASSERT_TRUE(spool->Add("first"));
    whole = spool->bytes();
    ASSERT_TRUE(spool->Add("second"));
  }
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  for (std::int64_t cut = size - 1; cut >= whole; --cut) {
    std::filesystem::resize_file(path_, static_cast<std::uintmax_t>(cut));
    const auto spool = Open();
    EXPECT_EQ(Texts(*spool), std::vector<std::string>{"first"}) << cut;
    EXPECT_EQ(spool->bytes(), whole);
  }
  const auto spool = Open();
  ASSERT_TRUE(spool->Add("third"));
}

TEST_F(SpoolTest, ADamagedRecordIsIgnored) {
  {
    const auto spool = Open();
    ASSERT_TRUE(spool->Add("first"));
    ASSERT_TRUE(spool->Add("second"));
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('X');
  }
  EXPECT_EQ(Texts(*Open()), std::vector<std::string>{"first"});
}

// Whatever is added, done and opened again: exactly what is open comes back.
TEST_F(SpoolTest, RemembersExactlyWhatIsOpen) {
  EXPECT_TRUE(rc::check([this] {
    std::filesystem::remove(path_);
    std::map<std::uint64_t, std::string> open;
    auto spool = Open();
    const int steps = *rc::gen::inRange(1, 40);
    for (int i = 0; i < steps; ++i) {
      const int what = *rc::gen::inRange(0, 5);
      if (what < 3) {
        const auto text = *rc::gen::arbitrary<std::string>();
        open[*spool->Add(text)] = text;
      } else if (what == 3 && !open.empty()) {
        const auto victim = std::next(open.begin(), *rc::gen::inRange<int>(0, std::ssize(open)));
        spool->Done(victim->first);
        open.erase(victim);
      } else if (what == 4) {
        spool.reset();
        spool = Open();
        std::map<std::uint64_t, std::string> found;
        for (const Spool::Record& record : spool->TakeFound()) found[record.id] = record.text;
        RC_ASSERT(found == open);
      }
    }
  }));
}

}  // namespace
}  // namespace noetl::worker
