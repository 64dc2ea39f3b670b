#include "api/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"

namespace noetl::api {

namespace {

// Shares of a shorter time are noise.
constexpr std::int64_t kLookUs = 200'000;
// More threads than we ever have.
constexpr std::size_t kThreadsMax = 1024;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::int64_t NumberAt(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::int64_t ProcessCpuUs() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec;
  };
  return us(used.ru_utime) + us(used.ru_stime);
}

double Tenths(double value) { return std::round(value * 10) / 10; }
double Mib(std::int64_t kib) { return Tenths(static_cast<double>(kib) / 1024); }

double Percent(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return 0;
  return Tenths(100 * static_cast<double>(std::max<std::int64_t>(part, 0)) /
                static_cast<double>(whole));
}

}  // namespace

CpuTimes ParseCpuLine(std::string_view stat) {
  // user nice system idle iowait irq softirq steal
  constexpr int kColumns = 8;
  constexpr int kIdle = 3;
  constexpr int kIoWait = 4;
  CpuTimes times;
  if (!stat.starts_with("cpu ")) return times;
  stat = stat.substr(0, stat.find('\n'));
  stat.remove_prefix(4);
  for (int column = 0; column < kColumns; ++column) {
    stat = Trim(stat);
    if (stat.empty()) break;
    const std::int64_t ticks = NumberAt(stat);
    times.total += ticks;
    if (column != kIdle && column != kIoWait) times.busy += ticks;
    stat.remove_prefix(std::min(stat.find(' '), stat.size()));
  }
  return times;
}

std::int64_t ParseKib(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return NumberAt(Trim(line.substr(name.size() + 1)));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}

Json ProcessStats::Read(std::int64_t now_us, std::int64_t monotonic_us,
                        std::int64_t started_at_us) {
  const std::string memory = ReadAll("/proc/meminfo");
  const std::string status = ReadAll("/proc/self/status");
  const std::int64_t uptime_us = std::max<std::int64_t>(now_us - started_at_us, 1);
  Look look;
  {
    const std::lock_guard lock(mutex_);
    if (last_.at_us == 0 || monotonic_us - last_.at_us >= kLookUs) {
      Look next{.at_us = std::max<std::int64_t>(monotonic_us, 1),
                .system = ParseCpuLine(ReadAll("/proc/stat")),
                .process_us = ProcessCpuUs()};
      // The first look sees the whole life so far.
      const std::int64_t passed = last_.at_us == 0 ? uptime_us : monotonic_us - last_.at_us;
      next.system_percent =
          Percent(next.system.busy - last_.system.busy, next.system.total - last_.system.total);
      next.process_percent = Percent(next.process_us - last_.process_us, passed);
      last_ = next;
    }
    look = last_;
  }
  const std::int64_t total = ParseKib(memory, "MemTotal");
  const std::int64_t available = ParseKib(memory, "MemAvailable");
  return Json::Object(
      {{"system", Json::Object({{"cpu_percent", look.system_percent},
                                {"memory_percent", Percent(total - available, total)},
                                {"total_memory_mb", Mib(total)},
                                {"used_memory_mb", Mib(total - available)},
                                {"available_memory_mb", Mib(available)}})},
       {"process", Json::Object({{"pid", static_cast<std::int64_t>(getpid())},
                                 {"cpu_percent", look.process_percent},
                                 {"memory_rss_mb", Mib(ParseKib(status, "VmRSS"))},
                                 {"memory_vms_mb", Mib(ParseKib(status, "VmSize"))},
                                 {"num_threads", ParseKib(status, "Threads")},
                                 {"start_time", started_at_us / 1'000'000},
                                 {"uptime_seconds", uptime_us / 1'000'000}})}});
}

Json ThreadList() {
  std::vector<Json> threads;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", problem)) {
    if (threads.size() == kThreadsMax) break;
    const std::string name = ReadAll((entry.path() / "comm").string());
    threads.push_back(Json::Object({{"thread_id", NumberAt(entry.path().filename().string())},
                                    {"name", Trim(name)},
                                    {"is_alive", true}}));
  }
  return Json::Array(std::move(threads));
}

}  // namespace noetl::api
