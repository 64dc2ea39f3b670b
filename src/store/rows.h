// What is stored: plain rows, the same for every implementation.
//
// A lane turns each decision into one `UnitRows` (serialised, numbered and chained on the lane's
// own thread), and the store commits many of them in one transaction. Times are microseconds since
// 1970 in UTC; 0 means absent, as do empty texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/sha256.h"
#include "engine/events.h"
#include "engine/unit.h"

namespace noetl::store {

struct EventRow {
  engine::Event event;
  // The JSON columns in their stored form; empty: null.
  std::string context;
  std::string result;
  std::string meta;
  // Event id of the command.issued that the event speaks of; 0: none.
  std::int64_t command_id = 0;
  // A key that the caller gave; empty: it follows from the event (engine::IdempotencyKey).
  std::string idempotency_key;
  // Head of the hash chain after this row (chain.h).
  Sha256Digest chain{};
};

struct ExecutionRow {
  std::int64_t execution_id = 0;
  std::int64_t catalog_id = 0;
  std::string path;
  std::int64_t version = 0;
  std::int64_t parent_execution_id = 0;
  std::string parent_command_id;
  std::string status;  // RUNNING, COMPLETED, FAILED, CANCELLED
  std::int64_t started_at_us = 0;
  std::int64_t ended_at_us = 0;
  std::string error;
  std::int64_t soft_error_count = 0;
  std::int64_t last_event_id = 0;
  std::string last_event_type;
  std::string last_node_name;
  std::int64_t updated_at_us = 0;
  std::int64_t head = 0;  // seq of the last event
  bool terminal = false;
  Sha256Digest chain{};
  // "key=value" of the playbook; written with the first event, empty when it is read.
  std::vector<std::string> labels;

  bool operator==(const ExecutionRow&) const = default;
};

enum class CommandStatus : std::uint8_t {
  kPending,
  kClaimed,
  kRunning,
  kCompleted,
  kFailed,
  kCancelled
};
std::string_view CommandStatusName(CommandStatus status);  // PENDING, CLAIMED ...
std::optional<CommandStatus> CommandStatusOf(std::string_view name);
inline bool IsOpen(CommandStatus status) { return status <= CommandStatus::kRunning; }

// The context of a command is that of its command.issued event.
struct CommandRow {
  std::int64_t command_id = 0;  // event id of command.issued
  std::int64_t execution_id = 0;
  std::int64_t catalog_id = 0;
  std::string id;  // <execution>:<step>:<event id>[:i<index>]
  std::string step;
  std::int64_t run = 0;
  std::string tool_kind;
  std::string pool;
  CommandStatus status = CommandStatus::kPending;
  bool server_run = false;  // a sub-playbook: never offered to workers
  bool parked = false;      // waits for a callback or a child
  std::int64_t attempt = 1;
  std::int64_t iter_index = -1;
  std::int64_t child_execution_id = 0;
  std::string worker_id;
  std::int64_t claim_token = 0;     // +1 with every grant
  std::int64_t lease_until_us = 0;  // 0 while claimed: held by the process that owns the store
  std::int64_t created_at_us = 0;
  std::int64_t claimed_at_us = 0;
  std::int64_t started_at_us = 0;
  std::int64_t completed_at_us = 0;
  std::int64_t latest_event_id = 0;
  std::string error;

  bool operator==(const CommandRow&) const = default;
};

// Changes a command that is stored. Zero and empty members leave their column alone, except
// `status`, `parked` and `lease_until_us`, which are always written.
struct CommandChange {
  std::int64_t command_id = 0;
  CommandStatus status = CommandStatus::kPending;
  bool parked = false;
  std::int64_t lease_until_us = 0;
  std::string worker_id;
  std::int64_t claim_token = 0;
  std::int64_t claimed_at_us = 0;
  std::int64_t started_at_us = 0;
  std::int64_t completed_at_us = 0;
  std::int64_t latest_event_id = 0;
  std::string error;
};

// A body outside the log, known by its reference "noetl://execution/<id>/result/<name>/<id>".
struct BodyRow {
  std::string ref;
  std::string data;  // stored JSON
};

// The result of one loop iteration.
struct LoopRow {
  std::string step;
  std::int64_t run = 0;
  std::int64_t index = 0;
  std::string data;  // stored JSON

  bool operator==(const LoopRow&) const = default;
};

struct TimerRow {
  std::int64_t execution_id = 0;
  engine::Timer timer;
};

// A durable note from one run to another: written with the unit that causes it, removed with the
// unit that acts on it.
struct MessageRow {
  enum class Kind : std::uint8_t { kStartChild, kChildEnded, kCancel };
  std::int64_t message_id = 0;
  std::int64_t target_execution_id = 0;
  Kind kind = Kind::kStartChild;
  std::string payload;  // JSON
  std::int64_t not_before_us = 0;

  bool operator==(const MessageRow&) const = default;
};

struct SnapshotRow {
  std::int64_t execution_id = 0;
  std::int64_t seq = 0;      // events folded; decides which of two is newer
  std::int64_t version = 0;  // highest event id folded
  std::string text;          // engine::WriteSnapshot
};

// Text that a tool's process wrote.
struct LogChunk {
  std::int64_t execution_id = 0;
  std::int64_t command_id = 0;  // event id of command.issued
  std::string step;
  std::string stream;       // stdout, stderr
  std::int64_t offset = 0;  // of the first byte in its stream
  std::string text;
  std::int64_t created_at_us = 0;

  bool operator==(const LogChunk&) const = default;
};
// Of one stream of one command: its beginning and its end, 8 MiB in all. What lies between is
// replaced by a marker.
inline constexpr std::int64_t kLogEndBytes = 4 << 20;
inline constexpr std::string_view kLogGap =
    "\n[output left out here: the first and the last 4 MiB of a stream are kept]\n";

// Everything that becomes durable together. A unit without events may hold the rest.
struct UnitRows {
  std::int64_t execution_id = 0;
  // With events: the execution after the unit, which before it had `expected_head` events (0: it is
  // new).
  ExecutionRow execution;
  std::int64_t expected_head = 0;
  std::vector<EventRow> events;
  std::vector<CommandRow> commands;
  std::vector<CommandChange> command_changes;
  std::vector<BodyRow> bodies;
  std::vector<LoopRow> loop_rows;
  std::vector<engine::Timer> timers;
  std::vector<engine::Timer> fired_timers;  // removed
  bool drops_timers = false;                // the run has ended: all of its timers go
  std::vector<MessageRow> messages;
  std::vector<std::int64_t> consumed_messages;
  std::optional<SnapshotRow> snapshot;  // kept unless a newer one is stored
  std::vector<LogChunk> logs;

  // Roughly what it puts on the disk.
  std::size_t Bytes() const;
};

struct CatalogEntry {
  std::int64_t catalog_id = 0;
  std::string path;
  std::int64_t version = 0;
  std::string kind = "playbook";
  std::string content;
  std::int64_t created_at_us = 0;
  std::int64_t archived_at_us = 0;
  std::string listener;  // under which a gateway asks for it; of subscriptions only

  bool operator==(const CatalogEntry&) const = default;
};

}  // namespace noetl::store
