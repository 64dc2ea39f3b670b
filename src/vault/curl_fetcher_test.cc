#include "vault/curl_fetcher.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>

namespace noetl::vault {
namespace {

using testing::HasSubstr;
using testing::Not;

// Answers one request after the other with the same text, on a port of this machine.
class OneAnswerServer {
 public:
  explicit OneAnswerServer(std::string answer) : answer_(std::move(answer)) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(socket_, 16), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~OneAnswerServer() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  // What came in the last request; read it after its answer.
  const std::string& request() const { return request_; }

 private:
  void Serve() {
    while (true) {
      const int client = accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      std::string request;
      char buffer[4096];
      // Bodies of these tests end with a full stop.
      while (request.find("\r\n\r\n") == std::string::npos ||
             (request.starts_with("POST") && !request.ends_with('.'))) {
        const ssize_t got = read(client, buffer, sizeof(buffer));
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
        if (request.starts_with('\x16')) break;  // the greeting of TLS
      }
      request_ = request;
      std::string_view rest = answer_;
      while (!rest.empty()) {
        const ssize_t sent = send(client, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;
        rest.remove_prefix(static_cast<std::size_t>(sent));
      }
      // An empty answer means: never, until the other side goes away.
      while (answer_.empty() && read(client, buffer, sizeof(buffer)) > 0) {
      }
      close(client);
    }
  }

  const std::string answer_;
  int socket_ = -1;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

Result<FetchReply> Fetch(CurlFetcher& fetcher, FetchRequest request) {
  std::promise<Result<FetchReply>> promise;
  fetcher.Fetch(std::move(request),
                [&](Result<FetchReply> reply) { promise.set_value(std::move(reply)); });
  return promise.get_future().get();
}

TEST(CurlFetcherTest, SendsAndReceives) {
  OneAnswerServer server("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"token\":1}\n");
  CurlFetcher fetcher;
  const Result<FetchReply> reply = Fetch(fetcher, {.method = "POST",
                                                   .url = server.url() + "/token?x=1",
                                                   .headers = {{"X-One", "1"}, {"X-Empty", ""}},
                                                   .body = "a=b."});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "{\"token\":1}\n");
  EXPECT_THAT(server.request(), HasSubstr("POST /token?x=1 HTTP/1.1\r\n"));
  EXPECT_THAT(server.request(), HasSubstr("\r\nX-One: 1\r\n"));
  EXPECT_THAT(server.request(), HasSubstr("\r\nX-Empty:\r\n"));
  EXPECT_THAT(server.request(), HasSubstr("\r\n\r\na=b."));
}

TEST(CurlFetcherTest, RedirectsAreAnswers) {
  OneAnswerServer server(
      "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  CurlFetcher fetcher;
  EXPECT_EQ(Fetch(fetcher, {.url = server.url()})->status, 302);
}

TEST(CurlFetcherTest, AnswersAreBounded) {
  const std::size_t length = CurlFetcher::kBodyBytesMax + 1;
  OneAnswerServer server(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", length,
                                     std::string(length, 'x')));
  CurlFetcher fetcher;
  const Result<FetchReply> reply = Fetch(fetcher, {.url = server.url()});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error(), (Error{"fetch", "the answer is too large"}));
}

TEST(CurlFetcherTest, FailuresHoldNoAddress) {
  CurlFetcher fetcher;
  for (const char* url : {"http://127.0.0.1:1/geheim?geheim", "file:///etc/geheim", "geheim",
                          "http://127.0.0.1/\r\ngeheim"}) {
    const Result<FetchReply> reply = Fetch(fetcher, {.url = url});
    ASSERT_FALSE(reply) << url;
    EXPECT_EQ(reply.error().code, "fetch");
    EXPECT_THAT(reply.error().message, Not(HasSubstr("geheim")));
  }
  EXPECT_FALSE(Fetch(fetcher, {.url = "http://127.0.0.1:1", .headers = {{"A", "x\r\nB: geheim"}}}));
}

// A server that speaks no TLS, asked for TLS.
TEST(CurlFetcherTest, TlsIsNeverLeftOut) {
  OneAnswerServer server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  CurlFetcher fetcher;
  EXPECT_FALSE(Fetch(fetcher, {.url = "https" + server.url().substr(4)}));
}

TEST(CurlFetcherTest, TheEndAnswersEverybody) {
  OneAnswerServer silent("");
  auto fetcher = std::make_unique<CurlFetcher>();
  constexpr int kRequests = 8;
  int answered = 0;
  std::mutex mutex;
  for (int i = 0; i < kRequests; ++i) {
    fetcher->Fetch({.url = silent.url()}, [&](const Result<FetchReply>& reply) {
      const std::lock_guard lock(mutex);
      EXPECT_FALSE(reply);
      ++answered;
    });
  }
  fetcher.reset();
  EXPECT_EQ(answered, kRequests);
}

TEST(CurlFetcherTest, AFullQueueRefuses) {
  OneAnswerServer silent("");
  int refused = 0;
  {
    std::mutex mutex;
    CurlFetcher fetcher;
    const std::size_t asked = CurlFetcher::kQueueMax + CurlFetcher::kThreads + 1;
    for (std::size_t i = 0; i < asked; ++i) {
      fetcher.Fetch({.url = silent.url()}, [&](const Result<FetchReply>& reply) {
        const std::lock_guard lock(mutex);
        if (reply.error().message == "too many requests for secrets are waiting") ++refused;
      });
    }
  }
  EXPECT_GE(refused, 1);
}

}  // namespace
}  // namespace noetl::vault
