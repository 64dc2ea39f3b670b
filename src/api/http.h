// Requests and answers of HTTP, free of any library's types.
//
// The server (http_server.h) makes an `Exchange` for each request and hands it to its handler; the
// handler answers once, at once or later, from any thread. An exchange is shared: whoever still has
// to answer holds it. When the client has gone, answers are dropped silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace noetl::api {

// Names are compared in any case; the order is kept.
class Headers {
 public:
  using Entry = std::pair<std::string, std::string>;

  // The first of this name; empty: none.
  std::string_view Find(std::string_view name) const;
  bool Has(std::string_view name) const;
  void Add(std::string name, std::string value);
  // Replaces all of this name.
  void Set(std::string name, std::string value);
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

struct Request {
  std::string method;  // upper case
  std::string target;  // as sent
  std::string path;    // of the target, without the query, percent-encoding left in place
  std::string query;   // after '?', without it
  Headers headers;
  std::string body;  // inflated when it came compressed
  std::string peer;  // address of the client
  std::string id;    // X-Request-Id of the client when it is sane, else a new one
  bool tls = false;
  std::int64_t received_us = 0;  // monotonic
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

// A body that goes on: server-sent events, or a long document in pieces. Any thread.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  // False: the client has gone, or more than kStreamBytesMax wait for it; nothing was added.
  virtual bool Write(std::string text) = 0;
  // Bytes that the client has not taken yet.
  virtual std::size_t waiting() const = 0;
  virtual void Close() = 0;
};
// What may wait for one slow client before its stream refuses more.
inline constexpr std::size_t kStreamBytesMax = 1u << 20;

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  // Once. The server adds Content-Length, Date, X-Request-Id and compresses when the client asks for
  // it and it is worth it.
  virtual void Send(Response response) = 0;
  // Instead of Send: status and headers now, the body as it comes (chunked). `closed` is called
  // once, on any thread, when the client goes away or the stream is closed.
  virtual std::shared_ptr<BodyStream> Stream(Response head,
                                             std::move_only_function<void()> closed) = 0;
  // Whether the client is known to have gone: nobody will read the answer.
  virtual bool gone() const = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Decides from the request line and headers whether the body is read at all: the limit of its
  // bytes (after inflating), or the answer that refuses the request. Called on an I/O thread.
  struct Admission {
    std::size_t body_max = 0;
    std::optional<Response> refusal;
  };
  virtual Admission Admit(const Request& head) = 0;
  // The whole request. Called on an I/O thread: must not block for long.
  virtual void Handle(std::shared_ptr<Exchange> exchange) = 0;
  // The answer to what is no HTTP request, too long, too slow or too large: in our error envelope.
  virtual Response Malformed(int status, std::string_view what, std::string_view request_id) = 0;
};

// Text of a path segment or query value with %XX (and in queries '+') resolved; nullopt: broken
// encoding or invalid UTF-8.
std::optional<std::string> DecodeUrl(std::string_view text, bool query);
// The members of a query in order.
std::vector<std::pair<std::string, std::string>> ParseQuery(std::string_view query);

}  // namespace noetl::api
