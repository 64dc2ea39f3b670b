// Who may call: the checks that need no body.
//
// Without login the server listens on loopback and everybody there is an administrator, so the danger
// is a web page in the user's browser: the Host must be a loopback name and an Origin our own. With
// login a token or a session says who calls. Pure but for the sessions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/http.h"
#include "api/route.h"
#include "api/router.h"
#include "api/sessions.h"
#include "base/result.h"

namespace noetl::api {

// "localhost", 127.0.0.0/8 or ::1, with any port.
bool IsLoopbackHost(std::string_view host);
// The token behind "Bearer", in any case; empty: none.
std::string_view BearerOf(const Request& request);

// Null: nothing speaks against the place this request comes from. Else "forbidden".
std::optional<Error> CheckPlace(const RouterOptions& options, const Request& request);

// What the caller of this route may do. "unauthorized", "forbidden", and "unavailable" when the
// server has no internal token.
Result<Scope> ScopeOf(const RouterOptions& options, const Sessions& sessions, const Route& route,
                      const Request& request);

// The Origin of the request when it is one of the allowed ones (and login is on); empty otherwise.
std::string_view AllowedOrigin(const RouterOptions& options, const Request& request);

}  // namespace noetl::api
