// The engine: events folded and decided per second, and a loop of a million items whose cost per
// item and whose state must not grow.
#include <ctime>
#include <functional>

#include <benchmark/benchmark.h>
#include <simdjson.h>

#include "allocations.h"
#include "base/json_io.h"
#include "engine/decide.h"
#include "playbook/model.h"

namespace noetl {
namespace {

using engine::Event;
using engine::EventType;

constexpr std::int64_t kNow = 1'767'225'600'000'000;

constexpr std::string_view kLoop = R"(apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loop, path: loop}
workload: {factor: 3}
workflow:
  - step: start
    loop: {in: "{{ 1000000 }}", iterator: it, spec: {mode: parallel, max_in_flight: 10}}
    tool: {kind: noop, result: {value: "{{ it * workload.factor }}"}}
)";

// Feeds a decider directly; keeps counters and no log.
class Loop {
 public:
  explicit Loop(std::vector<Event>* keep = nullptr)
      : log_(keep), playbook_(playbook::Load(kLoop).playbook) {
    Decide([](engine::Decider& decider) { decider.Start({.execution_id = 7}); });
  }

  // One item ends: call.done and command.completed in one decision.
  void EndOne() {
    const engine::Command& command = state.commands().begin()->second;
    const Json meta = Json::Object({{"command_id", command.id}});
    Event done;
    done.event_id = ids_.Next();
    done.type = EventType::kCallDone;
    done.type_name = engine::EventName(done.type);
    done.node_name = command.step;
    done.status = "COMPLETED";
    done.meta = meta;
    done.result = done_result_;
    Event end = done;
    end.event_id = ids_.Next();
    end.type = EventType::kCommandCompleted;
    end.type_name = engine::EventName(end.type);
    end.status = "success";
    end.result = end_result_;
    Decide([&](engine::Decider& decider) {
      decider.Ingest(std::move(done));
      decider.Ingest(std::move(end));
    });
  }

  engine::State state;
  std::int64_t events = 0;

 private:
  void Decide(const std::function<void(engine::Decider&)>& feed) {
    engine::Decider decider(&state, *playbook_, {&ids_, nullptr, kNow});
    feed(decider);
    if (!decider.Decide()) std::abort();
    engine::Unit unit = decider.TakeUnit();
    events += std::ssize(unit.events);
    if (log_) log_->insert(log_->end(), unit.events.begin(), unit.events.end());
  }

  std::vector<Event>* log_;
  std::shared_ptr<const playbook::Playbook> playbook_;
  SequentialIds ids_{1'000'000};
  Json done_result_ = *ParseJson(
      R"({"status":"COMPLETED","context":{"call_index":0,"result":{"status":"success","context":{"status":"success","data":{"value":12}}}}})");
  Json end_result_ = *ParseJson(R"({"status":"success","context":{"status":"success"}})");
};

void PerEvent(benchmark::State& state, double events, std::int64_t allocations) {
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
  state.counters["allocations/event"] = static_cast<double>(allocations) / events;
}

void BM_Decide(benchmark::State& state) {
  Loop loop;
  const std::int64_t events = loop.events, allocations = bench::Allocations();
  for (auto _ : state) loop.EndOne();
  PerEvent(state, static_cast<double>(loop.events - events), bench::Allocations() - allocations);
}
BENCHMARK(BM_Decide)->Iterations(100'000);

std::vector<Event> SampleLog() {
  std::vector<Event> log;
  Loop loop(&log);
  for (int i = 0; i < 5'000; ++i) loop.EndOne();
  return log;
}

void BM_Fold(benchmark::State& state) {
  const std::vector<Event> log = SampleLog();
  std::int64_t allocations = 0;
  double events = 0;
  for (auto _ : state) {
    const std::int64_t before = bench::Allocations();
    engine::State folded;
    for (const Event& event : log) engine::Fold(folded, event);
    benchmark::DoNotOptimize(folded.seq);
    allocations += bench::Allocations() - before;
    events += static_cast<double>(log.size());
  }
  PerEvent(state, events, allocations);
}
BENCHMARK(BM_Fold)->Unit(benchmark::kMillisecond);

// The bare parser over the same rows: reading a log cannot be faster.
void BM_FloorParseRows(benchmark::State& state) {
  std::vector<simdjson::padded_string> rows;
  for (const Event& event : SampleLog()) rows.emplace_back(WriteJson(engine::EventToJson(event)));
  simdjson::dom::parser parser;
  double events = 0;
  for (auto _ : state) {
    for (const simdjson::padded_string& row : rows)
      benchmark::DoNotOptimize(parser.parse(row).error());
    events += static_cast<double>(rows.size());
  }
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_FloorParseRows)->Unit(benchmark::kMillisecond);

// The whole loop once. `cost_growth` is the time per item of the last tenth over that of the first;
// `bytes_growth` the size of a snapshot near the end over that after 1,000 items.
void BM_MillionItems(benchmark::State& state) {
  constexpr std::int64_t kItems = 1'000'000, kTenth = kItems / 10;
  for (auto _ : state) {
    Loop loop;
    // Processor time: other programs on the machine do not count.
    auto seconds = [from = std::clock()]() mutable {
      const std::clock_t now = std::clock();
      const double took = static_cast<double>(now - from) / CLOCKS_PER_SEC;
      from = now;
      return took;
    };
    double first = 0, last = 0, early_bytes = 0;
    double late_bytes = 0;
    for (std::int64_t item = 0; item < kItems - 1; ++item) {
      // While ten items are still in flight, as they were early on.
      if (item == kItems - 20)
        late_bytes = static_cast<double>(engine::WriteSnapshot(loop.state).size());
      if (item == 1'000)
        early_bytes = static_cast<double>(engine::WriteSnapshot(loop.state).size());
      loop.EndOne();
      if (item + 1 == kTenth) first = seconds();
      if (item + 1 == 9 * kTenth) seconds();
    }
    last = seconds();
    state.counters["cost_growth"] = last / first;
    state.counters["bytes_growth"] = late_bytes / early_bytes;
    state.counters["events/s"] =
        benchmark::Counter(static_cast<double>(loop.events), benchmark::Counter::kIsRate);
  }
}
BENCHMARK(BM_MillionItems)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace noetl
