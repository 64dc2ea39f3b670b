// Durable state behind small interfaces.
//
// One contract test suite (contract_test.cc) runs against every implementation: `memory/` for
// simulation, `sqlite/` for one machine. Reads may come from any thread at any time and see only
// committed units. `Commit` is called by one thread at a time.
//
// Errors: "not_found"; "conflict" (the head is not the expected one) and "terminal" (the run has
// ended already) for one unit; "bad_row" for a row that the store refuses; "disk_full",
// "read_only", "io" when nothing can be written at the moment: the caller may try again;
// "corrupt"; "schema" for a store made by a newer version. Messages name the file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "store/rows.h"
#include "store/server.h"

namespace noetl::store {

class EventLog {
 public:
  virtual ~EventLog() = default;

  // Stores all units in one transaction and makes them durable before it returns. A unit is stored
  // whole or not at all; one that is refused fails alone and the others are stored. The answers are
  // in the order of the units.
  virtual std::vector<Status> Commit(std::span<const UnitRows* const> units) = 0;

  // Events with seq > after_seq in order, at most `limit`.
  virtual Result<std::vector<engine::Event>> ReadEvents(std::int64_t execution_id,
                                                        std::int64_t after_seq,
                                                        std::int64_t limit) const = 0;
  // The same with their chain heads and stored texts, to verify them.
  virtual Result<std::vector<EventRow>> ReadRows(std::int64_t execution_id, std::int64_t after_seq,
                                                 std::int64_t limit) const = 0;
  virtual Result<std::optional<engine::Event>> FindEvent(std::int64_t execution_id,
                                                         std::int64_t event_id) const = 0;
  // The same when the run is not known; of several the first.
  virtual Result<std::optional<engine::Event>> FindEvent(std::int64_t event_id) const = 0;
  // Events with seq < before_seq, newest first, at most `limit`; of one type unless it is empty.
  virtual Result<std::vector<engine::Event>> ReadNewest(std::int64_t execution_id,
                                                        std::int64_t before_seq,
                                                        std::string_view type_name,
                                                        std::int64_t limit) const = 0;
  // What a worker reported for a command: the stored event of this type name, if any.
  virtual Result<std::optional<engine::Event>> FindWorkerEvent(
      std::int64_t command_id, std::string_view type_name) const = 0;
};

// Which executions to list, newest first.
struct ExecutionFilter {
  std::string status;     // empty: any
  std::string path;       // exact, or a prefix when it ends with '*'
  std::string path_part;  // anywhere in the path, in any case
  std::string label;      // "key" or "key=value" of the playbook's labels
  std::int64_t catalog_id = 0;
  std::int64_t version = 0;
  std::int64_t parent_execution_id = 0;
  std::int64_t started_after_us = 0;
  std::int64_t started_before_us = 0;
  std::int64_t before_id = 0;  // keyset: only ids below this one
  std::int64_t offset = 0;     // rows to leave out; costs as much as reading them
  std::int64_t limit = 100;
};

struct ExecutionCounts {
  std::int64_t running = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
};

class Executions {
 public:
  virtual ~Executions() = default;
  virtual Result<std::optional<ExecutionRow>> Find(std::int64_t execution_id) const = 0;
  virtual Result<std::vector<ExecutionRow>> List(const ExecutionFilter& filter) const = 0;
  // Those that have not ended, by id.
  virtual Result<std::vector<ExecutionRow>> Open(std::int64_t after_id,
                                                 std::int64_t limit) const = 0;
  // Of all runs that started at or after this time.
  virtual Result<ExecutionCounts> Count(std::int64_t started_after_us) const = 0;
};

// What is still to be done: read at start, and when a timer is due.
class Work {
 public:
  virtual ~Work() = default;
  // Commands that are pending, claimed or running, by id.
  virtual Result<std::vector<CommandRow>> OpenCommands(std::int64_t after_id,
                                                       std::int64_t limit) const = 0;
  virtual Result<std::optional<CommandRow>> FindCommand(std::int64_t command_id) const = 0;
  virtual Result<std::vector<CommandRow>> CommandsOf(std::int64_t execution_id,
                                                     std::int64_t after_id,
                                                     std::int64_t limit) const = 0;
  // Timers with due_us <= until_us, earliest first.
  virtual Result<std::vector<TimerRow>> DueTimers(std::int64_t until_us,
                                                  std::int64_t limit) const = 0;
  // When the next timer or delayed message is due; nullopt: none.
  virtual Result<std::optional<std::int64_t>> NextDueUs(std::int64_t after_us) const = 0;
  // Messages that nobody has acted on, by id.
  virtual Result<std::vector<MessageRow>> Messages(std::int64_t after_id,
                                                   std::int64_t limit) const = 0;
};

class Results {
 public:
  virtual ~Results() = default;
  // The body behind any reference of the engine: a stored result, the context of a command, or the
  // list of a loop's rows in index order (missing ones are null). "not_found" when there is none,
  // "too_large" above kLoadedBodyBytesMax.
  virtual Result<Json> Load(std::string_view ref) const = 0;
  // Rows with index >= from in order, at most `limit`.
  virtual Result<std::vector<LoopRow>> LoopRows(std::int64_t execution_id, std::string_view step,
                                                std::int64_t run, std::int64_t from,
                                                std::int64_t limit) const = 0;
};
// A larger body is not brought into memory for a template.
inline constexpr std::size_t kLoadedBodyBytesMax = 256u << 20;

class Snapshots {
 public:
  virtual ~Snapshots() = default;
  virtual Result<std::optional<SnapshotRow>> LoadSnapshot(std::int64_t execution_id) const = 0;
};

struct CatalogFilter {
  std::string kind;  // empty: any
  std::string path_prefix;
  std::string path;  // exact
  bool latest_only = false;
  bool include_archived = false;
  bool include_content = true;
  std::int64_t before_id = 0;  // keyset: only ids below this one
  std::int64_t limit = 100;
};

struct CatalogRemoval {
  std::vector<CatalogEntry> entries;  // without contents
  bool archived = false;
};

class Catalog {
 public:
  virtual ~Catalog() = default;
  // The entry with this content under this path: the newest version when it has the same content,
  // else a new version. `catalog_id` is used for a new one. "conflict": the newest version of another
  // path has the same listener.
  virtual Result<CatalogEntry> Register(CatalogEntry entry) = 0;
  virtual Result<std::optional<CatalogEntry>> FindEntry(std::int64_t catalog_id) const = 0;
  // Version 0: the newest.
  virtual Result<std::optional<CatalogEntry>> FindEntry(std::string_view path,
                                                        std::int64_t version) const = 0;
  // The newest version of each path, by path, contents left out.
  virtual Result<std::vector<CatalogEntry>> ListEntries(std::string_view after_path,
                                                        std::int64_t limit) const = 0;
  // Newest first.
  virtual Result<std::vector<CatalogEntry>> ListCatalog(const CatalogFilter& filter) const = 0;
  // Entries that are the newest of their path and have this listener, by path. Registering lets only
  // one be, but removing a newer version, or restoring one, can bring another back.
  virtual Result<std::vector<CatalogEntry>> FindListener(std::string_view listener,
                                                         std::int64_t limit) const = 0;
  // Removes the entries of a path (version 0: all). When a run or a subscription refers to one of
  // them, all are archived instead: hidden from lists and from FindEntry by path, still there by id.
  virtual Result<CatalogRemoval> RemoveEntries(std::string_view path, std::int64_t version,
                                               std::int64_t now_us) = 0;
  // Brings archived entries back; gives them.
  virtual Result<std::vector<CatalogEntry>> RestoreEntries(std::string_view path,
                                                           std::int64_t version) = 0;
};

class StepLogs {
 public:
  virtual ~StepLogs() = default;
  // Chunks of a run in the order they were written; of one command unless it is 0. `after` is the
  // number of chunks to leave out.
  // Of each stream of a command the first and the last kLogEndBytes are kept, with kLogGap between.
  virtual Result<std::vector<LogChunk>> ReadLogs(std::int64_t execution_id, std::int64_t command_id,
                                                 std::int64_t after, std::int64_t limit) const = 0;
};

struct StoreStats {
  std::int64_t executions = 0;
  std::int64_t open_executions = 0;
  std::int64_t events = 0;
  std::int64_t bytes = 0;
  std::int64_t schema = 0;
};

class Maintenance {
 public:
  virtual ~Maintenance() = default;
  // Removes an ended run with everything that belongs to it. "not_found", "open".
  virtual Status Purge(std::int64_t execution_id) = 0;
  // Removes runs that ended before this time, at most `limit`; gives their number. Also drops
  // snapshots of runs that ended more than an hour before `now_us`.
  virtual Result<std::int64_t> PurgeEnded(std::int64_t before_us, std::int64_t now_us,
                                          std::int64_t limit) = 0;
  // A consistent copy while work goes on. The target must not exist.
  virtual Status Backup(const std::string& target) = 0;
  // Looks for damage: storage integrity, gaps and wrong heads. Each finding is one text.
  virtual Result<std::vector<std::string>> Check() const = 0;
  virtual Result<StoreStats> Stats() const = 0;
};

class Store : public EventLog,
              public Executions,
              public Work,
              public Results,
              public Snapshots,
              public Catalog,
              public StepLogs,
              public Maintenance,
              public Secrets,
              public Runtimes,
              public Variables,
              public Bodies,
              public RequestKeys,
              public Outbox,
              public Subscriptions,
              public Gauges,
              public SqlConsole {};

}  // namespace noetl::store
