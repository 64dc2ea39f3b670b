// Requests to the server, with its address, its token and what its answers mean.
//
// `Start` begins a request; `done` is called once, later, from the loop. Error codes: "unavailable"
// and "overloaded" (no answer, or one that says to come again), "timeout", "not_found",
// "unauthorized", "too_large", "invalid", "bad_answer", "tls" (a certificate of either side is not
// accepted), and for a conflict the code that the server
// gives. Dropping a request, or destroying the client, ends it without an answer. Nothing is sent to
// another address than the one given. Lives on the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/event_loop.h"
#include "base/json.h"
#include "base/result.h"
#include "worker/tools/http_client.h"

namespace noetl::worker {

struct ServerAddress {
  std::string url;    // without a slash at the end
  std::string token;  // empty: none
  std::shared_ptr<const HttpTls> tls;
};

// A timer that is gone with its owner.
class OwnedTimer {
 public:
  explicit OwnedTimer(Reactor* reactor) : reactor_(reactor) {}
  ~OwnedTimer() { Cancel(); }
  OwnedTimer(const OwnedTimer&) = delete;
  OwnedTimer& operator=(const OwnedTimer&) = delete;

  // Replaces what was set before.
  void Set(std::int64_t delay_us, Reactor::Task task) {
    Cancel();
    timer_ = reactor_->After(std::max<std::int64_t>(delay_us, 0),
                             [this, task = std::move(task)]() mutable {
                               timer_ = 0;
                               task();  // may set or destroy this timer
                             });
  }
  void Cancel() {
    if (timer_ != 0) reactor_->CancelTimer(std::exchange(timer_, 0));
  }
  bool set() const { return timer_ != 0; }

 private:
  Reactor* reactor_;
  Reactor::TimerId timer_ = 0;
};

class ServerClient {
 public:
  using CallId = std::uint64_t;  // 0 is never given
  using Done = std::move_only_function<void(Result<Json>)>;

  struct Ask {
    std::string method = "GET";
    std::string path;  // with its query
    std::string body;  // JSON text; empty: none
    std::int64_t timeout_ms = 30'000;
    bool secret = false;  // the answer is wiped after it was read
  };

  ServerClient(EventLoop* loop, ServerAddress address);

  CallId Start(Ask ask, Done done);
  void Drop(CallId call) { calls_.erase(call); }
  // A stream of server-sent events: `piece` gets its text as it comes and must not end the call;
  // `done` is called when the stream ends, with the reason if there is one.
  CallId Stream(std::string path, std::int64_t silence_ms,
                std::function<void(std::string_view)> piece, Done done);

  const std::string& url() const { return address_.url; }

 private:
  CallId Begin(HttpRequest request, bool secret, Done done);
  HttpRequest Request(std::string method, const std::string& path) const;

  HttpClient client_;
  ServerAddress address_;
  CallId last_ = 0;
  std::map<CallId, std::unique_ptr<HttpCall>> calls_;
};

// The error that an answer means; `body` may be empty.
Error ErrorOfAnswer(int status, std::string_view body);

}  // namespace noetl::worker
