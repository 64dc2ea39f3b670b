// What a `kind: Subscription` document asks of the listener that serves it.
//
// The rules that every subscription has to follow are checked elsewhere; here are those of a listener:
// what it can do, and what it needs. Pure, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace noetl::worker {

struct NatsPlace {
  std::string url;
  std::string user;
  std::string password;
  std::string token;  // goes before user and password
  std::string stream;
  std::string consumer;
  std::string subject;  // of a consumer that is made; empty: all of the stream
};

struct PubSubPlace {
  std::string subscription;  // projects/P/subscriptions/S
  std::string endpoint = "https://pubsub.googleapis.com";
  std::string token;  // not needed by an endpoint with http://
};

// What a header of a message may decide.
enum class Control {
  kPlaybook,
  kPool,
  kPriority,
  kIdempotencyKey,
  kContentType,
  kSchemaHint,
};
std::string_view ControlName(Control control);

struct Directive {
  std::string header;  // in lower case
  Control control = Control::kPlaybook;
  std::vector<std::string> allowed;          // playbooks or pools that may be named
  std::map<std::string, std::string> pools;  // of a priority
};

enum class PayloadFrom { kJson, kBody, kAttributes };

struct DownstreamSpec {
  enum class Probe { kPassive, kHttp, kTcp };
  std::string name;
  Probe probe = Probe::kPassive;
  std::string target;  // a URL for http, host:port for tcp
};

struct CircuitSpec {
  std::int64_t trip_after = 5;
  std::int64_t probe_after_ms = 30'000;
  std::int64_t probe_interval_ms = 5'000;
  std::vector<DownstreamSpec> downstream;  // never empty
};

struct SpoolSpec {
  enum class Mode { kOff, kBufferAndAck, kHybrid };
  enum class Ordering { kGlobal, kPerKey, kNone };
  enum class OnFull { kStopAcking, kDropToDlq, kAlertOnly };

  Mode mode = Mode::kOff;
  std::string path;
  Ordering ordering = Ordering::kPerKey;
  std::string ordering_key;  // a header, or a member of the data such as customer.id
  CircuitSpec circuit;
  double max_age_hours = 0;  // 0: they are kept
  std::int64_t max_bytes = std::int64_t{1} << 30;
  OnFull on_full = OnFull::kStopAcking;
  double drain_per_sec = 0;  // 0: as fast as it goes
  std::int64_t max_replay_attempts = 5;
  bool interleave = false;  // new messages need not wait for the old ones
  std::int64_t hybrid_escalate_after_ms = 30'000;

  bool on() const { return mode != Mode::kOff; }
};

struct SubscriptionSpec {
  std::string path;
  std::string source;
  std::string auth;    // the name of a credential for the source
  NatsPlace nats;      // of the source nats
  PubSubPlace pubsub;  // of the source pubsub

  std::string playbook;
  PayloadFrom payload_from = PayloadFrom::kJson;
  std::string pool;
  bool batch_dispatch = false;
  std::int64_t batch_max = 100;

  std::vector<Directive> directives;
  bool trace = false;  // w3c headers are handed on
  std::vector<std::string> baggage;

  bool dedup_by_key = false;  // messages with the same idempotency key start one run
  std::int64_t dedup_window_secs = 300;

  std::int64_t max_in_flight = 0;   // 0: no limit
  double max_dispatch_per_sec = 0;  // 0: no limit
  std::int64_t batch = 100;
  std::int64_t timeout_ms = 1'000;
  std::int64_t max_deliver = 5;
  SpoolSpec spool;
};

// Something that a listener cannot do, with its place: "spec.spool.backend".
struct SpecProblem {
  std::string path;
  std::string message;
};

// Fills `spec` from the whole document as far as it goes; empty: all of it is understood.
std::vector<SpecProblem> ReadSubscription(const Json& document, SubscriptionSpec* spec);

}  // namespace noetl::worker
