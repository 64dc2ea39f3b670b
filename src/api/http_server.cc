// The listener, TLS files, threads and the end of the HTTP server.
#include "api/http_server.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/resource.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "api/http_connection.h"
#include "base/log.h"
#include "base/random.h"

namespace noetl::api {
namespace inside {

using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, Strand>;

// Deadlines are looked at this often within the shortest timeout, but not more and not less often
// than these.
constexpr std::int64_t kSweepsPerTimeout = 4;
constexpr std::int64_t kSweepMsMin = 5;
constexpr std::int64_t kSweepMsMax = 1'000;
// Connections above the limit that are told so at one time; more are just closed.
constexpr std::size_t kRefusingMax = 64;
// When the process has no descriptor left, the listener waits this long for one.
constexpr std::chrono::milliseconds kAcceptRetry{100};
// What the system keeps of connections until they are accepted.
constexpr int kBacklog = 4'096;
// Descriptors that are left for databases, files and the processes of tools.
constexpr std::size_t kOtherFiles = 512;

// --- Core

Core::Core(HttpServerOptions given, HttpHandler* handler)
    : options(std::move(given)),
      handler(handler),
      io(options.threads),
      id_start_(SystemRandom().Next()) {}

std::string Core::NewRequestId() {
  // Distinct within the process by the counter, between processes by the start; mixed so that
  // neighbours look different.
  std::uint64_t mixed = id_start_ + ids_.fetch_add(1, std::memory_order_relaxed);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  mixed ^= mixed >> 31;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id(16, '0');
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = kDigits[(mixed >> (4 * i)) & 15];
  return id;
}

void Core::Add(Connection* connection, bool above_limit) {
  (above_limit ? refusing : serving).fetch_add(1);
  const std::lock_guard lock(mutex_);
  connection->place_ = connections_.size();
  connections_.push_back(connection);
}

void Core::Remove(Connection* connection, bool above_limit) {
  (above_limit ? refusing : serving).fetch_sub(1);
  const std::lock_guard lock(mutex_);
  Connection* const last = connections_.back();
  last->place_ = connection->place_;
  connections_[connection->place_] = last;
  connections_.pop_back();
  if (connections_.empty()) empty_.notify_all();
}

std::vector<std::shared_ptr<Connection>> Core::Connections() { return Overdue(kNever); }

std::vector<std::shared_ptr<Connection>> Core::Overdue(std::int64_t now_ms) {
  std::vector<std::shared_ptr<Connection>> found;
  const std::lock_guard lock(mutex_);
  for (Connection* connection : connections_) {
    if (!connection->Overdue(now_ms)) continue;
    if (auto held = connection->weak_from_this().lock()) found.push_back(std::move(held));
  }
  return found;
}

bool Core::WaitEmpty(std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                         [&] { return connections_.empty(); });
}

// --- TLS

namespace {

Status TlsError(const std::string& file, std::string_view what, const error_code& error) {
  return Fail("tls", fmt::format("{} cannot be used as {}: {}. Check that the file exists, can be "
                                 "read and is PEM",
                                 file, what, error.message()));
}

// Takes http/1.1 from the client's list. A client that offers only others gets no connection.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned int offered_size, void*) {
  static constexpr unsigned char kOurs[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  const int outcome =
      SSL_select_next_proto(&chosen, out_size, kOurs, sizeof(kOurs), offered, offered_size);
  *out = chosen;
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Status RequireClients(const std::string& file, asio::ssl::context* context) {
  error_code error;
  context->load_verify_file(file, error);
  if (error) return TlsError(file, "the certificate authority of clients", error);
  context->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  if (error) return TlsError(file, "the certificate authority of clients", error);
  SSL_CTX_set_client_CA_list(context->native_handle(), SSL_load_client_CA_file(file.c_str()));
  return {};
}

Result<std::unique_ptr<asio::ssl::context>> LoadTls(const HttpServerOptions& options) {
  std::unique_ptr<asio::ssl::context> context;
  if (options.tls_cert.empty() && options.tls_key.empty()) {
    if (options.tls_client_ca.empty()) return context;
    return Fail("tls", fmt::format("{} asks for certificates of clients, which needs TLS: give a "
                                   "certificate and its key too",
                                   options.tls_client_ca));
  }
  if (options.tls_cert.empty() || options.tls_key.empty()) {
    return Fail("tls", fmt::format("TLS needs a certificate and its key; only {} was given",
                                   options.tls_cert + options.tls_key));
  }
  context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION);
  // Idle connections keep no record buffers.
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  static constexpr unsigned char kSessions[] = "noetl";
  SSL_CTX_set_session_id_context(native, kSessions, sizeof(kSessions) - 1);
  SSL_CTX_set_alpn_select_cb(native, SelectProtocol, nullptr);
  error_code error;
  context->use_certificate_chain_file(options.tls_cert, error);
  if (error) return std::unexpected(TlsError(options.tls_cert, "a certificate", error).error());
  context->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  if (error) {
    // OpenSSL also refuses here when key and certificate do not match.
    return std::unexpected(
        TlsError(options.tls_key, "the key of " + options.tls_cert, error).error());
  }
  if (!options.tls_client_ca.empty()) {
    NOETL_TRY(RequireClients(options.tls_client_ca, context.get()));
  }
  return context;
}

// --- Listening

std::string_view ListenAdvice(const error_code& error) {
  if (error == asio::error::address_in_use) {
    return "another program listens there: stop it or choose another port";
  }
  if (error == asio::error::access_denied) {
    return "ports below 1024 need privileges: choose another port";
  }
  return "choose an address of this machine";
}

Status ListenError(const HttpServerOptions& options, const error_code& error) {
  return Fail("listen", fmt::format("cannot listen on {} port {}: {}; {}", options.host,
                                    options.port, error.message(), ListenAdvice(error)));
}

// The addresses that a host means. For localhost both families.
std::vector<asio::ip::address> Resolve(std::string_view host, asio::io_context* io,
                                       error_code* error) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") {
    return {asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
  }
  const auto literal = asio::ip::make_address(std::string(host), *error);
  if (!*error) return {literal};
  asio::ip::tcp::resolver resolver(*io);
  std::vector<asio::ip::address> addresses;
  for (const auto& entry : resolver.resolve(std::string(host), "", *error)) {
    const auto address = entry.endpoint().address();
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  }
  return addresses;
}

// How many connections the process has descriptors for. It takes all that the system grants it: the
// usual soft limit, 1,024, is for programs that use select().
std::size_t ConnectionsPossible() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kOtherFiles;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  const auto files = static_cast<std::size_t>(limit.rlim_cur);
  return files > 2 * kOtherFiles ? files - kOtherFiles : std::max<std::size_t>(files / 2, 1);
}

error_code Bind(Acceptor* acceptor, const asio::ip::tcp::endpoint& endpoint) {
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(kBacklog, error);
  return error;
}

}  // namespace

// --- The server

class Server final : public HttpServer {
 public:
  explicit Server(std::shared_ptr<Core> core)
      : core_(std::move(core)),
        control_(asio::make_strand(core_->io)),
        sweeper_(control_),
        work_(asio::make_work_guard(core_->io)) {}
  ~Server() override { Stop(); }

  Status Listen();
  void Serve();

  int port() const override { return port_; }
  void Stop() override {
    std::call_once(stopped_, [this] { StopOnce(); });
  }
  HttpServerStats stats() const override {
    return {.connections = core_->serving.load(),
            .in_flight = core_->in_flight.load(),
            .accepted = core_->accepted.load(),
            .turned_away = core_->turned_away.load()};
  }

 private:
  Task<void> Accept(Acceptor* acceptor);
  void Take(Socket socket);
  void Sweep();
  std::int64_t SweepMs() const;
  void StopOnce();

  const std::shared_ptr<Core> core_;
  const Strand control_;  // listeners and the sweeper live here
  Timer sweeper_;
  bool sweeping_ = false;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  int port_ = 0;
  std::vector<std::thread> threads_;
  std::once_flag stopped_;
};

Status Server::Listen() {
  const HttpServerOptions& options = core_->options;
  error_code error;
  const auto addresses = Resolve(options.host, &core_->io, &error);
  if (addresses.empty()) return ListenError(options, error);
  port_ = options.port;
  for (const auto& address : addresses) {
    auto acceptor = std::make_unique<Acceptor>(control_);
    error = Bind(acceptor.get(), {address, static_cast<std::uint16_t>(port_)});
    if (error) {
      // Of a name with several addresses the first must work: a machine may lack a family.
      if (acceptors_.empty()) return ListenError(options, error);
      continue;
    }
    port_ = acceptor->local_endpoint(error).port();
    acceptors_.push_back(std::move(acceptor));
  }
  return {};
}

void Server::Serve() {
  for (const auto& acceptor : acceptors_) {
    asio::co_spawn(control_, Accept(acceptor.get()), asio::detached);
  }
  for (int i = 0; i < std::max(core_->options.threads, 1); ++i) {
    threads_.emplace_back([io = &core_->io] {
      pthread_setname_np(pthread_self(), "http");
      io->run();
    });
  }
}

Task<void> Server::Accept(Acceptor* acceptor) {
  Timer pause(control_);
  while (!core_->stopping) {
    auto [error, socket] = co_await acceptor->async_accept(asio::make_strand(core_->io),
                                                           asio::as_tuple(asio::deferred));
    if (core_->stopping || !acceptor->is_open()) co_return;
    if (!error) {
      Take(std::move(socket));
    } else if (error != asio::error::connection_aborted) {
      LogWarn("no connection can be accepted", {{"error", Json(error.message())}});
      pause.expires_after(kAcceptRetry);
      co_await pause.async_wait(asio::as_tuple(asio::deferred));
    }
  }
}

void Server::Take(Socket socket) {
  core_->accepted.fetch_add(1, std::memory_order_relaxed);
  const bool above_limit = core_->serving >= core_->options.connections_max;
  if (above_limit) {
    core_->turned_away.fetch_add(1, std::memory_order_relaxed);
    if (core_->refusing >= kRefusingMax) return;
  }
  const auto connection = std::make_shared<Connection>(core_, std::move(socket), above_limit);
  core_->Add(connection.get(), above_limit);
  connection->Start();
  if (!sweeping_) Sweep();
}

std::int64_t Server::SweepMs() const {
  const HttpServerOptions& options = core_->options;
  const std::int64_t shortest = std::min({options.header_timeout_ms, options.body_timeout_ms,
                                          options.idle_timeout_ms, options.write_timeout_ms});
  return std::clamp(shortest / kSweepsPerTimeout, kSweepMsMin, kSweepMsMax);
}

// One timer for all connections: setting a deadline is a store, and nothing runs without connections.
void Server::Sweep() {
  for (const auto& connection : core_->Overdue(NowMs())) {
    connection->Post(&Connection::CheckDeadlines);
  }
  sweeping_ = core_->serving + core_->refusing > 0;
  if (!sweeping_) return;
  sweeper_.expires_after(std::chrono::milliseconds(SweepMs()));
  sweeper_.async_wait([this](const error_code& error) {
    if (error) {
      sweeping_ = false;
    } else {
      Sweep();
    }
  });
}

void Server::StopOnce() {
  core_->stopping = true;
  if (threads_.empty()) return;  // never served
  std::promise<void> closed;
  asio::post(control_, [&] {
    error_code ignored;
    for (const auto& acceptor : acceptors_) acceptor->close(ignored);
    closed.set_value();
  });
  closed.get_future().wait();
  for (const auto& connection : core_->Connections()) connection->Post(&Connection::OnStop);
  if (!core_->WaitEmpty(core_->options.drain_ms)) {
    for (const auto& connection : core_->Connections()) connection->Post(&Connection::Abort);
  }
  asio::post(control_, [this] { sweeper_.cancel(); });
  // Nothing is cut off: the threads end when the last callback has run.
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace inside

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                      HttpHandler* handler) {
  if (options.port < 0 || options.port > 65'535) {
    return Fail("listen", fmt::format("{} is not a port: give 0 to 65535", options.port));
  }
  options.threads = std::max(options.threads, 1);
  options.connections_max = std::min(options.connections_max, inside::ConnectionsPossible());
  NOETL_ASSIGN(auto tls, inside::LoadTls(options));
  auto core = std::make_shared<inside::Core>(std::move(options), handler);
  core->tls = std::move(tls);
  auto server = std::make_unique<inside::Server>(std::move(core));
  NOETL_TRY(server->Listen());
  server->Serve();
  return server;
}

}  // namespace noetl::api
