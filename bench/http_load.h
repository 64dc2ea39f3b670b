// A client for benchmarks: keep-alive connections over loopback, each with one request at a time.
//
// `RunLoad` works on the thread of its caller and comes back when the time is over and every answer
// is there. Anything but a 2xx, 429 or 503 ends the program: a figure of errors is worth nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace noetl::bench {

[[noreturn]] void Give(const std::string& message);

// Every latency is kept, so percentiles are exact.
class Latencies {
 public:
  void Add(double us) { all_.push_back(static_cast<float>(us)); }
  std::size_t count() const { return all_.size(); }
  // The value that `part` of all are not above; 1 for the largest.
  double At(double part) const;

 private:
  mutable std::vector<float> all_;
};

struct Load {
  int port = 0;
  int connections = 1;
  double seconds = 1;
  // Operations offered in a second, whatever becomes of them; 0: each connection sends its next
  // request when it has its answer.
  double rate = 0;
  // The next request; false: there are no more.
  std::function<bool(std::string& request)> next;
  // Sees the body of every 2xx; true: `request` is now a second request of the same operation.
  std::function<bool(std::string_view body, std::string& request)> answered;
};

struct LoadResult {
  double seconds = 0;
  Latencies admitted;        // of 2xx answers, from the sending of the (first) request
  Latencies since_due;       // the same from the moment the rate asked for it
  std::int64_t refused = 0;  // 429 and 503
  std::int64_t offered = 0;
  std::int64_t unsent = 0;  // due, but no connection was free until the end

  double per_second() const { return static_cast<double>(admitted.count()) / seconds; }
};

LoadResult RunLoad(const Load& load);

// The text of a request.
std::string Get(std::string_view target);
std::string Post(std::string_view target, std::string_view body);
// One request on a connection of its own; the body of its answer.
std::string Ask(int port, const std::string& request);

}  // namespace noetl::bench
