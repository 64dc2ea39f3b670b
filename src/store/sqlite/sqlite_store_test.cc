// What only the SQLite store promises: crashes, full disks, files and their modes.
#include "store/sqlite/sqlite_store.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/temporary_directory.h"
#include "base/testing.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/fault_vfs.h"
#include "store/testing.h"

namespace noetl::store {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Store> MustOpen(SqliteOptions options) {
  Result<std::unique_ptr<Store>> store = OpenSqliteStore(std::move(options));
  EXPECT_TRUE(store.has_value()) << store.error().message;
  return store ? std::move(*store) : nullptr;
}

mode_t ModeOf(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(SqliteStore, FilesArePrivateAndOneIsLeft) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/deep/er";
  {
    const auto store = MustOpen({.directory = path});
    TestRun run(5);
    ASSERT_TRUE(CommitOne(*store, run.Next(1)).has_value());
    for (const char* name : {"noetl.db", "noetl.db-wal", "noetl.db-shm"}) {
      EXPECT_EQ(ModeOf(path + "/" + name), 0600u) << name;
    }
    EXPECT_EQ(ModeOf(path), 0700u);
    EXPECT_EQ(store->ReadEvents(5, 0, 10)->size(), 1u);
  }
  EXPECT_EQ(FilesIn(path), std::vector<std::string>{"noetl.db"});
}

TEST(SqliteStore, ReadersOfAnotherProcessSeeCommits) {
  TemporaryDirectory directory;
  EXPECT_EQ(CodeOf(OpenSqliteStore({.directory = directory.path(), .read_only = true})), "io");
  const auto store = MustOpen({.directory = directory.path()});
  TestRun run(5);
  ASSERT_TRUE(CommitOne(*store, run.Next(2)).has_value());
  const auto reader = MustOpen({.directory = directory.path(), .read_only = true});
  EXPECT_EQ(reader->ReadEvents(5, 0, 10)->size(), 2u);
  ASSERT_TRUE(CommitOne(*store, run.Next(1)).has_value());
  EXPECT_EQ(reader->ReadEvents(5, 0, 10)->size(), 3u);
  EXPECT_EQ(CodeOf(CommitOne(*reader, run.Next(1))), "read_only");
  EXPECT_EQ(CodeOf(reader->Purge(5)), "read_only");
  EXPECT_EQ(CodeOf(reader->Register({.catalog_id = 1, .path = "a"})), "read_only");
}

TEST(SqliteStore, RefusesFilesOfOthersAndOfTheFuture) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/noetl.db";
  {
    MustOpen({.directory = directory.path()});
  }
  {
    auto connection = *Connection::Open(path, Connection::Mode::kWrite, "");
    ASSERT_TRUE(connection->Execute("PRAGMA user_version = 999").has_value());
  }
  for (const bool read_only : {false, true}) {
    const auto opened = OpenSqliteStore({.directory = directory.path(), .read_only = read_only});
    EXPECT_EQ(CodeOf(opened), "schema");
    EXPECT_NE(opened.error().message.find(path), std::string::npos);
  }
  {
    auto connection = *Connection::Open(path, Connection::Mode::kWrite, "");
    ASSERT_TRUE(connection->Execute("PRAGMA application_id = 7").has_value());
  }
  EXPECT_EQ(CodeOf(OpenSqliteStore({.directory = directory.path()})), "corrupt");
  std::ofstream(path, std::ios::trunc) << std::string(8192, 'x');
  EXPECT_EQ(CodeOf(OpenSqliteStore({.directory = directory.path()})), "corrupt");
}

TEST(SqliteStore, AnEmptyFileIsNothingToReadYet) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() + "/noetl.db").flush();
  EXPECT_EQ(CodeOf(OpenSqliteStore({.directory = directory.path(), .read_only = true})),
            "not_found");
  MustOpen({.directory = directory.path()});
  MustOpen({.directory = directory.path(), .read_only = true});
}

TEST(SqliteStore, LargeBodiesAreFilesAndDamageIsSeen) {
  TemporaryDirectory directory;
  const auto store = MustOpen({.directory = directory.path()});
  TestRun run(5);
  UnitRows unit = run.Next(1);
  const std::string large = "\"" + std::string(2u << 20, 'x') + "\"";
  unit.bodies = {{"noetl://execution/5/result/a/1", large},
                 {"noetl://execution/5/result/a/2", large}};
  ASSERT_TRUE(CommitOne(*store, unit).has_value());
  const std::string folder = directory.path() + "/objects/5";
  const std::string object = folder + "/" + Sha256Hex(large) + ".json";
  EXPECT_EQ(FilesIn(folder).size(), 1u);
  EXPECT_EQ(ModeOf(object), 0600u);
  EXPECT_EQ(ModeOf(folder), 0700u);
  std::ofstream(object, std::ios::trunc) << "\"other\"";
  EXPECT_EQ(CodeOf(store->Load("noetl://execution/5/result/a/1")), "corrupt");
  fs::remove(object);
  EXPECT_EQ(CodeOf(store->Load("noetl://execution/5/result/a/1")), "not_found");
  ASSERT_TRUE(CommitOne(*store, run.End()).has_value());
  ASSERT_TRUE(store->Purge(5).has_value());
  EXPECT_FALSE(fs::exists(folder));
}

TEST(SqliteStore, BackupIsAStore) {
  TemporaryDirectory directory;
  TemporaryDirectory target;
  const auto store = MustOpen({.directory = directory.path()});
  TestRun run(5);
  UnitRows unit = run.Next(20);
  const std::string large = "\"" + std::string(2u << 20, 'x') + "\"";
  unit.bodies = {{"noetl://execution/5/result/a/1", large}};
  ASSERT_TRUE(CommitOne(*store, unit).has_value());
  const std::string copy = target.path() + "/noetl.db";
  ASSERT_TRUE(store->Backup(copy).has_value());
  EXPECT_EQ(ModeOf(copy), 0600u);
  EXPECT_EQ(CodeOf(store->Backup(copy)), "io");  // it exists
  ASSERT_TRUE(CommitOne(*store, run.Next(1)).has_value());
  fs::rename(copy + ".objects", target.path() + "/objects");
  const auto restored = MustOpen({.directory = target.path()});
  EXPECT_EQ(restored->ReadEvents(5, 0, 100)->size(), 20u);
  EXPECT_EQ(*restored->Load("noetl://execution/5/result/a/1"), Parse(large));
  EXPECT_TRUE(restored->Check()->empty());
}

TEST(SqliteStore, CheckFindsWhatIsWrong) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/noetl.db";
  const auto store = MustOpen({.directory = directory.path()});
  TestRun first(5);
  TestRun second(6);
  TestRun third(7);
  ASSERT_TRUE(CommitOne(*store, first.Next(3)).has_value());
  ASSERT_TRUE(CommitOne(*store, second.Next(3)).has_value());
  ASSERT_TRUE(CommitOne(*store, third.Next(3)).has_value());
  EXPECT_TRUE(store->Check()->empty());
  auto connection = *Connection::Open(path, Connection::Mode::kWrite, "");
  ASSERT_TRUE(connection
                  ->Execute("DELETE FROM event WHERE execution_id = 5 AND stream_version = 2;"
                            "DELETE FROM event WHERE execution_id = 6 AND stream_version = 3;"
                            "UPDATE execution SET chain = x'00' WHERE execution_id = 7")
                  .has_value());
  const std::vector<std::string> findings = *store->Check();
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_NE(findings[0].find("execution 6: its head is 3"), std::string::npos);
  EXPECT_NE(findings[1].find("execution 5: 2 events"), std::string::npos);
  EXPECT_NE(findings[2].find("execution 7: its chain"), std::string::npos);
}

TEST(SqliteStore, PositionsAreNeverUsedAgain) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/noetl.db";
  const auto newest = [&] {
    auto connection = *Connection::Open(path, Connection::Mode::kRead, "");
    return *connection->Number("SELECT max(position) FROM event");
  };
  {
    const auto store = MustOpen({.directory = directory.path()});
    TestRun run(5);
    ASSERT_TRUE(CommitOne(*store, run.Next(4)).has_value());
    ASSERT_TRUE(CommitOne(*store, run.End()).has_value());
    EXPECT_EQ(newest(), 5);
    ASSERT_TRUE(store->Purge(5).has_value());
  }
  const auto store = MustOpen({.directory = directory.path()});
  TestRun run(6);
  ASSERT_TRUE(CommitOne(*store, run.Next(1)).has_value());
  EXPECT_EQ(newest(), 6);
}

TEST(SqliteStore, ALongRunIsPurgedInChunks) {
  TemporaryDirectory directory;
  const auto store = MustOpen({.directory = directory.path()});
  TestRun run(5);
  ASSERT_TRUE(CommitOne(*store, run.Next(5000)).has_value());
  ASSERT_TRUE(CommitOne(*store, run.End()).has_value());
  ASSERT_TRUE(store->Purge(5).has_value());
  EXPECT_TRUE(store->ReadEvents(5, 0, 10)->empty());
  EXPECT_TRUE(store->Check()->empty());
}

TEST(SqliteStore, OneSyncACommit) {
  TemporaryDirectory directory;
  FaultVfs vfs;
  std::atomic<std::int64_t> syncs{0};
  const auto store = MustOpen({.directory = directory.path(), .syncs = &syncs, .vfs = vfs.name()});
  const std::int64_t before = vfs.log_syncs();
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<UnitRows> units;
    for (int i = 0; i < 100; ++i) {
      TestRun run(1 + batch * 100 + i);
      units.push_back(run.Next(2));
    }
    for (const Status& status : CommitAll(*store, units)) ASSERT_TRUE(status.has_value());
  }
  EXPECT_EQ(syncs, 10);
  EXPECT_EQ(vfs.log_syncs() - before, 10);
  EXPECT_EQ(store->Stats()->executions, 1000);
}

// The log is moved and starts over while commits go on; nothing is lost on the way.
TEST(SqliteStore, TheLogStaysBounded) {
  TemporaryDirectory directory;
  FaultVfs vfs;
  const auto store = MustOpen({.directory = directory.path(), .vfs = vfs.name()});
  TestRun run(5);
  std::uintmax_t largest = 0;
  for (int i = 0; i < 45; ++i) {
    UnitRows unit = run.Start();
    for (int event = 0; event < 2; ++event) {
      engine::Event made = run.MakeEvent(engine::EventType::kStepEnter);
      made.context = Json(std::string(1'000'000, 'x'));
      run.Add(unit, std::move(made));
    }
    ASSERT_TRUE(CommitOne(*store, unit).has_value());
    largest = std::max(largest, fs::file_size(directory.path() + "/noetl.db-wal"));
  }
  EXPECT_LT(largest, 72u << 20);  // 90 MB were written
  EXPECT_EQ(store->Stats()->events, 90);
  EXPECT_TRUE(store->Check()->empty());
}

// A workload whose every commit touches two runs, a command and a timer.
class Workload {
 public:
  static constexpr int kCommits = 40;

  explicit Workload(int commits = kCommits) {
    std::vector<TestRun> runs;
    for (std::int64_t id = 1; id <= 5; ++id) runs.emplace_back(id);
    for (int i = 0; i < commits; ++i) {
      TestRun& first = runs[static_cast<std::size_t>(i) % runs.size()];
      TestRun& second = runs[static_cast<std::size_t>(i + 1) % runs.size()];
      std::vector<UnitRows> units = {first.Next(3), second.Next(1)};
      units[0].commands = {first.Command(1000 + i)};
      units[0].timers = {{.step = "s", .run = i, .due_us = 10}};
      batches_.push_back(std::move(units));
    }
  }

  const std::vector<std::vector<UnitRows>>& batches() const { return batches_; }

  // What a store must hold that acknowledged the first `acknowledged` batches.
  void Verify(Store& store, std::size_t acknowledged) const {
    std::map<std::int64_t, std::int64_t> least;
    std::map<std::int64_t, std::vector<std::int64_t>> heads;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      for (const UnitRows& unit : batches_[i]) {
        if (i < acknowledged) least[unit.execution_id] = unit.execution.head;
        heads[unit.execution_id].push_back(unit.execution.head);
      }
    }
    const auto findings = store.Check();
    ASSERT_TRUE(findings.has_value()) << findings.error().message;
    EXPECT_EQ(*findings, std::vector<std::string>());
    for (std::int64_t id = 1; id <= 5; ++id) {
      const auto row = store.Find(id);
      ASSERT_TRUE(row.has_value());
      const std::int64_t head = *row ? (*row)->head : 0;
      EXPECT_GE(head, least[id]);
      // The end of some unit: none is there in part.
      if (head > 0) {
        EXPECT_NE(std::find(heads[id].begin(), heads[id].end(), head), heads[id].end());
      }
      EXPECT_EQ(std::ssize(*store.ReadEvents(id, 0, 100'000)), head);
    }
    for (std::size_t i = 0; i < acknowledged; ++i) {
      EXPECT_TRUE(store.FindCommand(1000 + static_cast<std::int64_t>(i))->has_value());
    }
    EXPECT_GE(store.DueTimers(10, 1000)->size(), acknowledged);
  }

 private:
  std::vector<std::vector<UnitRows>> batches_;
};

// Commits until one fails; gives the number of batches that were acknowledged.
std::size_t RunUntilFailure(Store& store, const Workload& workload) {
  std::size_t acknowledged = 0;
  for (const std::vector<UnitRows>& units : workload.batches()) {
    for (const Status& status : CommitAll(store, units)) {
      if (!status) return acknowledged;
    }
    ++acknowledged;
  }
  return acknowledged;
}

void CopyStore(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::create_directories(to);
  fs::copy_file(from + "/noetl.db", to + "/noetl.db");
}

// Loses power at every operation of a workload, from opening the file to closing it.
void LosePowerEverywhere(FaultVfs::Kind kind) {
  TemporaryDirectory directory;
  FaultVfs vfs;
  const Workload workload;
  const std::string empty = directory.path() + "/empty";
  const std::string path = directory.path() + "/store";
  {
    MustOpen({.directory = empty, .vfs = vfs.name()});
  }
  for (std::int64_t operation = 1;; ++operation) {
    CopyStore(empty, path);
    vfs.FailFrom(operation, kind);
    std::size_t acknowledged = 0;
    {
      const auto store = OpenSqliteStore({.directory = path, .vfs = vfs.name()});
      if (store) acknowledged = RunUntilFailure(**store, workload);
    }
    const bool reached = vfs.operations() >= operation;
    vfs.Heal();
    fs::remove(path + "/noetl.db-shm");  // memory does not survive
    const auto store = MustOpen({.directory = path, .vfs = vfs.name()});
    ASSERT_NE(store, nullptr);
    workload.Verify(*store, acknowledged);
    ASSERT_FALSE(testing::Test::HasFailure()) << "operation " << operation;
    if (!reached) {
      EXPECT_EQ(acknowledged, workload.batches().size());
      return;
    }
  }
}

TEST(SqliteCrash, NoAcknowledgedCommitIsLostWithThePower) {
  LosePowerEverywhere(FaultVfs::Kind::kPowerLoss);
}

TEST(SqliteCrash, TornWritesAreNotTakenForCommits) {
  LosePowerEverywhere(FaultVfs::Kind::kTornWrite);
}

TEST(SqliteCrash, APowerLossWhileTheFileIsMade) {
  for (const FaultVfs::Kind kind : {FaultVfs::Kind::kPowerLoss, FaultVfs::Kind::kTornWrite}) {
    FaultVfs vfs;
    for (std::int64_t operation = 1;; ++operation) {
      TemporaryDirectory directory;
      vfs.FailFrom(operation, kind);
      (void)OpenSqliteStore({.directory = directory.path(), .vfs = vfs.name()});
      const bool reached = vfs.operations() >= operation;
      vfs.Heal();
      fs::remove(directory.path() + "/noetl.db-shm");
      const auto store = MustOpen({.directory = directory.path(), .vfs = vfs.name()});
      ASSERT_NE(store, nullptr) << operation;
      TestRun run(5);
      ASSERT_TRUE(CommitOne(*store, run.Next(1)).has_value()) << operation;
      if (!reached) break;
    }
  }
}

// Fails from every operation on; after the first refused commit the disk is well again.
void RecoverEverywhere(FaultVfs::Kind kind, const std::string& code) {
  TemporaryDirectory directory;
  FaultVfs vfs;
  const Workload workload(12);
  const std::string empty = directory.path() + "/empty";
  const std::string path = directory.path() + "/store";
  {
    MustOpen({.directory = empty, .vfs = vfs.name()});
  }
  bool reached = true;
  for (std::int64_t operation = 1; reached; ++operation) {
    CopyStore(empty, path);
    const auto store = MustOpen({.directory = path, .vfs = vfs.name()});
    vfs.FailFrom(operation, kind);
    reached = false;
    for (const std::vector<UnitRows>& units : workload.batches()) {
      std::vector<Status> answers = CommitAll(*store, units);
      if (answers[0]) continue;
      reached = true;
      for (const Status& answer : answers) EXPECT_EQ(CodeOf(answer), code);
      // While the disk fails, reading goes on and writing is refused, again and again.
      EXPECT_TRUE(store->Find(1).has_value());
      EXPECT_EQ(CodeOf(CommitAll(*store, units)[0]), code);
      vfs.Heal();
      answers = CommitAll(*store, units);
      for (const Status& answer : answers) EXPECT_EQ(CodeOf(answer), "ok");
    }
    workload.Verify(*store, workload.batches().size());
    ASSERT_FALSE(testing::Test::HasFailure()) << "operation " << operation;
  }
}

TEST(SqliteFaults, AFullDiskIsLeftBehind) { RecoverEverywhere(FaultVfs::Kind::kFull, "disk_full"); }

TEST(SqliteFaults, ErrorsOfTheDiskAreLeftBehind) {
  RecoverEverywhere(FaultVfs::Kind::kIoError, "io");
}

}  // namespace
}  // namespace noetl::store
