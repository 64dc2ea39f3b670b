// The store of one machine: one SQLite file.
//
// Write-ahead log with full synchronisation: a commit that was answered survives the loss of power.
// One connection writes; readers have their own and never wait for it. The file has mode 0600. Tables
// are plain and documented in docs/tables.md; migrations go forward only. Bodies above 1 MiB are files
// under `objects/` beside the database. Safe to use from many threads, `Commit` from one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace noetl::store {

struct SqliteOptions {
  std::string directory;  // holds noetl.db and objects/
  bool read_only = false;
  // Counts durable writes (fsyncs of the write-ahead log), for tests and metrics; may be null.
  std::atomic<std::int64_t>* syncs = nullptr;
  // Each event that is committed also makes a row of the outbox (server.h), in the same transaction.
  bool outbox = false;
  // Name of a registered SQLite VFS; empty: the default one. Tests inject faults with it.
  std::string vfs;
};

// Opens or creates the store. Errors name the file: "io", "read_only", "corrupt", "schema".
Result<std::unique_ptr<Store>> OpenSqliteStore(SqliteOptions options);

// The newest schema this program knows.
std::int64_t SqliteSchemaVersion();

}  // namespace noetl::store
