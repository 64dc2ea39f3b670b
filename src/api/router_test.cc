#include "api/router.h"

#include <sstream>

#include <gtest/gtest.h>

#include "api/access.h"
#include "api/route_table.h"
#include "api/router_parts.h"
#include "api/testing.h"
#include "base/log.h"
#include "base/testing.h"

namespace noetl::api {
namespace {

// Tells which route it was, with what parameters, and what the body held.
void Echo(CallPtr call) {
  JsonObjectBuilder echo;
  echo.Add("route", call->route().path).Add("body", call->body());
  for (std::string_view name : {"id", "path", "name"}) {
    if (!call->Path(name).empty()) echo.Add(name, call->Path(name));
  }
  call->Answer(echo.Build());
}
void Forget(CallPtr) {}
void Throw(CallPtr) { throw std::runtime_error("out of luck"); }
void StreamSome(CallPtr call) {
  auto stream = call->Stream({.content_type = "text/event-stream"}, [] {});
  stream->Write("data: 1\n\n");
  stream->Close();
}

constexpr Route kRoutes[] = {
    {.method = "GET",
     .path = "/api/things",
     .family = "t",
     .scope = Scope::kViewer,
     .handle = Echo},
    {.method = "POST",
     .path = "/api/things",
     .family = "t",
     .body = BodyKind::kJson,
     .body_max = 100,
     .handle = Echo},
    {.method = "GET",
     .path = "/api/things/{id}",
     .family = "t",
     .scope = Scope::kViewer,
     .handle = Echo},
    {.method = "GET", .path = "/api/things/special", .family = "t", .handle = Echo},
    {.method = "PUT",
     .path = "/api/things/{id}/{name}",
     .family = "t",
     .body = BodyKind::kRaw,
     .body_max = 100,
     .handle = Echo},
    {.method = "DELETE",
     .path = "/api/things/special",
     .family = "t",
     .scope = Scope::kAdmin,
     .handle = Echo},
    {.method = "GET", .path = "/api/files/{path...}", .family = "t", .handle = Echo},
    {.method = "GET", .path = "/api/files/{path...}/form", .family = "t", .handle = Echo},
    {.method = "DELETE", .path = "/api/files/all/{id}", .family = "t", .handle = Echo},
    {.method = "POST",
     .path = "/api/maybe",
     .family = "t",
     .body = BodyKind::kOptional,
     .body_max = 100,
     .handle = Echo},
    {.method = "POST",
     .path = "/api/internal/do",
     .family = "t",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = 100,
     .handle = Echo},
    {.method = "GET", .path = "/health", .family = "t", .scope = Scope::kOpen, .handle = Echo},
    {.method = "GET", .path = "/metrics", .family = "t", .scope = Scope::kOpen, .handle = Echo},
    {.method = "GET", .path = "/api/forget", .family = "t", .handle = Forget},
    {.method = "GET", .path = "/api/throw", .family = "t", .handle = Throw},
    {.method = "GET", .path = "/api/stream", .family = "t", .handle = StreamSome},
};

struct TestRouter : TestApi {
  explicit TestRouter(RouterOptions options = {})
      : TestApi({.router = std::move(options), .families = {kRoutes}}) {}

  std::string RouteOf(std::string_view method, std::string_view target) {
    const Asked asked = Ask(method, target);
    return asked.status() == 200 ? asked.body["route"].ToString() : std::to_string(asked.status());
  }
};

// ---- matching

TEST(Router, LiteralsWin) {
  TestRouter router;
  EXPECT_EQ(router.RouteOf("GET", "/api/things"), "/api/things");
  EXPECT_EQ(router.RouteOf("GET", "/api/things/special"), "/api/things/special");
  EXPECT_EQ(router.RouteOf("GET", "/api/things/7"), "/api/things/{id}");
  EXPECT_EQ(router.RouteOf("GET", "/api/files/a/b"), "/api/files/{path...}");
  EXPECT_EQ(router.RouteOf("GET", "/api/files/a/b/form"), "/api/files/{path...}/form");
  // A rest is never empty, and a literal with another method does not hide it.
  EXPECT_EQ(router.RouteOf("GET", "/api/files/form"), "/api/files/{path...}");
  EXPECT_EQ(router.RouteOf("GET", "/api/files/all/form"), "/api/files/{path...}/form");
  EXPECT_EQ(router.RouteOf("DELETE", "/api/files/all/7"), "/api/files/all/{id}");
}

TEST(Router, Parameters) {
  TestRouter router;
  EXPECT_EQ(router.Get("/api/things/a%20b%2Fc").body["id"], Json("a b/c"));
  EXPECT_EQ(router.Get("/api/files/a/b%20c/d").body["path"], Json("a/b c/d"));
  EXPECT_EQ(router.Get("/api/files/a/b/form").body["path"], Json("a/b"));
  const Asked put = router.Ask("PUT", "/api/things/7/x", "bytes", {{"Content-Type", "a/b"}});
  EXPECT_EQ(put.body["id"], Json("7"));
  EXPECT_EQ(put.body["name"], Json("x"));
  EXPECT_EQ(router.Get("/api/things/%ff").status(), 400);
  EXPECT_EQ(router.Get("/api/things/%4").status(), 400);
}

TEST(Router, UnknownPaths) {
  TestRouter router;
  for (const char* path : {"/", "", "/api", "/api/things/", "/api/things//x", "/api/files/",
                           "/api/files", "/health/x", "nonsense", "*"}) {
    const Asked asked = router.Get(path);
    EXPECT_EQ(asked.status(), 404) << path;
    EXPECT_EQ(asked.code(), "not_found");
    EXPECT_EQ(asked.body["request_id"], Json("test-request"));
  }
  EXPECT_EQ(router.Get("/api/thing").body["error"],
            Json("there is nothing at /api/thing; did you mean /api/things?"));
  EXPECT_EQ(router.Get("/api/thing/77").body["error"],
            Json("there is nothing at /api/thing/77; did you mean /api/things/77?"));
}

TEST(Router, WrongMethods) {
  TestRouter router;
  const Asked asked = router.Ask("PATCH", "/api/things");
  EXPECT_EQ(asked.status(), 405);
  EXPECT_EQ(asked.code(), "method_not_allowed");
  EXPECT_EQ(asked.header("Allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(router.Ask("BREW", "/api/things").status(), 405);
  EXPECT_EQ(router.Ask("POST", "/api/things/special").header("Allow"),
            "GET, HEAD, DELETE, OPTIONS");
}

TEST(Router, HeadIsGet) {
  TestRouter router;
  EXPECT_EQ(router.Ask("HEAD", "/api/things").status(), 200);
  EXPECT_EQ(router.Ask("HEAD", "/api/maybe").status(), 405);
  const auto stream = router.Begin(MakeRequest("HEAD", "/api/stream"));
  EXPECT_EQ(stream->Wait().content_type, "text/event-stream");
  EXPECT_EQ(stream->streamed(), "");
}

TEST(Router, Streams) {
  TestRouter router;
  const auto stream = router.Begin(MakeRequest("GET", "/api/stream"));
  EXPECT_EQ(stream->Wait().headers.Find("Cache-Control"), "no-store");
  EXPECT_EQ(stream->streamed(), "data: 1\n\n");
  EXPECT_TRUE(stream->closed());
}

// ---- bodies

TEST(Router, JsonBodies) {
  TestRouter router;
  EXPECT_EQ(router.Post("/api/things", R"({"a":1})").body["body"], Parse(R"({"a":1})"));
  EXPECT_EQ(router.Post("/api/things", "[]", {{"Content-Type", "application/json; charset=utf-8"}})
                .status(),
            200);
  EXPECT_EQ(router.Post("/api/things", "[]", {{"Content-Type", "application/vnd.x+json"}}).status(),
            200);
  const Asked broken = router.Post("/api/things", "{\"a\":\n 1,}");
  EXPECT_EQ(broken.status(), 400);
  EXPECT_EQ(broken.code(), "json_syntax");
  EXPECT_NE(broken.body["error"].AsString().find("2:"), std::string::npos)
      << broken.body["error"].AsString();
  EXPECT_EQ(router.Post("/api/things", "").status(), 400);
  EXPECT_EQ(router.Post("/api/things", std::string(101, ' ')).status(), 413);
}

TEST(Router, ContentTypes) {
  TestRouter router;
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "", "json"}) {
    const Asked asked = router.Post("/api/things", "{}", {{"Content-Type", type}});
    EXPECT_EQ(asked.status(), 415) << type;
    EXPECT_EQ(asked.code(), "media_type");
    EXPECT_EQ(router.Post("/api/maybe", "{}", {{"Content-Type", type}}).status(), 415) << type;
  }
  EXPECT_EQ(router.Post("/api/maybe", "").status(), 200);
  EXPECT_EQ(router.Post("/api/maybe", R"({"a":1})").body["body"], Parse(R"({"a":1})"));
  EXPECT_EQ(router.Post("/api/maybe", "{").status(), 400);
  // The length is known before the body.
  Request head = MakeRequest("POST", "/api/things", "");
  head.headers.Add("Transfer-Encoding", "chunked");
  const auto admission = router.router->Admit(head);
  ASSERT_TRUE(admission.refusal.has_value());
  EXPECT_EQ(admission.refusal->status, 415);
}

TEST(Router, AdmitsWithTheLimitOfTheRoute) {
  TestRouter router;
  EXPECT_EQ(router.router->Admit(MakeRequest("POST", "/api/things", "{}")).body_max, 100u);
  EXPECT_EQ(router.router->Admit(MakeRequest("GET", "/api/things")).body_max, kBodyNone);
}

TEST(Router, HandlersThatFail) {
  TestRouter router;
  EXPECT_EQ(router.Get("/api/forget").status(), 500);
  const Asked thrown = router.Get("/api/throw");
  EXPECT_EQ(thrown.status(), 500);
  EXPECT_EQ(thrown.response.body.find("luck"), std::string::npos);
}

TEST(Router, MalformedHasTheEnvelope) {
  TestRouter router;
  const Response response = router.router->Malformed(431, "the header is too long", "r1");
  EXPECT_EQ(response.status, 431);
  EXPECT_EQ(Parse(response.body),
            Parse(R"({"error":"the header is too long","status":431,"code":"too_large",
                      "detail":"the header is too long","request_id":"r1"})"));
}

// ---- the place a request comes from

TEST(Access, LoopbackHosts) {
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8082", "127.9.8.7:1",
                           "[::1]", "[::1]:8082", "::1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "example.com", "127.0.0.1.example.com", "localhost.example.com",
                           "127.0.0", "127.0.0.1:x", "[::1]x", "[::2]", "0.0.0.0", "10.0.0.1",
                           "127.0.0.1@evil", "128.0.0.1", "[::1"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(Access, HostAndOriginWithoutLogin) {
  TestRouter router;
  EXPECT_EQ(router.Get("/api/things", {{"Host", "evil.example:8082"}}).status(), 403);
  EXPECT_EQ(router.Get("/health", {{"Host", "evil.example"}}).status(), 403);
  const auto origin = [&](std::string from) {
    return router.Get("/api/things", {{"Host", "localhost:8082"}, {"Origin", std::move(from)}})
        .status();
  };
  EXPECT_EQ(origin("http://localhost:8082"), 200);
  EXPECT_EQ(origin("https://LOCALHOST:8082"), 200);
  for (const char* other : {"http://localhost:3000", "http://127.0.0.1:8082", "http://evil.example",
                            "null", "", "localhost:8082", "ftp://localhost:8082"}) {
    EXPECT_EQ(origin(other), 403) << other;
  }
  EXPECT_EQ(router.Get("/api/things", {{"Sec-Fetch-Site", "cross-site"}}).status(), 403);
  EXPECT_EQ(router.Get("/api/things", {{"Sec-Fetch-Site", "same-origin"}}).status(), 200);
  const HeaderList visit = {{"Sec-Fetch-Site", "cross-site"},
                            {"Sec-Fetch-Mode", "navigate"},
                            {"Sec-Fetch-Dest", "document"}};
  EXPECT_EQ(router.Get("/api/things", visit).status(), 403);
  EXPECT_EQ(router.Get("/health", visit).status(), 200);
  EXPECT_EQ(router.Ask("OPTIONS", "/api/things", "", {{"Origin", "http://evil.example"}}).status(),
            403);
}

TEST(Access, AnyHostOnRequest) {
  TestRouter router({.any_host = true});
  EXPECT_EQ(router.Get("/api/things", {{"Host", "build.example"}}).status(), 200);
  EXPECT_EQ(
      router.Get("/api/things", {{"Host", "build.example"}, {"Origin", "http://other.example"}})
          .status(),
      403);
}

// ---- who calls

TEST(Access, InternalToken) {
  TestRouter unset;
  EXPECT_EQ(unset.Post("/api/internal/do", "{}", {{"Authorization", "Bearer x"}}).status(), 503);
  TestRouter router({.internal_token = "inner"});
  const auto with = [&](std::string header) {
    return router.Post("/api/internal/do", "{}", {{"Authorization", std::move(header)}}).status();
  };
  EXPECT_EQ(with("Bearer inner"), 200);
  EXPECT_EQ(with("bearer inner"), 200);
  EXPECT_EQ(with("BEARER  inner "), 200);
  for (const char* bad : {"", "Bearer", "Bearer ", "Bearer outer", "Basic inner", "inner",
                          "Bearer inner2", "Bearer inne"}) {
    EXPECT_EQ(with(bad), 403) << bad;
  }
  EXPECT_EQ(router.Post("/api/internal/do", "{}").status(), 403);
  // Before the body: broken JSON of somebody who may not is not looked at.
  EXPECT_EQ(router.Post("/api/internal/do", "{").status(), 403);
  EXPECT_EQ(router.Post("/api/internal/do", "x", {{"Content-Type", "text/plain"}}).status(), 403);
  EXPECT_EQ(router.Post("/api/internal/do", "{", {{"Authorization", "Bearer inner"}}).status(),
            400);
}

TEST(Access, Login) {
  TestRouter router({.login = true, .internal_token = "inner", .api_token = "outer"});
  const Asked nobody = router.Get("/api/things");
  EXPECT_EQ(nobody.status(), 401);
  EXPECT_EQ(nobody.header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(router.Get("/health").status(), 200);
  EXPECT_EQ(router.Get("/health", {{"Host", "any.example"}}).status(), 200);
  EXPECT_EQ(router.Get("/api/things", {{"Authorization", "Bearer outer"}}).status(), 200);
  EXPECT_EQ(router.Get("/api/things", {{"X-Session-Token", "outer"}}).status(), 200);
  EXPECT_EQ(router.Get("/api/things", {{"Authorization", "Bearer inner"}}).status(), 200);
  EXPECT_EQ(router.Get("/api/things", {{"Authorization", "Bearer wrong"}}).status(), 401);
  EXPECT_EQ(router.Get("/api/things", {{"Authorization", "Bearer "}}).status(), 401);
  EXPECT_EQ(router.Get("/api/things", {{"X-Session-Token", ""}}).status(), 401);
  EXPECT_EQ(router.Post("/api/internal/do", "{}", {{"Authorization", "Bearer outer"}}).status(),
            403);
  EXPECT_EQ(router.Ask("DELETE", "/api/things/special").status(), 401);
  const Session session = router.services.parts->sessions.Open();
  EXPECT_EQ(router.Get("/api/things", {{"Authorization", "Bearer " + session.token}}).status(),
            200);
  router.clock.Advance(Sessions::kLifeUs);
  EXPECT_EQ(router.Get("/api/things", {{"Authorization", "Bearer " + session.token}}).status(),
            401);
}

TEST(Access, LoginWithoutATokenLetsNobodyIn) {
  TestRouter router({.login = true});
  EXPECT_EQ(router.Get("/api/things", {{"Authorization", "Bearer "}}).status(), 401);
  EXPECT_EQ(router.Get("/api/things").status(), 401);
}

TEST(Access, Cors) {
  const std::string page = "https://page.example";
  TestRouter router({.login = true, .api_token = "outer", .origins = {page}});
  const Asked preflight = router.Ask("OPTIONS", "/api/things", "", {{"Origin", page}});
  EXPECT_EQ(preflight.status(), 204);
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), page);
  EXPECT_EQ(preflight.header("Access-Control-Allow-Methods"), "GET, HEAD, POST, OPTIONS");
  const Asked get =
      router.Get("/api/things", {{"Origin", page}, {"Authorization", "Bearer outer"}});
  EXPECT_EQ(get.header("Access-Control-Allow-Origin"), page);
  EXPECT_EQ(get.header("Vary"), "Origin");
  // A page must be able to read why it was refused.
  EXPECT_EQ(router.Get("/api/things", {{"Origin", page}}).header("Access-Control-Allow-Origin"),
            page);
  const Asked other =
      router.Ask("OPTIONS", "/api/things", "", {{"Origin", "https://evil.example"}});
  EXPECT_EQ(other.status(), 204);
  EXPECT_FALSE(other.response.headers.Has("Access-Control-Allow-Origin"));
  EXPECT_EQ(router.Ask("OPTIONS", "/api/nothing").status(), 404);
  TestRouter open({.origins = {page}});
  EXPECT_EQ(open.Ask("OPTIONS", "/api/things", "", {{"Origin", page}}).status(), 403);
}

TEST(Sessions, AreBounded) {
  ManualClock clock(1'000'000);
  Sessions sessions(&clock);
  const std::string first = sessions.Open().token;
  EXPECT_EQ(first.size(), 64u);
  clock.Advance(1);
  for (std::size_t i = 1; i < Sessions::kCountMax; ++i) sessions.Open();
  EXPECT_TRUE(sessions.Find(first).has_value());
  const std::string last = sessions.Open().token;
  EXPECT_EQ(sessions.size(), Sessions::kCountMax);
  EXPECT_FALSE(sessions.Find(first).has_value());
  EXPECT_TRUE(sessions.Find(last).has_value());
  sessions.Close(last);
  EXPECT_FALSE(sessions.Find(last).has_value());
  EXPECT_FALSE(sessions.Find("").has_value());
}

// ---- records

TEST(Router, CountsByTemplate) {
  TestRouter router;
  router.Get("/api/things/1");
  router.Get("/api/things/2");
  router.Get("/api/nothing/here");
  router.Ask("BREW", "/api/nothing/here");
  const std::string text = router.metrics.Expose();
  for (std::string_view line :
       {R"(noetl_http_requests_total{code="200",method="GET",route="/api/things/{id}"} 2)",
        R"(noetl_http_requests_total{code="404",method="GET",route="other"} 1)",
        R"(noetl_http_requests_total{code="404",method="other",route="other"} 1)",
        R"(noetl_http_request_duration_seconds_count{route="/api/things/{id}"} 2)"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Router, LogsEveryRequest) {
  std::ostringstream log;
  ConfigureLog({.level = LogLevel::kDebug, .stream = &log});
  TestRouter router;
  router.Get("/api/things/1");
  ConfigureLog({});
  EXPECT_NE(log.str().find(R"(DEBUG request method=GET route="/api/things/{id}" status=200)"),
            std::string::npos)
      << log.str();
  EXPECT_NE(log.str().find("request_id=test-request peer=127.0.0.1"), std::string::npos);
}

TEST(Router, LogsFaultsAndSlowRequestsForPeople) {
  std::ostringstream log;
  ConfigureLog({.stream = &log});
  TestRouter router;
  router.Get("/api/things/1");
  EXPECT_EQ(log.str(), "");
  Request slow = MakeRequest("GET", "/api/things/2");
  slow.received_us = router.clock.MonotonicMicros();
  router.clock.Advance(2'000'000);
  router.Ask(std::move(slow));
  router.Get("/api/forget");
  ConfigureLog({});
  EXPECT_NE(
      log.str().find(R"(INFO request method=GET route="/api/things/{id}" status=200 ms=2000)"),
      std::string::npos)
      << log.str();
  EXPECT_NE(log.str().find("route=/api/forget status=500"), std::string::npos);
}

TEST(Router, MetricsCanBeOff) {
  TestRouter router({.metrics = false});
  EXPECT_EQ(router.Get("/metrics").status(), 404);
}

TEST(Background, RefusesWhenTooMuchWaits) {
  Background background;
  std::mutex gate;
  gate.lock();
  int ran = 0;
  Background::Task first = [&] { const std::lock_guard lock(gate); };
  ASSERT_TRUE(background.Post(first));
  std::size_t taken = 0;
  for (;;) {
    Background::Task task = [&] { ++ran; };
    if (!background.Post(task)) {
      EXPECT_TRUE(task) << "a task that was refused is still the caller's";
      break;
    }
    ++taken;
  }
  EXPECT_GE(taken, Background::kWaitingMax - 1);
  EXPECT_LE(taken, Background::kWaitingMax);
  gate.unlock();
  background.Stop();
  Background::Task late = [] {};
  EXPECT_FALSE(background.Post(late));
}

}  // namespace
}  // namespace noetl::api
