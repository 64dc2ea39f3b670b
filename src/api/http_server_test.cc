#include "api/http_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "api/gzip.h"
#include "api/http_testing.h"
#include "base/random.h"

namespace noetl::api {
namespace {

Response Text(std::string body) {
  return {.status = 200, .content_type = "text/plain", .body = std::move(body)};
}

// What the request looked like to the handler.
Response Echo(const Request& request) {
  Response response =
      Text(request.method + " " + request.path + "?" + request.query + " " + request.body);
  response.headers.Add("X-Peer", request.peer);
  return response;
}

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    options_.threads = 2;
    handler_.handle = [](const std::shared_ptr<Exchange>& exchange) {
      exchange->Send(Echo(exchange->request()));
    };
  }

  void Start() {
    auto server = HttpServer::Start(options_, &handler_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  int port() const { return server_->port(); }

  // Exchanges that the handler keeps for the test to answer.
  void KeepExchanges() {
    handler_.handle = [this](std::shared_ptr<Exchange> exchange) {
      const std::lock_guard lock(mutex_);
      kept_.push_back(std::move(exchange));
    };
  }
  std::shared_ptr<Exchange> TakeExchange() {
    std::shared_ptr<Exchange> taken;
    EXPECT_TRUE(Eventually([&] {
      const std::lock_guard lock(mutex_);
      if (kept_.empty()) return false;
      taken = std::move(kept_.front());
      kept_.pop_front();
      return true;
    }));
    return taken;
  }

  HttpServerOptions options_;
  TestHandler handler_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Exchange>> kept_;
  std::atomic<int> closed_ = 0;  // of streams; a callback may come as late as the server's end
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  Start();
  TestClient client(port());
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.Get("/a/b?c=" + std::to_string(i));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "GET /a/b?c=" + std::to_string(i) + " ");
    EXPECT_EQ(answer->headers.Find("Content-Type"), "text/plain");
    EXPECT_EQ(answer->headers.Find("X-Peer"), "127.0.0.1");
    EXPECT_TRUE(answer->headers.Find("Date").ends_with(" GMT"));
    EXPECT_EQ(answer->headers.Find("X-Request-Id").size(), 16u);
    EXPECT_FALSE(answer->headers.Has("Connection"));
  }
  EXPECT_EQ(server_->stats().accepted, 1u);
  EXPECT_EQ(server_->stats().connections, 1u);
  EXPECT_EQ(server_->stats().in_flight, 0u);
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpServerTest, RequestIdsOfClientsAreTakenWhenTheyAreSane) {
  Start();
  TestClient client(port());
  EXPECT_EQ(client.Get("/", "X-Request-Id: My.id_1-2\r\n")->headers.Find("X-Request-Id"),
            "My.id_1-2");
  const auto answer = client.Get("/", "X-Request-Id: a b\r\n");
  EXPECT_EQ(answer->headers.Find("X-Request-Id").size(), 16u);
  EXPECT_NE(client.Get("/")->headers.Find("X-Request-Id"), answer->headers.Find("X-Request-Id"));
}

TEST_F(HttpServerTest, HeadIsGetWithoutTheBody) {
  Start();
  TestClient client(port());
  const auto answer = client.Call("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->headers.Find("Content-Length"), "9");
  EXPECT_EQ(client.Get("/next")->body, "GET /next? ");
}

TEST_F(HttpServerTest, ClosesWhenAskedAndForHttp10) {
  Start();
  TestClient asked(port());
  EXPECT_EQ(asked.Get("/", "Connection: close\r\n")->headers.Find("Connection"), "close");
  EXPECT_TRUE(asked.Ended());

  TestClient old(port());
  const auto answer = old.Call("GET / HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->headers.Find("Connection"), "close");
  EXPECT_TRUE(old.Ended());

  TestClient kept(port());
  for (int i = 0; i < 2; ++i) {
    const auto again = kept.Call("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->headers.Find("Connection"), "keep-alive");
  }
}

TEST_F(HttpServerTest, TargetsInAbsoluteForm) {
  Start();
  TestClient client(port());
  EXPECT_EQ(client.Get("http://host/p?q")->body, "GET /p?q ");
  EXPECT_EQ(client.Call("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")->body, "OPTIONS *? ");
}

TEST_F(HttpServerTest, BodiesByLengthAndInChunks) {
  Start();
  TestClient client(port());
  EXPECT_EQ(client.Post("/p", "hello")->body, "POST /p? hello");
  EXPECT_EQ(client.Post("/p", "")->body, "POST /p? ");
  const std::string large(900'000, 'x');
  EXPECT_EQ(client.Post("/p", large)->body, "POST /p? " + large);
  const std::string head = "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(client.Call(head + "5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n")->body,
            "POST /p? hello world");
  // Byte by byte.
  for (const char byte : head + "3\r\nabc\r\n0\r\n\r\n") client.Send(std::string(1, byte));
  EXPECT_EQ(client.Read()->body, "POST /p? abc");
  std::string chunks = head;
  for (int i = 0; i < 1'000; ++i) chunks += "64\r\n" + std::string(100, 'y') + "\r\n";
  EXPECT_EQ(client.Call(chunks + "0\r\n\r\n")->body, "POST /p? " + std::string(100'000, 'y'));
}

TEST_F(HttpServerTest, BodiesAboveTheLimitAreRefused) {
  handler_.body_max = 10;
  Start();
  TestClient fits(port());
  EXPECT_EQ(fits.Post("/", "0123456789")->status, 200);
  const std::string huge(3u << 20, 'x');
  TestClient announced(port());
  EXPECT_EQ(announced.Post("/", huge)->status, 413);
  EXPECT_TRUE(announced.Ended());
  TestClient chunked(port());
  const auto answer = chunked.Call(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "6\r\n123456\r\n5\r\n12345\r\n0\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 413);
  EXPECT_EQ(answer->headers.Find("Connection"), "close");
  EXPECT_TRUE(chunked.Ended());
}

TEST_F(HttpServerTest, ARefusedBodyIsNotReadButTheConnectionGoesOnWhenItIsSmall) {
  std::atomic<int> handled = 0;
  handler_.handle = [&](const std::shared_ptr<Exchange>& exchange) {
    ++handled;
    exchange->Send(Text("fine"));
  };
  handler_.refuse = [](const Request& head) -> std::optional<Response> {
    if (head.path != "/secret") return std::nullopt;
    return Response{.status = 401};
  };
  Start();
  TestClient client(port());
  EXPECT_EQ(client.Post("/secret", "small body")->status, 401);
  EXPECT_EQ(client.Get("/secret")->status, 401);
  EXPECT_EQ(client.Get("/open")->status, 200);
  const auto large = client.Post("/secret", std::string(200'000, 'x'));
  ASSERT_TRUE(large);
  EXPECT_EQ(large->status, 401);
  EXPECT_EQ(large->headers.Find("Connection"), "close");
  EXPECT_TRUE(client.Ended());
  EXPECT_EQ(handled, 1);
}

TEST_F(HttpServerTest, ContinueIsSentWhenTheBodyIsWanted) {
  handler_.refuse = [](const Request& head) -> std::optional<Response> {
    if (head.path != "/no") return std::nullopt;
    return Response{.status = 403};
  };
  Start();
  const std::string rest =
      " HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
  TestClient wanted(port());
  EXPECT_EQ(wanted.Call("POST /yes" + rest)->status, 100);
  EXPECT_EQ(wanted.Call("hello")->body, "POST /yes? hello");
  TestClient unwanted(port());
  EXPECT_EQ(unwanted.Call("POST /no" + rest)->status, 403);
  EXPECT_TRUE(unwanted.Ended());
  TestClient strange(port());
  EXPECT_EQ(strange.Get("/", "Expect: magic\r\n")->status, 417);
}

TEST_F(HttpServerTest, WhatIsNoRequestIsAnsweredAndClosed) {
  Start();
  using namespace std::literals;
  struct Case {
    std::string_view text;
    int status;
  };
  const Case cases[] = {
      {"hello\r\n\r\n", 400},
      {"get / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400},
      {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"sv, 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"sv, 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\x02\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: "
       "4\r\n\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
       "\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\na", 415},
  };
  for (const Case& test : cases) {
    TestClient client(port());
    const auto answer = client.Call(test.text);
    ASSERT_TRUE(answer) << test.text;
    EXPECT_EQ(answer->status, test.status) << test.text << answer->body;
    EXPECT_EQ(answer->headers.Find("Connection"), "close") << test.text;
    EXPECT_TRUE(client.Ended()) << test.text;
  }
}

TEST_F(HttpServerTest, LineBreaksBeforeARequestAreSkipped) {
  Start();
  TestClient client(port());
  EXPECT_EQ(client.Call("\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")->body, "GET /a? ");
}

TEST_F(HttpServerTest, HeadersAboveTheLimitAreRefused) {
  options_.header_bytes_max = 1'000;
  Start();
  TestClient fits(port());
  EXPECT_EQ(fits.Get("/", "X: " + std::string(800, 'x') + "\r\n")->status, 200);
  TestClient one(port());
  EXPECT_EQ(one.Get("/", "X: " + std::string(2'000, 'x') + "\r\n")->status, 431);
  EXPECT_TRUE(one.Ended());
  TestClient target(port());
  EXPECT_EQ(target.Get("/" + std::string(5'000, 'x'))->status, 431);
  // Many small ones, each of which arrives alone.
  TestClient many(port());
  many.Send("GET / HTTP/1.1\r\nHost: a\r\n");
  for (int i = 0; i < 300; ++i) many.Send("X: 1\r\n");
  const auto answer = many.Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 431);
}

TEST_F(HttpServerTest, CompressesForClientsThatTakeIt) {
  const std::string large(10'000, 'a');
  handler_.handle = [&](const std::shared_ptr<Exchange>& exchange) {
    Response response = Text(exchange->request().path == "/small" ? "small" : large);
    if (exchange->request().path == "/picture") response.content_type = "image/png";
    exchange->Send(std::move(response));
  };
  Start();
  TestClient client(port());
  const auto answer = client.Get("/large", "Accept-Encoding: gzip\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->headers.Find("Content-Encoding"), "gzip");
  EXPECT_EQ(answer->headers.Find("Vary"), "Accept-Encoding");
  std::string inflated;
  Inflater inflater(large.size());
  EXPECT_EQ(inflater.Write(answer->body, &inflated), Inflater::Outcome::kFine);
  EXPECT_EQ(inflated, large);

  const auto plain = client.Get("/large");
  EXPECT_EQ(plain->body, large);
  EXPECT_EQ(plain->headers.Find("Vary"), "Accept-Encoding");
  EXPECT_FALSE(client.Get("/small", "Accept-Encoding: gzip\r\n")->headers.Has("Content-Encoding"));
  EXPECT_EQ(client.Get("/picture", "Accept-Encoding: gzip\r\n")->body, large);
}

TEST_F(HttpServerTest, InflatesBodies) {
  handler_.body_max = 100'000;
  Start();
  const std::string text(100'000, 'z');
  const std::string gzip = *Gzip(text);
  const std::string header = "Content-Encoding: gzip\r\n";
  TestClient client(port());
  EXPECT_EQ(client.Post("/", gzip, header)->body, "POST /? " + text);
  std::string chunked =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + header + "\r\n";
  for (const char byte : gzip) chunked += "1\r\n" + std::string(1, byte) + "\r\n";
  EXPECT_EQ(client.Call(chunked + "0\r\n\r\n")->body, "POST /? " + text);

  const std::string bomb = *Gzip(std::string(20u << 20, '0'));
  TestClient bomber(port());
  EXPECT_EQ(bomber.Post("/", bomb, header)->status, 413);
  TestClient broken(port());
  EXPECT_EQ(broken.Post("/", "no gzip", header)->status, 400);
  TestClient cut(port());
  EXPECT_EQ(cut.Post("/", gzip.substr(0, gzip.size() - 2), header)->status, 400);
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrderWhateverTheHandlerDoes) {
  KeepExchanges();
  Start();
  constexpr int kCount = 100;
  std::string requests;
  for (int i = 0; i < kCount; ++i) {
    requests += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n";
  }
  TestClient client(port());
  ASSERT_TRUE(client.Send(requests));
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < kCount; ++i) exchanges.push_back(TakeExchange());
  EXPECT_EQ(server_->stats().in_flight, 100u);
  SeededRandom random(7);
  for (std::size_t i = exchanges.size(); i > 1; --i) {
    std::swap(exchanges[i - 1], exchanges[random.Below(i)]);
  }
  for (const auto& exchange : exchanges) exchange->Send(Echo(exchange->request()));
  for (int i = 0; i < kCount; ++i) {
    const auto answer = client.Read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, "GET /" + std::to_string(i) + "? ");
  }
}

TEST_F(HttpServerTest, PipelinesLongerThanTheBoundGetThrough) {
  Start();
  constexpr int kCount = 3'000;
  TestClient client(port());
  std::jthread sender([&] {
    std::string requests;
    for (int i = 0; i < kCount; ++i) {
      requests +=
          "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    }
    EXPECT_TRUE(client.Send(requests));
  });
  for (int i = 0; i < kCount; ++i) {
    const auto answer = client.Read();
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->body, "POST /" + std::to_string(i) + "? hi");
  }
}

TEST_F(HttpServerTest, ManyClientsWithAnswersFromOtherThreads) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::deque<std::shared_ptr<Exchange>> waiting;
  handler_.handle = [&](std::shared_ptr<Exchange> exchange) {
    {
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(exchange));
    }
    wake.notify_one();
  };
  Start();
  std::vector<std::jthread> answerers;
  for (int i = 0; i < 2; ++i) {
    answerers.emplace_back([&](const std::stop_token& stop) {
      std::unique_lock lock(mutex);
      while (wake.wait(lock, stop, [&] { return !waiting.empty(); })) {
        const auto exchange = std::move(waiting.front());
        waiting.pop_front();
        lock.unlock();
        exchange->Send(Echo(exchange->request()));
        lock.lock();
      }
    });
  }
  std::atomic<int> right = 0;
  std::vector<std::jthread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      TestClient client(port());
      for (int i = 0; i < 2'000; ++i) {
        const std::string body = std::to_string(c) + "/" + std::to_string(i);
        const auto answer = client.Post("/x", body);
        if (!answer || answer->body != "POST /x? " + body) return;
        ++right;
      }
    });
  }
  clients.clear();
  EXPECT_EQ(right, 16'000);
  EXPECT_EQ(server_->stats().in_flight, 0u);
}

TEST_F(HttpServerTest, SlowHeadersAndBodiesAreCutOff) {
  options_.header_timeout_ms = 50;
  options_.body_timeout_ms = 50;
  Start();
  TestClient header(port());
  header.Send("GET / HTTP/1.1\r\nHo");
  const auto late = header.Read();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->status, 408);
  EXPECT_TRUE(header.Ended());

  TestClient body(port());
  const auto answer = body.Call("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 408);
  EXPECT_TRUE(body.Ended());

  // A byte now and then does not help with a header: the time counts from its start.
  TestClient drop(port());
  EXPECT_TRUE(Eventually([&] { return !drop.Send("G"); }));
}

TEST_F(HttpServerTest, IdleConnectionsAreClosedButNotWhileAnAnswerIsMade) {
  options_.idle_timeout_ms = 40;
  KeepExchanges();
  Start();
  TestClient waiting(port());
  waiting.Send("GET /w HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto exchange = TakeExchange();
  TestClient idle(port());
  EXPECT_TRUE(idle.Ended());  // by the timeout
  TestClient again(port());
  EXPECT_TRUE(again.Ended());  // and so much time has passed twice
  EXPECT_FALSE(exchange->gone());
  exchange->Send(Text("late"));
  EXPECT_EQ(waiting.Read()->body, "late");
  EXPECT_TRUE(waiting.Ended());
}

TEST_F(HttpServerTest, AClientThatDoesNotReadIsCutOff) {
  options_.write_timeout_ms = 50;
  handler_.handle = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->Send({.content_type = "image/png", .body = std::string(32u << 20, 'x')});
  };
  Start();
  TestClient client(port(), 4'096);
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return server_->stats().accepted == 1; }));
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpServerTest, ConnectionsAboveTheLimitGet503) {
  options_.connections_max = 2;
  Start();
  TestClient one(port());
  TestClient two(port());
  EXPECT_EQ(one.Get("/")->status, 200);
  EXPECT_EQ(two.Get("/")->status, 200);
  for (int i = 0; i < 20; ++i) {
    TestClient three(port());
    const auto answer = three.Get("/");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 503);
    EXPECT_EQ(answer->headers.Find("Retry-After"), "1");
    EXPECT_TRUE(three.Ended());
  }
  EXPECT_EQ(server_->stats().turned_away, 20u);
  EXPECT_EQ(server_->stats().connections, 2u);
  one.Close();
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 1; }));
  TestClient four(port());
  EXPECT_EQ(four.Get("/")->status, 200);
}

TEST_F(HttpServerTest, TwoThousandIdleConnections) {
  constexpr std::size_t kCount = 2'000;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  Start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::size_t i = 0; i < kCount; ++i) {
    clients.push_back(std::make_unique<TestClient>(port()));
    ASSERT_TRUE(clients.back()->connected());
  }
  for (const auto& client : clients) ASSERT_TRUE(client->Get("/x"));
  EXPECT_EQ(server_->stats().connections, kCount);
  for (const auto& client : clients) ASSERT_EQ(client->Get("/y")->body, "GET /y? ");
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpServerTest, AClientThatGoesBeforeTheAnswer) {
  KeepExchanges();
  Start();
  for (const bool reset : {false, true}) {
    TestClient client(port());
    client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const auto exchange = TakeExchange();
    EXPECT_FALSE(exchange->gone());
    if (reset) {
      client.Reset();
    } else {
      client.Close();
    }
    EXPECT_TRUE(Eventually([&] { return exchange->gone(); }));
    exchange->Send(Text("nobody"));
    EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
    EXPECT_EQ(server_->stats().in_flight, 0u);
  }
}

TEST_F(HttpServerTest, AClientThatOnlyStopsSendingIsAnswered) {
  KeepExchanges();
  Start();
  TestClient client(port());
  client.Send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
  client.FinishSending();
  const auto exchange = TakeExchange();
  EXPECT_TRUE(Eventually([&] { return exchange->gone(); }));
  exchange->Send(Text("here"));
  EXPECT_EQ(client.Read()->body, "here");
  EXPECT_TRUE(client.Ended());
}

TEST_F(HttpServerTest, AnExchangeThatNobodyAnswersIs500) {
  handler_.handle = [](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request().path == "/throw") throw std::runtime_error("handler");
  };
  Start();
  TestClient client(port());
  EXPECT_EQ(client.Get("/drop")->status, 500);
  EXPECT_EQ(client.Get("/throw")->status, 500);
  EXPECT_EQ(server_->stats().in_flight, 0u);
}

TEST_F(HttpServerTest, OnlyTheFirstAnswerCounts) {
  handler_.handle = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->Send(Text("one"));
    exchange->Send(Text("two"));
  };
  Start();
  TestClient client(port());
  EXPECT_EQ(client.Get("/")->body, "one");
  EXPECT_EQ(client.Get("/")->body, "one");
}

TEST_F(HttpServerTest, StreamsArriveAtOnceAndTheConnectionGoesOn) {
  KeepExchanges();
  Start();
  TestClient client(port());
  client.Send("GET /stream HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
  closed_ = 0;
  const auto stream =
      TakeExchange()->Stream({.content_type = "text/event-stream"}, [&] { ++closed_; });
  const auto head = client.Read(true);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->headers.Find("Transfer-Encoding"), "chunked");
  EXPECT_FALSE(head->headers.Has("Content-Encoding"));
  EXPECT_FALSE(head->headers.Has("Content-Length"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(stream->Write("data: " + std::to_string(i)));
    EXPECT_TRUE(stream->Write(""));
    EXPECT_EQ(client.ReadChunk(), "data: " + std::to_string(i));
  }
  EXPECT_TRUE(Eventually([&] { return stream->waiting() == 0; }));
  EXPECT_EQ(closed_, 0);
  stream->Close();
  stream->Close();
  EXPECT_EQ(client.ReadChunk(), "");
  EXPECT_TRUE(Eventually([&] { return closed_ == 1; }));
  EXPECT_FALSE(stream->Write("more"));
  client.Send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
  TakeExchange()->Send(Text("next"));
  EXPECT_EQ(client.Read()->body, "next");
  EXPECT_EQ(closed_, 1);
}

TEST_F(HttpServerTest, StreamsForHttp10AndHead) {
  KeepExchanges();
  Start();
  closed_ = 0;
  TestClient old(port());
  old.Send("GET / HTTP/1.0\r\n\r\n");
  const auto stream = TakeExchange()->Stream({}, [&] { ++closed_; });
  stream->Write("one ");
  stream->Write("two");
  stream->Close();
  const std::string all = old.ReadAll();
  EXPECT_TRUE(all.ends_with("\r\n\r\none two")) << all;
  EXPECT_TRUE(Eventually([&] { return closed_ == 1; }));

  TestClient head(port());
  head.Send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto nothing = TakeExchange()->Stream({}, [&] { ++closed_; });
  EXPECT_TRUE(head.Read(true));
  EXPECT_TRUE(Eventually([&] { return closed_ == 2; }));
  EXPECT_FALSE(nothing->Write("x"));
}

TEST_F(HttpServerTest, TheEndOfAStreamsClientIsNoticedWithoutWriting) {
  KeepExchanges();
  Start();
  for (const bool reset : {false, true}) {
    TestClient client(port());
    client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    closed_ = 0;
    const auto stream = TakeExchange()->Stream({}, [&] { ++closed_; });
    stream->Write("hello");
    ASSERT_TRUE(client.Read(true));
    EXPECT_EQ(client.ReadChunk(), "hello");
    if (reset) {
      client.Reset();
    } else {
      client.Close();
    }
    EXPECT_TRUE(Eventually([&] { return closed_ == 1; }));
    EXPECT_FALSE(stream->Write("nobody"));
    stream->Close();
    EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
    EXPECT_EQ(closed_, 1);
  }
}

TEST_F(HttpServerTest, AStreamForAClientThatHasGoneIsClosedAtOnce) {
  KeepExchanges();
  Start();
  TestClient client(port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto exchange = TakeExchange();
  client.Close();
  EXPECT_TRUE(Eventually([&] { return exchange->gone(); }));
  closed_ = 0;
  const auto stream = exchange->Stream({}, [&] { ++closed_; });
  EXPECT_TRUE(Eventually([&] { return closed_ == 1; }));
  EXPECT_FALSE(stream->Write("x"));
}

TEST_F(HttpServerTest, ASlowReaderOfAStreamReachesTheBound) {
  KeepExchanges();
  Start();
  TestClient client(port(), 4'096);
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  closed_ = 0;
  const auto stream = TakeExchange()->Stream({}, [&] { ++closed_; });
  const std::string piece(10'000, 'x');
  std::size_t pieces = 0;
  // The system's own buffers take some megabytes first.
  ASSERT_TRUE(Eventually([&] {
    for (int i = 0; i < 1'000; ++i) {
      if (!stream->Write(piece)) return true;
      ++pieces;
    }
    return false;
  }));
  EXPECT_LE(stream->waiting(), kStreamBytesMax);
  EXPECT_GT(stream->waiting(), kStreamBytesMax / 2);
  EXPECT_EQ(closed_, 0);
  // Nothing of what was taken is lost.
  ASSERT_TRUE(client.Read(true));
  for (std::size_t i = 0; i < pieces; ++i) ASSERT_EQ(client.ReadChunk(), piece) << i;
  EXPECT_TRUE(Eventually([&] { return stream->waiting() == 0; }));
  EXPECT_TRUE(stream->Write("again"));
  EXPECT_EQ(client.ReadChunk(), "again");
}

TEST_F(HttpServerTest, OnePieceAboveTheBoundGoesOut) {
  KeepExchanges();
  Start();
  TestClient client(port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto stream = TakeExchange()->Stream({}, [] {});
  const std::string large(3u << 20, 'x');
  EXPECT_TRUE(stream->Write(large));
  stream->Close();
  EXPECT_EQ(client.Read()->body, large);
}

TEST_F(HttpServerTest, StreamsWrittenByManyThreads) {
  KeepExchanges();
  Start();
  TestClient client(port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto stream = TakeExchange()->Stream({}, [] {});
  std::jthread closer([&] {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 4; ++w) {
      writers.emplace_back([&] {
        for (int i = 0; i < 5'000; ++i) {
          EXPECT_TRUE(Eventually([&] { return stream->Write("0123456789"); }));
        }
      });
    }
    writers.clear();
    stream->Close();
  });
  EXPECT_EQ(client.Read()->body.size(), 200'000u);
}

TEST_F(HttpServerTest, StopAnswersWhatIsOpenAndEndsTheRest) {
  KeepExchanges();
  Start();
  TestClient idle(port());
  TestClient streaming(port());
  streaming.Send("GET /s HTTP/1.1\r\nHost: a\r\n\r\n");
  closed_ = 0;
  const auto stream = TakeExchange()->Stream({}, [&] { ++closed_; });
  ASSERT_TRUE(streaming.Read(true));
  TestClient open(port());
  open.Send("GET /o HTTP/1.1\r\nHost: a\r\n\r\n");
  auto exchange = TakeExchange();
  const int port_before = port();
  std::jthread stopper([&] { server_->Stop(); });
  EXPECT_TRUE(idle.Ended());
  EXPECT_EQ(streaming.ReadChunk(), "");
  EXPECT_TRUE(streaming.Ended());
  EXPECT_TRUE(Eventually([&] { return closed_ == 1; }));
  exchange->Send(Text("answered"));
  const auto answer = open.Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "answered");
  EXPECT_EQ(answer->headers.Find("Connection"), "close");
  EXPECT_TRUE(open.Ended());
  stopper.join();
  server_->Stop();
  EXPECT_FALSE(TestClient(port_before).connected());
  EXPECT_EQ(server_->stats().connections, 0u);
}

TEST_F(HttpServerTest, StopDoesNotWaitForEver) {
  options_.drain_ms = 20;
  KeepExchanges();
  Start();
  TestClient client(port());
  client.Send("GET /o HTTP/1.1\r\nHost: a\r\n\r\n");
  auto late = TakeExchange();
  client.Send("GET /p HTTP/1.1\r\nHost: a\r\n\r\n");
  auto later = TakeExchange();
  server_->Stop();
  EXPECT_TRUE(client.Ended());
  server_.reset();
  // The handler may still hold exchanges when the server has gone.
  EXPECT_TRUE(late->gone());
  late->Send(Text("too late"));
  closed_ = 0;
  const auto stream = later->Stream({}, [&] { ++closed_; });
  EXPECT_FALSE(stream->Write("x"));
  EXPECT_EQ(closed_, 1);
}

TEST_F(HttpServerTest, StopWhileClientsAreBusy) {
  for (int round = 0; round < 5; ++round) {
    Start();
    std::vector<std::jthread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([port = port()] {
        TestClient client(port);
        while (client.Get("/x")) continue;
      });
    }
    EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 4; }));
    server_.reset();
  }
}

TEST_F(HttpServerTest, RandomBytesNeverHangOrCrashIt) {
  options_.header_timeout_ms = 200;
  options_.body_timeout_ms = 200;
  Start();
  SeededRandom random(20'240'601);
  const std::string_view pieces[] = {"GET ",
                                     "POST ",
                                     "/a?b",
                                     " HTTP/1.1\r\n",
                                     " HTTP/1.0\r\n",
                                     "Host: a\r\n",
                                     "\r\n",
                                     "Content-Length: 3\r\n",
                                     "Content-Length: 99999\r\n",
                                     "Transfer-Encoding: chunked\r\n",
                                     "Content-Encoding: gzip\r\n",
                                     "Expect: 100-continue\r\n",
                                     "Connection: close\r\n",
                                     "0\r\n\r\n",
                                     "5\r\nhello\r\n",
                                     "X-Request-Id: a\r\n",
                                     ": \r\n",
                                     " folded\r\n",
                                     "abc",
                                     "\x1f\x8b\x08"};
  for (int i = 0; i < 2'000; ++i) {
    std::string text = random.Below(2) == 0 ? "GET / HTTP/1.1\r\nHost: a\r\n" : "";
    const std::uint64_t parts = random.Below(12);
    for (std::uint64_t p = 0; p < parts; ++p) {
      if (random.Below(4) == 0) {
        text += static_cast<char>(random.Next());
      } else {
        text += pieces[random.Below(std::size(pieces))];
      }
    }
    TestClient client(port());
    client.Send(text);
    if (random.Below(8) == 0) {
      client.Reset();
      continue;
    }
    client.FinishSending();
    client.ReadAll();
  }
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
  TestClient client(port());
  EXPECT_EQ(client.Get("/alive")->status, 200);
}

TEST_F(HttpServerTest, ListensOnNamesAndBothFamilies) {
  for (const std::string host : {"localhost", "127.0.0.1", "0.0.0.0"}) {
    options_.host = host;
    Start();
    TestClient client(port());
    EXPECT_EQ(client.Get("/")->status, 200) << host;
  }
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  Start();
  options_.port = port();
  const auto second = HttpServer::Start(options_, &handler_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "listen");
  EXPECT_NE(second.error().message.find(std::to_string(port())), std::string::npos);
  EXPECT_NE(second.error().message.find("127.0.0.1"), std::string::npos);
  EXPECT_NE(second.error().message.find("another port"), std::string::npos);
  options_.host = "192.0.2.1";
  options_.port = 0;
  const auto foreign = HttpServer::Start(options_, &handler_);
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message.find("192.0.2.1"), std::string::npos);
  options_.port = 70'000;
  EXPECT_FALSE(HttpServer::Start(options_, &handler_));
}

}  // namespace
}  // namespace noetl::api
