// A very small HTTP listener for a worker's metrics and health.
//
// It serves on the worker's own loop and is made for a few readers that ask now and then: a request is
// a line and headers that are skipped, the answer closes the connection. Everything is bounded: the
// sizes, the time and the number of connections; who comes when all are taken waits in the kernel's
// queue. Nothing of a request but its method and path is looked at. Everything happens on the loop's
// thread; the loop outlives the listener.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/event_loop.h"
#include "base/result.h"
#include "worker/remote/server_client.h"

namespace noetl::worker {

struct StatusAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

class StatusListener {
 public:
  // The answer to a GET of this path, without its query.
  using Answers = std::function<StatusAnswer(std::string_view path)>;

  static constexpr std::size_t kLineBytesMax = 4 << 10;
  // Line and headers; browsers send long ones.
  static constexpr std::size_t kHeadBytesMax = 16 << 10;
  static constexpr std::int64_t kConnectionMs = 5'000;  // from its first byte to its last
  static constexpr std::size_t kConnectionsMax = 16;

  struct Limits {
    std::int64_t connection_ms = kConnectionMs;
  };

  // `address` is HOST:PORT, [HOST]:PORT or :PORT (loopback); port 0 takes a free one. Errors:
  // "invalid" when it cannot be read, "in_use" when somebody listens there, "io".
  static Result<std::unique_ptr<StatusListener>> Open(EventLoop* loop, std::string_view address,
                                                      Answers answers, Limits limits);
  static Result<std::unique_ptr<StatusListener>> Open(EventLoop* loop, std::string_view address,
                                                      Answers answers);
  ~StatusListener();
  StatusListener(const StatusListener&) = delete;
  StatusListener& operator=(const StatusListener&) = delete;

  // Where it listens, with the port that it got.
  const std::string& address() const { return address_; }
  int port() const { return port_; }
  std::size_t connections() const { return connections_.size(); }

 private:
  struct Connection;

  StatusListener(EventLoop* loop, int descriptor, Answers answers, Limits limits);
  void FindAddress();
  void Listen();
  void Accept();
  void Read(Connection* connection);
  void Answer(Connection* connection);
  void Write(Connection* connection);
  void Skip(Connection* connection);
  void Close(Connection* connection);

  EventLoop* loop_;
  int descriptor_;
  Answers answers_;
  Limits limits_;
  std::string address_;
  int port_ = 0;
  bool listening_ = false;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by descriptor
  OwnedTimer pause_;
};

}  // namespace noetl::worker
