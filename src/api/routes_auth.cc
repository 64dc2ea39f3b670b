// Sessions: a token becomes a session, a session is looked at.
//
// These routes answer 200 with the outcome in the body: gateways and pages read it there.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/handle.h"
#include "api/route.h"
#include "api/router_parts.h"
#include "base/crypto.h"

namespace noetl::api {

namespace {

constexpr std::string_view kActions[] = {"execute", "view", "modify"};

const RouterOptions& OptionsOf(const Call& call) { return call.services().parts->options; }

// There is one kind of user until OIDC names them: who has the token, or who sits at the machine.
Json UserOf(const Call& call) {
  const bool login = OptionsOf(call).login;
  return Json::Object({{"user_id", 1},
                       {"email", login ? "admin@localhost" : "local@localhost"},
                       {"display_name", login ? "admin" : "local"},
                       {"roles", Json::Array({"admin"})}});
}

// Null: the token is worth nothing. Else when it ends; 0: never.
std::optional<std::int64_t> EndOf(const Call& call, std::string_view token) {
  const RouterOptions& options = OptionsOf(call);
  if (!options.login) return 0;
  if (!options.api_token.empty() && crypto::SameBytes(token, options.api_token)) return 0;
  const auto session = call.services().parts->sessions.Find(token);
  if (!session) return std::nullopt;
  return session->expires_at_us;
}

void Count(const Call& call, std::string_view operation, std::string_view outcome) {
  MetricsOf(call.services()).auth_sync.Add({operation, outcome});
}

Json Problem(std::string_view error, std::string_view message) {
  return Json::Object(
      {{"status", "error"}, {"data", Json::Object({{"error", error}, {"message", message}})}});
}

// ---- login

Result<Json> Login(Call& call) {
  NOETL_TRY(NeedMap(call.body()));
  NOETL_ASSIGN(std::string token, OptionalText(call.body(), "auth0_token"));
  if (token.empty()) {
    NOETL_ASSIGN(token, OptionalText(call.body(), "token"));
  }
  const crypto::WipeAtEnd wipe(token);
  const RouterOptions& options = OptionsOf(call);
  const bool known = !options.api_token.empty() && crypto::SameBytes(token, options.api_token);
  if (options.login && !known) {
    Count(call, "login", "denied");
    if (token.empty()) return Problem("token missing", "login refused: send `token`");
    return Problem(
        "token not accepted",
        "login refused: this server knows only its API token; logins of an OIDC provider "
        "are not available yet");
  }
  Count(call, "login", "granted");
  const Session session = call.services().parts->sessions.Open();
  const Json user = UserOf(call);
  const Json expires = TimeOrNull(session.expires_at_us);
  // Gateways read `data`, pages the top.
  return Json::Object({{"status", "success"},
                       {"data", Json::Object({{"status", "authenticated"},
                                              {"session_token", session.token},
                                              {"user", user},
                                              {"expires_at", expires}})},
                       {"session_token", session.token},
                       {"user", user},
                       {"expires_at", expires}});
}

// ---- validate

Result<Json> Validate(Call& call) {
  NOETL_TRY(NeedMap(call.body()));
  NOETL_ASSIGN(const std::string token, OptionalText(call.body(), "session_token"));
  const std::optional<std::int64_t> end = EndOf(call, token);
  Count(call, "validate", end ? "granted" : "denied");
  if (!end) {
    return Json::Object(
        {{"status", "ok"}, {"valid", false}, {"error", "the session is unknown or has ended"}});
  }
  JsonObjectBuilder answer;
  answer.Add("status", "ok").Add("valid", true).Add("user", UserOf(call));
  answer.AddSome("expires_at", TimeOrNull(*end));
  return answer.Build();
}

// ---- access to a playbook

Json Decision(bool allowed, std::string_view message, const Json& user) {
  JsonObjectBuilder data;
  data.Add("allowed", allowed).Add("message", message);
  if (allowed) data.Add("user", user.Without("roles"));
  return Json::Object({{"status", "success"}, {"data", data.Build()}, {"allowed", allowed}});
}

Result<Json> CheckAccess(Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  NOETL_ASSIGN(const std::string token, OptionalText(body, "session_token"));
  NOETL_ASSIGN(const std::string path, TextMember(body, "playbook_path"));
  NOETL_ASSIGN(std::string action, OptionalText(body, "action"));
  if (action.empty()) {
    NOETL_ASSIGN(action, OptionalText(body, "permission_type", "execute"));
  }
  const bool known = std::ranges::find(kActions, action) != std::end(kActions);
  const bool live = EndOf(call, token).has_value();
  Count(call, "check_access", known && live ? "granted" : "denied");
  if (!known) return Decision(false, "the action is not execute, view or modify", Json());
  if (!live) return Decision(false, "the session is unknown or has ended", Json());
  return Decision(true, "granted", UserOf(call));
}

// ---- the table

constexpr std::string_view kLoginExample =
    R"({"status":"success","data":{"status":"authenticated","session_token":"0f3c",
        "user":{"user_id":1,"email":"admin@localhost","display_name":"admin","roles":["admin"]},
        "expires_at":"2026-06-19T12:00:00.000000Z"},"session_token":"0f3c",
        "user":{"user_id":1,"email":"admin@localhost","display_name":"admin","roles":["admin"]},
        "expires_at":"2026-06-19T12:00:00.000000Z"})";
constexpr std::string_view kValidateExample =
    R"({"status":"ok","valid":true,"user":{"user_id":1,"email":"admin@localhost",
        "display_name":"admin","roles":["admin"]},"expires_at":"2026-06-19T12:00:00.000000Z"})";
constexpr std::string_view kAccessExample =
    R"({"status":"success","data":{"allowed":true,"message":"granted","user":{"user_id":1,
        "email":"admin@localhost","display_name":"admin"}},"allowed":true})";

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/auth/login",
     .family = "auth",
     .summary = "A session for a token; what went wrong is in the body",
     .scope = Scope::kOpen,
     .body = BodyKind::kJson,
     .body_max = kBodyNone,
     .handle = Now<Login>,
     .request = R"({"token":"the API token"})",
     .response = kLoginExample},
    {.method = "POST",
     .path = "/api/auth/session/validate",
     .family = "auth",
     .summary = "Whether a session is good, and whose it is",
     .scope = Scope::kOpen,
     .body = BodyKind::kJson,
     .body_max = kBodyNone,
     .handle = Now<Validate>,
     .request = R"({"session_token":"0f3c"})",
     .response = kValidateExample},
    {.method = "POST",
     .path = "/api/auth/validate",
     .family = "auth",
     .summary = "The same as session/validate",
     .scope = Scope::kOpen,
     .body = BodyKind::kJson,
     .body_max = kBodyNone,
     .handle = Now<Validate>,
     .request = R"({"session_token":"0f3c"})",
     .response = kValidateExample},
    {.method = "POST",
     .path = "/api/auth/check-playbook-access",
     .family = "auth",
     .summary = "Whether a session may execute, view or modify a playbook",
     .scope = Scope::kOpen,
     .body = BodyKind::kJson,
     .body_max = kBodyNone,
     .handle = Now<CheckAccess>,
     .request = R"({"session_token":"0f3c","playbook_path":"demo/hello","action":"execute"})",
     .response = kAccessExample},
    {.method = "POST",
     .path = "/api/auth/check-access",
     .family = "auth",
     .summary = "The same as check-playbook-access, with permission_type",
     .scope = Scope::kOpen,
     .body = BodyKind::kJson,
     .body_max = kBodyNone,
     .handle = Now<CheckAccess>,
     .request =
         R"({"session_token":"0f3c","playbook_path":"demo/hello","permission_type":"execute"})",
     .response = kAccessExample},
};

}  // namespace

std::span<const Route> AuthRoutes() { return kRoutes; }

}  // namespace noetl::api
