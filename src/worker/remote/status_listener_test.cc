#include "worker/remote/status_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "worker/remote/testing.h"

namespace noetl::worker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A connection that blocks; for threads beside the loop.
class Visitor {
 public:
  explicit Visitor(int port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(static_cast<std::uint16_t>(port)),
                              .sin_addr = {htonl(INADDR_LOOPBACK)}};
    EXPECT_EQ(connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
  }
  ~Visitor() { close(descriptor_); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  bool Send(std::string_view text) const { return TestServer::Send(descriptor_, text); }
  // Everything until the other side ends.
  std::string Read() const {
    std::string text;
    std::array<char, 4096> piece;
    for (ssize_t got = 1; got > 0;) {
      got = recv(descriptor_, piece.data(), piece.size(), 0);
      if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int descriptor_;
};

class StatusListenerTest : public testing::Test {
 protected:
  void Open(StatusListener::Limits limits = {}) {
    auto listener = StatusListener::Open(
        &loop_, "127.0.0.1:0",
        [this](std::string_view path) -> StatusAnswer {
          paths_.emplace_back(path);
          if (path == "/large") return {.body = std::string(kLarge, 'x')};
          if (path != "/there") return {.status = 404};
          return {.body = "{\"here\":1}"};
        },
        limits);
    ASSERT_TRUE(listener) << listener.error().message;
    listener_ = *std::move(listener);
  }
  // Runs the loop while `work` runs beside it.
  template <typename Work>
  void Beside(Work work) {
    std::atomic<bool> over = false;
    std::jthread thread([&] {
      work();
      over = true;
    });
    RunUntil(loop_, [&] { return over.load(); });
  }
  std::string Ask(const std::string& request) {
    std::string answer;
    Beside([&] {
      const Visitor visitor(listener_->port());
      visitor.Send(request);
      answer = visitor.Read();
    });
    return answer;
  }

  static constexpr std::size_t kLarge = 4 << 20;

  EventLoop loop_;
  std::unique_ptr<StatusListener> listener_;
  std::vector<std::string> paths_;
};

TEST_F(StatusListenerTest, AnswersAndCloses) {
  Open();
  EXPECT_EQ(listener_->address(), fmt::format("127.0.0.1:{}", listener_->port()));
  const std::string answer = Ask("GET /there?a=b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
  EXPECT_EQ(answer,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n{\"here\":1}");
  EXPECT_THAT(paths_, testing::ElementsAre("/there"));
  RunUntil(loop_, [&] { return listener_->connections() == 0; });
}

TEST_F(StatusListenerTest, OtherRequests) {
  Open();
  EXPECT_THAT(Ask("GET /elsewhere HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(Ask("POST /there HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"),
              StartsWith("HTTP/1.1 405 "));
  const std::string head = Ask("HEAD /there HTTP/1.0\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  for (const char* request : {"hello\r\n\r\n", "GET there HTTP/1.1\r\n\r\n", "GET /there\r\n\r\n",
                              "\r\n\r\n", "GET /there HTTP/2\r\n\r\n"}) {
    EXPECT_THAT(Ask(request), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << request;
  }
}

TEST_F(StatusListenerTest, RequestsAreBounded) {
  Open();
  const std::string line(StatusListener::kLineBytesMax + 1, 'a');
  EXPECT_THAT(Ask(line), StartsWith("HTTP/1.1 414 "));
  EXPECT_THAT(Ask("GET /" + line + " HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 414 "));
  EXPECT_THAT(Ask("GET /there HTTP/1.1\r\n" + std::string(StatusListener::kHeadBytesMax, 'a')),
              StartsWith("HTTP/1.1 431 "));
}

TEST_F(StatusListenerTest, ALargeAnswerArrivesWhole) {
  Open();
  const std::string answer = Ask("GET /large HTTP/1.1\r\n\r\n");
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLarge);
}

TEST_F(StatusListenerTest, ASlowVisitorIsSentAway) {
  Open({.connection_ms = 20});
  EXPECT_EQ(Ask("GET /there HTTP/1.1\r\n"), "");
  EXPECT_EQ(listener_->connections(), 0U);
}

TEST_F(StatusListenerTest, WhoComesWhenAllAreTakenWaits) {
  Open();
  std::string answer;
  std::size_t most = 0;
  Beside([&] {
    std::vector<std::unique_ptr<Visitor>> idle;
    for (std::size_t i = 0; i < StatusListener::kConnectionsMax; ++i)
      idle.push_back(std::make_unique<Visitor>(listener_->port()));
    const Visitor late(listener_->port());
    late.Send("GET /there HTTP/1.1\r\n\r\n");
    std::promise<std::size_t> taken;
    std::function<void()> look = [&] {
      if (listener_->connections() == StatusListener::kConnectionsMax)
        return taken.set_value(listener_->connections());
      loop_.Post([&] { look(); });
    };
    loop_.Post([&] { look(); });
    most = taken.get_future().get();
    idle.clear();
    answer = late.Read();
  });
  EXPECT_EQ(most, StatusListener::kConnectionsMax);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(StatusListenerTest, Addresses) {
  const auto open = [&](std::string_view address) {
    return StatusListener::Open(&loop_, address, [](std::string_view) { return StatusAnswer(); });
  };
  for (const char* bad :
       {"", "9090", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "::1:9090", "no such host:1"}) {
    const auto listener = open(bad);
    ASSERT_FALSE(listener) << bad;
    EXPECT_EQ(listener.error().code, "invalid") << bad;
  }
  const auto first = open("localhost:0");
  ASSERT_TRUE(first) << first.error().message;
  const auto any = open(":0");
  ASSERT_TRUE(any) << any.error().message;
  EXPECT_THAT((*any)->address(), StartsWith("127.0.0.1:"));
  const auto second = open((*any)->address());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "in_use");
  EXPECT_THAT(second.error().message, HasSubstr((*any)->address()));
}

}  // namespace
}  // namespace noetl::worker
