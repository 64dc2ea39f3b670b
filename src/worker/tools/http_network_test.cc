// The http tool against networks that misbehave: silence, cuts, redirects, certificates, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "worker/tools/http_testing.h"

namespace noetl::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::size_t OpenDescriptors() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TestServer::Route RedirectTo(int status, const std::string& location) {
  return [=](int connection, const Seen&) {
    return TestServer::Reply(connection, status, "Location: " + location + "\r\n", "moved");
  };
}

class HttpNetwork : public ::testing::Test {
 protected:
  HttpNetwork() {
    server_.Give("/ok", 200, "", "true");
    server_.On("/hang", [this](int, const Seen&) { return server_.Hang(); });
  }
  std::string Url(std::string_view path) const { return server_.url() + std::string(path); }

  TestServer server_;
  HttpBench bench_;
};

TEST_F(HttpNetwork, ConnectionsAreReused) {
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(bench_.Get(Url("/ok")).outcome.ok);
  EXPECT_EQ(server_.connections(), 1);
}

TEST_F(HttpNetwork, AThousandCallsLeaveNothingBehind) {
  bench_.Get(Url("/ok"));
  const std::size_t before = OpenDescriptors();
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(bench_.Get(Url("/ok")).outcome.ok);
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_EQ(server_.connections(), 1);
}

TEST_F(HttpNetwork, DescriptorsEndWithTheTool) {
  const std::size_t before = OpenDescriptors();
  {
    HttpBench bench;
    const LocalSocket closed(-1);
    for (int i = 0; i < 50; ++i) {
      bench.Get(closed.url());
      bench.Get(Url("/ok"));
    }
    server_.On("/cut", [](int, const Seen&) { return false; });
    for (int i = 0; i < 50; ++i) bench.Get(Url("/cut"));
  }
  // The server closes its ends when it notices.
  while (OpenDescriptors() > before) std::this_thread::yield();
}

TEST_F(HttpNetwork, ManyCallsAtOnce) {
  constexpr int kCalls = 300;
  int left = kCalls;
  std::vector<std::unique_ptr<Running>> running;
  for (int i = 0; i < kCalls; ++i) {
    running.push_back(
        bench_.tool().Start(HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url("/ok"))),
                            [&](const ToolAnswer& answer) {
                              EXPECT_TRUE(answer.outcome.ok) << answer.outcome.error;
                              if (--left == 0) bench_.loop().Stop();
                            }));
  }
  bench_.loop().Run();
}

TEST_F(HttpNetwork, ConnectionsAreBounded) {
  constexpr int kConnections = 200;
  std::vector<std::unique_ptr<Running>> running;
  for (int i = 0; i < kConnections + 20; ++i) {
    running.push_back(
        bench_.tool().Start(HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url("/hang"))),
                            [](const ToolAnswer&) { FAIL(); }));
  }
  std::thread waiter([&] {
    server_.WaitForHanging(kConnections);
    bench_.loop().Stop();
  });
  bench_.loop().Run();
  waiter.join();
  EXPECT_EQ(server_.connections(), kConnections);
}

TEST_F(HttpNetwork, AServerThatNeverAnswersTimesOut) {
  ToolCall call = HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url("/hang")));
  call.timeout_ms = 1'000;  // enough to be connected, so that the code is certain
  const ToolAnswer answer = bench_.Run(std::move(call));
  EXPECT_EQ(ErrorLine(answer), "timeout HTTP_TIMEOUT retryable");
  EXPECT_THAT(answer.outcome.error, HasSubstr("Execution timed out after 1 seconds"));
  EXPECT_THAT(answer.outcome.error, HasSubstr("127.0.0.1"));
}

TEST_F(HttpNetwork, TheLimitComesFromTheFieldsOrTheSetting) {
  const ToolAnswer answer =
      bench_.Run(fmt::format(R"({{"url": "{}", "timeout": "50ms"}})", Url("/hang")));
  EXPECT_EQ(answer.outcome.error_info["kind"].AsString(), "timeout");
  HttpBench strict("NOETL_HTTP_REQUEST_TIMEOUT_SECONDS", "50ms");
  EXPECT_EQ(strict.Get(Url("/hang")).outcome.error_info["kind"].AsString(), "timeout");
}

// Redirects share the one limit.
TEST_F(HttpNetwork, ARedirectDoesNotRenewTheLimit) {
  server_.On("/to", RedirectTo(302, "/hang"));
  ToolCall call = HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url("/to")));
  call.timeout_ms = 50;
  const ToolAnswer answer = bench_.Run(std::move(call));
  EXPECT_EQ(answer.outcome.error_info["kind"].AsString(), "timeout");
}

TEST_F(HttpNetwork, SilenceInTheMiddleOfAnAnswerTimesOut) {
  server_.On("/slow", [this](int connection, const Seen&) {
    TestServer::Send(connection, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    return server_.Hang();
  });
  ToolCall call = HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url("/slow")));
  call.timeout_ms = 600'000;
  call.spec = *ParseJson(R"({"timeout": {"connect": 5, "read": 0.05}})");
  const ToolAnswer answer = bench_.Run(std::move(call));
  EXPECT_EQ(ErrorLine(answer), "timeout HTTP_TIMEOUT retryable");
  EXPECT_THAT(answer.outcome.error, HasSubstr("fell silent"));
}

// A queue of one that is full: the kernel lets further connections wait.
TEST_F(HttpNetwork, AConnectionThatIsNeverMadeTimesOut) {
  const LocalSocket full(0);
  std::vector<int> fillers;
  for (int i = 0; i < 4; ++i) {
    fillers.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{.sin_family = AF_INET,
                        .sin_port = htons(static_cast<std::uint16_t>(full.port())),
                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    std::ignore = connect(fillers.back(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  ToolCall call = HttpBench::Config(fmt::format(R"({{"url": "{}"}})", full.url()));
  call.timeout_ms = 600'000;
  call.spec = *ParseJson(R"({"timeout": {"connect": 0.1}})");
  const ToolAnswer answer = bench_.Run(std::move(call));
  EXPECT_EQ(ErrorLine(answer), "timeout CONN_TIMEOUT retryable");
  EXPECT_THAT(answer.outcome.error, HasSubstr("after 0.1 seconds"));
  for (const int filler : fillers) close(filler);
}

TEST_F(HttpNetwork, FailuresSayWhatAndWhere) {
  const LocalSocket closed(-1);
  ToolAnswer answer = bench_.Get(closed.url());
  EXPECT_EQ(ErrorLine(answer), "connection CONN_REFUSED retryable");
  EXPECT_THAT(answer.outcome.error, HasSubstr("HTTP error: GET " + closed.url()));
  EXPECT_THAT(answer.outcome.error, HasSubstr("check the port"));
  EXPECT_TRUE(answer.outcome.payload.is_null());

  // A label of 64 letters is in no name service.
  answer = bench_.Get("http://" + std::string(64, 'a') + ".invalid/");
  EXPECT_EQ(ErrorLine(answer), "connection DNS_ERROR retryable");
  EXPECT_THAT(answer.outcome.error, HasSubstr("check the host name"));

  server_.On("/cut", [](int, const Seen&) { return false; });
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/cut"))), "connection CONN_ERROR retryable");
  server_.On("/half", [](int connection, const Seen&) {
    TestServer::Send(connection, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    return false;
  });
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/half"))), "connection CONN_ERROR retryable");
  server_.On("/odd", [](int connection, const Seen&) {
    TestServer::Send(connection, "220 mail.example.com ready\r\n");
    return false;
  });
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/odd"))), "parse HTTP_BAD_RESPONSE final");
  server_.Give("/bad-zip", 200, "Content-Encoding: gzip\r\n", "not zipped");
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/bad-zip"))), "parse HTTP_BAD_RESPONSE final");
  EXPECT_TRUE(bench_.Get(Url("/ok")).outcome.ok);  // and the tool goes on
}

TEST_F(HttpNetwork, LargeBodiesAreBounded) {
  server_.Give("/large", 200, "", std::string(3 << 20, 'x'));
  const auto get = [&](int bytes_max) {
    return bench_.Run(
        fmt::format(R"({{"url": "{}", "max_response_bytes": {}}})", Url("/large"), bytes_max));
  };
  EXPECT_EQ(get(3 << 20).outcome.payload["data"].AsString().size(), 3U << 20);
  const ToolAnswer answer = get((3 << 20) - 1);
  EXPECT_EQ(ErrorLine(answer), "client_error HTTP_BODY_TOO_LARGE final");
  EXPECT_THAT(answer.outcome.error, HasSubstr("max_response_bytes"));
  server_.On("/headers", [](int connection, const Seen&) {
    const std::string line = "X-More: " + std::string(1000, 'x') + "\r\n";
    TestServer::Send(connection, "HTTP/1.1 200 OK\r\n");
    while (TestServer::Send(connection, line)) continue;
    return false;
  });
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/headers"))), "client_error HTTP_BODY_TOO_LARGE final");
}

TEST_F(HttpNetwork, RedirectsAreFollowed) {
  server_.On("/a", RedirectTo(301, "b?x=1"));
  server_.On("/b", RedirectTo(307, Url("/ok")));
  const ToolAnswer answer = bench_.Get(Url("/a"));
  ASSERT_TRUE(answer.outcome.ok) << answer.outcome.error;
  EXPECT_EQ(answer.outcome.payload["url"].AsString(), Url("/ok"));
  EXPECT_EQ(answer.outcome.payload["data"], Json(true));
  EXPECT_EQ(server_.TakeSeen()[1].target, "/b?x=1");

  const ToolAnswer kept =
      bench_.Run(fmt::format(R"({{"url": "{}", "follow_redirects": false}})", Url("/a")));
  EXPECT_EQ(ErrorLine(kept), "client_error HTTP_301 final");
  EXPECT_EQ(kept.outcome.payload["headers"]["location"].AsString(), "b?x=1");
}

TEST_F(HttpNetwork, RedirectsOfPosts) {
  const std::map<int, std::string> cases = {{301, "GET "},
                                            {302, "GET "},
                                            {303, "GET "},
                                            {307, "POST {\"a\":1}"},
                                            {308, "POST {\"a\":1}"}};
  for (const auto& [status, expected] : cases) {
    server_.On("/post", RedirectTo(status, "/ok"));
    bench_.Run(
        fmt::format(R"({{"url": "{}", "method": "POST", "json": {{"a": 1}}}})", Url("/post")));
    const std::vector<Seen> seen = server_.TakeSeen();
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[1].method + " " + seen[1].body, expected) << status;
    EXPECT_EQ(seen[1].headers.contains("content-type"), seen[1].method == "POST");
  }
}

TEST_F(HttpNetwork, SecretsStayWithTheirOrigin) {
  TestServer other;
  other.Give("/ok", 200, "", "1");
  server_.On("/away", RedirectTo(302, other.url() + "/ok"));
  server_.On("/near", RedirectTo(302, "/ok"));
  for (const std::string auth :
       {R"({"type": "bearer", "token": "t"})", R"({"type": "api_key", "value": "t"})"}) {
    const auto get = [&](std::string_view path) {
      const std::string config = fmt::format(
          R"({{"url": "{}", "auth": {}, "headers": {{"Cookie": "c=1", "X-Plain": "p"}}}})",
          Url(path), auth);
      EXPECT_TRUE(bench_.Run(config).outcome.ok);
    };
    get("/away");
    get("/near");
    const std::vector<Seen> away = other.TakeSeen();
    ASSERT_EQ(away.size(), 1U);
    for (const char* name : {"authorization", "x-api-key", "cookie"}) {
      EXPECT_FALSE(away[0].headers.contains(name)) << name;
    }
    EXPECT_TRUE(away[0].headers.contains("x-plain"));
    const Seen near = server_.TakeSeen().back();
    EXPECT_TRUE(near.headers.contains("authorization") || near.headers.contains("x-api-key"));
    EXPECT_TRUE(near.headers.contains("cookie"));
  }
}

TEST_F(HttpNetwork, BadRedirects) {
  server_.On("/loop", RedirectTo(302, "/loop"));
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/loop"))), "config HTTP_TOO_MANY_REDIRECTS final");
  EXPECT_EQ(server_.TakeSeen().size(), 11U);
  server_.On("/file", RedirectTo(302, "file:///etc/passwd"));
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/file"))), "parse HTTP_BAD_RESPONSE final");
  server_.Give("/nowhere", 302, "", "");
  EXPECT_EQ(ErrorLine(bench_.Get(Url("/nowhere"))), "client_error HTTP_302 final");
}

TEST_F(HttpNetwork, StopAnswersOnceAndLater) {
  int answers = 0;
  auto running =
      bench_.tool().Start(HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url("/hang"))),
                          [&](const ToolAnswer& answer) {
                            ++answers;
                            EXPECT_TRUE(answer.cancelled);
                            EXPECT_FALSE(answer.hard);
                            EXPECT_EQ(ErrorLine(answer), "cancelled CANCELLED final");
                            bench_.loop().Stop();
                          });
  std::thread waiter([&] {
    server_.WaitForHanging();
    bench_.loop().Post([&] {
      running->Stop();
      running->Stop();
      EXPECT_EQ(answers, 0);
    });
  });
  bench_.loop().Run();
  waiter.join();
  running->Stop();
  bench_.loop().Poll();
  EXPECT_EQ(answers, 1);
}

TEST_F(HttpNetwork, DestroyingACallEndsItWithoutAnAnswer) {
  auto running =
      bench_.tool().Start(HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url("/hang"))),
                          [](const ToolAnswer&) { FAIL(); });
  std::thread waiter([&] {
    server_.WaitForHanging();
    bench_.loop().Post([&] {
      running.reset();
      bench_.loop().Stop();
    });
  });
  bench_.loop().Run();
  waiter.join();
  EXPECT_TRUE(bench_.Get(Url("/ok")).outcome.ok);
}

TEST_F(HttpNetwork, CallsEndInsideAnswersAndOutliveTheTool) {
  std::vector<std::unique_ptr<Running>> running;
  for (int i = 0; i < 10; ++i) {
    running.push_back(bench_.tool().Start(
        HttpBench::Config(fmt::format(R"({{"url": "{}"}})", Url(i == 0 ? "/ok" : "/hang"))),
        [&](const ToolAnswer& answer) {
          EXPECT_TRUE(answer.outcome.ok);
          running.clear();
          bench_.loop().Stop();
        }));
  }
  bench_.DropTool();
  bench_.loop().Run();
  EXPECT_TRUE(running.empty());
}

TEST_F(HttpNetwork, ForbiddenAddresses) {
  HttpBench bench("NOETL_HTTP_DENY_CIDRS", "10.0.0.0/8, 127.0.0.0/8, ::1");
  const ToolAnswer answer = bench.Get(Url("/ok"));
  EXPECT_EQ(ErrorLine(answer), "config HTTP_ADDRESS_DENIED final");
  EXPECT_THAT(answer.outcome.error, HasSubstr("NOETL_HTTP_DENY_CIDRS"));
  EXPECT_EQ(ErrorLine(bench.Get(fmt::format("http://localhost:{}/ok", server_.port()))),
            "config HTTP_ADDRESS_DENIED final");
  EXPECT_EQ(ErrorLine(bench.Get(fmt::format("http://[::ffff:127.0.0.1]:{}/", server_.port()))),
            "config HTTP_ADDRESS_DENIED final");
  EXPECT_EQ(ErrorLine(bench_.Get("http://169.254.169.254/latest")),
            "config HTTP_ADDRESS_DENIED final");
  EXPECT_EQ(server_.connections(), 0);
}

TEST_F(HttpNetwork, AllowedHostsHoldForRedirectsToo) {
  server_.On("/away", RedirectTo(302, fmt::format("http://localhost:{}/ok", server_.port())));
  HttpBench bench("NOETL_HTTP_ALLOW_HOSTS", "127.0.0.*,*.Example.com");
  EXPECT_TRUE(bench.Get(Url("/ok")).outcome.ok);
  EXPECT_EQ(ErrorLine(bench.Get(Url("/away"))), "config HTTP_HOST_DENIED final");
  EXPECT_EQ(ErrorLine(bench.Get("http://example.com/")), "config HTTP_HOST_DENIED final");
}

TEST_F(HttpNetwork, MappedHostsKeepTheirName) {
  HttpBench bench("NOETL_HTTP_HOST_MAP",
                  fmt::format("api.example.com=127.0.0.1:{}", server_.port()));
  EXPECT_TRUE(bench.Get("http://api.example.com/ok").outcome.ok);
  EXPECT_TRUE(bench.Get("http://api.example.com:8080/ok").outcome.ok);
  const std::vector<Seen> seen = server_.TakeSeen();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].headers.at("host"), "api.example.com");
  EXPECT_EQ(seen[1].headers.at("host"), "api.example.com:8080");
}

TEST_F(HttpNetwork, MockedHostsAnswerThemselves) {
  HttpBench bench("NOETL_HTTP_MOCK_LOCAL", "true");
  const ToolAnswer answer = bench.Get("http://service.LOCAL/x");
  ASSERT_TRUE(answer.outcome.ok);
  EXPECT_EQ(answer.outcome.payload["data"]["mocked"], Json(true));
  EXPECT_EQ(answer.outcome.payload["status_code"].AsInt(), 200);
}

TEST_F(HttpNetwork, UnreadableSettingsAllowNothing) {
  for (const auto& [name, value] :
       std::multimap<std::string, std::string>{{"NOETL_HTTP_DENY_CIDRS", "10.0.0.0/33"},
                                               {"NOETL_HTTP_DENY_CIDRS", "ten"},
                                               {"NOETL_HTTP_HOST_MAP", "host:80"}}) {
    HttpBench bench(name, value);
    const ToolAnswer answer = bench.Get(Url("/ok"));
    EXPECT_EQ(ErrorLine(answer), "hard config CONFIG final");
    EXPECT_THAT(answer.outcome.error, HasSubstr(name));
  }
}

TEST_F(HttpNetwork, ProxyVariablesCountOnlyWhenAllowed) {
  TestServer proxy;
  proxy.Give("http://example.test/page", 200, "", "\"proxied\"");
  setenv("http_proxy", proxy.url().c_str(), 1);
  EXPECT_TRUE(bench_.Get(Url("/ok")).outcome.ok);
  EXPECT_TRUE(proxy.TakeSeen().empty());
  HttpBench bench("NOETL_HTTP_USE_PROXY", "true");
  const ToolAnswer answer = bench.Get("http://example.test/page");
  unsetenv("http_proxy");
  EXPECT_EQ(answer.outcome.payload["data"].AsString(), "proxied") << answer.outcome.error;
}

// A TLS server with a certificate that nobody vouches for: the openssl program. It serves two
// connections and ends.
class TlsServer {
 public:
  TlsServer() : folder_(fs::path(::testing::TempDir()) / fmt::format("noetl_tls_{}", getpid())) {
    fs::create_directories(folder_);
    const std::string key = (folder_ / "key.pem").string();
    const std::string certificate = (folder_ / "certificate.pem").string();
    const std::string make = fmt::format(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -keyout {} -out {} 2>/dev/null",
        key, certificate);
    EXPECT_EQ(std::system(make.c_str()), 0);
    const std::string serve = fmt::format(
        "exec openssl s_server -accept 127.0.0.1:0 -www -key {} -cert {} -naccept 2 2>&1 "
        "</dev/null",
        key, certificate);
    pipe_ = popen(serve.c_str(), "re");
    std::array<char, 256> line{};
    while (port_.empty() && fgets(line.data(), line.size(), pipe_) != nullptr) {
      const std::string_view text = Trim(line.data());
      if (text.starts_with("ACCEPT")) port_ = text.substr(text.rfind(':') + 1);
    }
  }
  ~TlsServer() {
    pclose(pipe_);
    fs::remove_all(folder_);
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  std::string url() const { return "https://127.0.0.1:" + port_; }

 private:
  fs::path folder_;
  FILE* pipe_ = nullptr;
  std::string port_;
};

TEST_F(HttpNetwork, CertificatesAreCheckedUnlessTheStepSaysOtherwise) {
  const TlsServer server;
  ToolAnswer answer = bench_.Get(server.url());
  EXPECT_EQ(ErrorLine(answer), "connection TLS_ERROR final");
  EXPECT_THAT(answer.outcome.error, HasSubstr("verify_ssl"));
  answer = bench_.Run(fmt::format(
      R"({{"url": "{}/", "verify_ssl": false, "response_type": "text"}})", server.url()));
  ASSERT_TRUE(answer.outcome.ok) << answer.outcome.error;
  EXPECT_THAT(answer.outcome.payload["data"].AsString(), HasSubstr("s_server"));
}

TEST_F(HttpNetwork, APortThatDoesNotSpeakTls) {
  const LocalSocket plain(1);
  std::thread answerer([&] {
    const int connection = accept4(plain.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    TestServer::Send(connection, "HTTP/1.1 400 Bad Request\r\n\r\n");
    close(connection);
  });
  const ToolAnswer answer = bench_.Get(fmt::format("https://127.0.0.1:{}/", plain.port()));
  answerer.join();
  EXPECT_EQ(answer.outcome.error_info["kind"].AsString(), "connection");
}

}  // namespace
}  // namespace noetl::worker
