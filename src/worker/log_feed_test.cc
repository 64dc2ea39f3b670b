#include "worker/log_feed.h"

#include <gtest/gtest.h>

namespace noetl::worker {
namespace {

using Pieces = std::vector<bus::LogText>;

std::string TextOf(const Pieces& pieces) {
  std::string text;
  for (const bus::LogText& piece : pieces) text += piece.text;
  return text;
}

TEST(LogFeedTest, SendsTextAsItComes) {
  LogFeed feed("stdout", 300);
  feed.Append("one\n");
  feed.Append("two\n");
  EXPECT_EQ(feed.ready_bytes(), 8U);
  Pieces pieces;
  feed.TakeReady(&pieces);
  feed.Append("three");
  feed.TakeAll(&pieces);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].stream, "stdout");
  EXPECT_EQ(pieces[0].offset, 0);
  EXPECT_EQ(pieces[0].text, "one\ntwo\n");
  EXPECT_EQ(pieces[1].offset, 8);
  EXPECT_EQ(pieces[1].text, "three");
}

TEST(LogFeedTest, KeepsTheBeginningAndTheEnd) {
  LogFeed feed("stderr", 30);
  Pieces pieces;
  for (int i = 0; i < 100; ++i) feed.Append("0123456789");
  EXPECT_EQ(feed.ready_bytes(), 20U);
  feed.TakeAll(&pieces);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].text, "01234567890123456789");
  EXPECT_EQ(pieces[1].offset, 990);  // the gap shows in the offsets
  EXPECT_EQ(pieces[1].text, "0123456789");
}

TEST(LogFeedTest, CharactersStayWhole) {
  LogFeed feed("stdout", 300);
  Pieces pieces;
  for (const char c : std::string_view("a\u20ac\u00e4")) feed.Append(std::string_view(&c, 1));
  feed.Append("\xe2\x82");  // its last byte never comes
  feed.TakeReady(&pieces);
  EXPECT_EQ(TextOf(pieces), "a\u20ac\u00e4");
  feed.TakeAll(&pieces);
  EXPECT_TRUE(TextOf(pieces).starts_with("a\u20ac\u00e4\ufffd")) << TextOf(pieces);
  // Also where the head is full and where pieces end.
  LogFeed small("stdout", 9);
  pieces.clear();
  for (int i = 0; i < 10; ++i) small.Append("\u20ac");
  small.TakeAll(&pieces);
  for (const bus::LogText& piece : pieces) {
    EXPECT_EQ(piece.text.size() % 3, 0U);
    EXPECT_EQ(piece.offset % 3, 0);
  }
  LogFeed large("stdout", 8 << 20);
  pieces.clear();
  std::string text;
  while (text.size() < 2 * kLogPieceBytesMax) text += "\u20ac";
  large.Append(text);
  large.TakeAll(&pieces);
  EXPECT_EQ(TextOf(pieces), text);
  std::int64_t offset = 0;
  for (const bus::LogText& piece : pieces) {
    EXPECT_LE(piece.text.size(), kLogPieceBytesMax);
    EXPECT_EQ(piece.offset, offset);
    offset += std::ssize(piece.text);
  }
}

}  // namespace
}  // namespace noetl::worker
