#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"

namespace noetl::store {

// Both questions stop at the first row of an index that fits.
Result<StoreGauges> SqliteServer::Measure() const {
  static constexpr const char* kPending = R"sql(
SELECT created_at FROM command INDEXED BY command_open
WHERE open = 1 AND status = 'PENDING' AND server_run = 0 ORDER BY command_id LIMIT 1)sql";
  static constexpr const char* kOutbox = R"sql(
SELECT created_at FROM outbox INDEXED BY outbox_unpublished
WHERE published_at IS NULL ORDER BY outbox_id LIMIT 1)sql";
  const auto time = [](const Statement& row) { return row.GetInt(0); };
  const ReadPool::Load load = pool_.load();  // without the one that asks
  StoreGauges gauges{.connections_in_use = load.in_use,
                     .connections_idle = load.idle,
                     .writers_waiting = writer_ ? writer_->waiting() : 0};
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement pending, connection->Get(kPending));
  NOETL_ASSIGN(const auto oldest, AtMostOne(*connection, pending, time));
  NOETL_ASSIGN(Statement outbox, connection->Get(kOutbox));
  NOETL_ASSIGN(const auto first, AtMostOne(*connection, outbox, time));
  gauges.oldest_pending_us = oldest.value_or(0);
  gauges.oldest_outbox_us = first.value_or(0);
  return gauges;
}

}  // namespace noetl::store
