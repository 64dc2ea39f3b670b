// Shared by tests of the routes: requests without sockets, and a server's parts over the memory store.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/http.h"
#include "api/route.h"
#include "api/router.h"
#include "api/services.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/json_io.h"
#include "base/metrics.h"
#include "base/settings.h"
#include "store/memory/memory_store.h"

namespace noetl::api {

// Keeps what was answered.
class FakeExchange final : public Exchange, public std::enable_shared_from_this<FakeExchange> {
 public:
  explicit FakeExchange(Request request) : request_(std::move(request)) {}

  const Request& request() const override { return request_; }
  bool gone() const override { return gone_; }

  void Send(Response response) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(answer_.has_value()) << "answered twice: " << request_.target;
    answer_ = std::move(response);
    changed_.notify_all();
  }

  std::shared_ptr<BodyStream> Stream(Response head,
                                     std::move_only_function<void()> closed) override {
    Send(std::move(head));
    const std::lock_guard lock(mutex_);
    closed_ = std::move(closed);
    return std::make_shared<Pipe>(shared_from_this());
  }

  bool answered() const {
    const std::lock_guard lock(mutex_);
    return answer_.has_value();
  }
  // The answer, or the head of a stream; waits for one that another thread makes.
  Response Wait() const {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, kPatience, [&] { return answer_.has_value(); });
    EXPECT_TRUE(came) << "no answer to " << request_.method << " " << request_.target;
    return came ? *answer_ : Response{.status = 0};
  }
  // What was written to a stream so far.
  std::string streamed() const {
    const std::lock_guard lock(mutex_);
    return streamed_;
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return stream_closed_;
  }
  // The client goes away.
  void Leave() {
    std::move_only_function<void()> closed;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      closed = std::exchange(closed_, nullptr);
    }
    if (closed) closed();
  }

 private:
  // Only a server that hangs takes this long.
  static constexpr std::chrono::seconds kPatience{60};

  class Pipe final : public BodyStream {
   public:
    explicit Pipe(std::shared_ptr<FakeExchange> exchange) : exchange_(std::move(exchange)) {}
    bool Write(std::string text) override {
      const std::lock_guard lock(exchange_->mutex_);
      if (exchange_->gone_ || exchange_->stream_closed_) return false;
      exchange_->streamed_ += text;
      exchange_->changed_.notify_all();
      return true;
    }
    std::size_t waiting() const override { return 0; }
    void Close() override {
      std::move_only_function<void()> closed;
      {
        const std::lock_guard lock(exchange_->mutex_);
        exchange_->stream_closed_ = true;
        closed = std::exchange(exchange_->closed_, nullptr);
      }
      if (closed) closed();
    }

   private:
    std::shared_ptr<FakeExchange> exchange_;
  };

  const Request request_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Response> answer_;
  std::string streamed_;
  bool stream_closed_ = false;
  std::atomic<bool> gone_ = false;
  std::move_only_function<void()> closed_;
};

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// A request from this machine. A body is declared as JSON unless `headers` says otherwise.
inline Request MakeRequest(std::string_view method, std::string_view target,
                           std::string_view body = "", const HeaderList& headers = {}) {
  Request request;
  request.method = method;
  request.target = target;
  request.path = target.substr(0, target.find('?'));
  if (target.contains('?')) request.query = target.substr(target.find('?') + 1);
  for (const auto& [name, value] : headers) request.headers.Add(name, value);
  if (!request.headers.Has("Host")) request.headers.Add("Host", "127.0.0.1:8082");
  if (!body.empty()) {
    request.headers.Set("Content-Length", std::to_string(body.size()));
    if (!request.headers.Has("Content-Type")) {
      request.headers.Add("Content-Type", "application/json");
    }
  }
  request.body = body;
  request.peer = "127.0.0.1";
  request.id = "test-request";
  return request;
}

// An answer with its body read.
struct Asked {
  Response response;
  Json body;  // null when it is not JSON

  int status() const { return response.status; }
  std::string_view header(std::string_view name) const { return response.headers.Find(name); }
  // The code of an error.
  std::string_view code() const { return body["code"].AsString(); }
};

// Services over the memory store, with a router. `services` may be changed before the first request:
// a conductor, a vault, another store.
class TestApi {
 public:
  struct Options {
    RouterOptions router;
    Settings::Variables settings;
    // Empty: all families.
    std::vector<std::span<const Route>> families;
  };

  TestApi() : TestApi(Options()) {}
  explicit TestApi(Options options)
      : settings(Settings::Load(options.settings).value()), store(store::MakeMemoryStore()) {
    services.store = store.get();
    services.clock = &clock;
    services.ids = &ids;
    services.metrics = &metrics;
    services.settings = &settings;
    services.version = "1.2.3";
    services.started_at_us = clock.NowMicros();
    clock.Advance(12'000'000);
    router = options.families.empty()
                 ? std::make_unique<Router>(options.router, &services)
                 : std::make_unique<Router>(options.router, &services, options.families);
  }

  // As the server does it: the head is admitted, the body measured, the request handled.
  std::shared_ptr<FakeExchange> Begin(Request request) {
    auto exchange = std::make_shared<FakeExchange>(std::move(request));
    Request head = exchange->request();
    head.body.clear();
    HttpHandler::Admission admission = router->Admit(head);
    if (admission.refusal) {
      exchange->Send(std::move(*admission.refusal));
    } else if (exchange->request().body.size() > admission.body_max) {
      exchange->Send(router->Malformed(413, "the body is too large", head.id));
    } else {
      router->Handle(exchange);
    }
    if (run) run();
    return exchange;
  }

  Asked Ask(Request request) {
    Asked asked{.response = Begin(std::move(request))->Wait()};
    if (asked.response.content_type == "application/json" && !asked.response.body.empty()) {
      Result<Json> body = ParseJson(asked.response.body);
      EXPECT_TRUE(body.has_value()) << asked.response.body;
      asked.body = body.value_or(Json());
    }
    return asked;
  }
  Asked Ask(std::string_view method, std::string_view target, std::string_view body = "",
            const HeaderList& headers = {}) {
    return Ask(MakeRequest(method, target, body, headers));
  }
  Asked Get(std::string_view target, const HeaderList& headers = {}) {
    return Ask("GET", target, "", headers);
  }
  Asked Post(std::string_view target, std::string_view body, const HeaderList& headers = {}) {
    return Ask("POST", target, body, headers);
  }

  ManualClock clock{1'767'225'600'000'000};
  SequentialIds ids{1'000};
  Metrics metrics;
  Settings settings;
  std::unique_ptr<store::Store> store;
  Services services;
  std::unique_ptr<Router> router;
  // Called after each request was handed over: drives a reactor that is driven by hand.
  std::function<void()> run;
};

}  // namespace noetl::api
