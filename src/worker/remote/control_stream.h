// The server's news for this worker, as server-sent events.
//
// The stream is opened again after a growing delay whenever it ends; what is missed meanwhile comes
// with heartbeats. Lives on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/event_loop.h"
#include "worker/remote/outbox.h"
#include "worker/remote/server_client.h"
#include "worker/remote/wire.h"

namespace noetl::worker {

// Cuts the text of a stream into its events. Comments and unknown fields are skipped.
class EventStreamReader {
 public:
  using Told = std::function<void(std::string_view event, std::string_view data)>;

  explicit EventStreamReader(Told told) : told_(std::move(told)) {}
  void Take(std::string_view piece);
  void Reset();

 private:
  void Line(std::string_view line);

  Told told_;
  std::string rest_;
  std::string event_;
  std::string data_;
  bool has_data_ = false;
};

class ControlStream {
 public:
  using Told = std::function<void(const ControlNews&)>;

  ControlStream(EventLoop* loop, ServerClient* client, std::string worker_id, RetryPace pace,
                Told told);
  void Open();
  void Close();

 private:
  void Ended();

  EventLoop* loop_;
  ServerClient* client_;
  std::string path_;
  RetryPace pace_;
  Told told_;
  EventStreamReader reader_;
  ServerClient::CallId call_ = 0;
  std::int64_t delay_ms_ = 0;
  OwnedTimer timer_;
};

}  // namespace noetl::worker
