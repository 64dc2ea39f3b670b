// How each part of a unit is written. Parameters are bound without copies: the unit outlives its
// statements.
#include <fmt/format.h>

#include "base/json_io.h"
#include "store/reference.h"
#include "store/sqlite/writer.h"
#include "store/unit_check.h"

namespace noetl::store {

namespace {

constexpr int kEventColumns = 22;
// Events that one statement writes: its cursors stay at the ends of the table and its indexes.
constexpr std::size_t kManyEvents = 32;

std::string InsertEventsSql(std::size_t rows) {
  std::string sql = R"sql(
INSERT INTO event (position, execution_id, stream_version, event_id, catalog_id, parent_event_id,
                   prev_event_id, parent_execution_id, event_type, node_name, node_type, status,
                   created_at, ingest_time, command_id, worker_id, envelope_checksum, context,
                   result, meta, error, idempotency_key)
VALUES )sql";
  std::string row = "(?";
  for (int i = 1; i < kEventColumns; ++i) row += ", ?";
  row += ")";
  for (std::size_t i = 0; i < rows; ++i) sql += (i == 0 ? "" : ", ") + row;
  return sql;
}

// A list of texts as JSON; empty for none.
Result<std::string> TextList(const std::vector<std::string>& texts) {
  if (texts.empty()) return std::string();
  return WriteStoredJson(Json::Array(std::vector<Json>(texts.begin(), texts.end())));
}

}  // namespace

Status Writer::Apply(const UnitRows& unit) {
  if (!unit.events.empty()) {
    NOETL_TRY(Fence(unit));
    for (const EventRow& row : unit.events) events_.push_back(&row);
  }
  if (!unit.commands.empty()) NOETL_TRY(InsertCommands(unit));
  if (!unit.command_changes.empty()) NOETL_TRY(ChangeCommands(unit));
  if (!unit.bodies.empty()) NOETL_TRY(InsertBodies(unit));
  if (!unit.loop_rows.empty()) NOETL_TRY(InsertLoopRows(unit));
  NOETL_TRY(ChangeTimers(unit));
  NOETL_TRY(ChangeMessages(unit));
  if (unit.snapshot) NOETL_TRY(PutSnapshot(unit));
  if (!unit.logs.empty()) NOETL_TRY(InsertLogs(unit));
  return {};
}

Status Writer::Fence(const UnitRows& unit) {
  return unit.expected_head == 0 ? InsertExecution(unit) : UpdateExecution(unit);
}

// Says why the fence did not let the unit pass.
Status Writer::Refused(const UnitRows& unit) {
  NOETL_ASSIGN(Query query,
               connection_->Get("SELECT head, terminal FROM execution WHERE execution_id = ?1"));
  query.Int(1, unit.execution_id);
  const std::int64_t head = query.Next() ? query.GetInt(0) : 0;
  NOETL_TRY(connection_->Finished(query));
  if (head != unit.expected_head) return HeadConflict(unit, head);
  return EndedAlready(unit);
}

Status Writer::InsertExecution(const UnitRows& unit) {
  static constexpr const char* kSql = R"sql(
INSERT INTO execution (execution_id, catalog_id, path, version, parent_execution_id,
                       parent_command_id, status, started_at, ended_at, error, soft_error_count,
                       last_event_id, last_event_type, last_node_name, updated_at, head, terminal,
                       chain, labels)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT DO NOTHING)sql";
  const ExecutionRow& row = unit.execution;
  NOETL_ASSIGN(const std::string labels, TextList(row.labels));
  {
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Int(1, row.execution_id)
        .SomeInt(2, row.catalog_id)
        .SomeText(3, row.path)
        .SomeInt(4, row.version)
        .SomeInt(5, row.parent_execution_id)
        .SomeText(6, row.parent_command_id)
        .SomeText(7, row.status)
        .SomeInt(8, row.started_at_us)
        .SomeInt(9, row.ended_at_us)
        .SomeText(10, row.error)
        .SomeInt(11, row.soft_error_count)
        .SomeInt(12, row.last_event_id)
        .SomeText(13, row.last_event_type)
        .SomeText(14, row.last_node_name)
        .SomeInt(15, row.updated_at_us)
        .Int(16, row.head)
        .Int(17, row.terminal ? 1 : 0)
        .Blob(18, row.chain)
        .SomeText(19, labels);
    NOETL_TRY(Run(query));
  }
  if (connection_->Changes() != 1) return Refused(unit);
  return row.labels.empty() ? Status() : InsertLabels(unit);
}

Status Writer::InsertLabels(const UnitRows& unit) {
  static constexpr const char* kSql =
      "INSERT INTO execution_label (label, execution_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
  for (const std::string& label : unit.execution.labels) {
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Text(1, label).Int(2, unit.execution_id);
    NOETL_TRY(Run(query));
  }
  return {};
}

// Two forms: SQLite rewrites every index whose columns are named, changed or not. Path and parent
// are written with the first unit and stay; whether the run has ended changes once.
Status Writer::UpdateExecution(const UnitRows& unit) {
  static constexpr const char* kGoesOn = R"sql(
UPDATE execution
SET status = ?1, error = ?2, soft_error_count = ?3, last_event_id = ?4, last_event_type = ?5,
    last_node_name = ?6, updated_at = ?7, head = ?8, chain = ?9
WHERE execution_id = ?10 AND head = ?11)sql";
  static constexpr const char* kEnds = R"sql(
UPDATE execution
SET status = ?1, error = ?2, soft_error_count = ?3, last_event_id = ?4, last_event_type = ?5,
    last_node_name = ?6, updated_at = ?7, head = ?8, chain = ?9, ended_at = ?12,
    terminal = max(terminal, ?13)
WHERE execution_id = ?10 AND head = ?11 AND NOT (?14 AND terminal))sql";
  const ExecutionRow& row = unit.execution;
  const bool has_terminal = HasTerminal(unit);
  const bool ends = has_terminal || row.terminal || row.ended_at_us != 0;
  {
    NOETL_ASSIGN(Query query, connection_->Get(ends ? kEnds : kGoesOn));
    query.SomeText(1, row.status)
        .SomeText(2, row.error)
        .SomeInt(3, row.soft_error_count)
        .SomeInt(4, row.last_event_id)
        .SomeText(5, row.last_event_type)
        .SomeText(6, row.last_node_name)
        .SomeInt(7, row.updated_at_us)
        .Int(8, row.head)
        .Blob(9, row.chain)
        .Int(10, unit.execution_id)
        .Int(11, unit.expected_head);
    if (ends) {
      query.SomeInt(12, row.ended_at_us)
          .Int(13, row.terminal ? 1 : 0)
          .Int(14, has_terminal ? 1 : 0);
    }
    NOETL_TRY(Run(query));
  }
  return connection_->Changes() == 1 ? Status() : Refused(unit);
}

Status Writer::WriteEvents() {
  std::span<const EventRow* const> rows = events_;
  while (rows.size() >= kManyEvents) {
    NOETL_TRY(InsertEvents(rows.first(kManyEvents)));
    rows = rows.subspan(kManyEvents);
  }
  for (; !rows.empty(); rows = rows.subspan(1)) NOETL_TRY(InsertEvents(rows.first(1)));
  return outbox_ ? InsertOutbox(events_) : Status();
}

Status Writer::InsertOutbox(std::span<const EventRow* const> rows) {
  static constexpr const char* kSql = R"sql(
INSERT INTO outbox (execution_id, event_id, stream_version, event_type, status, attempts, created_at)
VALUES (?1, ?2, ?3, ?4, 'PENDING', 0, ?5)
ON CONFLICT (execution_id, event_id) DO NOTHING)sql";
  for (const EventRow* row : rows) {
    const engine::Event& event = row->event;
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Int(1, event.execution_id)
        .Int(2, event.event_id)
        .Int(3, event.seq)
        .Text(4, event.type_name)
        .SomeInt(5, event.ingest_us);
    NOETL_TRY(Run(query));
  }
  return {};
}

Status Writer::InsertEvents(std::span<const EventRow* const> rows) {
  static const std::string kOne = InsertEventsSql(1);
  static const std::string kMany = InsertEventsSql(kManyEvents);
  NOETL_ASSIGN(Query query, connection_->Get((rows.size() == 1 ? kOne : kMany).c_str()));
  int at = 0;
  for (const EventRow* row : rows) {
    const engine::Event& event = row->event;
    query.Int(at + 1, ++position_)
        .Int(at + 2, event.execution_id)
        .Int(at + 3, event.seq)
        .Int(at + 4, event.event_id)
        .SomeInt(at + 5, event.catalog_id)
        .SomeInt(at + 6, event.parent_event_id)
        .SomeInt(at + 7, event.prev_event_id)
        .SomeInt(at + 8, event.parent_execution_id)
        .Text(at + 9, event.type_name)
        .SomeText(at + 10, event.node_name)
        .SomeText(at + 11, event.node_type)
        .SomeText(at + 12, event.status)
        .SomeInt(at + 13, event.created_at_us)
        .SomeInt(at + 14, event.ingest_us)
        .SomeInt(at + 15, row->command_id)
        .SomeText(at + 16, event.worker_id)
        .Blob(at + 17, row->chain)
        .SomeText(at + 18, row->context)
        .SomeText(at + 19, row->result)
        .SomeText(at + 20, row->meta)
        .SomeText(at + 21, event.error)
        .SomeText(at + 22, row->idempotency_key);
    at += kEventColumns;
  }
  return Run(query);
}

Status Writer::InsertCommands(const UnitRows& unit) {
  static constexpr const char* kSql = R"sql(
INSERT INTO command (command_id, execution_id, catalog_id, id, step_name, run, tool_kind, pool,
                     status, server_run, parked, attempt, iter_index, child_execution_id, worker_id,
                     claim_token, lease_until, created_at, claimed_at, started_at, completed_at,
                     latest_event_id, error, open)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
        ?21, ?22, ?23, ?24))sql";
  for (const CommandRow& row : unit.commands) {
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Int(1, row.command_id)
        .Int(2, row.execution_id)
        .SomeInt(3, row.catalog_id)
        .SomeText(4, row.id)
        .SomeText(5, row.step)
        .SomeInt(6, row.run)
        .SomeText(7, row.tool_kind)
        .SomeText(8, row.pool)
        .Text(9, CommandStatusName(row.status))
        .Int(10, row.server_run ? 1 : 0)
        .Int(11, row.parked ? 1 : 0)
        .Int(12, row.attempt)
        .Int(13, row.iter_index)
        .SomeInt(14, row.child_execution_id)
        .SomeText(15, row.worker_id)
        .SomeInt(16, row.claim_token)
        .SomeInt(17, row.lease_until_us)
        .SomeInt(18, row.created_at_us)
        .SomeInt(19, row.claimed_at_us)
        .SomeInt(20, row.started_at_us)
        .SomeInt(21, row.completed_at_us)
        .SomeInt(22, row.latest_event_id)
        .SomeText(23, row.error)
        .Int(24, IsOpen(row.status) ? 1 : 0);
    NOETL_TRY(Run(query));
  }
  return {};
}

Status Writer::ChangeCommands(const UnitRows& unit) {
  static constexpr const char* kSql = R"sql(
UPDATE command
SET status = ?2, parked = ?3, lease_until = ?4, worker_id = ifnull(?5, worker_id),
    claim_token = ifnull(?6, claim_token), claimed_at = ifnull(?7, claimed_at),
    started_at = ifnull(?8, started_at), completed_at = ifnull(?9, completed_at),
    latest_event_id = ifnull(?10, latest_event_id), error = ifnull(?11, error), open = ?12
WHERE command_id = ?1)sql";
  for (const CommandChange& change : unit.command_changes) {
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Int(1, change.command_id)
        .Text(2, CommandStatusName(change.status))
        .Int(3, change.parked ? 1 : 0)
        .SomeInt(4, change.lease_until_us)
        .SomeText(5, change.worker_id)
        .SomeInt(6, change.claim_token)
        .SomeInt(7, change.claimed_at_us)
        .SomeInt(8, change.started_at_us)
        .SomeInt(9, change.completed_at_us)
        .SomeInt(10, change.latest_event_id)
        .SomeText(11, change.error)
        .Int(12, IsOpen(change.status) ? 1 : 0);
    NOETL_TRY(Run(query));
    if (connection_->Changes() != 1) {
      return Fail("bad_row", fmt::format("execution {}: there is no command {}", unit.execution_id,
                                         change.command_id));
    }
  }
  return {};
}

Status Writer::InsertBodies(const UnitRows& unit) {
  static constexpr const char* kSql = R"sql(
INSERT INTO result_store (result_id, execution_id, name, bytes, sha256, object_key, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (result_id) DO NOTHING)sql";
  for (const BodyRow& row : unit.bodies) {
    const Reference ref = *ParseReference(row.ref);
    const Sha256Digest digest = Sha256(row.data);
    std::string key;
    if (row.data.size() > kObjectBytesMin) {
      const std::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
      NOETL_ASSIGN(key, objects_->Put(unit.execution_id, HexText(bytes), row.data));
    }
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Int(1, ref.id)
        .Int(2, unit.execution_id)
        .Text(3, ref.name)
        .Int(4, std::ssize(row.data))
        .Blob(5, digest)
        .SomeText(6, key)
        .SomeText(7, key.empty() ? std::string_view(row.data) : std::string_view());
    NOETL_TRY(Run(query));
  }
  return {};
}

Status Writer::InsertLoopRows(const UnitRows& unit) {
  static constexpr const char* kSql = R"sql(
INSERT INTO loop_result (execution_id, step, run, iter_index, data)
VALUES (?1, ?2, ?3, ?4, ?5))sql";
  for (const LoopRow& row : unit.loop_rows) {
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Int(1, unit.execution_id)
        .Text(2, row.step)
        .Int(3, row.run)
        .Int(4, row.index)
        .Text(5, row.data);
    NOETL_TRY(Run(query));
  }
  return {};
}

// A timer is known by all but its time. Arming it again moves it; firing removes it only when it has
// not been moved meanwhile.
Status Writer::ChangeTimers(const UnitRows& unit) {
  static constexpr const char* kFired = R"sql(
DELETE FROM timer
WHERE execution_id = ?1 AND kind = ?2 AND step = ?3 AND run = ?4 AND command_id = ?5
  AND due_at = ?6)sql";
  static constexpr const char* kArm = R"sql(
INSERT INTO timer (execution_id, kind, step, run, command_id, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET due_at = excluded.due_at)sql";
  static constexpr const char* kDrop = "DELETE FROM timer WHERE execution_id = ?1";
  const auto each = [&](const char* sql, const std::vector<engine::Timer>& timers) -> Status {
    for (const engine::Timer& timer : timers) {
      NOETL_ASSIGN(Query query, connection_->Get(sql));
      query.Int(1, unit.execution_id)
          .Int(2, static_cast<std::int64_t>(timer.kind))
          .Text(3, timer.step)
          .Int(4, timer.run)
          .Text(5, timer.command_id)
          .Int(6, timer.due_us);
      NOETL_TRY(Run(query));
    }
    return {};
  };
  NOETL_TRY(each(kFired, unit.fired_timers));
  NOETL_TRY(each(kArm, unit.timers));
  if (!unit.drops_timers) return {};
  NOETL_ASSIGN(Query query, connection_->Get(kDrop));
  query.Int(1, unit.execution_id);
  return Run(query);
}

Status Writer::ChangeMessages(const UnitRows& unit) {
  static constexpr const char* kAdd = R"sql(
INSERT INTO message (message_id, target_execution_id, kind, payload, not_before)
VALUES (?1, ?2, ?3, ?4, ?5))sql";
  static constexpr const char* kConsume = "DELETE FROM message WHERE message_id = ?1";
  for (const MessageRow& row : unit.messages) {
    NOETL_ASSIGN(Query query, connection_->Get(kAdd));
    query.Int(1, row.message_id)
        .Int(2, row.target_execution_id)
        .Int(3, static_cast<std::int64_t>(row.kind))
        .SomeText(4, row.payload)
        .SomeInt(5, row.not_before_us);
    NOETL_TRY(Run(query));
  }
  for (const std::int64_t id : unit.consumed_messages) {
    NOETL_ASSIGN(Query query, connection_->Get(kConsume));
    query.Int(1, id);
    NOETL_TRY(Run(query));
  }
  return {};
}

Status Writer::PutSnapshot(const UnitRows& unit) {
  static constexpr const char* kSql = R"sql(
INSERT INTO projection_snapshot (execution_id, stream_version, version, checksum, snapshot)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (execution_id) DO UPDATE
SET stream_version = excluded.stream_version, version = excluded.version,
    checksum = excluded.checksum, snapshot = excluded.snapshot
WHERE excluded.stream_version >= stream_version)sql";
  const SnapshotRow& row = *unit.snapshot;
  const Sha256Digest checksum = Sha256(row.text);
  NOETL_ASSIGN(Query query, connection_->Get(kSql));
  query.Int(1, row.execution_id)
      .Int(2, row.seq)
      .Int(3, row.version)
      .Blob(4, checksum)
      .Text(5, row.text);
  return Run(query);
}

Status Writer::InsertLogs(const UnitRows& unit) {
  static constexpr const char* kSql = R"sql(
INSERT INTO step_log (execution_id, command_id, step, stream, start, text, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (execution_id, command_id, stream, start) DO NOTHING)sql";
  for (const LogChunk& row : unit.logs) {
    NOETL_ASSIGN(Query query, connection_->Get(kSql));
    query.Int(1, row.execution_id)
        .Int(2, row.command_id)
        .SomeText(3, row.step)
        .Text(4, row.stream)
        .Int(5, row.offset)
        .Text(6, row.text)
        .SomeInt(7, row.created_at_us);
    NOETL_TRY(Run(query));
    // Where the end begins that is kept; an offset may be as large as a number can be.
    const std::int64_t until = row.offset - kLogEndBytes + std::ssize(row.text);
    if (until > kLogEndBytes) NOETL_TRY(ShortenLog(row, until));
  }
  return {};
}

// Takes the text of pieces that begin in the middle of a stream, before `until`. Their rows stay:
// readers count them. The first one says that something is missing.
Status Writer::ShortenLog(const LogChunk& newest, std::int64_t until) {
  static_assert(kLogEndBytes == 4194304, "the index step_log_tail has this number in it");
  static constexpr const char* kBlank = R"sql(
UPDATE step_log INDEXED BY step_log_tail SET text = ''
WHERE execution_id = ?1 AND command_id = ?2 AND stream = ?3 AND start >= 4194304 AND start < ?4
  AND text <> '' AND text <> ?5)sql";
  static constexpr const char* kMark = R"sql(
UPDATE step_log SET text = ?4
WHERE text = '' AND log_id = (SELECT log_id FROM step_log INDEXED BY step_log_place
                              WHERE execution_id = ?1 AND command_id = ?2 AND stream = ?3
                                AND start >= 4194304 ORDER BY start LIMIT 1))sql";
  {
    NOETL_ASSIGN(Query query, connection_->Get(kBlank));
    query.Int(1, newest.execution_id)
        .Int(2, newest.command_id)
        .Text(3, newest.stream)
        .Int(4, until)
        .Text(5, kLogGap);
    NOETL_TRY(Run(query));
  }
  if (connection_->Changes() == 0) return {};
  NOETL_ASSIGN(Query query, connection_->Get(kMark));
  query.Int(1, newest.execution_id)
      .Int(2, newest.command_id)
      .Text(3, newest.stream)
      .Text(4, kLogGap);
  return Run(query);
}

}  // namespace noetl::store
