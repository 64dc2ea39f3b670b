#include <fmt/format.h>

#include "store/sqlite/reader.h"

namespace noetl::store {

namespace {

#define NOETL_EXECUTION_COLUMNS                                                               \
  "execution_id, catalog_id, path, version, parent_execution_id, parent_command_id, status, " \
  "started_at, ended_at, error, soft_error_count, last_event_id, last_event_type, "           \
  "last_node_name, updated_at, head, terminal, chain"
#define NOETL_COMMAND_COLUMNS                                                             \
  "command_id, execution_id, catalog_id, id, step_name, run, tool_kind, pool, status, "   \
  "server_run, parked, attempt, iter_index, child_execution_id, worker_id, claim_token, " \
  "lease_until, created_at, claimed_at, started_at, completed_at, latest_event_id, error"

ExecutionRow ReadExecution(const Query& query) {
  int column = 0;
  ExecutionRow row;
  row.execution_id = query.GetInt(column++);
  row.catalog_id = query.GetInt(column++);
  row.path = query.GetText(column++);
  row.version = query.GetInt(column++);
  row.parent_execution_id = query.GetInt(column++);
  row.parent_command_id = query.GetText(column++);
  row.status = query.GetText(column++);
  row.started_at_us = query.GetInt(column++);
  row.ended_at_us = query.GetInt(column++);
  row.error = query.GetText(column++);
  row.soft_error_count = query.GetInt(column++);
  row.last_event_id = query.GetInt(column++);
  row.last_event_type = query.GetText(column++);
  row.last_node_name = query.GetText(column++);
  row.updated_at_us = query.GetInt(column++);
  row.head = query.GetInt(column++);
  row.terminal = query.GetInt(column++) != 0;
  row.chain = query.GetDigest(column);
  return row;
}

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

template <typename Read>
auto All(Connection& connection, Query& query, Read read)
    -> Result<std::vector<decltype(read(query))>> {
  std::vector<decltype(read(query))> rows;
  while (query.Next()) rows.push_back(read(query));
  NOETL_TRY(connection.Finished(query));
  return rows;
}

template <typename Read>
auto AtMostOne(Connection& connection, Query& query, Read read)
    -> Result<std::optional<decltype(read(query))>> {
  std::optional<decltype(read(query))> row;
  if (query.Next()) row = read(query);
  NOETL_TRY(connection.Finished(query));
  return row;
}

std::int64_t Limit(std::int64_t limit) { return std::max<std::int64_t>(limit, 0); }

// Only the conditions that are asked for: the planner then finds the index for them.
std::string ListSql(const ExecutionFilter& filter) {
  std::string sql = "SELECT " NOETL_EXECUTION_COLUMNS " FROM execution WHERE 1";
  const auto add = [&](bool wanted, std::string_view condition) {
    if (wanted) sql.append(" AND ").append(condition);
  };
  const bool prefix = filter.path.ends_with('*');
  add(!filter.status.empty(), "status = ?1");
  add(prefix, "substr(path, 1, length(?2)) = ?2");
  add(!prefix && !filter.path.empty(), "path = ?2");
  add(filter.version != 0, "version = ?3");
  add(filter.parent_execution_id != 0, "parent_execution_id = ?4");
  add(filter.started_after_us != 0, "started_at > ?5");
  add(filter.started_before_us != 0, "started_at < ?6");
  add(filter.before_id != 0, "execution_id < ?7");
  return sql + " ORDER BY execution_id DESC LIMIT ?8";
}

}  // namespace

Result<std::optional<ExecutionRow>> Reader::Find(std::int64_t execution_id) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_EXECUTION_COLUMNS " FROM execution WHERE execution_id = ?1";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id);
  return AtMostOne(*connection, query, ReadExecution);
}

Result<std::vector<ExecutionRow>> Reader::List(const ExecutionFilter& filter) const {
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->GetText(ListSql(filter)));
  std::string_view path = filter.path;
  if (path.ends_with('*')) path.remove_suffix(1);
  query.Text(1, filter.status)
      .Text(2, path)
      .Int(3, filter.version)
      .Int(4, filter.parent_execution_id)
      .Int(5, filter.started_after_us)
      .Int(6, filter.started_before_us)
      .Int(7, filter.before_id)
      .Int(8, Limit(filter.limit));
  return All(*connection, query, ReadExecution);
}

Result<std::vector<ExecutionRow>> Reader::Open(std::int64_t after_id, std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_EXECUTION_COLUMNS R"sql(
FROM execution INDEXED BY execution_open
WHERE terminal = 0 AND execution_id > ?1 ORDER BY execution_id LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, after_id).Int(2, Limit(limit));
  return All(*connection, query, ReadExecution);
}

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

CatalogEntry ReadEntry(const Query& query) {
  return {.catalog_id = query.GetInt(0),
          .path = query.GetString(1),
          .version = query.GetInt(2),
          .kind = query.GetString(3),
          .content = query.GetString(5),
          .created_at_us = query.GetInt(4)};
}

Result<std::optional<CatalogEntry>> Reader::FindEntry(std::int64_t catalog_id) const {
  static constexpr const char* kSql = R"sql(
SELECT catalog_id, path, version, kind, created_at, content
FROM catalog WHERE catalog_id = ?1)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, catalog_id);
  return AtMostOne(*connection, query, ReadEntry);
}

Result<std::optional<CatalogEntry>> Reader::FindEntry(std::string_view path,
                                                      std::int64_t version) const {
  static constexpr const char* kSql = R"sql(
SELECT catalog_id, path, version, kind, created_at, content
FROM catalog WHERE path = ?1 AND version = ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(version == 0 ? kNewestEntry : kSql));
  query.Text(1, path);
  if (version != 0) query.Int(2, version);
  return AtMostOne(*connection, query, ReadEntry);
}

Result<std::vector<CatalogEntry>> Reader::ListEntries(std::string_view after_path,
                                                      std::int64_t limit) const {
  static constexpr const char* kSql = R"sql(
SELECT catalog_id, path, max(version), kind, created_at, NULL
FROM catalog WHERE path > ?1 GROUP BY path ORDER BY path LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Text(1, after_path).Int(2, Limit(limit));
  return All(*connection, query, ReadEntry);
}

}  // namespace noetl::store
