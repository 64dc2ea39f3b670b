#include "worker/remote/control_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace noetl::worker {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

// The same whatever the pieces are.
TEST(EventStreamReaderTest, CutsEventsOutOfAnyPieces) {
  const std::string text =
      ": hello\n\nevent: cancel\r\ndata: {\"a\":\r\ndata:1}\r\n\r\n"
      "id: 7\nretry: 5\nevent: drain\n\ndata: x\n\nevent: cut";
  const Events expected = {{"cancel", "{\"a\":\n1}"}, {"drain", ""}, {"", "x"}};
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    Events events;
    EventStreamReader reader(
        [&](std::string_view event, std::string_view data) { events.emplace_back(event, data); });
    for (std::size_t at = 0; at < text.size(); at += piece) reader.Take(text.substr(at, piece));
    EXPECT_EQ(events, expected) << piece;
  }
}

TEST(EventStreamReaderTest, ForgetsALineWithoutEnd) {
  int events = 0;
  EventStreamReader reader([&](std::string_view, std::string_view) { ++events; });
  const std::string noise(100'000, 'x');
  for (int i = 0; i < 100; ++i) reader.Take(noise);
  reader.Take("\n\nevent: drain\n\n");
  EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace noetl::worker
