// HTTP requests on the event loop.
//
// A client keeps connections open and shares them between its requests. `Start` gives the request
// in progress; `done` is called once, later, from the loop, never from inside `Start`. Destroying a
// call ends it at once: its connection is closed and `done` is never called. Calls may outlive the
// client. Redirects are followed here, so that each hop obeys the policy and secrets stay with
// their origin. Everything belongs to the loop's thread; the loop outlives client and calls.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/event_loop.h"
#include "worker/tools/http_policy.h"

namespace noetl::worker {

inline constexpr std::int64_t kHttpResponseBytesMax = 64 << 20;

struct HttpHeader {
  std::string name;
  std::string value;
  bool secret = false;  // not sent to another origin
};

// One part of a multipart body: `data`, or the file at `path`.
struct HttpPart {
  std::string name;
  std::string data;
  std::string path;
  std::string filename;
  std::string content_type;
};

// Files of a TLS connection, each may be empty: who must have signed the server's certificate, and
// what this side shows.
struct HttpTls {
  std::string authority_file;
  std::string certificate_file;
  std::string key_file;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;           // absolute, valid, without user and password
  std::string secret_query;  // added to the query where it is sent, told nowhere
  std::vector<HttpHeader> headers;
  std::optional<std::string> body;
  std::vector<HttpPart> parts;          // instead of `body`
  std::int64_t timeout_ms = 0;          // of everything, redirects included
  std::int64_t connect_timeout_ms = 0;  // 0: only timeout_ms counts
  std::int64_t read_timeout_ms = 0;     // longest silence of the server; 0: none
  std::int64_t response_bytes_max = kHttpResponseBytesMax;
  bool follow_redirects = true;
  bool verify_tls = true;
  std::shared_ptr<const HttpTls> tls;  // null: the authorities of the system, no certificate
  // Given: gets a body of status 200 as it comes, and the reply has none. Must not end the call.
  std::function<void(std::string_view)> body_piece;
};

struct HttpReply {
  int status = 0;
  // In the order received, names in lower case.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::string url;  // of the last hop
  std::int64_t elapsed_us = 0;
};

// There is no complete answer. Kind and code as in the error table of the tools.
struct HttpFailure {
  std::string_view kind;
  std::string_view code;
  bool retryable = false;
  std::string message;
  // A certificate of either side was not accepted or cannot be read: it will not pass by itself.
  bool certificate = false;
  std::string reason = {};  // the message without its advice; of failed connections only
};

using HttpResult = std::expected<HttpReply, HttpFailure>;

class HttpCall {
 public:
  virtual ~HttpCall() = default;
};

class HttpClient {
 public:
  using Done = std::move_only_function<void(HttpResult)>;

  HttpClient(EventLoop* loop, std::shared_ptr<const HttpPolicy> policy);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  std::unique_ptr<HttpCall> Start(HttpRequest request, Done done);

 private:
  class Multi;
  class Call;
  std::shared_ptr<Multi> multi_;
};

}  // namespace noetl::worker
