#include "api/page.h"

#include <fmt/format.h>

#include "api/openapi.h"

namespace noetl::api {

namespace {

constexpr std::string_view kOpening = R"(# HTTP API

This page is printed from the table of routes that the server dispatches with (a test compares them). The same table
is served as OpenAPI 3.1 at `/openapi.json`, with schemas.

## What all routes share

- Bodies are JSON with `Content-Type: application/json`, unless a route says bytes. `Content-Encoding: gzip` is
  accepted; limits count what comes out.
- Ids are 63-bit integers. A request may give any id as a number or as text. Answers have the type that the examples
  show; `?ids=string`, or the header `X-Noetl-Ids: string`, turns every id of an answer into text, for clients that
  would round them.
- Times are RFC 3339 in UTC.
- Unknown members and query parameters are ignored.
- An error is `{"error", "status", "detail", "code", "details"?, "request_id"}`. `code` is a word for programs; 429, 503
  and a claim that somebody else holds (409 `active_claim`) carry `Retry-After`.
- Lists end with the header `X-Next-Cursor` when there is more; give it back as `cursor`.
- `traceparent` and `tracestate` of a request that starts a run go with the run to its workers.

| status | when |
|---|---|
| 400 | broken JSON, a bad id in a path, a bad query |
| 401, 403 | no token, or not enough; another host or origin on loopback |
| 404, 405 | no such thing; no such method (see `Allow`) |
| 409 | the state does not allow it: claimed by another worker, ended, replaced |
| 413, 415 | too large; not JSON |
| 422 | a member is missing or wrong; a playbook with errors, each in `details` |
| 429, 503 | too much at the moment, or the disk cannot be written: come again |

Who may call: `open` anybody; `viewer`, `operator`, `worker`, `admin` by token, and everybody on loopback without login;
`internal` needs `NOETL_INTERNAL_API_TOKEN`.
)";

std::string BodyText(const Route& route) {
  if (route.body == BodyKind::kNone) return "";
  const std::string_view kind = route.body == BodyKind::kRaw        ? "bytes"
                                : route.body == BodyKind::kOptional ? "JSON or nothing"
                                                                    : "JSON";
  return fmt::format(", body: {} up to {} KiB", kind, route.body_max >> 10);
}

std::string RouteText(const Route& route) {
  std::string text = fmt::format("\n### {} {}\n\n{}. For: {}{}.", route.method, route.path,
                                 route.summary, ScopeName(route.scope), BodyText(route));
  std::string_view separator = " Query: ";
  for (const Parameter& parameter : route.query) {
    text +=
        fmt::format("{}`{}` ({}) {}", separator, parameter.name, parameter.type, parameter.meaning);
    separator = "; ";
  }
  text += route.query.empty() ? "\n" : ".\n";
  if (route.request.empty() && route.response.empty()) return text;
  text += "\n```\n";
  if (!route.request.empty()) text += fmt::format("{}\n", route.request);
  if (!route.response.empty()) text += fmt::format("{} {}\n", route.success, route.response);
  return text + "```\n";
}

}  // namespace

std::string HttpApiMarkdown(std::span<const Route* const> routes) {
  std::string text(kOpening);
  std::string_view family;
  for (const Route* route : routes) {
    if (route->family != family) {
      family = route->family;
      text += fmt::format("\n## {}\n", family);
    }
    text += RouteText(*route);
  }
  return text;
}

}  // namespace noetl::api
