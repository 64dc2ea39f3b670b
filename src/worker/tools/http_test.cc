#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "worker/tools/http_testing.h"

namespace noetl::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kCookies = "Set-Cookie: a=1, x\r\nSet-Cookie: b=2\r\n";

class HttpTool : public ::testing::Test {
 protected:
  HttpTool() {
    server_.Give("/ok", 200, "Content-Type: application/json\r\n", R"({"a": [1, 2.5]})");
  }

  // Runs the config, with $URL replaced, and gives what the server saw of it.
  Seen Send(std::string config, HttpBench* bench = nullptr) {
    last_ = (bench != nullptr ? *bench : bench_).Run(Here(std::move(config)));
    std::vector<Seen> seen = server_.TakeSeen();
    EXPECT_EQ(seen.size(), 1U) << last_.outcome.error;
    return seen.empty() ? Seen() : seen.back();
  }
  std::string Here(std::string config) const {
    for (std::size_t at = 0; (at = config.find("$URL")) != std::string::npos;) {
      config.replace(at, 4, server_.url());
    }
    return config;
  }

  TestServer server_;
  HttpBench bench_;
  ToolAnswer last_;
};

TEST_F(HttpTool, AnswersWithStatusHeadersAndParsedBody) {
  server_.Give("/full", 201, std::string(kCookies) + "X-Two: one\r\nx-two: two\r\n", R"({"a": 1})");
  const ToolAnswer answer = bench_.Get(server_.url() + "/full");
  ASSERT_TRUE(answer.outcome.ok) << answer.outcome.error;
  const Json& payload = answer.outcome.payload;
  EXPECT_EQ(payload["status_code"].AsInt(), 201);
  EXPECT_EQ(payload["status"].AsInt(), 201);
  EXPECT_EQ(WriteJson(payload["data"]), R"({"a":1})");
  EXPECT_EQ(payload["body"], payload["data"]);
  EXPECT_EQ(payload["url"].AsString(), server_.url() + "/full");
  EXPECT_TRUE(payload["elapsed"].is_double());
  EXPECT_EQ(WriteJson(payload["headers"]),
            R"({"content-length":"8","set-cookie":["a=1, x","b=2"],"x-two":"one, two"})");
  EXPECT_EQ(answer.outcome.extra["http"]["status"].AsInt(), 201);
  EXPECT_EQ(answer.outcome.extra["http"]["headers"], payload["headers"]);
}

TEST_F(HttpTool, SendsWhatTheFieldsSay) {
  struct Case {
    std::string config;
    std::string line;
    std::string type;
    std::string body;
  };
  const Case cases[] = {
      {R"({"url": "$URL/ok"})", "GET /ok", "", ""},
      {R"({"endpoint": " $URL/ok ", "method": "delete"})", "DELETE /ok", "", ""},
      {R"({"url": "$URL/ok?x=0#part", "params": {"a": "1 &", "n": null,
           "l": [1, "é"], "o": {"k": 1}}})",
       "GET /ok?x=0&a=1%20%26&l=1&l=%C3%A9&o=%7B%22k%22%3A1%7D", "", ""},
      {R"({"url": "$URL/ok", "query": {"t": true}})", "GET /ok?t=true", "", ""},
      {R"({"url": "$URL/ok/a b"})", "GET /ok/a%20b", "", ""},
      {R"({"url": "$URL/ok", "method": "POST", "json": {"a": [1]}, "form": {"b": 1}})", "POST /ok",
       "application/json", R"({"a":[1]})"},
      {R"({"url": "$URL/ok", "method": "PUT", "form": {"b": "x y", "l": [1, 2]}, "body": "no"})",
       "PUT /ok", "application/x-www-form-urlencoded", "b=x%20y&l=1&l=2"},
      {R"({"url": "$URL/ok", "method": "POST", "body": "raw", "data": {"a": 1}})", "POST /ok", "",
       "raw"},
      {R"({"url": "$URL/ok", "method": "PATCH", "payload": [1, 2]})", "PATCH /ok",
       "application/json", "[1,2]"},
      {R"({"url": "$URL/ok", "method": "POST", "data": {"a": 1}})", "POST /ok", "application/json",
       R"({"a":1})"},
      {R"({"url": "$URL/ok", "data": {"a": 1}, "params": {"b": 2}})", "GET /ok?a=1&b=2", "", ""},
      {R"({"url": "$URL/ok", "method": "POST", "data": {"query": {"q": 1}, "body": {"b": 2}}})",
       "POST /ok?q=1", "application/json", R"({"b":2})"},
      {R"({"url": "$URL/ok", "method": "POST", "headers":
           {"content-type": "application/x-www-form-urlencoded"},
           "data": {"a": "1+1"}})",
       "POST /ok", "application/x-www-form-urlencoded", "a=1%2B1"},
      {R"({"url": "$URL/ok", "method": "POST", "headers": {"Content-Type": "text/csv"},
           "json": {"a": 1}})",
       "POST /ok", "text/csv", R"({"a":1})"},
      {R"({"url": "$URL/ok", "method": "POST"})", "POST /ok", "", ""},
      {R"({"url": "$URL/ok", "json": {"search": 1}})", "GET /ok", "application/json",
       R"({"search":1})"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.config);
    const Seen seen = Send(test.config);
    EXPECT_TRUE(last_.outcome.ok) << last_.outcome.error;
    EXPECT_EQ(seen.method + " " + seen.target, test.line);
    const auto type = seen.headers.find("content-type");
    EXPECT_EQ(type == seen.headers.end() ? "" : type->second, test.type);
    EXPECT_EQ(seen.body, test.body);
  }
}

TEST_F(HttpTool, HeadersAreTexts) {
  Seen seen = Send(R"({"url": "$URL/ok", "headers": {"X-Number": 5, "X-Flag": true, "X-None": null,
    "X-Map": {"a": 1}, "X-Empty": "", "User-Agent": "mine", "Content-Length": "999"}})");
  EXPECT_EQ(seen.headers["x-number"], "5");
  EXPECT_EQ(seen.headers["x-flag"], "true");
  EXPECT_EQ(seen.headers["x-map"], R"({"a":1})");
  EXPECT_TRUE(seen.headers.contains("x-empty"));
  EXPECT_FALSE(seen.headers.contains("x-none"));
  EXPECT_FALSE(seen.headers.contains("content-length"));
  EXPECT_EQ(seen.headers["user-agent"], "mine");
  EXPECT_THAT(seen.headers["accept-encoding"], HasSubstr("gzip"));
  EXPECT_EQ(Send(R"({"url": "$URL/ok"})").headers["user-agent"], "noetl");
}

TEST_F(HttpTool, MultipartFieldsAndFiles) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(::testing::TempDir()) / fmt::format("noetl_http_{}", getpid());
  fs::create_directories(root / "in");
  std::ofstream(root / "in" / "a.txt") << "file text";
  std::ofstream(root / "secret.txt") << "secret";
  fs::create_symlink(root / "secret.txt", root / "in" / "link.txt");
  HttpBench bench("NOETL_HTTP_FILES_ROOT", (root / "in").string());
  Seen seen = Send(R"({"url": "$URL/ok", "method": "POST", "form": {"f": "v"},
    "files": {"one": "a.txt",
              "two": {"path": "a.txt", "filename": "b.csv", "content_type": "text/csv"}}})",
                   &bench);
  EXPECT_THAT(seen.headers["content-type"], HasSubstr("multipart/form-data; boundary="));
  EXPECT_THAT(seen.body, HasSubstr("name=\"f\"\r\n\r\nv\r\n"));
  EXPECT_THAT(seen.body, HasSubstr("name=\"one\"; filename=\"a.txt\""));
  EXPECT_THAT(seen.body, HasSubstr("name=\"two\"; filename=\"b.csv\"\r\nContent-Type: text/csv"));
  EXPECT_THAT(seen.body, HasSubstr("file text"));
  seen = Send(
      R"({"url": "$URL/ok", "method": "POST", "headers":
    {"Content-Type": "multipart/form-data"}, "data": {"a": 1}})");
  EXPECT_THAT(seen.body, HasSubstr("name=\"a\"\r\n\r\n1\r\n"));

  for (const std::string path : {"../secret.txt", "link.txt", "none.txt", "."}) {
    const ToolAnswer answer = bench.Run(Here(
        fmt::format(R"({{"url": "$URL/ok", "method": "POST", "files": {{"f": "{}"}}}})", path)));
    EXPECT_EQ(ErrorLine(answer), "hard config CONFIG final") << path;
  }
  EXPECT_EQ(ErrorLine(bench_.Run(Here(R"({"url": "$URL/ok", "files": {"f": "a.txt"}})"))),
            "hard config CONFIG final");
  for (const std::string field : {R"("json": {"a": 1})", R"("body": "raw")", R"("data": [1])"}) {
    const ToolAnswer answer = bench.Run(Here(fmt::format(
        R"({{"url": "$URL/ok", "method": "POST", "files": {{"f": "a.txt"}}, {}}})", field)));
    EXPECT_THAT(answer.outcome.error, HasSubstr("files go with")) << field;
  }
  fs::remove_all(root);
}

TEST_F(HttpTool, ResponseTypes) {
  struct Case {
    std::string body;
    std::string type;
    std::string data;
  };
  const Case cases[] = {
      {R"({"a": 1})", "json", R"({"a":1})"},
      {R"({"a": 1})", "text", R"("{\"a\": 1}")"},
      {R"({"a": 1})", "binary", R"({"base64":"eyJhIjogMX0=","size":8})"},
      {"plain", "json", R"("plain")"},
      {"", "json", "null"},
      {"", "text", R"("")"},
      {"", "binary", R"({"base64":"","size":0})"},
      {R"({"a": "x\u0000y"})", "json", "{\"a\":\"x\xEF\xBF\xBDy\"}"},
      {std::string("a\0b\xff", 4), "text",
       "\"a\xEF\xBF\xBD"
       "b\xEF\xBF\xBD\""},
  };
  for (const Case& test : cases) {
    TestServer server;
    server.Give("/", 200, "", test.body);
    const ToolAnswer answer = bench_.Run(
        fmt::format(R"({{"url": "{}", "response_type": "{}"}})", server.url(), test.type));
    EXPECT_EQ(WriteJson(answer.outcome.payload["data"]), test.data);
  }
}

TEST_F(HttpTool, HeadHasHeadersOnly) {
  server_.On("/head", [](int connection, const Seen&) {
    return TestServer::Send(connection, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
  });
  const Seen seen = Send(R"({"url": "$URL/head", "method": "head", "json": {"ignored": 1}})");
  EXPECT_EQ(seen.method, "HEAD");
  EXPECT_TRUE(last_.outcome.ok) << last_.outcome.error;
  EXPECT_EQ(last_.outcome.payload["headers"]["content-length"].AsString(), "5000");
}

TEST_F(HttpTool, ChunkedCompressedAndProvisionalAnswers) {
  // {"zip": true}
  const unsigned char zipped[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab,
                                  0x56, 0xaa, 0xca, 0x2c, 0x50, 0xb2, 0x52, 0x28, 0x29, 0x2a, 0x4d,
                                  0xad, 0x05, 0x00, 0x1b, 0xaa, 0x13, 0x7e, 0x0d, 0x00, 0x00, 0x00};
  server_.Give("/zip", 200, "Content-Encoding: gzip\r\n",
               std::string(reinterpret_cast<const char*>(zipped), sizeof(zipped)));
  server_.On("/chunked", [](int connection, const Seen&) {
    return TestServer::Send(connection,
                            "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n"
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3\r\n[1,\r\n3\r\n 2]\r\n0\r\n\r\n");
  });
  EXPECT_EQ(WriteJson(bench_.Get(server_.url() + "/zip").outcome.payload["data"]),
            R"({"zip":true})");
  const Json payload = bench_.Get(server_.url() + "/chunked").outcome.payload;
  EXPECT_EQ(WriteJson(payload["data"]), "[1,2]");
  EXPECT_FALSE(payload["headers"].Has("x-early"));
}

TEST_F(HttpTool, OtherStatusesAreSoftErrorsWithTheirData) {
  const std::map<int, std::string> cases = {{304, "client_error HTTP_304 final"},
                                            {400, "client_error HTTP_400 final"},
                                            {401, "auth HTTP_401 final"},
                                            {403, "auth HTTP_403 final"},
                                            {404, "not_found HTTP_404 final"},
                                            {418, "client_error HTTP_418 final"},
                                            {429, "rate_limit HTTP_429 retryable"},
                                            {500, "server_error HTTP_500 retryable"},
                                            {503, "server_error HTTP_503 retryable"}};
  for (const auto& [status, line] : cases) {
    server_.Give("/s", status, "", status == 304 ? "" : R"({"detail": "why"})");
    const ToolAnswer answer = bench_.Get(server_.url() + "/s");
    EXPECT_EQ(ErrorLine(answer), line);
    EXPECT_EQ(answer.outcome.error, fmt::format("HTTP {} response", status));
    EXPECT_EQ(answer.outcome.payload["status_code"].AsInt(), status);
    EXPECT_EQ(answer.outcome.error_info["http_status"].AsInt(), status);
    EXPECT_EQ(answer.outcome.error_info["status_code"].AsInt(), status);
    EXPECT_EQ(answer.outcome.error_info["source"].AsString(), "http");
    EXPECT_EQ(answer.outcome.extra["http"]["status"].AsInt(), status);
    EXPECT_FALSE(answer.outcome.error_info.Has("retry_after"));
    EXPECT_EQ(answer.outcome.payload["data"]["detail"].AsString(), status == 304 ? "" : "why");
  }
}

TEST_F(HttpTool, RetryAfterInSecondsOrAsADate) {
  const std::map<std::string, std::string> cases = {
      {"Retry-After: 7\r\n", "7"},
      {"Retry-After: 99999999999\r\n", "31536000"},
      {"Retry-After: -1\r\n", "0"},
      {"Retry-After: soon\r\n", "null"},
      {"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "0"},
      {"Date: Wed, 21 Oct 2015 07:27:00 GMT\r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n",
       "60"}};
  for (const auto& [headers, seconds] : cases) {
    server_.Give("/limited", 429, headers, "");
    const ToolAnswer answer = bench_.Get(server_.url() + "/limited");
    EXPECT_EQ(WriteJson(answer.outcome.error_info["retry_after"]), seconds) << headers;
  }
}

TEST_F(HttpTool, AuthForms) {
  setenv("NOETL_TEST_TOKEN", "from-env", 1);
  setenv("NOETL_TEST_OTHER", "private", 1);
  HttpBench bench("NOETL_KEYCHAIN_ENV_VARS", "NOETL_TEST_TOKEN,NOETL_TEST_UNSET");
  struct Case {
    std::string auth;
    std::string header;
    std::string value;
  };
  const Case cases[] = {
      {R"({"type": "bearer", "token": "t1"})", "authorization", "Bearer t1"},
      {R"({"type": "Bearer", "credential": "NOETL_TEST_TOKEN"})", "authorization",
       "Bearer from-env"},
      {R"({"type": "basic", "username": "u", "password": "p"})", "authorization", "Basic dTpw"},
      {R"({"type": "api_key", "value": "k"})", "x-api-key", "k"},
      {R"({"type": "api_key", "header": "X-Other", "token": 5})", "x-other", "5"},
      {R"({"source": "env", "key": "NOETL_TEST_TOKEN"})", "authorization", "Bearer from-env"},
      {R"({"source": "env", "key": "NOETL_TEST_TOKEN", "header_name": "X-K"})", "x-k", "from-env"},
      {R"({"source": "inline", "type": "basic", "fields": {"username": "u", "password": "p"}})",
       "authorization", "Basic dTpw"},
      {R"({"api": {"type": "bearer", "token": "t2"}})", "authorization", "Bearer t2"},
      {R"({"db": {"type": "postgres"}, "api": {"type": "api_key", "value": "k2"}})", "x-api-key",
       "k2"},
      {R"({"type": "none"})", "authorization", "user"},
      {R"("none")", "authorization", "user"},
      {"null", "authorization", "user"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.auth);
    Seen seen = Send(fmt::format(R"({{"url": "$URL/ok", "headers": {{"AUTHORIZATION": "user"}},
      "auth": {}}})",
                                 test.auth),
                     &bench);
    EXPECT_TRUE(last_.outcome.ok) << last_.outcome.error;
    EXPECT_EQ(seen.headers[test.header], test.value);
  }
  Seen seen =
      Send(R"({"url": "$URL/ok?a=1", "auth": {"type": "api_key", "in": "query", "param": "key",
    "value": "s&t"}})",
           &bench);
  EXPECT_EQ(seen.target, "/ok?a=1&key=s%26t");
  EXPECT_THAT(WriteJson(last_.outcome.payload), Not(HasSubstr("s%26t")));
  std::string config = R"({"url": "$URL/ok"})";
  config = Here(config).replace(config.find("$URL") + 7, 0, "me:pass%21@");
  EXPECT_EQ(Send(config).headers["authorization"], "Basic bWU6cGFzcyE=");
  EXPECT_THAT(WriteJson(last_.outcome.payload), Not(HasSubstr("pass")));
}

TEST_F(HttpTool, AuthThatCannotBeResolvedIsHard) {
  setenv("NOETL_TEST_OTHER", "private", 1);
  HttpBench bench("NOETL_KEYCHAIN_ENV_VARS", "NOETL_TEST_UNSET");
  const std::map<std::string, std::string> cases = {
      {R"("my_alias")", "credential 'my_alias' cannot be resolved"},
      {R"({"source": "env", "key": "NOETL_TEST_OTHER"})", "NOETL_KEYCHAIN_ENV_VARS"},
      {R"({"source": "env", "key": "NOETL_TEST_UNSET"})", "is empty on this worker"},
      {R"({"type": "bearer", "credential": "vault_entry"})", "'vault_entry'"},
      {R"({"type": "bearer", "token": ""})", "has no token"},
      {R"({"type": "gcp_adc"})", "'gcp_adc' is not supported"},
      {R"({"source": "adc"})", "not supported"},
      {R"({"x": {"type": "postgres"}, "y": {"type": "nats"}})", "without an entry"},
      {"[1]", "must be a map"}};
  for (const auto& [auth, text] : cases) {
    const ToolAnswer answer =
        bench.Run(Here(fmt::format(R"({{"url": "$URL/ok", "auth": {}}})", auth)));
    EXPECT_EQ(ErrorLine(answer), "hard auth AUTH final") << auth;
    EXPECT_THAT(answer.outcome.error, HasSubstr("Authentication error: "));
    EXPECT_THAT(answer.outcome.error, HasSubstr(text));
  }
  EXPECT_TRUE(server_.TakeSeen().empty());
}

TEST_F(HttpTool, BadFieldsAreHardAndNamed) {
  const std::map<std::string, std::string> cases = {
      {"null", "url is missing"},
      {"{}", "url is missing"},
      {R"({"url": 5})", "url is missing"},
      {R"({"url": "example.com/x"})", "http://"},
      {R"({"url": "ftp://example.com/x"})", "not http or https"},
      {R"({"url": "http://"})", "url 'http://'"},
      {R"({"url": "http://h:99999/?secret=1"})", "url 'http://h:99999/'"},
      {R"({"url": "$URL", "method": "FETCH"})", "method 'FETCH'"},
      {R"({"url": "$URL", "headers": [1]})", "headers must be a map"},
      {R"({"url": "$URL", "headers": {"a b": 1}})", "not a header name"},
      {R"({"url": "$URL", "headers": {"a": "x\r\nb: 1"}})", "line break"},
      {R"({"url": "$URL", "auth": {"type": "bearer", "token": "x\ny"}})", "line break"},
      {R"({"url": "$URL", "params": "a=1"})", "params must be a map"},
      {R"({"url": "$URL", "form": "a=1"})", "form must be a map"},
      {R"({"url": "$URL", "verify_ssl": "maybe"})", "verify_ssl must be"},
      {R"({"url": "$URL", "max_response_bytes": "many"})", "max_response_bytes must be"},
      {R"({"url": "$URL", "response_type": "xml"})", "response_type must be"},
      {R"({"url": "$URL", "save_to": "/tmp/x"})", "save_to"}};
  for (const auto& [config, text] : cases) {
    const ToolAnswer answer = bench_.Run(Here(config));
    EXPECT_EQ(ErrorLine(answer), "hard config CONFIG final") << config;
    EXPECT_THAT(answer.outcome.error, HasSubstr("Configuration error: "));
    EXPECT_THAT(answer.outcome.error, HasSubstr(text));
    EXPECT_THAT(answer.outcome.error, Not(HasSubstr("secret")));
  }
  EXPECT_EQ(server_.connections(), 0);
}

TEST_F(HttpTool, TextsThatMeanNumbersAndFlags) {
  Send(R"({"url": "$URL/ok", "timeout": "30", "verify": "False", "follow_redirects": "yes",
    "max_response_bytes": "1000", "response_type": "TEXT"})");
  EXPECT_TRUE(last_.outcome.ok) << last_.outcome.error;
}

}  // namespace
}  // namespace noetl::worker
