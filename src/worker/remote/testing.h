// A server for the tests of remote workers: real sockets, and failures on demand.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/testing.h"
#include "worker/tools/http_testing.h"

namespace noetl::worker {

// What the server knows survives its sockets: `Up` and `Down` open and close them on one port.
class FakeControlPlane {
 public:
  FakeControlPlane() { Up(); }
  ~FakeControlPlane() { Down(); }

  void Up() {
    {
      const std::lock_guard lock(mutex_);
      down_ = false;
    }
    server_ = std::make_unique<TestServer>(port_);
    port_ = server_->port();
    server_->On("/api/",
                [this](int connection, const Seen& seen) { return Serve(connection, seen); });
  }
  void Down() {
    {
      const std::lock_guard lock(mutex_);
      down_ = true;
    }
    changed_.notify_all();
    server_.reset();
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

  // A command of one tool that will be given out; its event id comes back.
  std::int64_t Offer(std::string_view kind, std::string_view config = "{}",
                     double lease_seconds = 30, std::int64_t inline_bytes = 102'400) {
    const std::lock_guard lock(mutex_);
    const std::int64_t id = ++last_command_;
    const std::string name = fmt::format("77:s:{}", id);
    offered_.push_back(Json::Object(
        {{"status", "ok"},
         {"event_id", id},
         {"execution_id", 77},
         {"node_id", "s"},
         {"node_name", "s"},
         {"action", kind},
         {"context", Json::Object({{"tool_config", Parse(config)},
                                   {"args", Json::Object()},
                                   {"render_context", Json::Object()},
                                   {"idempotency_key", name}})},
         {"meta", Json::Object({{"command_id", name}, {"attempt", 1}, {"attempts", 3}})},
         {"claim_token", 1},
         {"lease_seconds", lease_seconds},
         {"inline_bytes", inline_bytes}}));
    changed_.notify_all();
    return id;
  }

  // The next requests whose path starts with `path`: their answer is lost after the work was done, or
  // they are refused with a status.
  void LoseAnswers(std::string path, int count) { Fault(std::move(path), {0, count}); }
  void Refuse(std::string path, int status, int count) { Fault(std::move(path), {status, count}); }
  // All later events of this type get the code instead of being stored.
  void RefuseEvents(std::string type, std::string code) {
    const std::lock_guard lock(mutex_);
    refused_[std::move(type)] = std::move(code);
  }
  // Heartbeats name this command as lost from now on.
  void Lose(std::int64_t event_id) {
    const std::lock_guard lock(mutex_);
    lost_.insert(event_id);
  }
  // A message on the control stream.
  void Tell(std::string text) {
    const std::lock_guard lock(mutex_);
    told_.push_back(std::move(text));
    changed_.notify_all();
  }
  // A fixed answer.
  void Give(std::string path, Json body) {
    const std::lock_guard lock(mutex_);
    given_[std::move(path)] = std::move(body);
  }

  // "METHOD path" of every request, in order, without queries.
  std::vector<std::string> Requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // The same requests with their queries, of those that begin so.
  std::vector<std::string> Targets(std::string_view start) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const std::string& target : targets_) {
      if (target.starts_with(start)) found.push_back(target);
    }
    return found;
  }
  std::size_t Count(std::string_view request) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count(requests_, request));
  }
  std::vector<Json> Bodies(std::string_view request) const {
    const std::lock_guard lock(mutex_);
    std::vector<Json> bodies;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == request) bodies.push_back(bodies_[i]);
    }
    return bodies;
  }
  // Stored events by id, in the order they came; those that came again are counted.
  std::vector<Json> Stored() const {
    const std::lock_guard lock(mutex_);
    return stored_;
  }
  std::size_t StoredCount(std::string_view type) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count_if(
        stored_, [&](const Json& event) { return event["event_type"].AsString() == type; }));
  }
  std::size_t repeated() const {
    const std::lock_guard lock(mutex_);
    return repeated_;
  }
  int largest_max() const {
    const std::lock_guard lock(mutex_);
    return largest_max_;
  }

 private:
  struct Failure {
    int status = 0;  // 0: the answer is lost
    int count = 0;
  };

  void Fault(std::string path, Failure failure) {
    const std::lock_guard lock(mutex_);
    faults_[std::move(path)] = failure;
  }

  bool Serve(int connection, const Seen& seen) {
    const std::string path = seen.target.substr(0, seen.target.find('?'));
    const Json body = seen.body.empty() ? Json() : Parse(seen.body);
    std::unique_lock lock(mutex_);
    requests_.push_back(seen.method + " " + path);
    targets_.push_back(seen.method + " " + seen.target);
    bodies_.push_back(body);
    changed_.notify_all();
    bool lose = false;
    for (auto& [prefix, failure] : faults_) {
      if (!path.starts_with(prefix) || failure.count == 0) continue;
      --failure.count;
      const int status = failure.status;
      if (status != 0) {
        lock.unlock();
        return TestServer::Reply(connection, status, "", R"({"error": "not now"})");
      }
      lose = true;
    }
    if (path == "/api/worker/control") return Control(connection, lock);
    const Json answer = Answer(path, body, lock);
    lock.unlock();
    if (lose) return false;
    const int status = answer.is_null() ? 404 : 200;
    return TestServer::Reply(connection, status, "", WriteJson(answer));
  }

  Json Answer(const std::string& path, const Json& body, std::unique_lock<std::mutex>& lock) {
    if (path == "/api/commands/lease") return Lease(body, lock);
    if (path == "/api/worker/pool/heartbeat") {
      std::vector<Json> lost;
      for (const Json& command : body["commands"].items()) {
        if (lost_.contains(command["event_id"].AsInt())) lost.push_back(command["event_id"]);
      }
      return Json::Object({{"status", "ok"}, {"lost", Json::Array(std::move(lost))}});
    }
    if (path.starts_with("/api/result/")) {
      return Json::Object({{"ref", "noetl://execution/77/result/s/900"}, {"store", "db"}});
    }
    const Json* given = nullptr;
    for (const auto& [prefix, answer] : given_) {
      if (path.starts_with(prefix)) given = &answer;  // sorted: longer ones come later
    }
    if (given != nullptr) return *given;
    return Json::Object({{"status", "ok"}});
  }

  // The same request gets the same commands.
  Json Lease(const Json& body, std::unique_lock<std::mutex>& lock) {
    std::vector<Json> events;
    for (const Json& event : body["events"].items()) events.push_back(Store(event));
    const std::string request = body["request_id"].ToString();
    const int most = static_cast<int>(body["max"].AsInt());
    largest_max_ = std::max(largest_max_, most);
    if (!granted_.contains(request)) {
      const auto wait = std::chrono::milliseconds(body["wait_ms"].AsInt());
      if (most > 0) changed_.wait_for(lock, wait, [this] { return !offered_.empty() || down_; });
      std::vector<Json> commands;
      while (!offered_.empty() && std::ssize(commands) < most && !down_) {
        commands.push_back(offered_.front());
        offered_.pop_front();
      }
      granted_[request] = Json::Array(std::move(commands));
    }
    return Json::Object({{"events", Json::Array(std::move(events))},
                         {"commands", granted_[request]},
                         {"cancel", Json::Array()}});
  }

  Json Store(const Json& event) {
    const std::int64_t id = event["event_id"].AsInt();
    const auto refused = refused_.find(event["event_type"].ToString());
    if (refused != refused_.end())
      return Json::Object({{"event_id", id}, {"status", "refused"}, {"code", refused->second}});
    if (ids_.insert(id).second) stored_.push_back(event);
    else ++repeated_;
    return Json::Object({{"event_id", id}, {"status", "ok"}});
  }

  bool Control(int connection, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    TestServer::Send(connection,
                     "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n");
    lock.lock();
    while (!down_) {
      while (!told_.empty()) {
        const std::string text = told_.front();
        told_.pop_front();
        TestServer::Send(connection, text);
      }
      changed_.wait(lock, [this] { return down_ || !told_.empty(); });
    }
    return false;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool down_ = false;
  std::int64_t last_command_ = 0;
  std::deque<Json> offered_;
  std::map<std::string, Json> granted_;
  std::map<std::string, Failure> faults_;
  std::map<std::string, std::string> refused_;
  std::map<std::string, Json> given_;
  std::set<std::int64_t> lost_;
  std::deque<std::string> told_;
  std::vector<std::string> requests_;
  std::vector<std::string> targets_;
  std::vector<Json> bodies_;
  std::set<std::int64_t> ids_;
  std::vector<Json> stored_;
  std::size_t repeated_ = 0;
  int largest_max_ = 0;
  int port_ = 0;
  std::unique_ptr<TestServer> server_;
};

// Runs the loop until the condition holds. A condition that never does fails the test.
template <typename Condition>
void RunUntil(EventLoop& loop, Condition condition) {
  constexpr std::int64_t kLookEveryUs = 2'000;
  constexpr int kLooksMax = 15'000;
  int looks = 0;
  std::function<void()> look = [&] {
    if (condition() || ++looks > kLooksMax) return loop.Stop();
    loop.After(kLookEveryUs, [&] { look(); });
  };
  loop.After(0, [&] { look(); });
  loop.Run();
  EXPECT_LE(looks, kLooksMax) << "what the test waits for did not happen";
}

}  // namespace noetl::worker
