// What HTTP and a durable answer cost at least: the floors under the figures of http_bench.
//
// A bare Beast server on a thread of its own. GET answers a constant at once. POST answers when the
// bytes of a small run have been written to a log and synced; one more thread does that, for all
// requests that wait at that moment together.
#pragma once

#include <memory>
#include <string>

namespace noetl::bench {

class FloorServer {
 public:
  // `file` is made, and removed at the end.
  explicit FloorServer(const std::string& file);
  ~FloorServer();
  FloorServer(const FloorServer&) = delete;
  FloorServer& operator=(const FloorServer&) = delete;

  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace noetl::bench
