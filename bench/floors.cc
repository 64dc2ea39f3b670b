#include "floors.h"

#include <fcntl.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sample_units.h"
#include "store/sqlite/sqlite_store.h"

extern char** environ;

namespace noetl::bench {

namespace {

using Steady = std::chrono::steady_clock;

constexpr int kTransactions = 100;
constexpr int kRowsPerTransaction =
    static_cast<int>(store::kUnitEvents) * static_cast<int>(store::kBatchUnits);
constexpr std::size_t kEventBytes = 560;  // of a row of the event table

double SecondsSince(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void Must(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "bench: %s failed\n", what);
  std::exit(1);
}

void Execute(sqlite3* handle, const char* sql) {
  Must(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr) == SQLITE_OK, sql);
}

}  // namespace

double SyncUs(const std::string& directory) {
  const std::string path = directory + "/floor";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  const std::string page(4'096, 'x');
  std::vector<double> times;
  for (int i = 0; i < 300; ++i) {
    const auto start = Steady::now();
    Must(pwrite(file, page.data(), page.size(), i % 16 * 4'096) > 0 && fdatasync(file) == 0,
         "sync");
    times.push_back(SecondsSince(start) * 1e6);
  }
  close(file);
  unlink(path.c_str());
  return Median(times);
}

double RawInsertsPerSecond(const std::string& directory) {
  sqlite3* handle = nullptr;
  Must(sqlite3_open((directory + "/raw.db").c_str(), &handle) == SQLITE_OK, "open");
  Execute(handle, "PRAGMA journal_mode = WAL");
  Execute(handle, "PRAGMA synchronous = FULL");
  Execute(handle, "CREATE TABLE raw (id INTEGER PRIMARY KEY, data BLOB)");
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(handle, "INSERT INTO raw (data) VALUES (?1)", -1, &insert, nullptr);
  const std::string bytes(kEventBytes, 'x');
  const auto start = Steady::now();
  for (int i = 0; i < kTransactions; ++i) {
    Execute(handle, "BEGIN IMMEDIATE");
    for (int row = 0; row < kRowsPerTransaction; ++row) {
      sqlite3_bind_blob(insert, 1, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
      sqlite3_step(insert);
      sqlite3_reset(insert);
    }
    Execute(handle, "COMMIT");
  }
  const double seconds = SecondsSince(start);
  sqlite3_finalize(insert);
  sqlite3_close(handle);
  return kTransactions * kRowsPerTransaction / seconds;
}

double AppendsPerSecond(const std::string& directory) {
  auto opened = store::OpenSqliteStore({.directory = directory});
  Must(opened.has_value(), "opening the store");
  store::Batch batch(false);
  double seconds = 0;
  for (int i = 0; i < kTransactions; ++i) {
    batch.Advance();
    const auto start = Steady::now();
    for (const Status& status : (*opened)->Commit(batch.units()))
      Must(status.has_value(), "commit");
    seconds += SecondsSince(start);
  }
  return kTransactions * kRowsPerTransaction / seconds;
}

double RawReadsPerSecond(const std::string& directory) {
  sqlite3* handle = nullptr;
  Must(sqlite3_open_v2((directory + "/noetl.db").c_str(), &handle, SQLITE_OPEN_READONLY, nullptr) ==
           SQLITE_OK,
       "open");
  sqlite3_stmt* select = nullptr;
  sqlite3_prepare_v2(handle, "SELECT * FROM event", -1, &select, nullptr);
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  const auto start = Steady::now();
  while (sqlite3_step(select) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(select); ++i) bytes += sqlite3_column_bytes(select, i);
    ++rows;
  }
  const double seconds = SecondsSince(start);
  Must(bytes > 0, "reading");
  sqlite3_finalize(select);
  sqlite3_close(handle);
  return static_cast<double>(rows) / seconds;
}

double ProcessStartMs() {
  std::vector<double> times;
  for (int i = 0; i < 50; ++i) {
    char name[] = "/bin/true";
    char* argv[] = {name, nullptr};
    pid_t pid = 0;
    const auto start = Steady::now();
    Must(posix_spawn(&pid, name, nullptr, nullptr, argv, environ) == 0, "spawn");
    waitpid(pid, nullptr, 0);
    times.push_back(SecondsSince(start) * 1e3);
  }
  return Median(times);
}

}  // namespace noetl::bench
