// The HTTP/1.1 server: sockets, TLS, limits and timeouts; what requests mean is its handler's.
//
// Keep-alive and pipelined requests are answered in order. A client that sends its header or body too
// slowly, or sends nothing on an idle connection for too long, is closed; so are connections above
// the limit (after a 503). `Stop` closes the listener, lets requests that are being answered finish
// for a while, and ends. Boost stays inside http_server.cc. The server runs threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "api/http.h"
#include "base/result.h"

namespace noetl::api {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  int threads = 1;
  std::size_t connections_max = 20'000;  // or as many as the process has descriptors for
  std::size_t header_bytes_max = 16u << 10;
  std::int64_t header_timeout_ms = 10'000;  // from the first byte to the end of the header
  std::int64_t body_timeout_ms = 60'000;    // without a byte
  std::int64_t idle_timeout_ms = 120'000;   // between requests
  std::int64_t write_timeout_ms = 60'000;   // without a byte taken
  std::int64_t drain_ms = 10'000;           // what Stop waits for answers
  // PEM files; both or none. With a CA, clients must have a certificate of it.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
};

struct HttpServerStats {
  std::size_t connections = 0;
  std::size_t in_flight = 0;  // requests without an answer
  std::uint64_t accepted = 0;
  std::uint64_t turned_away = 0;
};

class HttpServer {
 public:
  // Listens and serves. `handler` outlives the server. "listen": the address cannot be used; "tls":
  // a certificate or key cannot. Messages name the address or file and what to do.
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, HttpHandler* handler);
  virtual ~HttpServer() = default;  // as Stop

  virtual int port() const = 0;
  // No new connection; open requests are answered within drain_ms; streams are closed at once.
  virtual void Stop() = 0;
  virtual HttpServerStats stats() const = 0;
};

}  // namespace noetl::api
