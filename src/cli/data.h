// The data directory for commands that read: opening it, and finding a run by what a user typed.
//
// Readers take no lock: they work while another process owns the directory. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "cli/console.h"
#include "cli/parser.h"
#include "store/store.h"

namespace noetl::cli {

struct Data {
  std::string directory;
  std::unique_ptr<Settings> settings;
  std::unique_ptr<store::Store> store;  // for reading
};

// Declares --data; `directory` outlives the parser.
void AddDataOption(Parser& parser, std::string* directory);
// Declares the ID of a run.
Option AddIdArgument(Parser& parser, std::string* id);
// Declares --no-redact.
void AddRedactOption(Parser& parser, bool* all);

// Opens a directory for reading. One that an older version made is brought up to date first, unless
// somebody owns it.
Result<std::unique_ptr<store::Store>> OpenForReading(const std::string& directory);
// The settings and the place of the store; "no_data" with a way out when there is none.
Result<Data> FindData(const std::string& given, Console& console);
// The same, and opens the store for reading.
Result<Data> OpenData(const std::string& given, Console& console);

// A suffix of an id needs so many digits.
inline constexpr std::size_t kIdSuffixMin = 4;
// Suffixes are looked for among so many of the newest runs.
inline constexpr std::int64_t kSuffixRunsMax = 100'000;

// The run with this id, with an id that ends so, or the newest for "last". Errors: "not_found",
// "ambiguous".
Result<store::ExecutionRow> FindRun(const store::Store& store, std::string_view id);

// Events of one read: large runs are read in pages.
inline constexpr std::int64_t kPageEvents = 1'000;
// How often a command that follows a run looks for more.
inline constexpr std::int64_t kFollowPauseUs = 200'000;

// Microseconds now, by the wall clock.
std::int64_t NowMicros();
// How long a run took, or has been going.
std::int64_t DurationOf(const store::ExecutionRow& row, std::int64_t now_us);

// The row with the names that programs know; ids are texts.
Json RunToJson(const store::ExecutionRow& row, std::int64_t now_us);

// Prints the error of a command; gives its exit code.
int Complain(std::string_view command, const Error& error, Console& console);

}  // namespace noetl::cli
