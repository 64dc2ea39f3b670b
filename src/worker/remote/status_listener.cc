#include "worker/remote/status_listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace noetl::worker {
namespace {

constexpr std::int64_t kMicrosPerMilli = 1'000;
// After the process could not take a connection (no descriptors left).
constexpr std::int64_t kPauseMs = 1'000;

std::string ErrnoText() { return std::strerror(errno); }

struct AddressParts {
  std::string host;
  std::string port;
};

Result<AddressParts> ReadAddress(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  const auto bad = [&] { return Fail("invalid", fmt::format("'{}' is not HOST:PORT", address)); };
  if (colon == std::string_view::npos || colon + 1 == address.size()) return bad();
  AddressParts parts{std::string(address.substr(0, colon)), std::string(address.substr(colon + 1))};
  if (parts.port.find_first_not_of("0123456789") != std::string::npos) return bad();
  if (parts.port.size() > 5 || std::stoi(parts.port) > 65'535) return bad();
  if (parts.host.starts_with('[') && parts.host.ends_with(']'))
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  else if (parts.host.find(':') != std::string::npos) return bad();
  if (parts.host.empty()) parts.host = "127.0.0.1";
  return parts;
}

Result<int> OpenSocket(std::string_view address) {
  NOETL_ASSIGN(const AddressParts parts, ReadAddress(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
      code != 0) {
    return Fail("invalid", fmt::format("'{}': {}", address, gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  const int descriptor =
      socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, found->ai_protocol);
  if (descriptor < 0) return Fail("io", fmt::format("{}: {}", address, ErrnoText()));
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(descriptor, found->ai_addr, found->ai_addrlen) == 0 &&
      listen(descriptor, StatusListener::kConnectionsMax) == 0) {
    return descriptor;
  }
  const std::string_view code = errno == EADDRINUSE ? "in_use" : "io";
  Error error{std::string(code), fmt::format("cannot listen on {}: {}", address, ErrnoText())};
  close(descriptor);
  return std::unexpected(std::move(error));
}

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    default: return "Service Unavailable";
  }
}

std::string HeadOf(const StatusAnswer& answer) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "Connection: close\r\n\r\n",
      answer.status, ReasonOf(answer.status), answer.content_type, answer.body.size());
}

StatusAnswer Problem(int status) {
  return {.status = status, .body = fmt::format("{{\"error\":\"{}\"}}\n", ReasonOf(status))};
}

}  // namespace

struct StatusListener::Connection {
  Connection(EventLoop* loop, int descriptor) : descriptor(descriptor), timer(loop) {}

  int descriptor;
  std::string head;    // as far as it has come
  std::string answer;  // what is left to send
  OwnedTimer timer;
};

Result<std::unique_ptr<StatusListener>> StatusListener::Open(EventLoop* loop,
                                                             std::string_view address,
                                                             Answers answers, Limits limits) {
  NOETL_ASSIGN(const int descriptor, OpenSocket(address));
  return std::unique_ptr<StatusListener>(
      new StatusListener(loop, descriptor, std::move(answers), limits));
}

Result<std::unique_ptr<StatusListener>> StatusListener::Open(EventLoop* loop,
                                                             std::string_view address,
                                                             Answers answers) {
  return Open(loop, address, std::move(answers), Limits{});
}

StatusListener::StatusListener(EventLoop* loop, int descriptor, Answers answers, Limits limits)
    : loop_(loop),
      descriptor_(descriptor),
      answers_(std::move(answers)),
      limits_(limits),
      pause_(loop) {
  FindAddress();
  Listen();
}

StatusListener::~StatusListener() {
  while (!connections_.empty()) Close(connections_.begin()->second.get());
  if (listening_) loop_->Unwatch(descriptor_);
  close(descriptor_);
}

void StatusListener::FindAddress() {
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  getsockname(descriptor_, reinterpret_cast<sockaddr*>(&bound), &length);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (bound.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(bound);
    inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    port_ = ntohs(address.sin6_port);
    address_ = fmt::format("[{}]:{}", text.data(), port_);
  } else {
    const auto& address = reinterpret_cast<const sockaddr_in&>(bound);
    inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    port_ = ntohs(address.sin_port);
    address_ = fmt::format("{}:{}", text.data(), port_);
  }
}

void StatusListener::Listen() {
  if (std::exchange(listening_, true)) return;
  loop_->Watch(descriptor_, EventLoop::kReadable, [this](unsigned) { Accept(); });
}

void StatusListener::Accept() {
  const int descriptor = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    LogWarn("the status page cannot take a connection", {{"error", ErrnoText()}});
    loop_->Unwatch(descriptor_);
    listening_ = false;
    return pause_.Set(kPauseMs * kMicrosPerMilli, [this] { Listen(); });
  }
  auto owned = std::make_unique<Connection>(loop_, descriptor);
  Connection* connection = owned.get();
  connections_.emplace(descriptor, std::move(owned));
  connection->timer.Set(limits_.connection_ms * kMicrosPerMilli,
                        [this, connection] { Close(connection); });
  loop_->Watch(descriptor, EventLoop::kReadable,
               [this, connection](unsigned) { Read(connection); });
  if (connections_.size() < kConnectionsMax) return;
  loop_->Unwatch(descriptor_);
  listening_ = false;
}

void StatusListener::Read(Connection* connection) {
  std::array<char, 4096> piece;
  const ssize_t got = recv(connection->descriptor, piece.data(), piece.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return Close(connection);
  connection->head.append(piece.data(), static_cast<std::size_t>(got));
  const std::string& head = connection->head;
  const bool complete = head.find("\r\n\r\n") != std::string::npos;
  const bool long_line = head.find("\r\n") == std::string::npos && head.size() > kLineBytesMax;
  if (complete || long_line || head.size() > kHeadBytesMax) Answer(connection);
}

void StatusListener::Answer(Connection* connection) {
  const std::string_view head = connection->head;
  const std::size_t line_end = head.find("\r\n");
  const std::string_view line = head.substr(0, line_end);
  const std::size_t blank = line.find(' ');
  const std::size_t last = line.rfind(' ');
  const std::string_view method = line.substr(0, blank);
  StatusAnswer answer;
  if (line_end == std::string_view::npos || line.size() > kLineBytesMax) {
    answer = Problem(414);
  } else if (head.find("\r\n\r\n") == std::string_view::npos) {
    answer = Problem(431);
  } else if (blank == last || !line.substr(last + 1).starts_with("HTTP/1.") ||
             line[blank + 1] != '/') {
    answer = Problem(400);
  } else if (method != "GET" && method != "HEAD") {
    answer = Problem(405);
  } else {
    const std::string_view target = line.substr(blank + 1, last - blank - 1);
    answer = answers_(target.substr(0, target.find('?')));
    if (answer.status == 404) answer = Problem(404);
  }
  connection->answer = HeadOf(answer);
  if (method != "HEAD") connection->answer += answer.body;
  connection->head.clear();
  loop_->Watch(connection->descriptor, EventLoop::kWritable,
               [this, connection](unsigned) { Write(connection); });
}

void StatusListener::Write(Connection* connection) {
  const ssize_t sent = send(connection->descriptor, connection->answer.data(),
                            connection->answer.size(), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (sent < 0) return Close(connection);
  connection->answer.erase(0, static_cast<std::size_t>(sent));
  if (!connection->answer.empty()) return;
  // What the other side still sends is read until it ends: closing now would destroy the answer on
  // its way.
  shutdown(connection->descriptor, SHUT_WR);
  loop_->Watch(connection->descriptor, EventLoop::kReadable,
               [this, connection](unsigned) { Skip(connection); });
}

void StatusListener::Skip(Connection* connection) {
  std::array<char, 4096> piece;
  const ssize_t got = recv(connection->descriptor, piece.data(), piece.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) Close(connection);
}

void StatusListener::Close(Connection* connection) {
  const int descriptor = connection->descriptor;
  loop_->Unwatch(descriptor);
  close(descriptor);
  connections_.erase(descriptor);
  if (!pause_.set()) Listen();
}

}  // namespace noetl::worker
