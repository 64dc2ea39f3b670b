// One server for one command: requests that wait for their answers, and streams of events.
//
// A client knows the base address, the token and the TLS files. Errors have code
// "server_unreachable" (nobody answers; the message has the address and a way out),
// "session_expired" (401), or "http_404" and so on with the server's own words. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace noetl::cli {

struct HttpOptions {
  std::string base_url;         // "http://10.0.0.5:8082"
  std::string prefix = "/api";  // "/noetl" behind a gateway
  std::string token;            // empty: none is sent
  std::string authorities;      // files, all may be empty
  std::string certificate;
  std::string key;
  std::int64_t connect_ms = 10'000;
  std::int64_t answer_ms = 120'000;
};

struct HttpAnswer {
  int status = 0;
  Json body;         // null when there is none, or it is no JSON
  std::string text;  // as it came
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  bool ok() const { return status >= 200 && status < 300; }
};

// One message of a stream of server-sent events.
struct SseMessage {
  std::string type;  // "message" when it has none
  std::string id;
  std::string data;
};

// Cuts a stream of server-sent events into messages. Pure.
class SseReader {
 public:
  // Longer ones are refused: no event of a run is so large.
  static constexpr std::size_t kMessageBytesMax = 64u << 20;

  using Use = std::function<bool(const SseMessage&)>;
  // Gives what is whole to `use`; false when that said stop, or a message is too large.
  bool Feed(std::string_view text, const Use& use);
  const std::string& last_id() const { return last_id_; }

 private:
  bool TakeLine(std::string_view line, const Use& use);

  std::string line_;
  bool after_cr_ = false;
  bool has_data_ = false;
  SseMessage message_;
  std::string last_id_;
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  const std::string& base_url() const { return options_.base_url; }
  // To make another client for the same server, for requests while a stream is open.
  const HttpOptions& options() const { return options_; }

  // The body of a good answer. `path` comes after the prefix: "/executions/5?limit=1".
  Result<Json> Get(const std::string& path);
  Result<Json> Post(const std::string& path, const Json& body);
  Result<Json> Delete(const std::string& path);

  // Any answer; only a server that cannot be reached is an error. `body` null: none.
  Result<HttpAnswer> Call(const std::string& method, const std::string& path,
                          const Json& body = {});
  // The error that an answer means.
  Error Refusal(const HttpAnswer& answer) const;

  // Follows a stream until `use` says stop (false), the server ends it, or `tick` (called about once
  // a second and after each piece) says stop. A stream that breaks off is "stream_broken" when it
  // had begun, and the errors of other calls before.
  Status Stream(const std::string& path, const std::string& last_event_id,
                const SseReader::Use& use, const std::function<bool()>& tick);

  // While a request waits, asked about once a second: true gives it up with "interrupted".
  void InterruptWhen(std::function<bool()> asked) { interrupted_ = std::move(asked); }
  // Paths outside of the prefix begin here: "/api/auth/login" on a gateway.
  Result<Json> GetAbsolute(const std::string& path);
  Result<Json> PostAbsolute(const std::string& path, const Json& body);

 private:
  struct Transfer;
  void Prepare(Transfer& transfer, const std::string& method, const std::string& url);
  Result<HttpAnswer> Perform(const std::string& method, const std::string& url, const Json& body);
  // `code` is the CURLcode of a transfer that did not get an answer.
  Error Unreachable(int code, const Transfer& transfer) const;
  Result<Json> Body(Result<HttpAnswer> answer) const;

  HttpOptions options_;
  std::function<bool()> interrupted_;
  void* handle_;  // CURL*
};

}  // namespace noetl::cli
