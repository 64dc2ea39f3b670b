#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/control.h"
#include "cli/data.h"
#include "cli/files.h"
#include "cli/node.h"
#include "cli/parser.h"
#include "cli/table.h"
#include "store/sqlite/sqlite_store.h"
#include "worker/tools/registry.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

// Less free space than this is worth a word; commits need room for the write-ahead log.
constexpr std::int64_t kFreeBytesWarn = std::int64_t{1} << 30;
constexpr std::int64_t kFreeBytesFail = std::int64_t{16} << 20;
// A clock before this program was written is not set.
constexpr std::int64_t kEarliestUs = 1'735'689'600'000'000;  // 2025-01-01
// Findings of the store that are shown.
constexpr std::size_t kFindingsShown = 5;

struct Options {
  std::string data;
  Output output = Output::kTable;
};

enum class Level { kOk, kWarn, kFail };

struct Line {
  Level level = Level::kOk;
  std::string what;
  std::string text;
  std::string remedy;  // what to do
};
using Lines = std::vector<Line>;

// 0: it cannot be looked at.
unsigned ModeOf(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

void CheckModes(const std::string& directory, Lines& lines) {
  for (const auto& [path, wanted] :
       {std::pair(directory, 0700u), std::pair(directory + "/noetl.db", 0600u)}) {
    const unsigned mode = ModeOf(path);
    if ((mode & 0077) == 0) {
      lines.push_back({Level::kOk, "modes", fmt::format("{} {:04o}", path, mode), ""});
    } else {
      lines.push_back({Level::kWarn, "modes",
                       fmt::format("{} {:04o}: others can read what runs were given", path, mode),
                       fmt::format("chmod {:o} {}", wanted, path)});
    }
  }
}

void CheckOwner(const std::string& directory, Lines& lines) {
  const Result<Json> answer = CallOwner(directory, Json::Object({{"op", "ping"}}));
  lines.push_back({Level::kOk, "owner",
                   answer ? fmt::format("process {} runs what is here",
                                        answer->Find("pid") ? (*answer)["pid"].AsInt() : 0)
                          : "no process runs what is here",
                   ""});
}

void CheckContents(const store::Store& store, Lines& lines) {
  const Result<store::StoreStats> stats = store.Stats();
  if (!stats) {
    lines.push_back({Level::kFail, "store", stats.error().message, "restore a backup"});
    return;
  }
  lines.push_back({Level::kOk, "schema", fmt::format("version {}", stats->schema), ""});
  lines.push_back(
      {Level::kOk, "content",
       fmt::format("{}, {} of them open; {}; {}",
                   Count(static_cast<std::size_t>(stats->executions), "run"),
                   stats->open_executions, Count(static_cast<std::size_t>(stats->events), "event"),
                   BytesText(stats->bytes)),
       ""});
  const Result<std::vector<std::string>> findings = store.Check();
  if (!findings) {
    lines.push_back({Level::kFail, "integrity", findings.error().message, "restore a backup"});
  } else if (findings->empty()) {
    lines.push_back({Level::kOk, "integrity", "no damage found", ""});
  } else {
    const std::size_t shown = std::min(findings->size(), kFindingsShown);
    lines.push_back({Level::kFail, "integrity",
                     fmt::format("{}: {}", Count(findings->size(), "finding"),
                                 fmt::join(findings->begin(), findings->begin() + shown, "; ")),
                     "stop what uses the directory, move it away and restore a backup; `noetl "
                     "verify` tells which runs are whole"});
  }
}

void CheckData(const Settings& settings, const Options& options, Lines& lines) {
  const std::string directory = DataDirectory(settings, options.data);
  if (access((directory + "/noetl.db").c_str(), F_OK) != 0) {
    lines.push_back({Level::kWarn, "data", fmt::format("{}: nothing was run here yet", directory),
                     "`noetl run FILE` makes it; --data DIR or NOETL_DATA_DIR name another one"});
    return;
  }
  lines.push_back({Level::kOk, "data", fs::absolute(directory).lexically_normal().string(), ""});
  CheckModes(directory, lines);
  CheckOwner(directory, lines);
  const auto store = store::OpenSqliteStore({.directory = directory, .read_only = true});
  if (store) return CheckContents(**store, lines);
  if (store.error().code == "not_found") {
    lines.push_back({Level::kWarn, "store", store.error().message, "`noetl run FILE` makes it"});
    return;
  }
  lines.push_back({Level::kFail, "store", store.error().message,
                   store.error().code == "schema" ? "use the version of noetl that wrote it, or a "
                                                    "newer one; any run brings an older store up "
                                                    "to date"
                                                  : "restore a backup"});
}

void CheckDisk(const Settings& settings, const Options& options, Lines& lines) {
  std::error_code error;
  fs::path path = fs::absolute(DataDirectory(settings, options.data), error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  const fs::space_info space = fs::space(path, error);
  if (error) {
    lines.push_back(
        {Level::kWarn, "disk", fmt::format("{}: {}", path.string(), error.message()), ""});
    return;
  }
  const auto free = static_cast<std::int64_t>(space.available);
  const Level level = free < kFreeBytesFail   ? Level::kFail
                      : free < kFreeBytesWarn ? Level::kWarn
                                              : Level::kOk;
  lines.push_back({level, "disk", BytesText(free) + " free",
                   level == Level::kOk ? ""
                                       : "make room; `noetl purge --older-than 30d` removes "
                                         "old runs"});
}

void CheckClock(Lines& lines) {
  const std::int64_t now_us = NowMicros();
  const bool set = now_us >= kEarliestUs;
  lines.push_back({set ? Level::kOk : Level::kFail, "clock", FormatTime(now_us),
                   set ? "" : "set the clock: ids and timers are made from it"});
}

// The first program of that name on the PATH.
std::string FindProgram(std::string_view name) {
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable ? variable : "";
  while (!rest.empty()) {
    const std::size_t length = std::min(rest.find(':'), rest.size());
    const std::string path = fmt::format("{}/{}", rest.substr(0, length), name);
    if (length > 0 && access(path.c_str(), X_OK) == 0) return path;
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return "";
}

void CheckPython(Lines& lines) {
  const std::string python = FindProgram("python3");
  if (!python.empty()) lines.push_back({Level::kOk, "python3", python, ""});
  else
    lines.push_back({Level::kWarn, "python3", "not found on the PATH",
                     "install Python 3 for steps of kind python"});
}

int Doctor(const Options& options, Console& console) {
  const std::unique_ptr<Settings> settings = LoadSettings({}, console);
  if (!settings) return kExitInvalid;
  Lines lines;
  lines.push_back({Level::kOk, "version", VersionText(), ""});
  CheckData(*settings, options, lines);
  CheckDisk(*settings, options, lines);
  CheckClock(lines);
  CheckPython(lines);
  lines.push_back(
      {Level::kOk, "tools", fmt::format("{}", fmt::join(worker::ToolRegistry::Kinds(), ", ")), ""});
  for (const std::string& setting : settings->Describe())
    lines.push_back({Level::kOk, "setting", setting, ""});

  constexpr std::array<std::string_view, 3> kNames = {"ok", "warn", "fail"};
  constexpr std::array<Style, 3> kStyles = {Style::kGreen, Style::kYellow, Style::kRed};
  bool failed = false;
  std::vector<Json> documents;
  for (const Line& line : lines) {
    const auto level = static_cast<std::size_t>(line.level);
    failed = failed || line.level == Level::kFail;
    documents.push_back(
        Json::Object({{"level", kNames[level]},
                      {"what", line.what},
                      {"text", line.text},
                      {"remedy", line.remedy.empty() ? Json() : Json(line.remedy)}}));
    if (options.output != Output::kTable) continue;
    const std::string mark = console.Paint(kStyles[level], kNames[level]);
    const std::string blanks(5 - kNames[level].size(), ' ');
    console.Out(fmt::format("{}{} {:<10} {}\n", mark, blanks, line.what, OneLine(line.text)));
    if (!line.remedy.empty()) console.Out(fmt::format("{:17}-> {}\n", "", line.remedy));
  }
  if (options.output != Output::kTable) {
    PrintDocument(Json::Object({{"ok", !failed}, {"checks", Json::Array(std::move(documents))}}),
                  options.output, console);
  }
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

Action DeclareDoctor(Parser& parser) {
  auto options = std::make_shared<Options>();
  AddOutputOptions(parser, &options->output);
  AddDataOption(parser, &options->data);
  return [options](Console& console) { return Doctor(*options, console); };
}

}  // namespace noetl::cli
