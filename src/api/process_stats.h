// How this machine and this process are doing, from /proc.
//
// Shares of processor time are those since the last look, and looks that come quickly after each
// other see the same one. Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/json.h"

namespace noetl::api {

// Processor time in ticks.
struct CpuTimes {
  std::int64_t busy = 0;
  std::int64_t total = 0;
};
// The first line of /proc/stat.
CpuTimes ParseCpuLine(std::string_view stat);
// A value of /proc/meminfo or /proc/self/status in KiB; 0 when it is not there.
std::int64_t ParseKib(std::string_view text, std::string_view name);

class ProcessStats {
 public:
  // {system: {...}, process: {...}} as the API shows them. Times in microseconds.
  Json Read(std::int64_t now_us, std::int64_t monotonic_us, std::int64_t started_at_us);

 private:
  struct Look {
    std::int64_t at_us = 0;
    CpuTimes system;
    std::int64_t process_us = 0;
    double system_percent = 0;
    double process_percent = 0;
  };
  std::mutex mutex_;
  Look last_;
};

// [{thread_id, name, is_alive}] of this process.
Json ThreadList();

}  // namespace noetl::api
