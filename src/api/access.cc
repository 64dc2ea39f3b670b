#include "api/access.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/crypto.h"
#include "base/text.h"

namespace noetl::api {

namespace {

bool IsDigits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "127.1.2.3" and nothing that only looks like it ("127.0.0.1.example.com").
bool IsLoopbackV4(std::string_view host) {
  if (!host.starts_with("127.")) return false;
  int parts = 0;
  while (true) {
    const std::size_t dot = host.find('.');
    const std::string_view part = host.substr(0, dot);
    if (part.empty() || part.size() > 3 || !IsDigits(part)) return false;
    ++parts;
    if (dot == std::string_view::npos) return parts == 4;
    host.remove_prefix(dot + 1);
  }
}

std::string_view WithoutPort(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return host;
    const std::string_view rest = host.substr(end + 1);
    const bool port = rest.empty() || (rest.starts_with(':') && IsDigits(rest.substr(1)));
    return port ? host.substr(1, end - 1) : host;
  }
  const std::size_t colon = host.find(':');
  if (colon == std::string_view::npos || !IsDigits(host.substr(colon + 1))) return host;
  return host.substr(0, colon);
}

// The host and port of "http://host:port".
std::string_view AuthorityOf(std::string_view origin) {
  for (std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return origin.substr(scheme.size());
  }
  return "";
}

// A browser that opens an address from another site's link shows it to the user only; the page may
// be opened that way, the API has no such use.
bool IsPageVisit(const Request& request) {
  return request.method == "GET" && !request.path.starts_with("/api/") &&
         request.headers.Find("Sec-Fetch-Mode") == "navigate" &&
         request.headers.Find("Sec-Fetch-Dest") == "document";
}

bool IsOne(std::string_view given, std::string_view token) {
  return !token.empty() && crypto::SameBytes(given, token);
}

bool IsAdministrator(const RouterOptions& options, const Sessions& sessions,
                     std::string_view token) {
  return !token.empty() && (IsOne(token, options.api_token) || sessions.Find(token).has_value());
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  if (host == "::1") return true;
  const std::string name = ToLower(WithoutPort(host));
  return name == "localhost" || name == "::1" || IsLoopbackV4(name);
}

std::string_view BearerOf(const Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view header = request.headers.Find("Authorization");
  if (header.size() <= kScheme.size()) return "";
  if (ToLower(header.substr(0, kScheme.size())) != kScheme) return "";
  return Trim(header.substr(kScheme.size()));
}

std::optional<Error> CheckPlace(const RouterOptions& options, const Request& request) {
  if (options.login) return std::nullopt;
  const std::string_view host = request.headers.Find("Host");
  if (!options.any_host && !IsLoopbackHost(host)) {
    return Error{"forbidden",
                 fmt::format("this server has no login and answers only as localhost, not as '{}'; "
                             "set NOETL_API_TOKEN to use another name",
                             host)};
  }
  const std::string_view origin = request.headers.Find("Origin");
  if (request.headers.Has("Origin") && ToLower(AuthorityOf(origin)) != ToLower(host)) {
    return Error{"forbidden",
                 fmt::format("pages of '{}' may not call this server, which has no login", origin)};
  }
  if (request.headers.Find("Sec-Fetch-Site") == "cross-site" && !IsPageVisit(request)) {
    return Error{"forbidden", "pages of other sites may not call this server, which has no login"};
  }
  return std::nullopt;
}

Result<Scope> ScopeOf(const RouterOptions& options, const Sessions& sessions, const Route& route,
                      const Request& request) {
  const std::string_view bearer = BearerOf(request);
  if (!bearer.empty() && IsOne(bearer, options.internal_token)) return Scope::kInternal;
  if (route.scope == Scope::kInternal) {
    if (options.internal_token.empty()) {
      return Fail("unavailable",
                  "internal routes are off: set NOETL_INTERNAL_API_TOKEN on the server");
    }
    return Fail("forbidden",
                "internal routes need 'Authorization: Bearer' with NOETL_INTERNAL_API_TOKEN");
  }
  if (!options.login) return Scope::kAdmin;
  if (IsAdministrator(options, sessions, bearer)) return Scope::kAdmin;
  if (IsAdministrator(options, sessions, request.headers.Find("X-Session-Token"))) {
    return Scope::kAdmin;
  }
  if (route.scope == Scope::kOpen) return Scope::kOpen;
  return Fail("unauthorized",
              "log in first: send 'Authorization: Bearer' with the API token or a session token");
}

std::string_view AllowedOrigin(const RouterOptions& options, const Request& request) {
  if (!options.login) return "";
  const std::string_view origin = request.headers.Find("Origin");
  const bool allowed = std::ranges::find(options.origins, origin) != options.origins.end();
  return allowed ? origin : std::string_view();
}

}  // namespace noetl::api
