#include "api/streams.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "conductor/testing.h"

namespace noetl::api {
namespace {

constexpr std::string_view kTwoSteps = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: two, path: demo/two}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: noop}
)";

// A client whose connection takes what it is told to take.
class Client final : public BodyStream {
 public:
  bool Write(std::string text) override {
    const std::lock_guard lock(mutex_);
    if (closed_ || text.size() > room_) {
      ++refused_;
      changed_.notify_all();
      return false;
    }
    text_ += text;
    changed_.notify_all();
    return true;
  }
  std::size_t waiting() const override {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }
  void Close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  void SetRoom(std::size_t room) {
    const std::lock_guard lock(mutex_);
    room_ = room;
  }
  void SetWaiting(std::size_t waiting) {
    const std::lock_guard lock(mutex_);
    waiting_ = waiting;
  }
  bool WaitFor(const std::function<bool()>& reached) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), reached);
  }
  bool WaitForText(std::string_view part) {
    return WaitFor([&] { return text_.find(part) != std::string::npos; });
  }
  bool WaitForEnd() {
    return WaitFor([&] { return closed_; });
  }
  bool WaitForRefusal() {
    return WaitFor([&] { return refused_ > 0; });
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  int Count(std::string_view part) const {
    const std::string all = text();
    int count = 0;
    for (std::size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1))
      ++count;
    return count;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  std::size_t room_ = kStreamBytesMax;
  std::size_t waiting_ = 0;
  int refused_ = 0;
  bool closed_ = false;
};

class StreamsTest : public ::testing::Test {
 protected:
  StreamsTest() { machine_.Register("demo/two", kTwoSteps); }

  std::int64_t Start() {
    const std::int64_t id = machine_.Start("demo/two").value();
    Tell(id);
    return id;
  }
  void Complete(std::int64_t id, std::string_view step) {
    EXPECT_TRUE(machine_.Complete(step).has_value());
    Tell(id);
  }
  void Tell(std::int64_t id) { streams_.OnEvents(machine_.Row(id), {}); }

  std::shared_ptr<Client> Follow(Streams::RunFeed feed) {
    auto client = std::make_shared<Client>();
    streams_.FollowRun(streams_.Reserve().value(), client, feed);
    return client;
  }

  conductor::Machine machine_;
  SystemClock clock_;
  Streams streams_{machine_.store.get(),
                   &clock_,
                   {.watchers_max = 3, .waits_max = 2, .heartbeat_ms = 5, .coalesce_ms = 1}};
};

TEST(SseMessageTest, IsOneMessage) {
  EXPECT_EQ(SseMessage("step.enter", "7", Json::Object({{"a", "x\ny"}})),
            "id: 7\nevent: step.enter\ndata: {\"a\":\"x\\ny\"}\n\n");
  EXPECT_EQ(SseMessage("end\ndata: forged", "", Json(1)), "event: end\ndata: 1\n\n");
}

TEST_F(StreamsTest, ARunIsToldFromItsFirstEventToItsEnd) {
  const std::int64_t id = Start();
  const auto client = Follow({.execution_id = id});
  ASSERT_TRUE(client->WaitForText("event: command.issued"));
  Complete(id, "start");
  Complete(id, "second");
  ASSERT_TRUE(client->WaitForEnd());
  const std::vector<engine::Event> events = machine_.Events(id);
  std::size_t at = 0;
  for (const engine::Event& event : events) {
    const std::string head =
        "id: " + std::to_string(event.event_id) + "\nevent: " + event.type_name + "\n";
    EXPECT_EQ(client->Count(head), 1) << head;
    const std::size_t found = client->text().find(head, at);
    ASSERT_NE(found, std::string::npos) << "out of order: " << head;
    at = found;
  }
  EXPECT_TRUE(client->text().find("event: end\n", at) != std::string::npos);
  EXPECT_NE(client->text().find("\"event_id\":\"" + std::to_string(events[0].event_id) + "\""),
            std::string::npos);
}

TEST_F(StreamsTest, WhoComesAgainGetsTheRest) {
  const std::int64_t id = Start();
  Complete(id, "start");
  const std::int64_t seq = machine_.Row(id).head;
  const auto client = Follow({.execution_id = id, .after_seq = seq});
  Complete(id, "second");
  ASSERT_TRUE(client->WaitForEnd());
  EXPECT_EQ(client->Count("event: playbook_started"), 0);
  EXPECT_EQ(client->Count("event: playbook.completed"), 1);
  // After the last event there is only the end.
  const auto late = Follow({.execution_id = id, .after_seq = machine_.Row(id).head});
  ASSERT_TRUE(late->WaitForEnd());
  EXPECT_EQ(late->Count("event: "), 1);
  EXPECT_EQ(late->Count("event: end"), 1);
}

TEST_F(StreamsTest, AnIdleStreamIsKeptAlive) {
  const std::int64_t id = Start();
  const auto client = Follow({.execution_id = id});
  EXPECT_TRUE(client->WaitForText(": heartbeat\n\n"));
}

TEST_F(StreamsTest, ASlowClientIsWaitedFor) {
  const std::int64_t id = Start();
  auto client = std::make_shared<Client>();
  client->SetWaiting(kStreamBytesMax);
  streams_.FollowRun(streams_.Reserve().value(), client, {.execution_id = id});
  Complete(id, "start");
  Complete(id, "second");
  ASSERT_TRUE(client->WaitForText(": heartbeat"));
  EXPECT_EQ(client->Count("event: "), 0);
  client->SetWaiting(0);
  ASSERT_TRUE(client->WaitForEnd());
  EXPECT_EQ(client->Count("event: snapshot"), 0);
  EXPECT_EQ(client->Count("event: playbook_started"), 1);
}

TEST_F(StreamsTest, AClientThatLagsGetsASnapshotAndGoesOn) {
  const std::int64_t id = Start();
  auto client = std::make_shared<Client>();
  client->SetRoom(0);
  streams_.FollowRun(streams_.Reserve().value(), client, {.execution_id = id});
  ASSERT_TRUE(client->WaitForRefusal());
  client->SetRoom(kStreamBytesMax);
  ASSERT_TRUE(client->WaitForText("event: snapshot"));
  EXPECT_EQ(client->Count("event: playbook_started"), 0);
  Complete(id, "start");
  Complete(id, "second");
  ASSERT_TRUE(client->WaitForEnd());
  EXPECT_EQ(client->Count("event: playbook.completed"), 1);
}

TEST_F(StreamsTest, TheListBeginsWithASnapshotAndTellsChanges) {
  const std::int64_t first = Start();
  auto client = std::make_shared<Client>();
  streams_.FollowList(streams_.Reserve().value(), client, {.path_part = "DEMO"});
  ASSERT_TRUE(client->WaitForText("event: snapshot"));
  EXPECT_EQ(client->Count("\"execution_id\":\"" + std::to_string(first) + "\""), 1);
  auto other = std::make_shared<Client>();
  streams_.FollowList(streams_.Reserve().value(), other, {.path_part = "nothing"});
  ASSERT_TRUE(other->WaitForText("event: snapshot"));
  const std::int64_t second = Start();
  ASSERT_TRUE(client->WaitForText("event: execution"));
  ASSERT_TRUE(client->WaitForText("\"execution_id\":\"" + std::to_string(second) + "\""));
  EXPECT_EQ(other->Count("event: execution"), 0);
}

TEST_F(StreamsTest, AListGoesOnAfterTheLastId) {
  const std::int64_t first = Start();
  const std::int64_t seen = machine_.Row(first).last_event_id;
  const std::int64_t second = Start();
  auto client = std::make_shared<Client>();
  streams_.FollowList(streams_.Reserve().value(), client, {.after_event_id = seen});
  ASSERT_TRUE(client->WaitForText("\"execution_id\":\"" + std::to_string(second) + "\""));
  EXPECT_EQ(client->Count("event: snapshot"), 0);
  EXPECT_EQ(client->Count("\"execution_id\":\"" + std::to_string(first) + "\""), 0);
}

TEST_F(StreamsTest, LogsAreFollowedUntilTheRunEnds) {
  const std::int64_t id = Start();
  auto client = std::make_shared<Client>();
  streams_.FollowLogs(streams_.Reserve().value(), client, {.execution_id = id});
  ASSERT_FALSE(machine_.worker->held.empty());
  const bus::Grant grant = machine_.worker->held.front();
  bus::Report report;
  report.execution_id = id;
  report.command_id = grant.command_id;
  report.event_id = grant.event_id;
  report.claim_token = grant.claim_token;
  report.worker_id = machine_.worker_id;
  report.step = grant.step;
  report.logs = {{.stream = "stdout", .text = "Authorization: Bearer abcdefghijklmnop\nhello\n"}};
  ASSERT_TRUE(machine_.Send(std::move(report)).has_value());
  const std::vector<store::LogChunk> chunks = machine_.store->ReadLogs(id, 0, 0, 10).value();
  ASSERT_EQ(chunks.size(), 1u);
  streams_.OnLogs(chunks);
  ASSERT_TRUE(client->WaitForText("hello\n"));
  EXPECT_EQ(client->Count("abcdefghijklmnop"), 0);
  Complete(id, "start");
  Complete(id, "second");
  EXPECT_TRUE(client->WaitForEnd());
  EXPECT_EQ(client->Count("heartbeat"), 0);
}

TEST_F(StreamsTest, WatchersAreCountedAndTurnedAway) {
  const std::int64_t id = Start();
  const Streams::Id first = streams_.Reserve().value();
  EXPECT_TRUE(streams_.Reserve().has_value());
  EXPECT_TRUE(streams_.Reserve().has_value());
  const auto full = streams_.Reserve();
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, "unavailable");
  streams_.Remove(first);
  // The client had gone before it was handed over.
  auto client = std::make_shared<Client>();
  streams_.FollowRun(first, client, {.execution_id = id});
  EXPECT_EQ(streams_.watchers(), 2u);
  EXPECT_TRUE(streams_.Reserve().has_value());
}

TEST_F(StreamsTest, AWaitEndsWithTheRunOrItsTime) {
  const std::int64_t id = Start();
  std::mutex mutex;
  std::condition_variable changed;
  int ended = 0;
  const auto done = [&] {
    const std::lock_guard lock(mutex);
    ++ended;
    changed.notify_all();
  };
  const auto wait_for = [&](int count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended == count; });
  };
  ASSERT_TRUE(streams_.WaitForEnd(id, 1, done).has_value());
  EXPECT_TRUE(wait_for(1));
  ASSERT_TRUE(streams_.WaitForEnd(id, 600'000, done).has_value());
  ASSERT_TRUE(streams_.WaitForEnd(id, 600'000, done).has_value());
  EXPECT_EQ(streams_.WaitForEnd(id, 1, done).error().code, "unavailable");
  Complete(id, "start");
  Complete(id, "second");
  EXPECT_TRUE(wait_for(3));
  ASSERT_TRUE(streams_.WaitForEnd(id, 600'000, done).has_value());
  EXPECT_TRUE(wait_for(4));
}

TEST_F(StreamsTest, AStopEndsEverything) {
  const std::int64_t id = Start();
  const auto client = Follow({.execution_id = id});
  ASSERT_TRUE(client->WaitForText("event: command.issued"));
  bool answered = false;
  ASSERT_TRUE(streams_.WaitForEnd(id, 600'000, [&] { answered = true; }).has_value());
  streams_.Stop();
  EXPECT_TRUE(answered);
  EXPECT_TRUE(client->WaitForEnd());
  EXPECT_EQ(streams_.Reserve().error().code, "unavailable");
  EXPECT_EQ(streams_.WaitForEnd(id, 1, [] {}).error().code, "unavailable");
  Complete(id, "start");
  EXPECT_EQ(client->Count("event: command.completed"), 0);
}

}  // namespace
}  // namespace noetl::api
