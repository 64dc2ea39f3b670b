// Addresses of HTTP requests: reading, joining, writing. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace noetl::worker {

struct HttpUrl {
  std::string text;    // without user, password and fragment
  std::string origin;  // "https://host:port", lower case, the port always given
  std::string host;    // without the brackets of an IPv6 address
  std::string user;
  std::string password;
};

// An absolute http or https address. Error "config" that says what is wrong with it.
Result<HttpUrl> ParseHttpUrl(std::string_view text);
// Where a redirect from `base` to `location` leads.
Result<HttpUrl> JoinHttpUrl(const std::string& base, const std::string& location);

// Adds "a=b&c=d" to the query of an address.
std::string WithQuery(std::string_view url, std::string_view query);

}  // namespace noetl::worker
