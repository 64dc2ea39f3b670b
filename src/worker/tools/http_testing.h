// A small HTTP server for the tests of the http tool, and a way to run one call of the tool.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/event_loop.h"
#include "base/json_io.h"
#include "base/settings.h"
#include "base/text.h"
#include "worker/tools/registry.h"

namespace noetl::worker {

// A socket bound to a port of 127.0.0.1; 0: a free one.
class LocalSocket {
 public:
  explicit LocalSocket(int backlog, int port = 0)
      : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{.sin_family = AF_INET,
                        .sin_port = htons(static_cast<std::uint16_t>(port)),
                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(descriptor_, raw, length), 0);
    EXPECT_EQ(getsockname(descriptor_, raw, &length), 0);
    port_ = ntohs(address.sin_port);
    if (backlog >= 0) {
      EXPECT_EQ(listen(descriptor_, backlog), 0);
    }
  }
  ~LocalSocket() { close(descriptor_); }
  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;

  int descriptor() const { return descriptor_; }
  int port() const { return port_; }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  int descriptor_;
  int port_ = 0;
};

// What the server was sent.
struct Seen {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// One thread a connection. A route sends its answer itself and gives whether the connection stays.
class TestServer {
 public:
  using Route = std::function<bool(int connection, const Seen& seen)>;

  explicit TestServer(int port = 0) : listener_(128, port), thread_([this] { Accept(); }) {}
  ~TestServer() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (const int connection : open_) shutdown(connection, SHUT_RDWR);
    }
    ended_.notify_all();
    shutdown(listener_.descriptor(), SHUT_RDWR);
    thread_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  // For targets that start with it; the longest counts.
  void On(std::string path, Route route) {
    const std::lock_guard lock(mutex_);
    routes_[std::move(path)] = std::move(route);
  }
  // A route with a fixed answer.
  void Give(std::string path, int status, const std::string& headers, const std::string& body) {
    On(std::move(path),
       [=](int connection, const Seen&) { return Reply(connection, status, headers, body); });
  }
  // `headers` are whole lines.
  static bool Reply(int connection, int status, std::string_view headers, std::string_view body) {
    return Send(connection, fmt::format("HTTP/1.1 {} Text\r\nContent-Length: {}\r\n{}\r\n{}",
                                        status, body.size(), headers, body));
  }
  static bool Send(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Waits until the server ends.
  bool Hang() {
    std::unique_lock lock(mutex_);
    ++hanging_;
    seen_changed_.notify_all();
    ended_.wait(lock, [this] { return ending_; });
    return false;
  }
  // Waits until a request hangs.
  void WaitForHanging(int count = 1) {
    std::unique_lock lock(mutex_);
    seen_changed_.wait(lock, [&] { return hanging_ >= count; });
  }
  std::string url() const { return listener_.url(); }
  int port() const { return listener_.port(); }
  int connections() const { return connections_; }
  std::vector<Seen> TakeSeen() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  void Accept() {
    while (true) {
      const int connection = accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const int on = 1;
      setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      ++connections_;
      const std::lock_guard lock(mutex_);
      if (ending_) {
        close(connection);
        return;
      }
      open_.push_back(connection);
      threads_.emplace_back([this, connection] { Serve(connection); });
    }
  }

  void Serve(int connection) {
    std::string input;
    while (true) {
      const std::optional<Seen> seen = Read(connection, input);
      if (!seen) break;
      const Route route = Arrived(*seen);
      const bool stays =
          route ? route(connection, *seen) : Reply(connection, 404, "", "no such route");
      if (!stays) break;
    }
    const std::lock_guard lock(mutex_);
    std::erase(open_, connection);
    close(connection);
  }

  Route Arrived(const Seen& seen) {
    const std::lock_guard lock(mutex_);
    seen_.push_back(seen);
    const Route* route = nullptr;
    for (const auto& [path, candidate] : routes_) {
      if (seen.target.starts_with(path)) route = &candidate;  // sorted: longer ones come later
    }
    return route == nullptr ? Route() : *route;
  }

  static bool More(int connection, std::string& input) {
    std::array<char, 16384> buffer;
    const ssize_t got = recv(connection, buffer.data(), buffer.size(), 0);
    if (got > 0) input.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  static std::optional<Seen> Read(int connection, std::string& input) {
    std::size_t end = 0;
    while ((end = input.find("\r\n\r\n")) == std::string::npos) {
      if (!More(connection, input)) return std::nullopt;
    }
    Seen seen;
    std::string_view head = std::string_view(input).substr(0, end);
    const std::string_view first = head.substr(0, head.find("\r\n"));
    seen.method = first.substr(0, first.find(' '));
    const std::string_view rest = first.substr(seen.method.size() + 1);
    seen.target = rest.substr(0, rest.find(' '));
    for (head.remove_prefix(first.size()); head.size() > 2;) {
      head.remove_prefix(2);
      const std::string_view line = head.substr(0, head.find("\r\n"));
      const std::size_t colon = line.find(':');
      seen.headers[ToLower(line.substr(0, colon))] = Trim(line.substr(colon + 1));
      head.remove_prefix(line.size());
    }
    const auto length = seen.headers.find("content-length");
    const std::size_t size =
        length == seen.headers.end() ? 0 : static_cast<std::size_t>(std::stoul(length->second));
    while (input.size() < end + 4 + size) {
      if (!More(connection, input)) return std::nullopt;
    }
    seen.body = input.substr(end + 4, size);
    input.erase(0, end + 4 + size);
    return seen;
  }

  LocalSocket listener_;
  std::map<std::string, Route> routes_;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::condition_variable seen_changed_;
  bool ending_ = false;
  int hanging_ = 0;
  std::vector<int> open_;
  std::vector<Seen> seen_;
  std::vector<std::thread> threads_;
  std::thread thread_;  // last: uses all the others
};

// The http tool on a loop of its own.
class HttpBench {
 public:
  HttpBench() : HttpBench(Settings::Variables()) {}
  // With one setting.
  HttpBench(const std::string& name, const std::string& value)
      : HttpBench(Settings::Variables{{name, value}}) {}

  static ToolCall Config(std::string_view config) {
    ToolCall call;
    call.kind = "http";
    const Result<Json> parsed = ParseJson(config);
    EXPECT_TRUE(parsed.has_value()) << config;
    call.config = parsed.value_or(Json());
    return call;
  }
  ToolAnswer Run(ToolCall call) {
    std::optional<ToolAnswer> answer;
    const auto running = tool_->Start(std::move(call), [&](ToolAnswer got) {
      answer = std::move(got);
      loop_.Stop();
    });
    loop_.Run();
    return std::move(answer).value_or(ToolAnswer());
  }
  ToolAnswer Run(std::string_view config) { return Run(Config(config)); }
  ToolAnswer Get(const std::string& url) { return Run(fmt::format(R"({{"url": "{}"}})", url)); }

  EventLoop& loop() { return loop_; }
  Tool& tool() { return *tool_; }
  void DropTool() { tool_.reset(); }

 private:
  explicit HttpBench(const Settings::Variables& environment)
      : settings_(*Settings::Load(environment)),
        tool_(MakeHttp({.loop = &loop_, .settings = &settings_})) {}

  EventLoop loop_;
  Settings settings_;
  std::unique_ptr<Tool> tool_;
};

// "kind code retryable", with "hard" in front when the command fails.
inline std::string ErrorLine(const ToolAnswer& answer) {
  const Json& info = answer.outcome.error_info;
  if (answer.outcome.ok) return "ok";
  return fmt::format("{}{} {} {}", answer.hard ? "hard " : "", info["kind"].AsString(),
                     info["code"].AsString(), info["retryable"].AsBool() ? "retryable" : "final");
}

}  // namespace noetl::worker
