#include "api/ingest.h"

#include <algorithm>

#include "api/metrics.h"

namespace noetl::api {

namespace {

engine::EventType TypeOf(const Json& event) {
  const Json& type = event["event_type"];
  return engine::EventTypeOf((type.is_null() ? event["name"] : type).AsString());
}

}  // namespace

Ingest::Ingest(Services& services) : services_(&services), began_us_(NowUs()) {}

void Ingest::Read(std::size_t events) {
  if (events == 0) return;
  read_us_ = NowUs();
  MetricsOf(*services_).ingest.normalize.Add(read_us_ - began_us_);
}

std::unexpected<Error> Ingest::Refuse(std::span<const Json> events, const Error& error) const {
  IngestMetrics& metrics = MetricsOf(*services_).ingest;
  const std::int64_t took_us = NowUs() - began_us_;
  // A list that is refused for its length is not looked through.
  for (const Json& event : events.first(std::min(events.size(), kBatchEventsMax)))
    metrics.Count(TypeOf(event), false, took_us);
  return std::unexpected(error);
}

void Ingest::End(const PostOutcome& outcome) const {
  if (outcome.events.empty()) return;
  IngestMetrics& metrics = MetricsOf(*services_).ingest;
  const std::int64_t now_us = NowUs();
  metrics.emit.Add(now_us - read_us_);
  for (const EventOutcome& event : outcome.events)
    metrics.Count(event.type, event.code.empty(), now_us - began_us_);
}

}  // namespace noetl::api
