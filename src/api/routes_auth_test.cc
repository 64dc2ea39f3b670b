#include <gtest/gtest.h>

#include "api/metrics.h"
#include "api/sessions.h"
#include "api/testing.h"
#include "base/testing.h"

namespace noetl::api {
namespace {

struct AuthApi : TestApi {
  explicit AuthApi(RouterOptions options = {.login = true, .api_token = "outer"})
      : TestApi({.router = std::move(options), .families = {AuthRoutes(), SystemRoutes()}}) {}

  std::string Login(std::string_view token) {
    const Json body = Json::Object({{"token", token}});
    return Post("/api/auth/login", WriteJson(body)).body["session_token"].ToString();
  }
};

TEST(AuthRoutes, LoginWithTheToken) {
  AuthApi api;
  for (const char* member : {"token", "auth0_token"}) {
    const Asked asked = api.Post("/api/auth/login", WriteJson(Json::Object({{member, "outer"}})));
    EXPECT_EQ(asked.status(), 200);
    EXPECT_EQ(asked.body["status"], Json("success"));
    EXPECT_EQ(asked.body["data"]["status"], Json("authenticated"));
    EXPECT_EQ(asked.body["data"]["session_token"].AsString().size(), 64u);
    EXPECT_EQ(asked.body["session_token"], asked.body["data"]["session_token"]);
    EXPECT_EQ(asked.body["user"]["roles"], Parse(R"(["admin"])"));
    EXPECT_EQ(asked.body["expires_at"], Json("2026-01-02T00:00:12.000000Z"));
  }
  EXPECT_EQ(MetricsOf(api.services).auth_sync.value({"login", "granted"}), 2);
}

TEST(AuthRoutes, LoginRefused) {
  AuthApi api;
  for (const char* body : {R"({"token":"wrong"})", R"({"auth0_token":"eyJ.x.y"})", "{}",
                           R"({"token":""})", R"({"token":null})"}) {
    const Asked asked = api.Post("/api/auth/login", body);
    EXPECT_EQ(asked.status(), 200) << body;
    EXPECT_EQ(asked.body["status"], Json("error")) << body;
    EXPECT_TRUE(asked.body["data"]["error"].is_string());
    EXPECT_TRUE(asked.body["data"]["message"].is_string());
    EXPECT_FALSE(asked.body.Has("session_token"));
  }
  for (const char* body : {"[]", R"({"token":5})", R"("outer")"}) {
    EXPECT_EQ(api.Post("/api/auth/login", body).status(), 422) << body;
  }
  EXPECT_EQ(api.Post("/api/auth/login", "{").status(), 400);
  EXPECT_EQ(api.Post("/api/auth/login", std::string(kBodyNone + 1, ' ')).status(), 413);
}

TEST(AuthRoutes, SessionsOpenTheApi) {
  AuthApi api;
  EXPECT_EQ(api.Get("/api/version").status(), 401);
  const std::string session = api.Login("outer");
  EXPECT_EQ(api.Get("/api/version", {{"Authorization", "Bearer " + session}}).status(), 200);
  EXPECT_EQ(api.Get("/api/version", {{"X-Session-Token", session}}).status(), 200);
}

TEST(AuthRoutes, Validate) {
  AuthApi api;
  const std::string session = api.Login("outer");
  for (const char* path : {"/api/auth/validate", "/api/auth/session/validate"}) {
    const auto validate = [&](std::string_view token) {
      return api.Post(path, WriteJson(Json::Object({{"session_token", token}}))).body;
    };
    EXPECT_EQ(validate(session)["valid"], Json(true));
    EXPECT_EQ(validate(session)["user"]["display_name"], Json("admin"));
    EXPECT_TRUE(validate(session).Has("expires_at"));
    EXPECT_EQ(validate("outer")["valid"], Json(true));
    EXPECT_FALSE(validate("outer").Has("expires_at"));
    EXPECT_EQ(validate("wrong")["valid"], Json(false));
    EXPECT_EQ(validate("")["valid"], Json(false));
    EXPECT_EQ(api.Post(path, R"({"session_token":5})").status(), 422);
  }
  api.clock.Advance(Sessions::kLifeUs);
  EXPECT_EQ(
      api.Post("/api/auth/validate", R"({"session_token":")" + session + R"("})").body["valid"],
      Json(false));
}

TEST(AuthRoutes, CheckAccess) {
  AuthApi api;
  const std::string session = api.Login("outer");
  const auto check = [&](std::string_view token, std::string_view member, std::string_view action,
                         const char* path = "/api/auth/check-playbook-access") {
    return api
        .Post(path, WriteJson(Json::Object(
                        {{"session_token", token}, {"playbook_path", "demo/x"}, {member, action}})))
        .body;
  };
  const Json granted = check(session, "action", "execute");
  EXPECT_EQ(granted["status"], Json("success"));
  EXPECT_EQ(granted["data"]["allowed"], Json(true));
  EXPECT_EQ(granted["data"]["user"]["user_id"], Json(1));
  EXPECT_EQ(granted["allowed"], Json(true));
  EXPECT_EQ(check(session, "permission_type", "view", "/api/auth/check-access")["allowed"],
            Json(true));
  EXPECT_EQ(check(session, "action", "destroy")["data"]["allowed"], Json(false));
  const Json denied = check("wrong", "action", "execute");
  EXPECT_EQ(denied["data"]["allowed"], Json(false));
  EXPECT_FALSE(denied["data"].Has("user"));
  EXPECT_EQ(api.Post("/api/auth/check-access", R"({"session_token":"x"})").status(), 422);
}

TEST(AuthRoutes, WithoutLoginEverybodyIsLocal) {
  AuthApi api{RouterOptions()};
  const Json valid = api.Post("/api/auth/validate", "{}").body;
  EXPECT_EQ(valid["valid"], Json(true));
  EXPECT_EQ(valid["user"]["display_name"], Json("local"));
  EXPECT_EQ(valid["user"]["roles"], Parse(R"(["admin"])"));
  EXPECT_EQ(api.Post("/api/auth/check-access", R"({"playbook_path":"a"})").body["allowed"],
            Json(true));
  EXPECT_EQ(api.Post("/api/auth/login", "{}").body["user"]["display_name"], Json("local"));
}

}  // namespace
}  // namespace noetl::api
