#include "cli/http_client.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "base/url.h"

namespace noetl::cli {
namespace {

struct Read {
  std::vector<std::string> messages;  // "type/id/data"
  bool good = true;
};

// The stream in pieces of the given sizes.
Read ReadInPieces(std::string_view text, const std::vector<std::size_t>& sizes) {
  Read read;
  SseReader reader;
  std::size_t next = 0;
  while (!text.empty()) {
    const std::size_t size =
        sizes.empty() ? text.size() : std::min(sizes[next++ % sizes.size()] + 1, text.size());
    read.good = reader.Feed(text.substr(0, size), [&](const SseMessage& message) {
      read.messages.push_back(message.type + "/" + message.id + "/" + message.data);
      return true;
    });
    text.remove_prefix(size);
  }
  return read;
}

constexpr std::string_view kStream =
    ": heartbeat\n\n"
    "id: 1\nevent: step.enter\ndata: {\"a\": 1}\n\n"
    "data: one\r\ndata:two\r\ndata\r\n\r\n"
    "event: empty\n\n"
    "retry: 5\nid: 2\rdata: x\r\r"
    "event: cut off\ndata: never ended\n";

TEST(SseReader, CutsAStreamIntoMessages) {
  const std::vector<std::string> wanted = {"step.enter/1/{\"a\": 1}", "message//one\ntwo\n",
                                           "message/2/x"};
  EXPECT_EQ(ReadInPieces(kStream, {}).messages, wanted);
}

TEST(SseReader, PiecesDoNotMatter) {
  EXPECT_TRUE(rc::check([](const std::vector<std::uint8_t>& sizes) {
    const std::vector<std::size_t> pieces(sizes.begin(), sizes.end());
    RC_ASSERT(ReadInPieces(kStream, pieces).messages == ReadInPieces(kStream, {}).messages);
  }));
}

TEST(SseReader, StopsWhenToldAndKnowsTheLastId) {
  SseReader reader;
  int seen = 0;
  EXPECT_FALSE(reader.Feed("id: 7\ndata: a\n\nid: 8\ndata: b\n\n", [&](const SseMessage&) {
    ++seen;
    return false;
  }));
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(reader.last_id(), "7");
}

TEST(SseReader, RefusesAMessageWithoutEnd) {
  SseReader reader;
  const std::string piece(8u << 20, 'x');
  bool good = true;
  for (int i = 0; i < 9 && good; ++i)
    good = reader.Feed(piece, [](const SseMessage&) { return true; });
  EXPECT_FALSE(good);
}

TEST(PercentEncode, EncodesEverythingThatMeansSomething) {
  EXPECT_EQ(PercentEncode("a-b_c.d~e"), "a-b_c.d~e");
  EXPECT_EQ(PercentEncode("a/b c?d&e=f%#+"), "a%2Fb%20c%3Fd%26e%3Df%25%23%2B");
  EXPECT_EQ(PercentEncode("\xc3\xa9"), "%C3%A9");
}

TEST(HttpClient, TellsRefusalsApart) {
  const HttpClient client({.base_url = "http://127.0.0.1:1/"});
  EXPECT_EQ(client.base_url(), "http://127.0.0.1:1");
  HttpAnswer answer{.status = 401, .body = Json::Object({{"error", "log in first"}})};
  EXPECT_EQ(client.Refusal(answer).code, "session_expired");
  answer = {.status = 404, .body = Json::Object({{"detail", "no such run"}})};
  EXPECT_EQ(client.Refusal(answer), (Error{"http_404", "no such run"}));
  answer = {.status = 502, .text = "bad gateway\n"};
  EXPECT_EQ(client.Refusal(answer), (Error{"http_502", "bad gateway (HTTP 502)"}));
}

}  // namespace
}  // namespace noetl::cli
