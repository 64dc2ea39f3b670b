#include "api/metric_handles.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "api/metrics.h"

namespace noetl::api {

namespace {

constexpr double kMicros = 1e6;
constexpr std::string_view kOther = "other";

// In the order of the enumerations.
constexpr std::string_view kEndpoints[] = {"catalog_register",   "catalog_delete",
                                           "credentials_upsert", "keychain_set",
                                           "runtime_register",   "runtime_heartbeat"};
constexpr std::string_view kEntries[] = {"single", "batch"};
constexpr std::string_view kOutcomes[] = {"new", "duplicate", "error"};
constexpr std::string_view kReads[] = {"hit", "miss", "error"};

// Codes of refused claims; the last stands for all others.
constexpr std::string_view kRefusals[] = {"active_claim", "already_terminal", "superseded",
                                          "cancelled",    "not_found",        "error"};

}  // namespace

IngestMetrics::IngestMetrics(CounterTable& ingested) {
  for (std::size_t i = 0; i < kTypes; ++i) {
    const auto type = static_cast<engine::EventType>(i);
    const std::string_view name =
        type == engine::EventType::kOther ? kOther : engine::EventName(type);
    ok_.push_back(ingested.At({name, "ok"}));
    error_.push_back(ingested.At({name, "error"}));
  }
}

WriteMetrics::WriteMetrics(CounterTable& requests, HistogramTable& seconds) {
  for (const std::string_view endpoint : kEndpoints) {
    ok_.push_back(requests.At({endpoint, "ok"}));
    error_.push_back(requests.At({endpoint, "error"}));
    seconds_.push_back(seconds.At({endpoint}));
  }
}

void WriteMetrics::Count(WriteEndpoint endpoint, bool ok, std::int64_t took_us) {
  const auto index = static_cast<std::size_t>(endpoint);
  (ok ? ok_ : error_)[index].Add();
  seconds_[index].Observe(static_cast<double>(took_us) / kMicros);
}

StartMetrics::StartMetrics(CounterTable& outcomes, HistogramTable& batch_size, CounterTable& reads)
    : batch_size_(batch_size.At({})) {
  for (const std::string_view entry : kEntries) {
    for (const std::string_view outcome : kOutcomes)
      outcomes_.push_back(outcomes.At({entry, outcome}));
  }
  for (const std::string_view outcome : kReads) reads_.push_back(reads.At({"execute", outcome}));
}

void StartMetrics::Count(StartEntry entry, StartOutcome outcome) {
  const std::size_t index = static_cast<std::size_t>(entry) * std::size(kOutcomes);
  outcomes_[index + static_cast<std::size_t>(outcome)].Add();
}

void StartMetrics::CountRead(conductor::ReadOutcome outcome) {
  reads_[static_cast<std::size_t>(outcome)].Add();
}

ClaimMetrics::ClaimMetrics(CounterTable& claims)
    : claimed_(claims.At({"claimed"})), repeated_(claims.At({"repeated"})) {
  for (const std::string_view code : kRefusals) refused_.push_back(claims.At({code}));
}

void ClaimMetrics::Count(const Error& error) {
  const auto* const found = std::ranges::find(kRefusals, error.code);
  const auto index = static_cast<std::size_t>(found - std::begin(kRefusals));
  refused_[std::min(index, std::size(kRefusals) - 1)].Add();
}

}  // namespace noetl::api
