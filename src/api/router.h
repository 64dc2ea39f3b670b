// From a request to its route: matching, who may call, body checks, the error envelope, request
// logs and metrics.
//
// Literal segments win over parameters. A known path with another method is 405 with Allow; HEAD is
// GET. Without login (loopback) the Host must be a loopback name and an Origin must be our own. Any
// thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "api/route.h"
#include "api/services.h"
#include "base/result.h"

namespace noetl::api {

struct RouterOptions {
  // Without tokens everybody on loopback is an administrator.
  bool login = false;
  // Without login on an address that is not loopback, by the wish of the user: any Host will do.
  bool any_host = false;
  std::string internal_token;        // NOETL_INTERNAL_API_TOKEN; empty: internal routes answer 503
  std::string api_token;             // NOETL_API_TOKEN: administrator
  std::vector<std::string> origins;  // allowed besides our own, when login is on
  bool metrics = true;               // whether /metrics is there
  bool sql = false;                  // whether SQL may be sent
};

class Router final : public HttpHandler {
 public:
  // All families. `services` outlives the router, which fills in its `parts`.
  Router(RouterOptions options, Services* services);
  // These families only, for tests.
  Router(RouterOptions options, Services* services,
         std::span<const std::span<const Route>> families);
  ~Router() override;

  Admission Admit(const Request& head) override;
  void Handle(std::shared_ptr<Exchange> exchange) override;
  Response Malformed(int status, std::string_view what, std::string_view request_id) override;

  // Every route, in the order of the document.
  std::span<const Route* const> routes() const;
  // OpenAPI 3.1 of the table.
  const Json& OpenApi() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace noetl::api
