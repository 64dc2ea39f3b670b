// Lists and counts of runs that stay fast whatever is asked for, with as few indexes as possible:
// each one is written with every run.
//
// A list goes by one "drive" (an index that has its runs in the order of their ids), or by several
// of them merged, and checks every condition on each row, so that the choice of the drive never
// changes the answer. Times have no index of their own: the time in a run's id is a bound for its
// start. The runs for which it is not (NOETL_UNUSUAL_START) have a small index and are merged in.
#include <array>
#include <limits>
#include <queue>

#include <fmt/format.h>

#include "base/ids.h"
#include "base/text.h"
#include "store/sqlite/read_rows.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/schema.h"

namespace noetl::store {

namespace {

constexpr std::int64_t kIdMax = std::numeric_limits<std::int64_t>::max();
// A status with so few runs is looked through whole rather than another index.
constexpr std::int64_t kFewRuns = 5000;
// Ids that a merge reads ahead from one source: one at first, since most sources give none.
constexpr std::int64_t kReadAheadMax = 256;
// A list that may match most runs looks at so many of the newest first.
constexpr std::int64_t kNewestRuns = 5000;
constexpr int kIdTimeShift = 22;  // below the milliseconds of an id (ids.h)

#define NOETL_EXECUTION_COLUMNS                                                              \
  "e.execution_id, e.catalog_id, e.path, e.version, e.parent_execution_id, "                 \
  "e.parent_command_id, e.status, e.started_at, e.ended_at, e.error, e.soft_error_count, "   \
  "e.last_event_id, e.last_event_type, e.last_node_name, e.updated_at, e.head, e.terminal, " \
  "e.chain"

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

// Parameters of every statement below; one that a statement does not have is not bound.
enum Parameter : int {
  kStatus = 1,
  kPath,
  kPathPart,
  kLabel,
  kCatalogId,
  kVersion,
  kParent,
  kStartedAfter,
  kStartedBefore,
  kFromId,
  kBeforeId,
  kRows,
  kSourceText,
  kSourceNumber
};

enum Drive : std::size_t { kAll, kOpen, kFailed, kChildren, kGroup, kLabelled, kUnusual };
struct DriveSql {
  std::string_view rows;  // from here come rows
  std::string_view ids;   // from here come ids alone, when several sources are merged
};
constexpr std::array<DriveSql, 7> kDrives = {{
    {"execution e NOT INDEXED WHERE 1", ""},
    {"execution e INDEXED BY execution_open WHERE e.terminal = 0", ""},
    {"execution e INDEXED BY execution_failed "
     "WHERE e.status IN ('FAILED', 'CANCELLED') AND e.status = ?1",
     ""},
    {"execution e INDEXED BY execution_by_parent WHERE e.parent_execution_id = ?7", ""},
    {"execution e INDEXED BY execution_by_path WHERE e.path IS ?13 AND e.version IS ?14",
     "execution e INDEXED BY execution_by_path WHERE e.path IS ?13 AND e.version IS ?14"},
    {"execution_label l CROSS JOIN execution e USING (execution_id) WHERE l.label = ?13",
     "execution_label e WHERE e.label = ?13"},
    {"execution e INDEXED BY execution_unusual WHERE " NOETL_UNUSUAL_START, ""},
}};

struct Source {
  std::string text;
  std::int64_t number = 0;
};
struct Plan {
  Drive drive = kAll;
  std::vector<Source> sources;  // of kGroup and kLabelled; none: no run can match
};

// One list: a filter with bounds of the ids that can match it.
struct Question {
  const ExecutionFilter& filter;
  std::int64_t from_id = 0;
  std::int64_t before_id = kIdMax;
  std::int64_t rows = 0;
  // Only runs whose id tells their start: the others are merged in.
  bool usual_only = false;
};

bool IsPrefix(const ExecutionFilter& filter) { return filter.path.ends_with('*'); }
// What paths must be, or begin with; "*" alone asks for nothing.
std::string_view PathText(const ExecutionFilter& filter) {
  std::string_view path = filter.path;
  if (IsPrefix(filter)) path.remove_suffix(1);
  return path;
}
bool IsLabelKey(const ExecutionFilter& filter) {
  return filter.label.find('=') == std::string::npos;
}
// Questions that go by very many sources, for which the newest runs are often enough.
bool MayFitMost(const ExecutionFilter& filter) {
  const bool many_paths = IsPrefix(filter) || filter.path.empty();
  return many_paths && (IsPrefix(filter) || !filter.path_part.empty() || filter.version != 0) &&
         filter.catalog_id == 0 && filter.parent_execution_id == 0 && filter.label.empty();
}
bool PathFits(const ExecutionFilter& filter, std::string_view path) {
  const std::string_view wanted = PathText(filter);
  if (IsPrefix(filter) ? !path.starts_with(wanted) : !wanted.empty() && path != wanted)
    return false;
  return filter.path_part.empty() ||
         ToLower(path).find(ToLower(filter.path_part)) != std::string::npos;
}

// Every condition of the filter, whatever the drive has seen to already.
std::string Conditions(const Question& question) {
  const ExecutionFilter& filter = question.filter;
  std::string sql;
  const auto add = [&](bool wanted, std::string_view condition) {
    if (wanted) sql.append(" AND ").append(condition);
  };
  const bool prefix = IsPrefix(filter);
  add(!filter.status.empty(), "e.status = ?1");
  const bool has_path = !PathText(filter).empty();
  add(prefix && has_path, "substr(e.path, 1, length(?2)) = ?2");
  add(!prefix && has_path, "e.path = ?2");
  add(!filter.path_part.empty(), "instr(lower(e.path), ?3)");
  add(!filter.label.empty() && !IsLabelKey(filter),
      "EXISTS (SELECT 1 FROM json_each(e.labels) WHERE value = ?4)");
  add(!filter.label.empty() && IsLabelKey(filter),
      "EXISTS (SELECT 1 FROM json_each(e.labels) WHERE substr(value, 1, length(?4) + 1) = "
      "?4 || '=')");
  add(filter.catalog_id != 0, "e.catalog_id = ?5");
  add(filter.version != 0, "e.version = ?6");
  add(filter.parent_execution_id != 0, "e.parent_execution_id = ?7");
  add(filter.started_after_us != 0, "e.started_at > ?8");
  add(filter.started_before_us != 0, "e.started_at < ?9");
  add(question.usual_only, "NOT " NOETL_UNUSUAL_START);
  return sql;
}

void Bind(Query& query, const Question& question, const std::string& path_part) {
  const ExecutionFilter& filter = question.filter;
  query.Text(kStatus, filter.status)
      .Text(kPath, PathText(filter))
      .Text(kPathPart, path_part)
      .Text(kLabel, filter.label)
      .Int(kCatalogId, filter.catalog_id)
      .Int(kVersion, filter.version)
      .Int(kParent, filter.parent_execution_id)
      .Int(kStartedAfter, filter.started_after_us)
      .Int(kStartedBefore, filter.started_before_us)
      .Int(kFromId, question.from_id)
      .Int(kBeforeId, question.before_id)
      .Int(kRows, question.rows);
}
void Bind(Query& query, const Source& source) {
  query.SomeText(kSourceText, source.text).SomeInt(kSourceNumber, source.number);
}

// ---- which drive

// Texts above `after` one by one, without looking at the many rows that have each.
Result<std::optional<std::string>> NextText(Connection& connection, const char* sql,
                                            std::string_view after) {
  NOETL_ASSIGN(Query query, connection.Get(sql));
  query.Text(1, after);
  return AtMostOne(connection, query, [](const Query& row) { return row.GetString(0); });
}

constexpr const char* kNextPath =
    "SELECT path FROM execution INDEXED BY execution_by_path WHERE path > ?1 "
    "ORDER BY path LIMIT 1";
constexpr const char* kNextLabel =
    "SELECT label FROM execution_label WHERE label > ?1 ORDER BY label LIMIT 1";

Result<std::vector<std::string>> PathsOf(Connection& connection, const ExecutionFilter& filter) {
  std::vector<std::string> paths;
  if (!filter.path.empty() && !IsPrefix(filter)) {
    if (PathFits(filter, filter.path)) paths.push_back(filter.path);
    return paths;
  }
  const std::string_view prefix = PathText(filter);
  std::string after(prefix);
  // The prefix may be a path itself.
  if (!prefix.empty() && PathFits(filter, prefix)) paths.emplace_back(prefix);
  while (true) {
    NOETL_ASSIGN(std::optional<std::string> next, NextText(connection, kNextPath, after));
    if (!next || !next->starts_with(prefix)) return paths;
    if (PathFits(filter, *next)) paths.push_back(*next);
    after = std::move(*next);
  }
}

Status AddVersions(Connection& connection, const std::string& path, std::vector<Source>& sources) {
  static constexpr const char* kNext = R"sql(
SELECT version FROM execution INDEXED BY execution_by_path
WHERE path = ?1 AND version > ?2 ORDER BY version LIMIT 1)sql";
  sources.push_back({path, 0});  // runs that have none
  std::int64_t after = std::numeric_limits<std::int64_t>::min();
  while (true) {
    NOETL_ASSIGN(Query query, connection.Get(kNext));
    query.Text(1, path).Int(2, after);
    if (!query.Next()) return connection.Finished(query);
    after = query.GetInt(0);
    sources.push_back({path, after});
  }
}

// The runs of each playbook version that can match.
Result<Plan> PlanGroups(Connection& connection, const ExecutionFilter& filter) {
  Plan plan{.drive = kGroup, .sources = {}};
  NOETL_ASSIGN(const std::vector<std::string> paths, PathsOf(connection, filter));
  for (const std::string& path : paths) {
    if (filter.version != 0) {
      plan.sources.push_back({path, filter.version});
    } else {
      NOETL_TRY(AddVersions(connection, path, plan.sources));
    }
  }
  if (PathText(filter).empty() && filter.path_part.empty())
    plan.sources.push_back({"", filter.version});
  return plan;
}

// A run has the path and the version of its catalog entry. Without an entry all are looked at.
Result<Plan> PlanEntry(Connection& connection, const ExecutionFilter& filter) {
  static constexpr const char* kSql = "SELECT path, version FROM catalog WHERE catalog_id = ?1";
  NOETL_ASSIGN(Query query, connection.Get(kSql));
  query.Int(1, filter.catalog_id);
  NOETL_ASSIGN(std::optional<Source> group, AtMostOne(connection, query, [](const Query& row) {
                 return Source{row.GetString(0), row.GetInt(1)};
               }));
  if (!group) return Plan();
  return Plan{.drive = kGroup, .sources = {std::move(*group)}};
}

Result<Plan> PlanLabels(Connection& connection, const ExecutionFilter& filter) {
  Plan plan{.drive = kLabelled, .sources = {}};
  if (!IsLabelKey(filter)) {
    plan.sources.push_back({filter.label});
    return plan;
  }
  const std::string key = filter.label + "=";
  plan.sources.push_back({key});
  while (true) {
    NOETL_ASSIGN(std::optional<std::string> next,
                 NextText(connection, kNextLabel, plan.sources.back().text));
    if (!next || !next->starts_with(key)) return plan;
    plan.sources.push_back({std::move(*next)});
  }
}

Result<bool> AreFew(Connection& connection, Drive drive, const Question& question) {
  NOETL_ASSIGN(Query query,
               connection.GetText(fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {})",
                                              kDrives[drive].rows, kFewRuns)));
  query.Text(kStatus, question.filter.status);
  const bool few = query.Next() && query.GetInt(0) < kFewRuns;
  NOETL_TRY(connection.Finished(query));
  return few;
}

Result<Plan> MakePlan(Connection& connection, const Question& question) {
  const ExecutionFilter& filter = question.filter;
  if (filter.parent_execution_id != 0) return Plan{.drive = kChildren, .sources = {}};
  const bool failed = filter.status == "FAILED" || filter.status == "CANCELLED";
  const bool open = filter.status == "RUNNING";
  if (failed || open) {
    const Drive drive = failed ? kFailed : kOpen;
    NOETL_ASSIGN(const bool few, AreFew(connection, drive, question));
    if (few) return Plan{.drive = drive, .sources = {}};
  }
  if (!filter.label.empty()) return PlanLabels(connection, filter);
  if (filter.catalog_id != 0) return PlanEntry(connection, filter);
  if (!PathText(filter).empty() || !filter.path_part.empty() || filter.version != 0)
    return PlanGroups(connection, filter);
  if (failed || open) return Plan{.drive = failed ? kFailed : kOpen, .sources = {}};
  return Plan();
}

// ---- reading

using Rows = std::vector<ExecutionRow>;

Result<Rows> ReadOneSource(Connection& connection, const Question& question, Drive drive,
                           const Source* source) {
  const std::string_view id = drive == kLabelled ? "l.execution_id" : "e.execution_id";
  NOETL_ASSIGN(Query query, connection.GetText(fmt::format(
                                "SELECT " NOETL_EXECUTION_COLUMNS
                                " FROM {}{} AND {} >= ?10 AND {} < ?11 ORDER BY {} DESC "
                                "LIMIT ?12",
                                kDrives[drive].rows, Conditions(question), id, id, id)));
  const std::string path_part = ToLower(question.filter.path_part);
  Bind(query, question, path_part);
  if (source) Bind(query, *source);
  return All(connection, query, ReadExecution);
}

// The ids of one source, newest first, read a few at a time.
class IdStream {
 public:
  IdStream(Source source, std::int64_t before_id)
      : source_(std::move(source)), before_id_(before_id) {}

  std::int64_t head() const { return ids_[at_]; }
  // False: there is none left.
  Result<bool> Advance(Connection& connection, const std::string& sql, std::int64_t from_id) {
    if (!ids_.empty() && ++at_ < ids_.size()) return true;
    if (!ids_.empty()) before_id_ = ids_.back();
    NOETL_ASSIGN(Query query, connection.GetText(sql));
    Bind(query, source_);
    query.Int(kFromId, from_id).Int(kBeforeId, before_id_).Int(kRows, read_ahead_);
    NOETL_ASSIGN(ids_, All(connection, query, [](const Query& row) { return row.GetInt(0); }));
    read_ahead_ = std::min(read_ahead_ * 4, kReadAheadMax);
    at_ = 0;
    return !ids_.empty();
  }

 private:
  Source source_;
  std::int64_t before_id_;
  std::int64_t read_ahead_ = 1;
  std::vector<std::int64_t> ids_;
  std::size_t at_ = 0;
};

Result<Rows> ReadMerged(Connection& connection, const Question& question, const Plan& plan) {
  const std::string ids = fmt::format(
      "SELECT e.execution_id FROM {} AND e.execution_id >= ?10 AND e.execution_id < ?11 "
      "ORDER BY e.execution_id DESC LIMIT ?12",
      kDrives[plan.drive].ids);
  const std::string row = fmt::format("SELECT " NOETL_EXECUTION_COLUMNS
                                      " FROM execution e WHERE e.execution_id = ?10{}",
                                      Conditions(question));
  const std::string path_part = ToLower(question.filter.path_part);
  std::vector<IdStream> streams;
  std::priority_queue<std::pair<std::int64_t, std::size_t>> heads;
  for (const Source& source : plan.sources) {
    streams.emplace_back(source, question.before_id);
    NOETL_ASSIGN(const bool more, streams.back().Advance(connection, ids, question.from_id));
    if (more) heads.emplace(streams.back().head(), streams.size() - 1);
  }
  Rows rows;
  std::int64_t last = 0;
  while (!heads.empty() && std::ssize(rows) < question.rows) {
    const auto [id, at] = heads.top();
    heads.pop();
    // A run may have two labels with one key.
    if (id != last) {
      NOETL_ASSIGN(Query query, connection.GetText(row));
      Bind(query, question, path_part);
      query.Int(kFromId, id);
      NOETL_ASSIGN(auto found, AtMostOne(connection, query, ReadExecution));
      if (found) rows.push_back(std::move(*found));
    }
    last = id;
    NOETL_ASSIGN(const bool more, streams[at].Advance(connection, ids, question.from_id));
    if (more) heads.emplace(streams[at].head(), at);
  }
  return rows;
}

// The page when the newest of all runs hold the whole of it; fewer rows otherwise.
Result<Rows> ReadAmongNewest(Connection& connection, Question question) {
  static constexpr const char* kSql = R"sql(
SELECT execution_id FROM execution NOT INDEXED
WHERE execution_id < ?1 ORDER BY execution_id DESC LIMIT 1 OFFSET ?2)sql";
  NOETL_ASSIGN(Query query, connection.Get(kSql));
  query.Int(1, question.before_id).Int(2, kNewestRuns);
  if (query.Next()) question.from_id = std::max(question.from_id, query.GetInt(0));
  NOETL_TRY(connection.Finished(query));
  return ReadOneSource(connection, question, kAll, nullptr);
}

Result<Rows> Answer(Connection& connection, const Question& question) {
  if (question.rows == 0 || question.from_id >= question.before_id) return Rows();
  if (MayFitMost(question.filter)) {
    NOETL_ASSIGN(Rows rows, ReadAmongNewest(connection, question));
    if (std::ssize(rows) == question.rows) return rows;
  }
  NOETL_ASSIGN(const Plan plan, MakePlan(connection, question));
  if (plan.drive != kGroup && plan.drive != kLabelled)
    return ReadOneSource(connection, question, plan.drive, nullptr);
  if (plan.sources.size() == 1)
    return ReadOneSource(connection, question, plan.drive, &plan.sources[0]);
  return ReadMerged(connection, question, plan);
}

// ---- times in ids

// The smallest id of this time.
std::int64_t FirstIdAt(std::int64_t time_us) {
  const std::int64_t since_ms = time_us / 1000 - kIdEpochMs;
  if (since_ms <= 0) return 0;
  if (since_ms >= kIdMax >> kIdTimeShift) return kIdMax;
  return since_ms << kIdTimeShift;
}

// Bounds of the ids of usual runs that started in a time; one millisecond more on either side for
// what rounding takes away.
constexpr std::int64_t kMarginUs = kStartSlackUs + 1000;
std::int64_t IdsFrom(std::int64_t started_after_us) {
  return started_after_us == 0 ? 0 : FirstIdAt(started_after_us - kMarginUs);
}
std::int64_t IdsBefore(std::int64_t started_before_us) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max() - 2 * kMarginUs;
  if (started_before_us == 0 || started_before_us > kLast) return kIdMax;
  return FirstIdAt(started_before_us + kMarginUs + 1000);
}

// Both newest first, no run in both.
Rows MergeRows(Rows first, Rows second) {
  Rows merged;
  merged.reserve(first.size() + second.size());
  std::merge(std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()),
             std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()),
             std::back_inserter(merged), [](const ExecutionRow& a, const ExecutionRow& b) {
               return a.execution_id > b.execution_id;
             });
  return merged;
}

// Several reads of one moment.
class Moment {
 public:
  explicit Moment(Connection* connection) : connection_(connection) {}
  ~Moment() {
    if (connection_->InTransaction()) (void)connection_->Execute("COMMIT");
  }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  Status Begin() { return connection_->Execute("BEGIN"); }

 private:
  Connection* connection_;
};

Result<Rows> ListRows(Connection& connection, const ExecutionFilter& filter) {
  const std::int64_t offset = Limit(filter.offset);
  const std::int64_t rows =
      std::min(Limit(filter.limit), std::numeric_limits<std::int64_t>::max() - offset) + offset;
  Question question{.filter = filter, .rows = filter.limit <= 0 ? 0 : rows};
  if (filter.before_id != 0) question.before_id = filter.before_id;
  const bool by_time = filter.started_after_us != 0 || filter.started_before_us != 0;
  if (!by_time) return Answer(connection, question);

  Question usual = question;
  usual.usual_only = true;
  usual.from_id = IdsFrom(filter.started_after_us);
  usual.before_id = std::min(usual.before_id, IdsBefore(filter.started_before_us));
  NOETL_ASSIGN(Rows first, Answer(connection, usual));
  NOETL_ASSIGN(Rows second, ReadOneSource(connection, question, kUnusual, nullptr));
  return MergeRows(std::move(first), std::move(second));
}

Result<std::int64_t> CountBy(Connection& connection, const char* sql, std::int64_t time_us,
                             std::int64_t from_id, std::int64_t to_id) {
  NOETL_ASSIGN(Query query, connection.Get(sql));
  query.Int(1, time_us).Int(2, from_id).Int(3, to_id);
  const std::int64_t count = query.Next() ? query.GetInt(0) : 0;
  NOETL_TRY(connection.Finished(query));
  return count;
}

// All runs above the ids of that time count without a look at their rows; those around it are
// looked at; then the runs whose ids tell nothing are put right.
Result<std::int64_t> CountStarted(Connection& connection, std::int64_t time_us) {
  static constexpr const char* kAbove = R"sql(
SELECT count(*) FROM execution INDEXED BY execution_by_path
WHERE execution_id >= ?3)sql";
  static constexpr const char* kAround = R"sql(
SELECT count(*) FROM execution NOT INDEXED
WHERE execution_id >= ?2 AND execution_id < ?3 AND started_at >= ?1)sql";
  static constexpr const char* kUnusual =
      "SELECT ifnull(sum((execution_id < ?2 AND ifnull(started_at >= ?1, 0)) - "
      "(execution_id >= ?3 AND NOT ifnull(started_at >= ?1, 0))), 0) "
      "FROM execution INDEXED BY execution_unusual WHERE " NOETL_UNUSUAL_START;
  if (time_us <= 0) return connection.Number("SELECT count(*) FROM execution");
  const std::int64_t from_id = IdsFrom(time_us);
  const std::int64_t to_id = IdsBefore(time_us);
  std::int64_t count = 0;
  for (const char* sql : {kAbove, kAround, kUnusual}) {
    NOETL_ASSIGN(const std::int64_t part, CountBy(connection, sql, time_us, from_id, to_id));
    count += part;
  }
  return count;
}

}  // namespace

Result<std::optional<ExecutionRow>> Reader::Find(std::int64_t execution_id) const {
  static constexpr const char* kSql =
      "SELECT " NOETL_EXECUTION_COLUMNS " FROM execution e WHERE execution_id = ?1";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, execution_id);
  return AtMostOne(*connection, query, ReadExecution);
}

Result<std::vector<ExecutionRow>> Reader::List(const ExecutionFilter& filter) const {
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  Moment moment(&*connection);
  NOETL_TRY(moment.Begin());
  NOETL_ASSIGN(Rows rows, ListRows(*connection, filter));
  const std::int64_t begin = std::min(Limit(filter.offset), std::ssize(rows));
  const std::int64_t end = begin + std::min(Limit(filter.limit), std::ssize(rows) - begin);
  return Rows(std::make_move_iterator(rows.begin() + begin),
              std::make_move_iterator(rows.begin() + end));
}

Result<std::vector<ExecutionRow>> Reader::Open(std::int64_t after_id, std::int64_t limit) const {
  static constexpr const char* kSql = "SELECT " NOETL_EXECUTION_COLUMNS R"sql(
FROM execution e INDEXED BY execution_open
WHERE terminal = 0 AND execution_id > ?1 ORDER BY execution_id LIMIT ?2)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  NOETL_ASSIGN(Query query, connection->Get(kSql));
  query.Int(1, after_id).Int(2, Limit(limit));
  return All(*connection, query, ReadExecution);
}

Result<ExecutionCounts> Reader::Count(std::int64_t started_after_us) const {
  static constexpr const char* kRunning = R"sql(
SELECT count(*) FROM execution INDEXED BY execution_open
WHERE terminal = 0 AND status = 'RUNNING' AND (?1 <= 0 OR started_at >= ?1))sql";
  static constexpr const char* kFailed = R"sql(
SELECT status, count(*) FROM execution INDEXED BY execution_failed
WHERE status IN ('FAILED', 'CANCELLED') AND (?1 <= 0 OR started_at >= ?1) GROUP BY status)sql";
  NOETL_ASSIGN(ReadPool::Lease connection, pool_->Take());
  Moment moment(&*connection);
  NOETL_TRY(moment.Begin());
  ExecutionCounts counts;
  {
    NOETL_ASSIGN(Query query, connection->Get(kRunning));
    query.Int(1, started_after_us);
    counts.running = query.Next() ? query.GetInt(0) : 0;
    NOETL_TRY(connection->Finished(query));
  }
  {
    NOETL_ASSIGN(Query query, connection->Get(kFailed));
    query.Int(1, started_after_us);
    while (query.Next())
      (query.GetText(0) == "FAILED" ? counts.failed : counts.cancelled) = query.GetInt(1);
    NOETL_TRY(connection->Finished(query));
  }
  NOETL_ASSIGN(const std::int64_t all, CountStarted(*connection, started_after_us));
  counts.completed = all - counts.running - counts.failed - counts.cancelled;
  return counts;
}

}  // namespace noetl::store
