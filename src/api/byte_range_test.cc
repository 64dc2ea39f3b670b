#include "api/byte_range.h"

#include <cstddef>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace noetl::api {
namespace {

using Kind = ByteRange::Kind;

struct Case {
  std::string_view header;
  std::size_t size;
  Kind kind;
  std::size_t first;
  std::size_t count;
};

TEST(ByteRange, OneRangeIsCutToWhatThereIs) {
  const Case cases[] = {
      {"", 10, Kind::kWhole, 0, 10},
      {"bytes=0-3", 10, Kind::kPart, 0, 4},
      {"bytes=4-", 10, Kind::kPart, 4, 6},
      {"bytes=4-99", 10, Kind::kPart, 4, 6},
      {"bytes=9-9", 10, Kind::kPart, 9, 1},
      {"bytes=-3", 10, Kind::kPart, 7, 3},
      {"bytes=-30", 10, Kind::kPart, 0, 10},
      {"bytes=10-", 10, Kind::kOutside, 0, 0},
      {"bytes=-0", 10, Kind::kOutside, 0, 0},
      {"bytes=0-", 0, Kind::kOutside, 0, 0},
      {"bytes=5-2", 10, Kind::kWhole, 0, 10},
      {"bytes=0-1,3-4", 10, Kind::kWhole, 0, 10},
      {"bytes=-", 10, Kind::kWhole, 0, 10},
      {"bytes=a-b", 10, Kind::kWhole, 0, 10},
      {"lines=0-1", 10, Kind::kWhole, 0, 10},
      {"bytes=0-99999999999999999999999", 10, Kind::kWhole, 0, 10},
  };
  for (const Case& expected : cases) {
    const ByteRange range = ReadRange(expected.header, expected.size);
    EXPECT_EQ(range.kind, expected.kind) << expected.header;
    EXPECT_EQ(range.first, expected.first) << expected.header;
    EXPECT_EQ(range.count, expected.count) << expected.header;
  }
}

TEST(ByteRange, APartIsAlwaysInside) {
  EXPECT_TRUE(rc::check([](std::size_t size, std::size_t first, std::size_t last) {
    for (const std::string& header :
         {fmt::format("bytes={}-{}", first, last), fmt::format("bytes={}-", first),
          fmt::format("bytes=-{}", last)}) {
      const ByteRange range = ReadRange(header, size);
      if (range.kind != Kind::kPart) continue;
      RC_ASSERT(range.count > 0u);
      RC_ASSERT(range.first < size);
      RC_ASSERT(range.count <= size - range.first);
    }
  }));
}

TEST(ByteRange, TagsAreFoundInLists) {
  EXPECT_TRUE(NamesTag("\"abc\"", "abc"));
  EXPECT_TRUE(NamesTag("\"x\", W/\"abc\"", "abc"));
  EXPECT_TRUE(NamesTag("*", "abc"));
  EXPECT_FALSE(NamesTag("abc", "abc"));
  EXPECT_FALSE(NamesTag("\"abcd\"", "abc"));
  EXPECT_FALSE(NamesTag("", "abc"));
}

}  // namespace
}  // namespace noetl::api
