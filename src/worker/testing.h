// Shared by the tests of the worker: a reactor driven by hand, tools and a server that do as told.
//
// Time is virtual: `ManualReactor` moves the clock to the next timer when nothing else is left to do.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json_io.h"
#include "base/manual_reactor.h"
#include "worker/worker.h"

namespace noetl::worker {

inline ToolAnswer Success(Json payload) {
  ToolAnswer answer;
  answer.outcome.payload = std::move(payload);
  return answer;
}

// Answers at once when `answer` gives something, else when the test says so.
class FakeTool final : public Tool {
 public:
  struct Call {
    ToolCall call;
    Done done;
    int stops = 0;
    bool destroyed = false;
  };
  using Script = std::function<std::optional<ToolAnswer>(const ToolCall&)>;

  Script answer = [](const ToolCall&) { return std::optional<ToolAnswer>(); };
  // Whether a call that is told to stop answers before Stop returns.
  bool stops_at_once = false;

  std::unique_ptr<Running> Start(ToolCall call, Done done) override {
    auto made = std::make_shared<Call>(Call{std::move(call), std::move(done)});
    calls_.push_back(made);
    if (std::optional<ToolAnswer> given = answer(made->call)) {
      Finish(*made, *std::move(given));
      return nullptr;
    }
    return std::make_unique<FakeRunning>(this, std::move(made));
  }

  std::size_t count() const { return calls_.size(); }
  Call& at(std::size_t index) { return *calls_.at(index); }
  Call& last() { return *calls_.back(); }
  void Answer(std::size_t index, ToolAnswer given) { Finish(*calls_.at(index), std::move(given)); }
  void AnswerLast(ToolAnswer given) { Finish(*calls_.back(), std::move(given)); }

  static ToolAnswer Cancelled() {
    ToolAnswer given = Failed("fake", "cancelled", "CANCELLED", false, "cancelled");
    given.cancelled = true;
    return given;
  }

 private:
  class FakeRunning final : public Running {
   public:
    FakeRunning(FakeTool* tool, std::shared_ptr<Call> call) : tool_(tool), call_(std::move(call)) {}
    ~FakeRunning() override { call_->destroyed = true; }
    void Stop() override {
      ++call_->stops;
      if (tool_->stops_at_once && call_->done) Finish(*call_, Cancelled());
    }

   private:
    FakeTool* tool_;
    std::shared_ptr<Call> call_;
  };

  static void Finish(Call& call, ToolAnswer given) {
    ASSERT_TRUE(call.done) << "answered already";
    ASSERT_FALSE(call.destroyed) << "a destroyed call does not answer";
    Done done = std::move(call.done);
    call.done = nullptr;
    done(std::move(given));
  }

  std::vector<std::shared_ptr<Call>> calls_;
};

class FakeTools final : public Tools {
 public:
  Tool* Find(std::string_view kind) override {
    const auto found = tools_.find(kind);
    return found == tools_.end() ? nullptr : &found->second;
  }
  FakeTool& operator[](const std::string& kind) { return tools_[kind]; }

 private:
  std::map<std::string, FakeTool, std::less<>> tools_;
};

class FakeServer final : public bus::ServerEnd {
 public:
  void Send(bus::Report report, Sent sent) override {
    reports.push_back(std::move(report));
    if (hold_sends) {
      held_sends.push_back(std::move(sent));
      return;
    }
    Status status;
    if (!answers.empty()) {
      status = std::move(answers.front());
      answers.pop_front();
    }
    sent(std::move(status));
  }
  void Load(std::string ref, Loaded loaded) override {
    loads.push_back(ref);
    if (hold_loads) {
      held_loads.push_back(std::move(loaded));
      return;
    }
    if (!load_errors.empty()) {
      Error error = std::move(load_errors.front());
      load_errors.pop_front();
      loaded(std::unexpected(std::move(error)));
      return;
    }
    const auto found = bodies.find(ref);
    if (found == bodies.end()) loaded(Fail("not_found", "no such body"));
    else loaded(found->second);
  }
  void RunChild(bus::ChildCall call, ChildDone done) override {
    children.emplace_back(std::move(call), std::move(done));
  }
  void FindSecret(std::string alias, std::int64_t, Loaded found) override {
    const auto secret = secrets.find(alias);
    if (secret == secrets.end()) return found(Fail("not_found", "there is no '" + alias + "'"));
    found(secret->second);
  }
  void FreeSlots(int change) override {
    free_slots += change;
    slot_changes.push_back(change);
  }

  std::vector<bus::Report> reports;
  std::deque<Status> answers;  // of the next sends; then all is well
  bool hold_sends = false;
  std::vector<Sent> held_sends;
  std::map<std::string, Json> bodies;
  std::map<std::string, Json> secrets;  // {name, type, data} by name
  std::deque<Error> load_errors;
  std::vector<std::string> loads;
  bool hold_loads = false;
  std::vector<Loaded> held_loads;
  std::vector<std::pair<bus::ChildCall, ChildDone>> children;
  int free_slots = 0;
  std::vector<int> slot_changes;
};

class WorkerTest : public testing::Test {
 protected:
  static constexpr std::int64_t kStartUs = 1'800'000'000'000'000;
  static constexpr std::int64_t kExecution = 77;

  static Json Parse(std::string_view text) {
    Result<Json> json = ParseJson(text);
    EXPECT_TRUE(json.has_value()) << text;
    return json.value_or(Json());
  }

  // A command for one tool; `context` is merged over what every command has.
  bus::Grant Single(std::string kind, std::string_view config, std::string_view context = "{}") {
    const std::int64_t event_id = ++last_event_;
    bus::Grant grant{.execution_id = kExecution,
                     .command_id = "77:s:" + std::to_string(event_id),
                     .event_id = event_id,
                     .path = "p",
                     .step = "s",
                     .tool_kind = std::move(kind),
                     .claim_token = 3,
                     .inline_bytes = 102'400};
    grant.context = Json::Object({{"tool_config", Parse(config)},
                                  {"args", Json::Object()},
                                  {"idempotency_key", "77:s:1:0"}})
                        .Merge(Parse(context));
    grant.meta = Json::Object({{"command_id", grant.command_id}, {"attempt", 2}});
    return grant;
  }
  bus::Grant Tasks(std::string_view tasks, std::string_view context = "{}") {
    return Single("task_sequence", tasks, context);
  }

  Worker& Make() {
    worker_ = std::make_unique<Worker>(options_, &reactor_, &clock_, &ids_, &tools_, &server_);
    return *worker_;
  }
  Worker& worker() { return worker_ ? *worker_ : Make(); }
  void Run(bus::Grant grant) { Run(std::vector<bus::Grant>{std::move(grant)}); }
  void Run(std::vector<bus::Grant> grants) {
    worker().Run(std::move(grants));
    reactor_.RunPosted();
  }
  void Stop(std::string command_id) {
    worker().Stop({std::move(command_id)});
    reactor_.RunPosted();
  }

  // The last report that ended a command, and what it says.
  const bus::Report& Last() const {
    static const bus::Report kNone;
    for (auto report = server_.reports.rbegin(); report != server_.reports.rend(); ++report) {
      if (report->ends) return *report;
    }
    ADD_FAILURE() << "no command has ended";
    return kNone;
  }
  // The result inside call.done.
  const Json& Res() const { return Last().events.at(0).result["context"]["result"]; }
  const Json& ToolResult() const { return Res()["context"]; }
  std::size_t Ends() const {
    std::size_t count = 0;
    for (const bus::Report& report : server_.reports) count += report.ends ? 1 : 0;
    return count;
  }
  // All text of a stream as it was sent, with a bar where bytes are left out.
  std::string LogText(std::string_view stream) const {
    std::string text;
    std::int64_t next = 0;
    for (const bus::Report& report : server_.reports) {
      for (const bus::LogText& piece : report.logs) {
        if (piece.stream != stream) continue;
        if (piece.offset != next) text += "|";
        text += piece.text;
        next = piece.offset + std::ssize(piece.text);
      }
    }
    return text;
  }
  // No command, no timer, no slot is left.
  void ExpectNothingLeft() {
    EXPECT_EQ(worker().running(), 0U);
    EXPECT_EQ(server_.free_slots, 0);
    reactor_.RunPosted();
    EXPECT_EQ(reactor_.timers(), 0U);
  }

  ManualClock clock_{kStartUs};
  ManualReactor reactor_{&clock_};
  SequentialIds ids_{1'000};
  FakeTools tools_;
  FakeServer server_;
  WorkerOptions options_;
  std::unique_ptr<Worker> worker_;
  std::int64_t last_event_ = 0;
};

}  // namespace noetl::worker
