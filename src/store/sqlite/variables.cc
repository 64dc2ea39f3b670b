#include "store/sqlite/read_rows.h"
#include "store/sqlite/server.h"

namespace noetl::store {

namespace {

#define NOETL_VARIABLE_COLUMNS                                                          \
  "execution_id, var_name, var_type, var_value, source_step, created_at, accessed_at, " \
  "access_count"

VariableRow ReadVariable(const Statement& query) {
  return {.execution_id = query.GetInt(0),
          .name = query.GetString(1),
          .type = query.GetString(2),
          .value = query.GetString(3),
          .source_step = query.GetString(4),
          .created_at_us = query.GetInt(5),
          .accessed_at_us = query.GetInt(6),
          .access_count = query.GetInt(7)};
}

}  // namespace

Status SqliteServer::PutVariables(std::span<const VariableRow> rows) {
  static constexpr const char* kSql = R"sql(
INSERT INTO transient (execution_id, var_name, var_type, var_value, source_step, created_at,
                       accessed_at, access_count)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (execution_id, var_name) DO UPDATE
SET var_type = excluded.var_type, var_value = excluded.var_value,
    source_step = excluded.source_step)sql";
  return Write([&](Connection& connection) -> Status {
    for (const VariableRow& row : rows) {
      NOETL_ASSIGN(Statement query, connection.Get(kSql));
      query.Int(1, row.execution_id)
          .Text(2, row.name)
          .SomeText(3, row.type)
          .SomeText(4, row.value)
          .SomeText(5, row.source_step)
          .SomeInt(6, row.created_at_us)
          .SomeInt(7, row.accessed_at_us)
          .Int(8, row.access_count)
          .Run();
      NOETL_TRY(connection.Finished(query));
    }
    return {};
  });
}

Result<std::vector<VariableRow>> SqliteServer::ListVariables(std::int64_t execution_id) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_VARIABLE_COLUMNS " FROM transient WHERE execution_id = ?1 ORDER BY var_name";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_.Take());
  NOETL_ASSIGN(Statement query, connection->Get(kSql));
  query.Int(1, execution_id);
  return All(*connection, query, ReadVariable);
}

Result<std::optional<VariableRow>> SqliteServer::TakeVariable(std::int64_t execution_id,
                                                              std::string_view name,
                                                              std::int64_t now_us) {
  static constexpr const char* kSql = R"sql(
UPDATE transient SET access_count = access_count + 1, accessed_at = ?3
WHERE execution_id = ?1 AND var_name = ?2
RETURNING )sql" NOETL_VARIABLE_COLUMNS;
  std::optional<VariableRow> row;
  NOETL_TRY(Write([&](Connection& connection) -> Status {
    NOETL_ASSIGN(Statement query, connection.Get(kSql));
    query.Int(1, execution_id).Text(2, name).SomeInt(3, now_us);
    NOETL_ASSIGN(row, AtMostOne(connection, query, ReadVariable));
    return {};
  }));
  return row;
}

Result<bool> SqliteServer::DeleteVariable(std::int64_t execution_id, std::string_view name) {
  NOETL_ASSIGN(const std::int64_t removed,
               Change("DELETE FROM transient WHERE execution_id = ?1 AND var_name = ?2",
                      [&](Statement& query) { query.Int(1, execution_id).Text(2, name); }));
  return removed > 0;
}

Result<std::int64_t> SqliteServer::DeleteVariables(std::int64_t execution_id) {
  return Change("DELETE FROM transient WHERE execution_id = ?1",
                [&](Statement& query) { query.Int(1, execution_id); });
}

}  // namespace noetl::store
