#include "store/sqlite/schema.h"

#include <array>

#include <fmt/format.h>

#include "store/sqlite/sqlite_store.h"

namespace noetl::store {

namespace {

// "NOTL": `file` and other tools tell our files from those of other programs by it.
constexpr std::int64_t kApplicationId = 0x4e4f544c;

constexpr const char* kFirst = R"sql(
CREATE TABLE event (
  position            INTEGER PRIMARY KEY,
  execution_id        INTEGER NOT NULL,
  stream_version      INTEGER NOT NULL,
  event_id            INTEGER NOT NULL,
  catalog_id          INTEGER,
  parent_event_id     INTEGER,
  prev_event_id       INTEGER,
  parent_execution_id INTEGER,
  event_type          TEXT NOT NULL,
  node_name           TEXT,
  node_type           TEXT,
  status              TEXT,
  created_at          INTEGER,
  ingest_time         INTEGER,
  command_id          INTEGER,
  worker_id           TEXT,
  envelope_checksum   BLOB,
  context             TEXT,
  result              TEXT,
  meta                TEXT,
  error               TEXT,
  idempotency_key     TEXT
);
CREATE UNIQUE INDEX event_order ON event (execution_id, stream_version);
CREATE INDEX event_by_id ON event (event_id);
CREATE INDEX event_by_command ON event (command_id) WHERE worker_id IS NOT NULL;

-- Columns that follow from others. Generated columns would be computed with every insert.
CREATE VIEW event_envelope AS
SELECT *, 'execution/' || execution_id AS stream_id, created_at AS event_time,
       node_name AS node_id
FROM event;

CREATE TABLE execution (
  execution_id        INTEGER PRIMARY KEY,
  catalog_id          INTEGER,
  path                TEXT,
  version             INTEGER,
  parent_execution_id INTEGER,
  parent_command_id   TEXT,
  status              TEXT,
  started_at          INTEGER,
  ended_at            INTEGER,
  error               TEXT,
  soft_error_count    INTEGER,
  last_event_id       INTEGER,
  last_event_type     TEXT,
  last_node_name      TEXT,
  updated_at          INTEGER,
  head                INTEGER NOT NULL,
  terminal            INTEGER NOT NULL,
  chain               BLOB NOT NULL
);
CREATE INDEX execution_open ON execution (execution_id) WHERE terminal = 0;
CREATE INDEX execution_ended ON execution (ended_at) WHERE terminal = 1;
CREATE INDEX execution_by_path ON execution (path, execution_id);
CREATE INDEX execution_by_parent ON execution (parent_execution_id)
  WHERE parent_execution_id IS NOT NULL;

CREATE TABLE command (
  command_id          INTEGER PRIMARY KEY,
  execution_id        INTEGER NOT NULL,
  catalog_id          INTEGER,
  id                  TEXT,
  step_name           TEXT,
  run                 INTEGER,
  tool_kind           TEXT,
  pool                TEXT,
  status              TEXT NOT NULL,
  open                INTEGER NOT NULL,
  server_run          INTEGER NOT NULL,
  parked              INTEGER NOT NULL,
  attempt             INTEGER,
  iter_index          INTEGER,
  child_execution_id  INTEGER,
  worker_id           TEXT,
  claim_token         INTEGER,
  lease_until         INTEGER,
  created_at          INTEGER,
  claimed_at          INTEGER,
  started_at          INTEGER,
  completed_at        INTEGER,
  latest_event_id     INTEGER,
  error               TEXT
);
CREATE INDEX command_open ON command (command_id) WHERE open = 1;
CREATE INDEX command_by_execution ON command (execution_id, command_id);

CREATE TABLE result_store (
  result_id           INTEGER PRIMARY KEY,
  execution_id        INTEGER NOT NULL,
  name                TEXT NOT NULL,
  bytes               INTEGER NOT NULL,
  sha256              BLOB NOT NULL,
  object_key          TEXT,
  data                TEXT
);
CREATE INDEX result_by_execution ON result_store (execution_id, name);

CREATE TABLE loop_result (
  execution_id        INTEGER NOT NULL,
  step                TEXT NOT NULL,
  run                 INTEGER NOT NULL,
  iter_index          INTEGER NOT NULL,
  data                TEXT NOT NULL,
  PRIMARY KEY (execution_id, step, run, iter_index)
) WITHOUT ROWID;

CREATE TABLE timer (
  execution_id        INTEGER NOT NULL,
  kind                INTEGER NOT NULL,
  step                TEXT NOT NULL,
  run                 INTEGER NOT NULL,
  command_id          TEXT NOT NULL,
  due_at              INTEGER NOT NULL,
  PRIMARY KEY (execution_id, kind, step, run, command_id)
) WITHOUT ROWID;
CREATE INDEX timer_due ON timer (due_at);

CREATE TABLE message (
  message_id          INTEGER PRIMARY KEY,
  target_execution_id INTEGER NOT NULL,
  kind                INTEGER NOT NULL,
  payload             TEXT,
  not_before          INTEGER
);
CREATE INDEX message_by_target ON message (target_execution_id);
CREATE INDEX message_due ON message (not_before) WHERE not_before IS NOT NULL;

CREATE TABLE projection_snapshot (
  execution_id        INTEGER PRIMARY KEY,
  stream_version      INTEGER NOT NULL,
  version             INTEGER NOT NULL,
  checksum            BLOB NOT NULL,
  snapshot            TEXT NOT NULL
);

CREATE TABLE catalog (
  catalog_id          INTEGER PRIMARY KEY,
  path                TEXT NOT NULL,
  version             INTEGER NOT NULL,
  kind                TEXT NOT NULL,
  content             TEXT NOT NULL,
  created_at          INTEGER
);
CREATE UNIQUE INDEX catalog_by_path ON catalog (path, version);

CREATE TABLE step_log (
  log_id              INTEGER PRIMARY KEY,
  execution_id        INTEGER NOT NULL,
  command_id          INTEGER NOT NULL,
  step                TEXT,
  stream              TEXT NOT NULL,
  start               INTEGER NOT NULL,
  text                TEXT NOT NULL,
  created_at          INTEGER
);
CREATE UNIQUE INDEX step_log_place ON step_log (execution_id, command_id, stream, start);
CREATE INDEX step_log_order ON step_log (execution_id, log_id);

CREATE TABLE store_number (
  name                TEXT PRIMARY KEY,
  value               INTEGER NOT NULL
) WITHOUT ROWID;
)sql";

// What a server keeps besides runs, and lists of runs that stay fast.
constexpr const char* kServer = R"sql(
ALTER TABLE execution ADD COLUMN labels TEXT;
DROP INDEX execution_by_path;
CREATE INDEX execution_by_path ON execution (path, version, execution_id);
-- Few, and written once: a run that completes is not in it.
CREATE INDEX execution_failed ON execution (status, execution_id, started_at)
  WHERE status IN ('FAILED', 'CANCELLED');
-- Runs whose id does not tell when they started; all others are found by the time in their id.
CREATE INDEX execution_unusual ON execution (execution_id, started_at)
  WHERE )sql" NOETL_UNUSUAL_START R"sql(;

CREATE TABLE execution_label (
  label               TEXT NOT NULL,
  execution_id        INTEGER NOT NULL,
  PRIMARY KEY (label, execution_id)
) WITHOUT ROWID;

ALTER TABLE catalog ADD COLUMN archived_at INTEGER;

CREATE TABLE credential (
  id                  INTEGER PRIMARY KEY,
  name                TEXT NOT NULL UNIQUE,
  type                TEXT,
  data_encrypted      TEXT,
  meta                TEXT,
  tags                TEXT,
  description         TEXT,
  created_at          INTEGER,
  updated_at          INTEGER
);

CREATE TABLE keychain (
  cache_key           TEXT PRIMARY KEY,
  keychain_name       TEXT,
  catalog_id          INTEGER,
  execution_id        INTEGER,
  scope_type          TEXT,
  credential_type     TEXT,
  cache_type          TEXT,
  data_encrypted      TEXT,
  auto_renew          INTEGER NOT NULL,
  renew_config        TEXT,
  expires_at          INTEGER,
  access_count        INTEGER NOT NULL,
  accessed_at         INTEGER,
  created_at          INTEGER
) WITHOUT ROWID;
CREATE INDEX keychain_by_catalog ON keychain (catalog_id, created_at);
CREATE INDEX keychain_by_execution ON keychain (execution_id) WHERE execution_id IS NOT NULL;
CREATE INDEX keychain_expiry ON keychain (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE secret_audit (
  audit_id            INTEGER PRIMARY KEY,
  occurred_at         INTEGER,
  credential          TEXT,
  operation           TEXT,
  outcome             TEXT,
  worker_id           TEXT,
  execution_id        INTEGER,
  parent_execution_id INTEGER,
  kek_version         TEXT,
  notes               TEXT
);
CREATE INDEX secret_audit_by_time ON secret_audit (occurred_at);
CREATE INDEX secret_audit_by_credential ON secret_audit (credential, occurred_at);
CREATE INDEX secret_audit_by_execution ON secret_audit (execution_id, occurred_at)
  WHERE execution_id IS NOT NULL;

CREATE TABLE runtime (
  runtime_id          INTEGER PRIMARY KEY,
  name                TEXT NOT NULL,
  kind                TEXT NOT NULL,
  uri                 TEXT,
  status              TEXT,
  labels              TEXT,
  capabilities        TEXT,
  capacity            INTEGER,
  runtime             TEXT,
  heartbeat           INTEGER,
  created_at          INTEGER,
  updated_at          INTEGER,
  UNIQUE (kind, name)
);

CREATE TABLE transient (
  execution_id        INTEGER NOT NULL,
  var_name            TEXT NOT NULL,
  var_type            TEXT,
  var_value           TEXT,
  source_step         TEXT,
  created_at          INTEGER,
  accessed_at         INTEGER,
  access_count        INTEGER NOT NULL,
  PRIMARY KEY (execution_id, var_name)
) WITHOUT ROWID;

ALTER TABLE result_store ADD COLUMN put INTEGER NOT NULL DEFAULT 0;
ALTER TABLE result_store ADD COLUMN scope TEXT;
ALTER TABLE result_store ADD COLUMN source_step TEXT;
ALTER TABLE result_store ADD COLUMN created_at INTEGER;
CREATE UNIQUE INDEX result_put ON result_store (execution_id, name, sha256) WHERE put = 1;

CREATE TABLE object_store (
  object_key          TEXT PRIMARY KEY,
  digest              BLOB NOT NULL,
  media_type          TEXT,
  file                TEXT,
  bytes               BLOB,
  created_at          INTEGER
);

CREATE TABLE request_key (
  scope               INTEGER NOT NULL,
  key                 TEXT NOT NULL,
  execution_id        INTEGER NOT NULL,
  digest              TEXT,
  created_at          INTEGER,
  expires_at          INTEGER,
  PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX request_key_by_execution ON request_key (execution_id);
CREATE INDEX request_key_expiry ON request_key (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE outbox (
  outbox_id           INTEGER PRIMARY KEY AUTOINCREMENT,
  execution_id        INTEGER NOT NULL,
  event_id            INTEGER NOT NULL,
  stream_version      INTEGER NOT NULL,
  event_type          TEXT NOT NULL,
  status              TEXT NOT NULL,
  attempts            INTEGER NOT NULL,
  available_at        INTEGER,
  locked_at           INTEGER,
  published_at        INTEGER,
  last_error          TEXT,
  created_at          INTEGER,
  UNIQUE (execution_id, event_id)
);
CREATE INDEX outbox_unpublished ON outbox (outbox_id) WHERE published_at IS NULL;
)sql";

// Subscriptions, results that expire, objects that go with a run, bounded logs.
constexpr const char* kSubscriptions = R"sql(
CREATE TABLE subscription (
  subscription_id     INTEGER PRIMARY KEY,
  path                TEXT NOT NULL,
  catalog_id          INTEGER,
  state               TEXT NOT NULL,
  last_event_id       INTEGER,
  last_event_type     TEXT,
  created_at          INTEGER,
  updated_at          INTEGER,
  head                INTEGER NOT NULL,
  chain               BLOB NOT NULL
);
CREATE UNIQUE INDEX subscription_live ON subscription (path) WHERE state <> 'DEACTIVATED';
CREATE INDEX subscription_by_catalog ON subscription (catalog_id);

ALTER TABLE catalog ADD COLUMN listener TEXT;
CREATE INDEX catalog_by_listener ON catalog (listener) WHERE listener IS NOT NULL;

ALTER TABLE result_store ADD COLUMN expires_at INTEGER;
CREATE INDEX result_expiry ON result_store (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX result_of_step ON result_store (execution_id) WHERE scope = 'step';

ALTER TABLE object_store ADD COLUMN tail TEXT;
UPDATE object_store
SET tail = substr('/' || object_key, instr('/' || object_key, '/execution=') + 1)
WHERE instr('/' || object_key, '/execution=') > 0;
CREATE INDEX object_by_tail ON object_store (tail) WHERE tail IS NOT NULL;

CREATE INDEX outbox_published ON outbox (published_at) WHERE published_at IS NOT NULL;

-- What can be left out of a long log: pieces behind its first 4 MiB that still have their text.
CREATE INDEX step_log_tail ON step_log (execution_id, command_id, stream, start)
  WHERE start >= 4194304 AND text <> '';
)sql";

constexpr std::array<const char*, 3> kMigrations = {kFirst, kServer, kSubscriptions};

Result<std::int64_t> StoredVersion(Connection& connection) {
  NOETL_ASSIGN(const std::int64_t version, connection.Number("PRAGMA user_version"));
  NOETL_ASSIGN(const std::int64_t application, connection.Number("PRAGMA application_id"));
  NOETL_ASSIGN(const std::int64_t tables, connection.Number("SELECT count(*) FROM sqlite_master"));
  if (application != kApplicationId && (version != 0 || tables != 0)) {
    return Fail("corrupt",
                fmt::format("{}: is the database of another program", connection.path()));
  }
  if (version > SqliteSchemaVersion()) {
    return Fail("schema", fmt::format("{}: has schema {}, this program knows {} at most; use the "
                                      "version of noetl that wrote it",
                                      connection.path(), version, SqliteSchemaVersion()));
  }
  return version;
}

}  // namespace

std::int64_t SqliteSchemaVersion() { return std::ssize(kMigrations); }

Status Migrate(Connection& connection) { return MigrateTo(connection, SqliteSchemaVersion()); }

Status MigrateTo(Connection& connection, std::int64_t newest) {
  NOETL_ASSIGN(const std::int64_t stored, StoredVersion(connection));
  if (stored >= newest) return {};
  // All or nothing: whoever dies in between leaves a file that the program knows.
  std::string script = "BEGIN IMMEDIATE;";
  for (std::int64_t version = stored; version < newest; ++version)
    script += kMigrations[static_cast<std::size_t>(version)];
  script += fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; COMMIT;",
                        kApplicationId, newest);
  const Status status = connection.Execute(script);
  if (!status && connection.InTransaction()) (void)connection.Execute("ROLLBACK");
  return status;
}

Status CheckSchema(Connection& connection) {
  NOETL_ASSIGN(const std::int64_t stored, StoredVersion(connection));
  if (stored == SqliteSchemaVersion()) return {};
  // Whoever made the file died before its first commit.
  if (stored == 0)
    return Fail("not_found", fmt::format("{}: nothing was stored here yet", connection.path()));
  return Fail("schema", fmt::format("{}: has schema {}, reading needs {}; start the server once to "
                                    "bring it up to date",
                                    connection.path(), stored, SqliteSchemaVersion()));
}

}  // namespace noetl::store
