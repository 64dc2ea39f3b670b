// Handles of metrics for the routes that count often: taken from the tables once, so that counting
// looks up nothing and formats nothing. Part of `ServerMetrics`; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/durations.h"
#include "base/metrics.h"
#include "base/result.h"
#include "conductor/tally.h"
#include "conductor/worker_calls.h"
#include "engine/events.h"

namespace noetl::api {

class CounterTable;
class HistogramTable;

// Events of workers. Times are gathered here and shown when somebody asks for the metrics.
class IngestMetrics {
 public:
  static constexpr auto kTypes = static_cast<std::size_t>(engine::EventType::kOther) + 1;

  explicit IngestMetrics(CounterTable& ingested);
  void Count(engine::EventType type, bool ok, std::int64_t took_us) {
    const auto index = static_cast<std::size_t>(type);
    (ok ? ok_ : error_)[index].Add();
    times[index].Add(took_us);
  }

  std::array<Durations, kTypes> times;
  Durations normalize;  // reading the events of a request
  Durations emit;       // until they are decided on and stored

 private:
  std::vector<CounterMetric> ok_;  // by type
  std::vector<CounterMetric> error_;
};

// Requests that change what is stored.
enum class WriteEndpoint : std::uint8_t {
  kCatalogRegister,
  kCatalogDelete,
  kCredentialsUpsert,
  kKeychainSet,
  kRuntimeRegister,
  kRuntimeHeartbeat,
};

class WriteMetrics {
 public:
  WriteMetrics(CounterTable& requests, HistogramTable& seconds);
  void Count(WriteEndpoint endpoint, bool ok, std::int64_t took_us);

 private:
  std::vector<CounterMetric> ok_;  // by endpoint
  std::vector<CounterMetric> error_;
  std::vector<HistogramMetric> seconds_;
};

// Runs asked for.
enum class StartEntry : std::uint8_t { kSingle, kBatch };
enum class StartOutcome : std::uint8_t { kNew, kDuplicate, kError };

class StartMetrics {
 public:
  StartMetrics(CounterTable& outcomes, HistogramTable& batch_size, CounterTable& reads);
  void Count(StartEntry entry, StartOutcome outcome);
  void CountBatch(std::size_t runs) { batch_size_.Observe(static_cast<double>(runs)); }
  // A read of the log for the answer.
  void CountRead(conductor::ReadOutcome outcome);

 private:
  std::vector<CounterMetric> outcomes_;  // three for each entry
  HistogramMetric batch_size_;
  std::vector<CounterMetric> reads_;  // by outcome
};

// Claims of remote workers, one by one or with a poll.
class ClaimMetrics {
 public:
  explicit ClaimMetrics(CounterTable& claims);
  void Count(const conductor::Claimed& claimed) { (claimed.repeated ? repeated_ : claimed_).Add(); }
  void Count(const Error& error);

 private:
  CounterMetric claimed_;
  CounterMetric repeated_;
  std::vector<CounterMetric> refused_;  // by the table of codes
};

}  // namespace noetl::api
