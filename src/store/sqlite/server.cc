#include "store/sqlite/server.h"

#include <fmt/format.h>

namespace noetl::store {

std::unexpected<Error> SqliteServer::ReadOnly() const {
  return Fail("read_only", fmt::format("{}: is open for reading only", path_));
}

Status SqliteServer::Write(const std::function<Status(Connection&)>& work) {
  if (!writer_) return ReadOnly();
  return writer_->Transaction(work);
}

Result<std::int64_t> SqliteServer::Change(const char* sql, const Bind& bind) {
  std::int64_t changes = 0;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement query, connection.Get(sql));
    bind(query);
    query.Run();
    NOETL_TRY(connection.Finished(query));
    changes = connection.Changes();
    return {};
  }));
  return changes;
}

}  // namespace noetl::store
