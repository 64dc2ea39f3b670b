// The state of a run as of one moment, for comparing servers and for people: six projections of
// its log and what they are sealed with.
//
// Plain values, any thread. `ToJson` gives the members in the order in which they are shown, absent
// ones left out; `StateFromJson` reads such a state back, to go on from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::engine::replay {

// What is known of a payload without reading it.
struct PayloadSummary {
  std::optional<std::string> sha256;
  std::optional<std::string> schema_digest;
  std::optional<std::int64_t> row_count;
  std::optional<std::string> media_type;
  std::optional<std::string> ref;

  bool operator==(const PayloadSummary&) const = default;
};

struct PayloadRef {
  std::int64_t event_id = 0;
  Json reference;  // as the event has it
  PayloadSummary summary;

  bool operator==(const PayloadRef&) const = default;
};

struct Execution {
  std::string status = "UNKNOWN";
  std::optional<std::string> last_node_name;
  std::vector<PayloadRef> payload_refs;

  bool operator==(const Execution&) const = default;
};

struct Stage {
  std::string stage_id;
  std::string status = "UNKNOWN";
  std::optional<std::string> kind;
  std::optional<std::string> step_name;
  std::optional<std::string> parent_stage_id;
  std::optional<std::string> loop_event_id;
  std::optional<std::int64_t> opened_event_id;
  std::optional<std::int64_t> closed_event_id;
  std::int64_t frame_count = 0;
  std::int64_t row_count = 0;
  std::int64_t events_emitted = 0;
  std::int64_t failed_count = 0;
  std::optional<std::int64_t> last_event_id;

  bool operator==(const Stage&) const = default;
};

struct Frame {
  std::string frame_id;
  std::optional<std::string> stage_id;
  std::optional<std::string> parent_frame_id;
  std::optional<std::string> command_id;
  std::optional<std::int64_t> claimed_event_id;
  std::optional<std::int64_t> terminal_event_id;
  std::string status = "UNKNOWN";
  std::int64_t row_count = 0;
  std::int64_t attempts = 0;
  std::optional<std::int64_t> last_event_id;
  std::int64_t events_emitted = 0;
  Json output_ref;  // null: absent
  std::optional<PayloadSummary> output_ref_summary;

  bool operator==(const Frame&) const = default;
};

struct Command {
  std::string command_id;
  std::optional<std::string> stage_id;
  std::optional<std::string> frame_id;
  std::optional<std::string> parent_command_id;
  std::optional<std::string> worker_id;
  std::optional<std::string> worker_locator;
  std::string status = "UNKNOWN";
  std::optional<std::int64_t> issued_event_id;
  std::optional<std::int64_t> claimed_event_id;
  std::optional<std::int64_t> started_event_id;
  std::optional<std::int64_t> terminal_event_id;
  std::optional<std::int64_t> last_event_id;

  bool operator==(const Command&) const = default;
};

struct BusinessObject {
  std::string object_key;  // type '/' id
  std::string object_type;
  std::string object_id;
  std::string status = "UNKNOWN";
  std::int64_t version = 0;
  std::int64_t event_count = 0;
  std::optional<std::int64_t> first_event_id;
  std::optional<std::int64_t> last_event_id;
  std::optional<std::int64_t> deleted_event_id;
  std::optional<std::string> last_event_type;
  Json attributes = Json::Object();
  std::vector<PayloadRef> payload_refs;
  std::optional<PayloadRef> last_payload_ref;

  bool operator==(const BusinessObject&) const = default;
};

struct Loop {
  std::string loop_id;
  std::optional<std::string> step_name;
  std::optional<std::int64_t> total;
  std::int64_t done = 0;
  std::int64_t failed = 0;
  bool completed = false;
  std::optional<std::int64_t> last_event_id;

  bool operator==(const Loop&) const = default;
};

struct Checksum {
  std::string type = "sha256";
  std::string value;  // hexadecimal, lower case

  bool operator==(const Checksum&) const = default;
};

// The stored state that a fold began with.
struct Snapshot {
  std::string aggregate_id;
  std::string aggregate_type;
  std::int64_t version = 0;  // the highest event id that it contains
  Checksum checksum;
  Json meta = Json::Object();

  bool operator==(const Snapshot&) const = default;
};

// Keys in the order of their bytes, as they are hashed and shown.
template <typename T>
using ById = std::map<std::string, T, std::less<>>;

struct State {
  std::string tenant_id = "default";
  std::string organization_id = "default";
  std::int64_t execution_id = 0;
  std::string projection = "all";
  std::uint64_t event_count = 0;
  std::optional<std::int64_t> last_event_id;
  std::optional<std::string> last_event_type;
  Execution execution;
  ById<Stage> stages;
  ById<Frame> frames;
  ById<Command> commands;
  ById<BusinessObject> business_objects;
  ById<Loop> loops;
  std::optional<std::string> upcaster_registry_digest;
  std::optional<Snapshot> replay_snapshot;

  bool operator==(const State&) const = default;
};

// Without checksums.
Json ToJson(const State& state);
Json ToJson(const PayloadSummary& summary);

// Checksums in it are left out, unknown members too. "bad_state" names the first member that is
// missing or has the wrong type: such a state is as good as none.
Result<State> StateFromJson(const Json& state);
Result<Snapshot> SnapshotFromJson(const Json& seed);

}  // namespace noetl::engine::replay
