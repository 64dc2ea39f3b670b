#include "worker/subscription/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <map>

#include "base/temporary_directory.h"
#include "worker/subscription/testing.h"

namespace noetl::worker {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using Kind = DispatchOutcome::Kind;

// A stream that brings messages again when their time has come.
class FakeSource final : public Source {
 public:
  explicit FakeSource(ManualClock* clock) : clock_(clock) {}

  void Publish(const std::string& data,
               std::vector<std::pair<std::string, std::string>> headers = {}) {
    waiting_.push_back(
        {.id = std::to_string(++last_), .data = data, .headers = std::move(headers)});
  }

  Result<std::vector<Message>> Fetch(std::int64_t count, std::int64_t timeout_ms) override {
    if (broken > 0 && --broken >= 0) return Fail("source", "the stream is away");
    std::vector<Message> messages;
    for (auto& [due_us, message] : back_) {
      if (due_us <= clock_->MonotonicMicros()) waiting_.push_back(message);
    }
    std::erase_if(back_, [&](const auto& each) { return each.first <= clock_->MonotonicMicros(); });
    while (!waiting_.empty() && std::ssize(messages) < count) {
      messages.push_back(waiting_.front());
      messages.back().delivered = ++delivered_[messages.back().id];
      waiting_.pop_front();
    }
    largest_fetch = std::max(largest_fetch, std::ssize(messages));
    if (messages.empty()) clock_->Advance(timeout_ms * 1'000);
    return messages;
  }
  Status Ack(const Message& message) override {
    acked.push_back(message.id);
    return {};
  }
  Status Nack(const Message& message, std::int64_t delay_ms) override {
    delays.push_back(delay_ms);
    back_.emplace_back(clock_->MonotonicMicros() + delay_ms * 1'000, message);
    return {};
  }
  Status Term(const Message& message) override {
    termed.push_back(message.id);
    return {};
  }
  Status Extend(const Message&) override {
    ++extended;
    return {};
  }
  Status Flush() override { return {}; }
  std::int64_t ack_wait_ms() const override { return 30'000; }

  std::vector<std::string> acked;
  std::vector<std::string> termed;
  std::vector<std::int64_t> delays;
  std::ptrdiff_t largest_fetch = 0;
  int extended = 0;
  int broken = 0;  // fetches that fail

 private:
  ManualClock* clock_;
  std::deque<Message> waiting_;
  std::vector<std::pair<std::int64_t, Message>> back_;
  std::map<std::string, std::int64_t> delivered_;
  int last_ = 0;
};

// Starts a run for each key once, unless it is told to answer otherwise.
class FakeDispatcher final : public Dispatcher {
 public:
  explicit FakeDispatcher(ManualClock* clock) : clock_(clock) {}

  std::vector<DispatchOutcome> Dispatch(std::span<const DispatchRequest> requests) override {
    sizes.push_back(requests.size());
    std::vector<DispatchOutcome> outcomes;
    for (const DispatchRequest& request : requests) outcomes.push_back(One(request));
    return outcomes;
  }
  Result<std::string> State() override {
    if (states.empty()) return std::string("ACTIVE");
    std::string state = states.front();
    if (states.size() > 1) states.pop_front();
    return state;
  }
  Result<std::int64_t> InFlight(std::int64_t) override { return in_flight; }

  Kind answer = Kind::kStarted;
  std::vector<std::string> bodies;  // of the runs, in order
  std::vector<std::size_t> sizes;
  std::deque<std::string> states;
  std::int64_t in_flight = 0;
  std::int64_t takes_us = 0;
  std::vector<std::string> playbooks;

 private:
  DispatchOutcome One(const DispatchRequest& request) {
    clock_->Advance(takes_us);
    if (answer != Kind::kStarted) return {.kind = answer, .error = "it is so"};
    if (keys_.contains(request.dedup_key))
      return {.kind = Kind::kDuplicate, .execution_id = keys_[request.dedup_key]};
    bodies.push_back(WriteJson(request.payload["message"]["data"]));
    playbooks.push_back(request.playbook);
    keys_[request.dedup_key] = std::to_string(100 + keys_.size());
    return {.kind = Kind::kStarted, .execution_id = keys_[request.dedup_key]};
  }

  ManualClock* clock_;
  std::map<std::string, std::string> keys_;
};

class SubscriptionListener : public testing::Test {
 protected:
  void Use(const std::string& more) { spec_ = TestSpec(more); }
  void UseSpool(const std::string& more = "") {
    Use(R"({"spool":{"mode":"buffer_and_ack","backend":"local_disk","path":")" + directory_.path() +
        R"(/spool","circuit":{"trip_after":2,"probe_after_ms":30000})" + more + "}}");
  }

  // Until nothing came for a while.
  Listener::Totals Listen(std::int64_t idle_ms = 3'000) {
    EventSink sink = [this](std::string_view type, const Json& fields) {
      events_.emplace_back(type);
      fields_.push_back(fields);
    };
    std::unique_ptr<Buffer> buffer;
    if (spec_.spool.on()) {
      auto opened = Buffer::Open(&spec_, &clock_, sink, [this](const DownstreamSpec&) {
        ++probes_;
        return there_;
      });
      EXPECT_TRUE(opened.has_value()) << opened.error().message;
      buffer = *std::move(opened);
    }
    Listener listener({.spec = &spec_,
                       .source = &source_,
                       .dispatcher = &dispatcher_,
                       .clock = &clock_,
                       .buffer = buffer.get(),
                       .dead_letters = directory_.path() + "/dlq",
                       .events = sink,
                       .stop = [this] { return ++turns_ > 100'000; },
                       .complain = [this](const std::string& text) { complaints_.push_back(text); },
                       .messages_max = messages_max_,
                       .idle_ms_max = idle_ms});
    const Status done = listener.Run();
    EXPECT_TRUE(done.has_value()) << done.error().message;
    EXPECT_LE(turns_, 100'000) << "it did not end";
    if (buffer) left_ = buffer->spool().entries().size();
    return listener.totals();
  }

  std::int64_t CountOf(std::string_view type) const { return std::ranges::count(events_, type); }
  Json FieldsOf(std::string_view type) const {
    const auto found = std::ranges::find(events_, type);
    return found == events_.end() ? Json()
                                  : fields_[static_cast<std::size_t>(found - events_.begin())];
  }
  std::size_t FilesIn(const std::string& folder) const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory_.path() + folder), {}));
  }

  TemporaryDirectory directory_;
  ManualClock clock_{1'000'000'000};
  FakeSource source_{&clock_};
  FakeDispatcher dispatcher_{&clock_};
  SubscriptionSpec spec_ = TestSpec();
  std::vector<std::string> events_;
  std::vector<Json> fields_;
  std::vector<std::string> complaints_;
  std::int64_t messages_max_ = 0;
  std::size_t left_ = 0;
  int turns_ = 0;
  int probes_ = 0;
  bool there_ = false;
};

TEST_F(SubscriptionListener, AcksAfterTheRunWasAccepted) {
  source_.Publish("1");
  source_.Publish("2");
  const Listener::Totals totals = Listen();
  EXPECT_THAT(dispatcher_.bodies, ElementsAre("1", "2"));
  EXPECT_THAT(source_.acked, ElementsAre("1", "2"));
  EXPECT_EQ(totals.started, 2);
  EXPECT_THAT(events_,
              ElementsAre("subscription.message.received", "subscription.message.dispatched",
                          "subscription.message.acked", "subscription.message.received",
                          "subscription.message.dispatched", "subscription.message.acked"));
}

TEST_F(SubscriptionListener, NobodyThereMeansLaterAgain) {
  source_.Publish("1");
  dispatcher_.answer = Kind::kUnavailable;
  Listen(50'000);
  EXPECT_THAT(source_.acked, IsEmpty());
  EXPECT_THAT(source_.delays, ElementsAre(2'000, 4'000, 8'000, 16'000, 32'000, 60'000));
  EXPECT_THAT(source_.termed, IsEmpty()) << "a message is not given up because a server is away";
  EXPECT_THAT(complaints_, ElementsAre("it is so")) << "once, not for every message";
  dispatcher_.answer = Kind::kStarted;
  Listen(100'000);
  EXPECT_THAT(source_.acked, ElementsAre("1"));
}

TEST_F(SubscriptionListener, ASourceThatIsAwayIsAskedAgain) {
  source_.broken = 5;
  source_.Publish("1");
  Listen(10'000);
  EXPECT_THAT(complaints_, ElementsAre("the stream is away"));
  EXPECT_THAT(source_.acked, ElementsAre("1"));
}

TEST_F(SubscriptionListener, WhatIsRefusedFiveTimesIsGivenUp) {
  source_.Publish("bad");
  dispatcher_.answer = Kind::kRefused;
  const Listener::Totals totals = Listen(200'000);
  EXPECT_EQ(totals.nacked, 4);
  EXPECT_EQ(totals.dead_lettered, 1);
  EXPECT_THAT(source_.termed, ElementsAre("1"));
  EXPECT_EQ(FilesIn("/dlq"), 1u);
  EXPECT_EQ(FieldsOf("subscription.message.dead_lettered")["attempts"], Json(5));
}

TEST_F(SubscriptionListener, BatchesShareARequest) {
  Use(R"({"dispatch":{"playbook":"p","batch_dispatch":true,"batch_max":2}})");
  for (int i = 0; i < 5; ++i) source_.Publish(std::to_string(i));
  Listen();
  EXPECT_THAT(dispatcher_.sizes, ElementsAre(2u, 2u, 1u));
  EXPECT_EQ(source_.acked.size(), 5u);
}

TEST_F(SubscriptionListener, EndsAfterSoManyMessages) {
  messages_max_ = 3;
  for (int i = 0; i < 5; ++i) source_.Publish(std::to_string(i));
  EXPECT_EQ(Listen(0).started, 3);
}

TEST_F(SubscriptionListener, FollowsTheState) {
  dispatcher_.states = {"PAUSED", "PAUSED", "ACTIVE", "ACTIVE", "DRAINING"};
  source_.Publish("1");
  Listen(0);
  EXPECT_THAT(dispatcher_.bodies, ElementsAre("1"));
  EXPECT_EQ(events_.front(), "subscription.paused");
  EXPECT_EQ(events_.at(1), "subscription.resumed");
  EXPECT_EQ(events_.back(), "subscription.draining");
}

TEST_F(SubscriptionListener, KeepsToTheRate) {
  Use(R"({"limits":{"max_dispatch_per_sec":2}})");
  for (int i = 0; i < 10; ++i) source_.Publish(std::to_string(i));
  const std::int64_t begin_us = clock_.MonotonicMicros();
  messages_max_ = 10;
  Listen(0);
  EXPECT_GE(clock_.MonotonicMicros() - begin_us, 4'000'000 - 1);
  EXPECT_LE(source_.largest_fetch, 2);
  EXPECT_EQ(FieldsOf("subscription.rate_limited")["reason"], Json("dispatch_rate"));
}

TEST_F(SubscriptionListener, StopsFetchingWhenTooManyRunsAreOpen) {
  Use(R"({"limits":{"max_in_flight":3}})");
  dispatcher_.in_flight = 1;
  for (int i = 0; i < 5; ++i) source_.Publish(std::to_string(i));
  Listen();
  EXPECT_EQ(source_.largest_fetch, 2);
  EXPECT_EQ(source_.acked.size(), 5u) << "the others had ended when they were counted";
  EXPECT_EQ(CountOf("subscription.rate_limited"), 1);
  EXPECT_EQ(FieldsOf("subscription.rate_limited")["reason"], Json("max_in_flight"));
  dispatcher_.in_flight = 3;
  dispatcher_.states = {"ACTIVE", "DRAINING"};
  source_.Publish("waits");
  Listen(0);
  EXPECT_EQ(source_.acked.size(), 5u);
}

TEST_F(SubscriptionListener, SlowBatchesAreProlonged) {
  dispatcher_.takes_us = 4'000'000;
  for (int i = 0; i < 6; ++i) source_.Publish(std::to_string(i));
  Listen();
  EXPECT_GT(source_.extended, 0);
  EXPECT_EQ(source_.acked.size(), 6u);
}

TEST_F(SubscriptionListener, HeadersChooseAndAreAudited) {
  Use(R"({"headers":{"directives":[{"header":"x-p","controls":"dispatch.playbook",)"
      R"("allowed":["demo/b"]}]}})");
  source_.Publish("1", {{"X-P", "demo/b"}});
  Listen();
  EXPECT_THAT(dispatcher_.playbooks, ElementsAre("demo/b"));
  EXPECT_EQ(FieldsOf("subscription.message.directives_applied")["route_override"]["playbook"],
            Json("demo/b"));
}

// ---- with a spool

TEST_F(SubscriptionListener, SpoolsWhileTheServerIsAway) {
  UseSpool();
  dispatcher_.answer = Kind::kUnavailable;
  for (int i = 0; i < 4; ++i) source_.Publish(std::to_string(i));
  EXPECT_EQ(Listen().spooled, 4);
  EXPECT_EQ(source_.acked.size(), 4u) << "they are on the disk";
  EXPECT_EQ(left_, 4u);
  EXPECT_EQ(CountOf("subscription.circuit.opened"), 1);
  events_.clear();
  dispatcher_.answer = Kind::kStarted;
  EXPECT_EQ(Listen(60'000).replayed, 4);
  EXPECT_THAT(dispatcher_.bodies, ElementsAre("0", "1", "2", "3"));
  EXPECT_EQ(left_, 0u);
  EXPECT_EQ(events_.front(), "subscription.spool.recovered");
  EXPECT_THAT(events_, Contains("subscription.circuit.closed"));
  EXPECT_THAT(events_, Contains("subscription.spool.draining"));
  EXPECT_EQ(CountOf("subscription.message.replayed"), 4);
}

TEST_F(SubscriptionListener, AnOutageGivesNothingUp) {
  UseSpool();
  dispatcher_.answer = Kind::kUnavailable;
  source_.Publish("1");
  const Listener::Totals totals = Listen(3'600'000);
  EXPECT_EQ(totals.dead_lettered, 0);
  EXPECT_EQ(left_, 1u);
  EXPECT_EQ(CountOf("subscription.message.dead_lettered"), 0);
}

TEST_F(SubscriptionListener, WhatIsRefusedAtTheReplayIsGivenUpInTheEnd) {
  UseSpool();
  dispatcher_.answer = Kind::kUnavailable;
  source_.Publish("1");
  Listen(1'000);
  dispatcher_.answer = Kind::kRefused;
  Listen(60'000);
  EXPECT_EQ(left_, 0u);
  EXPECT_EQ(FieldsOf("subscription.message.dead_lettered")["attempts"], Json(5));
  EXPECT_EQ(FilesIn("/spool/dlq"), 1u);
}

TEST_F(SubscriptionListener, NewMessagesOfALaneWaitForItsOldOnes) {
  UseSpool(R"(,"ordering":"per_key","ordering_key":"k","drain":{"on_recovery":"interleave"})");
  dispatcher_.answer = Kind::kUnavailable;
  source_.Publish(R"({"k":"a","n":1})");
  Listen(500);
  EXPECT_EQ(left_, 1u);
  dispatcher_.answer = Kind::kStarted;
  source_.Publish(R"({"k":"a","n":2})");
  source_.Publish(R"({"k":"b","n":3})");
  Listen(60'000);
  EXPECT_EQ(left_, 0u);
  const auto place = [&](const std::string& body) {
    return std::ranges::find(dispatcher_.bodies, body) - dispatcher_.bodies.begin();
  };
  EXPECT_EQ(dispatcher_.bodies.size(), 3u);
  EXPECT_LT(place(R"({"k":"a","n":1})"), place(R"({"k":"a","n":2})"));
}

TEST_F(SubscriptionListener, ActiveProbesCloseTheCircuit) {
  UseSpool();
  spec_.spool.circuit.downstream = {
      {.name = "default", .probe = DownstreamSpec::Probe::kHttp, .target = "http://x"}};
  spec_.spool.circuit.probe_after_ms = 3'600'000;
  dispatcher_.answer = Kind::kUnavailable;
  for (int i = 0; i < 3; ++i) source_.Publish(std::to_string(i));
  Listen(20'000);
  EXPECT_GE(probes_, 2);
  EXPECT_LE(probes_, 6) << "not more often than every five seconds";
  there_ = true;
  dispatcher_.answer = Kind::kStarted;
  Listen(20'000);
  EXPECT_EQ(left_, 0u);
}

TEST_F(SubscriptionListener, HybridLeavesMessagesWithTheSourceFirst) {
  UseSpool(R"(,"hybrid_escalate_after_ms":30000)");
  spec_.spool.mode = SpoolSpec::Mode::kHybrid;
  dispatcher_.answer = Kind::kUnavailable;
  source_.Publish("1");
  source_.Publish("2");
  Listen(10'000);
  EXPECT_EQ(left_, 0u);
  EXPECT_THAT(source_.acked, IsEmpty());
  Listen(120'000);
  EXPECT_EQ(left_, 2u);
  EXPECT_EQ(source_.acked.size(), 2u);
}

TEST_F(SubscriptionListener, AFullSpoolLeavesMessagesWithTheSource) {
  UseSpool(R"(,"retention":{"max_bytes":1})");
  dispatcher_.answer = Kind::kUnavailable;
  source_.Publish("1");
  Listen(1'000);
  EXPECT_THAT(source_.acked, IsEmpty());
  EXPECT_EQ(FieldsOf("subscription.spool.alert")["accepted"], Json(false));
  EXPECT_EQ(left_, 0u);
}

TEST_F(SubscriptionListener, ReplaysKeepTheirWay) {
  UseSpool();
  const std::string path = spec_.spool.path;
  Use(R"({"headers":{"directives":[{"header":"x-p","controls":"dispatch.playbook",)"
      R"("allowed":["demo/b"]}]},"spool":{"mode":"buffer_and_ack","backend":"local_disk","path":")" +
      path + R"("}})");
  dispatcher_.answer = Kind::kUnavailable;
  source_.Publish("1", {{"X-P", "demo/b"}});
  Listen(500);
  dispatcher_.answer = Kind::kStarted;
  Listen(60'000);
  EXPECT_THAT(dispatcher_.playbooks, ElementsAre("demo/b"));
}

TEST_F(SubscriptionListener, DrainsAtItsRate) {
  UseSpool(R"(,"drain":{"rate_per_sec":1})");
  dispatcher_.answer = Kind::kUnavailable;
  for (int i = 0; i < 5; ++i) source_.Publish(std::to_string(i));
  Listen(500);
  dispatcher_.answer = Kind::kStarted;
  clock_.Advance(60'000'000);
  const std::int64_t begin_us = clock_.MonotonicMicros();
  Listen(2'000);
  EXPECT_EQ(left_, 0u);
  EXPECT_GE(clock_.MonotonicMicros() - begin_us, 4'000'000 - 1);
}

TEST_F(SubscriptionListener, OldItemsAreDropped) {
  UseSpool(R"(,"retention":{"max_age_hours":1})");
  dispatcher_.answer = Kind::kUnavailable;
  source_.Publish("1");
  Listen(3 * 3'600'000);
  EXPECT_EQ(CountOf("subscription.message.dropped"), 1);
  EXPECT_EQ(left_, 0u);
}

TEST(SubscriptionRedelivery, DoublesUpToAMinute) {
  EXPECT_EQ(RedeliveryDelayMs(1), 2'000);
  EXPECT_EQ(RedeliveryDelayMs(5), 32'000);
  EXPECT_EQ(RedeliveryDelayMs(6), 60'000);
  EXPECT_EQ(RedeliveryDelayMs(1'000'000), 60'000);
}

}  // namespace
}  // namespace noetl::worker
