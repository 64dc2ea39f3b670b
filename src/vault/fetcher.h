// One HTTP request, for keychain entries whose secret lives elsewhere.
//
// The seam between the keychain and the network: tests put a fake behind it, the server CurlFetcher
// (curl_fetcher.h). Requests and answers hold secrets: an implementation logs neither and puts
// neither into an error. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace noetl::vault {

struct FetchRequest {
  std::string method = "GET";
  std::string url;  // http or https
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // A file of authorities to trust instead of the system's; empty: the system's.
  std::string authorities;
};

struct FetchReply {
  int status = 0;
  std::string body;
};

class Fetcher {
 public:
  using Done = std::move_only_function<void(Result<FetchReply>)>;

  virtual ~Fetcher() = default;
  // `done` is called once, from any thread, maybe before this returns. Any status is an answer;
  // error "fetch": there was none. Redirects are answers too: a secret stays with its origin.
  virtual void Fetch(FetchRequest request, Done done) = 0;
};

}  // namespace noetl::vault
