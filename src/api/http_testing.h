// For tests of the HTTP server and of what runs on it: a client on a bare socket, which can send what
// no library would, and a handler made of functions.
//
// A client belongs to one thread. Every wait ends: reads give up after kPatience.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "api/http.h"
#include "api/http_server.h"
#include "base/check.h"

namespace noetl::api {

// Far longer than anything takes on a loaded machine.
inline constexpr std::chrono::seconds kPatience{30};

// Waits until `done` says so; false: it never did.
inline bool Eventually(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct TestAnswer {
  int status = 0;
  Headers headers;
  std::string body;
};

class TestClient {
 public:
  explicit TestClient(int port, int receive_buffer = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NOETL_CHECK(socket_ >= 0, "no socket");
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (receive_buffer > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~TestClient() { Close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }

  bool Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // The next answer; nullopt: the connection ended before it was whole. Interim answers (1xx) come
  // like others, without a body.
  std::optional<TestAnswer> Read(bool head_only = false) {
    const auto head = Until("\r\n\r\n");
    if (!head) return std::nullopt;
    TestAnswer answer;
    ParseHead(*head, &answer);
    if (head_only || answer.status < 200 || answer.status == 204 || answer.status == 304) {
      return answer;
    }
    if (answer.headers.Find("Transfer-Encoding") == "chunked") {
      while (true) {
        auto chunk = ReadChunk();
        if (!chunk) return std::nullopt;
        if (chunk->empty()) return answer;
        answer.body += *chunk;
      }
    }
    const auto length = answer.headers.Find("Content-Length");
    auto body = Take(std::strtoull(std::string(length).c_str(), nullptr, 10));
    if (!body) return std::nullopt;
    answer.body = std::move(*body);
    return answer;
  }

  // Empty: the last chunk.
  std::optional<std::string> ReadChunk() {
    const auto line = Until("\r\n");
    if (!line) return std::nullopt;
    auto text = Take(std::strtoull(line->c_str(), nullptr, 16) + 2);
    if (text) text->resize(text->size() - 2);
    return text;
  }

  std::optional<TestAnswer> Call(std::string_view request) {
    if (!Send(request)) return std::nullopt;
    return Read(request.starts_with("HEAD "));
  }
  std::optional<TestAnswer> Get(std::string_view target, std::string_view headers = "") {
    return Call("GET " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n" +
                std::string(headers) + "\r\n");
  }
  std::optional<TestAnswer> Post(std::string_view target, std::string_view body,
                                 std::string_view headers = "") {
    return Call("POST " + std::string(target) +
                " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n" + std::string(headers) + "\r\n" + std::string(body));
  }

  // Whether the server closes (or resets) without sending more.
  bool Ended() { return buffered_.empty() && !More() && !impatient_; }
  // All until the server closes.
  std::string ReadAll() {
    while (More()) continue;
    return std::exchange(buffered_, {});
  }
  void FinishSending() { ::shutdown(socket_, SHUT_WR); }
  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Ends with a reset, as a process that dies does.
  void Reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    Close();
  }

 private:
  bool More() {
    char bytes[16 << 10];
    const ssize_t came = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (came > 0) buffered_.append(bytes, static_cast<std::size_t>(came));
    impatient_ = came < 0 && errno == EAGAIN;
    return came > 0;
  }
  std::optional<std::string> Until(std::string_view mark) {
    std::size_t end;
    while ((end = buffered_.find(mark)) == std::string::npos) {
      if (!More()) return std::nullopt;
    }
    std::string text = buffered_.substr(0, end);
    buffered_.erase(0, end + mark.size());
    return text;
  }
  std::optional<std::string> Take(std::size_t size) {
    while (buffered_.size() < size) {
      if (!More()) return std::nullopt;
    }
    std::string text = buffered_.substr(0, size);
    buffered_.erase(0, size);
    return text;
  }
  static void ParseHead(std::string_view head, TestAnswer* answer) {
    bool first = true;
    while (!head.empty()) {
      const std::size_t end = std::min(head.find("\r\n"), head.size());
      const std::string_view line = head.substr(0, end);
      head.remove_prefix(std::min(end + 2, head.size()));
      const std::size_t colon = line.find(": ");
      if (first) {
        answer->status = std::atoi(std::string(line.substr(9, 3)).c_str());
      } else if (colon != std::string_view::npos) {
        answer->headers.Add(std::string(line.substr(0, colon)),
                            std::string(line.substr(colon + 2)));
      }
      first = false;
    }
  }

  int socket_ = -1;
  bool connected_ = false;
  bool impatient_ = false;  // the last read gave up
  std::string buffered_;
};

// Admits bodies of `body_max` and answers with what `handle` does.
class TestHandler final : public HttpHandler {
 public:
  std::function<void(std::shared_ptr<Exchange>)> handle;
  std::function<std::optional<Response>(const Request&)> refuse;
  std::size_t body_max = 1u << 20;

  Admission Admit(const Request& head) override {
    return {.body_max = body_max, .refusal = refuse ? refuse(head) : std::nullopt};
  }
  void Handle(std::shared_ptr<Exchange> exchange) override { handle(std::move(exchange)); }
  Response Malformed(int status, std::string_view what, std::string_view request_id) override {
    return {.status = status,
            .content_type = "text/plain",
            .body = std::string(what) + " [" + std::string(request_id) + "]"};
  }
};

}  // namespace noetl::api
