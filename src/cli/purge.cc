#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "cli/table.h"
#include "store/directory.h"
#include "store/sqlite/sqlite_store.h"

namespace noetl::cli {
namespace {

// Runs that one call removes: progress is shown in between.
constexpr std::int64_t kPurgePage = 50;
constexpr std::int64_t kListPage = 1'000;
// Ids of a dry run that people are shown.
constexpr std::size_t kListed = 20;

struct Options {
  std::string data;
  std::string id;
  std::string older_than;
  bool dry_run = false;
  Output output = Output::kTable;
};

// A number without a unit is refused: seconds taken for days would remove almost everything.
Result<std::int64_t> ReadAge(const std::string& text) {
  const bool unit = !text.empty() && !(text.back() >= '0' && text.back() <= '9');
  const auto duration = unit ? ParseDurationMs(text) : std::nullopt;
  if (duration && *duration >= 0) return *duration * 1'000;
  return Fail("usage", fmt::format("--older-than: '{}' is not a duration with a unit, such as 30d "
                                   "or 12h",
                                   text));
}

Result<std::vector<std::int64_t>> EndedBefore(const store::Store& store, std::int64_t before_us) {
  std::vector<std::int64_t> found;
  store::ExecutionFilter filter;
  filter.limit = kListPage;
  while (true) {
    NOETL_ASSIGN(const std::vector<store::ExecutionRow> rows, store.List(filter));
    for (const store::ExecutionRow& row : rows) {
      if (row.terminal && row.ended_at_us < before_us) found.push_back(row.execution_id);
    }
    if (std::ssize(rows) < kListPage) return found;
    filter.before_id = rows.back().execution_id;
  }
}

struct Purged {
  std::int64_t count = 0;
  std::vector<std::int64_t> ids;  // of a dry run, or the one that was named
};

Result<Purged> PurgeOne(const Data& data, store::Store& store, const Options& options) {
  NOETL_ASSIGN(const store::ExecutionRow row, FindRun(*data.store, options.id));
  if (!row.terminal) {
    return Fail("open", fmt::format("run {} has not ended; `noetl cancel {}` ends it",
                                    row.execution_id, row.execution_id));
  }
  if (!options.dry_run) NOETL_TRY(store.Purge(row.execution_id));
  return Purged{1, {row.execution_id}};
}

Result<Purged> PurgeOld(store::Store& store, std::int64_t age_us, const Options& options,
                        Console& console) {
  const std::int64_t now_us = NowMicros();
  Purged purged;
  if (options.dry_run) {
    NOETL_ASSIGN(purged.ids, EndedBefore(store, now_us - age_us));
    purged.count = std::ssize(purged.ids);
    return purged;
  }
  while (true) {
    NOETL_ASSIGN(const std::int64_t removed, store.PurgeEnded(now_us - age_us, now_us, kPurgePage));
    purged.count += removed;
    if (removed < kPurgePage) return purged;
    console.Progress(fmt::format("{} runs removed", purged.count));
  }
}

void Print(const Purged& purged, const Options& options, Console& console) {
  if (options.output != Output::kTable) {
    std::vector<Json> ids;
    for (const std::int64_t id : purged.ids) ids.push_back(std::to_string(id));
    PrintDocument(Json::Object({{"runs", purged.count},
                                {"dry_run", options.dry_run},
                                {"execution_ids", Json::Array(std::move(ids))}}),
                  options.output, console);
    return;
  }
  const std::string count = Count(static_cast<std::size_t>(purged.count), "run");
  if (!options.dry_run) {
    console.Out(fmt::format("{} removed\n", count));
    return;
  }
  console.Out(fmt::format("{} would be removed\n", count));
  for (std::size_t i = 0; i < std::min(purged.ids.size(), kListed); ++i)
    console.Out(fmt::format("  {}\n", purged.ids[i]));
  if (purged.ids.size() > kListed)
    console.Out(fmt::format("  ... and {} more\n", purged.ids.size() - kListed));
}

Status PurgeRuns(const Options& options, Console& console) {
  if (options.id.empty() == options.older_than.empty())
    return Fail("usage", "name one run, or say --older-than 30d");
  std::int64_t age_us = 0;
  if (options.id.empty()) {
    NOETL_ASSIGN(age_us, ReadAge(options.older_than));
  }
  NOETL_ASSIGN(const Data data, OpenData(options.data, console));
  std::unique_ptr<store::DirectoryLock> lock;
  std::unique_ptr<store::Store> writable;
  if (!options.dry_run) {
    NOETL_ASSIGN(lock, store::DirectoryLock::Acquire(data.directory));
    NOETL_ASSIGN(writable, store::OpenSqliteStore({.directory = data.directory}));
  }
  store::Store& store = writable ? *writable : *data.store;
  NOETL_ASSIGN(const Purged purged, options.id.empty() ? PurgeOld(store, age_us, options, console)
                                                       : PurgeOne(data, store, options));
  console.EndProgress();
  Print(purged, options, console);
  return {};
}

}  // namespace

Action DeclarePurge(Parser& parser) {
  auto options = std::make_shared<Options>();
  AddIdArgument(parser, &options->id);
  parser.Add("--older-than", &options->older_than, "all runs that ended longer ago: 30d, 12h")
      .Type("TIME");
  parser.Flag("--dry-run", &options->dry_run, "only say what would be removed");
  AddOutputOptions(parser, &options->output);
  AddDataOption(parser, &options->data);
  return [options](Console& console) {
    const Status done = PurgeRuns(*options, console);
    return done ? kExitOk : Complain("purge", done.error(), console);
  };
}

}  // namespace noetl::cli
