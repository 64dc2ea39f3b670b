// The python tool: how long one call takes, how many there are a second, and the floor under both:
// bare forks of a Python process.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/temporary_directory.h"
#include "worker/process.h"
#include "worker/tools/registry.h"

namespace noetl::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSingleCalls = 200;
// Spare processes are forked again in this time.
constexpr std::int64_t kPauseUs = 50'000;
constexpr int kSustainedCalls = 1'500;
constexpr int kCallsAtOnce = 8;

double Micros(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

ToolCall MakeCall(int number, bool reuse) {
  ToolCall call;
  call.execution_id = 1;
  call.step = "bench";
  call.kind = "python";
  call.config = Json::Object({{"code", "result = {'square': n * n}"}});
  call.input = Json::Object({{"n", number}});
  call.context = Json::Object();
  call.timeout_ms = 20'000;
  if (reuse) call.spec = Json::Object({{"python", Json::Object({{"reuse", true}})}});
  return call;
}

void Report(const char* name, double value, const char* unit) {
  std::printf("%-24s %10.1f %s\n", name, value, unit);
}

class Bench {
 public:
  Bench(EventLoop* loop, Tool* tool) : loop_(loop), tool_(tool) {}

  void Pause() {
    loop_->After(kPauseUs, [this] { loop_->Stop(); });
    loop_->Run();
  }

  double OneCall(int number, bool reuse) {
    const auto start = Clock::now();
    Clock::time_point end;
    const auto running = tool_->Start(MakeCall(number, reuse), [&](const ToolAnswer& answer) {
      end = Clock::now();
      if (!answer.outcome.ok) std::printf("failed: %s\n", answer.outcome.error.c_str());
      loop_->Stop();
    });
    loop_->Run();
    return Micros(end - start);
  }

  void Single(const char* name, bool reuse) {
    std::vector<double> times;
    for (int i = 0; i < kSingleCalls; ++i) {
      Pause();
      times.push_back(OneCall(i, reuse));
    }
    std::ranges::sort(times);
    Report((std::string(name) + "_p50").c_str(), times[kSingleCalls / 2], "us");
    Report((std::string(name) + "_p99").c_str(), times[kSingleCalls * 99 / 100], "us");
  }

  void Sustained() {
    running_.resize(kCallsAtOnce);
    const auto start = Clock::now();
    for (int slot = 0; slot < kCallsAtOnce; ++slot) Next(slot);
    loop_->Run();
    Report("sustained", kSustainedCalls * 1e6 / Micros(Clock::now() - start), "calls/s");
    running_.clear();
  }

 private:
  void Next(int slot) {
    if (started_ >= kSustainedCalls) return;
    running_[slot] = tool_->Start(MakeCall(started_++, false), [this, slot](const ToolAnswer&) {
      if (++ended_ == kSustainedCalls) return loop_->Stop();
      // The answered call ends first.
      loop_->Post([this, slot] { Next(slot); });
    });
  }

  EventLoop* loop_;
  Tool* tool_;
  std::vector<std::unique_ptr<Running>> running_;
  int started_ = 0;
  int ended_ = 0;
};

// A Python process with the same modules that forks, lets the child end and waits for it.
void BareForks(Supervisor* supervisor, EventLoop* loop) {
  ProcessSpec spec;
  spec.argv = {"python3", "-I", "-c",
               "import asyncio, csv, ctypes, decimal, inspect, json, os, statistics, time, "
               "urllib.request, uuid, gc\n"
               "gc.collect(); gc.disable(); gc.freeze()\n"
               "start = time.perf_counter()\n"
               "for i in range(1000):\n"
               "  pid = os.fork()\n"
               "  if pid == 0: os._exit(0)\n"
               "  os.waitpid(pid, 0)\n"
               "print(1000 / (time.perf_counter() - start))\n"};
  const auto process = supervisor->Start(std::move(spec), [&](const ProcessExit& exit) {
    Report("bare_forks", std::atof(exit.stdout_text.c_str()), "forks/s");
    loop->Stop();
  });
  if (process) loop->Run();
}

int Main() {
  const TemporaryDirectory folder;
  EventLoop loop;
  auto supervisor = Supervisor::Create(&loop, folder.path());
  if (!supervisor) return 1;
  {
    const std::unique_ptr<Tool> tool =
        MakePython({.loop = &loop, .supervisor = supervisor->get(), .settings = nullptr});
    Bench bench(&loop, tool.get());
    Report("first", bench.OneCall(0, false), "us");
    bench.Single("single", false);
    bench.Single("single_reuse", true);
    bench.Sustained();
  }
  BareForks(supervisor->get(), &loop);
  return 0;
}

}  // namespace
}  // namespace noetl::worker

int main() { return noetl::worker::Main(); }
