#include "store/sqlite/read_rows.h"
#include "store/sqlite/reader.h"

namespace noetl::store {

namespace {

#define NOETL_COMMAND_COLUMNS                                                             \
  "command_id, execution_id, catalog_id, id, step_name, run, tool_kind, pool, status, "   \
  "server_run, parked, attempt, iter_index, child_execution_id, worker_id, claim_token, " \
  "lease_until, created_at, claimed_at, started_at, completed_at, latest_event_id, error"

CommandRow ReadCommand(const Query& query) {
  int column = 0;
  CommandRow row;
  row.command_id = query.GetInt(column++);
  row.execution_id = query.GetInt(column++);
  row.catalog_id = query.GetInt(column++);
  row.id = query.GetText(column++);
  row.step = query.GetText(column++);
  row.run = query.GetInt(column++);
  row.tool_kind = query.GetText(column++);
  row.pool = query.GetText(column++);
  row.status = CommandStatusOf(query.GetText(column++)).value_or(CommandStatus::kPending);
  row.server_run = query.GetInt(column++) != 0;
  row.parked = query.GetInt(column++) != 0;
  row.attempt = query.GetInt(column++);
  row.iter_index = query.GetInt(column++);
  row.child_execution_id = query.GetInt(column++);
  row.worker_id = query.GetText(column++);
  row.claim_token = query.GetInt(column++);
  row.lease_until_us = query.GetInt(column++);
  row.created_at_us = query.GetInt(column++);
  row.claimed_at_us = query.GetInt(column++);
  row.started_at_us = query.GetInt(column++);
  row.completed_at_us = query.GetInt(column++);
  row.latest_event_id = query.GetInt(column++);
  row.error = query.GetText(column);
  return row;
}

TimerRow ReadTimer(const Query& query) {
  return {query.GetInt(0),
          {.kind = static_cast<engine::Timer::Kind>(query.GetInt(1)),
           .step = query.GetString(2),
           .run = query.GetInt(3),
           .command_id = query.GetString(4),
           .due_us = query.GetInt(5)}};
}

MessageRow ReadMessage(const Query& query) {
  return {.message_id = query.GetInt(0),
          .target_execution_id = query.GetInt(1),
          .kind = static_cast<MessageRow::Kind>(query.GetInt(2)),
          .payload = query.GetString(3),
          .not_before_us = query.GetInt(4)};
}

LogChunk ReadChunk(const Query& query) {
  return {.execution_id = query.GetInt(0),
          .command_id = query.GetInt(1),
          .step = query.GetString(2),
          .stream = query.GetString(3),
          .offset = query.GetInt(4),
          .text = query.GetString(5),
          .created_at_us = query.GetInt(6)};
}

}  // namespace

Result<std::vector<CommandRow>> Reader::OpenCommands(std::int64_t after_id,
                                                     std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_COMMAND_COLUMNS R"sql(
FROM command INDEXED BY command_open
WHERE open = 1 AND command_id > ?1
ORDER BY command_id LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, after_id).Int(2, Limit(limit));
  return All(*connection, query, ReadCommand);
}

Result<std::optional<CommandRow>> Reader::FindCommand(std::int64_t command_id) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_COMMAND_COLUMNS " FROM command WHERE command_id = ?1";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, command_id);
  return AtMostOne(*connection, query, ReadCommand);
}

Result<std::vector<CommandRow>> Reader::CommandsOf(std::int64_t execution_id, std::int64_t after_id,
                                                   std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_COMMAND_COLUMNS R"sql(
FROM command INDEXED BY command_by_execution
WHERE execution_id = ?1 AND command_id > ?2 ORDER BY command_id LIMIT ?3)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id).Int(2, after_id).Int(3, Limit(limit));
  return All(*connection, query, ReadCommand);
}

Result<std::vector<TimerRow>> Reader::DueTimers(std::int64_t until_us, std::int64_t limit) const {
  static constexpr const char* kSql = R"sql(
SELECT execution_id, kind, step, run, command_id, due_at
FROM timer WHERE due_at <= ?1 ORDER BY due_at, execution_id LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, until_us).Int(2, Limit(limit));
  return All(*connection, query, ReadTimer);
}

Result<std::optional<std::int64_t>> Reader::NextDueUs(std::int64_t after_us) const {
  static constexpr const char* kSql = R"sql(
SELECT due FROM (
  SELECT min(due_at) AS due FROM timer WHERE due_at > ?1
  UNION ALL
  SELECT min(not_before) FROM message WHERE not_before IS NOT NULL AND not_before > ?1)
WHERE due IS NOT NULL ORDER BY due LIMIT 1)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, after_us);
  return AtMostOne(*connection, query, [](const Query& row) { return row.GetInt(0); });
}

Result<std::vector<MessageRow>> Reader::Messages(std::int64_t after_id, std::int64_t limit) const {
  static constexpr const char* kSql = R"sql(
SELECT message_id, target_execution_id, kind, payload, not_before
FROM message WHERE message_id > ?1 ORDER BY message_id LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, after_id).Int(2, Limit(limit));
  return All(*connection, query, ReadMessage);
}

Result<std::vector<LogChunk>> Reader::ReadLogs(std::int64_t execution_id, std::int64_t command_id,
                                               std::int64_t after, std::int64_t limit) const {
  static constexpr const char* kSql = R"sql(
SELECT execution_id, command_id, step, stream, start, text, created_at
FROM step_log INDEXED BY step_log_order
WHERE execution_id = ?1 AND (?2 = 0 OR command_id = ?2) ORDER BY log_id LIMIT ?3 OFFSET ?4)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id).Int(2, command_id).Int(3, Limit(limit)).Int(4, Limit(after));
  return All(*connection, query, ReadChunk);
}

}  // namespace noetl::store
