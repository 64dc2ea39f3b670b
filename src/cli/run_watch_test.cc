#include "cli/run_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace noetl::cli {
namespace {

using engine::Event;
using engine::EventType;

constexpr std::int64_t kRun = 10;

Event Numbered(std::int64_t seq, EventType type) {
  Event event;
  event.execution_id = kRun;
  event.seq = seq;
  event.type = type;
  event.context = Json::Object({{"path", "demo/t"}});
  return event;
}

// A log in which something happens while it is read.
class BusyLog final : public store::EventLog {
 public:
  Result<std::vector<Event>> ReadEvents(std::int64_t, std::int64_t after_seq,
                                        std::int64_t) const override {
    std::vector<Event> found;
    for (const Event& event : events) {
      if (event.seq > after_seq) found.push_back(event);
    }
    if (during_read) during_read();
    return found;
  }

  std::vector<Status> Commit(std::span<const store::UnitRows* const>) override { return {}; }
  Result<std::vector<store::EventRow>> ReadRows(std::int64_t, std::int64_t,
                                                std::int64_t) const override {
    return {};
  }
  Result<std::optional<Event>> FindEvent(std::int64_t, std::int64_t) const override { return {}; }
  Result<std::optional<Event>> FindEvent(std::int64_t) const override { return {}; }
  Result<std::vector<Event>> ReadNewest(std::int64_t, std::int64_t, std::string_view,
                                        std::int64_t) const override {
    return {};
  }
  Result<std::optional<Event>> FindWorkerEvent(std::int64_t, std::string_view) const override {
    return {};
  }

  std::vector<Event> events;
  std::function<void()> during_read;
};

// A run is taken up from the store and ends meanwhile: the end was told before the watch knew what
// comes before it, and is told once.
TEST(RunWatchTest, AnEndThatIsToldWhileTheLogIsReadIsNotMissed) {
  Console console;
  RunWatch watch(&console, {.output = Output::kJson});
  watch.Watch(kRun);
  BusyLog log;
  log.events = {Numbered(1, EventType::kPlaybookStarted)};
  log.during_read = [&] {
    if (log.events.size() > 1) return;
    const Event end = Numbered(2, EventType::kPlaybookCompleted);
    log.events.push_back(end);
    const std::vector<store::EventRow> rows = {{.event = end}};
    watch.OnEvents({.execution_id = kRun, .terminal = true}, rows);
  };
  ASSERT_TRUE(watch.CatchUp(log, false));
  ASSERT_TRUE(watch.CatchUp(log, false));
  EXPECT_TRUE(watch.Ended());
}

}  // namespace
}  // namespace noetl::cli
