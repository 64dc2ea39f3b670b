// The store: durable events per second, and the floors under them: the same bytes as rows of a table
// with one column, and bare syncs of a file.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <numeric>

#include <benchmark/benchmark.h>

#include "base/temporary_directory.h"
#include "sample_units.h"
#include "store/chain.h"
#include "store/sqlite/sqlite_store.h"

namespace noetl::store {
namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Commit(benchmark::State& state, bool one_run) {
  TemporaryDirectory directory;
  auto store = OpenSqliteStore({.directory = directory.path()});
  if (!store) return state.SkipWithError(store.error().message.c_str());
  Batch batch(one_run);
  double longest = 0;
  std::int64_t events = 0;
  std::vector<double> cpu;
  for (auto _ : state) {
    state.PauseTiming();
    batch.Advance();
    state.ResumeTiming();
    const auto start = std::chrono::steady_clock::now();
    const double cpu_before = CpuSeconds();
    for (const Status& status : (*store)->Commit(batch.units())) {
      if (!status) return state.SkipWithError(status.error().message.c_str());
    }
    longest = std::max(longest, SecondsSince(start));
    cpu.push_back(CpuSeconds() - cpu_before);
    events += kUnitEvents * kBatchUnits;
  }
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["longest_ms"] = longest * 1e3;
  // 1: a commit at the end costs what it cost at the start.
  const auto tenth = static_cast<std::ptrdiff_t>(cpu.size() / 10);
  if (tenth > 0) {
    state.counters["last/first"] = std::accumulate(cpu.end() - tenth, cpu.end(), 0.0) /
                                   std::accumulate(cpu.begin(), cpu.begin() + tenth, 0.0);
  }
  state.counters["bytes/event"] =
      static_cast<double>((*store)->Stats()->bytes) / static_cast<double>(events);
}

void CommitManyRuns(benchmark::State& state) { Commit(state, false); }
void CommitOneRun(benchmark::State& state) { Commit(state, true); }
BENCHMARK(CommitManyRuns)->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(3);
// Two million events.
BENCHMARK(CommitOneRun)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1000);

// The floor: as many rows and bytes in one column, without an index, with the same transactions.
void RawRows(benchmark::State& state) {
  TemporaryDirectory directory;
  sqlite3* handle = nullptr;
  sqlite3_open((directory.path() + "/raw.db").c_str(), &handle);
  sqlite3_exec(handle,
               "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
               "CREATE TABLE raw (id INTEGER PRIMARY KEY, data BLOB)",
               nullptr, nullptr, nullptr);
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(handle, "INSERT INTO raw (data) VALUES (?1)", -1, &insert, nullptr);
  const std::string bytes(560, 'x');
  std::int64_t events = 0;
  for (auto _ : state) {
    sqlite3_exec(handle, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
    for (std::size_t i = 0; i < kUnitEvents * kBatchUnits; ++i) {
      sqlite3_bind_blob(insert, 1, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
      sqlite3_step(insert);
      sqlite3_reset(insert);
    }
    sqlite3_exec(handle, "COMMIT", nullptr, nullptr, nullptr);
    events += kUnitEvents * kBatchUnits;
  }
  sqlite3_finalize(insert);
  sqlite3_close(handle);
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}
BENCHMARK(RawRows)->Name("CommitFloor_OneColumn")->Unit(benchmark::kMillisecond)->UseRealTime();

void RawSync(benchmark::State& state) {
  TemporaryDirectory directory;
  const int file = open((directory.path() + "/raw").c_str(), O_RDWR | O_CREAT, 0600);
  const std::string block(static_cast<std::size_t>(state.range(0)), 'x');
  constexpr off_t kPlaces = 16;  // written over and over, as a log that starts over is
  off_t place = 0;
  for (auto _ : state) {
    const off_t offset = place++ % kPlaces * static_cast<off_t>(block.size());
    if (pwrite(file, block.data(), block.size(), offset) < 0 || fdatasync(file) != 0) {
      state.SkipWithError("cannot sync");
      break;
    }
  }
  close(file);
}
BENCHMARK(RawSync)
    ->Name("CommitFloor_Sync")
    ->Arg(4096)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

// A small unit alone: what one sequential step waits for.
void CommitSingleUnit(benchmark::State& state) {
  TemporaryDirectory directory;
  auto store = OpenSqliteStore({.directory = directory.path()});
  if (!store) return state.SkipWithError(store.error().message.c_str());
  Batch batch(true);
  std::size_t next = kBatchUnits;
  for (auto _ : state) {
    if (next == kBatchUnits) {
      state.PauseTiming();
      batch.Advance();
      next = 0;
      state.ResumeTiming();
    }
    if (!(*store)->Commit(batch.units().subspan(next++, 1))[0]) {
      return state.SkipWithError("refused");
    }
  }
}
BENCHMARK(CommitSingleUnit)->Unit(benchmark::kMicrosecond)->UseRealTime();

void ReadEvents(benchmark::State& state) {
  TemporaryDirectory directory;
  auto store = OpenSqliteStore({.directory = directory.path()});
  if (!store) return state.SkipWithError(store.error().message.c_str());
  Batch batch(true);
  for (int i = 0; i < 100; ++i) {
    batch.Advance();
    (*store)->Commit(batch.units());
  }
  const std::int64_t id = batch.units()[0]->execution_id;
  std::int64_t events = 0;
  std::int64_t after = 0;
  for (auto _ : state) {
    const auto page = (*store)->ReadEvents(id, after, 1000);
    if (!page) return state.SkipWithError(page.error().message.c_str());
    events += std::ssize(*page);
    after = page->size() < 1000 ? 0 : after + 1000;
  }
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}
BENCHMARK(ReadEvents)->Unit(benchmark::kMicrosecond)->UseRealTime();

// What a lane does for the store: texts and chain of one event.
void MakeRow(benchmark::State& state) {
  const engine::Event event = SampleEvent(7, 8);
  Sha256Digest chain = ChainStart(7);
  for (auto _ : state) {
    const Result<EventRow> row = MakeEventRow(event, chain);
    chain = row->chain;
  }
}
BENCHMARK(MakeRow)->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace noetl::store
