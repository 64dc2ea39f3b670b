#include "worker/tools/postgres_config.h"

#include <algorithm>
#include <array>

#include "base/crypto.h"
#include "base/text.h"
#include "engine/pipeline_retry.h"
#include "worker/tools/process_fields.h"

namespace noetl::worker {
namespace {

constexpr std::int64_t kRowsMaxDefault = 100'000;
// A result is held in memory and travels in an event or to the result store.
constexpr std::int64_t kResultBytesMax = 64 << 20;
// The server keeps this much of a session's name.
constexpr std::size_t kApplicationBytesMax = 63;
constexpr std::size_t kStatementsMax = 10'000;
constexpr std::int64_t kPoolSizeMax = 10'000;
constexpr std::int64_t kPoolWaitingMax = 100'000;
// What values are read from must look the same whatever the server's defaults are.
constexpr std::string_view kSessionSetup = "SET DateStyle TO ISO; SET extra_float_digits TO 1";

struct ConnectionField {
  std::string_view keyword;  // of libpq
  std::string_view name;
  std::string_view other_name;
  std::string_view fallback;
};
constexpr std::array kConnectionFields = {
    ConnectionField{"host", "host", "db_host", "localhost"},
    ConnectionField{"port", "port", "db_port", "5432"},
    ConnectionField{"dbname", "database", "db_name", "postgres"},
    ConnectionField{"user", "user", "db_user", "postgres"},
    ConnectionField{"password", "password", "db_password", ""},
    ConnectionField{"sslmode", "sslmode", "", "prefer"},
    ConnectionField{"sslrootcert", "sslrootcert", "", ""},
    ConnectionField{"sslcert", "sslcert", "", ""},
    ConnectionField{"sslkey", "sslkey", "", ""},
    // Looking for Kerberos tickets costs time and may block; who needs it says so.
    ConnectionField{"gssencmode", "gssencmode", "", "disable"},
    ConnectionField{"client_encoding", "", "", "UTF8"},
    ConnectionField{"fallback_application_name", "", "", "noetl"},
};

constexpr std::array<std::string_view, 3> kEncodedFields = {"command_b64", "commands_b64",
                                                            "query_b64"};
constexpr std::array<std::string_view, 6> kSqlFields = {"query",    "queries", "command",
                                                        "commands", "cmd",     "cmds"};

std::unexpected<Error> Bad(std::string message) { return Fail("config", std::move(message)); }

class Planner {
 public:
  Planner(const ToolCall& call, const Settings& settings)
      : call_(call), config_(call.config), settings_(settings) {}

  Result<PostgresPlan> Plan() {
    NOETL_TRY(Connection());
    NOETL_ASSIGN(const std::string script, Script());
    NOETL_TRY(Statements(script));
    NOETL_TRY(Transaction());
    NOETL_TRY(Pool());
    NOETL_TRY(Limits());
    return std::move(plan_);
  }

 private:
  // A connection field may stand in `auth`, too, when that is a map.
  std::string FieldOf(std::string_view name) const {
    if (name.empty()) return "";
    const Json& own = config_[name];
    return FieldText(own.is_null() ? config_["auth"][name] : own);
  }
  std::string FirstOf(std::string_view name, std::string_view other) const {
    std::string text = FieldOf(name);
    return text.empty() ? FieldOf(other) : text;
  }

  Status Connection();
  Result<std::string> Script() const;
  Status Statements(const std::string& script);
  Status Transaction();
  Status Pool();
  Status Limits();

  const ToolCall& call_;
  const Json& config_;
  const Settings& settings_;
  PostgresPlan plan_;
};

// What the connection string says wins, then the fields, then the defaults.
Status Planner::Connection() {
  for (const std::string_view name : {"auth", "credential"}) {
    if (!config_[name].is_string()) continue;
    return Fail("auth", fmt::format("credential '{}' is not known here", config_[name].AsString()));
  }
  pg::Parameters& parameters = plan_.pool.parameters;
  const std::string address = FirstOf("connection_string", "db_conn_string");
  if (!address.empty()) {
    Result<pg::Parameters> parsed = pg::ParseConnectionString(address);
    if (!parsed) return Bad("connection_string: " + parsed.error().message);
    parameters = *std::move(parsed);
  }
  for (const ConnectionField& field : kConnectionFields) {
    if (std::ranges::find(parameters, field.keyword, &pg::Parameters::value_type::first) !=
        parameters.end()) {
      continue;
    }
    std::string value = FirstOf(field.name, field.other_name);
    if (value.empty()) value = field.fallback;
    if (!value.empty()) parameters.emplace_back(field.keyword, std::move(value));
  }
  for (const auto& [keyword, value] : parameters) {
    if (value.find('\0') != std::string::npos) return Bad(fmt::format("{} holds U+0000", keyword));
    if (keyword == "password") plan_.password = value;
  }
  plan_.pool.setup = kSessionSetup;
  plan_.application = fmt::format("noetl:{}:{}", call_.execution_id, call_.step);
  if (plan_.application.size() > kApplicationBytesMax) {
    plan_.application.resize(kApplicationBytesMax);
  }
  return {};
}

Result<std::string> Planner::Script() const {
  if (const Json& script = config_["script"]; !script.is_null()) {
    return LoadScript(script, settings_.Text("NOETL_SCRIPTS_DIR"));
  }
  for (const std::string_view name : kEncodedFields) {
    std::string text = FieldText(config_[name]);
    if (text.empty()) continue;
    std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
    std::optional<std::string> decoded = crypto::Base64Decode(text);
    if (!decoded) return Bad(fmt::format("{} is not base64", name));
    return *std::move(decoded);
  }
  for (const std::string_view name : kSqlFields) {
    const Json& value = config_[name];
    if (value.is_null()) continue;
    if (!value.is_array()) return FieldText(value);
    std::string joined;
    for (const Json& item : value.items()) joined += FieldText(item) + ";\n";
    return joined;
  }
  return Bad("there is no SQL: give `command`, `query`, `commands` or `script`");
}

Status Planner::Statements(const std::string& script) {
  if (script.find('\0') != std::string::npos) return Bad("the SQL holds U+0000");
  const Json& params = config_["params"];
  plan_.bound = params.is_container() && !params.empty();
  if (!params.is_null() && !params.is_container()) {
    return Bad(fmt::format("params must be a list or a map, not a {}", params.TypeName()));
  }
  std::set<std::size_t> used;
  for (std::string& text : pg::SplitStatements(script)) {
    PostgresStatement statement{.traits = pg::TraitsOf(text)};
    plan_.touches_session = plan_.touches_session || statement.traits.touches_session;
    if (plan_.bound) {
      Result<pg::BoundStatement> bound = pg::Bind(text, params, &used);
      if (!bound) return Bad(bound.error().message);
      statement.sql = std::move(bound->sql);
      statement.values = std::move(bound->values);
    } else {
      statement.sql = std::move(text);
    }
    plan_.statements.push_back(std::move(statement));
  }
  if (plan_.statements.empty()) return Bad("the SQL holds no statement");
  if (plan_.statements.size() > kStatementsMax) {
    return Bad(fmt::format("the SQL holds more than {} statements", kStatementsMax));
  }
  // A value that goes nowhere is a mistake in the SQL or in the list.
  if (params.is_array() && used.size() < params.size()) {
    return Bad(fmt::format("params has {} values and the SQL uses {}", params.size(), used.size()));
  }
  return {};
}

Status Planner::Transaction() {
  plan_.schema = FieldText(config_["schema"]);
  if (plan_.schema.find('\0') != std::string::npos) return Bad("schema holds U+0000");
  const auto any = [this](bool pg::StatementTraits::* trait) {
    return std::ranges::any_of(plan_.statements, [trait](const PostgresStatement& statement) {
      return statement.traits.*trait;
    });
  };
  const bool controls = any(&pg::StatementTraits::controls_transaction);
  const bool outside = any(&pg::StatementTraits::outside_transaction);
  const std::string mode = ToLower(Trim(FieldText(config_["transaction"])));
  if (mode == "single") {
    if (controls) return Bad("transaction: single does not go with BEGIN or COMMIT in the SQL");
    plan_.one_transaction = true;
  } else if (mode.empty() || mode == "auto") {
    // One statement is a transaction by itself; a schema lasts as long as its transaction.
    const bool useful = plan_.statements.size() > 1 || !plan_.schema.empty();
    plan_.one_transaction = useful && !controls && !outside;
  } else if (mode != "none") {
    return Bad(fmt::format("transaction must be auto, single or none, not '{}'", mode));
  }
  return {};
}

Status Planner::Pool() {
  pg::PoolLimits& limits = plan_.pool.limits;
  const Json& pool = config_["pool"];
  plan_.dedicated = !pool.is_null() && !pool.is_object() && !FieldBool(config_, "pool", true);
  plan_.pool_name = FieldText(pool["name"]);
  const auto count = [&](std::string_view name, std::string_view setting, std::int64_t max) {
    const std::int64_t number = FieldInt(pool, name, settings_.Int(setting));
    return static_cast<std::size_t>(std::clamp<std::int64_t>(number, 0, max));
  };
  const auto time_ms = [&](std::string_view name, std::string_view setting) {
    const std::int64_t given = engine::SecondsToMs(pool[name]).value_or(-1);
    return given >= 0 ? given : settings_.DurationMs(setting);
  };
  limits.size_max = count("max_size", "NOETL_POSTGRES_POOL_MAX_SIZE", kPoolSizeMax);
  limits.size_max = std::max<std::size_t>(limits.size_max, 1);
  limits.size_min = count("min_size", "NOETL_POSTGRES_POOL_MIN_SIZE", kPoolSizeMax);
  limits.size_min = std::min(limits.size_min, limits.size_max);
  limits.waiting_max = count("max_waiting", "NOETL_POSTGRES_POOL_MAX_WAITING", kPoolWaitingMax);
  limits.wait_ms = time_ms("timeout", "NOETL_POSTGRES_POOL_TIMEOUT_SECONDS");
  limits.lifetime_ms = time_ms("max_lifetime", "NOETL_POSTGRES_POOL_MAX_LIFETIME_SECONDS");
  limits.idle_ms = time_ms("max_idle", "NOETL_POSTGRES_POOL_MAX_IDLE_SECONDS");
  return {};
}

Status Planner::Limits() {
  plan_.as_objects = FieldBool(config_, "as_objects", true);
  const std::string numeric = ToLower(Trim(FieldText(config_["numeric_as"])));
  if (!numeric.empty() && numeric != "number" && numeric != "string") {
    return Bad(fmt::format("numeric_as must be string or number, not '{}'", numeric));
  }
  plan_.values.numeric_as_number = numeric == "number";
  plan_.bytes_max = kResultBytesMax;
  if (const Json& rows = config_["max_rows"]; !rows.is_null()) {
    const std::optional<std::int64_t> number = engine::WholeNumber(rows);
    if (!number || *number <= 0) return Bad("max_rows must be a number above 0");
    plan_.rows_max = *number;
  } else if (call_.spec["result"]["store"].is_null()) {
    plan_.rows_max = kRowsMaxDefault;
  }
  const Json declared = config_.With("spec", call_.spec["timeout"]);
  const std::optional<std::int64_t> timeout =
      call_.timeout_ms ? call_.timeout_ms : engine::TimeoutMs(declared);
  plan_.timeout_ms = std::max<std::int64_t>(
      timeout.value_or(settings_.DurationMs("NOETL_WORKER_COMMAND_TIMEOUT_SECONDS")), 1);
  return {};
}

}  // namespace

Result<PostgresPlan> PlanPostgres(const ToolCall& call, const Settings& settings) {
  return Planner(call, settings).Plan();
}

}  // namespace noetl::worker
