#include "cli/data.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/time.h"
#include "cli/node.h"
#include "cli/parser.h"
#include "store/directory.h"
#include "store/sqlite/sqlite_store.h"

namespace noetl::cli {

namespace {

constexpr std::int64_t kListPage = 1'000;

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

Result<store::ExecutionRow> FindNewest(const store::Store& store) {
  store::ExecutionFilter filter;
  filter.limit = 1;
  NOETL_ASSIGN(std::vector<store::ExecutionRow> rows, store.List(filter));
  if (rows.empty()) return Fail("not_found", "nothing was run here yet; `noetl run FILE` runs one");
  return std::move(rows[0]);
}

Result<store::ExecutionRow> FindBySuffix(const store::Store& store, std::string_view suffix) {
  std::vector<store::ExecutionRow> found;
  store::ExecutionFilter filter;
  filter.limit = kListPage;
  for (std::int64_t seen = 0; seen < kSuffixRunsMax && found.size() < 2;) {
    NOETL_ASSIGN(std::vector<store::ExecutionRow> rows, store.List(filter));
    for (store::ExecutionRow& row : rows) {
      filter.before_id = row.execution_id;
      if (std::to_string(row.execution_id).ends_with(suffix)) found.push_back(std::move(row));
    }
    seen += std::ssize(rows);
    if (std::ssize(rows) < kListPage) break;
  }
  if (found.empty()) {
    return Fail("not_found",
                fmt::format("there is no run {}; `noetl executions` lists them", suffix));
  }
  if (found.size() > 1) {
    return Fail("ambiguous",
                fmt::format("{} is the end of several ids, among them {} and {}; give more digits",
                            suffix, found[0].execution_id, found[1].execution_id));
  }
  return std::move(found[0]);
}

}  // namespace

void AddDataOption(Parser& parser, std::string* directory) {
  parser.Add("--data", directory, "the data directory; else NOETL_DATA_DIR, else ./.noetl")
      .Type("DIR");
}

Option AddIdArgument(Parser& parser, std::string* id) {
  return parser.Add("ID", id, "the run: its id, at least 4 digits of its end, or `last`");
}

void AddRedactOption(Parser& parser, bool* all) {
  parser.Flag("--no-redact", all, "show passwords, tokens and keys as they are stored");
}

Result<Data> FindData(const std::string& given, Console& console) {
  Data data;
  data.settings = LoadSettings({}, console);
  if (!data.settings) return Fail("settings", "the settings above are wrong");
  data.directory = DataDirectory(*data.settings, given);
  const std::string file = data.directory + "/noetl.db";
  if (access(file.c_str(), F_OK) == 0) return data;
  return Fail("no_data",
              fmt::format("there is no data in {}: `noetl run FILE` makes the directory with the "
                          "first run; --data DIR or NOETL_DATA_DIR name another one",
                          data.directory));
}

Result<std::unique_ptr<store::Store>> OpenForReading(const std::string& directory) {
  auto store = store::OpenSqliteStore({.directory = directory, .read_only = true});
  if (store || store.error().code != "schema") return store;
  if (const auto lock = store::DirectoryLock::Acquire(directory))
    NOETL_TRY(store::OpenSqliteStore({.directory = directory}));
  return store::OpenSqliteStore({.directory = directory, .read_only = true});
}

Result<Data> OpenData(const std::string& given, Console& console) {
  NOETL_ASSIGN(Data data, FindData(given, console));
  NOETL_ASSIGN(data.store, OpenForReading(data.directory));
  return data;
}

Result<store::ExecutionRow> FindRun(const store::Store& store, std::string_view id) {
  if (id == "last") return FindNewest(store);
  if (!IsNumber(id)) {
    return Fail("not_found",
                fmt::format("'{}' is not the id of a run; `noetl executions` lists them, "
                            "`last` is the newest",
                            id));
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (error == std::errc()) {
    NOETL_ASSIGN(std::optional<store::ExecutionRow> row, store.Find(number));
    if (row) return *std::move(row);
  }
  if (id.size() < kIdSuffixMin) {
    return Fail("not_found", fmt::format("there is no run {}; the end of an id needs at least {} "
                                         "digits",
                                         id, kIdSuffixMin));
  }
  return FindBySuffix(store, id);
}

std::int64_t NowMicros() { return SystemClock().NowMicros(); }

std::int64_t DurationOf(const store::ExecutionRow& row, std::int64_t now_us) {
  const std::int64_t end_us = row.ended_at_us != 0 ? row.ended_at_us : now_us;
  return std::max<std::int64_t>(end_us - row.started_at_us, 0);
}

Json RunToJson(const store::ExecutionRow& row, std::int64_t now_us) {
  const auto time = [](std::int64_t us) { return us == 0 ? Json() : Json(FormatTime(us)); };
  const auto id = [](std::int64_t value) {
    return value == 0 ? Json() : Json(std::to_string(value));
  };
  return Json::Object(
      {{"execution_id", id(row.execution_id)},
       {"catalog_id", id(row.catalog_id)},
       {"path", row.path},
       {"version", row.version},
       {"status", row.status},
       {"started_at", time(row.started_at_us)},
       {"ended_at", time(row.ended_at_us)},
       {"duration_ms", DurationOf(row, now_us) / 1'000},
       {"events", row.head},
       {"soft_errors", row.soft_error_count},
       {"last_step",
        row.terminal || row.last_node_name.empty() ? Json() : Json(row.last_node_name)},
       {"parent_execution_id", id(row.parent_execution_id)},
       {"error", row.error.empty() ? Json() : Json(row.error)}});
}

int Complain(std::string_view command, const Error& error, Console& console) {
  console.EndProgress();
  console.Err(fmt::format("noetl {}: {}\n", command, error.message));
  struct Code {
    std::string_view error;
    int exit;
  };
  constexpr Code kCodes[] = {{"usage", kExitInvalid},
                             {"settings", kExitInvalid},
                             {"timeout", kExitTimeout},
                             {"server_unreachable", kExitUnreachable},
                             {"stream_broken", kExitUnreachable},
                             {"session_expired", kExitSession}};
  const auto* code = std::ranges::find(kCodes, error.code, &Code::error);
  return code == std::end(kCodes) ? kExitFailed : code->exit;
}

}  // namespace noetl::cli
