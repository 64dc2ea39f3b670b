// From the fields of a postgres step to what is to be done.
//
// Reads flat fields only: aliases of credentials have been replaced by what they stand for. Lenient
// with scalars, since templates often give text. The one thing read from outside is a script's
// file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "pg/pool.h"
#include "pg/sql_params.h"
#include "pg/sql_split.h"
#include "pg/value.h"
#include "worker/tool.h"

namespace noetl::worker {

struct PostgresStatement {
  std::string sql;
  std::vector<pg::Value> values;
  pg::StatementTraits traits;
};

struct PostgresPlan {
  std::vector<PostgresStatement> statements;  // at least one
  bool bound = false;                         // values travel beside the text
  bool one_transaction = false;
  bool touches_session = false;
  std::string schema;  // empty: as the server has it
  std::string application;

  pg::PoolOptions pool;
  std::string pool_name;
  bool dedicated = false;
  std::string password;  // to keep out of messages

  bool as_objects = true;
  pg::ValueOptions values;
  std::int64_t rows_max = 0;  // 0: only bytes count
  std::int64_t bytes_max = 0;
  std::int64_t timeout_ms = 0;
};

// Errors: "config" names the field and what it should be, "auth" is about credentials.
Result<PostgresPlan> PlanPostgres(const ToolCall& call, const Settings& settings);

}  // namespace noetl::worker
