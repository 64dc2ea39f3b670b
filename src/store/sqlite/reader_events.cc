#include <unordered_map>

#include <fmt/format.h>

#include "base/json_io.h"
#include "store/sqlite/reader.h"

namespace noetl::store {

namespace {

#define NOETL_EVENT_COLUMNS                                                                  \
  "execution_id, stream_version, event_id, catalog_id, parent_event_id, prev_event_id, "     \
  "parent_execution_id, event_type, node_name, node_type, status, created_at, ingest_time, " \
  "command_id, worker_id, envelope_checksum, context, result, meta, error, idempotency_key"

enum EventColumn : int {
  kExecutionId,
  kStreamVersion,
  kEventId,
  kCatalogId,
  kParentEventId,
  kPrevEventId,
  kParentExecutionId,
  kEventType,
  kNodeName,
  kNodeType,
  kStatus,
  kCreatedAt,
  kIngestTime,
  kCommandId,
  kWorkerId,
  kEnvelopeChecksum,
  kContext,
  kResult,
  kMeta,
  kError,
  kIdempotencyKey
};

// A page of events is kept in memory whole; larger pages grow as they are read.
constexpr std::size_t kReserveMax = 4096;

// The table of types is searched from its beginning; a log names few of them millions of times.
engine::EventType TypeOf(std::string_view name) {
  static const auto* const kTypes = [] {
    auto* types = new std::unordered_map<std::string_view, engine::EventType>();
    for (const engine::EventTypeInfo& info : engine::EventTypes())
      types->emplace(info.name, info.type);
    return types;
  }();
  const auto found = kTypes->find(name);
  return found != kTypes->end() ? found->second : engine::EventTypeOf(name);
}

Status ReadJson(const Query& query, int column, Json& value, std::string* text) {
  const std::string_view stored = query.GetText(column);
  if (stored.empty()) return {};
  NOETL_ASSIGN(value, ParseJson(stored));
  if (text) *text = stored;
  return {};
}

// `row` is given when the stored texts are wanted too.
Status ReadEvent(const Query& query, engine::Event& event, EventRow* row) {
  event.execution_id = query.GetInt(kExecutionId);
  event.seq = query.GetInt(kStreamVersion);
  event.event_id = query.GetInt(kEventId);
  event.catalog_id = query.GetInt(kCatalogId);
  event.parent_event_id = query.GetInt(kParentEventId);
  event.prev_event_id = query.GetInt(kPrevEventId);
  event.parent_execution_id = query.GetInt(kParentExecutionId);
  event.type_name = query.GetText(kEventType);
  event.type = TypeOf(event.type_name);
  event.node_name = query.GetText(kNodeName);
  event.node_type = query.GetText(kNodeType);
  event.status = query.GetText(kStatus);
  event.created_at_us = query.GetInt(kCreatedAt);
  event.ingest_us = query.GetInt(kIngestTime);
  event.worker_id = query.GetText(kWorkerId);
  NOETL_TRY(ReadJson(query, kContext, event.context, row ? &row->context : nullptr));
  NOETL_TRY(ReadJson(query, kResult, event.result, row ? &row->result : nullptr));
  NOETL_TRY(ReadJson(query, kMeta, event.meta, row ? &row->meta : nullptr));
  event.error = query.GetText(kError);
  if (row) {
    row->command_id = query.GetInt(kCommandId);
    row->idempotency_key = query.GetText(kIdempotencyKey);
    row->chain = query.GetDigest(kEnvelopeChecksum);
  }
  return {};
}

// JSON that does not parse was not written by us.
std::unexpected<Error> BadColumn(Connection& connection, const Query& query, const Error& error) {
  return Fail("corrupt",
              fmt::format("{}: event {} of execution {}: {}", connection.path(),
                          query.GetInt(kStreamVersion), query.GetInt(kExecutionId), error.message));
}

constexpr const char* kReadEvents = "SELECT " NOETL_EVENT_COLUMNS R"sql(
FROM event WHERE execution_id = ?1 AND stream_version > ?2 ORDER BY stream_version LIMIT ?3)sql";

template <typename Row, typename Read>
Result<std::vector<Row>> ReadPage(Connection& connection, std::int64_t execution_id,
                                  std::int64_t after_seq, std::int64_t limit, Read read) {
  std::vector<Row> rows;
  NOETL_ASSIGN(Query query, connection.Get(kReadEvents));
  query.Int(1, execution_id).Int(2, after_seq).Int(3, std::max<std::int64_t>(limit, 0));
  while (query.Next()) {
    if (rows.empty()) rows.reserve(std::min(static_cast<std::size_t>(limit), kReserveMax));
    const Status status = read(query, rows.emplace_back());
    if (!status) return BadColumn(connection, query, status.error());
  }
  NOETL_TRY(connection.Finished(query));
  return rows;
}

Result<std::optional<engine::Event>> One(Connection& connection, Query& query) {
  std::optional<engine::Event> event;
  if (query.Next()) {
    const Status status = ReadEvent(query, event.emplace(), nullptr);
    if (!status) return BadColumn(connection, query, status.error());
  }
  NOETL_TRY(connection.Finished(query));
  return event;
}

}  // namespace

Result<std::vector<engine::Event>> Reader::ReadEvents(std::int64_t execution_id,
                                                      std::int64_t after_seq,
                                                      std::int64_t limit) const {
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  return ReadPage<engine::Event>(
      *connection, execution_id, after_seq, limit,
      [](const Query& query, engine::Event& event) { return ReadEvent(query, event, nullptr); });
}

Result<std::vector<EventRow>> Reader::ReadRows(std::int64_t execution_id, std::int64_t after_seq,
                                               std::int64_t limit) const {
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  return ReadPage<EventRow>(
      *connection, execution_id, after_seq, limit,
      [](const Query& query, EventRow& row) { return ReadEvent(query, row.event, &row); });
}

Result<std::optional<engine::Event>> Reader::FindEvent(std::int64_t execution_id,
                                                       std::int64_t event_id) const {
  static constexpr const char* kSql = "SELECT " NOETL_EVENT_COLUMNS R"sql(
FROM event WHERE event_id = ?2 AND +execution_id = ?1 ORDER BY stream_version LIMIT 1)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id).Int(2, event_id);
  return One(*connection, query);
}

Result<std::optional<engine::Event>> Reader::FindEvent(std::int64_t event_id) const {
  static constexpr const char* kSql = "SELECT " NOETL_EVENT_COLUMNS R"sql(
FROM event WHERE event_id = ?1 ORDER BY position LIMIT 1)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, event_id);
  return One(*connection, query);
}

Result<std::optional<engine::Event>> Reader::FindWorkerEvent(std::int64_t command_id,
                                                             std::string_view type_name) const {
  static constexpr const char* kSql = "SELECT " NOETL_EVENT_COLUMNS R"sql(
FROM event WHERE command_id = ?1 AND worker_id IS NOT NULL AND event_type = ?2
ORDER BY stream_version LIMIT 1)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, command_id).Text(2, type_name);
  return One(*connection, query);
}

Result<std::vector<engine::Event>> Reader::ReadNewest(std::int64_t execution_id,
                                                      std::int64_t before_seq,
                                                      std::string_view type_name,
                                                      std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_EVENT_COLUMNS R"sql(
FROM event INDEXED BY event_order
WHERE execution_id = ?1 AND stream_version < ?2 AND (?3 = '' OR event_type = ?3)
ORDER BY stream_version DESC LIMIT ?4)sql";
  std::vector<engine::Event> events;
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id)
      .Int(2, before_seq)
      .Text(3, type_name)
      .Int(4, std::max<std::int64_t>(limit, 0));
  while (query.Next()) {
    const Status status = ReadEvent(query, events.emplace_back(), nullptr);
    if (!status) return BadColumn(*connection, query, status.error());
  }
  NOETL_TRY(connection->Finished(query));
  return events;
}

}  // namespace noetl::store
