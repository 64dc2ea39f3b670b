#include "worker/bounded_text.h"

#include <gtest/gtest.h>

namespace noetl::worker {
namespace {

TEST(BoundedText, KeepsEverythingUpToTheLimit) {
  BoundedText text(9);
  text.Append("abcdef");
  text.Append("ghi");
  EXPECT_EQ(text.Text(), "abcdefghi");
  EXPECT_FALSE(text.truncated());
}

TEST(BoundedText, KeepsTheFirstTwoThirdsAndTheLastThird) {
  // However the bytes come, the same ones stay.
  for (std::size_t chunk = 1; chunk <= 26; ++chunk) {
    BoundedText text(9);
    const std::string_view all = "abcdefghijklmnopqrstuvwxyz";
    for (std::size_t at = 0; at < all.size(); at += chunk) text.Append(all.substr(at, chunk));
    EXPECT_TRUE(text.truncated());
    EXPECT_EQ(text.Text(), "abcdef\n... 17 bytes are left out here ...\nxyz") << chunk;
  }
}

TEST(BoundedText, AZeroLimitKeepsNothing) {
  BoundedText text(0);
  text.Append("abc");
  EXPECT_EQ(text.Text(), "\n... 3 bytes are left out here ...\n");
}

TEST(CleanText, ReplacesWhatIsNotText) {
  EXPECT_EQ(CleanText("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(CleanText(std::string_view("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(CleanText("a\xFF\xFE"
                      "b\xC3"),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

}  // namespace
}  // namespace noetl::worker
